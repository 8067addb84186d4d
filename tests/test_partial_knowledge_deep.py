"""Strata, unequal probabilities and ranges at large epsilon, where e^-epsilon is beyond the range of double.

Reference: the law by exact products, the threshold by bisection, and the sum from the definition, with mpmath.
"""

import math
import random

import mpmath as mp
import pytest

from dpcore import _core
from dpcore import partial_knowledge as pk
from dpcore.partial_knowledge._laws import Window, _pmf, law_of


def exact_log_delta(epsilon, groups, noise, direction):
    """Ln of delta from the definition."""
    law = [mp.mpf(1)]
    for size, bias in groups:
        p = mp.mpf(bias)
        part = [mp.binomial(size, k) * p**k * (1 - p) ** (size - k) for k in range(size + 1)]
        law = [
            mp.fsum(law[i] * part[k - i] for i in range(len(law)) if 0 <= k - i <= size)
            for k in range(len(law) + size)
        ]
    if direction == 1:
        law.reverse()
    factor = mp.exp(epsilon)
    weights = [a - factor * b for a, b in zip([mp.mpf(0), *law], [*law, mp.mpf(0)], strict=True)]
    if noise == 0.0:
        return mp.log(mp.fsum(w for w in weights if w > 0))
    beta = mp.mpf(noise)

    def sign(t):
        return mp.fsum(w * mp.exp(k * (2 * t - k) / (2 * beta**2)) for k, w in enumerate(weights))

    low, high = mp.mpf(-10), mp.mpf(len(law) + 10) + 3 * beta**2 * epsilon
    while sign(low) > 0:
        low *= 4
    while sign(high) < 0:
        high *= 4
    for _ in range(130):
        middle = (low + high) / 2
        low, high = (middle, high) if sign(middle) < 0 else (low, middle)
    return mp.log(mp.fsum(w * mp.erfc((low - k) / (beta * mp.sqrt(2))) / 2 for k, w in enumerate(weights)))


def random_bias(rng):
    return rng.choice([rng.random(), 10 ** rng.uniform(-300, 0)])


def random_noise(rng):
    return rng.choice([0.0, 10 ** rng.uniform(-3, 1.5), rng.uniform(0.01, 0.1)])


CASES = [
    # each was once 1, or had an error bound above 1, or was the delta of one group alone
    (770.7974261571355, [(9, 0.5077213153006307), (7, 1.712389377854509e-145)], 0.0, 1),
    (712.6271273283819, [(7, 3.6360188442140107e-219), (1, 4.460045760006935e-51)], 0.04875105861152444, 0),
    (621.3663287488246, [(8, 8.314271296850259e-130), (9, 0.37128976080661913)], 0.0792663923962456, 0),
    (757.7582654420729, [(1, 2.4e-80), (1, 0.835), (1, 1.9e-184), (1, 0.397), (1, 1.1e-16)], 0.0256, 1),
    (9211.147327779205, [(1, 0.468), (2, 0.0415), (6, 0.0374)], 0.013649969773063621, 0),
    (1321.8812628936023, [(1, 0.6715719302788205), (1, 2.116e-10), (1, 0.3985461612938329)], 0.0, 1),
    (1e6, [(3, 0.25), (2, 0.75), (1, 1e-300)], 0.5, 0),
]


@pytest.mark.parametrize(("epsilon", "groups", "noise", "direction"), CASES)
def test_strata_above_the_range_of_double(epsilon, groups, noise, direction):
    law = law_of(pk.Strata(tuple(groups)), sum(size for size, _ in groups))
    value, error = law.log_delta(epsilon, noise, direction)
    with mp.workdps(80):
        want = exact_log_delta(epsilon, groups, noise, direction)
        assert abs(value - want) <= error + 2.0**-51 * abs(want)
    assert error <= 1e-9 + 1e-12 * abs(value)


def test_random_strata_and_pairs_stay_inside_a_narrow_bound():
    rng = random.Random(6)
    with mp.workdps(80):
        for _ in range(60):
            epsilon = rng.choice([rng.uniform(500, 800), 10 ** rng.uniform(2, 4)])
            groups = [(rng.randint(1, 5), random_bias(rng)) for _ in range(rng.choice((2, 2, 3, 4)))]
            noise, direction = random_noise(rng), rng.randint(0, 1)
            want = exact_log_delta(epsilon, groups, noise, direction)
            for law in (
                law_of(pk.Strata(tuple(groups)), sum(n for n, _ in groups)),
                Window(groups, *_pmf(groups)),
            ):
                value, error = law.log_delta(epsilon, noise, direction)
                assert abs(value - want) <= error + 2.0**-51 * abs(want)
                assert error <= 1e-9 + 1e-12 * abs(value)


@pytest.mark.parametrize(
    ("epsilon", "unknown", "low", "high", "noise"),
    [
        (175.0, 6, 0.2, 0.4, 0.05),
        (650.0, 5, 0.01, 0.9, 0.02),
        (3000.0, 4, 0.3, 0.31, 0.013),
        (68.47189775374754, 5, 1.1269447903350055e-155, 0.4056400665481371, 0.8513629902853779),  # error was NaN
    ],
)
def test_ranges_at_large_epsilon_are_their_worst_vertex(epsilon, unknown, low, high, noise):
    for direction in (0, 1):
        value, error, *_, proved = _core.count_delta_range(epsilon, unknown, low, high, noise, direction)
        with mp.workdps(80):
            worst = max(
                exact_log_delta(epsilon, [(j, low), (unknown - j, high)], noise, direction)
                for j in range(unknown + 1)
            )
            assert proved
            assert abs(value - worst) <= error + 2.0**-51 * abs(worst)
        assert error <= 1e-9 + 1e-12 * abs(value)


def test_calibration_of_a_range_at_large_epsilon_is_sharp():
    found = pk.calibrate(epsilon=200.0, delta=1e-30, records=2000, known=1989, bias=(0.2, 0.4))
    assert 0.0 < found.noise_scale < found.gaussian_sigma
    with mp.workdps(80):
        worst = [
            max(
                exact_log_delta(200.0, [(j, 0.2), (10 - j, 0.4)], noise, code)
                for j in range(11)
                for code in (0, 1)
            )
            for noise in (found.noise_scale, found.noise_scale * (1 - 1e-9))
        ]
        assert worst[0] <= mp.log(mp.mpf(1e-30)) < worst[1]


def test_tilted_groups_keep_their_factor_and_probability():
    with mp.workdps(60):
        for size, bias, zeros, tilt in ((7, 0.3, False, 2.5), (5, 1e-290, False, 660.0), (9, 0.999, True, 1300.0)):
            p = 1 - mp.mpf(bias) if zeros else mp.mpf(bias)
            for end in (0, 1, 2):
                handed, top, log_factor, error, left_out = (
                    float(x[0]) for x in _core.tilt_groups([float(size)], [bias], zeros, tilt, end)
                )
                likely = p * mp.exp(tilt) / (1 - p + p * mp.exp(tilt))
                factor = size * mp.log(1 - p + p * mp.exp(tilt)) - (size * tilt if top else 0)
                assert left_out < 1e-290
                assert abs(log_factor - factor) <= error
                want = 1 - likely if top else likely
                assert abs(handed - want) <= 2.0**-52 * want + left_out
                assert error < 1e-11 or math.isinf(error)
