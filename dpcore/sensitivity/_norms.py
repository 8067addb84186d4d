"""Norms of f(D) - f(D') for many pairs at once, rounded up."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcore._validation import MAX_EXACT_INTEGER, FloatArray

NORMS = ("l1", "l2", "sup")
Norm = str | Callable[[Any], float]


def as_numbers(value: Any) -> NDArray[Any]:
    """`value` as an array of real numbers (integers stay integers); TypeError if it is none."""
    if isinstance(value, (np.ma.MaskedArray, bytes, bytearray, str)):  # NumPy would make numbers of them
        raise TypeError(f"must return real numbers, got a {type(value).__name__}")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise TypeError(f"must return an array of real numbers: {error}") from None
    if array.dtype.kind not in "iufb":
        raise TypeError(f"must return real numbers, got {type(value).__name__} of dtype {array.dtype}")
    return array


def digest(grid: Any) -> str | None:
    """A short name of the points at which functions are compared, equal for equal points only.

    None if there are none, or if they are no numbers.
    """
    if grid is None or np.asarray(grid).dtype.kind not in "iufb":
        return None
    with np.errstate(over="ignore"):  # infinite if beyond a double
        points = np.ascontiguousarray(grid, dtype=np.float64)
    return hashlib.sha256(repr(points.shape).encode() + points.tobytes()).hexdigest()[:32]


def sensitivities(first: NDArray[Any], second: NDArray[Any], norm: Norm) -> FloatArray:
    """||first[i] - second[i]|| for each i, not below the exact norm of the values given.

    A value that is not finite makes its pair infinitely sensitive: NaN is never dropped.
    """
    count = len(first)
    first, second = first.reshape(count, -1), second.reshape(count, -1)
    with np.errstate(all="ignore"):
        if first.dtype.kind == "f" and second.dtype.kind == "f":
            a, b = first.astype(np.float64, copy=False), second.astype(np.float64, copy=False)
        else:
            a, b = _integers(first, second)
        if callable(norm):
            return _own_norm(a, b, norm)
        out = _reduce(_distance(a, b), norm)
    out[~np.isfinite(out)] = np.inf
    return out


def _integers(first: NDArray[Any], second: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
    """Doubles with the same difference; integers beyond 2^53 are subtracted before they are rounded."""
    a, b = first.astype(np.float64), second.astype(np.float64)
    if first.dtype.kind in "iub" and second.dtype.kind in "iub":
        large = (np.abs(a) >= MAX_EXACT_INTEGER) | (np.abs(b) >= MAX_EXACT_INTEGER)
        for i, j in zip(*np.nonzero(large), strict=True):
            exact = int(first[i, j]) - int(second[i, j])
            a[i, j], b[i, j] = np.nextafter(float(abs(exact)), np.inf), 0.0
    return a, b


def _distance(a: FloatArray, b: FloatArray) -> FloatArray:
    """|a - b|, rounded up where the subtraction is not exact (Knuth's two-sum gives the rounding error)."""
    difference = a - b
    back = difference - a
    error = (a - (difference - back)) - (b + back)
    distance = np.abs(difference)
    inexact = error != 0
    if inexact.any():
        distance[inexact] = np.nextafter(distance[inexact], np.inf)
    return distance


def _reduce(distance: FloatArray, norm: str) -> FloatArray:
    size = distance.shape[1]
    if size == 0:
        return np.zeros(len(distance))
    if size == 1:
        only: FloatArray = distance[:, 0].copy()
        return only
    largest: FloatArray = distance.max(axis=1)
    if norm == "sup":
        return largest
    if norm == "l1":
        total: FloatArray = distance.sum(axis=1)
        # size - 1 additions of positive terms; sums of whole numbers below 2^53 are exact.
        exact = (total < MAX_EXACT_INTEGER) & (np.floor(distance) == distance).all(axis=1)
        return np.where(exact, total, total * (1 + size * 2.0**-52))
    # Scaled by the largest entry, so that no square overflows and none that matters vanishes.
    scale = np.where(largest > 0, largest, 1.0)
    ratio = distance / scale[:, None]
    root = np.sqrt((ratio * ratio).sum(axis=1))
    result: FloatArray = scale * root * (1 + (size + 4) * 2.0**-52)
    return result


def _own_norm(a: FloatArray, b: FloatArray, norm: Callable[[Any], float]) -> FloatArray:
    out = np.full(len(a), np.inf)
    difference = a - b
    for i in np.nonzero((np.isfinite(a) & np.isfinite(b)).all(axis=1))[0]:
        value = float(norm(difference[i]))
        if value < 0:
            raise ValueError(f"norm must return a number >= 0, got {value!r}")
        out[i] = np.inf if np.isnan(value) else value
    return out
