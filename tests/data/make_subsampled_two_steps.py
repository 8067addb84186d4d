"""Makes subsampled_two_steps.json: ln delta of two subsampled Gaussian steps, from the definition.

    python tests/data/make_subsampled_two_steps.py

Nothing here is shared with the library: one integral of a smooth function by Gauss-Legendre at 40 to 50 digits,
given to 25. The inputs are the doubles nearest to the decimals in the table.
"""

from __future__ import annotations

import json
import pathlib

import mpmath as mp

EQUAL = [
    *(
        (sigma, rate, eps)
        for sigma, rate in [(1.0, 1e-4), (1.0, 1e-9), (0.6, 1e-2), (3.0, 1e-3), (1.5, 0.2)]
        for eps in (0.1, 1.5, 6.0)
    ),
    (1.0, 1e-3, 0.1),
    (1.0, 1e-3, 1.5),
    # Epsilons far below what a sampled step loses, rates near 0 and 1, noise so large that a step hardly loses.
    (1.9, 2e-5, 0.003),
    (0.93, 2.5e-5, 0.005),
    (0.5, 1e-6, 0.01),
    (8.0, 3e-3, 0.05),
    (0.7, 0.7, 0.4),
    (5.0, 0.9, 0.9),
    # Rare samples, next to 0: sigma, rate, epsilon.
    (1.436, 1.67e-8, 0.0),
    (1.436, 1.67e-8, 1e-8),
    (0.1844, 1.567e-10, 1e-11),
    (31.95, 1.921e-6, 1e-7),
    (0.3, 1e-5, 2e-4),
]
# Added records, rarely sampled: up to 2 log(1/(1 - rate)) are lost.
ADDED = [
    (6.574, 4.769e-10, 2.063762526532618e-10),
    (3.665, 7.442e-8, 2.9e-8),
    (1.0, 1e-6, 1e-7),
    (0.5, 1e-4, 1e-4),
    (0.3, 1e-7, 1.5e-7),
]
# Two removals beside one response of epsilon e, of which (approximate DP) a share d is infinite: sigma, rate, e,
# d, epsilon.
BESIDE = [
    (1.436, 1.67e-8, 0.02, 0.0, 0.0),
    (1.436, 1e-5, 0.001, 1e-7, 2e-5),
    (0.4, 1e-4, 0.01, 0.0, 0.003),
    (3.0, 1e-3, 1e-4, 1e-5, 1e-4),
    (0.8, 1e-6, 0.05, 1e-9, 0.01),
]
DIFFERENT = [
    # A cut below every loss of the other step leaves nothing under it: its piece, once lost as NaN, counts.
    ((0.53, 0.024), (0.88, 2e-05), 0.022),
    ((1.1, 0.024), (3.4, 0.00043), 0.0032),
    ((1.1, 0.15), (1.72, 1.6e-07), 0.00106),
    ((1.0, 0.001), (1.3, 0.004), 1.0),
]


def two_steps(sigma: float, rate: float, eps: float) -> mp.mpf:
    """ln delta of two steps (remove), from the definition, to 30 digits.

    With m the output at which one step loses eps/2, delta is twice the part with the first step below m (the other
    is then above it, and its share is that of one Gaussian release), and the part with both above, in which every
    loss is above eps. Only the first is an integral, of a smooth function.
    """
    with mp.workdps(50):
        q, s, e = mp.mpf(rate), mp.mpf(sigma), mp.mpf(eps)
        s2 = s * s

        def tail(x: mp.mpf) -> mp.mpf:
            return mp.erfc(x / (s * mp.sqrt(2))) / 2

        def place(factor: mp.mpf) -> mp.mpf:
            return mp.mpf("0.5") + s2 * mp.log((factor - (1 - q)) / q)

        def average(x: mp.mpf) -> mp.mpf:
            weight = 1 - q + q * mp.exp((x - mp.mpf("0.5")) / s2)
            factor = mp.exp(e) / weight  # the other step must weigh more than this
            at = place(factor)
            share = (1 - q) * tail(at) + q * tail(at - 1) - factor * tail(at)
            return mp.npdf(x, 0, s) * weight * share

        m = place(mp.exp(e / 2))
        pieces = [m - s * mp.mpf(k) / 4 for k in range(int((m / s + 16) * 4), -1, -1)]
        below = mp.quad(average, pieces, method="gauss-legendre", maxdegree=4)
        above_p = (1 - q) * tail(m) + q * tail(m - 1)
        return mp.log(2 * below + above_p**2 - mp.exp(e) * tail(m) ** 2)


