"""Checks of arguments, shared by every area.

A check returns the value in the form the core takes (a Python float or int for a scalar, a float64
array for anything array-like) and raises ``TypeError`` for a wrong type, ``ValueError`` for a wrong
value, with a message that names the argument, the rule and the value. Comparisons are written so that
NaN fails them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Number = float | FloatArray

MAX_EXACT_INTEGER = 2**53


def real(name: str, value: Any, rule: str, holds: Callable[[Any], Any]) -> Number:
    """`value` as a float or a float64 array, every element of which satisfies `holds`."""
    if type(value) is float:
        if not holds(value):
            raise ValueError(f"{name} must be {rule}, got {value!r}")
        return value
    if isinstance(value, (bool, np.bool_, str, bytes, complex)) or value is None:
        raise TypeError(f"{name} must be a real number or an array of them, got {value!r}")
    if isinstance(value, (int, float, np.integer, np.floating)):
        try:
            number = float(value)
        except OverflowError:
            number = math.copysign(math.inf, value)
        if not holds(number):
            raise ValueError(f"{name} must be {rule}, got {value!r}")
        return number
    try:
        raw = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} must be a rectangular array of real numbers: {error}") from None
    if raw.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be a real number or an array of them, got dtype {raw.dtype}")
    array: FloatArray = np.ascontiguousarray(raw, dtype=np.float64).reshape(raw.shape)
    bad = ~np.asarray(holds(array), dtype=bool)
    if bad.any():
        where = np.unravel_index(int(np.argmax(bad)), array.shape)
        place = f" at index {tuple(map(int, where))}" if array.ndim else ""
        raise ValueError(f"{name} must be {rule}, got {float(array[where])!r}{place}")
    return float(array) if array.ndim == 0 else array


def positive(name: str, value: Any) -> Number:
    """Finite and greater than 0."""
    return real(name, value, "a finite number > 0", lambda x: (x > 0) & (x < math.inf))


def non_negative(name: str, value: Any) -> Number:
    """Finite and at least 0."""
    return real(name, value, "a finite number >= 0", lambda x: (x >= 0) & (x < math.inf))


def probability(name: str, value: Any) -> Number:
    """In [0, 1]."""
    return real(name, value, "a number in [0, 1]", lambda x: (x >= 0) & (x <= 1))


def open_probability(name: str, value: Any) -> Number:
    """In (0, 1), both ends excluded."""
    return real(name, value, "a number in (0, 1), both ends excluded", lambda x: (x > 0) & (x < 1))


def scalar(name: str, value: Number) -> float:
    """A checked value that must not be an array."""
    if isinstance(value, np.ndarray):
        raise TypeError(f"{name} must be a single number, got an array of shape {value.shape}")
    return value


def integer(name: str, value: Any, *, least: int = 0, most: int = MAX_EXACT_INTEGER) -> int:
    """A whole number in [least, most]; a float is not one, even 3.0."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None
    if not least <= number <= most:
        raise ValueError(f"{name} must be an integer in [{least}, {most}], got {number}")
    return number


def choice(name: str, value: Any, options: tuple[str, ...]) -> str:
    """One of `options`."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be one of {', '.join(map(repr, options))}, got {value!r}")
    if value not in options:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}, got {value!r}")
    return value


def broadcast(**named: Number) -> list[FloatArray]:
    """Arrays ready for the core: each has one element or is C-contiguous of the common shape."""
    arrays = {name: np.asarray(value, dtype=np.float64) for name, value in named.items()}
    try:
        shape = np.broadcast_shapes(*(a.shape for a in arrays.values()))
    except ValueError:
        shapes = ", ".join(f"{name} {a.shape}" for name, a in arrays.items())
        raise ValueError(f"arguments do not broadcast together: {shapes}") from None
    return [
        np.ascontiguousarray(np.broadcast_to(a, shape))
        if a.size != 1 or math.prod(shape) == 1
        else a.reshape(1)
        for a in arrays.values()
    ]
