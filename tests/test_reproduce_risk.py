"""The reproductions of the two papers on risk: files, numbers on the pages, determinism."""

import csv
import re

import pytest

from dpcore.reproduce import _common, _ridge, privacy_at_risk, risk_budget

pytest.importorskip("matplotlib")


def read(path):
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_risk_budget(tmp_path):
    files = risk_budget.run(tmp_path)
    assert all(path.exists() and path.name.startswith("risk-budget") for path in files)
    assert {path.suffix for path in files} == {".png", ".svg", ".csv", ".md", ".html"}
    page = (tmp_path / "risk-budget.md").read_text(encoding="utf-8")
    for printed in ("0.29", "0.5", "no limit", "-0.2171"):
        assert printed in page
    rows = read(tmp_path / "risk-budget-posterior.csv")
    # 400 000 releases each: 0.0045 is 5.7 standard deviations.
    assert max(abs(float(row["simulated"]) - float(row["exact"])) for row in rows) < 0.0045
    for figure in ("bounds", "posterior"):
        assert re.search(rf"risk-budget-{figure}\.png", page)


@pytest.mark.slow
def test_privacy_at_risk(tmp_path):
    files = privacy_at_risk.run(tmp_path, pairs=300)
    assert all(path.stat().st_size and path.name.startswith("privacy-at-risk") for path in files)
    assert {f"privacy-at-risk-figure-{i}.svg" for i in range(1, 8)} <= {path.name for path in files}
    page = (tmp_path / "privacy-at-risk.md").read_text(encoding="utf-8")
    for number in ("74,434.41", "0.2741153", "37,805.86", "67,978.95", "0.7973", "0.9004", "0.8141", "impossible"):
        assert number in page
    at_risk = read(tmp_path / "privacy-at-risk-figure-4.csv")
    assert float(at_risk[-1]["cost_published"]) == pytest.approx(74434.40578, abs=1e-4)
    assert "refuted" in page


def test_figures_are_the_same_every_time(tmp_path):
    plt = _common.pyplot()
    made = []
    for name in "ab":
        figure, axis = plt.subplots(figsize=(2, 2))
        axis.plot([1, 2, 3])
        made.append(_common.save_figure(figure, tmp_path / name, "figure"))
    for one, two in zip(*made, strict=True):
        assert one.read_bytes() == two.read_bytes()


def test_page_escapes_and_quotes(tmp_path):
    section = _common.Section("A < B", ("x & y",), (), (_common.Comparison("a|b", "1", "2", "<why>"),))
    text, page = _common.write_page(tmp_path, "page", "T", [section])
    assert r"a\|b" in text.read_text()
    assert "&lt;why&gt;" in page.read_text()
    assert "A &lt; B" in page.read_text()


def test_csv_keeps_every_digit(tmp_path):
    path = _common.write_csv(tmp_path / "a.csv", {"x": [0.1 + 0.2, 1.0], "name": ["a", "b"]})
    assert path.read_text() == "x,name\n0.30000000000000004,a\n1.0,b\n"
    with pytest.raises(ValueError, match="zip"):
        _common.write_csv(tmp_path / "b.csv", {"x": [1.0], "y": [1.0, 2.0]})


def test_ridge_bound_covers_every_sampled_pair():
    data = _ridge.generate(2000)
    assert abs(data.attributes**2).sum(axis=1) == pytest.approx(1.0)
    sampled = _ridge.sampled_sensitivities(data, 50, 200)
    assert 0 < sampled[0] <= sampled[-1] <= _ridge.sensitivity_bound(50)
