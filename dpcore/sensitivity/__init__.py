"""Sensitivity sampling: make any black-box function private without deriving its sensitivity."""

from __future__ import annotations

from dpcore.sensitivity._errors import EvaluationError, ExecutorError, SamplerError, TargetError
from dpcore.sensitivity._estimate import SensitivityEstimate, shifted_gamma
from dpcore.sensitivity._evaluations import Evaluations
from dpcore.sensitivity._operating_point import OperatingPoint, operating_point
from dpcore.sensitivity._sampler import SensitivitySampler

__all__ = [
    "EvaluationError",
    "Evaluations",
    "ExecutorError",
    "OperatingPoint",
    "SamplerError",
    "SensitivityEstimate",
    "SensitivitySampler",
    "TargetError",
    "operating_point",
    "shifted_gamma",
]
