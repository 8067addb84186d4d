"""Every benchmark in one run, and the page that shows it.

python bench/run.py                      all of them; writes docs/benchmarks.md and its pictures
python bench/run.py --only gaussian      some of them, printed only
python bench/run.py --quick              small sizes: are the answers right, has no ratio collapsed?
python bench/run.py --quick --page       the page from that run, which then says so

A quick run compares each ratio with the one in bench/baseline.json and fails when it is less than half of it in
three runs (the machine may be busy: times are the best of several, ratios the best of the runs).
``--quick --set-baseline`` writes the file anew, with the smallest ratios of three runs. Ratios of vectorised code
differ between machines by more than a factor of two (buckets do); there the file has the smaller one. Needs the
extras `bench` and `plot`.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
from typing import Any

from _common import human, require_release, version

import dpcore

HERE = pathlib.Path(__file__).resolve().parent
BASELINE = HERE / "baseline.json"
DOCS = HERE.parent / "docs"
AREAS = {
    "gaussian": "The Gaussian mechanism",
    "distributions": "Distributions",
    "samplers": "Samplers",
    "accounting": "Adding up releases",
    "partial_knowledge": "Counts under partial knowledge",
    "sensitivity": "Sensitivity sampling",
    "risk": "Risk",
    "embedding": "Embedding",
}
PEERS = ("numpy", "scipy", "mpmath", "dp-accounting", "opendp")
Figures = list[dict[str, Any]]
RUNS = 3
INTRODUCTION = """# Benchmarks

How fast dpcore is beside the libraries that do the same, and how right both are. Written by `python bench/run.py`
(extras `bench` and `plot`): run it on your machine. Each answer was checked before it was timed, against
arithmetic of higher precision where there is any, and the peer was timed in the same run.

How to read the tables:

* **ratio**: the peer's time over dpcore's, both the best of several samples; above 1, dpcore is that much faster.
* **by medians**: the same ratio by the median samples. Where the two are far apart the machine was busy.
* **goal**: what this project wants of the ratio, where it has a goal.
* **note**: accuracy, ours beside the peer's, on the inputs that were timed.

Times are those of one machine, shared with other work; ratios travel better than times. Peers that draw noise by
floating-point arithmetic (NumPy) or round to a grid (dp-accounting) do less than dpcore does: the comparison is
with what people use, not with an equal.
"""
QUICK_NOTE = """
This page is from a quick run (`--quick --page`): small sizes and few samples.
"""


def run(area: str, *, quick: bool) -> Figures:
    """The figures of one benchmark, whose own output goes to the terminal; an exit code is passed on."""
    with tempfile.TemporaryDirectory() as folder:
        record = pathlib.Path(folder) / "figures"
        environment = os.environ | {"DPCORE_BENCH_RECORD": str(record)}
        if quick:
            environment["DPCORE_BENCH_QUICK"] = "1"
        print(f"\n== {AREAS[area]}", flush=True)
        done = subprocess.run([sys.executable, str(HERE / f"bench_{area}.py")], env=environment, check=False)
        if done.returncode:
            raise SystemExit(f"bench_{area}.py failed: an answer is wrong, or see above")
        lines = record.read_text(encoding="utf-8").splitlines() if record.exists() else []
    return [json.loads(line) for line in lines]


def ratios(figures: Figures) -> dict[str, float]:
    """Ratio by what was compared, and with whom."""
    return {f"{f['what']} / {f['peer_name'].split()[0]}": f["ratio"] for f in figures if f["kind"] == "ratio"}


def collapsed(found: dict[str, float], wanted: dict[str, float]) -> list[str]:
    """What is missing here or in the record, or below half of the recorded ratio."""
    lines = [f"{what}: not recorded yet (--set-baseline)" for what in found if what not in wanted]
    for what, ratio in wanted.items():
        if what not in found:
            lines.append(f"{what}: not measured any more")
        elif not found[what] >= ratio / 2:
            lines.append(f"{what}: {found[what]:.3g}x, recorded {ratio:.3g}x")
    return lines


def check(areas: list[str], *, set_baseline: bool, write_page: bool) -> int:
    """The quick run; its exit code."""
    recorded = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    count, failures = 0, []
    measured = {}
    for area in areas:
        measured[area] = run(area, quick=True)
        found = ratios(measured[area])
        if set_baseline:
            least = dict(found)
            for _ in range(RUNS - 1):
                again = ratios(run(area, quick=True))
                least = {what: min(ratio, again[what]) for what, ratio in least.items()}
            recorded[area] = {what: float(f"{ratio:.3g}") for what, ratio in least.items()}
        bad = collapsed(found, recorded.get(area, {}))
        for _ in range(RUNS - 1):
            if not bad:
                break
            print("\n".join(["once more, because of:", *bad]))
            again = ratios(run(area, quick=True))
            found = {what: max(ratio, again.get(what, 0.0)) for what, ratio in found.items()}
            bad = collapsed(found, recorded.get(area, {}))
        failures += [f"{area}: {line}" for line in bad]
        count += len(found)
    if set_baseline:
        BASELINE.write_text(json.dumps(recorded, indent=1) + "\n")
    if write_page:
        (DOCS / "benchmarks.md").write_text(page(measured, quick=True), encoding="utf-8")
    tally(count)
    print("\n".join(["", *failures]))
    print(f"benchmarks: {count} ratios measured, {len(failures)} below half of the recorded one")
    return 1 if failures else 0


def tally(count: int) -> None:
    """Add to what tools/assure.py counts."""
    if file := os.environ.get("DPCORE_TALLY"):
        with open(file, "a", encoding="utf-8") as out:
            out.write(json.dumps({"what": "peer timings compared", "count": count}) + "\n")


def versions() -> str:
    found = []
    for peer in PEERS:
        try:
            found.append(version(peer))
        except ModuleNotFoundError:
            found.append(f"{peer} absent")
    return ", ".join(found)


def growth_plot(area: str, series: str, points: Figures) -> str:
    """A picture of time against size, both on logarithmic axes; its file name."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    points = sorted(points, key=lambda p: p["size"])
    axes.loglog([p["size"] for p in points], [p["ours"] for p in points], "o-", color="#0072b2", label="dpcore")
    with_peer = [p for p in points if p["peer"]]
    if with_peer:
        axes.loglog(
            [p["size"] for p in with_peer], [p["peer"] for p in with_peer], "s--", color="#d55e00", label="peer"
        )
        axes.legend()
    axes.set(xlabel=points[0]["unit"], ylabel="seconds", title=series)
    axes.grid(visible=True, alpha=0.3)
    name = f"bench-{area}-{'-'.join(re.findall('[a-z0-9]+', series.lower()))}.svg"
    mpl.rcParams["svg.hashsalt"] = "dpcore"  # the same picture for the same figures
    figure.savefig(DOCS / "images" / name, metadata={"Date": None})
    plt.close(figure)
    return name


