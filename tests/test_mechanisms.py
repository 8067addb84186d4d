"""Mechanisms: what is guaranteed, what is released, what is refused."""

from __future__ import annotations

import copy
import math
import pickle
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpcore import accounting, gaussian, mechanisms, samplers
from dpcore.mechanisms import (
    Bernstein,
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    Gaussian,
    Laplace,
    RandomizedResponse,
)
from dpcore.samplers import InsecureTestRng

ALL = [
    Laplace(epsilon=1.0, sensitivity=1.0),
    Gaussian(epsilon=1.0, delta=1e-6, sensitivity=1.0),
    DiscreteLaplace(epsilon=1.0, sensitivity=1),
    DiscreteGaussian(epsilon=1.0, delta=1e-6, sensitivity=1),
    DiscreteGaussian(epsilon=1.0, delta=1e-6, sensitivity=1.5, dimension=3, norm="l2"),
    RandomizedResponse(epsilon=1.0),
    RandomizedResponse(epsilon=1.0, categories=5),
    Exponential(epsilon=1.0, sensitivity=1.0),
    Bernstein(epsilon=1.0, sensitivity=0.01, lattice=4, order=2),
]
positive = st.floats(1e-6, 1e6)


# ---- the guarantee, exactly


@given(positive, positive, st.integers(1, 1000), st.sampled_from(["l1", "l2", "linf"]))
def test_laplace_scale_covers_rounding(epsilon: float, sensitivity: float, dimension: int, norm: str) -> None:
    m = Laplace(epsilon=epsilon, sensitivity=sensitivity, dimension=dimension, norm=norm)
    # The L1 distance of values rounded to the grid, in exact arithmetic (squared for the root of the dimension).
    spread = Fraction(m.scale) * Fraction(epsilon) - dimension * Fraction(m.grid)
    if norm == "l2":
        assert spread >= 0
        assert spread**2 >= Fraction(sensitivity) ** 2 * dimension
    else:
        assert spread >= Fraction(sensitivity) * (dimension if norm == "linf" else 1)
    # and not more than it has to be
    base = sensitivity * {"l1": 1, "l2": math.sqrt(dimension), "linf": dimension}[norm] / epsilon
    assert m.scale <= base * (1 + dimension * 2.0**-40 / epsilon + 1e-14)
    assert m.epsilon == epsilon
    again = Laplace(scale=m.scale, sensitivity=sensitivity, dimension=dimension, norm=norm, grid=m.grid)
    assert again.epsilon is not None
    assert again.epsilon <= epsilon * (1 + 1e-15)


@settings(deadline=None, max_examples=50)
@given(st.floats(0.01, 10), st.floats(1e-12, 0.1), st.floats(1e-3, 1e3), st.integers(1, 100))
def test_gaussian_sigma_covers_rounding(epsilon: float, delta: float, sensitivity: float, dimension: int) -> None:
    m = Gaussian(epsilon=epsilon, delta=delta, sensitivity=sensitivity, dimension=dimension, norm="l2")
    assert m.l2_sensitivity is not None
    assert Fraction(m.l2_sensitivity) >= Fraction(sensitivity) + Fraction(math.isqrt(dimension)) * Fraction(m.grid)
    with mp.workdps(50):
        s, e, d = mp.mpf(m.sigma), mp.mpf(epsilon), mp.mpf(sensitivity) + mp.sqrt(dimension) * mp.mpf(m.grid)
        exact = mp.ncdf(d / (2 * s) - e * s / d) - mp.exp(e) * mp.ncdf(-d / (2 * s) - e * s / d)
        assert exact <= delta
    least = gaussian.sigma(epsilon=epsilon, delta=delta, sensitivity=sensitivity)
    assert least <= m.sigma <= least * (1 + 1e-6)


@given(st.floats(1e-3, 1e3), st.integers(1, 1000))
def test_discrete_laplace_ratio(epsilon: float, sensitivity: int) -> None:
    m = DiscreteLaplace(epsilon=epsilon, sensitivity=sensitivity)
    assert Fraction(sensitivity) / Fraction(m.scale) <= Fraction(epsilon)


def test_discrete_gaussian_delta_from_its_definition() -> None:
    for epsilon, delta, sensitivity in ((1.0, 1e-6, 1), (0.1, 1e-9, 3), (3.0, 1e-3, 1), (10.0, 1e-5, 2)):
        m = DiscreteGaussian(epsilon=epsilon, delta=delta, sensitivity=sensitivity)
        with mp.workdps(40):
            s = mp.mpf(m.sigma)
            reach = int(40 * s) + 10
            w = [mp.exp(-(mp.mpf(k) ** 2) / (2 * s * s)) for k in range(-reach, reach + 1)]
            total = mp.fsum(w)
            e = mp.exp(mp.mpf(epsilon))
            exact = mp.fsum(max(mp.mpf(0), a - e * b) for a, b in zip(w[sensitivity:], w, strict=False)) / total
            assert 0 < exact <= delta
        assert m.sigma < 1.1 * gaussian.sigma(epsilon=epsilon, delta=delta, sensitivity=float(sensitivity)) + 0.1


