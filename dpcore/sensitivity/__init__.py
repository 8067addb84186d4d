"""Sensitivity sampling: make any black-box function private without deriving its sensitivity."""

from __future__ import annotations

from dpcore.sensitivity._errors import EvaluationError, ExecutorError, SamplerError, TargetError
from dpcore.sensitivity._estimate import SensitivityEstimate, shifted_gamma
from dpcore.sensitivity._evaluations import Evaluations
from dpcore.sensitivity._operating_point import OperatingPoint, operating_point
from dpcore.sensitivity._respond import RandomPrivateRelease, sample_then_respond
from dpcore.sensitivity._sampler import SensitivitySampler
from dpcore.sensitivity._targets import (
    Histogram,
    LinearRegression,
    Mean,
    Quantile,
    RidgeRegression,
    Sum,
)

__all__ = [
    "EvaluationError",
    "Evaluations",
    "ExecutorError",
    "Histogram",
    "LinearRegression",
    "Mean",
    "OperatingPoint",
    "Quantile",
    "RandomPrivateRelease",
    "RidgeRegression",
    "SamplerError",
    "SensitivityEstimate",
    "SensitivitySampler",
    "Sum",
    "TargetError",
    "operating_point",
    "sample_then_respond",
    "shifted_gamma",
]
