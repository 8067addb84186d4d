"""Laplace and Gaussian mechanisms on real numbers, by noise on a power-of-two grid."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpcore import _core, _validation, gaussian
from dpcore._core import InsecureTestRng
from dpcore._validation import FloatArray
from dpcore.mechanisms._base import (
    NOTHING_STATED,
    ExpectedError,
    Mechanism,
    NoiseInterval,
    between_neighbours,
    checked_level,
    checked_neighbours,
    checked_norm,
    one_of,
    optional_positive,
    root_up,
    set_fields,
    up,
)
from dpcore.samplers._arguments import grid_of, real_scale, source_of

if TYPE_CHECKING:
    from dpcore.accounting import PrivacyLoss


def _reals(value: Any, dimension: int) -> float | FloatArray:
    """Private values as float64, of which only type and shape are looked at."""
    if type(value) is float and dimension == 1:
        return value
    raw = np.asarray(value)
    if raw.dtype.kind not in "iufb":
        raise TypeError(f"value must be a number or an array of numbers, got dtype {raw.dtype}")
    if dimension != 1 and (raw.ndim == 0 or raw.shape[-1] != dimension):
        raise ValueError(f"value must be an array whose last axis has length {dimension}, got shape {raw.shape}")
    array: FloatArray = np.ascontiguousarray(raw, dtype=np.float64)
    return float(array.reshape(())) if raw.ndim == 0 else array


class _RealMechanism(Mechanism):
    """What the Laplace and the Gaussian mechanism share."""

    scale: float
    grid: float
    dimension: int
    sensitivity: float | None
    norm: str
    neighbours: str | None
    values_on_grid: bool

    def _release(self, value: ArrayLike, rng: InsecureTestRng | None, one: Any, many: Any) -> float | FloatArray:
        source = source_of(rng)
        values = _reals(value, self.dimension)
        if isinstance(values, float):
            released: float = one(self.scale, self.grid, values, source)
            return released
        out = np.empty_like(values)
        many(self.scale, self.grid, values, out, source)
        return out

    @property
    def _rounding(self) -> float:
        """Most that rounding moves a released number: half a grid cell for the value, half for the noise."""
        return self.grid / 2 if self.values_on_grid else self.grid

    def _of_each(self) -> str:
        if self.dimension > 1:
            return f"Each vector of {self.dimension} numbers"
        return "Each number"


@dataclasses.dataclass(frozen=True, init=False)
class Laplace(_RealMechanism):
    """Adds Laplace noise: epsilon-differential privacy for real values and vectors.

    The value is rounded to a grid of 2**-40 to 2**-41 of the noise scale, noise rounded exactly to the same grid
    is added in integers. The change of sensitivity that this rounding makes, at most one grid cell a coordinate,
    is inside the guarantee: the scale is ``(sensitivity + dimension * grid) / epsilon``, rounded up.

    Parameters
    ----------
    epsilon : float, optional
        Finite, > 0. Either this or `scale`.
    sensitivity : float
        Finite, > 0: largest distance between the true values of neighbouring data sets. May only be left out when
        `scale` is given; then the mechanism makes no statement about privacy.
    scale : float, optional
        Scale of the Laplace noise.
    dimension : int
        Length of a vector that is released as a whole. With 1, the default, an array is released element by
        element, each a query of its own.
    norm : {"l1", "l2", "linf"}, optional
        Norm in which `sensitivity` is measured; must be given for vectors.
    neighbours : {"add_remove", "replace"}, optional
        Relation for which the sensitivity was computed; named in the statement.
    grid : float, optional
        A power of two instead of the default grid.
    values_on_grid : bool
        Promise that true values are multiples of `grid` (counts with ``grid=1.0``): rounding then changes
        nothing and no allowance is made for it. Needs an explicit `grid`.

    Examples
    --------
    >>> from dpcore.mechanisms import Laplace
    >>> mean = Laplace(epsilon=0.5, sensitivity=0.01)
    >>> released = mean.release(0.25)
    >>> print(mean.statement)
    Each number released is 0.5-differentially private between any two data sets whose true values differ by at \
