"""The lecture notes on differential privacy (lecture 18): every formula of theirs, evaluated and checked.

Randomised response, the mean of bits with Laplace noise, its error, vectors, and Gaussian noise. The notes
print no tables; what is put side by side is each formula as printed and what it should be.
"""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpcore.reproduce._common import (
    Comparison,
    Section,
    note,
    pyplot,
    save_figure,
    write_csv,
    write_page,
)

# One seed for the simulated points, so that the files come out the same every time.
_SEED = 18
_SIMULATED = 20_000


def run(out: Path, *, progress: bool = False) -> list[Path]:
    """Write figures, data and the page of comparisons into `out`; return the files.

    Examples
    --------
    >>> from dpcore.reproduce import lecture
    >>> float(lecture.largest_change(10)["remove a one"])
    0.1
    """
    out = Path(out)
    files: list[Path] = []
    sections = []
    for part in (_responses, _sensitivity, _risk, _vectors, _gaussian, _meaning):
        note(progress, part.__name__.strip("_"))
        section, made = part(out)
        sections.append(section)
        files += made
    return files + write_page(
        out, "lecture", "Lecture 18, Differential Privacy: as printed and as it is", sections
    )


# --- 1.1 and 1.2: randomised response ---------------------------------------------------------------------------


def _responses(out: Path) -> tuple[Section, list[Path]]:
    from dpcore import accounting

    # Heads: the truth. Tails: a second coin decides.
    right, wrong = Fraction(1, 2) + Fraction(1, 4), Fraction(1, 4)
    coin = math.log(right / wrong)
    epsilons = [0.0, *(i / 20 for i in range(1, 101))]
    keep = [1 / (1 + math.exp(-e)) for e in epsilons]
    lower = [float(accounting.from_randomized_response(epsilon=e).epsilon(0.0).lower) for e in epsilons]
    upper = [float(accounting.from_randomized_response(epsilon=e).epsilon(0.0).upper) for e in epsilons]
    data = write_csv(
        out / "lecture-randomised-response.csv",
        {"epsilon": epsilons, "keep_probability": keep, "loss_lower": lower, "loss_upper": upper},
    )
    plt = pyplot()
    figure, axes = plt.subplots()
    axes.plot(epsilons, keep, label="answers truthfully with probability")
    axes.plot([coin], [float(right)], "o", color="#D55E00", label="two coins: epsilon = ln 3, 3/4")
    axes.set(xlabel="epsilon", ylabel="probability of a true answer", title="Randomised response")
    axes.legend()
    section = Section(
        "1.1 and 1.2: randomised response",
        ["Nothing is added to the answer; the answer itself is random. The loss is from dpcore.accounting."],
        [("lecture-randomised-response", "Probability of a true answer against epsilon.")],
        [
            Comparison("privacy loss of two coins", "ln 3", f"{coin:.6f} = ln 3"),
            Comparison(
                "loss of keeping with e^ε/(e^ε + 1), ε = 1",
                "1",
                f"{upper[20]:.6f} (certified, from {lower[20]:.6f})",
            ),
            Comparison("probability of a true answer at ε = 0", "complete randomness", f"{keep[0]:.2f}"),
        ],
    )
    return section, [data, *save_figure(figure, out, "lecture-randomised-response")]


# --- 2 and 2.1: the mean of bits --------------------------------------------------------------------------------


def largest_change(records: int) -> dict[str, Fraction]:
    """Largest change of the mean of `records` bits for each of the four neighbours, by trying every data set.

    Examples
    --------
    >>> largest_change(4)["add a one"]
    Fraction(1, 5)
    """
    out = {"add a one": Fraction(0), "add a zero": Fraction(0), "remove a one": Fraction(0)}
    out["remove a zero"] = Fraction(0)
    for ones in range(records + 1):
        mean = Fraction(ones, records)
        near = {"add a one": (ones + 1, records + 1), "add a zero": (ones, records + 1)}
        if ones > 0 and records > 1:
            near["remove a one"] = (ones - 1, records - 1)
        if ones < records and records > 1:
            near["remove a zero"] = (ones, records - 1)
        for name, (count, size) in near.items():
            out[name] = max(out[name], abs(mean - Fraction(count, size)))
    return out