def test_discrete_gaussian_vectors_for_every_split_tried() -> None:
    m = DiscreteGaussian(epsilon=1.0, delta=1e-6, sensitivity=2.0, dimension=4, norm="l2")
    # Differences of squared length at most 4: one coordinate by 2, or four by 1.
    one = accounting.from_discrete_gaussian(sigma=m.sigma, sensitivity=2)
    four = accounting.from_discrete_gaussian(sigma=m.sigma, sensitivity=1) * 4
    assert float(one.delta(1.0)) <= 1e-6
    assert float(four.delta(1.0)) <= 1e-6
    assert m.sigma < 1.2 * gaussian.sigma(epsilon=1.0, delta=1e-6, sensitivity=2.0)


@pytest.mark.parametrize("monotone", [False, True])
def test_exponential_factor(monotone: bool) -> None:
    m = Exponential(epsilon=1.0, sensitivity=3.0, monotone=monotone)
    assert Fraction(m.factor) * 3 * (1 if monotone else 2) <= 1
    assert m.factor == pytest.approx(1 / 3 if monotone else 1 / 6, rel=1e-15)
    assert Exponential(factor=m.factor, sensitivity=3.0, monotone=monotone).epsilon == pytest.approx(
        1.0, rel=1e-15
    )


def test_privacy_losses_state_the_budget() -> None:
    assert float(Laplace(epsilon=0.7, sensitivity=2.0).privacy_loss().delta(0.7)) <= 1e-12
    g = Gaussian(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    assert float(g.privacy_loss().delta(1.0)) == pytest.approx(1e-6, rel=1e-9)
    assert float(DiscreteLaplace(epsilon=0.7, sensitivity=2).privacy_loss().delta(0.7000001)) <= 1e-12
    d = DiscreteGaussian(epsilon=1.0, delta=1e-6, sensitivity=1)
    assert float(d.privacy_loss().delta(1.0)) <= 1e-6
    for m in ALL:
        assert float(m.privacy_loss().delta(1.0)) <= 1.000001e-6


def test_randomized_response_is_private_exactly() -> None:
    m = RandomizedResponse(epsilon=math.log(3.0))
    assert m.keep_probability == pytest.approx(0.75, rel=1e-15)
    many = RandomizedResponse(epsilon=1.0, categories=4)
    other = (1 - many.keep_probability) / 3
    assert many.keep_probability / other == pytest.approx(math.e, rel=1e-14)


def cell_of(value: float, grid: float) -> int:
    """Nearest multiple of the grid, ties to even, in exact arithmetic."""
    return round(Fraction(value) / Fraction(grid))


def rounded_pmf(mechanism: Laplace | Gaussian, reach: int) -> dict[int, mp.mpf]:
    """Pr[noise = k grid] for continuous noise rounded to the grid, k from -reach to reach."""
    s = mp.mpf(mechanism.scale) / mp.mpf(mechanism.grid)

    def beyond(x: mp.mpf) -> mp.mpf:  # Pr[noise > x grid], x > 0
        return mp.exp(-x / s) / 2 if isinstance(mechanism, Laplace) else mp.erfc(x / s / mp.sqrt(2)) / 2

    edges = [beyond(mp.mpf(k) + 0.5) for k in range(reach + 1)]
    one_side = [edges[k - 1] - edges[k] for k in range(1, reach + 1)]
    return {0: 1 - 2 * edges[0], **{sign * (k + 1): p for k, p in enumerate(one_side) for sign in (-1, 1)}}


@pytest.mark.parametrize(("v", "w"), [(0.49, 1.19), (0.5, 1.2), (-0.35, 0.35), (2.5, 3.2), (7.0, 6.3)])
def test_the_guarantee_holds_off_the_grid(v: float, w: float) -> None:
    """Values at most 0.7 apart, rounded to a grid of 1, from the definition of the released law."""
    a, b = cell_of(v, 1.0), cell_of(w, 1.0)
    outputs = range(-50, 60)
    pure = Laplace(epsilon=1.0, sensitivity=0.7000001, grid=1.0)
    approximate = Gaussian(epsilon=1.0, delta=1e-3, sensitivity=0.7000001, grid=1.0)
    careless = Laplace(scale=0.7, sensitivity=0.7, grid=1.0)
    with mp.workdps(60):

        def excess(p: dict[int, mp.mpf], epsilon: float, x: int, y: int) -> mp.mpf:
            return mp.fsum(max(mp.mpf(0), p[j - x] - mp.exp(epsilon) * p[j - y]) for j in outputs)

        laplace, gauss, wrong = (rounded_pmf(m, 70) for m in (pure, approximate, careless))
        assert all(abs(mp.log(laplace[j - a] / laplace[j - b])) <= 1 for j in outputs)
        assert max(excess(gauss, 1.0, a, b), excess(gauss, 1.0, b, a)) <= 1e-3
        # What they hand to accounting covers the released law at other epsilons as well.
        for epsilon in (0.25, 0.6):
            assert excess(laplace, epsilon, a, b) <= float(pure.privacy_loss().delta(epsilon))
            assert excess(gauss, epsilon, a, b) <= float(approximate.privacy_loss().delta(epsilon))
        # The allowance is needed: the scale without it does not protect values that round apart.
        worst = max(abs(mp.log(wrong[j - a] / wrong[j - b])) for j in outputs)
        assert (worst > 1) == (a != b)


# ---- what is released


@pytest.mark.statistical
def test_outputs_do_not_betray_the_input() -> None:
    """Mironov: with floating-point addition the reachable outputs depend on the value; here they do not."""
    m = Laplace(epsilon=1.0, sensitivity=1.0)
    n = 200_000
    lows = []
    for value in (0.0, 1.0, 0.1, 1 / 3, 1000.1):
        out = np.asarray(m.release(np.full(n, value)))
        cells = out / m.grid
        assert np.array_equal(cells, np.rint(cells))
        counts = np.bincount(cells.astype(np.int64) % 128, minlength=128)
        assert stats.chisquare(counts).pvalue > 1e-9  # five of these: failure below 1e-8
        lows.append(counts)
    assert all((c > 0).all() for c in lows)
    # The textbook implementation fails the same test.
    rng = np.random.default_rng(1)
    floats = 1 / 3 + rng.laplace(0.0, m.scale, n)
    assert not np.array_equal(floats / m.grid, np.rint(floats / m.grid))


def test_every_output_is_reachable_from_every_input() -> None:
    m = Laplace(scale=2.0, sensitivity=1.0, grid=1.0)
    reach = []
    for value in (0.0, 1.0, 2.0, 0.4, 1.6):
        out = np.asarray(m.release(np.full(100_000, value)))
        reach.append(set(out[np.abs(out) <= 8]))  # each of 17 values expects more than 300 draws
    assert all(r == reach[0] for r in reach)
    assert len(reach[0]) == 17
    # Wrong on purpose: grid noise added to the value as it is reaches another set from each value.
    noise = np.asarray(m.release(np.zeros(1000)))
    assert not set(0.4 + noise) & set(1.5 + noise)


def agrees(m: Laplace | Gaussian, error: np.ndarray) -> bool:
    """Whether errors of releases look as the mechanism states them; a right one fails with probability 1e-8."""
    n, stated = len(error), m.error()
    # Six standard errors of the two means; the fourth moments are at most 24 scale^4.
    absolute = abs(np.abs(error).mean() - stated.absolute) < 6 * m.scale / math.sqrt(n)
    squared = abs((error**2).mean() - stated.squared) < 6 * 4.5 * m.scale**2 / math.sqrt(n)
    inside = int((np.abs(error) <= m.interval(0.9).half_width).sum())
    return bool(absolute and squared and stats.binomtest(inside, n, 0.9).pvalue > 1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize("value", [0.0, 12345.678, -1e-9])
def test_released_values_have_the_stated_error(value: float) -> None:
    n = 200_000
    for m in (Laplace(epsilon=0.5, sensitivity=1.0), Gaussian(epsilon=1.0, delta=1e-6, sensitivity=2.0)):
        released = np.asarray(m.release(np.full(n, value)))
        assert agrees(m, released - value)
        # Wrong on purpose: noise of a scale four per cent off, and noise that is not centred. Of the mean absolute
        # error alone that is 17 and 31 standard errors (Laplace), 14 and 28 (normal), where six are allowed.
        assert not agrees(m, np.asarray(type(m)(scale=1.04 * m.scale).release(np.full(n, value))) - value)
        assert not agrees(m, released - value + 0.4 * m.scale)


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.5, 40.0])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999999])
def test_discrete_errors_and_intervals_exactly(scale: float, level: float) -> None:
    k = np.arange(-4000, 4001)
    for m, w in (
        (DiscreteLaplace(scale=scale), np.exp(-np.abs(k) / scale)),
        (DiscreteGaussian(sigma=scale), np.exp(-0.5 * (k / scale) ** 2)),
    ):
        p = w / math.fsum(w)
        assert m.error().absolute == pytest.approx(float((p * np.abs(k)).sum()), rel=1e-10)
        assert m.error().squared == pytest.approx(float((p * k * k).sum()), rel=1e-10)
        half = m.interval(level).half_width
        assert half == int(half)
        assert p[np.abs(k) <= half].sum() >= level * (1 - 1e-13)
        assert half == 0 or p[np.abs(k) <= half - 1].sum() < level


