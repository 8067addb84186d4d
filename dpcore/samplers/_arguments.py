"""Checks that the samplers share; all of them run before any randomness is used."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpcore import _core, _validation
from dpcore._core import InsecureTestRng
from dpcore._validation import FloatArray, IntArray

Size = int | tuple[int, ...]

LEAST_SCALE = 1e-3
GREATEST_SCALE = 1e15
_GREATEST_COUNT = 2**59  # 2**62 bytes: what an array can hold at all


def integer_scale(name: str, value: Any) -> float:
    rule = f"a number in [{LEAST_SCALE!r}, {GREATEST_SCALE!r}]"
    return _validation.scalar(name, _validation.real(name, value, rule, LEAST_SCALE, GREATEST_SCALE))


def real_scale(name: str, value: Any) -> float:
    return _validation.scalar(name, _validation.real(name, value, "a number in [1e-280, 1e280]", 1e-280, 1e280))


def grid_of(scale: float, grid: Any) -> float:
    if grid is None:
        return _core.grid_for(scale)
    rule = "a power of two between scale / 2**49 and 1024 * scale"
    checked = _validation.scalar("grid", _validation.real("grid", grid, rule, scale * 2.0**-49, 1024 * scale))
    if math.frexp(checked)[0] != 0.5:
        raise ValueError(f"grid must be {rule}, got {grid!r}")
    return checked


def source_of(rng: Any) -> InsecureTestRng | None:
    if rng is not None and not isinstance(rng, InsecureTestRng):
        raise TypeError(
            "rng must be None (the operating system's randomness) or a dpcore.samplers.InsecureTestRng, "
            f"got {rng!r}"
        )
    return rng


def shape_of(size: Any) -> tuple[int, ...]:
    dimensions = size if isinstance(size, tuple) else (size,)
    shape = tuple(_validation.integer("size", d, most=_GREATEST_COUNT) for d in dimensions)
    if math.prod(shape) > _GREATEST_COUNT:
        raise ValueError(f"size must name at most 2**59 elements, got {size!r}")
    return shape


# ---- private values
#
# Of these only types and shapes are looked at, never a value: an exception that depends on one would tell it.

LEAST_INT64, MOST_INT64 = -(2**63), 2**63 - 1


def _saturated(value: int) -> int:
    return min(max(value, LEAST_INT64), MOST_INT64)


def _python_integers(given: Any, raw: Any) -> Any:
    """`raw` as int64 if it is what NumPy makes of Python integers beyond its own, else as it is.

    Integers of 2**64 and more make an array of objects, those of 2**63 and more beside negative ones an array
    of floats: which type it is must not depend on how large a private integer is.
    """
    beyond = raw.dtype.kind == "O" or (
        raw.dtype.kind == "f"
        and not isinstance(given, (np.ndarray, np.generic))
        and bool((np.abs(raw) >= 2.0**63).any())
    )
    if not beyond:
        return raw
    objects = raw if raw.dtype.kind == "O" else np.array(given, dtype=object)
    if not all(isinstance(x, (int, np.integer)) for x in objects.flat):
        return raw
    return np.array([_saturated(int(x)) for x in objects.flat], dtype=np.int64).reshape(objects.shape)


def _numbers(name: str, value: Any) -> Any:
    """An array of `value`, its integers as int64, saturated at the ends: that never moves two of them apart."""
    raw = _python_integers(value, _validation.private_array(name, value))
    if raw.dtype.kind == "u" and raw.dtype.itemsize == 8:
        raw = np.minimum(raw, np.uint64(MOST_INT64))
    if raw.dtype.kind in "iub":
        raw = raw.astype(np.int64, copy=False)
    return np.ascontiguousarray(raw) if raw.ndim else raw


def private_integers(name: str, value: Any) -> int | IntArray:
    """Private integers as an int or a C-contiguous int64 array; those beyond int64 become its nearest end."""
    if type(value) is int:
        return _saturated(value)
    array = _numbers(name, value)
    if array.dtype != np.int64:
        raise TypeError(f"{name} must be an integer or an array of integers, got dtype {array.dtype}")
    return int(array) if array.ndim == 0 else array


def private_numbers(name: str, value: Any) -> float | int | FloatArray | IntArray:
    """Private numbers: integers as `private_integers` gives them, all others as a float or a float64 array.

    Integers are not made floats: beyond 2**53 that could move two neighbours apart. For the same reason floats
    wider than float64 are refused.
    """
    if type(value) is float:
        return value
    if type(value) is int:
        return _saturated(value)
    array = _numbers(name, value)
    if array.dtype.kind not in "if" or array.dtype.itemsize > 8:
        raise TypeError(f"{name} must be a number or an array of numbers (up to float64), got dtype {array.dtype}")
    if array.dtype.kind == "f":
        array = array.astype(np.float64, copy=False)
    result: float | int | FloatArray | IntArray = array.item() if array.ndim == 0 else array
    return result
