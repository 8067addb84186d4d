"""Writing a file whole or not at all."""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Iterator


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
