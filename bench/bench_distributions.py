"""Whole supports against SciPy, Figure 5.1 of the thesis, windows, tails and Poisson-binomial sums.

Run ``python bench/bench_distributions.py``. Every answer is compared with mpmath or with another law before it is
timed; the accuracy stands beside the time. SciPy's pmf is timed on all k where that takes seconds, and on every
`stride`-th k (times `stride`) where it would take minutes; its cost a point does not depend on k.
"""

from __future__ import annotations

import math
import time

import mpmath as mp
import numpy as np
from _common import QUICK, Timing, compare, growth, human, require_release, steps, timed, version
from scipy import special, stats

from dpcore import distributions as ds

mp.mp.dps = 50


def exact(n: int, c: int, d: int, k: int) -> mp.mpf:
    log = sum(mp.loggamma(x + 1) for x in (c, n - c, d, n - d))
    log -= sum(mp.loggamma(x + 1) for x in (n, k, c - k, d - k, n - c - d + k))
    return mp.exp(log)


def sample(first: int, pmf: np.ndarray) -> list[int]:
    visible = np.flatnonzero(pmf > 1e-300)
    spots = visible[np.linspace(0, len(visible) - 1, 9).astype(int)]
    return [first + int(i) for i in spots]


def worst(n: int, c: int, d: int, spots: list[int], values: np.ndarray) -> float:
    """Largest relative error of the values at the given k."""
    pairs = zip(spots, values.tolist(), strict=True)
    return max(float(abs(mp.mpf(value) / exact(n, c, d, k) - 1)) for k, value in pairs)


def log_factorial_update(n: int, c: int, d: int) -> np.ndarray:
    """Lemma 5.1 with the updates of Corollary 5.2, as running sums of logarithms: the thesis vectorised."""
    low, high = max(0, c + d - n), min(c, d)
    start = sum(special.gammaln(x + 1.0) for x in (c, n - c, d, n - d))
    start -= sum(special.gammaln(x + 1.0) for x in (n, low, c - low, d - low, n - c - d + low))
    k = np.arange(low, high, dtype=float)
    steps = np.log(c - k) + np.log(d - k) - np.log(k + 1) - np.log(n - c - d + k + 1)
    return np.exp(start + np.concatenate(([0.0], np.cumsum(steps))))


