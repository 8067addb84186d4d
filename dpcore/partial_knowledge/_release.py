"""Releasing a count under partial knowledge: calibration, exact noise, and the statement that goes with it."""

from __future__ import annotations

import dataclasses
import math
import os
import threading
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from scipy import special

from dpcore import gaussian, samplers
from dpcore._results import Result
from dpcore._validation import integer, iterable
from dpcore.mechanisms._base import NoiseInterval, checked_level, normal_half_width, rounded_half_width
from dpcore.partial_knowledge._calibrate import CountCalibration, calibrate
from dpcore.partial_knowledge._unknown_bias import (
    EstimatedCalibration,
    check_estimate,
    delta_left,
    estimate_and_calibrate,
    make_plan,
    noisy,
    private_count,
    release_grid,
    samplable,
)


def combined_half_width(level: float, most: float) -> float:
    """Half width, in scales of the combined noise, of the mean of an output and one whose noise depends on it.

    The error over its scale is a Z1 + b Z2, a^2 + b^2 = 1, Z1 and Z2 standard normal, where `a` depends on the
    first output and is in [0, most]. Its magnitude is at most r wherever (Z1, Z2) is within r of 0 in all these
    directions; that has probability 1 - (angle / pi) exp(-r^2 / 2) - 4 T(r, tan(psi)), T Owen's function,
    angle = asin(most), psi = (pi - angle) / 2. The result is the least such r, rounded up.
    """
    angle = math.asin(min(1.0, most))
    steep = 1.0 / math.tan(0.5 * angle) if angle > 0.0 else math.inf

    def missed(r: float) -> float:
        return angle / math.pi * math.exp(-0.5 * r * r) + 4.0 * float(special.owens_t(r, steep))

    # Between the half width of one normal number and of the length of two.
    low, high = normal_half_width(level), math.sqrt(-2.0 * math.log1p(-level)) * (1.0 + 1e-13)
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if missed(middle) * (1.0 + 1e-12) > 1.0 - level else (low, middle)
    return high * (1.0 + 1e-13)


@dataclasses.dataclass(frozen=True)
class CountRelease(Result):
    """A released count. Everything in it may be published."""

    value: float
    """Best estimate of the count from all that was released; not rounded to a whole number, not clamped."""
    noise_scale: float
    """Scale of the noise in `value`; 0 if it is the count itself. With a `bias` given, its standard deviation."""
    records: int
    outputs: tuple[tuple[float, float], ...]
    """Each noisy output with its noise scale; `value` is their weighted mean."""
    calibration: CountCalibration | EstimatedCalibration

    @property
    def proportion(self) -> float:
        """The released mean: value / records."""
        return self.value / self.records

    def interval(self, level: float) -> NoiseInterval:
        """How far `value` is from the count, with probability `level` at least.

        ``released.interval(0.95).around(released.value)`` are the ends of error bars; over `records`, those of the
        proportion. As `Gaussian.interval` for one output; with an estimated bias about an eighth wider, because
        the noise of the second output depends on the first, whatever the dependence is.
        """
        checked = checked_level(level)
        if self.noise_scale == 0.0:
            return NoiseInterval(checked, 0.0)
        if isinstance(self.calibration, CountCalibration):
            grid = release_grid(self.noise_scale, self.records)
            width = rounded_half_width(self.noise_scale, grid, normal_half_width(checked))
            # On a grid finer than doubles of the size of counts the sum is rounded once more.
            spacing = math.ldexp(1.0, self.records.bit_length() - 51)
            return NoiseInterval(checked, width if grid >= min(1.0, spacing) else width + spacing)
        found = self.calibration
        plain = gaussian.sigma(epsilon=found.epsilon, delta=delta_left(found.delta, found.failure))
        quantile = combined_half_width(checked, plain / found.estimate_scale * (1.0 + 1e-12))
        # Each output is rounded to its grid, by half a cell at most, and counts for its weight; the mean itself is
        # computed to a few roundings.
        rounding = math.fsum(
            0.5 * release_grid(scale, self.records) * (self.noise_scale / scale) ** 2 for _, scale in self.outputs
        )
        rounding += 2.0**-50 * max(abs(value) for value, _ in self.outputs)
        return NoiseInterval(checked, (self.noise_scale * quantile + rounding) * (1.0 + 1e-12))

    @property
    def statement(self) -> str:
        """The guarantee in words."""
        return self.calibration.statement


