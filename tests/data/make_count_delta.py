"""Makes count_delta.json: delta of X + N(0, beta^2) shifted by one, X ~ Binomial(m, p), in both directions.

Needs python-flint (ball arithmetic, 300 bits, 1500 for biases next to 0 or 1). Two methods, both from the
definition:

integral   the positive part of f(x-1) - e^eps f(x) (or of the reverse) integrated over x: its sign changes are
           found on a fine grid over everything that matters and refined by bisection, every positive stretch is
           integrated by 40-point Gauss-Legendre panels. Nothing is assumed about where the positive stretch is, or
           that there is only one.
sum        sum_k [b(k-1) - e^eps b(k)] Phi((k-t)/beta) with t by bisection on the sign of the density difference,
           started from an interval that is doubled until it brackets; for laws too long to integrate. The whole
           support is used up to m = 6000, 45 standard deviations beyond.

Run: python tests/data/make_count_delta.py (about ten minutes).
"""

import itertools
import json
import pathlib

from flint import arb, ctx

ctx.prec = 300


def law(m, p):
    p = arb(p)
    q = 1 - p
    mean, deviation = float(m * p), float((m * p * q).sqrt())
    low, high = 0, m
    if m > 6000:
        low = max(0, int(mean - 45 * deviation) - 40)
        high = min(m, int(mean + 45 * deviation) + 40)
    k0 = min(max(int(mean), low), high)
    log = arb(m + 1).lgamma() - arb(k0 + 1).lgamma() - arb(m - k0 + 1).lgamma() + k0 * p.log() + (m - k0) * q.log()
    b = {k0: log.exp()}
    for k in range(k0 + 1, high + 1):
        b[k] = b[k - 1] * (m - k + 1) / k * p / q
    for k in range(k0 - 1, low - 1, -1):
        b[k] = b[k + 1] * (k + 1) / (m - k) * q / p
    return b


def weights(epsilon, m, p, direction):
    b = law(m, p)
    ks = list(range(min(b), max(b) + 2))
    up = [b.get(k - 1, arb(0)) for k in ks]
    down = [b.get(k, arb(0)) for k in ks]
    first, second = (up, down) if direction == "add" else (down, up)
    factor = arb(epsilon).exp()
    return ks, [x - factor * y for x, y in zip(first, second, strict=True)]


def without_noise(epsilon, m, p, direction):
    return sum((c for c in weights(epsilon, m, p, direction)[1] if c > 0), arb(0))


def bisect(positive, low, high, steps=200):
    for _ in range(steps):
        middle = ((low + high) / 2).mid()
        if positive(middle):
            high = middle
        else:
            low = middle
    return ((low + high) / 2).mid()


def by_sum(epsilon, m, p, beta, direction):
    ks, c = weights(epsilon, m, p, direction)
    beta = arb(beta)
    sign = 1 if direction == "add" else -1

    def positive(x):
        return sum((w * (-((x - k) ** 2) / (2 * beta**2)).exp() for w, k in zip(c, ks, strict=True)), arb(0)) > 0

    low = arb(m) * arb(p)
    high = low + sign * (10 + 5 * beta)
    while not positive(high):
        high = high + (high - low)
    while positive(low):
        low = low - (high - low)
    t = bisect(positive, low, high)
    root = arb(2).sqrt() * beta
    return sum((w * (sign * (t - k) / root).erfc() / 2 for w, k in zip(c, ks, strict=True)), arb(0))


NODES = [arb.legendre_p_root(40, i, weight=True) for i in range(40)]


def by_integral(epsilon, m, p, beta, direction):
    ks, c = weights(epsilon, m, p, direction)
    beta = arb(beta)
    scale = 1 / (beta * (2 * arb.pi()).sqrt())

    def density(x):
        return scale * sum(
            (w * (-((x - k) ** 2) / (2 * beta**2)).exp() for w, k in zip(c, ks, strict=True)), arb(0)
        )

    # Everything beyond 60 noise scales from the support is below e^-1800; the threshold is far out when epsilon *
    # beta is large, so the grid also reaches 3 epsilon beta^2.
    reach = 60 * beta + 3 * arb(epsilon) * beta**2
    low, high = min(ks) - reach, max(ks) + reach
    step = beta / 3
    grid = [low + step * i for i in range(int(float((high - low) / step)) + 2)]
    values = [density(x) for x in grid]
    edges = [grid[0]]
    for i in range(len(grid) - 1):
        if (values[i] > 0) != (values[i + 1] > 0):
            rising = bool(values[i + 1] > 0)
            edges.append(bisect(lambda x, r=rising: (density(x) > 0) == r, grid[i], grid[i + 1]))
    edges.append(grid[-1])
    total = arb(0)
    for left, right in itertools.pairwise(edges):
        if not density((left + right) / 2) > 0:
            continue
        panels = max(1, int(float((right - left) / (2 * beta))) + 1)
        half = (right - left) / (2 * panels)
        for i in range(panels):
            centre = left + half * (2 * i + 1)
            part = half * sum((weight * density(centre + half * node) for node, weight in NODES), arb(0))
            total += part
    return total


