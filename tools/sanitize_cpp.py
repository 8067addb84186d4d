"""Builds the C++ tests with sanitizers and runs them.

    python tools/sanitize_cpp.py [--sanitizers address,undefined | thread] [--build DIR]

With the address sanitizer the tree gets the fuzzer of the C interface too, so that tests/fuzz/run.py and
tools/sanitize_python.py can go on with it (--build). Needs a compiler with its sanitizer runtimes and CMake.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def build(folder: pathlib.Path, sanitizers: str) -> None:
    """Configure and build; what the compiler said is shown if it failed."""
    options = ["-DDPCORE_BUILD_TESTS=ON", f"-DDPCORE_SANITIZE={sanitizers}"]
    options += ["-DCMAKE_BUILD_TYPE=None", "-DCMAKE_CXX_FLAGS=-O1 -g1"]
    if "address" in sanitizers:
        options.append("-DDPCORE_BUILD_FUZZERS=ON")
    if shutil.which("ninja"):
        options += ["-G", "Ninja"]
    for step in (
        ["cmake", "-S", str(ROOT), "-B", str(folder), *options],
        ["cmake", "--build", str(folder), "--parallel", "2"],
    ):
        done = subprocess.run(step, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{done.stdout[-6000:]}\nFAILED: the tests do not build with {sanitizers}")


def main() -> int:
    """Build, run, count; the exit code of ctest."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sanitizers", choices=["address,undefined", "thread"], default="address,undefined")
    parser.add_argument("--build", type=pathlib.Path, help="build folder to use and keep")
    parser.add_argument("--seconds", type=float, default=600.0, help="time for one test program")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = arguments.build or pathlib.Path(name)
        build(folder, arguments.sanitizers)
        command = ["ctest", "--test-dir", str(folder), "--verbose", "--timeout", f"{arguments.seconds:.0f}"]
        if arguments.sanitizers == "thread":
            # Without address randomisation, which newer kernels make too wide for older sanitizers.
            command = ["setarch", "-R", *command]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    checks = sum(map(int, re.findall(r"^\d+: (\d+) passed, \d+ failed$", done.stdout, re.MULTILINE)))
    refused = sum(map(int, re.findall(r"^\d+: (\d+) allocations refused$", done.stdout, re.MULTILINE)))
    programmes = re.search(r"^\d+% tests passed.*$", done.stdout, re.MULTILINE)  # CMake's words vary after these
    good = done.returncode == 0 and programmes is not None and checks > 0
    if not good:
        print(done.stdout[-20000:])
    print(
        f"C++ tests under {arguments.sanitizers}: {programmes[0] if programmes else 'not run'}, {checks} checks, "
        f"{refused} allocations refused"
    )
    if file := os.environ.get("DPCORE_TALLY"):  # what tools/assure.py counts
        with open(file, "a", encoding="utf-8") as out:
            for what, count in (("sanitized C++ checks", checks), ("faults injected", refused)):
                out.write(json.dumps({"what": what, "count": count}) + "\n")
    return 0 if good else done.returncode or 1


if __name__ == "__main__":
    sys.exit(main())
