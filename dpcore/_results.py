"""Base of the result objects: frozen, readable, convertible, and saying their guarantee in words."""

from __future__ import annotations

import dataclasses
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
