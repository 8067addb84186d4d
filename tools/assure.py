"""The assurance suite in one command: prove it, break it, compare it.

python tools/assure.py                    everything, with two minutes of fuzzing
python tools/assure.py --fuzz-seconds 600
python tools/assure.py --skip sanitized fuzzing

Needs a checkout, the package installed from it with the extras `test`, `bench` and `plot`, pybind11 and gcc (where
there is clang, libFuzzer fuzzes the C interface). Prints what each part counted and, last, what failed; the exit
code is 0 if nothing did. A part that counted nothing has failed, whatever its exit code, and so has one that takes
longer than its time.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

MINUTES = 60  # for one part; on two cores none takes more than twelve

# Part, what it does, what it has to count, and the test files (or the command) that do it.
TESTS = {
    "audit": ("lower bounds on the loss of our mechanisms and of broken ones", "draws audited", ["test_audit.py"]),
    "neighbours": (
        "claimed sensitivities on generated neighbours",
        "neighbouring inputs replayed",
        ["test_neighbour_replay.py"],
    ),
    "hostile": (
        "every public function and command on hostile input", "hostile inputs tried", ["test_hostile_input.py"],
    ),
    "faults": (
        "crashes, forks, lost workers, no memory, no randomness, interrupts",
        "faults injected",
        [
            "test_interruption.py", "test_memory.py", "test_ledger.py", "test_processes.py",
            "test_samplers_stream.py", "test_service.py",
        ],
    ),
    "peers": ("other libraries beside the truth", "answers of other libraries compared", ["test_cross_checks.py"]),
}  # fmt: skip
# The sanitized parts and the fuzzer share one build, in the folder that stands for {build}.
COMMANDS = {
    "benchmarks": ("answers and ratios against peers", "peer timings compared", ["bench/run.py", "--quick"]),
    "sanitized": (
        "the C++ tests under the address and undefined-behaviour sanitizers, with memory that runs out",
        "sanitized C++ checks",
        ["tools/sanitize_cpp.py", "--build", "{build}"],
    ),
    "threads": (
        "the C++ tests under the thread sanitizer",
        "sanitized C++ checks",
        ["tools/sanitize_cpp.py", "--sanitizers", "thread"],
    ),
    "fuzzing": (
        "the C interface and the file formats",
        "inputs fuzzed",
        ["tests/fuzz/run.py", "--build", "{build}", "--seconds", "{seconds}"],
    ),
    "mutants": (
        "dpcore broken in one place at a time, which the tests above must notice",
        "mutants found",
        ["tools/mutate.py"],
    ),
    "python": (
        "the Python tests under the address and undefined-behaviour sanitizers",
        None,  # its tests
        ["tools/sanitize_python.py", "--build", "{build}", "--seconds", "3000"],
    ),
}


def command_of(part: str, build: str, fuzz_seconds: int) -> list[str]:
    """The command line of one part."""
    if part in TESTS:
        files = [str(ROOT / "tests" / name) for name in TESTS[part][2]]
        return [str(pathlib.Path(sys.executable).with_name("pytest")), "-q", *files]
    words = [word.format(build=build, seconds=fuzz_seconds) for word in COMMANDS[part][2]]
    return [sys.executable, *words]


def stale() -> list[str]:
    """Python files of the checkout that the installed package has not, or has otherwise."""
    import dpcore

    installed = pathlib.Path(dpcore.__file__).parent
    files = [file.relative_to(ROOT / "dpcore") for file in sorted((ROOT / "dpcore").rglob("*.py"))]
    return [
        str(file)
        for file in files
        if not (installed / file).exists()
        or (installed / file).read_bytes() != (ROOT / "dpcore" / file).read_bytes()
    ]


def run(command: list[str], tally: pathlib.Path, minutes: float) -> str:
    """Run one part; what is wrong with its end, or nothing."""
    environment = os.environ | {"DPCORE_TALLY": str(tally)}
    # A session of its own, so that what hangs can be ended with all that it started.
    with subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True) as process:
        try:
            code = process.wait(timeout=60 * minutes)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                return f"stopped after {minutes:g} minutes"
            raise
    return f"exit code {code}" if code else ""


def main() -> int:
    """Run the parts asked for and print the summary."""
    parts = [*TESTS, *COMMANDS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=parts, metavar="PART", help=", ".join(parts))
    parser.add_argument("--skip", nargs="+", choices=parts, metavar="PART", default=[], help="all but these")
    parser.add_argument("--fuzz-seconds", type=int, default=120, help="of fuzzing (default 120)")
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, help="for each part, before it is ended (default %(default)g)"
    )
    arguments = parser.parse_args()
    if differing := stale():
        parser.error(f"the installed package is not that of this checkout: {', '.join(differing[:5])}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a part under way is ended too
    counts: collections.Counter[str] = collections.Counter()
    lines, failed = [], []
    with tempfile.TemporaryDirectory() as folder:
        for part in arguments.only or parts:
            if part in arguments.skip:
                lines.append(f"{part:<12} not run, as asked")
                continue
            what, counted, _ = (TESTS | COMMANDS)[part]
            print(f"\n== {part}: {what}", flush=True)
            start = time.monotonic()
            tally = pathlib.Path(folder) / f"tally-{part}"
            command = command_of(part, str(pathlib.Path(folder) / "build"), arguments.fuzz_seconds)
            wrong = run(command, tally, arguments.minutes)
            rows = [json.loads(row) for row in tally.read_text().splitlines()] if tally.exists() else []
            outcome: collections.Counter[str] = collections.Counter()
            found: collections.Counter[str] = collections.Counter()
            names = []
            for row in rows:
                if "outcome" in row:
                    outcome.update(row["outcome"])
                    names += row["failed"]
                else:
                    found[row["what"]] += row["count"]
            if not wrong and not (found[counted] if counted else outcome["passed"]):
                wrong = f"counted no {counted or 'tests'}"
            counts += found
            tests = ", ".join(f"{count} {kind}" for kind, count in outcome.items() if count)
            verdict = "FAILED" if wrong else "held"
            lines.append(f"{part:<12} {verdict:<7} {time.monotonic() - start:5.0f} s  {wrong or tests}")
            if wrong:
                failed += names or [part]
    print("\nAssurance\n" + "\n".join(lines) + "\n")
    for what, count in counts.items():
        print(f"{count:>14,} {what}")
    print("\nfailed: " + (", ".join(failed) if failed else "nothing"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
