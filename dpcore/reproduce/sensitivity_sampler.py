"""Pain-free random differential privacy with sensitivity sampling (Rubinstein and Aldà 2017), recomputed.

Example 6, Table 1, and Figures 2 to 7 and 9, each with the exact operating points beside the published ones. What
the paper leaves open is chosen here and said on the page. Figures 5 and 6 train support vector machines with
scikit-learn: ``pip install 'dpcore[plot,learn]'``. The whole takes some minutes; an executor of processes helps.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpcore._validation import FloatArray
from dpcore.mechanisms import Bernstein, Laplace
from dpcore.reproduce._common import (
    Comparison,
    Section,
    note,
    pyplot,
    save_figure,
    write_csv,
    write_page,
)
from dpcore.samplers import InsecureTestRng
from dpcore.sensitivity import Mean, SensitivitySampler, operating_point

NAME = "sensitivity-sampler"
LEVELS = (0.5, 0.1, 0.05, 0.01, 0.001)


@dataclass(frozen=True)
class _Sizes:
    """How much work each figure is; `quick` is for trying things out."""

    repeats_4: int = 50
    dimensions_5: tuple[int, ...] = (8, 24, 64)
    samples_5: int = 1500
    repeats_6: int = 500
    records_svm: int = 1000
    records_7: int = 5000
    samples_7: int = 50000
    repeats_7: int = 1000
    dimensions_9: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)


_QUICK = _Sizes(
    repeats_4=5,
    dimensions_5=(8, 16),
    samples_5=30,
    repeats_6=8,
    records_svm=60,
    records_7=100,
    samples_7=600,
    repeats_7=20,
    dimensions_9=(1, 4),
)


@dataclass
class _Run:
    out: Path
    executor: Any
    sizes: _Sizes
    files: list[Path]

    def data(self, name: str, columns: dict[str, Any]) -> None:
        self.files.append(write_csv(self.out / f"{name}.csv", columns))

    def figure(self, figure: Any, name: str) -> None:
        self.files.extend(save_figure(figure, self.out, name))


def run(out: Path, *, executor: Any = None, progress: bool = False, quick: bool = False) -> list[Path]:
    """Write figures, data and the page to `out`; return the files.

    Parameters
    ----------
    out : Path
        Folder, made if it does not exist.
    executor : concurrent.futures-compatible, optional
        Where targets are evaluated; the numbers do not depend on it.
    progress : bool
        Say on the terminal what is being done.
    quick : bool
        Far smaller samples: everything is run, but the curves are rough.
    """
    work = _Run(Path(out), executor, _QUICK if quick else _Sizes(), [])
    steps: list[tuple[str, Callable[[_Run], Section]]] = [
        ("operating points (Table 1, Figures 2 and 3)", _operating_points),
        ("Example 6 and Figure 4", _loan_defaults),
        ("Figure 5: sensitivity of a support vector machine", _svm_sensitivity),
        ("Figure 6: error of a support vector machine", _svm_error),
        ("Figure 7: kernel density", _kernel_density),
        ("Figure 9: mean of bounded data", _bounded_mean),
    ]
    sections = []
    for text, step in steps:
        note(progress, text)
        sections.append(step(work))
    title = "Sensitivity sampling: Rubinstein and Aldà (2017), published and recomputed"
    work.files.extend(write_page(work.out, NAME, title, sections))
    return work.files


# --- Table 1, Figures 2 and 3 -------------------------------------------------------------------------------


def _operating_points(work: _Run) -> Section:
    gammas = np.geomspace(0.001, 0.5, 60)
    points = {
        method: [operating_point(gamma=float(g), method=method).samples for g in gammas]
        for method in ("published", "confident", "exchangeable")
    }
    work.data("sensitivity-sampler-figure-2", {"gamma": gammas.tolist(), **points})
    plot = pyplot()
    figure, axes = plot.subplots()
    axes.loglog(gammas, points["published"], label="published (Table 1, row 1)")
    axes.loglog(gammas, points["confident"], label="exact, confidence 0.99")
    axes.loglog(gammas, points["exchangeable"], label="exact, same guarantee")
    axes.set(xlabel="gamma", ylabel="samples needed", title="Figure 2: sampling effort for a privacy confidence")
    axes.legend()
    work.figure(figure, "sensitivity-sampler-figure-2")

    figure, axes = plot.subplots()
    columns: dict[str, list[Any]] = {"samples": [], "gamma": [], "published": [], "exchangeable": []}
    for i, samples in enumerate((100, 1000, 10000)):
        least = operating_point(samples=samples, method="published").gamma
        levels = np.geomspace(1 / (samples + 1) * 1.0001, 0.5, 80)
        published = [
            operating_point(gamma=float(g), samples=samples, method="published").order / samples
            if g >= least
            else math.nan
            for g in levels
        ]
        exact = [operating_point(gamma=float(g), samples=samples).order / samples for g in levels]
        columns["samples"] += [samples] * len(levels)
        columns["gamma"] += levels.tolist()
        columns["published"] += published
        columns["exchangeable"] += exact
        axes.semilogx(levels, published, color=f"C{i}", linestyle="-", label=f"m = {samples}, published")
        axes.semilogx(levels, exact, color=f"C{i}", linestyle=":", label=f"m = {samples}, exact")
    axes.set(xlabel="gamma", ylabel="order statistic k/m", title="Figure 3: which order statistic to take")
    axes.legend()
    work.data("sensitivity-sampler-figure-3", columns)
    work.figure(figure, "sensitivity-sampler-figure-3")

    table = [(8, "m"), (285, "m"), (1305, "m = k"), (41971, "m"), (5486187, "m")]
    comparisons = []
    for gamma, (checked, what) in zip(LEVELS, table, strict=True):
        table_1 = operating_point(gamma=gamma, method="published")
        ours = operating_point(gamma=gamma)
        assert table_1.samples == checked
        comparisons.append(
            Comparison(
                f"Table 1, row 1, gamma = {gamma}: {what}",
                f"{table_1.samples} (rho = {table_1.rho:.7g})",
                f"{ours.samples}",
                f"the same guarantee by exchangeability, {table_1.samples / ours.samples:.0f} times fewer; "
                f"{operating_point(gamma=gamma, method='confident').samples} with confidence 0.99",
            )
        )
    for samples in (100, 1000, 10000):
        comparisons.append(
            Comparison(
                f"Table 1, row 3, m = {samples}: smallest gamma",
                f"{operating_point(samples=samples, method='published').gamma:.4g}",
                f"{operating_point(samples=samples).gamma:.4g}",
                "what the largest of m sensitivities guarantees: 1/(m + 1)",
            )
        )
    return Section(
        "Operating points: Table 1, Figures 2 and 3",
        (
            "Theorem 15 bounds the empirical distribution function everywhere (Dvoretzky, Kiefer and Wolfowitz) "
            "to use it in one place. The new pair and the sampled ones are exchangeable, so the k-th smallest "
            "of m sensitivities is exceeded with probability at most (m + 1 - k)/(m + 1), for every "
            "distribution: the same guarantee with far fewer samples.",
        ),
        (
            ("sensitivity-sampler-figure-2", "Samples needed for a given gamma."),
            (
                "sensitivity-sampler-figure-3",
                "Order statistic that a given gamma allows, relative to the number of samples.",
            ),
        ),
        comparisons,
    )


# --- Example 6, Figure 4 ------------------------------------------------------------------------------------


def exponential(count: int, rng: np.random.Generator) -> FloatArray:
    """Default times with rate 1."""
    return rng.exponential(size=count)


def _sorted_sensitivities(sampler: SensitivitySampler, samples: int, seed: int, executor: Any) -> FloatArray:
    sampler.estimate(samples=samples, seed=seed, executor=executor)
    assert sampler.evaluations is not None
    return np.sort(sampler.evaluations.sensitivities)


def _loan_defaults(work: _Run) -> Section:
    records = 100
    budgets = (100, 1000, 10000)
    gammas = np.geomspace(0.001, 0.5, 50)
    analytic = np.log(1 / gammas) / records
    sampler = SensitivitySampler(Mean(), exponential, records=records)
    columns: dict[str, Any] = {"gamma": gammas.tolist(), "analytic": analytic.tolist()}
    plot = pyplot()
    figure, axes = plot.subplots()
    axes.loglog(gammas, analytic, color="C6", linestyle="-", label="analytic, log(1/gamma)/n")
    nearest = {}
    for i, samples in enumerate(budgets):
        found = np.array(
            [
                _sorted_sensitivities(sampler, samples, 1000 * i + repeat, None)
                for repeat in range(work.sizes.repeats_4)
            ]
        ).mean(axis=0)
        for method, style in (("published", "--"), ("exchangeable", ":")):
            least = operating_point(samples=samples, method=method).gamma
            curve = [
                float(found[operating_point(gamma=float(g), samples=samples, method=method).order - 1])
                if g >= least
                else math.nan
                for g in gammas
            ]
            columns[f"{method}_{samples}"] = curve
            label = "exact" if method == "exchangeable" else method
            axes.loglog(gammas, curve, color=f"C{i}", linestyle=style, label=f"m = {samples}, {label}")
            at = int(np.argmin(np.abs(gammas - 0.1)))
            nearest[samples, method] = curve[at] / analytic[at]
    axes.set(xlabel="gamma", ylabel="sensitivity", title="Figure 4: mean of 100 exponential default times")
    axes.legend(fontsize=8)
    work.data("sensitivity-sampler-figure-4", columns)
    work.figure(figure, "sensitivity-sampler-figure-4")
    estimate = sampler.estimate(gamma=0.05, seed=1)
    rows = [
        Comparison(
            "Example 6: sensitivity for gamma = 0.05, n = 100, rate 1",
            f"{math.log(20) / 100:.5g} (analytic)",
            f"{estimate.sensitivity:.5g}",
            "one estimate from 19 sampled pairs: the largest of them, on average "
            f"{sum(1 / j for j in range(1, 20)) / 100:.5g}, a little more than the analytic quantile",
        )
    ]
    for samples in budgets:
        published = nearest[samples, "published"]
        text = "not reachable" if math.isnan(published) else f"{published:.3f}"
        rows.append(
            Comparison(
                f"Figure 4: estimate/analytic near gamma = 0.1, m = {samples}, mean of "
                f"{work.sizes.repeats_4} repeats",
                f"{text} (published k)",
                f"{nearest[samples, 'exchangeable']:.3f} (exact k)",
                "the smaller order statistic is nearer to the analytic value, at the same guarantee",
            )
        )
    return Section(
        "Example 6 and Figure 4: loan defaults",
        (
            "|f(D) - f(D')| is exponential with rate n, so the sensitivity for gamma is log(1/gamma)/n. The "
            "paper does not say n; n = 100 here, and every curve only scales with 1/n.",
        ),
        (("sensitivity-sampler-figure-4", "Analytic sensitivity and sampled ones."),),
        rows,
    )


# --- Figures 5 and 6 ----------------------------------------------------------------------------------------

_C = 3.0


def two_classes(count: int, rng: np.random.Generator, *, dimension: int) -> FloatArray:
    """Rows of features and a label: N(0.2, 0.01) for class 1, N(0.8, 0.01) for class -1, by coordinate."""
    label = np.where(rng.random(count) < 0.5, 1.0, -1.0)
    centre = np.where(label > 0, 0.2, 0.8)[:, None]
    return np.column_stack((centre + 0.1 * rng.normal(size=(count, dimension)), label))


def linear_svm(data: FloatArray) -> FloatArray:
    """Normal vector and bias of the linear support vector machine with penalty C/n."""
    try:
        from sklearn.svm import SVC
    except ImportError:
        raise ImportError("Figures 5 and 6 need scikit-learn: pip install 'dpcore[learn]'") from None
    model = SVC(C=_C / len(data), kernel="linear", tol=1e-6).fit(data[:, :-1], data[:, -1])
    return np.append(model.coef_[0], model.intercept_)


def _ticks(axes: Any, at: Sequence[float]) -> None:
    """Plain numbers on a logarithmic axis that spans little more than one decade."""
    axes.set_xticks(at, labels=[f"{x:g}" for x in at])
    axes.set_xticks([], minor=True)


def _global_svm(dimension: int, records: int) -> float:
    """Proposition 19."""
    return 2 + 2 * _C * math.sqrt(dimension) + 4 * _C * dimension / records


def _svm_sampler(dimension: int, records: int) -> SensitivitySampler:
    sample = functools.partial(_seeded_classes, dimension=dimension)
    return SensitivitySampler(linear_svm, sample, records=records)


def _seeded_classes(count: int, rng: np.random.Generator, dimension: int) -> FloatArray:
    return two_classes(count, rng, dimension=dimension)


def _svm_sensitivity(work: _Run) -> Section:
    records, samples = work.sizes.records_svm, work.sizes.samples_5
    gammas = [float(g) for g in np.geomspace(0.05, 0.5, 12)]
    columns: dict[str, list[Any]] = {k: [] for k in ("dimension", "gamma", "published", "exact", "global")}
    plot = pyplot()
    figure, axes = plot.subplots()
    rows = []
    for i, dimension in enumerate(work.sizes.dimensions_5):
        found = _sorted_sensitivities(_svm_sampler(dimension, records), samples, 5 + i, work.executor)
        bound = _global_svm(dimension, records)
        least = operating_point(samples=samples, method="published").gamma
        published = [
            float(found[operating_point(gamma=g, samples=samples, method="published").order - 1])
            if g >= least
            else math.nan
            for g in gammas
        ]
        exact = [float(found[operating_point(gamma=g, samples=samples).order - 1]) for g in gammas]
        columns["dimension"] += [dimension] * len(gammas)
        columns["gamma"] += gammas
        columns["published"] += published
        columns["exact"] += exact
        columns["global"] += [bound] * len(gammas)
        axes.loglog(gammas, [bound] * len(gammas), color=f"C{i}", linestyle="-", label=f"d = {dimension}, global")
        axes.loglog(gammas, published, color=f"C{i}", linestyle="--", label=f"d = {dimension}, published k")
        axes.loglog(gammas, exact, color=f"C{i}", linestyle=":", label=f"d = {dimension}, exact k")
        rows.append(
            Comparison(
                f"Figure 5, d = {dimension}: sampled against global sensitivity",
                "about 0.01 against more than 20",
                f"{exact[0]:.3g} (gamma = 0.05) against {bound:.3g}",
                f"a factor of {bound / exact[0]:.0f}; the text says two orders of magnitude where its own "
                "numbers give three"
                if i == 0
                else f"a factor of {bound / exact[0]:.0f}; more coordinates make more records support vectors",
            )
        )
    axes.set(xlabel="gamma", ylabel="L1 sensitivity", title=f"Figure 5: linear SVM, n = {records}")
    _ticks(axes, (0.05, 0.1, 0.2, 0.5))
    axes.set_ylim(bottom=1e-4)  # below is the rounding of a solver whose solution did not change
    axes.legend(fontsize=7, ncols=3)  # one column for each d
    work.data("sensitivity-sampler-figure-5", columns)
    work.figure(figure, "sensitivity-sampler-figure-5")
    return Section(
        "Figure 5: sensitivity of a linear support vector machine",
        (
            f"C = {_C:g}, n = {records}, m = {samples}; the release is the normal vector and the bias. The "
            "global bound is Proposition 19. Features are drawn from the normal distributions of the paper, "
            "which reach a little outside [0, 1].",
            "Where a curve leaves the figure, the replaced record is no support vector in more than 1 - gamma of "
            "the pairs: the machine does not change at all, and what is left is rounding. Such an estimate asks "
            "for almost no noise; it is right for that gamma, and a reason to ask for a smaller one.",
        ),
        (("sensitivity-sampler-figure-5", "Global and sampled sensitivity."),),
        rows,
    )


def _svm_error(work: _Run) -> Section:
    records, dimension, gamma = work.sizes.records_svm, 2, 0.05
    sampler = _svm_sampler(dimension, records)
    published = operating_point(gamma=gamma, method="published").samples
    budget = published if work.sizes is not _QUICK else 30
    found = _sorted_sensitivities(sampler, budget, 61, work.executor)
    exact = sampler.estimate(gamma=gamma, seed=62, executor=work.executor).sensitivity
    scales = {
        "global": _global_svm(dimension, records),
        "published": float(found[-1]),
        "exact": exact,
    }
    epsilons = np.geomspace(0.01, 1000, 26)
    rng = np.random.default_rng(63)
    noise = InsecureTestRng(64)
    test = two_classes(2000, rng, dimension=dimension)
    errors = {name: np.zeros(len(epsilons)) for name in scales}
    clean = 0.0
    for _ in range(work.sizes.repeats_6):
        model = linear_svm(two_classes(records, rng, dimension=dimension))
        clean += _misclassified(model, test) / work.sizes.repeats_6
        for name, sensitivity in scales.items():
            for j, epsilon in enumerate(epsilons):
                mechanism = Laplace(
                    epsilon=float(epsilon), sensitivity=sensitivity, dimension=dimension + 1, norm="l1"
                )
                errors[name][j] += _misclassified(mechanism.release(model, rng=noise), test)
    for values in errors.values():
        values /= work.sizes.repeats_6
    columns = {"epsilon": epsilons.tolist(), "non_private": [clean] * len(epsilons)}
    work.data(
        "sensitivity-sampler-figure-6", {**columns, **{name: values.tolist() for name, values in errors.items()}}
    )
    plot = pyplot()
    figure, axes = plot.subplots()
    axes.semilogx(epsilons, columns["non_private"], color="C6", linestyle="-", label="not private")
    axes.semilogx(epsilons, errors["global"], color="C0", linestyle="-", label="global sensitivity")
    labels = {"published": f"sampled, m = {budget}", "exact": "sampled, m = 19"}
    for i, (name, label) in enumerate(labels.items()):
        axes.semilogx(epsilons, errors[name], color=f"C{i + 1}", linestyle=("--", ":")[i], label=label)
    axes.set(xlabel="epsilon", ylabel="share misclassified", title="Figure 6: linear SVM, d = 2, gamma = 0.05")
    axes.legend()
    work.figure(figure, "sensitivity-sampler-figure-6")
    reach = {name: _first_below(epsilons, values, clean + 0.05) for name, values in errors.items()}
    return Section(
        "Figure 6: error of a private support vector machine",
        (
            f"Misclassified share on fresh data, mean of {work.sizes.repeats_6} training sets; Laplace mechanism "
            "on normal vector and bias.",
        ),
        (("sensitivity-sampler-figure-6", "Misclassification against the privacy budget."),),
        [
            Comparison(
                "Figure 6: epsilon from which the error is within 0.05 of the non-private one",
                "global sensitivity much later than sampled (curves only)",
                f"global {reach['global']}, sampled with m = {budget}: {reach['published']}, "
                f"with m = 19: {reach['exact']}",
                f"sensitivities {scales['global']:.3g}, {scales['published']:.3g} and {scales['exact']:.3g}; "
                "both sampled ones have gamma = 0.05",
            )
        ],
    )


def _misclassified(model: Any, test: FloatArray) -> float:
    return float(np.mean(np.sign(test[:, :-1] @ model[:-1] + model[-1]) != test[:, -1]))


def _first_below(epsilons: FloatArray, errors: FloatArray, level: float) -> str:
    good = np.flatnonzero(errors <= level)
    return f"{epsilons[good[0]]:.3g}" if len(good) else "never"


# --- Figure 7 -----------------------------------------------------------------------------------------------

_BANDWIDTH = 0.05
_LATTICE, _ORDER = 10, 3


def mixture(count: int, rng: np.random.Generator) -> FloatArray:
    """0.4 N(0.5, 0.02) + 0.6 N(0.75, 0.005), second parameters variances."""
    first = rng.random(count) < 0.4
    return np.where(
        first, rng.normal(0.5, math.sqrt(0.02), size=count), rng.normal(0.75, math.sqrt(0.005), size=count)
    )


def _kernel(distance: FloatArray) -> FloatArray:
    scaled = distance / _BANDWIDTH
    out: FloatArray = np.exp(-scaled * scaled / 2) / (_BANDWIDTH * math.sqrt(2 * math.pi))
    return out


class KernelDensity:
    """Gaussian kernel density on the lattice; the two neighbours share all but one kernel."""

    def __init__(self) -> None:
        self.points = np.arange(_LATTICE + 1) / _LATTICE

    def __call__(self, data: FloatArray, points: FloatArray | None = None) -> FloatArray:
        """The density of one database at the points."""
        at = self.points if points is None else points
        out: FloatArray = np.mean([_kernel(at - x) for x in data], axis=0)
        return out

    def pair(self, common: FloatArray, a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Densities of both neighbours for a batch, less the part they share, which cancels."""
        n = common.shape[1] + 1
        return _kernel(self.points - a[:, None]) / n, _kernel(self.points - b[:, None]) / n


