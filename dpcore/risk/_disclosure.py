"""The largest epsilon for which the risk of disclosure stays under a threshold (Dorafshanian and Mejri)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpcore import _validation as check
from dpcore._results import Result

METHODS = ("posterior", "quantile", "published")
SHARES = ("each", "total")

# Table 2 of the paper: prior probability of exposure, loss in US dollars, sensitivity score (UT CID ITAP).
IDENTITY_ASSETS = {
    "email address": {"prior": 0.027526, "loss": 18105024.0, "score": 0.613},
    "social security number": {"prior": 0.096598, "loss": 27465086.0, "score": 0.938},
    "passport": {"prior": 0.002565, "loss": 1252465.0, "score": 0.652},
    "phone number": {"prior": 0.017439, "loss": 4405490.0, "score": 0.605},
}


@dataclasses.dataclass(frozen=True)
class DisclosureBudget(Result):
    """Privacy budget for several queries.

    Attributes
    ----------
    epsilons : tuple of float
        Largest epsilon of each query; infinity where the threshold does not limit it.
    total : float
        Their sum, the global budget of Theorem 4.
    risks : tuple of float
        Risk of each query at its epsilon: probability of disclosure times impact (posterior method; the
        methods "quantile" and "published" use their own notion of that probability).
    threshold : float
        Risk that is tolerated.
    method : str
        Formula used.
    share : str
        "each": every single risk is at most the threshold, as in the paper. "total": their sum is.

    Examples
    --------
    >>> budget = disclosure_epsilon(impact=[7, 10], threshold=5, share="total")
    >>> [round(risk, 6) for risk in budget.risks], round(budget.total, 4)
    ([2.5, 2.5], 1.258)
    """

    epsilons: tuple[float, ...]
    total: float
    risks: tuple[float, ...]
    threshold: float
    method: str
    share: str

    def __float__(self) -> float:
        return self.total

    @property
    def statement(self) -> str:
        """The result in words."""
        scope = "the risk of every single query" if self.share == "each" else "the risk of all queries together"
        each = ", ".join("unlimited" if math.isinf(e) else f"{e:.4g}" for e in self.epsilons)
        if self.method == "published":
            return f"Theorem 4 as printed gives the budgets {each}; it is known to be wrong and bounds no risk."
        return (
            f"With budgets {each} for the {len(self.epsilons)} queries, {scope} stays within "
            f"{self.threshold:.6g} ({self.method} method)."
        )


def published_u(*, confidence: float, sensitivity: float = 1.0) -> float:
    """The factor u = sensitivity/(2 ln(2 - 2 confidence)) of Theorem 3, as printed.

    Negative for every confidence above one half, although the proof uses "u is a positive value"; undefined
    at one half.

    Examples
    --------
    >>> round(published_u(confidence=0.95), 6)
    -0.217147
    >>> round(published_u(confidence=0.25), 6)
    1.233152
    """
    confidence = check.scalar("confidence", check.open_probability("confidence", confidence))
    sensitivity = check.scalar("sensitivity", check.positive("sensitivity", sensitivity))
    if confidence == 0.5:
        raise ValueError("confidence must not be 0.5 with method 'published': u divides by ln(2 - 2 * 0.5) = 0")
    return sensitivity / (2 * math.log(2 - 2 * confidence))


def disclosure_probability(*, epsilon: Any, sensitivity: Any = 1.0) -> Any:
    """Probability that the best guess at a released whole number is right: tanh(epsilon/(2 sensitivity)).

    For an attacker who holds every value equally likely beforehand and sees it with discrete Laplace noise.

    Examples
    --------
    >>> round(disclosure_probability(epsilon=1.0), 4)
    0.4621
    """
    epsilon = check.real("epsilon", epsilon, "a number >= 0", 0.0, math.inf)
    sensitivity = check.positive("sensitivity", sensitivity)
    with np.errstate(over="ignore"):  # an infinite ratio is a certain guess
        out = np.tanh(0.5 * (np.asarray(epsilon) / np.asarray(sensitivity)))
    return float(out) if out.ndim == 0 else out


# Terms of the sum in disclosure_bound; any number of them gives a valid bound.
_MOST_TERMS = 100_000


def disclosure_bound(
    *, epsilon: float, delta: float = 0.0, sensitivity: float = 1.0, values: int | None = None
) -> float:
    """Largest probability that a guess at a whole number is right, for *every* (epsilon, delta)-private release.

    For an attacker who holds every value equally likely beforehand. However many releases there are and whatever
    the noise: if value v is guessed right with probability p, then from each value that is c persons away v is
    named with probability at least p e^(-c epsilon) - delta (e^-epsilon + ... + e^(-c epsilon)), and these
    probabilities add up to at most 1. For delta = 0 and sensitivity 1 that is p <= tanh(epsilon/2), which discrete
    Laplace noise attains.

    Parameters
    ----------
    epsilon : float > 0
        Total privacy level.
    delta : float in [0, 1]
        The part of the probability for which epsilon makes no promise.
    sensitivity : float > 0
        What one person can change; values j apart are ceil(j/sensitivity) persons away.
    values : int >= 1, optional
        How many values are possible, in one row: for a count of n people n + 1. A range helps the attacker, who
        is right more often at its ends: p <= tanh(epsilon/2) + (1 - tanh(epsilon/2))/values for delta = 0 and
        sensitivity 1, attained by discrete Laplace noise cut to the range. Not given: all whole numbers.

    Returns
    -------
    float

    Examples
    --------
    >>> round(disclosure_bound(epsilon=1.0), 6), round(math.tanh(0.5), 6)
    (0.462117, 0.462117)
    >>> round(disclosure_bound(epsilon=1.0, delta=1e-3), 6)
    0.465653
    >>> round(disclosure_bound(epsilon=1.0, values=2), 6), round(1 / (1 + math.exp(-1.0)), 6)
    (0.731059, 0.731059)
    """
    epsilon = check.scalar("epsilon", check.positive("epsilon", epsilon))
    delta = check.scalar("delta", check.probability("delta", delta))
    sensitivity = check.scalar("sensitivity", check.positive("sensitivity", sensitivity))
    possible = math.inf if values is None else check.integer("values", values, least=1)
    if delta == 0 and sensitivity == 1:
        right = math.tanh(epsilon / 2)
        return right if values is None else min(1.0, (right + (1 - right) / possible) * (1 + 2.0**-51))
    terms = math.ceil(max(min(40 * sensitivity / epsilon, _MOST_TERMS), 1))
    apart = np.arange(1, terms + 1)
    with np.errstate(over="ignore"):  # infinitely many persons away is never reached
        away = np.ceil(apart / sensitivity)
    reached = 1 + 2 * np.cumsum(np.exp(-away * epsilon))
    # Values beyond an end of the range: the end stands in for the j-th of them with the weight
    # e^(-floor(j/sensitivity) epsilon), because ceil((i + j)/s) - ceil(i/s) >= floor(j/s).
    with np.errstate(over="ignore"):
        ends = 2 * np.cumsum(np.exp(-np.floor(apart / sensitivity) * epsilon)) / possible
    # e^-epsilon + ... + e^(-c epsilon) = (1 - e^(-c epsilon))/(e^epsilon - 1)
    lost = 2 * delta * np.cumsum(-np.expm1(-away * epsilon) / np.expm1(min(epsilon, 700.0)))
    # Rounding of the sums: at most one part in 2^52 for each of their terms.
    return min(1.0, float(np.min((1 + ends + lost) / reached)) * (1 + terms * 2.0**-51))


def disclosure_epsilon(
    *,
    impact: Any,
    threshold: float,
    sensitivity: Any = 1.0,
    confidence: float = 0.95,
    method: str = "posterior",
    u: Any = None,
    share: str = "each",
) -> float | DisclosureBudget:
    """Largest epsilon whose risk, probability of disclosure times impact, stays within a threshold.

    Parameters
    ----------
    impact : float >= 0, or a sequence of them
        Damage if the answer to the query is learned, in any unit. A sequence: one query each.
    threshold : float > 0
        Risk that is tolerated, in the same unit.
    sensitivity : float > 0, or one for each query
        Of the query's answer.
    confidence : float in (0, 1)
        For "quantile" and "published": coverage of the interval taken as the plausible values; above 1/2 for
        "quantile".
    method : {"posterior", "quantile", "published"}
        "posterior": the best guess at a whole number under discrete Laplace noise is right with probability
        tanh(epsilon/(2 sensitivity)); epsilon <= 2 sensitivity artanh(threshold/impact).
        "quantile": the paper's definitions with its two slips mended: impact/threshold values must stay
        plausible, epsilon <= 2 sensitivity ln(1/(2 - 2 confidence))/(impact/threshold - 1).
        "published": Theorem 3 as printed, u (1 - impact/threshold). **Wrong twice**: it inverts the Laplace
        quantile and then a sign; it allows least where there is no risk at all.
    u : float > 0, or one for each query
        For "published" only: the factor u; Table 1 uses 1. Without it, the printed formula from `confidence`,
        which must come out positive.
    share : {"each", "total"}
        For several queries. "each": every single risk is held under the threshold (Theorem 4). "total": the
        sum of the risks is; the threshold is divided evenly among the queries that can use their part.

    Returns
    -------
    float
        For one query; infinity when the impact does not exceed the threshold ("posterior", "quantile").
    DisclosureBudget
        For a sequence.

    References
    ----------
    Dorafshanian, M., Mejri, M. (2023). Differential Privacy: Toward a Better Tuning of the Privacy Budget
    (epsilon) Based on Risk. Theorems 3 and 4, Table 1.

    Examples
    --------
    >>> round(disclosure_epsilon(impact=7, threshold=5), 6)
    1.791759
    >>> disclosure_epsilon(impact=5, threshold=7)
    inf
    >>> round(disclosure_epsilon(impact=5, threshold=7, method="published", u=1.0), 2)
    0.29
    >>> [round(e, 4) for e in disclosure_epsilon(impact=[7, 10], threshold=5, method="quantile").epsilons]
    [11.5129, 4.6052]
    """
    check.choice("method", method, METHODS)
    check.choice("share", share, SHARES)
    threshold = check.scalar("threshold", check.positive("threshold", threshold))
    confidence = check.scalar("confidence", check.open_probability("confidence", confidence))
    if u is not None and method != "published":
        raise ValueError(f"u must be given for method 'published' only, got method {method!r}")
    if method == "quantile" and not confidence > 0.5:
        raise ValueError(f"confidence must be above 0.5 for method 'quantile', got {confidence!r}")
    if check.whole_array("impact", impact).ndim == 0:
        return _one(
            check.scalar("impact", check.non_negative("impact", impact)),
            threshold,
            check.scalar("sensitivity", check.positive("sensitivity", sensitivity)),
            confidence,
            method,
            None if u is None else check.scalar("u", check.positive("u", u)),
        )
    impacts = _queries("impact", check.non_negative("impact", impact), None)
    count = len(impacts)
    sensitivities = _queries("sensitivity", check.positive("sensitivity", sensitivity), count)
    us = [None] * count if u is None else _queries("u", check.positive("u", u), count)
    limits = _limits(impacts, threshold, share)
    epsilons = tuple(
        _one(i, limit, s, confidence, method, factor)
        for i, limit, s, factor in zip(impacts, limits, sensitivities, us, strict=True)
    )
    risks = tuple(
        i * disclosure_probability(epsilon=max(e, 0.0), sensitivity=s)
        for i, e, s in zip(impacts, epsilons, sensitivities, strict=True)
    )
    return DisclosureBudget(epsilons, math.fsum(epsilons), risks, threshold, method, share)


def _queries(name: str, value: Any, count: int | None) -> list[float]:
    array = np.atleast_1d(np.asarray(value, dtype=np.float64))
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be one number for each query, got an array of shape {array.shape}")
    if count is None:
        return [float(x) for x in array]
    if array.size not in (1, count):
        raise ValueError(f"{name} must have one entry for each of the {count} queries, got {array.size}")
    return [float(x) for x in np.broadcast_to(array, (count,))]


def _limits(impacts: Sequence[float], threshold: float, share: str) -> list[float]:
    """Risk allowed to each query; a query of small impact leaves what it cannot use to the others."""
    if share == "each":
        return [threshold] * len(impacts)
    limits = [0.0] * len(impacts)
    rest, left = threshold, len(impacts)
    for index in sorted(range(len(impacts)), key=lambda i: impacts[i]):
        part = rest / left
        limits[index] = part
        rest -= min(impacts[index], part)
        left -= 1
    return limits


def _one(
    impact: float, threshold: float, sensitivity: float, confidence: float, method: str, u: float | None
) -> float:
    if method == "published":
        if u is None:
            u = published_u(confidence=confidence, sensitivity=sensitivity)
            if u < 0:
                raise ValueError(
                    "method 'published' needs a positive u, but the printed formula gives "
                    f"{u:.6g} at confidence={confidence!r} (it is negative above 1/2, which reverses the "
                    "bound); give u, or use method 'quantile'"
                )
        return u * (1 - impact / threshold)
    if impact <= threshold:
        return math.inf
    if method == "quantile":
        return 2 * sensitivity * -math.log(2 - 2 * confidence) / (impact / threshold - 1)
    epsilon = 2 * sensitivity * math.atanh(threshold / impact)
    while (
        impact * disclosure_probability(epsilon=epsilon, sensitivity=sensitivity) > threshold
    ):  # the safe side, re-evaluated
        epsilon = math.nextafter(epsilon, 0.0)
    return epsilon