def _sensitivity(out: Path) -> tuple[Section, list[Path]]:
    sizes = list(range(2, 61))
    changes = [largest_change(n) for n in sizes]
    adding = [float(max(c["add a one"], c["add a zero"])) for c in changes]
    removing = [float(max(c["remove a one"], c["remove a zero"])) for c in changes]
    data = write_csv(
        out / "lecture-sensitivity.csv",
        {"records": sizes, "adding": adding, "removing": removing, "printed": [1 / (n + 1) for n in sizes]},
    )
    plt = pyplot()
    figure, axes = plt.subplots()
    axes.loglog(sizes, removing, label="removing a record: 1/n")
    axes.loglog(sizes, adding, label="adding a record: 1/(n + 1)")
    axes.set(xlabel="records n", ylabel="largest change of the mean", title="Sensitivity of the mean of bits")
    axes.legend()
    noise_covers = all(Fraction(1, n) >= max(c.values()) for n, c in zip(sizes, changes, strict=True))
    section = Section(
        "2 and 2.1: the mean of n bits",
        [
            "Every data set of n bits and each of its four neighbours was tried, in fractions. The printed bound "
            "is the one for adding a record; removing one changes the mean by up to 1/n. The conclusion stands, "
            "because the noise is scaled to 1/n: the loss is at most ε n · 1/n = ε."
        ],
        [("lecture-sensitivity", "Largest change of the mean, over all data sets and neighbours.")],
        [
            Comparison("largest change, adding, n = 10", "1/(n+1) = 1/11", str(max(_adding(10)))),
            Comparison(
                "largest change, removing, n = 10",
                "not treated",
                str(max(_removing(10))),
                "the notes derive one of the four neighbours only",
            ),
            Comparison("Lap(1/(ε n)) covers all four neighbours", "yes", "yes" if noise_covers else "no"),
        ],
    )
    # Less than two decades: plain numbers, where powers of ten would run into each other.
    axes.set_xticks([2, 5, 10, 20, 50], labels=["2", "5", "10", "20", "50"])
    axes.set_yticks([0.02, 0.05, 0.1, 0.2, 0.5], labels=["0.02", "0.05", "0.1", "0.2", "0.5"])
    axes.set_xticks([], minor=True)
    axes.set_yticks([], minor=True)
    return section, [data, *save_figure(figure, out, "lecture-sensitivity")]


def _adding(records: int) -> list[Fraction]:
    return [value for name, value in largest_change(records).items() if name.startswith("add")]


def _removing(records: int) -> list[Fraction]:
    return [value for name, value in largest_change(records).items() if name.startswith("remove")]


# --- 2.2: risk --------------------------------------------------------------------------------------------------


