"""The assurance suite in one command: prove it, break it, compare it.

python tools/assure.py                    everything, with two minutes of fuzzing
python tools/assure.py --fuzz-seconds 600
python tools/assure.py --skip sanitizers fuzzing

Needs a checkout, the installed package with the extras `test` and `bench`, and a C++ compiler (clang for the
fuzzers of the C interface; without it the summary says so). Prints what each part counted and, last, what failed;
the exit code is 0 if nothing did.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Part, what it does, and the test files (or the command) that do it.
TESTS = {
    "audit": ("lower bounds on the loss of our mechanisms and of broken ones", ["test_audit.py"]),
    "neighbours": ("claimed sensitivities on generated neighbours", ["test_neighbour_replay.py"]),
    "hostile": ("every public function and command on hostile input", ["test_hostile_input.py"]),
    "faults": (
        "crashes, forks, lost workers, no memory, no randomness, interrupts",
        [
            "test_interruption.py", "test_memory.py", "test_ledger.py", "test_processes.py",
            "test_samplers_stream.py", "test_service.py",
        ],
    ),
    "peers": ("other libraries beside the truth", ["test_cross_checks.py"]),
}  # fmt: skip
COMMANDS = {
    "benchmarks": ("answers and ratios against peers", ["bench/run.py", "--quick"]),
    "sanitizers": (
        "the Python tests under the address and undefined-behaviour sanitizers",
        ["tools/sanitize_python.py"],
    ),
    "fuzzing": ("the C interface and the file formats", ["tests/fuzz/run.py"]),
}


def command_of(part: str, fuzz_seconds: int) -> list[str]:
    """The command line of one part."""
    if part in TESTS:
        files = [str(ROOT / "tests" / name) for name in TESTS[part][1]]
        return [str(pathlib.Path(sys.executable).with_name("pytest")), "-q", *files]
    command = [sys.executable, *COMMANDS[part][1]]
    return [*command, "--seconds", str(fuzz_seconds)] if part == "fuzzing" else command


def main() -> int:
    """Run the parts asked for and print the summary."""
    parts = [*TESTS, *COMMANDS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=parts, metavar="PART", help=", ".join(parts))
    parser.add_argument("--skip", nargs="+", choices=parts, metavar="PART", default=[])
    parser.add_argument("--fuzz-seconds", type=int, default=120)
    arguments = parser.parse_args()
    counts: collections.Counter[str] = collections.Counter()
    lines, failed = [], []
    for part in arguments.only or parts:
        if part in arguments.skip:
            lines.append(f"{part:<12} not run, as asked")
            continue
        what = (TESTS | COMMANDS)[part][0]
        print(f"\n== {part}: {what}", flush=True)
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            tally = pathlib.Path(folder) / "tally"
            done = subprocess.run(
                command_of(part, arguments.fuzz_seconds),
                cwd=ROOT,
                env=os.environ | {"DPCORE_TALLY": str(tally)},
                check=False,
            )
            rows = [json.loads(row) for row in tally.read_text().splitlines()] if tally.exists() else []
        outcome: collections.Counter[str] = collections.Counter()
        for row in rows:
            if "outcome" in row:
                outcome.update(row["outcome"])
            else:
                counts[row["what"]] += row["count"]
        if done.returncode:
            failed.append(part)
        tests = ", ".join(f"{count} {kind}" for kind, count in outcome.items() if count)
        verdict = "FAILED" if done.returncode else "held"
        lines.append(f"{part:<12} {verdict:<7} {time.monotonic() - start:5.0f} s  {tests}")
    print("\nAssurance\n" + "\n".join(lines) + "\n")
    for what, count in counts.items():
        print(f"{count:>14,} {what}")
    print("\nfailed: " + (", ".join(failed) if failed else "nothing"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
