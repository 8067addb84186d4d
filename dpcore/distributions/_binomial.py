"""The binomial law."""

from __future__ import annotations

from typing import overload

from numpy.typing import ArrayLike

from dpcore import _core
from dpcore._validation import FloatArray, Number, broadcast, count, integer, scalar
from dpcore._validation import probability as probability_of
from dpcore.distributions._window import (
    MAX_WHOLE_SUPPORT,
    PmfWindow,
    tail_mass,
    whole_number,
    window_arguments,
)


def binomial_pmf(*, trials: int, probability: float, tail: float = 0.0) -> tuple[int, FloatArray]:
    """Probabilities of all k, or of the window that holds all but `tail` of the mass on each side.

    Parameters
    ----------
    trials : int in [0, 2**53]
        Number of independent records.
    probability : float in [0, 1]
        Probability of each; the double given is taken as exact.
    tail : float, 0 or in [1e-300, 1)
        Mass that may be left out below the window, and as much above it. The window is the shortest whose
        certified bound keeps to that. With 0 it is the whole support 0..trials, or, beyond 10**8 points, every
        k whose probability does not round to 0.

    Returns
    -------
    first_k : int
        The k of the first entry.
    pmf : array
        ``pmf[i]`` is ``Pr[X = first_k + i]``, relative error at most 1.4e-15 above 1e-307. Probability 0 or 1
        gives the point mass.

    Raises
    ------
    TypeError, ValueError
        If an argument is outside its domain, or the window would have more than 5e8 points.

    Notes
    -----
    One value in double-double arithmetic (Stirling errors and deviances, Loader 2000), then products of the
    exact ratio ``(trials - k) p / ((k + 1)(1 - p))`` outward from it, carried in double-double.

    Examples
    --------
    >>> from dpcore.distributions import binomial_pmf
    >>> binomial_pmf(trials=4, probability=0.5)
    (0, array([0.0625, 0.25  , 0.375 , 0.25  , 0.0625]))
    >>> first_k, pmf = binomial_pmf(trials=10**12, probability=0.5, tail=1e-12)
    >>> first_k, len(pmf)
    (499996482757, 7034487)
    """
    m = integer("trials", trials)
    p = scalar("probability", probability_of("probability", probability))
    allowed = tail_mass(tail)
    if p in (0.0, 1.0):
        return _core.binomial_visible_window(m, p)[:2]
    if allowed > 0.0:
        return _core.binomial_tail_window(m, p, allowed)[:2]
    if m < MAX_WHOLE_SUPPORT:
        return 0, _core.binomial_fill(m, p, 0, m + 1)
    return _core.binomial_visible_window(m, p)[:2]


@overload
def binomial_logpmf(k: float, *, trials: int, probability: float) -> float: ...
@overload
def binomial_logpmf(k: ArrayLike, *, trials: ArrayLike, probability: ArrayLike) -> Number: ...
def binomial_logpmf(k: ArrayLike, *, trials: ArrayLike, probability: ArrayLike) -> Number:
    """Natural logarithm of ``Pr[X = k]``, finite where the probability is too small for a double.

    Parameters
    ----------
    k : int or array
        Any integers; minus infinity where k is impossible.
    trials : int or array, in [0, 2**53]
        Number of independent records.
    probability : float or array, in [0, 1]
        Probability of each.

    Returns
    -------
    float or array
        Correct to the last bit or its neighbour.

    Examples
    --------
    >>> from dpcore.distributions import binomial_logpmf
    >>> binomial_logpmf(10**6, trials=10**6, probability=0.5)
    -693147.1805599453
    """
    return _pointwise(_core.binomial_log_pmf, k, trials, probability)


@overload
def binomial_cdf(k: float, *, trials: int, probability: float) -> float: ...
@overload
def binomial_cdf(k: ArrayLike, *, trials: ArrayLike, probability: ArrayLike) -> Number: ...
def binomial_cdf(k: ArrayLike, *, trials: ArrayLike, probability: ArrayLike) -> Number:
    """``Pr[X <= k]``, relative error at most 2.9e-15 down to 1e-307. Parameters as in `binomial_logpmf`.

    Examples
    --------
    >>> from dpcore.distributions import binomial_cdf
    >>> binomial_cdf([-1, 0, 1, 4], trials=4, probability=0.5)
    array([0.    , 0.0625, 0.3125, 1.    ])
    """
    return _pointwise(_core.binomial_cdf, k, trials, probability)


@overload
def binomial_sf(k: float, *, trials: int, probability: float) -> float: ...
@overload
def binomial_sf(k: ArrayLike, *, trials: ArrayLike, probability: ArrayLike) -> Number: ...
def binomial_sf(k: ArrayLike, *, trials: ArrayLike, probability: ArrayLike) -> Number:
    """``Pr[X > k]``, relative error at most 2.9e-15 down to 1e-307. Parameters as in `binomial_logpmf`.

    Examples
    --------
    >>> from dpcore.distributions import binomial_sf
    >>> binomial_sf(510_000, trials=10**6, probability=0.5)
    2.6632036199198568e-89
    """
    return _pointwise(_core.binomial_sf, k, trials, probability)


def binomial_window(
    *, trials: int, probability: float, low: int | None = None, high: int | None = None, depth: float = 700.0
) -> PmfWindow:
    """All k in [low, high] whose probability is within a factor ``exp(-depth)`` of the largest there.

    The window may lie anywhere, far beyond where probabilities are doubles; its cost is that of its points.

    Parameters
    ----------
    trials : int in [0, 2**53]
        Number of independent records.
    probability : float in [0, 1]
        Probability of each.
    low, high : int in [0, trials], optional
        Ends of the range; the whole support by default.
    depth : float in (0, 700]
        How far down the window goes, as a difference of natural logarithms.

    Returns
    -------
    PmfWindow
        Empty where the law is a point mass outside the range.

    Examples
    --------
    >>> from dpcore.distributions import binomial_window
    >>> window = binomial_window(trials=10**6, probability=0.5, low=900_000, depth=10.0)
    >>> window.first_k, window.last_k, window.exponent
    (900000, 900004, -531014)
    >>> round(float(window.logpmf[0]), 6)
    -368070.82989
    """
    m = integer("trials", trials)
    p = scalar("probability", probability_of("probability", probability))
    return PmfWindow(*_core.binomial_window(m, p, *window_arguments(low, high, depth, 0, m)))


def _pointwise(kernel: object, k: ArrayLike, trials: ArrayLike, probability: ArrayLike) -> Number:
    at, m = whole_number("k", k), count("trials", trials)
    p = probability_of("probability", probability)
    if type(at) is float and type(m) is float and type(p) is float:
        return kernel(at, m, p)  # type: ignore[operator, no-any-return]
    return kernel(*broadcast(k=at, trials=m, probability=p))  # type: ignore[operator, no-any-return]
