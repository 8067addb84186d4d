"""Risk: confidences against 25-digit tables, simulation and closed forms; costs; disclosure budgets.

Statistical tests: level 1e-7 each (5.33 standard deviations of a binomial share), 12 comparisons in this module,
so the module fails by chance about once in a million runs.
"""

import itertools
import json
import math
import pathlib

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import special

from dpcore import _core, risk

DATA = pathlib.Path(__file__).parent / "data"
ROWS = json.loads((DATA / "risk_confidence.json").read_text())["rows"]
LEVELS = st.floats(1e-6, 50.0)


def relative(got, want):
    with mp.workdps(40):
        return float(abs(mp.mpf(float(got)) / mp.mpf(want) - 1))


# --- the published confidence -------------------------------------------------------------------------------


def test_cdf_keeps_its_guarantee_on_the_reference_table():
    for row in ROWS:
        x = float(row["x"])
        got = _core.laplace_difference_cdf(np.array([x]), row["k"])[0]
        assert relative(got, row["cdf"]) <= (1e-14 if x <= 12 else 1e-13), row


def test_table_straddles_every_regime():
    xs = {float(row["x"]) for row in ROWS}
    assert {0.5, 1.0, 1.6, 4.0, 4.1, 12.0, math.nextafter(12.0, 13.0)} <= xs
    assert {1, 2, 64, 65, 66, 100_000} <= {row["k"] for row in ROWS}


@pytest.mark.parametrize("k", [1, 2, 7, 64, 65, 3000])
@pytest.mark.parametrize("x", [0.3, 0.5, 1.5, 4.0, 12.0, 12.5, 60.0])
def test_density_is_the_derivative(k, x):
    h = 1e-4 * x
    points = np.array([x - 2 * h, x - h, x + h, x + 2 * h])
    a, b, c, d = _core.laplace_difference_cdf(points, k)
    slope = (a - 8 * b + 8 * c - d) / (12 * h)
    density = _core.laplace_difference_pdf(np.array([x]), k)[0]
    # The differences lose about 1e-16/1e-4 of the cdf.
    assert density == pytest.approx(slope, rel=1e-9, abs=4e-12 / x)


@pytest.mark.parametrize("k", [1, 5, 100, 100_000])
def test_cdf_rises_to_one_and_stays_finite_at_the_edges(k):
    x = np.concatenate([[0.0], np.geomspace(1e-300, 1e300, 601)])
    cdf = _core.laplace_difference_cdf(x, k)
    assert cdf[0] == 0
    assert cdf[-1] == 1
    assert np.all(np.diff(cdf) >= -4e-16)
    assert np.all(np.isfinite(cdf))
    density = _core.laplace_difference_pdf(x, k)
    assert np.all(np.diff(density) <= 1e-15 * density[0])


def test_published_numbers():
    published = {"method": "published"}
    assert risk.laplace_confidence(epsilon=0.6, epsilon0=1.0, **published) == pytest.approx(0.713769, abs=5e-7)
    assert risk.epsilon0_for(epsilon=0.4, confidence=0.6, **published) == pytest.approx(
        0.7973230425095923, rel=1e-14
    )
    # Equation 4
    for c, e0 in ((0.1, 0.3), (0.6, 0.8), (0.99, 5.0)):
        want = math.log(1 / (1 - c * (1 - math.exp(-e0))))
        assert risk.epsilon_at_confidence(confidence=c, epsilon0=e0, **published) == pytest.approx(want, rel=1e-13)


@settings(max_examples=80, deadline=None)
@given(confidence=st.floats(1e-6, 1 - 1e-9), epsilon0=LEVELS, k=st.sampled_from([1, 2, 5, 80, 2000]))
@pytest.mark.parametrize("method", ["exact", "published"])
def test_epsilon_at_confidence_is_the_last_bit(method, confidence, epsilon0, k):
    how = {"dimension": k, "method": method}
    epsilon = risk.epsilon_at_confidence(confidence=confidence, epsilon0=epsilon0, **how)
    assert 0 < epsilon <= epsilon0
    assert risk.laplace_confidence(epsilon=epsilon, epsilon0=epsilon0, **how) >= confidence
    below = math.nextafter(epsilon, 0)
    assert risk.laplace_confidence(epsilon=below, epsilon0=epsilon0, **how) < confidence


