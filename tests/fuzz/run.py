"""Runs all fuzzers for a bounded time: python tests/fuzz/run.py --seconds 60

With --executions and --seed a run is the same on every machine that is fast enough for its --seconds.

The readers of files are fuzzed in Python; the C interface under the address and undefined-behaviour sanitizers,
with libFuzzer where clang and its runtime are, else with tests/fuzz/driver.cpp, which needs gcc alone. What could
not be run is said plainly, and is a failure. Exit code 1 if anything was found.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
# Seconds of processor time that one input may take: sanitizers make a call about ten times as slow, and some
# compositions take seconds without them. What never ends is found, what is merely slow is not.
SLOWEST = 200
ENVIRONMENT = {**os.environ, "ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "print_stacktrace=1"}


def has_libfuzzer() -> bool:
    """Whether clang++ is here and can link a fuzzer."""
    if shutil.which("clang++") is None:
        return False
    with tempfile.TemporaryDirectory() as work:
        source = pathlib.Path(work) / "a.cpp"
        source.write_text(
            'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }'
        )
        command = ["clang++", "-fsanitize=fuzzer,address,undefined", str(source), "-o", f"{work}/a"]
        return subprocess.run(command, capture_output=True).returncode == 0


def build(folder: pathlib.Path, libfuzzer: bool) -> pathlib.Path | None:
    """The fuzzer of the C interface, or None where it cannot be built."""
    options = ["-DDPCORE_BUILD_FUZZERS=ON"]
    if libfuzzer:
        options += ["-DCMAKE_CXX_COMPILER=clang++", "-DCMAKE_C_COMPILER=clang"]
    elif not (folder / "CMakeCache.txt").exists():  # else: the tree of the sanitized tests, as it is
        options += ["-DDPCORE_SANITIZE=address,undefined", "-DCMAKE_BUILD_TYPE=None", "-DCMAKE_CXX_FLAGS=-O1 -g1"]
    if shutil.which("ninja"):
        options += ["-G", "Ninja"]
    steps = [
        ["cmake", "-S", str(HERE.parent.parent), "-B", str(folder), *options],
        ["cmake", "--build", str(folder), "--target", "fuzz_c_api", "--parallel", "2"],
    ]
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True)
        if done.returncode:
            print(done.stdout[-3000:], done.stderr[-3000:])
            print("c_api: NOT RUN, it does not build here")
            return None
    return folder / "tests/fuzz/fuzz_c_api"


def with_libfuzzer(binary: pathlib.Path, seconds: float, executions: int | None, seed: int | None) -> bool:
    """Whether it found nothing."""
    with tempfile.TemporaryDirectory() as work:
        done = subprocess.run(
            [
                str(binary),
                work,  # new inputs go here, the kept corpus stays as it is
                str(HERE / "corpus/c_api"),
                f"-max_total_time={int(seconds)}",
                f"-runs={-1 if executions is None else executions}",
                f"-seed={seed or 0}",
                "-max_len=512",
                f"-timeout={4 * SLOWEST}",  # on the clock, of a machine that others use too
                "-rss_limit_mb=4096",
                f"-artifact_prefix={HERE}/finding-",
                "-print_final_stats=1",
            ],
            capture_output=True,
            text=True,
            env=ENVIRONMENT,
        )
    executed = re.search(r"number_of_executed_units: (\d+)", done.stderr)
    covered = re.findall(r"cov: (\d+)", done.stderr)
    print(
        f"c_api (libFuzzer): {executed[1] if executed else '?'} executions, "
        f"{covered[-1] if covered else '?'} edges, "
        f"{'nothing found' if done.returncode == 0 else 'FOUND'}"
    )
    tally(int(executed[1]) if executed else 0)
    if done.returncode:
        print(done.stderr[-6000:])
    return done.returncode == 0


def with_driver(binary: pathlib.Path, seconds: float, executions: int | None, seed: int | None) -> bool:
    """Whether it found nothing."""
    command = [str(binary), "--seconds", str(seconds), "--unit-seconds", str(SLOWEST)]
    command += ["--seed", str(int.from_bytes(os.urandom(4), "big") if seed is None else seed)]
    if executions is not None:
        command += ["--executions", str(executions)]
    command += ["--finding", str(HERE / "finding-c_api"), str(HERE / "corpus/c_api")]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
    good = done.returncode == 0
    print(f"c_api (gcc): {done.stdout.strip()}, {'nothing found' if good else 'FOUND'}")
    executed = re.search(r"executions (\d+)", done.stdout)
    tally(int(executed[1]) if executed else 0)
    if not good:
        print(done.stderr[-6000:])
    return good


def tally(executions: int) -> None:
    """Add to what tools/assure.py counts."""
    if file := os.environ.get("DPCORE_TALLY"):
        with open(file, "a", encoding="utf-8") as out:
            out.write(f'{{"what": "inputs fuzzed", "count": {executions}}}\n')


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="time for all fuzzers together, builds not counted"
    )
    parser.add_argument("--executions", type=int, default=None, help="new inputs for each target at the most")
    parser.add_argument("--seed", type=int, default=None, help="default: from the clock")
    parser.add_argument("--only", choices=["files", "c_api"], help="one half")
    parser.add_argument(
        "--engine", choices=["auto", "libfuzzer", "gcc"], default="auto", help="of the C interface"
    )
    parser.add_argument("--build", type=pathlib.Path, default=None, help="build folder to use and keep")
    arguments = parser.parse_args()
    share = arguments.seconds if arguments.only else arguments.seconds / 2
    good = True
    if arguments.only != "c_api":
        files = [sys.executable, "-I", str(HERE / "fuzz_files.py"), "--seconds", str(share)]
        if arguments.executions is not None:
            files += ["--executions", str(arguments.executions)]
        if arguments.seed is not None:
            files += ["--seed", str(arguments.seed)]
        good = subprocess.run(files).returncode == 0
    if arguments.only != "files":
        libfuzzer = arguments.engine == "libfuzzer" or (arguments.engine == "auto" and has_libfuzzer())
        with tempfile.TemporaryDirectory() as work:
            binary = build(arguments.build or pathlib.Path(work), libfuzzer)
            engine = with_libfuzzer if libfuzzer else with_driver
            good &= binary is not None and engine(binary, share, arguments.executions, arguments.seed)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
