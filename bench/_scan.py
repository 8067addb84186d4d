"""What the scans share: mechanisms drawn at random, and how a list of numbers is summed up."""

from __future__ import annotations

import numpy as np

from dpcore import accounting


def pair(rng: np.random.Generator, size: float) -> tuple[accounting.PrivacyLoss, str]:
    outcomes = int(rng.integers(3, 13))
    q = rng.dirichlet(np.ones(outcomes))
    p = q * np.exp(size * rng.uniform(-1, 1, outcomes))
    p /= p.sum()
    return accounting.from_pmf(p, q), f"pair of {outcomes}, losses {np.log(p / q).round(4).tolist()}"


def drawn(
    rng: np.random.Generator, kind: str, scale: float, short: bool, sensitivity: int
) -> tuple[accounting.PrivacyLoss, str]:
    """One release of noise about `scale`, or of epsilon about 1/scale; `short`: with two digits."""
    value = max(0.3, float(f"{scale:.2g}") if short else scale)
    inverse = float(f"{1 / scale:.2g}") if short else 1 / scale
    if kind == "Laplace":
        return accounting.from_laplace(epsilon=inverse), f"Laplace({inverse})"
    if kind == "Gaussian":
        return accounting.from_gaussian(sigma=value), f"Gaussian({value})"
    if kind == "discrete Laplace":
        law = accounting.from_discrete_laplace(scale=value, sensitivity=sensitivity)
        return law, f"discrete Laplace({value}, {sensitivity})"
    if kind == "discrete Gaussian":
        law = accounting.from_discrete_gaussian(sigma=value, sensitivity=sensitivity)
        return law, f"discrete Gaussian({value}, {sensitivity})"
    if kind == "response":
        return accounting.from_randomized_response(epsilon=inverse), f"response({inverse})"
    if kind == "pure":
        return accounting.from_pure(epsilon=inverse), f"pure({inverse})"
    if kind == "approximate":
        return accounting.from_approximate(epsilon=inverse, delta=1e-12), f"approximate({inverse})"
    return pair(rng, min(3.0, 1 / scale))


def quantiles(values: list[float]) -> str:
    half, most, nearly_all = np.quantile(values, [0.5, 0.9, 0.99])
    ranks = f"median {half:.2g}, 9 of 10 below {most:.2g}, 99 of 100 below {nearly_all:.2g}"
    return f"{ranks}, most {max(values):.2g}"
