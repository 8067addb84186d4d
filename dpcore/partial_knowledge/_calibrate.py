"""Algorithm 1 of the thesis, exactly: the smallest noise for an attacker of known strength."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from dpcore import _core, gaussian
from dpcore._results import Result
from dpcore._rounding import upward
from dpcore._validation import integer, iterable, non_negative, open_probability, real, scalar
from dpcore.partial_knowledge._bias import Bias, parse
from dpcore.partial_knowledge._delta import check_size, checked_epsilon, combined_noise, unknown_records
from dpcore.partial_knowledge._laws import Law, goal_of, law_of, log_delta_upper


@dataclasses.dataclass(frozen=True)
class CountCalibration(Result):
    """How much noise a count needs, and what that guarantees."""

    noise_scale: float
    """Standard deviation of the normal noise, for each release; 0 when the unknown records are noise enough."""
    delta: float
    """Delta achieved at `epsilon`, an upper bound: at most `target_delta`."""
    epsilon: float
    target_delta: float
    gaussian_sigma: float
    """Noise that plain differential privacy would need for the same epsilon, delta and number of releases."""
    records: int
    known: int
    bias: Any
    worst_case_epsilon: float
    """Epsilon of the guarantee that holds whatever the attacker knows, at `target_delta`; infinite: none."""
    releases: int
    earlier_noise_scales: tuple[float, ...]
    limited_by: str
    """What fixed the noise: "nothing" (it is 0), "partial knowledge", "worst case" or "plain"."""

    @property
    def saving(self) -> float:
        """Share of the plain noise that is not needed, 0 to 1 (0 where earlier releases ask for more than it)."""
        return max(0.0, 1.0 - self.noise_scale / self.gaussian_sigma)

    @property
    def proportion_noise_scale(self) -> float:
        """Noise scale for the mean (proportion) count / records."""
        return self.noise_scale / self.records

    @property
    def statement(self) -> str:
        """The guarantee and what it rests on, in words."""
        unknown = self.records - self.known - 1
        times = "One release" if self.releases == 1 else f"{self.releases} releases"
        noise = (
            f"with normal noise of scale {upward(self.noise_scale)}"
            if self.noise_scale > 0
            else "without any noise"
        )
        bias = f"of bias {self.bias!r}" if isinstance(self.bias, float) else str(self.bias)
        earlier = len(self.earlier_noise_scales)
        together = f", together with the {earlier} before," if earlier else ""
        parts = [
            f"{times} of this count {noise}{together} "
            f"{'satisfies' if self.releases == 1 and not earlier else 'satisfy'} "
            f"({upward(self.epsilon)}, {upward(self.delta, 3)})-indistinguishability of one record, "
            f"against an attacker "
            f"who "
            f"knows (or has chosen) at most {self.known} of the {self.records} records.",
            f"Assumed: the {unknown} other records are independent of each other and of the attacked one, "
            f"{bias}; "
            f"{_earlier(self.earlier_noise_scales)}.",
        ]
        if math.isinf(self.worst_case_epsilon):
            parts.append(
                "Nothing is guaranteed if these assumptions fail: no worst_case_epsilon was asked for."
                if self.limited_by != "plain"
                else "The noise is that of plain differential privacy, so the guarantee holds for every attacker."
            )
        else:
            parts.append(
                f"Whatever the attacker knows, ({upward(self.worst_case_epsilon)}, "
                f"{upward(self.target_delta)})-differential "
                "privacy holds."
            )
        parts.append(
            f"Plain ({upward(self.epsilon)}, {upward(self.target_delta)})-differential privacy would need scale "
            f"{upward(self.gaussian_sigma)}."
        )
        stated = self.delta if math.isinf(self.worst_case_epsilon) else self.target_delta
        return " ".join(parts + caution(stated, self.records))


def caution(delta: float, records: int) -> list[str]:
    """A sentence where delta is so large that the guarantee allows what nobody would call private."""
    if not delta * records >= 1.0:
        return []
    return [
        f"Caution: delta is not below 1/{records}, one in the number of records; with a delta that large a "
        "mechanism may publish a whole record."
    ]


def _earlier(scales: tuple[float, ...]) -> str:
    if not scales:
        return "the count has not been released before"
    return f"it was released {len(scales)} time(s) before, with noise " + ", ".join(map(upward, scales))


def worst_case(value: Any, epsilon: float) -> float:
    """The checked worst_case_epsilon: at least epsilon, infinity allowed."""
    rule = "a number >= epsilon, or infinity"
    checked = scalar("worst_case_epsilon", real("worst_case_epsilon", value, rule, 0.0, math.inf, low_open=True))
    if not checked >= epsilon:
        raise ValueError(
            f"worst_case_epsilon must be a number >= epsilon = {epsilon!r}, or infinity, got {checked!r}"
        )
    return checked


# The combined scale of earlier releases is good to a few roundings, and so is the ratio of two scales.
_SLACK = 1.0 + 2.0**-49


def remaining_noise(total: float, spent: float) -> float:
    """Scale of a release that together with one of scale `spent` is worth one of at least `total`.

    Infinite where nothing is left.
    """
    if not spent > total:
        return math.inf
    ratio = total / spent * _SLACK
    return total / math.sqrt((1.0 - ratio) * (1.0 + ratio)) * _SLACK if ratio < 1.0 else math.inf


def least_noise(law: Law, epsilon: float, delta: float, plain: float) -> float:
    """Smallest noise scale for which the exact delta is certainly at most `delta`, 0 and `plain` included."""
    return law.least_noise(epsilon, goal_of(delta), plain)


def calibrate(
    *,
    epsilon: float,
    delta: float,
    records: int,
    known: int,
    bias: Any,
    worst_case_epsilon: float = math.inf,
    releases: int = 1,
    earlier_noise_scales: Sequence[float] = (),
) -> CountCalibration:
    """Smallest noise that protects a count from an attacker who knows `known` of its records (Algorithm 1).

    Parameters
    ----------
    epsilon : float, > 0
        Privacy parameter.
    delta : float, in (0, 1)
        Privacy parameter.
    records, known, bias
        As for `count_delta`.
    worst_case_epsilon : float, >= epsilon
        The noise is also enough for plain (worst_case_epsilon, delta)-differential privacy, whatever the
        attacker knows. Infinity, the default, asks for no such floor: if the assumptions fail, nothing is
        guaranteed.
    releases : int, >= 1
        How often the count is released, each time with fresh noise of the scale returned. The unknown records
        are the same each time, so this is not `releases` times a smaller epsilon.
    earlier_noise_scales : sequence of float
        Noise scales of the releases of this count that were made before.

    Returns
    -------
    CountCalibration
        ``noise_scale`` is never above the analytic Gaussian noise, and 0 when the unknown records suffice.

    Raises
    ------
    TypeError, ValueError
        If an argument is outside its domain, or if the earlier releases leave no room for another.

    Examples
    --------
    >>> from dpcore import partial_knowledge as pk
    >>> c = pk.calibrate(epsilon=0.1, delta=1e-6, records=10_001, known=0, bias=0.1)
    >>> round(c.noise_scale, 3), round(c.gaussian_sigma, 3)
    (21.564, 36.305)
    >>> pk.calibrate(epsilon=1.0, delta=1e-6, records=10**6, known=5 * 10**5, bias=0.3).noise_scale
    0.0
    """
    e = scalar("epsilon", checked_epsilon(epsilon))
    d = scalar("delta", open_probability("delta", delta))
    n = integer("records", records, least=1)
    k = integer("known", known)
    unknown = unknown_records(n, k)
    spec = parse(bias, several=False)
    check_size(spec, unknown)  # type: ignore[arg-type]
    floor_epsilon = worst_case(worst_case_epsilon, e)
    times = integer("releases", releases, least=1)
    earlier = tuple(
        scalar("earlier_noise_scales", non_negative("earlier_noise_scales", s))
        for s in iterable("earlier_noise_scales", earlier_noise_scales, "a sequence of numbers")
    )
    return _calibrate(e, d, n, k, spec, floor_epsilon, times, earlier)  # type: ignore[arg-type]


def _calibrate(
    epsilon: float,
    delta: float,
    records: int,
    known: int,
    bias: Bias,
    floor_epsilon: float,
    releases: int,
    earlier: tuple[float, ...],
) -> CountCalibration:
    law = law_of(bias, records - known - 1)
    plain = gaussian.sigma(epsilon=epsilon, delta=delta)
    needed = least_noise(law, epsilon, delta, plain)
    floor = 0.0 if math.isinf(floor_epsilon) else gaussian.sigma(epsilon=floor_epsilon, delta=delta)
    total = max(needed, floor)
    limited_by = (
        "nothing"
        if total == 0.0
        else "plain"
        if total >= plain
        else ("worst case" if floor > needed else "partial knowledge")
    )
    noise = total
    if earlier and total > 0.0:
        spent = float(combined_noise(list(earlier)))
        noise = remaining_noise(total, spent)
        if math.isinf(noise):
            raise ValueError(
                f"earlier_noise_scales must leave room: the releases so far are worth one with noise "
                f"{upward(spent)}, "
                f"and all releases together need at least {upward(total)}"
            )
    noise = _core.noise_per_release(noise, float(releases))
    achieved = log_delta_upper(law, epsilon, total)
    return CountCalibration(
        noise_scale=noise,
        delta=min(delta, math.exp(achieved) * (1.0 + 2.0**-50)),
        epsilon=epsilon,
        target_delta=delta,
        gaussian_sigma=plain * math.sqrt(releases),
        records=records,
        known=known,
        bias=bias,
        worst_case_epsilon=floor_epsilon,
        releases=releases,
        earlier_noise_scales=earlier,
        limited_by=limited_by,
    )