def page(measured: dict[str, Figures], *, quick: bool) -> str:
    info = dpcore.build_info()
    text = [
        INTRODUCTION + (QUICK_NOTE if quick else ""),
        f"dpcore {info['version']}, {info['compiler']}; peers: {versions()}; Python {platform.python_version()}, "
        f"{os.cpu_count()} cores.\n",
    ]
    for area, figures in measured.items():
        rows = [f for f in figures if f["kind"] == "ratio"]
        text += [f"## {AREAS[area]}\n", f"`python bench/bench_{area}.py` prints these and more.\n"]
        if not rows:
            continue
        text += ["| what | dpcore | peer | ratio | by medians | goal | note |", "|---|---|---|---|---|---|---|"]
        for f in rows:
            goal = (
                "" if f["goal"] is None else f"{f['goal']:g}" + ("" if f["ratio"] >= f["goal"] else " **missed**")
            )
            cells = [
                f["what"].strip(),
                human(f["ours"]),
                f"{f['peer_name']} {human(f['peer'])}",
                f"{f['ratio']:.3g}",
            ]
            cells += [f"{f['ratio_median']:.3g}", goal, f["note"]]
            text.append(f"| {' | '.join(cells)} |")
        text.append("")
        for series in dict.fromkeys(f["series"] for f in figures if f["kind"] == "growth"):
            points = [f for f in figures if f["kind"] == "growth" and f["series"] == series]
            text.append(f"![{series}: seconds against size](images/{growth_plot(area, series, points)})\n")
    return "\n".join(text)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=AREAS, metavar="AREA", help=", ".join(AREAS))
    parser.add_argument("--quick", action="store_true", help="small sizes, compared with the recorded ratios")
    parser.add_argument("--set-baseline", action="store_true", help="with --quick: record the ratios")
    parser.add_argument("--page", action="store_true", help="with --quick: write the page from small sizes")
    arguments = parser.parse_args()
    if arguments.page and (arguments.only or not arguments.quick):
        parser.error("--page goes with --quick and all areas")
    if arguments.set_baseline and not arguments.quick:
        parser.error("--set-baseline goes with --quick")
    require_release()
    areas = list(arguments.only or AREAS)
    if arguments.quick:
        return check(areas, set_baseline=arguments.set_baseline, write_page=arguments.page)
    measured = {area: run(area, quick=False) for area in areas}
    if not arguments.only:
        (DOCS / "benchmarks.md").write_text(page(measured, quick=False), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
