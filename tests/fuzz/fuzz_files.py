"""Coverage-guided fuzzing of what reads a file: ledgers, programmes in TOML, saved losses and estimates.

    python fuzz_files.py --seconds 60 [--executions N] [--target NAME] [--corpus DIR] [--seed N] [--keep]

Inputs that reach a new line of dpcore are kept and mutated further: as bytes (flips, tokens, splices of two
inputs) and, where the format is JSON, as values (any of them replaced, dropped, repeated or taken from another
input), so that what is behind the parser is reached too. A reader must return or raise what it documents, within
10 seconds of processor time; anything else is a finding and ends the run with exit code 1. No other package is
needed: lines are seen through sys.settrace. --keep adds the inputs that reached new lines to the corpus, without
those that others cover.
"""

import argparse
import contextlib
import copy
import hashlib
import json
import os
import pathlib
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

HERE = pathlib.Path(__file__).parent
SLOWEST = 10.0  # seconds of processor time an input may take
MEMORY = pathlib.Path("/dev/shm")  # a ledger waits for the disk at every charge; there is none to wait for here


class TooSlowError(BaseException):
    """An input that takes longer than SLOWEST; no reader catches it."""


TOKENS = [
    *(b"nan NaN Infinity -Infinity 1e999 -1 0 1e308 null true [] {} -0.0 5e-324 18446744073709551616".split()),
    *(b"name count = laplace gaussian sigma [[mechanism]] \\u0000 \\ud800".split()),
    *(b'"" "epsilon" "delta" "version" "format" "mechanism" "mechanisms" "copies" "p" "q"'.split()),
    b"9" * 30, b"9" * 5000, b"\xff", b"\x00", b"\n", b"[" * 2000,
]  # fmt: skip
# What a value of a file is replaced by.
VALUES: list[Any] = [
    None, True, False, 0, 1, 2, -1, 3, 1000, 10**6, 2**53, 2**63, 10**400, 0.0, -0.0, 0.5, 1.0, -1.0, 1e-6, 1e-300,
    5e-324, 1e100, 1.7e308, float("inf"), float("nan"), "", "x", "1", "\0", "\ud800", "sum", "certified",
    "laplace", "gaussian", "discrete_laplace", "discrete_gaussian", "subsampled_gaussian", "randomized_response",
    "pmf", "pure", "approximate", "add", "remove", "both", [], [0.5, 0.5], [[1.0]], {}, {"a": 1}, "a" * 3000,
]  # fmt: skip
KEYS = [
    "format", "version", "epsilon", "delta", "composition", "label", "created", "number", "time", "details",
    "loss", "check", "copies", "mechanism", "mechanisms", "sigma", "scale", "sensitivity", "rate", "neighbours",
    "p", "q",
]  # fmt: skip


def _ledger(path: pathlib.Path) -> None:
    from dpcore.ledger import Ledger, LedgerError

    try:
        found = Ledger(path, timeout=1.0)
        found.charges, found.spent, found.statement
        found.charge(epsilon=0.0)
    except (LedgerError, ValueError, OSError):
        return


def _signed_ledger(path: pathlib.Path) -> None:
    """The same with checksums that fit, so that the readers behind them are reached."""
    from dpcore.ledger._lines import sealed

    lines, before = [], ""
    for line in path.read_bytes().split(b"\n"):
        try:
            body = json.loads(line)
            body.pop("check", None)
            signed = sealed(body, before)
            before = json.loads(signed)["check"]
            lines.append(signed)
        except (ValueError, TypeError, AttributeError, RecursionError):
            lines.append(line)
    path.write_bytes(b"".join(lines))
    _ledger(path)


def _programme(path: pathlib.Path) -> None:
    from dpcore.cli import _mechanisms
    from dpcore.cli._output import UsageError

    try:
        _mechanisms.parse([str(path)])
    except UsageError:
        return


def _loss(path: pathlib.Path) -> None:
    from dpcore import accounting

    try:
        loss = accounting.load(path)
    except (ValueError, TypeError):
        return
    if loss.to_dict() != accounting.PrivacyLoss.from_dict(loss.to_dict()).to_dict():
        raise AssertionError("a loss that does not survive its own dictionary")


