"""Programs in C, C++ and Cython, built from a copy of examples/ against the installed package and run."""

import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import dpcore
from dpcore import accounting, gaussian, partial_knowledge

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples"


def run(*command, cwd):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, cwd=cwd, timeout=300)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def copied(name, tmp_path):
    # Away from the checkout, so that nothing of it can be found by accident.
    return pathlib.Path(shutil.copytree(EXAMPLES / name, tmp_path / name))


def check_output(out):
    """What both programs print: calibrations and epsilon equal to Python's, releases near the counts."""
    sigma = gaussian.sigma(epsilon=1.0, delta=1e-6, compositions=4)
    epsilon = (accounting.from_discrete_gaussian(sigma=sigma) * 4).epsilon(1e-6).upper
    assert f"sigma {sigma:.6f}" in out
    assert f"epsilon at most {epsilon:.6f}" in out
    count = partial_knowledge.calibrate(
        epsilon=0.2, delta=1e-6, records=10_000, known=5000, bias=(0.2, 0.3), worst_case_epsilon=1.0
    )
    assert f"count noise {count.noise_scale:.6f}" in out
    assert abs(float(re.search(r"noisy count (\S+)", out).group(1)) - 2417) < 13 * count.noise_scale
    released = [int(value) for value in re.findall(r"released (-?\d+)", out)]
    # Noise beyond 13 sigma has probability below 1e-37.
    assert len(released) == 4
    assert all(abs(r - c) < 13 * sigma for r, c in zip(released, (120, 4711, 0, 35), strict=True))


def cmake(folder, *options):
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    run("cmake", "-S", ".", "-B", "build", *generator, *options, cwd=folder)
    run("cmake", "--build", "build", cwd=folder)


def cmake_dir(tmp_path):
    return run(sys.executable, "-m", "dpcore", "--cmakedir", cwd=tmp_path).strip()


COMPILERS = [
    pytest.param(name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"no {name} here"))
    for name in ("cc", "clang")
]


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("standard", ["c99", "c11"])
def test_c_program_by_a_c_compiler_alone(compiler, standard, tmp_path):
    folder, library = copied("c", tmp_path), dpcore.get_library_dir()
    strict = [f"-std={standard}", "-Wall", "-Wextra", "-pedantic-errors", "-Werror"]
    run(compiler, *strict, "release.c", "-I", dpcore.get_include(), "-L", library, "-ldpcore_c",
        f"-Wl,-rpath,{library}", "-o", "release", cwd=folder)  # fmt: skip
    out = run(folder / "release", cwd=folder)
    check_output(out)
    assert "refused: scale must be a number in [1e-3, 1e15], got -1" in out


def test_c_program_with_the_static_library(tmp_path):
    folder = copied("c", tmp_path)
    run("cc", "-std=c99", "release.c", "-I", dpcore.get_include(), "-L", dpcore.get_library_dir(),
        "-l:libdpcore.a", "-lstdc++", "-lm", "-lpthread", "-o", "release", cwd=folder)  # fmt: skip
    check_output(run(folder / "release", cwd=folder))


def test_header_is_c99_and_cplusplus(tmp_path):
    (tmp_path / "use.c").write_text("#include <dpcore/c_api.h>\nint main(void) { return 0; }\n")
    for language, standard in (("c", "c99"), ("c", "c11"), ("c", "c17"), ("c++", "c++11"), ("c++", "c++20")):
        run("cc", "-x", language, f"-std={standard}", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic",
            "-Wstrict-prototypes" if language == "c" else "-Wold-style-cast", "-Werror", "-I",
            dpcore.get_include(), "use.c", cwd=tmp_path)  # fmt: skip


def test_every_installed_header_compiles_alone(tmp_path):
    include = pathlib.Path(dpcore.get_include())
    headers = sorted(h.relative_to(include) for h in include.rglob("*.hpp"))
    assert len(headers) > 10
    for header in headers:
        (tmp_path / "use.cpp").write_text(f"#include <{header}>\n")
        run("c++", "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I", include, "use.cpp",
            cwd=tmp_path)  # fmt: skip


def test_c_program_by_cmake_from_the_wheel(tmp_path):
    folder = copied("c", tmp_path)
    cmake(folder, f"-Ddpcore_DIR={cmake_dir(tmp_path)}")
    check_output(run(folder / "build" / "release", cwd=folder))


def test_cpp_program_by_cmake_from_the_wheel(tmp_path):
    folder = copied("cpp", tmp_path)
    cmake(folder, f"-Ddpcore_DIR={cmake_dir(tmp_path)}")
    check_output(run(folder / "build" / "service_core", cwd=folder))


