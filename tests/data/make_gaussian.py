"""Writes gaussian.json: delta of the Gaussian mechanism from its definition, at 900 digits (mpmath).

delta = Phi(s/(2 sigma) - epsilon sigma/s) - exp(epsilon) Phi(-s/(2 sigma) - epsilon sigma/s); inputs are the exact
values of the doubles written. Points on a grid, on both sides of the code's thresholds, at random, and at the ends
of the range of double.

    python tests/data/make_gaussian.py > tests/data/gaussian.json
"""

import json
import random

import mpmath as mp

mp.mp.dps = 900  # exp(epsilon) Phi(..) cancels against Phi(..), and m against h, by up to 300 digits each


def exact(epsilon: float, sigma: float, sensitivity: float) -> mp.mpf:
    """The definition."""
    e, x = mp.mpf(epsilon), mp.mpf(sigma) / mp.mpf(sensitivity)
    upper = mp.erfc((e * x - 1 / (2 * x)) / mp.sqrt(2)) / 2
    return upper - mp.exp(e) * mp.erfc((e * x + 1 / (2 * x)) / mp.sqrt(2)) / 2


def points() -> list[tuple[float, float, float]]:
    """epsilon, sigma, sensitivity."""
    out = [
        (e, s, 1.0)
        for e in (1e-9, 1e-4, 0.01, 0.1, 1.0, 3.0, 10.0, 100.0, 800.0)
        for s in (0.05, 0.3, 1.0, 4.0, 36.0)
    ]
    # a = epsilon sigma - 1/(2 sigma) changes sign; 1/sigma crosses 1/8, where the formula changes.
    out += [(0.125, 2.0 + d, 1.0) for d in (-1e-9, 0.0, 1e-9)]
    out += [(e, 8.0 + d, 1.0) for d in (-1e-9, 0.0, 1e-9) for e in (1e-6, 0.001, 0.0078125, 0.5, 2.0)]
    draw = random.Random(20240501)
    for _ in range(150):
        epsilon, sensitivity = 10 ** draw.uniform(-6, 2.5), 10 ** draw.uniform(-3, 3)
        a = draw.uniform(-6, 37)  # delta from almost 1 down to 1e-300
        x = (a + (a * a + 2 * epsilon) ** 0.5) / (2 * epsilon)
        out.append((epsilon, x * sensitivity, sensitivity))
    # sensitivity/sigma on both sides of 2^21, sigma of 2^+-300, and far beyond either.
    out += [(e, s / 2**21, s) for e in (2.0**41, 2.0**41 * 1.0001) for s in (0.999, 1.0, 1.001)]
    out += [(1.0, 2.0**p * f, 2.0**p) for p in (-1000, -301, -299, 299, 301, 1000) for f in (0.5, 1.0, 7.0)]
    for epsilon in (1e-300, 1e-100, 1e-20, 1e9, 1e12, 1e20, 1e30, 1e33, 1e60, 1e150, 1e300):
        for a in (-3.0, 0.0, 2.5, 37.0):
            x = (
                1 / ((a * a + 2 * epsilon) ** 0.5 - a)
                if a <= 0
                else (a + (a * a + 2 * epsilon) ** 0.5) / (2 * epsilon)
            )
            for sensitivity in (1.0, 3e-150, 3e150):
                if 1e-307 < x * sensitivity < 1e307:
                    out.append((epsilon, x * sensitivity, sensitivity))
    return out


def main() -> None:
    """Print the table."""
    rows = []
    for epsilon, sigma, sensitivity in points():
        value = exact(epsilon, sigma, sensitivity)
        rows.append(
            {
                "epsilon": epsilon.hex(),
                "sigma": sigma.hex(),
                "sensitivity": sensitivity.hex(),
                "delta": mp.nstr(value, 30),
                "log_delta": mp.nstr(mp.log(value), 30),
            }
        )
    print(json.dumps({"made_by": "tests/data/make_gaussian.py", "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