CASES = [
    # epsilon, m, p, beta; the first eleven are those of a table whose oracle looked for the threshold only inside
    # the support, which made the rows with beta 300 and beta 4 negative.
    (0.5, 50, 0.3, 0.4),
    (0.5, 50, 0.3, 0.0),
    (0.5, 50, 0.3, 2.0),
    (1.0, 200, 0.5, 0.1),
    (0.2, 300, 0.1, 1.0),
    (0.1, 10000, 0.5, 5.0),
    (0.05, 20000, 0.25, 30.0),
    (2.0, 3, 0.4, 0.3),
    (0.01, 1000, 0.5, 300.0),
    (1.0, 1000, 0.02, 1.5),
    (1.0, 1, 0.5, 4.0),
    # one unknown record, small and large noise, biases near the edges
    (0.1, 1, 0.5, 0.0),
    (0.1, 1, 0.5, 0.0124),
    (0.1, 1, 0.5, 0.0126),
    (0.1, 1, 1e-9, 1.0),
    (3.0, 1, 0.999, 0.7),
    (0.001, 2, 0.5, 1000.0),
    (0.3, 7, 0.01, 20.0),
    (6.0, 20, 0.0007, 0.02),
    (0.005, 13, 0.99998, 0.014),
    (0.0047, 8, 0.89, 1.256),
    (4.3, 44, 0.992, 13.6),
    (5.5, 32, 0.9999, 2.03),
    (9.6, 55, 0.4775, 0.0347),
    # biases so near to an end that what balances the end of the support lies deep below it
    (0.02, 8, 6e-54, 0.0),
    (0.138, 2, 2.4e-71, 0.134),
    (0.00014, 8, 1.5e-29, 0.25),
    (12.66, 3, 4.4e-44, 2.4),
    (1.65, 3, 3e-199, 2.39),
    (4.73, 100, 2.3e-111, 2.4),
    (0.04, 300, 1.6e-120, 2.4),
    (20.0, 1, 4.4e-52, 0.0125),
    # the least noise that is not taken for none, with the threshold 40 scales from either neighbour
    (3.6e-06, 1, 0.5, 0.0125001),
    (16.3, 1, 0.99999999991, 0.0125001),
    (0.0029, 2, 0.6865, 0.0125),
    (0.3, 3, 0.9999999991, 0.02),
    # wide noise over a law of almost no spread, epsilon not small: the plain Gaussian in disguise
    (0.34, 107, 1e-16, 82.0),
    (0.55, 2, 0.999999999999, 54.3),
    (0.0005, 2, 1e-12, 74159.7),
    (0.18, 1, 0.999999, 150.0),
    (0.5, 40, 0.003, 30.0),
    # noise about eight times the spread: two ways to solve for the threshold
    (0.01, 100, 0.5, 39.9),
    (0.01, 100, 0.5, 40.1),
    (0.02, 400, 0.02, 22.3),
    (0.02, 400, 0.02, 22.5),
    # down to 1e-300 and below
    (1.0, 200, 0.5, 3.0),
    (2.0, 400, 0.5, 0.0),
    (3.0, 400, 0.5, 2.0),
    (0.5, 300, 0.3, 60.0),
    (0.25, 200, 0.7, 150.0),
    (7.0, 111, 0.0115, 0.0),
    (12.0, 213, 0.948, 0.142),
    (20.0, 30, 0.5, 5.0),
    (800.0, 12, 0.4, 0.0),
    (700.0, 12, 0.4, 0.3),
    # smooth laws: strides of 3, 4 and more, the half line as an integral, both sides of each switch
    (0.02, 5000, 0.5, 9.0),
    (0.02, 5000, 0.5, 6.0),
    (0.05, 3000, 0.4, 0.0),
    (0.05, 12000, 0.4, 0.0),
    (0.05, 12000, 0.4, 2.0),
    (0.11, 12000, 0.4, 0.0),
    (0.0001, 12000, 0.6, 0.5),
    (0.003, 20000, 0.5, 15.0),
    (0.003, 20000, 0.5, 400.0),
    (0.02, 2000, 0.06, 40.0),
    (0.02, 4000, 0.06, 40.0),
    (0.1, 5000, 0.99, 1.0),
    (0.02, 40000, 0.3, 0.0),
    (0.02, 40000, 0.3, 1.0),
    (0.02, 40000, 0.3, 20.0),
    (0.001, 100000, 0.2, 10.0),
    (0.15, 20000, 0.5, 0.0),
    (0.15, 20000, 0.5, 25.0),
    (0.0005, 1000000, 0.3, 300.0),
    (0.01, 1000000, 0.3, 30.0),
]


def main():
    rows = []
    for epsilon, m, p, beta in CASES:
        ctx.prec = 1500 if min(p, 1 - p) < 1e-8 else 300  # the terms differ by the bias
        row = {"epsilon": epsilon, "m": m, "p": p, "beta": beta}
        for direction in ("add", "remove"):
            if beta == 0.0:
                value, row["method"] = without_noise(epsilon, m, p, direction), "positive part"
            elif m <= 60 and epsilon * beta < 40:
                value, row["method"] = by_integral(epsilon, m, p, beta, direction), "integral"
                other = by_sum(epsilon, m, p, beta, direction)
                assert abs(float(((value - other) / other).mid())) < 1e-28, (row, direction)
            else:
                value, row["method"] = by_sum(epsilon, m, p, beta, direction), "sum"
            assert value > 0
            assert float(value.rad() / value.mid() if float(value) else 0.0) < 1e-30
            row[f"log_delta_{direction}"] = value.log().str(32, radius=False)
        rows.append(row)
        print(row, flush=True)
    path = pathlib.Path(__file__).with_name("count_delta.json")
    note = "natural logarithms of delta, 32 digits; inputs are the exact doubles shown"
    path.write_text(json.dumps({"note": note, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
