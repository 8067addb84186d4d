"""Algorithm 2 of the thesis, made private: the bias is estimated from the data, and that costs privacy too.

Notation: n records, m = records - known - 1 unknown ones, p their bias; y the first release, of scale s1; beta
the scale of the second; e the scale of one release that is worth both, 1/e^2 = 1/s1^2 + 1/beta^2.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from typing import Any

from dpcore import gaussian, samplers
from dpcore._results import Result
from dpcore._rounding import upward
from dpcore._validation import choice, integer, open_probability, scalar
from dpcore.partial_knowledge._calibrate import caution, remaining_noise, worst_case
from dpcore.partial_knowledge._delta import checked_epsilon, unknown_records
from dpcore.partial_knowledge._laws import Binomial, goal_of, log_delta_upper, solve_noise

ESTIMATE_SHARE = 0.5
"""Share of the precision of plain noise that the estimate takes. The rest goes to the second release and
both count for
the result, so a large share costs nothing; docs/partial_knowledge.md has the scan."""
FAILURE_SHARE = 0.01
"""Share of delta for the event that the bias is outside the range found."""

ATTACKERS = ("passive", "active")


@dataclasses.dataclass(frozen=True)
class EstimatedCalibration(Result):
    """Noise for a count whose bias is not known, and the private estimate it was found with.

    Everything here may be published: it depends on the count through `estimate` alone.
    """

    noise_scale: float
    """Scale of the normal noise for the release of the count that is still to be made."""
    estimate: float
    """The count plus normal noise of scale `estimate_scale`: a release already made."""
    estimate_scale: float
    bias_estimate: float
    bias_range: tuple[float, float]
    """Holds the bias, except with probability `failure`, whatever it is."""
    epsilon: float
    delta: float
    """Of the estimate and the release together, `failure` included."""
    failure: float
    combined_noise_scale: float
    """Noise of one release worth both: the error of the best estimate of the count from them."""
    gaussian_sigma: float
    """Noise that plain differential privacy needs for the same epsilon and delta."""
    attacker: str
    records: int
    known: int
    worst_case_epsilon: float
    limited_by: str
    """"nothing", "partial knowledge", "worst case" or "plain" (the unknown records save nothing)."""

    @property
    def saving(self) -> float:
        """Share of the plain noise that is not needed, 0 to 1."""
        return max(0.0, 1.0 - self.combined_noise_scale / self.gaussian_sigma)

    @property
    def statement(self) -> str:
        """The guarantee and what it rests on, in words."""
        who = (
            f"an attacker who knows at most {self.known} of the {self.records} records, drawn like the others "
            "(the guarantee is for what it learns on average over them)"
            if self.attacker == "passive"
            else f"an attacker who has chosen at most {self.known} of the {self.records} records"
        )
        parts = [
            f"The estimate (noise {upward(self.estimate_scale)}) and one release with noise "
            f"{upward(self.noise_scale)} together "
            f"satisfy ({upward(self.epsilon)}, {upward(self.delta)})-indistinguishability of one "
            f"record against {who}.",
            "Assumed: the unknown records are independent and have one common bias, which need not be "
            "known; the "
            "count has not been released before.",
        ]
        if self.limited_by == "plain":
            parts.append("The unknown records save nothing here: this is plain differential privacy.")
        elif math.isinf(self.worst_case_epsilon):
            parts.append("Nothing is guaranteed if these assumptions fail: worst_case_epsilon is infinite.")
        if not math.isinf(self.worst_case_epsilon):
            parts.append(
                f"Whatever the attacker knows, ({upward(self.worst_case_epsilon)}, "
                f"{upward(self.delta)})-differential "
                f"privacy holds."
            )
        parts.append(
            f"Together they are worth one release with noise {upward(self.combined_noise_scale)}; plain "
            f"({upward(self.epsilon)}, {upward(self.delta)})-differential privacy needs "
            f"{upward(self.gaussian_sigma)}."
        )
        return " ".join(parts + caution(self.delta, self.records))


def delta_left(delta: float, failure: float) -> float:
    """What is left of delta for the two releases; a little less, so that both add up to at most delta."""
    return (delta - failure) * (1.0 - 2.0**-50)


def private_count(value: Any, records: int) -> int:
    """The count as an integer in 0..records; a value outside is moved to the nearest end.

    The type is checked, the value is not: an exception for a count out of range would reveal it.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"count must be an integer, got a {type(value).__name__}") from None
    if isinstance(value, bool):
        raise TypeError("count must be an integer, got a bool")
    return min(max(number, 0), records)


