"""Choices: uniform integers, coins, randomised response, selection by score."""

from __future__ import annotations

import math
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcore import _core, _validation
from dpcore._core import InsecureTestRng
from dpcore._validation import IntArray
from dpcore.samplers._arguments import (
    LEAST_INT64,
    MOST_INT64,
    Size,
    private_integers,
    private_numbers,
    shape_of,
    source_of,
)

BoolArray = NDArray[np.bool_]
_UNBOUNDED = 10**1000  # for arguments whose only bound is a rule of their own


def _big_uniform_below(bound: int, source: InsecureTestRng | None) -> int:
    """A uniform integer below a bound of any size: the first of random strings of its length that is below it."""
    bits = (bound - 1).bit_length()
    count = (bits + 7) // 8
    while True:
        drawn = _core.secure_bytes(count) if source is None else source.bytes(count)
        number = int.from_bytes(drawn, "little") >> (8 * count - bits)
        if number < bound:
            return number


def _below(bound: int, source: InsecureTestRng | None) -> int:
    return _core.uniform_below(bound, source) if bound < 2**64 else _big_uniform_below(bound, source)


@overload
def uniform_below(bound: int, size: None = None, *, rng: InsecureTestRng | None = None) -> int: ...
@overload
def uniform_below(bound: int, size: Size, *, rng: InsecureTestRng | None = None) -> IntArray: ...
def uniform_below(bound: int, size: Size | None = None, *, rng: InsecureTestRng | None = None) -> int | IntArray:
    """Integers in [0, bound), all equally likely, exactly.

    Parameters
    ----------
    bound : int
        At least 1; any size for a single draw.
    size : int or tuple of int, optional
        Shape of the result, with bound <= 2**63.
    rng : InsecureTestRng, optional
        A predictable generator for tests. By default the cryptographic stream.

    Examples
    --------
    >>> from dpcore import samplers
    >>> samplers.uniform_below(1)
    0
    >>> 0 <= samplers.uniform_below(10**30) < 10**30
    True
    """
    if size is None and rng is None and type(bound) is int and 0 < bound < 2**64:
        return _core.uniform_below(bound, None)
    checked, source = _validation.integer("bound", bound, least=1, most=_UNBOUNDED), source_of(rng)
    if size is None:
        return _below(checked, source)
    if checked > 2**63:
        raise ValueError(f"bound must be at most 2**63 when a size is given (int64), got {checked}")
    out = np.empty(shape_of(size), dtype=np.int64)
    _core.uniform_below_fill(checked, out, source)
    return out


@overload
def bernoulli(
    numerator: int, denominator: int, size: None = None, *, rng: InsecureTestRng | None = None
) -> bool: ...
@overload
def bernoulli(
    numerator: int, denominator: int, size: Size, *, rng: InsecureTestRng | None = None
) -> BoolArray: ...
def bernoulli(
    numerator: int, denominator: int, size: Size | None = None, *, rng: InsecureTestRng | None = None
) -> bool | BoolArray:
    """True with probability numerator / denominator, exactly.

    Parameters
    ----------
    numerator, denominator : int
        0 <= numerator <= denominator, 1 <= denominator; any size for a single draw.
    size : int or tuple of int, optional
        Shape of the result, with denominator < 2**64.
    rng : InsecureTestRng, optional
        A predictable generator for tests. By default the cryptographic stream.

    Examples
    --------
    >>> from dpcore import samplers
    >>> samplers.bernoulli(3, 3), samplers.bernoulli(0, 7)
    (True, False)
    """
    whole = _validation.integer("denominator", denominator, least=1, most=_UNBOUNDED)
    part = _validation.integer("numerator", numerator, least=0, most=whole)
    source = source_of(rng)
    if size is None:
        return _below(whole, source) < part
    if whole >= 2**64:
        raise ValueError(f"denominator must be below 2**64 when a size is given, got {whole}")
    out = np.empty(shape_of(size), dtype=np.bool_)
    _core.bernoulli_fill(part, whole, out, source)
    return out


