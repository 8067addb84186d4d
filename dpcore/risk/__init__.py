"""Risk: turn epsilon into confidence, money and a decision."""

from __future__ import annotations

from dpcore.risk._confidence import (
    approximate_dp,
    epsilon0_for,
    epsilon_at_confidence,
    gaussian_confidence,
    laplace_confidence,
    mechanism_confidence,
)
from dpcore.risk._cost import Cheapest, CostModel, EpsilonRange, NotConvexError
from dpcore.risk._disclosure import (
    IDENTITY_ASSETS,
    DisclosureBudget,
    disclosure_epsilon,
    disclosure_probability,
    published_u,
)

__all__ = [
    "IDENTITY_ASSETS",
    "Cheapest",
    "CostModel",
    "DisclosureBudget",
    "EpsilonRange",
    "NotConvexError",
    "approximate_dp",
    "disclosure_epsilon",
    "disclosure_probability",
    "epsilon0_for",
    "epsilon_at_confidence",
    "gaussian_confidence",
    "laplace_confidence",
    "mechanism_confidence",
    "published_u",
]
