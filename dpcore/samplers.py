"""Exact random draws from a cryptographic stream.

Every function draws from the calling thread's ChaCha20 stream, keyed by the operating system, unless it
is given ``rng=InsecureTestRng(seed)``, which is predictable and for tests only. Distributions are exact:
the total variation distance from the law stated is below 2**-150 a draw. See ``docs/samplers.md``.
"""

from __future__ import annotations

import math
from typing import Any, overload

import numpy as np

from dpcore import _core, _validation
from dpcore._core import InsecureTestRng, RandomnessError
from dpcore._validation import FloatArray, IntArray

__all__ = [
    "GREATEST_SCALE",
    "LEAST_SCALE",
    "InsecureTestRng",
    "RandomnessError",
    "discrete_gaussian",
    "discrete_laplace",
    "gaussian",
    "geometric",
    "grid_for",
    "laplace",
    "random_bytes",
]

Size = int | tuple[int, ...]

LEAST_SCALE = 1e-3
GREATEST_SCALE = 1e15
_GREATEST_COUNT = 2**59  # 2**62 bytes: what an array can hold at all


def _scale(name: str, value: Any) -> float:
    rule = f"a number in [{LEAST_SCALE!r}, {GREATEST_SCALE!r}]"
    return _validation.scalar(name, _validation.real(name, value, rule, LEAST_SCALE, GREATEST_SCALE))


def _real_scale(name: str, value: Any) -> float:
    return _validation.scalar(name, _validation.real(name, value, "a number in [1e-280, 1e280]", 1e-280, 1e280))


def _grid(scale: float, grid: Any) -> float:
    if grid is None:
        return _core.grid_for(scale)
    rule = "a power of two between scale / 2**49 and 1024 * scale"
    checked = _validation.scalar("grid", _validation.real("grid", grid, rule, scale * 2.0**-49, 1024 * scale))
    if math.frexp(checked)[0] != 0.5:
        raise ValueError(f"grid must be {rule}, got {grid!r}")
    return checked


def _rng(rng: Any) -> InsecureTestRng | None:
    if rng is not None and not isinstance(rng, InsecureTestRng):
        raise TypeError(
            "rng must be None (the operating system's randomness) or a dpcore.samplers.InsecureTestRng, "
            f"got {rng!r}"
        )
    return rng


def _shape(size: Any) -> tuple[int, ...]:
    dimensions = size if isinstance(size, tuple) else (size,)
    shape = tuple(_validation.integer("size", d, most=_GREATEST_COUNT) for d in dimensions)
    if math.prod(shape) > _GREATEST_COUNT:
        raise ValueError(f"size must name at most 2**59 elements, got {size!r}")
    return shape


@overload
def discrete_laplace(scale: float, size: None = None, *, rng: InsecureTestRng | None = None) -> int: ...
@overload
def discrete_laplace(scale: float, size: Size, *, rng: InsecureTestRng | None = None) -> IntArray: ...
def discrete_laplace(
    scale: float, size: Size | None = None, *, rng: InsecureTestRng | None = None
) -> int | IntArray:
    """Integers k with probability proportional to exp(-abs(k) / scale).

    Parameters
    ----------
    scale : float
        In [1e-3, 1e15]. The law is that of the exact value of the double.
    size : int or tuple of int, optional
        Shape of the result; a Python int is returned without it.
    rng : InsecureTestRng, optional
        A predictable generator for tests. By default the cryptographic stream.

    Returns
    -------
    int or ndarray of int64
        Magnitudes stay below 128 * scale + 1; the law's mass beyond it, below 2**-184, is part of the
        distance stated for the module.

    Raises
    ------
    ValueError, TypeError
        For bad arguments, before any randomness is used.
    RandomnessError
        If the operating system gives no randomness.

    Examples
    --------
    >>> from dpcore import samplers
    >>> samplers.discrete_laplace(10.0, 5, rng=samplers.InsecureTestRng(1)).dtype
    dtype('int64')
    """
    if size is None:
        if type(scale) is float and LEAST_SCALE <= scale <= GREATEST_SCALE and rng is None:
            return _core.sample_discrete_laplace(scale, None)
        return _core.sample_discrete_laplace(_scale("scale", scale), _rng(rng))
    checked, source = _scale("scale", scale), _rng(rng)
    out = np.empty(_shape(size), dtype=np.int64)
    _core.sample_discrete_laplace_fill(checked, out, source)
    return out


@overload
def discrete_gaussian(sigma: float, size: None = None, *, rng: InsecureTestRng | None = None) -> int: ...
@overload
def discrete_gaussian(sigma: float, size: Size, *, rng: InsecureTestRng | None = None) -> IntArray: ...
def discrete_gaussian(
    sigma: float, size: Size | None = None, *, rng: InsecureTestRng | None = None
) -> int | IntArray:
    """Integers k with probability proportional to exp(-k**2 / (2 * sigma**2)).

    Parameters
    ----------
    sigma : float
        In [1e-3, 1e15]. The law is that of the exact value of the double.
    size : int or tuple of int, optional
        Shape of the result; a Python int is returned without it.
    rng : InsecureTestRng, optional
        A predictable generator for tests. By default the cryptographic stream.

    Returns
    -------
    int or ndarray of int64
        Magnitudes stay below 16 * sigma + 1; the law's mass beyond it is below 2**-184.

    Examples
    --------
    >>> from dpcore import samplers
    >>> samplers.discrete_gaussian(10.0, (2, 3), rng=samplers.InsecureTestRng(1)).shape
    (2, 3)
    """
    if size is None:
        if type(sigma) is float and LEAST_SCALE <= sigma <= GREATEST_SCALE and rng is None:
            return _core.sample_discrete_gaussian(sigma, None)
        return _core.sample_discrete_gaussian(_scale("sigma", sigma), _rng(rng))
    checked, source = _scale("sigma", sigma), _rng(rng)
    out = np.empty(_shape(size), dtype=np.int64)
    _core.sample_discrete_gaussian_fill(checked, out, source)
    return out


