"""The command line, in process for speed and as a real program where the process matters."""

import json
import re
import subprocess
import sys

import pytest

import dpcore
from dpcore import gaussian
from dpcore.cli import COMMANDS, main


def run(capsys, *arguments):
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_calibrate_gaussian_prints_what_the_library_says(capsys):
    code, out, err = run(capsys, "calibrate", "gaussian", "--epsilon", "1", "--delta", "1e-6", "--json")
    assert (code, err) == (0, "")
    facts = json.loads(out)
    assert facts["sigma"] == gaussian.sigma(epsilon=1.0, delta=1e-6)
    assert facts["epsilon"] == 1.0
    assert "differentially private" in facts["statement"]
    code, out, _ = run(capsys, "calibrate", "gaussian", "--epsilon", "1", "--delta", "1e-6")
    assert code == 0
    assert "4.22468" in out
    assert all(len(line) <= 80 for line in out.splitlines())


@pytest.mark.parametrize(("epsilon", "delta"), [("0.01", "1e-9"), ("1", "1e-6"), ("20", "1e-8"), ("0.5", "1e-12")])
def test_the_noise_on_the_screen_is_enough(capsys, epsilon, delta):
    # To six digits upward: 458.508 would be too little where 458.5085 is needed.
    need = gaussian.sigma(epsilon=float(epsilon), delta=float(delta))
    _, out, _ = run(capsys, "calibrate", "gaussian", "--epsilon", epsilon, "--delta", delta)
    shown = [float(x) for x in re.findall(r"(?:sigma|standard deviation) +([0-9.e+-]+)", " ".join(out.split()))]
    assert len(shown) == 2
    assert all(need <= x <= need * (1 + 1e-5) for x in shown)
    _, out, _ = run(capsys, "calibrate", "gaussian", "--epsilon", epsilon, "--delta", delta, "--quiet")
    assert float(out) == need


@pytest.mark.parametrize(
    "arguments",
    [
        ("--epsilon", "-1", "--delta", "1e-6"),
        ("--epsilon", "nan", "--delta", "1e-6"),
        ("--epsilon", "inf", "--delta", "1e-6"),
        ("--epsilon", "one", "--delta", "1e-6"),
        ("--epsilon", "1", "--delta", "0"),
        ("--epsilon", "1", "--delta", "2"),
        ("--epsilon", "1"),
        ("--epsilon", "1", "--delta", "1e-6", "--compositions", "1.5"),
        ("--epsilon", "1", "--delta", "1e-6", "--method", "best"),
        ("--epsilon", "2", "--delta", "1e-6", "--method", "classical"),
        ("--eps", "1", "--delta", "1e-6"),
        ("--epsilon", "1e-300", "--delta", "1e-300", "--sensitivity", "1e300"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(capsys, arguments):
    code, out, err = run(capsys, "calibrate", "gaussian", *arguments)
    assert code == 2
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith("dpcore: ")


@pytest.mark.parametrize("arguments", [(), ("nonsense",), ("calibrate",), ("calibrate", "nonsense")])
def test_no_command_is_bad_input(capsys, arguments):
    code, out, err = run(capsys, *arguments)
    assert (code, out, len(err.splitlines())) == (2, "", 1)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches(capsys, command):
    with pytest.raises(SystemExit) as done:
        main([command, "--help"])
    out = capsys.readouterr().out
    assert done.value.code == 0
    assert f"dpcore {command}" in out
    assert "example" in out
    assert all(len(line) <= 80 for line in out.splitlines())


def test_info_and_version(capsys):
    code, out, _ = run(capsys, "info", "--json")
    assert code == 0
    assert json.loads(out)["version"] == dpcore.__version__
    assert run(capsys, "--version") == (0, f"dpcore {dpcore.__version__}\n", "")


def test_as_a_program_and_help_imports_no_numpy(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "dpcore", "calibrate", "gaussian", "--epsilon", "-1", "--delta", "1e-6"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "dpcore", "--help"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0
    assert "numpy" not in done.stderr
