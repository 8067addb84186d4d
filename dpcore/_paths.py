"""Checks that need no NumPy: paths, and values as messages show them."""

from __future__ import annotations

import os
from typing import Any


def shown(value: Any) -> str:
    """`value` as a message shows it: short, and never an error of its own."""
    try:
        text = repr(value)
    except Exception:  # of the caller's object, or of an integer with too many digits to print
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= 200 else f"{text[:180]}... ({len(text)} characters)"


def path(name: str, value: Any) -> str:
    """A path as text; a number is none, though `open` would take it for a file descriptor."""
    try:
        text = os.fspath(value)
    except TypeError:
        raise TypeError(f"{name} must be a path, got {shown(value)}") from None
    try:
        text = os.fsdecode(text)
        os.fsencode(text)
    except UnicodeError:
        raise ValueError(f"{name} must be a name that the file system can hold, got {shown(value)}") from None
    if not text or "\0" in text:
        raise ValueError(f"{name} must be a path without null characters, not empty, got {shown(value)}")
    return text
