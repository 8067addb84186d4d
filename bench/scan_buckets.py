"""Compositions of every kind of release, drawn at random: how wide the bounds of the bucket engine are.

    python bench/scan_buckets.py --seconds 60 --list

One to three kinds of Laplace, Gaussian, discrete Laplace, discrete Gaussian, randomised response, subsampled
Gaussian, pure and approximate DP and pairs of three to twelve outcomes, 1 to 10^6 copies each, of a size that the
whole has a standard deviation of about 0.03 to 3; half of the parameters with two digits. Epsilons from the mean
to 30 standard deviations beyond it, four of ten with two digits, where delta is between 0.5 and 1e-250. Every
answer of the default grid is compared with engine="auto", which shares nothing with it: a disjoint pair of bounds
ends the scan.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
from _scan import drawn, quantiles

from dpcore import accounting

ASKED = 1e-4
SLOW = 5.0  # seconds


KINDS = (
    "Laplace",
    "Gaussian",
    "discrete Laplace",
    "discrete Gaussian",
    "response",
    "subsampled",
    "pure",
    "approximate",
    "pair",
)


def release(rng: np.random.Generator) -> tuple[accounting.PrivacyLoss, str]:
    copies = int(10 ** rng.uniform(0, 6))
    scale = math.sqrt(copies) * 10 ** rng.uniform(-0.5, 1.5)
    short = rng.random() < 0.5
    sensitivity = int(rng.integers(1, 4))
    kind = KINDS[rng.integers(0, 9)]
    if kind == "subsampled":
        rate = float(f"{10 ** rng.uniform(-3, -0.1):.2g}")
        sigma = max(0.5, float(f"{scale * rate:.2g}"))
        law = accounting.from_subsampled_gaussian(sigma=sigma, rate=rate)
        name = f"subsampled({sigma}, {rate})"
    else:
        law, name = drawn(rng, kind, scale, short, sensitivity)
    return law * copies, f"{name} x {copies}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="print every wide or slow one")
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    widths, times = [], []
    refused = 0
    start = time.process_time()
    while time.process_time() - start < given.seconds:
        releases = [release(rng) for _ in range(int(rng.integers(1, 4)))]
        loss = accounting.compose([law for law, _ in releases])
        name = " + ".join(name for _, name in releases)
        finite = math.isfinite(loss.variance)
        spread = math.sqrt(max(loss.variance, 0.0)) if finite else 1.0
        eps = max(0.0, (loss.mean if finite else 1.0) + rng.choice([0, 1, 3, 8, 20, 30]) * spread)
        if rng.random() < 0.4:
            eps = float(f"{eps:.2g}")
        exact = loss.log_delta(eps)
        if not math.log(1e-250) < exact.upper < math.log(0.5):
            continue
        before = time.process_time()
        try:
            found = loss.log_delta(eps, engine="buckets")
        except ValueError as error:
            refused += 1
            if given.list:
                print(f"refused at {eps}: {name}: {error}", flush=True)
            continue
        times.append(time.process_time() - before)
        if max(found.lower, exact.lower) > min(found.upper, exact.upper):
            raise SystemExit(f"bounds disagree at {eps}: {name}, {found}, {exact}")
        widths.append(math.expm1(min(700.0, found.upper - found.lower)))
        if given.list and not (widths[-1] <= ASKED and times[-1] <= SLOW):
            sides = f"{found.upper - exact.upper:.1e} above, {exact.lower - found.lower:.1e} below"
            print(f"{widths[-1]:.1e} ({sides}) in {times[-1]:.2f} s at {eps}: {name}", flush=True)

    wide = sum(not width <= ASKED for width in widths)
    print(f"{len(widths)} deltas, {wide} wider than {ASKED}; {refused} refused")
    print("width of delta (relative):", quantiles(widths))
    print("seconds of processor time:", quantiles(times))


if __name__ == "__main__":
    main()
