"""How commands print: a table for people, ``--json`` for machines."""

from __future__ import annotations

import argparse
import json
import textwrap
from typing import Any


def number(text: str) -> float:
    """A real number given on the command line; whether it is allowed is for the library to say."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a number: {text!r}") from None


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Options that every command has."""
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.add_argument("--quiet", action="store_true", help="print only the result itself, no explanation")


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def emit(arguments: argparse.Namespace, facts: dict[str, Any], statement: str | None = None) -> None:
    """Print `facts`, and `statement` below them, in the form the user asked for."""
    if arguments.json:
        if statement is not None:
            facts = {**facts, "statement": statement}
        # Infinity is not JSON: it is written as the string "Infinity".
        print(json.dumps(json.loads(json.dumps(facts), parse_constant=str), indent=2))
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name.replace('_', ' '):<{width}}  {_text(value)}")
    if statement is not None and not arguments.quiet:
        print()
        print(textwrap.fill(statement, 79))
