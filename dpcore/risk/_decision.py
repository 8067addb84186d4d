"""The objects of a recommendation: limits, noise, conflict, and the decision itself."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

from dpcore import _paths
from dpcore._files import replacing
from dpcore._results import Result
from dpcore._rounding import percent_up


def share(bias: Any) -> str:
    """A share of yes, a range of it, or strata, for people."""
    if isinstance(bias, (int, float)):
        return f"{100 * bias:.3g} %"
    if isinstance(bias, tuple) and len(bias) == 2 and all(isinstance(end, (int, float)) for end in bias):
        return f"between {100 * bias[0]:.3g} and {100 * bias[1]:.3g} %"
    return f"given by strata {bias}"


@dataclasses.dataclass(frozen=True)
class Limit(Result):
    """What one requirement, by one method, says about epsilon.

    Attributes
    ----------
    name : str
        The requirement and the method.
    kind : {"lower", "upper"}
        Whether epsilon must be at least or at most `value`.
    value : float
        At least 0, or at most infinity, where the requirement does not limit epsilon; at least infinity, or at
        most 0, where no epsilon meets it.
    used : bool
        Whether the decision rests on it; a published formula known to be wrong never is.
    note : str
        What the method is.

    Examples
    --------
    >>> Limit("Budget", "upper", 0.3438, True, "cost of the level that holds for certain").statement
    'Budget asks for epsilon at most 0.3438.'
    """

    name: str
    kind: str
    value: float
    used: bool
    note: str

    @property
    def statement(self) -> str:
        """The limit in words."""
        if self.value == (0.0 if self.kind == "upper" else math.inf):
            return f"{self.name} allows no epsilon at all."
        if self.value in (0.0, math.inf):
            return f"{self.name} does not limit epsilon."
        word = "at least" if self.kind == "lower" else "at most"
        return f"{self.name} asks for epsilon {word} {self.value:.4g}."


@dataclasses.dataclass(frozen=True)
class Noise(Result):
    """One way to add the noise at the recommended level.

    Attributes
    ----------
    name : str
        The mechanism and how its releases are added up.
    scale : float
        Scale of the Laplace noise or standard deviation of the Gaussian noise, on each release.
    expected_error : float
        Mean absolute error of each release.
    interval : float
        Half-width that 95 of 100 errors stay within.
    assumption : str
        What the guarantee rests on beyond differential privacy; empty when nothing.

    Examples
    --------
    >>> Noise("Laplace noise", 2.0, 2.0, 5.99, "").statement
    'Laplace noise of scale 2 is off by 2 on average and by less than 5.99 in 95 of 100 releases.'
    """

    name: str
    scale: float
    expected_error: float
    interval: float
    assumption: str

    @property
    def statement(self) -> str:
        """The noise in words."""
        if self.scale == 0:
            return f"No noise is needed, given that {self.assumption}."
        given = f", given that {self.assumption}" if self.assumption else ""
        return (
            f"{self.name} of scale {self.scale:.3g} is off by {self.expected_error:.3g} on average and by less "
            f"than {self.interval:.3g} in 95 of 100 releases{given}."
        )


@dataclasses.dataclass(frozen=True)
class Conflict(Result):
    """Two requirements that cannot both be met.

    Attributes
    ----------
    first, second : str
        The requirements.
    at_least, at_most : float
        What the first and the second ask of epsilon.
    remedies : tuple of str
        What would have to change, each alone.

    Examples
    --------
    >>> from dpcore import risk
    >>> tight = risk.recommend(records=100, cost=550_000, budget=20_000, allowed_error=2.0)
    >>> tight.conflict.remedies
    ('allow an error of 3.315 instead of 2', 'raise the budget from 20,000.00 to 74,434.41')
    """

    first: str
    second: str
    at_least: float
    at_most: float
    remedies: tuple[str, ...]

    @property
    def statement(self) -> str:
        """The conflict in words."""
        first, second = (name[0].lower() + name[1:] for name in (self.first, self.second))
        if self.at_most > 0:
            gap = (
                f"the first needs epsilon of at least {self.at_least:.4g}, "
                f"{self.at_least / self.at_most:.3g} times the {self.at_most:.4g} that the second allows."
            )
        elif self.at_least > 0:
            gap = (
                f"the first needs epsilon of at least {self.at_least:.4g}, the second allows none, however small."
            )
        else:
            gap = "the second allows no epsilon, however small."
        text = f"The {first} and the {second} conflict: {gap}"
        return text + (f" To meet both, {'; or '.join(self.remedies)}." if self.remedies else "")


@dataclasses.dataclass(frozen=True)
class Recommendation(Result):
    """A recommended privacy level with everything that led to it. Made by `recommend`.

    Attributes
    ----------
    feasible : bool
        Whether some epsilon meets all requirements.
    epsilon : float or None
        Recommended total privacy level of one person over all releases; None when infeasible.
    lower, upper : float
        Feasible range.
    binding : str
        The requirement that decides.
    limits : tuple of Limit
        What every requirement says by every method.
    noise : tuple of Noise
        Ways to add the noise at the recommended level, the one to use first.
    guess_right : float or None
        Largest probability that an attacker (who knows no more than stated, if the decision rests on partial
        knowledge) who holds a yes-or-no fact about one person even is right after seeing everything.
    count_right : float or None
        Largest probability that the best guess at the exact count is right; None when infeasible or when the
        decision rests on partial knowledge, which does not hide the count.
    expected_cost : float or None
        Cost at the recommended level, if a cost was given.
    conflict : Conflict or None
        Which two requirements exclude each other.
    facts : dict
        What was asked, and further figures.
    notes : tuple of str
        Warnings and explanations.

    Examples
    --------
    >>> from dpcore import risk
    >>> report = risk.recommend(records=100, cost=550_000, budget=80_000, allowed_error=2.0)
    >>> report.epsilon, round(report.guess_right, 3), round(report.expected_cost, 2)
    (0.5, 0.622, 74434.41)
    """

    title: str
    feasible: bool
    epsilon: float | None
    lower: float
    upper: float
    binding: str
    limits: tuple[Limit, ...]
    noise: tuple[Noise, ...]
    guess_right: float | None
    count_right: float | None
    expected_cost: float | None
    conflict: Conflict | None
    facts: dict[str, Any]
    notes: tuple[str, ...]
    curves: dict[str, Any] = dataclasses.field(repr=False, compare=False)

    @property
    def statement(self) -> str:
        """The decision in words."""
        if self.conflict is not None:
            return f"No privacy level meets all requirements. {self.conflict.statement}"
        assert self.epsilon is not None
        assert self.guess_right is not None
        first = self.noise[0]
        return (
            f"Use epsilon = {self.epsilon:.4g} in total; every value from {self.lower:.4g} to {self.upper:.4g} "
            f"meets the requirements, and the {self.binding[0].lower()}{self.binding[1:]} decides. "
            f"{first.statement} An attacker who is undecided between two answers about one person will be right "
            f"at most {percent_up(self.guess_right)} times in 100 instead of 50."
        )

    def __repr__(self) -> str:
        return f"Recommendation(feasible={self.feasible}, epsilon={self.epsilon}, binding={self.binding!r})"

    def to_dict(self) -> dict[str, Any]:
        """Everything but the points of the plots."""
        out = super().to_dict()
        del out["curves"]
        return out

    def to_json(self) -> str:
        """`to_dict` as JSON; infinity is written as the string "Infinity"."""
        return json.dumps(json.loads(json.dumps(self.to_dict()), parse_constant=str), indent=2)

    def table(self) -> str:
        """The decision as text for a terminal."""
        from dpcore.risk import _report

        return _report.text(self)

    def to_html(self) -> str:
        """The decision as one self-contained page: no script, no network, plots inside."""
        from dpcore.risk import _report

        return _report.page(self)

    def save(self, path: str | Path) -> Path:
        """Write the report: ``.html``, ``.json`` or ``.txt`` by the name's ending."""
        path = Path(_paths.path("path", path))
        writers = {".html": self.to_html, ".json": self.to_json, ".txt": self.table}
        if path.suffix not in writers:
            raise ValueError(f"path must end in .html, .json or .txt, got {_paths.shown(str(path))}")
        with replacing(path) as draft:
            draft.write_text(writers[path.suffix]() + "\n", encoding="utf-8")
        return path
