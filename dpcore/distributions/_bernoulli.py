"""Divergence of two coins, and how far a frequency strays from its bias."""

from __future__ import annotations

import math
from typing import overload

from numpy.typing import ArrayLike

from dpcore import _core
from dpcore._validation import (
    Number,
    broadcast,
    choice,
    integer,
    open_probability,
    probability,
    real,
    scalar,
)

_HALF_WIDTH = {"below": _core.kl_half_width_below, "above": _core.kl_half_width_above}


@overload
def bernoulli_kl(q: float, p: float) -> float: ...
@overload
def bernoulli_kl(q: ArrayLike, p: ArrayLike) -> Number: ...
def bernoulli_kl(q: ArrayLike, p: ArrayLike) -> Number:
    """Kullback-Leibler divergence of a coin with bias `q` from one with bias `p`.

    Parameters
    ----------
    q : float or array, in [0, 1]
        Bias of the first coin, over which the average is taken.
    p : float or array, in [0, 1]
        Bias of the second coin.

    Returns
    -------
    float or array
        ``q ln(q/p) + (1 - q) ln((1 - q)/(1 - p))`` to the last bit; infinite where p is 0 or 1 and q is not.

    Examples
    --------
    >>> from dpcore.distributions import bernoulli_kl
    >>> bernoulli_kl(0.5, 0.25)
    0.14384103622589045
    """
    first, second = probability("q", q), probability("p", p)
    if type(first) is float and type(second) is float:
        return _core.bernoulli_kl(first, second)
    return _core.bernoulli_kl(*broadcast(q=first, p=second))


@overload
def kl_half_width(*, bias: float, divergence: float, side: str) -> float: ...
@overload
def kl_half_width(*, bias: ArrayLike, divergence: ArrayLike, side: str) -> Number: ...
def kl_half_width(*, bias: ArrayLike, divergence: ArrayLike, side: str) -> Number:
    """Inverse of `bernoulli_kl`: how far from `bias` the divergence reaches `divergence`.

    Parameters
    ----------
    bias : float or array, in [0, 1]
        Centre.
    divergence : float or array, >= 0
        What is to be reached.
    side : {"below", "above"}
        On which side of the bias.

    Returns
    -------
    float or array
        The smallest double t with ``KL(bias - t || bias) >= divergence`` (or bias + t). Where even the edge has
        less, the distance to the edge: bias, or the smallest double not below 1 - bias.

    Examples
    --------
    >>> from dpcore.distributions import bernoulli_kl, kl_half_width
    >>> t = kl_half_width(bias=0.25, divergence=0.01, side="above")
    >>> t, bernoulli_kl(0.25 + t, 0.25)
    (0.06278300543129371, 0.010000000000000007)
    """
    kernel = _HALF_WIDTH[choice("side", side, ("below", "above"))]
    at = probability("bias", bias)
    goal = real("divergence", divergence, "a finite number >= 0", 0.0, math.inf, high_open=True)
    if type(at) is float and type(goal) is float:
        return kernel(at, goal)
    return kernel(*broadcast(bias=at, divergence=goal))


def chernoff_half_width(*, trials: int, bias: float, failure: float, side: str) -> float:
    """How far the frequency of successes strays to one side, except with probability `failure`.

    Parameters
    ----------
    trials : int >= 1
        Number of independent records.
    bias : float in [0, 1]
        Probability of each.
    failure : float in (0, 1)
        Bound for the probability of straying further; ``kappa2 / 2`` in the notation of the thesis.
    side : {"below", "above"}
        On which side of the bias.

    Returns
    -------
    float
        A t with ``exp(-trials * KL(bias -+ t || bias)) <= failure``, the smallest one up to the rounding of
        ``ln(1/failure)/trials`` (upward); the distance to the edge where there is none: that tail is empty.

    References
    ----------
    Hoeffding (1963), theorem 1; tau_1/2 and tau_2/2 of the thesis, which bisects coarsely.

    Examples
    --------
    >>> from dpcore.distributions import chernoff_half_width
    >>> chernoff_half_width(trials=10_000, bias=0.3, failure=1e-6, side="above")
    0.024266421546177495
    """
    records = integer("trials", trials, least=1)
    at = scalar("bias", probability("bias", bias))
    allowed = scalar("failure", open_probability("failure", failure))
    # Two roundings and one of the logarithm, each at most 1 ulp: four steps up are above the exact quotient.
    goal = -math.log(allowed) / records
    for _ in range(4):
        goal = math.nextafter(goal, math.inf)
    return float(kl_half_width(bias=at, divergence=goal, side=side))