@pytest.mark.parametrize("level", [1e-9, 0.3, 0.5, 0.95, 1 - 1e-9])
@pytest.mark.parametrize("ratio", [2.0**-9, 0.3, 1.0, 20.3])
@pytest.mark.parametrize("kind", [Laplace, Gaussian])
def test_errors_and_intervals_on_a_grid_exactly(kind: Any, ratio: float, level: float) -> None:
    """Against the sums over the released law, with mpmath: bounds, and the smallest ones."""
    grid = 0.25
    on = kind(scale=ratio * grid, grid=grid, values_on_grid=True)
    with mp.workdps(40):

        def beyond(k: int) -> mp.mpf:  # Pr[abs(noise) >= k cells]
            x = (mp.mpf(k) - 0.5) / mp.mpf(ratio)
            return mp.exp(-x) if kind is Laplace else mp.erfc(x / mp.sqrt(2))

        width = on.interval(level).half_width / grid
        assert width == int(width)
        assert beyond(int(width) + 1) <= 1 - mp.mpf(level)
        assert width == 0 or beyond(int(width)) > 1 - mp.mpf(level)
        off = kind(scale=ratio * grid, grid=grid)
        assert off.interval(level).half_width == on.interval(level).half_width + grid / 2
        if level != 0.5:
            return
        tails = [beyond(k) for k in range(1, 4 + int((100 if kind is Laplace else 16) * ratio))]
        absolute = grid * mp.fsum(tails)
        squared = grid**2 * mp.fsum((2 * k + 1) * t for k, t in enumerate(tails))
        assert absolute <= on.error().absolute <= absolute * (1 + mp.mpf(10) ** -10) + 5e-324
        assert squared <= on.error().squared <= squared * (1 + mp.mpf(10) ** -10) + 5e-324
        # Values off the grid are at most half a cell away from it, and may be all of that.
        assert off.error().squared == pytest.approx(float(squared) + grid**2 / 4, rel=1e-9)
        assert off.error().absolute == pytest.approx(float(absolute + grid / 2 * (1 - beyond(1))), rel=1e-9)


