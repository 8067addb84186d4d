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
import os
import re
import signal
import sys
from collections.abc import Sequence
from typing import Any

from dpcore.cli._output import Help, UsageError, add_command, printable

COMMANDS = ("calibrate", "release", "ledger", "account", "risk", "reproduce", "info", "completion")

_LONGEST_LINE = 500  # of a complaint that repeats what was given
_POSITIONAL = {"file", "mechanisms", "name", "shell"}

_EPILOG = """\
example:
  dpcore release example:hospital --where "smoker == 1" --epsilon 0.2 \\
    --delta 1e-6 --known 5000 --bias 0.2:0.3 --worst-case-epsilon 1 --no-ledger

exit codes: 0 done; 1 the answer is no (a budget would be overspent, a
requirement cannot be met); 2 bad input, said in one line; 130 interrupted
"""


class _Parser(argparse.ArgumentParser):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # argparse knows -1 and -0.5 as numbers, but takes -1e6 and -inf for options.
        self._negative_number_matcher = re.compile(r"^-((\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|inf|nan)$")

    def error(self, message: str) -> None:  # type: ignore[override]
        raise UsageError(message)


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = _Parser(
        prog="dpcore",
        description="How much noise is enough: calibrate, release, account and explain.",
        epilog=_EPILOG,
        formatter_class=Help,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    parser.add_argument("--cmakedir", action="store_true", help="print the folder of dpcoreConfig.cmake and exit")
    commands = parser.add_subparsers(metavar="COMMAND", parser_class=_Parser)
    for name in COMMANDS:
        module = importlib.import_module(f"dpcore.cli.{name}")
        module.configure(add_command(commands, name, module.SUMMARY, module.__doc__ or ""))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    if argv is None:
        # Asked to end, the program cleans up as after Ctrl-C.
        for wish in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(wish) is signal.SIG_DFL:
                signal.signal(wish, signal.default_int_handler)
    arguments = argparse.Namespace()
    try:
        arguments = build_parser().parse_args(argv)
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
        code = int(run(arguments))
        sys.stdout.flush()  # here, where a closed pipe can still be met with dignity
        return code
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except UsageError as error:
        _complain(error)
        return error.code
    except (ValueError, TypeError) as error:
        _complain(_in_options(str(error), arguments))
        return 2
    except (ArithmeticError, OSError, ImportError) as error:
        _complain(error)
        return 2
    except MemoryError:
        print("dpcore: there is not enough memory for this", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("dpcore: interrupted", file=sys.stderr)
        return 130


def _in_options(text: str, arguments: argparse.Namespace) -> str:
    """What the library says of its arguments, said of the options that gave them.

    Only of "this must be ...", "this and that must be ...": elsewhere the same words may mean other things.
    """
    names = re.match(r"\w+(?:(?:, or |, | or | and )\w+)*(?= must\b)", text)
    if names is None:
        return text
    renamed = getattr(arguments, "renamed", {})

    def option(word: re.Match[str]) -> str:
        name = renamed.get(word[0], word[0])
        known = name in vars(arguments) and name not in _POSITIONAL
        return "--" + name.replace("_", "-") if known else word[0]

    return re.sub(r"\w+", option, names[0]) + re.sub(r"\b[a-z]+(?:_[a-z]+)+\b", option, text[names.end() :])


def _complain(error: BaseException | str) -> None:
    text = str(error)
    if isinstance(error, OSError) and error.strerror and error.filename:
        text = f"{error.filename}: {error.strerror}"
    line = printable(" ".join(text.split()))
    print(f"dpcore: {line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + '...'}", file=sys.stderr)
