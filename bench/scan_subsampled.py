"""How wide the bounds of random subsampled Gaussian compositions are.

    python bench/scan_subsampled.py --seconds 60

Two populations: what training with noise looks like (sigma 0.5 to 4, rate 1e-4 to 0.1, 10 to 10^5 steps, epsilon
0.1 to 10), and everything (sigma 0.3 to 30, rate 1e-5 to 0.9, 2 to 10^6 steps, epsilon 0.001 to 20); both
directions, all drawn evenly on a logarithmic scale. Counted are answers with delta from 0.5 to 1e-250; those wider
than 1e-9 are listed.
"""

from __future__ import annotations

import argparse
import math
import random
import time

from dpcore import accounting

POPULATIONS = {
    "training": ((0.5, 4.0), (1e-4, 0.1), (10, 1e5), (0.1, 10.0)),
    "everything": ((0.3, 30.0), (1e-5, 0.9), (2, 1e6), (1e-3, 20.0)),
}


def scan(name: str, seconds: float, seed: int) -> None:
    rng = random.Random(seed)

    def draw(low: float, high: float) -> float:
        return math.exp(rng.uniform(math.log(low), math.log(high)))

    sigmas, rates, steps, epsilons = POPULATIONS[name]
    tried = counted = wide = 0
    times: list[float] = []
    while sum(times) < seconds:
        sigma, rate, copies, epsilon = draw(*sigmas), draw(*rates), round(draw(*steps)), draw(*epsilons)
        neighbours = rng.choice(("add", "remove"))
        loss = accounting.from_subsampled_gaussian(sigma=sigma, rate=rate, neighbours=neighbours) * copies
        start = time.process_time()
        bounds = loss.log_delta(epsilon)
        times.append(time.process_time() - start)
        tried += 1
        if not (bounds.upper > -250 * math.log(10) and bounds.lower < math.log(0.5)):
            continue
        counted += 1
        if not bounds.upper - bounds.lower <= 1e-9:
            wide += 1
            print(
                f"  wide: sigma={sigma:.4g} rate={rate:.4g} copies={copies} {neighbours} epsilon={epsilon:.4g}: "
                f"ln delta {bounds.lower:.6g} to {bounds.upper:.6g}"
            )
    times.sort()
    print(
        f"{name}: {tried} compositions, {counted} with delta from 0.5 to 1e-250, {wide} of them wider than 1e-9; "
        f"processor time: median {times[len(times) // 2]:.3f} s, "
        f"99 of 100 below {times[int(0.99 * len(times))]:.2f} s, longest {times[-1]:.2f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="processor time for each population")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for name in POPULATIONS:
        scan(name, arguments.seconds, arguments.seed)


if __name__ == "__main__":
    main()
