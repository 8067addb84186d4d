"""Counts under partial knowledge: noise calibrated to what attackers can know.

An attacker who does not know some of the records faces their natural randomness as well as the noise that is
added. `count_delta` says exactly what a noisy count reveals to it, `calibrate` how much noise is enough,
`calibrate_unknown_bias` the same where the bias has to be estimated, and `PartialKnowledgeCount` releases.
`published` has the algorithms as the thesis prints them, for study.
"""

from dpcore.partial_knowledge import published
from dpcore.partial_knowledge._bias import Mixture, Range, Strata, Unequal
from dpcore.partial_knowledge._calibrate import CountCalibration, calibrate
from dpcore.partial_knowledge._delta import count_delta, joint_delta, joint_delta_bounds, log_count_delta
from dpcore.partial_knowledge._release import CountRelease, PartialKnowledgeCount
from dpcore.partial_knowledge._unknown_bias import EstimatedCalibration, calibrate_unknown_bias

__all__ = [
    "CountCalibration",
    "CountRelease",
    "EstimatedCalibration",
    "Mixture",
    "PartialKnowledgeCount",
    "Range",
    "Strata",
    "Unequal",
    "calibrate",
    "calibrate_unknown_bias",
    "count_delta",
    "joint_delta",
    "joint_delta_bounds",
    "log_count_delta",
    "published",
]
