"""Built-in targets: evaluated in C++ on both neighbours at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpcore import _core
from dpcore import _validation as check
from dpcore._validation import FloatArray


def _records(data: Any, *, dimensions: str) -> FloatArray:
    """`data` as float64; TypeError if it is no array of real numbers."""
    array = check.private_reals("data", data)
    if array.ndim == 0 or len(array) == 0:
        raise ValueError(f"data must hold at least one record, got shape {array.shape}")
    out = array
    if (dimensions == "flat" and out.ndim != 1) or (dimensions == "rows" and (out.ndim != 2)):
        kind = "single numbers" if dimensions == "flat" else "rows of numbers"
        raise ValueError(f"records must be {kind}, got data of shape {array.shape}")
    return out


def _groups(blocks: Any, *, dimensions: str) -> FloatArray:
    """A batch of shape (count, records + 1, width) from one of shape (count, records + 1, ...)."""
    blocks = np.asarray(blocks)
    _records(blocks[0], dimensions=dimensions)
    flat: FloatArray = np.ascontiguousarray(blocks, dtype=np.float64)
    return flat.reshape(flat.shape[0], flat.shape[1], -1)


@dataclass(frozen=True)
class Sum:
    """Sum of the records, by coordinate.

    Examples
    --------
    >>> from dpcore.sensitivity import Sum
    >>> Sum()([1.0, 1e100, 1.0, -1e100])
    2.0
    """

    def __call__(self, data: Any) -> Any:
        """The sum, a float for records that are single numbers."""
        return _by_coordinate(_records(data, dimensions="any"), 1.0)

    def _neighbour_values(self, blocks: Any) -> tuple[FloatArray, FloatArray]:
        return _sums(blocks, 1.0)


@dataclass(frozen=True)
class Mean:
    """Mean of the records, by coordinate.

    Examples
    --------
    >>> from dpcore.sensitivity import Mean
    >>> Mean()([[1.0, 10.0], [2.0, 20.0]])
    array([ 1.5, 15. ])
    """

    def __call__(self, data: Any) -> Any:
        """The mean, a float for records that are single numbers."""
        array = _records(data, dimensions="any")
        return _by_coordinate(array, float(len(array)))

    def _neighbour_values(self, blocks: Any) -> tuple[FloatArray, FloatArray]:
        return _sums(blocks, float(np.shape(blocks)[1] - 1))


def _by_coordinate(array: FloatArray, divisor: float) -> Any:
    out = _core.sum_single(array.reshape(len(array), -1), divisor)
    return float(out[0]) if array.ndim == 1 else out.reshape(array.shape[1:])


def _sums(blocks: Any, divisor: float) -> tuple[FloatArray, FloatArray]:
    shape = np.shape(blocks)
    first, second = _core.sum_pairs(_groups(blocks, dimensions="any"), divisor)
    out = (shape[0], *shape[2:])
    return first.reshape(out), second.reshape(out)


@dataclass(frozen=True)
class Quantile:
    """Quantile of records that are single numbers, interpolated linearly like ``numpy.quantile``.

    Parameters
    ----------
    probability : float in [0, 1]

    Examples
    --------
    >>> from dpcore.sensitivity import Quantile
    >>> Quantile(0.5)([3.0, 1.0, 2.0, 10.0])
    2.5
    """

    probability: float

    def __post_init__(self) -> None:
        value = check.scalar("probability", check.probability("probability", self.probability))
        object.__setattr__(self, "probability", value)

    def __call__(self, data: Any) -> float:
        """The quantile."""
        return float(_core.quantile_single(_records(data, dimensions="flat").reshape(-1, 1), self.probability)[0])

    def _neighbour_values(self, blocks: Any) -> tuple[FloatArray, FloatArray]:
        first, second = _core.quantile_pairs(_groups(blocks, dimensions="flat"), self.probability)
        return first[:, 0], second[:, 0]


@dataclass(frozen=True)
class Histogram:
    """Counts of records that are single numbers, in bins like those of ``numpy.histogram``.

    Parameters
    ----------
    edges : sequence of float
        Ascending; bin i is [edges[i], edges[i + 1]), the last one closed. Records outside are not counted.

    Examples
    --------
    >>> from dpcore.sensitivity import Histogram
    >>> Histogram([0, 1, 2])([0.5, 1.0, 2.0, 7.0])
    array([1., 2.])
    """

    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        edges = check.real("edges", self.edges, "finite", -np.inf, np.inf, low_open=True, high_open=True)
        if not isinstance(edges, np.ndarray) or edges.ndim != 1 or len(edges) < 2:
            raise ValueError(f"edges must be a sequence of at least two numbers, got {self.edges!r}")
        if not (np.diff(edges) > 0).all():
            raise ValueError(f"edges must be ascending, got {self.edges!r}")
        object.__setattr__(self, "edges", tuple(edges.tolist()))

    def __call__(self, data: Any) -> FloatArray:
        """The counts."""
        return _core.histogram_single(_records(data, dimensions="flat").reshape(-1, 1), np.array(self.edges))

    def _neighbour_values(self, blocks: Any) -> tuple[FloatArray, FloatArray]:
        return _core.histogram_pairs(_groups(blocks, dimensions="flat"), np.array(self.edges))


@dataclass(frozen=True)
class RidgeRegression:
    """Coefficients of a linear regression with a penalty on their squares.

    Records are rows: the features, then the response. Returned are the coefficients of the features, then the
    intercept if there is one, which is not penalised. NaN if the design is singular.

    Parameters
    ----------
    penalty : float >= 0
        Minimises sum (y - x w - b)^2 + penalty |w|^2.
    intercept : bool

    Examples
    --------
    >>> from dpcore.sensitivity import RidgeRegression
    >>> RidgeRegression(penalty=2.0, intercept=False)([[1.0, 3.0], [1.0, 5.0]])
    array([2.])
    """

    penalty: float
    intercept: bool = True

    def __post_init__(self) -> None:
        value = check.scalar("penalty", check.non_negative("penalty", self.penalty))
        object.__setattr__(self, "penalty", value)
        if not isinstance(self.intercept, bool):
            raise TypeError(f"intercept must be True or False, got {self.intercept!r}")

    def __call__(self, data: Any) -> FloatArray:
        """The coefficients."""
        rows = _records(data, dimensions="rows")
        _check_width(rows.shape)
        return _core.regression_single(rows, self.intercept, self.penalty)

    def _neighbour_values(self, blocks: Any) -> tuple[FloatArray, FloatArray]:
        groups = _groups(blocks, dimensions="rows")
        _check_width(groups.shape)
        return _core.regression_pairs(groups, self.intercept, self.penalty)


def _check_width(shape: tuple[int, ...]) -> None:
    if shape[-1] < 2:
        raise ValueError(f"records must have at least one feature and the response, got {shape[-1]} columns")


@dataclass(frozen=True, init=False)
class LinearRegression(RidgeRegression):
    """Coefficients of a least-squares regression; `RidgeRegression` without penalty.

    Parameters
    ----------
    intercept : bool

    Examples
    --------
    >>> from dpcore.sensitivity import LinearRegression
    >>> LinearRegression()([[0.0, 1.0], [1.0, 3.0], [2.0, 5.0]]).round(12)
    array([2., 1.])
    """

    def __init__(self, intercept: bool = True) -> None:
        super().__init__(penalty=0.0, intercept=intercept)

    def __repr__(self) -> str:
        return f"LinearRegression(intercept={self.intercept})"
