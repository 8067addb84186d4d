"""Add up releases: certified epsilon at several deltas, and delta at epsilons.

A mechanism is NAME:KEY=VALUE,... with an optional count, or a TOML file:
  laplace:epsilon=0.1            gaussian:sigma=5
  discrete_laplace:scale=10      discrete_gaussian:sigma=5
  randomized_response:epsilon=1  subsampled_gaussian:sigma=1,rate=0.01
  pure:epsilon=0.1               approximate:epsilon=1,delta=1e-7

examples:
  dpcore account gaussian:sigma=50,count=1000 laplace:epsilon=0.1
  dpcore account subsampled_gaussian:sigma=1,rate=0.01,count=1000 --delta 1e-5
  dpcore account programme.toml --epsilon 1 --plot delta.png

programme.toml:
  [[mechanism]]
  name = "gaussian"
  sigma = 50.0
  count = 1000
"""

from __future__ import annotations

import argparse
import pathlib
from typing import Any

from dpcore._rounding import downward, upward
from dpcore.cli._output import UsageError, add_output_options, number, print_json, print_table, print_text

SUMMARY = "add up releases: epsilon at several deltas"
DELTAS = (1e-5, 1e-6, 1e-8, 1e-10)
PLOTS = (".png", ".svg", ".pdf")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("mechanisms", nargs="+", metavar="MECHANISM", help="NAME:KEY=VALUE,... or FILE.toml")
    parser.add_argument("--delta", type=number, nargs="+", metavar="DELTA", help="deltas to find epsilon for")
    parser.add_argument("--epsilon", type=number, nargs="+", metavar="EPSILON", help="epsilons to find delta for")
    parser.add_argument(
        "--engine", choices=("auto", "spectral", "buckets"), default="auto", help="how to compute it"
    )
    parser.add_argument("--plot", metavar="FILE", help="draw delta against epsilon into FILE (png, svg or pdf)")
    add_output_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out."""
    from dpcore.cli import _mechanisms

    if arguments.plot and pathlib.Path(arguments.plot).suffix.lower() not in PLOTS:
        raise UsageError(f"--plot must end in {', '.join(PLOTS)}, got {arguments.plot!r}")
    rows = _mechanisms.parse(arguments.mechanisms)
    loss = _mechanisms.loss(rows)
    deltas = arguments.delta if arguments.delta is not None else ([] if arguments.epsilon else list(DELTAS))
    epsilons = arguments.epsilon or []
    by_delta: list[dict[str, Any]] = []
    for delta in deltas:
        bounds = loss.epsilon(delta, engine=arguments.engine)
        by_delta.append({"delta": delta, "epsilon_lower": bounds.lower, "epsilon_upper": bounds.upper})
    by_epsilon: list[dict[str, Any]] = []
    for epsilon in epsilons:
        bounds = loss.delta(epsilon, engine=arguments.engine)
        by_epsilon.append({"epsilon": epsilon, "delta_lower": bounds.lower, "delta_upper": bounds.upper})
    if arguments.plot:
        _plot(loss, arguments.plot)
    releases = sum(row.count for row in rows)
    who = f"The {releases} releases together are" if releases > 1 else "The release is"
    ways = [way for way in ("add", "remove") if any(row.parameters.get("neighbours") == way for row in rows)]
    if ways:
        statement = (
            f"{who} (epsilon, delta)-indistinguishable for each row above, with the larger of its two bounds, in "
            f"one direction alone (neighbours={' and '.join(ways)}). That is less than differential privacy, "
            "which takes neighbours=both. Rounding errors are included."
        )
    else:
        statement = (
            f"{who} (epsilon, delta)-differentially private for each row above, with the larger of its two "
            "bounds, and would not be with less than the smaller one. Rounding errors are included."
        )
    if arguments.json:
        facts: dict[str, Any] = {
            "releases": releases,
            "epsilon": by_delta,
            "delta": by_epsilon,
            "mechanisms": loss.to_dict()["mechanisms"],
            "statement": statement,
        }
        print_json(facts)
    elif arguments.quiet:
        for row in by_delta:
            print(repr(row["epsilon_upper"]))
        for row in by_epsilon:
            print(repr(row["delta_upper"]))
    else:
        _print(by_delta, by_epsilon)
        print()
        print_text(statement)
        if arguments.plot:
            print_text(f"The curve is in {arguments.plot}.")
    return 0


def _print(by_delta: list[dict[str, Any]], by_epsilon: list[dict[str, Any]]) -> None:
    if by_delta:
        rows = [(repr(r["delta"]), *_outward(r["epsilon_lower"], r["epsilon_upper"])) for r in by_delta]
        print_table(("delta", "epsilon at least", "epsilon at most"), rows)
    if by_epsilon:
        if by_delta:
            print()
        rows = [(repr(r["epsilon"]), *_outward(r["delta_lower"], r["delta_upper"])) for r in by_epsilon]
        print_table(("epsilon", "delta at least", "delta at most"), rows)


def _outward(lower: float, upper: float) -> tuple[str, str]:
    """Ten digits, rounded so that the true value stays between them."""
    return downward(lower, 10), upward(upper, 10)


def _plot(loss: Any, name: str) -> None:
    from dpcore import accounting
    from dpcore._files import replacing
    from dpcore.reproduce._common import pyplot

    plt = pyplot()
    figure, axes = plt.subplots()
    accounting.plot(loss, ax=axes)
    axes.set_title("delta of all releases together (upper bound)")
    try:
        with replacing(name) as draft:
            figure.savefig(draft)
    finally:
        plt.close(figure)
