"""The smallest noise whose composition satisfies a target."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from dpcore._results import Result
from dpcore._validation import flag, non_negative, open_probability, positive, probability, shown, single
from dpcore.accounting._loss import PrivacyLoss, _engine

# Fifty halvings of a log-interval of any width reach neighbouring doubles.
_MOST_STEPS = 200
# Values of log delta up to this are interpolated as they are.
_STRAIGHT = 50.0


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
        raise TypeError(f"make must be callable, got {shown(make)}")
    eps = single("epsilon", epsilon, non_negative)
    target = single("delta", delta, probability)
    try:
        low, high = parameter_range
    except (TypeError, ValueError):
        raise TypeError(f"parameter_range must be a pair of numbers, got {shown(parameter_range)}") from None
    low = single("parameter_range[0]", low, positive)
    high = single("parameter_range[1]", high, positive)
    if not low < high:
        raise ValueError(f"parameter_range must be increasing, got ({low!r}, {high!r})")
    tolerance = single("relative_tolerance", relative_tolerance, open_probability)
    _engine(engine)
    given = increasing = None if increasing is None else flag("increasing", increasing)
    # delta.upper is exp(log_delta.upper) times at most 1 + 2e-15: what satisfies this goal satisfies the target.
    goal = math.log(target) * (1.0 + 1e-15) - 4e-15 if target > 0.0 else -math.inf
    count = 0

    def look(parameter: float) -> tuple[float, PrivacyLoss]:
        """Log of the upper bound of delta, less the goal; and the loss."""
        nonlocal count
        count += 1
        loss = make(parameter)
        if not isinstance(loss, PrivacyLoss):
            raise TypeError(f"make must return a PrivacyLoss, got {shown(loss)}")
        log = float(loss.log_delta(eps, engine=engine).upper)
        return (log - goal if log > -math.inf else -math.inf), loss

    known: dict[float, tuple[float, PrivacyLoss]] = {}

    def value(parameter: float) -> float:
        if parameter not in known:
            known[parameter] = look(parameter)
        return known[parameter][0]

    # The ends of a wide range are the costliest losses and the least telling: start inside, and go to an end only
    # if the target is not met between.
    middle = math.sqrt(low) * math.sqrt(high)
    inner = math.sqrt(low) * math.sqrt(middle)
    a, b = (inner, middle) if low < inner < middle < high else (low, high)
    if increasing is None:
        if value(a) == value(b) or not math.isfinite(value(a) - value(b)):
            a, b = low, high
        increasing = value(b) <= value(a)
    risky, safe = (a, b) if increasing else (b, a)
    first, last = (low, high) if increasing else (high, low)  # the least and the most private end
    if not value(safe) <= 0.0:
        risky, safe = safe, last
    elif value(risky) <= 0.0:
        safe, risky = risky, first
    if not value(safe) <= 0.0:
        if given is not None and value(first) <= 0.0:
            raise ValueError(
                f"increasing must be {not given} here: epsilon {eps!r}, delta {target!r} is satisfied at "
                f"{first!r}, the end of parameter_range that increasing={given} says is the least private, and "
                f"not at {last!r}"
            )
        refused = f"no parameter in [{low!r}, {high!r}] satisfies epsilon {eps!r}, delta {target!r}: "
        logs = [value(end) for end in (low, high)]
        if target == 0.0:
            most = [_most(known[end][1]) for end in (low, high)]
            raise ValueError(
                f"{refused}delta is 0 only where the loss is never above epsilon, and the loss is {most[0]} at "
                f"the lower and {most[1]} at the upper end"
            )
        ends = [math.exp(log + goal) for log in logs]
        raise ValueError(f"{refused}delta is {ends[0]!r} at the lower and {ends[1]!r} at the upper end")
    safe = risky if value(risky) <= 0.0 else _close_in(value, safe, risky, tolerance)
    loss = known[safe][1]
    return Calibration(
        parameter=safe,
        epsilon=eps,
        delta=target,
        # Below the range of double the bound of delta is rounded up to the next number; its logarithm was not.
        delta_upper=min(float(loss.delta(eps, engine=engine).upper), target),
        loss=loss,
        evaluations=count,
    )


def _most(loss: PrivacyLoss) -> str:
    """How large the loss can be, in words."""
    return f"at most {loss.max_loss!r}" if loss.max_loss < math.inf else "unbounded"


def _close_in(value: Callable[[float], float], safe: float, risky: float, tolerance: float) -> float:
    """Narrow the bracket to `tolerance` in (log parameter, compressed log delta), where the curve is smooth.

    Inverse interpolation through the bracket and the point it last lost; three steps that do not halve the
    bracket are followed by one that does.
    """
    a, b = math.log(risky), math.log(safe)
    fa, fb = _finite(value(risky)), _finite(value(safe))
    lost: tuple[float, float] | None = None
    width, slow = abs(b - a), 0
    for _ in range(_MOST_STEPS):
        if abs(safe - risky) <= tolerance * safe:
            break
        middle = 0.5 * (a + b)
        if fa > fb and slow < 3:
            guess = b - fb * (b - a) / (fb - fa)
            if lost is not None and lost[1] != fa and lost[1] != fb:
                c, fc = lost
                guess = (
                    a * fb * fc / ((fa - fb) * (fa - fc))
                    + b * fa * fc / ((fb - fa) * (fb - fc))
                    + c * fa * fb / ((fc - fa) * (fc - fb))
                )
            if min(a, b) <= guess <= max(a, b):
                middle = guess
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
        found = value(parameter)
        if found <= 0.0:
            lost = (b, fb)
            safe, b, fb = parameter, math.log(parameter), _finite(found)
        else:
            lost = (a, fa)
            risky, a, fa = parameter, math.log(parameter), _finite(found)
        slow = slow + 1 if abs(b - a) > 0.5 * width and slow < 3 else 0
        width = abs(b - a)
    return safe


def _finite(x: float) -> float:
    """Compress large `x`: log delta is nearly straight near the root but runs off like a square far from it."""
    if math.isnan(x) or abs(x) <= _STRAIGHT:
        return -_STRAIGHT if math.isnan(x) else x
    return math.copysign(_STRAIGHT * (1.0 + math.log(min(abs(x), 1e9) / _STRAIGHT)), x)