MOST_NOISE = 2.0**49
"""The samplers' largest noise on a grid of 1."""


def samplable(scale: float) -> None:
    """Refuse noise that cannot be drawn on a grid that counts lie on; public parameters decide."""
    if not scale <= MOST_NOISE:
        raise ValueError(
            "epsilon, delta and the shares must be such that noise of scale 2**49 is enough, got ones that need "
            f"{scale!r}"
        )


def release_grid(scale: float, records: int) -> float:
    """Power of two, at most 1 so that counts lie on it, and about a thousandth of the noise.

    Not so fine that a count plus its noise has no exact double (`records` and two bits more fit into 53), unless
    the noise is smaller still: then the sum is rounded once more, which is post-processing too. The samplers need
    a grid of 1024 scales at most.
    """
    exponent = math.frexp(scale)[1]
    return math.ldexp(1.0, min(0, max(exponent - 11, records.bit_length() - 51), exponent + 9))


def noisy(count: int, scale: float, records: int, rng: samplers.InsecureTestRng | None) -> float:
    """Count plus normal noise, rounded exactly to a public grid: post-processing of the continuous mechanism."""
    return count + float(samplers.gaussian(scale, grid=release_grid(scale, records), rng=rng))


def _least_bias(value: float, trials: int, scale: float, log_failure: float) -> float:
    """A bias below the result makes Binomial(trials, bias) + N(0, scale^2) >= value unlikelier than failure.

    Chernoff: ln Pr <= trials ln(1 - p + p e^a) + a^2 scale^2/2 - a value for every a > 0, which is at most
    log_failure for p up to expm1((log_failure + a value - a^2 scale^2/2)/trials)/expm1(a). Any a gives a
    valid bound; a search by thirds finds a good one.
    """
    if trials == 0 or value <= 0.0:
        return 0.0

    def at(log_a: float) -> float:
        a = math.exp(log_a)
        exponent = (log_failure + a * value - 0.5 * (a * scale) ** 2) / trials
        if exponent <= 0.0:
            return exponent  # no bound; rises towards where there is one
        return math.expm1(min(exponent, 600.0)) / math.expm1(a)

    low, high, pieces = math.log(1e-12), math.log(40.0), 60
    coarse = [at(low + (high - low) * i / pieces) for i in range(pieces + 1)]
    best = max(0.0, *coarse)
    centre = coarse.index(max(coarse))
    left, right = low + (high - low) * (centre - 1) / pieces, low + (high - low) * (centre + 1) / pieces
    for _ in range(40):
        third = (right - left) / 3
        if at(left + third) < at(right - third):
            left += third
        else:
            right -= third
    best = max(best, at(0.5 * (left + right)))
    # Rounding: the exponent is computed to about 1e-15 of its terms, of size log_failure / trials.
    slack = 1e-14 * (abs(log_failure) + abs(math.exp(left) * value)) / trials / math.expm1(math.exp(left))
    return min(1.0, max(0.0, best * (1.0 - 1e-12) - slack))


def bias_range(
    estimate: float, grid: float, scale: float, failure: float, records: int, known: int, attacker: str
) -> tuple[float, float]:
    """A range that holds the bias except with probability `failure`, for every bias and both challenges."""
    half = math.log(failure / 2.0)
    low_value, high_value = estimate - 0.5 * grid, estimate + 0.5 * grid
    if attacker == "passive":
        trials, shift = records - 1, 0
    else:
        trials, shift = records - known - 1, known
    low = _least_bias(low_value - shift - 1.0, trials, scale, half)
    # The subtraction may round down, by more than the margin of a least bias next to 0.
    high = min(1.0, math.nextafter(1.0 - _least_bias(trials - high_value, trials, scale, half), 2.0))
    return (low, high) if low <= high else (0.0, 1.0)


