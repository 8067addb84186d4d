"""The estimated sensitivity, with its guarantee, and what can be done with it."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from scipy import optimize

from dpcore import _validation as check
from dpcore._results import Result
from dpcore._rounding import downward, upward
from dpcore.sensitivity._evaluations import read_json, text_of, write_json
from dpcore.sensitivity._operating_point import METHODS

if TYPE_CHECKING:
    from dpcore.sensitivity._respond import RandomPrivateRelease


@dataclass(frozen=True, repr=False)
class SensitivityEstimate(Result):
    """A sampled bound on how much one record can change a target, that holds for most pairs of neighbours.

    Attributes
    ----------
    sensitivity : float
        The `order`-th smallest of `samples` sampled sensitivities, in the norm `norm`; infinite if too many
        evaluations gave NaN or infinity.
    samples, order, gamma, rho, method
        The operating point, see `operating_point`.
    records : int
        Number of records of a database.
    norm : str
        "l1", "l2", "sup" or the name of the user's own.
    target : str
        Name of the target.
    size : int
        How many numbers the target returns.
    evaluated : int
        Evaluations that decided the answer: `samples`, or fewer after an early stop.
    infinite : int
        How many of these were infinite.
    seed : int or None
        Gives the same estimate again; None if the record sampler has randomness of its own.
    shift : float
        Kullback-Leibler divergence that `shifted` has allowed for, already part of `gamma`.
    grid : str or None
        Fingerprint of the points at which functions were compared; None if the target returns numbers.
    """

    sensitivity: float
    samples: int
    order: int
    gamma: float
    rho: float | None
    method: str
    records: int
    norm: str
    target: str
    size: int
    evaluated: int
    infinite: int
    seed: int | None
    shift: float = 0.0
    grid: str | None = None

    @property
    def statement(self) -> str:
        """The guarantee in words."""
        law = "the sampled distribution"
        if self.shift > 0:
            law = f"any distribution Q with KL(sampled || Q) <= {self.shift:.6g}"
        exceed = (
            f"two databases of {self.records} records drawn from {law} that differ in one record change "
            f"{self.target} by more than {upward(self.sensitivity)} ({self.norm})"
        )
        if self.method == "confident":
            assert self.rho is not None
            return (
                f"With confidence {downward(1 - self.rho)} over the sample, {exceed} with probability at most "
                f"{upward(self.gamma)}."
            )
        return f"With probability at most {upward(self.gamma)} over databases and sample together, {exceed}."

    def __repr__(self) -> str:
        return (
            f"SensitivityEstimate(sensitivity={upward(self.sensitivity)}, gamma={upward(self.gamma)}, "
            f"samples={self.samples}, order={self.order}, method={self.method!r}, norm={self.norm!r})"
        )

    def shifted(self, *, divergence: float, method: str = "exact") -> SensitivityEstimate:
        """The same sensitivity under another distribution of the records, at a larger gamma.

        Parameters
        ----------
        divergence : float >= 0
            Bound on KL(P || Q) per record, P the sampled distribution and Q the other one.
        method : {"exact", "published"}
            See `shifted_gamma`.
        """
        tau = check.scalar("divergence", check.non_negative("divergence", divergence))
        if self.shift > 0:
            raise ValueError("the estimate has been shifted already; shift the original one")
        gamma = shifted_gamma(gamma=self.gamma, records=self.records, divergence=tau, method=method)
        return replace(self, gamma=gamma, shift=tau)

    def mechanism(
        self, mechanism_class: Any, *, epsilon: float, delta: float | None = None, **options: Any
    ) -> Any:
        """A mechanism scaled to this sensitivity, for many releases.

        Parameters
        ----------
        mechanism_class : class
            See `sample_then_respond`.
        epsilon, delta : float
            Of one release.
        **options
            For the mechanism.

        Notes
        -----
        Releases about the same database share one exceptional event: k of them are (k epsilon, k delta,
        gamma)-randomly differentially private, gamma is not multiplied. Estimates of different targets each
        have their own: their gammas add up.
        """
        from dpcore.sensitivity import _respond

        return _respond.build(
            mechanism_class,
            epsilon=epsilon,
            delta=delta,
            sensitivity=_respond.usable(self.sensitivity, self.infinite),
            size=self.size,
            norm=self.norm,
            options=options,
        )

    def respond(
        self,
        mechanism_class: Any,
        value: Any,
        *,
        epsilon: float,
        delta: float | None = None,
        rng: Any = None,
        **options: Any,
    ) -> RandomPrivateRelease:
        """Release `value`, the target on the private database, through a mechanism (Algorithm 2).

        Parameters
        ----------
        mechanism_class : class
            See `sample_then_respond`.
        value : float, array or function
            What the target returned on the private database.
        epsilon, delta : float
            Of this release.
        rng : InsecureTestRng, optional
            Predictable noise, for tests.
        **options
            For the mechanism.
        """
        from dpcore.sensitivity import _respond

        return _respond.respond(
            self, mechanism_class, value, epsilon=epsilon, delta=delta, rng=rng, options=options
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a JSON file; the file is replaced at once or not at all."""
        write_json(path, "sensitivity estimate", self.to_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SensitivityEstimate:
        """Read what `save` wrote."""
        fields = read_json(path, "sensitivity estimate")
        try:
            out = cls(
                sensitivity=_at_least_zero(fields["sensitivity"]),
                samples=check.integer("samples", fields["samples"], least=1),
                order=check.integer("order", fields["order"], least=1),
                gamma=check.scalar("gamma", check.open_probability("gamma", fields["gamma"])),
                rho=_optional_probability(fields["rho"]),
                method=check.choice("method", fields["method"], METHODS),
                records=check.integer("records", fields["records"], least=1),
                norm=text_of("norm", fields["norm"]),
                target=text_of("target", fields["target"]),
                size=check.integer("size", fields["size"]),
                evaluated=check.integer("evaluated", fields["evaluated"], least=1),
                infinite=check.integer("infinite", fields["infinite"]),
                seed=None if fields["seed"] is None else check.integer("seed", fields["seed"], most=2**128 - 1),
                shift=check.scalar("shift", check.non_negative("shift", fields["shift"])),
                grid=text_of("grid", fields["grid"]) if fields["grid"] is not None else None,
            )
            out._check_consistent()
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            text = f"{path} does not hold a sensitivity estimate: {type(error).__name__}: {error}"
            raise ValueError(text) from None
        return out

    def _check_consistent(self) -> None:
        """ValueError if the numbers cannot belong to one estimate, as after a slip in editing the file."""
        if not self.infinite <= self.evaluated <= self.samples or self.order > self.samples:
            raise ValueError(
                f"samples, order, evaluated, infinite contradict each other: {self.samples}, {self.order}, "
                f"{self.evaluated}, {self.infinite}"
            )
        if (self.rho is None) != (self.method == "exchangeable"):
            raise ValueError(f"rho={self.rho!r} contradicts method={self.method!r}")
        # What holds over pair and sample together; a confidence in the sample is another statement.
        least = (self.samples + 1 - self.order) / (self.samples + 1)
        if self.method != "confident" and not self.gamma >= least:
            raise ValueError(f"gamma must be at least {least!r} for this order, got {self.gamma!r}")


def _at_least_zero(value: Any) -> float:
    number = math.inf if value == "Infinity" else value
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not number >= 0:
        raise ValueError(f"sensitivity must be a number >= 0, got {value!r}")
    return float(number)


def _optional_probability(value: Any) -> float | None:
    return None if value is None else check.scalar("rho", check.open_probability("rho", value))


def shifted_gamma(*, gamma: float, records: int, divergence: float, method: str = "exact") -> float:
    """Probability of an exceptional pair when records come from Q although P was sampled (Proposition 8).

    Parameters
    ----------
    gamma : float in (0, 1)
        Probability under P, at most.
    records : int >= 1
        n; a pair of neighbours has n + 1 records.
    divergence : float >= 0
        Bound on KL(P || Q) per record.
    method : {"exact", "published"}
        "exact": the largest probability that an event of P-probability gamma can have under Q, given the
        divergence (n + 1) tau of the databases: kl(gamma, q) <= (n + 1) tau, kl the divergence of two coins.
        "published": gamma + sqrt((n + 1) tau / 2), by Pinsker's inequality; never smaller than the exact one.

    Returns
    -------
    float
        In (0, 1), rounded up.

    Raises
    ------
    ValueError
        If the guarantee would be empty (1 or more).

    Notes
    -----
    Data processing: the event A that a pair is exceptional has kl(P(A), Q(A)) <= KL(P^(n+1) || Q^(n+1)) =
    (n + 1) tau, and the largest such Q(A) increases with P(A) <= gamma. The body of the paper prints
    sqrt((n + 1) tau)/2 and its appendix sqrt((n + 1)/2) tau; both are misprints of sqrt((n + 1) tau/2).

    Examples
    --------
    >>> round(shifted_gamma(gamma=0.01, records=99, divergence=1e-4), 4)
    0.0311
    >>> round(shifted_gamma(gamma=0.01, records=99, divergence=1e-4, method="published"), 4)
    0.0807
    """
    gamma = check.scalar("gamma", check.open_probability("gamma", gamma))
    n = check.integer("records", records, least=1)
    tau = check.scalar("divergence", check.non_negative("divergence", divergence))
    check.choice("method", method, ("exact", "published"))
    total = (n + 1) * tau
    if total == 0:
        return gamma
    if not total <= 700:  # e^-700: what is left of the guarantee is below every double
        raise ValueError(
            f"divergence must leave something of the guarantee at {n} records: (records + 1) * divergence at most "
            f"700, got {total!r}"
        )
    result = (gamma + math.sqrt(total / 2)) * (1 + 2.0**-51)
    if method == "exact":
        # Both hold; the first loses its digits where `total` is about 1e-15.
        result = min(_largest_under_shift(gamma, total), result)
    if not result < 1:
        raise ValueError(
            f"divergence={tau!r} over {n + 1} records leaves no guarantee: gamma would be {result:.6g}"
        )
    return result


def _largest_under_shift(gamma: float, total: float) -> float:
    """Largest q with kl(gamma, q) <= total, rounded up."""
    # In the logarithm of 1 - q, which reaches any precision near q = 1. Each term is at most 1 + total and
    # good to a few ulp, so the allowance keeps the root on the safe side.
    allowance = (1 + total) * 2.0**-50

    def excess(survival: float) -> float:
        q = -math.expm1(survival)
        return gamma * math.log(gamma / q) + (1 - gamma) * (math.log1p(-gamma) - survival) - total

    high = math.log1p(-gamma)
    # kl(gamma, q) >= -1/e + (1 - gamma) log((1 - gamma)/(1 - q)), so the root lies above this end, with allowance.
    low = high - (total * (1 + 2.0**-40) + 1) / (1 - gamma)
    root = float(optimize.brentq(lambda s: excess(s) - allowance, low, high, xtol=1e-300, rtol=2.0**-50))
    return -math.expm1(root * (1 + 2.0**-49)) * (1 + 2.0**-51)
