"""Make the pictures of the documentation: ``python tools/make_pictures.py`` from the root of the repository.

Needs the installed dpcore with matplotlib (``pip install '.[docs]'``), and for the pictures of pages a
Chromium on the path; without one these are left as they are.
"""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import tempfile
from typing import Any

import numpy as np

from dpcore import gaussian, partial_knowledge, risk
from dpcore.reproduce import risk_budget
from dpcore.reproduce._common import pyplot

OUT = pathlib.Path(__file__).resolve().parent.parent / "docs" / "images"


def save(figure: Any, name: str) -> None:
    """One PNG for the pages, the same bytes every time."""
    OUT.mkdir(parents=True, exist_ok=True)
    figure.savefig(OUT / f"{name}.png", metadata={"Software": None})
    pyplot().close(figure)


def noise_unknown() -> None:
    """Noise against the number of records that the attacker does not know."""
    epsilon, delta, bias = 0.1, 1e-6, 0.2
    unknown = np.unique(np.round(np.geomspace(1, 10**5, 60)).astype(int))
    figure, axes = pyplot().subplots()
    for label, spec in (("bias 0.2", bias), ("bias anywhere in [0.1, 0.3]", (0.1, 0.3))):
        noise = [
            partial_knowledge.calibrate(
                epsilon=epsilon, delta=delta, records=int(m) + 1, known=0, bias=spec
            ).noise_scale
            for m in unknown
        ]
        axes.semilogx(unknown, noise, label=label)
    plain = float(gaussian.sigma(epsilon=epsilon, delta=delta))
    axes.axhline(plain, color="#666666", linestyle=":", linewidth=1.2, label="plain differential privacy")
    axes.set(
        xlabel="records that the attacker does not know", ylabel="standard deviation of the noise", ylim=(0, None)
    )
    axes.set_title("Noise that a count needs, ε = 0.1, δ = 10⁻⁶")
    axes.legend(loc="lower left")
    save(figure, "noise_unknown")


def delta_curves() -> None:
    """Delta against epsilon for attackers who know more and more."""
    records, noise, bias = 10_000, 5.0, 0.25
    epsilons = np.linspace(0.02, 1.0, 120)
    figure, axes = pyplot().subplots()
    for known in (0, 9_000, 9_900, 9_999):
        delta = partial_knowledge.count_delta(
            epsilon=epsilons, records=records, known=known, bias=bias, noise_scale=noise
        )
        label = f"knows {known:,} of 10,000" if known < records - 1 else "knows all others (plain)"
        axes.semilogy(epsilons, delta, label=label)
    axes.set(xlabel="epsilon", ylabel="delta (exact)", ylim=(1e-12, 1))
    axes.set_title("What one noisy count reveals, noise of scale 5, bias 0.25")
    axes.legend()
    save(figure, "delta_curves")


def cost_curves() -> None:
    """Cost of the level that holds for certain, and at risk."""
    people, full = 100, 5500.0
    model = risk.CostModel(full=people * full)
    epsilon0 = 0.5
    levels = np.linspace(0.02, epsilon0, 150)
    figure, axes = pyplot().subplots()
    axes.plot(levels, [model.cost(float(e)) for e in levels], label="certain at this epsilon")
    for method, label in (("exact", "at risk, exact confidence"), ("published", "at risk, as published")):
        cost = [model.cost_at_risk(epsilon=float(e), epsilon0=epsilon0, method=method) for e in levels]
        axes.plot(levels, cost, label=label)
    cheapest = model.cheapest(epsilon0=epsilon0, method="published")
    axes.plot([cheapest.epsilon], [cheapest.cost], "o", color="#009E73")
    axes.annotate(
        f"published minimum\n{cheapest.cost:,.0f} at {cheapest.epsilon:.3f}",
        (cheapest.epsilon, cheapest.cost),
        xytext=(0.02, 12_000),
        arrowprops={"arrowstyle": "->"},
    )
    axes.set(xlabel="epsilon", ylabel="expected compensation", ylim=(0, 105_000))
    axes.set_title("100 people, 5500 each, noise for ε₀ = 0.5")
    axes.legend(loc="upper left", title="cost of a level that is")
    save(figure, "cost_curves")


def report() -> None:
    """The report of `dpcore risk`, as a browser shows it."""
    decision = risk.recommend(
        records=10_000, impact=5000.0, threshold=1000.0, allowed_error=60.0, releases=12, delta=1e-6
    )
    with tempfile.TemporaryDirectory() as folder:
        screenshot(decision.save(pathlib.Path(folder) / "decision.html"), "report", height=2500)


def reproduction() -> None:
    """The page of `dpcore reproduce risk-budget`."""
    with tempfile.TemporaryDirectory() as folder:
        risk_budget.run(pathlib.Path(folder))
        screenshot(pathlib.Path(folder) / "risk-budget.html", "reproduction", height=1450)


def screenshot(page: pathlib.Path, name: str, *, height: int) -> None:
    """A page as a browser shows it."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        print(f"no Chromium: {name}.png is left as it is")
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--user-data-dir={folder}/profile", f"--screenshot={folder}/shot.png"]
        command += [f"--window-size=900,{height}", page.as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        shutil.move(f"{folder}/shot.png", OUT / f"{name}.png")


if __name__ == "__main__":
    noise_unknown()
    delta_curves()
    cost_curves()
    report()
    reproduction()
