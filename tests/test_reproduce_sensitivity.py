"""The reproduction of the paper on sensitivity sampling: every figure is made, the page says what it must."""

import csv
import math

import pytest

from dpcore.reproduce import sensitivity_sampler


def read(path):
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_quick_reproduction(tmp_path):
    files = sensitivity_sampler.run(tmp_path, quick=True)
    assert all(path.stat().st_size and path.name.startswith("sensitivity-sampler") for path in files)
    figures = {
        f"sensitivity-sampler-figure-{i}.{kind}" for i in (2, 3, 4, 5, 6, 7, 9) for kind in ("png", "svg", "csv")
    }
    assert figures <= {path.name for path in files}
    page = (tmp_path / "sensitivity-sampler.md").read_text(encoding="utf-8")
    for number in ("1305 (rho = 0.00418287)", "41971", "5486187", "424 times fewer", "0.029957"):
        assert number in page
    # Figure 2: the published effort is above the confident one, and that above the exact one.
    for row in read(tmp_path / "sensitivity-sampler-figure-2.csv"):
        assert int(row["published"]) >= int(row["confident"]) >= int(row["exchangeable"])
    # Figure 4: with 10000 samples the exact order statistic is the analytic quantile, up to sampling error:
    # the relative deviation of one estimate near gamma = 0.1 is 0.03/2.3, of the mean of five less than half.
    rows = [r for r in read(tmp_path / "sensitivity-sampler-figure-4.csv") if 0.08 < float(r["gamma"]) < 0.12]
    for row in rows:
        assert float(row["exchangeable_10000"]) == pytest.approx(float(row["analytic"]), rel=0.04)
        assert float(row["published_10000"]) > float(row["exchangeable_10000"])
        assert math.isnan(float(row["published_100"]))
    # Figure 9: never above the global sensitivity.
    for row in read(tmp_path / "sensitivity-sampler-figure-9.csv"):
        assert 0 < float(row["exact"]) <= float(row["global"])
