"""Sums of unequal records and of groups, against exact rationals and against the binomial law.

The Guarantee line of csrc/include/dpcore/poisson_binomial.hpp: relative error at most u (1 + 2^-7), u = 2^-53.
It is tight: half a unit in the last place of the smallest mantissa is u, so nothing but the final rounding
is left.
"""

import math
import signal
import sys
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore import distributions as ds

TOLERANCE = 2.0**-53 * (1 + 2.0**-7)
SMALLEST = 2.3e-308


def exact(probabilities):
    """All probabilities in integers over a common power of two."""
    values, shift = [1], 0
    for p in probabilities:
        top, bottom = float(p).as_integer_ratio()
        rest = bottom - top
        values = [rest * a + top * b for a, b in zip([*values, 0], [0, *values], strict=True)]
        shift += bottom.bit_length() - 1
    return [Fraction(v, 1 << shift) if v else Fraction(0) for v in values]


def check(first, pmf, want):
    lowest = next(k for k, value in enumerate(want) if value)
    assert first == lowest
    last = max(k for k, value in enumerate(want) if value)
    assert len(pmf) == last - lowest + 1
    for got, value in zip(pmf.tolist(), want[lowest : last + 1], strict=True):
        if value > SMALLEST:
            assert abs(Fraction(got) - value) <= Fraction(TOLERANCE) * value
        else:
            assert abs(Fraction(got) - value) <= Fraction(5e-324)


@given(st.lists(st.floats(0, 1, allow_subnormal=False).map(lambda p: round(p, 6)), min_size=1, max_size=70))
@settings(max_examples=40, deadline=None)
def test_small_sums_against_rationals(probabilities):
    check(*ds.poisson_binomial_pmf(probabilities), exact(probabilities))


@pytest.mark.parametrize("count", [1, 15, 16, 17, 31, 32, 33, 47, 48, 49, 64, 65])
def test_around_the_leaf_size(count):
    probabilities = [(7 * i % 64 + 1) / 128 for i in range(count)]
    check(*ds.poisson_binomial_pmf(probabilities), exact(probabilities))


@pytest.mark.parametrize("shape", ["spread", "tiny and large", "tiny"])
def test_a_thousand_records_against_rationals(shape):
    i = np.arange(600)
    probabilities = {
        "spread": (i * 37 % 1024 + 1) / 2048,
        "tiny and large": np.where(i % 2 == 0, (i + 1) * 2.0**-30, 1 - (i + 1) * 2.0**-20),
        "tiny": (i + 1) * 2.0**-60,
    }[shape]
    check(*ds.poisson_binomial_pmf(probabilities), exact(probabilities))


