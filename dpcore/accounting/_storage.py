"""Saving and loading a `PrivacyLoss` as plain data: JSON or npz, never pickle."""

from __future__ import annotations

import io
import json
import os
import pathlib
from typing import Any

import numpy as np

from dpcore import _validation
from dpcore._files import read_json, replacing
from dpcore.accounting._loss import PrivacyLoss


def save(loss: PrivacyLoss, path: str | os.PathLike[str]) -> None:
    """Write `loss` to `path`; the name ends in ``.json`` or ``.npz``.

    The file lists the mechanisms and how often each is used. Numbers come back bit for bit.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from dpcore import accounting
    >>> loss = accounting.from_gaussian(sigma=2.5) * 40
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "loss.json"
    ...     accounting.save(loss, file)
    ...     accounting.load(file) == loss
    True
    """
    if not isinstance(loss, PrivacyLoss):
        raise TypeError(f"loss must be a PrivacyLoss, got {_validation.shown(loss)}")
    file, suffix = _file(path)
    data = loss.to_dict()
    if suffix == ".json":
        with replacing(file) as draft:
            draft.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        return
    arrays: dict[str, np.ndarray] = {}
    for index, row in enumerate(data["mechanisms"]):
        for key in ("p", "q"):
            if key in row:
                arrays[f"{key}{index}"] = np.asarray(row[key], dtype=np.float64)
                row[key] = f"{key}{index}"
    with replacing(file) as draft, draft.open("wb") as stream:
        np.savez(stream, description=np.array(json.dumps(data, allow_nan=False)), **arrays)  # type: ignore[arg-type]


def load(path: str | os.PathLike[str]) -> PrivacyLoss:
    """The loss that `save` wrote to `path`; contents are checked like arguments, nothing is executed.

    Raises
    ------
    ValueError
        If the file is damaged, is something else, or holds values that the ``from_`` functions refuse.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from dpcore import accounting
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "loss.npz"
    ...     accounting.save(accounting.from_laplace(epsilon=0.5) * 3, file)
    ...     accounting.load(file)
    PrivacyLoss(laplace(epsilon=0.5) * 3)
    """
    file, suffix = _file(path)
    content = file.read_bytes()  # what the system has against the file is said as it is
    try:
        return PrivacyLoss.from_dict(_read_json(content) if suffix == ".json" else _read_npz(content))
    except ValueError as error:
        raise ValueError(f"{file} is not a saved PrivacyLoss: {error}") from None


def _read_json(content: bytes) -> Any:
    try:
        return read_json(content.decode("utf-8"))
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON ({error})") from None


def _read_npz(content: bytes) -> Any:
    if not content.startswith(b"PK"):  # of anything else NumPy asks whether it may unpickle it
        raise ValueError("it is not an npz file")
    try:
        archive = np.load(io.BytesIO(content), allow_pickle=False)
    except Exception:  # of zipfile, zlib, struct or NumPy, which agree on no error
        raise ValueError("the archive is cut off or damaged") from None
    with archive:
        data = _read_json(str(_member(archive, "description")).encode("utf-8", "replace"))
        rows = data.get("mechanisms") if isinstance(data, dict) else None
        for row in rows if isinstance(rows, list) else ():
            for key in ("p", "q"):
                if isinstance(row, dict) and isinstance(row.get(key), str):
                    row[key] = _member(archive, row[key]).tolist()
    return data


def _member(archive: Any, name: str) -> np.ndarray:
    """One array of the archive."""
    shown = _validation.shown(name)
    if name not in archive.files:
        raise ValueError(f"the archive holds no array {shown}")
    try:
        array = archive[name]
    except Exception as error:
        objects = "allow_pickle" in str(error)
        what = "holds Python objects, which are never loaded" if objects else "is damaged"
        raise ValueError(f"the array {shown} in the archive {what}") from None
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{shown} in the archive is not an array")
    return array


def _file(path: str | os.PathLike[str]) -> tuple[pathlib.Path, str]:
    file = pathlib.Path(_validation.path("path", path))
    suffix = file.suffix.lower()
    if suffix not in (".json", ".npz"):
        raise ValueError(f"path must end in .json or .npz, got {_validation.shown(str(file))}")
    return file, suffix
