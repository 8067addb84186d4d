r"""Recommend an epsilon from what a data steward knows, and write a report.

Give at least one requirement: what a disclosure would cost and the risk to
accept; what compensation would cost and the budget for it; the error to allow.
Exit code 1 means that no epsilon meets all requirements; the answer then says
which two conflict and what would help.

examples:
  dpcore risk --records 100 --cost 550000 --budget 80000 --allowed-error 2
  dpcore risk --records 10000 --impact 5000 --threshold 1000 \
    --allowed-error 60 --releases 12 --delta 1e-6 --report decision.html
"""

from __future__ import annotations

import argparse
import pathlib

from dpcore.cli._output import UsageError, add_output_options, bias, number, plain, whole

SUMMARY = "recommend an epsilon, with a report that can be defended"
REPORTS = (".html", ".json", ".txt")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--records", type=whole, required=True, help="number of people in the data")
    parser.add_argument("--impact", type=number, help="damage if a released count is learned exactly")
    parser.add_argument("--threshold", type=number, help="risk (probability times damage) to accept")
    parser.add_argument("--cost", type=number, help="compensation to all people together without protection")
    parser.add_argument(
        "--cost-floor", type=number, default=0.0, help="cost that is there at any epsilon (default 0)"
    )
    parser.add_argument(
        "--cost-rate",
        type=number,
        default=1.0,
        help="how late cost rises: it is FLOOR + COST * exp(-RATE/epsilon) (default 1)",
    )
    parser.add_argument("--budget", type=number, help="what may be spent on compensation")
    parser.add_argument("--allowed-error", type=number, help="largest mean absolute error of each release")
    parser.add_argument("--releases", type=whole, default=1, help="number of releases (default 1)")
    parser.add_argument(
        "--delta", type=number, help="part of the probability for which epsilon makes no promise (default: none)"
    )
    parser.add_argument("--sensitivity", type=number, default=1.0, help="what one person can change (default 1)")
    parser.add_argument("--known", type=whole, help="records that an attacker may know")
    parser.add_argument(
        "--bias", type=bias, help="share of unknown records that count: 0.3, 0.2:0.4, 60@0.1,40@0.5"
    )
    parser.add_argument(
        "--rely-on-partial-knowledge", action="store_true", help="let the decision rest on --known and --bias"
    )
    parser.add_argument(
        "--prefer", choices=("privacy", "accuracy"), default="privacy", help="which end of the range"
    )
    parser.add_argument("--title", default="Which epsilon?", help="heading of the report")
    parser.add_argument("--report", metavar="FILE", help="write the report: .html, .json or .txt")
    add_output_options(parser)
    parser.set_defaults(run=run, renamed={"full": "cost", "floor": "cost_floor", "rate": "cost_rate"})


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out."""
    from dpcore import risk

    if arguments.report and pathlib.Path(arguments.report).suffix not in REPORTS:
        raise UsageError(f"--report must end in {', '.join(REPORTS)}, got {arguments.report!r}")
    cost = None
    if arguments.cost is not None:
        cost = risk.CostModel(full=arguments.cost, floor=arguments.cost_floor, rate=arguments.cost_rate)
    found = risk.recommend(
        records=arguments.records,
        known=arguments.known,
        bias=arguments.bias,
        impact=arguments.impact,
        threshold=arguments.threshold,
        cost=cost,
        budget=arguments.budget,
        allowed_error=arguments.allowed_error,
        releases=arguments.releases,
        delta=arguments.delta,
        sensitivity=arguments.sensitivity,
        prefer=arguments.prefer,
        rely_on_partial_knowledge=arguments.rely_on_partial_knowledge,
        title=arguments.title,
    )
    if arguments.report:
        found.save(arguments.report)
    if arguments.json:
        print(found.to_json())
    elif arguments.quiet:
        print("none" if found.epsilon is None else plain(found.epsilon))
    else:
        print(found.table())
        if arguments.report:
            print(f"\nThe report is in {arguments.report}.")
    return 0 if found.feasible else 1