@settings(max_examples=80, deadline=None)
@given(confidence=st.floats(1e-6, 1 - 1e-9), epsilon=LEVELS, k=st.sampled_from([1, 2, 5, 80, 2000]))
@pytest.mark.parametrize("method", ["exact", "published"])
def test_epsilon0_for_is_the_last_bit(method, confidence, epsilon, k):
    how = {"dimension": k, "method": method}
    epsilon0 = risk.epsilon0_for(epsilon=epsilon, confidence=confidence, **how)
    assert epsilon0 >= epsilon
    if math.isinf(epsilon0):
        assert method == "published"
        assert risk.laplace_confidence(epsilon=epsilon, epsilon0=1e12, **how) >= confidence
        return
    assert risk.laplace_confidence(epsilon=epsilon, epsilon0=epsilon0, **how) >= confidence
    above = math.nextafter(epsilon0, math.inf)
    assert risk.laplace_confidence(epsilon=epsilon, epsilon0=above, **how) < confidence


# --- the exact confidence -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "epsilon0"), [(1e-12, 1.0), (0.6, 1.0), (0.999999, 1.0), (3.0, 700.0), (1.0, 1400.0)]
)
def test_exact_confidence_to_full_precision(epsilon, epsilon0):
    with mp.workdps(40):
        want = mp.exp(-mp.mpf(epsilon0) / 2) * mp.sinh(mp.mpf(epsilon) / 2)
        assert relative(risk.laplace_confidence(epsilon=epsilon, epsilon0=epsilon0), want) <= 4 * 2.0**-52


def test_confidence_is_one_from_epsilon0_on_and_below_one_half_before():
    for e0 in (0.01, 1.0, 30.0):
        assert risk.laplace_confidence(epsilon=e0, epsilon0=e0) == 1.0
        assert risk.laplace_confidence(epsilon=2 * e0, epsilon0=e0) == 1.0
        before = risk.laplace_confidence(epsilon=math.nextafter(e0, 0), epsilon0=e0)
        assert before == pytest.approx(-math.expm1(-e0) / 2, rel=1e-12)
        assert before < 0.5


def split_confidence(parts, epsilon):
    """Pr[|loss| <= epsilon] when the difference is `parts` (in units of the noise scale), in closed form.

    The loss is a - 2 S, S = sum of min(Z_i, a_i) with Z_i = 0 or Exp(1) by a fair coin. With y the operator of
    integration, the law of S times e^s is the product of ((1 + y) + shift_{a_i} (1 - y))/2.
    """
    a = sum(parts)

    def at_most(v):
        total = 0.0
        for chosen in itertools.product((False, True), repeat=len(parts)):
            shift = sum(p for p, c in zip(parts, chosen, strict=True) if c)
            if v < shift:
                continue
            q = sum(chosen)
            c = np.poly1d([1, 1]) ** (len(parts) - q) * np.poly1d([-1, 1]) ** q
            coefficients = c.coeffs[::-1]
            mass = coefficients[0] + sum(
                coefficients[j] * special.gammainc(j, v - shift) for j in range(1, len(coefficients))
            )
            total += math.exp(-shift) * mass
        return total / 2 ** len(parts)

    u = (a - epsilon) / 2
    return at_most(a - u) - at_most(math.nextafter(u, -1))


@settings(max_examples=150, deadline=None)
@given(
    parts=st.lists(st.floats(0.05, 3.0), min_size=1, max_size=7),
    share=st.floats(0.01, 0.99),
)
def test_no_split_over_coordinates_is_worse_than_one_coordinate(parts, share):
    epsilon0 = sum(parts)
    bound = risk.laplace_confidence(epsilon=share * epsilon0, epsilon0=epsilon0)
    got = split_confidence(parts, share * epsilon0)
    assert got >= bound * (1 - 1e-9) - 1e-13
    if len(parts) == 1:
        assert got == pytest.approx(bound, rel=1e-9)


def simulated(rng, parts, epsilon, size):
    noise = rng.laplace(size=(size, len(parts)))
    loss = np.abs(noise - parts).sum(axis=1) - np.abs(noise).sum(axis=1)
    return np.count_nonzero(np.abs(loss) <= epsilon)


def standard_deviations(hits, size, share):
    return abs(hits - size * share) / math.sqrt(size * share * (1 - share))


