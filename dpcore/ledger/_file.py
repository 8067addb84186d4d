"""The file of a ledger: lines that are only ever appended, under a lock, and are on the disk when that returns.

A crash in the middle of a write leaves a last line without its end: it is ignored, and cut off by the next write.
Every other damage is an error.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from dpcore.ledger._errors import CorruptLedgerError, LedgerBusyError, LedgerError
from dpcore.ledger._lines import Charge, charge_on, check_header, parse, sealed

_SECONDS_BETWEEN_TRIES = 0.02


@dataclasses.dataclass
class State:
    """What has been read of a file: up to which byte, and what it said."""

    identity: tuple[int, int]
    header: dict[str, Any]
    offset: int
    check: str
    charges: list[Charge]
    epsilon: Fraction
    delta: Fraction
    unterminated: bool = False


class LedgerFile:
    """A ledger's file, which is open and locked only while it is read or written."""

    def __init__(self, path: str, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self._known: State | None = None

    @contextlib.contextmanager
    def locked(self, *, write: bool) -> Iterator[tuple[int, State]]:
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

    def _read(self, handle: int, info: os.stat_result) -> State:
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
            state = State(identity, {}, 0, "", [], Fraction(0), Fraction(0))
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

    def _accept(self, state: State, line: bytes, *, torn: bool = False) -> bool:
        """Take one line into the state. A damaged one is an error, or False where it may be a torn write."""
        number = len(state.charges) + 1 if state.header else 0
        try:
            body, check = parse(line, state.check)
            if not state.header:
                check_header(body)
                state.header = body
            else:
                state.charges.append(charge := charge_on(body, number))
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

    def append(self, handle: int, state: State, line: bytes) -> None:
        """Add a line to the file as `locked` gave it, and wait for the disk."""
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


def create_file(target: str, header: dict[str, Any]) -> None:
    """Make a file with this first line; it appears complete or not at all, and there must be none."""
    draft = f"{target}.{os.getpid()}.{os.urandom(4).hex()}.new"
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise type(error)(f"cannot create ledger {target}: {error.strerror}") from None
    try:
        try:
            _write_all(handle, sealed(header, ""))
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
