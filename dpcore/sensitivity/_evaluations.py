"""Sensitivities already sampled: kept through errors and interrupts, saved, loaded and resumed from."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcore import _files
from dpcore import _validation as check
from dpcore._results import Result
from dpcore._validation import FloatArray


@dataclass(frozen=True, repr=False, eq=False)
class Evaluations(Result):
    """Sampled sensitivities of a target.

    Attributes
    ----------
    indices : int array
        Numbers of the evaluations made, ascending from 0; gaps are evaluations that are still to be made.
    sensitivities : float array
        ||f(D) - f(D')|| of each; infinite where the target gave NaN or infinity.
    wanted : int
        How many had been asked for.
    seed : int or None
        Seed of the random streams; None if the record sampler has randomness of its own.
    target, records, norm, block
        What was evaluated and how; resuming checks that these agree.
    shape : tuple of int or None
        Shape of the target's values; None if no evaluation was made.
    """

    indices: NDArray[np.int64]
    sensitivities: FloatArray
    wanted: int
    seed: int | None
    target: str
    records: int
    norm: str
    block: int
    shape: tuple[int, ...] | None

    @property
    def statement(self) -> str:
        """How far the work is."""
        return f"{len(self.indices)} of {self.wanted} sensitivities of {self.target} have been sampled."

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        return f"Evaluations({len(self.indices)} of {self.wanted}, target={self.target!r}, seed={self.seed})"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a JSON file; the file is replaced at once or not at all."""
        write_json(path, "evaluations", self.to_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Evaluations:
        """Read what `save` wrote."""
        fields = read_json(path, "evaluations")
        try:
            indices = np.array([check.integer("indices", i) for i in fields["indices"]], dtype=np.int64)
            values = np.array([float(v) for v in fields["sensitivities"]], dtype=np.float64)
            out = cls(
                indices,
                values,
                check.integer("wanted", fields["wanted"], least=1),
                None if fields["seed"] is None else check.integer("seed", fields["seed"], most=2**128 - 1),
                text_of("target", fields["target"]),
                check.integer("records", fields["records"], least=1),
                text_of("norm", fields["norm"]),
                check.integer("block", fields["block"], least=1),
                None if fields["shape"] is None else tuple(check.integer("shape", n) for n in fields["shape"]),
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{path} does not hold evaluations: {type(error).__name__}: {error}") from None
        wrong = len(indices) != len(values) or (np.diff(indices, prepend=-1, append=out.wanted) <= 0).any()
        if wrong or not (values >= 0).all() or (out.shape is None and len(indices) > 0):
            raise ValueError(f"{path} does not hold evaluations: its numbers contradict each other")
        return out


def text_of(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, got {value!r}")
    return value


FORMAT = 1


def write_json(path: str | os.PathLike[str], kind: str, fields: dict[str, Any]) -> None:
    """Write `fields` under a kind and a format number; infinities as strings, which JSON can hold."""
    text = json.dumps({"dpcore": kind, "format": FORMAT, **_with_words(fields)}, allow_nan=False, indent=1)
    path = Path(check.path("path", path))
    # A new file beside the old one, renamed over it: an interrupt leaves the old one or the new one.
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_json(path: str | os.PathLike[str], kind: str) -> dict[str, Any]:
    """Read what `write_json` wrote; ValueError if it is something else."""
    path = check.path("path", path)
    try:
        fields = _files.read_json(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a JSON file: {error}") from None
    if not isinstance(fields, dict) or fields.get("dpcore") != kind:
        raise ValueError(f"{path} does not hold {kind} of dpcore")
    if fields.get("format") != FORMAT or fields["format"] is True:
        raise ValueError(f"{path} has format {fields.get('format')!r}, this version reads {FORMAT}")
    return fields


def _with_words(value: Any) -> Any:
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _with_words(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_words(item) for item in value]
    return value
