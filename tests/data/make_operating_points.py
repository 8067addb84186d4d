"""Makes operating_points.json: operating points of sensitivity sampling from their definitions.

published: mpmath at 60 digits, inequality (1) of Theorem 15 with the best rho found by golden section
(no Lambert W).
confident: exact rationals, counting up from m = 1 (or down from k = m).
Inputs are the doubles nearest to the decimals shown. Run: python make_operating_points.py
"""

import json
import math
import pathlib
from fractions import Fraction

import mpmath as mp

mp.mp.dps = 60
GAMMAS = [0.5, 0.3, 0.2, 0.1, 0.05, 0.025, 0.01, 0.005, 0.001, 0.0001]


def best_rho(objective, high):
    low = mp.mpf("1e-40")
    ratio = (mp.sqrt(5) - 1) / 2
    low, high = mp.log(low), mp.log(high)
    for _ in range(300):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        if objective(mp.e**a) < objective(mp.e**b):
            high = b
        else:
            low = a
    return mp.e ** ((low + high) / 2)


def published(gamma):
    g = mp.mpf(gamma)

    def size(rho):
        return mp.log(1 / rho) / (2 * (g - rho) ** 2)

    rho = best_rho(size, min(g, mp.mpf(1) / 2) * (1 - mp.mpf("1e-30")))
    return {"gamma": gamma, "samples": int(mp.ceil(size(rho))), "rho": mp.nstr(rho, 25)}


def published_gamma(samples):
    def gamma(rho):
        return rho + mp.sqrt(mp.log(1 / rho) / (2 * samples))

    rho = best_rho(gamma, mp.mpf(1) / 2)
    return {"samples": samples, "gamma": mp.nstr(gamma(rho), 25), "rho": mp.nstr(rho, 25)}


def published_order(samples, gamma):
    least = mp.mpf(published_gamma(samples)["gamma"])
    return {"samples": samples, "gamma": gamma, "order": int(mp.ceil(samples * (1 - mp.mpf(gamma) + least)))}


def failure(samples, order, gamma):
    """Pr[Beta(order, samples + 1 - order) < 1 - gamma], a binomial sum in integers."""
    p, q = Fraction(gamma).numerator, Fraction(gamma).denominator
    total = sum(math.comb(samples, j) * p**j * (q - p) ** (samples - j) for j in range(samples - order + 1))
    return Fraction(total, q**samples)


def confident(gamma, confidence):
    samples = 1
    while failure(samples, samples, gamma) > 1 - Fraction(confidence):
        samples += 1
    return {"gamma": gamma, "confidence": confidence, "samples": samples}


def confident_order(samples, gamma, confidence):
    order = samples
    while order > 1 and failure(samples, order - 1, gamma) <= 1 - Fraction(confidence):
        order -= 1
    return {"samples": samples, "gamma": gamma, "confidence": confidence, "order": order}


if __name__ == "__main__":
    table = {
        "published": [published(g) for g in GAMMAS],
        "published_gamma": [published_gamma(m) for m in (2, 10, 100, 1000, 10000, 10**6)],
        "published_order": [
            published_order(m, g) for m, g in ((100, 0.3), (1000, 0.1), (1000, 0.5), (10000, 0.05), (10**6, 0.01))
        ],
        "confident": [
            confident(g, c) for g in (0.5, 0.2, 0.1, 0.05, 0.01) for c in (0.5, 0.75, 0.9, 0.95, 0.99, 0.999)
        ],
        "confident_order": [
            confident_order(m, g, c)
            for m, g, c in (
                (100, 0.05, 0.95),
                (200, 0.05, 0.99),
                (1000, 0.1, 0.9),
                (500, 0.5, 0.999),
                (3, 0.5, 0.875),
            )
        ],
    }
    path = pathlib.Path(__file__).with_name("operating_points.json")
    path.write_text(json.dumps(table, indent=1) + "\n")
