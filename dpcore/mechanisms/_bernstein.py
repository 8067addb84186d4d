"""The Bernstein mechanism: release a whole function on [0, 1]^l."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpcore import _validation
from dpcore._core import InsecureTestRng
from dpcore._results import Result
from dpcore._rounding import upward
from dpcore._validation import FloatArray
from dpcore.mechanisms._base import (
    ExpectedError,
    Mechanism,
    NoiseInterval,
    between_neighbours,
    checked_level,
    set_fields,
)
from dpcore.mechanisms._real import Laplace
from dpcore.samplers._arguments import private_numbers

if TYPE_CHECKING:
    from dpcore.accounting import PrivacyLoss


_GREATEST_ITERATED_LATTICE = 4096  # iterating takes a matrix of the lattice squared: 128 MiB


def basis(points: FloatArray, lattice: int) -> FloatArray:
    """Bernstein polynomials C(k, j) y^j (1 - y)^(k - j), j = 0..k, at points of [0, 1], in one more axis."""
    j = np.arange(lattice + 1)
    y = points[..., None]
    with np.errstate(divide="ignore", invalid="ignore"):
        log = special.xlogy(j, y) + special.xlog1py(lattice - j, -y)
    binomials = special.gammaln(lattice + 1) - special.gammaln(j + 1) - special.gammaln(lattice - j + 1)
    result: FloatArray = np.exp(log + binomials)
    return result


def iterated(values: FloatArray, lattice: int, order: int) -> FloatArray:
    """Coefficients of the iterated Bernstein operator I - (I - B)^order on lattice values.

    (I - B)^h applied on the lattice only needs B at lattice points: c = sum_{i<h} (I - B)^i f.
    """
    if order == 1:
        return values
    nodes = np.arange(lattice + 1) / lattice
    operator = basis(nodes, lattice)  # (B f)(node) = operator @ f
    term, total = values, values.copy()
    for _ in range(order - 1):
        smooth = term
        for axis in range(values.ndim):
            smooth = np.moveaxis(np.tensordot(operator, smooth, axes=(1, axis)), 0, axis)
        term = term - smooth
        total = total + term
    coefficients: FloatArray = total
    return coefficients


@dataclasses.dataclass(frozen=True, eq=False)
class BernsteinRelease(Result):
    """A released function: call it at any points, any number of times, at no further cost of privacy.

    Attributes
    ----------
    values : ndarray of float64
        Private lattice values, noise included: shape (lattice + 1,) * dimension.
    coefficients : ndarray of float64
        Coefficients in the Bernstein basis.
    epsilon : float
    order, lattice, dimension : int
    """

    values: FloatArray
    coefficients: FloatArray
    epsilon: float
    order: int
    lattice: int
    dimension: int

    def __call__(self, points: ArrayLike) -> float | FloatArray:
        """Value at points of [0, 1]^dimension.

        Parameters
        ----------
        points : array
            For dimension 1 any shape; else the last axis holds the coordinates.
        """
        given = _validation.real("points", points, "a number in [0, 1]", 0.0, 1.0)
        y = np.asarray(given, dtype=np.float64)
        if self.dimension == 1:
            y = y[..., None]
        if y.ndim == 0 or y.shape[-1] != self.dimension:
            raise ValueError(
                f"points must have a last axis of length {self.dimension}, got shape {np.shape(points)}"
            )
        flat = y.reshape(-1, self.dimension)
        result = np.empty(len(flat))
        step = max(1, 2**20 // self.coefficients.size)  # bounds the memory whatever the number of points
        for start in range(0, len(flat), step):
            part = flat[start : start + step]
            block = np.tensordot(basis(part[:, 0], self.lattice), self.coefficients, axes=(1, 0))
            for axis in range(1, self.dimension):
                block = np.einsum("pj,pj...->p...", basis(part[:, axis], self.lattice), block)
            result[start : start + step] = block
        out: FloatArray = result.reshape(y.shape[:-1])
        return float(out) if out.ndim == 0 else out

    @property
    def statement(self) -> str:
        """The guarantee in words."""
        return (
            f"The whole function is {upward(self.epsilon)}-differentially private; evaluating it "
            f"costs nothing more "
            f"(Bernstein mechanism of order {self.order} on a lattice of {self.lattice + 1} points an axis)."
        )


@dataclasses.dataclass(frozen=True, init=False)
class Bernstein(Mechanism):
    """Releases a function on [0, 1]^dimension with epsilon-differential privacy.

    The function is evaluated on the lattice {0, 1/k, ..., 1}^dimension, Laplace noise of scale
    sensitivity * (k + 1)**dimension / epsilon is added to every value, and the iterated Bernstein polynomial of
    the noisy values is released.

    Parameters
    ----------
    epsilon : float
        Finite, > 0.
    sensitivity : float
        Finite, > 0: the most that the function changes anywhere (sup norm) between neighbouring data sets.
    lattice : int
        k: the lattice has k + 1 points an axis; at most 4096 for order > 1.
    order : int
        h >= 1: how often the Bernstein operator is iterated; smoother functions gain from a larger h.
    dimension : int
        l >= 1; (k + 1)**l is at most 10**7.
    neighbours : {"add_remove", "replace"}, optional
        Relation for which the sensitivity was computed.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.mechanisms import Bernstein
    >>> mechanism = Bernstein(epsilon=5.0, sensitivity=0.001, lattice=10, order=3)
    >>> density = mechanism.release(lambda y: 6 * y * (1 - y))
    >>> density(np.linspace(0, 1, 5)).shape
    (5,)

    References
    ----------
    Alda and Rubinstein (2017), "The Bernstein mechanism: function release under differential privacy".
    """

    epsilon: float
    sensitivity: float
    lattice: int
    order: int
    dimension: int
    neighbours: str | None
    _noise: Laplace

    def __init__(
        self,
        *,
        epsilon: float,
        sensitivity: float,
        lattice: int,
        order: int = 1,
        dimension: int = 1,
        neighbours: str | None = None,
    ) -> None:
        k = _validation.integer("lattice", lattice, least=1, most=10**6)
        size = _validation.integer("dimension", dimension, least=1, most=32)
        points = (k + 1) ** size
        if points > 10**7:
            raise ValueError(f"(lattice + 1)**dimension must be at most 10**7, got {points}")
        times = _validation.integer("order", order, least=1, most=1000)
        if times > 1 and k > _GREATEST_ITERATED_LATTICE:
            raise ValueError(f"lattice must be at most {_GREATEST_ITERATED_LATTICE} for order > 1, got {k}")
        noise = Laplace(
            epsilon=epsilon, sensitivity=sensitivity, dimension=points, norm="linf", neighbours=neighbours
        )
        set_fields(
            self,
            epsilon=noise.epsilon,
            sensitivity=noise.sensitivity,
            lattice=k,
            order=times,
            dimension=size,
            neighbours=noise.neighbours,
            _noise=noise,
        )

    @property
    def scale(self) -> float:
        """Scale of the Laplace noise at each lattice point."""
        return self._noise.scale

    def points(self) -> FloatArray:
        """Lattice points: shape (k+1,) for dimension 1, else (k+1,)*dimension + (dimension,)."""
        axis = np.arange(self.lattice + 1) / self.lattice
        if self.dimension == 1:
            return axis
        return np.stack(np.meshgrid(*[axis] * self.dimension, indexing="ij"), axis=-1)

    def release(
        self, value: Callable[[FloatArray], ArrayLike] | ArrayLike, rng: InsecureTestRng | None = None
    ) -> BernsteinRelease:
        """Release the function.

        Parameters
        ----------
        value : callable or array
            The private function, called once with ``points()``, or its values there. NaN counts as 0.
        rng : InsecureTestRng, optional
            A predictable generator for tests.
        """
        shape = (self.lattice + 1,) * self.dimension
        if isinstance(value, type):
            raise TypeError(f"value must be a function of points or an array, got {value!r}")
        values = np.asarray(private_numbers("value", value(self.points()) if callable(value) else value))
        if values.shape != shape:
            raise ValueError(f"function values must have shape {shape}, got {values.shape}")
        noisy = np.asarray(self._noise.release(values.reshape(-1), rng)).reshape(shape)
        return BernsteinRelease(
            noisy,
            iterated(noisy, self.lattice, self.order),
            self.epsilon,
            self.order,
            self.lattice,
            self.dimension,
        )

    def _amplification(self) -> float:
        """Upper bound on the largest coefficient for lattice values of at most 1, which bounds the polynomial.

        The coefficients are A f with A = I + (I - B) + ... + (I - B)^(h - 1), of norm 2^h - 1 at most because
        I - B has norm 2 at most; for small lattices the norm itself, which is far less.
        """
        points = self._noise.dimension
        if self.order > 20 or points > 256:
            return float(2**self.order - 1) if self.order < 1000 else math.inf
        one_axis = basis(np.arange(self.lattice + 1) / self.lattice, self.lattice)
        smoothing: Any = one_axis
        for _ in range(self.dimension - 1):
            smoothing = np.kron(smoothing, one_axis)
        weights = unit = np.eye(points)
        for _ in range(self.order - 1):
            weights = unit + weights - smoothing @ weights
        # A product errs by points ulps of norms at most 1 and 2^h; each step doubles what came before at most.
        return float(np.abs(weights).sum(axis=1).max()) + 2.0**self.order * points * 1e-15

    def error(self) -> ExpectedError:
        """Expected error of the released lattice values; the approximation of the function itself is not in it."""
        return self._noise.error()

    def interval(self, level: float) -> NoiseInterval:
        """Bound on the noise everywhere on [0, 1]^dimension at once, with this probability.

        The largest of all lattice noises, times the norm of the iterated operator (below 2**order; computed for
        lattices of up to 256 points and orders up to 20, where it is far less). The
        approximation of the function by its Bernstein polynomial comes on top.
        """
        checked = checked_level(level)
        each = -math.expm1(math.log(checked) / self._noise.dimension)  # independent noises: level^(1/points) each
        width = (-self._noise.scale * math.log(each) + self._noise.grid) * self._amplification()
        return NoiseInterval(checked, width * (1 + 1e-12))

    def privacy_loss(self) -> PrivacyLoss:
        """Privacy loss of one released function."""
        return self._noise.privacy_loss()

    @property
    def statement(self) -> str:
        """The guarantee in words."""
        return (
            f"Each function released is {upward(self.epsilon)}-differentially private "
            f"{between_neighbours(self.neighbours, self.sensitivity)} anywhere on the domain."
        )

    def to_dict(self) -> dict[str, Any]:
        """Fields by name in plain types, and the statement."""
        fields = {k: v for k, v in super().to_dict().items() if k != "_noise"}
        return {**fields, "scale": self.scale}