def _risk(out: Path) -> tuple[Section, list[Path]]:
    import numpy as np

    from dpcore import samplers

    epsilon = 0.5
    sizes = [10, 20, 50, 100, 200, 500, 1000]
    scales = [1 / (epsilon * n) for n in sizes]
    exact = [2 * b * b for b in scales]
    printed = [b * b for b in scales]
    rng = samplers.InsecureTestRng(_SEED)
    simulated = [float(np.mean(samplers.laplace(b, _SIMULATED, rng=rng) ** 2)) for b in scales]
    data = write_csv(
        out / "lecture-risk.csv",
        {"records": sizes, "scale": scales, "exact": exact, "printed": printed, "simulated": simulated},
    )
    plt = pyplot()
    figure, axes = plt.subplots()
    axes.loglog(sizes, exact, label="2/(ε n)²: the variance of Laplace noise")
    axes.loglog(sizes, printed, label="1/(ε n)²: as printed")
    axes.loglog(sizes, simulated, "o", linestyle="none", label=f"{_SIMULATED} draws each")
    axes.set(xlabel="records n", ylabel="mean squared error", title="Risk of the mean, ε = 0.5")
    axes.legend()
    at = sizes.index(100)
    section = Section(
        "2 and 2.2: variance and risk",
        [
            "The variance of Laplace noise of scale b is 2 b². The notes call b itself the variance, and then use "
            "b². The risk of the mean is 2/(ε n)², for every ε: the printed condition ε < 1/n is not needed."
        ],
        [("lecture-risk", "Mean squared error of the mean of n bits with Laplace noise of scale 1/(ε n).")],
        [
            Comparison(
                "variance of Lap(1/(ε n)), ε = 0.5, n = 100",
                "1/(ε n) = 0.02 (section 2)",
                f"{exact[at]:.6g}",
                "misprint: the parameter b is not the variance",
            ),
            Comparison(
                "risk, ε = 0.5, n = 100",
                f"1/(ε n)² = {printed[at]:.6g} (section 2.2)",
                f"{exact[at]:.6g}; {simulated[at]:.4g} simulated",
                "misprint: Var Lap(b) = 2 b²",
            ),
        ],
    )
    return section, [data, *save_figure(figure, out, "lecture-risk")]


# --- 3 and 4: vectors -------------------------------------------------------------------------------------------


def _vectors(out: Path) -> tuple[Section, list[Path]]:
    """A histogram and k overlapping counts: what L1 and L2 sensitivity ask of the noise."""
    from dpcore import gaussian

    epsilon, delta = 1.0, 1e-6
    dimensions = [2**i for i in range(0, 11)]
    laplace = [math.sqrt(2) * k / epsilon for k in dimensions]
    normal = [float(gaussian.sigma(epsilon=epsilon, delta=delta, sensitivity=math.sqrt(k))) for k in dimensions]
    crossing = next(k for k, a, b in zip(dimensions, laplace, normal, strict=True) if b < a)
    data = write_csv(
        out / "lecture-vectors.csv",
        {"counts": dimensions, "laplace_deviation": laplace, "gaussian_deviation": normal},
    )
    plt = pyplot()
    figure, axes = plt.subplots()
    axes.loglog(dimensions, laplace, label="Laplace noise, L1 sensitivity k")
    axes.loglog(dimensions, normal, label="Gaussian noise, L2 sensitivity √k, δ = 1e-6")
    axes.set(
        xlabel="counts k that one person is in",
        ylabel="standard deviation of the noise",
        title="k counts released together, ε = 1",
    )
    axes.legend()
    section = Section(
        "3 and 4: vectors and sensitivity",
        [
            "Noise of scale Δ₁/ε on each coordinate, Δ₁ the L1 sensitivity, gives loss at most ε whatever the "
            "split of the change over the coordinates. One person who is in all of k counts changes them by k in "
            "L1 but by √k in L2, so that Gaussian noise wins for many counts."
        ],
        [("lecture-vectors", "Noise on each of k counts that one person can all change by one.")],
        [
            Comparison("scale α of the noise on each coordinate", "α = Δ₁ f", "Δ₁ f / ε in all, as printed"),
            Comparison("smallest power of two k at which Gaussian noise is less", "not treated", str(crossing)),
        ],
    )
    return section, [data, *save_figure(figure, out, "lecture-vectors")]


# --- 5: Gaussian noise ------------------------------------------------------------------------------------------


