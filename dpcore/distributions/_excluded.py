"""Which classes may be left out of a worst case."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import ArrayLike

from dpcore import _core
from dpcore._results import Result
from dpcore._validation import FloatArray, non_negative, real, scalar


@dataclasses.dataclass(frozen=True)
class ExcludedMass(Result):
    """Outcome of `excluded_mass`.

    Attributes
    ----------
    kept : int
        Index of the class with the largest loss among those that stay.
    excluded : int
        How many classes were left out.
    mass : float
        Their mass together, or the double above it.
    loss : float
        Loss of the class `kept`.
    """

    kept: int
    excluded: int
    mass: float
    loss: float

    @property
    def statement(self) -> str:
        """The guarantee in words."""
        return (
            f"{self.excluded} classes of mass {self.mass:.6g} have the largest losses; all others lose at most "
            f"{self.loss:.6g}, the loss of class {self.kept}"
        )


def excluded_mass(losses: ArrayLike, masses: ArrayLike, *, budget: float) -> ExcludedMass:
    """Leave out the classes with the largest losses while their mass together stays below `budget`.

    Lines 20 to 29 of the thesis's Algorithm 2. No sort is done where the losses fall to one place and
    rise from there, as those of background-knowledge classes do.

    Parameters
    ----------
    losses : sequence of float
        One loss a class; infinite ones are allowed, NaN is not.
    masses : sequence of float, >= 0
        Probability of each class, as many as losses.
    budget : float >= 0
        At most the sum of all masses, so that a class remains.

    Returns
    -------
    ExcludedMass
        Ties are left out in the order of the classes.

    Notes
    -----
    The thesis uses the number of classes left out, a position in the sorted order, as the number of hits of the
    class that remains; `kept` is the class itself.

    Examples
    --------
    >>> from dpcore.distributions import excluded_mass
    >>> excluded_mass([9.0, 2.0, 1.0, 3.0, 8.0], [0.01, 0.3, 0.4, 0.26, 0.03], budget=0.05)
    ExcludedMass(kept=3, excluded=2, mass=0.04, loss=3.0)
    """
    loss = _vector("losses", real("losses", losses, "numbers, not NaN", -math.inf, math.inf))
    mass = _vector("masses", non_negative("masses", masses))
    if loss.size != mass.size:
        raise ValueError(f"losses and masses must have the same length, got {loss.size} and {mass.size}")
    allowed = scalar("budget", non_negative("budget", budget))
    kept, excluded, taken = _core.exclude_mass(loss, mass, allowed)
    return ExcludedMass(kept, excluded, taken, float(loss[kept]))


def _vector(name: str, value: float | FloatArray) -> FloatArray:
    array = np.atleast_1d(np.asarray(value, dtype=np.float64))
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}")
    if array.size == 0:
        raise ValueError(f"{name} must not be empty")
    return np.ascontiguousarray(array)
