"""Reading the columns that a question needs from a CSV or a Parquet file."""

from __future__ import annotations

import csv
import importlib.resources
import os
import pathlib
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, cast

from dpcore._predicate import Column

EXAMPLES = "example:"
FORMATS = {".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".pq": "parquet"}


class TableError(ValueError):
    """The file's structure, never the contents of a cell, is not what was expected."""


def locate(name: str) -> pathlib.Path:
    """The file called `name`; ``example:NAME`` is a data set that comes with dpcore."""
    if name.startswith(EXAMPLES):
        folder = pathlib.Path(str(importlib.resources.files("dpcore") / "data"))
        names = sorted(file.stem for file in folder.glob("*.csv"))
        wanted = name.removeprefix(EXAMPLES)
        if wanted not in names:
            raise TableError(f"there is no example {wanted!r}; there is {', '.join(names)}")
        return folder / f"{wanted}.csv"
    path = pathlib.Path(name)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {name}")
    if path.is_dir():
        raise TableError(f"{name} is a folder, not a file")
    return path


def read_columns(path: pathlib.Path, names: Sequence[str]) -> tuple[dict[str, Column], int]:
    """The columns called `names`, and the number of records.

    Raises
    ------
    TableError
        If the file is not a table, a column is unknown, or a line has too few or too many cells.
    """
    kind = FORMATS.get(path.suffix.lower())
    if kind is None:
        raise TableError(f"{path} must end in {', '.join(FORMATS)}")
    if not os.access(path, os.R_OK):
        raise PermissionError(f"no permission to read {path}")
    return _parquet(path, names) if kind == "parquet" else _csv(path, names, kind == "tsv")


def _wanted(path: pathlib.Path, names: Sequence[str], header: Sequence[str]) -> None:
    for name in names:
        if header.count(name) != 1:
            problem = "there is no column" if name not in header else "there is more than one column"
            shown = ", ".join(header[:12]) + (", ..." if len(header) > 12 else "")
            raise TableError(f"{problem} {name!r} in {path}; its columns are {shown}")


def _csv(path: pathlib.Path, names: Sequence[str], tabs: bool) -> tuple[dict[str, Column], int]:
    limit = csv.field_size_limit(2**31 - 1)  # no cell is too long
    try:
        # Bytes that are not UTF-8 are kept as they are: no cell is an error.
        with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
            reader = csv.reader(_lines(file), delimiter="\t" if tabs else ",", strict=True)
            header = [name.strip() for name in next(reader, [])]
            if not any(header):
                raise TableError(f"{path} has no first line with the names of its columns")
            if any("\0" in name or any("\ud800" <= c <= "\udfff" for c in name) for name in header):
                raise TableError(f"{path} is not text in UTF-8")
            _wanted(path, names, header)
            places = [header.index(name) for name in names]
            cells: list[list[str]] = [[] for _ in names]
            records = 0
            for row in reader:
                if not row:  # an empty line: a missing cell where there is one column, else nothing
                    if len(header) > 1:
                        continue
                    row = [""]
                if len(row) != len(header):
                    raise TableError(
                        f"line {reader.line_num} of {path} has {len(row)} cells, its first line has {len(header)}"
                    )
                records += 1
                for place, column in zip(places, cells, strict=True):
                    column.append(row[place])
    except csv.Error as error:
        raise TableError(f"{path} is not a table: {error}") from None
    finally:
        csv.field_size_limit(limit)
    return {name: Column(column) for name, column in zip(names, cells, strict=True)}, records


def _lines(file: Iterable[str]) -> Iterable[str]:
    """The lines of a file; before Python 3.11 csv takes a zero byte for an error, and a cell may hold one."""
    return file if sys.version_info >= (3, 11) else (line.replace("\0", "\ufffd") for line in file)


def _parquet(path: pathlib.Path, names: Sequence[str]) -> tuple[dict[str, Column], int]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise TableError("Parquet files need pyarrow: pip install 'dpcore[parquet]'") from None
    try:
        file = parquet.ParquetFile(path)
        _wanted(path, names, file.schema_arrow.names)
        table = file.read(columns=list(names))
        return {name: Column(_cells(path, name, table.column(name))) for name in names}, file.metadata.num_rows
    except pyarrow.ArrowException:
        raise TableError(f"{path} is not a Parquet file, or is damaged") from None


def _cells(path: pathlib.Path, name: str, column: Any) -> Sequence[Any]:
    """One plain Python value or text a cell; what cannot be is refused by its type, not by its value."""
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return cast("Sequence[Any]", column.to_numpy() if column.null_count == 0 else column.to_pylist())
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return [None if c is None else c.decode("utf-8", "surrogateescape") for c in column.to_pylist()]
    if types.is_temporal(kind):
        # By Arrow: Python's own types cannot hold every moment. Whole seconds are written without a fraction.
        return [None if c is None else re.sub(r"\.0+$", "", c) for c in column.cast("string").to_pylist()]
    if types.is_decimal(kind):
        column = column.cast("string")
    elif not (types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind)):
        raise TableError(f"column {name!r} of {path} holds {kind}, neither numbers nor text")
    return cast("Sequence[Any]", column.to_pylist())
