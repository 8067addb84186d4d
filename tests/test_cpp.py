"""Builds the core with plain CMake, no Python involved, and runs the C++ tests."""

import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.mark.slow
def test_core_builds_without_python_and_its_tests_pass(tmp_path: pathlib.Path) -> None:
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    build = str(tmp_path / "build")
    options = [f"-DDPCORE_{name}=ON" for name in ("BUILD_TESTS", "BUILD_BENCHMARKS", "WERROR")]
    run("cmake", "-S", str(ROOT), "-B", build, *generator, *options)
    run("cmake", "--build", build, "--parallel", "2")
    out = run("ctest", "--test-dir", build, "--output-on-failure")
    assert "100% tests passed" in out
    core = next((tmp_path / "build").glob("libdpcore.a"))
    symbols = run("nm", "--undefined-only", str(core))
    assert "Py" not in {line.split()[-1][:2] for line in symbols.splitlines() if line.strip()}
    # A plain install, and programs built against it.
    prefix = tmp_path / "prefix"
    run("cmake", "--install", build, "--prefix", str(prefix))
    for name, program in (("cpp", "service_core"), ("c", "release")):
        source = shutil.copytree(ROOT / "examples" / name, tmp_path / name)
        out = str(tmp_path / f"build-{name}")
        run("cmake", "-S", str(source), "-B", out, *generator, f"-DCMAKE_PREFIX_PATH={prefix}")
        run("cmake", "--build", out)
        assert "epsilon at most" in run(f"{out}/{program}")
