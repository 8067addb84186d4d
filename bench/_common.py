"""What every benchmark shares: timing, ratios, and the refusal to time a debug build.

A benchmark checks its answer first, times the peer in the same run, and prints the ratio with its spread. The
machine may be busy, so a time is the best of several samples, and the figure to read is the ratio. bench/run.py
runs them all: it sets DPCORE_BENCH_RECORD to the file that gets a line of JSON for each figure, and
DPCORE_BENCH_QUICK for fewer sizes and samples.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import dpcore

QUICK = bool(os.environ.get("DPCORE_BENCH_QUICK"))
T = TypeVar("T")


def steps(every: Sequence[T], quick: int) -> Sequence[T]:
    """The sizes of a benchmark: all of them, or the first `quick` in a quick run."""
    return every[:quick] if QUICK else every


@dataclasses.dataclass(frozen=True)
class Timing:
    """Seconds per call: the best sample and the median one."""

    best: float
    median: float


def require_release() -> None:
    """Stop unless the core was built for speed and without sanitizers."""
    info = dpcore.build_info()
    if info["build_type"] != "Release" or info["sanitize"]:
        raise SystemExit(f"refusing to time a {info['build_type']} build {info['sanitize']}")


def timed(call: Callable[[], Any], *, samples: int = 7, least: float = 0.02) -> Timing:
    """Time `call`, each sample at least `least` seconds long."""
    samples = min(samples, 4) if QUICK else samples
    number, elapsed = 1, 0.0
    while True:
        start = time.perf_counter()
        for _ in range(number):
            call()
        elapsed = time.perf_counter() - start
        if elapsed >= least:
            break
        number = max(number + 1, int(number * 1.5 * least / max(elapsed, 1e-9)))
    seconds = [elapsed / number]
    for _ in range(samples - 1):
        start = time.perf_counter()
        for _ in range(number):
            call()
        seconds.append((time.perf_counter() - start) / number)
    seconds.sort()
    return Timing(seconds[0], seconds[len(seconds) // 2])


def version(package: str) -> str:
    """Name and version of an installed peer."""
    return f"{package} {importlib.metadata.version(package)}"


def human(seconds: float) -> str:
    """A duration with a unit people read."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def record(kind: str, **figures: Any) -> None:
    """Append a figure to the file that bench/run.py reads, if it asked for one."""
    file = os.environ.get("DPCORE_BENCH_RECORD")
    if file:
        with open(file, "a", encoding="utf-8") as out:
            out.write(json.dumps({"kind": kind, **figures}) + "\n")


def compare(
    what: str, ours: Timing, peer: Timing, peer_name: str, *, least: float | None = None, note: str = ""
) -> float:
    """Print one line of comparison and return the ratio peer/ours of the best times.

    `what` names the figure and is the same in every run; what was measured beside it goes into `note`.
    """
    ratio, by_median = peer.best / ours.best, peer.median / ours.median
    spread = f"{by_median:.3g}x by medians"
    goal = "" if least is None else f"  (goal {least:g}x{'' if ratio >= least else ', NOT reached'})"
    print(f"{what:<44} {human(ours.best):>9}  {peer_name} {human(peer.best):>9}  {ratio:8.1f}x  {spread}{goal}")
    if note:
        print(f"{'':<8}{note}")
    record(
        "ratio", what=what, ours=ours.best, peer=peer.best, peer_name=peer_name, ratio=ratio,
        ratio_median=by_median, goal=least, note=note,
    )  # fmt: skip
    return ratio


def growth(series: str, size: float, ours: Timing, peer: Timing | None = None, *, unit: str) -> None:
    """Record one point of a growth plot: seconds at a size, ours and (where it was timed) the peer's."""
    record("growth", series=series, size=size, ours=ours.best, peer=peer.best if peer else None, unit=unit)