@pytest.mark.statistical
@pytest.mark.parametrize(("epsilon", "epsilon0"), [(0.6, 1.0), (0.2, 0.5), (2.0, 3.0), (0.05, 0.1)])
def test_simulation_confirms_the_exact_confidence_and_refutes_the_published_one(epsilon, epsilon0):
    size = 1_000_000
    hits = simulated(np.random.default_rng(20), np.array([epsilon0]), epsilon, size)
    assert standard_deviations(hits, size, risk.laplace_confidence(epsilon=epsilon, epsilon0=epsilon0)) < 5.33
    wrong = risk.laplace_confidence(epsilon=epsilon, epsilon0=epsilon0, method="published")
    assert standard_deviations(hits, size, wrong) > 100


@pytest.mark.statistical
@pytest.mark.parametrize("parts", [(0.5, 0.5), (0.65, 0.25, 0.1), (0.25, 0.25, 0.25, 0.25)])
def test_simulation_confirms_the_closed_form_of_splits(parts):
    size = 400_000
    hits = simulated(np.random.default_rng(21), np.array(parts), 0.6, size)
    assert standard_deviations(hits, size, split_confidence(parts, 0.6)) < 5.33


# --- Gaussian -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [0.05, 0.4, 1.0, 3.0, 100.0])
@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 0.5, math.nextafter(1.0, 0), 1.0, 5.0, 80.0])
def test_gaussian_confidence(epsilon, sigma):
    with mp.workdps(60):
        m = 1 / mp.mpf(sigma)
        h = mp.mpf(epsilon) / m
        want = mp.ncdf(h - m / 2) - mp.ncdf(-h - m / 2)
    got = risk.gaussian_confidence(epsilon=epsilon, sigma=sigma)
    assert relative(got, want) <= (1e-13 if want > 1e-16 else 1e-12)


@pytest.mark.statistical
@pytest.mark.parametrize(("epsilon", "sigma"), [(0.5, 1.0), (1.0, 0.5)])
def test_simulation_confirms_the_gaussian_confidence(epsilon, sigma):
    size = 1_000_000
    noise = np.random.default_rng(22).normal(0, sigma, size)
    loss = ((noise - 1) ** 2 - noise**2) / (2 * sigma**2)
    hits = np.count_nonzero(np.abs(loss) <= epsilon)
    share = risk.gaussian_confidence(epsilon=epsilon, sigma=sigma)
    assert standard_deviations(hits, size, share) < 5.33
    assert standard_deviations(hits, size, risk.gaussian_confidence(epsilon=epsilon, sigma=1.05 * sigma)) > 5.33


def test_full_sensitivity_is_the_worst_case_of_the_gaussian():
    smaller = risk.gaussian_confidence(epsilon=0.7, sigma=1.3, sensitivity=np.linspace(0.01, 1, 100))
    assert np.all(np.diff(smaller) <= 0)
    assert smaller[-1] < smaller[50] < smaller[20] < 1


def test_theorem_2():
    # Valid with the exact confidence: the true delta of the Laplace mechanism is 1 - exp((epsilon - epsilon0)/2).
    e0 = 3.0
    for e in np.linspace(0.1, 2.9, 15):
        true = -math.expm1((e - e0) / 2)
        _, delta = risk.approximate_dp(epsilon=e, confidence=risk.laplace_confidence(epsilon=e, epsilon0=e0))
        assert delta >= true
    # False with the published one.
    wrong = risk.laplace_confidence(epsilon=2.0, epsilon0=e0, method="published")
    assert risk.approximate_dp(epsilon=2.0, confidence=wrong)[1] < -math.expm1((2.0 - e0) / 2)


# --- arrays -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["exact", "published"])
@pytest.mark.parametrize("k", [1, 5, 500])
def test_arrays_equal_scalars_bit_for_bit(method, k):
    rng = np.random.default_rng(3)
    e = rng.uniform(0.01, 30, (40, 3))
    e0 = rng.uniform(0.01, 60, (40, 1))
    c = rng.uniform(0.01, 0.99, 3)
    how = {"dimension": k, "method": method}
    out = risk.laplace_confidence(epsilon=e, epsilon0=e0, **how)
    inverse = risk.epsilon_at_confidence(confidence=c, epsilon0=e0, **how)
    inverse0 = risk.epsilon0_for(epsilon=e, confidence=c, **how)
    assert out.shape == inverse.shape == inverse0.shape == (40, 3)
    for i, j in itertools.product(range(40), range(3)):
        a, b, p = float(e[i, j]), float(e0[i, 0]), float(c[j])
        assert out[i, j] == risk.laplace_confidence(epsilon=a, epsilon0=b, **how)
        assert inverse[i, j] == risk.epsilon_at_confidence(confidence=p, epsilon0=b, **how)
        assert inverse0[i, j] == risk.epsilon0_for(epsilon=a, confidence=p, **how)
    assert type(risk.laplace_confidence(epsilon=1, epsilon0=2, **how)) is float
    same = risk.laplace_confidence(epsilon=e[:, 0], epsilon0=2.5, **how)
    assert same[7] == risk.laplace_confidence(epsilon=float(e[7, 0]), epsilon0=2.5, **how)


