"""The algorithms of the thesis as printed, with every intermediate value. For study, **not for release**.

Algorithm 2 is not private: its lines 13, 14 and 23 use the exact count, line 31 subtracts the noise it added,
and its two halves are composed as if they had fresh randomness. Algorithm 1 never ends where no noise is
needed; an exit is added. `dpcore.partial_knowledge.calibrate` and `calibrate_unknown_bias` do what they are
meant to do.

Everything is in counts; the thesis mixes counts and means (its lines 11 and 32 divide by n).
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from dpcore import samplers
from dpcore._results import Result
from dpcore._validation import (
    integer,
    iterable,
    non_negative,
    open_probability,
    positive,
    probability,
    real,
    scalar,
    shown,
)
from dpcore.partial_knowledge._bias import FloatArray
from dpcore.partial_knowledge._delta import checked_epsilon, unknown_records
from dpcore.partial_knowledge._laws import Binomial
from dpcore.samplers._arguments import source_of

__all__ = [
    "Algorithm1",
    "Algorithm2",
    "NotForRelease",
    "algorithm_1",
    "algorithm_2",
    "background_losses",
    "chernoff_tau",
    "kappa_split",
    "laplace_truncation_error",
    "occurrence_probabilities",
    "quasi_worst_case",
]


class NotForRelease(UserWarning):
    """The result was computed as the thesis prints it and must not be used to release data."""


def _warn(what: str) -> None:
    warnings.warn(
        f"published.{what} follows the thesis as printed and is not private; it is for study, not for release",
        NotForRelease,
        stacklevel=3,
    )


@dataclasses.dataclass(frozen=True)
class Algorithm1(Result):
    """What Algorithm 1 returned."""

    noise_scale: float
    zeta: float
    """How far the result may be above the smallest noise, by the thesis's account."""
    returned_at: int
    """Line of the thesis: 31, 37 or 39; 5 for the exit that is missing there."""
    evaluations: int
    trace: tuple[dict[str, float], ...]
    """The variables after each pass of a loop, with the line."""

    @property
    def statement(self) -> str:
        """What this is."""
        return "Algorithm 1 of the thesis as printed; its noise is right up to zeta, but is not re-evaluated."


def algorithm_1(
    *,
    epsilon: float,
    delta: float,
    records: int,
    known: int,
    bias: float,
    error: float = 1e-6,
    steps: float = 0.0,
    update: Callable[[float], float] = lambda steps: steps / 2,
    smallest: float = 2.0**-40,
) -> Algorithm1:
    """Algorithm 1 as printed: bisection for the noise of an attacker of known strength.

    Parameters
    ----------
    epsilon, delta, records, known, bias
        As for `calibrate`.
    error : float, > 0
        Width of the interval at which the bisection ends.
    steps : float, >= 0
        By how much each end is moved beyond the middle, at first.
    update : callable
        What line 33 does with `steps`.
    smallest : float, > 0
        The first loop (lines 5 to 9) halves for ever when no noise is needed; below this value it gives up and
        0 is returned. The thesis has no such exit.

    Notes
    -----
    The condition is evaluated with `count_delta`; the thesis convolves on a grid. Lines 21 and 26 move an end
    past the middle without a check, so the interval may lose the root; `last_hi` and `last_lo` are what is
    still valid.

    Examples
    --------
    >>> from dpcore.partial_knowledge import published
    >>> r = published.algorithm_1(epsilon=0.1, delta=1e-6, records=10_001, known=0, bias=0.1)
    >>> round(r.noise_scale, 5), r.returned_at
    (21.56447, 37)
    """
    if not callable(update):
        raise TypeError(f"update must be a function of the step, got {shown(update)}")
    e = scalar("epsilon", checked_epsilon(epsilon))
    d = scalar("delta", open_probability("delta", delta))
    unknown = unknown_records(integer("records", records, least=1), integer("known", known))
    law = Binomial(unknown, scalar("bias", probability("bias", bias)))
    width = scalar("error", positive("error", error))
    by = scalar("steps", non_negative("steps", steps))
    least = scalar("smallest", positive("smallest", smallest))
    trace: list[dict[str, float]] = []
    seen: dict[float, float] = {}

    def ppk(beta: float) -> float:
        if beta not in seen:
            seen[beta] = math.exp(law.log_delta(e, max(beta, 0.0), 2)[0])
        return seen[beta]

    def done(beta: float, zeta: float, line: int) -> Algorithm1:
        return Algorithm1(beta, zeta, line, len(seen), tuple(trace))

    lo, hi, init = 0.0, 0.0, 1.0
    while ppk(init) < d:
        hi = init
        init /= 2
        trace.append({"line": 5, "init": init, "hi": hi})
        if init < least:
            return done(0.0, hi, 5)
    while ppk(init) > d:
        lo = init
        init *= 2
        hi = init
        trace.append({"line": 10, "init": init, "lo": lo, "hi": hi})
    last_hi, last_lo = hi, lo
    while lo + width <= hi:
        mid = (lo + hi) / 2
        if ppk(mid) < d:
            hi = mid - by
            if ppk(hi) < d:
                last_hi = hi
        elif ppk(mid) > d:
            lo = mid + by
            if ppk(lo) > d:
                last_lo = lo
        else:
            return done(mid, 0.0, 31)
        by = scalar("update(steps)", non_negative("update(steps)", update(by)))
        trace.append({"line": 33, "mid": mid, "lo": lo, "hi": hi, "last_lo": last_lo, "last_hi": last_hi})
    mid = (last_lo + last_hi) / 2
    if ppk(mid) > d:
        return done(last_hi, last_hi - last_lo, 37)
    return done(mid, last_hi - last_lo, 39)


