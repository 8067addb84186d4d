"""Checks of arguments, shared by every area.

A check returns the value in the form the core takes (a Python float or int for a scalar, a float64
array for anything array-like) and raises ``TypeError`` for a wrong type, ``ValueError`` for a wrong
value, with a message that names the argument, the rule and the value. Comparisons are written so that
NaN fails them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcore._paths import path as path
from dpcore._paths import shown as shown

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Number = float | FloatArray

MAX_EXACT_INTEGER = 2**53


def whole_array(name: str, value: Any) -> NDArray[Any]:
    """`value` as an array in which no element is missing, of whatever dtype."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        # np.asarray would bring back the numbers under the mask.
        raise ValueError(f"{name} must not have masked elements, got {shown(value)}")
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} must be a rectangular array of real numbers: {error}") from None
    except OverflowError:
        raise ValueError(f"{name} must be within the range of a double, got {shown(value)}") from None


def private_array(name: str, value: Any) -> NDArray[Any]:
    """Private values as an array of whatever dtype; type and shape are looked at, no element is."""
    # Whether anything is masked depends on the data, so the type alone is refused.
    if isinstance(value, (np.ma.MaskedArray, bytes, bytearray, str)):
        raise TypeError(f"{name} must be a real number or an array of real numbers, got a {type(value).__name__}")
    try:
        return np.asarray(value)
    except ValueError:
        raise ValueError(f"{name} must be a rectangular array of numbers") from None


def private_reals(name: str, value: Any) -> FloatArray:
    """Private numbers as a C-contiguous float64 array of the same shape; infinite if beyond a double."""
    raw = private_array(name, value)
    if raw.dtype.kind not in "iufb":
        raise TypeError(f"{name} must be a real number or an array of real numbers, got dtype {raw.dtype}")
    with np.errstate(over="ignore"):
        array: FloatArray = raw.astype(np.float64, order="C", copy=False)
    return array


def iterable(name: str, value: Any, what: str) -> Iterator[Any]:
    """An iterator over `value`, which must not be text."""
    if not isinstance(value, (str, bytes, bytearray)):
        try:
            return iter(value)
        except TypeError:
            pass
    raise TypeError(f"{name} must be {what}, got {shown(value)}")


def real(
    name: str,
    value: Any,
    rule: str,
    low: float,
    high: float,
    *,
    low_open: bool = False,
    high_open: bool = False,
    whole: bool = False,
) -> Number:
    """`value` as a float or a float64 array, every element between `low` and `high` (and whole, if asked)."""
    if type(value) is not float:
        # np.timedelta64 counts as an integer for NumPy; it has a unit, which is not ours to drop.
        if value is None or isinstance(value, (bool, np.bool_, str, bytes, bytearray, complex, np.timedelta64)):
            raise TypeError(f"{name} must be a real number or an array of them, got {shown(value)}")
        if not isinstance(value, (int, float, np.integer, np.floating)):
            return _real_array(name, value, rule, low, high, low_open, high_open, whole)
        if isinstance(value, int):
            value = int.__int__(value)  # a subclass may say anything of itself, to comparisons too
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"{name} must be {rule} within the range of a double, got {shown(value)}") from None
    # An int is compared as it is: 2**53 + 1 must not pass for 2**53.
    exact = value if isinstance(value, int) else number
    above = exact > low if low_open else exact >= low
    below = exact < high if high_open else exact <= high
    if not (above and below) or (whole and not number.is_integer()):
        raise ValueError(f"{name} must be {rule}, got {shown(value)}")
    return number


def _real_array(
    name: str, value: Any, rule: str, low: float, high: float, low_open: bool, high_open: bool, whole: bool
) -> Number:
    raw = whole_array(name, value)
    if raw.dtype.kind not in "iuf" or has_booleans(value):
        kind = f"dtype {raw.dtype}" if raw.dtype.kind not in "iuf" else "a boolean among numbers"
        raise TypeError(f"{name} must be a real number or an array of them, got {kind}")
    array: FloatArray
    if raw.dtype.char == "g":
        with np.errstate(
            over="ignore"
        ):  # extended precision beyond a double becomes infinite, and is checked as such
            array = raw.astype(np.float64, order="C")
    else:
        array = raw.astype(np.float64, order="C", copy=False)
    if array.ndim == 0:
        return real(name, raw.item(), rule, low, high, low_open=low_open, high_open=high_open, whole=whole)
    if whole and raw.dtype.kind in "iu" and array.size:
        beyond = raw > int(min(high, np.iinfo(raw.dtype).max))  # as integers: 2**53 + 1 is not 2**53
        if beyond.any():
            where = np.unravel_index(int(np.argmax(beyond)), raw.shape)
            raise ValueError(f"{name} must be {rule}, got {raw[where]} at index {tuple(map(int, where))}")
    if array.size:
        # The smallest and the largest element decide, and NaN fails both comparisons; no temporaries.
        least, most = float(np.minimum.reduce(array, axis=None)), float(np.maximum.reduce(array, axis=None))
        above = least > low if low_open else least >= low
        below = most < high if high_open else most <= high
        if not (above and below) or (whole and not bool(np.all(np.floor(array) == array))):
            good = (array > low if low_open else array >= low) & (array < high if high_open else array <= high)
            if whole:
                good &= np.floor(array) == array
            where = np.unravel_index(int(np.argmin(good)), array.shape)
            raise ValueError(
                f"{name} must be {rule}, got {float(array[where])!r} at index {tuple(map(int, where))}"
            )
    return array


