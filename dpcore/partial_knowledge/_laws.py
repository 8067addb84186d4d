"""Laws of the sum of the unknown records, each with its delta and a bound on the error of that delta."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from dpcore import _core
from dpcore.partial_knowledge._bias import Bias, FloatArray, Mixture, Range, Strata, Unequal

DIRECTIONS = {"add": 0, "remove": 1, "both": 2}

# Relative error of the values of distributions.stratified_pmf and poisson_binomial_pmf above 1e-290, with room
# to spare; what lies below is no more than 1e-285 of mass.
_PMF_ERROR = 4e-16
_PMF_LEFT_OUT = 1e-285


class Law(Protocol):
    """What calibration needs to know of the unknown records."""

    def log_delta(self, epsilon: float, noise_scale: float, direction: int) -> tuple[float, float]:
        """Ln of delta, and a bound on the relative error of delta: exact <= exp(ln) * (1 + bound)."""

    def least_noise(self, epsilon: float, goal: float, plain: float) -> float:
        """Smallest noise, at most `plain`, at which ln of delta is certainly at most `goal`."""


def _larger(law: Law, epsilon: float, noise_scale: float) -> tuple[float, float]:
    """The larger of both directions, with an error that covers the bound of the other one as well."""
    values, errors = zip(*(law.log_delta(epsilon, noise_scale, one) for one in (0, 1)), strict=True)
    return max(values), max(errors)


class _Solved:
    """The calibration shared by laws that are cheap to evaluate."""

    def log_delta(self, epsilon: float, noise_scale: float, direction: int) -> tuple[float, float]:
        raise NotImplementedError

    def least_noise(self, epsilon: float, goal: float, plain: float) -> float:
        """See `Law`."""
        return solve_noise(lambda noise: log_delta_upper(self, epsilon, noise) - goal, plain)


class Binomial(_Solved):
    """`unknown` records of one bias."""

    def __init__(self, unknown: int, bias: float) -> None:
        self.unknown = unknown
        self.bias = bias

    def log_delta(self, epsilon: float, noise_scale: float, direction: int) -> tuple[float, float]:
        """See `Law`."""
        return _core.count_delta_bounded(epsilon, self.unknown, self.bias, noise_scale, direction)

    def least_noise(self, epsilon: float, goal: float, plain: float) -> float:
        """See `Law`."""
        return _core.least_count_noise(epsilon, goal, self.unknown, self.bias, self.bias, plain)


class Vertices:
    """`unknown` records with any probabilities in [low, high]: the worst vertex."""

    def __init__(self, unknown: int, bias: Range) -> None:
        self.unknown = unknown
        self.low = bias.low
        self.high = bias.high

    def search(
        self, epsilon: float, noise_scale: float, direction: int
    ) -> tuple[float, float, float, int, int, bool]:
        """Ln delta, error, ln delta of the best vertex, its records at `low`, evaluations, proved or not."""
        return _core.count_delta_range(epsilon, self.unknown, self.low, self.high, noise_scale, direction)

    def log_delta(self, epsilon: float, noise_scale: float, direction: int) -> tuple[float, float]:
        """See `Law`."""
        value, error, *_ = self.search(epsilon, noise_scale, direction)
        return value, error

    def least_noise(self, epsilon: float, goal: float, plain: float) -> float:
        """See `Law`."""
        return _core.least_count_noise(epsilon, goal, self.unknown, self.low, self.high, plain)


class Window(_Solved):
    """Groups of records, each of one bias: the probabilities of their sum as an array.

    A double holds them down to 1e-290 or so. Where delta is smaller, the law is tilted: with success odds times
    e^tilt, b(k) = M e^(-tilt k) times the tilted probability, and the tilted law has its mode where it matters.
    """

    LONGEST = 1e8  # products of a convolution

    def __init__(self, groups: Sequence[tuple[int, float]], first: int, pmf: FloatArray) -> None:
        seen = np.flatnonzero(pmf)  # what rounds to 0 at the ends is part of what is left out
        self.groups = groups
        self.first = first + int(seen[0])
        self.pmf = np.ascontiguousarray(pmf[seen[0] : seen[-1] + 1])
        self._tilted: dict[tuple[float, bool], tuple[int, FloatArray, float, float, float]] = {}

    def log_delta(self, epsilon: float, noise_scale: float, direction: int) -> tuple[float, float]:
        """See `Law`."""
        if direction == DIRECTIONS["both"]:
            return _larger(self, epsilon, noise_scale)
        plain = _core.count_delta_window(epsilon, self.pmf, _PMF_ERROR, _PMF_LEFT_OUT, noise_scale, direction)
        if plain[1] <= 1e-9:
            return plain
        first, pmf, log_factor, error, left_out = self._tilt(epsilon, direction == DIRECTIONS["remove"])
        deep = _core.count_delta_tilted(epsilon, first, pmf, log_factor, error, left_out, noise_scale)
        return min(plain, deep, key=lambda value: value[1])

    def _tilt(self, tilt: float, zeros: bool) -> tuple[int, FloatArray, float, float, float]:
        """The tilted law of the number of successes (zeros: of failures), relative to e^(tilt * first).

        First value, probabilities, ln of their factor, relative error of both, and tilted probability left out.
        A probability near 1 as a double says little about its distance from 1, so groups hand over whichever of
        successes and failures is the less likely, and the failures count from the top; both laws are convolved in
        the end where that is not too long.
        """
        key = (tilt, zeros)
        if key in self._tilted:
            return self._tilted[key]
        size = np.array([n for n, _ in self.groups], dtype=np.float64)
        p = np.array([p for _, p in self.groups])
        handed, top, logs, errors, left_out = _core.tilt_groups(size, p, zeros, tilt, 0)
        variance = size * handed * (1.0 - handed)
        spread = [38.0 * math.sqrt(float(variance[top == side].sum())) for side in (0.0, 1.0)]
        if spread[0] * spread[1] > self.LONGEST:
            expected = [float((size * handed)[top == side].sum()) for side in (0.0, 1.0)]
            # Failures among those counted from the bottom are what is likely there.
            failures = expected[1] + float(size[top == 0.0].sum()) - expected[0]
            end = 1 if failures > 0.5 * float(size.sum()) else 2
            handed, top, logs, errors, left_out = _core.tilt_groups(size, p, zeros, tilt, end)
        error = float(errors.sum()) + _PMF_ERROR + 2.0**-52 * math.fsum(np.abs(logs))
        first, pmf = 0, np.ones(1)
        for side in (0.0, 1.0):
            groups = [
                (n, float(q))
                for (n, _), q, t in zip(self.groups, handed, top, strict=True)
                if t == side and q > 0.0
            ]
            if not groups:
                continue
            start, part = _pmf(groups)
            seen = np.flatnonzero(part)
            start, part = start + int(seen[0]), part[seen[0] : seen[-1] + 1]
            if side == 1.0:
                start, part = -(start + len(part) - 1), part[::-1]
            error += 2.0**-53 * min(len(pmf), len(part))
            first, pmf = first + start, np.convolve(pmf, part)
        lost = float(left_out.sum()) + 2.0 * _PMF_LEFT_OUT
        self._tilted[key] = first, np.ascontiguousarray(pmf), math.fsum(logs), error, lost
        return self._tilted[key]


class Mixed(_Solved):
    """A random choice among laws: exact where that is possible, else the mixture of the deltas."""

    MOST_EXACT = 200_000  # records up to which the pmf of the mixture is made

    def __init__(self, components: list[tuple[float, Law]], unknown: int) -> None:
        self.components = [(weight, law) for weight, law in components if weight > 0.0]
        self._pmf = self._mixed_pmf(unknown)

    def _mixed_pmf(self, unknown: int) -> FloatArray | None:
        if unknown > self.MOST_EXACT:
            return None
        pmf = np.zeros(unknown + 1)
        for weight, law in self.components:
            part = pmf_of(law)
            if part is None:
                return None
            first, values = part
            pmf[first : first + len(values)] += weight * values
        return pmf

    def log_delta(self, epsilon: float, noise_scale: float, direction: int) -> tuple[float, float]:
        """See `Law`. Given the component, the attacker can only do better (joint convexity)."""
        if direction == DIRECTIONS["both"]:
            return _larger(self, epsilon, noise_scale)
        if self._pmf is not None and epsilon < 600.0:
            pmf = self._pmf if direction == 0 else self._pmf[::-1]
            gap = np.append(0.0, pmf) * math.exp(-epsilon) - np.append(pmf, 0.0)
            if noise_scale == 0.0:
                positive = float(np.sum(gap[gap > 0.0]))
                magnitude = float(np.sum(np.append(0.0, pmf)[gap > 0.0])) * math.exp(-epsilon)
                if positive > 1e-270:
                    lost = 2.0 * _PMF_LEFT_OUT / positive
                    rounding = 1e-15 + 2.0**-51 * epsilon  # of the logarithm, whose parts cancel
                    return min(0.0, math.log(positive) + epsilon), rounding + 8e-15 * magnitude / positive + lost
            signs = np.sign(gap[gap != 0.0])
            # One change of sign of the weights is one change of sign of the densities (the normal kernel is
            # totally positive), so the best event is a half line as for log-concave laws.
            if np.count_nonzero(np.diff(signs)) == 1:
                return _core.count_delta_window(
                    epsilon, np.ascontiguousarray(self._pmf), 4e-15, _PMF_LEFT_OUT, noise_scale, direction
                )
        parts = []
        worst = 0.0
        for weight, law in self.components:
            value, error = law.log_delta(epsilon, noise_scale, direction)
            parts.append(math.log(weight) + value)
            worst = max(worst, error)
        top = max(parts)
        if top == -math.inf:
            return top, worst
        total = math.fsum(math.exp(part - top) for part in parts)
        return min(0.0, top + math.log(total)), worst + 2.0**-48


def pmf_of(law: Law) -> tuple[int, FloatArray] | None:
    """First value and probabilities, where the law has them."""
    from dpcore import distributions

    if isinstance(law, Binomial):
        return distributions.binomial_pmf(trials=law.unknown, probability=law.bias)
    if isinstance(law, TwoGroups):
        return distributions.stratified_pmf([(law.first, law.first_bias), (law.second, law.second_bias)])
    if isinstance(law, Window):
        return law.first, law.pmf
    return None


def _pmf(groups: Sequence[tuple[int, float]]) -> tuple[int, FloatArray]:
    from dpcore import distributions

    if all(n == 1 for n, _ in groups):
        return distributions.poisson_binomial_pmf([p for _, p in groups])
    return distributions.stratified_pmf(groups)


def _window(bias: Strata | Unequal) -> Window | Binomial:
    if isinstance(bias, Unequal):
        groups = [(1, p) for p in bias.probabilities]
    else:
        groups = [group for group in bias.groups if group[0] > 0]
    if len({p for _, p in groups}) <= 1:
        return Binomial(sum(size for size, _ in groups), groups[0][1] if groups else 0.0)
    return Window(groups, *_pmf(groups))


class TwoGroups(_Solved):
    """Two groups of records, each of one bias."""

    def __init__(self, groups: list[tuple[int, float]]) -> None:
        (self.first, self.first_bias), (self.second, self.second_bias) = groups
        self._window: Window | None = None

    def log_delta(self, epsilon: float, noise_scale: float, direction: int) -> tuple[float, float]:
        """See `Law`."""
        found = _core.count_delta_two_bounded(
            epsilon, self.first, self.first_bias, self.second, self.second_bias, noise_scale, direction
        )
        if math.isfinite(found[1]) or self.first + self.second > Mixed.MOST_EXACT:
            return found
        # Far below the range of double along the way: the law as an array copes, by tilting it.
        if self._window is None:
            groups = [(self.first, self.first_bias), (self.second, self.second_bias)]
            self._window = Window(groups, *_pmf(groups))
        return self._window.log_delta(epsilon, noise_scale, direction)


def law_of(bias: Bias, unknown: int) -> Law:
    """The law of the sum of `unknown` records."""
    if isinstance(bias, Range):
        return Binomial(unknown, bias.low) if bias.low == bias.high else Vertices(unknown, bias)
    if isinstance(bias, float):
        return Binomial(unknown, bias)
    if isinstance(bias, Mixture):
        return Mixed([(weight, law_of(part, unknown)) for weight, part in bias.components], unknown)
    if isinstance(bias, Strata):
        groups = [group for group in bias.groups if group[0] > 0]
        if len(groups) == 2:
            return TwoGroups(groups)
    return _window(bias)


def log_delta_upper(law: Law, epsilon: float, noise_scale: float, direction: int = 2) -> float:
    """A number that the exact ln of delta does not exceed."""
    return _core.log_delta_upper(*law.log_delta(epsilon, noise_scale, direction))


def goal_of(delta: float) -> float:
    """A number not above the exact ln of delta."""
    return _core.log_delta_goal(delta)


def solve_noise(excess: Callable[[float], float], plain: float) -> float:
    """Smallest noise, to about 1e-14 of it, at which `excess` is at most 0, or `plain`.

    `excess` falls with the noise. The result has been evaluated: ``excess(result) <= 0``, or it is `plain`,
    which has a certificate of its own.
    """
    return _core.solve_noise(excess, plain)
