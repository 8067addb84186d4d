"""Several releases: basic, advanced, published (Theorem 3, Corollary 1) and exact composition side by side."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpcore import _core
from dpcore import _validation as check
from dpcore._results import Result
from dpcore._rounding import upward
from dpcore.risk._confidence import METHODS, laplace_confidence


@dataclasses.dataclass(frozen=True)
class Composition(Result):
    """Privacy level of several Laplace releases together, by every route.

    Attributes
    ----------
    releases : int
        Number of releases.
    delta : float
        Probability that the level may be exceeded, of all but `basic`.
    epsilon : float
        The level by `method`; for "exact" the certified upper bound.
    method : str
        "exact" or "published".
    basic : float
        Sum of the levels; holds for certain (delta 0).
    advanced : float
        Advanced composition of Dwork and Roth (2014), Theorem 3.20; holds for every mechanism.
    published : float or None
        Theorem 3 or Corollary 1 of Dandekar et al. **Not a guarantee**; None when no epsilon was given.
    exact_lower, exact_upper : float
        Bounds that enclose the exact level of the Laplace releases.
    worst_lower, worst_upper : float
        Bounds on the level of the worst mechanisms with these epsilon0 (optimal composition).

    Examples
    --------
    >>> both = compose(epsilon0=0.5, releases=1000, delta=1e-6)
    >>> both.exact_upper < both.worst_upper < both.advanced
    True
    """

    releases: int
    delta: float
    epsilon: float
    method: str
    basic: float
    advanced: float
    published: float | None
    exact_lower: float
    exact_upper: float
    worst_lower: float
    worst_upper: float

    def __float__(self) -> float:
        return self.epsilon

    @property
    def refuted(self) -> bool:
        """Whether the published level is provably too small here."""
        return self.published is not None and self.published < self.exact_lower

    @property
    def statement(self) -> str:
        """The guarantee in words."""
        exact = (
            f"{self.releases} Laplace releases together are ({upward(self.exact_upper)}, {upward(self.delta, 3)})-"
            f"differentially private; basic composition says {self.basic:.6g}, advanced {self.advanced:.6g}."
        )
        if self.published is None:
            return exact
        verdict = " (refuted: the exact level is larger)" if self.refuted else ""
        return f"{exact} Privacy at risk as published says {self.published:.6g}{verdict}."


def compose(
    *,
    epsilon0: Any,
    epsilon: float | None = None,
    confidence: Any = None,
    releases: int | None = None,
    delta: float,
    dimension: int = 1,
    method: str = "exact",
) -> Composition:
    """Privacy level of several Laplace releases, by basic, advanced, published and exact composition.

    Parameters
    ----------
    epsilon0 : float > 0, or one for each release
        Level each release is calibrated for.
    epsilon : float > 0, optional
        Smaller level that each release keeps with some confidence; needed for the published theorem only.
    confidence : float in [0, 1], or one for each release, optional
        That confidence. Not given: Theorem 4's, as in the paper.
    releases : int >= 1, optional
        Number of equal releases; not with a sequence of epsilon0.
    delta : float in (0, 1)
        Probability with which the level may be exceeded.
    dimension : int
        Number of coordinates, for Theorem 4.
    method : {"exact", "published"}
        Which of the levels becomes ``.epsilon``; all are computed.

    Returns
    -------
    Composition

    Notes
    -----
    Basic: sum of epsilon0. Advanced: sqrt(2 ln(1/delta) sum epsilon0^2) + sum epsilon0 (exp(epsilon0) - 1).
    Theorem 3: epsilon0 sqrt(2 n ln(1/delta)) + n/2 (confidence epsilon^2 + (1 - confidence) epsilon0^2). Exact:
    from the privacy loss distribution, `dpcore.accounting`.

    Theorem 3 is false: it bounds the mean loss by 1/2 (confidence epsilon^2 + (1 - confidence) epsilon0^2),
    which the mean loss of the Laplace mechanism, epsilon0 - 1 + exp(-epsilon0), exceeds. For many releases its
    level lies below the truth, and ``.refuted`` says so. (With confidence 0 it is not Dwork and Roth's theorem
    either, as the paper claims.)

    Examples
    --------
    >>> many = compose(epsilon0=1.0, epsilon=0.5, releases=3000, delta=1e-5)
    >>> many.published < many.exact_lower, many.refuted
    (True, True)
    """
    check.choice("method", method, METHODS)
    delta = check.scalar("delta", check.open_probability("delta", delta))
    levels = _levels(epsilon0, releases)
    count = len(levels)
    if method == "published" and epsilon is None:
        raise ValueError("epsilon must be given for method 'published'")
    published = None
    if epsilon is not None:
        epsilon = check.scalar("epsilon", check.positive("epsilon", epsilon))
        published = theorem_3(levels, epsilon, _confidences(confidence, levels, epsilon, dimension), delta)
    elif confidence is not None:
        raise ValueError("epsilon must be given together with confidence")
    basic = math.fsum(levels) if max(levels) <= 1e300 else math.inf
    spread = math.sqrt(2 * math.log(1 / delta) * math.fsum(e * e for e in levels))
    # e^700 is within the range of a double; beyond, the bound says nothing.
    advanced = spread + math.fsum(e * math.expm1(e) for e in levels) if max(levels) <= 700 else math.inf
    exact, worst = _exact(levels, delta)
    # What holds for every mechanism with these levels holds for Laplace noise, whose own bracket may be wider.
    exact = exact[0], min(exact[1], worst[1])
    chosen = exact[1] if method == "exact" else published
    assert chosen is not None
    return Composition(count, delta, chosen, method, basic, advanced, published, *exact, *worst)


def _levels(epsilon0: Any, releases: int | None) -> list[float]:
    value = check.positive("epsilon0", epsilon0)
    if isinstance(value, float):
        count = 1 if releases is None else check.integer("releases", releases, least=1, most=10**7)
        return [value] * count
    if value.ndim != 1 or value.size == 0:
        raise ValueError(f"epsilon0 must be one number for each release, got an array of shape {value.shape}")
    if releases is not None and releases != value.size:
        raise ValueError(
            f"releases must be left out or equal the {value.size} entries of epsilon0, got {releases!r}"
        )
    return [float(e) for e in value]


def _confidences(confidence: Any, levels: Sequence[float], epsilon: float, dimension: int) -> list[float]:
    dimension = check.integer("dimension", dimension, least=1, most=_core.MAX_DIMENSION)
    if confidence is None:
        each = laplace_confidence(
            epsilon=epsilon, epsilon0=np.array(levels), dimension=dimension, method="published"
        )
        return [float(c) for c in np.atleast_1d(each)]
    value = np.atleast_1d(np.asarray(check.probability("confidence", confidence)))
    if value.ndim != 1 or value.size not in (1, len(levels)):
        raise ValueError(
            f"confidence must have one entry for each of the {len(levels)} releases, got {value.size}"
        )
    return [float(c) for c in np.broadcast_to(value, (len(levels),))]


def theorem_3(levels: Sequence[float], epsilon: float, confidences: Sequence[float], delta: float) -> float:
    """The level that Theorem 3 and Corollary 1 claim."""
    mean = math.fsum(
        c * min(epsilon, e0) ** 2 + (1 - c) * e0 * e0 for c, e0 in zip(confidences, levels, strict=True)
    )
    return math.sqrt(2 * math.log(1 / delta) * math.fsum(e * e for e in levels)) + mean / 2


def _exact(levels: Sequence[float], delta: float) -> tuple[tuple[float, float], tuple[float, float]]:
    from dpcore.accounting import from_laplace, from_pure

    out = []
    for make in (from_laplace, from_pure):
        total: Any = None
        for level, times in sorted(collections.Counter(levels).items()):
            part = make(epsilon=level) * times
            total = part if total is None else total.compose(part)
        bounds = total.epsilon(delta)
        out.append((float(bounds.lower), float(bounds.upper)))
    return out[0], out[1]
