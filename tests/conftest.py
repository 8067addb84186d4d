"""Ctrl-C for the tests of it, and what the assurance run (tools/assure.py) reads: counts, and how many passed."""

import json
import os
import signal

import pytest


def pytest_configure():
    """Heed Ctrl-C: a shell that starts pytest in the background tells it, and all it starts, to ignore that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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
