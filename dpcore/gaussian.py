"""The Gaussian mechanism: the exact trade-off between epsilon, delta and noise.

Adding Normal(0, sigma^2) noise to a value of L2 sensitivity `sensitivity` satisfies (epsilon, delta)-
differential privacy exactly when ``delta(epsilon=..., sigma=...) <= delta``. Every function takes numbers or
arrays, which broadcast; numbers give Python floats.

References
----------
Balle and Wang (2018), "Improving the Gaussian mechanism for differential privacy", theorem 8.
"""

from __future__ import annotations

from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from dpcore import _core
from dpcore._validation import Number, broadcast, choice, count, open_probability, positive

__all__ = ["delta", "epsilon", "log_delta", "sigma"]

_SIGMA = {
    "analytic": _core.gaussian_sigma,
    "probabilistic": _core.gaussian_sigma_probabilistic,
    "classical": _core.gaussian_sigma_classical,
}


@overload
def delta(*, epsilon: float, sigma: float, sensitivity: float = ...) -> float: ...
@overload
def delta(*, epsilon: ArrayLike, sigma: ArrayLike, sensitivity: ArrayLike = ...) -> Number: ...
def delta(*, epsilon: ArrayLike, sigma: ArrayLike, sensitivity: ArrayLike = 1.0) -> Number:
    """Smallest delta that the mechanism satisfies at `epsilon`.

    Parameters
    ----------
    epsilon : float or array, > 0
        Privacy parameter.
    sigma : float or array, > 0
        Standard deviation of the noise.
    sensitivity : float or array, > 0
        Largest L2 distance between the values of two neighbouring data sets.

    Returns
    -------
    float or array
        Relative error at most 1e-13 wherever the value is a normal double. See `log_delta` below 1e-308.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a finite number > 0, or shapes do not broadcast.

    Notes
    -----
    ``delta = Phi(s/(2 sigma) - epsilon sigma/s) - exp(epsilon) Phi(-s/(2 sigma) - epsilon sigma/s)``, evaluated
    as a product of positive factors: nothing cancels and nothing overflows.

    Examples
    --------
    >>> from dpcore import gaussian
    >>> round(gaussian.delta(epsilon=1.0, sigma=1.0), 12)
    0.126936737507
    >>> gaussian.delta(epsilon=1.0, sigma=[1.0, 37.0])
    array([1.26936738e-001, 6.88478515e-303])
    """
    e, g, s = positive("epsilon", epsilon), positive("sigma", sigma), positive("sensitivity", sensitivity)
    if type(e) is float and type(g) is float and type(s) is float:
        return _core.gaussian_delta(e, g, s)
    return _core.gaussian_delta(*broadcast(epsilon=e, sigma=g, sensitivity=s))


@overload
def log_delta(*, epsilon: float, sigma: float, sensitivity: float = ...) -> float: ...
@overload
def log_delta(*, epsilon: ArrayLike, sigma: ArrayLike, sensitivity: ArrayLike = ...) -> Number: ...
def log_delta(*, epsilon: ArrayLike, sigma: ArrayLike, sensitivity: ArrayLike = 1.0) -> Number:
    """Natural logarithm of `delta`, finite where delta itself is too small for a double.

    Parameters and errors are those of `delta`. The error is at most 4 ulp or 1e-13, whichever is larger.

    Examples
    --------
    >>> from dpcore import gaussian
    >>> round(gaussian.log_delta(epsilon=1.0, sigma=100.0), 6)
    -5014.234761
    """
    e, g, s = positive("epsilon", epsilon), positive("sigma", sigma), positive("sensitivity", sensitivity)
    if type(e) is float and type(g) is float and type(s) is float:
        return _core.gaussian_log_delta(e, g, s)
    return _core.gaussian_log_delta(*broadcast(epsilon=e, sigma=g, sensitivity=s))


