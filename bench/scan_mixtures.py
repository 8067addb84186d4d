"""Compositions of releases that share no lattice, drawn at random: how wide and how slow the bounds are.

    python bench/scan_mixtures.py --seconds 40

Two or three kinds of discrete Gaussian, discrete Laplace, Laplace, randomised response and approximate DP, 1 to
10^6 copies each (Laplace up to 300), half of the parameters with two digits; epsilons from the mean to 30 standard
deviations beyond it, four of ten with two digits, where delta is between 0.5 and 1e-250. Every seventh answer is
compared with the buckets, which share nothing with it.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np

from dpcore import accounting


def release(rng: np.random.Generator) -> tuple[accounting.PrivacyLoss, str]:
    copies = int(10 ** rng.uniform(0, 6))
    scale = math.sqrt(copies) * 10 ** rng.uniform(-1, 1)  # losses of ordinary size in all
    short = rng.random() < 0.5
    value = float(f"{scale:.2g}") if short else scale
    inverse = float(f"{1 / scale:.2g}") if short else 1 / scale
    kind = rng.integers(0, 6)
    sensitivity = int(rng.integers(1, 4 if kind <= 1 else 9))
    if kind <= 1:
        sigma = max(0.3, value)
        law = accounting.from_discrete_gaussian(sigma=sigma, sensitivity=sensitivity)
        return law * copies, f"discrete Gaussian({sigma}, {sensitivity}) x {copies}"
    if kind == 2:
        law = accounting.from_discrete_laplace(scale=max(0.3, value), sensitivity=sensitivity)
        return law * copies, f"discrete Laplace({max(0.3, value)}, {sensitivity}) x {copies}"
    if kind == 3:
        return accounting.from_randomized_response(epsilon=inverse) * copies, f"response({inverse}) x {copies}"
    if kind == 4:
        law = accounting.from_approximate(epsilon=inverse, delta=1e-12)
        return law * copies, f"approximate({inverse}) x {copies}"
    return accounting.from_laplace(epsilon=inverse) * min(copies, 300), f"Laplace({inverse}) x {min(copies, 300)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="print every wide one")
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    widths, times, inside, inside_times = [], [], [], []
    compared = 0
    start = time.process_time()
    while time.process_time() - start < given.seconds:
        drawn = [release(rng) for _ in range(2 + int(rng.random() < 0.4))]
        loss = accounting.compose([law for law, _ in drawn])
        name = " + ".join(name for _, name in drawn)
        finite = math.isfinite(loss.variance)
        spread = math.sqrt(max(loss.variance, 0.0)) if finite else 1.0
        eps = max(0.0, (loss.mean if finite else 1.0) + rng.choice([0, 1, 3, 8, 20, 30]) * spread)
        if rng.random() < 0.4:
            eps = float(f"{eps:.2g}")
        before = time.process_time()
        found = loss.log_delta(eps)
        took = time.process_time() - before
        if not math.log(1e-250) < found.upper < math.log(0.5):
            continue
        widths.append(found.upper - found.lower)
        times.append(took)
        if given.list and widths[-1] > 1e-9:
            print(f"{widths[-1]:.1e} in {took:.2f} s at {eps}: {name}")
        if len(widths) % 7 == 0:
            before = time.process_time()
            probability = loss.confidence(eps)
            inside_times.append(time.process_time() - before)
            inside.append(probability.upper - probability.lower)
            try:
                grid = loss.log_delta(eps, engine="buckets")
            except ValueError:  # more buckets than it allows
                continue
            if max(grid.lower, found.lower) > min(grid.upper, found.upper):
                raise SystemExit(f"buckets disagree at {eps}: {name}, {grid}, {found}")
            compared += 1

    def quantiles(values: list[float]) -> str:
        half, most, nearly_all = np.quantile(values, [0.5, 0.9, 0.99])
        return f"median {half:.2g}, 9 of 10 below {most:.2g}, 99 of 100 below {nearly_all:.2g}"

    wide = sum(width > 1e-9 for width in widths)
    print(f"{len(widths)} deltas, {wide} wider than 1e-9; {compared} compared with buckets")
    print("width of delta (relative):", quantiles(widths))
    print("seconds of processor time:", quantiles(times))
    print("width of confidence:      ", quantiles(inside))
    print("seconds of processor time:", quantiles(inside_times))


if __name__ == "__main__":
    main()
