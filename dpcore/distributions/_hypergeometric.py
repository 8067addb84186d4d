"""The hypergeometric law: how many of the drawn records are marked."""

from __future__ import annotations

from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from dpcore import _core
from dpcore._validation import FloatArray, Number, broadcast, count, integer
from dpcore.distributions._window import (
    MAX_WHOLE_SUPPORT,
    PmfWindow,
    whole_number,
    window_arguments,
)


def hypergeometric_pmf(*, population: int, marked: int, drawn: int) -> tuple[int, FloatArray]:
    """Probabilities of every number of marked records among the drawn ones, all at once.

    Parameters
    ----------
    population : int in [0, 2**53]
        Number of records.
    marked : int in [0, population]
        How many of them are marked.
    drawn : int in [0, population]
        How many are drawn without replacement; exchanging `marked` and `drawn` changes nothing.

    Returns
    -------
    first_k : int
        Smallest possible k, ``max(0, marked + drawn - population)``.
    pmf : array
        ``pmf[i]`` is ``Pr[X = first_k + i]`` up to the largest possible k, relative error at most 2.3e-15 above
        1e-307 and 0 where it is too small for a double. A support of more than 10**8 points is returned
        without the points that round to 0 at either end; `first_k` says where it begins.

    Raises
    ------
    TypeError, ValueError
        If an argument is outside its domain, or more than 5e8 points would have to be returned.

    Notes
    -----
    ``C(marked, k) C(population - marked, drawn - k) / C(population, drawn)``: the largest value in
    double-double arithmetic (Stirling errors and deviances), the others from it by products of the exact ratio.
    Sums of log-factorials (thesis, Lemma 5.1) lose digits as ln n! grows: 5e-8 at a population of 10**7.

    Examples
    --------
    >>> from dpcore.distributions import hypergeometric_pmf
    >>> first_k, pmf = hypergeometric_pmf(population=20, marked=7, drawn=12)
    >>> first_k, len(pmf), float(pmf[3])
    (0, 8, 0.19865841073271415)
    """
    n, c, d = _sizes(population, marked, drawn)
    low, high = _support(n, c, d)
    if high - low < MAX_WHOLE_SUPPORT:
        return low, _core.hypergeometric_fill(n, c, d, low, high - low + 1)
    return _core.hypergeometric_visible_window(n, c, d)[:2]


@overload
def hypergeometric_logpmf(k: float, *, population: int, marked: int, drawn: int) -> float: ...
@overload
def hypergeometric_logpmf(
    k: ArrayLike, *, population: ArrayLike, marked: ArrayLike, drawn: ArrayLike
) -> Number: ...
def hypergeometric_logpmf(k: ArrayLike, *, population: ArrayLike, marked: ArrayLike, drawn: ArrayLike) -> Number:
    """Natural logarithm of ``Pr[X = k]``, finite where the probability is too small for a double.

    Parameters
    ----------
    k : int or array
        Any integers; minus infinity where k is impossible.
    population, marked, drawn : int or array
        As in `hypergeometric_pmf`; arrays broadcast.

    Returns
    -------
    float or array
        Correct to the last bit or its neighbour.

    Examples
    --------
    >>> from dpcore.distributions import hypergeometric_logpmf
    >>> hypergeometric_logpmf(495_000, population=10**9, marked=5 * 10**8, drawn=10**6)
    -57.18388004566273
    """
    return _pointwise(_core.hypergeometric_log_pmf, k, population, marked, drawn)


@overload
def hypergeometric_cdf(k: float, *, population: int, marked: int, drawn: int) -> float: ...
@overload
def hypergeometric_cdf(k: ArrayLike, *, population: ArrayLike, marked: ArrayLike, drawn: ArrayLike) -> Number: ...
def hypergeometric_cdf(k: ArrayLike, *, population: ArrayLike, marked: ArrayLike, drawn: ArrayLike) -> Number:
    """``Pr[X <= k]``, relative error at most 2.9e-15 down to 1e-307. Parameters as in `hypergeometric_logpmf`.

    Examples
    --------
    >>> from dpcore.distributions import hypergeometric_cdf
    >>> hypergeometric_cdf(1, population=10, marked=4, drawn=5)
    0.26190476190476186
    """
    return _pointwise(_core.hypergeometric_cdf, k, population, marked, drawn)


@overload
def hypergeometric_sf(k: float, *, population: int, marked: int, drawn: int) -> float: ...
@overload
def hypergeometric_sf(k: ArrayLike, *, population: ArrayLike, marked: ArrayLike, drawn: ArrayLike) -> Number: ...
def hypergeometric_sf(k: ArrayLike, *, population: ArrayLike, marked: ArrayLike, drawn: ArrayLike) -> Number:
    """``Pr[X > k]``, relative error at most 2.9e-15 down to 1e-307. Parameters as in `hypergeometric_logpmf`.

    Examples
    --------
    >>> from dpcore.distributions import hypergeometric_sf
    >>> hypergeometric_sf(3, population=10, marked=4, drawn=5)
    0.023809523809523808
    """
    return _pointwise(_core.hypergeometric_sf, k, population, marked, drawn)


