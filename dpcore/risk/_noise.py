"""Ways to add the noise: Laplace, Gaussian, exact composition, partial knowledge."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dpcore._validation import FloatArray
from dpcore.risk._decision import Noise, share

# E|N(0, 1)|
_MEAN_ABSOLUTE = math.sqrt(2 / math.pi)
# Levels outside of this are not searched: below, nothing is released; above, nothing is protected.
LEAST, MOST = 1e-9, 700.0


@dataclasses.dataclass(frozen=True)
class Way:
    """A way to add noise: its noise at a level, the smallest level that keeps an error, points for a plot."""

    name: str
    short: str
    noise_at: Callable[[float], Noise]
    level_for: Callable[[float], float]
    partial: bool = False
    quick_errors: Callable[[FloatArray], list[float]] | None = None

    def errors(self, levels: FloatArray) -> list[float]:
        """Mean absolute error at each level, for a plot."""
        if self.quick_errors is not None:
            return self.quick_errors(levels)
        return [self.noise_at(float(e)).expected_error for e in levels]


def _laplace_noise(name: str, scale: float) -> Noise:
    return Noise(name, scale, scale, scale * math.log(20), "")


def _gaussian_noise(name: str, sigma: float, assumption: str = "") -> Noise:
    return Noise(name, sigma, sigma * _MEAN_ABSOLUTE, sigma * 1.959963984540054, assumption)


def ways_to_add_noise(
    records: int, known: int | None, bias: Any, releases: int, delta: float | None, sensitivity: float
) -> list[Way]:
    ways = [
        Way(
            "Laplace noise",
            "Laplace",
            lambda e: _laplace_noise("Laplace noise", sensitivity * releases / e),
            lambda error: sensitivity * releases / error,
        )
    ]
    if delta is None:
        return ways
    from dpcore import gaussian

    if releases > 1:
        name = "Laplace noise (exact composition)"
        ways.append(
            Way(
                name,
                "Laplace, exact composition",
                lambda e: _laplace_noise(name, sensitivity / _composed_level(e, releases, delta)),
                lambda error: _composed_epsilon(sensitivity / error, releases, delta),
                quick_errors=lambda levels: _composed_errors(levels, releases, delta, sensitivity),
            )
        )
    root = math.sqrt(releases)
    ways.append(
        Way(
            "Gaussian noise",
            "Gaussian",
            lambda e: _gaussian_noise(
                "Gaussian noise",
                float(gaussian.sigma(epsilon=e, delta=delta, sensitivity=sensitivity, compositions=releases)),
            ),
            lambda error: float(
                gaussian.epsilon(sigma=error / _MEAN_ABSOLUTE, delta=delta, sensitivity=sensitivity * root)
            ),
        )
    )
    if known is not None:
        ways.append(_partial_way(records, known, bias, releases, delta))
    return ways


def _partial_way(records: int, known: int, bias: Any, releases: int, delta: float) -> Way:
    from dpcore import partial_knowledge

    name = "Gaussian noise (partial knowledge)"
    assumption = (
        f"attackers know at most {known:,} of the other {records - 1:,} records and the share of yes among the "
        f"rest is {share(bias)}"
    )
    population = {"records": records, "known": known, "bias": bias}
    root = math.sqrt(releases)

    def noise_at(epsilon: float) -> Noise:
        found = partial_knowledge.calibrate(epsilon=epsilon, delta=delta, **population)
        return _gaussian_noise(name, float(found.noise_scale) * root, assumption)

    def level_for(error: float) -> float:
        scale = error / _MEAN_ABSOLUTE / root

        def holds(epsilon: float) -> bool:
            return float(partial_knowledge.count_delta(epsilon=epsilon, noise_scale=scale, **population)) <= delta

        return _smallest(holds)

    def errors(levels: FloatArray) -> list[float]:
        # A range or strata take a search each: eleven points make the line.
        few = np.geomspace(float(levels[0]), float(levels[-1]), 11)
        found = [noise_at(float(e)).expected_error for e in few]
        return [float(e) for e in np.interp(np.log(levels), np.log(few), found)]

    quick = None if isinstance(bias, (int, float)) else errors
    return Way(name, "Gaussian, partial knowledge", noise_at, level_for, partial=True, quick_errors=quick)


def _composed(level: float, releases: int, epsilon: float, delta: float) -> bool:
    """Whether `releases` Laplace releases of this level are (epsilon, delta)-private together, certified."""
    from dpcore.accounting import from_laplace

    basic = level * releases
    if basic <= epsilon:
        return True
    # Each loss is at its largest with probability 1/2, and all of them are with 2^-releases: a delta by itself.
    # At large levels nearly every question of a search ends here, and the certified answer takes a second there.
    if 2.0**-releases * -math.expm1(epsilon - basic) > delta * (1 + 1e-9):
        return False
    return float((from_laplace(epsilon=level) * releases).delta(epsilon).upper) <= delta


def _composed_epsilon(level: float, releases: int, delta: float) -> float:
    """Smallest epsilon, to 1e-6 and on the safe side; the sum of the levels always suffices."""
    low, high = 1e-3 * level * releases, level * releases
    while high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if _composed(level, releases, middle, delta) else (middle, high)
    return high


def _composed_level(epsilon: float, releases: int, delta: float, tolerance: float = 1e-4) -> float:
    """Largest level of each Laplace release, to `tolerance` and on the safe side, for (epsilon, delta)."""
    low, high = epsilon / releases, epsilon
    while high / low > 1 + tolerance:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _composed(middle, releases, epsilon, delta) else (low, middle)
    return low


def _composed_errors(levels: FloatArray, releases: int, delta: float, sensitivity: float) -> list[float]:
    """Six points, good to a line's width, and straight lines between them."""
    few = np.geomspace(float(levels[0]), float(levels[-1]), 6)
    found = [math.log(_composed_level(float(e), releases, delta, 5e-3)) for e in few]
    return [float(e) for e in sensitivity / np.exp(np.interp(np.log(levels), np.log(few), found))]


def _smallest(holds: Callable[[float], bool]) -> float:
    """Smallest epsilon, to 1e-6 relative and on the safe side, from which on `holds` is true; 0 when always."""
    if holds(LEAST):
        return 0.0
    low, high = LEAST, 1.0
    while not holds(high):
        low, high = high, 2 * high
        if high > MOST:
            return math.inf
    while high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