most the sensitivity 0.01 (Laplace noise of scale 0.02).
    """

    epsilon: float | None
    sensitivity: float | None
    scale: float
    grid: float
    dimension: int
    norm: str
    neighbours: str | None
    values_on_grid: bool

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        sensitivity: float | None = None,
        scale: float | None = None,
        dimension: int = 1,
        norm: str | None = None,
        neighbours: str | None = None,
        grid: float | None = None,
        values_on_grid: bool = False,
    ) -> None:
        which = one_of(epsilon=epsilon, scale=scale)
        budget, distance = optional_positive("epsilon", epsilon), optional_positive("sensitivity", sensitivity)
        size = _validation.integer("dimension", dimension, least=1)
        measure = checked_norm(norm, size)
        if distance is None and which == "epsilon":
            raise TypeError("sensitivity must be given with epsilon")
        if values_on_grid and grid is None:
            raise TypeError("grid must be given with values_on_grid")
        # L1 distance of the true values, as an upper bound
        factor = {"l1": 1.0, "l2": root_up(size), "linf": float(size)}[measure]
        l1 = None if distance is None else Fraction(distance) * Fraction(factor)
        if budget is not None and l1 is not None:
            cell = grid_of(real_scale("sensitivity / epsilon", up(l1 / Fraction(budget))), grid)
        else:
            scale = real_scale("scale", scale)
            cell = grid_of(scale, grid)
        if l1 is not None and not values_on_grid:
            l1 += size * Fraction(cell)
        if budget is not None and l1 is not None:
            scale = up(l1 / Fraction(budget))
        elif l1 is not None and scale is not None:
            budget = up(l1 / Fraction(scale))
        set_fields(
            self,
            epsilon=budget,
            sensitivity=distance,
            scale=scale,
            grid=cell,
            dimension=size,
            norm=measure,
            neighbours=checked_neighbours(neighbours),
            values_on_grid=bool(values_on_grid),
        )

    def release(self, value: ArrayLike, rng: InsecureTestRng | None = None) -> float | FloatArray:
        """Release a number, an array of numbers, or (``dimension > 1``) vectors along the last axis.

        Parameters
        ----------
        value : float or array
            Private. Clamped to +-2**120 grid cells; NaN counts as 0. Neither raises.
        rng : InsecureTestRng, optional
            A predictable generator for tests.

        Returns
        -------
        float or array of float64
            Multiples of the grid (the nearest double, beyond 2**53 of them).
        """
        if type(value) is float and rng is None and self.dimension == 1:
            return _core.sample_laplace_add(self.scale, self.grid, value, None)
        return self._release(value, rng, _core.sample_laplace_add, _core.sample_laplace_add_fill)

    def error(self) -> ExpectedError:
        """Expected absolute (scale) and squared (2 scale**2) error of each number, rounding included."""
        b, slack = self.scale, self._rounding
        return ExpectedError(b + slack, 2 * b * b + 2 * b * slack + slack * slack)

    def interval(self, level: float) -> NoiseInterval:
        """Half width that the error of a number exceeds with probability at most 1 - level."""
        checked = checked_level(level)
        return NoiseInterval(checked, -self.scale * math.log1p(-checked) * (1 + 1e-15) + self._rounding)

    def privacy_loss(self) -> PrivacyLoss:
        """Privacy loss of one release, at the worst difference of the true values in a single coordinate."""
        if self.epsilon is None:
            raise ValueError("a mechanism built without sensitivity has no privacy loss")
        from dpcore import accounting

        return accounting.from_laplace(epsilon=self.epsilon)

    @property
    def statement(self) -> str:
        """The guarantee in words."""
        if self.epsilon is None or self.sensitivity is None:
            return f"Laplace noise of scale {self.scale:.6g}; {NOTHING_STATED}"
        return (
            f"{self._of_each()} released is {self.epsilon:.6g}-differentially private "
            f"{between_neighbours(self.neighbours, self.sensitivity)} "
            f"(Laplace noise of scale {self.scale:.6g})."
        )


@dataclasses.dataclass(frozen=True, init=False)
class Gaussian(_RealMechanism):
    """Adds Gaussian noise: (epsilon, delta)-differential privacy for real values and vectors.

    Calibrated exactly (`dpcore.gaussian.sigma`), for the sensitivity that rounding to the grid leaves:
    ``sensitivity + sqrt(dimension) * grid`` in L2, rounded up.

    Parameters
    ----------
    epsilon, delta : float, optional
        epsilon > 0, delta in (0, 1). Either both or `sigma`.
    sensitivity : float
        Finite, > 0: largest distance between the true values of neighbouring data sets. May only be left out when
        `sigma` is given; then the mechanism makes no statement about privacy.
    sigma, scale : float, optional
        Standard deviation of the noise; two names for one argument.
    dimension, norm, neighbours, grid, values_on_grid
        As for `Laplace`; an L1 sensitivity is used as it is, because it bounds the L2 one.
    method : {"analytic", "probabilistic", "classical"}
        Formula of `dpcore.gaussian.sigma`.

    Examples
    --------
    >>> from dpcore.mechanisms import Gaussian
    >>> sums = Gaussian(epsilon=1.0, delta=1e-6, sensitivity=1.0, dimension=3, norm="l2")
    >>> sums.release([10.0, 20.0, 30.0]).shape
    (3,)
    >>> f"{sums.sigma:.6f}"
    '4.224679'
    """

    epsilon: float | None
    delta: float | None
    sensitivity: float | None
    scale: float
    grid: float
    dimension: int
    norm: str
    neighbours: str | None
    values_on_grid: bool

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        sensitivity: float | None = None,
        sigma: float | None = None,
        scale: float | None = None,
        dimension: int = 1,
        norm: str | None = None,
        neighbours: str | None = None,
        grid: float | None = None,
        values_on_grid: bool = False,
        method: str = "analytic",
    ) -> None:
        which = one_of(epsilon=epsilon, sigma=sigma, scale=scale)
        if (delta is None) == (which == "epsilon"):
            raise TypeError("delta must be given with epsilon, and only with it")
        budget, distance = optional_positive("epsilon", epsilon), optional_positive("sensitivity", sensitivity)
        failure = (
            None if delta is None else _validation.scalar("delta", _validation.open_probability("delta", delta))
        )
        size = _validation.integer("dimension", dimension, least=1)
        measure = checked_norm(norm, size)
        if distance is None and which == "epsilon":
            raise TypeError("sensitivity must be given with epsilon")
        if values_on_grid and grid is None:
            raise TypeError("grid must be given with values_on_grid")
        if budget is not None and failure is not None and distance is not None:
            l2 = self._l2(distance, size, measure)
            scale = real_scale(
                "sigma", gaussian.sigma(epsilon=budget, delta=failure, sensitivity=l2, method=method)
            )
            cell = grid_of(scale, grid)
        else:
            scale = real_scale(which, sigma if which == "sigma" else scale)
            cell = grid_of(scale, grid)
        set_fields(
            self,
            epsilon=budget,
            delta=failure,
            sensitivity=distance,
            scale=scale,
            grid=cell,
            dimension=size,
            norm=measure,
            neighbours=checked_neighbours(neighbours),
            values_on_grid=bool(values_on_grid),
        )
        rounded = self.l2_sensitivity
        if budget is not None and failure is not None and rounded is not None:
            set_fields(
                self, scale=gaussian.sigma(epsilon=budget, delta=failure, sensitivity=rounded, method=method)
            )

    @staticmethod
    def _l2(distance: float, dimension: int, norm: str) -> float:
        factor = root_up(dimension) if norm == "linf" else 1.0
        return up(Fraction(distance) * Fraction(factor))

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise."""
        return self.scale

    @property
    def l2_sensitivity(self) -> float | None:
        """L2 sensitivity after rounding to the grid: what the guarantee is computed from."""
        if self.sensitivity is None:
            return None
        l2 = self._l2(self.sensitivity, self.dimension, self.norm)
        if self.values_on_grid:
            return l2
        return up(Fraction(l2) + Fraction(root_up(self.dimension)) * Fraction(self.grid))

    def release(self, value: ArrayLike, rng: InsecureTestRng | None = None) -> float | FloatArray:
        """Release a number, an array of numbers, or (``dimension > 1``) vectors along the last axis.

        Parameters
        ----------
        value : float or array
            Private. Clamped to +-2**120 grid cells; NaN counts as 0. Neither raises.
        rng : InsecureTestRng, optional
            A predictable generator for tests.

        Returns
        -------
        float or array of float64
            Multiples of the grid (the nearest double, beyond 2**53 of them).
        """
        if type(value) is float and rng is None and self.dimension == 1:
            return _core.sample_gaussian_add(self.scale, self.grid, value, None)
        return self._release(value, rng, _core.sample_gaussian_add, _core.sample_gaussian_add_fill)

    def error(self) -> ExpectedError:
        """Expected absolute (sigma sqrt(2/pi)) and squared (sigma**2) error of each number, rounding included."""
        s, slack = self.scale, self._rounding
        mean = s * math.sqrt(2 / math.pi)
        return ExpectedError(mean + slack, s * s + 2 * mean * slack + slack * slack)

    def interval(self, level: float) -> NoiseInterval:
        """Half width that the error of a number exceeds with probability at most 1 - level."""
        checked = checked_level(level)
        quantile = -float(special.ndtri((1 - checked) / 2)) * (1 + 1e-14)
        return NoiseInterval(checked, self.scale * quantile + self._rounding)

    def privacy_loss(self) -> PrivacyLoss:
        """Privacy loss of one release."""
        if self.l2_sensitivity is None:
            raise ValueError("a mechanism built without sensitivity has no privacy loss")
        from dpcore import accounting

        return accounting.from_gaussian(sigma=self.scale, sensitivity=self.l2_sensitivity)

    @property
    def statement(self) -> str:
        """The guarantee in words."""
        if self.sensitivity is None:
            return f"Gaussian noise of deviation {self.scale:.6g}; {NOTHING_STATED}"
        if self.epsilon is None:
            mu = up(Fraction(self.l2_sensitivity or 0) / Fraction(self.scale))
            promise = f"{mu:.6g}-Gaussian differentially private"
        else:
            promise = f"({self.epsilon:.6g}, {self.delta:.6g})-differentially private"
        return (
            f"{self._of_each()} released is {promise} "
            f"{between_neighbours(self.neighbours, self.sensitivity)} "
            f"(Gaussian noise of deviation {self.scale:.6g})."
        )
