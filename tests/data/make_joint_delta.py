"""Makes joint_delta.json: delta of (X + Laplace(scale), X + Normal(0, beta^2)), X ~ Binomial(m, p) shifted by one.

Needs python-flint (ball arithmetic, 200 bits). For each y the inner supremum over half lines in z is evaluated as
sum_k [b(k-1) - e^eps b(k)] lap(y - k) Phi((k - t)/beta) with t by bisection; the integral over y is taken over
each unit cell by 20-point Gauss-Legendre in the number of parts given, beyond the support in closed form (it is
exponential there). Where beta is many times the scale, the inner supremum turns from nothing to everything within
scale/beta, hence the parts. Good to about 20 digits with one part, to 12 with more.
Run: python tests/data/make_joint_delta.py (about ten minutes).
"""

import json
import pathlib

from flint import arb, ctx

ctx.prec = 200
NODES = [arb.legendre_p_root(20, i, weight=True) for i in range(20)]


def joint(epsilon, m, p, beta, scale, parts, direction):
    p, beta, scale = arb(p), arb(beta), arb(scale)
    b = [(1 - p) ** m]
    for k in range(1, m + 1):
        b.append(b[-1] * (m - k + 1) / k * p / (1 - p))
    factor = arb(epsilon).exp()
    up, down = [arb(0), *b], [*b, arb(0)]
    first, second = (up, down) if direction == "add" else (down, up)
    base = [x - factor * y for x, y in zip(first, second, strict=True)]
    sign = 1 if direction == "add" else -1
    root = arb(2).sqrt() * beta
    start = [arb(m) * p]

    def inner(y):
        c = [w * (-abs(y - k) / scale).exp() for k, w in enumerate(base)]

        def positive(x):
            return sum((w * (-((x - k) ** 2) / (2 * beta**2)).exp() for k, w in enumerate(c)), arb(0)) > 0

        low = high = start[0]
        step = arb(1)
        while not positive(high):
            high, step = high + sign * step, step * 2
        step = arb(1)
        while positive(low):
            low, step = low - sign * step, step * 2
        for _ in range(110):
            middle = ((low + high) / 2).mid()
            low, high = (low, middle) if positive(middle) else (middle, high)
        start[0] = low
        return sum((w * (sign * (high - k) / root).erfc() / 2 for k, w in enumerate(c)), arb(0)) / (2 * scale)

    total = scale * (inner(arb(0)) + inner(arb(m + 1)))
    for part in range((m + 1) * parts):
        total += sum((w / 2 * inner((part + (1 + x) / 2) / parts) for x, w in NODES), arb(0)) / parts
    return total


CASES = [
    (0.5, 100, 0.5, 6.547, 4.0, 1),
    (1.0, 50, 0.5, 3.011, 2.0, 1),
    (1.0, 20, 0.3, 4.0, 10.0, 1),
    (2.0, 6, 0.4, 1.5, 0.6, 1),
    (0.3, 30, 0.9, 8.0, 25.0, 1),
    (1.5, 0, 0.5, 2.0, 3.0, 1),
    (1.0, 40, 0.2, 1.0, 40.0, 1),
    # the second release adds little to the first, so that its threshold is far away on either side
    (0.3, 4, 0.4, 50.0, 2.0, 16),
    (1.0, 5, 0.5, 7.0, 0.3, 16),
    (0.6, 1, 0.6, 4.0, 0.3, 16),
    (1.0, 5, 0.85, 18.8, 20.0, 4),
    (3.0, 1, 0.5, 2.96, 33.2, 4),
]


def main():
    rows = []
    for epsilon, m, p, beta, scale, parts in CASES:
        row = {"epsilon": epsilon, "m": m, "p": p, "beta": beta, "scale": scale}
        for direction in ("add", "remove"):
            row[f"delta_{direction}"] = joint(epsilon, m, p, beta, scale, parts, direction).str(20, radius=False)
        rows.append(row)
        print(row, flush=True)
    path = pathlib.Path(__file__).with_name("joint_delta.json")
    path.write_text(json.dumps({"note": "inputs are the exact doubles shown", "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
