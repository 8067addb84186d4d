"""How many samples, and which of them to take: the operating points of sensitivity sampling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from scipy import special

from dpcore import _validation as check
from dpcore._results import Result
from dpcore._rounding import downward, upward

METHODS = ("exchangeable", "confident", "published")
DEFAULT_CONFIDENCE = 0.99
MOST_SAMPLES = 2**40

# Slack for the rounding of a formula in double precision: each uses fewer than 16 operations (Lambert W
# counted with the few ulp of SciPy's iteration), so 2^-48 covers its relative error.
_ROUNDING = 2.0**-48


@dataclass(frozen=True, repr=False)
class OperatingPoint(Result):
    """How many sensitivities to sample and which order statistic of them to use.

    Attributes
    ----------
    samples : int
        m, the number of sampled sensitivities.
    order : int
        k: the estimate is the k-th smallest of the m.
    gamma : float
        Probability that the sensitivity of a random pair of neighbours exceeds the estimate, at most.
    rho : float or None
        Share of `gamma` spent on the sampling error: 1 - confidence for "confident", the parameter of
        Theorem 15 for "published", None for "exchangeable", which has no such share.
    method : str
        Which argument the guarantee rests on.
    """

    samples: int
    order: int
    gamma: float
    rho: float | None
    method: str

    @property
    def exact_gamma(self) -> float:
        """Pr[G > G_(k)] over pair and sample together, at most: (m + 1 - k)/(m + 1), whatever the method."""
        return (self.samples + 1 - self.order) / (self.samples + 1)

    @property
    def statement(self) -> str:
        """The guarantee in words."""
        what = f"the {_ordinal(self.order)} smallest of {self.samples} sampled sensitivities"
        if self.method == "confident":
            assert self.rho is not None
            return (
                f"With confidence {downward(1 - self.rho)} over the sample, {what} is exceeded by at most a share "
                f"{upward(self.gamma)} of random pairs of neighbouring databases."
            )
        tail = " (bound of Theorem 15, far from tight)" if self.method == "published" else ""
        return (
            f"A random pair of neighbouring databases exceeds {what} with probability at most "
            f"{upward(self.gamma)}, taken over the pair and the sample together{tail}."
        )

    def __repr__(self) -> str:
        rho = "None" if self.rho is None else f"{self.rho:.6g}"
        return (
            f"OperatingPoint(samples={self.samples}, order={self.order}, gamma={upward(self.gamma)}, rho={rho}, "
            f"method={self.method!r})"
        )


def _ordinal(k: int) -> str:
    suffix = "th" if k % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(k % 10, "th")
    return f"{k}{suffix}"


def operating_point(
    *,
    gamma: float | None = None,
    samples: int | None = None,
    method: str = "exchangeable",
    confidence: float | None = None,
    evaluations_per_second: float | None = None,
    seconds: float | None = None,
) -> OperatingPoint:
    """Number of samples and order statistic that give a wanted guarantee, or the guarantee a budget buys.

    Parameters
    ----------
    gamma : float in (0, 1), optional
        Accepted probability that a random pair of neighbours is more sensitive than the estimate. Alone: the
        fewest samples that reach it.
    samples : int >= 1, optional
        Affordable number of samples. Alone: the smallest `gamma` they reach. With `gamma`: the smallest order
        statistic, hence the smallest sensitivity estimate, that still reaches `gamma`.
    method : {"exchangeable", "confident", "published"}
        "exchangeable": the new pair and the sampled ones are exchangeable, so Pr[G <= G_(k)] >= k/(m + 1) for
        every distribution; the guarantee is over pair and sample together, like that of Theorem 15.
        "confident": with probability `confidence` over the sample, Pr[G <= G_(k)] >= 1 - gamma holds for the
        estimate in hand, by the Beta(k, m + 1 - k) law of order statistics (Wilks).
        "published": Table 1 of Rubinstein and Aldà (2017), through the Dvoretzky-Kiefer-Wolfowitz inequality:
        the same guarantee as "exchangeable" with many times the samples.
    confidence : float in (0, 1), optional
        For method "confident" only; 0.99 if not given.
    evaluations_per_second, seconds : float > 0, optional
        A budget of time in place of `samples`: their product, rounded down.

    Returns
    -------
    OperatingPoint

    Raises
    ------
    ValueError
        If an argument is outside its domain, or the samples are too few for `gamma`; the message says how
        many are needed.

    Notes
    -----
    A guaranteed probability is compared with `gamma` after correct rounding to a double, so that
    ``gamma=1/3`` means one third.

    References
    ----------
    Rubinstein, B. I. P. and Aldà, F. (2017). Pain-free random differential privacy with sensitivity sampling,
    Theorem 15, Table 1, Corollaries 20 to 22. Wilks, S. S. (1941). Determination of sample sizes for setting
    tolerance limits.

    Examples
    --------
    >>> operating_point(gamma=0.01)
    OperatingPoint(samples=99, order=99, gamma=0.01, rho=None, method='exchangeable')
    >>> operating_point(gamma=0.01, method="published").samples
    41971
    >>> operating_point(gamma=0.05, method="confident", confidence=0.99).samples
    90
    >>> operating_point(samples=1000).gamma
    0.0009990009990009992
    """
    check.choice("method", method, METHODS)
    if gamma is not None:
        gamma = check.scalar("gamma", check.open_probability("gamma", gamma))
    if (evaluations_per_second is None) != (seconds is None):
        raise ValueError("evaluations_per_second and seconds must be given together")
    if seconds is not None:
        if samples is not None:
            raise ValueError("samples must not be given together with evaluations_per_second and seconds")
        rate = check.scalar(
            "evaluations_per_second", check.positive("evaluations_per_second", evaluations_per_second)
        )
        samples = _affordable(rate, check.scalar("seconds", check.positive("seconds", seconds)))
    elif samples is not None:
        samples = check.integer("samples", samples, least=1, most=MOST_SAMPLES)
    if gamma is None and samples is None:
        raise ValueError("gamma, samples, or evaluations_per_second and seconds must be given")
    if method == "confident":
        confidence = check.scalar(
            "confidence",
            check.open_probability("confidence", DEFAULT_CONFIDENCE if confidence is None else confidence),
        )
        return _confident(gamma, samples, confidence)
    if confidence is not None:
        raise ValueError(f"confidence must be given for method 'confident' only, got method {method!r}")
    return (_exchangeable if method == "exchangeable" else _published)(gamma, samples)


def _affordable(rate: float, seconds: float) -> int:
    samples = int(min(rate * seconds, float(MOST_SAMPLES)))
    if samples < 1:
        raise ValueError(
            f"evaluations_per_second * seconds must be at least 1, got {rate!r} * {seconds!r} = {rate * seconds!r}"
        )
    return samples


def _too_few(samples: int, gamma: float, needed: int, method: str) -> ValueError:
    return ValueError(f"samples must be at least {needed} for gamma={gamma!r} with {method}, got {samples}")


# --- exchangeable -------------------------------------------------------------------------------------------


def _exchangeable(gamma: float | None, samples: int | None) -> OperatingPoint:
    if gamma is None:
        assert samples is not None
        # Rounded up, so that the double is not below the guarantee.
        return OperatingPoint(samples, samples, _rounded_up(1, samples + 1), None, "exchangeable")
    if gamma * MOST_SAMPLES < 2:
        raise ValueError(f"gamma must be at least {2.0 / MOST_SAMPLES!r}, got {gamma!r}")
    # missed/(m + 1) is the guaranteed probability; int/int rounds correctly.
    needed = max(math.floor(1 / Fraction(gamma)) - 1, 1)
    while 1 / (needed + 1) > gamma:
        needed += 1
    if samples is None:
        samples = needed
    elif samples < needed:
        raise _too_few(samples, gamma, needed, "method 'exchangeable'")
    missed = math.ceil(Fraction(gamma) * (samples + 1))
    while missed / (samples + 1) > gamma:
        missed -= 1
    return OperatingPoint(samples, samples + 1 - missed, gamma, None, "exchangeable")


def _rounded_up(numerator: int, denominator: int) -> float:
    value = numerator / denominator
    return value if Fraction(value) >= Fraction(numerator, denominator) else math.nextafter(value, math.inf)


# --- confident ----------------------------------------------------------------------------------------------


def _confident(gamma: float | None, samples: int | None, confidence: float) -> OperatingPoint:
    rho = 1 - confidence
    if gamma is None:
        assert samples is not None
        gamma = _smallest_confident_gamma(samples, confidence)
        return OperatingPoint(samples, samples, gamma, rho, "confident")
    estimate = math.log(rho) / math.log1p(-gamma)
    if not estimate < MOST_SAMPLES:
        raise ValueError(f"gamma={gamma!r} needs more than {MOST_SAMPLES} samples at confidence {confidence!r}")
    needed = max(math.floor(estimate) - 1, 1)
    while not _is_confident(needed, needed, gamma, confidence):
        needed += 1
    if samples is None:
        samples = needed
    elif samples < needed:
        raise _too_few(samples, gamma, needed, f"method 'confident', confidence={confidence!r}")
    return OperatingPoint(samples, _smallest_order(samples, gamma, confidence), gamma, rho, "confident")


def _is_confident(samples: int, order: int, gamma: float, confidence: float) -> bool:
    """Whether Pr[Beta(order, samples + 1 - order) >= 1 - gamma] >= confidence, decided on the safe side.

    The left side is Pr[Binomial(samples, gamma) > samples - order]; the complement is what is computed.
    """
    allowed = samples - order
    # In gamma itself: through 1 - gamma, as the binomial distribution function has it, the rounding of that
    # difference is raised to the power of the samples (an error of 5e-6 at 2e9 samples). This form was within
    # 1e-11 of 40-digit sums for up to 1e11 samples. Closer cases are settled by exact rationals when they are
    # short, and refused (which costs one more sample) when they are not.
    failure = float(special.betaincc(allowed + 1, samples - allowed, gamma))
    limit = 1 - confidence
    slack = 1e-9 * limit
    if failure <= limit - slack:
        return True
    # 20000 terms of about `samples` words are some milliseconds.
    if failure > limit + slack or samples > 2000 or samples * (allowed + 1) > 20000:
        return False
    p = Fraction(gamma)
    exact = sum(math.comb(samples, j) * p**j * (1 - p) ** (samples - j) for j in range(allowed + 1))
    return exact <= 1 - Fraction(confidence)


def _smallest_order(samples: int, gamma: float, confidence: float) -> int:
    low, high = 0, samples  # not confident at low (0 is no order statistic), confident at high
    while high - low > 1:
        middle = (low + high) // 2
        if _is_confident(samples, middle, gamma, confidence):
            high = middle
        else:
            low = middle
    return high


def _smallest_confident_gamma(samples: int, confidence: float) -> float:
    """1 - (1 - confidence)^(1/samples), rounded up to a gamma that passes the check."""
    gamma = -math.expm1(math.log1p(-confidence) / samples)
    step = _ROUNDING
    while True:
        if not gamma < 1:
            raise ValueError(f"samples must be more than {samples} for confidence={confidence!r}")
        if _is_confident(samples, samples, gamma, confidence):
            return gamma
        gamma *= 1 + step
        step *= 2


# --- published ----------------------------------------------------------------------------------------------


def _published(gamma: float | None, samples: int | None) -> OperatingPoint:
    if samples is None:
        assert gamma is not None
        samples, rho = _published_samples(gamma)
        # k = m: m (gamma - rho - sqrt(log(1/rho)/(2m))) <= (gamma - rho)(m - m0) < 1, m0 before rounding up.
        return OperatingPoint(samples, samples, gamma, rho, "published")
    rho = math.exp(_lambert_w(-1 / (4 * samples)) / 2)
    smallest = (rho + math.sqrt(math.log(1 / rho) / (2 * samples))) * (1 + _ROUNDING)
    if gamma is None:
        if not smallest < 1:
            raise ValueError(f"samples must be at least 2 for method 'published', got {samples}")
        return OperatingPoint(samples, samples, smallest, rho, "published")
    if gamma < smallest:
        needed = _published_samples(gamma)[0]
        if samples < needed:
            raise _too_few(samples, gamma, needed, "method 'published'")
        # Within a rounding of the boundary, where rows 1 and 2 of Table 1 meet.
        return OperatingPoint(samples, samples, gamma, _published_samples(gamma)[1], "published")
    order = samples * (1 - gamma + smallest)
    return OperatingPoint(samples, min(math.ceil(order), samples), gamma, rho, "published")


def _published_samples(gamma: float) -> tuple[int, float]:
    rho = math.exp(_lambert_w(-gamma / (2 * math.sqrt(math.e))) + 0.5)
    needed = math.log(1 / rho) / (2 * (gamma - rho) ** 2) * (1 + _ROUNDING)
    if not needed < MOST_SAMPLES:
        raise ValueError(f"gamma={gamma!r} needs more than {MOST_SAMPLES} samples with method 'published'")
    return math.ceil(needed), rho


def _lambert_w(x: float) -> float:
    """The real branch W_{-1} on [-1/e, 0)."""
    value: Any = special.lambertw(x, -1)
    return float(value.real)