def _kernel_density(work: _Run) -> Section:
    records, samples = work.sizes.records_7, work.sizes.samples_7
    density = KernelDensity()
    sampler = SensitivitySampler(density, mixture, records=records, norm="sup", vectorised=True)
    found = _sorted_sensitivities(sampler, samples, 71, work.executor)
    scales = {"global": float(_kernel(np.zeros(1))[0]) / records}
    for gamma in (0.1, 0.5):
        point = operating_point(gamma=gamma, samples=samples, method="published")
        scales[f"published, gamma = {gamma:g}"] = float(found[point.order - 1])
        scales[f"exact, gamma = {gamma:g}"] = float(found[operating_point(gamma=gamma, samples=samples).order - 1])
    few = operating_point(gamma=0.1).samples
    rng = np.random.default_rng(72)
    noise = InsecureTestRng(73)
    data = mixture(records, rng)
    grid = np.linspace(0, 1, 101)
    lattice_values, truth = density(data), density(data, grid)
    epsilons = np.geomspace(0.01, 100, 17)
    errors = {}
    for name, sensitivity in scales.items():
        errors[name] = np.array(
            [
                _density_error(float(e), sensitivity, lattice_values, truth, grid, noise, work.sizes.repeats_7)
                for e in epsilons
            ]
        )
    exact = Bernstein(epsilon=1e9, sensitivity=1e-12, lattice=_LATTICE, order=_ORDER)
    floor = float(np.mean(np.abs(exact.release(lattice_values, rng=noise)(grid) - truth)) / np.mean(truth))
    work.data(
        "sensitivity-sampler-figure-7",
        {"epsilon": epsilons.tolist(), **{name: values.tolist() for name, values in errors.items()}},
    )
    plot = pyplot()
    figure, axes = plot.subplots()
    styles = {"global": ("C0", "-"), "published": ("C1", "--"), "exact": ("C2", ":")}
    for name, values in errors.items():
        colour, line = styles[name.split(",")[0]]
        weight = 1.2 if name.endswith("0.5") else 2.2
        axes.loglog(epsilons, values, color=colour, linestyle=line, linewidth=weight, label=name)
    axes.axhline(floor, color="C6", linewidth=1, label="Bernstein approximation alone")
    axes.set(
        xlabel="epsilon",
        ylabel="mean absolute error / mean density",
        title=f"Figure 7: kernel density, {records} points, k = {_LATTICE}, h = {_ORDER}",
    )
    axes.legend(fontsize=8)
    work.figure(figure, "sensitivity-sampler-figure-7")
    return Section(
        "Figure 7: kernel density released by the Bernstein mechanism",
        (
            f"Gaussian kernel; the paper does not say its bandwidth, {_BANDWIDTH:g} here. m = {samples}, gamma = "
            "0.1 and 0.5 (the paper's two values are in its figure only). Errors relative to the non-private "
            f"density, mean of {work.sizes.repeats_7} releases. The estimates with m = {samples} hardly differ: "
            f"for gamma = 0.1 the exact method would have needed {few} samples.",
        ),
        (("sensitivity-sampler-figure-7", "Error of the released density against the privacy budget."),),
        [
            Comparison(
                f"Figure 7: sup-norm sensitivity, {name}",
                "curves only",
                f"{value:.4g}",
                "" if name == "global" else f"{scales['global'] / value:.2f} times below the global one",
            )
            for name, value in scales.items()
        ],
    )