def chernoff_tau(*, records: int, bias: float, kappa2: float) -> tuple[float, float]:
    """Lines 7 and 8 for one bias: tau_1 and tau_2, twice the Chernoff-Hoeffding half-widths, to the last bit.

    Where the bias is so near to an edge that no half-width reaches the probability, the tail is empty and tau
    is twice the distance to the edge.

    Examples
    --------
    >>> from dpcore.partial_knowledge import published
    >>> [round(tau, 6) for tau in published.chernoff_tau(records=1000, bias=0.3, kappa2=1e-6)]
    [0.151814, 0.159578]
    """
    from dpcore import distributions

    half = scalar("kappa2", open_probability("kappa2", kappa2)) / 2
    if not half > 0:
        raise ValueError(f"kappa2 must be at least 1e-323, got {kappa2!r}")
    n = integer("records", records, least=1)
    p = scalar("bias", probability("bias", bias))
    below = distributions.chernoff_half_width(trials=n, bias=p, failure=half, side="below")
    above = distributions.chernoff_half_width(trials=n, bias=p, failure=half, side="above")
    return 2 * below, 2 * above


def laplace_truncation_error(*, epsilon: float, records: int, tau: float) -> float:
    """Lemma 4.10 as line 9 uses it: cdf of Laplace(0, 2/epsilon) at ``-records * tau / 2 + 1``, for one side.

    Examples
    --------
    >>> from dpcore.partial_knowledge import published
    >>> f"{published.laplace_truncation_error(epsilon=1.0, records=1000, tau=0.1):.6g}"
    '1.14487e-11'
    """
    e = scalar("epsilon", checked_epsilon(epsilon))
    x = -integer("records", records, least=1) * scalar("tau", non_negative("tau", tau)) / 2 + 1
    return 0.5 * math.exp(x * e / 2) if x < 0 else 1 - 0.5 * math.exp(-x * e / 2)


def kappa_split(*, delta: float, shares: tuple[float, float, float] = (1 / 3, 1 / 3, 1 / 3)) -> tuple[float, ...]:
    """kappa_1, kappa_2, kappa_3 that add up to delta; the thesis leaves the shares open.

    Examples
    --------
    >>> from dpcore.partial_knowledge import published
    >>> published.kappa_split(delta=3e-6, shares=(0.5, 0.25, 0.25))
    (1.5e-06, 7.5e-07, 7.5e-07)
    """
    d = scalar("delta", open_probability("delta", delta))
    given = iterable("shares", shares, "three numbers that add up to 1")
    parts = tuple(scalar("shares", open_probability("shares", s)) for s in given)
    if len(parts) != 3 or not abs(math.fsum(parts) - 1) <= 1e-12:
        raise ValueError(f"shares must be three numbers that add up to 1, got {shares!r}")
    return tuple(d * s for s in parts)


