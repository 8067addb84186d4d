"""The ``dpcore`` command.

A subcommand is a module of this package with ``SUMMARY`` and ``configure(parser)``, which sets ``run`` to a
function of the parsed arguments that returns the exit code. Modules import the areas they need inside
``run``, so that help stays instant.

Exit codes: 0 done; 1 the answer is no (a budget would be overspent, a requirement cannot be met);
2 bad input, with one line on standard error; 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

COMMANDS = ("calibrate", "info")


class UsageError(Exception):
    """Bad input found by a command; its message is the one line the user sees."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise UsageError(message)


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = _Parser(
        prog="dpcore",
        description="How much noise is enough: calibrate, release, account and explain.",
        epilog="example: dpcore calibrate gaussian --epsilon 1 --delta 1e-6",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    parser.add_argument("--cmakedir", action="store_true", help="print the folder of dpcoreConfig.cmake and exit")
    commands = parser.add_subparsers(metavar="COMMAND", parser_class=_Parser)
    for name in COMMANDS:
        module = importlib.import_module(f"dpcore.cli.{name}")
        sub = commands.add_parser(
            name,
            help=module.SUMMARY,
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.configure(sub)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = build_parser()
    try:
        arguments = parser.parse_args(argv)
        if arguments.cmakedir:
            from dpcore._embedding import cmake_dir

            print(cmake_dir())
            return 0
        if arguments.version:
            import dpcore

            print(f"dpcore {dpcore.__version__}")
            return 0
        run = getattr(arguments, "run", None)
        if run is None:
            raise UsageError("a command is needed; see dpcore --help")
        return int(run(arguments))
    except (UsageError, ValueError, TypeError, OSError) as error:
        print(f"dpcore: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("dpcore: interrupted", file=sys.stderr)
        return 130
