"""Find the smallest noise that satisfies a privacy target.

examples:
  dpcore calibrate gaussian --epsilon 1 --delta 1e-6
  dpcore calibrate gaussian --epsilon 0.5 --delta 1e-9 --compositions 10 --json
"""

from __future__ import annotations

import argparse

from dpcore.cli._output import add_output_options, emit, number

SUMMARY = "the smallest noise that satisfies a privacy target"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    kinds = parser.add_subparsers(metavar="KIND", required=True)
    gaussian = kinds.add_parser(
        "gaussian",
        help="Gaussian noise for a value of known L2 sensitivity",
        description="Smallest standard deviation of Gaussian noise that is (epsilon, delta)-private, rounded up.",
        epilog="example: dpcore calibrate gaussian --epsilon 1 --delta 1e-6",
        allow_abbrev=False,
    )
    gaussian.add_argument("--epsilon", type=number, required=True, help="privacy parameter, > 0")
    gaussian.add_argument("--delta", type=number, required=True, help="privacy parameter, in (0, 1)")
    gaussian.add_argument("--sensitivity", type=number, default=1.0, help="L2 sensitivity, > 0 (default 1)")
    gaussian.add_argument("--compositions", type=int, default=1, help="releases covered together (default 1)")
    gaussian.add_argument(
        "--method",
        default="analytic",
        choices=("analytic", "probabilistic", "classical"),
        help="formula: the smallest noise (default), or one of two older, larger ones",
    )
    add_output_options(gaussian)
    gaussian.set_defaults(run=run_gaussian)


def run_gaussian(arguments: argparse.Namespace) -> int:
    """Calibrate Gaussian noise."""
    from dpcore import gaussian

    asked = {
        "epsilon": arguments.epsilon,
        "delta": arguments.delta,
        "sensitivity": arguments.sensitivity,
        "compositions": arguments.compositions,
        "method": arguments.method,
    }
    sigma = gaussian.sigma(**asked)
    releases = "one release" if arguments.compositions == 1 else f"{arguments.compositions} releases together"
    statement = (
        f"Gaussian noise of standard deviation {sigma:.6g} added to a value of L2 sensitivity "
        f"{arguments.sensitivity:g} makes {releases} ({arguments.epsilon:g}, {arguments.delta:g})-differentially "
        "private; the exact delta of this sigma is not above the one asked."
    )
    emit(arguments, {"sigma": sigma, **asked}, statement)
    return 0
