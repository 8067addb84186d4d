"""Logarithms of factorials and the two terms that binomial probabilities are made of."""

from __future__ import annotations

from typing import overload

from numpy.typing import ArrayLike

from dpcore import _core
from dpcore._validation import Number, broadcast, count, real


def log_factorial(n: ArrayLike, *, extended: bool = False) -> Number | tuple[Number, Number]:
    """``ln n!``.

    Parameters
    ----------
    n : int or array, in [0, 2**53]
        Arrays give arrays.
    extended : bool
        Return two doubles whose sum is ``ln n!`` with 30 digits: differences of large values then keep theirs.

    Returns
    -------
    float or array, or a pair of them
        The nearest double, or the nearest double and the rest.

    Examples
    --------
    >>> from dpcore.distributions import log_factorial
    >>> log_factorial([0, 1, 2, 5])
    array([0.        , 0.        , 0.69314718, 4.78749174])
    >>> high, low = log_factorial(10**12, extended=True), log_factorial(10**12 - 1, extended=True)
    >>> (high[0] - low[0]) + (high[1] - low[1])  # ln 10**12
    27.631021115928547
    """
    if not isinstance(extended, bool):
        raise TypeError(f"extended must be True or False, got {extended!r}")
    checked = count("n", n)
    if type(checked) is float:
        high = _core.log_factorial(checked)
        return (high, _core.log_factorial_rest(checked)) if extended else high
    (array,) = broadcast(n=checked)
    values = _core.log_factorial(array)
    return (values, _core.log_factorial_rest(array)) if extended else values


@overload
def stirling_error(n: float) -> float: ...
@overload
def stirling_error(n: ArrayLike) -> Number: ...
def stirling_error(n: ArrayLike) -> Number:
    """``ln n! - [(n + 1/2) ln n - n + (1/2) ln(2 pi)]`` for n >= 1, to the last bit or its neighbour.

    Examples
    --------
    >>> from dpcore.distributions import stirling_error
    >>> stirling_error(1)
    0.08106146679532726
    """
    checked = count("n", n, least=1)
    if type(checked) is float:
        return _core.stirling_error(checked)
    return _core.stirling_error(*broadcast(n=checked))


@overload
def deviance(x: float, mean: float) -> float: ...
@overload
def deviance(x: ArrayLike, mean: ArrayLike) -> Number: ...
def deviance(x: ArrayLike, mean: ArrayLike) -> Number:
    """``x ln(x/mean) + mean - x``, without the cancellation where x is near the mean.

    Parameters
    ----------
    x : float or array, >= 0
        What was observed.
    mean : float or array, > 0
        What was expected.

    Returns
    -------
    float or array
        Correct to the last bit or its neighbour for arguments in [1e-100, 1e100] and x = 0.

    Examples
    --------
    >>> from dpcore.distributions import deviance
    >>> deviance(10**12 + 1, 10**12)
    4.999999999998334e-13
    """
    first = real("x", x, "a number in [0, 1e300]", 0.0, 1e300)
    second = real("mean", mean, "a number in (0, 1e300]", 0.0, 1e300, low_open=True)
    if type(first) is float and type(second) is float:
        return _core.deviance(first, second)
    return _core.deviance(*broadcast(x=first, mean=second))
