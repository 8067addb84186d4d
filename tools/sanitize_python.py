"""Builds the extension with the address and undefined-behaviour sanitizers and runs Python tests with it.

    python tools/sanitize_python.py [--build DIR] [--seconds 900] [pytest arguments]

Without pytest arguments a fast selection that enters every binding is run. Needs a compiler with its sanitizer
runtimes, CMake, pybind11 and the tests' requirements. The installed package's Python files are used from a copy in
which only the extension is replaced. Leaks are not looked for: the interpreter keeps memory until its end.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SANITIZERS = "address,undefined"

# What enters every binding in little time. A sanitized call takes about five times as long.
SELECTION = [
    "tests/test_accounting.py",
    "tests/test_accounting_laplace.py",
    "tests/test_accounting_smoothed.py",
    "tests/test_accounting_subsampled.py",
    "tests/test_bit_generator.py",
    "tests/test_distributions.py",
    "tests/test_gaussian.py",
    "tests/test_joint_delta.py",
    "tests/test_mechanisms.py",
    "tests/test_normal.py",
    "tests/test_partial_knowledge.py",
    "tests/test_poisson_binomial.py",
    "tests/test_samplers_exact.py",
    "tests/test_sensitivity_targets.py",
]


def runtimes() -> str:
    """The sanitizers' libraries, for LD_PRELOAD: the interpreter itself is not built with them."""
    found = []
    for name in ("libasan.so", "libubsan.so", "libstdc++.so"):
        path = subprocess.run(
            [os.environ.get("CXX", "g++"), f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        if not os.path.isabs(path):
            raise SystemExit(f"the compiler has no {name}")
        found.append(path)
    return " ".join(found)


def build(folder: pathlib.Path) -> pathlib.Path:
    """The sanitized extension."""
    import pybind11

    options = [
        "-DDPCORE_BUILD_PYTHON=ON",
        f"-DDPCORE_SANITIZE={SANITIZERS}",
        f"-DPython_EXECUTABLE={sys.executable}",
        f"-Dpybind11_DIR={pybind11.get_cmake_dir()}",
    ]
    if not (folder / "CMakeCache.txt").exists():  # else: a tree that has sanitized objects already
        options += ["-DCMAKE_BUILD_TYPE=None", "-DCMAKE_CXX_FLAGS=-O1 -g1"]
    if shutil.which("ninja"):
        options += ["-G", "Ninja"]
    subprocess.run(["cmake", "-S", str(ROOT), "-B", str(folder), *options], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", str(folder), "--target", "_core", "--parallel", "2"], check=True)
    (made,) = folder.glob("_core*.so")
    return made


def main() -> int:
    """Build, run, report; the exit code of pytest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, help="build folder to use and keep")
    parser.add_argument("--seconds", type=float, default=900.0, help="time for the tests, the build not counted")
    arguments, tests = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        started = time.monotonic()
        extension = build(arguments.build or work / "build")
        print(f"built in {time.monotonic() - started:.0f} s", flush=True)
        package = work / "site" / "dpcore"
        shutil.copytree(ROOT / "dpcore", package, ignore=shutil.ignore_patterns("__pycache__", "_core*.so"))
        shutil.copy(extension, package)
        environment = {
            **os.environ,
            "LD_PRELOAD": runtimes(),
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
            "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
            "PYTHONPATH": str(work / "site"),
            "PYTHONMALLOC": "malloc",  # the sanitizer sees blocks, not arenas
        }
        check = "import dpcore; assert 'address' in str(dpcore.build_info()), dpcore.build_info()"
        subprocess.run([sys.executable, "-c", check], check=True, env=environment, cwd=work)
        # That test preloads a library of its own, which the sanitizer's runtime does not stand.
        alone = "tests/test_bit_generator.py::test_a_system_without_randomness_is_refused_at_once"
        chosen = tests or ["-m", "not slow and not statistical", "--deselect", alone, *SELECTION]
        started = time.monotonic()
        # What allocates beyond reason on purpose, and examples that build other programs, are not for this.
        # pytest by its own name: python -m would put the checkout, which has no extension, on the path.
        command = [str(pathlib.Path(sys.executable).with_name("pytest")), "-q", "-p", "no:cacheprovider", *chosen]
        process = subprocess.Popen(command, cwd=ROOT, env=environment)
        try:
            code = process.wait(timeout=arguments.seconds)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait()
            print(f"FAILED: stopped after {arguments.seconds:.0f} s; nothing was found until then")
            return 1
        print(f"tests under {SANITIZERS}: exit code {code}, {time.monotonic() - started:.0f} s")
        return code


if __name__ == "__main__":
    sys.exit(main())
