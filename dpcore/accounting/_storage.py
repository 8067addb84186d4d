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
        raise TypeError(f"loss must be a PrivacyLoss, got {loss!r}")
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
        data = read_json(content.decode("utf-8")) if suffix == ".json" else _read_npz(content)
    except Exception as error:
        # A damaged file fails inside json, zipfile, zlib, struct, tokenize or NumPy, each with errors of its own.
        raise ValueError(f"{file} is not a saved PrivacyLoss: {type(error).__name__}: {error}") from None
    return PrivacyLoss.from_dict(data)


def _read_npz(content: bytes) -> Any:
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        data = read_json(str(archive["description"]))
        rows = data.get("mechanisms") if isinstance(data, dict) else None
        for row in rows if isinstance(rows, list) else ():
            for key in ("p", "q"):
                if isinstance(row, dict) and isinstance(row.get(key), str):
                    row[key] = archive[row[key]].tolist()
    return data


def _file(path: str | os.PathLike[str]) -> tuple[pathlib.Path, str]:
    file = pathlib.Path(_validation.path("path", path))
    suffix = file.suffix.lower()
    if suffix not in (".json", ".npz"):
        raise ValueError(f"path must end in .json or .npz, got {_validation.shown(str(file))}")
    return file, suffix
