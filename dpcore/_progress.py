"""Progress of long work: one line on a terminal, a callback for everything else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType

ProgressOption = bool | Callable[[int, int], object]


class Progress:
    """Shows how far a long piece of work is.

    With ``True`` a line on standard error is kept up to date, only if that is a terminal; with a callable,
    ``callable(done, total)`` is called instead; with ``False`` nothing happens.
    """

    _SECONDS_BETWEEN = 0.1
    _WIDTH = 30

    def __init__(self, option: ProgressOption, total: int, label: str) -> None:
        if not isinstance(option, bool) and not callable(option):
            raise TypeError(f"progress must be True, False or a callable of (done, total), got {option!r}")
        self._callback = None if isinstance(option, bool) else option
        self._terminal = option is True and sys.stderr is not None and sys.stderr.isatty()
        self._total = total
        self._label = label
        self._start = time.monotonic()
        self._shown = -1.0
        self._first = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._terminal and self._shown >= 0:
            sys.stderr.write("\n")
            sys.stderr.flush()

    def start(self, done: int) -> None:
        """Say how much was there before the work began, so that the remaining time comes out right."""
        self._first = done

    def update(self, done: int) -> None:
        """Report that `done` of the total are finished."""
        if self._callback is not None:
            self._callback(done, self._total)
        if not self._terminal:
            return
        now = time.monotonic()
        if done < self._total and now - self._shown < self._SECONDS_BETWEEN:
            return
        self._shown = now
        filled = self._WIDTH * done // max(self._total, 1)
        bar = "#" * filled + "-" * (self._WIDTH - filled)
        text = f"\r{self._label} [{bar}] {done}/{self._total} {self._remaining(done, now)}"
        sys.stderr.write(text + "\x1b[K")
        sys.stderr.flush()

    def _remaining(self, done: int, now: float) -> str:
        elapsed = now - self._start
        if done >= self._total:
            return f"in {elapsed:.1f} s"
        if done <= self._first:
            return ""
        left = elapsed * (self._total - done) / (done - self._first)
        if left < 90:
            return f"{left:.0f} s left"
        return f"{left / 60:.0f} min left" if left < 5400 else f"{left / 3600:.1f} h left"
