"""Binomial and hypergeometric laws, factorials, divergences and excluded mass.

Tolerances come from the Guarantee lines of the headers binomial, hypergeometric, factorial and bernoulli.
References are exact integers here, and the ball-arithmetic table of tests/data/make_distributions.py.
"""

import itertools
import json
import math
import pathlib
import signal
import subprocess
import sys
import threading
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore import distributions as ds

DATA = pathlib.Path(__file__).parent / "data"
TABLE = json.loads((DATA / "distributions.json").read_text())
U = 2.0**-53
HYPERGEOMETRIC = 20 * U  # 2.3e-15
BINOMIAL = 12 * U  # 1.4e-15
TAIL = 2.9e-15
SMALLEST = 2.3e-308  # guarantees are relative down to here


@pytest.fixture(autouse=True)
def precision():
    with mp.workdps(45):
        yield


def relative(got, want):
    return float(abs(mp.mpf(float(got)) / want - 1))


def ulps(got, want):
    """Distance from the exact value in units of the last place."""
    return float(abs(mp.mpf(float(got)) - want) / mp.mpf(math.ulp(float(want))))


def exact_hypergeometric(n, c, d):
    low, high = max(0, c + d - n), min(c, d)
    total = math.comb(n, d)
    return low, [Fraction(math.comb(c, k) * math.comb(n - c, d - k), total) for k in range(low, high + 1)]


def check_all(got, want, tolerance):
    assert len(got) == len(want)
    for a, b in zip(got.tolist(), want, strict=True):
        if b >= SMALLEST:
            assert abs(Fraction(a) / b - 1) <= tolerance
        else:
            assert abs(Fraction(a) - b) <= Fraction(5e-324)


# Hypergeometric


@pytest.mark.parametrize("row", json.loads((DATA / "hypergeometric.json").read_text())["rows"], ids=str)
def test_hypergeometric_reference(row):
    sizes = {"population": row["n"], "marked": row["c"], "drawn": row["d"]}
    want = mp.mpf(row["logpmf"])
    assert abs(ds.hypergeometric_logpmf(row["k"], **sizes) - want) <= 1e-15 * abs(want)
    if row["n"] <= 10**6:
        first, pmf = ds.hypergeometric_pmf(**sizes)
        assert relative(pmf[row["k"] - first], mp.e**want) <= HYPERGEOMETRIC


def test_hypergeometric_table():
    for row in TABLE["hypergeometric"]:
        sizes = {"population": row["n"], "marked": row["c"], "drawn": row["d"]}
        want = mp.mpf(row["logpmf"])
        got = ds.hypergeometric_logpmf(row["k"], **sizes)
        assert ulps(got, want) <= 1, row
        if row["n"] <= 10**12 and want > math.log(1e-300):
            # One window of a few points that starts at a far end, so that the walk is what is tested.
            low, high = max(0, row["c"] + row["d"] - row["n"]), min(row["c"], row["d"])
            w = ds.hypergeometric_window(
                **sizes, low=max(low, row["k"] - 999), high=min(high, row["k"] + 999), depth=700.0
            )
            if w.first_k <= row["k"] <= w.last_k:
                value = mp.mpf(float(w.values[row["k"] - w.first_k])) * mp.mpf(2) ** w.exponent
                assert abs(value / mp.e**want - 1) <= HYPERGEOMETRIC, row


def test_every_small_hypergeometric_law():
    for n in range(0, 11):
        for c, d in itertools.product(range(n + 1), repeat=2):
            first, pmf = ds.hypergeometric_pmf(population=n, marked=c, drawn=d)
            low, want = exact_hypergeometric(n, c, d)
            assert first == low
            check_all(pmf, want, HYPERGEOMETRIC)


@pytest.mark.parametrize(
    ("n", "c", "d"),
    [
        (2000, 1000, 1000),
        (2000, 3, 1000),
        (2000, 1999, 1997),
        (3001, 64, 2000),
        (1500, 700, 33),
        (2500, 2400, 2300),
    ],
)
def test_whole_support_against_integers(n, c, d):
    first, pmf = ds.hypergeometric_pmf(population=n, marked=c, drawn=d)
    low, want = exact_hypergeometric(n, c, d)
    assert first == low
    check_all(pmf, want, HYPERGEOMETRIC)
    assert abs(math.fsum(pmf) - 1) <= 1e-14