def background_losses(*, known: int, bias: float, first: int = 0, last: int | None = None) -> FloatArray:
    """Losses of background-knowledge classes, Lemma 5.3 (line 18): one for each number of hits first..last.

    ``abs(ln(known - hits + 1) + ln(bias) - ln(hits) - ln(1 - bias))``. The thesis prints n for n' = known in
    (5.17) and divides by zero at 0 hits, where the loss is infinite. A bias outside (0, 1), which the noisy one
    may be, also gives infinite losses.

    Examples
    --------
    >>> from dpcore.partial_knowledge import published
    >>> published.background_losses(known=4, bias=0.5).round(4)
    array([   inf, 1.3863, 0.4055, 0.4055, 1.3863])
    """
    n = integer("known", known)
    top = n if last is None else integer("last", last, most=n)
    hits = np.arange(integer("first", first, most=max(top, 0)), top + 1, dtype=np.float64)
    p = scalar("bias", real("bias", bias, "a number", -math.inf, math.inf))
    if not 0.0 < p < 1.0:
        return np.full(hits.shape, math.inf)
    with np.errstate(divide="ignore"):
        losses: FloatArray = np.abs(np.log(n - hits + 1) + math.log(p) - np.log(hits) - math.log1p(-p))
    return losses


def occurrence_probabilities(*, records: int, known: int, count: int) -> tuple[int, FloatArray]:
    """Lemma 5.1 and Corollary 5.2 (line 23): the hypergeometric law of the hits among the known records.

    Examples
    --------
    >>> from dpcore.partial_knowledge import published
    >>> first, pmf = published.occurrence_probabilities(records=10, known=4, count=5)
    >>> first, pmf.round(4)
    (0, array([0.0238, 0.2381, 0.4762, 0.2381, 0.0238]))
    """
    from dpcore import distributions

    n = integer("records", records)
    return distributions.hypergeometric_pmf(
        population=n, marked=integer("count", count, most=n), drawn=integer("known", known, most=n)
    )


def quasi_worst_case(losses: FloatArray, occurrence: FloatArray, *, kappa1: float) -> tuple[int, int, float]:
    """Lines 20 to 29: (wcr, class, mass left out).

    `wcr` is the number of classes left out, which line 30 takes for a number of hits; `class` is the index of
    the worst class that remains, which is what it should be.

    Examples
    --------
    >>> from dpcore.partial_knowledge import published
    >>> losses = published.background_losses(known=4, bias=0.5)
    >>> _, pmf = published.occurrence_probabilities(records=10, known=4, count=5)
    >>> published.quasi_worst_case(losses, pmf, kappa1=0.1)[:2]
    (1, 1)
    """
    from dpcore import distributions

    masses = np.asarray(non_negative("occurrence", occurrence))
    if masses.ndim != 1 or masses.size == 0:
        raise ValueError(f"occurrence must be one-dimensional and not empty, got shape {masses.shape}")
    budget = scalar("kappa1", non_negative("kappa1", kappa1))
    total = float(np.sum(masses / len(masses))) * len(masses)  # of means, which cannot overflow
    if not budget <= total:
        raise ValueError(f"kappa1 must be at most the sum of occurrence, {total!r}, got {kappa1!r}")
    out = distributions.excluded_mass(losses, masses, budget=budget)
    return out.excluded, out.kept, out.mass


@dataclasses.dataclass(frozen=True)
class Algorithm2(Result):
    """What Algorithm 2 returned, with all it used. Contains private values."""

    noise_scale: float
    returned_at: int
    """Line of the thesis: 11 or 32."""
    trace: dict[str, Any]
    """Every variable by its name in the thesis."""

    @property
    def statement(self) -> str:
        """What this is."""
        return (
            "Algorithm 2 of the thesis as printed. It is not private: lines 13, 14, 23 and 31 use the exact count."
        )


