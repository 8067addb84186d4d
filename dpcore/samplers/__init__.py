"""Exact random draws from a cryptographic stream.

Every function draws from the calling thread's ChaCha20 stream, keyed by the operating system, unless it
is given ``rng=InsecureTestRng(seed)``, which is predictable and for tests only. Distributions are exact:
the total variation distance from the law stated is below 2**-150 a draw. See ``docs/samplers.md``.
"""

from __future__ import annotations

from dpcore._core import InsecureTestRng, RandomnessError
from dpcore.samplers._arguments import GREATEST_SCALE, LEAST_SCALE
from dpcore.samplers._noise import discrete_gaussian, discrete_laplace, gaussian, geometric, grid_for, laplace
from dpcore.samplers._selection import (
    bernoulli,
    bernoulli_exp,
    choose,
    random_bytes,
    randomized_response,
    uniform_below,
)

__all__ = [
    "GREATEST_SCALE",
    "LEAST_SCALE",
    "InsecureTestRng",
    "RandomnessError",
    "bernoulli",
    "bernoulli_exp",
    "choose",
    "discrete_gaussian",
    "discrete_laplace",
    "gaussian",
    "geometric",
    "grid_for",
    "laplace",
    "random_bytes",
    "randomized_response",
    "uniform_below",
]
