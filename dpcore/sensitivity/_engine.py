"""Carries the evaluations out: in this thread or on an executor, in pieces, so that little is ever lost."""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import pickle
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any

import numpy as np

from dpcore._progress import Progress
from dpcore._validation import FloatArray
from dpcore.sensitivity._errors import EvaluationError, ExecutorError, SamplerError, TargetError
from dpcore.sensitivity._evaluate import Failure, Piece, Plan, evaluate, evaluate_elsewhere
from dpcore.sensitivity._records import PlainSource

# Pieces are sized to take about this long: short enough for the progress line and so that an interrupt loses
# little, long enough that the cost of a task (up to 1 ms with dask) does not show.
_SECONDS_INLINE = 0.05
_SECONDS_REMOTE = 0.25
_GROWTH = 8
# The answer is looked for after each 64th of the work: a selection among the values so far costs O(m).
_LOOKS = 64
_UNKNOWN_WORKERS = 8
_PIECES_A_WORKER = 3


class Work:
    """The sensitivities of evaluations 0 to samples - 1; NaN where they are still to be made."""

    def __init__(self, plan: Plan, own: PlainSource | None, samples: int, order: int, bound: float) -> None:
        self.plan = plan
        self.own = own  # a sampler that must be called here
        self.values: FloatArray = np.full(samples, np.nan)
        self.order = order
        self.bound = bound
        self.shape: tuple[int, ...] | None = None
        self.used = samples  # evaluations that decided the answer
        self._look = max(math.ceil(samples / _LOOKS), 1)
        self._looked = 0

    def store(self, piece: Piece) -> None:
        """Keep what a piece brought; TargetError if it contradicts what is known."""
        self.values[piece.first : piece.first + len(piece.values)] = piece.values
        if piece.shape is not None:
            if self.shape is not None and piece.shape != self.shape:
                message = f"target must return one shape, got {self.shape} first and {piece.shape} now"
                raise TargetError(message, index=piece.first)
            self.shape = piece.shape
        # Norms are rounded up and targets round: a value this near to the bound is at the bound.
        above = piece.values > self.bound * (1 + 1e-9)
        if above.any():
            index = piece.first + int(np.argmax(above))
            raise TargetError(
                f"bound must not be below a sampled sensitivity, got bound={self.bound!r} and "
                f"{float(self.values[index])!r} in evaluation {index}",
                index=index,
            )
        if piece.failure is not None:
            raise _as_error(piece.failure)

    def missing(self) -> Iterator[tuple[int, int]]:
        """Runs (first, last + 1) of evaluations still to be made, by whole blocks."""
        block, total = self.plan.block, len(self.values)
        todo = np.isnan(self.values)
        if block > 1:
            starts = np.arange(0, total, block)
            todo = np.repeat(np.logical_or.reduceat(todo, starts), np.diff(starts, append=total))
        edges = np.flatnonzero(np.diff(todo, prepend=False, append=False))
        return zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)

    def decided(self, done: int) -> bool:
        """Whether evaluations 0 to done - 1 already fix the order statistic, whatever the others bring.

        With r evaluations to come, G_(k) lies between the (k - r)-th and the k-th smallest so far. Looks are
        at fixed numbers of evaluations, so that the outcome does not depend on how the work is split.
        """
        total = len(self.values)
        while self._looked + self._look <= done:
            self._looked += self._look
            have, left = self._looked, total - self._looked
            values = self.values[:have]
            low = 0.0
            if self.order > left:
                low = float(np.partition(values, self.order - left - 1)[self.order - left - 1])
            high = self.bound
            if self.order <= have:
                high = float(np.partition(values, self.order - 1)[self.order - 1])
            if low >= high:
                self.used = have
                return left > 0
        return False

    def answer(self) -> float:
        """The order statistic; evaluations beyond those that decided it are not looked at."""
        values = self.values[: self.used]
        left = len(self.values) - self.used
        rank = self.order - 1 if self.order <= self.used else self.order - left - 1
        return float(np.partition(values, rank)[rank])


def _as_error(failure: Failure) -> EvaluationError:
    kind = SamplerError if failure.sampler else TargetError
    error = kind(f"evaluation {failure.index}: {failure.message}", index=failure.index)
    error.__cause__ = failure.cause
    return error


