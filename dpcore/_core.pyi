# Stubs of the native module, by hand; one section a concept, in the order of module.cpp.
from typing import Any

__version__: str

# build_info
def build_info() -> dict[str, Any]: ...
