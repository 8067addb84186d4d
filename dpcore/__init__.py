"""How much noise is enough, given what an attacker can know and what risk we accept.

Areas are modules, loaded on first use: ``dpcore.gaussian``, ``dpcore.distributions``,
``dpcore.samplers``, ``dpcore.mechanisms``, ``dpcore.accounting``, ``dpcore.partial_knowledge``,
``dpcore.sensitivity``, ``dpcore.risk``, ``dpcore.ledger``, ``dpcore.audit``.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

_AREAS = (
    "accounting",
    "audit",
    "distributions",
    "gaussian",
    "ledger",
    "mechanisms",
    "partial_knowledge",
    "risk",
    "samplers",
    "sensitivity",
)

__all__ = ["SecureBitGenerator", "__version__", "build_info", "get_include", "get_library_dir", *_AREAS]


def build_info() -> dict[str, Any]:
    """Version, compiler and flags of the native core.

    ``sound_arithmetic`` is tried at each call: False if the core was compiled so that operations are reordered or
    fused, or if something in this process changed the rounding or flushes subnormal numbers to 0 (as loading a
    library linked with ``-ffast-math`` does). No guarantee of dpcore holds then.

    Examples
    --------
    >>> import dpcore
    >>> dpcore.build_info()["build_type"]
    'Release'
    >>> dpcore.build_info()["sound_arithmetic"]
    True
    """
    from dpcore import _core

    return dict(_core.build_info())


def get_include() -> str:
    """Folder to put on a compiler's include path for ``<dpcore/...>`` headers.

    Examples
    --------
    >>> import dpcore, pathlib
    >>> pathlib.Path(dpcore.get_include(), "dpcore").is_dir()
    True
    """
    from dpcore._embedding import include_dir

    return str(include_dir())


def get_library_dir() -> str:
    """Folder that holds the static library ``libdpcore.a``.

    Examples
    --------
    >>> import dpcore, pathlib
    >>> pathlib.Path(dpcore.get_library_dir(), "libdpcore.a").is_file()
    True
    """
    from dpcore._embedding import library_dir

    return str(library_dir())


def __getattr__(name: str) -> Any:
    # Areas import NumPy and SciPy; loading them on demand keeps `dpcore --help` instant.
    if name in _AREAS:
        return importlib.import_module(f"dpcore.{name}")
    if name == "SecureBitGenerator":
        from dpcore._bit_generator import SecureBitGenerator

        return SecureBitGenerator
    if name == "__version__":
        from dpcore import _core

        return _core.__version__
    if name == "_core" and importlib.util.find_spec("dpcore._core") is None:
        # Python puts the folder it is started in first: in a clone that is the source, not what was installed.
        raise ImportError(
            f"{__path__[0]} is the source of dpcore, without its compiled part; start Python in another folder "
            "to use the dpcore that is installed"
        )
    raise AttributeError(f"module 'dpcore' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
