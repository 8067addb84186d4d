"""Mills ratio, tails and quantiles against mpmath, on both sides of every threshold."""

import mpmath as mp
import numpy as np
import pytest

from dpcore import _core

UNIT = 2.0**-53
THRESHOLDS = [0.0, 0.125, 1.0, 4.0, 8.0, 16.0, 32.0, 64.0]


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(60):
        yield


def mills(t):
    t = mp.mpf(t)
    return mp.sqrt(mp.pi / 2) * mp.exp(t * t / 2) * mp.erfc(t / mp.sqrt(2))


def around(values):
    out = []
    for v in values:
        out += [np.nextafter(v, -1), v, np.nextafter(v, 1e9)]
    return np.array([v for v in out if v >= 0])


POINTS = np.concatenate([around(THRESHOLDS), np.linspace(0, 5, 83), 10 ** np.linspace(-8, 6, 97)])


def test_mills_to_6_units():
    for t, got in zip(POINTS, _core.mills(POINTS), strict=True):
        assert abs(mp.mpf(got) / mills(t) - 1) <= 6 * UNIT, t


def test_mills_below_zero():
    points = -np.concatenate([np.linspace(0.01, 5, 20), [10.0, 37.0]])
    for t, got in zip(points, _core.mills(points), strict=True):
        assert abs(mp.mpf(got) / mills(t) - 1) <= 12 * UNIT, t


def test_mills_difference_and_slope():
    for width in (1e-12, 1e-3, 0.124, 0.125, 0.126, 0.3, 3.0, 50.0):
        for a in POINTS:
            b = a + width
            if b == a:
                continue
            got = _core.mills_difference(np.array([a]), np.array([b]))[0]
            with mp.workdps(80):
                want = mills(a) - mills(b)
                assert abs(mp.mpf(got) / want - 1) <= 300 * UNIT, (a, b)
    for t, got in zip(POINTS, _core.mills_slope(POINTS), strict=True):
        with mp.workdps(80):
            assert abs(mp.mpf(got) / (1 - mp.mpf(t) * mills(t)) - 1) <= 20 * UNIT, t


def test_tails():
    points = np.concatenate([POINTS[POINTS < 37], -POINTS[POINTS < 8]])
    for x, got, log in zip(points, _core.normal_tail(points), _core.log_normal_tail(points), strict=True):
        want = mp.erfc(mp.mpf(x) / mp.sqrt(2)) / 2
        assert abs(mp.mpf(got) / want - 1) <= 12 * UNIT, x
        assert abs(mp.mpf(log) - mp.log(want)) <= 8 * UNIT * max(1, abs(mp.log(want))), x
    assert _core.normal_tail(np.array([100.0, -100.0])).tolist() == [0.0, 1.0]


def test_quantiles_invert_the_tail():
    points = np.concatenate(
        [10 ** np.linspace(-300, -0.01, 120), [0.5, np.nextafter(0.5, 0), np.nextafter(0.5, 1)]]
    )
    points = np.concatenate([points, 1 - 10 ** np.linspace(-15, -1, 20)])
    for p, x in zip(points, _core.normal_quantile_tail(points), strict=True):
        # The tail falls, so the exact quantile is within `slack` of x if the tail brackets p there.
        slack = 4 * UNIT * abs(mp.mpf(x)) + UNIT
        low, high = (mp.erfc((mp.mpf(x) + d) / mp.sqrt(2)) / 2 for d in (slack, -slack))
        assert low <= mp.mpf(p) <= high, p
