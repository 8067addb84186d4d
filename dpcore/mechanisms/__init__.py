"""Mechanisms: a private value goes in, a differentially private one comes out.

A mechanism is built from a budget and a sensitivity, or from a noise scale, draws from the exact samplers of
`dpcore.samplers`, and states what it guarantees (``.statement``). Everything that can be refused is refused at
construction: no exception of ``release`` depends on a private value. See ``docs/mechanisms.md``.
"""

from __future__ import annotations

from dpcore.mechanisms._base import ExpectedError, Mechanism, NoiseInterval
from dpcore.mechanisms._bernstein import Bernstein, BernsteinRelease
from dpcore.mechanisms._discrete import DiscreteGaussian, DiscreteLaplace
from dpcore.mechanisms._queries import (
    count_sensitivity,
    histogram_sensitivity,
    mean_sensitivity,
    sum_sensitivity,
)
from dpcore.mechanisms._real import Gaussian, Laplace
from dpcore.mechanisms._selection import Exponential, RandomizedResponse

__all__ = [
    "Bernstein",
    "BernsteinRelease",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "ExpectedError",
    "Exponential",
    "Gaussian",
    "Laplace",
    "Mechanism",
    "NoiseInterval",
    "RandomizedResponse",
    "count_sensitivity",
    "histogram_sensitivity",
    "mean_sensitivity",
    "sum_sensitivity",
]
