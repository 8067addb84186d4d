"""Checks that the samplers share; all of them run before any randomness is used."""

from __future__ import annotations

import math
from typing import Any

from dpcore import _core, _validation
from dpcore._core import InsecureTestRng

Size = int | tuple[int, ...]

LEAST_SCALE = 1e-3
GREATEST_SCALE = 1e15
_GREATEST_COUNT = 2**59  # 2**62 bytes: what an array can hold at all


def integer_scale(name: str, value: Any) -> float:
    rule = f"a number in [{LEAST_SCALE!r}, {GREATEST_SCALE!r}]"
    return _validation.scalar(name, _validation.real(name, value, rule, LEAST_SCALE, GREATEST_SCALE))


def real_scale(name: str, value: Any) -> float:
    return _validation.scalar(name, _validation.real(name, value, "a number in [1e-280, 1e280]", 1e-280, 1e280))


def grid_of(scale: float, grid: Any) -> float:
    if grid is None:
        return _core.grid_for(scale)
    rule = "a power of two between scale / 2**49 and 1024 * scale"
    checked = _validation.scalar("grid", _validation.real("grid", grid, rule, scale * 2.0**-49, 1024 * scale))
    if math.frexp(checked)[0] != 0.5:
        raise ValueError(f"grid must be {rule}, got {grid!r}")
    return checked


def source_of(rng: Any) -> InsecureTestRng | None:
    if rng is not None and not isinstance(rng, InsecureTestRng):
        raise TypeError(
            "rng must be None (the operating system's randomness) or a dpcore.samplers.InsecureTestRng, "
            f"got {rng!r}"
        )
    return rng


def shape_of(size: Any) -> tuple[int, ...]:
    dimensions = size if isinstance(size, tuple) else (size,)
    shape = tuple(_validation.integer("size", d, most=_GREATEST_COUNT) for d in dimensions)
    if math.prod(shape) > _GREATEST_COUNT:
        raise ValueError(f"size must name at most 2**59 elements, got {size!r}")
    return shape