def test_gaussian_errors_on_both_sides_of_the_sums() -> None:
    # 1000 cells a deviation: below, the sums themselves; above, their expansion.
    below = Gaussian(sigma=1000.0, grid=1.0, values_on_grid=True).error()
    above = Gaussian(sigma=math.nextafter(1000.0, 2000.0), grid=1.0, values_on_grid=True).error()
    assert below.absolute == pytest.approx(above.absolute, rel=3e-12)
    assert below.squared == pytest.approx(above.squared, rel=3e-12)


def test_discrete_gaussian_interval_beyond_the_sums() -> None:
    for sigma in (1000.5, 1e6):
        m = DiscreteGaussian(sigma=sigma)
        assert m.interval(0.95).half_width == pytest.approx(1.959964 * sigma, rel=1e-3)
        assert m.error().squared == pytest.approx(sigma**2, rel=1e-6)


def test_shapes_and_types() -> None:
    laplace = Laplace(epsilon=1.0, sensitivity=1.0)
    assert type(laplace.release(1.0)) is float
    assert type(laplace.release(1)) is float
    assert type(laplace.release(np.float32(1))) is float
    assert np.asarray(laplace.release([[1, 2], [3, 4]])).shape == (2, 2)
    assert np.asarray(laplace.release(np.zeros((0, 3)))).shape == (0, 3)
    assert np.asarray(laplace.release(np.arange(6.0).reshape(2, 3)[:, ::2])).shape == (2, 2)
    counts = DiscreteLaplace(epsilon=1.0, sensitivity=1)
    assert type(counts.release(5)) is int
    assert np.asarray(counts.release([1, 2, 3])).dtype == np.int64
    vector = Gaussian(epsilon=1.0, delta=1e-6, sensitivity=1.0, dimension=3, norm="l2")
    assert np.asarray(vector.release(np.zeros((5, 3)))).shape == (5, 3)
    for bad in (1.0, [1.0, 2.0], np.zeros((3, 5))):
        with pytest.raises(ValueError, match="last axis has length 3"):
            vector.release(bad)
    with pytest.raises(ValueError, match="last axis has length 2"):
        DiscreteLaplace(epsilon=1.0, sensitivity=1, dimension=2, norm="l1").release(3)
    for text in ("a", None, [1j]):
        with pytest.raises(TypeError, match="value must be"):
            laplace.release(text)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="value must be an integer"):
        counts.release(1.5)


def test_odd_private_values_do_not_raise() -> None:
    odd = [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 0.0]
    for m in (Laplace(epsilon=1.0, sensitivity=1.0), Gaussian(epsilon=1.0, delta=1e-6, sensitivity=1e-6)):
        out = np.asarray(m.release(odd))
        assert np.isfinite(out).all()
        assert m.release(math.nan, rng=InsecureTestRng(1)) == m.release(0.0, rng=InsecureTestRng(1))
        assert m.release(math.inf) > 1e23 * m.scale
        assert m.release(-math.inf) < -1e23 * m.scale
    counts = DiscreteLaplace(epsilon=1e-12, sensitivity=1)
    for end in (2**63 - 1, -(2**63), 2**100, -(2**100)):
        assert abs(counts.release(end)) > 2**62
    assert Exponential(epsilon=1.0, sensitivity=1.0).release([math.nan, math.inf, 3.0]) == 1


