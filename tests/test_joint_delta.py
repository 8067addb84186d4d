"""Two releases of one count, with Laplace and with normal noise: certified bounds of their joint delta."""

import json
import math
import pathlib
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from dpcore import _core
from dpcore import partial_knowledge as pk

JOINT = json.loads((pathlib.Path(__file__).parent / "data" / "joint_delta.json").read_text())["rows"]
DIRECTIONS = ("add", "remove")


def bounds_of(row, direction):
    return pk.joint_delta_bounds(
        epsilon=row["epsilon"],
        records=row["m"] + 1,
        known=0,
        bias=row["p"],
        noise_scale=row["beta"],
        estimate_scale=row["scale"],
        direction=direction,
    )


def weights(epsilon, m, p, direction):
    """b(k-1) - e^eps b(k), mirrored for the other direction so that it always turns from negative to positive."""
    k = np.arange(m + 1)
    p = p if direction == "add" else 1.0 - p
    choose = special.gammaln(m + 1) - special.gammaln(k + 1) - special.gammaln(m - k + 1)
    b = np.exp(choose + special.xlogy(k, p) + special.xlog1py(m - k, -p))
    return np.append(0, b) - math.exp(epsilon) * np.append(b, 0)


def by_definition(epsilon, m, p, beta, scale, direction):
    """Integral over both outputs of the positive part, on a grid fine enough for 1e-3."""
    k = np.arange(m + 2)
    weight = weights(epsilon, m, p, direction)
    y = np.arange(-30 * scale, m + 1 + 30 * scale, min(scale, 1.0) / 40) + 0.00317
    z = np.arange(-12 * beta - 3 * epsilon * beta**2, m + 1 + 12 * beta + 3 * epsilon * beta**2, beta / 60)
    kernel = np.exp(-0.5 * ((z[:, None] - k) / beta) ** 2) / (beta * math.sqrt(2 * math.pi))
    total = 0.0
    for part in np.array_split(y, 400):
        lap = np.exp(-np.abs(part[:, None] - k) / scale) / (2 * scale)
        total += np.maximum(kernel @ (weight[:, None] * lap.T), 0).sum()
    return total * (y[1] - y[0]) * (z[1] - z[0])


def other_order(epsilon, m, p, beta, scale, direction):
    """First the half line in z for each y, then Gauss-Legendre over each cell of y: good to about 1e-10."""
    k = np.arange(m + 2)
    weight = weights(epsilon, m, p, direction)

    def inner(y):
        c = weight * np.exp(-np.abs(y[:, None] - k) / scale)
        size = np.log(np.maximum(np.abs(c), 1e-300))
        low, high = np.full(len(y), -50.0 * beta - m), np.full(len(y), 50.0 * beta + 2.0 * m)
        for _ in range(70):
            t = 0.5 * (low + high)
            exponent = (t[:, None] - 0.5 * k) * k / beta**2 + size
            positive = (np.sign(c) * np.exp(exponent - exponent.max(axis=1, keepdims=True))).sum(axis=1) > 0
            low, high = np.where(positive, low, t), np.where(positive, t, high)
        return (c * special.ndtr((k - high[:, None]) / beta)).sum(axis=1) / (2 * scale)

    node, share = np.polynomial.legendre.leggauss(8)
    total = scale * inner(np.array([0.0, m + 1.0])).sum()
    for cells in np.array_split(np.arange(m + 1.0), 16):
        y = cells[:, None] + 0.5 + 0.5 * node
        total += (inner(y.ravel()).reshape(y.shape) @ share).sum() / 2
    return total


@pytest.mark.parametrize("row", JOINT, ids=lambda r: f"m{r['m']}-beta{r['beta']}-scale{r['scale']}")
def test_reference_table_is_bracketed(row):
    for direction in DIRECTIONS:
        bounds = bounds_of(row, direction)
        exact = Fraction(row[f"delta_{direction}"])
        assert Fraction(bounds.lower) <= exact <= Fraction(bounds.upper)
        assert bounds.width <= 1e-8 * bounds.lower


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "m", "p", "beta", "scale"),
    [
        (1.0, 12, 0.3, 4.0, 3.0),
        (0.3, 4, 0.4, 20.0, 2.0),
        (1.0, 10, 0.5, 1.5, 2.0),
        (0.5, 5, 0.8, 1.0, 0.7),
        (1.0, 0, 0.5, 3.0, 5.0),
    ],
)
def test_joint_delta_by_definition(epsilon, m, p, beta, scale):
    row = dict(epsilon=epsilon, m=m, p=p, beta=beta, scale=scale)
    for direction in DIRECTIONS:
        want = by_definition(epsilon, m, p, beta, scale, direction)
        assert float(bounds_of(row, direction)) == pytest.approx(want, rel=2e-3)


