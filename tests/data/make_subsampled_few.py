"""Makes subsampled_few.json: ln delta of few or rarely sampled Gaussian steps, by one long contour at 256 bits.

    pip install python-flint && python tests/data/make_subsampled_few.py

Nothing here is shared with the library, which divides such compositions into pieces because no single contour in
double precision sees all of them. With enough digits one does: 1/(2 pi i) times the integral of M(z)^k
e^{-eps z}/(z(1+z)) over Re z = c, M by the trapezoid rule over the outputs. Each value is computed twice, with
another c and other steps in t and in x; the two must agree to 1e-19, and 19 digits are given. The inputs are the
doubles nearest to the decimals in the table.
"""

from __future__ import annotations

import json
import math
import pathlib

import numpy as np
from flint import acb, arb, ctx

CASES = [
    # Removals at tiny delta: one, two or three large steps among many small ones.
    (1.804, 0.001757, 272, "remove", 3.22),
    (2.282, 0.02176, 58, "remove", 5.15),
    (1.70451, 0.00210785, 4074, "remove", 0.873878),
    # At ordinary delta.
    (0.8, 0.01, 200, "remove", 1.0),
    (0.6, 0.02, 300, "remove", 2.0),
    (1.0, 0.003, 600, "remove", 0.5),
    # Additions next to the largest loss, and others.
    (0.587, 0.07042, 49, "add", 3.568),
    (2.145, 0.01881, 19, "add", 0.3453),
    (2.839, 0.02544, 4, "add", 0.09767),
    (1.882, 4.444e-05, 35, "add", 0.001171),
    (0.6522, 1.789e-05, 301, "add", 0.00502),
    (0.55, 0.02, 120, "add", 0.5),
]


class Law:
    """One step in double precision, to place contours."""

    def __init__(self, sigma: float, rate: float, removal: bool) -> None:
        self.s, self.q, self.removal = sigma, rate, removal

    def log_weight(self, x: float, c: float) -> tuple[float, float]:
        y = (x - 0.5) / self.s**2
        lam = math.log1p(self.q * math.expm1(y)) if y < 30 else y + math.log(self.q)
        return (1 + c if self.removal else -c) * lam - x * x / (2 * self.s**2), lam if self.removal else -lam

    def span(self, c: float, depth: float) -> tuple[float, float]:
        """Outputs between which the tilted density is above e^-depth of its largest value."""
        step = 0.1 * min(self.s, self.s**2)
        low, high = -(40 + 2 * math.sqrt(depth)) * self.s, max(c + 1, 0) + (40 + 2 * math.sqrt(depth)) * self.s
        points = [low + i * step for i in range(int((high - low) / step) + 1)]
        values = [self.log_weight(x, c)[0] for x in points]
        top = max(values)
        inside = [x for x, v in zip(points, values, strict=True) if v > top - depth]
        return inside[0] - step, inside[-1] + step

    def end(self, c: float, copies: int, depth: float) -> float:
        """A t from which on |M|^copies is below e^-depth of its value at 0, about."""
        low, high = self.span(c, 60.0)
        t = 1.0
        while t < 1e9:
            x = np.arange(low, high, min(0.05 * min(self.s, self.s**2), 0.7 * self.s**2 / t))
            y = (x - 0.5) / self.s**2
            lam = np.log1p(self.q * np.expm1(np.minimum(y, 600.0)))
            exponent = (1 + c if self.removal else -c) * lam - x * x / (2 * self.s**2)
            w = np.exp(exponent - exponent.max())
            if copies * math.log(abs((w * np.exp(1j * t * lam)).sum()) / w.sum()) < -depth:
                return t
            t *= 1.25
        raise ValueError("no end")

    def mean(self, c: float) -> float:
        low, high = self.span(c, 60.0)
        count = 4000
        rows = [self.log_weight(low + (high - low) * i / count, c) for i in range(count + 1)]
        top = max(v for v, _ in rows)
        weights = [math.exp(v - top) for v, _ in rows]
        return sum(w * loss for w, (_, loss) in zip(weights, rows, strict=True)) / sum(weights)