def _gaussian(out: Path) -> tuple[Section, list[Path]]:
    from dpcore import gaussian

    delta = 1e-5
    epsilons = [10 ** (i / 20 - 1) for i in range(0, 41)]
    c = math.sqrt(2 * math.log(1.25 / delta))
    stated = [c / e for e in epsilons]
    printed = [math.sqrt(c * math.log(1 / delta)) / e for e in epsilons]
    least = [float(gaussian.sigma(epsilon=e, delta=delta)) for e in epsilons]
    columns: dict[str, Any] = {
        "epsilon": epsilons,
        "sigma_c": stated,
        "sigma_as_printed": printed,
        "sigma_analytic": least,
        "delta_of_c": [float(gaussian.delta(epsilon=e, sigma=s)) for e, s in zip(epsilons, stated, strict=True)],
        "delta_as_printed": [
            float(gaussian.delta(epsilon=e, sigma=s)) for e, s in zip(epsilons, printed, strict=True)
        ],
        "delta_analytic": [
            float(gaussian.delta(epsilon=e, sigma=s)) for e, s in zip(epsilons, least, strict=True)
        ],
    }
    data = write_csv(out / "lecture-gaussian.csv", columns)
    plt = pyplot()
    figure, axes = plt.subplots()
    axes.loglog(epsilons, columns["delta_of_c"], label="σ = c Δ₂/ε, c² = 2 ln(1.25/δ)")
    axes.loglog(epsilons, columns["delta_as_printed"], label="σ = Δ₂ √(c ln(1/δ))/ε, as printed")
    axes.loglog(epsilons, columns["delta_analytic"], label="smallest σ (analytic)")
    axes.axhline(delta, color="#666666", linewidth=1, linestyle=":", label="δ asked for")
    axes.set(xlabel="epsilon", ylabel="exact delta", title="Exact δ of three formulas for σ, δ = 1e-5")
    axes.legend()
    broken = next(e for e, d in zip(epsilons, columns["delta_of_c"], strict=True) if d > delta)
    one = epsilons.index(1.0)
    section = Section(
        "5: Gaussian noise",
        [
            "Two formulas are printed. σ = c Δ₂/ε with c² ≥ 2 ln(1.25/δ) is the classical one; it holds for ε < 1,"
            " a condition that the notes leave out, and fails from about the ε in the table on. The other, with c "
            "under the root, does not follow from that c. The smallest σ is dpcore.gaussian.sigma."
        ],
        [
            (
                "lecture-gaussian",
                "Exact delta at each epsilon; a curve above the dotted line is not private enough.",
            )
        ],
        [
            Comparison("σ at ε = 1, δ = 1e-5, c Δ₂/ε", f"{stated[one]:.4f}", f"{least[one]:.4f} suffices"),
            Comparison(
                "σ at ε = 1, δ = 1e-5, √(c ln(1/δ)) Δ₂/ε",
                f"{printed[one]:.4f}",
                f"{least[one]:.4f} suffices",
                "misprint: c belongs before the root",
            ),
            Comparison(
                "smallest ε of the grid at which c Δ₂/ε is not enough",
                "none: no condition on ε",
                f"{broken:.3g}",
                "the classical proof needs ε < 1",
            ),
        ],
    )
    return section, [data, *save_figure(figure, out, "lecture-gaussian")]


# --- 5: what (epsilon, delta) means -----------------------------------------------------------------------------


def _meaning(out: Path) -> tuple[Section, list[Path]]:
    from dpcore import accounting, gaussian

    epsilon, delta = 1.0, 1e-5
    sigma = float(gaussian.sigma(epsilon=epsilon, delta=delta))
    within = accounting.from_gaussian(sigma=sigma).confidence(epsilon)
    outside = 1.0 - float(within.lower)
    section = Section(
        "5: what (ε, δ) means",
        [
            "The notes say that an (ε, δ)-private mechanism is ε-private with probability 1/(1 - δ). That number "
            "is above 1. Nor is it 1 - δ: δ bounds the probability of a bad output beyond what e^ε explains, and "
            "the loss of the smallest Gaussian noise for δ leaves [-ε, ε] with a larger probability than δ."
        ],
        [],
        [
            Comparison(
                "1/(1 - δ), δ = 1e-5",
                f"{1 / (1 - delta):.10f}",
                "not a probability",
                "misprint or mistake: above 1",
            ),
            Comparison(
                f"probability that |loss| > 1 for σ = {sigma:.4f} (δ = 1e-5)",
                "at most δ = 1e-5",
                f"{outside:.4g}",
                "δ is not the probability that the loss exceeds ε",
            ),
        ],
    )
    return section, []