@pytest.mark.parametrize("odd", [2**63, 2**64, -(2**63) - 1, 10**400, -(10**400)], ids=lambda x: x.bit_length())
def test_integers_of_any_size_do_not_raise(odd: int) -> None:
    """NumPy makes objects, or floats, of large integers: whether it does must not show."""
    ones: list[Any] = [Laplace(epsilon=1.0, sensitivity=1.0), Gaussian(sigma=1.0), DiscreteLaplace(scale=1.0)]
    ones += [DiscreteGaussian(scale=1.0), RandomizedResponse(epsilon=1.0, categories=3)]
    end = 2**63 - 1 if odd > 0 else -(2**63)
    for m in ones:
        for value, same in (
            (odd, end),
            ([odd, -1, 0], [end, -1, 0]),
            (np.array([odd, 1], dtype=object), [end, 1]),
        ):
            got, want = (m.release(x, rng=InsecureTestRng(2)) for x in (value, same))
            assert np.array_equal(got, want)
            assert np.shape(got) == np.shape(same)
    assert Exponential(epsilon=1.0, sensitivity=1.0).release([odd, 0]) == (0 if odd > 0 else 1)
    assert Bernstein(epsilon=1.0, sensitivity=1.0, lattice=1).release([odd, 0]).values.shape == (2,)
    for wrong in ([odd, None], [odd, "1"], [odd, 1j]):
        with pytest.raises(TypeError, match="value must be"):
            ones[0].release(wrong)


def test_integers_beyond_doubles_keep_their_distance() -> None:
    """Neighbouring integers made doubles may be 2 apart, or 1024: the sensitivity would be that."""
    for m in (Laplace(scale=2.0**60, grid=1.0 * 2**20), Gaussian(sigma=2.0**60, grid=2.0**20)):
        cell = 2**20
        for base in (2**62, -(2**62) + 2**19):
            seeds = range(40)
            for value in (base - 1, base, base + 1, base + cell // 2, base + cell // 2 + 1):
                want = cell_of(value, cell) * cell if value < 2**53 else round(Fraction(value, cell)) * cell
                got = {
                    m.release(value, rng=InsecureTestRng(s)) - m.release(0, rng=InsecureTestRng(s)) for s in seeds
                }
                # Sums below 2^53 cells are exact, so the difference is that of the rounded values.
                assert got == {float(want)}
                many = [np.asarray(m.release([value], rng=InsecureTestRng(s)))[0] for s in seeds]
                none = [np.asarray(m.release([0], rng=InsecureTestRng(s)))[0] for s in seeds]
                assert {x - y for x, y in zip(many, none, strict=True)} == {float(want)}
    with pytest.raises(TypeError, match="up to float64"):
        Laplace(scale=1.0).release(np.array([1.0], dtype=np.longdouble))


def test_large_values_keep_their_noise() -> None:
    # A world population with unit noise: 8e9 units of 2^40 cells overflow 64-bit integers.
    m = Laplace(epsilon=1.0, sensitivity=1.0)
    out = np.asarray(m.release(np.full(1000, 8e9)))
    assert 0.5 < np.abs(out - 8e9).mean() < 2  # standard error 0.03


def test_same_seed_same_release() -> None:
    for m, value in zip(ALL, (1.5, 1.5, 3, 3, [1, 2, 3], 1, 4, [1.0, 2.0], np.zeros(5)), strict=True):
        a, b = (m.release(value, rng=InsecureTestRng(9)) for _ in range(2))
        if isinstance(m, Bernstein):
            a, b = a.values, b.values
        assert np.array_equal(a, b)
        with pytest.raises(TypeError, match="rng must be None"):
            m.release(value, rng=np.random.default_rng(1))


# ---- the lecture: counts, means, vectors


def test_mean_of_the_lecture() -> None:
    n, epsilon = 1000, 0.5
    sensitivity = mechanisms.mean_sensitivity(lower=0.0, upper=1.0, records=n, neighbours="replace")
    m = Laplace(epsilon=epsilon, sensitivity=sensitivity, neighbours="replace")
    assert m.error().squared == pytest.approx(2 / (epsilon * n) ** 2, rel=1e-8)  # the risk, not 1/(eps n)^2
    assert "replacing one record" in m.statement


def test_sensitivities() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        low, high = sorted(rng.uniform(-5, 5, 2))
        n = int(rng.integers(1, 6))
        x = rng.choice([low, high], n)
        y, z = x.copy(), np.append(x, rng.choice([low, high]))
        y[0] = low + high - x[0]
        replace: dict[str, Any] = {"lower": low, "upper": high, "neighbours": "replace"}
        add: dict[str, Any] = {"lower": low, "upper": high, "neighbours": "add_remove"}
        slack = 1 + 1e-12
        assert abs(x.mean() - y.mean()) <= mechanisms.mean_sensitivity(records=n, **replace) * slack
        assert abs(x.mean() - z.mean()) <= mechanisms.mean_sensitivity(records=n, **add) * slack
        assert abs(x.sum() - y.sum()) <= mechanisms.sum_sensitivity(**replace) * slack
        assert abs(x.sum() - z.sum()) <= mechanisms.sum_sensitivity(**add) * slack
    assert Fraction(mechanisms.histogram_sensitivity(norm="l2", neighbours="replace")) ** 2 >= 2
    assert mechanisms.count_sensitivity(neighbours="add_remove") == 1.0
    for call in (mechanisms.count_sensitivity, mechanisms.histogram_sensitivity):
        with pytest.raises(TypeError, match="neighbours"):
            call()  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="upper must be greater"):
        mechanisms.sum_sensitivity(lower=1.0, upper=1.0, neighbours="replace")
    with pytest.raises(ValueError, match="neighbours must be one of"):
        mechanisms.count_sensitivity(neighbours="other")


