"""One piece of the work: sample databases, evaluate the target on both neighbours, measure the distance.

This module is what runs in a worker. Its input (`Plan`) and output (`Piece`) can be pickled; a failure is
part of the output, so that only the executor's own failures travel as exceptions.
"""

from __future__ import annotations

import math
import pickle
import time
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcore._validation import FloatArray
from dpcore.sensitivity._norms import Norm, as_numbers, sensitivities
from dpcore.sensitivity._records import Source, Streams, neighbour, take

# Evaluations of an ordinary target are converted and measured together, in groups that hold at most this many
# numbers; a group costs as much as about ten evaluations of a trivial target.
_GROUP_NUMBERS = 65536
_GROUP_EVALUATIONS = 4096


@dataclass(frozen=True)
class Plan:
    """What to evaluate; the same for every piece of the work."""

    target: Any
    source: Source | None  # None: the databases come with the piece
    records: int
    norm: Norm
    grid: Any
    batched: bool
    block: int  # evaluations that share one random stream and, if batched, one call of the target
    seed: int | None

    @property
    def native(self) -> bool:
        """Whether the target is built in and evaluates pairs in C++."""
        return hasattr(self.target, "_neighbour_values")


@dataclass(frozen=True)
class Failure:
    """Why an evaluation could not be made."""

    index: int
    sampler: bool  # the record sampler's fault; otherwise the target's or the norm's
    message: str
    cause: BaseException | None


@dataclass(frozen=True)
class Piece:
    """Sensitivities of evaluations first, first + 1, ..., up to the first failure."""

    first: int
    values: FloatArray
    shape: tuple[int, ...] | None
    seconds: float
    failure: Failure | None = None


class _Fault(Exception):
    """What becomes the failure of an evaluation."""

    def __init__(self, message: str, *, sampler: bool = False) -> None:
        super().__init__(message)
        self.sampler = sampler


def _numbers(value: Any) -> NDArray[Any]:
    try:
        return as_numbers(value)
    except TypeError as error:
        raise _Fault(f"target {error}") from None


@dataclass
class _Collector:
    """Pairs of target values, measured in groups."""

    norm: Norm
    values: list[FloatArray] = field(default_factory=list)
    shape: tuple[int, ...] | None = None
    first: list[Any] = field(default_factory=list)
    second: list[Any] = field(default_factory=list)

    def add(self, a: Any, b: Any) -> None:
        shape: tuple[int, ...] = ()
        if not (isinstance(a, float) and isinstance(b, float)):
            a, b = _numbers(a), _numbers(b)
            shape = a.shape
            if shape != b.shape:
                raise _Fault(f"target must return one shape, got {shape} and {b.shape} for two neighbours")
        self.check_shape(shape)
        self.first.append(a)
        self.second.append(b)
        held = len(self.first)
        if (
            callable(self.norm)  # a failure must be the fault of the evaluation in hand
            or held >= _GROUP_EVALUATIONS
            or held * math.prod(shape) >= _GROUP_NUMBERS
        ):
            self.flush()

    def check_shape(self, shape: tuple[int, ...]) -> None:
        if self.shape is None:
            self.shape = shape
        elif shape != self.shape:
            raise _Fault(f"target must return one shape, got {self.shape} first and {shape} now")

    def flush(self) -> None:
        if self.first:
            first, second = np.array(self.first), np.array(self.second)
            self.first, self.second = [], []
            self.measure(first, second)

    def measure(self, first: NDArray[Any], second: NDArray[Any]) -> None:
        try:
            self.values.append(sensitivities(first, second, self.norm))
        except Exception as error:  # only a norm of the user's own can fail
            raise _Fault(f"norm failed: {type(error).__name__}: {error}") from error

    def result(self) -> FloatArray:
        return np.concatenate(self.values) if self.values else np.empty(0)


