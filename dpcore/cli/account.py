"""Add up releases: certified epsilon at deltas, delta and confidence at epsilons.

Mechanisms come first, then options. A mechanism is NAME:KEY=VALUE,... with an
optional count, or a file:
  laplace:epsilon=0.1            gaussian:sigma=5
  discrete_laplace:scale=10      discrete_gaussian:sigma=5
  randomized_response:epsilon=1  subsampled_gaussian:sigma=1,rate=0.01
  pure:epsilon=0.1               approximate:epsilon=1,delta=1e-7
  programme.toml                 many mechanisms, as below
  year.json, year.npz            a loss saved with accounting.save
  pair.csv                       two distributions of the outcomes, as below
A file may have a count too: pair.csv:count=12

examples:
  dpcore account gaussian:sigma=50,count=1000 laplace:epsilon=0.1
  dpcore account subsampled_gaussian:sigma=1,rate=0.01,count=1000 --delta 1e-5
  dpcore account programme.toml --epsilon 1 --plot delta.png
  dpcore account year.json pair.csv:count=12 --delta 1e-6 --confidence 3

programme.toml:                  pair.csv, one line an outcome:
  [[mechanism]]                    p,q
  name = "gaussian"                0.5,0.25
  sigma = 50.0                     0.25,0.25
  count = 1000                     0.25,0.5
  [[mechanism]]                  p is its probability with the record, q
  file = "year.json"             without it; each column sums to 1.
The bounds hold for this order: with the columns swapped the answer may be
another, beside other pairs and beside sampled steps.
"""

from __future__ import annotations

import argparse
import pathlib
from typing import TYPE_CHECKING, Any

from dpcore._rounding import downward, upward
from dpcore.cli._output import UsageError, add_output_options, number, print_json, print_table, print_text

if TYPE_CHECKING:
    from dpcore.cli._mechanisms import Row

SUMMARY = "add up releases: epsilon at several deltas"
DELTAS = (1e-5, 1e-6, 1e-8, 1e-10)
PLOTS = (".png", ".svg", ".pdf")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    # argparse would put the mechanisms last, where an option that takes many numbers swallows them.
    parser.usage = (
        "%(prog)s MECHANISM [MECHANISM ...] [--delta DELTA ...]\n"
        "       [--epsilon EPSILON ...] [--confidence EPSILON ...]\n"
        "       [--engine {auto,spectral,buckets}] [--plot FILE] [--json] [--quiet] [-h]"
    )
    parser.add_argument("mechanisms", nargs="+", metavar="MECHANISM", help="NAME:KEY=VALUE,... or a file")
    parser.add_argument("--delta", type=_asked, nargs="+", metavar="DELTA", help="deltas to find epsilon for")
    parser.add_argument("--epsilon", type=_asked, nargs="+", metavar="EPSILON", help="epsilons to find delta for")
    parser.add_argument(
        "--confidence",
        type=_asked,
        nargs="+",
        metavar="EPSILON",
        help="epsilons to find how likely it is that the loss stays within",
    )
    parser.add_argument(
        "--engine",
        choices=("auto", "spectral", "buckets"),
        default="auto",
        help="how to compute epsilon and delta; for confidence there is one way only",
    )
    parser.add_argument("--plot", metavar="FILE", help="draw delta against epsilon into FILE (png, svg or pdf)")
    add_output_options(parser)
    parser.set_defaults(run=run)


