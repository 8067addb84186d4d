"""Make dpcore/data/hospital.csv, the invented data set that comes with dpcore.

Run from the root of the repository: ``python tools/make_hospital.py``. Every person is made up; the generator is
seeded and uses only the standard library, so that the file comes out the same everywhere.
"""

from __future__ import annotations

import csv
import pathlib
import random

PATIENTS = 10_000
OUT = pathlib.Path(__file__).resolve().parent.parent / "dpcore" / "data" / "hospital.csv"


def patients() -> list[tuple[int, str, int, int, int, int]]:
    """Age, sex, smoker, diabetes, nights, readmitted."""
    draw = random.Random(20180118)
    rows = []
    for _ in range(PATIENTS):
        age = min(99, max(18, round(draw.gauss(54, 19))))
        sex = "f" if draw.random() < 0.51 else "m"
        smoker = int(draw.random() < (0.28 if age < 65 else 0.18))
        diabetes = int(draw.random() < 0.03 + 0.0016 * age)
        nights = min(60, int(draw.expovariate(1 / (2.5 + 0.04 * age + 1.5 * diabetes))))
        readmitted = int(draw.random() < 0.06 + 0.004 * nights + 0.04 * smoker)
        rows.append((age, sex, smoker, diabetes, nights, readmitted))
    return rows


def main() -> None:
    """Write the file."""
    OUT.parent.mkdir(exist_ok=True)
    with OUT.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("age", "sex", "smoker", "diabetes", "nights", "readmitted"))
        writer.writerows(patients())


if __name__ == "__main__":
    main()