def evaluate(plan: Plan, first: int, count: int, databases: list[Any] | None = None) -> Piece:
    """Evaluations first to first + count - 1; `databases` are given if the plan has no source."""
    start = time.perf_counter()
    collector = _Collector(plan.norm)
    index = first
    failure = None
    streams = Streams(plan.seed) if plan.seed is not None else None
    try:
        while index < first + count:
            size = min(plan.block, first + count - index)
            drawn = _draw(plan, streams, index, size) if databases is None else databases.pop(0)
            _check_records(drawn, size * (plan.records + 1))
            if plan.batched:
                _evaluate_batch(plan, collector, drawn, size)
            else:
                collector.add(*_evaluate_pair(plan, drawn))
            index += size
        collector.flush()
    except _Fault as fault:
        failure = Failure(index, fault.sampler, str(fault), fault.__cause__)
        collector.flush()  # what was collected before the failure is kept
    return Piece(first, collector.result(), collector.shape, time.perf_counter() - start, failure)


@lru_cache(maxsize=1)
def _unpack(packed: bytes) -> Plan:
    plan: Plan = pickle.loads(packed)
    return plan


def evaluate_elsewhere(plan: Plan | bytes, first: int, count: int, databases: list[Any] | None) -> Piece:
    """As `evaluate`, in a worker: the cause of a failure is only kept if it survives the way back.

    A packed plan is unpacked here, once a worker: a plan that the worker cannot import is then an ordinary
    error of the task (dask would wait for ever if the arguments of a task could not be read).
    """
    piece = evaluate(_unpack(plan) if isinstance(plan, bytes) else plan, first, count, databases)
    if piece.failure is None:
        return piece
    try:
        pickle.loads(pickle.dumps(piece.failure.cause))
    except Exception:
        return replace(piece, failure=replace(piece.failure, cause=None))
    return piece


def _draw(plan: Plan, streams: Streams | None, index: int, size: int) -> Any:
    assert plan.source is not None
    assert streams is not None
    try:
        return plan.source.draw(size * (plan.records + 1), streams[index // plan.block])
    except (Exception, SystemExit) as error:
        raise _Fault(f"sample raised {type(error).__name__}: {error}", sampler=True) from error


def _check_records(drawn: Any, count: int) -> None:
    try:
        got = len(drawn)
    except TypeError:
        message = f"sample must return {count} records, got {type(drawn).__name__} without a length"
        raise _Fault(message, sampler=True) from None
    if got != count:
        raise _Fault(f"sample must return {count} records when asked for as many, got {got}", sampler=True)


def _evaluate_pair(plan: Plan, records: Any) -> tuple[Any, Any]:
    n = plan.records
    try:
        if hasattr(plan.target, "pair"):
            a, b = plan.target.pair(take(records, slice(n - 1)), take(records, n - 1), take(records, n))
        else:
            # Copied before the first call: a target that sorts or scales in place must not change the other.
            other = neighbour(records, n)
            a, b = plan.target(take(records, slice(n))), plan.target(other)
        if plan.grid is not None:
            a, b = (v(plan.grid) if callable(v) else v for v in (a, b))
    except (Exception, SystemExit) as error:
        raise _Fault(f"target raised {type(error).__name__}: {error}") from error
    return a, b


def _evaluate_batch(plan: Plan, collector: _Collector, drawn: Any, size: int) -> None:
    n = plan.records
    drawn = np.asarray(drawn)
    blocks = drawn.reshape(size, n + 1, *drawn.shape[1:])
    try:
        if plan.native:
            first, second = plan.target._neighbour_values(blocks)
        elif hasattr(plan.target, "pair"):
            first, second = plan.target.pair(blocks[:, : n - 1], blocks[:, n - 1], blocks[:, n])
        else:
            others = np.concatenate((blocks[:, : n - 1], blocks[:, n:]), axis=1)  # before the first call, as above
            first, second = plan.target(blocks[:, :n]), plan.target(others)
    except (Exception, SystemExit) as error:
        raise _Fault(f"target raised {type(error).__name__}: {error}") from error
    first, second = _numbers(first), _numbers(second)
    if first.shape != second.shape or first.ndim == 0 or len(first) != size:
        raise _Fault(
            f"target must return one value for each of the {size} databases of a batch, got arrays of shape "
            f"{first.shape} and {second.shape}"
        )
    collector.check_shape(first.shape[1:])
    collector.measure(first, second)