class PartialKnowledgeCount:
    """A mechanism that releases a count with the noise it needs against attackers of partial knowledge.

    One object makes the releases it was made for and no more, also when threads share it; it cannot be copied,
    and a forked process cannot release with the one it inherits.

    Parameters
    ----------
    records, known : int
        As for `count_delta`.
    epsilon : float, > 0
        Of everything that one object releases.
    delta : float, in (0, 1)
        Of everything that one object releases.
    worst_case_epsilon : float, >= epsilon
        Epsilon of the plain guarantee that holds whatever the attacker knows. It has to be given, since its
        absence (infinity) means that a count may be released without any noise.
    bias : optional
        What is known about the bias, as for `count_delta`. None: it is estimated from the data, privately.
    attacker, estimate_share, failure_share : optional
        As for `calibrate_unknown_bias`; only without `bias`.
    releases : int, >= 1
        How often `release` will be called on the same count; only with `bias`.
    earlier_noise_scales : sequence of float
        Releases of the same count made before; only with `bias`.

    Raises
    ------
    TypeError, ValueError
        If an argument is outside its domain.

    Examples
    --------
    >>> import math
    >>> from dpcore import partial_knowledge as pk, samplers
    >>> mechanism = pk.PartialKnowledgeCount(
    ...     records=10_001, known=0, epsilon=0.1, delta=1e-6, worst_case_epsilon=1.0, bias=0.1
    ... )
    >>> released = mechanism.release(1017, rng=samplers.InsecureTestRng(1))
    >>> round(released.noise_scale, 3)
    21.564
    >>> abs(released.value - 1017) < 200
    True
    >>> low, high = released.interval(0.95).around(released.value)
    >>> round(high - low) == round(2 * 1.96 * released.noise_scale)
    True
    """

    def __init__(
        self,
        *,
        records: int,
        known: int,
        epsilon: float,
        delta: float,
        worst_case_epsilon: float,
        bias: Any = None,
        attacker: str = "passive",
        estimate_share: float | None = None,
        failure_share: float | None = None,
        releases: int = 1,
        earlier_noise_scales: Sequence[float] = (),
    ) -> None:
        self._plan = make_plan(
            records, known, epsilon, delta, attacker, estimate_share, failure_share, worst_case_epsilon
        )
        self._left = integer("releases", releases, least=1)
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._calibration: CountCalibration | None = None
        if bias is not None:
            if estimate_share is not None or failure_share is not None:
                raise ValueError("estimate_share and failure_share have no meaning when bias is given")
            self._calibration = calibrate(
                epsilon=epsilon,
                delta=delta,
                records=records,
                known=known,
                bias=bias,
                worst_case_epsilon=worst_case_epsilon,
                releases=releases,
                earlier_noise_scales=earlier_noise_scales,
            )
            samplable(self._calibration.noise_scale)
        elif self._left != 1 or any(
            True for _ in iterable("earlier_noise_scales", earlier_noise_scales, "a sequence of numbers")
        ):
            raise ValueError(
                "releases must be 1 and earlier_noise_scales empty when bias is None: the guarantee with an "
                "estimated "
                "bias is for one release and its estimate"
            )
        else:
            check_estimate(self._plan)

    @property
    def calibration(self) -> CountCalibration | None:
        """The calibration, where the bias is given; None where it depends on the estimate."""
        return self._calibration

    def __reduce__(self) -> NoReturn:
        raise TypeError("a PartialKnowledgeCount cannot be copied or pickled: a copy would release once more")

    def __copy__(self) -> NoReturn:
        self.__reduce__()

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__reduce__()

    def release(self, count: int, rng: samplers.InsecureTestRng | None = None) -> CountRelease:
        """Release the count.

        Parameters
        ----------
        count : int
            The private count. A value outside 0..records is moved to the nearest end, without notice: an
            exception would reveal it.
        rng : InsecureTestRng, optional
            For tests. By default the operating system's randomness.

        Raises
        ------
        TypeError
            If `count` is not an integer. A vector of counts is refused: disjoint groups of records are
            independent and may each have a mechanism of their own, but cells of one table share their records,
            and a record that moves from one cell to another changes two counts at once, for which nothing is
            proved.
        RuntimeError
            If the releases that the guarantee covers have all been made, or if this process is a fork of the one
            that made the mechanism.
        """
        if isinstance(count, (list, tuple)) or np.ndim(count) > 0:
            raise TypeError(
                "count must be one integer: for counts of disjoint groups of records use one mechanism a "
                "group; counts "
                "of different values of the same records have no proved guarantee under partial knowledge"
            )
        number = private_count(count, self._plan.records)
        if os.getpid() != self._process:  # before the lock, which may have been forked while it was held
            raise RuntimeError(
                "a forked process cannot release with a PartialKnowledgeCount of its parent: each would make the "
                "releases that the guarantee covers once; release in the parent"
            )
        with self._lock:
            if self._left == 0:
                raise RuntimeError(
                    "all releases that the guarantee covers have been made; with a known bias, releases= plans "
                    "for several, and earlier_noise_scales= tells a new mechanism of those already made"
                )
            self._left -= 1
        if self._calibration is not None:
            scale = self._calibration.noise_scale
            value = float(number) if scale == 0.0 else noisy(number, scale, self._plan.records, rng)
            return CountRelease(value, scale, self._plan.records, ((value, scale),), self._calibration)
        found = estimate_and_calibrate(self._plan, number, rng)
        outputs = [(found.estimate, found.estimate_scale)]
        if found.noise_scale == 0.0:
            outputs.append((float(number), 0.0))
            return CountRelease(float(number), 0.0, self._plan.records, tuple(outputs), found)
        if not math.isinf(found.noise_scale):
            second = noisy(number, found.noise_scale, self._plan.records, rng)
            outputs.append((second, found.noise_scale))
        weights = [scale**-2 for _, scale in outputs]
        value = math.fsum(w * v for w, (v, _) in zip(weights, outputs, strict=True)) / math.fsum(weights)
        return CountRelease(value, math.fsum(weights) ** -0.5, self._plan.records, tuple(outputs), found)