class CommonBias:
    """`unknown` records of one bias that lies somewhere in [low, high]; certified upper bounds of delta."""

    MOST_PIECES = 400

    def __init__(self, unknown: int, low: float, high: float) -> None:
        self.unknown = unknown
        self.low = low
        self.high = high

    def _piece(self, epsilon: float, noise: float, low: float, high: float, goal: float) -> float:
        """Upper bound of ln delta over [low, high]; not sharper than needed to see that it is above `goal`.

        A coin of any bias in it is, with probability 1 - lost, a coin of bias c, and else a constant that the
        attacker may be told: it needs (1 - lost) c <= low and (1 - lost) (1 - c) <= 1 - high. That holds for
        every c with the lost below; the c that makes both equal loses least. So delta is at most its
        expectation over the number of records lost.
        """
        m = self.unknown
        if high == low:
            return log_delta_upper(Binomial(m, low), epsilon, noise)
        nothing = log_delta_upper(Binomial(0, 0.5), epsilon, noise)
        coin = low / (1.0 - (high - low)) if high - low < 1.0 else 1.0
        if not 0.0 < coin < 1.0:
            return nothing
        lost = max((coin - low) / coin, (high - coin) / (1.0 - coin)) * (1.0 + 2.0**-50)
        if not lost < 1.0:
            return nothing
        # E delta(L) <= delta(l_0) + Pr[L > l_0] delta(l_1) + Pr[L > l_1] delta(l_2) + ..., whatever the l_i. They
        # only have to be good: the last so that what is beyond it cannot matter, even with nothing left unknown.
        steps = [_not_more(m, lost, t) for t in (20.0, max(20.0, nothing - goal + 8.0))]
        total = -math.inf
        beyond = 0.0
        for gone in (min(m, math.floor(m * lost + 4.5 * math.sqrt(m * lost * (1.0 - lost)))), *steps, m):
            total = _log_add(total, beyond + log_delta_upper(Binomial(m - gone, coin), epsilon, noise))
            if gone == m or total > goal:
                break
            beyond = _log_tail(m, lost, gone + 1)
        return min(total + 1e-12, 0.0)

    def holds(self, epsilon: float, noise: float, goal: float) -> bool:
        """Whether ln delta is certainly at most `goal` for every bias in the range."""
        stack = [(self.low, self.high)]
        for _ in range(self.MOST_PIECES):
            if not stack:
                return True
            low, high = stack.pop()
            if self._piece(epsilon, noise, low, high, goal) <= goal:
                continue
            middle = 0.5 * (low + high)
            if not low < middle < high:
                return False
            if log_delta_upper(Binomial(self.unknown, middle), epsilon, noise) > goal:
                return False
            stack += [(low, middle), (middle, high)]
        return not stack

    def least_noise(self, epsilon: float, goal: float, plain: float) -> float:
        """Noise, at most `plain`, that is enough for every bias in the range; within about 1 % of the least."""
        if self.low <= 0.0 or self.high >= 1.0 or self.unknown == 0:
            return plain  # a bias of 0 or 1 is no noise at all
        points = {self.low, self.high, min(max(0.5, self.low), self.high), 0.5 * (self.low + self.high)}

        def excess(noise: float) -> float:
            return max(log_delta_upper(Binomial(self.unknown, p), epsilon, noise) for p in points) - goal

        if excess(0.0) <= 0.0 and self.holds(epsilon, 0.0, goal):
            return 0.0
        # A bound of delta is a little above delta, so the points are asked for a little less than the goal: a
        # hundredth of delta, which costs less than a thousandth of noise, and more where that is not enough.
        slack = 0.01
        failed = 0.0
        while True:
            noise = solve_noise(lambda x, slack=slack: excess(x) + slack, plain)  # type: ignore[misc]
            if noise >= plain:
                return plain
            if noise > failed:
                if self.holds(epsilon, noise, goal):
                    return noise
                failed = noise
            slack *= 4.0