@overload
def bernoulli_exp(x: float, size: None = None, *, rng: InsecureTestRng | None = None) -> bool: ...
@overload
def bernoulli_exp(x: float, size: Size, *, rng: InsecureTestRng | None = None) -> BoolArray: ...
def bernoulli_exp(x: float, size: Size | None = None, *, rng: InsecureTestRng | None = None) -> bool | BoolArray:
    """True with probability exp(-x), for the exact value of the double x.

    Parameters
    ----------
    x : float
        Finite, at least 0.
    size : int or tuple of int, optional
        Shape of the result.
    rng : InsecureTestRng, optional
        A predictable generator for tests. By default the cryptographic stream.

    Examples
    --------
    >>> from dpcore import samplers
    >>> samplers.bernoulli_exp(0.0), samplers.bernoulli_exp(1000.0)
    (True, False)
    """
    if size is None and rng is None and type(x) is float and 0.0 <= x < math.inf:
        return _core.bernoulli_exp(x, None)
    checked, source = _validation.scalar("x", _validation.non_negative("x", x)), source_of(rng)
    if size is None:
        return _core.bernoulli_exp(checked, source)
    out = np.empty(shape_of(size), dtype=np.bool_)
    _core.bernoulli_exp_fill(checked, out, source)
    return out


@overload
def randomized_response(
    answer: int, *, epsilon: float, categories: int, rng: InsecureTestRng | None = None
) -> int: ...
@overload
def randomized_response(
    answer: ArrayLike, *, epsilon: float, categories: int, rng: InsecureTestRng | None = None
) -> int | IntArray: ...
def randomized_response(
    answer: ArrayLike, *, epsilon: float, categories: int, rng: InsecureTestRng | None = None
) -> int | IntArray:
    """Keep an answer with probability e**epsilon / (e**epsilon + categories - 1), else replace it by another.

    Each of the other answers is equally likely, so the result is epsilon-differentially private for one answer.

    Parameters
    ----------
    answer : int or array of int
        In [0, categories). Answers are private: one outside is moved to the nearest end, without an error.
    epsilon : float
        Finite, > 0.
    categories : int
        At least 2.
    rng : InsecureTestRng, optional
        A predictable generator for tests. By default the cryptographic stream.

    Examples
    --------
    >>> from dpcore import samplers
    >>> samplers.randomized_response([0, 1, 1], epsilon=1.0, categories=2).shape
    (3,)
    """
    plain = rng is None and type(epsilon) is float and type(categories) is int
    known = plain and 0.0 < epsilon < math.inf and 2 <= categories <= 2**62
    if known and type(answer) is int and LEAST_INT64 <= answer <= MOST_INT64:
        return _core.randomized_response(epsilon, categories, answer, None)
    budget = _validation.scalar("epsilon", _validation.positive("epsilon", epsilon))
    kinds = _validation.integer("categories", categories, least=2, most=2**62)
    answers, source = private_integers("answer", answer), source_of(rng)
    if isinstance(answers, int):
        return _core.randomized_response(budget, kinds, answers, source)
    out = np.empty_like(answers)
    _core.randomized_response_fill(budget, kinds, answers, out, source)
    return out


def choose(scores: ArrayLike, *, factor: float, rng: InsecureTestRng | None = None) -> int:
    """An index i with probability proportional to exp(factor * scores[i]), for the exact values of the doubles.

    Parameters
    ----------
    scores : array of float, one dimension, at least one element
        Private: any value is accepted. Scores are clamped to +-2**1000, integers to +-2**53, and NaN counts as the
        lowest score.
    factor : float
        Finite, at least 0.
    rng : InsecureTestRng, optional
        A predictable generator for tests. By default the cryptographic stream.

    Examples
    --------
    >>> from dpcore import samplers
    >>> samplers.choose([0.0, 1000.0, 3.0], factor=1.0)
    1
    """
    checked = _validation.scalar("factor", _validation.non_negative("factor", factor))
    source = source_of(rng)
    given = private_numbers("scores", scores)
    if isinstance(given, (int, float)) or given.ndim != 1:
        raise TypeError(f"scores must be a one-dimensional array of numbers, got shape {np.shape(given)}")
    if given.size == 0:
        raise ValueError("scores must have at least one element, got none")
    if given.dtype.kind == "i":  # as far as doubles hold every integer; this never moves two scores apart
        given = given.clip(-_validation.MAX_EXACT_INTEGER, _validation.MAX_EXACT_INTEGER)
    return _core.choose(given.astype(np.float64, copy=False), checked, source)


def random_bytes(count: int, *, rng: InsecureTestRng | None = None) -> bytes:
    """`count` bytes of the calling thread's cryptographic stream (or of the test generator).

    Examples
    --------
    >>> from dpcore import samplers
    >>> len(samplers.random_bytes(16))
    16
    """
    number = _validation.integer("count", count)
    source = source_of(rng)
    return _core.secure_bytes(number) if source is None else source.bytes(number)