@pytest.mark.parametrize("n", [10**4, 10**6, 10**7, 10**12])
def test_large_supports_keep_their_digits_and_mass(n):
    first, pmf = ds.hypergeometric_pmf(population=n, marked=n // 2, drawn=n // 2)
    assert abs(float(np.sum(pmf)) - 1) <= 1e-14
    visible = np.flatnonzero(pmf > 1e-300)
    for index in (visible[0], visible[-1], visible[len(visible) // 3]):
        k = first + int(index)
        want = mp.exp(
            2 * mp.log(mp.binomial(n // 2, k)) - mp.log(mp.binomial(n, n // 2))
            if n <= 10**4
            else sum(
                s * mp.loggamma(x + 1)
                for s, x in (
                    (4, n // 2),
                    (-1, n),
                    (-2, k),
                    (-2, n // 2 - k),
                )
            )
        )
        assert relative(pmf[index], want) <= HYPERGEOMETRIC
    if n < 2 * 10**8:
        assert (first, len(pmf)) == (0, n // 2 + 1)
    else:
        assert len(pmf) < 4 * 10**7
        assert pmf[0] > 0


sizes = st.integers(0, 400).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(0, n)))


@given(sizes)
@settings(max_examples=60, deadline=None)
def test_hypergeometric_properties(size):
    n, c, d = size
    first, pmf = ds.hypergeometric_pmf(population=n, marked=c, drawn=d)
    # Marked and drawn exchange places.
    other_first, other = ds.hypergeometric_pmf(population=n, marked=d, drawn=c)
    assert other_first == first
    np.testing.assert_allclose(other, pmf, rtol=2 * HYPERGEOMETRIC, atol=1e-322)
    # The marked records that were not drawn.
    _, rest = ds.hypergeometric_pmf(population=n, marked=c, drawn=n - d)
    np.testing.assert_allclose(rest[::-1], pmf, rtol=2 * HYPERGEOMETRIC, atol=1e-322)
    assert abs(math.fsum(pmf) - 1) <= 1e-14
    # The recurrence.
    k = np.arange(first, first + len(pmf) - 1)
    up = pmf[:-1] * ((d - k) * (c - k)) / ((k + 1) * (n - c - d + k + 1.0))
    usable = pmf[1:] > 1e-300
    np.testing.assert_allclose(pmf[1:][usable], up[usable], rtol=2.1 * HYPERGEOMETRIC)


def test_array_and_scalar_agree_bit_for_bit():
    k = np.arange(-2, 30).reshape(4, 8)
    array = ds.hypergeometric_logpmf(k, population=100, marked=40, drawn=25)
    assert array.shape == (4, 8)
    one_by_one = [ds.hypergeometric_logpmf(int(x), population=100, marked=40, drawn=25) for x in k.ravel()]
    assert array.ravel().tolist() == one_by_one
    assert type(one_by_one[0]) is float
    tails = ds.hypergeometric_cdf(k, population=[[100], [90], [80], [70]], marked=40, drawn=25)
    assert tails[1, 5] == ds.hypergeometric_cdf(int(k[1, 5]), population=90, marked=40, drawn=25)


def test_tails_against_sums():
    for row in TABLE["tails"]:
        law = {"population": row["n"], "marked": row["c"], "drawn": row["d"]}
        for function, want in (
            (ds.hypergeometric_cdf, mp.mpf(row["cdf"])),
            (ds.hypergeometric_sf, mp.mpf(row["sf"])),
        ):
            got = function(row["k"], **law)
            if want > SMALLEST:
                assert relative(got, want) <= TAIL, row
            else:
                assert got <= 2.3e-308


def test_tails_at_the_ends():
    law = {"population": 50, "marked": 30, "drawn": 30}
    assert ds.hypergeometric_cdf(9, **law) == 0.0
    assert ds.hypergeometric_sf(9, **law) == 1.0
    assert ds.hypergeometric_cdf(30, **law) == 1.0
    assert ds.hypergeometric_sf(30, **law) == 0.0
    assert ds.hypergeometric_cdf(10, **law) == ds.hypergeometric_pmf(**law)[1][0]


def test_stepper_walks_without_drift():
    law = {"population": 10**6, "marked": 3 * 10**5, "drawn": 5 * 10**5}
    stepper = ds.HypergeometricStepper(**law, k=140_000)
    for _ in range(20_000):
        stepper.up()
    assert stepper.k == 160_000
    assert stepper.logpmf == ds.hypergeometric_logpmf(160_000, **law)
    assert ds.HypergeometricStepper(**law, k=160_000).pmf == stepper.pmf == 0.0
    for _ in range(10_000):
        stepper.down()
    assert stepper.logpmf == ds.hypergeometric_logpmf(150_000, **law)
    first, pmf = ds.hypergeometric_pmf(**law)
    assert abs(stepper.pmf / pmf[150_000 - first] - 1) <= HYPERGEOMETRIC
    assert ds.HypergeometricStepper(**law).k == 150_000


def test_stepper_stays_in_the_support():
    stepper = ds.HypergeometricStepper(population=10, marked=4, drawn=9, k=3)
    assert stepper.at_lowest
    with pytest.raises(IndexError, match="lowest"):
        stepper.down()
    assert stepper.up().at_highest
    with pytest.raises(IndexError, match="highest"):
        stepper.up()
    assert stepper.k == 4
    assert stepper.pmf == pytest.approx(0.6, rel=1e-15)
    with pytest.raises(ValueError, match="k must be an integer in"):
        ds.HypergeometricStepper(population=10, marked=4, drawn=9, k=2)


# Binomial


def test_binomial_table():
    for row in TABLE["binomial"]:
        m, p, k = row["m"], float.fromhex(row["p"]), row["k"]
        want = mp.mpf(row["logpmf"])
        got = ds.binomial_logpmf(k, trials=m, probability=p)
        # Below the normal doubles the unit in the last place stops shrinking.
        assert ulps(got, want) <= 1 if abs(want) > SMALLEST else abs(got - want) <= 5e-324, row
        w = ds.binomial_window(trials=m, probability=p, low=max(0, k - 999), high=min(m, k + 999))
        if w.first_k <= k <= w.last_k:
            value = mp.mpf(float(w.values[k - w.first_k])) * mp.mpf(2) ** w.exponent
            assert abs(value / mp.e**want - 1) <= BINOMIAL, row


def binomial_values(m, p):
    """All probabilities; 400 digits hold 1 - p of every double p."""
    x, y = mp.mpf(p), 1 - mp.mpf(p)
    return [mp.binomial(m, k) * x**k * y ** (m - k) for k in range(m + 1)]


@pytest.mark.parametrize("p", [0.5, 0.1, 1 - 2.0**-30, 2.0**-40, 1e-200])
@pytest.mark.parametrize("m", [0, 1, 2, 31, 32, 33, 64, 65, 300])
def test_binomial_support(m, p):
    first, pmf = ds.binomial_pmf(trials=m, probability=p)
    assert first == 0
    assert len(pmf) == m + 1
    with mp.workdps(400):
        for got, want in zip(pmf.tolist(), binomial_values(m, p), strict=True):
            if want >= SMALLEST:
                assert abs(got / want - 1) <= BINOMIAL
            else:
                assert abs(got - want) <= 5e-324


@given(st.integers(1, 150), st.floats(0.0, 1.0), st.floats(-300, -0.05).map(lambda e: 10.0**e))
@settings(max_examples=60, deadline=None)
def test_binomial_windows_bound_what_they_leave_out(m, p, tail):
    first, pmf = ds.binomial_pmf(trials=m, probability=p, tail=tail)
    if p in (0.0, 1.0):
        assert (first, pmf.tolist()) == (int(p) * m, [1.0])
        return
    with mp.workdps(400):
        want = binomial_values(m, p)
        last = first + len(pmf) - 1
        assert sum(want[:first]) <= tail
        assert sum(want[last + 1 :]) <= tail
        # The window is the shortest: one more point on a side, unless it is the mode, is more than the tail.
        if pmf[0] != pmf.max():
            assert sum(want[: first + 1]) > 0.99 * tail
        if pmf[-1] != pmf.max():
            assert sum(want[last:]) > 0.99 * tail


def test_a_tail_larger_than_the_largest_value():
    for m in (10**3, 10**6, 10**9):
        first, pmf = ds.binomial_pmf(trials=m, probability=0.5, tail=0.9)
        assert (first, len(pmf)) == (m // 2, 1)
        assert pmf[0] == pytest.approx(math.exp(ds.binomial_logpmf(m // 2, trials=m, probability=0.5)), rel=1e-14)


def test_binomial_far_window():
    w = ds.binomial_window(trials=10**12, probability=0.25, low=4 * 10**11, depth=50.0)
    assert w.first_k == 4 * 10**11
    assert 1.0 <= w.values[0] < 2.0
    assert w.exponent < -(10**10)
    assert w.below_upper == math.inf
    want = ds.binomial_logpmf(w.last_k, trials=10**12, probability=0.25)
    assert w.logpmf[-1] == pytest.approx(want, rel=1e-15)
    assert w.logpmf[0] - w.logpmf[-1] <= 50.0 + 1e-4
    assert np.all(w.pmf == 0.0)
    assert "relative error" in w.statement
    assert w.to_dict()["first_k"] == w.first_k


@given(st.integers(1, 10**6), st.floats(0.001, 0.999), st.floats(-0.2, 1.2))
@settings(max_examples=40, deadline=None)
def test_binomial_tails_are_consistent(m, p, where):
    k = int(m * where)
    below, above = (f(k, trials=m, probability=p) for f in (ds.binomial_cdf, ds.binomial_sf))
    assert below + above == pytest.approx(1.0, rel=1e-15)
    # The mirror image: successes and failures exchange places where 1 - p is exact.
    assert ds.binomial_sf(k, trials=m, probability=0.25) == pytest.approx(
        ds.binomial_cdf(m - k - 1, trials=m, probability=0.75), rel=2 * TAIL, abs=1e-307
    )


def test_binomial_tail_against_beta():
    # Pr[X >= k] is an incomplete beta function.
    for m, p, k in [(1000, 0.5, 600), (10**5, 0.01, 1500), (300, 0.9, 200)]:
        above = mp.betainc(k, m - k + 1, 0, mp.mpf(p), regularized=True)
        assert relative(ds.binomial_sf(k - 1, trials=m, probability=p), above) <= TAIL
        assert relative(ds.binomial_cdf(k - 1, trials=m, probability=p), 1 - above) <= TAIL


# Factorials and deviance


def test_factorials():
    assert ds.log_factorial(0) == 0.0
    for row in TABLE["factorial"]:
        want = mp.mpf(row["log_factorial"])
        high, rest = ds.log_factorial(row["n"], extended=True)
        assert high == ds.log_factorial(row["n"])
        if row["n"] > 1:
            assert ulps(high, want) <= 0.5 + 1e-9
            assert abs((mp.mpf(high) + mp.mpf(rest)) / want - 1) <= mp.mpf(2) ** -98
        else:
            assert (high, rest) == (0.0, 0.0)
        assert ulps(ds.stirling_error(row["n"]), mp.mpf(row["stirling_error"])) <= 0.5 + 1e-9


@given(st.floats(1e-100, 1e100), st.floats(-1, 1), st.floats(-40, 0))
@settings(max_examples=200, deadline=None)
def test_deviance(mean, sign, scale):
    x = abs(mean * (1 + sign * 2.0**scale))
    with mp.workdps(120):
        want = mp.mpf(x) * mp.log(mp.mpf(x) / mp.mpf(mean)) + mp.mpf(mean) - mp.mpf(x) if x else mp.mpf(mean)
    got = ds.deviance(x, mean)
    if want == 0:
        assert got == 0
    elif want > SMALLEST:
        assert ulps(got, want) <= 1


# Bernoulli divergence


def test_kl_table():
    for row in TABLE["kl"]:
        want = mp.mpf(row["kl"])
        got = ds.bernoulli_kl(float.fromhex(row["q"]), float.fromhex(row["p"]))
        assert ulps(got, want) <= 0.5 + 1e-6, row


def test_kl_edges():
    assert ds.bernoulli_kl(0.0, 0.0) == ds.bernoulli_kl(1.0, 1.0) == ds.bernoulli_kl(0.3, 0.3) == 0.0
    assert ds.bernoulli_kl(0.1, 0.0) == ds.bernoulli_kl(0.1, 1.0) == math.inf
    assert ds.bernoulli_kl([0.0, 1.0], 0.5).tolist() == [math.log(2)] * 2


def exact_kl(q, p):
    terms = mp.mpf(0)
    if q > 0:
        terms += q * mp.log(q / p)
    if q < 1:
        terms += (1 - q) * mp.log((1 - q) / (1 - p))
    return terms


BIASES = st.one_of(
    st.floats(0.0, 1.0), st.floats(-320, -1).map(lambda e: 10.0**e), st.floats(-52, -1).map(lambda e: 1 - 2.0**e)
)
GOALS = st.one_of(st.floats(0.0, 2.0), st.floats(-320, 0).map(lambda e: 10.0**e), st.just(800.0))


@given(BIASES, GOALS, st.sampled_from(["below", "above"]))
@settings(max_examples=300, deadline=None)
def test_half_width_is_the_smallest_double(bias, goal, side):
    t = ds.kl_half_width(bias=bias, divergence=goal, side=side)
    sign = -1 if side == "below" else 1
    with mp.workdps(700):
        p, edge = mp.mpf(bias), mp.mpf(bias) if side == "below" else 1 - mp.mpf(bias)
        if goal == 0.0 or edge == 0:
            assert t == 0.0
            return
        if p in (0, 1):
            assert t == 5e-324  # the divergence is infinite at once
            return
        at_edge = exact_kl(mp.mpf(0) if side == "below" else mp.mpf(1), p)
        if at_edge < goal:
            assert t >= edge
            assert math.nextafter(t, 0.0) < edge
            return
        assert exact_kl(min(max(p + sign * mp.mpf(t), 0), 1), p) >= goal
        assert exact_kl(p + sign * mp.mpf(math.nextafter(t, 0.0)), p) < goal


def test_chernoff_half_width():
    t = ds.chernoff_half_width(trials=10_000, bias=0.3, failure=1e-6, side="below")
    assert mp.exp(-10_000 * exact_kl(mp.mpf(0.3) - mp.mpf(t), mp.mpf(0.3))) <= mp.mpf(1e-6)
    assert mp.exp(-10_000 * exact_kl(mp.mpf(0.3) - mp.mpf(t) * (1 - mp.mpf(10) ** -14), mp.mpf(0.3))) > mp.mpf(
        1e-6
    )
    # It is a bound for the law itself.
    assert ds.binomial_cdf(math.floor(10_000 * (0.3 - t)), trials=10_000, probability=0.3) <= 1e-6
    # No frequency below 0: the tail is empty and the side is the edge.
    assert ds.chernoff_half_width(trials=10, bias=0.01, failure=1e-6, side="below") == 0.01
    assert ds.chernoff_half_width(trials=10, bias=1.0, failure=1e-6, side="above") == 0.0


# Excluded mass


def printed_search(losses, masses, budget):
    """Lines 20 to 29 of Algorithm 2 with exact sums; sorted() keeps the order of ties."""
    order = sorted(range(len(losses)), key=lambda i: -losses[i])
    total, left_out = Fraction(0), 0
    while left_out < len(order) and total + Fraction(masses[order[left_out]]) < Fraction(budget):
        total += Fraction(masses[order[left_out]])
        left_out += 1
    return order[left_out] if left_out < len(order) else None, left_out, total


@given(
    st.lists(st.tuples(st.floats(0, 50), st.floats(0, 1)), min_size=1, max_size=60),
    st.floats(0, 1),
    st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_excluded_mass_is_what_the_sort_gives(classes, share, valley):
    losses = [loss for loss, _ in classes]
    if valley:
        losses = sorted(set(losses), reverse=True)
        losses = losses[::2] + losses[1::2][::-1]
    masses = [mass for _, mass in classes][: len(losses)]
    budget = share * math.fsum(masses) * 0.999
    kept, count, total = printed_search(losses, masses, budget)
    if kept is None:
        with pytest.raises(ValueError, match="budget must be at most"):
            ds.excluded_mass(losses, masses, budget=budget)
        return
    got = ds.excluded_mass(losses, masses, budget=budget)
    assert got.excluded == count
    assert got.loss == losses[kept]
    if len(set(losses)) == len(losses):
        assert got.kept == kept
        assert total <= Fraction(got.mass)
        assert Fraction(got.mass) <= total + 2 * Fraction(math.ulp(got.mass))


def test_excluded_mass_of_background_knowledge():
    # Losses of Lemma 5.3 with n' for the misprinted n; no hits cost an infinite loss.
    known, records, ones, bias = 400, 1000, 300, 0.3
    first, masses = ds.hypergeometric_pmf(population=records, marked=ones, drawn=known)
    hits = np.arange(first, first + len(masses), dtype=float)
    with np.errstate(divide="ignore"):
        losses = np.abs(np.log(known - hits + 1) + math.log(bias) - np.log(hits) - math.log(1 - bias))
    assert losses[0] == math.inf
    got = ds.excluded_mass(losses, masses, budget=1e-6)
    kept, count, _ = printed_search(losses.tolist(), masses.tolist(), 1e-6)
    assert (got.kept, got.excluded) == (kept, count)
    assert math.isfinite(got.loss)
    assert "largest losses" in got.statement


def test_excluded_mass_refuses():
    with pytest.raises(ValueError, match="same length"):
        ds.excluded_mass([1.0], [0.5, 0.5], budget=0.1)
    with pytest.raises(ValueError, match="losses must be numbers, not NaN"):
        ds.excluded_mass([math.nan], [1.0], budget=0.1)
    with pytest.raises(ValueError, match="must not be empty"):
        ds.excluded_mass([], [], budget=0.1)
    with pytest.raises(ValueError, match="masses"):
        ds.excluded_mass([1.0], [-0.1], budget=0.1)
    with pytest.raises(ValueError, match="budget must be at most"):
        ds.excluded_mass([1.0, 2.0], [0.5, 0.5], budget=1.5)


# Bad input


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"marked": 11}, ValueError, "marked must be at most population = 10, got 11"),
        ({"drawn": 11}, ValueError, "drawn must be at most population = 10, got 11"),
        ({"population": -1}, ValueError, "population must be an integer in"),
        ({"population": 2**53 + 1}, ValueError, "population"),
        ({"marked": 2.5}, TypeError, "marked must be an integer, got 2.5"),
        ({"marked": True}, TypeError, "marked"),
        ({"drawn": None}, TypeError, "drawn"),
        ({"drawn": math.nan}, TypeError, "drawn"),
    ],
)
def test_hypergeometric_refuses(change, error, match):
    arguments = {"population": 10, "marked": 4, "drawn": 5, **change}
    with pytest.raises(error, match=match):
        ds.hypergeometric_pmf(**arguments)
    with pytest.raises(error, match=match):
        ds.HypergeometricStepper(**arguments)
    with pytest.raises((TypeError, ValueError), match=next(iter(change))):
        ds.hypergeometric_logpmf(0, **arguments)


@pytest.mark.parametrize("k", [0.5, math.nan, math.inf, "1", None, 2**54])
def test_k_must_be_an_integer(k):
    with pytest.raises((TypeError, ValueError), match="k must be"):
        ds.hypergeometric_logpmf(k, population=10, marked=4, drawn=5)
    with pytest.raises((TypeError, ValueError), match="k must be"):
        ds.binomial_cdf(k, trials=10, probability=0.5)


def test_arrays_are_checked_and_broadcast():
    with pytest.raises(ValueError, match="marked must be at most population = 3, got 4"):
        ds.hypergeometric_logpmf(0, population=[10, 3], marked=4, drawn=2)
    with pytest.raises(ValueError, match="drawn must be at most population = 3, got 5"):
        ds.hypergeometric_logpmf(0, population=3, marked=2, drawn=[[1], [5]])
    with pytest.raises(ValueError, match="do not broadcast"):
        ds.binomial_logpmf([0, 1], trials=[1, 2, 3], probability=0.5)
    with pytest.raises(ValueError, match=r"k must be an integer.*got 0.5 at index \(1,\)"):
        ds.binomial_logpmf([0, 0.5], trials=3, probability=0.5)
    with pytest.raises(ValueError, match="trials must be an integer"):
        ds.binomial_logpmf(0, trials=np.array([3, 2**53 + 1]), probability=0.5)
    assert ds.binomial_logpmf([], trials=3, probability=0.5).shape == (0,)


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"probability": 1.5}, ValueError, "probability must be a number in"),
        ({"probability": math.nan}, ValueError, "probability"),
        ({"probability": "0.5"}, TypeError, "probability"),
        ({"trials": -1}, ValueError, "trials"),
        ({"trials": 1.0}, TypeError, "trials"),
        ({"tail": 1.0}, ValueError, "tail"),
        ({"tail": -0.1}, ValueError, "tail"),
        ({"tail": 1e-301}, ValueError, "tail"),
        ({"tail": math.nan}, ValueError, "tail"),
    ],
)
def test_binomial_refuses(change, error, match):
    with pytest.raises(error, match=match):
        ds.binomial_pmf(**{"trials": 10, "probability": 0.5, **change})


def test_windows_refuse():
    with pytest.raises(ValueError, match="low must be an integer in"):
        ds.binomial_window(trials=10, probability=0.5, low=11)
    with pytest.raises(ValueError, match="high must be an integer in"):
        ds.binomial_window(trials=10, probability=0.5, low=5, high=4)
    with pytest.raises(ValueError, match="depth"):
        ds.binomial_window(trials=10, probability=0.5, depth=701)
    with pytest.raises(ValueError, match="5e8 points"):
        ds.binomial_pmf(trials=2**53, probability=0.5)
    with pytest.raises(ValueError, match="beyond every exponent"):
        ds.binomial_window(trials=2**53, probability=5e-324, low=2**53)
    with pytest.raises(ValueError, match="5e8 points"):
        ds.stratified_pmf([(2**53, 0.5)])
    with pytest.raises(ValueError, match="side must be one of"):
        ds.kl_half_width(bias=0.5, divergence=0.1, side="left")
    with pytest.raises(ValueError, match="divergence"):
        ds.kl_half_width(bias=0.5, divergence=math.inf, side="below")


def test_point_masses():
    for n, c, d, k in [(0, 0, 0, 0), (9, 0, 5, 0), (9, 9, 5, 5), (9, 4, 0, 0), (9, 4, 9, 4), (1, 1, 1, 1)]:
        first, pmf = ds.hypergeometric_pmf(population=n, marked=c, drawn=d)
        assert (first, pmf.tolist()) == (k, [1.0])
        assert ds.hypergeometric_logpmf(k, population=n, marked=c, drawn=d) == 0.0
        assert ds.hypergeometric_logpmf(k + 1, population=n, marked=c, drawn=d) == -math.inf
        assert ds.hypergeometric_cdf(k, population=n, marked=c, drawn=d) == 1.0
        assert ds.hypergeometric_sf(k - 1, population=n, marked=c, drawn=d) == 1.0
        assert ds.hypergeometric_sf(k, population=n, marked=c, drawn=d) == 0.0
        assert ds.HypergeometricStepper(population=n, marked=c, drawn=d).pmf == 1.0
    for m, p, k in [(0, 0.5, 0), (7, 0.0, 0), (7, 1.0, 7)]:
        first, pmf = ds.binomial_pmf(trials=m, probability=p)
        assert (first, pmf.tolist()) == (k, [1.0])
        assert ds.binomial_pmf(trials=m, probability=p, tail=0.1)[0] == k
        assert ds.binomial_sf(k, trials=m, probability=p) == 0.0
    empty = ds.binomial_window(trials=10, probability=0.0, low=3)
    assert (empty.values.size, empty.below_upper, empty.above_upper) == (0, 1.0, 0.0)


@pytest.mark.skipif(sys.platform != "linux", reason="uses the interval timer")
def test_a_long_call_can_be_interrupted():
    def handler(signum, frame):
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            ds.binomial_window(trials=10**14, probability=0.5, depth=700.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, old)


MEMORY = """
from dpcore import distributions as ds
def peak():  # of this process alone; ru_maxrss starts with that of the parent
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
ds.hypergeometric_pmf(population=100, marked=50, drawn=50)
start = peak()
first, pmf = {call}
print(peak() - start, pmf.nbytes)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    "call",
    [
        "ds.hypergeometric_pmf(population=10**11, marked=5 * 10**10, drawn=5 * 10**10)",
        "ds.binomial_pmf(trials=10**11, probability=0.5, tail=1e-300)",
        "ds.binomial_pmf(trials=10**10, probability=0.3)",
        "ds.binomial_pmf(trials=10**7, probability=0.5)",
    ],
)
def test_a_support_needs_the_memory_of_its_result(call):
    code = MEMORY.format(call=call)
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    grown, result = map(int, done.stdout.split())
    assert grown <= 1.02 * result + 2**22, (grown, result)


def test_the_lock_is_released():
    # Another thread counts while the core works; it could not if the interpreter were held.
    ticks = 0
    done = threading.Event()

    def count():
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            done.wait(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    before = ticks
    ds.binomial_pmf(trials=10**12, probability=0.5, tail=1e-300)
    during = ticks - before
    done.set()
    thread.join()
    assert during > 5
