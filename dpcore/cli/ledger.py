"""Look at a budget ledger, or start one.

The ledger is a file of one budget: `dpcore release` appends each release to
it and refuses what would overspend. It survives crashes and may be shared by
several processes.

examples:
  dpcore ledger survey.ledger --create --epsilon 4 --delta 1e-5
  dpcore ledger survey.ledger
  dpcore ledger survey.ledger --json
"""

from __future__ import annotations

import argparse

from dpcore.cli._output import UsageError, add_output_options, number, plain, print_json, print_table, print_text

SUMMARY = "look at a budget ledger, or start one"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("file", metavar="FILE", help="the ledger")
    parser.add_argument("--create", action="store_true", help="make a new ledger; FILE must not exist")
    parser.add_argument("--epsilon", type=number, help="total budget of a new ledger, > 0")
    parser.add_argument("--delta", type=number, help="total budget of a new ledger, in [0, 1) (default 0)")
    parser.add_argument(
        "--composition",
        choices=("sum", "certified"),
        help="how a new ledger adds up: exact sums (default), or composition, for noise fixed beforehand",
    )
    parser.add_argument("--label", help="what data the new ledger is for")
    parser.add_argument(
        "--timeout", type=number, default=10.0, help="seconds to wait for other processes (default 10)"
    )
    add_output_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out."""
    from dpcore.ledger import Ledger, LedgerError

    if not arguments.create:
        for name in ("epsilon", "delta", "composition", "label"):
            if getattr(arguments, name) is not None:
                raise UsageError(f"--{name} needs --create; the budget of a ledger never changes")
    try:
        if arguments.create:
            if arguments.epsilon is None:
                raise UsageError("--create needs --epsilon")
            ledger = Ledger.create(
                arguments.file,
                epsilon=arguments.epsilon,
                delta=arguments.delta or 0.0,
                composition=arguments.composition or "sum",
                label=arguments.label or "",
                timeout=arguments.timeout,
            )
        else:
            try:
                ledger = Ledger(arguments.file, timeout=arguments.timeout)
            except FileNotFoundError as error:
                raise UsageError(f"{error}; --create --epsilon EPSILON makes one") from None
        spent, charges = ledger.spent, ledger.charges
        if arguments.json:
            print_json(ledger.to_dict())
            return 0
    except LedgerError as error:
        raise UsageError(str(error)) from None
    if arguments.quiet:
        print(plain(spent.epsilon_left))
        return 0
    print_text(
        f"{ledger.path}: epsilon {ledger.epsilon:g}, delta {ledger.delta:g}, added up by {ledger.composition}"
    )
    if ledger.label:
        print_text(ledger.label)
    if charges:
        print()
        rows = [(c.number, c.time, c.epsilon, c.delta, c.label[:32]) for c in charges]
        print_table(("", "time (UTC)", "epsilon", "delta", "release"), rows)
    print()
    print_text(spent.statement)
    return 0
