"""What a privacy level costs: Equations 8 to 12 of Dandekar et al., for any convex cost."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize

from dpcore import _core
from dpcore import _validation as check
from dpcore._results import Result
from dpcore._validation import FloatArray, Number
from dpcore.risk._confidence import METHODS, checked_dimension, laplace_confidence

# Grid on which a callable cost is checked for being non-decreasing and convex, and the slack, as a share of
# the cost's range, that rounding in the callable needs.
_CHECK_POINTS = 513
_CHECK_SLACK = 1e-9


# Points of each of two grids, geometric and even, on which local minima are looked for where theory is silent.
_SEARCH = 513


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    return float(optimize.brentq(function, low, high, xtol=4e-16 * low, rtol=8.9e-16, maxiter=200))


class NotConvexError(ValueError):
    """The cost is not convex and non-decreasing, so that a cheapest level need not be unique."""


@dataclasses.dataclass(frozen=True)
class Cheapest(Result):
    """The privacy level with the lowest expected cost.

    Attributes
    ----------
    epsilon : float
        The cheapest level to state.
    confidence : float
        Probability with which the mechanism keeps it.
    cost : float
        Expected cost there.
    epsilon0 : float
        Level the noise is calibrated for.
    plain_cost : float
        Cost when only epsilon0 is stated.
    saving : float
        plain_cost - cost.
    method : str
        Which confidence was used.
    uniqueness : str
        Why no other level is cheaper: "proved" or "checked" to be the only minimum, or "the lowest of n local
        minima, checked".

    Examples
    --------
    >>> best = CostModel(full=550_000).cheapest(epsilon0=0.5)
    >>> round(best.saving, 2), best.uniqueness
    (6455.45, 'proved')
    """

    epsilon: float
    confidence: float
    cost: float
    epsilon0: float
    plain_cost: float
    saving: float
    method: str
    uniqueness: str

    @property
    def statement(self) -> str:
        """The result in words."""
        return (
            f"Noise calibrated for epsilon0 = {self.epsilon0:.6g} keeps the loss within epsilon = "
            f"{self.epsilon:.6g} with probability {self.confidence:.4g} ({self.method} confidence). The "
            f"expected cost is {self.cost:,.2f}; with epsilon0 alone it is {self.plain_cost:,.2f}. No other "
            f"level is cheaper ({self.uniqueness})."
        )


@dataclasses.dataclass(frozen=True)
class EpsilonRange(Result):
    """Privacy levels that a budget and an allowed error leave.

    Attributes
    ----------
    lower, upper : float
        Smallest and largest admissible level; lower > upper when there is none.
    feasible : bool
        Whether there is one.
    lower_reason, upper_reason : str
        What sets each end.

    Examples
    --------
    >>> CostModel(full=550_000).epsilon_range(budget=80_000, allowed_error=2.0).lower_reason
    'the allowed error'
    """

    lower: float
    upper: float
    feasible: bool
    lower_reason: str
    upper_reason: str

    @property
    def statement(self) -> str:
        """The result in words."""
        if self.feasible:
            return (
                f"Every epsilon from {self.lower:.6g} ({self.lower_reason}) to {self.upper:.6g} "
                f"({self.upper_reason}) meets the requirements."
            )
        return (
            f"No epsilon meets the requirements: {self.lower_reason} asks for at least {self.lower:.6g}, "
            f"{self.upper_reason} for at most {self.upper:.6g}."
        )


@dataclasses.dataclass(frozen=True)
class CostModel:
    """Expected compensation as a function of the privacy level.

    The built-in model is Equation 8, ``floor + full * exp(-rate/epsilon)``: nothing but `floor` to pay when
    nothing can be learned, rising to ``floor + full`` without protection. Any other convex cost:
    ``CostModel.custom(function)``.

    Parameters
    ----------
    full : float > 0
        Compensation for everybody together when the data are released without protection (the paper's E times
        the number of people).
    floor : float >= 0, optional
        Cost that no protection avoids (E_min).
    rate : float > 0, optional
        How late the cost rises (c).

    Notes
    -----
    Lemma 4 of the paper calls Equation 8 convex. It is convex only up to epsilon = rate/2. The cheapest level is
    unique with the published confidence, and with the exact one up to epsilon0 = 3.26 rate; beyond, `cheapest`
    looks for all local minima, takes the lowest and says how many there are. The proof, and the
    paper's other slips (the floor breaks its own constraint E(epsilon) <= E), are in docs/risk_auditors.md.

    Examples
    --------
    The health centre of section 5.3: 100 people, 5500 each, noise for epsilon0 = 0.5.

    >>> model = CostModel(full=5500 * 100)
    >>> round(model.cost(0.5), 2)
    74434.41
    >>> best = model.cheapest(epsilon0=0.5, method="published")
    >>> round(best.epsilon, 7), round(best.cost, 2)
    (0.2741153, 37805.86)

    With the confidence that the mechanism really has, most of that saving is gone:

    >>> best = model.cheapest(epsilon0=0.5)
    >>> round(best.epsilon, 4), round(best.confidence, 4), round(best.cost, 2)
    (0.2858, 0.1117, 67978.95)
    """

    full: float
    floor: float = 0.0
    rate: float = 1.0
    function: Callable[[float], float] | None = dataclasses.field(default=None, repr=False)

    def __init__(self, *, full: float, floor: float = 0.0, rate: float = 1.0) -> None:
        object.__setattr__(self, "full", check.scalar("full", check.positive("full", full)))
        object.__setattr__(self, "floor", check.scalar("floor", check.non_negative("floor", floor)))
        object.__setattr__(self, "rate", check.scalar("rate", check.positive("rate", rate)))
        object.__setattr__(self, "function", None)

    @classmethod
    def custom(cls, function: Callable[[float], float]) -> CostModel:
        """A model from a callable: `function(epsilon)` is the cost of level epsilon > 0, a number >= 0.

        It must be convex and non-decreasing on the levels asked about; `cheapest` checks that on a grid and
        raises `NotConvexError` where it is not.

        Examples
        --------
        >>> quadratic = CostModel.custom(lambda epsilon: 1000 * epsilon**2)
        >>> round(quadratic.cheapest(epsilon0=1.0, method="published").epsilon, 6)
        0.524856
        """
        if not callable(function):
            raise TypeError(f"function must be callable, got {function!r}")
        model = cls.__new__(cls)
        for name, value in (
            ("full", math.nan),
            ("floor", math.nan),
            ("rate", math.nan),
            ("function", function),
        ):
            object.__setattr__(model, name, value)
        return model

    def __repr__(self) -> str:
        if self.function is not None:
            return f"CostModel.custom({self.function!r})"
        return f"CostModel(full={self.full!r}, floor={self.floor!r}, rate={self.rate!r})"

    @property
    def description(self) -> str:
        """The model in words."""
        if self.function is not None:
            return f"by the function {getattr(self.function, '__name__', self.function)!s}"
        return (
            f"{self.floor:,.0f} to {self.floor + self.full:,.0f}, half-way at epsilon = "
            f"{self.rate / math.log(2):.3g}"
        )

    # --- costs ----------------------------------------------------------------------------------------------

    def cost(self, epsilon: Any) -> Number:
        """Cost of stating level `epsilon` > 0 (Equation 8); arrays are accepted."""
        epsilon = check.positive("epsilon", epsilon)
        if self.function is not None:
            if isinstance(epsilon, float):
                return self._call(epsilon)
            called: FloatArray = np.empty(epsilon.shape)
            called.flat[:] = [self._call(float(e)) for e in epsilon.flat]
            return called
        with np.errstate(over="ignore", under="ignore"):  # rate/epsilon beyond a double costs the floor
            out: FloatArray = np.asarray(self.floor + self.full * np.exp(-self.rate / np.asarray(epsilon)))
        return float(out) if isinstance(epsilon, float) else out

    def _call(self, epsilon: float) -> float:
        assert self.function is not None
        return check.scalar(
            f"function({epsilon!r})",
            check.non_negative(f"function({epsilon!r})", self.function(epsilon)),
        )

    def cost_at_risk(
        self,
        *,
        epsilon: Any,
        epsilon0: Any,
        method: str = "exact",
        dimension: int = 1,
        confidence: Any = None,
    ) -> Number:
        """Expected cost when `epsilon` holds with some confidence and `epsilon0` for certain (Equation 9).

        confidence * cost(epsilon) + (1 - confidence) * cost(epsilon0).

        Parameters
        ----------
        epsilon, epsilon0 : float > 0 or array
            Level stated and level the noise is calibrated for.
        method : {"exact", "published"}
            Whose confidence of the Laplace mechanism is used, unless `confidence` is given.
        dimension : int
            Number of coordinates, for the published confidence.
        confidence : float in [0, 1] or array, optional
            A confidence obtained elsewhere (for another mechanism, or from sampled sensitivity).
        """
        check.choice("method", method, METHODS)
        epsilon = check.positive("epsilon", epsilon)
        epsilon0 = check.positive("epsilon0", epsilon0)
        checked_dimension(dimension)
        if confidence is None:
            confidence = laplace_confidence(epsilon=epsilon, epsilon0=epsilon0, dimension=dimension, method=method)
        else:
            confidence = check.probability("confidence", confidence)
        # A level above epsilon0 is not dearer than epsilon0: that one holds as well.
        stated = np.minimum(epsilon, epsilon0)
        stated = float(stated) if np.ndim(stated) == 0 else stated
        out = confidence * self.cost(stated) + (1.0 - confidence) * self.cost(epsilon0)
        return float(out) if np.ndim(out) == 0 else out

    # --- the cheapest level ---------------------------------------------------------------------------------

    def cheapest(self, *, epsilon0: float, method: str = "exact", dimension: int = 1) -> Cheapest:
        """The level with the lowest expected cost for noise calibrated at `epsilon0`.

        Parameters
        ----------
        epsilon0 : float in [1e-100, 1e6]
            Level the noise is calibrated for.
        method : {"exact", "published"}
            Whose confidence is used. "published" reproduces section 5.3 (Equation 10 when dimension is 1).
        dimension : int
            Number of coordinates, for the published confidence.

        Returns
        -------
        Cheapest

        Raises
        ------
        NotConvexError
            If a callable cost is not convex and non-decreasing on (0, epsilon0].

        Notes
        -----
        The cost at risk is cost(epsilon0) - confidence(epsilon) (cost(epsilon0) - cost(epsilon)), so the
        product is maximised. Both confidences are log-concave and for a convex cost the other factor is
        concave: the maximum is unique. For Equation 8 beyond rate/2, where it is not convex,
        see docs/risk_auditors.md.
        """
        check.choice("method", method, METHODS)
        rule = "a number in [1e-100, 1e6]"
        epsilon0 = check.scalar("epsilon0", check.real("epsilon0", epsilon0, rule, 1e-100, 1e6))
        dimension = check.integer("dimension", dimension, least=1, most=_core.MAX_DIMENSION)
        if self.function is not None:
            epsilon, uniqueness = self._cheapest_custom(epsilon0, method, dimension), "checked"
        else:
            epsilon, uniqueness = self._cheapest_builtin(epsilon0, method, dimension)
        plain = float(self.cost(epsilon0))
        confidence = float(
            laplace_confidence(epsilon=epsilon, epsilon0=epsilon0, dimension=dimension, method=method)
        )
        cost = float(self.cost_at_risk(epsilon=epsilon, epsilon0=epsilon0, confidence=confidence))
        return Cheapest(epsilon, confidence, cost, epsilon0, plain, plain - cost, method, uniqueness)

    def _cheapest_builtin(self, epsilon0: float, method: str, dimension: int) -> tuple[float, str]:
        c = self.rate

        def slope(epsilon: float) -> float:
            # Sign of the derivative of confidence * (cost(epsilon0) - cost(epsilon)), through logarithms:
            # (E0 - E)/E' = epsilon^2/c expm1(c/epsilon - c/epsilon0) against confidence/confidence'.
            y = c * (epsilon0 - epsilon) / (epsilon * epsilon0)
            log_expm1 = y + math.log(-math.expm1(-y)) if y > 1 else math.log(math.expm1(y))
            if method == "exact":
                log_ratio = math.log(2 * math.tanh(epsilon / 2))
            else:
                x = np.array([epsilon])
                log_ratio = math.log(
                    float(_core.laplace_difference_cdf(x, dimension)[0])
                    / float(_core.laplace_difference_pdf(x, dimension)[0])
                )
            return 2 * math.log(epsilon) - math.log(c) + log_expm1 - log_ratio

        # Beyond 2 k + 99 the density of T is 0 in double precision, and the maximum long passed.
        high = min(epsilon0 * (1 - 1e-12), 2.0 * dimension + 99.0 if method == "published" else math.inf)
        low = min(1.0, c, epsilon0) / 2
        while slope(low) <= 0:
            low /= 2
        if slope(high) >= 0:  # a flat top: the whole range up to here costs the same in double precision
            return high, "checked"
        # Proved for every epsilon0 with the published confidence, up to rate/(1 - ln 2) with the exact one.
        if method == "published" or epsilon0 * (1 - math.log(2)) <= c:
            return _root(slope, low, high), "proved"
        # slope falls on (0, rate/2], so there is no root below low; beyond, every fall through 0 is a local
        # minimum of the cost.
        grid = np.unique(np.concatenate([np.geomspace(low, high, _SEARCH), np.linspace(low, high, _SEARCH)]))
        values = [slope(float(e)) for e in grid]
        falls = [k for k, (a, b) in enumerate(itertools.pairwise(values)) if a > 0 >= b]
        roots = [_root(slope, float(grid[k]), float(grid[k + 1])) for k in falls]
        best = min(roots, key=lambda e: float(self.cost_at_risk(epsilon=e, epsilon0=epsilon0, method=method)))
        return best, "checked" if len(roots) == 1 else f"the lowest of {len(roots)} local minima, checked"

    def _cheapest_custom(self, epsilon0: float, method: str, dimension: int) -> float:
        grid = epsilon0 * np.arange(1, _CHECK_POINTS + 1) / _CHECK_POINTS
        values = np.asarray(self.cost(grid))
        steps = np.diff(values)
        slack = _CHECK_SLACK * max(float(np.ptp(values)), float(np.max(values)) * 1e-6)
        if np.min(steps) < -slack:
            at = grid[int(np.argmin(steps))]
            raise NotConvexError(f"the cost must be non-decreasing in epsilon; it falls after {at:.6g}")
        bends = np.diff(steps)
        if np.min(bends) < -slack:
            at = grid[int(np.argmin(bends)) + 1]
            raise NotConvexError(
                f"the cost must be convex on (0, epsilon0 = {epsilon0:.6g}]; its slope falls near {at:.6g}"
            )

        def expected(epsilon: float) -> float:
            return float(self.cost_at_risk(epsilon=epsilon, epsilon0=epsilon0, method=method, dimension=dimension))

        best = int(
            np.argmin(self.cost_at_risk(epsilon=grid[:-1], epsilon0=epsilon0, method=method, dimension=dimension))
        )
        low = float(grid[best - 1]) if best else 1e-9 * epsilon0
        high = float(grid[min(best + 1, len(grid) - 2)])
        found = optimize.minimize_scalar(
            expected, bounds=(low, high), method="bounded", options={"xatol": 1e-11 * epsilon0}
        )
        return float(found.x)

    # --- ranges ---------------------------------------------------------------------------------------------

    def epsilon_within(self, budget: float) -> float:
        """Largest epsilon whose cost stays within `budget`; 0 when none does, infinity when all do.

        Examples
        --------
        >>> round(CostModel(full=550_000).epsilon_within(20_000), 6)
        0.301733
        """
        budget = check.scalar("budget", check.non_negative("budget", budget))
        if self.function is not None:
            low, high = 0.0, 1.0
            while high < 1e6 and self._call(high) <= budget:
                low, high = high, 2 * high
            if high >= 1e6:
                return math.inf
            while high - low > 1e-15 * high and high > 1e-300:
                middle = (low + high) / 2
                low, high = (middle, high) if self._call(middle) <= budget else (low, middle)
            return low
        share = (budget - self.floor) / self.full
        if share >= 1:
            return math.inf
        if share <= 0:
            return 0.0
        epsilon = self.rate / -math.log(share)
        while epsilon > 0 and float(self.cost(epsilon)) > budget:  # the safe side, re-evaluated
            epsilon = math.nextafter(epsilon, 0.0)
        return epsilon

    def epsilon_range(
        self,
        *,
        budget: float | None = None,
        allowed_error: float | None = None,
        sensitivity: float = 1.0,
        epsilon0: float | None = None,
        confidence: float | None = None,
        method: str = "exact",
        dimension: int = 1,
    ) -> EpsilonRange:
        """Levels that keep the cost within a budget and the error within bounds (Equations 11 and 12).

        Parameters
        ----------
        budget : float >= 0, optional
            Most that may be paid.
        allowed_error : float > 0, optional
            Largest expected absolute error; Laplace noise for level epsilon has sensitivity/epsilon.
        sensitivity : float > 0
            Of the released value.
        epsilon0 : float > 0, optional
            Level of the noise. Without it: levels epsilon that are kept for certain. With it and without
            `confidence`: levels whose cost at risk (by `method`) is within the budget; the error then depends
            on epsilon0 alone and is checked there.
        confidence : float in (0, 1), optional
            With `epsilon0`: Equation 11 as printed, one confidence for every level. Its lower end,
            sensitivity/allowed_error, belongs to epsilon0 and not to epsilon (the noise is that of epsilon0).
        method : {"exact", "published"}
            Whose confidence the cost at risk uses.
        dimension : int
            Number of coordinates, for the published confidence.

        Returns
        -------
        EpsilonRange

        Examples
        --------
        >>> CostModel(full=550_000).epsilon_range(budget=80_000, allowed_error=2.0).feasible
        True
        >>> narrow = CostModel(full=550_000).epsilon_range(budget=20_000, allowed_error=2.0)
        >>> narrow.feasible, narrow.lower, round(narrow.upper, 6)
        (False, 0.5, 0.301733)
        """
        if budget is None and allowed_error is None:
            raise ValueError("budget or allowed_error must be given")
        if confidence is not None and epsilon0 is None:
            raise ValueError("confidence must be given together with epsilon0")
        sensitivity = check.scalar("sensitivity", check.positive("sensitivity", sensitivity))
        check.choice("method", method, METHODS)
        dimension = check.integer("dimension", dimension, least=1, most=_core.MAX_DIMENSION)
        lower, lower_reason = 0.0, "no lower limit"
        if allowed_error is not None:
            allowed_error = check.scalar("allowed_error", check.positive("allowed_error", allowed_error))
            lower, lower_reason = max(sensitivity / allowed_error, 5e-324), "the allowed error"
            while sensitivity / lower > allowed_error:
                lower = math.nextafter(lower, math.inf)
        upper, upper_reason = math.inf, "no upper limit"
        if budget is not None:
            budget = check.scalar("budget", check.non_negative("budget", budget))
            upper_reason = "the budget"
        if epsilon0 is None:
            if budget is not None:
                upper = self.epsilon_within(budget)
            return EpsilonRange(lower, upper, lower <= upper and upper > 0, lower_reason, upper_reason)
        epsilon0 = check.scalar("epsilon0", check.positive("epsilon0", epsilon0))
        if confidence is not None:
            confidence = check.scalar("confidence", check.open_probability("confidence", confidence))
            if budget is not None:
                rest = (budget - (1 - confidence) * float(self.cost(epsilon0))) / confidence
                upper = self.epsilon_within(rest) if rest > 0 else 0.0
            return EpsilonRange(lower, upper, lower <= upper and upper > 0, lower_reason, upper_reason)
        return self._range_at_risk(budget, lower, lower_reason, epsilon0, method, dimension)

    def _range_at_risk(
        self,
        budget: float | None,
        lower: float,
        lower_reason: str,
        epsilon0: float,
        method: str,
        dimension: int,
    ) -> EpsilonRange:
        if lower > epsilon0:
            return EpsilonRange(lower, epsilon0, False, "the allowed error", "the noise of epsilon0")
        if budget is None:
            return EpsilonRange(0.0, epsilon0, True, "no lower limit", "the noise of epsilon0")
        best = self.cheapest(epsilon0=epsilon0, method=method, dimension=dimension)

        def over(epsilon: float) -> float:
            return float(
                self.cost_at_risk(epsilon=epsilon, epsilon0=epsilon0, method=method, dimension=dimension)
            ) - float(budget)

        if best.plain_cost <= budget:
            return EpsilonRange(0.0, epsilon0, True, "no lower limit", "the noise of epsilon0")
        if over(best.epsilon) > 0:
            reason = f"the cheapest level (which costs {best.cost:,.2f})"
            return EpsilonRange(best.epsilon, 0.0, False, reason, "the budget")
        # The nearest crossings on both sides of the cheapest level: with several local minima the levels within
        # budget need not be one interval, and this is the one that holds the cheapest.
        ends = []
        for end in (1e-12 * best.epsilon, epsilon0 * (1 - 1e-12)):
            inner = best.epsilon
            for outer in np.linspace(best.epsilon, end, _SEARCH)[1:]:
                if over(float(outer)) > 0:
                    ends.append(float(optimize.brentq(over, inner, float(outer), rtol=8.9e-16, xtol=1e-300)))
                    break
                inner = float(outer)
            else:
                ends.append(inner)
        low, high = ends
        while over(low) > 0:
            low = math.nextafter(low, math.inf)
        while over(high) > 0:
            high = math.nextafter(high, 0.0)
        return EpsilonRange(low, high, True, "the budget", "the budget")
