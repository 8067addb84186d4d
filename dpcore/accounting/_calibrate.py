"""The smallest noise whose composition satisfies a target."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from dpcore._results import Result
from dpcore._validation import flag, non_negative, open_probability, positive, probability, scalar, shown
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
        raise TypeError(f"parameter_range must be a pair of numbers, got {shown(parameter_range)}") from None
    low = scalar("parameter_range[0]", positive("parameter_range[0]", low))
    high = scalar("parameter_range[1]", positive("parameter_range[1]", high))
    if not low < high:
        raise ValueError(f"parameter_range must be increasing, got ({low!r}, {high!r})")
    tolerance = scalar("relative_tolerance", open_probability("relative_tolerance", relative_tolerance))
    _engine(engine)
    if increasing is not None:
        increasing = flag("increasing", increasing)
    # delta.upper is exp(log_delta.upper) times at most 1 + 2e-15: what satisfies this goal satisfies the target.
    goal = math.log(target) * (1.0 + 1e-15) - 4e-15 if target > 0.0 else -math.inf
    count = 0

    def look(parameter: float) -> tuple[float, PrivacyLoss]:
        """Log of the upper bound of delta, less the goal; and the loss."""
        nonlocal count
        count += 1
        loss = make(parameter)
        if not isinstance(loss, PrivacyLoss):
            raise TypeError(f"make must return a PrivacyLoss, got {loss!r}")
        log = float(loss.log_delta(eps, engine=engine).upper)
        return (log - goal if log > -math.inf else -math.inf), loss

    at_low, at_high = look(low), look(high)
    if increasing is None:
        increasing = at_high[0] <= at_low[0]
    safe, (f_safe, loss), risky, (f_risky, _) = (
        (high, at_high, low, at_low) if increasing else (low, at_low, high, at_high)
    )
    if not f_safe <= 0.0:
        ends = [math.exp(f + goal) if target > 0.0 else math.nan for f in (at_low[0], at_high[0])]
        raise ValueError(
            f"no parameter in [{low!r}, {high!r}] satisfies epsilon {eps!r}, delta {target!r}: "
            f"delta is {ends[0]!r} at the lower and {ends[1]!r} at the upper end"
        )
    if f_risky <= 0.0:
        safe, loss = risky, at_low[1] if increasing else at_high[1]
    else:
        safe, loss = _close_in(look, safe, _finite(f_safe), loss, risky, _finite(f_risky), tolerance)
    return Calibration(
        parameter=safe,
        epsilon=eps,
        delta=target,
        delta_upper=float(loss.delta(eps, engine=engine).upper),
        loss=loss,
        evaluations=count,
    )


def _close_in(
    look: Callable[[float], tuple[float, PrivacyLoss]],
    safe: float,
    f_safe: float,
    loss: PrivacyLoss,
    risky: float,
    f_risky: float,
    tolerance: float,
) -> tuple[float, PrivacyLoss]:
    """Illinois' false position in (log parameter, log delta), where the curve is nearly straight."""
    a, b = math.log(risky), math.log(safe)
    weight_a = weight_b = 1.0
    width, slow = abs(b - a), 0
    for _ in range(_MOST_STEPS):
        if abs(safe - risky) <= tolerance * safe:
            break
        fa, fb = f_risky * weight_a, f_safe * weight_b
        middle = b - fb * (b - a) / (fb - fa) if fa > fb and slow < 3 else 0.5 * (a + b)
        # Next to an end, step over the root: the bracket closes from both sides.
        reach = math.copysign(0.8 * tolerance, b - a)
        if abs(middle - b) < abs(reach):
            middle = b - reach
        elif abs(middle - a) < abs(reach):
            middle = a + reach
        parameter = math.exp(middle)
        if not min(safe, risky) < parameter < max(safe, risky):
            parameter = math.sqrt(safe) * math.sqrt(risky)
            if not min(safe, risky) < parameter < max(safe, risky):
                break
        value, found = look(parameter)
        if value <= 0.0:
            safe, loss, b, f_safe, weight_b = parameter, found, math.log(parameter), _finite(value), 1.0
            weight_a = weight_a / 2.0 if slow else weight_a
        else:
            risky, a, f_risky, weight_a = parameter, math.log(parameter), _finite(value), 1.0
            weight_b = weight_b / 2.0 if slow else weight_b
        # Three steps that do not halve the bracket are followed by one that does.
        slow = slow + 1 if abs(b - a) > 0.5 * width and slow < 3 else 0
        width = abs(b - a)
    return safe, loss


def _finite(x: float) -> float:
    """Compress `x`: log delta is straight near the root but runs off like a square far from it."""
    return math.asinh(min(max(x, -1e9), 1e9)) if not math.isnan(x) else -25.0
