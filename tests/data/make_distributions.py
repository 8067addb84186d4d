"""Writes distributions.json: reference values for tests/test_distributions.py.

Run ``python tests/data/make_distributions.py`` (needs python-flint). Probabilities are computed with arb ball
arithmetic at 2400 bits from log-gamma functions, which shares nothing with the library's method; every
value is checked to have 130 correct bits. Doubles that are inputs are written in hexadecimal
and taken as exact. Cases: random sizes over twelve decades, both sides of every threshold of the
implementation (factorial table at 64, series of the deviance at |x - M| = 0.1 (x + M), probability 2^-300),
edges of the support, and far tails.
"""

from __future__ import annotations

import json
import math
import pathlib
import random

from flint import arb, ctx, fmpq

ctx.prec = 2400  # differences of 1e-16 of 1e-320 cancel


def exact(x: float) -> arb:
    """The double itself."""
    return arb(fmpq(*x.as_integer_ratio()))


def digits(x: arb) -> str:
    """30 correct digits."""
    assert x == 0 or x.rel_accuracy_bits() > 130, x
    return x.str(30, radius=False)


def log_factorial(n: int) -> arb:
    """ln n!"""
    return arb(n + 1).lgamma()


def log_choose(n: int, k: int) -> arb:
    """ln C(n, k)"""
    return log_factorial(n) - log_factorial(k) - log_factorial(n - k)


def hypergeometric(n: int, c: int, d: int, k: int) -> arb:
    """ln Pr[X = k]"""
    return log_choose(c, k) + log_choose(n - c, d - k) - log_choose(n, d)


def binomial(m: int, p: float, k: int) -> arb:
    """ln Pr[X = k]"""
    q = exact(p)
    out = log_choose(m, k)
    if k:
        out += k * q.log()
    if k < m:
        out += (m - k) * (1 - q).log()
    return out


def near(rng: random.Random, mean: float, spread: float, low: int, high: int) -> int:
    """A k at the mean, some standard deviations from it, or anywhere."""
    where = rng.choice(["mean", "tail", "tail", "any", "low", "high"])
    if where == "any":
        return rng.randint(low, high)
    if where in ("low", "high"):
        return low if where == "low" else high
    offset = 0.0 if where == "mean" else rng.uniform(-40, 40) * spread
    return min(high, max(low, int(mean + offset)))