def test_dimension_broadcasts():
    out = risk.laplace_confidence(
        epsilon=[[0.3], [0.6]], epsilon0=1.0, dimension=np.array([1, 5, 5, 40]), method="published"
    )
    assert out.shape == (2, 4)
    assert out[1, 2] == risk.laplace_confidence(epsilon=0.6, epsilon0=1.0, dimension=5, method="published")
    assert out[0, 3] == risk.laplace_confidence(epsilon=0.3, epsilon0=1.0, dimension=40, method="published")


# --- costs --------------------------------------------------------------------------------------------------


def test_health_centre_as_published():
    model = risk.CostModel(full=5500 * 100)
    assert model.cost(0.5) == pytest.approx(74434.41, abs=0.005)
    best = model.cheapest(epsilon0=0.5, method="published")
    assert best.epsilon == pytest.approx(0.27411528355770165, rel=1e-13)
    assert best.cost == pytest.approx(37805.8566753631, rel=1e-13)
    assert best.uniqueness == "proved"
    # Equation 10
    e = best.epsilon
    assert 1 / e - math.log(1 - (1 - math.exp(e)) / e**2) == pytest.approx(1 / 0.5, rel=1e-13)
    # The paper's saving is 36628.532, from its own rounded figures 74434.40 and 37805.86 it would be 36628.54.
    assert best.saving == pytest.approx(36628.55, abs=0.005)


def test_health_centre_with_the_exact_confidence():
    best = risk.CostModel(full=550_000).cheapest(epsilon0=0.5)
    with mp.workdps(30):
        full = mp.mpf(550_000)

        def at_risk(e):
            confidence = mp.exp(-mp.mpf("0.25")) * mp.sinh(e / 2)
            return confidence * full * mp.exp(-1 / e) + (1 - confidence) * full * mp.exp(-2)

        want = mp.findroot(mp.memoize(lambda e: mp.diff(at_risk, e)), mp.mpf("0.28"))
        assert relative(best.epsilon, want) < 1e-13
        assert relative(best.cost, at_risk(want)) < 1e-13
    assert round(best.cost, 2) == 67978.95


@settings(max_examples=60, deadline=None)
@given(
    epsilon0=st.floats(1e-3, 60.0),
    rate=st.floats(0.05, 20.0),
    k=st.sampled_from([1, 4, 60]),
    method=st.sampled_from(["exact", "published"]),
)
@example(epsilon0=8.0, rate=0.125, k=1, method="exact")
def test_no_level_is_cheaper_than_the_cheapest(epsilon0, rate, k, method):
    model = risk.CostModel(full=1000.0, floor=10.0, rate=rate)
    best = model.cheapest(epsilon0=epsilon0, method=method, dimension=k)
    grid = np.geomspace(1e-4 * epsilon0, epsilon0, 400)
    costs = model.cost_at_risk(epsilon=grid, epsilon0=epsilon0, method=method, dimension=k)
    assert best.cost <= np.min(costs) * (1 + 1e-14)
    assert 0 < best.epsilon < epsilon0


def test_custom_cost():
    # For cost epsilon^2 and the published confidence with one coordinate: (1 - e^-e)(1 - e^2) is largest at
    model = risk.CostModel.custom(lambda e: 1000 * e * e)
    best = model.cheapest(epsilon0=1.0, method="published")
    want = mp.findroot(lambda e: mp.exp(-e) * (1 - e * e) - (1 - mp.exp(-e)) * 2 * e, 0.5)
    assert best.epsilon == pytest.approx(float(want), abs=1e-7)
    assert best.uniqueness == "checked"
    # The built-in cost as a callable gives the built-in answer.
    same = risk.CostModel.custom(lambda e: 550_000 * math.exp(-1 / e)).cheapest(epsilon0=0.5)
    assert same.cost == pytest.approx(risk.CostModel(full=550_000).cheapest(epsilon0=0.5).cost, rel=1e-12)


