"""Coverage-guided fuzzing of what reads a file: ledgers, programmes in TOML, saved losses and estimates.

    python fuzz_files.py --seconds 60 [--target NAME] [--corpus DIR] [--seed N]

Inputs that reach a new line of dpcore are kept and mutated further (bytes, tokens, splices of two inputs). A
reader must return or raise what it documents; anything else is a finding and ends the run with exit code 1.
No other package is needed: lines are seen through sys.settrace.
"""

import argparse
import json
import pathlib
import random
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

HERE = pathlib.Path(__file__).parent

TOKENS = [
    *(b"nan NaN Infinity -Infinity 1e999 -1 0 1e308 null true [] {} -0.0 5e-324 18446744073709551616".split()),
    *(b"name count = laplace gaussian sigma [[mechanism]] \\u0000 \\ud800".split()),
    *(b'"" "epsilon" "delta" "version" "format" "mechanism" "mechanisms" "copies" "p" "q"'.split()),
    b"9" * 30, b"9" * 5000, b"\xff", b"\x00", b"\n", b"[" * 2000,
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
    from dpcore import ledger

    lines, before = [], ""
    for line in path.read_bytes().split(b"\n"):
        try:
            body = json.loads(line)
            body.pop("check", None)
            signed = ledger._line(body, before)
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


def run(name: str, seconds: float, corpus_folder: pathlib.Path, seed: int) -> tuple[int, int, str | None]:
    """(executions, lines reached, finding)."""
    file, function = TARGETS[name]
    folder = corpus_folder / name.removeprefix("signed_")
    corpus = [p.read_bytes() for p in sorted(folder.iterdir())]
    rng = random.Random(seed)
    lines = Lines()
    executions = 0
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as work:
        target = pathlib.Path(work) / file

        def once(data: bytes) -> None:
            target.write_bytes(data)
            target.chmod(0o600)
            function(target)

        queue = list(corpus)
        while queue or time.monotonic() < end:
            data = queue.pop() if queue else mutate(corpus, rng)
            executions += 1
            try:
                new = lines.watch(lambda data=data: once(data))  # type: ignore[misc]
            except Exception as error:
                kept = HERE / f"finding-{name}"
                kept.write_bytes(data)
                return executions, len(lines.seen), f"{type(error).__name__}: {error} (input kept in {kept})"
            if new and data not in corpus and len(corpus) < 500:
                corpus.append(data)
    return executions, len(lines.seen), None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="time for all targets together")
    parser.add_argument("--target", choices=[*TARGETS], action="append")
    parser.add_argument("--corpus", type=pathlib.Path, default=HERE / "corpus")
    parser.add_argument("--seed", type=int, default=None, help="default: from the clock")
    arguments = parser.parse_args()
    names = arguments.target or [*TARGETS]
    seed = arguments.seed if arguments.seed is not None else time.time_ns()
    failed = False
    for name in names:
        executions, reached, finding = run(name, arguments.seconds / len(names), arguments.corpus, seed)
        print(
            json.dumps(
                {"target": name, "executions": executions, "lines": reached, "finding": finding, "seed": seed}
            )
        )
        failed |= finding is not None
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
