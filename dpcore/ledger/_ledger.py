"""The budget: what was spent, what is left, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpcore import _paths
from dpcore._results import Result
from dpcore._rounding import downward, upward
from dpcore.ledger._errors import CorruptLedgerError, LedgerError, OverspentError
from dpcore.ledger._file import LedgerFile, State, create_file
from dpcore.ledger._lines import (
    COMPOSITIONS,
    FORMAT,
    LONGEST_LINE,
    VERSION,
    Charge,
    canonical,
    finite,
    now,
    sealed,
    text,
)

if TYPE_CHECKING:
    from dpcore.accounting import PrivacyLoss


@dataclasses.dataclass(frozen=True)
class Spending(Result):
    """What a ledger has spent and what is left.

    Attributes
    ----------
    epsilon, delta : float
        The guarantee of everything released so far, rounded up. With ``composition="certified"`` epsilon is the
        certified upper bound at the delta of the budget.
    epsilon_left, delta_left : float
        What can still be charged, rounded down. With ``composition="certified"`` it is the difference to the
        budget, and a charge may cost less than its own epsilon.
    charges : int
        How many there were.
    """

    epsilon: float
    delta: float
    epsilon_left: float
    delta_left: float
    charges: int

    @property
    def statement(self) -> str:
        """The spending in words."""
        return (
            f"{self.charges} release{'' if self.charges == 1 else 's'} so far, together "
            f"({upward(self.epsilon)}, {upward(self.delta)})-differentially private; epsilon "
            f"{downward(self.epsilon_left)} and "
            f"delta {downward(self.delta_left)} are left."
        )


class Ledger:
    """A budget ledger in a file. See the module for what it guarantees.

    A `Ledger` holds no open file and no lock between calls: it may be shared by threads and survives a fork.
    Processes on one machine (or on a file system with working locks) may share the file.

    Parameters
    ----------
    path : path
        An existing ledger; `create` makes one.
    timeout : float
        Seconds to wait for another process, at least 0.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from dpcore.ledger import Ledger
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger.create(pathlib.Path(folder.name) / "survey.ledger", epsilon=1.0, delta=1e-6)
    >>> ledger.charge(epsilon=0.75, label="smokers").number
    1
    >>> ledger.spent.epsilon_left
    0.25
    >>> ledger.charge(epsilon=0.5, label="drinkers")
    Traceback (most recent call last):
    ...
    dpcore.ledger.OverspentError: refused: epsilon 0.5 is more than the 0.25 left of 1 in survey.ledger
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 10.0) -> None:
        self._path = _paths.path("path", path)
        self._file = LedgerFile(self._path, _seconds(timeout))
        with self._file.locked(write=False) as (_, state):
            self._header = state.header

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        epsilon: float,
        delta: float = 0.0,
        composition: str = "sum",
        label: str = "",
        timeout: float = 10.0,
    ) -> Ledger:
        """Make a new ledger with a budget; the file must not exist.

        Parameters
        ----------
        path : path
            Where to put it. It appears complete or not at all, readable by its owner only.
        epsilon : float
            Total budget, finite, > 0.
        delta : float
            Total budget, in [0, 1).
        composition : {"sum", "certified"}
            How charges add up, see the module. "certified" needs a delta > 0 to gain anything.
        label : str
            What data the budget is for.
        timeout : float
            As for `Ledger`.

        Raises
        ------
        FileExistsError
            If there is something at `path`.
        """
        from dpcore._validation import choice

        header: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "epsilon": finite("epsilon", epsilon, zero=False),
            "delta": finite("delta", delta),
            "composition": choice("composition", composition, COMPOSITIONS),
            "label": text("label", label),
            "created": now(),
        }
        if not header["delta"] < 1:
            raise ValueError(f"delta must be a number in [0, 1), got {delta!r}")
        _seconds(timeout)  # before there is a file
        target = _paths.path("path", path)
        create_file(target, header)
        return cls(target, timeout=timeout)

    # ------------------------------------------------------------------ looking

    @property
    def path(self) -> str:
        """Where the file is."""
        return self._path

    @property
    def epsilon(self) -> float:
        """Total budget."""
        return float(self._header["epsilon"])

    @property
    def delta(self) -> float:
        """Total budget."""
        return float(self._header["delta"])

    @property
    def composition(self) -> str:
        """How charges add up."""
        return str(self._header["composition"])

    @property
    def label(self) -> str:
        """What data the budget is for."""
        return str(self._header["label"])

    @property
    def charges(self) -> tuple[Charge, ...]:
        """Every charge so far, read from the file now."""
        with self._file.locked(write=False) as (_, state):
            return tuple(state.charges)

    @property
    def spent(self) -> Spending:
        """What was spent so far, read from the file now."""
        with self._file.locked(write=False) as (_, state):
            return self._spending(state)

    @property
    def statement(self) -> str:
        """The state of the budget in words."""
        return self.spent.statement

    def to_dict(self) -> dict[str, Any]:
        """Budget, spending and charges in plain types."""
        with self._file.locked(write=False) as (_, state):
            spent = self._spending(state)
            charges = [charge.to_dict() for charge in state.charges]
        return {
            "path": self._path,
            "label": self.label,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "composition": self.composition,
            "spent": spent.to_dict(),
            "charges": charges,
            "statement": spent.statement,
        }

    def __repr__(self) -> str:
        return f"Ledger({self._path!r}, epsilon={upward(self.epsilon)}, delta={upward(self.delta)})"

    # ------------------------------------------------------------------ charging

    def charge(
        self,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        loss: PrivacyLoss | None = None,
        label: str = "",
        details: Mapping[str, Any] | None = None,
        after: int | None = None,
    ) -> Charge:
        """Take a release out of the budget; when this returns the charge is on the disk.

        Parameters
        ----------
        epsilon, delta : float
            What the release costs: it is (epsilon, delta)-differentially private whatever the attacker knows.
            With `loss`, epsilon may be left out: it is then the certified epsilon at `delta`.
        loss : PrivacyLoss, optional
            The exact loss, for ``composition="certified"``. Without it the worst release with that epsilon and
            delta is assumed.
        label : str
            What is released.
        details : mapping, optional
            Public facts in JSON types. Never put a value that is yet to be released here: a crash could leave
            it in the file without its charge.
        after : int, optional
            The number of charges that the release was planned with. If there are more by now, it is refused.

        Raises
        ------
        OverspentError
            If the budget does not allow it; nothing is charged.
        LedgerError, OSError
            If the charge could not be made durable. Do not show the value.
        """
        if after is not None:
            from dpcore._validation import integer

            after = integer("after", after)
        with self._file.locked(write=True) as (handle, state):
            if after is not None and len(state.charges) != after:
                raise LedgerError(f"another release was charged to ledger {self._path} meanwhile; plan again")
            charge = self._checked(state, epsilon, delta, loss, label, details)
            self._refuse_overspending(state, charge)
            body = {key: value for key, value in dataclasses.asdict(charge).items() if value is not None}
            line = sealed(body, state.check)
            if len(line) > LONGEST_LINE:
                raise ValueError(f"label, details and loss must fit in {LONGEST_LINE} bytes, got {len(line)}")
            self._file.append(handle, state, line)
            return charge

    def _checked(
        self,
        state: State,
        epsilon: float | None,
        delta: float,
        loss: PrivacyLoss | None,
        label: str,
        details: Mapping[str, Any] | None,
    ) -> Charge:
        d = finite("delta", delta)
        if not d <= 1:
            raise ValueError(f"delta must be a number in [0, 1], got {delta!r}")
        if loss is not None:
            from dpcore.accounting import PrivacyLoss

            if not isinstance(loss, PrivacyLoss):
                raise TypeError(f"loss must be a PrivacyLoss, got {loss!r}")
            if epsilon is None:
                epsilon = float(loss.epsilon(d))
                if not epsilon < math.inf:
                    raise ValueError(
                        f"loss has no finite epsilon at delta {d!r}; give this release a larger delta"
                    )
            elif not float(loss.delta(finite("epsilon", epsilon))) <= d:
                raise ValueError(
                    f"epsilon {epsilon!r} and delta {d!r} are less than what loss costs; leave epsilon out to be "
                    "charged its epsilon at delta"
                )
        if epsilon is None:
            raise TypeError("epsilon or loss must be given")
        if details is not None and not isinstance(details, Mapping):
            raise TypeError(f"details must be a mapping, got {_paths.shown(details)}")
        facts = dict(details or {})
        try:
            facts = json.loads(canonical(facts))
        except (TypeError, ValueError) as error:
            raise ValueError(f"details must be plain finite data: {error}") from None
        return Charge(
            number=len(state.charges) + 1,
            time=now(),
            epsilon=finite("epsilon", epsilon),
            delta=d,
            label=text("label", label),
            details=facts,
            loss=None if loss is None else loss.to_dict(),
        )

    def _refuse_overspending(self, state: State, charge: Charge) -> None:
        name = os.path.basename(self._path)
        budget_epsilon, budget_delta = Fraction(self.epsilon), Fraction(self.delta)
        if self.composition == "certified":
            total = _certified_epsilon([*state.charges, charge], self.delta)
            if not total <= self.epsilon:
                raise OverspentError(
                    f"refused: all releases together would have epsilon {upward(total)} at delta "
                    f"{upward(self.delta)}, "
                    f"more than the {upward(self.epsilon)} of {name}"
                )
            return
        if state.epsilon + Fraction(charge.epsilon) > budget_epsilon:
            left = _down(budget_epsilon - state.epsilon)
            raise OverspentError(
                f"refused: epsilon {upward(charge.epsilon)} is more than the {downward(left)} left of "
                f"{upward(self.epsilon)} in {name}"
            )
        if state.delta + Fraction(charge.delta) > budget_delta:
            left = _down(budget_delta - state.delta)
            raise OverspentError(
                f"refused: delta {upward(charge.delta)} is more than the {downward(left)} left of "
                f"{upward(self.delta)} in {name}"
            )

    def _spending(self, state: State) -> Spending:
        if self.composition == "certified":
            total = _certified_epsilon(state.charges, self.delta)
            left = max(0.0, math.nextafter(self.epsilon - total, 0.0)) if total > 0 else self.epsilon
            return Spending(total, self.delta if state.charges else 0.0, left, 0.0, len(state.charges))
        return Spending(
            _up(state.epsilon),
            _up(state.delta),
            _down(Fraction(self.epsilon) - state.epsilon),
            _down(Fraction(self.delta) - state.delta),
            len(state.charges),
        )