def _estimate(path: pathlib.Path) -> None:
    from dpcore.sensitivity import SensitivityEstimate

    try:
        found = SensitivityEstimate.load(path)
    except ValueError:
        return
    found.statement, repr(found), found.to_dict()


def _evaluations(path: pathlib.Path) -> None:
    from dpcore.sensitivity import Evaluations

    try:
        found = Evaluations.load(path)
    except ValueError:
        return
    found.statement, repr(found), found.to_dict()


TARGETS: dict[str, tuple[str, Callable[[pathlib.Path], None]]] = {
    "ledger": ("x.ledger", _ledger),
    "signed_ledger": ("x.ledger", _signed_ledger),
    "programme": ("x.toml", _programme),
    "loss_json": ("x.json", _loss),
    "loss_npz": ("x.npz", _loss),
    "estimate": ("x.json", _estimate),
    "evaluations": ("x.json", _evaluations),
}


class Lines:
    """The lines of dpcore that a call reaches."""

    def __init__(self) -> None:
        self.seen: set[tuple[int, int]] = set()
        self.new = False

    def _local(self, frame: Any, event: str, _argument: Any) -> Any:
        if event == "line":
            at = (id(frame.f_code), frame.f_lineno)
            if at not in self.seen:
                self.seen.add(at)
                self.new = True
        return self._local

    def _global(self, frame: Any, _event: str, _argument: Any) -> Any:
        name = frame.f_code.co_filename
        return self._local if "dpcore" in name and "fuzz" not in name else None

    def watch(self, function: Callable[[], None]) -> bool:
        """Whether the call reached a line that none before it did."""
        self.new = False
        sys.settrace(self._global)
        try:
            function()
        finally:
            sys.settrace(None)
        return self.new


def mutate(corpus: list[bytes], rng: random.Random) -> bytes:
    data = bytearray(rng.choice(corpus))
    for _ in range(1 << rng.randrange(4)):
        at = rng.randrange(len(data) + 1)
        choice = rng.randrange(7)
        if choice == 0 and data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        elif choice == 1:
            data[at:at] = rng.choice(TOKENS)
        elif choice == 2:
            data[at : at + rng.randrange(1, 20)] = b""
        elif choice == 3:
            other = rng.choice(corpus)
            start = rng.randrange(len(other) + 1)
            data[at:at] = other[start : start + rng.randrange(1, 60)]
        elif choice == 4:
            data[at : at + rng.randrange(1, 8)] = rng.choice(TOKENS)
        elif choice == 5 and data:
            data[at % len(data)] = rng.randrange(256)
        else:  # a number in the text becomes another
            digits = [i for i, c in enumerate(data) if 48 <= c <= 57]
            if digits:
                data[rng.choice(digits)] = 48 + rng.randrange(10)
    return bytes(data[:20000])


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key or index) inside a value."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        inside = waiting.pop()
        keys = list(inside) if isinstance(inside, dict) else range(len(inside)) if isinstance(inside, list) else []
        found += [(inside, key) for key in keys]
        waiting += [inside[key] for key in keys]
    return found


def parsed(data: bytes) -> list[Any]:
    """The JSON values of a file's lines, or of the file as one; none where there is no JSON."""
    for pieces in ([data], data.split(b"\n")):
        try:
            return [json.loads(piece) for piece in pieces if piece]
        except (ValueError, RecursionError):
            continue
    return []


def mutate_values(corpus: list[bytes], rng: random.Random) -> bytes | None:
    """A JSON file with other values in it; None where the inputs picked are not JSON."""
    lines, others = parsed(rng.choice(corpus)), parsed(rng.choice(corpus))
    if not lines or not others:
        return None
    for _ in range(1 << rng.randrange(4)):
        choice = rng.randrange(8)
        spots = places(lines)
        inside, key = rng.choice(spots)
        if choice < 2:
            inside[key] = copy.deepcopy(rng.choice(VALUES))
        elif choice == 2:
            other, at = rng.choice(places(others))
            inside[key] = copy.deepcopy(other[at])
        elif choice == 3 and isinstance(inside, dict):
            del inside[key]
        elif choice == 4 and isinstance(inside, dict):
            inside[rng.choice(KEYS)] = copy.deepcopy(rng.choice(VALUES))
        elif choice == 5 and isinstance(inside, list):
            inside.insert(key, copy.deepcopy(inside[key]))
        elif choice == 6 and isinstance(inside, list) and len(inside) > 1:
            del inside[key]
        elif isinstance(inside[key], (int, float)):
            with contextlib.suppress(OverflowError, ValueError):
                inside[key] = inside[key] * rng.choice([-1, 2, 0.5, 10.0, 1e-9]) + rng.choice([0, 0, 1, -1, 1e-9])
        elif isinstance(inside[key], list) and len(inside[key]) < 100:
            inside[key] = inside[key] * 3
        number = 0  # charges that count up are what a reader goes on with
        for line in lines if rng.random() < 0.5 else []:
            if isinstance(line, dict) and "number" in line:
                number += 1
                line["number"] = number
    try:
        return "\n".join(json.dumps(line) for line in lines).encode()[:200_000] + b"\n"
    except (ValueError, RecursionError):
        return None


