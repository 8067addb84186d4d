"""Where the headers, the library and the CMake package lie inside the installed package."""

from __future__ import annotations

from pathlib import Path


def _existing(*parts: str) -> Path:
    from dpcore import _core

    # Beside the extension module, which is where an installed wheel has everything.
    path = Path(_core.__file__).resolve().parent.joinpath(*parts)
    if not path.is_dir():
        raise FileNotFoundError(f"{path} is missing: dpcore was not installed from a wheel")
    return path


def include_dir() -> Path:
    """Folder with ``dpcore/*.hpp`` and ``dpcore/c_api.h``."""
    return _existing("include")


def library_dir() -> Path:
    """Folder with ``libdpcore.a``."""
    return _existing("lib")


def cmake_dir() -> Path:
    """Folder with ``dpcoreConfig.cmake``."""
    return _existing("lib", "cmake", "dpcore")
