"""Sensitivity sampling: overhead per evaluation, two processes, and the cost of one and the same guarantee.

Peers, in the same run: the loop that one writes by hand (Algorithm 1 in NumPy), and the number of samples that the
paper's formula asks for, which is what the R package diffpriv uses. Run: python bench/bench_sensitivity.py
"""

from __future__ import annotations

import math
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from _common import QUICK, compare, growth, human, require_release, steps, timed

from dpcore.sensitivity import (
    Histogram,
    LinearRegression,
    Mean,
    Quantile,
    SensitivitySampler,
    operating_point,
)


def exponential(count: int, rng: Any) -> Any:
    return rng.exponential(size=count)


def rows(count: int, rng: Any) -> Any:
    return rng.normal(size=(count, 5))


def first(data: Any) -> Any:
    return data[:, 0]


def loop(target: Any, sample: Any, records: int, samples: int, order: int, seed: int) -> float:
    """Algorithm 1 as one writes it by hand."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(samples):
        x = sample(records + 1, rng)
        a, b = target(x[:records]), target(np.concatenate((x[: records - 1], x[records:])))
        found.append(float(np.sum(np.abs(np.asarray(a) - np.asarray(b)))))
    return sorted(found)[order - 1]


def busy(data: Any) -> float:
    """About 4 ms of pure Python, which threads cannot share."""
    total = 0.0
    for i in range(60000):
        total += i * 1e-9
    return float(data[0]) + 0.0 * total


def waiting(data: Any) -> float:
    """Ten milliseconds that need no core: shows what the engine itself costs, even on a busy machine."""
    time.sleep(0.01)
    return float(data[0])


def least_squares(data: Any) -> Any:
    design = np.column_stack((data[:, :-1], np.ones(len(data))))
    return np.linalg.lstsq(design, data[:, -1], rcond=None)[0]


def median(data: Any) -> Any:
    return np.median(data)


def counts(data: Any) -> Any:
    return np.histogram(data, [0.0, 1.0, 2.0, 9.0])[0]


def check() -> None:
    """The estimate is near the analytic one: log(1/gamma)/n for the mean of exponential records."""
    records, gamma, samples = 20, 0.05, 100_000
    want = math.log(1 / gamma) / records
    got = SensitivitySampler(Mean(), exponential, records=records).estimate(gamma=gamma, samples=samples, seed=1)
    deviation = math.sqrt((1 - gamma) / gamma / samples) / records
    assert abs(got.sensitivity - want) < 6 * deviation, (got.sensitivity, want)
    point = operating_point(gamma=gamma, samples=20_000)
    peer = loop(np.mean, exponential, records, 20_000, point.order, 1)
    assert abs(peer - want) < 6 * deviation * math.sqrt(5), (peer, want)
    print(f"checked: analytic {want:.5f}, sampler {got.sensitivity:.5f}, loop {peer:.5f}\n")


def overhead() -> None:
    print("a trivial target (first record of 2), everything included, batched path; goal: below 2 us")
    sampler = SensitivitySampler(first, exponential, records=2, vectorised=True)
    for samples in steps((10**3, 10**4, 10**5, 10**6), 3):
        start = time.perf_counter()
        ours = timed(lambda m=samples: sampler.estimate(samples=m, seed=1), samples=5)
        each = ours.best / samples
        growth("trivial target, batched", samples, ours, unit="evaluations")
        print(f"  {samples:>8} samples  {human(ours.best):>9}  {each * 1e6:.3f} us each", end="")
        print("  (goal NOT reached)" if each >= 2e-6 else "", f"[{time.perf_counter() - start:.1f} s]")
    plain = SensitivitySampler(lambda x: x[0], exponential, records=2)
    ours = timed(lambda: plain.estimate(samples=10**4, seed=1), samples=3)
    print(f"  one database at a time: {ours.best / 1e4 * 1e6:.2f} us each\n")


def targets() -> None:
    print("built-in targets against the loop, 1000 evaluations, same guarantee")
    cases = (
        ("mean", Mean(), np.mean, exponential, 100),
        ("mean", Mean(), np.mean, exponential, 1000),
        ("mean", Mean(), np.mean, exponential, 10000),
        ("median", Quantile(0.5), median, exponential, 1000),
        ("histogram", Histogram([0, 1, 2, 9]), counts, exponential, 1000),
        ("least squares, 4 features", LinearRegression(), least_squares, rows, 100),
        ("least squares, 4 features", LinearRegression(), least_squares, rows, 1000),
    )
    for name, target, peer, sample, records in steps(cases, 4):
        sampler = SensitivitySampler(target, sample, records=records)
        ours = timed(lambda s=sampler: s.estimate(samples=1000, seed=1), samples=5)
        theirs = timed(lambda p=peer, q=sample, n=records: loop(p, q, n, 1000, 1000, 1), samples=3)
        compare(f"{name}, {records} records", ours, theirs, "NumPy loop")
    print()


def two_processes() -> None:
    samples = 199
    sampler = SensitivitySampler(busy, exponential, records=10)
    here = sampler.estimate(samples=samples, seed=3)
    with ProcessPoolExecutor(2) as pool:
        assert sampler.estimate(samples=samples, seed=3, executor=pool) == here
        one, two = [], []
        for _ in range(3):
            start = time.perf_counter()
            sampler.estimate(samples=samples, seed=3)
            one.append(time.perf_counter() - start)
            start = time.perf_counter()
            sampler.estimate(samples=samples, seed=3, executor=pool)
            two.append(time.perf_counter() - start)
    start = time.perf_counter()
    loop(busy, exponential, 10, samples, samples, 3)
    plain = time.perf_counter() - start
    print(f"an expensive target ({samples} evaluations): loop {plain:.2f} s, here {min(one):.2f} s,", end=" ")
    print(f"two processes {min(two):.2f} s: {min(one) / min(two):.2f}x", end=" ")
    print(f"(spread {min(one) / max(two):.2f}x to {max(one) / min(two):.2f}x)\n")


def two_waiting_processes() -> None:
    samples = 199
    sampler = SensitivitySampler(waiting, exponential, records=10)
    with ProcessPoolExecutor(2) as pool:
        sampler.estimate(samples=8, seed=3, executor=pool)  # starts the workers
        start = time.perf_counter()
        here = sampler.estimate(samples=samples, seed=3)
        one = time.perf_counter() - start
        start = time.perf_counter()
        assert sampler.estimate(samples=samples, seed=3, executor=pool) == here
        two = time.perf_counter() - start
    print(f"a target that waits ({samples} evaluations): here {one:.2f} s, two processes {two:.2f} s:", end=" ")
    print(f"{one / two:.2f}x\n")


def same_guarantee() -> None:
    print("samples for one guarantee; time with the median of 1000 records")
    sampler = SensitivitySampler(Quantile(0.5), exponential, records=1000)
    for gamma in (0.5, 0.1, 0.05, 0.01, 0.001):
        exact = operating_point(gamma=gamma).samples
        sure = operating_point(gamma=gamma, method="confident").samples
        published = operating_point(gamma=gamma, method="published").samples
        ours = timed(lambda g=gamma: sampler.estimate(gamma=g, seed=1), samples=3)
        line = f"  gamma {gamma:<6} exact {exact:>4}  confident {sure:>5}  published {published:>8}"
        line += f"  {published / exact:6.0f}x fewer  exact {human(ours.best)}"
        if published <= 50_000:
            start = time.perf_counter()
            sampler.estimate(gamma=gamma, method="published", seed=1)
            line += f", published {human(time.perf_counter() - start)}"
        print(line)


def main() -> None:
    require_release()
    check()
    overhead()
    targets()
    if not QUICK:
        two_processes()
        two_waiting_processes()
        same_guarantee()


if __name__ == "__main__":
    main()
