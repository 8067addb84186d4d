"""Mechanisms as people write them: ``gaussian:sigma=5,count=100``, or a file, of which a count may follow.

FILE.toml has ``[[mechanism]]`` tables, FILE.json and FILE.npz are what ``accounting.save`` wrote, and FILE.csv is
a pair of distributions: a line ``p,q``, then a line with two probabilities for each outcome.
"""

from __future__ import annotations

import csv
import dataclasses
import difflib
import inspect
import pathlib
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dpcore.cli._output import UsageError

if TYPE_CHECKING:
    from dpcore.accounting import PrivacyLoss

NAMES = (
    "laplace",
    "gaussian",
    "discrete_laplace",
    "discrete_gaussian",
    "randomized_response",
    "subsampled_gaussian",
    "pure",
    "approximate",
)
_ENDINGS = (".toml", ".csv", ".json", ".npz")
_FILE = re.compile(r"(?P<name>.*\.(?:toml|csv|json|npz))(?::(?P<rest>.*))?", re.DOTALL | re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Row:
    """One mechanism, its parameters, how often it is used, and the file that it is from, if any."""

    name: str
    parameters: dict[str, Any]
    count: int = 1
    file: str = dataclasses.field(default="", compare=False)

    def with_parameter(self, key: str, value: float) -> Row:
        """The same with another value."""
        return dataclasses.replace(self, parameters={**self.parameters, key: value})


def _maker(name: str) -> Callable[..., PrivacyLoss]:
    from dpcore import accounting

    maker: Callable[..., PrivacyLoss] = getattr(accounting, f"from_{name}")
    return maker


def parse(texts: Sequence[str]) -> list[Row]:
    """Rows from what was given on the command line."""
    rows: list[Row] = []
    for text in texts:
        file = _FILE.fullmatch(text)
        if file is None:
            rows.append(_from_text(text))
            continue
        given = _values(file["rest"] or "", text)
        count = _count(given.pop("count", 1), text)
        if given:
            raise UsageError(f"{text}: a file has no {next(iter(given))!r}; it has count")
        rows += _from_file(file["name"], count)
    if not rows:
        raise UsageError(f"there is no mechanism in {', '.join(texts)}" if texts else "no mechanism was given")
    return rows


def one_way(rows: Sequence[Row]) -> str:
    """What is to be said of mechanisms that are about an added or a removed record alone, or nothing."""
    ways = [way for way in ("add", "remove") if any(row.parameters.get("neighbours") == way for row in rows)]
    if not ways:
        return ""
    return (
        f"in one direction alone (neighbours={' and '.join(ways)}). That is less than differential privacy, which "
        "takes neighbours=both"
    )


def pairs(rows: Sequence[Row]) -> str:
    """What is to be said of pairs of distributions, or nothing."""
    if all(row.name != "pmf" for row in rows):
        return ""
    return (
        "The bounds hold for the pairs of distributions in the order given: p with the record, q without it. "
        "With the columns swapped the answer may be another, beside other pairs and beside sampled steps."
    )


def loss(rows: Sequence[Row]) -> PrivacyLoss:
    """All of them together."""
    from dpcore import accounting

    return accounting.compose(_maker(row.name)(**row.parameters) * row.count for row in rows)


def _count(count: Any, where: str) -> int:
    if isinstance(count, float) and count.is_integer():
        count = int(count)
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise UsageError(f"{where}: count must be a whole number >= 1, got {count!r}")
    return count


def _row(name: str, parameters: dict[str, Any], where: str) -> Row:
    given, name = name, name.replace("-", "_")
    if name == "pmf":
        raise UsageError(f"{where}: a pair of distributions is given as a file: FILE.csv with columns p and q")
    if name not in NAMES:
        raise UsageError(f"{where}: there is no mechanism {given!r}{_hint(given)}")
    count = _count(parameters.pop("count", 1), where)
    known = inspect.signature(_maker(name)).parameters
    for key in parameters:
        if key not in known:
            raise UsageError(f"{where}: {name} has no {key!r}; it has {', '.join(known)}")
    for key, parameter in known.items():
        if parameter.default is parameter.empty and key not in parameters:
            raise UsageError(f"{where}: {name} needs {key}")
    if isinstance(parameters.get("sensitivity"), float) and name.startswith("discrete"):
        value = parameters["sensitivity"]
        parameters["sensitivity"] = int(value) if value.is_integer() else value
    try:
        _maker(name)(**parameters)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{where}: {error}") from None
    return Row(name, parameters, count)


def _hint(name: str) -> str:
    """What may have been meant by a name that is none."""
    if "." in name:
        return f"; a file must end in {', '.join(_ENDINGS)}"
    near = difflib.get_close_matches(name.lower().replace("-", "_").replace(" ", "_"), NAMES, n=1)
    there = f"there is {', '.join(NAMES)}"
    return f" (did you mean {near[0]}?); {there}" if near else f"; {there}"


def _from_text(text: str) -> Row:
    name, _, rest = text.partition(":")
    return _row(name.strip(), _values(rest, text), text)


def _values(rest: str, text: str) -> dict[str, Any]:
    """What the KEY=VALUE,... of `text` say."""
    parameters: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        key, sign, value = part.partition("=")
        key = key.strip()
        if not sign:
            raise UsageError(f"{text}: expected KEY=VALUE, found {part!r}")
        if key in parameters:
            raise UsageError(f"{text}: {key} is given twice")
        try:
            parameters[key] = float(value)
        except ValueError:
            parameters[key] = value.strip()
    return parameters


def _from_file(name: str, count: int) -> list[Row]:
    """The mechanisms of a file, each as often as it says, times `count`."""
    suffix = pathlib.Path(name).suffix.lower()
    read = {".toml": _from_toml, ".csv": _from_csv}.get(suffix, _from_saved)
    try:
        rows = read(name)
    except FileNotFoundError:
        raise UsageError(f"there is no file {name}") from None
    return [dataclasses.replace(row, count=row.count * count) for row in rows]


def _from_saved(name: str) -> list[Row]:
    from dpcore import accounting

    try:
        mechanisms = accounting.load(name).to_dict()["mechanisms"]
    except ValueError as error:
        raise UsageError(str(error)) from None
    rows = []
    for parameters in mechanisms:
        kind, copies = parameters.pop("mechanism"), parameters.pop("copies")
        if kind.startswith("discrete"):
            parameters["sensitivity"] = int(parameters["sensitivity"])
        rows.append(Row(kind, parameters, copies, name))
    return rows


def _from_csv(name: str) -> list[Row]:
    from dpcore import accounting

    columns: list[str] = []
    pair: dict[str, list[float]] = {"p": [], "q": []}
    try:
        with open(name, encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, strict=True)
            for cells in reader:
                where = f"{name}, line {reader.line_num}"
                cells = [cell.strip() for cell in cells]
                if not any(cells):
                    continue
                if not columns:
                    if sorted(cells) != ["p", "q"]:
                        raise UsageError(f"{where}: the columns must be p,q, got {','.join(cells)!r}")
                    columns = cells
                    continue
                if len(cells) != 2:
                    raise UsageError(f"{where}: expected two probabilities, p and q, found {len(cells)} cells")
                for column, cell in zip(columns, cells, strict=True):
                    try:
                        pair[column].append(float(cell))
                    except ValueError:
                        raise UsageError(f"{where}: {column} must be a number, got {cell!r}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{name} is not UTF-8 text") from None
    except csv.Error as error:
        raise UsageError(f"{name} is not CSV: {error}") from None
    try:
        accounting.from_pmf(pair["p"], pair["q"])
    except ValueError as error:
        raise UsageError(f"{name} is not a pair of distributions: {error}") from None
    return [Row("pmf", dict(pair), file=name)]


def _from_toml(name: str) -> list[Row]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    path = pathlib.Path(name)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, or a number beyond reading
        raise UsageError(f"{name} is not TOML: {error}") from None
    tables = data.pop("mechanism", None)
    if data or not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise UsageError(f"{name} must hold [[mechanism]] tables and nothing else")
    rows: list[Row] = []
    for number, table in enumerate(tables, 1):
        where = f"{name}, mechanism {number}"
        if "file" in table:
            file, count = table.pop("file"), table.pop("count", 1)
            if not isinstance(file, str) or not file.lower().endswith((".csv", ".json", ".npz")):
                raise UsageError(f"{where}: file must end in .csv, .json or .npz, got {file!r}")
            if table:
                raise UsageError(f"{where}: beside file there is only count, not {next(iter(table))!r}")
            rows += _from_file(str(path.parent / file), _count(count, where))
            continue
        if not isinstance(table.get("name"), str):
            raise UsageError(f"{where}: name is missing")
        kind = table.pop("name")
        try:
            numbers = {k: float(v) if type(v) is int and k != "count" else v for k, v in table.items()}
        except OverflowError:
            raise UsageError(f"{where}: a number is beyond the range of a double") from None
        rows.append(_row(kind, numbers, where))
    return rows