def test_cmake_package_knows_its_version(tmp_path):
    cmake_lists = (
        "cmake_minimum_required(VERSION 3.18)\nproject(x LANGUAGES CXX)\nfind_package(dpcore {} REQUIRED)\n"
    )
    major, minor = dpcore.__version__.split(".")[:2]
    for wanted, ok in ((f"{major}.{minor}", True), (f"{major}.{int(minor) + 1}", False)):
        folder = tmp_path / wanted
        folder.mkdir()
        (folder / "CMakeLists.txt").write_text(cmake_lists.format(wanted))
        done = subprocess.run(
            ["cmake", "-S", ".", "-B", "build", f"-Ddpcore_DIR={cmake_dir(tmp_path)}"],
            cwd=folder, capture_output=True,
        )  # fmt: skip
        assert (done.returncode == 0) is ok


@pytest.mark.slow
def test_cython_package(tmp_path):
    pytest.importorskip("Cython")
    folder = copied("cython", tmp_path)
    run(sys.executable, "setup.py", "-q", "build_ext", "--inplace", cwd=folder)
    (file,) = folder.glob("noisy_counts.*.so")
    spec = importlib.util.spec_from_file_location("noisy_counts", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    counts = module.NoisyCounts(1.0)
    assert abs(counts.release(1000) - 1000) <= 128
    values = np.arange(100_000, dtype=np.int64)
    counts.release_all(values)
    noise = values - np.arange(100_000)
    assert np.abs(noise).max() <= 128
    # Pr[noise = 0] is tanh(1/2) = 0.4621; 0.05 is 30 standard deviations of 0.0016.
    assert abs((noise == 0).mean() - 0.46211715726) < 0.05
    with pytest.raises(ValueError, match="scale must be a number in"):
        module.NoisyCounts(0.0)
    with pytest.raises(TypeError):
        counts.release("no number")
    assert 0 < counts.time_releases(1000) < 1


def page_blocks(language):
    page = (EXAMPLES.parent / "docs" / "embedding.md").read_text()
    return re.findall(rf"```{language}\n(.*?)```", page, flags=re.S)


def test_starting_points_of_the_page_in_cpp_and_c(tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(page_blocks("cmake")[0])
    (tmp_path / "main.cpp").write_text(page_blocks("cpp")[0])
    cmake(tmp_path, f"-Ddpcore_DIR={cmake_dir(tmp_path)}")
    assert abs(float(run(tmp_path / "build" / "my_service", cwd=tmp_path)) - 2417) < 1000
    (tmp_path / "release.c").write_text(page_blocks("c")[0])
    library = dpcore.get_library_dir()
    run("cc", "-std=c99", "-pedantic-errors", "-Wall", "-Wextra", "-Werror", "release.c", "-I",
        dpcore.get_include(), "-L", library, "-ldpcore_c", f"-Wl,-rpath,{library}", "-o", "release",
        cwd=tmp_path)  # fmt: skip
    assert abs(int(run(tmp_path / "release", cwd=tmp_path)) - 2417) <= 1281


@pytest.mark.slow
def test_starting_point_of_the_page_in_cython(tmp_path):
    pytest.importorskip("Cython")
    (tmp_path / "noisy.pyx").write_text(page_blocks("cython")[0])
    (setup,) = [block for block in page_blocks("python") if "cythonize" in block]
    (tmp_path / "setup.py").write_text(setup)
    run(sys.executable, "setup.py", "-q", "build_ext", "--build-lib", tmp_path / "site", cwd=tmp_path)
    program = f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); import noisy\n"
    program += "print(abs(noisy.noisy(1000, 1.0) - 1000) <= 128)\ntry: noisy.noisy(1, 0.0)\n"
    program += "except ValueError as error: print(error)"
    out = run(sys.executable, "-c", program, cwd=tmp_path / "site")
    assert out == "True\nscale must be a number in [1e-3, 1e15], got -1\n"


def test_documented_statuses_are_the_header_s():
    page = (EXAMPLES.parent / "docs" / "embedding.md").read_text()
    header = (pathlib.Path(dpcore.get_include()) / "dpcore" / "c_api.h").read_text()
    statuses = re.search(r"typedef int dpcore_status;\s*enum {(.*?)}", header, flags=re.S).group(1)
    assert re.findall(r"`(DPCORE_\w+)` \| (\d)", page) == re.findall(r"(DPCORE_\w+) = (\d)", statuses)