def _log_add(a: float, b: float) -> float:
    top, other = max(a, b), min(a, b)
    return top if other == -math.inf else top + math.log1p(math.exp(other - top))


def _not_more(n: int, p: float, t: float) -> int:
    """A number that Binomial(n, p) exceeds with probability e^-t or so (Bernstein); to choose by, not to prove."""
    return min(n, math.ceil(n * p + t / 3.0 + math.sqrt(t * t / 9.0 + 2.0 * t * n * p * (1.0 - p))))


def _log_tail(n: int, p: float, k: int) -> float:
    """Ln of an upper bound of Pr[Binomial(n, p) >= k], k > n p (Chernoff)."""
    # k ln(k/(n p)) + (n-k) ln((n-k)/(n q)), from the distance of k to n p: the two terms cancel.
    over = k - n * p
    exponent = k * math.log1p(over / (n * p))
    rest = (n - k) * math.log1p(-over / (n * (1.0 - p))) if k < n else 0.0
    # log1p and its argument are good to 4 roundings of it, and each term is of the size of k or n - k times that
    lost = 2.0**-50 * (abs(exponent) + abs(rest)) + 2.0**-50 * n * p * abs(math.log1p(over / (n * p)))
    return min(0.0, -(exponent + rest) + lost)


def complement(combined: float, estimate_scale: float) -> float:
    """Scale of the second release that makes both worth one of scale `combined`."""
    return 0.0 if combined == 0.0 else remaining_noise(combined, estimate_scale)


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is fixed before the data is looked at."""

    records: int
    known: int
    epsilon: float
    delta: float
    attacker: str
    estimate_share: float
    failure_share: float
    worst_case_epsilon: float

    @property
    def failure(self) -> float:
        """Probability that the range may miss the bias."""
        return self.failure_share * self.delta

    @property
    def target(self) -> float:
        """Delta left for the two releases together."""
        return delta_left(self.delta, self.failure)

    @property
    def plain(self) -> float:
        """Noise that satisfies the target against every attacker; more is never used."""
        return gaussian.sigma(epsilon=self.epsilon, delta=self.target)

    @property
    def estimate_scale(self) -> float:
        """Noise of the estimate."""
        return self.plain / math.sqrt(self.estimate_share)


def make_plan(
    records: Any,
    known: Any,
    epsilon: Any,
    delta: Any,
    attacker: Any,
    estimate_share: Any,
    failure_share: Any,
    worst_case_epsilon: Any,
) -> Plan:
    """Check all public arguments."""
    e = scalar("epsilon", checked_epsilon(epsilon))
    n, k = integer("records", records, least=1), integer("known", known)
    unknown_records(n, k)
    shares = {}
    for name, value, default in (
        ("estimate_share", estimate_share, ESTIMATE_SHARE),
        ("failure_share", failure_share, FAILURE_SHARE),
    ):
        shares[name] = default if value is None else scalar(name, open_probability(name, value))
    d = scalar("delta", open_probability("delta", delta))
    return Plan(
        n,
        k,
        e,
        d,
        choice("attacker", attacker, ATTACKERS),
        shares["estimate_share"],
        shares["failure_share"],
        worst_case(worst_case_epsilon, e),
    )


def check_estimate(plan: Plan) -> None:
    """What an estimate of the bias needs beside valid arguments."""
    if not plan.failure >= 1e-300:
        raise ValueError(f"delta times failure_share must be at least 1e-300, got {plan.failure!r}")
    # The noise of the estimate, and of the second release where the unknown records save nothing.
    samplable(plan.estimate_scale)
    second = complement(plan.plain, plan.estimate_scale)
    if not math.isinf(second):  # no second release then
        samplable(second)


def estimate_and_calibrate(plan: Plan, count: int, rng: samplers.InsecureTestRng | None) -> EstimatedCalibration:
    """The estimate from the (clamped) count, and the noise of the second release from the estimate."""
    first = plan.estimate_scale
    estimate = noisy(count, first, plan.records, rng)
    return calibrate_from_estimate(plan, estimate)


def calibrate_from_estimate(plan: Plan, estimate: float) -> EstimatedCalibration:
    """The noise of the second release; a function of public values and of the estimate alone."""
    first, plain = plan.estimate_scale, plan.plain
    grid = release_grid(first, plan.records)
    low, high = bias_range(estimate, grid, first, plan.failure, plan.records, plan.known, plan.attacker)
    law = CommonBias(plan.records - plan.known - 1, low, high)
    needed = law.least_noise(plan.epsilon, goal_of(plan.target), plain)
    floor = (
        0.0
        if math.isinf(plan.worst_case_epsilon)
        else gaussian.sigma(epsilon=plan.worst_case_epsilon, delta=plan.delta)
    )
    combined = min(max(needed, floor), plain)
    if combined == 0.0:
        limited_by = "nothing"
    elif combined >= plain:
        limited_by = "plain"
    else:
        limited_by = "worst case" if floor > needed else "partial knowledge"
    return EstimatedCalibration(
        noise_scale=complement(combined, first),
        estimate=estimate,
        estimate_scale=first,
        bias_estimate=min(max(estimate / plan.records, 0.0), 1.0),
        bias_range=(low, high),
        epsilon=plan.epsilon,
        delta=plan.delta,
        failure=plan.failure,
        combined_noise_scale=combined,
        gaussian_sigma=gaussian.sigma(epsilon=plan.epsilon, delta=plan.delta),
        attacker=plan.attacker,
        records=plan.records,
        known=plan.known,
        worst_case_epsilon=plan.worst_case_epsilon,
        limited_by=limited_by,
    )


def calibrate_unknown_bias(
    count: int,
    *,
    records: int,
    known: int,
    epsilon: float,
    delta: float,
    attacker: str = "passive",
    estimate_share: float | None = None,
    failure_share: float | None = None,
    worst_case_epsilon: float = math.inf,
    rng: samplers.InsecureTestRng | None = None,
) -> EstimatedCalibration:
    """Noise for a count whose bias has to be estimated from the count itself (Algorithm 2, made private).

    The estimate is itself a release of the count: ``estimate`` in the result. It and one release with the noise
    returned satisfy (epsilon, delta) together.

    Parameters
    ----------
    count : int
        The private count. A value outside 0..records is moved to the nearest end, without notice.
    records, known : int
        As for `count_delta`.
    epsilon : float, > 0
        Of everything together.
    delta : float, in (0, 1)
        Of everything together.
    attacker : {"passive", "active"}
        Whether the known records are drawn like the others or may have been chosen by the attacker. It matters
        only for the estimate of the bias: chosen records make it less certain.
    estimate_share : float, in (0, 1), optional
        Share of the precision (1/variance) of plain noise that the estimate takes, 0.5 by default.
    failure_share : float, in (0, 1), optional
        Share of delta for the event that the range found does not hold the bias, 0.01 by default.
    worst_case_epsilon : float, >= epsilon
        As for `calibrate`, for both releases together.
    rng : InsecureTestRng, optional
        For tests. By default the operating system's randomness.

    Returns
    -------
    EstimatedCalibration
        Depends on the count through the noisy estimate only.

    Notes
    -----
    For fixed bias p and first output y, what the second output adds falls with its noise; where p is in the
    range found from y the noise is at least what p needs, so these y contribute at most the delta of both
    releases with that noise; all others together at most the probability that the range misses p. With normal
    noise both releases are worth one, so their joint delta is `count_delta` and needs no composition theorem.
    Proof in the documentation.

    Examples
    --------
    >>> from dpcore import partial_knowledge as pk, samplers
    >>> r = pk.calibrate_unknown_bias(
    ...     300_000, records=10**6, known=5 * 10**5, epsilon=0.006, delta=1e-6, rng=samplers.InsecureTestRng(1)
    ... )
    >>> r.bias_range[0] < 0.3 < r.bias_range[1]
    True
    >>> 0 < r.combined_noise_scale < r.gaussian_sigma
    True
    """
    plan = make_plan(records, known, epsilon, delta, attacker, estimate_share, failure_share, worst_case_epsilon)
    check_estimate(plan)
    return estimate_and_calibrate(plan, private_count(count, plan.records), rng)
