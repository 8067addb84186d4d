"""A hospital publishes how many of its patients smoke, to the public and under partial knowledge.

Nobody outside knows more than half of the patients. How much less noise is enough, and what remains if that
assumption fails?
"""

from __future__ import annotations

import csv
import importlib.resources

from dpcore import mechanisms, partial_knowledge

EPSILON, DELTA = 0.2, 1e-6


def smokers() -> tuple[int, int]:
    """How many of how many patients smoke, in the invented data that come with dpcore."""
    text = (importlib.resources.files("dpcore") / "data" / "hospital.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    return sum(row["smoker"] == "1" for row in rows), len(rows)


def main() -> None:
    count, records = smokers()

    plain = mechanisms.Gaussian(epsilon=EPSILON, delta=DELTA, sensitivity=1.0, grid=1.0, values_on_grid=True)
    print(f"Plain differential privacy: noise of scale {plain.scale:.2f}, released {plain.release(count):.0f}")

    found = partial_knowledge.calibrate(
        epsilon=EPSILON,
        delta=DELTA,
        records=records,
        known=records // 2,
        bias=(0.2, 0.3),
        worst_case_epsilon=1.0,
    )
    noise = mechanisms.Gaussian(sigma=found.noise_scale, sensitivity=1.0, grid=1.0, values_on_grid=True)
    print(f"Partial knowledge: noise of scale {found.noise_scale:.2f}, released {noise.release(count):.0f}")
    print(f"Saved: {100 * found.saving:.0f} % of the noise")
    print(found.statement)


if __name__ == "__main__":
    main()
