"""Makes joint_delta.json: delta of (X + Laplace(scale), X + Normal(0, beta^2)), X ~ Binomial(m, p) shifted by one.

Needs python-flint (200 bits). Independent of the library, which integrates the other way round: here y, the first
output, is outside, and for each y the inner supremum over half lines in z is evaluated as
sum_k [b(k-1) - e^eps b(k)] lap(y - k) Phi((k - t)/beta). t comes from bisection to 2^-60 of its range; the
supremum is flat in t, so that its error is squared. The integral over y is taken over each unit cell by 20-point
Gauss-Legendre, halved until both halves agree with the whole to 1e-18 of the result so far; beyond the support it
is in closed form (exponential). Every row is good to 17 digits at least.
Run: python tests/data/make_joint_delta.py (about half an hour on one core).
"""

import concurrent.futures
import json
import pathlib

from flint import arb, ctx

ctx.prec = 200
NODES = [arb.legendre_p_root(20, i, weight=True) for i in range(20)]
AGREE = arb("1e-18")
DEEPEST = 12


def joint(epsilon, m, p, beta, scale, direction):
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
        for _ in range(60):
            middle = ((low + high) / 2).mid()
            low, high = (low, middle) if positive(middle) else (middle, high)
        start[0] = low
        return sum((w * (sign * (high - k) / root).erfc() / 2 for k, w in enumerate(c)), arb(0)) / (2 * scale)

    total = [scale * (inner(arb(0)) + inner(arb(m + 1)))]

    def rule(left, width):
        return sum((w / 2 * inner(left + width * (1 + x) / 2) for x, w in NODES), arb(0)) * width

    def divided(left, width, whole, depth):
        half = width / 2
        one, two = rule(left, half), rule(left + half, half)
        if abs(one + two - whole).mid() <= AGREE * (total[0] + one + two).mid() or depth == 0:
            total[0] += one + two
            return
        divided(left, half, one, depth - 1)
        divided(left + half, half, two, depth - 1)

    # From the cell that matters most outward, so that "so far" is soon most of it.
    cells = sorted(range(m + 1), key=lambda j: -float(inner(arb(j) + arb(0.5)).mid()))
    for j in cells:
        divided(arb(j), arb(1), rule(arb(j), arb(1)), DEEPEST)
    return total[0]


CASES = [
    (0.5, 100, 0.5, 6.547, 4.0),
    (1.0, 50, 0.5, 3.011, 2.0),
    (1.0, 20, 0.3, 4.0, 10.0),
    (2.0, 6, 0.4, 1.5, 0.6),
    (0.3, 30, 0.9, 8.0, 25.0),
    (1.5, 0, 0.5, 2.0, 3.0),
    (1.0, 40, 0.2, 1.0, 40.0),
    # the second release adds little to the first, so that its threshold is far away on either side
    (0.3, 4, 0.4, 50.0, 2.0),
    (1.0, 5, 0.5, 7.0, 0.3),
    (0.6, 1, 0.6, 4.0, 0.3),
    (1.0, 5, 0.85, 18.8, 20.0),
    (3.0, 1, 0.5, 2.96, 33.2),
    # noise below one record, estimates nearly exact or useless, biases next to 0 and 1, deep tails
    (0.7, 8, 0.5, 0.4, 1.0),
    (1.0, 8, 0.5, 2.0, 0.1),
    (0.5, 10, 0.3, 2.5, 1e4),
    (0.2, 12, 0.001, 3.0, 5.0),
    (0.2, 12, 0.999, 3.0, 5.0),
    (4.0, 25, 0.5, 6.0, 8.0),
    (0.01, 15, 0.5, 12.0, 15.0),
]


def row_of(case):
    row = dict(zip(("epsilon", "m", "p", "beta", "scale"), case, strict=True))
    for direction in ("add", "remove"):
        row[f"delta_{direction}"] = joint(*case, direction).str(20, radius=False)
    return row


def main():
    with concurrent.futures.ProcessPoolExecutor() as executor:
        rows = []
        for row in executor.map(row_of, CASES):
            rows.append(row)
            print(row, flush=True)
    path = pathlib.Path(__file__).with_name("joint_delta.json")
    path.write_text(json.dumps({"note": "inputs are the exact doubles shown", "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
