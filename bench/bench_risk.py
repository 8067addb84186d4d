"""Confidences against the mpmath/Bessel route and a SciPy mixture; inverses, cheapest level, recommendation.

python bench/bench_risk.py
"""

from __future__ import annotations

import time
import warnings

import mpmath as mp
import numpy as np
from _common import Timing, compare, growth, human, require_release, steps, timed, version
from scipy import special

from dpcore import risk


def bessel_cdf(x: float, k: int) -> mp.mpf:
    """P(T <= x) as the paper has it: quadrature of the Bessel density."""
    half = mp.mpf(1) / 2
    scale = mp.power(2, 2 - k) / (mp.sqrt(2 * mp.pi) * mp.gamma(k))
    return mp.quad(lambda t: scale * mp.power(t, k - half) * mp.besselk(k - half, t), [0, mp.mpf(x)])


def scipy_bessel_cdf(x: float, k: int) -> float:
    """The same density in double precision."""
    from scipy import integrate

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scale = 2.0 ** (2 - k) / (np.sqrt(2 * np.pi) * special.gamma(k))
        value, _ = integrate.quad(lambda t: scale * t ** (k - 0.5) * special.kv(k - 0.5, t), 0, x)
    return float(value)


def scipy_mixture(epsilon: np.ndarray, epsilon0: float, k: int) -> np.ndarray:
    """The Gamma mixture with SciPy's incomplete gamma function, vectorised."""
    j = np.arange(k)
    weights = special.binom(k - 1 + j, j) * 0.5 ** (k - 1 + j)
    cdf = sum(w * special.gammainc(k - i, epsilon) for w, i in zip(weights, j, strict=True))
    return cdf / sum(w * special.gammainc(k - i, epsilon0) for w, i in zip(weights, j, strict=True))


def main() -> None:
    require_release()
    mp.mp.dps = 20
    rng = np.random.default_rng(1)
    k = 5
    print(f"published confidence at dimension {k}, epsilon0 = 1")
    few = rng.uniform(0.01, 1, 20)
    base = bessel_cdf(1.0, k)
    want = [bessel_cdf(float(x), k) / base for x in few]
    got = risk.laplace_confidence(epsilon=few, epsilon0=1.0, dimension=k, method="published")
    worst = max(abs(mp.mpf(g) / w - 1) for g, w in zip(got, want, strict=True))
    assert worst < 1e-14, "wrong"
    print(f"  largest relative error on {len(few)} values: {mp.nstr(worst, 2)}")
    start = time.perf_counter()
    for x in few:
        bessel_cdf(float(x), k) / base
    each = (time.perf_counter() - start) / len(few)
    for size in steps((10**2, 10**3, 10**4, 10**5, 10**6), 4):
        x = rng.uniform(0.001, 1, size)
        ours = timed(lambda x=x: risk.laplace_confidence(epsilon=x, epsilon0=1.0, dimension=k, method="published"))
        theirs = timed(lambda x=x: scipy_mixture(x, 1.0, k), samples=3)
        error = np.max(np.abs(scipy_mixture(x[:1000], 1.0, k) / risk.laplace_confidence(
            epsilon=x[:1000], epsilon0=1.0, dimension=k, method="published") - 1))  # fmt: skip
        name = f"{size:.0e} confidences"
        compare(name, ours, theirs, f"{version('scipy')} mixture", note=f"peer differs by {error:.0e}")
        if size >= 10**5:  # a small call beside a rate measured elsewhere would be a ratio of two accidents
            bessel = Timing(each * size, each * size)
            compare(name, ours, bessel, "mpmath/Bessel at its rate", least=20 if size == 10**6 else None)
        growth("published confidences", size, ours, theirs, unit="confidences")
    print("where the Bessel route ends in double precision (P(T <= 20))")
    for dimension in steps((5, 50, 150, 200, 1000, 100_000), 2):
        ours = risk.laplace_confidence(epsilon=20.0, epsilon0=1e9, dimension=dimension, method="published")
        seconds = timed(
            lambda d=dimension: risk.laplace_confidence(
                epsilon=20.0, epsilon0=1e9, dimension=d, method="published"
            ),
            samples=3,
        )
        theirs = scipy_bessel_cdf(20.0, dimension) if dimension < 1000 else float("nan")
        print(
            f"  dimension {dimension:>7}: dpcore {ours:.12f} in {human(seconds.best)}, scipy Bessel {theirs:.12g}"
        )
    print("other calls")
    c, many = rng.uniform(0.01, 0.99, 10**5), rng.uniform(0.001, 1, 10**6)
    for name, call in (
        ("exact confidence, 1e6", lambda: risk.laplace_confidence(epsilon=many, epsilon0=1.0)),
        (
            "epsilon_at_confidence published k=5, 1e5",
            lambda: risk.epsilon_at_confidence(confidence=c, epsilon0=1.0, dimension=5, method="published"),
        ),
        ("epsilon_at_confidence exact, 1e5", lambda: risk.epsilon_at_confidence(confidence=c, epsilon0=1.0)),
        ("CostModel.cheapest", lambda: risk.CostModel(full=550_000).cheapest(epsilon0=0.5)),
        (
            "recommend with report (HTML)",
            lambda: risk.recommend(records=100, cost=550_000, budget=80_000, allowed_error=2.0).to_html(),
        ),
    ):
        print(f"  {name:<44} {human(timed(call, samples=3).best)}")


if __name__ == "__main__":
    main()