# ---- randomised response and selection


@pytest.mark.statistical
def test_estimated_shares() -> None:
    m = RandomizedResponse(epsilon=1.0, categories=3)
    truth = np.repeat([0, 1, 2], [100_000, 60_000, 40_000])
    shares = m.estimate(m.release(truth))
    assert shares.sum() == pytest.approx(1.0)
    width = m.interval(1 - 1e-9, responses=200_000).half_width
    assert np.abs(shares - [0.5, 0.3, 0.2]).max() < width < 0.05
    assert m.error(responses=200_000).absolute < width
    # Wrong on purpose: the shares of the responses themselves.
    assert np.abs(np.bincount(m.release(truth)) / len(truth) - [0.5, 0.3, 0.2]).max() > width
    with pytest.raises(ValueError, match="responses must lie in"):
        m.estimate([3])


@pytest.mark.statistical
def test_selection_gap() -> None:
    m = Exponential(epsilon=2.0, sensitivity=1.0)
    scores = np.array([0.0] * 99 + [10.0])
    gaps = np.array([10.0 - scores[m.release(scores)] for _ in range(4000)])
    assert gaps.mean() <= m.error(candidates=100).absolute
    assert (gaps > m.interval(0.9, candidates=100).half_width).mean() <= 0.1
    # Exactly: e^10/(e^10 + 99) is chosen right.
    right = math.exp(10) / (math.exp(10) + 99)
    assert stats.binomtest(int((gaps == 0).sum()), 4000, right).pvalue > 1e-9
    # Wrong on purpose: the factor halved, as for scores that are not monotone, twice.
    wrong = Exponential(factor=m.factor / 2)
    misses = sum(scores[wrong.release(scores)] == 10.0 for _ in range(4000))
    assert stats.binomtest(misses, 4000, right).pvalue < 1e-9


# ---- Bernstein


def plain_bernstein(values: np.ndarray, y: float) -> float:
    k = len(values) - 1
    return sum(v * math.comb(k, j) * y**j * (1 - y) ** (k - j) for j, v in enumerate(values))


def test_bernstein_polynomials_from_their_definition() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=8)
    k = 7
    for order in (1, 2, 3):
        release = Bernstein(epsilon=1e9, sensitivity=1e-9, lattice=k, order=order).release(values)
        noisy = release.values
        # sum_i C(h, i) (-1)^(i - 1) B^i f, operator by operator
        powers, f = [], noisy
        for _ in range(order):
            powers.append(f)
            f = np.array([plain_bernstein(f, j / k) for j in range(k + 1)])
        for y in (0.0, 0.1, 0.5, 0.99, 1.0):
            want = sum(
                math.comb(order, i) * (-1) ** (i - 1) * plain_bernstein(powers[i - 1], y)
                for i in range(1, order + 1)
            )
            assert release(y) == pytest.approx(want, rel=1e-10, abs=1e-12)


def test_bernstein_in_two_dimensions() -> None:
    m = Bernstein(epsilon=1e9, sensitivity=1e-9, lattice=6, order=3, dimension=2)
    release = m.release(lambda y: y[..., 0] * (1 - y[..., 1]))
    points = np.random.default_rng(2).uniform(size=(4, 5, 2))
    got = np.asarray(release(points))
    assert got.shape == (4, 5)
    # Bernstein operators reproduce functions that are affine in each coordinate.
    assert got == pytest.approx(points[..., 0] * (1 - points[..., 1]), abs=1e-7)
    assert isinstance(release([0.5, 0.5]), float)


