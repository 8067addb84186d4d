"""A data steward decides on an epsilon for monthly counts, and writes the report."""

from __future__ import annotations

import pathlib
import sys
import tempfile

from dpcore import risk


def main(folder: pathlib.Path) -> None:
    decision = risk.recommend(
        records=10_000,
        impact=5000.0,
        threshold=1000.0,
        allowed_error=60.0,
        releases=12,
        delta=1e-6,
        title="Monthly counts",
    )
    print(decision.statement)
    print(f"report: {decision.save(folder / 'decision.html').name}")

    stricter = risk.recommend(records=10_000, impact=5000.0, threshold=1000.0, allowed_error=5.0, releases=12)
    if stricter.conflict is not None:
        print(stricter.conflict.statement)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(pathlib.Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(pathlib.Path(temporary))
