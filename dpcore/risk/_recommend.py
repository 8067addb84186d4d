"""From what a steward knows to an epsilon: feasible range by every method, the choice, and what it means."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from dpcore import _validation as check
from dpcore.partial_knowledge._bias import Mixture, Range, Strata, Unequal, parse
from dpcore.risk._confidence import laplace_confidence
from dpcore.risk._cost import CostModel, NotConvexError
from dpcore.risk._decision import Conflict, Limit, Recommendation
from dpcore.risk._disclosure import disclosure_bound, disclosure_epsilon
from dpcore.risk._noise import MOST, Way, ways_to_add_noise

# Wide enough for any unit, and narrow enough that no quotient of two of them leaves the range of a double.
UNITS = "a number in [1e-30, 1e30]"
PREFERENCES = ("privacy", "accuracy")
# A level at which a release says next to nothing, to name what even that would take.
_LITTLE = 1e-3


def recommend(
    *,
    records: int,
    known: int | None = None,
    bias: Any = None,
    impact: float | None = None,
    threshold: float | None = None,
    cost: CostModel | float | None = None,
    budget: float | None = None,
    allowed_error: float | None = None,
    releases: int = 1,
    delta: float | None = None,
    sensitivity: float = 1.0,
    confidence: float = 0.95,
    prefer: str = "privacy",
    rely_on_partial_knowledge: bool = False,
    title: str = "Which epsilon?",
) -> Recommendation:
    """Recommend a privacy level for releasing counts (or sums), from what a data steward knows.

    Give any of the three requirements: impact and threshold, cost and budget, allowed error. Epsilon is the
    total privacy level of one person over all releases.

    Parameters
    ----------
    records : int >= 1
        Number of people in the data.
    known, bias : int and float (or pair, or strata), optional
        What attackers may know: the number of records they know besides the one they are after, and the share
        of "yes" among the others (a number, a range, or strata as in `dpcore.partial_knowledge`). Adds the
        noise that is enough under this assumption; needs `delta`.
    impact, threshold : float > 0, optional
        Damage if a released count is learned exactly, and the risk (probability times damage) to accept.
    cost, budget : CostModel or float, and float, optional
        Compensation model, or the compensation to pay without protection, and what may be spent.
    allowed_error : float > 0, optional
        Largest mean absolute error of each release.
    releases : int >= 1
        How many counts are released (with partial knowledge: the same count, so many times).
    delta : float in (0, 1), optional
        The part of the probability for which epsilon makes no promise; with it Gaussian noise and exact
        composition are considered. Without it the guarantee is pure.
    sensitivity : float > 0
        What one person can change in a released value; 1 for a count.
    confidence : float in (1/2, 1)
        Coverage of the interval of the "quantile" method.
    prefer : {"privacy", "accuracy"}
        Which end of the feasible range to recommend.
    rely_on_partial_knowledge : bool
        Let the decision rest on `known` and `bias`. Otherwise they only say how much less noise would do. Not
        together with impact and threshold: such noise hides persons, not the count.
    title : str
        Heading of the report.

    Returns
    -------
    Recommendation
        With ``.table()``, ``.to_json()``, ``.to_html()``, ``.save(path)``. Requirements that conflict do not
        raise: the result has ``feasible = False`` and a `Conflict` that says which two, by how much, and what
        would help.

    Notes
    -----
    Upper limits. Risk threshold: an attacker who holds all counts from 0 to `records` equally likely guesses right
    with probability tanh(epsilon/2) + (1 - tanh(epsilon/2))/(records + 1) at most, for *every* epsilon-private
    release, however many there are (`disclosure_bound`, which also counts delta). Budget: cost(epsilon) <= budget.
    Lower limits: the mean absolute error of Laplace noise (pure), of Laplace noise under exact composition and of
    Gaussian noise (with `delta`).

    Examples
    --------
    >>> health = recommend(records=100, cost=550_000, budget=80_000, allowed_error=2.0)
    >>> health.epsilon, health.binding
    (0.5, 'Allowed error with Laplace noise')
    >>> recommend(records=100, cost=550_000, budget=20_000, allowed_error=2.0).feasible
    False
    """
    check.choice("prefer", prefer, PREFERENCES)
    records = check.integer("records", records, least=1, most=check.MAX_EXACT_INTEGER - 1)
    releases = check.integer("releases", releases, least=1, most=10**6)
    sensitivity = check.scalar("sensitivity", check.positive("sensitivity", sensitivity))
    rule = "a number in (1/2, 1)"
    confidence = check.scalar(
        "confidence", check.real("confidence", confidence, rule, 0.5, 1.0, low_open=True, high_open=True)
    )
    if delta is not None:
        sensible = "a number in (0, 1/2]"
        delta = check.scalar("delta", check.real("delta", delta, sensible, 0.0, 0.5, low_open=True))
    _together(("impact", impact), ("threshold", threshold))
    _together(("cost", cost), ("budget", budget))
    _together(("known", known), ("bias", bias))
    rely_on_partial_knowledge = check.flag("rely_on_partial_knowledge", rely_on_partial_knowledge)
    if not isinstance(title, str):
        raise TypeError(f"title must be a text, got {check.shown(title)}")
    if known is not None:
        known = check.integer("known", known, most=records - 1)
        bias = bias if isinstance(parse(bias, several=False), (Range, Strata, Unequal, Mixture)) else float(bias)
    if impact is not None:
        impact = check.scalar("impact", check.non_negative("impact", impact))
        threshold = check.scalar("threshold", check.real("threshold", threshold, UNITS, 1e-30, 1e30))
    if budget is not None:
        budget = check.scalar("budget", check.non_negative("budget", budget))
    if allowed_error is not None:
        allowed_error = check.scalar(
            "allowed_error", check.real("allowed_error", allowed_error, UNITS, 1e-30, 1e30)
        )
    if known is not None and delta is None:
        raise ValueError("delta must be given together with known and bias")
    if known is not None and sensitivity != 1:
        raise ValueError(f"sensitivity must be 1 (a count) with known and bias, got {sensitivity!r}")
    if rely_on_partial_knowledge and known is None:
        raise ValueError("known and bias must be given to rely on partial knowledge")
    if rely_on_partial_knowledge and impact is not None:
        raise ValueError(
            "impact and threshold must not be given with rely_on_partial_knowledge: noise under partial knowledge "
            "protects each person, not the count itself, which may even be published exactly"
        )
    if impact is None and budget is None and allowed_error is None:
        raise ValueError("impact and threshold, cost and budget, or allowed_error must be given")
    model = _model(cost)
    ways = ways_to_add_noise(records, known, bias, releases, delta, sensitivity)
    used_ways = [way for way in ways if rely_on_partial_knowledge or not way.partial]
    right = _count_right(records, sensitivity, delta or 0.0)
    limits = _lower_limits(ways, used_ways, allowed_error) + _upper_limits(
        impact, threshold, model, budget, sensitivity, right, confidence, releases
    )
    lowers = [limit for limit in limits if limit.kind == "lower" and limit.used]
    uppers = [limit for limit in limits if limit.kind == "upper" and limit.used]
    low = min(lowers, key=lambda limit: limit.value) if lowers else None
    high = min(uppers, key=lambda limit: limit.value) if uppers else None
    lower, upper = low.value if low else 0.0, high.value if high else math.inf
    facts = {
        "records": records,
        "releases": releases,
        "sensitivity": sensitivity,
        "delta": delta,
        "known": known,
        "bias": bias if isinstance(bias, (int, float, tuple, list, type(None))) else repr(bias),
        "impact": impact,
        "threshold": threshold,
        "budget": budget,
        "cost": None if model is None else model.description,
        "allowed_error": allowed_error,
        "prefer": prefer,
    }
    curves = _curves(ways, model, right, releases, lower, upper, allowed_error, impact, threshold, budget)
    if lower > upper or upper == 0:
        assert high is not None
        conflict = _conflict(low, high, uppers, ways, used_ways, model, facts, right)
        return Recommendation(
            title,
            False,
            None,
            lower,
            upper,
            conflict.first,
            limits,
            (),
            None,
            None,
            None,
            conflict,
            facts,
            _notes(None, limits, facts),
            curves,
        )
    epsilon, binding = _choose(low, high, prefer)
    noise = tuple(sorted((way.noise_at(epsilon) for way in ways), key=lambda n: n.expected_error))
    allowed_names = {way.name for way in used_ways}
    noise = tuple(sorted(noise, key=lambda n: n.name not in allowed_names))
    # Two hypotheses, equally likely: (e^epsilon + delta)/(e^epsilon + 1).
    guess = 1 / (1 + math.exp(-epsilon)) + (delta or 0.0) / (1 + math.exp(min(epsilon, 700.0)))
    expected = None if model is None else float(model.cost(epsilon))
    facts |= _extra(epsilon, model, releases)
    return Recommendation(
        title,
        True,
        epsilon,
        lower,
        upper,
        binding,
        limits,
        noise,
        min(guess, 1.0),
        None if noise[0].assumption else right(epsilon),
        expected,
        None,
        facts,
        _notes(epsilon, limits, facts),
        curves,
    )


def _together(*pairs: tuple[str, Any]) -> None:
    given = [name for name, value in pairs if value is not None]
    if given and len(given) != len(pairs):
        raise ValueError(f"{' and '.join(name for name, _ in pairs)} must be given together, got only {given[0]}")


def _model(cost: CostModel | float | None) -> CostModel | None:
    if cost is None or isinstance(cost, CostModel):
        return cost
    return CostModel(full=check.scalar("cost", check.positive("cost", cost)))


def _count_right(records: int, sensitivity: float, delta: float) -> Callable[[float], float]:
    """Largest probability, by epsilon, that the best guess at the released value is right.

    One person changes the value by `sensitivity` at most, so all of them together span `records * sensitivity`.
    """
    values = math.floor(Fraction(sensitivity) * records) + 1

    def right(epsilon: float) -> float:
        return disclosure_bound(epsilon=epsilon, delta=delta, sensitivity=sensitivity, values=values)

    return right


# --- limits -------------------------------------------------------------------------------------------------


def _lower_limits(ways: list[Way], used: list[Way], allowed_error: float | None) -> tuple[Limit, ...]:
    if allowed_error is None:
        return ()
    error = check.scalar("allowed_error", check.real("allowed_error", allowed_error, UNITS, 1e-30, 1e30))
    notes = {
        "Laplace": "pure differential privacy, levels of the releases added up",
        "Laplace, exact composition": "releases added up by their privacy loss distribution, at delta",
        "Gaussian": "analytic Gaussian mechanism at delta",
        "Gaussian, partial knowledge": "analytic, given what attackers may know, at delta",
    }
    return tuple(
        Limit(f"Allowed error with {way.name}", "lower", way.level_for(error), way in used, notes[way.short])
        for way in ways
    )


def _upper_limits(
    impact: float | None,
    threshold: float | None,
    model: CostModel | None,
    budget: float | None,
    sensitivity: float,
    right: Callable[[float], float],
    confidence: float,
    releases: int,
) -> tuple[Limit, ...]:
    out: list[Limit] = []
    if impact is not None:
        assert threshold is not None
        how: dict[str, Any] = {"impact": impact, "threshold": threshold, "sensitivity": sensitivity}
        bound = _risk_limit(disclosure_epsilon(**how), impact, threshold, right)
        note = "largest probability that the best guess is right, for every private release, times impact"
        out.append(Limit("Risk threshold (best guess)", "upper", bound, True, note))
        quantile = disclosure_epsilon(**how, method="quantile", confidence=confidence)
        note = f"impact/threshold values stay within the {confidence:g} interval of one Laplace release"
        assert isinstance(quantile, float)
        out.append(Limit("Risk threshold (plausible values)", "upper", quantile, False, note))
        published = disclosure_epsilon(**how, method="published", u=1.0)
        assert isinstance(published, float)
        note = "Theorem 3 with u = 1; known to be wrong"
        out.append(Limit("Risk threshold, as published", "upper", max(published, 0.0), False, note))
    if model is not None:
        assert budget is not None
        spend = check.scalar("budget", check.non_negative("budget", budget))
        out.append(
            Limit("Budget", "upper", model.epsilon_within(spend), True, "cost of the level that holds for certain")
        )
        if releases == 1:  # the confidence behind the cost at risk is that of one Laplace release
            out += _at_risk_limits(model, spend)
    return tuple(out)


def _at_risk_limits(model: CostModel, budget: float) -> list[Limit]:
    out: list[Limit] = []
    somewhere = min(max(model.epsilon_within(budget), 1e-6), 50.0)
    for method, name, note in (
        ("exact", "Budget at risk", "cost at the cheapest level that holds with the exact confidence"),
        ("published", "Budget at risk, as published", "the same with the published confidence; known to be wrong"),
    ):
        # A custom cost that is not convex has no cheapest level.
        if _cheapest_cost(model, somewhere, method) is not None:
            out.append(Limit(name, "upper", _within_at_risk(model, budget, method), False, note))
    return out


def _risk_limit(start: Any, impact: float, threshold: float, right: Callable[[float], float]) -> float:
    """Largest epsilon at which impact times the probability of a right guess is within the threshold."""
    if impact <= threshold:
        return math.inf

    def holds(epsilon: float) -> bool:
        return impact * right(epsilon) <= threshold

    if holds(start):
        return float(start)
    low, high = float(start) * 1e-6, float(start)
    if not holds(low):
        return 0.0
    while high / low > 1 + 1e-12:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _within_at_risk(model: CostModel, budget: float, method: str) -> float:
    """Largest epsilon0 whose cheapest cost at risk stays within the budget."""
    start = model.epsilon_within(budget)
    if start in (0.0, math.inf):
        return start

    def holds(epsilon0: float) -> bool:
        cost = _cheapest_cost(model, epsilon0, method)
        return cost is not None and cost <= budget

    low, high = start, 2 * start
    while holds(high):
        low, high = high, 2 * high
        if high > MOST:
            return math.inf
    while high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _cheapest_cost(model: CostModel, epsilon0: float, method: str) -> float | None:
    """Lowest cost at risk; None for a custom cost that is not convex up to there."""
    try:
        return model.cheapest(epsilon0=epsilon0, method=method).cost
    except NotConvexError:
        return None


def _choose(low: Limit | None, high: Limit | None, prefer: str) -> tuple[float, str]:
    limits = [limit for limit in (low, high) if limit is not None and 0 < limit.value < math.inf]
    if not limits:
        raise ValueError(
            "the requirements do not limit epsilon: the impact does not exceed the threshold, the budget covers "
            "every cost, or the allowed error is kept at every level; make one of them stricter"
        )
    if prefer == "accuracy":
        limits.reverse()
    return limits[0].value, limits[0].name


def _conflict(
    low: Limit | None,
    high: Limit,
    uppers: list[Limit],
    ways: list[Way],
    used_ways: list[Way],
    model: CostModel | None,
    facts: dict[str, Any],
    right: Callable[[float], float],
) -> Conflict:
    if low is not None and low.value == 0:  # the error is kept at every level: it is not what conflicts
        low = None
    wanted = low.value if low else _LITTLE
    raised = []
    for limit in uppers:
        if limit.value >= wanted:
            continue
        if limit.name == "Budget":
            assert model is not None
            needed = _rounded_up(float(model.cost(wanted)), 2)
            if model.epsilon_within(needed) < wanted:  # the cost of a small level rounds to the unavoidable one
                needed += 0.01
            raised.append(f"the budget from {facts['budget']:,.2f} to {needed:,.2f}")
        else:
            risk = facts["impact"] * right(wanted)
            needed = _rounded_up(risk, 5 - math.floor(math.log10(risk)))
            raised.append(f"the risk threshold from {facts['threshold']:,.6g} to {needed:,.6g}")
    if low is None:
        return Conflict(
            "Release of anything at all",
            high.name,
            0.0,
            high.value,
            (f"raise {' and '.join(raised)}; that is what the smallest releases take",),
        )
    remedies = []
    if high.value > 0:
        error = _allowable_error(high.value, used_ways)
        remedies.append(f"allow an error of {error:.4g} instead of {facts['allowed_error']:.4g}")
    remedies.append(f"raise {' and '.join(raised)}")
    fewer = math.floor(facts["releases"] * high.value / low.value)
    if facts["releases"] > 1 and fewer >= 1 and low.name.endswith("Laplace noise"):
        remedies.append(f"release {fewer} instead of {facts['releases']} times")
    for way in ways:
        protects_enough = all(limit.name == "Budget" for limit in uppers)
        if (
            way.partial
            and way not in used_ways
            and protects_enough
            and way.level_for(facts["allowed_error"]) <= high.value
        ):
            remedies.append("rely on what attackers may know: with partial knowledge both can be met")
    return Conflict(low.name, high.name, low.value, high.value, tuple(remedies))


def _allowable_error(level: float, ways: list[Way]) -> float:
    """An error, rounded up to what is printed of it, that some way keeps at `level`."""
    error = min(way.noise_at(level).expected_error for way in ways)
    while True:
        error = _rounded_up(error, 3 - math.floor(math.log10(error)))
        if min(way.level_for(error) for way in ways) <= level:
            return error
        error *= 1 + 1e-5  # searches stop at a part in a million; the next printed number then is the answer


def _rounded_up(value: float, digits: int) -> float:
    """The smallest decimal with `digits` places that is not below `value`; what is advised must be enough."""
    exact = decimal.Decimal(value)
    # Enough digits for every double: 309 before the point, and those asked for after it.
    enough = decimal.Context(prec=700, rounding=decimal.ROUND_CEILING)
    return float(exact.quantize(decimal.Decimal(1).scaleb(-digits), context=enough))


# --- what goes into the report ------------------------------------------------------------------------------


def _extra(epsilon: float, model: CostModel | None, releases: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if releases == 1:
        half = epsilon / 2
        out["half_level"] = half
        out["half_level_confidence"] = float(laplace_confidence(epsilon=half, epsilon0=epsilon))
        out["half_level_confidence_published"] = float(
            laplace_confidence(epsilon=half, epsilon0=epsilon, method="published")
        )
    if model is not None and releases == 1:
        out["cost_without_protection"] = None if model.function is not None else model.full + model.floor
        out["cost_at_risk"] = _cheapest_cost(model, epsilon, "exact")
        out["cost_at_risk_published"] = _cheapest_cost(model, epsilon, "published")
    return out


def _notes(epsilon: float | None, limits: tuple[Limit, ...], facts: dict[str, Any]) -> tuple[str, ...]:
    notes = []
    if epsilon is not None and epsilon > 3:
        notes.append(
            f"A total level of {epsilon:.3g} is high: differential privacy alone then promises little. The limits "
            "above rest on the stated impact and cost; check them."
        )
    if any("as published" in limit.name for limit in limits):
        notes.append(
            "Rows marked 'as published' repeat formulas of the literature that are known to be wrong; they are "
            "shown for comparison and never used. The errors are shown in docs/risk_auditors.md."
        )
    if facts["known"] is not None:
        notes.append(
            "Noise under partial knowledge protects only against attackers who know no more than stated. Plain "
            "differential privacy needs no such assumption."
        )
    if facts["delta"] is not None and facts["delta"] > 1 / facts["records"]:
        notes.append(
            f"delta = {facts['delta']:.3g} is above 1/records = {1 / facts['records']:.3g}: a mechanism that "
            "publishes one random record would satisfy it. Choose a smaller delta."
        )
    return tuple(notes)


def _curves(
    ways: list[Way],
    model: CostModel | None,
    right: Callable[[float], float],
    releases: int,
    lower: float,
    upper: float,
    allowed_error: float | None,
    impact: float | None,
    threshold: float | None,
    budget: float | None,
) -> dict[str, Any]:
    """Points of the report's plots, over a decade on each side of the limits."""
    marks = [x for x in (lower, upper) if 0 < x < math.inf] or [1.0]
    levels = np.geomspace(max(min(marks) / 10, 1e-4), min(max(marks) * 10, 50.0), 41)
    curves: dict[str, Any] = {"epsilon": levels.tolist(), "allowed_error": allowed_error}
    curves["error"] = {way.short: way.errors(levels) for way in ways}
    if impact is not None:
        curves["risk"] = [impact * right(float(e)) for e in levels]
        curves["threshold"] = threshold
    if model is not None:
        curves["cost"] = np.asarray(model.cost(levels)).tolist()
        at_risk = [_cheapest_cost(model, float(e), "exact") for e in levels] if releases == 1 else [None]
        if None not in at_risk:
            curves["cost_at_risk"] = at_risk
        curves["budget"] = budget
    return curves