def _asked(text: str) -> float:
    """A number after an option that takes several; what follows may be a mechanism."""
    try:
        return number(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}; mechanisms come before the options") from None


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out."""
    from dpcore._validation import non_negative
    from dpcore.cli import _mechanisms

    if arguments.plot and pathlib.Path(arguments.plot).suffix.lower() not in PLOTS:
        raise UsageError(f"--plot must end in {', '.join(PLOTS)}, got {arguments.plot!r}")
    rows = _mechanisms.parse(arguments.mechanisms)
    loss = _mechanisms.loss(rows)
    epsilons, levels = arguments.epsilon or [], arguments.confidence or []
    deltas = arguments.delta if arguments.delta is not None else ([] if epsilons or levels else list(DELTAS))
    for level in levels:
        non_negative("confidence", level)  # here, where a complaint can name the option
    by_delta: list[dict[str, Any]] = []
    for delta in deltas:
        bounds = loss.epsilon(delta, engine=arguments.engine)
        by_delta.append({"delta": delta, "epsilon_lower": bounds.lower, "epsilon_upper": bounds.upper})
    by_epsilon: list[dict[str, Any]] = []
    for epsilon in epsilons:
        bounds = loss.delta(epsilon, engine=arguments.engine)
        by_epsilon.append({"epsilon": epsilon, "delta_lower": bounds.lower, "delta_upper": bounds.upper})
    by_level: list[dict[str, Any]] = []
    for level in levels:
        bounds = loss.confidence(level)
        by_level.append({"epsilon": level, "confidence_lower": bounds.lower, "confidence_upper": bounds.upper})
    if arguments.plot:
        _plot(loss, arguments.plot)
    releases = sum(row.count for row in rows)
    statement = _statement(rows, bool(by_delta or by_epsilon), bool(by_level))
    if arguments.json:
        facts: dict[str, Any] = {
            "releases": releases,
            "epsilon": by_delta,
            "delta": by_epsilon,
            "confidence": by_level,
            "mechanisms": loss.to_dict()["mechanisms"],
            "statement": statement,
        }
        print_json(facts)
    elif arguments.quiet:
        for row in by_delta:
            print(repr(row["epsilon_upper"]))
        for row in by_epsilon:
            print(repr(row["delta_upper"]))
        for row in by_level:
            print(repr(row["confidence_lower"]))
    else:
        _print(by_delta, by_epsilon, by_level)
        print()
        print_text(statement)
        if arguments.plot:
            print_text(f"The curve is in {arguments.plot}.")
    return 0


def _statement(mechanisms: list[Row], guaranteed: bool, confident: bool) -> str:
    from dpcore.cli._mechanisms import one_way as one_way_of
    from dpcore.cli._mechanisms import pairs

    releases, one_way = sum(row.count for row in mechanisms), one_way_of(mechanisms)
    rows = "each pair of epsilon and delta above" if confident else "each row above"
    who = f"The {releases} releases together are" if releases > 1 else "The release is"
    said = []
    if guaranteed and one_way:
        said.append(
            f"{who} (epsilon, delta)-indistinguishable for {rows}, with the larger of its two bounds, {one_way}."
        )
    elif guaranteed:
        said.append(
            f"{who} (epsilon, delta)-differentially private for {rows}, with the larger of its two "
            "bounds, and would not be with less than the smaller one."
        )
    if confident:
        whose = f"of the {releases} releases together" if releases > 1 else "of the release"
        said.append(
            f"The confidence is the probability that the loss {whose} stays within epsilon: rely on the "
            "smaller of its two bounds."
        )
        if one_way and not guaranteed:
            said.append(f"It is {one_way}.")
    ordered = pairs(mechanisms)
    if guaranteed and releases > 1:
        worst = ", and each pair of distributions is the worst of all that may be asked" if ordered else ""
        said.append(
            f"{'For epsilon and delta, later' if confident else 'Later'} questions may depend on earlier answers, "
            f"as long as the mechanisms and their noise were fixed beforehand{worst}."
        )
    return " ".join(filter(None, [*said, ordered, "Rounding errors are included."]))


def _print(*tables: list[dict[str, Any]]) -> None:
    first = True
    for rows in filter(None, tables):
        if not first:
            print()
        first = False
        asked, lower, upper = rows[0]
        name = lower.removesuffix("_lower")
        cells = [(repr(row[asked]), *_outward(row[lower], row[upper])) for row in rows]
        print_table((asked, f"{name} at least", f"{name} at most"), cells)


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
