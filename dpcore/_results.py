"""Base of the result objects: frozen, readable, convertible, and saying their guarantee in words."""

from __future__ import annotations

import dataclasses
import decimal
import math
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """`value` in types that JSON knows."""
    if isinstance(value, type):
        return value
    if callable(getattr(value, "to_dict", None)):
        return value.to_dict()
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def rounded_up(value: float, digits: int = 6) -> float:
    """The smallest number of so many digits that is not below `value`, as its shortest decimal form has it.

    For what people copy: noise, and the epsilon and delta of a guarantee.

    Examples
    --------
    >>> from dpcore._results import rounded_up
    >>> rounded_up(458.5082001), rounded_up(0.1)
    (458.509, 0.1)
    """
    return _rounded(value, digits, decimal.ROUND_CEILING)


def upward(value: float, digits: int = 6) -> str:
    """`rounded_up` as text."""
    return f"{rounded_up(value, digits):.{digits}g}"


def downward(value: float, digits: int = 6) -> str:
    """The largest number of so many digits that is not above `value`, as text: for what is left of a budget."""
    return f"{_rounded(value, digits, decimal.ROUND_FLOOR):.{digits}g}"


def _rounded(value: float, digits: int, rounding: str) -> float:
    number = float(value)
    if not math.isfinite(number):
        return number
    return float(decimal.Context(prec=digits, rounding=rounding).plus(decimal.Decimal(repr(number))))


@dataclasses.dataclass(frozen=True)
class Result:
    """A frozen dataclass whose subclasses define `statement`."""

    @property
    def statement(self) -> str:
        """The guarantee in words."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Fields by name in plain types, and the statement."""
        fields = {f.name: plain(getattr(self, f.name)) for f in dataclasses.fields(self)}
        return {**fields, "statement": self.statement}