@pytest.mark.parametrize(
    ("epsilon", "m", "p", "beta", "scale"),
    [
        (0.3, 200, 0.4, 6.0, 9.0),
        pytest.param(0.15, 600, 0.5, 10.0, 40.0, marks=pytest.mark.slow),
        pytest.param(0.2, 500, 0.1, 30.0, 5.0, marks=pytest.mark.slow),
    ],
)
def test_joint_delta_in_the_other_order(epsilon, m, p, beta, scale):
    row = dict(epsilon=epsilon, m=m, p=p, beta=beta, scale=scale)
    for direction in DIRECTIONS:
        bounds = bounds_of(row, direction)
        want = other_order(epsilon, m, p, beta, scale, direction)
        assert bounds.width <= 1e-9 * bounds.lower
        assert bounds.lower * (1 - 1e-8) <= want <= bounds.upper * (1 + 1e-8)


def test_joint_release_reveals_more_than_either():
    one = dict(epsilon=0.5, records=101, known=0, bias=0.5)
    joint = pk.joint_delta_bounds(**one, noise_scale=6.547, estimate_scale=4.0)
    assert joint.lower > pk.count_delta(**one, noise_scale=6.547)
    assert pk.joint_delta(**one, noise_scale=6.547, estimate_scale=4.0) == joint.upper
    assert pk.joint_delta(**one, noise_scale=6.547, estimate_scale=1e7) == pytest.approx(
        pk.count_delta(**one, noise_scale=6.547), rel=1e-6
    )


def test_without_noise_and_with_normal_noise_it_is_the_count():
    one = dict(epsilon=0.5, records=101, known=0, bias=0.5)
    bare = pk.joint_delta_bounds(**one, noise_scale=0.0, estimate_scale=4.0)
    assert bare.lower <= pk.count_delta(**one, noise_scale=0.0) <= bare.upper
    normal = pk.joint_delta_bounds(**one, noise_scale=6.0, estimate_scale=8.0, estimate_noise="gaussian")
    assert normal.lower <= pk.count_delta(**one, noise_scale=4.8) <= normal.upper
    assert normal.width < 1e-11 * normal.lower


@settings(max_examples=60, deadline=None)
@given(
    st.floats(0.01, 5.0),
    st.integers(0, 60),
    st.floats(0.0, 1.0),
    st.floats(0.05, 30.0),
    st.floats(0.05, 100.0),
    st.sampled_from([0, 1]),
    st.floats(1.01, 3.0),
)
def test_joint_delta_is_monotone_and_narrow(epsilon, unknown, bias, noise, estimate, direction, more):
    lower, upper = _core.joint_delta_bounds(epsilon, unknown, bias, noise, estimate, direction)
    assert lower <= upper <= 0
    assert upper - lower < 1e-6 + 2e-8 * abs(upper)  # rounding, where the noise is wide
    for other in (
        (epsilon * more, unknown, bias, noise, estimate),
        (epsilon, unknown + 1, bias, noise, estimate),
        (epsilon, unknown, bias, noise * more, estimate),
        (epsilon, unknown, bias, noise, estimate * more),
    ):
        assert _core.joint_delta_bounds(*other, direction)[0] <= upper
    # either release alone reveals less, the count itself more
    alone, error = _core.count_delta_bounded(epsilon, unknown, bias, noise, direction)
    assert alone + math.log1p(-error) - 1e-12 * abs(alone) <= upper
    bare, error = _core.count_delta_bounded(epsilon, unknown, bias, 0.0, direction)
    assert lower <= _core.log_delta_upper(bare, error)


def test_joint_delta_on_many_records():
    one = dict(epsilon=0.1, records=10**4 + 1, known=0, bias=0.5, noise_scale=20.0)
    bounds = pk.joint_delta_bounds(**one, estimate_scale=100.0)
    assert bounds.width < 1e-9 * bounds.lower
    near = pk.count_delta(**one)
    assert near < bounds.lower < bounds.upper < 1.2 * near