def test_bernstein_noise_is_that_of_the_paper() -> None:
    m = Bernstein(epsilon=2.0, sensitivity=0.3, lattice=5, dimension=2, order=1)
    assert m.scale == pytest.approx(0.3 * 36 / 2.0, rel=1e-7)
    assert m.scale >= 0.3 * 36 / 2.0
    assert m.points().shape == (6, 6, 2)
    width = m.interval(0.99).half_width
    worst = [np.abs(m.release(np.zeros((6, 6))).values).max() for _ in range(300)]
    assert np.mean(np.array(worst) <= width) > 0.95  # 0.99 is promised; 0.95 is seven standard errors below
    # Wrong on purpose: twice the noise.
    double = Bernstein(epsilon=1.0, sensitivity=0.3, lattice=5, dimension=2, order=1)
    worst = [np.abs(double.release(np.zeros((6, 6))).values).max() for _ in range(300)]
    assert np.mean(np.array(worst) <= width) < 0.95


@pytest.mark.statistical
def test_bernstein_interval_holds_everywhere() -> None:
    m = Bernstein(epsilon=1.0, sensitivity=0.1, lattice=6, order=3)
    grid = np.linspace(0, 1, 50)
    worst = np.array([np.abs(m.release(np.zeros(7))(grid)).max() for _ in range(300)])
    assert (worst <= m.interval(0.9).half_width).mean() >= 0.8  # 0.9 is promised; 0.8 is six standard errors below
    # Wrong on purpose: the lattice counted three times in the scale of the noise.
    wrong = Bernstein(epsilon=1.0, sensitivity=0.1 * 49, lattice=6, order=3)
    assert (
        m.interval(0.9).half_width
        < 4 * Bernstein(epsilon=1.0, sensitivity=0.1, lattice=6).interval(0.9).half_width
    )
    worst = np.array([np.abs(wrong.release(np.zeros(7))(grid)).max() for _ in range(300)])
    assert (worst <= m.interval(0.9).half_width).mean() < 0.8


def test_bernstein_bad_input() -> None:
    for bad in (
        {"lattice": 0},
        {"order": 0},
        {"dimension": 0},
        {"lattice": 10**4, "dimension": 2},
        {"lattice": 4097, "order": 2},
    ):
        with pytest.raises(ValueError, match=r"lattice|order|dimension"):
            Bernstein(**{"epsilon": 1.0, "sensitivity": 1.0, "lattice": 3, **bad})  # type: ignore[arg-type]
    m = Bernstein(epsilon=1.0, sensitivity=1.0, lattice=3)
    with pytest.raises(ValueError, match=r"shape \(4,\)"):
        m.release(np.zeros(5))
    with pytest.raises(ValueError, match="points must be"):
        m.release(np.zeros(4))([1.5])
    assert np.isfinite(m.release(np.array([math.nan, math.inf, 0.0, 1.0])).values).all()


# ---- construction


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("name", ["epsilon", "sensitivity", "scale", "delta"])
def test_bad_parameters(name: str, bad: float) -> None:
    cases: list[tuple[Any, dict[str, Any]]] = [
        (Laplace, {"epsilon": 1.0, "sensitivity": 1.0}),
        (Gaussian, {"epsilon": 1.0, "delta": 1e-6, "sensitivity": 1.0}),
        (DiscreteLaplace, {"epsilon": 1.0, "sensitivity": 1}),
        (DiscreteGaussian, {"epsilon": 1.0, "delta": 1e-6, "sensitivity": 1}),
        (Exponential, {"epsilon": 1.0, "sensitivity": 1.0}),
        (RandomizedResponse, {"epsilon": 1.0}),
        (Bernstein, {"epsilon": 1.0, "sensitivity": 1.0, "lattice": 3}),
    ]
    for kind, arguments in cases:
        if name in arguments:
            with pytest.raises((ValueError, TypeError), match=name):
                kind(**{**arguments, name: bad})
        elif name == "scale" and kind in (Laplace, Gaussian, DiscreteLaplace, DiscreteGaussian):
            with pytest.raises(ValueError, match="scale must be"):
                kind(scale=bad)


def test_arguments_that_do_not_go_together() -> None:
    for kind in (Laplace, DiscreteLaplace):
        with pytest.raises(TypeError, match="exactly one of epsilon or scale"):
            kind()
        with pytest.raises(TypeError, match="exactly one of epsilon or scale"):
            kind(epsilon=1.0, scale=1.0, sensitivity=1)
        with pytest.raises(TypeError, match="sensitivity must be given"):
            kind(epsilon=1.0)
        with pytest.raises(TypeError, match="norm must be given"):
            kind(epsilon=1.0, sensitivity=1, dimension=2)
    for kind in (Gaussian, DiscreteGaussian):
        with pytest.raises(TypeError, match="delta must be given"):
            kind(epsilon=1.0, sensitivity=1)
        with pytest.raises(TypeError, match="delta must be given"):
            kind(sigma=1.0, delta=1e-6)
        with pytest.raises(TypeError, match="exactly one of"):
            kind(sigma=1.0, scale=2.0)
        with pytest.raises(TypeError, match="norm must be given"):
            kind(sigma=1.0, sensitivity=1, dimension=2)
    with pytest.raises(TypeError, match="grid must be given"):
        Laplace(epsilon=1.0, sensitivity=1.0, values_on_grid=True)
    with pytest.raises(TypeError):
        Laplace(1.0, 1.0)  # type: ignore[misc]
    with pytest.raises(ValueError, match="norm must be 'l1' or 'linf'"):
        DiscreteLaplace(epsilon=1.0, sensitivity=1, dimension=2, norm="l2")
    with pytest.raises(ValueError, match="neighbours must be one of"):
        Laplace(epsilon=1.0, sensitivity=1.0, neighbours="bounded")