def cover(name: str, corpus: list[bytes], work: pathlib.Path) -> list[bytes]:
    """The inputs that together reach every line that all of them reach: small ones first."""
    file, function = TARGETS[name]
    lines = Lines()
    kept = []
    for data in sorted(corpus, key=len):
        (work / file).write_bytes(data)
        if lines.watch(lambda: function(work / file)):
            kept.append(data)
    return kept


def slow(_signal: int, _frame: Any) -> None:
    raise TooSlowError(f"more than {SLOWEST:g} s")


def run(
    name: str, seconds: float, most: float, corpus_folder: pathlib.Path, seed: int, keep: bool
) -> dict[str, Any]:
    """What was done and found; `most` bounds the number of new inputs."""
    file, function = TARGETS[name]
    folder = corpus_folder / name.removeprefix("signed_")
    first = [p.read_bytes() for p in sorted(folder.iterdir())]
    corpus = list(first)
    rng = random.Random(seed)
    lines = Lines()
    executions = 0
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as work:
        target = pathlib.Path(work) / file

        def once(data: bytes) -> None:
            target.write_bytes(data)
            target.chmod(0o600)
            function(target)

        queue = list(corpus)
        finding = None
        signal.signal(signal.SIGVTALRM, slow)
        while finding is None and (queue or (executions - len(first) < most and time.monotonic() < end)):
            values = None if queue or rng.random() < 0.4 else mutate_values(rng.choice((first, corpus)), rng)
            data = queue.pop() if queue else mutate(corpus, rng) if values is None else values
            executions += 1
            signal.setitimer(signal.ITIMER_VIRTUAL, SLOWEST)
            try:
                new = lines.watch(lambda data=data: once(data))  # type: ignore[misc]
            except (Exception, TooSlowError) as error:
                kept = HERE / f"finding-{name}"
                kept.write_bytes(data)
                finding = f"{type(error).__name__}: {error} (input kept in {kept})"
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
            if finding is None and new and data not in corpus and len(corpus) < 500:
                corpus.append(data)
        if keep and finding is None:
            for data in cover(name, corpus, pathlib.Path(work)):
                if data not in first and len(data) <= 4096:
                    (folder / hashlib.sha256(data).hexdigest()[:12]).write_bytes(data)
    return {"target": name, "executions": executions, "lines": len(lines.seen), "finding": finding, "seed": seed}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="time for all targets together")
    parser.add_argument(
        "--executions", type=float, default=float("inf"), help="new inputs for each target at the most"
    )
    parser.add_argument("--target", choices=[*TARGETS], action="append")
    parser.add_argument("--corpus", type=pathlib.Path, default=HERE / "corpus")
    parser.add_argument("--seed", type=int, default=None, help="default: from the clock")
    parser.add_argument("--keep", action="store_true", help="add what reached new lines to the corpus")
    arguments = parser.parse_args()
    names = arguments.target or [*TARGETS]
    seed = arguments.seed if arguments.seed is not None else time.time_ns()
    failed = False
    for name in names:
        share = arguments.seconds / len(names)
        done = run(name, share, arguments.executions, arguments.corpus, seed, arguments.keep)
        print(json.dumps(done), flush=True)
        if file := os.environ.get("DPCORE_TALLY"):  # what tools/assure.py counts
            with open(file, "a", encoding="utf-8") as out:
                out.write(json.dumps({"what": "inputs fuzzed", "count": done["executions"]}) + "\n")
        failed |= done["finding"] is not None
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
