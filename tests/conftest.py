"""What the assurance run (tools/assure.py) reads: counts that tests report, and how many passed."""

import json
import os

import pytest


def _write(**line):
    file = os.environ.get("DPCORE_TALLY")
    if file:
        with open(file, "a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")


@pytest.fixture(scope="session")
def tally():
    """Call with what was counted and how many: ``tally("inputs tried", 120)``. Totals are per kind."""

    def add(what, count):
        _write(what=what, count=int(count))

    return add


def pytest_terminal_summary(terminalreporter):
    counts = {kind: len(terminalreporter.stats.get(kind, ())) for kind in ("passed", "failed", "error", "skipped")}
    bad = [report.nodeid for kind in ("failed", "error") for report in terminalreporter.stats.get(kind, ())]
    _write(outcome=counts, failed=bad)
