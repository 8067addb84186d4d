"""Writes gaussian.json: delta of the Gaussian mechanism from its definition, at 80 digits (mpmath).

delta = Phi(s/(2 sigma) - epsilon sigma/s) - exp(epsilon) Phi(-s/(2 sigma) - epsilon sigma/s); inputs are the exact
values of the doubles written. Points on a grid, on both sides of the code's thresholds, and at random.

    python tests/data/make_gaussian.py > tests/data/gaussian.json
"""

import json
import random

import mpmath as mp

mp.mp.dps = 400  # exp(epsilon) Phi(..) cancels against Phi(..) by up to 300 digits


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
