"""The laws of the samplers, by G-tests against exact probabilities.

Level: every test rejects at LEVEL = 1e-9 and there are fewer than 100 of them, so a right sampler fails this file
with probability below 1e-7. Power: the deliberately wrong samplers at the end, each wrong by a plausible mistake,
are drawn with the same sample size and must be rejected at the same level.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

from dpcore import samplers

pytestmark = pytest.mark.statistical

LEVEL = 1e-9
DRAWS = 1_000_000
Ints = NDArray[np.int64]


def g_test(observed: NDArray[np.int64], expected: NDArray[np.float64]) -> float:
    """p-value of the likelihood ratio statistic; cells expecting fewer than 25 are pooled into one."""
    keep = expected >= 25
    o = np.append(observed[keep], observed[~keep].sum()).astype(float)
    e = np.append(expected[keep], expected[~keep].sum())
    if e[-1] < 25:  # too little even together: join the smallest kept cell
        smallest = int(np.argmin(e[:-1]))
        o[smallest] += o[-1]
        e[smallest] += e[-1]
        o, e = o[:-1], e[:-1]
    g = 2 * special.xlogy(o, o / e).sum()
    return float(stats.chi2.sf(g, len(e) - 1))


def p_of_integers(draws: Ints, probability: Callable[[int], float], reach: int) -> float:
    """G-test of every integer in -reach..reach and the tail beyond."""
    cells = np.arange(-reach, reach + 1)
    p = np.array([probability(int(k)) for k in cells])
    inside = np.abs(draws) <= reach
    observed = np.bincount(draws[inside] + reach, minlength=len(cells))
    observed = np.append(observed, np.count_nonzero(~inside))
    return g_test(observed, np.append(p, max(0.0, 1 - p.sum())) * len(draws))


def p_of_cdf(draws: NDArray[np.float64] | Ints, edges: NDArray[np.float64], cdf: NDArray[np.float64]) -> float:
    """G-test of the cells between edges; cdf holds Pr[draw <= edge]."""
    observed = np.bincount(np.searchsorted(edges, draws, side="left"), minlength=len(edges) + 1)
    probability = np.diff(np.concatenate([[0.0], cdf, [1.0]]))
    return g_test(observed, probability * len(draws))


def discrete_laplace_pmf(scale: float) -> Callable[[int], float]:
    return lambda k: math.tanh(0.5 / scale) * math.exp(-abs(k) / scale)


def discrete_gaussian_pmf(sigma: float) -> Callable[[int], float]:
    reach = math.ceil(40 * sigma) + 1
    total = math.fsum(math.exp(-0.5 * (k / sigma) ** 2) for k in range(-reach, reach + 1))
    return lambda k: math.exp(-0.5 * (k / sigma) ** 2) / total


def geometric_pmf(scale: float) -> Callable[[int], float]:
    return lambda k: -math.expm1(-1 / scale) * math.exp(-k / scale) if k >= 0 else 0.0


def p_of_rounded(draws: NDArray[np.float64], grid: float, cdf: Callable[[float], float]) -> float:
    """G-test of every multiple of the grid that expects 25 draws; cdf is that of the continuous law."""
    k = np.rint(draws / grid).astype(np.int64)
    assert np.array_equal(k * grid, draws)
    reach = int(np.abs(k).max())
    edges = np.array([cdf((j - 0.5) * grid) for j in range(-reach, reach + 2)])
    observed = np.bincount(k + reach, minlength=2 * reach + 1)
    observed = np.append(observed, 0)
    return g_test(observed, np.append(np.diff(edges), 1 - edges[-1] + edges[0]) * len(draws))


@pytest.mark.parametrize("scale", [0.1, 0.3, 1.0, 2.5, 10.0, 33.3])
def test_discrete_laplace_small_scales(scale: float) -> None:
    draws = samplers.discrete_laplace(scale, DRAWS)
    assert p_of_integers(draws, discrete_laplace_pmf(scale), math.ceil(12 * scale)) > LEVEL


@pytest.mark.parametrize("sigma", [0.25, 0.3, 0.5, 1.0, 1.7, 10.0, 40.0])
def test_discrete_gaussian_small_scales(sigma: float) -> None:
    draws = samplers.discrete_gaussian(sigma, DRAWS)
    assert p_of_integers(draws, discrete_gaussian_pmf(sigma), math.ceil(6 * sigma)) > LEVEL


@pytest.mark.parametrize("scale", [0.3, 1.0, 20.0])
def test_geometric(scale: float) -> None:
    draws = samplers.geometric(scale, DRAWS)
    assert p_of_integers(draws, geometric_pmf(scale), math.ceil(12 * scale)) > LEVEL


@pytest.mark.parametrize("scale", [1e3, 1e6, 123456789.0, 1e12, 1e15])
def test_discrete_laplace_large_scales(scale: float) -> None:
    draws = samplers.discrete_laplace(scale, DRAWS)
    edges = np.floor(stats.laplace.ppf(np.arange(1, 200) / 200, scale=scale))
    # Pr[K <= k] for the integer law: 1 - q^(k+1)/(1+q) for k >= 0, mirrored below.
    q = math.exp(-1 / scale)
    cdf = np.where(edges >= 0, 1 - np.exp(-(edges + 1) / scale) / (1 + q), np.exp(edges / scale) / (1 + q))
    assert p_of_cdf(draws, edges, cdf) > LEVEL
    assert g_test(np.bincount(draws % 64, minlength=64), np.full(64, DRAWS / 64)) > LEVEL


@pytest.mark.parametrize("sigma", [1e3, 1e6, 123456789.0, 1e12, 1e15])
def test_discrete_gaussian_large_scales(sigma: float) -> None:
    draws = samplers.discrete_gaussian(sigma, DRAWS)
    edges = np.floor(stats.norm.ppf(np.arange(1, 200) / 200, scale=sigma))
    # The lattice sum up to k is the integral up to k + 1/2, to a relative 1/(24 sigma^2).
    assert p_of_cdf(draws, edges, stats.norm.cdf(edges + 0.5, scale=sigma)) > LEVEL
    assert g_test(np.bincount(draws % 64, minlength=64), np.full(64, DRAWS / 64)) > LEVEL


@pytest.mark.parametrize(
    ("scale", "grid"), [(1.0, 0.25), (3.0, 2.0), (0.7, 4.0), (1e-6, 2.0**-22), (1e9, 2.0**28)]
)
def test_rounded_laws_on_coarse_grids(scale: float, grid: float) -> None:
    x = samplers.laplace(scale, DRAWS, grid=grid)
    assert p_of_rounded(x, grid, lambda v: float(stats.laplace.cdf(v, scale=scale))) > LEVEL
    y = samplers.gaussian(scale, DRAWS, grid=grid)
    assert p_of_rounded(y, grid, lambda v: float(stats.norm.cdf(v, scale=scale))) > LEVEL


@pytest.mark.parametrize("scale", [3.0, 1e-9, 1e20])
def test_rounded_laws_on_their_own_grid(scale: float) -> None:
    grid = samplers.grid_for(scale)
    assert 2**40 <= scale / grid < 2**41
    for name, law in (("laplace", stats.laplace), ("gaussian", stats.norm)):
        x = getattr(samplers, name)(scale, DRAWS)
        k = (x / grid).astype(np.int64)
        assert np.array_equal(k * grid, x)
        levels = np.arange(1, 200) / 200
        assert p_of_cdf(x, law.ppf(levels, scale=scale), levels) > LEVEL
        # Low bits: all 256 residues, which a sampler that rounds a double cannot reach evenly.
        assert g_test(np.bincount(k % 256, minlength=256), np.full(256, DRAWS / 256)) > LEVEL


def test_scalar_draws_have_the_same_laws() -> None:
    n = 100_000
    laplace = np.array([samplers.discrete_laplace(2.5) for _ in range(n)])
    assert p_of_integers(laplace, discrete_laplace_pmf(2.5), 25) > LEVEL
    gaussian = np.array([samplers.discrete_gaussian(1.7) for _ in range(n)])
    assert p_of_integers(gaussian, discrete_gaussian_pmf(1.7), 10) > LEVEL
    real = np.array([samplers.gaussian(3.0, grid=1.0) for _ in range(n)])
    assert p_of_rounded(real, 1.0, lambda v: float(stats.norm.cdf(v, scale=3.0))) > LEVEL


def test_draws_do_not_depend_on_their_neighbours() -> None:
    x = samplers.discrete_laplace(1.0, DRAWS).clip(-3, 3) + 3
    pairs = np.bincount(x[:-1:2] * 7 + x[1::2], minlength=49)
    p = np.bincount(x, minlength=7) / len(x)
    assert g_test(pairs, np.outer(p, p).ravel() * pairs.sum()) > LEVEL


# ---- samplers that are wrong on purpose: the tests above must see it


def floats(n: int) -> np.random.Generator:
    return np.random.default_rng(n)


def test_wrong_scale_is_seen() -> None:
    # Two per cent off, as from a float32 conversion or a wrong constant.
    draws = samplers.discrete_laplace(10.2, DRAWS)
    assert p_of_integers(draws, discrete_laplace_pmf(10.0), 120) < LEVEL
    draws = samplers.discrete_gaussian(10.2, DRAWS)
    assert p_of_integers(draws, discrete_gaussian_pmf(10.0), 60) < LEVEL


def test_a_doubled_zero_is_seen() -> None:
    # Sign times geometric without rejecting minus zero.
    sign = floats(1).integers(0, 2, DRAWS) * 2 - 1
    draws = sign * samplers.geometric(10.0, DRAWS)
    assert p_of_integers(draws, discrete_laplace_pmf(10.0), 120) < LEVEL


def test_rounded_normal_is_not_the_discrete_gaussian() -> None:
    # The two laws differ by 4 % in variance at sigma = 1.
    draws = np.rint(samplers.gaussian(1.0, DRAWS)).astype(np.int64)
    assert p_of_integers(draws, discrete_gaussian_pmf(1.0), 6) < LEVEL


def test_missing_low_bits_are_seen() -> None:
    # Single-precision noise scaled up reaches only some residues.
    k = np.rint(floats(2).standard_normal(DRAWS).astype(np.float32).astype(float) * 1.5 * 2.0**32).astype(np.int64)
    assert g_test(np.bincount(k % 256, minlength=256), np.full(256, DRAWS / 256)) < LEVEL


def test_a_truncated_tail_is_seen() -> None:
    draws = samplers.discrete_laplace(2.5, DRAWS)
    draws = np.where(np.abs(draws) > 20, 0, draws)
    assert p_of_integers(draws, discrete_laplace_pmf(2.5), 30) < LEVEL


def test_dependent_pairs_are_seen() -> None:
    x = samplers.discrete_laplace(1.0, DRAWS).clip(-3, 3) + 3
    x[1::200] = x[:-1:200]
    pairs = np.bincount(x[:-1:2] * 7 + x[1::2], minlength=49)
    p = np.bincount(x, minlength=7) / len(x)
    assert g_test(pairs, np.outer(p, p).ravel() * pairs.sum()) < LEVEL