def hypergeometric_rows(rng: random.Random) -> list[dict[str, object]]:
    """Random cases and the thresholds."""
    cases = []
    for _ in range(220):
        n = int(10 ** rng.uniform(0.3, rng.choice([2, 4, 8, 12, 15.9])))
        c, d = (rng.choice([rng.randint(0, n), int(n ** rng.random())]) for _ in range(2))
        low, high = max(0, c + d - n), min(c, d)
        mean = c * d / n
        spread = math.sqrt(max(mean * (1 - c / n) * (1 - d / n), 0.0)) + 1
        cases.append((n, c, d, near(rng, mean, spread, low, high)))
    for c in (62, 63, 64, 65, 126, 127, 128, 129):  # cells and margins around the table's end
        cases += [(2 * c, c, c, c // 2), (2 * c, c, c, 0), (10 * c, c, 2 * c, 5), (10**9, c, 10**6, 0)]
    for n in (2**53, 2**53 - 1):
        cases += [(n, n // 2, n // 2, n // 4), (n, n // 2, n // 2, n // 4 + 10**8), (n, 3, n // 3, 1)]
    rows = []
    for n, c, d, k in cases:
        value = hypergeometric(n, c, d, k) if max(0, c + d - n) != min(c, d) else arb(0)
        rows.append({"n": n, "c": c, "d": d, "k": k, "logpmf": digits(value)})
    return rows


def binomial_rows(rng: random.Random) -> list[dict[str, object]]:
    """Random cases and the thresholds."""
    cases = []
    for _ in range(260):
        m = int(10 ** rng.uniform(0, rng.choice([2, 4, 8, 12, 15.9])))
        p = rng.choice(
            [
                rng.random(),
                0.5,
                10 ** rng.uniform(-18, -1),
                1 - 10 ** rng.uniform(-15, -1),
                2.0 ** -rng.randint(1, 1074),
            ]
        )
        cases.append((m, p, near(rng, m * p, math.sqrt(m * p * (1 - p)) + 1, 0, m)))
    for m in (62, 63, 64, 65, 128):
        cases += [(m, 0.3, k) for k in (0, 1, m // 3, m - 1, m)]
    for ratio in (0.8181, 0.8182, 1.2222, 1.2223):  # x/M = 0.9/1.1 and 1.1/0.9 around the deviance's series
        cases.append((10**6, 0.25, int(250_000 * ratio)))
    for exponent in (-299, -300, -301, -302):
        cases += [(10**6, math.ldexp(0.75, exponent), k) for k in (0, 1, 2)]
    return [{"m": m, "p": p.hex(), "k": k, "logpmf": digits(binomial(m, p, k))} for m, p, k in cases]


def tail_rows(rng: random.Random) -> list[dict[str, object]]:
    """Pr[X <= k] and Pr[X > k] of hypergeometric laws small enough to add up term by term."""
    rows = []
    for _ in range(40):
        n = int(10 ** rng.uniform(0.5, 3.5))
        c, d = rng.randint(0, n), rng.randint(0, n)
        low, high = max(0, c + d - n), min(c, d)
        k = rng.randint(low, high)
        values = [hypergeometric(n, c, d, j).exp() for j in range(low, high + 1)]
        below = sum(values[: k - low + 1], arb(0))
        above = sum(values[k - low + 1 :], arb(0))
        rows.append({"n": n, "c": c, "d": d, "k": k, "cdf": digits(below), "sf": digits(above)})
    return rows


def factorial_rows() -> list[dict[str, object]]:
    """ln n! and its distance from Stirling's formula."""
    rows = []
    for n in [*range(1, 12), 62, 63, 64, 65, 100, 170, 171, *(10**j for j in range(3, 16)), 2**53]:
        stirling = (arb(n) + arb(1) / 2) * arb(n).log() - n + (2 * arb.pi()).log() / 2
        rows.append(
            {
                "n": n,
                "log_factorial": log_factorial(n).str(45, radius=False),
                "stirling_error": digits(log_factorial(n) - stirling),
            }
        )
    return rows


def kl_rows(rng: random.Random) -> list[dict[str, str]]:
    """Divergences at every scale of bias and difference."""
    pairs = [
        (0.0, 0.3),
        (1.0, 0.3),
        (0.0, 5e-324),
        (5e-324, 0.5),
        (1e-310, 2e-310),
        (1.0, math.nextafter(1.0, 0.0)),
    ]
    for _ in range(200):
        p = rng.choice([rng.random(), 10 ** rng.uniform(-320, -1), 1 - 10 ** rng.uniform(-16, -1), 0.5])
        p = min(max(p, 5e-324), math.nextafter(1.0, 0.0))
        kind = rng.random()
        if kind < 0.4:
            q = min(1.0, p * (1 + rng.uniform(-1, 1) * 10 ** rng.uniform(-16, 0)))
        elif kind < 0.8:
            q = rng.random()
        else:
            q = 10 ** rng.uniform(-320, 0)
        pairs.append((q, p))
    rows = []
    for q, p in pairs:
        if q == p:
            continue
        a, b = exact(q), exact(p)
        value = arb(0)
        if q > 0:
            value += a * (a / b).log()
        if q < 1:
            value += (1 - a) * ((1 - a) / (1 - b)).log()
        rows.append({"q": q.hex(), "p": p.hex(), "kl": digits(value)})
    return rows


def main() -> None:
    """Writes the table."""
    table = {
        "hypergeometric": hypergeometric_rows(random.Random(1)),
        "binomial": binomial_rows(random.Random(2)),
        "tails": tail_rows(random.Random(3)),
        "factorial": factorial_rows(),
    }
    table["kl"] = kl_rows(random.Random(4))
    lines = [
        f'"{name}": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]" for name, rows in table.items()
    ]
    path = pathlib.Path(__file__).with_name("distributions.json")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
