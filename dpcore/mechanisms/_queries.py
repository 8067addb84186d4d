"""Sensitivities of the everyday queries. The neighbour relation changes the answer, so it has no default."""

from __future__ import annotations

import math
from fractions import Fraction

from dpcore import _validation
from dpcore.mechanisms._base import NEIGHBOURS, up


def _range(lower: float, upper: float) -> tuple[Fraction, Fraction]:
    low = _validation.scalar("lower", _validation.real("lower", lower, "a finite number", -1e300, 1e300))
    high = _validation.scalar("upper", _validation.real("upper", upper, "a finite number", -1e300, 1e300))
    if not low < high:
        raise ValueError(f"upper must be greater than lower = {low!r}, got {high!r}")
    return Fraction(low), Fraction(high)


def count_sensitivity(*, neighbours: str) -> float:
    """Sensitivity of the number of records with some property: 1 under either relation.

    Examples
    --------
    >>> from dpcore import mechanisms
    >>> mechanisms.count_sensitivity(neighbours="replace")
    1.0
    """
    _validation.choice("neighbours", neighbours, NEIGHBOURS)
    return 1.0


def sum_sensitivity(*, lower: float, upper: float, neighbours: str) -> float:
    """Sensitivity of a sum of numbers clamped to [lower, upper].

    Adding or removing a record changes it by max(abs(lower), abs(upper)), replacing one by upper - lower.

    Examples
    --------
    >>> from dpcore import mechanisms
    >>> mechanisms.sum_sensitivity(lower=-1.0, upper=3.0, neighbours="add_remove")
    3.0
    >>> mechanisms.sum_sensitivity(lower=-1.0, upper=3.0, neighbours="replace")
    4.0
    """
    relation = _validation.choice("neighbours", neighbours, NEIGHBOURS)
    low, high = _range(lower, upper)
    return up(max(abs(low), abs(high)) if relation == "add_remove" else high - low)


def mean_sensitivity(*, lower: float, upper: float, records: int, neighbours: str) -> float:
    """Sensitivity of the mean of numbers clamped to [lower, upper].

    Replacing one of `records` records changes the mean by at most (upper - lower) / records. Adding one to at
    least `records` records, or removing one so that at least `records` are left, changes it by at most
    (upper - lower) / (records + 1).

    Parameters
    ----------
    lower, upper : float
        lower < upper.
    records : int
        At least 1 and public: the number of records ("replace"), or the least number that either of two
        neighbouring data sets has ("add_remove").
    neighbours : {"add_remove", "replace"}
        Which data sets count as neighbours.

    Examples
    --------
    >>> from dpcore import mechanisms
    >>> mechanisms.mean_sensitivity(lower=0.0, upper=1.0, records=100, neighbours="replace")
    0.01
    """
    relation = _validation.choice("neighbours", neighbours, NEIGHBOURS)
    number = _validation.integer("records", records, least=1)
    low, high = _range(lower, upper)
    return up((high - low) / (number if relation == "replace" else number + 1))


def histogram_sensitivity(*, norm: str, neighbours: str) -> float:
    """Sensitivity of the vector of counts of disjoint classes: one record lies in one class.

    Examples
    --------
    >>> from dpcore import mechanisms
    >>> mechanisms.histogram_sensitivity(norm="l1", neighbours="add_remove")
    1.0
    >>> mechanisms.histogram_sensitivity(norm="l1", neighbours="replace")
    2.0
    """
    relation = _validation.choice("neighbours", neighbours, NEIGHBOURS)
    measure = _validation.choice("norm", norm, ("l1", "l2", "linf"))
    if relation == "add_remove" or measure == "linf":
        return 1.0
    return 2.0 if measure == "l1" else math.nextafter(math.sqrt(2.0), 2.0)