def test_several_local_minima_are_all_looked_at():
    model = risk.CostModel(full=1000.0, rate=0.125)
    best = model.cheapest(epsilon0=8.0)
    assert best.uniqueness == "the lowest of 2 local minima, checked"
    grid = np.unique(np.concatenate([np.geomspace(1e-3, 7.999, 20_000), np.linspace(1e-3, 7.999, 20_000)]))
    costs = model.cost_at_risk(epsilon=grid, epsilon0=8.0)
    inner = costs[1:-1]
    assert np.count_nonzero((inner < costs[:-2]) & (inner < costs[2:])) == 2
    assert best.cost <= np.min(costs) * (1 + 1e-14)
    assert best.cost == pytest.approx(np.min(costs), rel=1e-6)


@pytest.mark.parametrize("epsilon0", [300.0, 1e4, 1e6])
@pytest.mark.parametrize("method", ["exact", "published"])
def test_cheapest_far_out(epsilon0, method):
    model = risk.CostModel(full=1000.0, rate=5.0)
    best = model.cheapest(epsilon0=epsilon0, method=method)
    grid = np.geomspace(1e-3, epsilon0, 2000)
    assert best.cost <= np.min(model.cost_at_risk(epsilon=grid, epsilon0=epsilon0, method=method)) * (1 + 1e-14)


def test_range_just_below_the_plain_cost():
    model = risk.CostModel(full=550_000)
    budget = math.nextafter(model.cost(0.5), 0)
    found = model.epsilon_range(budget=budget, epsilon0=0.5)
    assert found.feasible
    assert 0 < found.lower < found.upper < 0.5


def test_costs_that_are_not_convex_are_refused():
    with pytest.raises(risk.NotConvexError, match="convex"):
        risk.CostModel.custom(math.sqrt).cheapest(epsilon0=1.0)
    with pytest.raises(risk.NotConvexError, match="non-decreasing"):
        risk.CostModel.custom(lambda e: 5 - e).cheapest(epsilon0=1.0)
    with pytest.raises(risk.NotConvexError, match="convex"):  # Equation 8 itself, beyond rate/2
        risk.CostModel.custom(lambda e: math.exp(-1 / e)).cheapest(epsilon0=2.0)
    with pytest.raises(ValueError, match="function"):
        risk.CostModel.custom(lambda e: -1.0).cheapest(epsilon0=1.0)


def test_epsilon_range():
    model = risk.CostModel(full=550_000)
    wide = model.epsilon_range(budget=80_000, allowed_error=2.0)
    assert wide.feasible
    assert wide.lower == 0.5
    assert model.cost(wide.upper) <= 80_000 < model.cost(math.nextafter(wide.upper, 1) * (1 + 1e-14))
    narrow = model.epsilon_range(budget=20_000, allowed_error=2.0)
    assert not narrow.feasible
    assert "the allowed error" in narrow.statement
    assert "the budget" in narrow.statement
    assert model.epsilon_range(budget=600_000).upper == math.inf
    assert not risk.CostModel(full=100, floor=50).epsilon_range(budget=40).feasible
    # Equation 11 as printed
    eleven = model.epsilon_range(budget=50_000, allowed_error=4.0, epsilon0=0.5, confidence=0.6)
    want = 1 / math.log(0.6 * 550_000 / (50_000 - 0.4 * 550_000 * math.exp(-2)))
    assert eleven.upper == pytest.approx(want, rel=1e-12)
    assert eleven.lower == 0.25


@pytest.mark.parametrize("method", ["exact", "published"])
def test_range_of_the_cost_at_risk(method):
    model = risk.CostModel(full=550_000)
    best = model.cheapest(epsilon0=0.5, method=method)
    budget = (best.cost + best.plain_cost) / 2
    found = model.epsilon_range(budget=budget, epsilon0=0.5, method=method)
    assert found.feasible
    assert found.lower < best.epsilon < found.upper
    for e in (found.lower, found.upper, best.epsilon):
        assert model.cost_at_risk(epsilon=e, epsilon0=0.5, method=method) <= budget
    for e in (found.lower * (1 - 1e-9), found.upper * (1 + 1e-9)):
        assert model.cost_at_risk(epsilon=e, epsilon0=0.5, method=method) > budget
    assert not model.epsilon_range(budget=best.cost * 0.99, epsilon0=0.5, method=method).feasible
    assert not model.epsilon_range(allowed_error=1.0, epsilon0=0.5, method=method).feasible
    assert model.epsilon_range(budget=1e6, epsilon0=0.5, method=method).upper == 0.5


