"""The thesis on partial knowledge: chapter 5 finished, its figures, and the comparison that it lacks.

``run(out)`` writes figures (PNG, SVG), data (CSV) and ``partial-knowledge.md`` and ``.html``. The grid is computed
in chunks that any ``concurrent.futures`` executor can take (threads, processes, ``dask.distributed``).
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np

from dpcore import gaussian
from dpcore import partial_knowledge as pk
from dpcore._progress import Progress
from dpcore.partial_knowledge import published
from dpcore.partial_knowledge._unknown_bias import calibrate_from_estimate, make_plan
from dpcore.reproduce._common import Comparison, Section, note, pyplot, save_figure, write_csv, write_page

NAME = "partial-knowledge"
TITLE = "Counts under partial knowledge: the evaluation, finished"

RECORDS = (10**4, 10**5, 10**6, 10**7, 10**9)
EPSILONS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
BIASES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
SHARES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
COLUMNS = (
    "records",
    "epsilon",
    "delta",
    "bias",
    "known_share",
    "noise",
    "noise_unknown_bias",
    "analytic",
    "probabilistic",
    "classical",
    "saving",
)

Cell = tuple[int, float, float, float, float, bool]


def grid(
    records: Sequence[int] = RECORDS,
    epsilons: Sequence[float] = EPSILONS,
    biases: Sequence[float] = BIASES,
    shares: Sequence[float] = SHARES,
) -> list[Cell]:
    """Cells of the evaluation: records, epsilon, delta, bias, known share, and whether to estimate the bias.

    Delta is 1e-6 and 1/records^2. The bias is estimated as well for known shares 0.1, 0.5 and 0.9.
    """
    return [
        (n, epsilon, delta, bias, share, share in (0.1, 0.5, 0.9))
        for n, epsilon, bias, share in itertools.product(records, epsilons, biases, shares)
        for delta in (1e-6, float(n) ** -2)
    ]


def evaluate(cells: Iterable[Cell]) -> list[tuple[float, ...]]:
    """Rows of the evaluation (see `COLUMNS`); a function of its argument alone, for executors."""
    rows: list[tuple[float, ...]] = []
    for n, epsilon, delta, bias, share, unknown in cells:
        known = min(n - 1, round(share * n))
        found = pk.calibrate(epsilon=epsilon, delta=delta, records=n, known=known, bias=bias)
        with_estimate = math.nan
        if unknown:
            # The noise of the estimate is left out (its expected value), so that the table is reproducible.
            plan = make_plan(n, known, epsilon, delta, "passive", None, None, math.inf)
            with_estimate = calibrate_from_estimate(plan, float(round(bias * n))).combined_noise_scale
        rows.append(
            (
                n,
                epsilon,
                delta,
                bias,
                share,
                found.noise_scale,
                with_estimate,
                found.gaussian_sigma,
                float(gaussian.sigma(epsilon=epsilon, delta=delta, method="probabilistic")),
                float(gaussian.sigma(epsilon=epsilon, delta=delta, method="classical"))
                if epsilon < 1
                else math.nan,
                found.saving,
            )
        )
    return rows


def run(
    out: Path,
    *,
    cells: Sequence[Cell] | None = None,
    executor: Executor | None = None,
    progress: bool = False,
) -> list[Path]:
    """Write everything into `out` and return the files.

    Parameters
    ----------
    out : Path
        Folder, made if missing.
    cells : sequence, optional
        Another grid than the default one, as made by `grid`, for the table; the figures do not depend on it.
    executor : concurrent.futures.Executor, optional
        Where the grid is computed; in this process by default.
    progress : bool
        Show how far it is, on a terminal.
    """
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    sections: list[Section] = []
    cells = grid() if cells is None else cells
    chunks = [cells[i : i + 70] for i in range(0, len(cells), 70)]
    rows: list[tuple[float, ...]] = []
    results = map(evaluate, chunks) if executor is None else executor.map(evaluate, chunks)
    with Progress(progress, len(chunks), "evaluation") as bar:
        for i, part in enumerate(results):
            rows += part
            bar.update(i + 1)
    table = {name: [row[i] for row in rows] for i, name in enumerate(COLUMNS)}
    table["records"] = [int(n) for n in table["records"]]
    files.append(write_csv(out / "partial-knowledge-evaluation.csv", table))
    for step in (_comparison, _baselines, _losses, _run_times, _chernoff, _truncation, _occurrence):
        note(progress, step.__name__.strip("_").replace("_", " "))
        section, made = step(out, table)
        sections.append(section)
        files += made
    return files + write_page(out, NAME, TITLE, sections)


def _relative(n: int, known: int, epsilon: float, bias: float) -> tuple[float, float]:
    """Noise over analytic sigma at delta = 1e-6: bias known, and bias estimated (at the expected estimate)."""
    found = pk.calibrate(epsilon=epsilon, delta=1e-6, records=n, known=known, bias=bias)
    plan = make_plan(n, known, epsilon, 1e-6, "passive", None, None, math.inf)
    estimated = calibrate_from_estimate(plan, float(round(bias * n))).combined_noise_scale
    return found.noise_scale / found.gaussian_sigma, estimated / found.gaussian_sigma


def _comparison(out: Path, table: dict[str, list[Any]]) -> tuple[Section, list[Path]]:
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True)
    epsilons = np.geomspace(0.001, 1.0, 61)
    data: dict[str, list[float]] = {name: [] for name in ("records", "epsilon", "bias", "known_share")}
    data |= {"known_bias": [], "estimated_bias": []}

    def curve(axis: Any, color: str, label: str, x: Any, cells: list[tuple[int, float, float, float]]) -> None:
        values = np.array([_relative(n, min(n - 1, round(share * n)), e, bias) for n, e, bias, share in cells])
        axis.plot(x, values[:, 0], color=color, linestyle="-", label=label)
        axis.plot(x, values[:, 1], color=color, linestyle=":")
        for cell, row in zip(cells, values.tolist(), strict=True):
            for name, value in zip(data, (*cell, *row), strict=True):
                data[name].append(value)

    for i, n in enumerate((10**4, 10**5, 10**6, 10**7, 10**9)):
        curve(axes[0], f"C{i}", f"{n:,} records", epsilons, [(n, float(e), 0.5, 0.5) for e in epsilons])
    shares = np.linspace(0.01, 0.99, 50)
    for i, bias in enumerate((0.01, 0.1, 0.5)):
        curve(axes[1], f"C{i}", f"bias {bias:g}", shares, [(10**6, 0.01, bias, float(s)) for s in shares])
    for axis, x in ((axes[0], epsilons[:-1]), (axes[1], np.array([0.01, 0.99]))):
        e = x if axis is axes[0] else np.full(2, 0.01)
        plain = np.asarray(gaussian.sigma(epsilon=e, delta=1e-6))
        for method, style in (("probabilistic", "--"), ("classical", "-.")):
            sigma = np.asarray(gaussian.sigma(epsilon=e, delta=1e-6, method=method))
            axis.plot(x, sigma / plain, color="black", linestyle=style, label=f"{method} sigma")
        axis.plot(x, np.ones(len(x)), color="black", linestyle="-", label="analytic sigma")
        axis.plot([], [], color="gray", linestyle=":", label="dotted: bias estimated")
    axes[0].set(xscale="log", xlabel="epsilon", ylabel="noise over the analytic sigma", ylim=(-0.05, 2.9))
    axes[0].set_title("bias 0.5, half of the records known")
    axes[1].set(xlabel="share of the records that is known")
    axes[1].set_title("a million records, epsilon 0.01")
    for axis in axes:
        axis.legend(fontsize=7, ncols=2, loc="upper center")
    files = [
        *save_figure(figure, out, "partial-knowledge-comparison"),
        write_csv(out / "partial-knowledge-comparison.csv", data),
    ]
    zero = sum(1 for x in table["noise"] if x == 0.0)
    half = sum(1 for x in table["saving"] if x >= 0.5)
    pairs = [(a, b) for a, b in zip(table["noise_unknown_bias"], table["analytic"], strict=True) if a == a]
    section = Section(
        "Noise against partial knowledge and against everyone",
        (
            f"Of {len(table['noise'])} cells {zero} need no noise at all and {half} less than half of the "
            f"plain noise. "
            "No cell needs more than the analytic Gaussian. With an unknown bias (and a passive attacker) "
            f"{sum(1 for a, b in pairs if a < 0.5 * b)} of {len(pairs)} cells need less than half, both "
            f"releases counted.",
        ),
        (("partial-knowledge-comparison", "The comparison that the thesis could not finish."),),
        (
            Comparison(
                "Research answer 4", "not evaluated", f"{zero} of {len(table['noise'])} cells need no noise"
            ),
        ),
    )
    return section, files


def _baselines(out: Path, table: dict[str, list[Any]]) -> tuple[Section, list[Path]]:
    plt = pyplot()
    epsilon = np.geomspace(0.001, 0.99, 60)
    figure, axis = plt.subplots()
    data: dict[str, Any] = {"epsilon": epsilon.tolist()}
    styles = {"classical": "-", "probabilistic": "--", "analytic": ":"}
    for i, n in enumerate((10**4, 10**5, 10**6, 10**7)):
        for method, style in styles.items():
            values = np.asarray(gaussian.sigma(epsilon=epsilon, delta=1e-6, sensitivity=1 / n, method=method))
            data[f"{method}_{n}"] = values.tolist()
            label = f"{n:,} records" if method == "classical" else None
            axis.plot(epsilon, values, color=f"C{i}", linestyle=style, label=label)
    for method, style in styles.items():
        axis.plot([], [], color="gray", linestyle=style, label=method)
    axis.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="noise scale of the mean")
    axis.legend(fontsize=8, ncols=2)
    files = [
        *save_figure(figure, out, "partial-knowledge-figure-3-1"),
        write_csv(out / "partial-knowledge-figure-3-1.csv", data),
    ]
    section = Section(
        "Figure 3.1: classical and optimal sigma",
        (
            "The 'optimal sigma' of Corollary 3.2 (with sqrt(2) epsilon for the misprinted sqrt(2 epsilon)) "
            "makes the "
            "probability of a loss above epsilon equal to delta; the analytic sigma, the smallest of all, "
            "is below it.",
        ),
        (("partial-knowledge-figure-3-1", "Noise of a mean, sensitivity 1/n, delta 1e-6."),),
    )
    return section, files


def _losses(out: Path, table: dict[str, list[Any]]) -> tuple[Section, list[Path]]:
    # |ln of the ratio of neighbouring binomial probabilities|, |D| = 5000, |D'| = 3000, bias_D = 0.4
    # (equation 4.32).
    records, known, count = 5000, 3000, 2000
    bias = np.linspace(0.01, 0.99, 197)

    def loss(hits: Any, p: Any) -> Any:
        rest = count - hits
        return np.abs(np.log(records - known - rest) - np.log(rest) + np.log(p) - np.log1p(-p))

    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2))
    data: dict[str, Any] = {"bias": bias.tolist()}
    for hits in (500, 1000, 1500):
        data[f"hits_{hits}"] = loss(hits, bias).tolist()
        axes[0].plot(bias, data[f"hits_{hits}"], label=f"{hits} hits among the known")
    axes[0].set(xlabel="bias", ylabel="privacy loss")
    axes[0].legend()
    every = np.arange(10, 1991, 20)
    plane = loss(every[:, None], bias)
    image = axes[1].pcolormesh(bias, every, np.minimum(plane, 5), shading="auto", rasterized=True)
    axes[1].set(xlabel="bias", ylabel="hits among the known")
    figure.colorbar(image, ax=axes[1], label="privacy loss")
    files = [
        *save_figure(figure, out, "partial-knowledge-figure-4-1"),
        write_csv(out / "partial-knowledge-figure-4-1.csv", data),
    ]
    least = {hits: float(bias[int(np.argmin(loss(hits, bias)))]) for hits in (500, 1000, 1500)}
    section = Section(
        "Figure 4.1: the loss is not smallest at 1/2",
        ("The minimum lies at the bias of the unknown records, so Conjecture 3.9 is false, as the thesis found.",),
        (("partial-knowledge-figure-4-1", "Losses for |D| = 5000, |D'| = 3000, bias_D = 0.4."),),
        tuple(
            Comparison(f"minimum for {hits} hits", want, f"{least[hits]:.3f}")
            for hits, want in ((500, "0.75"), (1000, "0.5"), (1500, "0.25"))
        ),
    )
    return section, files


def _run_times(out: Path, table: dict[str, list[Any]]) -> tuple[Section, list[Path]]:
    from scipy import stats

    data: dict[str, list[float]] = {"records": [], "known_share": [], "scipy_seconds": [], "dpcore_seconds": []}
    published.occurrence_probabilities(records=100, known=10, count=50)  # the first call pays for imports
    for n in (10**4, 2 * 10**4, 5 * 10**4):
        for share in (0.1, 0.5, 0.9):
            known, count = round(share * n), n // 2
            start = time.perf_counter()
            first, pmf = published.occurrence_probabilities(records=n, known=known, count=count)
            ours = time.perf_counter() - start
            some = np.arange(first, first + len(pmf), max(1, len(pmf) // 100))
            start = time.perf_counter()
            for k in some:
                stats.hypergeom.pmf(k, n, count, known)
            theirs = (time.perf_counter() - start) * len(pmf) / len(some)
            for name, value in zip(data, (n, share, theirs, ours), strict=True):
                data[name].append(float(value))
    plt = pyplot()
    figure, axis = plt.subplots()
    at = np.arange(len(data["records"]))
    axis.bar(at - 0.2, data["scipy_seconds"], 0.4, label="scipy.stats.hypergeom.pmf, one class a call")
    axis.bar(at + 0.2, data["dpcore_seconds"], 0.4, label="all classes at once")
    labels = [f"{int(n):,}\n{s:g}" for n, s in zip(data["records"], data["known_share"], strict=True)]
    axis.set(yscale="log", ylabel="seconds", xlabel="records, and share of them that is known")
    axis.set(xticks=at, xticklabels=labels)
    axis.legend(fontsize=8)
    files = [
        *save_figure(figure, out, "partial-knowledge-figure-5-1"),
        write_csv(out / "partial-knowledge-figure-5-1.csv", data),
    ]
    ratio = min(a / b for a, b in zip(data["scipy_seconds"], data["dpcore_seconds"], strict=True))
    section = Section(
        "Figure 5.1: occurrence probabilities",
        ("Times of this machine; scipy's are those of a hundred classes, scaled.",),
        (("partial-knowledge-figure-5-1", "Records and known share below each pair."),),
        (Comparison("speed-up over scipy", "above 100", f"at least {ratio:.0f}"),),
    )
    return section, files


def _chernoff(out: Path, table: dict[str, list[Any]]) -> tuple[Section, list[Path]]:
    bias = np.linspace(0.005, 0.995, 67)
    data: dict[str, Any] = {"bias": bias.tolist()}
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2))
    for n in (10**4, 10**5, 10**6, 10**7):
        taus = np.array([published.chernoff_tau(records=n, bias=float(p), kappa2=1e-6) for p in bias])
        # Laplace(2/eps)/n stays below tau/2 with probability 0.99 from this epsilon on.
        epsilon = 2 * math.log(100) / (n * taus.min(axis=1) / 2)
        data[f"tau1_{n}"], data[f"tau2_{n}"] = taus[:, 0].tolist(), taus[:, 1].tolist()
        data[f"epsilon_{n}"] = epsilon.tolist()
        axes[0].plot(bias, taus[:, 0], label=f"{n:,} records")
        axes[1].plot(bias, epsilon, label=f"{n:,} records")
    axes[0].set(yscale="log", xlabel="bias", ylabel="tau_1 (tau_2 is its mirror image)")
    axes[1].set(yscale="log", xlabel="bias", ylabel="smallest supported epsilon")
    axes[0].legend()
    files = [
        *save_figure(figure, out, "partial-knowledge-figure-5-2"),
        write_csv(out / "partial-knowledge-figure-5-2.csv", data),
    ]
    section = Section(
        "Figure 5.2: Chernoff-Hoeffding half-widths",
        ("Solved to the last bit; near 0 and 1 one tail is empty and tau is the distance to the edge.",),
        (
            (
                "partial-knowledge-figure-5-2",
                "kappa_2 = 1e-6; epsilon such that line 11 is reached with probability 1 % at most.",
            ),
        ),
    )
    return section, files


def _truncation(out: Path, table: dict[str, list[Any]]) -> tuple[Section, list[Path]]:
    n = 10**5
    epsilon = np.geomspace(0.001, 1, 80)
    data: dict[str, Any] = {"epsilon": epsilon.tolist()}
    plt = pyplot()
    figure, axis = plt.subplots()
    for bias in (0.01, 0.1, 0.5):
        tau1, tau2 = published.chernoff_tau(records=n, bias=bias, kappa2=1e-6)
        errors = [
            sum(published.laplace_truncation_error(epsilon=float(e), records=n, tau=t) for t in (tau1, tau2))
            for e in epsilon
        ]
        data[f"error_{bias}"] = errors
        axis.plot(epsilon, errors, label=f"bias {bias:g}")
    axis.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="truncation error (line 9)", ylim=(1e-20, 2))
    axis.legend()
    files = [
        *save_figure(figure, out, "partial-knowledge-figure-5-3"),
        write_csv(out / "partial-knowledge-figure-5-3.csv", data),
    ]
    section = Section(
        "Figure 5.3: error of the Laplace truncation",
        ("Algorithm 2 falls back to plain noise wherever this error exceeds kappa_3.",),
        (("partial-knowledge-figure-5-3", "100,000 records, kappa_2 = 1e-6."),),
    )
    return section, files


def _occurrence(out: Path, table: dict[str, list[Any]]) -> tuple[Section, list[Path]]:
    shares = np.linspace(0.02, 0.98, 25)
    data: dict[str, Any] = {"known_share": shares.tolist()}
    plt = pyplot()
    figure, axis = plt.subplots()
    for n in (10**4, 10**5, 10**6, 10**7):
        kappa1 = 1e-6 if n == 10**4 else 1e-14
        left = []
        for share in shares:
            known = round(float(share) * n)
            first, pmf = published.occurrence_probabilities(records=n, known=known, count=n // 2)
            losses = published.background_losses(known=known, bias=0.5, first=first, last=first + len(pmf) - 1)
            support = min(known, n // 2) - max(0, known - n // 2) + 1
            wcr, _, _ = published.quasi_worst_case(losses, pmf, kappa1=kappa1)
            left.append(100 * (wcr + support - len(pmf)) / support)
        data[f"excluded_percent_{n}"] = left
        axis.plot(shares, left, label=f"{n:,} records, kappa_1 = {kappa1:g}")
    axis.set(xlabel="share of the records that is known", ylabel="classes left out (%)")
    axis.legend()
    files = [
        *save_figure(figure, out, "partial-knowledge-figure-5-4"),
        write_csv(out / "partial-knowledge-figure-5-4.csv", data),
    ]
    section = Section(
        "Figure 5.4: background knowledge left out",
        ("Most classes can be left out around a known share of one half, as the thesis found.",),
        (("partial-knowledge-figure-5-4", "Bias 0.5."),),
    )
    return section, files