@overload
def sigma(
    *, epsilon: float, delta: float, sensitivity: float = ..., method: str = ..., compositions: int = ...
) -> float: ...
@overload
def sigma(
    *,
    epsilon: ArrayLike,
    delta: ArrayLike,
    sensitivity: ArrayLike = ...,
    method: str = ...,
    compositions: ArrayLike = ...,
) -> Number: ...
def sigma(
    *,
    epsilon: ArrayLike,
    delta: ArrayLike,
    sensitivity: ArrayLike = 1.0,
    method: str = "analytic",
    compositions: ArrayLike = 1,
) -> Number:
    """Noise that makes the mechanism (`epsilon`, `delta`)-differentially private.

    Parameters
    ----------
    epsilon : float or array, > 0
        Privacy parameter. ``method="classical"`` is a theorem only for epsilon < 1 and refuses more.
    delta : float or array, in (0, 1)
        Privacy parameter.
    sensitivity : float or array, > 0
        Largest L2 distance between the values of two neighbouring data sets.
    method : {"analytic", "probabilistic", "classical"}
        "analytic": the smallest sigma that suffices. "probabilistic": the smallest for which the privacy loss
        exceeds epsilon with probability at most delta, which is more than is needed. "classical":
        ``sensitivity sqrt(2 ln(1.25/delta))/epsilon``.
    compositions : int or array of them, >= 1
        Number of releases, each with noise sigma, that must satisfy (epsilon, delta) together.

    Returns
    -------
    float or array
        On the safe side: the exact delta of the returned sigma is at most `delta`; within 4 ulp of the
        smallest double for which this holds (for the method chosen).

    Raises
    ------
    TypeError, ValueError
        Naming the argument, its rule and the value given.
    OverflowError
        If the answer exceeds the range of a double.

    Examples
    --------
    >>> from dpcore import gaussian
    >>> round(gaussian.sigma(epsilon=1.0, delta=1e-6), 9)
    4.224678889
    >>> round(gaussian.sigma(epsilon=0.5, delta=1e-6, method="classical"), 9)
    10.597605054
    """
    e, d = positive("epsilon", epsilon), open_probability("delta", delta)
    s = positive("sensitivity", sensitivity)
    k = count("compositions", compositions, least=1)
    if type(method) is not str or method != "analytic":
        method = choice("method", method, tuple(_SIGMA))
        if method == "classical" and np.any(np.asarray(e) >= 1):
            raise ValueError(f"epsilon must be < 1 for method='classical', got {float(np.max(e))!r}")
    solve = _SIGMA[method]
    if type(e) is float and type(d) is float and type(s) is float and type(k) is float:
        return _finite(solve(e, d, s, k))
    return _finite(solve(*broadcast(epsilon=e, delta=d, sensitivity=s, compositions=k)))


@overload
def epsilon(*, sigma: float, delta: float, sensitivity: float = ...) -> float: ...
@overload
def epsilon(*, sigma: ArrayLike, delta: ArrayLike, sensitivity: ArrayLike = ...) -> Number: ...
def epsilon(*, sigma: ArrayLike, delta: ArrayLike, sensitivity: ArrayLike = 1.0) -> Number:
    """Smallest epsilon that the mechanism satisfies at `delta`.

    Parameters
    ----------
    sigma : float or array, > 0
        Standard deviation of the noise.
    delta : float or array, in (0, 1)
        Privacy parameter.
    sensitivity : float or array, > 0
        Largest L2 distance between the values of two neighbouring data sets.

    Returns
    -------
    float or array
        On the safe side: the exact delta at the returned epsilon is at most `delta`. 0.0 where the mechanism
        satisfies (0, delta).

    Raises
    ------
    TypeError, ValueError
        Naming the argument, its rule and the value given.
    OverflowError
        If the answer exceeds the range of a double.

    Examples
    --------
    >>> from dpcore import gaussian
    >>> round(gaussian.epsilon(sigma=4.0, delta=1e-6), 9)
    1.060701862
    """
    g, d = positive("sigma", sigma), open_probability("delta", delta)
    s = positive("sensitivity", sensitivity)
    if type(g) is float and type(d) is float and type(s) is float:
        return _finite(_core.gaussian_epsilon(g, d, s))
    return _finite(_core.gaussian_epsilon(*broadcast(sigma=g, delta=d, sensitivity=s)))


def _finite(result: Number) -> Number:
    """The result, unless it is beyond the range of doubles: then no double is on the safe side."""
    if type(result) is float:
        if result < np.inf:
            return result
    elif np.all(np.isfinite(result)):
        return result
    raise OverflowError("the answer exceeds the range of a double; use a larger delta or sensible units")