@pytest.mark.parametrize(
    ("epsilon", "unknown", "bias", "noise", "estimate"),
    [
        (300.0, 40, 0.5, 2.0, 3.0),  # far below the range of double
        (5.0, 2000, 0.01, 300.0, 40.0),
        (1.0, 10, 1e-190, 2.0, 3.0),  # next to nobody counts,
        (1.0, 10, 1e-250, 2.0, 3.0),
        (1.0, 10, 1.0 - 2.0**-53, 2.0, 3.0),
        (600.0, 1, 1e-250, 2.0, 3.0),  # which matters here
        (1.0, 5, 0.5, 0.0126, 1e-3),
        (1e-6, 5, 0.5, 1e5, 1e4),
        (1e-6, 0, 0.5, 1e5, 1e4),
    ],
)
def test_extremes(epsilon, unknown, bias, noise, estimate):
    for direction in (0, 1):
        lower, upper = _core.joint_delta_bounds(epsilon, unknown, bias, noise, estimate, direction)
        assert lower <= upper <= 0
        assert not math.isnan(lower)
        alone, error = _core.count_delta_bounded(epsilon, unknown, bias, noise, direction)
        assert upper >= alone - error - 1e-12 * abs(alone) or bias < 1e-200
        if bias >= 1e-200:
            assert upper - lower <= 1e-6 * max(1.0, abs(upper))


def test_too_many_values_still_bound():
    # 10^8 records and 10^6 units of depth: more values than are kept; the simplest bounds are given.
    lower, upper = _core.joint_delta_bounds(0.5, 10**8, 0.3, 3.0, 100.0, 0)
    bare, error = _core.count_delta_bounded(0.5, 10**8, 0.3, 0.0, 0)
    assert upper == _core.log_delta_upper(bare, error)
    assert lower <= upper


# Bounds by sums cell by cell, before there were the panels of csrc/src/joint_panel.hpp; up to 11 s each.
CELL_BY_CELL = [
    ((0.01, 10**6, 0.5, 100.0, 500.0), 6.27958619800891e-11, 6.27958619812781e-11),
    ((0.01, 10**6, 0.5, 400.0, 500.0), 1.12153303839937e-13, 1.1215330384064726e-13),
    ((0.02, 10**6, 0.3, 200.0, 100.0), 1.1724391274057374e-25, 1.1724391274075147e-25),
    ((0.006, 10**6, 0.3, 500.0, 200.0), 2.94452887377318e-07, 2.944528873778323e-07),
    ((0.05, 10**6, 0.5, 50.0, 20.0), 9.8722623552202e-143, 9.87226235523874e-143),
    ((0.01, 10**6, 0.01, 50.0, 50.0), 0.000688216025549884, 0.0006882160255567512),
    ((0.003, 10**6, 0.5, 2000.0, 1000.0), 2.3584285095784197e-10, 2.358428509590063e-10),
]


@pytest.mark.parametrize(
    ("case", "lower", "upper"), CELL_BY_CELL, ids=lambda v: str(v) if isinstance(v, tuple) else ""
)
def test_panels_agree_with_cells(case, lower, upper):
    epsilon, m, p, beta, scale = case
    bounds = pk.joint_delta_bounds(
        epsilon=epsilon, records=m + 1, known=0, bias=p, noise_scale=beta, estimate_scale=scale
    )
    assert bounds.lower <= upper
    assert lower <= bounds.upper
    assert bounds.width <= 2e-11 * bounds.lower


def test_joint_delta_on_a_hundred_million_records():
    one = dict(epsilon=0.0005, records=10**8 + 1, known=0, bias=0.3, noise_scale=20000.0)
    bounds = pk.joint_delta_bounds(**one, estimate_scale=1000.0)
    assert bounds.width < 1e-10 * bounds.lower
    assert pk.count_delta(**one) < bounds.lower


def test_records_that_hardly_ever_count_leave_the_bounds_narrow():
    for direction in (0, 1):
        lower, upper = _core.joint_delta_bounds(3.5, 51, 1.1e-308, 24.0, 6.4, direction)
        none = _core.joint_delta_bounds(3.5, 0, 0.5, 24.0, 6.4, direction)
        assert upper == none[1]
        assert none[0] - 1e-9 * abs(none[0]) <= lower <= none[1]


def test_directions_are_one_at_bias_one_half():
    """Only one of them is computed then, for a count alone as well."""
    case = dict(epsilon=0.4, records=61, known=0, bias=0.5, noise_scale=2.5, estimate_scale=4.0)
    add, remove, both = (pk.joint_delta_bounds(**case, direction=d) for d in ("add", "remove", "both"))
    assert max(add.lower, remove.lower) <= min(add.upper, remove.upper)
    assert both == add
    for records in (61, 1):
        one, other, larger = (
            pk.count_delta(epsilon=0.4, records=records, known=0, bias=0.5, noise_scale=2.5, direction=d)
            for d in ("add", "remove", "both")
        )
        assert one == pytest.approx(other, rel=1e-12)
        assert larger == one
