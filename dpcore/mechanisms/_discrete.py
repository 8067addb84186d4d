"""Discrete Laplace and discrete Gaussian mechanisms: integers in, integers out."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dpcore import _core, _validation
from dpcore._core import InsecureTestRng
from dpcore._rounding import upward
from dpcore._validation import IntArray
from dpcore.mechanisms._base import (
    LEAST_POSITIVE,
    NOTHING_STATED,
    ExpectedError,
    Mechanism,
    NoiseInterval,
    between_neighbours,
    checked_level,
    checked_neighbours,
    checked_norm,
    normal_half_width,
    one_of,
    optional_positive,
    root_up,
    set_fields,
    stated_epsilon,
    up,
    whole,
)
from dpcore.samplers._arguments import (
    GREATEST_SCALE,
    LEAST_INT64,
    LEAST_SCALE,
    MOST_INT64,
    integer_scale,
    private_integers,
    source_of,
)

if TYPE_CHECKING:
    from dpcore.accounting import PrivacyLoss

_GREATEST_SENSITIVITY = 2**53


def _release(mechanism: Any, value: Any, rng: Any, one: Any, many: Any) -> int | IntArray:
    source = source_of(rng)
    values = private_integers("value", value)
    if mechanism.dimension != 1 and (isinstance(values, int) or values.shape[-1] != mechanism.dimension):
        shape = () if isinstance(values, int) else values.shape
        raise ValueError(
            f"value must be an array whose last axis has length {mechanism.dimension}, got shape {shape}"
        )
    if isinstance(values, int):
        released: int = one(mechanism.scale, values, source)
        return released
    out = np.empty_like(values)
    many(mechanism.scale, values, out, source)
    return out


@dataclasses.dataclass(frozen=True, init=False)
class DiscreteLaplace(Mechanism):
    """Adds integer noise with mass proportional to exp(-abs(k) / scale): epsilon-differential privacy for counts.

    Parameters
    ----------
    epsilon : float, optional
        Finite, > 0. Either this or `scale`.
    sensitivity : int
        A whole number of at least 1: largest distance between the true values of neighbouring data sets. May only
        be left out when `scale` is given; then the mechanism makes no statement about privacy.
    scale : float, optional
        In [1e-3, 1e15].
    dimension : int
        Length of a vector that is released as a whole. With 1, the default, an array is released element by
        element, each a query of its own.
    norm : {"l1", "linf"}, optional
        Norm in which `sensitivity` is measured; must be given for vectors.
    neighbours : {"add_remove", "replace"}, optional
        Relation for which the sensitivity was computed; named in the statement.

    Examples
    --------
    >>> from dpcore.mechanisms import DiscreteLaplace
    >>> counts = DiscreteLaplace(epsilon=1.0, sensitivity=1)
    >>> type(counts.release(1234))
    <class 'int'>
    >>> counts.interval(0.95).half_width
    3.0
    """

    epsilon: float | None
    sensitivity: int | None
    scale: float
    dimension: int
    norm: str
    neighbours: str | None

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        sensitivity: int | None = None,
        scale: float | None = None,
        dimension: int = 1,
        norm: str | None = None,
        neighbours: str | None = None,
    ) -> None:
        which = one_of(epsilon=epsilon, scale=scale)
        budget = optional_positive("epsilon", epsilon)
        size = _validation.integer("dimension", dimension, least=1)
        measure = checked_norm(norm, size)
        if measure == "l2":
            raise ValueError("norm must be 'l1' or 'linf' for the discrete Laplace mechanism, got 'l2'")
        distance = self._distance(sensitivity, which)
        l1 = None if distance is None else distance * (size if measure == "linf" else 1)
        if budget is not None and l1 is not None:
            scale = integer_scale("sensitivity / epsilon", up(Fraction(l1) / Fraction(budget)))
        else:
            scale = integer_scale("scale", scale)
            budget = None if l1 is None else stated_epsilon(Fraction(l1), scale)
        set_fields(
            self,
            epsilon=budget,
            sensitivity=distance,
            scale=scale,
            dimension=size,
            norm=measure,
            neighbours=checked_neighbours(neighbours),
        )

    @staticmethod
    def _distance(sensitivity: Any, which: str) -> int | None:
        if sensitivity is None:
            if which == "epsilon":
                raise TypeError("sensitivity must be given with epsilon")
            return None
        return whole("sensitivity", sensitivity, least=1, most=_GREATEST_SENSITIVITY)

    def release(self, value: ArrayLike, rng: InsecureTestRng | None = None) -> int | IntArray:
        """Release an integer, an array of integers, or (``dimension > 1``) vectors along the last axis.

        Parameters
        ----------
        value : int or array of int
            Private. Results beyond int64 saturate; that is post-processing and costs no privacy.
        rng : InsecureTestRng, optional
            A predictable generator for tests.
        """
        if type(value) is int and rng is None and self.dimension == 1 and LEAST_INT64 <= value <= MOST_INT64:
            return _core.sample_discrete_laplace_add(self.scale, value, None)
        return _release(
            self, value, rng, _core.sample_discrete_laplace_add, _core.sample_discrete_laplace_add_fill
        )

    def error(self) -> ExpectedError:
        """Expected absolute (1 / sinh(1/scale)) and squared (1 / (2 sinh(1/(2 scale))**2)) error."""
        x = 1 / self.scale
        if x > 700:
            return ExpectedError(LEAST_POSITIVE, LEAST_POSITIVE)
        slack = 1 + 1e-14 * (1 + x)  # the rounding of x counts x times in exp(-x)
        return ExpectedError(slack / math.sinh(x), slack / (2 * math.sinh(x / 2) ** 2))

    def interval(self, level: float) -> NoiseInterval:
        """Whole half width w with Pr[abs(noise) <= w] >= level; the smallest, unless rounding cannot tell."""
        checked = checked_level(level)
        # Pr[abs(noise) > w] = 2 q**(w + 1) / (1 + q), q = exp(-1/scale), and 2 / (1 + q) = 1 / (1 - (1 - q)/2)
        needed = -math.log1p(math.expm1(-1 / self.scale) / 2) - math.log1p(-checked)
        # Both terms are positive and err by parts in 10^15; where that leaves two candidates, the wider one.
        width = max(0, math.ceil(self.scale * needed * (1 + 1e-14) - 1))
        return NoiseInterval(checked, float(width))

    def privacy_loss(self) -> PrivacyLoss:
        """Privacy loss of one release, at the worst difference of the true values in a single coordinate."""
        if self.sensitivity is None:
            raise ValueError("a mechanism built without sensitivity has no privacy loss")
        from dpcore import accounting

        l1 = self.sensitivity * (self.dimension if self.norm == "linf" else 1)
        return accounting.from_discrete_laplace(scale=self.scale, sensitivity=l1)

    @property
    def statement(self) -> str:
        """The guarantee in words."""
        if self.epsilon is None or self.sensitivity is None:
            return f"Discrete Laplace noise of scale {upward(self.scale)}; {NOTHING_STATED}"
        each = f"Each vector of {self.dimension} integers" if self.dimension > 1 else "Each integer"
        return (
            f"{each} released is {upward(self.epsilon)}-differentially private "
            f"{between_neighbours(self.neighbours, self.sensitivity)} "
            f"(discrete Laplace noise of scale {upward(self.scale)})."
        )


def concentrated_delta(rho: float, epsilon: float) -> float:
    """A delta for which rho-zero-concentrated privacy gives (epsilon, delta)-privacy.

    The bound ``exp((a - 1)(a rho - epsilon)) / (a - 1) * (1 - 1/a)**a`` holds for every order a > 1 (Canonne,
    Kamath and Steinke 2020, corollary 13), so whichever order the search ends at is safe.
    """

    def log_bound(order: float) -> float:
        return (order - 1) * (order * rho - epsilon) - math.log(order - 1) + order * math.log1p(-1 / order)

    low, high = 1 + 1e-9, 2 + 2 * (epsilon + 60) / rho
    for _ in range(200):  # golden section on the logarithm of order - 1
        a = (low - 1) ** 0.618 * (high - 1) ** 0.382 + 1
        b = (low - 1) ** 0.382 * (high - 1) ** 0.618 + 1
        low, high = (low, b) if log_bound(a) < log_bound(b) else (a, high)
    order = (low + high) / 2
    slack = 1e-13 * (2 + abs((order - 1) * order * rho) + abs((order - 1) * epsilon))
    return math.exp(min(0.0, log_bound(order) + slack))


@dataclasses.dataclass(frozen=True, init=False)
class DiscreteGaussian(Mechanism):
    """Adds integer noise with mass proportional to exp(-k**2 / (2 sigma**2)): (epsilon, delta)-privacy for counts.

    A single integer is calibrated by the exact loss (`dpcore.accounting.from_discrete_gaussian`); a vector by
    concentrated differential privacy, rho = sensitivity**2 / (2 sigma**2), which holds for every split of the
    sensitivity over the coordinates.

    Parameters
    ----------
    epsilon, delta : float, optional
        epsilon > 0, delta in (0, 1). Either both or `sigma`.
    sensitivity : int or float
        Largest distance between the true values of neighbouring data sets: a whole number of at least 1 for single
        integers, any number >= 1 for vectors. May only be left out when `sigma` is given; then the mechanism makes
        no statement about privacy.
    sigma, scale : float, optional
        In [1e-3, 1e15]; two names for one argument.
    dimension, norm, neighbours
        As for `dpcore.mechanisms.Laplace`.

    Examples
    --------
    >>> from dpcore.mechanisms import DiscreteGaussian
    >>> histogram = DiscreteGaussian(epsilon=1.0, delta=1e-6, sensitivity=1, dimension=4, norm="l2")
    >>> histogram.release([5, 0, 17, 3]).dtype
    dtype('int64')
    """

    epsilon: float | None
    delta: float | None
    sensitivity: float | None
    scale: float
    dimension: int
    norm: str
    neighbours: str | None

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        sensitivity: float | None = None,
        sigma: float | None = None,
        scale: float | None = None,
        dimension: int = 1,
        norm: str | None = None,
        neighbours: str | None = None,
    ) -> None:
        which = one_of(epsilon=epsilon, sigma=sigma, scale=scale)
        if (delta is None) == (which == "epsilon"):
            raise TypeError("delta must be given with epsilon, and only with it")
        budget = optional_positive("epsilon", epsilon)
        failure = (
            None if delta is None else _validation.scalar("delta", _validation.open_probability("delta", delta))
        )
        size = _validation.integer("dimension", dimension, least=1)
        measure = checked_norm(norm, size)
        if sensitivity is None and which == "epsilon":
            raise TypeError("sensitivity must be given with epsilon")
        distance: float | None = None
        if sensitivity is not None:
            if size == 1:
                distance = whole("sensitivity", sensitivity, least=1, most=_GREATEST_SENSITIVITY)
            else:
                rule = f"a number in [1, {_GREATEST_SENSITIVITY}]"
                distance = _validation.scalar(
                    "sensitivity", _validation.real("sensitivity", sensitivity, rule, 1, _GREATEST_SENSITIVITY)
                )
        set_fields(
            self,
            epsilon=budget,
            delta=failure,
            sensitivity=distance,
            scale=math.nan,
            dimension=size,
            norm=measure,
            neighbours=checked_neighbours(neighbours),
        )
        if budget is None or failure is None:
            chosen = integer_scale(which, sigma if which == "sigma" else scale)
        else:
            chosen = integer_scale("sigma", self._calibrated(budget, failure))
        set_fields(self, scale=chosen)

    @property
    def sigma(self) -> float:
        """The scale of the noise; its standard deviation is at most this."""
        return self.scale

    @property
    def l2_sensitivity(self) -> float | None:
        """L2 sensitivity, an upper bound."""
        if self.sensitivity is None:
            return None
        factor = root_up(self.dimension) if self.norm == "linf" else 1.0
        return up(Fraction(self.sensitivity) * Fraction(factor))

    def _calibrated(self, epsilon: float, delta: float) -> float:
        distance = self.l2_sensitivity
        assert distance is not None
        if self.dimension == 1:
            from dpcore import accounting, gaussian

            near = gaussian.sigma(epsilon=epsilon, delta=delta, sensitivity=distance)
            low, high = max(LEAST_SCALE * 10, near / 2), min(GREATEST_SCALE, 2 * near + 1)
            shift = int(distance)
            found = accounting.calibrate(
                lambda s: accounting.from_discrete_gaussian(sigma=s, sensitivity=shift),
                epsilon=epsilon,
                delta=delta,
                parameter_range=(low, high),
                increasing=True,
            )
            return float(found.parameter)
        low, high = 1e-300, 1.0  # rho: larger is less private
        while concentrated_delta(high, epsilon) <= delta and high < 1e6:
            high *= 2
        for _ in range(2000):
            middle = math.sqrt(low * high) if high > 4 * low else (low + high) / 2
            if not low < middle < high:
                break
            if concentrated_delta(middle, epsilon) <= delta:
                low = middle
            else:
                high = middle
        return math.nextafter(distance / math.sqrt(2 * low) * (1 + 1e-15), math.inf)

    def release(self, value: ArrayLike, rng: InsecureTestRng | None = None) -> int | IntArray:
        """Release an integer, an array of integers, or (``dimension > 1``) vectors along the last axis.

        Parameters
        ----------
        value : int or array of int
            Private. Results beyond int64 saturate; that is post-processing and costs no privacy.
        rng : InsecureTestRng, optional
            A predictable generator for tests.
        """
        if type(value) is int and rng is None and self.dimension == 1 and LEAST_INT64 <= value <= MOST_INT64:
            return _core.sample_discrete_gaussian_add(self.scale, value, None)
        return _release(
            self, value, rng, _core.sample_discrete_gaussian_add, _core.sample_discrete_gaussian_add_fill
        )

    def _tail_sums(self, reach: int) -> tuple[Any, Any]:
        k = np.arange(reach + 1)
        return k, np.exp(-0.5 * (k / self.scale) ** 2)

    def error(self) -> ExpectedError:
        """Expected absolute and squared error; from the sums below sigma = 1000, from the normal law beyond."""
        s = self.scale
        if s <= 1000:
            k, w = self._tail_sums(math.ceil(40 * s) + 2)
            total = 2 * w.sum() - 1
            return ExpectedError(
                max(float(2 * (k * w).sum() / total) * (1 + 1e-12), LEAST_POSITIVE),
                max(float(2 * (k * k * w).sum() / total) * (1 + 1e-12), LEAST_POSITIVE),
            )
        # The variance is below sigma^2, and the absolute moment below sigma sqrt(2/pi) (Euler-Maclaurin: the
        # sum of k exp(-k^2/(2 sigma^2)) over k > 0 is sigma^2 - 1/12 + ..., to be divided by sigma sqrt(pi/2)).
        return ExpectedError(s * math.sqrt(2 / math.pi) * (1 + 1e-12), s * s * (1 + 1e-12))

    def interval(self, level: float) -> NoiseInterval:
        """Whole half width w with Pr[abs(noise) <= w] >= level; the smallest one below sigma = 1000."""
        checked = checked_level(level)
        if self.scale <= 1000:
            _, w = self._tail_sums(math.ceil(40 * self.scale) + 2)
            beyond = 2 * np.append(np.cumsum(w[::-1])[::-1], 0.0)[1:]  # mass above each w, both sides
            enough = beyond / (2 * w.sum() - 1) * (1 + 1e-12) <= (1 - checked) * (1 - 1e-12)
            return NoiseInterval(checked, float(np.argmax(enough)))
        # Pr[noise >= w + 1] is below the normal tail from w on, the weights being decreasing.
        return NoiseInterval(checked, float(math.ceil(self.scale * normal_half_width(checked)) + 1))

    def privacy_loss(self) -> PrivacyLoss:
        """Privacy loss of one release; of a vector, its (epsilon, delta) promise."""
        if self.sensitivity is None:
            raise ValueError("a mechanism built without sensitivity has no privacy loss")
        from dpcore import accounting

        if self.dimension == 1:
            return accounting.from_discrete_gaussian(sigma=self.scale, sensitivity=int(self.sensitivity))
        if self.epsilon is None or self.delta is None:
            raise ValueError(
                "a vector mechanism built from sigma states concentrated privacy only (see .statement)"
            )
        return accounting.from_approximate(epsilon=self.epsilon, delta=self.delta)

    @property
    def statement(self) -> str:
        """The guarantee in words."""
        noise = f"discrete Gaussian noise of scale {upward(self.scale)}"
        distance = self.l2_sensitivity
        if distance is None or self.sensitivity is None:
            return f"D{noise[1:]}; {NOTHING_STATED}"
        each = f"Each vector of {self.dimension} integers" if self.dimension > 1 else "Each integer"
        if self.epsilon is None:
            rho = up((Fraction(distance) / Fraction(self.scale)) ** 2 / 2)
            promise = f"{upward(rho)}-zero-concentrated differentially private"
        else:
            promise = f"({upward(self.epsilon)}, {upward(self.delta or 0.0)})-differentially private"
        return f"{each} released is {promise} {between_neighbours(self.neighbours, self.sensitivity)} ({noise})."
