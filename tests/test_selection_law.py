"""Laws of the choices, by exact binomial and chi-square tests.

Level 1e-9 a test, fewer than 40 tests: a right sampler fails this file with probability below 4e-8. The wrong
samplers at the end must be rejected at the same level and sample size.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpcore import samplers
from dpcore.samplers import InsecureTestRng

pytestmark = pytest.mark.statistical

LEVEL = 1e-9
DRAWS = 400_000


def p_of_counts(counts: Any, probability: Any) -> float:
    expected = np.asarray(probability) * np.sum(counts)
    return float(stats.chisquare(counts, expected).pvalue)


def p_of_coin(heads: int, probability: float, draws: int = DRAWS) -> float:
    return float(stats.binomtest(heads, draws, probability).pvalue)


@pytest.mark.parametrize("bound", [2, 3, 10, 100])
def test_uniform_integers(bound: int) -> None:
    draws = samplers.uniform_below(bound, DRAWS)
    assert p_of_counts(np.bincount(draws, minlength=bound), np.full(bound, 1 / bound)) > LEVEL


def test_uniform_integers_of_a_bound_that_does_not_divide() -> None:
    # 2^64 words for 3 * 2^61 integers: without rejection, those of residue 2 modulo 3 come up twice and the others
    # three times.
    bound, even = 3 * 2**61, np.full(3, 1 / 3)
    assert p_of_counts(np.bincount(samplers.uniform_below(bound, DRAWS) % 3, minlength=3), even) > LEVEL
    unrejected = [int.from_bytes(samplers.random_bytes(8), "little") * bound >> 64 for _ in range(20_000)]
    assert p_of_counts(np.bincount([x % 3 for x in unrejected], minlength=3), even) < LEVEL


@pytest.mark.parametrize("x", [1e-3, 0.1, 1.0, 5.0])
def test_coins_of_exponentials(x: float) -> None:
    assert p_of_coin(int(samplers.bernoulli_exp(x, DRAWS).sum()), math.exp(-x)) > LEVEL
    heads = sum(samplers.bernoulli_exp(x) for _ in range(20000))
    assert p_of_coin(heads, math.exp(-x), 20000) > LEVEL


@pytest.mark.parametrize(("a", "b"), [(1, 3), (2, 7), (10**18, 3 * 10**18), (2**63, 2**64 - 1)])
def test_rational_coins(a: int, b: int) -> None:
    assert p_of_coin(int(samplers.bernoulli(a, b, DRAWS).sum()), a / b) > LEVEL
    assert p_of_coin(sum(samplers.bernoulli(a, b) for _ in range(20000)), a / b, 20000) > LEVEL


def test_rational_coins_of_large_integers() -> None:
    heads = sum(samplers.bernoulli(10**40, 3 * 10**40) for _ in range(20000))
    assert p_of_coin(heads, 1 / 3, 20000) > LEVEL


@pytest.mark.parametrize("epsilon", [0.1, math.log(3), 4.0])
@pytest.mark.parametrize("categories", [2, 3, 8])
def test_randomized_response(epsilon: float, categories: int) -> None:
    keep = 1 / (1 + (categories - 1) * math.exp(-epsilon))
    for answer in (0, categories - 1):
        law = np.full(categories, (1 - keep) / (categories - 1))
        law[answer] = keep
        got = samplers.randomized_response(np.full(DRAWS, answer), epsilon=epsilon, categories=categories)
        assert p_of_counts(np.bincount(got, minlength=categories), law) > LEVEL


def test_scores() -> None:
    scores = [0.0, 1.0, -2.0, 0.5, 1.0]
    law = np.exp(0.8 * np.array(scores))
    draws = [samplers.choose(scores, factor=0.8) for _ in range(50_000)]
    assert p_of_counts(np.bincount(draws, minlength=5), law / law.sum()) > LEVEL


# ---- wrong on purpose


def test_a_modulo_bias_is_seen() -> None:
    draws = samplers.uniform_below(256, DRAWS) % 100
    assert p_of_counts(np.bincount(draws, minlength=100), np.full(100, 0.01)) < LEVEL


def test_a_first_order_exponential_is_seen() -> None:
    assert p_of_coin(int(samplers.bernoulli(9, 10, DRAWS).sum()), math.exp(-0.1)) < LEVEL


def test_replacing_by_any_answer_is_seen() -> None:
    # "Otherwise answer uniformly", the truth included, keeps it too often.
    keep = 1 / (1 + 2 * math.exp(-1.0))
    answers = np.where(samplers.bernoulli(round(keep * 10**6), 10**6, DRAWS), 0, samplers.uniform_below(3, DRAWS))
    law = [keep, (1 - keep) / 2, (1 - keep) / 2]
    assert p_of_counts(np.bincount(answers, minlength=3), law) < LEVEL


def test_a_forgotten_factor_of_two_is_seen() -> None:
    law = np.exp(0.8 * np.array([0.0, 1.0, -2.0]))
    draws = [samplers.choose([0.0, 1.0, -2.0], factor=0.4) for _ in range(50_000)]
    assert p_of_counts(np.bincount(draws, minlength=3), law / law.sum()) < LEVEL


# ---- arguments


def test_bad_arguments() -> None:
    rng = InsecureTestRng(1)
    for bad in (0, -1):
        with pytest.raises(ValueError, match="bound must be"):
            samplers.uniform_below(bad, rng=rng)
    with pytest.raises(ValueError, match="bound must be at most"):
        samplers.uniform_below(2**63 + 1, 3, rng=rng)
    with pytest.raises(TypeError, match="bound must be an integer"):
        samplers.uniform_below(3.0, rng=rng)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="numerator must be"):
        samplers.bernoulli(4, 3, rng=rng)
    with pytest.raises(ValueError, match="denominator must be"):
        samplers.bernoulli(0, 0, rng=rng)
    with pytest.raises(ValueError, match="denominator must be below"):
        samplers.bernoulli(1, 2**64, 3, rng=rng)
    for bad_x in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="x must be"):
            samplers.bernoulli_exp(bad_x, rng=rng)
    for bad_epsilon in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="epsilon must be"):
            samplers.randomized_response(0, epsilon=bad_epsilon, categories=2, rng=rng)
    with pytest.raises(ValueError, match="categories must be"):
        samplers.randomized_response(0, epsilon=1.0, categories=1, rng=rng)
    with pytest.raises(TypeError, match="answer must be an integer"):
        samplers.randomized_response([0.5], epsilon=1.0, categories=2, rng=rng)
    with pytest.raises(TypeError, match="scores must be"):
        samplers.choose([["a"]], factor=1.0, rng=rng)
    with pytest.raises(ValueError, match="scores must have"):
        samplers.choose([], factor=1.0, rng=rng)
    for bad_factor in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="factor must be"):
            samplers.choose([1.0], factor=bad_factor, rng=rng)
    assert rng.bytes(8) == InsecureTestRng(1).bytes(8)


def test_private_answers_outside_the_categories_do_not_raise() -> None:
    for odd, end in ((-5, 0), (7, 2), (2**63, 2), (-(2**70), 0)):
        for seed in range(20):
            a = samplers.randomized_response(odd, epsilon=1.0, categories=3, rng=InsecureTestRng(seed))
            assert a == samplers.randomized_response(end, epsilon=1.0, categories=3, rng=InsecureTestRng(seed))
    unsigned = np.array([2**64 - 1], dtype=np.uint64)
    assert 0 <= samplers.randomized_response(unsigned, epsilon=1.0, categories=3)[0] < 3


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int32, np.int64])
def test_answers_of_any_integer_type(dtype: Any) -> None:
    answers = np.array([0, 1, 1, 0], dtype=dtype)
    got = samplers.randomized_response(answers, epsilon=50.0, categories=2)  # kept but for a chance of 2e-22
    assert np.array_equal(got, answers.astype(np.int64))
