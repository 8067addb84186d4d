"""What the windows of all laws share: limits, checks and the result object."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from dpcore._results import Result
from dpcore._validation import MAX_EXACT_INTEGER, FloatArray, Number, integer, real, scalar

# A whole support of more points is returned without the points whose probability rounds to 0.
MAX_WHOLE_SUPPORT = 10**8
MAX_DEPTH = 700.0


def whole_number(name: str, value: Any) -> Number:
    """An integer of either sign, or an array of them, in floating point for the core."""
    if type(value) is int and -MAX_EXACT_INTEGER <= value <= MAX_EXACT_INTEGER:
        return float(value)
    rule = "an integer of magnitude at most 2**53"
    return real(name, value, rule, -MAX_EXACT_INTEGER, MAX_EXACT_INTEGER, whole=True)


def tail_mass(value: Any) -> float:
    """0, or the mass that a window may leave out on each side."""
    rule = "0 or a number in [1e-300, 1)"
    tail = scalar("tail", real("tail", value, rule, 0.0, 1.0, high_open=True))
    if 0.0 < tail < 1e-300:
        raise ValueError(f"tail must be {rule}, got {tail!r}")
    return tail


def window_arguments(low: Any, high: Any, depth: Any, lowest: int, highest: int) -> tuple[int, int, float]:
    """Checked ends and depth; None stands for the end of the support."""
    first = lowest if low is None else integer("low", low, least=lowest, most=highest)
    last = highest if high is None else integer("high", high, least=first, most=highest)
    rule = f"a number in (0, {MAX_DEPTH:g}]"
    return first, last, scalar("depth", real("depth", depth, rule, 0.0, MAX_DEPTH, low_open=True))


@dataclasses.dataclass(frozen=True)
class PmfWindow(Result):
    """A stretch of a probability mass function, kept beyond the range of double.

    ``Pr[X = first_k + i]`` is ``values[i] * 2.0**exponent``, with the largest value in [1, 2).

    Attributes
    ----------
    first_k : int
        The smallest k of the window.
    values : array
        Probabilities in units of ``2**exponent``.
    exponent : int
        May be far below -1074: the probabilities themselves need not be doubles.
    below_upper, above_upper : float
        Upper bounds of the mass left out below and above the window, in units of ``2**exponent``; infinite
        where nothing better than 1 is known.
    """

    first_k: int
    values: FloatArray
    exponent: int
    below_upper: float
    above_upper: float

    @property
    def last_k(self) -> int:
        """The largest k of the window."""
        return self.first_k + self.values.size - 1

    @property
    def pmf(self) -> FloatArray:
        """The probabilities as doubles, 0 where they are too small for one."""
        return np.ldexp(self.values, max(self.exponent, -5000))

    @property
    def logpmf(self) -> FloatArray:
        """Natural logarithms of the probabilities."""
        return np.log(self.values) + self.exponent * math.log(2.0)

    @property
    def statement(self) -> str:
        """The guarantee in words."""
        return (
            f"every k from {self.first_k} to {self.last_k}, relative error at most 2.3e-15; at most "
            f"{self.below_upper:.3g} * 2**{self.exponent} of the mass is below and at most "
            f"{self.above_upper:.3g} * 2**{self.exponent} above"
        )
