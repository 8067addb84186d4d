"""The work of one answer is bounded: whatever is asked, bounds come back in seconds, and they hold.

Times are processor times of this machine, which may be a slow one or instrumented; the limits are several times
what was measured, and the inputs took minutes, or never ended, before work was counted.
"""

from __future__ import annotations

import math
import time

import mpmath as mp
import pytest

from dpcore import accounting as acc

# Release builds take below 2 s for delta and confidence, 5 s for epsilon.
SLOWEST = 12.0


def answer(loss: acc.PrivacyLoss, what: str, at: float) -> acc.Bounds:
    start = time.process_time()
    bounds: acc.Bounds = getattr(loss, what)(at)
    assert time.process_time() - start < SLOWEST
    assert bounds.lower <= bounds.upper
    return bounds


def test_a_step_far_beyond_every_output() -> None:
    """Cells of the sum over its outputs were so far out that the next was the same number: a loop without end."""
    step = acc.from_subsampled_gaussian(sigma=394.26620766080276, rate=1.2419171699715154e-08, neighbours="remove")
    rest = acc.from_discrete_laplace(scale=5.477745232741616, sensitivity=56) * 2572161799578
    bounds = answer(step * 16 + rest, "delta", 23737901701103.336)
    # Of the others alone, by mpmath's quadrature along Re z = 7.06e-6 with 60 digits; the steps change ln delta by
    # less than 1e-11.
    assert bounds.lower <= 1.780056966e-85
    assert bounds.upper >= 1.780056965e-85
    assert bounds.upper <= 1.0001 * bounds.lower


@pytest.mark.parametrize("delta", [3.488e-68, 1e-9])
def test_many_atoms_in_a_search(delta: float) -> None:
    """A discrete Laplace law of many losses beside others: 17 s, nearly all of it in sums that place contours."""
    loss = (
        acc.from_subsampled_gaussian(sigma=0.9, rate=0.02, neighbours="remove") * 3
        + acc.from_discrete_laplace(scale=0.7, sensitivity=400_000) * 2
        + acc.from_gaussian(sigma=30.0) * 3135
    )
    bounds = answer(loss, "epsilon", delta)
    # With probability e^-800000 at the least each discrete Laplace loss is the largest one, 400000/0.7, to within
    # little; epsilon lies near both together and below them and everything else at its largest.
    most = 2 * 400_000 / 0.7
    assert 0.9 * most < bounds.upper < 1.1 * most + 1e3


def test_moments_of_a_discrete_laplace_loss_are_exact() -> None:
    """Losses beyond e^-45 of the largest are left out of the sums, many are taken together where only a contour is
    placed; mean and variance are asked for as such and are sums over all."""
    for scale, sensitivity in ((5.0, 6000), (3000.0, 9000), (0.4, 3), (50.0, 5000)):
        e = mp.mpf(1) / mp.mpf(scale)
        ends = 1 / (1 + mp.exp(-e))
        mass = [mp.tanh(e / 2) * mp.exp(-e * x) for x in range(sensitivity + 1)]
        mass[0], mass[-1] = ends, ends * mp.exp(-e * sensitivity)
        losses = [e * (sensitivity - 2 * x) for x in range(sensitivity + 1)]
        mean = mp.fsum(m * x for m, x in zip(mass, losses, strict=True))
        variance = mp.fsum(m * (x - mean) ** 2 for m, x in zip(mass, losses, strict=True))
        loss = acc.from_discrete_laplace(scale=scale, sensitivity=sensitivity)
        assert math.isclose(loss.mean, float(mean), rel_tol=1e-11)
        assert math.isclose(loss.variance, float(variance), rel_tol=1e-9)


def test_few_atoms_beside_many_kinds_of_step() -> None:
    """Six mechanisms, three of them subsampled."""
    loss = (
        acc.from_approximate(epsilon=1.29, delta=0.0813) * 16
        + acc.from_subsampled_gaussian(sigma=4.38, rate=3.2e-06, neighbours="add") * 31
        + acc.from_subsampled_gaussian(sigma=15.6, rate=0.02, neighbours="both") * 9
        + acc.from_subsampled_gaussian(sigma=1.3, rate=1e-4, neighbours="remove") * 523
        + acc.from_laplace(epsilon=0.3)
        + acc.from_randomized_response(epsilon=0.7) * 4
    )
    bounds = answer(loss, "delta", 0.0038)
    assert bounds.lower < 1.0
    infinite = 1 - (1 - mp.mpf(0.0813)) ** 16
    assert bounds.lower >= infinite * (1 - mp.mpf(1e-12))
    for at in (0.5, 4.0):
        inside = answer(loss, "confidence", at)
        assert inside.lower >= 0.0
        assert inside.upper <= 1 - infinite + mp.mpf(1e-9)