# --- disclosure ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("impact", "threshold", "printed"), [(5, 7, 0.29), (5, 5, 0.0), (3, 6, 0.5), (0, 7, 1.0)])
def test_table_1_with_explicit_u(impact, threshold, printed):
    got = risk.disclosure_epsilon(impact=impact, threshold=threshold, method="published", u=1.0)
    assert round(got, 2) == printed
    # The corrected bounds do not limit epsilon at all there: the impact never exceeds the threshold.
    for method in ("posterior", "quantile"):
        assert risk.disclosure_epsilon(impact=impact, threshold=threshold, method=method) == math.inf


@settings(max_examples=200, deadline=None)
@given(impact=st.floats(1e-3, 1e9), threshold=st.floats(1e-3, 1e9), sensitivity=st.floats(1e-3, 1e3))
def test_posterior_keeps_the_threshold(impact, threshold, sensitivity):
    epsilon = risk.disclosure_epsilon(impact=impact, threshold=threshold, sensitivity=sensitivity)
    if impact <= threshold:
        assert epsilon == math.inf
        return
    right = risk.disclosure_probability(epsilon=epsilon, sensitivity=sensitivity)
    assert right * impact <= threshold
    assert risk.disclosure_probability(
        epsilon=epsilon * (1 + 1e-9), sensitivity=sensitivity
    ) * impact > threshold * (1 - 1e-9)


@pytest.mark.statistical
def test_simulation_confirms_the_posterior_probability():
    # Discrete Laplace as a difference of geometrics; the best guess is the released value itself.
    epsilon, size = 0.8, 1_000_000
    rng = np.random.default_rng(23)
    noise = rng.geometric(-math.expm1(-epsilon), size) - rng.geometric(-math.expm1(-epsilon), size)
    hits = np.count_nonzero(noise == 0)
    assert standard_deviations(hits, size, risk.disclosure_probability(epsilon=epsilon)) < 5.33
    assert standard_deviations(hits, size, risk.disclosure_probability(epsilon=1.05 * epsilon)) > 5.33


def test_quantile_is_the_definition():
    # impact/threshold values are plausible: the interval of the Laplace quantile has that many integers' width.
    for impact, confidence, s in ((7, 0.95, 1.0), (100, 0.99, 2.0), (6, 0.6, 1.0)):
        epsilon = risk.disclosure_epsilon(
            impact=impact, threshold=5, sensitivity=s, confidence=confidence, method="quantile"
        )
        half_width = s / epsilon * math.log(1 / (2 - 2 * confidence))
        assert 2 * half_width + 1 == pytest.approx(impact / 5, rel=1e-12)


def test_several_queries():
    impacts, us = [5.0, 3.0, 2.0], [1.0, 2.0, 0.5]
    got = risk.disclosure_epsilon(impact=impacts, threshold=7, method="published", u=us)
    want = sum(us) - sum(u * i for u, i in zip(us, impacts, strict=True)) / 7  # Theorem 4
    assert got.total == float(got) == pytest.approx(want, rel=1e-14)
    each = risk.disclosure_epsilon(impact=[7, 10, 3], threshold=5)
    assert each.epsilons[0] == risk.disclosure_epsilon(impact=7, threshold=5)
    assert each.epsilons[2] == math.inf
    # Theorem 4 bounds every risk, not their sum ...
    assert max(each.risks) <= 5
    assert sum(each.risks) > 5
    # ... "total" bounds the sum, and leaves to the others what a small impact cannot use.
    total = risk.disclosure_epsilon(impact=[7, 10, 1], threshold=5, share="total")
    assert sum(total.risks) <= 5 * (1 + 1e-15)
    assert total.epsilons[2] == math.inf
    assert total.risks[0] == pytest.approx(2.0)
    assert "unlimited" in total.statement
    printed = risk.disclosure_epsilon(impact=[7, 3], threshold=5, method="published", u=1.0)
    assert "known to be wrong" in printed.statement


def test_identity_assets_are_those_of_table_2():
    assets = risk.IDENTITY_ASSETS
    assert assets["social security number"] == {"prior": 0.096598, "loss": 27465086.0, "score": 0.938}
    assert len(assets) == 4
    losses = [asset["loss"] for asset in assets.values()]
    budget = risk.disclosure_epsilon(impact=losses, threshold=1e6)
    assert np.argmin(budget.epsilons) == losses.index(max(losses))


