"""Laplace and Gaussian mechanisms on real numbers, by noise on a power-of-two grid."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpcore import _core, _validation, gaussian
from dpcore._core import InsecureTestRng
from dpcore._rounding import upward
from dpcore._validation import FloatArray
from dpcore.mechanisms._base import (
    LEAST_POSITIVE,
    NOTHING_STATED,
    ExpectedError,
    Mechanism,
    NoiseInterval,
    between_neighbours,
    checked_level,
    checked_neighbours,
    checked_norm,
    checked_promise,
    fits_the_grid,
    normal_half_width,
    one_of,
    optional_positive,
    root_up,
    rounded_half_width,
    set_fields,
    stated_epsilon,
    up,
)
from dpcore.samplers._arguments import LEAST_INT64, MOST_INT64, grid_of, private_numbers, real_scale, source_of

if TYPE_CHECKING:
    from dpcore.accounting import PrivacyLoss


class _RealMechanism(Mechanism):
    """What the Laplace and the Gaussian mechanism share."""

    scale: float
    grid: float
    dimension: int
    sensitivity: float | None
    norm: str
    neighbours: str | None
    values_on_grid: bool

    def _release(self, value: ArrayLike, rng: InsecureTestRng | None, law: str) -> float | FloatArray:
        source = source_of(rng)
        values = private_numbers("value", value)
        one = isinstance(values, (int, float))
        if self.dimension != 1 and (one or np.shape(values)[-1] != self.dimension):
            raise ValueError(
                f"value must be an array whose last axis has length {self.dimension}, got shape {np.shape(values)}"
            )
        whole = type(values) is int or getattr(values, "dtype", None) == np.int64
        add = f"sample_{law}_add_integer" if whole else f"sample_{law}_add"
        if one:
            released: float = getattr(_core, add)(self.scale, self.grid, values, source)
            return released
        out = np.empty(np.shape(values), dtype=np.float64)
        getattr(_core, f"{add}_fill")(self.scale, self.grid, values, out, source)
        return out

    # The error of a released number is K grid + d: K the noise in cells, symmetric, and d what rounding the value
    # moved it, at most half a cell and 0 for values on the grid. Hence E error^2 = E K^2 grid^2 + d^2,
    # E abs(error) = E abs(K) grid + abs(d) Pr[K = 0] (where K is not 0, d helps as often as it hurts), and
    # abs(error) <= (k + 1/2) grid unless abs(K) > k.

    def _error(self, mean: float, square: float, zero: float) -> ExpectedError:
        """From E abs(K) grid, E K^2 grid^2 and Pr[K = 0]; the largest over all values."""
        off = 0.0 if self.values_on_grid else self.grid / 2
        absolute = mean + off * min(1.0, zero * (1 + 1e-12))
        return ExpectedError(max(absolute, LEAST_POSITIVE), max(square + off * off, LEAST_POSITIVE))

    def _interval(self, level: float, quantile: float) -> NoiseInterval:
        """From the half width, in scales, that the continuous noise exceeds with probability 1 - level at most."""
        off = 0.0 if self.values_on_grid else 0.5 * self.grid
        return NoiseInterval(level, rounded_half_width(self.scale, self.grid, quantile) + off)

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
most the sensitivity 0.01 (Laplace noise of scale 0.0200001).
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
        on_grid = checked_promise(values_on_grid, grid)
        # L1 distance of the true values, as an upper bound
        factor = {"l1": 1.0, "l2": root_up(size), "linf": float(size)}[measure]
        l1 = None if distance is None else Fraction(distance) * Fraction(factor)
        if budget is not None and l1 is not None:
            cell = grid_of(real_scale("sensitivity / epsilon", up(l1 / Fraction(budget))), grid)
        else:
            scale = real_scale("scale", scale)
            cell = grid_of(scale, grid)
        if l1 is not None and not on_grid:
            l1 += size * Fraction(cell)
        if budget is not None and l1 is not None:
            scale = fits_the_grid(up(l1 / Fraction(budget)), cell)
        elif l1 is not None and scale is not None:
            budget = stated_epsilon(l1, scale)
        set_fields(
            self,
            epsilon=budget,
            sensitivity=distance,
            scale=scale,
            grid=cell,
            dimension=size,
            norm=measure,
            neighbours=checked_neighbours(neighbours),
            values_on_grid=on_grid,
        )

    def release(self, value: ArrayLike, rng: InsecureTestRng | None = None) -> float | FloatArray:
        """Release a number, an array of numbers, or (``dimension > 1``) vectors along the last axis.

        Parameters
        ----------
        value : float or array
            Private. Clamped to +-2**120 grid cells, integers also to int64; NaN counts as 0. None of it raises.
            Integers are released by their exact value, also beyond 2**53.
        rng : InsecureTestRng, optional
            A predictable generator for tests.

        Returns
        -------
        float or array of float64
            Multiples of the grid (the nearest double, beyond 2**53 of them).
        """
        if type(value) is float and rng is None and self.dimension == 1:
            return _core.sample_laplace_add(self.scale, self.grid, value, None)
        if type(value) is int and rng is None and self.dimension == 1 and LEAST_INT64 <= value <= MOST_INT64:
            return _core.sample_laplace_add_integer(self.scale, self.grid, value, None)
        return self._release(value, rng, "laplace")

    def error(self) -> ExpectedError:
        """Expected absolute and squared error of each number, rounding to the grid included.

        Within a part in 2**40 they are scale and 2 * scale**2 on the default grid.
        """
        # Pr[abs(K) >= k] = exp(-(k - 1/2) cell), cell = grid/scale; both sums are geometric.
        cell = self.grid / self.scale
        sinh = math.sinh(cell / 2) * (1 - 1e-14 * (1 + cell))  # the rounding of `cell` counts so many times
        mean = self.grid / (2 * sinh)
        return self._error(mean, mean * self.grid * (math.cosh(cell / 2) / sinh), -math.expm1(-cell / 2))

    def interval(self, level: float) -> NoiseInterval:
        """Half width that the error of a number exceeds with probability at most 1 - level.

        The smallest for values on the grid; else half a cell wider.
        """
        checked = checked_level(level)
        return self._interval(checked, -math.log1p(-checked) * (1 + 1e-14))

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
            return f"Laplace noise of scale {upward(self.scale)}; {NOTHING_STATED}"
        return (
            f"{self._of_each()} released is {upward(self.epsilon)}-differentially private "
            f"{between_neighbours(self.neighbours, self.sensitivity)} "
            f"(Laplace noise of scale {upward(self.scale)})."
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

    Raises
    ------
    TypeError, ValueError
        Naming the argument, its rule and the value given.
    OverflowError
        If the noise that is needed exceeds the range of a double.

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
        on_grid = checked_promise(values_on_grid, grid)
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
            values_on_grid=on_grid,
        )
        rounded = self.l2_sensitivity
        if budget is not None and failure is not None and rounded is not None:
            final = gaussian.sigma(epsilon=budget, delta=failure, sensitivity=rounded, method=method)
            set_fields(self, scale=fits_the_grid(final, cell))

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
            Private. Clamped to +-2**120 grid cells, integers also to int64; NaN counts as 0. None of it raises.
            Integers are released by their exact value, also beyond 2**53.
        rng : InsecureTestRng, optional
            A predictable generator for tests.

        Returns
        -------
        float or array of float64
            Multiples of the grid (the nearest double, beyond 2**53 of them).
        """
        if type(value) is float and rng is None and self.dimension == 1:
            return _core.sample_gaussian_add(self.scale, self.grid, value, None)
        if type(value) is int and rng is None and self.dimension == 1 and LEAST_INT64 <= value <= MOST_INT64:
            return _core.sample_gaussian_add_integer(self.scale, self.grid, value, None)
        return self._release(value, rng, "gaussian")

    def error(self) -> ExpectedError:
        """Expected absolute and squared error of each number, rounding to the grid included.

        Within a part in 2**40 they are sigma * sqrt(2/pi) and sigma**2 on the default grid.
        """
        s, g, slack = self.scale, self.grid, 1 + 1e-12
        if s <= 1000 * g:
            # E abs(K) = sum of Pr[abs(K) >= k], E K^2 = sum of (2 k - 1) Pr[abs(K) >= k], to 40 deviations
            k = np.arange(1, math.ceil(40 * s / g) + 3)
            beyond = special.erfc((k - 0.5) * (g / s / math.sqrt(2)))
            mean, square = float(beyond.sum()) * g, float(((2 * k - 1) * beyond).sum()) * g * g
        else:
            # The same sums by Euler and Maclaurin; the next terms are (g/s)^4/820 and less of the first.
            mean = s * math.sqrt(2 / math.pi) * (1 - (g / s) ** 2 / 24)
            square = s * s + g * g / 12
        return self._error(mean * slack, square * slack, math.erf(g / s / math.sqrt(8)))

    def interval(self, level: float) -> NoiseInterval:
        """Half width that the error of a number exceeds with probability at most 1 - level.

        The smallest for values on the grid; else half a cell wider.
        """
        checked = checked_level(level)
        return self._interval(checked, normal_half_width(checked))

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
            return f"Gaussian noise of deviation {upward(self.scale)}; {NOTHING_STATED}"
        if self.epsilon is None:
            mu = up(Fraction(self.l2_sensitivity or 0) / Fraction(self.scale))
            promise = f"{upward(mu)}-Gaussian differentially private"
        else:
            promise = f"({upward(self.epsilon)}, {upward(self.delta or 0.0)})-differentially private"
        return (
            f"{self._of_each()} released is {promise} "
            f"{between_neighbours(self.neighbours, self.sensitivity)} "
            f"(Gaussian noise of deviation {upward(self.scale)})."
        )