def has_booleans(value: Any) -> bool:
    """Whether a list holds booleans, which NumPy makes numbers of where there are others."""
    if not isinstance(value, (list, tuple)):
        return False
    kinds = set(map(type, value))
    if bool in kinds or np.bool_ in kinds:
        return True
    return (list in kinds or tuple in kinds) and any(map(has_booleans, value))


def positive(name: str, value: Any) -> Number:
    """Finite and greater than 0."""
    if type(value) is float and 0.0 < value < math.inf:
        return value
    return real(name, value, "a finite number > 0", 0.0, math.inf, low_open=True, high_open=True)


def non_negative(name: str, value: Any) -> Number:
    """Finite and at least 0."""
    return real(name, value, "a finite number >= 0", 0.0, math.inf, high_open=True)


def probability(name: str, value: Any) -> Number:
    """In [0, 1]."""
    return real(name, value, "a number in [0, 1]", 0.0, 1.0)


def open_probability(name: str, value: Any) -> Number:
    """In (0, 1), both ends excluded."""
    if type(value) is float and 0.0 < value < 1.0:
        return value
    rule = "a number in (0, 1), both ends excluded"
    return real(name, value, rule, 0.0, 1.0, low_open=True, high_open=True)


def count(name: str, value: Any, *, least: int = 0) -> Number:
    """A whole number from `least` to 2**53, or an array of them, in floating point for the core."""
    if type(value) is int and least <= value <= MAX_EXACT_INTEGER:
        return float(value)
    return real(name, value, f"an integer in [{least}, 2**53]", least, MAX_EXACT_INTEGER, whole=True)


def scalar(name: str, value: Number) -> float:
    """A checked value that must not be an array."""
    if isinstance(value, np.ndarray):
        raise TypeError(f"{name} must be a single number, got an array of shape {value.shape}")
    return value


def single(name: str, value: Any, check: Callable[[str, Any], Number]) -> float:
    """What `check` makes of a value that must be one number: an array is refused as such, whatever is in it."""
    if type(value) is not float:
        if isinstance(value, (list, tuple, range)):
            raise TypeError(f"{name} must be a single number, got a {type(value).__name__} of length {len(value)}")
        if not isinstance(value, (int, np.integer, np.floating)) or isinstance(value, (bool, np.timedelta64)):
            try:
                raw = np.asarray(value)
            except Exception:  # of the caller's object
                raise TypeError(f"{name} must be a single number, got {shown(value)}") from None
            if raw.ndim:
                raise TypeError(f"{name} must be a single number, got an array of shape {raw.shape}")
            if raw.dtype.kind not in "iuf":
                raise TypeError(f"{name} must be a single number (float or int), got {shown(value)}")
    return scalar(name, check(name, value))


def integer(name: str, value: Any, *, least: int = 0, most: int = MAX_EXACT_INTEGER) -> int:
    """A whole number in [least, most]; a float is not one, even 3.0."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {shown(value)}") from None
    if not least <= number <= most:
        raise ValueError(f"{name} must be an integer in [{least}, {most}], got {shown(number)}")
    return number


def choice(name: str, value: Any, options: tuple[str, ...]) -> str:
    """One of `options`."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be one of {', '.join(map(repr, options))}, got {shown(value)}")
    plain = str.__str__(value)
    if plain not in options:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}, got {shown(value)}")
    return plain


def flag(name: str, value: Any) -> bool:
    """True or False; nothing else, since "no" would count as true."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


def broadcast(**named: Number) -> list[FloatArray]:
    """Arrays ready for the core: each has one element or is C-contiguous of the common shape."""
    shapes = {value.shape for value in named.values() if isinstance(value, np.ndarray)}
    if len(shapes) == 1:  # the usual case, without NumPy's general machinery
        (shape,) = shapes
        fill = shape if math.prod(shape) == 1 else (1,)
        return [v if isinstance(v, np.ndarray) else np.full(fill, v) for v in named.values()]
    arrays = {name: np.asarray(value, dtype=np.float64) for name, value in named.items()}
    try:
        shape = np.broadcast_shapes(*(a.shape for a in arrays.values()))
    except ValueError:
        given = ", ".join(f"{name} {a.shape}" for name, a in arrays.items())
        raise ValueError(f"arguments do not broadcast together: {given}") from None
    if math.prod(shape) == 1:
        return [a.reshape(shape) for a in arrays.values()]
    return [
        a.reshape(1) if a.size == 1 else np.ascontiguousarray(np.broadcast_to(a, shape)) for a in arrays.values()
    ]