def test_budgets_that_cannot_be_kept_are_refused_at_construction() -> None:
    for build in (
        lambda: Laplace(epsilon=1e-16, sensitivity=1.0),
        lambda: Gaussian(epsilon=1e-9, delta=1e-300, sensitivity=1e-3, dimension=10**12, norm="l2"),
        lambda: Bernstein(epsilon=1e-9, sensitivity=1.0, lattice=3000, dimension=2),
    ):
        with pytest.raises(ValueError, match="epsilon must be large enough"):
            build()
    # The edge: 2^50 cells, of which the allowance is 1/epsilon.
    edge = Laplace(epsilon=2.0**-49, sensitivity=1.0)
    assert edge.scale < edge.grid * 2**50
    edge.release(1.0)
    with pytest.raises(ValueError, match=r"sensitivity / epsilon must be a number in .* got inf"):
        Laplace(epsilon=1e-300, sensitivity=1e300)
    with pytest.raises(ValueError, match="sensitivity / scale must be a finite number"):
        Laplace(scale=1e-200, sensitivity=1e300)
    # Factors beyond doubles are rounded down, so the promise holds.
    assert math.isfinite(Exponential(epsilon=1e300, sensitivity=1e-300).factor)
    for bad in ("no", 1, None, np.True_):
        with pytest.raises(TypeError, match="values_on_grid must be True or False"):
            Laplace(epsilon=1.0, sensitivity=1.0, grid=1.0, values_on_grid=bad)


def test_whole_sensitivities_may_be_floats() -> None:
    one = mechanisms.count_sensitivity(neighbours="add_remove")
    assert DiscreteLaplace(epsilon=1.0, sensitivity=one) == DiscreteLaplace(epsilon=1.0, sensitivity=1)
    assert DiscreteGaussian(epsilon=1.0, delta=1e-6, sensitivity=np.float64(2)).sensitivity == 2
    for bad in (1.5, 0.0, math.nan, math.inf, True, "1"):
        with pytest.raises((ValueError, TypeError), match="sensitivity must be an integer"):
            DiscreteLaplace(epsilon=1.0, sensitivity=bad)  # type: ignore[arg-type]


def test_counts_on_their_grid_need_no_allowance() -> None:
    m = Laplace(epsilon=1.0, sensitivity=1.0, grid=1.0, values_on_grid=True)
    assert m.scale == 1.0
    assert float(m.release(10.0)).is_integer()
    g = Gaussian(epsilon=1.0, delta=1e-6, sensitivity=1.0, grid=1.0, values_on_grid=True)
    assert g.sigma == gaussian.sigma(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    # Without the promise a coarse grid costs what it moves.
    assert Laplace(epsilon=1.0, sensitivity=1.0, grid=1.0).scale == 2.0


def test_mechanisms_without_sensitivity_say_so() -> None:
    for m in (Laplace(scale=1.0), Gaussian(sigma=1.0), DiscreteLaplace(scale=1.0), DiscreteGaussian(scale=1.0)):
        assert "no privacy is stated" in m.statement
        assert m.epsilon is None
        with pytest.raises(ValueError, match="no privacy loss"):
            m.privacy_loss()
    assert "no privacy is stated" in Exponential(factor=1.0).statement


@pytest.mark.parametrize("m", ALL, ids=lambda m: type(m).__name__)
def test_mechanisms_are_values(m: Any) -> None:
    assert pickle.loads(pickle.dumps(m)) == m
    assert copy.deepcopy(m) == m
    assert hash(copy.copy(m)) == hash(m)
    assert m.to_dict()["statement"] == m.statement
    assert "differentially private" in m.statement
    with pytest.raises(AttributeError):
        m.epsilon = 2.0


def test_intervals_and_errors_in_words() -> None:
    interval = Laplace(epsilon=1.0, sensitivity=1.0).interval(0.95)
    assert interval.half_width == pytest.approx(math.log(20), rel=1e-8)
    assert float(interval) == interval.half_width
    assert interval.around(5.0) == (5.0 - interval.half_width, 5.0 + interval.half_width)
    assert "0.95" in interval.statement
    assert "average" in Laplace(scale=1.0).error().statement
    for bad in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="level must be"):
            Laplace(scale=1.0).interval(bad)


def test_mechanisms_use_the_secure_stream_by_default() -> None:
    m = DiscreteLaplace(scale=1e12)
    assert m.release(0) != m.release(0)
    assert samplers.RandomnessError.__mro__[1] is RuntimeError
