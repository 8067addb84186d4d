"""Compositions from far away, drawn at random: how wide and how slow the bounds are where hardly anybody goes.

    python bench/scan_far.py --seconds 60 --list

Three populations. `alone`: one to three kinds of sampled Gaussian step (sigma 0.2 to 50; rates 1e-8 to 0.9, or
1e-4 to 0.9; 1 to 10^6 steps, or 1 to 30); `beside`: one or two kinds of them beside one to three kinds of other
releases; `without`: two to four kinds of other releases (1 to 10^4 copies). Steps of one composition go in one
direction. Epsilons: the mean and up to 15 standard deviations beyond it, anything from 1e-6 to 20, one digit,
0, and a thousandth of a standard deviation to ten. Counted are answers with delta from 0.5 to 1e-250, or not
known to be below.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
from _scan import drawn, quantiles

from dpcore import accounting

ASKED = 1e-9
KINDS = ("Laplace", "Gaussian", "discrete Laplace", "discrete Gaussian", "response", "approximate", "pair", "pure")
POPULATIONS = {"alone": ((1, 3), (0, 0)), "beside": ((1, 2), (1, 3)), "without": ((0, 0), (2, 4))}


def between(rng: np.random.Generator, low: float, high: float) -> float:
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def step(rng: np.random.Generator, neighbours: str) -> tuple[accounting.PrivacyLoss, str]:
    copies = int(between(rng, 1, 1e6 if rng.random() < 0.5 else 30))
    sigma = float(f"{between(rng, 0.2, 50):.4g}")
    rate = float(f"{between(rng, 1e-8 if rng.random() < 0.5 else 1e-4, 0.9):.4g}")
    law = accounting.from_subsampled_gaussian(sigma=sigma, rate=rate, neighbours=neighbours)
    return law * copies, f"subsampled({sigma}, {rate}, {neighbours}) x {copies}"


def other(rng: np.random.Generator) -> tuple[accounting.PrivacyLoss, str]:
    copies = int(between(rng, 1, 1e4 if rng.random() < 0.6 else 10))
    scale = math.sqrt(copies) * 10 ** rng.uniform(-0.7, 2)
    kind = KINDS[rng.integers(0, len(KINDS))]
    law, name = drawn(rng, kind, scale, bool(rng.random() < 0.5), int(rng.integers(1, 4)))
    return law * copies, f"{name} x {copies}"


def epsilon_of(rng: np.random.Generator, loss: accounting.PrivacyLoss) -> float:
    finite = math.isfinite(loss.variance)
    spread = math.sqrt(max(loss.variance, 0.0)) if finite else 1.0
    how = rng.integers(0, 4)
    if how == 0:
        return float(max(0.0, (loss.mean if finite else 0.0) + rng.choice([0, 1, 2, 4, 8, 15]) * spread))
    if how == 1:
        return between(rng, 1e-6, 20)
    if how == 2:
        return float(f"{between(rng, 1e-3, 10):.1g}")
    return 0.0 if rng.random() < 0.2 else spread * between(rng, 1e-3, 10)


def scan(population: str, seconds: float, seed: int, listed: bool) -> None:
    rng = np.random.default_rng(seed)
    steps, others = POPULATIONS[population]
    widths, times = [], []
    start = time.process_time()
    while time.process_time() - start < seconds:
        neighbours = "add" if rng.random() < 0.4 else "remove"
        releases = [step(rng, neighbours) for _ in range(rng.integers(steps[0], steps[1] + 1))]
        releases += [other(rng) for _ in range(rng.integers(others[0], others[1] + 1))]
        loss = accounting.compose([law for law, _ in releases])
        eps = epsilon_of(rng, loss)
        before = time.process_time()
        found = loss.log_delta(eps)
        taken = time.process_time() - before
        if not (found.upper > math.log(1e-250) and found.lower < math.log(0.5)):
            continue
        times.append(taken)
        widths.append(math.expm1(min(700.0, found.upper - found.lower)))
        if listed and not widths[-1] <= ASKED:
            name = " + ".join(name for _, name in releases)
            print(f"{widths[-1]:.1e} in {taken:.2f} s at {eps}: {name}", flush=True)
    wide = sum(not width <= ASKED for width in widths)
    print(f"{population}: {len(widths)} deltas, {wide} wider than {ASKED}")
    print("  width of delta (relative):", quantiles(widths))
    print("  seconds of processor time:", quantiles(times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="processor time for each population")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--population", choices=sorted(POPULATIONS), help="only this one")
    parser.add_argument("--list", action="store_true", help="print every wide one")
    given = parser.parse_args()
    for population in [given.population] if given.population else POPULATIONS:
        scan(population, given.seconds, given.seed, given.list)


if __name__ == "__main__":
    main()