@overload
def geometric(scale: float, size: None = None, *, rng: InsecureTestRng | None = None) -> int: ...
@overload
def geometric(scale: float, size: Size, *, rng: InsecureTestRng | None = None) -> IntArray: ...
def geometric(scale: float, size: Size | None = None, *, rng: InsecureTestRng | None = None) -> int | IntArray:
    """Integers k >= 0 with probability (1 - q) * q**k, q = exp(-1 / scale).

    Parameters
    ----------
    scale : float
        In [1e-3, 1e15]. The law is that of the exact value of the double.
    size : int or tuple of int, optional
        Shape of the result; a Python int is returned without it.
    rng : InsecureTestRng, optional
        A predictable generator for tests. By default the cryptographic stream.

    Examples
    --------
    >>> from dpcore import samplers
    >>> bool((samplers.geometric(3.0, 100) >= 0).all())
    True
    """
    checked, source = _scale("scale", scale), _rng(rng)
    if size is None:
        return _core.sample_geometric(checked, source)
    out = np.empty(_shape(size), dtype=np.int64)
    _core.sample_geometric_fill(checked, out, source)
    return out


def grid_for(scale: float) -> float:
    """Grid on which noise of this scale is drawn: the power of two with scale / grid in [2**32, 2**33).

    It depends on the scale alone, never on data.

    Examples
    --------
    >>> from dpcore import samplers
    >>> samplers.grid_for(1.5) == 2.0**-32
    True
    """
    return _core.grid_for(_real_scale("scale", scale))


@overload
def laplace(
    scale: float, size: None = None, *, grid: float | None = None, rng: InsecureTestRng | None = None
) -> float: ...
@overload
def laplace(
    scale: float, size: Size, *, grid: float | None = None, rng: InsecureTestRng | None = None
) -> FloatArray: ...
def laplace(
    scale: float,
    size: Size | None = None,
    *,
    grid: float | None = None,
    rng: InsecureTestRng | None = None,
) -> float | FloatArray:
    """Laplace noise of density exp(-abs(x) / scale) / (2 * scale), rounded exactly to a grid.

    The draw is round(X / grid) * grid with X continuous: what the ideal mechanism releases, post-processed.
    Never add it to a private value in floating point; `dpcore.mechanisms.Laplace` adds in integers.

    Parameters
    ----------
    scale : float
        In [1e-280, 1e280].
    size : int or tuple of int, optional
        Shape of the result; a Python float is returned without it.
    grid : float, optional
        A power of two between scale / 2**49 and 1024 * scale. By default ``grid_for(scale)``.
    rng : InsecureTestRng, optional
        A predictable generator for tests. By default the cryptographic stream.

    Examples
    --------
    >>> from dpcore import samplers
    >>> x = samplers.laplace(3.0, 4, grid=0.25, rng=samplers.InsecureTestRng(1))
    >>> bool((x % 0.25 == 0).all())
    True
    """
    checked, source = _real_scale("scale", scale), _rng(rng)
    step = _grid(checked, grid)
    if size is None:
        return _core.sample_laplace(checked, step, source)
    out = np.empty(_shape(size), dtype=np.float64)
    _core.sample_laplace_fill(checked, step, out, source)
    return out


@overload
def gaussian(
    sigma: float, size: None = None, *, grid: float | None = None, rng: InsecureTestRng | None = None
) -> float: ...
@overload
def gaussian(
    sigma: float, size: Size, *, grid: float | None = None, rng: InsecureTestRng | None = None
) -> FloatArray: ...
def gaussian(
    sigma: float,
    size: Size | None = None,
    *,
    grid: float | None = None,
    rng: InsecureTestRng | None = None,
) -> float | FloatArray:
    """Gaussian noise of standard deviation sigma, rounded exactly to a grid.

    The draw is round(X / grid) * grid with X continuous: what the ideal mechanism releases, post-processed.
    Never add it to a private value in floating point; `dpcore.mechanisms.Gaussian` adds in integers.

    Parameters
    ----------
    sigma : float
        In [1e-280, 1e280].
    size : int or tuple of int, optional
        Shape of the result; a Python float is returned without it.
    grid : float, optional
        A power of two between sigma / 2**49 and 1024 * sigma. By default ``grid_for(sigma)``.
    rng : InsecureTestRng, optional
        A predictable generator for tests. By default the cryptographic stream.

    Examples
    --------
    >>> from dpcore import samplers
    >>> x = samplers.gaussian(3.0, 4, grid=1.0, rng=samplers.InsecureTestRng(1))
    >>> bool((x % 1.0 == 0).all())
    True
    """
    checked, source = _real_scale("sigma", sigma), _rng(rng)
    step = _grid(checked, grid)
    if size is None:
        return _core.sample_gaussian(checked, step, source)
    out = np.empty(_shape(size), dtype=np.float64)
    _core.sample_gaussian_fill(checked, step, out, source)
    return out


def random_bytes(count: int, *, rng: InsecureTestRng | None = None) -> bytes:
    """`count` bytes of the calling thread's cryptographic stream (or of the test generator).

    Examples
    --------
    >>> from dpcore import samplers
    >>> len(samplers.random_bytes(16))
    16
    """
    number = _validation.integer("count", count)
    source = _rng(rng)
    return _core.secure_bytes(number) if source is None else source.bytes(number)
