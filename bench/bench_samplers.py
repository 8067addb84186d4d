"""Samplers and mechanisms against NumPy (fast, insecure) and OpenDP (exact, slow), on one core.

python bench/bench_samplers.py            the whole run, about two minutes

The correlation of time and magnitude inside C++, without Python's objects, is in bench_embedding.py.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from _common import QUICK, Timing, compare, growth, human, require_release, steps, timed, version
from scipy import stats

from dpcore import mechanisms, samplers

DRAWS = 200_000
SCALES = (1.0, 10.0, 1000.0, 1e6)


def opendp_samplers() -> dict[str, Callable[[float], Callable[[], Any]]]:
    """Makers of OpenDP's vector samplers for 2000 draws; empty without OpenDP."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return {}
    dp.enable_features("contrib")
    zeros = [0] * 2000
    reals = [0.0] * 2000

    def integer(make: Any) -> Callable[[float], Callable[[], Any]]:
        def build(scale: float) -> Callable[[], Any]:
            space = dp.vector_domain(dp.atom_domain(T=int))
            metric = dp.l1_distance(T=int) if make is dp.m.make_laplace else dp.l2_distance(T=float)
            measurement = make(space, metric, scale=scale)
            return lambda: measurement(zeros)

        return build

    def real(make: Any) -> Callable[[float], Callable[[], Any]]:
        def build(scale: float) -> Callable[[], Any]:
            space = dp.vector_domain(dp.atom_domain(T=float, nan=False))
            metric = dp.l1_distance(T=float) if make is dp.m.make_laplace else dp.l2_distance(T=float)
            measurement = make(space, metric, scale=scale)
            return lambda: measurement(reals)

        return build

    return {
        "discrete_laplace": integer(dp.m.make_laplace),
        "discrete_gaussian": integer(dp.m.make_gaussian),
        "laplace": real(dp.m.make_laplace),
        "gaussian": real(dp.m.make_gaussian),
    }


def check_answers() -> None:
    """The laws, coarsely; tests/ does it properly."""
    x = samplers.discrete_laplace(10.0, DRAWS)
    q = np.exp(-0.1)
    assert abs(x.mean()) < 0.1
    assert abs(x.var() - 2 * q / (1 - q) ** 2) < 2
    assert stats.kstest(samplers.gaussian(3.0, DRAWS), stats.norm(scale=3).cdf).pvalue > 1e-9
    assert stats.kstest(samplers.laplace(3.0, DRAWS), stats.laplace(scale=3).cdf).pvalue > 1e-9