def two_added(sigma: float, rate: float, eps: float) -> mp.mpf:
    """ln delta of two steps (add): with P and Q exchanged, delta(eps) = 1 - e^eps + e^eps delta'(-eps)."""
    with mp.workdps(50):
        e = mp.mpf(eps)
        return mp.log(-mp.expm1(e) + mp.exp(e + two_steps(sigma, rate, -e)))


def two_beside(sigma: float, rate: float, e: float, infinite: float, eps: float) -> mp.mpf:
    """ln delta of two steps (remove) beside a response: the sum over its two losses, and the infinite mass."""
    with mp.workdps(50):
        least = 2 * mp.log(1 - mp.mpf(rate))

        def rest(x: mp.mpf) -> mp.mpf:  # below every loss delta is 1 - e^x
            return -mp.expm1(x) if x <= least else mp.exp(two_steps(sigma, rate, x))

        loss, d = mp.mpf(e), mp.mpf(infinite)
        share = 1 / (1 + mp.exp(-loss))
        both = share * rest(mp.mpf(eps) - loss) + (1 - share) * rest(mp.mpf(eps) + loss)
        return mp.log(d + (1 - d) * both)


def two_different_steps(first: tuple[float, float], second: tuple[float, float], eps: float) -> mp.mpf:
    """ln delta of two steps (remove) of different (sigma, rate), as in two_steps, to 20 digits."""
    with mp.workdps(40):
        e = mp.mpf(eps)
        steps = [(mp.mpf(s), mp.mpf(q)) for s, q in (first, second)]

        def tail(x: mp.mpf, s: mp.mpf) -> mp.mpf:
            return mp.erfc(x / (s * mp.sqrt(2))) / 2

        def place(factor: mp.mpf, s: mp.mpf, q: mp.mpf) -> mp.mpf:
            return mp.mpf("0.5") + s * s * mp.log((factor - (1 - q)) / q)

        middles = [place(mp.exp(e / 2), s, q) for s, q in steps]
        total, p, other = mp.mpf(0), mp.mpf(1), mp.mpf(1)
        for i in (0, 1):
            (s1, q1), (s2, q2) = steps[i], steps[1 - i]

            def average(x: mp.mpf, s1: mp.mpf = s1, q1: mp.mpf = q1, s2: mp.mpf = s2, q2: mp.mpf = q2) -> mp.mpf:
                weight = 1 - q1 + q1 * mp.exp((x - mp.mpf("0.5")) / s1**2)
                factor = mp.exp(e) / weight
                at = place(factor, s2, q2)
                return mp.npdf(x, 0, s1) * weight * ((1 - q2 - factor) * tail(at, s2) + q2 * tail(at - 1, s2))

            m, start = middles[i], -18 * s1
            count = int((m - start) / min(s1 / 3, s1 * s1 / 2, s1 * s2)) + 1
            total += mp.quad(average, mp.linspace(start, m, count + 1), method="gauss-legendre", maxdegree=4)
            p *= (1 - q1) * tail(m, s1) + q1 * tail(m - 1, s1)
            other *= tail(m, s1)
        return mp.log(total + p - mp.exp(e) * other)


def main() -> None:
    rows = [
        {
            "steps": [[sigma, rate], [sigma, rate]],
            "epsilon": eps,
            "log_delta": mp.nstr(two_steps(sigma, rate, eps), 25),
        }
        for sigma, rate, eps in EQUAL
    ]
    rows += [
        {"steps": [list(a), list(b)], "epsilon": eps, "log_delta": mp.nstr(two_different_steps(a, b, eps), 25)}
        for a, b, eps in DIFFERENT
    ]
    rows += [
        {
            "steps": [[sigma, rate], [sigma, rate]],
            "neighbours": "add",
            "epsilon": eps,
            "log_delta": mp.nstr(two_added(sigma, rate, eps), 25),
        }
        for sigma, rate, eps in ADDED
    ]
    rows += [
        {
            "steps": [[sigma, rate], [sigma, rate]],
            "approximate": [e, infinite],
            "epsilon": eps,
            "log_delta": mp.nstr(two_beside(sigma, rate, e, infinite, eps), 25),
        }
        for sigma, rate, e, infinite, eps in BESIDE
    ]
    text = ",\n".join(json.dumps(row) for row in rows)
    pathlib.Path(__file__).with_name("subsampled_two_steps.json").write_text(f'{{"rows": [\n{text}\n]}}\n')


if __name__ == "__main__":
    main()
