"""Audit of a mechanism: a certified lower bound on its privacy loss, from its outputs alone.

An audit can show that a mechanism leaks more than it claims; it can never show that it does not. The bound holds
with the stated confidence for every mechanism whose outputs are independent of each other: an event is fixed
(given by the caller, or learned on samples that are then thrown away), its frequency is counted on fresh outputs
for two neighbouring inputs, and Clopper-Pearson intervals, which are exact for binomial counts, bound both
probabilities.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainccinv, betaincinv, ndtri

from dpcore._progress import Progress, ProgressOption
from dpcore._results import Result
from dpcore._validation import flag, integer, non_negative, open_probability, probability, scalar
from dpcore.distributions import bernoulli_kl
from dpcore.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, RandomizedResponse

__all__ = ["AuditResult", "audit", "clopper_pearson"]

Outputs = NDArray[Any]
Event = Callable[[Outputs], NDArray[np.bool_]]

# Outputs held in memory at once, for each input. A million doubles are 8 MB.
_CHUNK = 1 << 20
# Most outputs used for learning the event; more do not improve a threshold noticeably.
_LEARNING = 1 << 20
# Outputs with at most this many different values are treated as categories.
_CATEGORIES = 4096
# Added to both counts of a label before their ratio is taken: a ratio from fewer outputs than about this is noise.
_SHRINK = 10.0
# Up to here the inverse beta function is good to 1e-12 (tests/test_audit.py); at 3e9 samples it no longer is.
_MOST_INVERTED = 1 << 28
# Kinds of dtypes whose values are numbers, and the types of such numbers one by one.
_NUMBERS = "iufb"
_REAL = (int, float, np.bool_, np.integer, np.floating)
# Mechanisms that draw noise of its own for each number of an array.
_ELEMENTWISE = (Laplace, Gaussian, DiscreteLaplace, DiscreteGaussian, RandomizedResponse)


@dataclasses.dataclass(frozen=True)
class AuditResult(Result):
    """What an audit found; see `audit`."""

    epsilon_lower: float
    delta_lower: float
    epsilon: float | None
    delta: float
    confidence: float
    samples: int
    first_hits: int
    second_hits: int
    direction: str
    event: str

    @property
    def violated(self) -> bool:
        """Whether the claim (epsilon, delta) is refuted at the stated confidence; False without a claim."""
        return self.epsilon is not None and (self.epsilon_lower > self.epsilon or self.delta_lower > self.delta)

    @property
    def statement(self) -> str:
        """The finding in words."""
        found = (
            f"With confidence {self.confidence:g}, no (epsilon, {self.delta:g}) guarantee with epsilon below "
            f"{self.epsilon_lower:.6g} holds for these two inputs"
        )
        if self.epsilon is not None:
            found += f", nor any ({self.epsilon:g}, delta) guarantee with delta below {self.delta_lower:.6g}"
            found += (
                ". The claim is refuted." if self.violated else ". The claim is not refuted, which proves nothing."
            )
        else:
            found += "."
        return f"{found} Event: {self.event} ({self.first_hits} and {self.second_hits} of {self.samples} outputs)."


def clopper_pearson(hits: int, samples: int, *, confidence: float) -> tuple[float, float]:
    """Exact two-sided confidence interval for a probability, each side at level (1 - confidence)/2.

    Parameters
    ----------
    hits, samples : int
        Successes among independent trials, 0 <= hits <= samples, samples >= 1.
    confidence : float, in (0, 1)
        Probability, over the trials, that the interval covers.

    Returns
    -------
    (lower, upper) : pair of floats
        Widened by 1e-12 relative, more than the error of the inverse beta function. Beyond 2^28 samples, where
        its error is larger, these are Chernoff's limits, which are wider and never fail more often.

    Examples
    --------
    >>> from dpcore.audit import clopper_pearson
    >>> lower, upper = clopper_pearson(0, 100, confidence=0.95)
    >>> lower, round(upper, 6)
    (0.0, 0.036217)
    """
    n = integer("samples", samples, least=1)
    k = integer("hits", hits, most=n)
    return _limits(k, n, (1 - scalar("confidence", open_probability("confidence", confidence))) / 2)


def _limits(hits: int, samples: int, side: float) -> tuple[float, float]:
    """Clopper-Pearson limits, each of which fails with probability at most `side`."""
    if samples > _MOST_INVERTED:
        rate, depth = hits / samples, -math.log(side) / samples
        return (
            _beyond(rate, depth, rate, 0.0) * (1 - 1e-12) if hits else 0.0,
            min(1.0, _beyond(rate, depth, rate, 1.0) * (1 + 1e-12)) if hits < samples else 1.0,
        )
    lower = 0.0 if hits == 0 else float(betaincinv(hits, samples - hits + 1, side)) * (1 - 1e-12)
    # The complement keeps the digits of a small `side`, which 1 - side would lose.
    upper = 1.0 if hits == samples else float(betainccinv(hits + 1, samples - hits, side)) * (1 + 1e-12)
    return lower, min(1.0, upper)


def _beyond(rate: float, depth: float, inside: float, outside: float) -> float:
    """The nearest probability from which the divergence of `rate` is at least `depth`.

    A frequency of `rate` or beyond then has probability at most exp(-samples * depth), by Chernoff's bound.
    """
    while True:
        middle = (inside + outside) / 2
        if middle in (inside, outside):
            return outside
        if bernoulli_kl(rate, middle) >= depth:
            outside = middle
        else:
            inside = middle


def audit(
    mechanism: Any,
    x: Any,
    y: Any,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    samples: int,
    confidence: float = 0.999,
    event: Event | None = None,
    rng: Any = None,
    batched: bool = False,
    progress: ProgressOption = False,
) -> AuditResult:
    """Certified lower bound on the privacy loss of `mechanism` between the neighbouring inputs `x` and `y`.

    Parameters
    ----------
    mechanism : object or callable
        An object with ``release(value, rng=None)`` (all mechanisms of dpcore), or a function of one input that
        returns one output, independent of those before. With ``batched=True`` a function of (input, count) that
        returns `count` independent outputs as an array whose first axis has that length. Outputs are numbers,
        vectors of them, or labels that can be hashed (texts, tuples).
    x, y : any
        Two inputs that the mechanism's claim calls neighbours.
    epsilon, delta : float
        The claim. `delta` also is the delta at which `epsilon_lower` is stated. Without `epsilon` only
        `epsilon_lower` is computed and `delta_lower` is that at epsilon 0.
    samples : int, >= 100
        Outputs drawn for each input, learning included.
    confidence : float, in (0, 1)
        Probability, over all draws, that both bounds are right.
    event : callable, optional
        Function of an array of outputs that returns booleans. It must not depend on the outputs counted. By
        default the event is learned on at most half of the samples, and counted on the rest.
    rng : optional
        Passed on to ``mechanism.release``; None for a mechanism that does not take it.
    batched : bool
        See `mechanism`.
    progress : bool or callable
        True shows a line on a terminal; a callable gets (done, total).

    Returns
    -------
    AuditResult
        `epsilon_lower`: no smaller epsilon is satisfied at `delta`. `delta_lower`: no smaller delta at `epsilon`.

    Raises
    ------
    TypeError, ValueError
        For wrong arguments, outputs of varying shape, or an event that does not return one boolean an output.

    Notes
    -----
    With p the probability of the event under one input and q under the other, (epsilon, delta)-privacy demands
    p <= exp(epsilon) q + delta. With p >= p_low and q <= q_high, epsilon >= ln((p_low - delta)/q_high) and
    delta >= p_low - exp(epsilon) q_high. Each one-sided limit fails with probability at most (1 - confidence)/2.

    Learned events are half lines of the output (or of its projection on the difference of means), sets of
    values where outputs repeat, and sets of positions of the lowest bit, which betray floating-point noise.

    Examples
    --------
    >>> from dpcore import samplers
    >>> from dpcore.audit import audit
    >>> draw = samplers.InsecureTestRng(1)
    >>> def half_noise(value, count):            # claims epsilon 1 and adds noise for epsilon 2
    ...     return value + samplers.discrete_laplace(0.5, count, rng=draw)
    >>> found = audit(half_noise, 0, 1, epsilon=1.0, samples=200_000, batched=True)
    >>> found.violated, 1.8 < found.epsilon_lower < 2.0
    (True, True)
    """
    total = integer("samples", samples, least=100)
    level = scalar("confidence", open_probability("confidence", confidence))
    claimed = None if epsilon is None else scalar("epsilon", non_negative("epsilon", epsilon))
    at_delta = scalar("delta", probability("delta", delta))
    if event is not None and not callable(event):
        raise TypeError(f"event must be a function of an array of outputs, got {event!r}")
    draw = _drawer(mechanism, rng, flag("batched", batched))

    name, direction, chosen = "given by the caller", None, event
    counted = total
    if chosen is None:
        learning = min(total // 2, _LEARNING)
        counted = total - learning
        name, direction, chosen = _learn(draw(x, learning), draw(y, learning), claimed, at_delta, _errors(level))
    hits = [0, 0]
    done = 0
    with Progress(progress, counted, "audit") as bar:
        for size in _chunks(counted):
            for i, value in enumerate((x, y)):
                outputs = draw(value, size)
                try:
                    inside = np.asarray(chosen(outputs))
                except ValueError as error:
                    raise ValueError(f"event must return one boolean an output: {error}") from error
                if inside.shape != (size,) or inside.dtype != np.bool_:
                    raise ValueError(
                        f"event must return one boolean an output, got shape {inside.shape} of {inside.dtype}"
                    )
                hits[i] += int(np.count_nonzero(inside))
            done += size
            bar.update(done)

    # A caller's event is tried in both directions, so each limit then gets half of the allowed failure.
    directions = ("x over y", "y over x") if direction is None else (direction,)
    side = (1 - level) / (2 * len(directions))
    best: tuple[float, float, str] | None = None
    for way in directions:
        p, q = hits if way == "x over y" else hits[::-1]
        low, high = _limits(p, counted, side)[0], _limits(q, counted, side)[1]
        epsilon_lower = max(0.0, math.log((low - at_delta) / high)) if low > at_delta else 0.0
        delta_lower = max(0.0, low - math.exp(min(claimed or 0.0, 700.0)) * high)
        if best is None or (epsilon_lower, delta_lower) > best[:2]:
            best = (epsilon_lower, delta_lower, way)
    assert best is not None
    return AuditResult(
        epsilon_lower=best[0],
        delta_lower=best[1],
        epsilon=claimed,
        delta=at_delta,
        confidence=level,
        samples=counted,
        first_hits=hits[0],
        second_hits=hits[1],
        direction=best[2],
        event=name,
    )


def _chunks(count: int) -> Iterator[int]:
    while count > 0:
        yield min(count, _CHUNK)
        count -= _CHUNK


def _drawer(mechanism: Any, rng: Any, batched: bool) -> Callable[[Any, int], Outputs]:
    """A function of (input, count) that returns `count` outputs along the first axis, always of one shape."""
    release = None if isinstance(mechanism, type) else getattr(mechanism, "release", None)
    takes_rng = False
    if batched:
        if not callable(mechanism):
            raise TypeError(f"mechanism must be a function of (input, count) with batched=True, got {mechanism!r}")
        _check_call(mechanism, 2, "a function of (input, count) with batched=True")
        raw: Callable[[Any, int], Any] = mechanism
    elif callable(release):
        takes_rng = _takes_rng(release)
        options = {"rng": rng} if takes_rng else {}
        # These draw noise for each number of an array; any other object might add one noise to all of them, and
        # outputs that are not independent would show a leak where there is none.
        elementwise = type(mechanism) in _ELEMENTWISE

        def raw(value: Any, count: int) -> Any:
            if elementwise and isinstance(value, (int, float, np.number)):
                return release(np.full(count, value), **options)
            return [release(value, **options) for _ in range(count)]

    elif callable(mechanism) and not isinstance(mechanism, type):
        _check_call(mechanism, 1, "a function of one input; one of (input, count) needs batched=True")

        def raw(value: Any, count: int) -> Any:
            return [mechanism(value) for _ in range(count)]

    else:
        raise TypeError(f"mechanism must have a release method or be callable, got {mechanism!r}")
    if rng is not None and not takes_rng:
        raise TypeError("rng must be None for a mechanism that does not take it")
    shapes: set[tuple[int, ...]] = set()

    def draw(value: Any, count: int) -> Outputs:
        outputs = _array(raw(value, count))
        if outputs.shape[:1] != (count,):
            raise ValueError(f"mechanism must return {count} outputs, got an array of shape {outputs.shape}")
        shapes.add(outputs.shape[1:])
        if len(shapes) > 1:
            raise ValueError(f"mechanism must return outputs of one shape, got {' and '.join(map(str, shapes))}")
        return outputs

    return draw


def _check_call(mechanism: Any, arguments: int, rule: str) -> None:
    """Refuse a function that cannot be called so, where that can be told beforehand."""
    try:
        signature = inspect.signature(mechanism)
    except (TypeError, ValueError):  # not every function in C tells
        return
    try:
        signature.bind(*[None] * arguments)
    except TypeError as error:
        raise TypeError(f"mechanism must be {rule}: {error}") from None


def _takes_rng(release: Callable[..., Any]) -> bool:
    try:
        return "rng" in inspect.signature(release).parameters
    except (TypeError, ValueError):  # compiled, without a signature
        return False


def _array(raw: Any) -> Outputs:
    """Outputs as an array in which none depends on the others: in [1, "a"] the first stays a number."""
    try:
        outputs = np.asarray(raw)
    except ValueError as error:
        raise ValueError(f"mechanism must return outputs of one shape: {error}") from None
    if outputs.dtype.kind not in _NUMBERS and outputs.ndim and not isinstance(raw, np.ndarray):
        flat = np.empty(outputs.size, dtype=object)
        flat[:] = list(raw) if outputs.ndim == 1 else [cell for row in raw for cell in _cells(row)]
        outputs = flat.reshape(outputs.shape)
    if outputs.dtype.kind == "O" and any(output is None for output in outputs.flat):
        raise TypeError("mechanism must return its output, got None")
    return outputs


def _cells(row: Any) -> Iterator[Any]:
    """The elements of a nested list or tuple; a text is one."""
    if isinstance(row, (list, tuple, np.ndarray)):
        for cell in row:
            yield from _cells(cell)
    else:
        yield row


# ---- learning an event ------------------------------------------------------------------------------------------


def _learn(
    first: Outputs, second: Outputs, epsilon: float | None, delta: float, errors: float
) -> tuple[str, str, Event]:
    """Name, direction and event with the best bound on the learning samples."""
    # Where nothing else can be told apart: an event that never happens, and bounds of 0.
    never: Event = lambda z: np.zeros(len(z), dtype=np.bool_)  # noqa: E731
    candidates: list[tuple[float, str, str, Event]] = [(-math.inf, "none was found", "x over y", never)]
    numeric = all(part.dtype.kind in _NUMBERS for part in (first, second))
    if not numeric:
        code = _Coder(first, second)
        candidates += _category_events(
            first, second, epsilon, delta, errors, "the set of values {}", code, list(code.known)
        )
        numeric = all(isinstance(key, _REAL) for key in code.known)  # integers beyond 64 bits, say
        first, second = _numbers(first), _numbers(second)
    elif first.ndim == 1 and _few(first, second):
        candidates += _category_events(first, second, epsilon, delta, errors, "the set of values {}", _numbers)
    if numeric:
        score = _score(first, second)
        candidates += _threshold_events(score(first), score(second), epsilon, delta, errors, score)
        if first.ndim == 1 and first.dtype.kind == "f":
            candidates += _category_events(
                first, second, epsilon, delta, errors, "lowest set bit among 2^{}", _lowest_bit
            )
    _, name, direction, event = max(candidates, key=lambda c: c[0])
    return name, direction, event


class _Coder:
    """Numbers for labels, whatever they are: those seen in learning from 0, every other one -1.

    An output's number depends on nothing but the output, so that counts of an event are binomial.
    """

    def __init__(self, *parts: Outputs) -> None:
        try:
            self.known = {key: i for i, key in enumerate(dict.fromkeys(k for part in parts for k in _keys(part)))}
        except TypeError as error:
            raise TypeError(f"mechanism must return numbers, vectors or hashable labels: {error}") from None

    def __call__(self, outputs: Outputs) -> NDArray[np.int64]:
        return np.fromiter((self.known.get(key, -1) for key in _keys(outputs)), np.int64, len(outputs))


def _keys(outputs: Outputs) -> list[Any]:
    """Each output as something that can be compared: itself, or a tuple of its elements."""
    if outputs.ndim == 1:
        return list(outputs.tolist())
    return [tuple(row) for row in outputs.reshape(len(outputs), -1).tolist()]


def _numbers(outputs: Outputs) -> Outputs:
    """Outputs as numbers. Among them one that is none counts as NaN, one beyond a double as infinite."""
    if outputs.dtype.kind in _NUMBERS:
        return outputs
    return np.array([_number(cell) for cell in outputs.flat], dtype=np.float64).reshape(outputs.shape)


def _number(cell: Any) -> float:
    try:
        return float(cell) if isinstance(cell, _REAL) else math.nan
    except OverflowError:
        return math.inf if cell > 0 else -math.inf


def _few(first: Outputs, second: Outputs) -> bool:
    some = np.concatenate([first[:20000], second[:20000]])
    return np.unique(some).size <= _CATEGORIES


def _errors(confidence: float) -> float:
    """Standard errors that a limit at this confidence is away from the observed frequency, about."""
    return max(3.0, -float(ndtri((1 - confidence) / 4)))


def _objective(p: Any, q: Any, count: int, epsilon: float | None, delta: float, errors: float) -> Any:
    """Rough lower bound (so many standard errors) on what is to be maximised, from hit counts `p` and `q`.

    Excess over the claim comes first, scaled to outweigh all else; then the epsilon that can be shown.
    """
    rate_p, rate_q = p / count, q / count
    low = rate_p - errors * np.sqrt(np.maximum(rate_p * (1 - rate_p), 1 / count) / count)
    high = rate_q + errors * np.sqrt(np.maximum(rate_q * (1 - rate_q), 1 / count) / count) + errors**2 / count
    shown = np.where(low > delta, np.log(np.maximum(low - delta, 1e-300) / high), -1e3)
    if epsilon is None:
        return shown
    return shown + 1e6 * np.maximum(low - math.exp(min(epsilon, 700.0)) * high - delta, 0.0)


def _score(first: Outputs, second: Outputs) -> Callable[[Outputs], NDArray[np.float64]]:
    """Outputs as numbers: themselves, or their projection on the difference of means, scaled by the spread."""
    if first.ndim == 1:
        return lambda z: np.nan_to_num(np.asarray(_numbers(z), dtype=np.float64), nan=-np.inf)
    top = [np.max(np.abs(np.nan_to_num(_rows(v), posinf=0.0, neginf=0.0)), axis=0) for v in (first, second)]
    # Powers of two, so that nothing is rounded and no square overflows.
    unit = -np.frexp(np.maximum(*top))[1]

    def scaled(z: Outputs) -> NDArray[np.float64]:
        finite = np.nan_to_num(_rows(z), posinf=np.inf, neginf=-np.inf)
        out: NDArray[np.float64] = np.clip(np.ldexp(finite, unit), -2.0, 2.0)
        return out

    a, b = scaled(first), scaled(second)
    spread = np.maximum(a.var(axis=0) + b.var(axis=0), 1e-30)
    weights = (a.mean(axis=0) - b.mean(axis=0)) / spread
    return lambda z: scaled(z) @ weights


def _rows(outputs: Outputs) -> NDArray[np.float64]:
    return np.asarray(_numbers(outputs), dtype=np.float64).reshape(len(outputs), -1)


def _threshold_events(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    epsilon: float | None,
    delta: float,
    errors: float,
    score: Callable[[Outputs], NDArray[np.float64]],
) -> list[tuple[float, str, str, Event]]:
    cuts = np.unique(np.quantile(np.concatenate([first, second]), np.linspace(0, 1, 513), method="nearest"))
    out: list[tuple[float, str, str, Event]] = []
    below = [np.searchsorted(np.sort(v), cuts, side="right") for v in (first, second)]
    for sign, counts in (("<=", below), (">", [len(first) - below[0], len(second) - below[1]])):
        for direction, (p, q) in (("x over y", counts), ("y over x", counts[::-1])):
            value = _objective(p, q, len(first), epsilon, delta, errors)
            at = int(np.argmax(value))
            cut = float(cuts[at])
            if sign == "<=":
                event: Event = lambda z, c=cut: score(z) <= c  # type: ignore[misc]  # noqa: E731
            else:
                event = lambda z, c=cut: score(z) > c  # type: ignore[misc]  # noqa: E731
            out.append((float(value[at]), f"output {sign} {cut:.6g}", direction, event))
    return out


def _category_events(
    first: Outputs,
    second: Outputs,
    epsilon: float | None,
    delta: float,
    errors: float,
    name: str,
    label: Callable[[Outputs], Outputs],
    words: list[Any] | None = None,
) -> list[tuple[float, str, str, Event]]:
    """Sets of labels in the order of their likelihood ratio (Neyman-Pearson), cut where the bound is best."""
    labels, places = np.unique(np.concatenate([label(first), label(second)]), return_inverse=True)
    if labels.size > _CATEGORIES:
        return []
    size = labels.size
    counts = [np.bincount(part, minlength=size) for part in (places[: len(first)], places[len(first) :])]
    out: list[tuple[float, str, str, Event]] = []
    for direction, (p, q) in (("x over y", counts), ("y over x", counts[::-1])):
        # Labels seen a few times look extreme by chance; together they would make an event that means nothing.
        order = np.argsort((p + _SHRINK) / (q + _SHRINK))[::-1]
        value = _objective(np.cumsum(p[order]), np.cumsum(q[order]), len(first), epsilon, delta, errors)
        at = int(np.argmax(value))
        inside = np.sort(labels[order[: at + 1]])
        event: Event = lambda z, s=inside: np.isin(label(z), s)  # type: ignore[misc]  # noqa: E731
        some = inside[:4] if words is None else [words[code] for code in inside[:4]]
        shown = ", ".join(map(str, some)) + (", ..." if inside.size > 4 else "")
        out.append((float(value[at]), name.format(shown), direction, event))
    return out


def _lowest_bit(outputs: Outputs) -> NDArray[np.int64]:
    """Exponent of the lowest set bit of each double; outputs on a coarse grid have a high one."""
    fraction, exponent = np.frexp(np.asarray(_numbers(outputs), dtype=np.float64))
    whole = np.abs(np.nan_to_num(fraction, nan=0.5, posinf=0.5, neginf=0.5) * 2.0**53).astype(np.int64)
    low = np.frexp((whole & -whole).astype(np.float64))[1]
    return (exponent.astype(np.int64) + low - 54).clip(-1100, 1100)