def contour(law: Law, copies: int, eps: float, c: float, spacing: float, fineness: float) -> arb:
    """The integral on Re z = c."""
    s, q, e, h = arb(law.s), arb(law.q), arb(eps), arb(spacing)
    s2 = s * s
    low, high = law.span(c, 130.0)
    dx = arb(fineness)
    weights, turns = [], []
    for i in range(math.floor(low / fineness), math.ceil(high / fineness) + 1):
        x = i * dx
        lam = (1 - q + q * ((x - arb(0.5)) / s2).exp()).log()
        loss = lam if law.removal else -lam
        log_w = arb(c) * loss - x * x / (2 * s2) + (lam if law.removal else 0)
        weights.append(acb(log_w.exp() * dx / (s * (2 * arb.pi()).sqrt())))
        turns.append((acb(0, 1) * h * loss).exp())
    total, quiet, j, first = acb(0), 0, 0, None
    while quiet < 60:
        m = sum(weights, acb(0))
        t = h * j
        z = acb(arb(c), t)
        term = m**copies * (-e * z).exp() / (z * (1 + z))
        total += term if j == 0 else 2 * term
        first = abs(term) if first is None else first
        quiet = quiet + 1 if abs(term) < first * arb(2) ** -120 else 0
        weights = [(w * r).mid() for w, r in zip(weights, turns, strict=True)]  # rectangles would wrap
        j += 1
    return (total.real * h / (2 * arb.pi())).log()


def log_delta(sigma: float, rate: float, copies: int, neighbours: str, eps: float) -> arb:
    law = Law(sigma, rate, neighbours == "remove")
    low, high = 1e-3, 1.0
    while copies * law.mean(high) < eps + 2 / high and high < 1e9:
        low, high = high, 2 * high
    for _ in range(40):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if copies * law.mean(middle) > eps + 2 / middle else (middle, high)
    found = []
    # Of removals a little lower: above that more and more large steps would be cheaper than none.
    top = 0.88 * high if law.removal else high
    for c, width, fine in ((top, 1.0, 1.0), (0.93 * top, 1.13, 0.91)):
        # Aliases e^{cDm} delta(eps + Dm): those on the left need D > 180/c and the size of ln delta again; those
        # on the right fall like a normal density of the largest step's loss, or are none.
        span = (180.0 + 30.0) / c + 10.0 / sigma if law.removal else 2.0 * 210.0 / c
        distance = width * max(span, 24.0 / sigma if law.removal else 0.0)
        curve = 1 / sigma**2 + (0 if law.removal else 0.02 * c / sigma**4)
        # Outputs so close that e^{itL} turns by less than 1 from one to the next, up to the last t.
        last = law.end(c, copies, 85.0)
        share = 1.0 if law.removal else min(1.0, 120.0 / c)
        fineness = fine * min(0.06 * min(sigma, sigma**2, 1.2 / math.sqrt(curve)), 1.0 * sigma**2 / (share * last))
        found.append(contour(law, copies, eps, c, 2 * math.pi / distance, fineness))
    gap = abs(found[0] - found[1])
    print(sigma, rate, copies, neighbours, eps, found[0].str(30), "differ by", float(gap), flush=True)
    if not gap < 1e-19:
        raise SystemExit("the two contours do not agree")
    return found[0]


def main() -> None:
    ctx.prec = 256
    rows = []
    for sigma, rate, copies, neighbours, eps in CASES:
        value = log_delta(sigma, rate, copies, neighbours, eps)
        rows.append(
            {
                "sigma": sigma,
                "rate": rate,
                "copies": copies,
                "neighbours": neighbours,
                "epsilon": eps,
                "log_delta": value.str(19, radius=False),
            }
        )
    out = pathlib.Path(__file__).with_name("subsampled_few.json")
    out.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