def scipy_timing(n: int, c: int, d: int, stride: int) -> Timing:
    low, high = max(0, c + d - n), min(c, d)
    ks = np.arange(low, high + 1, stride)
    seconds = []
    for _ in range(2 if stride == 1 else 3):
        start = time.perf_counter()
        stats.hypergeom.pmf(ks, n, c, d)
        seconds.append((time.perf_counter() - start) * (high - low + 1) / len(ks))
    seconds.sort()
    return Timing(seconds[0], seconds[len(seconds) // 2])


def supports() -> None:
    print(f"\nWhole support, population n, half marked, half drawn; peer {version('scipy')}")
    for n, least, stride in steps(((10**4, 1000, 1), (5 * 10**4, 1000, 25), (10**6, 25, 1), (10**7, 25, 4)), 2):
        c = d = n // 2
        first, pmf = ds.hypergeometric_pmf(population=n, marked=c, drawn=d)
        spots = sample(first, pmf)
        error = worst(n, c, d, spots, pmf[np.array(spots) - first])
        assert error <= 2.3e-15, error
        assert abs(math.fsum(pmf[pmf > 0]) - 1) <= 1e-14
        peer_error = worst(n, c, d, spots, stats.hypergeom.pmf(spots, n, c, d))
        ours = timed(lambda n=n, c=c, d=d: ds.hypergeometric_pmf(population=n, marked=c, drawn=d))
        peer = scipy_timing(n, c, d, stride)
        note = (
            f"{ours.best / len(pmf) * 1e9:.2f} ns a point; error at 9 points {error:.1e}, scipy {peer_error:.1e}"
        )
        compare(f"hypergeometric support, n = {n:.0e}", ours, peer, "scipy", least=least, note=note)
        growth("hypergeometric support", n, ours, peer, unit="population")


def figure_5_1() -> None:
    print("\nFigure 5.1 of the thesis: all background-knowledge classes, records n, known n', bias b")
    header = ("n", "known", "bias", "scipy", "log-fact.", "dpcore", "errors: scipy", "log-fact.", "dpcore")
    print(" ".join(f"{word:>{w}}" for word, w in zip(header, (6, 6, 5, 10, 10, 10, 14, 9, 8), strict=True)))
    for n in (10**4, 2 * 10**4, 5 * 10**4):
        for known in (n // 10, n // 2, 9 * n // 10):
            for bias in (0.1, 0.5):
                c = int(n * bias)
                first, pmf = ds.hypergeometric_pmf(population=n, marked=c, drawn=known)
                spots = sample(first, pmf)
                ours = timed(
                    lambda n=n, c=c, d=known: ds.hypergeometric_pmf(population=n, marked=c, drawn=d), samples=3
                )
                update = timed(lambda n=n, c=c, d=known: log_factorial_update(n, c, d), samples=3)
                peer = scipy_timing(n, c, known, max(1, len(pmf) // 150))
                errors = [
                    worst(n, c, known, spots, values)
                    for values in (
                        stats.hypergeom.pmf(spots, n, c, known),
                        log_factorial_update(n, c, known)[np.array(spots) - first],
                        pmf[np.array(spots) - first],
                    )
                ]
                times = " ".join(f"{human(t.best):>10}" for t in (peer, update, ours))
                digits = " ".join(f"{e:>{w}.1e}" for e, w in zip(errors, (14, 9, 8), strict=True))
                print(f"{n:>6} {known:>6} {bias:>5} {times} {digits}")


def windows() -> None:
    print("\nBinomial window that holds all but 1e-15 on each side, p = 1/2")
    for m in steps((10**3, 10**5, 10**7, 10**9, 10**11), 3):
        first, pmf = ds.binomial_pmf(trials=m, probability=0.5, tail=1e-15)
        k = first + len(pmf) // 3
        log = mp.loggamma(m + 1) - mp.loggamma(k + 1) - mp.loggamma(m - k + 1) - m * mp.log(2)
        error = float(abs(mp.mpf(float(pmf[k - first])) / mp.exp(log) - 1))
        assert error <= 1.4e-15
        ours = timed(lambda m=m: ds.binomial_pmf(trials=m, probability=0.5, tail=1e-15), samples=3)
        ks = np.arange(first, first + len(pmf))
        peer = timed(lambda m=m, ks=ks: stats.binom.pmf(ks, m, 0.5), samples=3)
        each = ours.best / len(pmf) * 1e9
        theirs = float(abs(mp.mpf(float(stats.binom.pmf(k, m, 0.5))) / mp.exp(log) - 1))
        note = f"{len(pmf)} points, {each:.1f} ns a point; error {error:.1e}, scipy {theirs:.1e}"
        compare(f"binomial window, m = {m:.0e}", ours, peer, "scipy", note=note)
        growth("binomial window", m, ours, peer, unit="trials")


def sums() -> None:
    print("\nPoisson-binomial, probabilities spread over (0, 1)")
    peer_class = getattr(stats, "poisson_binom", None)
    for n in steps((10**3, 10**4, 10**5), 1):
        probabilities = (np.arange(n) * 7919 % n + 0.5) / n
        start = time.perf_counter()
        _, pmf = ds.poisson_binomial_pmf(probabilities)
        seconds = time.perf_counter() - start
        assert abs(math.fsum(pmf) - 1) <= 1e-14
        ours = Timing(seconds, seconds)
        if n < 10**5:
            ours = timed(lambda p=probabilities: ds.poisson_binomial_pmf(p), samples=3)
        equal = ds.poisson_binomial_pmf(np.full(n, 0.5))[1]
        want = ds.binomial_pmf(trials=n, probability=0.5)[1]
        usable = want > 1e-300
        error = float(np.max(np.abs(equal[usable] / want[usable] - 1)))
        assert error <= 1.6e-15
        if peer_class is not None and n <= 10**4:
            law = peer_class(probabilities)
            peer = timed(lambda law=law, n=n: law.pmf(np.arange(n + 1)), samples=1, least=0.001)
            compare(f"Poisson-binomial, n = {n:.0e}", ours, peer, "scipy")
        else:
            print(f"n = {n:.0e}{'':<36} {human(ours.best):>9}")
        print(f"{'':8}equal records against the binomial law: {error:.1e}, down to 1e-300")


if __name__ == "__main__":
    require_release()
    supports()
    if not QUICK:
        figure_5_1()
    windows()
    sums()
