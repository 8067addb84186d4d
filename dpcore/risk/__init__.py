"""Risk: turn epsilon into confidence, money and a decision."""

from __future__ import annotations

from dpcore.risk._composition import Composition, compose
from dpcore.risk._confidence import (
    approximate_dp,
    epsilon0_for,
    epsilon_at_confidence,
    gaussian_confidence,
    laplace_confidence,
    mechanism_confidence,
)
from dpcore.risk._cost import Cheapest, CostModel, EpsilonRange, NotConvexError
from dpcore.risk._decision import Conflict, Limit, Noise, Recommendation
from dpcore.risk._disclosure import (
    IDENTITY_ASSETS,
    DisclosureBudget,
    disclosure_bound,
    disclosure_epsilon,
    disclosure_probability,
    published_u,
)
from dpcore.risk._implicit import (
    combined_confidence,
    combined_epsilon0_for,
    lemma12_eta,
    sampled_sensitivity_confidence,
    tolerance,
)
from dpcore.risk._recommend import recommend

__all__ = [
    "IDENTITY_ASSETS",
    "Cheapest",
    "Composition",
    "Conflict",
    "CostModel",
    "DisclosureBudget",
    "EpsilonRange",
    "Limit",
    "Noise",
    "NotConvexError",
    "Recommendation",
    "approximate_dp",
    "combined_confidence",
    "combined_epsilon0_for",
    "compose",
    "disclosure_bound",
    "disclosure_epsilon",
    "disclosure_probability",
    "epsilon0_for",
    "epsilon_at_confidence",
    "gaussian_confidence",
    "laplace_confidence",
    "lemma12_eta",
    "mechanism_confidence",
    "published_u",
    "recommend",
    "sampled_sensitivity_confidence",
    "tolerance",
]
