"""Mechanisms as people write them: ``gaussian:sigma=5,count=100``, or a TOML file of ``[[mechanism]]`` tables."""

from __future__ import annotations

import dataclasses
import inspect
import pathlib
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


@dataclasses.dataclass(frozen=True)
class Row:
    """One mechanism, its parameters, and how often it is used."""

    name: str
    parameters: dict[str, Any]
    count: int = 1

    def with_parameter(self, key: str, value: float) -> Row:
        """The same with another value."""
        return dataclasses.replace(self, parameters={**self.parameters, key: value})


def _maker(name: str) -> Callable[..., PrivacyLoss]:
    from dpcore import accounting

    maker: Callable[..., PrivacyLoss] = getattr(accounting, f"from_{name}")
    return maker


def parse(texts: Sequence[str]) -> list[Row]:
    """Rows from what was given on the command line; a name that ends in .toml is a file."""
    rows: list[Row] = []
    for text in texts:
        rows += _from_file(text) if text.endswith(".toml") else [_from_text(text)]
    if not rows:
        raise UsageError("no mechanism was given")
    return rows


def loss(rows: Sequence[Row]) -> PrivacyLoss:
    """All of them together."""
    from dpcore import accounting

    return accounting.compose(_maker(row.name)(**row.parameters) * row.count for row in rows)


def _row(name: str, parameters: dict[str, Any], where: str) -> Row:
    name = name.replace("-", "_")
    if name not in NAMES:
        raise UsageError(f"{where}: there is no mechanism {name!r}; there is {', '.join(NAMES)}")
    count = parameters.pop("count", 1)
    if isinstance(count, float) and count.is_integer():
        count = int(count)
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise UsageError(f"{where}: count must be a whole number >= 1, got {count!r}")
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


def _from_text(text: str) -> Row:
    name, _, rest = text.partition(":")
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
    return _row(name.strip(), parameters, text)


def _from_file(name: str) -> list[Row]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    path = pathlib.Path(name)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"there is no file {name}") from None
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, or a number beyond reading
        raise UsageError(f"{name} is not TOML: {error}") from None
    tables = data.pop("mechanism", None)
    if data or not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise UsageError(f"{name} must hold [[mechanism]] tables and nothing else")
    rows = []
    for number, table in enumerate(tables, 1):
        where = f"{name}, mechanism {number}"
        if not isinstance(table.get("name"), str):
            raise UsageError(f"{where}: name is missing")
        kind = table.pop("name")
        try:
            numbers = {k: float(v) if type(v) is int and k != "count" else v for k, v in table.items()}
        except OverflowError:
            raise UsageError(f"{where}: a number is beyond the range of a double") from None
        rows.append(_row(kind, numbers, where))
    return rows