def algorithm_2(
    count: int,
    *,
    records: int,
    known: int,
    epsilon: float,
    delta: float,
    kappa1: float | None = None,
    kappa2: float | None = None,
    kappa3: float | None = None,
    error: float = 1e-6,
    laplace: float | None = None,
    rng: samplers.InsecureTestRng | None = None,
) -> Algorithm2:
    """Algorithm 2 as printed, with every line's values; a warning says that it must not be used for release.

    Parameters
    ----------
    count : int
        The exact count, in 0..records (checked: nothing here is private).
    records, known, epsilon, delta
        As for `calibrate_unknown_bias`.
    kappa1, kappa2, kappa3 : float, optional
        Parts of delta; a third each by default.
    error : float
        For Algorithm 1.
    laplace : float, optional
        The draw of line 4 before its division by n, to follow one run; drawn when not given.
    rng : InsecureTestRng, optional
        For tests.

    Returns
    -------
    Algorithm2
        ``trace["xi"]`` shows what line 31 does: ``bias_D - (tau_1/2 + l)`` is the exact bias less tau_1/2.

    Warns
    -----
    NotForRelease
        Always.

    Examples
    --------
    >>> import warnings
    >>> from dpcore.partial_knowledge import published
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     r = published.algorithm_2(300, records=1000, known=100, epsilon=1.0, delta=1e-4, laplace=0.5)
    >>> caught[0].category.__name__, r.returned_at
    ('NotForRelease', 32)
    """
    _warn("algorithm_2")
    n = integer("records", records, least=1)
    n1 = integer("known", known)
    unknown_records(n, n1)
    c = integer("count", count, most=n)
    e = scalar("epsilon", checked_epsilon(epsilon))
    if not e >= 1e-300:
        raise ValueError(f"epsilon must be at least 1e-300 here, got {epsilon!r}")
    error = scalar("error", positive("error", error))
    source_of(rng)
    d = scalar("delta", open_probability("delta", delta))
    parts = (kappa1, kappa2, kappa3)
    k1, k2, k3 = (
        kappa_split(delta=d)
        if all(p is None for p in parts)
        else tuple(scalar(f"kappa{i + 1}", open_probability(f"kappa{i + 1}", p)) for i, p in enumerate(parts))
    )
    if not abs(k1 + k2 + k3 - d) <= 1e-9 * d:
        raise ValueError(f"kappa1 + kappa2 + kappa3 must be delta = {d!r}, got {k1 + k2 + k3!r}")
    draw = (
        float(samplers.laplace(2 / e, rng=rng))
        if laplace is None
        else scalar(
            "laplace",
            real("laplace", laplace, "a finite number", -math.inf, math.inf, low_open=True, high_open=True),
        )
    )
    trace: dict[str, Any] = {"n": n, "c": c, "bias": c / n, "kappa1": k1, "kappa2": k2, "kappa3": k3}
    ell = draw / n
    bias_d = c / n + ell
    ends = (bias_d - ell, bias_d + ell)  # line 6: the first of them is the exact bias
    trace |= {"l": ell, "bias_D": bias_d, "bias_ends": ends}
    taus = [chernoff_tau(records=n, bias=min(max(b, 0.0), 1.0), kappa2=k2) for b in ends]
    tau1, tau2 = max(t[0] for t in taus), max(t[1] for t in taus)
    errors = [laplace_truncation_error(epsilon=e, records=n, tau=t) for t in (tau1, tau2)]
    k4 = k3 - math.fsum(errors)
    classical = math.sqrt(2 * math.log(1.26 / d)) / (e / 2)  # the 1.26 is the thesis's; times n, as counts
    trace |= {"tau_1": tau1, "tau_2": tau2, "truncation": errors, "kappa4": k4, "classical": classical}
    if abs(ell) > tau1 / 2 or abs(ell) > tau2 / 2 or k4 <= 0:
        return Algorithm2(classical, 11, trace)
    base = max(n1 - (n - c), 0)
    first, occurrence = occurrence_probabilities(records=n, known=n1, count=c)
    losses = background_losses(known=n1, bias=bias_d, first=first, last=first + len(occurrence) - 1)
    wcr, kept, left_out = quasi_worst_case(losses, occurrence, kappa1=min(k1, float(np.sum(occurrence))))
    order = np.argsort(-losses, kind="stable")
    trace |= {"base": base, "out": min(n1, c) - base}
    trace |= {"losses": losses[order], "idx": first + order, "prb": occurrence[order]}  # lines 20 to 24
    trace |= {"wcr": wcr, "class": first + kept, "exclude": left_out}
    xi = (-(tau1 / 2 + ell), tau2 / 2 + ell)
    runs = [
        algorithm_1(epsilon=e / 2, delta=k4, records=n, known=n1, bias=min(max(bias_d + x, 0.0), 1.0), error=error)
        for x in xi
    ]
    trace |= {"xi": xi, "alg1_bias": tuple(bias_d + x for x in xi), "alg1": tuple(r.noise_scale for r in runs)}
    beta = max(r.noise_scale for r in runs)
    trace["beta"] = beta
    return Algorithm2(min(beta, classical), 32, trace)
