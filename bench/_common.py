"""What every benchmark shares: timing, ratios, and the refusal to time a debug build.

A benchmark checks its answer first, times the peer in the same run, and prints the ratio with its spread. The
machine may be busy, so a time is the best of several samples, and the figure to read is the ratio.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import time
from collections.abc import Callable
from typing import Any

import dpcore


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


def compare(what: str, ours: Timing, peer: Timing, peer_name: str, *, least: float | None = None) -> float:
    """Print one line of comparison and return the ratio peer/ours of the best times."""
    ratio = peer.best / ours.best
    spread = f"{peer.median / ours.median:.3g}x by medians"
    goal = "" if least is None else f"  (goal {least:g}x{'' if ratio >= least else ', NOT reached'})"
    print(f"{what:<44} {human(ours.best):>9}  {peer_name} {human(peer.best):>9}  {ratio:8.1f}x  {spread}{goal}")
    return ratio
