"""Compositions of atoms that share no lattice, and of many different Laplace releases: bounds by smoothing."""

from __future__ import annotations

import functools
import math
import operator

import numpy as np
import pytest

from dpcore import accounting as acc


def total(losses: list[acc.PrivacyLoss]) -> acc.PrivacyLoss:
    return functools.reduce(operator.add, losses)


def all_sums(laws: list[tuple[list[float], list[float]]]) -> tuple[np.ndarray, np.ndarray]:
    """Every sum of losses with its mass, in 80-bit arithmetic: an independent reference good to 1e-16."""
    losses, masses = np.zeros(1, dtype=np.longdouble), np.ones(1, dtype=np.longdouble)
    for p, q in laws:
        pl, ql = np.array(p, dtype=np.longdouble), np.array(q, dtype=np.longdouble)
        losses = (losses[:, None] + np.log(pl / ql)[None, :]).ravel()
        masses = (masses[:, None] * pl[None, :]).ravel()
    return losses, masses


def exact(losses: np.ndarray, masses: np.ndarray, eps: float) -> np.longdouble:
    above = losses > eps
    return (masses[above] * -np.expm1(np.longdouble(eps) - losses[above])).sum()


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="the reference needs 80-bit long double")
def test_different_randomised_responses() -> None:
    epsilons = [0.05 + 0.013 * i for i in range(18)]
    loss = total([acc.from_randomized_response(epsilon=e) for e in epsilons])
    laws = []
    for e in epsilons:
        up = 1 / (1 + np.exp(-np.longdouble(e)))
        laws.append(([up, 1 - up], [1 - up, up]))
    losses, masses = all_sums(laws)
    for eps in (0.0, 0.3, 0.7, 1.1, 1.9, 2.6):
        truth = exact(losses, masses, eps)
        for engine in ("spectral", "auto"):
            found = loss.delta(eps, engine=engine)
            assert found.lower <= truth <= found.upper
            assert found.upper / found.lower - 1 <= 1e-9


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="the reference needs 80-bit long double")
def test_different_pairs_of_distributions() -> None:
    rng = np.random.default_rng(5)
    laws = []
    for _ in range(11):
        # Dyadic probabilities that sum to 1 exactly, so that the doubles are the numbers meant.
        p = rng.multinomial(1 << 20, [0.5, 0.3, 0.2]) / (1 << 20)
        q = rng.multinomial(1 << 20, [0.4, 0.35, 0.25]) / (1 << 20)
        laws.append((list(p), list(q)))
    loss = total([acc.from_pmf(p, q) for p, q in laws])
    losses, masses = all_sums(laws)
    reverse = all_sums([(q, p) for p, q in laws])
    for eps in (0.05, 0.4, 0.9, 1.6):
        truth = max(exact(losses, masses, eps), exact(*reverse, eps))
        for engine in ("spectral", "auto"):
            found = loss.delta(eps, engine=engine)
            assert found.lower <= truth <= found.upper
            assert found.upper / found.lower - 1 <= 1e-9


@pytest.mark.parametrize(
    "loss",
    [
        total([acc.from_laplace(epsilon=0.05 + 0.0131 * i**1.1) for i in range(12)]),
        total([acc.from_randomized_response(epsilon=0.05 + 0.0131 * i**1.1) for i in range(30)]),
        total([acc.from_randomized_response(epsilon=0.05 + 0.0131 * i**1.1) * 30 for i in range(5)]),
        acc.from_laplace(epsilon=0.3) * 3 + acc.from_discrete_laplace(scale=3.0, sensitivity=1) * 5,
        acc.from_pmf([0.5, 0.3, 0.2], [0.4, 0.35, 0.25]) * 50
        + acc.from_randomized_response(epsilon=0.21) * 50
        + acc.from_approximate(epsilon=0.11, delta=1e-8) * 50,
    ],
)
def test_too_many_sums_to_enumerate(loss: acc.PrivacyLoss) -> None:
    """Narrow, and within the bounds of the buckets, which share nothing with it; epsilon goes back to delta."""
    for share in (0.2137, 0.5219):  # no sum of losses itself, where delta has a kink
        eps = share * (loss.max_loss if math.isfinite(loss.max_loss) else 20.0)
        found, grid = loss.log_delta(eps), loss.log_delta(eps, engine="buckets")
        assert found.upper - found.lower <= 1e-9
        assert found.lower <= grid.upper
        assert grid.lower <= found.upper
    back = loss.epsilon(math.exp(found.upper))
    assert back.lower <= eps
    assert back.upper - eps <= 1e-7 * (1 + eps)


def test_confidence_by_differences() -> None:
    loss = total([acc.from_laplace(epsilon=0.05 + 0.0131 * i**1.1) for i in range(12)])
    previous = 0.0
    for eps in (0.1, 0.5, 1.2):
        found = loss.confidence(eps)
        assert found.upper - found.lower <= 1e-4
        assert found.lower > previous
        previous = found.upper
