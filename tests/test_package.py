"""What the installed package ships and says of itself."""

import abc
import doctest
import importlib
import importlib.metadata
import importlib.util
import math
import pathlib
import pkgutil
import platform
import subprocess
import sys

import numpy as np
import pytest

import dpcore
from dpcore import _core
from dpcore._results import Result

ROOT = pathlib.Path(__file__).resolve().parent.parent


def modules():
    found = [m.name for m in pkgutil.walk_packages(dpcore.__path__, "dpcore.") if m.name != "dpcore.__main__"]
    return ["dpcore", *(name for name in found if name != "dpcore._core")]


def test_the_installed_package_is_tested_not_the_checkout():
    assert pathlib.Path(dpcore.__file__).resolve().parent != ROOT / "dpcore"


def test_versions_agree():
    assert dpcore.__version__ == _core.__version__ == importlib.metadata.version("dpcore")
    assert f'"{dpcore.__version__}"' in (ROOT / "csrc/include/dpcore/version.hpp").read_text()


def test_build_is_sound_for_numerics():
    info = dpcore.build_info()
    assert "fast-math" not in info["flags"]
    assert "-Ofast" not in info["flags"]
    # Importing the extension must not switch denormals off in the process, as a fast-math link would.
    assert np.float64(5e-324) / 1 != 0
    assert math.ldexp(1.0, -1074) > 0
    assert info["sound_arithmetic"] is True


SPOIL = """
#include <xmmintrin.h>
void spoil(unsigned bits) { _mm_setcsr(_mm_getcsr() | bits); }
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the control register is that of x86")
def test_build_info_sees_what_another_library_did_to_the_processor(tmp_path):
    (tmp_path / "spoil.c").write_text(SPOIL)
    library = tmp_path / "spoil.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "spoil.c"], check=True)
    for name, bits in (("flush to zero", 0x8000), ("denormals are zero", 0x40), ("round up", 0x4000)):
        info = "dpcore.build_info()['sound_arithmetic']"
        code = f"import ctypes, dpcore; before = {info}; "
        code += f"ctypes.CDLL({str(library)!r}).spoil({bits}); print(before, {info})"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
        )
        assert done.stdout.split() == ["True", "False"], name


@pytest.mark.parametrize("flag", ["-ffast-math", "-O2 -Ofast", "-fassociative-math -g", "-march=native"])
def test_unsound_flags_are_refused(tmp_path, flag):
    for option in ("CMAKE_CXX_FLAGS", "CMAKE_MODULE_LINKER_FLAGS"):
        command = ["cmake", "-S", str(ROOT), "-B", str(tmp_path / option), f"-D{option}={flag}"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode != 0
        assert "error bounds do not hold" in " ".join(done.stderr.split())


@pytest.mark.parametrize("name", modules())
def test_doctests(name):
    result = doctest.testmod(
        importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    )
    assert result.failed == 0


def test_every_public_function_has_an_example():
    missing = []
    for name in modules():
        module = importlib.import_module(name)
        if any(part.startswith("_") for part in name.split(".")) or name.startswith("dpcore.cli"):
            continue
        for public in getattr(module, "__all__", ()):
            thing = getattr(module, public)
            if callable(thing) and getattr(thing, "__module__", name).startswith("dpcore"):
                # What a function returns is shown by the example of that function.
                if isinstance(thing, type) and issubclass(thing, (Result, tuple, abc.ABC)):
                    continue
                doc = thing.__doc__ or ""
                if ">>>" not in doc and not (isinstance(thing, type) and issubclass(thing, Exception)):
                    missing.append(f"{name}.{public}")
    assert missing == []


def documents():
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("path", documents(), ids=lambda p: p.name)
def test_code_in_documents_runs(path):
    result = doctest.testfile(
        str(path), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    )
    assert result.failed == 0


def test_areas_are_importable_and_listed():
    for area in dpcore._AREAS:
        assert getattr(dpcore, area).__name__ == f"dpcore.{area}"
        assert area in dir(dpcore)
    with pytest.raises(AttributeError, match="nonsense"):
        dpcore.nonsense


def test_what_an_embedder_needs_is_shipped(tmp_path):
    include, library = pathlib.Path(dpcore.get_include()), pathlib.Path(dpcore.get_library_dir())
    assert (include / "dpcore" / "gaussian.hpp").is_file()
    assert (library / "libdpcore.a").is_file()
    done = subprocess.run(
        [sys.executable, "-m", "dpcore", "--cmakedir"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert (pathlib.Path(done.stdout.strip()) / "dpcoreConfig.cmake").is_file()
    assert (pathlib.Path(dpcore.__file__).parent / "py.typed").is_file()
    assert (pathlib.Path(dpcore.__file__).parent / "_core.pyi").is_file()


def test_the_source_folder_says_what_it_is(tmp_path):
    """Python started in a clone finds the source first; the error says so."""
    package = pathlib.Path(dpcore.__file__).parent
    for file in package.rglob("*.py"):
        copy = tmp_path / "dpcore" / file.relative_to(package)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
    done = subprocess.run(
        [sys.executable, "-c", "from dpcore import gaussian"], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 1
    assert "start Python in another folder" in done.stderr.splitlines()[-1]


def test_every_mutant_has_its_place():
    """tools/mutate.py changes a line; where the line has changed meanwhile it would try nothing."""
    root = pathlib.Path(__file__).parent.parent
    spec = importlib.util.spec_from_file_location("mutate", root / "tools" / "mutate.py")
    mutate = importlib.util.module_from_spec(spec)
    sys.modules["mutate"] = mutate  # dataclasses look there
    spec.loader.exec_module(mutate)
    for mutant in mutate.MUTANTS:
        file = root / mutant.file if mutant.file.startswith("csrc/") else root / "dpcore" / mutant.file
        assert file.read_text().count(mutant.old) == 1, mutant.name
        test, _, name = mutant.tests.partition("::")
        name = name.partition("[")[0]
        assert f"def {name}(" in (root / "tests" / test).read_text() or not name, mutant.name
