"""A survey is released question by question until its budget is spent; the ledger remembers, and refuses."""

from __future__ import annotations

import pathlib
import sys
import tempfile

from dpcore import mechanisms
from dpcore.ledger import Ledger, OverspentError

QUESTIONS = {"smokers": 2535, "diabetes": 1218, "readmitted": 831, "over 65": 2913, "women": 5118}


def main(path: pathlib.Path) -> None:
    ledger = Ledger(path) if path.exists() else Ledger.create(path, epsilon=1.0, label="survey")
    count = mechanisms.DiscreteLaplace(epsilon=0.25, sensitivity=1)
    assert count.epsilon is not None
    for name, true_count in QUESTIONS.items():
        try:
            ledger.charge(epsilon=count.epsilon, label=name)  # on the disk when this returns
        except OverspentError as error:
            print(f"{name}: {error}")
            continue
        low, high = count.interval(0.95).around(released := count.release(true_count))
        print(f"{name}: {released} (95 times in 100 the truth is between {low:.0f} and {high:.0f})")
    print(ledger.statement)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(pathlib.Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(pathlib.Path(folder) / "survey.ledger")
