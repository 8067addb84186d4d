"""Runs all fuzzers for a bounded time: python tests/fuzz/run.py --seconds 60

The readers of files are fuzzed in Python, everywhere; the C interface with libFuzzer, where clang is. What was not
run is said plainly. Exit code 1 if anything was found.
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


def build(folder: pathlib.Path) -> pathlib.Path | None:
    """The fuzzer of the C interface, or None where it cannot be built."""
    compiler = shutil.which("clang++")
    if compiler is None:
        print("c_api: NOT RUN, there is no clang++ (Debian: apt install clang)")
        return None
    options = ["-DDPCORE_BUILD_FUZZERS=ON", f"-DCMAKE_CXX_COMPILER={compiler}", "-DCMAKE_C_COMPILER=clang"]
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
            print("c_api: NOT RUN, it does not build here (is libFuzzer there? Debian: libclang-rt-*-dev)")
            return None
    return folder / "tests/fuzz/fuzz_c_api"


def fuzz_c_api(binary: pathlib.Path, seconds: float) -> bool:
    """Whether it found nothing."""
    with tempfile.TemporaryDirectory() as work:
        done = subprocess.run(
            [
                str(binary),
                work,  # new inputs go here, the kept corpus stays as it is
                str(HERE / "corpus/c_api"),
                f"-max_total_time={int(seconds)}",
                "-max_len=512",
                "-timeout=120",
                "-rss_limit_mb=4096",
                f"-artifact_prefix={HERE}/finding-",
                "-print_final_stats=1",
            ],
            capture_output=True,
            text=True,
            env={**os.environ, "ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "print_stacktrace=1"},
        )
    executed = re.search(r"number_of_executed_units: (\d+)", done.stderr)
    covered = re.findall(r"cov: (\d+)", done.stderr)
    print(
        f"c_api: {executed[1] if executed else '?'} executions, {covered[-1] if covered else '?'} edges, "
        f"{'nothing found' if done.returncode == 0 else 'FOUND'}"
    )
    if done.returncode:
        print(done.stderr[-6000:])
    return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="time for all fuzzers together, builds not counted"
    )
    parser.add_argument("--seed", type=int, default=None, help="of the file fuzzers; default: from the clock")
    parser.add_argument("--only-files", action="store_true", help="leave the C interface out")
    parser.add_argument("--build", type=pathlib.Path, default=None, help="build folder to use and keep")
    arguments = parser.parse_args()
    share = arguments.seconds if arguments.only_files else arguments.seconds / 2
    files = [sys.executable, "-I", str(HERE / "fuzz_files.py"), "--seconds", str(share)]
    if arguments.seed is not None:
        files += ["--seed", str(arguments.seed)]
    good = subprocess.run(files).returncode == 0
    if arguments.only_files:
        print("c_api: NOT RUN, as asked")
        return 0 if good else 1
    with tempfile.TemporaryDirectory() as work:
        binary = build(arguments.build or pathlib.Path(work))
        if binary is not None:
            good &= fuzz_c_api(binary, arguments.seconds / 2)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
