"""Checks an installed dpcore in an environment without compiler or checkout.

python tools/smoke_test.py
"""

from __future__ import annotations

import importlib
import json
import pathlib
import subprocess
import sys

import dpcore
from dpcore import gaussian


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
    command = [str(program), "calibrate", "gaussian", "--epsilon", "1", "--delta", "1e-6", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert abs(json.loads(done.stdout)["sigma"] - 4.224678889326836) < 1e-14
    for words in (
        "release example:hospital --where smoker==1 --epsilon 1 --no-ledger",
        "release example:hospital --where smoker==1 --epsilon 1 --delta 1e-6 --known 50 --bias 0.25 --no-ledger",
        "release example:hospital --mean age --lower 0 --upper 120 --epsilon 1 --no-ledger",
        "calibrate count --records 10000 --known 5000 --bias 0.25 --epsilon 0.2 --delta 1e-6",
        "account gaussian:sigma=50,count=1000 laplace:epsilon=0.1",
        "risk --records 100 --cost 550000 --budget 80000 --allowed-error 2",
        "completion bash",
        "info",
    ):
        done = subprocess.run([str(program), *words.split(), "--json"], capture_output=True, text=True, check=True)
        assert isinstance(json.loads(done.stdout), dict), words
    print(f"smoke test of dpcore {dpcore.__version__} on Python {sys.version.split()[0]}: fine")


if __name__ == "__main__":
    main()
