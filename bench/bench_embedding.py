"""What dpcore costs where it is embedded: a release through C++, C, Cython and Python, two threads, the service.

python bench/bench_embedding.py [--service [--requests 1000000]]

Everything is built against the installed package. The goals are those of docs/embedding.md.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from _common import compare, human, require_release, timed, version

import dpcore
from dpcore import gaussian, mechanisms, samplers

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLES = HERE.parent / "examples"


def quick(call: Callable[[], Any]) -> float:
    """Best of many short samples, so that a busy machine leaves some of them alone."""
    return timed(call, samples=400, least=0.0005).best


def row(what: str, seconds: float, goal: float | None = None) -> None:
    note = "" if goal is None else f"  (goal {human(goal)}{'' if seconds <= goal else ', NOT reached'})"
    print(f"{what:<52} {human(seconds):>9}{note}")


def build_cpp(folder: pathlib.Path) -> pathlib.Path:
    program = folder / "bench_embedding"
    command = ["c++", "-std=c++17", "-O2", str(HERE / "bench_embedding.cpp"), "-I", dpcore.get_include()]
    command += ["-L", dpcore.get_library_dir(), "-l:libdpcore.a", "-lpthread", "-o", str(program)]
    subprocess.run(command, check=True)
    return program


def build_cython(folder: pathlib.Path) -> Any:
    source = shutil.copytree(EXAMPLES / "cython", folder / "cython")
    subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=source, check=True)
    (file,) = pathlib.Path(source).glob("noisy_counts.*.so")
    spec = importlib.util.spec_from_file_location("noisy_counts", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def waited() -> float:
    """Seconds that this thread could have run but had no core, on a machine that others use too."""
    return int(pathlib.Path(f"/proc/self/task/{threading.get_native_id()}/schedstat").read_text().split()[1]) / 1e9


def in_threads(count: int, work: Callable[[], None]) -> float:
    """Time of the slowest thread, less what it waited for a core: waiting for the GIL stays in."""
    own: list[float] = []
    together = threading.Barrier(count)

    def timed_work() -> None:
        together.wait()
        before, start = waited(), time.perf_counter()
        work()
        own.append(time.perf_counter() - start - (waited() - before))

    threads = [threading.Thread(target=timed_work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return max(own)


def two_threads(what: str, call: Callable[[], Any], repeats: int, goal: str = "  (goal close to 2x)") -> None:
    """Throughput of two Python threads over that of one; each call is small enough to stay on one core."""

    def work() -> None:
        for _ in range(repeats):
            call()

    gains = sorted(2 * in_threads(1, work) / in_threads(2, work) for _ in range(9))
    print(f"{what:<52} {gains[4]:8.2f}x  from {gains[0]:.2f}x to {gains[-1]:.2f}x{goal}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--service", action="store_true", help="also load the example service")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--lease", type=int, default=100)
    arguments = parser.parse_args()
    require_release()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        out = subprocess.run([build_cpp(folder)], check=True, capture_output=True, text=True).stdout
        measured = {key: float(value) for key, value in (line.split() for line in out.splitlines())}
        print("one release")
        for key in ("cpp_discrete_laplace", "cpp_discrete_gaussian", "cpp_laplace", "c_discrete_laplace"):
            row(f"  {key}", measured[key], 100e-9)
        print("correlation of time and magnitude over 10^6 draws, in C++ (goal |r| < 0.01)")
        for key, value in measured.items():
            if key.startswith("correlation"):
                print(f"  {key[12:]:<40} {value:+.5f}{'' if abs(value) < 0.01 else '  BEYOND THE GOAL'}")
        counts = build_cython(folder).NoisyCounts(0.1)
        noise = [counts.release(0) for _ in range(1000)]
        assert 5 < float(np.mean(np.abs(noise))) < 15, "wrong"  # the mean is 10, 20 standard deviations inside
        row(
            "  cython, in a loop without the GIL",
            min(counts.time_releases(2000) for _ in range(400)) / 2e3,
            100e-9,
        )
        row("  cython, called from Python", quick(lambda: counts.release(5)))
        for mechanism in (
            mechanisms.DiscreteLaplace(epsilon=0.1, sensitivity=1),
            mechanisms.Laplace(epsilon=0.1, sensitivity=1.0),
        ):
            row(
                f"  python, {type(mechanism).__name__}.release",
                quick(lambda m=mechanism: m.release(5)),
                1.5e-6,
            )
        row("  python, samplers.discrete_laplace", quick(lambda: samplers.discrete_laplace(10.0)), 1.5e-6)
        print("bulk")
        row("  C, one thread, a draw", measured["fill_1"])
        row("  C, two threads, a draw", measured["fill_2"])
        print(f"  two threads inside one call: {measured['fill_1'] / measured['fill_2']:.2f}x")
    two_threads("sampling in two Python threads", lambda: samplers.discrete_laplace(10.0, 30_000), 1000)
    epsilon = np.linspace(0.1, 3.0, 250)
    two_threads("calibration grid in two Python threads", lambda: gaussian.sigma(epsilon=epsilon, delta=1e-6), 600)
    two_threads("plain Python code, which holds the GIL", lambda: sum(range(3000)), 5000, "  (for comparison)")
    rng = np.random.Generator(dpcore.SecureBitGenerator())
    peer = np.random.default_rng(1)
    ours, theirs = timed(lambda: rng.random(10**6)), timed(lambda: peer.random(10**6))
    compare("SecureBitGenerator, 1e6 doubles", ours, theirs, f"PCG64 ({version('numpy')})")
    if arguments.service:
        command = [sys.executable, EXAMPLES / "service" / "load.py", "--requests", str(arguments.requests)]
        command += ["--lease", str(arguments.lease)]
        done = subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True)
        print("service", json.loads(done.stdout))


if __name__ == "__main__":
    main()