# --- bad input ----------------------------------------------------------------------------------------------

BAD = [
    (risk.laplace_confidence, {"epsilon": -0.1, "epsilon0": 1.0}, "epsilon"),
    (risk.laplace_confidence, {"epsilon": math.nan, "epsilon0": 1.0}, "epsilon"),
    (risk.laplace_confidence, {"epsilon": 0.1, "epsilon0": 0.0}, "epsilon0"),
    (risk.laplace_confidence, {"epsilon": 0.1, "epsilon0": math.inf}, "epsilon0"),
    (risk.laplace_confidence, {"epsilon": 0.1, "epsilon0": 1.0, "method": "bessel"}, "method"),
    (risk.laplace_confidence, {"epsilon": 0.1, "epsilon0": 1.0, "dimension": 0}, "dimension"),
    (risk.laplace_confidence, {"epsilon": 0.1, "epsilon0": 1.0, "dimension": [1, -2]}, "dimension"),
    (risk.epsilon_at_confidence, {"confidence": 0.0, "epsilon0": 1.0}, "confidence"),
    (risk.epsilon_at_confidence, {"confidence": 1.0, "epsilon0": 1.0}, "confidence"),
    (risk.epsilon0_for, {"epsilon": 0.0, "confidence": 0.5}, "epsilon"),
    (risk.epsilon0_for, {"epsilon": 0.3, "confidence": 1.2}, "confidence"),
    (risk.gaussian_confidence, {"epsilon": 0.3, "sigma": 0.0}, "sigma"),
    (risk.approximate_dp, {"epsilon": 0.3, "confidence": 1.01}, "confidence"),
    (risk.CostModel, {"full": 0.0}, "full"),
    (risk.CostModel, {"full": -5.0}, "full"),
    (risk.CostModel, {"full": 5.0, "floor": -1.0}, "floor"),
    (risk.CostModel, {"full": 5.0, "rate": math.nan}, "rate"),
    (risk.CostModel(full=1.0).cheapest, {"epsilon0": 1e7}, "epsilon0"),
    (risk.CostModel(full=1.0).epsilon_range, {}, "budget or allowed_error"),
    (risk.CostModel(full=1.0).epsilon_range, {"budget": -1.0}, "budget"),
    (risk.CostModel(full=1.0).epsilon_range, {"budget": 1.0, "confidence": 0.5}, "epsilon0"),
    (risk.disclosure_epsilon, {"impact": 5, "threshold": 0}, "threshold"),
    (risk.disclosure_epsilon, {"impact": -5, "threshold": 1}, "impact"),
    (risk.disclosure_epsilon, {"impact": 5, "threshold": 1, "method": "published"}, "positive u"),
    (risk.disclosure_epsilon, {"impact": 5, "threshold": 1, "confidence": 0.5, "method": "published"}, "0.5"),
    (risk.disclosure_epsilon, {"impact": 5, "threshold": 1, "confidence": 0.4, "method": "quantile"}, "0.5"),
    (risk.disclosure_epsilon, {"impact": 5, "threshold": 1, "u": 1.0}, "u must"),
    (risk.disclosure_epsilon, {"impact": [5, 2], "threshold": 1, "sensitivity": [1, 1, 1]}, "sensitivity"),
    (risk.disclosure_epsilon, {"impact": [], "threshold": 1}, "impact"),
]


@pytest.mark.parametrize(("function", "arguments", "named"), BAD)
def test_bad_input_is_named(function, arguments, named):
    with pytest.raises(ValueError, match=named):
        function(**arguments)


def test_wrong_types():
    with pytest.raises(TypeError, match="dimension"):
        risk.laplace_confidence(epsilon=0.1, epsilon0=1.0, dimension=2.0)
    with pytest.raises(TypeError, match="dimension"):
        risk.laplace_confidence(epsilon=0.1, epsilon0=1.0, dimension=[1.0])
    with pytest.raises(TypeError, match="epsilon"):
        risk.laplace_confidence(epsilon="0.1", epsilon0=1.0)
    with pytest.raises(TypeError, match="callable"):
        risk.CostModel.custom(3.0)
    with pytest.raises(TypeError, match="mechanism"):
        risk.mechanism_confidence(3.0, epsilon=1.0)
