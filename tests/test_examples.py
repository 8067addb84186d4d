"""The examples, run as a reader would run them."""

import pathlib
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples"
# What each one has to say for itself.
EXPECTED = {
    "black_box_regression.py": "random differential privacy",
    "dp_sgd_accounting.py": "epsilon 2 needs noise",
    "epsilon_decision.py": "report: decision.html",
    "hospital_count.py": "Saved:",
    "survey_ledger.py": "refused: epsilon 0.25 is more than the 0 left",
}


def test_every_example_is_known():
    assert sorted(path.name for path in EXAMPLES.glob("*.py")) == sorted(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_example(name, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert EXPECTED[name] in done.stdout
    assert list(tmp_path.iterdir()) == []
