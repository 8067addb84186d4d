"""Dorafshanian and Mejri (2023), "Toward a Better Tuning of the Privacy Budget Based on Risk": tables 1 and 2.

``run(out)`` writes figures (PNG, SVG), data (CSV) and ``risk-budget.md`` and ``.html``, which put every published
number beside ours and show where the theorem goes wrong.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from dpcore import risk
from dpcore.reproduce._common import Comparison, Section, note, pyplot, save_figure, write_csv, write_page

NAME = "risk-budget"
TITLE = "Privacy budget from risk, recomputed"
TABLE_1 = ((5, 7, "0.29"), (5, 5, "0"), (3, 6, "0.5"), (0, 7, "1"))
METHODS = ("published", "quantile", "posterior")


def run(out: Path, *, progress: bool = False) -> list[Path]:
    """Write everything into `out` and return the files.

    Parameters
    ----------
    out : Path
        Folder, made if missing.
    progress : bool
        Say what is being done, on a terminal.
    """
    out = Path(out)
    files: list[Path] = []
    sections = []
    for step in (_table_1, _bounds, _simulation, _table_2):
        note(progress, step.__name__.strip("_").replace("_", " "))
        section, made = step(out)
        sections.append(section)
        files += made
    sections.append(
        Section(
            "What cannot be recomputed",
            (
                "Table 3 compares the literature in words and figure 1 is a picture of another project's user "
                "interface; neither holds a number.",
            ),
        )
    )
    return files + write_page(out, NAME, TITLE, sections)


def _bound(impact: float, threshold: float, method: str) -> float:
    extra: dict[str, Any] = {"u": 1.0} if method == "published" else {}
    value = risk.disclosure_epsilon(impact=impact, threshold=threshold, method=method, **extra)
    assert isinstance(value, float)
    return value


def _words(value: float) -> str:
    return "no limit" if math.isinf(value) else f"{value:.4g}"


def _table_1(out: Path) -> tuple[Section, list[Path]]:
    comparisons = []
    columns: dict[str, list[Any]] = {"impact": [], "threshold": [], "printed": [], **{m: [] for m in METHODS}}
    for impact, threshold, printed in TABLE_1:
        values = {method: _bound(impact, threshold, method) for method in METHODS}
        comparisons.append(
            Comparison(
                f"impact {impact}, threshold {threshold}",
                printed,
                f"{values['published']:.4g} as published; corrected: {_words(values['posterior'])}",
                "rounded in the paper" if printed == "0.29" else "agrees with u = 1",
            )
        )
        for name, value in {"impact": impact, "threshold": threshold, "printed": printed, **values}.items():
            columns[name].append(value)
    for gamma in (0.95, 0.9, 0.6):
        comparisons.append(
            Comparison(
                f"the factor u at confidence {gamma:g}",
                '"u is a positive value", taken as 1',
                f"{risk.published_u(confidence=gamma):.4f}",
                "ln(2 - 2 gamma) is negative above one half; dividing by it turns the inequality round",
            )
        )
    text = (
        "Table 1 takes u = 1 without a confidence that gives it. In all of its rows the impact does not exceed "
        "the threshold, so the risk, a probability times the impact, is within the threshold for every epsilon: "
        "the corrected bounds do not limit epsilon at all, where the published one even allows 0 at impact = "
        "threshold."
    )
    return Section("Table 1", (text,), (), tuple(comparisons)), [
        write_csv(out / "risk-budget-table-1.csv", columns)
    ]


def _bounds(out: Path) -> tuple[Section, list[Path]]:
    plt = pyplot()
    ratio = np.geomspace(0.1, 100, 241)
    figure, axis = plt.subplots()
    columns: dict[str, Any] = {"impact_over_threshold": ratio.tolist()}
    names = {
        "published": "published, u = 1",
        "quantile": "corrected quantile, 0.95",
        "posterior": "exact posterior",
    }
    for method in METHODS:
        values = [_bound(float(r), 1.0, method) for r in ratio]
        columns[method] = values
        shown = [v if 0 < v < 30 else math.nan for v in values]
        axis.loglog(ratio, shown, label=names[method])
    axis.axvline(1.0, color="#555555", linestyle=":", linewidth=1)
    axis.annotate("impact = threshold", (1.05, 0.012), fontsize=8)
    axis.set(xlabel="impact / risk threshold", ylabel="largest epsilon", ylim=(0.01, 30))
    axis.legend(loc="lower left", fontsize=8)
    files = save_figure(figure, out, "risk-budget-bounds")
    files.append(write_csv(out / "risk-budget-bounds.csv", columns))
    text = (
        "The theorem limits epsilon where there is no risk to limit (left of the line) and has no answer where "
        "there is one (right of it, where it is negative). Two slips: Theorem 1 takes the Laplace quantile as "
        "-epsilon ln(2 - 2 gamma)/sensitivity instead of -sensitivity ln(2 - 2 gamma)/epsilon, and the sign of u "
        "is overlooked. With the definitions kept and both mended: epsilon <= 2 sensitivity ln(1/(2 - 2 "
        "gamma))/(impact/threshold - 1) for impact > threshold. The exact posterior asks for the probability that "
        "the best guess is right: epsilon <= 2 sensitivity artanh(threshold/impact)."
    )
    caption = "Largest epsilon by the published theorem, by its corrected form and by the exact posterior."
    return Section("The three bounds", (text,), (("risk-budget-bounds", caption),)), files


def _simulation(out: Path) -> tuple[Section, list[Path]]:
    plt = pyplot()
    size = 400_000
    rng = np.random.default_rng(11)
    levels = np.array([0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 4.0])
    seen = []
    for epsilon in levels:
        p = -math.expm1(-epsilon)
        seen.append(float(np.mean(rng.geometric(p, size) == rng.geometric(p, size))))
    fine = np.linspace(0.02, 4.2, 200)
    figure, axis = plt.subplots()
    axis.plot(fine, np.tanh(fine / 2), label="tanh(epsilon/2)")
    axis.plot(levels, seen, "o", color="#000000", label=f"{size:,} simulated releases each")
    axis.set(xlabel="epsilon", ylabel="probability that the best guess is right")
    axis.legend()
    files = save_figure(figure, out, "risk-budget-posterior")
    exact = np.asarray(risk.disclosure_probability(epsilon=levels))
    files.append(
        write_csv(
            out / "risk-budget-posterior.csv",
            {"epsilon": levels.tolist(), "simulated": seen, "exact": exact.tolist()},
        )
    )
    text = (
        "A count is released with discrete Laplace noise; the best guess for somebody who holds all values "
        "equally likely is the released value. Largest difference between simulation and formula: "
        f"{float(np.max(np.abs(exact - seen))):.4f}."
    )
    caption = "Probability of disclosure: formula and simulation."
    return Section("The exact probability of disclosure", (text,), (("risk-budget-posterior", caption),)), files


def _table_2(out: Path) -> tuple[Section, list[Path]]:
    threshold = 1e6
    columns: dict[str, list[Any]] = {
        "asset": [], "prior": [], "loss": [], "score": [], "expected_loss": [], "epsilon": []
    }  # fmt: skip
    comparisons = []
    for asset, row in risk.IDENTITY_ASSETS.items():
        epsilon = _bound(row["loss"], threshold, "posterior")
        values = (asset, row["prior"], row["loss"], row["score"], row["prior"] * row["loss"], epsilon)
        for name, value in zip(columns, values, strict=True):
            columns[name].append(value)
        comparisons.append(
            Comparison(
                f"{asset}: loss {row['loss']:,.0f}, score {row['score']}",
                "no epsilon given",
                f"epsilon <= {epsilon:.4g} for a risk of at most {threshold:,.0f}",
                f"prior times loss is {row['prior'] * row['loss']:,.0f}",
            )
        )
    losses = [row["loss"] for row in risk.IDENTITY_ASSETS.values()]
    budget = risk.disclosure_epsilon(impact=losses, threshold=threshold, share="total")
    assert isinstance(budget, risk.DisclosureBudget)
    text = (
        "The data of table 2 with the exact posterior, one query about each asset. Theorem 4 of the paper adds up "
        f"the single bounds, which keeps every single risk at {threshold:,.0f} but lets their sum reach "
        f"{len(losses)} times that. For a total risk of {threshold:,.0f} the budgets are "
        f"{', '.join(f'{e:.3g}' for e in budget.epsilons)}, {budget.total:.3g} together."
    )
    return Section("Table 2: identity assets", (text,), (), tuple(comparisons)), [
        write_csv(out / "risk-budget-table-2.csv", columns)
    ]
