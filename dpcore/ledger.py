"""A budget ledger: a file that records what was released and refuses to overspend.

The file is a list of JSON lines, only ever appended to. The first line holds the budget, every other one a
charge; each line carries a checksum that also covers the line before it. A charge takes an exclusive lock, reads
the file, refuses if the budget would be exceeded, appends its line and returns only after the operating system
has confirmed that the line is on the disk. Show a value after its charge has returned, never before.

A crash in the middle of a write leaves a last line without its end. That charge never returned, so its value was
never shown: the piece is ignored, and cut off by the next charge. Every other damage is an error.

Totals are what holds without any assumption about the attacker. With ``composition="sum"`` epsilons and deltas are
added exactly, which stays valid when later questions, and how much to spend on them, depend on earlier answers.
With ``composition="certified"`` the losses are composed by `dpcore.accounting`, which gives smaller totals, but is
only valid when what each charge costs was decided without looking at earlier answers.

The checksums find accidents, not forgery: whoever may write the file can write a new one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import fcntl
import hashlib
import json
import math
import os
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpcore import _paths
from dpcore._results import Result
from dpcore._rounding import downward, upward

if TYPE_CHECKING:
    from dpcore.accounting import PrivacyLoss

__all__ = [
    "Charge",
    "CorruptLedgerError",
    "Ledger",
    "LedgerBusyError",
    "LedgerError",
    "OverspentError",
    "Spending",
]

COMPOSITIONS = ("sum", "certified")
_FORMAT = "dpcore.ledger"
_VERSION = 1
_SECONDS_BETWEEN_TRIES = 0.02
# Longer lines than this are not ours; it bounds what a wrong file can make us read as one line.
_LONGEST_LINE = 2**20


class LedgerError(Exception):
    """Something is wrong with a ledger; nothing was charged."""


class CorruptLedgerError(LedgerError):
    """The file is not a ledger, or a line of it is damaged."""


class LedgerBusyError(LedgerError):
    """Another process holds the ledger."""


class OverspentError(LedgerError):
    """The charge would exceed the budget. It was refused."""


@dataclasses.dataclass(frozen=True)
class Charge(Result):
    """One line of a ledger.

    Attributes
    ----------
    number : int
        From 1, in the order of the file.
    time : str
        When it was charged, UTC.
    epsilon, delta : float
        What the release costs without any assumption about the attacker.
    label : str
        What was released, in the user's words.
    details : dict
        Public facts about the release.
    loss : dict or None
        ``PrivacyLoss.to_dict()`` of the release, if it was given.
    """

    number: int
    time: str
    epsilon: float
    delta: float
    label: str
    details: dict[str, Any]
    loss: dict[str, Any] | None = None

    @property
    def statement(self) -> str:
        """The charge in words."""
        what = f" for {self.label}" if self.label else ""
        return (
            f"Charge {self.number} of epsilon {upward(self.epsilon)} and delta "
            f"{upward(self.delta)}{what}, {self.time}."
        )


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


@dataclasses.dataclass
class _State:
    """What has been read of a file: up to which byte, and what it said."""

    identity: tuple[int, int]
    header: dict[str, Any]
    offset: int
    check: str
    charges: list[Charge]
    epsilon: Fraction
    delta: Fraction
    unterminated: bool = False


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
        self._timeout = _seconds(timeout)
        self._known: _State | None = None
        with self._locked(write=False) as (_, state):
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
            "format": _FORMAT,
            "version": _VERSION,
            "epsilon": _finite("epsilon", epsilon, zero=False),
            "delta": _finite("delta", delta),
            "composition": choice("composition", composition, COMPOSITIONS),
            "label": _text("label", label),
            "created": _now(),
        }
        if not header["delta"] < 1:
            raise ValueError(f"delta must be a number in [0, 1), got {delta!r}")
        _seconds(timeout)  # before there is a file
        target = _paths.path("path", path)
        draft = f"{target}.{os.getpid()}.{os.urandom(4).hex()}.new"
        try:
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise type(error)(f"cannot create ledger {target}: {error.strerror}") from None
        try:
            try:
                _write_all(handle, _line(header, ""))
                os.fsync(handle)
            finally:
                os.close(handle)
            os.link(draft, target)  # unlike a rename, fails if the target exists
        except FileExistsError:
            raise FileExistsError(f"{target} exists already; a ledger is never overwritten") from None
        except OSError as error:
            raise type(error)(f"cannot create ledger {target}: {error.strerror or error}") from None
        finally:
            os.unlink(draft)
        _sync_folder(target)
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
        with self._locked(write=False) as (_, state):
            return tuple(state.charges)

    @property
    def spent(self) -> Spending:
        """What was spent so far, read from the file now."""
        with self._locked(write=False) as (_, state):
            return self._spending(state)

    @property
    def statement(self) -> str:
        """The state of the budget in words."""
        return self.spent.statement

    def to_dict(self) -> dict[str, Any]:
        """Budget, spending and charges in plain types."""
        with self._locked(write=False) as (_, state):
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
        with self._locked(write=True) as (handle, state):
            if after is not None and len(state.charges) != after:
                raise LedgerError(f"another release was charged to ledger {self._path} meanwhile; plan again")
            charge = self._checked(state, epsilon, delta, loss, label, details)
            self._refuse_overspending(state, charge)
            body = {key: value for key, value in dataclasses.asdict(charge).items() if value is not None}
            line = _line(body, state.check)
            if len(line) > _LONGEST_LINE:
                raise ValueError(f"label, details and loss must fit in {_LONGEST_LINE} bytes, got {len(line)}")
            self._append(handle, state, line)
            return charge

    def _checked(
        self,
        state: _State,
        epsilon: float | None,
        delta: float,
        loss: PrivacyLoss | None,
        label: str,
        details: Mapping[str, Any] | None,
    ) -> Charge:
        d = _finite("delta", delta)
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
            elif not float(loss.delta(_finite("epsilon", epsilon))) <= d:
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
            facts = json.loads(_canonical(facts))
        except (TypeError, ValueError) as error:
            raise ValueError(f"details must be plain finite data: {error}") from None
        return Charge(
            number=len(state.charges) + 1,
            time=_now(),
            epsilon=_finite("epsilon", epsilon),
            delta=d,
            label=_text("label", label),
            details=facts,
            loss=None if loss is None else loss.to_dict(),
        )

    def _refuse_overspending(self, state: _State, charge: Charge) -> None:
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

    def _spending(self, state: _State) -> Spending:
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

    # ------------------------------------------------------------------ the file

    @contextlib.contextmanager
    def _locked(self, *, write: bool) -> Iterator[tuple[int, _State]]:
        """The open, locked file and what it says."""
        # A handle of its own for every operation: locks belong to the handle, so threads and forked children
        # exclude each other too. O_NONBLOCK keeps a pipe in the file's place from blocking us.
        mode = os.O_RDWR | os.O_APPEND if write else os.O_RDONLY
        try:
            handle = os.open(self._path, mode | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            raise FileNotFoundError(f"there is no ledger {self._path}") from None
        except PermissionError:
            raise PermissionError(f"no permission to {'write' if write else 'read'} ledger {self._path}") from None
        except IsADirectoryError:
            raise CorruptLedgerError(f"{self._path} is a folder, not a ledger") from None
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise CorruptLedgerError(f"{self._path} is not a regular file")
            self._lock(handle, fcntl.LOCK_EX if write else fcntl.LOCK_SH)
            now, opened = os.stat(self._path), os.fstat(handle)
            if (now.st_dev, now.st_ino) != (opened.st_dev, opened.st_ino):
                raise LedgerError(f"ledger {self._path} was replaced while it was being opened; try again")
            self._known = self._read(handle, opened)
            yield handle, self._known
        finally:
            os.close(handle)  # also gives the lock back

    def _lock(self, handle: int, kind: int) -> None:
        end = time.monotonic() + self._timeout
        while True:
            try:
                fcntl.flock(handle, kind | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise LedgerBusyError(
                        f"ledger {self._path} is held by another process (waited {self._timeout:g} s)"
                    ) from None
                time.sleep(_SECONDS_BETWEEN_TRIES)

    def _read(self, handle: int, info: os.stat_result) -> _State:
        """Everything that is new since the last look; all of it if the file is not the one we know."""
        identity = (info.st_dev, info.st_ino)
        known = self._known
        if known is not None:
            if known.identity != identity:
                raise LedgerError(f"ledger {self._path} was replaced by another file; open it again")
            if info.st_size < known.offset:
                raise CorruptLedgerError(f"ledger {self._path} has lost lines that were there before")
        if known is not None and not known.unterminated:
            # A copy, so that an error half-way leaves what we know as it was.
            state = dataclasses.replace(known, charges=list(known.charges))
        else:
            state = _State(identity, {}, 0, "", [], Fraction(0), Fraction(0))
        data = _read_from(handle, state.offset)
        start = 0
        while start < len(data):
            end = data.find(b"\n", start)
            last = end < 0 or end == len(data) - 1
            if end < 0 or (last and b"\0" in data[start:end]):
                # One write that was cut off; or, where a file system had made room but not filled it, one that
                # has zeros in it.
                if end < 0 and self._accept(state, data[start:], torn=True):
                    state.offset += len(data) - start
                    state.unterminated = True  # all there but its end: counted, to be on the safe side
                break
            self._accept(state, data[start:end])
            state.offset += end + 1 - start
            start = end + 1
        if not state.header:
            raise CorruptLedgerError(f"{self._path} is not a dpcore ledger: its first line is not complete")
        return state

    def _accept(self, state: _State, line: bytes, *, torn: bool = False) -> bool:
        """Take one line into the state. A damaged one is an error, or False where it may be a torn write."""
        number = len(state.charges) + 1 if state.header else 0
        try:
            body, check = _parse(line, state.check)
            if not state.header:
                _check_header(body)
                state.header = body
            else:
                state.charges.append(charge := _charge(body, number))
                state.epsilon += Fraction(charge.epsilon)
                state.delta += Fraction(charge.delta)
        except (ValueError, TypeError, KeyError, UnicodeDecodeError, RecursionError) as error:
            if torn:
                return False
            if not state.header:
                raise CorruptLedgerError(f"{self._path} is not a dpcore ledger: {error}") from None
            raise CorruptLedgerError(f"line {number + 1} of ledger {self._path} is damaged: {error}") from None
        state.check = check
        return True

    def _append(self, handle: int, state: _State, line: bytes) -> None:
        if os.fstat(handle).st_size != state.offset:
            os.ftruncate(handle, state.offset)  # the torn end of a write that never returned
            os.fsync(handle)
        if state.unterminated:
            line = b"\n" + line
        try:
            _write_all(handle, line)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(handle, state.offset)
            reason = error.strerror or error
            raise type(error)(f"cannot write to ledger {self._path}: {reason}; nothing was charged") from None
        # If this fails the line may or may not be on the disk: it stays, which charges too much at worst.
        os.fsync(handle)


# ---------------------------------------------------------------------- lines


def _canonical(body: Mapping[str, Any]) -> str:
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _check(text: str, before: str) -> str:
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()[:32]


def _line(body: Mapping[str, Any], before: str) -> bytes:
    return (_canonical({**body, "check": _check(_canonical(body), before)}) + "\n").encode()


def _parse(line: bytes, before: str) -> tuple[dict[str, Any], str]:
    if len(line) > _LONGEST_LINE:
        raise ValueError("it is too long")
    try:
        body = json.loads(line)
    except ValueError:
        raise ValueError("it is not JSON") from None
    if not isinstance(body, dict):
        raise ValueError("it is not a JSON object")
    check = body.pop("check", None)
    if line + b"\n" != _line(body, before):
        raise ValueError("its checksum is wrong")
    return body, str(check)


def _check_header(body: dict[str, Any]) -> None:
    if body.get("format") != _FORMAT:
        raise ValueError("its first line does not say so")
    if body.get("version") != _VERSION:
        raise ValueError(f"its version is {body.get('version')!r}, this dpcore knows {_VERSION}")
    if body.get("composition") not in COMPOSITIONS:
        raise ValueError(f"it adds up by {body.get('composition')!r}, which this dpcore does not know")
    _finite("epsilon", body["epsilon"], zero=False)
    if not _finite("delta", body["delta"]) < 1:
        raise ValueError(f"its delta is {body['delta']!r}")
    _text("label", body["label"])


def _charge(body: dict[str, Any], number: int) -> Charge:
    """The charge on a line, each value of its type: whatever else a checksum fits is not ours."""
    charge = Charge(**{"loss": None, **body})
    if type(charge.number) is not int or charge.number != number:
        raise ValueError(f"its number is {_paths.shown(charge.number)}, not {number}")
    for name, value, most in (("epsilon", charge.epsilon, sys.float_info.max), ("delta", charge.delta, 1.0)):
        if type(value) not in (int, float) or not 0 <= value <= most:  # an int beyond every double is not ours
            raise ValueError(f"its {name} is {_paths.shown(value)}")
    _text("time", charge.time)
    _text("label", charge.label)
    if not isinstance(charge.details, dict) or not (charge.loss is None or isinstance(charge.loss, dict)):
        raise TypeError("its details or its loss are not a JSON object")
    return charge


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


def _read_from(handle: int, offset: int) -> bytes:
    parts = []
    while part := os.pread(handle, 2**20, offset):
        parts.append(part)
        offset += len(part)
    return b"".join(parts)


def _sync_folder(path: str) -> None:
    """Make a new name in a folder durable."""
    handle = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")


# ---------------------------------------------------------------------- numbers


def _finite(name: str, value: Any, *, zero: bool = True) -> float:
    from dpcore._validation import non_negative, positive, scalar

    return scalar(name, (non_negative if zero else positive)(name, value))


def _seconds(timeout: Any) -> float:
    try:  # a bool is no number of seconds
        seconds = math.nan if type(timeout) is bool or not isinstance(timeout, (int, float)) else float(timeout)
    except OverflowError:
        seconds = math.inf
    if not 0 <= seconds <= 1e9:
        raise ValueError(f"timeout must be a number of seconds in [0, 1e9], got {_paths.shown(timeout)}")
    return seconds


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {value!r}")
    return value


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
