"""Sensitivity sampling: make any black-box function private without deriving its sensitivity."""

from __future__ import annotations

from dpcore.sensitivity._operating_point import OperatingPoint, operating_point

__all__ = ["OperatingPoint", "operating_point"]