@pytest.mark.parametrize("records", [5000, pytest.param(100_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("p", [0.5, 0.01])
def test_equal_records_are_a_binomial(records, p):
    first, pmf = ds.poisson_binomial_pmf(np.full(records, p))
    assert (first, len(pmf)) == (0, records + 1)
    visible = np.flatnonzero(pmf > 1e-300)
    _, want = ds.binomial_pmf(trials=records, probability=p)
    np.testing.assert_allclose(pmf[visible], want[visible], rtol=12 * 2.0**-53 + TOLERANCE)
    assert abs(math.fsum(pmf) - 1) <= 1e-14
    # The far ends to the last digit.
    with mp.workdps(40):
        for k in (int(visible[0]), int(visible[-1])):
            log = mp.loggamma(records + 1) - mp.loggamma(k + 1) - mp.loggamma(records - k + 1)
            value = mp.exp(log + k * mp.log(p) + (records - k) * mp.log1p(-mp.mpf(p)))
            assert abs(mp.mpf(float(pmf[k])) / value - 1) <= TOLERANCE


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_properties(probabilities, random):
    first, pmf = ds.poisson_binomial_pmf(probabilities)
    assert math.fsum(pmf) == pytest.approx(1.0, abs=1e-14)
    # Order does not matter beyond the last digit.
    shuffled = probabilities.copy()
    random.shuffle(shuffled)
    other_first, other = ds.poisson_binomial_pmf(shuffled)
    assert other_first == first
    np.testing.assert_allclose(other, pmf, rtol=2 * TOLERANCE, atol=1e-323)
    # One more record, by the recurrence.
    more_first, more = ds.poisson_binomial_pmf([*probabilities, 0.25])
    want = np.append(0.75 * pmf, 0.0) + np.append(0.0, 0.25 * pmf)
    assert more_first == first
    np.testing.assert_allclose(more, want, rtol=6 * 2.0**-53, atol=2e-323)


def test_certain_records_shift_the_law():
    assert ds.poisson_binomial_pmf([1.0, 0.0, 1.0])[0] == 2
    assert ds.poisson_binomial_pmf([1.0, 0.0, 1.0])[1].tolist() == [1.0]
    assert ds.poisson_binomial_pmf([0.0])[1].tolist() == [1.0]
    first, pmf = ds.poisson_binomial_pmf([1.0, 0.5, 0.0])
    assert (first, pmf.tolist()) == (1, [0.5, 0.5])


@pytest.mark.parametrize(
    "strata",
    [
        [(2, 0.5), (1, 0.25)],
        [(40, 0.125), (30, 0.75), (1, 0.5), (20, 1.0), (7, 0.0), (0, 0.3)],
        [(300, 2.0**-20), (200, 1 - 2.0**-12), (100, 0.5)],
    ],
)
def test_groups_against_rationals(strata):
    records = [p for size, p in strata for _ in range(size)]
    check(*ds.stratified_pmf(strata), exact(records))


def test_the_smallest_visible_values():
    # Both halves reach down to 2^-1100 of their largest values, where products of the two underflow.
    with mp.workdps(40):
        for n, p in [(30_000, 0.5), (60_000, 0.01), (60_000, 0.001)]:
            _, pmf = ds.poisson_binomial_pmf(np.full(n, p))
            visible = np.flatnonzero(pmf > SMALLEST)
            for k in (*visible[:3].tolist(), *visible[-3:].tolist()):
                log = mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1)
                value = mp.exp(log + k * mp.log(p) + (n - k) * mp.log1p(-mp.mpf(p)))
                assert abs(mp.mpf(float(pmf[k])) / value - 1) <= TOLERANCE


def test_large_groups():
    first, pmf = ds.stratified_pmf([(60_000, 0.5), (40_000, 0.5)])
    _, want = ds.binomial_pmf(trials=100_000, probability=0.5)
    assert first == 0
    visible = want > 1e-300
    np.testing.assert_allclose(pmf[visible], want[visible], rtol=12 * 2.0**-53 + TOLERANCE)
    # Beyond 10^8 points only what is not 0 comes back.
    first, pmf = ds.stratified_pmf([(10**9, 1e-6), (10**9, 0.0), (5, 1.0)])
    binomial_first, binomial = ds.binomial_pmf(trials=10**9, probability=1e-6)
    assert first == binomial_first + 5
    np.testing.assert_allclose(pmf, binomial, rtol=12 * 2.0**-53 + TOLERANCE, atol=1e-323)


@pytest.mark.parametrize(
    ("probabilities", "error", "match"),
    [
        ([], ValueError, "must not be empty"),
        ([0.5, 1.5], ValueError, r"probabilities must be a number in \[0, 1\], got 1.5 at index \(1,\)"),
        ([0.5, math.nan], ValueError, "nan"),
        ([[0.5]], ValueError, "one-dimensional"),
        (0.5, ValueError, "one-dimensional"),
        (["a"], TypeError, "probabilities"),
        (None, TypeError, "probabilities"),
    ],
)
def test_poisson_binomial_refuses(probabilities, error, match):
    with pytest.raises(error, match=match):
        ds.poisson_binomial_pmf(probabilities)


@pytest.mark.parametrize(
    ("strata", "error", "match"),
    [
        ([], ValueError, "at least one"),
        ([(1, 0.5), (2,)], TypeError, "pairs"),
        ([3], TypeError, "pairs"),
        (5, TypeError, "strata must be a sequence"),
        ("12", TypeError, "strata must be a sequence"),
        ([(-1, 0.5)], ValueError, r"strata\[0\] size must be an integer"),
        ([(1, 0.5), (1.5, 0.5)], TypeError, r"strata\[1\] size"),
        ([(1, 2.0)], ValueError, r"strata\[0\] probability"),
        ([(2**53, 0.5), (1, 0.5)], ValueError, "add up to at most"),
    ],
)
def test_stratified_refuses(strata, error, match):
    with pytest.raises(error, match=match):
        ds.stratified_pmf(strata)


@pytest.mark.skipif(sys.platform != "linux", reason="uses the interval timer")
def test_a_long_sum_can_be_interrupted():
    def handler(signum, frame):
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            ds.poisson_binomial_pmf(np.full(10**6, 0.5))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, old)
