"""Confidence that comes from the data: sampled sensitivity (Theorem 5) and both sources together (Theorem 6)."""

from __future__ import annotations

import math

from scipy import special

from dpcore import _core
from dpcore import _validation as check
from dpcore.risk._confidence import METHODS, epsilon0_for, laplace_confidence
from dpcore.sensitivity._operating_point import _is_confident

SAMPLING_METHODS = ("exchangeable", "confident", "published")


def tolerance(*, samples: int, accuracy: float) -> float:
    """The factor 1 - 2 exp(-2 accuracy^2 samples) of Theorems 5 and 6 (Equation 13), at least 0.

    Examples
    --------
    >>> round(tolerance(samples=15_000, accuracy=0.01), 3)    # the paper: 0.9
    0.9
    """
    samples = check.integer("samples", samples, least=1)
    accuracy = check.scalar("accuracy", check.positive("accuracy", accuracy))
    return max(0.0, 1 - 2 * math.exp(-2 * accuracy * accuracy * samples))


def sampled_sensitivity_confidence(
    *,
    samples: int,
    quantile: float | None = None,
    order: int | None = None,
    method: str = "exchangeable",
    confidence: float | None = None,
    accuracy: float | None = None,
) -> float:
    """Probability that a random pair of neighbours is no more sensitive than a sampled sensitivity.

    The sampled sensitivity (Definition 7) is the `order`-th smallest of `samples` sensitivities of random
    pairs of neighbouring databases. Laplace noise calibrated with it keeps its level at least with this
    probability over the data.

    Parameters
    ----------
    samples : int >= 1
        Number of sampled pairs.
    quantile : float in (0, 1], optional
        Which of them is used: the smallest one that at least this share does not exceed (the paper's gamma_2).
    order : int in [1, samples], optional
        The same as a rank, instead of `quantile`.
    method : {"exchangeable", "confident", "published"}
        "exchangeable": order/(samples + 1), exact for every continuous distribution and a lower bound for all;
        the probability is over the pair and the sample together.
        "confident": the largest q such that, with probability `confidence` over the sample, a share q of all
        pairs is covered by the sample in hand (Wilks).
        "published": Theorem 5, quantile (1 - 2 exp(-2 accuracy^2 samples)). **Not a lower bound**: the proof
        drops the accuracy it pays for, so that a large one costs nothing (docs/risk_auditors.md).
    confidence : float in (0, 1)
        For "confident" only.
    accuracy : float > 0
        For "published" only: the paper's rho.

    Returns
    -------
    float

    Examples
    --------
    >>> sampled_sensitivity_confidence(samples=99, quantile=1.0)
    0.99
    >>> round(sampled_sensitivity_confidence(samples=1000, quantile=0.95, method="confident", confidence=0.99), 4)
    0.9316
    >>> round(sampled_sensitivity_confidence(samples=15_000, quantile=0.9, method="published", accuracy=0.01), 4)
    0.8104
    """
    check.choice("method", method, SAMPLING_METHODS)
    samples = check.integer("samples", samples, least=1)
    if (quantile is None) == (order is None):
        raise ValueError("one of quantile and order must be given")
    if order is None:
        rule = "a number in (0, 1]"
        quantile = check.scalar("quantile", check.real("quantile", quantile, rule, 0.0, 1.0, low_open=True))
        order = max(1, math.ceil(quantile * samples))
        # The smallest share order/samples that reaches the quantile as a double: 0.07 of 100 is 7, although
        # 0.07 * 100 rounds to more. A rank too high would claim too much.
        while order > 1 and (order - 1) / samples >= quantile:
            order -= 1
    else:
        order = check.integer("order", order, least=1, most=samples)
        quantile = order / samples
    if (confidence is None) != (method != "confident"):
        raise ValueError("confidence must be given for method 'confident', and for no other")
    if (accuracy is None) != (method != "published"):
        raise ValueError("accuracy must be given for method 'published', and for no other")
    if method == "exchangeable":
        return order / (samples + 1)
    if method == "published":
        assert accuracy is not None
        return quantile * tolerance(samples=samples, accuracy=accuracy)
    confidence = check.scalar("confidence", check.open_probability("confidence", confidence))
    gamma = 1 - float(special.betaincinv(order, samples + 1 - order, 1 - confidence))
    step = 2.0**-50
    while gamma < 1 and not _is_confident(samples, order, gamma, confidence):  # the safe side, re-evaluated
        gamma += step
        step *= 2
    return max(0.0, 1 - gamma)


