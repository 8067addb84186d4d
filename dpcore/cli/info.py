"""Print what this installation is: version, compiler, flags, folders.

examples:
  dpcore info
  dpcore info --json
"""

from __future__ import annotations

import argparse

from dpcore.cli._output import add_output_options, emit

SUMMARY = "what this installation is: version, compiler, folders"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_output_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out."""
    import dpcore

    facts = dpcore.build_info() | {"include": dpcore.get_include(), "library": dpcore.get_library_dir()}
    emit(arguments, facts)
    return 0