def cpu_timed(call: Callable[[], Any], *, samples: int = 30) -> Timing:
    """Processor time of a call, best and median: what a core does, also where other work shares the machine."""
    seconds = []
    for _ in range(samples):
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    seconds.sort()
    return Timing(seconds[0], seconds[len(seconds) // 2])


def per_draw(t: Timing, draws: int) -> Timing:
    return Timing(t.best / draws, t.median / draws)


def rate(t: Timing) -> str:
    return f"{1e-6 / t.best:7.1f} M/s (median {1e-6 / t.median:.1f})"


def bulk() -> None:
    rng = np.random.default_rng()
    peers: dict[str, Callable[[float], Callable[[], Any]]] = {
        "discrete_laplace": lambda s: (
            lambda: rng.geometric(-np.expm1(-1 / s), DRAWS) - rng.geometric(-np.expm1(-1 / s), DRAWS)
        ),
        "discrete_gaussian": lambda s: lambda: np.rint(rng.normal(0, s, DRAWS)),  # not even the right law
        "laplace": lambda s: lambda: rng.laplace(0, s, DRAWS),
        "gaussian": lambda s: lambda: rng.normal(0, s, DRAWS),
    }
    exact = opendp_samplers()
    print(
        f"\nper draw, arrays of {DRAWS}; peers: {version('numpy')}, {version('opendp') if exact else 'no opendp'}"
    )
    for name, numpy_call in peers.items():
        ours_of = getattr(samplers, name)
        goal = 50 if name.startswith("discrete") else 40
        for scale in steps(SCALES, 2):
            ours = per_draw(cpu_timed(lambda f=ours_of, s=scale: f(s, DRAWS)), DRAWS)
            met = "" if 1e-6 / ours.best >= goal else "  BELOW THE GOAL"
            what = f"{name}({scale:g})"
            print(f"{what}: {rate(ours)}, goal {goal}{met}")
            note = f"{1e-6 / ours.best:.0f} million a second on one core"
            compare(what, ours, per_draw(cpu_timed(numpy_call(scale)), DRAWS), version("numpy"), note=note)
            if name in exact:
                peer = per_draw(cpu_timed(exact[name](scale), samples=5), 2000)
                least = 400 if name.startswith("discrete") else None
                compare(what, ours, peer, version("opendp"), least=least)


def sizes() -> None:
    """Time against the number of draws, on one core."""
    rng = np.random.default_rng()
    for exponent in range(0, 6 if QUICK else 8):
        draws = 10**exponent
        ours = timed(lambda n=draws: samplers.discrete_laplace(10.0, n), samples=3)
        peer = timed(lambda n=draws: rng.laplace(0, 10.0, n), samples=3)
        growth("draws of discrete Laplace (peer: NumPy, floating point)", draws, ours, peer, unit="draws")


def two_cores(cores: set[int]) -> None:
    if len(cores) < 2:
        return
    one = timed(lambda: samplers.discrete_gaussian(10.0, 20 * DRAWS), samples=5)
    os.sched_setaffinity(0, cores)
    both = timed(lambda: samplers.discrete_gaussian(10.0, 20 * DRAWS), samples=5)
    os.sched_setaffinity(0, {min(cores)})
    print(f"\n{len(cores)} cores: {one.best / both.best:.2f} times the throughput of one (4 million draws)")


def scalars() -> None:
    print("\nscalar calls from Python (goal 1 us)")
    count, real = mechanisms.DiscreteLaplace(epsilon=1.0, sensitivity=1), mechanisms.Gaussian(sigma=3.0)
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("samplers.discrete_laplace(10.0)", lambda: samplers.discrete_laplace(10.0)),
        ("samplers.discrete_gaussian(10.0)", lambda: samplers.discrete_gaussian(10.0)),
        ("samplers.laplace(10.0)", lambda: samplers.laplace(10.0)),
        ("samplers.gaussian(10.0)", lambda: samplers.gaussian(10.0)),
        ("samplers.bernoulli_exp(0.5)", lambda: samplers.bernoulli_exp(0.5)),
        ("samplers.uniform_below(10)", lambda: samplers.uniform_below(10)),
        ("DiscreteLaplace.release(123)", lambda: count.release(123)),
        ("Gaussian.release(1.5)", lambda: real.release(1.5)),
    ]
    for name, call in calls:

        def loop(call: Callable[[], Any] = call) -> None:
            for _ in range(10_000):
                call()

        t = per_draw(cpu_timed(loop, samples=15), 10_000)
        print(f"  {name:<36} {human(t.best):>9} (median {human(t.median)})")


def randomness() -> None:
    """Bytes of the stream a draw: 16 an attempt, divided by the share of attempts accepted."""
    print("\nbytes of randomness a draw")
    accepted_exponential = 16 * -np.expm1(-1 / 16)
    mass = np.exp(-(np.arange(1024.0) ** 2) / 8192).sum() / 64
    for scale in (1e-3, *SCALES):
        q = np.exp(-1 / scale)
        zero = accepted_exponential * (1 - q) / (accepted_exponential * (1 - q) + 2 * q)
        laplace = 16 / (zero + (1 - zero) * accepted_exponential)
        k = np.arange(1, 20 * scale + 2)
        total = 1 + 2 * np.exp(-0.5 * (k / scale) ** 2).sum()
        gaussian = 16 * (1 + 2 * scale * mass) / total
        print(f"  scale {scale:g}: discrete Laplace {laplace:.2f}, discrete Gaussian {gaussian:.2f}")
    print(f"  Laplace {16 / accepted_exponential:.2f}, Gaussian {16 * mass / np.sqrt(np.pi / 2):.2f}, any scale")


def time_and_magnitude(call: Callable[[], float], draws: int) -> tuple[float, float]:
    """Correlation, and rank correlation of a tenth, between the magnitude of what a call returns and its time.

    Times are clipped at their 99th percentile: interruptions by the system are unrelated to the draw and would
    only add noise. 10^6 draws show a correlation of 0.001.
    """
    clock = time.perf_counter_ns
    values, spent = np.empty(draws), np.empty(draws)
    for i in range(draws):
        start = clock()
        x = call()
        spent[i] = clock() - start
        values[i] = x
    spent = np.minimum(spent, np.quantile(spent, 0.99))
    tenth = slice(draws // 10)
    return (
        float(np.corrcoef(np.abs(values), spent)[0, 1]),
        float(stats.spearmanr(np.abs(values[tenth]), spent[tenth]).statistic),
    )


def correlation(draws: int) -> None:
    """The goal is for scales at which CPython makes all its integers alike.

    It keeps those from -5 to 256 ready and looks for them at every integer, and takes a second digit from 2^30 on:
    both take another time, which is no property of the draw. The last lines show it without any draw.
    """
    print(f"\ncorrelation of time and magnitude over {draws} scalar draws (goal |r| < 0.01)")
    for name, scale in (
        ("discrete_laplace", 1e6),
        ("discrete_gaussian", 1e6),
        ("laplace", 1.0),
        ("gaussian", 1.0),
    ):
        call = getattr(samplers, name)
        r, rank = time_and_magnitude(lambda f=call, s=scale: f(s), draws)
        missed = "" if abs(r) < 0.01 else "  BEYOND THE GOAL"
        print(f"  {name}({scale:g}): r = {r:+.5f}, by ranks {rank:+.5f}{missed}")
    print("  the making of CPython's integers:")
    for scale in (1000.0, 1e9):
        r, rank = time_and_magnitude(lambda s=scale: samplers.discrete_laplace(s), draws)
        print(f"  discrete_laplace({scale:g}): r = {r:+.5f}, by ranks {rank:+.5f}")
        ready = samplers.discrete_laplace(scale, draws)
        index = iter(range(draws))
        r, rank = time_and_magnitude(lambda a=ready, i=index: a.item(next(i)), draws)
        print(f"  the same law drawn before, ndarray.item alone: r = {r:+.5f}, by ranks {rank:+.5f}")


def memory() -> None:
    """Peak memory above the output itself."""
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for draws in (10**6, 10**7):
        samplers.discrete_gaussian(10.0, draws)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        extra = peak - base - 8 * draws // 1024
        print(f"  {draws} draws: {max(0, extra)} KiB beyond the output")


def main() -> None:
    require_release()
    cores = os.sched_getaffinity(0)
    print("memory")
    memory()
    check_answers()
    os.sched_setaffinity(0, {min(cores)})  # one core: what is claimed is per core
    bulk()
    sizes()
    scalars()
    if QUICK:
        return
    two_cores(cores)
    randomness()
    correlation(10**6)


if __name__ == "__main__":
    main()
