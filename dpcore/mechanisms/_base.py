"""What all mechanisms share: their arguments, directed rounding, and the results of error() and interval()."""

from __future__ import annotations

import abc
import dataclasses
import math
import sys
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from dpcore import _validation
from dpcore._results import Result
from dpcore._rounding import upward

if TYPE_CHECKING:
    from dpcore.accounting import PrivacyLoss

NORMS = ("l1", "l2", "linf")
NEIGHBOURS = ("add_remove", "replace")
NOTHING_STATED = "no sensitivity was given, so no privacy is stated."


def up(exact: Fraction) -> float:
    """The smallest double that is at least `exact`."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -sys.float_info.max
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def down(exact: Fraction) -> float:
    """The largest double that is at most `exact`."""
    try:
        nearest = float(exact)
    except OverflowError:
        return sys.float_info.max if exact > 0 else -math.inf
    return nearest if Fraction(nearest) <= exact else math.nextafter(nearest, -math.inf)


def root_up(whole: int) -> float:
    """A double at least the square root of a whole number, and equal to it where it is one."""
    nearest = math.sqrt(whole)
    return nearest if Fraction(nearest) ** 2 >= whole else math.nextafter(nearest, math.inf)


@dataclasses.dataclass(frozen=True)
class ExpectedError(Result):
    """Expected error of one released number; upper bounds, within a part in 2**30 of the least that holds.

    Attributes
    ----------
    absolute, squared : float
        Expectation of the absolute and of the squared difference between released and true value.
    """

    absolute: float
    squared: float

    @property
    def statement(self) -> str:
        """Both expectations in words."""
        return (
            f"The released value is off by {self.absolute:.6g} on average, "
            f"by {math.sqrt(self.squared):.6g} in root mean square."
        )


@dataclasses.dataclass(frozen=True)
class NoiseInterval(Result):
    """How far one released number is from the true one, with a given probability.

    Attributes
    ----------
    level : float
        Probability that the difference is at most `half_width`; at least this.
    half_width : float
    """

    level: float
    half_width: float

    def __float__(self) -> float:
        return float(self.half_width)

    def around(self, released: Any) -> tuple[Any, Any]:
        """Ends of the interval around released values; they hold the true value with probability `level`.

        Values must be finite; the ends are float64.
        """
        values = _validation.real(
            "released", released, "finite", -math.inf, math.inf, low_open=True, high_open=True
        )
        return values - self.half_width, values + self.half_width

    @property
    def statement(self) -> str:
        """The interval in words."""
        return (
            f"With probability at least {self.level:g} the true value is within {upward(self.half_width)} "
            "of the released one."
        )


class Mechanism(Result, abc.ABC):
    """A differentially private release. Immutable; safe to share between threads and to pickle."""

    @abc.abstractmethod
    def release(self, value: Any, rng: Any = None) -> Any:
        """Release `value` privately."""

    @abc.abstractmethod
    def privacy_loss(self) -> PrivacyLoss:
        """The privacy loss of one release, for `dpcore.accounting`."""


def set_fields(target: Any, **fields: Any) -> None:
    """Set the fields of a frozen dataclass from its own constructor."""
    for name, value in fields.items():
        object.__setattr__(target, name, value)


def one_of(**named: Any) -> str:
    """Name of the one argument that is not None."""
    given = [name for name, value in named.items() if value is not None]
    if len(given) != 1:
        options = " or ".join(named)
        raise TypeError(f"give exactly one of {options}, got {' and '.join(given) or 'none'}")
    return given[0]


def checked_neighbours(neighbours: Any) -> str | None:
    """A neighbour relation to be named in the statement, or None."""
    return None if neighbours is None else _validation.choice("neighbours", neighbours, NEIGHBOURS)


def checked_norm(norm: Any, dimension: int) -> str:
    """The norm of the sensitivity; it only matters, and has no default, for vectors."""
    if norm is None:
        if dimension != 1:
            raise TypeError(f"norm must be given for dimension {dimension}: one of 'l1', 'l2', 'linf'")
        return "l1"
    return _validation.choice("norm", norm, NORMS)


def optional_positive(name: str, value: Any) -> float | None:
    """None, or a finite number > 0."""
    return None if value is None else _validation.scalar(name, _validation.positive(name, value))


def checked_promise(values_on_grid: Any, grid: Any) -> bool:
    """The promise that true values lie on the grid: it takes noise away, so nothing but True makes it."""
    if not isinstance(values_on_grid, bool):
        raise TypeError(f"values_on_grid must be True or False, got {_validation.shown(values_on_grid)}")
    if values_on_grid and grid is None:
        raise TypeError("grid must be given with values_on_grid")
    return values_on_grid


def fits_the_grid(scale: float, grid: float) -> float:
    """The scale after the allowance for rounding, which a tiny budget can make too large for the samplers."""
    if not scale < grid * 2.0**50:
        raise ValueError(
            "epsilon must be large enough for noise below 2**50 grid cells, the allowance for rounding included; "
            f"got noise of scale {scale!r} on the grid {grid!r}"
        )
    return scale


def stated_epsilon(exact: Fraction, scale: float) -> float:
    """The epsilon that follows from a sensitivity and a scale, rounded up."""
    epsilon = up(exact / Fraction(scale))
    if not epsilon < math.inf:
        raise ValueError(f"sensitivity / scale must be a finite number, got scale {scale!r}")
    return epsilon


def whole(name: str, value: Any, *, least: int, most: int) -> int:
    """A whole number in [least, most]; unlike an index, 1.0 is one: sensitivities are computed in floats."""
    given = int(value) if isinstance(value, (float, np.floating)) and float(value).is_integer() else value
    return _validation.integer(name, given, least=least, most=most)


def between_neighbours(neighbours: str | None, sensitivity: float) -> str:
    """The relation and the sensitivity in words."""
    if neighbours is None:
        return (
            f"between any two data sets whose true values differ by at most the sensitivity {upward(sensitivity)}"
        )
    how = "adding or removing" if neighbours == "add_remove" else "replacing"
    return f"between data sets that differ by {how} one record, of sensitivity {upward(sensitivity)}"


LEAST_POSITIVE = math.nextafter(0.0, 1.0)  # an upper bound on what underflows


def normal_half_width(level: float) -> float:
    """z with Pr[abs(Z) <= z] = level for a standard normal Z, rounded outward (scipy errs by parts in 10^15)."""
    z = math.sqrt(2) * special.erfinv(level) if level < 0.5 else -special.ndtri((1 - level) / 2)
    return float(z) * (1 + 1e-13)


def rounded_half_width(scale: float, grid: float, quantile: float) -> float:
    """Half width of noise that is rounded to the grid, from that of the continuous noise in scales."""
    # abs(K) <= k exactly when the continuous noise is within k + 1/2 cells.
    return max(0, math.ceil(scale / grid * quantile - 0.5)) * grid


def checked_level(level: Any) -> float:
    """A probability in (0, 1)."""
    return _validation.scalar("level", _validation.open_probability("level", level))
