"""Writing a file whole or not at all, and reading one that says everything once."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any


def read_json(text: str) -> Any:
    """What a JSON text says; ValueError where it says two things under one name, of which Python takes the last.

    Examples
    --------
    >>> from dpcore._files import read_json
    >>> read_json('{"sigma": 2.0, "sigma": 200.0}')
    Traceback (most recent call last):
    ...
    ValueError: 'sigma' is given twice
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for name, value in pairs:
            if name in out:
                raise ValueError(f"{name!r} is given twice")
            out[name] = value
        return out

    return json.loads(text, object_pairs_hook=once)


@contextlib.contextmanager
def replacing(target: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
    """A name to write to, beside `target` and with its ending; renamed to it at the end, removed on any error.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from dpcore._files import replacing
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(pathlib.Path(folder) / "a.txt") as draft:
    ...         _ = draft.write_text("all of it")
    ...     [path.name for path in pathlib.Path(folder).iterdir()]
    ['a.txt']
    """
    path = pathlib.Path(target)
    draft = path.with_name(f".{path.stem[:64]}.{os.getpid()}.{os.urandom(4).hex()}{path.suffix}")
    try:
        if path.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        yield draft
        os.replace(draft, path)
    except OSError as error:
        # What the user named, not the draft beside it.
        shown = str(path) if len(str(path)) <= 300 else f"{str(path)[:300]}..."
        raise type(error)(f"cannot write {shown}: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
