"""Composition side by side: the published theorems as formulas, the exact one against independent references."""

import math

import numpy as np
import pytest

from dpcore import accounting, risk


def test_formulas_of_the_paper():
    got = risk.compose(epsilon0=0.5, epsilon=0.3, confidence=0.6, releases=40, delta=1e-5)
    log = math.log(1e5)
    assert got.basic == pytest.approx(20.0)
    assert got.advanced == pytest.approx(0.5 * math.sqrt(80 * log) + 20 * math.expm1(0.5))
    assert got.published == pytest.approx(0.5 * math.sqrt(80 * log) + 20 * (0.6 * 0.09 + 0.4 * 0.25))
    assert got.method == "exact"
    assert float(got) == got.epsilon == got.exact_upper
    assert risk.compose(
        epsilon0=0.5, epsilon=0.3, confidence=0.6, releases=40, delta=1e-5, method="published"
    ).epsilon == (got.published)


def test_corollary_1_and_theorem_3_agree_on_equal_releases():
    one = risk.compose(epsilon0=0.5, epsilon=0.3, confidence=0.6, releases=7, delta=1e-5)
    many = risk.compose(epsilon0=[0.5] * 7, epsilon=0.3, confidence=[0.6] * 7, delta=1e-5)
    assert many.to_dict() == one.to_dict()
    mixed = risk.compose(epsilon0=[0.5, 0.1, 0.5], epsilon=0.3, confidence=[0.6, 1.0, 0.2], delta=1e-5)
    squares = 0.5**2 + 0.1**2 + 0.5**2
    # epsilon above a release's own level means that level
    mean = 0.6 * 0.09 + 0.4 * 0.25 + 0.01 + 0.2 * 0.09 + 0.8 * 0.25
    assert mixed.published == pytest.approx(math.sqrt(2 * squares * math.log(1e5)) + mean / 2)
    assert mixed.basic == pytest.approx(1.1)


def test_confidence_defaults_to_theorem_4():
    given = risk.laplace_confidence(epsilon=0.3, epsilon0=0.5, dimension=4, method="published")
    assert (
        risk.compose(epsilon0=0.5, epsilon=0.3, releases=5, delta=1e-5, dimension=4).published
        == risk.compose(epsilon0=0.5, epsilon=0.3, confidence=given, releases=5, delta=1e-5).published
    )


def test_exact_is_never_above_basic_advanced_or_worst():
    for e0 in (0.1, 1.0):
        for n in (1, 3, 60, 2000):
            got = risk.compose(epsilon0=e0, releases=n, delta=1e-5)
            assert got.exact_lower <= got.exact_upper
            # Laplace cannot lose more than the worst mechanism of its level.
            assert got.exact_lower <= got.worst_upper
            assert got.exact_upper <= got.worst_upper
            assert got.worst_lower <= got.basic
            assert got.worst_lower <= got.advanced
            assert got.published is None
            assert not got.refuted


def test_a_wide_bracket_is_cut_at_the_worst_mechanism():
    # Levels far below the grid of a single Laplace release: its own upper bound alone would be 7 % above this one.
    got = risk.compose(epsilon0=1e-6, releases=10**6, delta=1e-5)
    assert got.exact_lower <= got.exact_upper <= got.worst_upper


def test_one_release_in_closed_form():
    # delta(epsilon) = 1 - exp((epsilon - epsilon0)/2) for one Laplace release.
    got = risk.compose(epsilon0=0.7, releases=1, delta=1e-3)
    want = 0.7 + 2 * math.log1p(-1e-3)
    assert got.exact_lower <= want <= got.exact_upper
    assert got.exact_upper - got.exact_lower < 1e-5


def test_theorem_3_is_refuted_for_many_releases():
    model = risk.CostModel(full=1.0)
    for e0, n in ((0.5, 400), (1.0, 400), (0.1, 4000)):
        best = model.cheapest(epsilon0=e0, method="published")
        got = risk.compose(epsilon0=e0, epsilon=best.epsilon, confidence=best.confidence, releases=n, delta=1e-5)
        assert got.refuted
        assert "refuted" in got.statement
        # By another route: the Chernoff-free lower bound of the accountant at the published level.
        loss = accounting.from_laplace(epsilon=e0) * n
        assert loss.delta(got.published).lower > 1e-5


def test_the_mean_loss_exceeds_theorem_3s_bound():
    rng = np.random.default_rng(5)
    noise = rng.laplace(size=200_000)
    loss = np.abs(noise - 1) - np.abs(noise)
    spread = loss.std() / math.sqrt(loss.size)
    assert abs(loss.mean() - math.exp(-1)) < 5.33 * spread  # epsilon0 - 1 + exp(-epsilon0) at epsilon0 = 1
    c = risk.laplace_confidence(epsilon=0.5, epsilon0=1.0, method="published")
    assert (c * 0.25 + (1 - c)) / 2 < loss.mean() - 5.33 * spread


def test_confidence_of_compositions_and_mechanisms():
    for e0, e in ((1.0, 0.6), (0.5, 0.3)):
        bounds = risk.mechanism_confidence(accounting.from_laplace(epsilon=e0), epsilon=e)
        assert bounds.lower <= risk.laplace_confidence(epsilon=e, epsilon0=e0) * (1 + 1e-12)
        assert bounds.upper >= risk.laplace_confidence(epsilon=e, epsilon0=e0) * (1 - 1e-12)
    bounds = risk.mechanism_confidence(accounting.from_gaussian(sigma=2.0), epsilon=0.4)
    assert bounds.lower == pytest.approx(risk.gaussian_confidence(epsilon=0.4, sigma=2.0), rel=1e-9)
    # Nine Gaussian releases of sigma 6 are one of sigma 2.
    bounds = risk.mechanism_confidence(accounting.from_gaussian(sigma=6.0) * 9, epsilon=0.4)
    assert bounds.upper == pytest.approx(risk.gaussian_confidence(epsilon=0.4, sigma=2.0), rel=1e-9)


class _Mechanism:
    def privacy_loss(self):
        return accounting.from_gaussian(sigma=2.0)


def test_mechanisms_are_asked_for_their_loss():
    got = risk.mechanism_confidence(_Mechanism(), epsilon=0.4)
    assert got == risk.mechanism_confidence(accounting.from_gaussian(sigma=2.0), epsilon=0.4)


BAD = [
    ({"epsilon0": 0.0, "delta": 1e-5}, "epsilon0"),
    ({"epsilon0": 1.0, "delta": 0.0}, "delta"),
    ({"epsilon0": 1.0, "delta": 1.0}, "delta"),
    ({"epsilon0": 1.0, "delta": 0.1, "releases": 0}, "releases"),
    ({"epsilon0": [1.0, 0.5], "delta": 0.1, "releases": 3}, "releases"),
    ({"epsilon0": [], "delta": 0.1}, "epsilon0"),
    ({"epsilon0": [1.0, 0.5], "epsilon": 0.1, "confidence": [0.1, 0.2, 0.3], "delta": 0.1}, "confidence"),
    ({"epsilon0": 1.0, "epsilon": 0.1, "confidence": 1.5, "delta": 0.1}, "confidence"),
    ({"epsilon0": 1.0, "confidence": 0.5, "delta": 0.1}, "epsilon"),
    ({"epsilon0": 1.0, "delta": 0.1, "method": "published"}, "epsilon"),
    ({"epsilon0": 1.0, "delta": 0.1, "method": "moments"}, "method"),
]


@pytest.mark.parametrize(("arguments", "named"), BAD)
def test_bad_input_is_named(arguments, named):
    with pytest.raises(ValueError, match=named):
        risk.compose(**arguments)
