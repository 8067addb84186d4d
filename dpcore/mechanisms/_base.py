"""What all mechanisms share: their arguments, directed rounding, and the results of error() and interval()."""

from __future__ import annotations

import abc
import dataclasses
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore import _validation
from dpcore._results import Result

if TYPE_CHECKING:
    from dpcore.accounting import PrivacyLoss

NORMS = ("l1", "l2", "linf")
NEIGHBOURS = ("add_remove", "replace")
NOTHING_STATED = "no sensitivity was given, so no privacy is stated."


def up(exact: Fraction) -> float:
    """The smallest double that is at least `exact`."""
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def down(exact: Fraction) -> float:
    """The largest double that is at most `exact`."""
    nearest = float(exact)
    return nearest if Fraction(nearest) <= exact else math.nextafter(nearest, -math.inf)


def root_up(whole: int) -> float:
    """A double at least the square root of a whole number, and equal to it where it is one."""
    nearest = math.sqrt(whole)
    return nearest if Fraction(nearest) ** 2 >= whole else math.nextafter(nearest, math.inf)


@dataclasses.dataclass(frozen=True)
class ExpectedError(Result):
    """Expected error of one released number; upper bounds, within a part in 2**30 of the exact value.

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
        """Ends of the interval around released values; they hold the true value with probability `level`."""
        values = np.asarray(released)
        low, high = values - self.half_width, values + self.half_width
        return (low, high) if values.ndim else (low.item(), high.item())

    @property
    def statement(self) -> str:
        """The interval in words."""
        return (
            f"With probability at least {self.level:g} the true value is within {self.half_width:.6g} "
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


def between_neighbours(neighbours: str | None, sensitivity: float) -> str:
    """The relation and the sensitivity in words."""
    if neighbours is None:
        return f"between any two data sets whose true values differ by at most the sensitivity {sensitivity:.6g}"
    how = "adding or removing" if neighbours == "add_remove" else "replacing"
    return f"between data sets that differ by {how} one record, of sensitivity {sensitivity:.6g}"


def checked_level(level: Any) -> float:
    """A probability in (0, 1)."""
    return _validation.scalar("level", _validation.open_probability("level", level))
