"""Noise: discrete and rounded Laplace and Gaussian, geometric."""

from __future__ import annotations

from typing import overload

import numpy as np

from dpcore import _core
from dpcore._core import InsecureTestRng
from dpcore._validation import FloatArray, IntArray
from dpcore.samplers._arguments import (
    GREATEST_SCALE,
    LEAST_SCALE,
    Size,
    grid_of,
    integer_scale,
    real_scale,
    shape_of,
    source_of,
)


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
        return _core.sample_discrete_laplace(integer_scale("scale", scale), source_of(rng))
    checked, source = integer_scale("scale", scale), source_of(rng)
    out = np.empty(shape_of(size), dtype=np.int64)
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
        return _core.sample_discrete_gaussian(integer_scale("sigma", sigma), source_of(rng))
    checked, source = integer_scale("sigma", sigma), source_of(rng)
    out = np.empty(shape_of(size), dtype=np.int64)
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
    checked, source = integer_scale("scale", scale), source_of(rng)
    if size is None:
        return _core.sample_geometric(checked, source)
    out = np.empty(shape_of(size), dtype=np.int64)
    _core.sample_geometric_fill(checked, out, source)
    return out


def grid_for(scale: float) -> float:
    """Grid on which noise of this scale is drawn: the power of two with scale / grid in [2**40, 2**41).

    It depends on the scale alone, never on data.

    Examples
    --------
    >>> from dpcore import samplers
    >>> samplers.grid_for(1.5) == 2.0**-40
    True
    """
    return _core.grid_for(real_scale("scale", scale))


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
    if size is None and grid is None and rng is None and type(scale) is float and 1e-280 <= scale <= 1e280:
        return _core.sample_laplace(scale, 0.0, None)  # 0: the default grid
    checked, source = real_scale("scale", scale), source_of(rng)
    step = grid_of(checked, grid)
    if size is None:
        return _core.sample_laplace(checked, step, source)
    out = np.empty(shape_of(size), dtype=np.float64)
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
    if size is None and grid is None and rng is None and type(sigma) is float and 1e-280 <= sigma <= 1e280:
        return _core.sample_gaussian(sigma, 0.0, None)  # 0: the default grid
    checked, source = real_scale("sigma", sigma), source_of(rng)
    step = grid_of(checked, grid)
    if size is None:
        return _core.sample_gaussian(checked, step, source)
    out = np.empty(shape_of(size), dtype=np.float64)
    _core.sample_gaussian_fill(checked, step, out, source)
    return out
