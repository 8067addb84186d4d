"""Recompute the figures and tables of a source, each number beside ours.

Writes figures (PNG and SVG), their data (CSV) and a page (HTML and Markdown)
that puts each published number beside ours and says why they differ. Figures
need matplotlib: pip install 'dpcore[plot]'.

sources:
  partial-knowledge    thesis on counts against attackers who know some records
  privacy-at-risk      Differential Privacy at Risk (2021)
  risk-budget          a privacy budget from a risk threshold
  sensitivity-sampler  Pain-Free Random Differential Privacy (2017)
  lecture              lecture notes: counts, means, Laplace and Gaussian noise
  all                  every one of them

example:
  dpcore reproduce lecture --out figures
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dpcore.cli._output import UsageError, add_output_options, print_json

if TYPE_CHECKING:
    from concurrent.futures import Executor

SUMMARY = "recompute the figures and tables of a source"
NAMES = ("partial-knowledge", "privacy-at-risk", "risk-budget", "sensitivity-sampler", "lecture")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("name", metavar="NAME", help="one of the sources above")
    parser.add_argument("--out", metavar="DIR", required=True, help="folder to write to; made if it is not there")
    add_output_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out."""
    name = arguments.name.replace("_", "-")
    if name not in (*NAMES, "all"):
        raise UsageError(f"there is no source {arguments.name!r}; there is {', '.join(NAMES)}, all")
    out = pathlib.Path(arguments.out)
    made = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    if not os.access(out, os.W_OK | os.X_OK):
        raise UsageError(f"no permission to write to {out}")
    progress = not arguments.quiet and sys.stderr.isatty()
    files: list[pathlib.Path] = []
    try:
        for one in NAMES if name == "all" else (name,):
            files += _one(one, out, progress)
    except BaseException as error:
        if made and not any(out.iterdir()):
            out.rmdir()
        if isinstance(error, OSError):  # about a file inside, of which nothing is left
            raise UsageError(f"cannot write to {out}: {error.strerror or error}") from None
        raise
    pages = [file for file in files if file.suffix == ".html"]
    if arguments.json:
        print_json({"files": [str(file) for file in files], "pages": [str(page) for page in pages]})
    elif arguments.quiet:
        for file in files:
            print(file)
    else:
        print(f"{len(files)} files in {out}; the comparison with the source:")
        for page in pages:
            print(f"  {page}")
    return 0


def _one(name: str, out: pathlib.Path, progress: bool) -> list[pathlib.Path]:
    """Write one source's files: into a folder of its own first, so that nothing is ever half-written."""
    module = importlib.import_module(f"dpcore.reproduce.{name.replace('-', '_')}")
    draft = pathlib.Path(tempfile.mkdtemp(prefix=f".{name}-", dir=out))
    try:
        with _executor(name) as executor:
            extra: dict[str, Any] = {} if executor is None else {"executor": executor}
            made = [pathlib.Path(file) for file in module.run(draft, progress=progress, **extra)]
        files = []
        for file in made:
            target = out / file.relative_to(draft)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, target)
            files.append(target)
        return files
    finally:
        shutil.rmtree(draft, ignore_errors=True)


@contextlib.contextmanager
def _executor(name: str) -> Iterator[Executor | None]:
    """One process for each core, for the source whose grid is long enough to gain by it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if name != "partial-knowledge" or cores < 2:
        yield None
        return
    import multiprocessing  # not at the start: --help is to be quick
    from concurrent.futures import ProcessPoolExecutor

    # Fresh processes: a fork of one that has threads may hang.
    pool = ProcessPoolExecutor(cores, mp_context=multiprocessing.get_context("spawn"))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
