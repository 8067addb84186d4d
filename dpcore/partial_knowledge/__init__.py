"""Counts under partial knowledge: noise calibrated to what attackers can know.

An attacker who does not know some of the records faces their natural randomness as well as the noise that is
added. `count_delta` says exactly what a noisy count reveals to it, `calibrate` how much noise is enough.
"""

from dpcore.partial_knowledge._bias import Mixture, Range, Strata, Unequal
from dpcore.partial_knowledge._calibrate import CountCalibration, calibrate
from dpcore.partial_knowledge._delta import count_delta, joint_delta, log_count_delta

__all__ = [
    "CountCalibration",
    "Mixture",
    "Range",
    "Strata",
    "Unequal",
    "calibrate",
    "count_delta",
    "joint_delta",
    "log_count_delta",
]
