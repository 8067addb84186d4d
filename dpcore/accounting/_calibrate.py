"""The smallest noise whose composition satisfies a target."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from dpcore._results import Result
from dpcore._validation import non_negative, open_probability, positive, probability, scalar
from dpcore.accounting._loss import PrivacyLoss, _engine

# Fifty halvings of a log-interval of any width reach neighbouring doubles.
_MOST_STEPS = 200


@dataclasses.dataclass(frozen=True)
class Calibration(Result):
    """What `calibrate` found: the parameter, and the delta it guarantees at the epsilon asked."""

    parameter: float
    epsilon: float
    delta: float
    delta_upper: float
    loss: PrivacyLoss
    evaluations: int

    @property
    def statement(self) -> str:
        """The guarantee in words."""
        return (
            f"with parameter {self.parameter!r} the composition is ({self.epsilon!r}, {self.delta!r})-"
            f"differentially private; its delta is at most {self.delta_upper!r}"
        )

    def __float__(self) -> float:
        return self.parameter


def calibrate(
    make: Callable[[float], PrivacyLoss],
    *,
    epsilon: float,
    delta: float,
    parameter_range: tuple[float, float],
    increasing: bool | None = None,
    relative_tolerance: float = 1e-9,
    engine: str = "auto",
) -> Calibration:
    """Find the least costly parameter for which ``make(parameter)`` is (`epsilon`, `delta`)-private.

    `make` describes one mechanism or a whole programme of releases as a function of one number: a noise
    scale (more is more private) or a budget, rate or number (more is less private). Of the parameters in
    `parameter_range` that satisfy the target, the one nearest to violating it is returned, always from the
    safe side: its delta has been evaluated and the upper bound is at most `delta`.

    Parameters
    ----------
    make : callable
        From a float to a `PrivacyLoss`, monotone in privacy.
    epsilon : float
        Finite, at least 0.
    delta : float
        In [0, 1].
    parameter_range : (float, float)
        Both > 0 and finite, increasing.
    increasing : bool, optional
        Whether a larger parameter is more private. Found out from the ends of the range by default.
    relative_tolerance : float
        How close to the boundary the parameter has to come, relative; in (0, 1).
    engine : {"auto", "spectral", "buckets"}
        See `PrivacyLoss.delta`.

    Returns
    -------
    Calibration
        ``.parameter`` is the answer, ``float()`` of the result too.

    Raises
    ------
    ValueError
        If no parameter in the range satisfies the target (the message says what the ends give).

    Examples
    --------
    >>> from dpcore import accounting
    >>> def training(sigma):
    ...     return accounting.from_subsampled_gaussian(sigma=sigma, rate=0.01) * 1000
    >>> found = accounting.calibrate(training, epsilon=1.0, delta=1e-6, parameter_range=(0.5, 20.0))
    >>> f"{found.parameter:.6f}"
    '1.562666'
    """
    if not callable(make):
        raise TypeError(f"make must be callable, got {make!r}")
    eps = scalar("epsilon", non_negative("epsilon", epsilon))
    target = scalar("delta", probability("delta", delta))
    try:
        low, high = parameter_range
    except (TypeError, ValueError):
        raise TypeError(f"parameter_range must be a pair of numbers, got {parameter_range!r}") from None
    low = scalar("parameter_range[0]", positive("parameter_range[0]", low))
    high = scalar("parameter_range[1]", positive("parameter_range[1]", high))
    if not low < high:
        raise ValueError(f"parameter_range must be increasing, got ({low!r}, {high!r})")
    tolerance = scalar("relative_tolerance", open_probability("relative_tolerance", relative_tolerance))
    _engine(engine)
    goal = math.log(target) if target > 0.0 else -math.inf
    count = 0

    def look(parameter: float) -> tuple[float, float, PrivacyLoss]:
        """Log of the upper bound, the bound itself, and the loss."""
        nonlocal count
        count += 1
        loss = make(parameter)
        if not isinstance(loss, PrivacyLoss):
            raise TypeError(f"make must return a PrivacyLoss, got {loss!r}")
        log = float(loss.log_delta(eps, engine=engine).upper)
        return log, (float(loss.delta(eps, engine=engine).upper) if log > -740.0 else 0.0), loss

    at_low, at_high = look(low), look(high)
    if increasing is None:
        increasing = at_high[0] <= at_low[0]
    safe, safe_at, risky, risky_at = (high, at_high, low, at_low) if increasing else (low, at_low, high, at_high)
    if not safe_at[1] <= target:
        raise ValueError(
            f"no parameter in [{low!r}, {high!r}] satisfies epsilon {eps!r}, delta {target!r}: "
            f"delta is {at_low[1]!r} at the lower and {at_high[1]!r} at the upper end"
        )
    if risky_at[1] <= target:
        safe, safe_at = risky, risky_at
    else:
        # Illinois' false position in (log parameter, log delta), which are nearly linear; every third step halves.
        a, fa = math.log(risky), _finite(risky_at[0] - goal)
        b, fb = math.log(safe), _finite(safe_at[0] - goal)
        side = 0
        for step in range(_MOST_STEPS):
            if safe == risky or abs(safe - risky) <= tolerance * safe:
                break
            middle = 0.5 * (a + b)
            if step % 3 != 2 and fa > fb:
                middle = b - fb * (b - a) / (fb - fa)
                # Aim a little to the safe side, so that the bracket closes from there.
                middle += 0.25 * tolerance * (1.0 if b > a else -1.0)
            parameter = math.exp(middle)
            if not min(safe, risky) < parameter < max(safe, risky):
                parameter = math.sqrt(safe) * math.sqrt(risky)
                if not min(safe, risky) < parameter < max(safe, risky):
                    break
            found = look(parameter)
            value = _finite(found[0] - goal)
            if found[1] <= target:
                safe, safe_at, b, fb = parameter, found, math.log(parameter), value
                fa = fa / 2.0 if side == 1 else fa
                side = 1
            else:
                risky, a, fa = parameter, math.log(parameter), value
                fb = fb / 2.0 if side == -1 else fb
                side = -1
    return Calibration(
        parameter=safe,
        epsilon=eps,
        delta=target,
        delta_upper=safe_at[1],
        loss=safe_at[2],
        evaluations=count,
    )


def _finite(x: float) -> float:
    return min(max(x, -1e6), 1e6) if not math.isnan(x) else -1e6
