"""The Gaussian mechanism against dp_accounting and a NumPy/SciPy expression.

python bench/bench_gaussian.py
"""

from __future__ import annotations

import mpmath as mp
import numpy as np
from _common import compare, growth, require_release, steps, timed, version
from dp_accounting import get_sigma_gaussian
from scipy.special import log_ndtr

from dpcore import gaussian


def exact_delta(epsilon: float, sigma: float) -> mp.mpf:
    e, s = mp.mpf(epsilon), mp.mpf(sigma)
    return mp.ncdf(1 / (2 * s) - e * s) - mp.exp(e) * mp.ncdf(-1 / (2 * s) - e * s)


def scipy_delta(epsilon: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    first = log_ndtr(0.5 / sigma - epsilon * sigma)
    second = epsilon + log_ndtr(-0.5 / sigma - epsilon * sigma)
    return np.exp(first) * -np.expm1(second - first)


def main() -> None:
    require_release()
    mp.mp.dps = 60
    print("sigma, one call; excess of its exact delta over the one asked (negative is safe)")
    for epsilon, delta in steps(((1.0, 1e-6), (0.01, 1e-9), (0.1, 1e-6), (5.0, 1e-12)), 1):
        ours, theirs = gaussian.sigma(epsilon=epsilon, delta=delta), get_sigma_gaussian(epsilon, delta)
        excess = exact_delta(epsilon, ours) / mp.mpf(delta) - 1
        assert excess <= 0, "unsafe"
        peer_excess = exact_delta(epsilon, theirs) / mp.mpf(delta) - 1
        compare(
            f"sigma(epsilon={epsilon}, delta={delta})",
            timed(lambda e=epsilon, d=delta: gaussian.sigma(epsilon=e, delta=d)),
            timed(lambda e=epsilon, d=delta: get_sigma_gaussian(e, d), samples=3),
            version("dp-accounting"),
            least=300,
            note=f"excess of delta: {mp.nstr(excess, 2)}, peer {mp.nstr(peer_excess, 2)}",
        )
    print("delta over arrays; largest relative error seen on 300 of the elements")
    rng = np.random.default_rng(1)
    for size in steps((10**2, 10**3, 10**4, 10**5, 10**6, 10**7), 5):
        epsilon, sigma = rng.uniform(0.1, 3, size), rng.uniform(0.5, 8, size)
        ours, theirs = gaussian.delta(epsilon=epsilon, sigma=sigma), scipy_delta(epsilon, sigma)
        some = rng.integers(0, size, 300)
        exact = [exact_delta(epsilon[i], sigma[i]) for i in some]
        worst = [max(abs(mp.mpf(v[i]) / x - 1) for i, x in zip(some, exact, strict=True)) for v in (ours, theirs)]
        assert worst[0] < 1e-13, "wrong"
        mine = timed(lambda e=epsilon, s=sigma: gaussian.delta(epsilon=e, sigma=s))
        other = timed(lambda e=epsilon, s=sigma: scipy_delta(e, s), samples=5)
        compare(
            f"delta, {size:.0e} elements",
            mine,
            other,
            version("scipy"),
            least=5 if size == 10**6 else None,
            note=f"largest relative error: {mp.nstr(worst[0], 2)}, peer {mp.nstr(worst[1], 2)}",
        )
        growth("delta over arrays", size, mine, other, unit="elements")


if __name__ == "__main__":
    main()
