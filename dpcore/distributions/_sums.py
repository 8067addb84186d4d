"""Sums of independent records with unequal probabilities, and of groups of equal ones."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from dpcore import _core
from dpcore._validation import MAX_EXACT_INTEGER, FloatArray, integer, iterable, probability, scalar
from dpcore.distributions._window import MAX_WHOLE_SUPPORT


def poisson_binomial_pmf(probabilities: ArrayLike) -> tuple[int, FloatArray]:
    """Probabilities of every number of successes of independent records with their own probabilities.

    Parameters
    ----------
    probabilities : sequence of float in [0, 1]
        One a record; at least one.

    Returns
    -------
    first_k : int
        Smallest possible k: how many probabilities are 1.
    pmf : array
        ``pmf[i]`` is ``Pr[X = first_k + i]`` up to the largest possible k. Relative error at most 1.2e-16 above
        1e-307, 0 where the value is too small for a double.

    Raises
    ------
    TypeError, ValueError
        If the sequence is empty, not one-dimensional, or an element is not in [0, 1].

    Notes
    -----
    Divide and conquer in double-double arithmetic, by direct convolution of the part of each law that matters:
    an FFT would be faster and would leave an error of 1e-16 of the largest value everywhere.

    Examples
    --------
    >>> from dpcore.distributions import poisson_binomial_pmf
    >>> poisson_binomial_pmf([0.5, 0.25, 1.0])
    (1, array([0.375, 0.5  , 0.125]))
    """
    checked = np.asarray(probability("probabilities", probabilities), dtype=np.float64)
    if checked.ndim != 1:
        raise ValueError(f"probabilities must be one-dimensional, got shape {checked.shape}")
    if checked.size == 0:
        raise ValueError("probabilities must not be empty")
    return _core.poisson_binomial(checked, MAX_WHOLE_SUPPORT)


def stratified_pmf(strata: Iterable[tuple[int, float]]) -> tuple[int, FloatArray]:
    """Probabilities of every number of successes in independent groups with their own size and probability.

    Parameters
    ----------
    strata : sequence of (size, probability)
        At least one group; sizes are integers >= 0 that add up to at most 2**53, probabilities are in [0, 1].

    Returns
    -------
    first_k : int
        Smallest possible k.
    pmf : array
        As in `poisson_binomial_pmf`; beyond 10**8 points without those that round to 0 at either end.

    Raises
    ------
    TypeError, ValueError
        If there is no group, or one is not a pair in its domain.

    Notes
    -----
    Convolves the windows of the groups' binomial laws. The work grows with the variance of the sum: fractions of a
    second for groups of a million records, a hundred times that for groups of a hundred million. It can
    be interrupted.

    Examples
    --------
    >>> from dpcore.distributions import stratified_pmf
    >>> stratified_pmf([(2, 0.5), (1, 0.25)])
    (0, array([0.1875, 0.4375, 0.3125, 0.0625]))
    """
    sizes, probabilities = [], []
    for index, group in enumerate(iterable("strata", strata, "a sequence of (size, probability)")):
        try:
            size, value = group
        except (TypeError, ValueError):
            raise TypeError(f"strata must hold pairs (size, probability), got {group!r}") from None
        sizes.append(integer(f"strata[{index}] size", size))
        name = f"strata[{index}] probability"
        probabilities.append(scalar(name, probability(name, value)))
    if not sizes:
        raise ValueError("strata must hold at least one (size, probability)")
    if sum(sizes) > MAX_EXACT_INTEGER:
        raise ValueError(f"strata must have sizes that add up to at most 2**53, got {sum(sizes)}")
    arrays = np.array(sizes, dtype=np.float64), np.array(probabilities, dtype=np.float64)
    return _core.stratified(*arrays, MAX_WHOLE_SUPPORT)
