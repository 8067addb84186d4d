"""What can go wrong while sensitivities are sampled; no evaluation already made is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpcore.sensitivity._evaluations import Evaluations


class EvaluationError(RuntimeError):
    """Sampling stopped before its end.

    Attributes
    ----------
    evaluations : Evaluations or None
        What had been evaluated; give it to ``estimate(resume=...)`` to go on from there.
    index : int or None
        Number of the evaluation that failed, from 0.
    """

    def __init__(self, message: str, *, index: int | None = None, evaluations: Evaluations | None = None) -> None:
        super().__init__(message)
        self.index = index
        self.evaluations = evaluations


class TargetError(EvaluationError):
    """The target or the norm raised, or returned something that is no array of real numbers of one shape."""


class SamplerError(EvaluationError):
    """The record sampler raised, or returned something else than the records asked for."""


class ExecutorError(EvaluationError):
    """The executor could not take the work or died while doing it."""