def _seconds(timeout: Any) -> float:
    try:  # a bool is no number of seconds
        seconds = math.nan if type(timeout) is bool or not isinstance(timeout, (int, float)) else float(timeout)
    except OverflowError:
        seconds = math.inf
    if not 0 <= seconds <= 1e9:
        raise ValueError(f"timeout must be a number of seconds in [0, 1e9], got {_paths.shown(timeout)}")
    return seconds


def _up(exact: Fraction) -> float:
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def _down(exact: Fraction) -> float:
    nearest = float(exact)
    return nearest if Fraction(nearest) <= exact else math.nextafter(nearest, -math.inf)


def _certified_epsilon(charges: list[Charge], delta: float) -> float:
    """Upper bound of epsilon at `delta` of all charges together."""
    from dpcore import accounting

    if not charges:
        return 0.0
    losses = []
    for charge in charges:
        if charge.loss is not None:
            try:
                losses.append(accounting.PrivacyLoss.from_dict(charge.loss))
            except (TypeError, ValueError, OverflowError) as error:
                raise CorruptLedgerError(f"charge {charge.number} holds no privacy loss: {error}") from None
        elif charge.delta > 0:
            losses.append(accounting.from_approximate(epsilon=charge.epsilon, delta=charge.delta))
        else:
            losses.append(accounting.from_pure(epsilon=charge.epsilon))
    return float(accounting.compose(losses).epsilon(delta))