def hypergeometric_window(
    *,
    population: int,
    marked: int,
    drawn: int,
    low: int | None = None,
    high: int | None = None,
    depth: float = 700.0,
) -> PmfWindow:
    """All k in [low, high] whose probability is within a factor ``exp(-depth)`` of the largest there.

    Parameters
    ----------
    population, marked, drawn : int
        As in `hypergeometric_pmf`.
    low, high : int within the support, optional
        Ends of the range; the whole support by default.
    depth : float in (0, 700]
        How far down the window goes, as a difference of natural logarithms.

    Returns
    -------
    PmfWindow

    Examples
    --------
    >>> from dpcore.distributions import hypergeometric_window
    >>> window = hypergeometric_window(population=10**6, marked=10**5, drawn=10**5, low=50_000, depth=5.0)
    >>> window.first_k, window.last_k, window.exponent
    (50000, 50001, -90415)
    """
    n, c, d = _sizes(population, marked, drawn)
    return PmfWindow(
        *_core.hypergeometric_window(n, c, d, *window_arguments(low, high, depth, *_support(n, c, d)))
    )


class HypergeometricStepper:
    """One probability that follows k up or down by one, as Corollary 5.2 of the thesis does.

    A step costs one ratio in double-double arithmetic, and the relative error grows by 1e-29 a step, so that
    it does not matter how far it walks. Nothing underflows on the way: `logpmf` stays exact where `pmf` is 0.

    Parameters
    ----------
    population, marked, drawn : int
        As in `hypergeometric_pmf`.
    k : int, optional
        Where to start, within the support; a most probable value by default.

    Examples
    --------
    >>> from dpcore.distributions import HypergeometricStepper
    >>> stepper = HypergeometricStepper(population=10, marked=4, drawn=5, k=0)
    >>> stepper.pmf
    0.023809523809523808
    >>> stepper.up().pmf
    0.23809523809523808
    >>> stepper.up().down().k
    1
    """

    __slots__ = ("_stepper", "drawn", "marked", "population")

    def __init__(self, *, population: int, marked: int, drawn: int, k: int | None = None) -> None:
        self.population, self.marked, self.drawn = n, c, d = _sizes(population, marked, drawn)
        low, high = _support(n, c, d)
        start = min(max((c + 1) * (d + 1) // (n + 2), low), high) if k is None else k
        self._stepper = _core.HypergeometricStepper(n, c, d, integer("k", start, least=low, most=high))

    @property
    def k(self) -> int:
        """Where it stands."""
        return self._stepper.k

    @property
    def pmf(self) -> float:
        """``Pr[X = k]``."""
        return self._stepper.pmf

    @property
    def logpmf(self) -> float:
        """``ln Pr[X = k]``."""
        return self._stepper.log_pmf

    @property
    def at_lowest(self) -> bool:
        """Whether k is the smallest possible."""
        return self._stepper.at_lowest

    @property
    def at_highest(self) -> bool:
        """Whether k is the largest possible."""
        return self._stepper.at_highest

    def up(self) -> HypergeometricStepper:
        """Move to k + 1; IndexError at the highest k. Returns itself."""
        self._stepper.up()
        return self

    def down(self) -> HypergeometricStepper:
        """Move to k - 1; IndexError at the lowest k. Returns itself."""
        self._stepper.down()
        return self

    def __repr__(self) -> str:
        return (
            f"HypergeometricStepper(population={self.population}, marked={self.marked}, drawn={self.drawn}, "
            f"k={self.k})"
        )


def _sizes(population: int, marked: int, drawn: int) -> tuple[int, int, int]:
    n = integer("population", population)
    sizes = []
    for name, value in (("marked", marked), ("drawn", drawn)):
        size = integer(name, value)
        if size > n:
            raise ValueError(f"{name} must be at most population = {n}, got {size}")
        sizes.append(size)
    return n, sizes[0], sizes[1]


def _support(n: int, c: int, d: int) -> tuple[int, int]:
    return max(0, c + d - n), min(c, d)


def _pointwise(kernel: object, k: ArrayLike, population: ArrayLike, marked: ArrayLike, drawn: ArrayLike) -> Number:
    at, n = whole_number("k", k), count("population", population)
    c, d = count("marked", marked), count("drawn", drawn)
    if type(at) is float and type(n) is float and type(c) is float and type(d) is float:
        if c > n or d > n:
            name, size = ("marked", c) if c > n else ("drawn", d)
            raise ValueError(f"{name} must be at most population = {n:.0f}, got {size:.0f}")
        return kernel(at, n, c, d)  # type: ignore[operator, no-any-return]
    arrays = broadcast(k=at, population=n, marked=c, drawn=d)
    for name, sizes in (("marked", arrays[2]), ("drawn", arrays[3])):
        larger = sizes > arrays[1]
        if np.any(larger):
            size, total = (np.broadcast_to(x, larger.shape)[larger][0] for x in (sizes, arrays[1]))
            raise ValueError(f"{name} must be at most population = {total:.0f}, got {size:.0f}")
    return kernel(*arrays)  # type: ignore[operator, no-any-return]
