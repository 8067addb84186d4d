"""Built-in targets: equal to NumPy's and SciPy's, equal on pairs and on single databases, clear errors."""

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore.sensitivity import (
    Histogram,
    LinearRegression,
    Mean,
    Quantile,
    RidgeRegression,
    SensitivitySampler,
    Sum,
)

FLAT = [Sum(), Mean(), Quantile(0.0), Quantile(0.3), Quantile(0.5), Quantile(1.0), Histogram([0, 0.5, 1, 3])]
ROWS = [Sum(), Mean(), LinearRegression(), LinearRegression(intercept=False), RidgeRegression(penalty=0.7)]
records = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60)


def pairs_of(target, blocks):
    first, second = target._neighbour_values(blocks)
    n = blocks.shape[1] - 1
    for i, group in enumerate(blocks):
        yield first[i], target(group[:n])
        yield second[i], target(np.concatenate((group[: n - 1], group[n:])))


@pytest.mark.parametrize("target", FLAT, ids=repr)
@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_pairs_are_bit_for_bit_single_databases(target, n):
    blocks = np.random.default_rng(3).exponential(size=(9, n + 1))
    for got, want in pairs_of(target, blocks):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("target", ROWS, ids=repr)
@pytest.mark.parametrize("n", [5, 40])
def test_pairs_of_rows_are_bit_for_bit_single_databases(target, n):
    blocks = np.random.default_rng(4).normal(size=(9, n + 1, 4))
    for got, want in pairs_of(target, blocks):
        np.testing.assert_array_equal(got, want)


@settings(deadline=None)
@given(records)
def test_sum_and_mean_against_exact_rationals(values):
    exact = sum(map(Fraction, values))
    magnitude = sum(map(abs, values))
    tolerance = 2 * math.ulp(float(exact)) + (len(values) * 2.0**-52) ** 2 * magnitude
    assert abs(Fraction(Sum()(values)) - exact) <= tolerance
    mean = exact / len(values)
    assert abs(Fraction(Mean()(values)) - mean) <= tolerance / len(values) + 2 * math.ulp(float(mean))


@settings(deadline=None)
@given(records, st.floats(0, 1))
def test_quantile_equals_numpy(values, probability):
    want = float(np.quantile(values, probability))
    assert Quantile(probability)(values) == pytest.approx(want, rel=1e-14, abs=1e-9)
    if len(values) > 1 and ((len(values) - 1) * probability).is_integer():
        assert Quantile(probability)(values) == sorted(values)[int((len(values) - 1) * probability)]


@settings(deadline=None)
@given(records, st.lists(st.integers(-(10**6), 10**6), min_size=2, max_size=9, unique=True).map(sorted))
def test_histogram_equals_numpy(values, edges):
    values = [*values, *map(float, edges)]
    np.testing.assert_array_equal(Histogram(edges)(values), np.histogram(values, edges)[0])


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("penalty", [0.0, 0.3, 50.0])
def test_regression_against_lstsq(intercept, penalty):
    rows = np.random.default_rng(5).normal(size=(50, 5)) + 3
    design = np.column_stack((rows[:, :4], np.ones(50))) if intercept else rows[:, :4]
    penalties = math.sqrt(penalty) * np.eye(design.shape[1])
    if intercept:
        penalties[4] = 0
    stacked = np.vstack((design, penalties))
    want = np.linalg.lstsq(stacked, np.append(rows[:, 4], np.zeros(len(penalties))), rcond=None)[0]
    got = RidgeRegression(penalty=penalty, intercept=intercept)(rows)
    np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-12)


def test_regression_keeps_digits_that_normal_equations_lose():
    # Condition number about 1e9: its square has no digit left in double precision.
    x = np.linspace(0, 1, 30)
    rows = np.column_stack((x, x + 1e-9 * x**2, x + 2 * (x + 1e-9 * x**2)))
    got = LinearRegression(intercept=False)(rows)
    np.testing.assert_allclose(got, [1, 2], atol=1e-5)


def test_singular_regression_is_infinitely_sensitive():
    rows = np.column_stack((np.ones(30), np.arange(30.0), np.arange(30.0)))
    assert np.isnan(LinearRegression()(rows)).all()
    estimate = SensitivitySampler(LinearRegression(), rows, records=10).estimate(gamma=0.5, seed=1)
    assert estimate.sensitivity == math.inf


def test_scalars_are_floats_and_targets_can_be_sent():
    assert type(Mean()([1, 2])) is float
    assert type(Quantile(0.5)([1, 2])) is float
    for target in FLAT + ROWS:
        again = pickle.loads(pickle.dumps(target))
        assert again == target
        assert repr(again) == repr(target)
        assert hash(again) == hash(target)
    assert LinearRegression() != RidgeRegression(penalty=1.0)


@pytest.mark.parametrize("target", FLAT[:6], ids=repr)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", [0, 2, 3])
def test_a_bad_record_shows(target, bad, where):
    values = [1.0, 2.0, 3.0, 4.0]
    values[where] = bad
    if isinstance(target, Quantile) and not math.isnan(bad):
        # An infinite record is an extreme one: it shows only where the quantile touches its end.
        position = 3 * target.probability
        touched = {math.floor(position), math.ceil(position)} & ({3} if bad > 0 else {0})
        assert math.isfinite(target(values)) == (not touched)
    else:
        assert not math.isfinite(target(values))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Quantile(1.5), ValueError, "probability must be"),
        (lambda: Quantile(math.nan), ValueError, "probability must be"),
        (lambda: Histogram([1.0]), ValueError, "at least two"),
        (lambda: Histogram([1.0, 1.0]), ValueError, "ascending"),
        (lambda: Histogram([0.0, math.inf]), ValueError, "finite"),
        (lambda: RidgeRegression(penalty=-1.0), ValueError, "penalty must be"),
        (lambda: RidgeRegression(penalty=1.0, intercept=1), TypeError, "intercept must be"),
        (lambda: Mean()([]), ValueError, "at least one record"),
        (lambda: Mean()("abc"), TypeError, "real numbers"),
        (lambda: Quantile(0.5)([[1.0], [2.0]]), ValueError, "single numbers"),
        (lambda: LinearRegression()([1.0, 2.0]), ValueError, "rows of numbers"),
        (lambda: LinearRegression()([[1.0], [2.0]]), ValueError, "at least one feature"),
    ],
)
def test_bad_input(make, error, message):
    with pytest.raises(error, match=message):
        make()
