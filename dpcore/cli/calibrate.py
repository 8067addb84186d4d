"""Find the smallest noise that satisfies a privacy target.

example:
  dpcore calibrate gaussian --epsilon 1 --delta 1e-6
"""

from __future__ import annotations

import argparse

SUMMARY = "the smallest noise that satisfies a privacy target"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