def combined_confidence(
    *,
    epsilon: float,
    epsilon0: float,
    sampled: float,
    eta: float = 1.0,
    samples: int | None = None,
    accuracy: float | None = None,
    dimension: int = 1,
    method: str = "exact",
) -> float:
    """Confidence from the noise and from sampled sensitivity together (Theorem 6).

    Parameters
    ----------
    epsilon, epsilon0 : float > 0
        Level to be kept and level the noise was calibrated for, with a sampled sensitivity.
    sampled : float in (0, 1]
        Confidence of that sensitivity: `sampled_sensitivity_confidence` for "exact"; the paper's gamma_2, the
        share of the sample that it covers, for "published".
    eta : float > 0
        For "published" only: true over sampled sensitivity; see `lemma12_eta` for the paper's guess at it.
    samples, accuracy : int and float > 0, optional
        For "published" only: multiply by the tolerance 1 - 2 exp(-2 accuracy^2 samples), Equation 6.
    dimension : int
        Number of coordinates, for "published".
    method : {"exact", "published"}
        "exact": sampled * exact confidence of the noise, a valid lower bound: on a pair that the sampled
        sensitivity covers, the noise keeps `epsilon` at least with the exact confidence, and the noise is
        independent of the pair. No eta is needed.
        "published": P(T <= epsilon)/P(T <= eta epsilon0) * sampled; inherits the errors of Theorems 4 and 5.

    Returns
    -------
    float

    Examples
    --------
    >>> round(combined_confidence(epsilon=0.6, epsilon0=1.0, sampled=0.95), 4)
    0.1755
    >>> round(combined_confidence(epsilon=0.6, epsilon0=1.0, sampled=0.95, method="published"), 4)
    0.6781
    """
    check.choice("method", method, METHODS)
    epsilon = check.scalar("epsilon", check.positive("epsilon", epsilon))
    epsilon0 = check.scalar("epsilon0", check.positive("epsilon0", epsilon0))
    sampled = check.scalar(
        "sampled", check.real("sampled", sampled, "a number in (0, 1]", 0.0, 1.0, low_open=True)
    )
    eta = check.scalar("eta", check.positive("eta", eta))
    dimension = check.integer("dimension", dimension, least=1, most=_core.MAX_DIMENSION)
    if method == "exact":
        if eta != 1 or samples is not None or accuracy is not None:
            raise ValueError("eta, samples and accuracy must be given for method 'published' only")
        return sampled * float(laplace_confidence(epsilon=epsilon, epsilon0=epsilon0))
    noise = float(
        laplace_confidence(epsilon=epsilon, epsilon0=eta * epsilon0, dimension=dimension, method="published")
    )
    return noise * sampled * _tolerance_if(samples, accuracy)


def _tolerance_if(samples: int | None, accuracy: float | None) -> float:
    if samples is None and accuracy is None:
        return 1.0
    if samples is None or accuracy is None:
        raise ValueError("samples and accuracy must be given together")
    return tolerance(samples=samples, accuracy=accuracy)


def combined_epsilon0_for(
    *,
    epsilon: float,
    confidence: float,
    sampled: float,
    eta: float = 1.0,
    samples: int | None = None,
    accuracy: float | None = None,
    dimension: int = 1,
    method: str = "exact",
) -> float:
    """Largest calibration level for which `combined_confidence` reaches `confidence` (section 6, case 3).

    Raises
    ------
    ValueError
        If it cannot be reached: no noise makes up for a sampled sensitivity that covers too little. The
        paper's own example is of this kind (confidence 0.9 from sampled 0.9 and tolerance 0.9).

    Examples
    --------
    >>> round(combined_epsilon0_for(epsilon=0.4, confidence=0.5, sampled=0.9, method="published"), 4)
    0.9
    """
    check.choice("method", method, METHODS)
    confidence = check.scalar("confidence", check.open_probability("confidence", confidence))
    epsilon = check.scalar("epsilon", check.positive("epsilon", epsilon))
    dimension = check.integer("dimension", dimension, least=1, most=_core.MAX_DIMENSION)
    # At epsilon0 = epsilon/eta the noise keeps epsilon for certain; what is left is the data's share.
    most = combined_confidence(
        epsilon=epsilon,
        epsilon0=epsilon / check.scalar("eta", check.positive("eta", eta)),
        sampled=sampled,
        eta=eta,
        samples=samples,
        accuracy=accuracy,
        method=method,
    )
    if confidence > most:
        raise ValueError(
            f"confidence must be at most {most:.6g}, what the sampled sensitivity leaves, got {confidence!r}"
        )
    if confidence == most:
        return epsilon / eta
    return (
        float(epsilon0_for(epsilon=epsilon, confidence=confidence / most, dimension=dimension, method=method))
        / eta
    )


def lemma12_eta(*, accuracy: float, sampled_sensitivity: float, constant: float = 1.0) -> float:
    """The paper's guess at eta, true over sampled sensitivity: 1 + constant * accuracy/sampled_sensitivity.

    An approximation, named as such: Lemma 12 says "for some constant >= 1", and its proof takes an empirical
    distribution function, which is a step function, to be 1-Lipschitz. It adds a probability to a
    sensitivity, so it changes with the unit of the data.

    Examples
    --------
    >>> lemma12_eta(accuracy=0.01, sampled_sensitivity=0.5)
    1.02
    """
    accuracy = check.scalar("accuracy", check.positive("accuracy", accuracy))
    size = check.scalar("sampled_sensitivity", check.positive("sampled_sensitivity", sampled_sensitivity))
    rule = "a finite number >= 1"
    constant = check.scalar("constant", check.real("constant", constant, rule, 1.0, math.inf, high_open=True))
    return 1.0 + constant * accuracy / size
