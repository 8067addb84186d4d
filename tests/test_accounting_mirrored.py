"""Few removals next to epsilon 0, by the delta of their mirror image.

Independent references are in test_accounting_subsampled.py (two steps, also beside a response).
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from dpcore import accounting as acc

Step = tuple[float, float, int]  # sigma, rate, copies


def steps(neighbours: str, *given: Step) -> acc.PrivacyLoss:
    return acc.compose(
        [
            acc.from_subsampled_gaussian(sigma=sigma, rate=rate, neighbours=neighbours) * copies
            for sigma, rate, copies in given
        ]
    )


# Where no contour right of 0 saw all humps: bounds were 1e-8 apart and more, or had no lower one.
RARE: list[tuple[float, tuple[Step, ...]]] = [
    (0.0, ((1.436, 1.67e-8, 4),)),
    (0.0, ((37.38, 7.664e-8, 144901), (2.781, 0.004205, 4))),
    (0.0, ((23.72, 3.112e-5, 6319), (0.2014, 0.002517, 4), (65.52, 6.646e-6, 5994))),
    (0.02, ((3.208, 8.425e-6, 358), (0.3692, 4.091e-6, 1237), (62.68, 0.1608, 2))),
    (1.9e-7, ((31.95, 1.921e-6, 10),)),
    (7.3e-6, ((0.1844, 1.567e-10, 8399),)),
    (1.0, ((53.29, 0.00287, 1), (0.129, 2.481e-7, 734031))),
    # By pieces, of which contours stand at tilts beyond 10^7.
    (8.6e-7, ((19.23, 3.101e-8, 29466),)),
    (3.64e-5, ((3.249, 1e-8, 19),)),
]


@pytest.mark.parametrize(("eps", "given"), RARE, ids=str)
def test_rare_removals(eps: float, given: tuple[Step, ...]) -> None:
    log = steps("remove", *given).log_delta(eps)
    assert -math.inf < log.lower <= log.upper <= log.lower + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize(("eps", "given"), RARE[:4], ids=str)
def test_buckets_agree(eps: float, given: tuple[Step, ...]) -> None:
    loss = steps("remove", *given)
    log, grid = loss.log_delta(eps), loss.log_delta(eps, engine="buckets")
    assert max(log.lower, grid.lower) <= min(log.upper, grid.upper)


@pytest.mark.slow
@pytest.mark.parametrize("given", [row for _, row in RARE[:6]], ids=str)
@pytest.mark.parametrize(
    "beside", [None, acc.from_laplace(epsilon=0.003) * 5, acc.from_approximate(epsilon=0.01, delta=1e-7)]
)
def test_both_directions_are_one_at_zero(given: tuple[Step, ...], beside: Any) -> None:
    """At epsilon 0 delta is the total variation, which is the same with P and Q exchanged."""
    one, other = steps("remove", *given), steps("add", *given)
    if beside is not None:
        one, other = one + beside, other + beside
    removed, added = one.log_delta(0.0), other.log_delta(0.0)
    assert max(removed.lower, added.lower) <= min(removed.upper, added.upper)
    assert removed.upper - removed.lower <= 1e-9


@pytest.mark.parametrize(
    ("eps", "given"),
    [
        (2.06e-10, (6.574, 4.769e-10, 2)),
        (2.9e-8, (3.665, 7.442e-8, 2)),
        (1.13e-9, (2.772, 3.502e-9, 11)),
        (1e-5, (1.0, 1e-5, 100)),
        (1e-4, (1.0, 1e-5, 100)),
    ],
    ids=str,
)
def test_rare_additions(eps: float, given: Step) -> None:
    """Beyond the last output r(1 - r) was taken as 1/4, and e^{1e9} came of it."""
    loss = steps("add", given)
    log = loss.log_delta(eps)
    assert -math.inf < log.lower <= log.upper <= log.lower + 1e-9
    assert loss.delta(loss.max_loss).upper == 0.0


def test_many_rare_steps_beside_laplace() -> None:
    """Transforms that are nearly 1 are known less 1: 10^5 copies of them are as exact as one."""
    loss = steps("add", (21.14, 9.735e-8, 242548), (77.45, 0.0003887, 19)) + acc.from_laplace(epsilon=0.082) * 4
    log = loss.log_delta(0.028232379958136843)
    assert log.upper - log.lower <= 1e-10
    grid = loss.log_delta(0.028232379958136843, engine="buckets")
    assert max(log.lower, grid.lower) <= min(log.upper, grid.upper)


def test_hardly_ever_sampled() -> None:
    """Nothing happens but with the probability that a step is sampled; the upper bound was 1."""
    loss = acc.from_subsampled_gaussian(sigma=1.0, rate=1e-300) * 1000
    assert loss.log_delta(1e-3).upper <= math.log(1e-297) * (1 - 1e-15)
