"""How commands read numbers and print: a table for people, ``--json`` for machines, ``--quiet`` for scripts."""

from __future__ import annotations

import argparse
import json
import shutil
import textwrap
from collections.abc import Sequence
from typing import Any

WIDTH = 79


class UsageError(Exception):
    """Bad input found by a command; its message is the one line the user sees."""

    code = 2


class Refusal(UsageError):
    """The input is fine and the answer is no."""

    code = 1


def number(text: str) -> float:
    """A real number given on the command line; whether it is allowed is for the library to say."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a number: {text!r}") from None


def whole(text: str) -> int:
    """A whole number given on the command line; 1e6 is one, 1.5 is not."""
    value = number(text)
    try:
        exact = int(text)
    except ValueError:
        if not value.is_integer() or abs(value) > 2**53:
            raise argparse.ArgumentTypeError(f"not a whole number: {text!r}") from None
        exact = int(value)
    return exact


def bias(text: str) -> Any:
    """What attackers may know of unknown records: ``0.3``, ``0.2:0.4`` or ``600@0.1,400@0.5``."""
    try:
        if "@" in text:
            groups = [group.partition("@") for group in text.split(",")]
            return [(whole(size), number(share)) for size, _, share in groups]
        if ":" in text:
            low, _, high = text.partition(":")
            return (number(low), number(high))
        return number(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(
            f"{error}; write a number (0.3), a range (0.2:0.4) or groups (600@0.1,400@0.5)"
        ) from None


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Options that every command has."""
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.add_argument("--quiet", action="store_true", help="print only the result itself, no explanation")


class Help(argparse.RawDescriptionHelpFormatter):
    """Help that fits the page on a terminal of any width."""

    def __init__(self, prog: str, **options: Any) -> None:
        options.setdefault("width", min(shutil.get_terminal_size().columns - 2, WIDTH))
        super().__init__(prog, **options)


def add_command(commands: Any, name: str, summary: str, description: str) -> argparse.ArgumentParser:
    """A parser in the house style."""
    made: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=description,
        formatter_class=Help,
        allow_abbrev=False,
    )
    return made


def printable(text: str) -> str:
    """The text without characters that would steer a terminal: names and labels come from anywhere."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else printable(str(value))


def plain(value: Any) -> str:
    """A value alone, nothing lost."""
    return repr(value) if isinstance(value, float) else str(value)


def emit(
    arguments: argparse.Namespace,
    facts: dict[str, Any],
    statement: str | None = None,
    *,
    hidden: Sequence[str] = (),
) -> None:
    """Print `facts`, and `statement` below them, in the form the user asked for.

    The first fact is the result itself: all that ``--quiet`` prints. Those named in
    `hidden` are for machines only.
    """
    if arguments.json:
        if statement is not None:
            facts = {**facts, "statement": statement}
        print_json(facts)
        return
    if arguments.quiet:
        print(plain(next(iter(facts.values()))))
        return
    shown = {name: value for name, value in facts.items() if name not in hidden and value is not None}
    width = max(map(len, shown))
    for name, value in shown.items():
        head = f"{name.replace('_', ' '):<{width}}  "
        room = max(WIDTH - len(head), 20)
        lines = textwrap.wrap(_text(value), room, break_long_words=False, break_on_hyphens=False)
        if any(len(line) > room for line in lines):  # a long path: whole, and on a line of its own
            lines, head = [f"\n  {_text(value)}"], head.rstrip()
        print(head + f"\n{' ' * len(head)}".join(lines or [""]))
    if statement is not None:
        print()
        print_text(statement)


def print_text(text: str) -> None:
    """A paragraph that fits the page."""
    # Never inside a word: a path that is too long stays whole.
    print(textwrap.fill(printable(text), WIDTH, break_long_words=False, break_on_hyphens=False))


def print_json(facts: dict[str, Any]) -> None:
    """One JSON object; infinity, which JSON does not know, is written as the string "Infinity"."""
    from dpcore._results import plain as plain_types

    print(json.dumps(json.loads(json.dumps(plain_types(facts)), parse_constant=str), indent=2))


def print_table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table, numbers to the right."""
    cells = [[_text(cell) for cell in row] for row in rows]
    widths = [max(len(h), *(len(row[i]) for row in cells)) for i, h in enumerate(headers)]
    right = [all(isinstance(row[i], (int, float)) for row in rows) for i in range(len(headers))]

    def line(row: Sequence[str]) -> str:
        parts = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)]
        return "  ".join(parts).rstrip()

    print(line(headers))
    print("  ".join("-" * w for w in widths))
    for row in cells:
        print(line(row))