class _Pace:
    """Number of blocks for the next piece, from how long the last ones took."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._blocks = 1

    def learn(self, piece: Piece, block: int) -> None:
        blocks = max(len(piece.values) / block, 1)
        fitting = self._seconds * blocks / max(piece.seconds, 1e-9)
        self._blocks = max(1, int(min(fitting, self._blocks * _GROWTH)))

    def evaluations(self, block: int) -> int:
        return self._blocks * block


def run(work: Work, *, executor: Any, progress: Progress, after_piece: Callable[[], None]) -> None:
    """Make the missing evaluations until the answer is decided.

    Raises EvaluationError, or whatever interrupted the work; `work` then holds everything that was made.
    """
    todo = np.isnan(work.values)
    progress.start(int(np.count_nonzero(~todo)))
    if work.decided(int(np.argmax(todo)) if todo.any() else len(todo)):
        return
    (_run_here if executor is None else _run_there)(work, executor, progress, after_piece)


class _Feed:
    """Cuts the missing evaluations into pieces, with their databases if the sampler must be called here."""

    def __init__(self, work: Work) -> None:
        self._plan = work.plan
        self._own = work.own
        self._runs = deque(work.missing())
        self._fault: SamplerError | None = None
        self.left = sum(end - first for first, end in self._runs)

    def next(self, most: int) -> tuple[int, int, list[Any] | None] | None:
        """(first, count, databases) of the next piece, None after the last; raises what the sampler did."""
        if self._fault is not None:
            raise self._fault
        if not self._runs:
            return None
        first, end = self._runs.popleft()
        count = min(most, end - first)
        databases = None
        if self._own is not None:
            databases = self._draw(self._own, first, count)
            if self._fault is not None:
                count = len(databases) * self._plan.block
                if count == 0:
                    raise self._fault
        self.left -= count
        if first + count < end:
            self._runs.appendleft((first + count, end))
        return first, count, databases

    def _draw(self, source: PlainSource, first: int, count: int) -> list[Any]:
        plan, drawn = self._plan, []
        for index in range(first, first + count, plan.block):
            size = min(plan.block, first + count - index)
            try:
                drawn.append(source.draw(size * (plan.records + 1)))
            except (Exception, SystemExit) as error:
                message = f"evaluation {index}: sample raised {type(error).__name__}: {error}"
                self._fault = SamplerError(message, index=index)
                self._fault.__cause__ = error
                break
        return drawn


def _run_here(work: Work, executor: Any, progress: Progress, after_piece: Callable[[], None]) -> None:
    plan, feed, pace = work.plan, _Feed(work), _Pace(_SECONDS_INLINE)
    while (cut := feed.next(pace.evaluations(plan.block))) is not None:
        first, count, databases = cut
        piece = evaluate(plan, first, count, databases)
        work.store(piece)
        pace.learn(piece, plan.block)
        progress.update(first + count)
        after_piece()
        if work.decided(first + count):
            return


def _workers(executor: Any) -> int:
    number = getattr(executor, "_max_workers", None)
    client: Any = getattr(executor, "_client", None)  # of dask
    if hasattr(client, "ncores"):
        number = sum(client.ncores().values())
    return number if isinstance(number, int) and number > 0 else max(os.cpu_count() or 1, _UNKNOWN_WORKERS)


def _run_there(work: Work, executor: Any, progress: Progress, after_piece: Callable[[], None]) -> None:
    plan, feed, pace, workers = work.plan, _Feed(work), _Pace(_SECONDS_REMOTE), _workers(executor)
    packed = _pack(plan, executor)
    waiting: deque[tuple[int, int, Future[Piece]]] = deque()
    fault: EvaluationError | None = None
    ended = False
    try:
        while True:
            while not ended and len(waiting) < _PIECES_A_WORKER * workers:
                # No piece is larger than a fair share of what is left, so that the workers end together.
                fair = max(math.ceil(feed.left / (2 * workers) / plan.block), 1) * plan.block
                try:
                    cut = feed.next(min(pace.evaluations(plan.block), fair))
                    if cut is not None:
                        waiting.append((cut[0], cut[1], _submit(executor, packed, *cut)))
                    ended = cut is None
                except EvaluationError as error:
                    fault, ended = error, True
            if not waiting:
                break
            first, count, future = waiting.popleft()
            piece = _outcome(future, first)
            work.store(piece)
            pace.learn(piece, plan.block)
            progress.update(first + count)
            after_piece()
            if work.decided(first + count):
                return
    finally:
        _abandon(work, waiting)
    if fault is not None:
        raise fault


def _pack(plan: Plan, executor: Any) -> Plan | bytes:
    """The plan as it is sent: once as bytes where it goes to another process, as it is to any other executor."""
    dask = type(executor).__module__.partition(".")[0] == "distributed"
    if not dask and not isinstance(executor, ProcessPoolExecutor):
        return plan
    dumps: Callable[[Any], bytes] = pickle.dumps
    if dask:
        dumps = importlib.import_module("cloudpickle").dumps  # a dependency of dask
    try:
        return dumps(plan)
    except Exception as error:
        hint = "" if dask else "; a process pool takes functions defined at the top level of a module only"
        message = f"target or sample cannot be sent to the executor: {type(error).__name__}: {error}{hint}"
        raise ExecutorError(message, index=0) from error


def _submit(
    executor: Any, plan: Plan | bytes, first: int, count: int, databases: list[Any] | None
) -> Future[Piece]:
    try:
        future: Future[Piece] = executor.submit(evaluate_elsewhere, plan, first, count, databases)
    except Exception as error:
        message = f"executor did not take evaluation {first}: {type(error).__name__}: {error}"
        raise ExecutorError(message, index=first) from error
    return future


def _outcome(future: Future[Piece], first: int) -> Piece:
    try:
        return future.result()
    except Exception as error:
        message = f"executor failed at evaluation {first}: {type(error).__name__}: {error}"
        raise ExecutorError(message, index=first) from error


def _abandon(work: Work, waiting: deque[tuple[int, int, Future[Piece]]]) -> None:
    """Cancel what has not begun, and keep what is finished."""
    for _, _, future in waiting:
        future.cancel()
    for first, _, future in waiting:
        if future.done() and not future.cancelled():
            with contextlib.suppress(Exception):
                piece = future.result()
                work.values[first : first + len(piece.values)] = piece.values
