"""Randomised response and the exponential mechanism."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from dpcore import _validation, samplers
from dpcore._core import InsecureTestRng
from dpcore._rounding import upward
from dpcore._validation import FloatArray, IntArray
from dpcore.mechanisms._base import (
    NOTHING_STATED,
    ExpectedError,
    Mechanism,
    NoiseInterval,
    between_neighbours,
    checked_level,
    checked_neighbours,
    down,
    one_of,
    optional_positive,
    set_fields,
    up,
)

if TYPE_CHECKING:
    from dpcore.accounting import PrivacyLoss


# Responses counted at a time.
_PART = 1 << 22


@dataclasses.dataclass(frozen=True, init=False)
class RandomizedResponse(Mechanism):
    """Keeps or replaces each person's answer by chance: epsilon-differential privacy without a trusted collector.

    An answer is kept with probability e**epsilon / (e**epsilon + categories - 1), else replaced by one of the
    others, all equally likely. Two fair coins (tell the truth on heads, else answer by the second coin) are
    epsilon = ln 3.

    Parameters
    ----------
    epsilon : float
        Finite, > 0: budget of one answer.
    categories : int
        Number of possible answers, at least 2. Answers are 0, ..., categories - 1.

    Examples
    --------
    >>> from dpcore.mechanisms import RandomizedResponse
    >>> survey = RandomizedResponse(epsilon=1.0)
    >>> answers = survey.release([0, 1, 1, 0, 1])
    >>> survey.estimate(answers).shape
    (2,)
    """

    epsilon: float
    categories: int

    def __init__(self, *, epsilon: float, categories: int = 2) -> None:
        set_fields(
            self,
            epsilon=_validation.scalar("epsilon", _validation.positive("epsilon", epsilon)),
            categories=_validation.integer("categories", categories, least=2),
        )

    @property
    def keep_probability(self) -> float:
        """Probability that an answer is kept."""
        return 1 / (1 + (self.categories - 1) * math.exp(-self.epsilon))

    def release(self, value: ArrayLike, rng: InsecureTestRng | None = None) -> int | IntArray:
        """Randomised answers.

        Parameters
        ----------
        value : int or array of int
            Private answers in [0, categories); one outside is moved to the nearest end, without an error.
        rng : InsecureTestRng, optional
            A predictable generator for tests.
        """
        return samplers.randomized_response(value, epsilon=self.epsilon, categories=self.categories, rng=rng)

    def estimate(self, responses: ArrayLike) -> FloatArray:
        """Unbiased estimate of the share of each answer, from released responses.

        Shares may fall outside [0, 1]; clipping them is allowed and makes them biased.
        """
        given = _validation.whole_array("responses", responses)
        if given.dtype.kind not in "iub":  # answers of yes and no are counted as 1 and 0
            raise TypeError(f"responses must be an array of integers, got dtype {given.dtype}")
        if given.size == 0:
            raise ValueError("responses must not be empty")
        # In parts, between which Ctrl-C is heeded; NumPy does not look for it.
        flat, size = given.reshape(-1), max(_PART, self.categories)
        parts = [slice(start, start + size) for start in range(0, flat.size, size)]
        # Before bincount, which makes an array as long as the largest of them.
        least, most = min(int(flat[p].min()) for p in parts), max(int(flat[p].max()) for p in parts)
        if not (least >= 0 and most < self.categories):
            raise ValueError(f"responses must lie in [0, {self.categories}), got values from {least} to {most}")
        counts = np.zeros(self.categories, dtype=np.int64)
        for part in parts:
            counts += np.bincount(flat[part].astype(np.int64), minlength=self.categories)
        shares = counts / given.size
        keep = self.keep_probability
        other = (1 - keep) / (self.categories - 1)
        result: FloatArray = (shares - other) / (keep - other)
        return result

    def error(self, *, responses: int = 1) -> ExpectedError:
        """Error of an estimated share from this many responses: upper bounds over all true shares.

        The squared error is at most 1 / (4 * responses * (keep - other)**2), the absolute one its root.
        """
        number = _validation.integer("responses", responses, least=1)
        spread = 0.5 / self._contrast * (1 + 1e-14)
        return ExpectedError(spread / math.sqrt(number), spread * spread / number)

    @property
    def _contrast(self) -> float:
        """keep - other = (e^epsilon - 1)/(e^epsilon + categories - 1)."""
        return -math.expm1(-self.epsilon) / (1 + (self.categories - 1) * math.exp(-self.epsilon))

    def interval(self, level: float, *, responses: int) -> NoiseInterval:
        """Half width around an estimated share (Hoeffding's inequality), for this many responses."""
        checked = checked_level(level)
        number = _validation.integer("responses", responses, least=1)
        width = math.sqrt(math.log(2 / (1 - checked)) / (2 * number)) / self._contrast
        return NoiseInterval(checked, width * (1 + 1e-14))

    def privacy_loss(self) -> PrivacyLoss:
        """Privacy loss of one answer; for more than two categories, that of any epsilon-private mechanism."""
        from dpcore import accounting

        if self.categories == 2:
            return accounting.from_randomized_response(epsilon=self.epsilon)
        return accounting.from_pure(epsilon=self.epsilon)

    @property
    def statement(self) -> str:
        """The guarantee in words."""
        return (
            f"Each answer is {upward(self.epsilon)}-differentially private for the person who gave "
            f"it, whatever the "
            f"collector does (kept with probability {self.keep_probability:.6g})."
        )


@dataclasses.dataclass(frozen=True, init=False)
class Exponential(Mechanism):
    """Chooses a candidate by its score: epsilon-differential privacy for selections.

    Candidate i is chosen with probability proportional to exp(factor * score[i]), where factor is
    epsilon / (2 * sensitivity), or epsilon / sensitivity for monotone scores, rounded down.

    Parameters
    ----------
    epsilon : float, optional
        Finite, > 0. Either this or `factor`.
    sensitivity : float
        Finite, > 0: the most that any score differs between neighbouring data sets (sup norm). May only be left
        out when `factor` is given; then the mechanism makes no statement about privacy.
    factor : float, optional
        Finite, >= 0.
    monotone : bool
        True when a change of the data set moves all scores in the same direction (counts under adding or removing
        a record): half of the factor's cost is saved.
    neighbours : {"add_remove", "replace"}, optional
        Relation for which the sensitivity was computed; named in the statement.

    Examples
    --------
    >>> from dpcore.mechanisms import Exponential
    >>> pick = Exponential(epsilon=1.0, sensitivity=1.0)
    >>> pick.release([3.0, 900.0, 12.0])
    1
    """

    epsilon: float | None
    sensitivity: float | None
    factor: float
    monotone: bool
    neighbours: str | None

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        sensitivity: float | None = None,
        factor: float | None = None,
        monotone: bool = False,
        neighbours: str | None = None,
    ) -> None:
        which = one_of(epsilon=epsilon, factor=factor)
        budget, distance = optional_positive("epsilon", epsilon), optional_positive("sensitivity", sensitivity)
        if not isinstance(monotone, bool):
            raise TypeError(f"monotone must be True or False, got {monotone!r}")
        if distance is None and which == "epsilon":
            raise TypeError("sensitivity must be given with epsilon")
        cost = None if distance is None else Fraction(distance) * (1 if monotone else 2)
        if budget is not None and cost is not None:
            chosen = down(Fraction(budget) / cost)
        else:
            chosen = _validation.scalar("factor", _validation.non_negative("factor", factor))
            budget = None if cost is None else up(Fraction(chosen) * cost)
        set_fields(
            self,
            epsilon=budget,
            sensitivity=distance,
            factor=chosen,
            monotone=monotone,
            neighbours=checked_neighbours(neighbours),
        )

    def release(self, value: ArrayLike, rng: InsecureTestRng | None = None) -> int:
        """Index of the chosen candidate.

        Parameters
        ----------
        value : array of float, one dimension
            Private scores, one a candidate; the number of candidates is public. NaN counts as the lowest score,
            and scores are clamped to +-2**1000; neither raises.
        rng : InsecureTestRng, optional
            A predictable generator for tests.
        """
        return samplers.choose(value, factor=self.factor, rng=rng)

    def error(self, *, candidates: int) -> ExpectedError:
        """Bounds on how far the chosen score lies below the best, for this many candidates.

        Pr[gap >= (ln(candidates) + t) / factor] <= exp(-t), so the gap is at most (ln(candidates) + 1) / factor on
        average and ((ln(candidates) + 1)**2 + 1) / factor**2 in mean square.
        """
        number = _validation.integer("candidates", candidates, least=1)
        if self.factor == 0:
            return ExpectedError(math.inf, math.inf)
        log = math.log(number) * (1 + 1e-15)
        return ExpectedError((log + 1) / self.factor, ((log + 1) ** 2 + 1) / self.factor**2)

    def interval(self, level: float, *, candidates: int) -> NoiseInterval:
        """Gap to the best score that is exceeded with probability at most 1 - level."""
        checked = checked_level(level)
        number = _validation.integer("candidates", candidates, least=1)
        if self.factor == 0:
            return NoiseInterval(checked, math.inf)
        return NoiseInterval(checked, (math.log(number) - math.log1p(-checked)) / self.factor * (1 + 1e-14))

    def privacy_loss(self) -> PrivacyLoss:
        """Privacy loss of one choice: that of any epsilon-private mechanism."""
        if not self.epsilon:
            raise ValueError("a mechanism without sensitivity, or with factor 0, has no privacy loss to state")
        from dpcore import accounting

        return accounting.from_pure(epsilon=self.epsilon)

    @property
    def statement(self) -> str:
        """The guarantee in words."""
        if self.epsilon is None or self.sensitivity is None:
            return f"Choice with factor {upward(self.factor)}; {NOTHING_STATED}"
        return (
            f"Each choice is {upward(self.epsilon)}-differentially private "
            f"{between_neighbours(self.neighbours, self.sensitivity)} in every score."
        )
