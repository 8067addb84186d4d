"""Sampled sensitivity and both sources of randomness: exact order statistics against simulation and Theorem 5.

Statistical tests: level 1e-7 each (5.33 standard deviations), 3 comparisons.
"""

import math

import numpy as np
import pytest
from scipy import special

from dpcore import risk


def test_published_numbers_of_section_6():
    assert risk.tolerance(samples=15_000, accuracy=0.01) == pytest.approx(0.9, abs=5e-4)
    got = risk.sampled_sensitivity_confidence(samples=15_000, quantile=0.9, method="published", accuracy=0.01)
    assert got == pytest.approx(0.9 * (1 - 2 * math.exp(-3)), rel=1e-14)
    assert risk.tolerance(samples=1, accuracy=0.01) == 0.0


def covered(rng, samples, order, trials):
    """How often a fresh pair is no more sensitive than the order statistic; the law does not matter."""
    drawn = rng.standard_exponential((trials, samples))
    estimate = np.partition(drawn, order - 1, axis=1)[:, order - 1]
    return np.count_nonzero(rng.standard_exponential(trials) <= estimate)


@pytest.mark.statistical
@pytest.mark.parametrize(("samples", "order"), [(9, 9), (19, 15), (10, 9)])
def test_exchangeable_is_exact_and_theorem_5_is_not_a_bound(samples, order):
    trials = 300_000
    share = covered(np.random.default_rng(30), samples, order, trials) / trials
    exact = risk.sampled_sensitivity_confidence(samples=samples, order=order)
    spread = math.sqrt(exact * (1 - exact) / trials)
    assert abs(share - exact) < 5.33 * spread
    # A large accuracy costs nothing in Theorem 5, so it "proves" more than is true.
    published = risk.sampled_sensitivity_confidence(
        samples=samples, quantile=order / samples, method="published", accuracy=1.0
    )
    assert published > share + 5.33 * spread


def test_confident_is_the_beta_quantile_from_below():
    for samples, order, confidence in ((1000, 950, 0.99), (90, 90, 0.99), (15, 3, 0.5), (10**6, 999_000, 0.9)):
        q = risk.sampled_sensitivity_confidence(
            samples=samples, order=order, method="confident", confidence=confidence
        )
        want = special.betaincinv(order, samples + 1 - order, 1 - confidence)
        assert q == pytest.approx(want, rel=1e-8)
        # Pr[Beta >= q] >= confidence
        assert special.betaincc(order, samples + 1 - order, q) >= confidence * (1 - 1e-12)
    # All of 90 samples: 1 - (1 - 0.99)^(1/90) is the share that may be missed.
    q = risk.sampled_sensitivity_confidence(samples=90, order=90, method="confident", confidence=0.99)
    assert 1 - q == pytest.approx(1 - 0.01 ** (1 / 90), rel=1e-9)


def test_quantile_is_definition_7():
    # F_n^-1(q) is the smallest sample with at least a share q at or below it.
    assert risk.sampled_sensitivity_confidence(samples=10, quantile=0.9) == 9 / 11
    assert risk.sampled_sensitivity_confidence(samples=10, quantile=0.91) == 10 / 11
    assert risk.sampled_sensitivity_confidence(samples=10, quantile=1e-9) == 1 / 11
    # 0.07 * 100 is above 7 in floating point; the 8th smallest would claim too much.
    for order in range(1, 101):
        assert risk.sampled_sensitivity_confidence(samples=100, quantile=order / 100) == order / 101


def test_combined_confidence():
    how = {"epsilon": 0.6, "epsilon0": 1.0}
    noise = risk.laplace_confidence(**how)
    assert risk.combined_confidence(**how, sampled=0.9) == 0.9 * noise
    assert risk.combined_confidence(epsilon=1.0, epsilon0=1.0, sampled=0.9) == 0.9
    published = risk.combined_confidence(
        **how, sampled=0.9, eta=1.2, samples=15_000, accuracy=0.01, dimension=3, method="published"
    )
    want = risk.laplace_confidence(epsilon=0.6, epsilon0=1.2, dimension=3, method="published")
    assert published == pytest.approx(want * 0.9 * risk.tolerance(samples=15_000, accuracy=0.01), rel=1e-14)


@pytest.mark.parametrize("method", ["exact", "published"])
def test_combined_inverse(method):
    epsilon0 = risk.combined_epsilon0_for(epsilon=0.9, confidence=0.2, sampled=0.8, method=method)
    got = risk.combined_confidence(epsilon=0.9, epsilon0=min(epsilon0, 1e6), sampled=0.8, method=method)
    assert got >= 0.2 * (1 - 1e-15)
    if method == "exact":
        assert got == pytest.approx(0.2, rel=1e-13)


def test_the_papers_third_case_cannot_be_reached():
    with pytest.raises(ValueError, match=r"confidence must be at most 0\.81"):
        risk.combined_epsilon0_for(
            epsilon=0.4, confidence=0.9, sampled=0.9, samples=15_000, accuracy=0.01, method="published"
        )


def test_lemma_12():
    assert risk.lemma12_eta(accuracy=0.01, sampled_sensitivity=0.1, constant=2.0) == pytest.approx(1.2)
    with pytest.raises(ValueError, match="constant"):
        risk.lemma12_eta(accuracy=0.01, sampled_sensitivity=0.1, constant=0.5)


SAMPLED = risk.sampled_sensitivity_confidence
BAD = [
    (SAMPLED, {"samples": 0, "quantile": 0.5}, "samples"),
    (SAMPLED, {"samples": 5}, "quantile and order"),
    (SAMPLED, {"samples": 5, "quantile": 0.5, "order": 3}, "quantile and order"),
    (SAMPLED, {"samples": 5, "quantile": 0.0}, "quantile"),
    (SAMPLED, {"samples": 5, "order": 6}, "order"),
    (SAMPLED, {"samples": 5, "order": 5, "accuracy": 0.1}, "accuracy"),
    (SAMPLED, {"samples": 5, "order": 5, "method": "published"}, "accuracy"),
    (SAMPLED, {"samples": 5, "order": 5, "confidence": 0.9}, "confidence"),
    (SAMPLED, {"samples": 5, "order": 5, "method": "confident"}, "confidence"),
    (SAMPLED, {"samples": 5, "order": 5, "method": "confident", "confidence": 1.0}, "confidence"),
    (SAMPLED, {"samples": 5, "order": 5, "method": "dkw"}, "method"),
    (risk.combined_confidence, {"epsilon": 0.1, "epsilon0": 1.0, "sampled": 0.0}, "sampled"),
    (risk.combined_confidence, {"epsilon": 0.1, "epsilon0": 1.0, "sampled": 0.9, "eta": 2.0}, "published"),
    (
        risk.combined_confidence,
        {"epsilon": 0.1, "epsilon0": 1.0, "sampled": 0.9, "samples": 5, "method": "published"},
        "together",
    ),
    (risk.combined_epsilon0_for, {"epsilon": 0.1, "confidence": 0.95, "sampled": 0.9}, "confidence"),
]


@pytest.mark.parametrize(("function", "arguments", "named"), BAD)
def test_bad_input_is_named(function, arguments, named):
    with pytest.raises(ValueError, match=named):
        function(**arguments)
