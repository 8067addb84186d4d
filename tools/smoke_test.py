"""Checks an installed dpcore in an environment without compiler or checkout, and every example of its help texts.

python tools/smoke_test.py
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import dpcore
from dpcore import accounting, gaussian

PROGRAMME = """[[mechanism]]
name = "gaussian"
sigma = 50.0
count = 1000

[[mechanism]]
file = "year.json"
"""
PAIR = "p,q\n0.5,0.25\n0.25,0.25\n0.25,0.5\n"


def help_examples(program: pathlib.Path, *path: str) -> list[str]:
    """The commands under "example" in the help of a command and of those below it."""
    done = subprocess.run([str(program), *path, "--help"], capture_output=True, text=True, check=True)
    assert all(len(line) <= 80 for line in done.stdout.splitlines()), path
    help_text = done.stdout.replace("\\\n", " ")
    found = [line.strip() for line in help_text.splitlines() if line.startswith("  dpcore ")]
    assert found, path
    for words in json.loads(subprocess.check_output([str(program), "completion", "bash", "--json"])):
        deeper = tuple(words.split()[1:])
        if len(deeper) == len(path) + 1 and deeper[:-1] == path and not deeper[-1].startswith("-"):
            found += help_examples(program, *deeper)
    return list(dict.fromkeys(found))


def run_example(example: str, folder_of_program: pathlib.Path, folder: str) -> None:
    """Run it as typed; an answer on at most 80 columns, or the one line that says which extra is missing."""
    environment = {**os.environ, "PATH": f"{folder_of_program}:{os.environ['PATH']}", "HOME": folder}
    example = re.sub(r"> \S+$", "> script", example)
    # By the system's shell, which needs no PATH: the test of a wheel has none but the package's own.
    done = subprocess.run(example, shell=True, capture_output=True, text=True, cwd=folder, env=environment)
    needs_plot = " --plot " in example or " reproduce " in example
    if needs_plot and importlib.util.find_spec("matplotlib") is None:
        expected = "dpcore: figures need matplotlib: pip install 'dpcore[plot]'\n"
        assert (done.returncode, done.stdout, done.stderr) == (2, "", expected), example
        return
    assert (done.returncode, done.stderr) == (0, ""), f"{example}: {done.stderr}"
    if "--json" in example:
        assert isinstance(json.loads(done.stdout), dict), example
    else:
        # A path of the machine may be longer than a line; nothing else may.
        assert all(len(line) <= 80 or "/" in line for line in done.stdout.splitlines()), example


def main() -> None:
    """Import everything, compute something in each layer, run the program."""
    for area in dpcore._AREAS:
        importlib.import_module(f"dpcore.{area}")
    assert abs(gaussian.sigma(epsilon=1.0, delta=1e-6) - 4.224678889326836) < 1e-14
    assert gaussian.delta(epsilon=[1.0, 2.0], sigma=1.0).shape == (2,)
    assert dpcore.build_info()["version"] == dpcore.__version__
    assert pathlib.Path(dpcore.get_include(), "dpcore", "gaussian.hpp").is_file()
    assert pathlib.Path(dpcore.get_library_dir(), "libdpcore.a").is_file()
    program = pathlib.Path(sys.executable).with_name("dpcore")
    examples = help_examples(program)
    command = [str(program), "calibrate", "gaussian", "--epsilon", "1", "--delta", "1e-6", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert abs(json.loads(done.stdout)["sigma"] - 4.224678889326836) < 1e-14
    for words in ("ledger hospital.ledger", "completion bash", "info"):
        examples.append(f"dpcore {words} --json")
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "programme.toml").write_text(PROGRAMME)
        pathlib.Path(folder, "pair.csv").write_text(PAIR)
        accounting.save(accounting.from_gaussian(sigma=20.0) * 40, pathlib.Path(folder, "year.json"))
        for example in examples:
            run_example(example, program.parent, folder)
    print(f"smoke test of dpcore {dpcore.__version__} on Python {sys.version.split()[0]}: fine")


if __name__ == "__main__":
    main()