def _density_error(
    epsilon: float,
    sensitivity: float,
    values: FloatArray,
    truth: FloatArray,
    grid: FloatArray,
    noise: InsecureTestRng,
    repeats: int,
) -> float:
    mechanism = Bernstein(epsilon=epsilon, sensitivity=sensitivity, lattice=_LATTICE, order=_ORDER)
    total = 0.0
    for _ in range(repeats):
        total += float(np.mean(np.abs(mechanism.release(values, rng=noise)(grid) - truth)))
    return total / repeats / float(np.mean(truth))


# --- Figure 9 -----------------------------------------------------------------------------------------------


def _uniform(count: int, rng: np.random.Generator, dimension: int) -> FloatArray:
    return rng.random((count, dimension))


def _bounded_mean(work: _Run) -> Section:
    records = 500
    gammas = (0.05, 0.1, 0.5)
    columns: dict[str, list[Any]] = {"dimension": [], "gamma": [], "published": [], "exact": [], "global": []}
    plot = pyplot()
    figure, axes = plot.subplots()
    dimensions = work.sizes.dimensions_9
    axes.loglog(dimensions, [d / records for d in dimensions], color="C6", linestyle="-", label="global, d/n")
    for i, gamma in enumerate(gammas):
        lines: dict[str, list[float]] = {"published": [], "exact": []}
        for d in dimensions:
            sampler = SensitivitySampler(Mean(), functools.partial(_uniform, dimension=d), records=records)
            for name, method, repeats in (("published", "published", 1), ("exact", "exchangeable", 20)):
                found = [
                    sampler.estimate(gamma=gamma, method=method, seed=10**4 * i + 100 * d + j).sensitivity
                    for j in range(repeats)
                ]
                lines[name].append(float(np.mean(found)))
            columns["dimension"].append(d)
            columns["gamma"].append(gamma)
            columns["global"].append(d / records)
        for name, style in (("published", "--"), ("exact", ":")):
            columns[name] += lines[name]
            axes.loglog(
                dimensions, lines[name], color=f"C{i}", linestyle=style, label=f"gamma = {gamma:g}, {name}"
            )
    axes.set(xlabel="dimension", ylabel="L1 sensitivity", title="Figure 9: mean of 500 points of [0, 1]^d")
    _ticks(axes, dimensions)
    axes.legend(fontsize=8)
    work.data("sensitivity-sampler-figure-9", columns)
    work.figure(figure, "sensitivity-sampler-figure-9")
    last = len(dimensions) - 1
    return Section(
        "Figure 9: mean of bounded data",
        (
            "Uniform records in [0, 1]^d, n = 500; global sensitivity d/n in the L1 norm. With m optimised for "
            "gamma, the published choice is always the largest of m sensitivities; the exact one is the largest "
            "of fewer, so it is smaller, at the same guarantee (mean of 20 estimates).",
        ),
        (("sensitivity-sampler-figure-9", "Global and sampled sensitivity by dimension."),),
        [
            Comparison(
                f"Figure 9, d = {dimensions[last]}, gamma = {gamma:g}: sensitivity",
                f"{columns['published'][j * len(dimensions) + last]:.4g} "
                f"(m = {operating_point(gamma=gamma, method='published').samples})",
                f"{columns['exact'][j * len(dimensions) + last]:.4g} (m = {operating_point(gamma=gamma).samples})",
                f"global {dimensions[last] / records:.4g}",
            )
            for j, gamma in enumerate(gammas)
        ],
    )
