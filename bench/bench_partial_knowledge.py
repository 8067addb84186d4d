"""Counts under partial knowledge: speed and accuracy, beside the method of the thesis.

Run: python bench/bench_partial_knowledge.py

The thesis puts the binomial law on a grid, convolves it with the noise (scipy.signal.fftconvolve) and sums the
privacy losses above epsilon in buckets. That is done here in the same run, on the same cases, with its error
beside it.
"""

from __future__ import annotations

import math

import numpy as np
from _common import compare, growth, human, require_release, steps, timed, version
from scipy import signal, stats

from dpcore import gaussian
from dpcore import partial_knowledge as pk

# epsilon, unknown, bias, noise, ln of delta: from tests/data/count_delta.json (300-bit ball arithmetic)
CHECK = ((0.0005, 10**6, 0.3, 300.0), (0.01, 10**6, 0.3, 30.0))


def thesis(epsilon: float, unknown: int, bias: float, noise: float, buckets: int = 100_000) -> float:
    """Delta by convolution and buckets: losses rounded up to 100,000 buckets, as the thesis's tool does."""
    k = np.arange(unknown + 1)
    pmf = stats.binom.pmf(k, unknown, bias)
    reach = math.ceil(13 * noise)
    x = np.arange(-reach, reach + 1)
    density = np.maximum(signal.fftconvolve(pmf, stats.norm.pdf(x, 0, noise)), 0.0)
    one, zero = np.append(0.0, density), np.append(density, 0.0)
    both = (one > 0) & (zero > 0)
    worst = 0.0
    for p, q in ((one, zero), (zero, one)):
        loss = np.log(p[both] / q[both])
        step = 2 * np.abs(loss).max() / buckets
        rounded = np.ceil(loss / step) * step
        high = rounded > epsilon
        worst = max(worst, float(np.sum(p[both][high] * -np.expm1(epsilon - rounded[high])) + p[~both].sum()))
    return worst


def check() -> None:
    import json
    import pathlib

    rows = json.loads((pathlib.Path(__file__).parent.parent / "tests/data/count_delta.json").read_text())["rows"]
    off = 0.0
    for row in rows:
        for direction in ("add", "remove"):
            want = float(row[f"log_delta_{direction}"])
            got = float(
                pk.log_count_delta(
                    epsilon=row["epsilon"],
                    records=row["m"] + 1,
                    known=0,
                    bias=row["p"],
                    noise_scale=row["beta"],
                    direction=direction,
                )
            )
            if want > math.log(1e-300):
                off = max(off, abs(got - want))
    print(f"largest relative error of delta over {len(rows)} reference cases down to 1e-300: {off:.1e}")
    if off > 1e-11:
        raise SystemExit("wrong answers; nothing was timed")


def main() -> None:
    require_release()
    check()
    print(f"peers: {version('scipy')}, {version('numpy')}\n")

    print("one count_delta (both directions), without noise, and one calibrate to delta = 1e-9, at bias 0.3")
    heads = ("unknown", "noise", "count_delta", "median", "noise 0", "calibrate", "median")
    print(" ".join(f"{head:>11}" for head in heads))
    for power in steps(range(3, 13), 4):
        unknown = 10**power
        spread = math.sqrt(0.21 * unknown)
        # Noise and records together are about a normal law of 1.25 spreads; this is its epsilon at delta = 1e-9.
        epsilon = float(gaussian.epsilon(sigma=1.25 * spread, delta=1e-9))
        case = dict(epsilon=epsilon, records=unknown + 1, known=0, bias=0.3)
        noise = pk.calibrate(**case, delta=1e-9).noise_scale
        if not 0.6 * spread < noise < 0.9 * spread:
            raise SystemExit(f"calibrate gave {noise} for a spread of {spread}; nothing was timed")
        one = timed(lambda case=case, noise=noise: pk.count_delta(**case, noise_scale=noise))
        zero = timed(lambda case=case: pk.count_delta(**case, noise_scale=0.0))
        all_ = timed(lambda case=case: pk.calibrate(**case, delta=1e-9), samples=5)
        times = (one.best, one.median, zero.best, all_.best, all_.median)
        print(f"{unknown:>11.0e} {noise:>11.4g} " + " ".join(f"{human(t):>11}" for t in times))
        growth("count delta", unknown, one, unit="unknown records")
        growth("calibrate", unknown, all_, unit="unknown records")

    print("\nagainst the thesis's method (binomial on a grid, fftconvolve, 100,000 buckets)")
    for epsilon, unknown, bias, noise in (
        (0.05, 2 * 10**4, 0.25, 30.0),
        (0.0005, 10**6, 0.3, 300.0),
        (0.01, 10**6, 0.3, 300.0),
        (0.02, 10**6, 0.3, 300.0),
    ):
        case = dict(epsilon=epsilon, records=unknown + 1, known=0, bias=bias, noise_scale=noise)
        ours = pk.count_delta(**case)
        theirs = thesis(epsilon, unknown, bias, noise)
        a = timed(lambda case=case: pk.count_delta(**case))
        b = timed(lambda e=epsilon, m=unknown, p=bias, s=noise: thesis(e, m, p, s), samples=2, least=0.001)
        compare(
            f"count_delta, {unknown:.0e} unknown, epsilon {epsilon:g}",
            a,
            b,
            f"thesis ({version('scipy')})",
            least=1000 if unknown == 10**6 else None,
            note=f"delta {ours:.6e}; thesis {theirs:.6e}, off by {theirs / ours - 1:+.1e}",
        )

    print("\nranges, joint releases, unknown bias")
    for name, call in (
        (
            "count_delta, bias in (0.25, 0.35), 10^4 unknown",
            lambda: pk.count_delta(epsilon=0.05, records=10**4 + 1, known=0, bias=(0.25, 0.35), noise_scale=5.0),
        ),
        (
            "count_delta, bias in (0.25, 0.35), 10^6 unknown",
            lambda: pk.count_delta(epsilon=0.01, records=10**6 + 1, known=0, bias=(0.25, 0.35), noise_scale=50.0),
        ),
        (
            "joint_delta (Laplace), 10^4 unknown",
            lambda: pk.joint_delta(
                epsilon=0.1, records=10**4 + 1, known=0, bias=0.5, noise_scale=20.0, estimate_scale=100.0
            ),
        ),
        (
            "joint_delta (Laplace), 10^8 unknown",
            lambda: pk.joint_delta(
                epsilon=0.001, records=10**8 + 1, known=0, bias=0.3, noise_scale=2e3, estimate_scale=1e4
            ),
        ),
        (
            "calibrate_unknown_bias, 10^6 records",
            lambda: pk.calibrate_unknown_bias(300_000, records=10**6, known=5 * 10**5, epsilon=0.01, delta=1e-6),
        ),
        (
            "calibrate_unknown_bias, 10^9 records",
            lambda: pk.calibrate_unknown_bias(
                3 * 10**8, records=10**9, known=5 * 10**8, epsilon=0.0003, delta=1e-6
            ),
        ),
    ):
        print(f"{name}: {human(timed(call, samples=2, least=0.001).best)}")


if __name__ == "__main__":
    main()
