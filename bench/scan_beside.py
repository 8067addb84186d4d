"""Sampled Gaussian steps beside other releases, drawn at random: how wide and how slow the bounds are.

    python bench/scan_beside.py --seconds 60 --steps many --list

One kind of subsampled Gaussian step (sigma 0.5 to 4, rate 1e-4 to 0.1, added or removed; `few`: 1 to 100 of them,
`many`: 100 to 10^5) beside one or two kinds of Laplace, Gaussian, discrete Laplace, discrete Gaussian, randomised
response, approximate DP and pairs of three to twelve outcomes, 1 to 1000 copies each, half of the parameters with
two digits; epsilons from the mean to 8 standard deviations beyond it, where delta is between 0.5 and 1e-250. Every
seventh answer is compared with the buckets, which share nothing with it: a disjoint pair of bounds ends the scan.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
from _scan import drawn, quantiles

from dpcore import accounting

ASKED = 1e-9


def steps(rng: np.random.Generator, few: bool) -> tuple[accounting.PrivacyLoss, str]:
    copies = int(10 ** (rng.uniform(0, 2) if few else rng.uniform(2, 5)))
    sigma = float(f"{10 ** rng.uniform(-0.3, 0.6):.3g}")
    rate = float(f"{10 ** rng.uniform(-4, -1):.3g}")
    neighbours = "add" if rng.random() < 0.5 else "remove"
    law = accounting.from_subsampled_gaussian(sigma=sigma, rate=rate, neighbours=neighbours)
    return law * copies, f"subsampled({sigma}, {rate}, {neighbours}) x {copies}"


KINDS = ("Laplace", "Gaussian", "discrete Laplace", "discrete Gaussian", "response", "approximate", "pair")


def other(rng: np.random.Generator) -> tuple[accounting.PrivacyLoss, str]:
    copies = int(10 ** rng.uniform(0, 3))
    scale = math.sqrt(copies) * 10 ** rng.uniform(0, 1.5)
    short = rng.random() < 0.5
    sensitivity = int(rng.integers(1, 4))
    law, name = drawn(rng, KINDS[rng.integers(0, 7)], scale, short, sensitivity)
    return law * copies, f"{name} x {copies}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", choices=["few", "many"], default="many")
    parser.add_argument("--list", action="store_true", help="print every wide one")
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    widths, times = [], []
    compared = 0
    start = time.process_time()
    while time.process_time() - start < given.seconds:
        releases = [steps(rng, given.steps == "few")] + [other(rng) for _ in range(int(rng.integers(1, 3)))]
        loss = accounting.compose([law for law, _ in releases])
        name = " + ".join(name for _, name in releases)
        finite = math.isfinite(loss.variance)
        spread = math.sqrt(max(loss.variance, 0.0)) if finite else 1.0
        eps = float(max(0.0, (loss.mean if finite else 0.0) + rng.choice([0, 1, 2, 4, 8]) * spread))
        before = time.process_time()
        found = loss.log_delta(eps)
        taken = time.process_time() - before
        if not math.log(1e-250) < found.upper < math.log(0.5):
            continue
        times.append(taken)
        widths.append(math.expm1(min(700.0, found.upper - found.lower)))
        if given.list and not widths[-1] <= ASKED:
            print(f"{widths[-1]:.1e} in {taken:.2f} s at {eps}: {name}", flush=True)
        if len(widths) % 7 == 0:
            try:
                grid = loss.log_delta(eps, engine="buckets")
            except ValueError:  # more buckets than its limit
                continue
            compared += 1
            if max(found.lower, grid.lower) > min(found.upper, grid.upper):
                raise SystemExit(f"bounds disagree at {eps}: {name}, {found}, {grid}")

    wide = sum(not width <= ASKED for width in widths)
    print(f"{len(widths)} deltas, {wide} wider than {ASKED}; {compared} compared with buckets, none disjoint")
    print("width of delta (relative):", quantiles(widths))
    print("seconds of processor time:", quantiles(times))


if __name__ == "__main__":
    main()
