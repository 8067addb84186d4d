"""Hostile values, by the kind of argument that they replace.

Three groups. WRONG values must be refused. EXTREME values may be refused or answered, but never with NaN, and
work without end is only for the HUGE among them. FORMS are a value that is right in an unusual wrapping: the
answer must be that for the plain value, or a refusal.
"""

import datetime
import decimal
import fractions
import pathlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

NAN = float("nan")
INF = float("inf")


class Junk:
    """An object that is nothing in particular."""

    def __repr__(self) -> str:
        return "Junk()"


class Lying:
    """Says that it is an array and is none."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise RuntimeError("no array after all")

    def __repr__(self) -> str:
        return "Lying()"


class LyingFloat(float):
    """NaN, but to comparisons whatever they want to hear."""

    def __gt__(self, other: Any) -> bool:
        return True

    __lt__ = __ge__ = __le__ = __gt__


class LyingInt(int):
    """A whole number that says that it is another, and to comparisons whatever they want to hear."""

    def __float__(self) -> float:
        return NAN

    def __gt__(self, other: Any) -> bool:
        return True

    __lt__ = __ge__ = __le__ = __gt__


class LyingText(str):
    """Equal to everything."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return True


def self_containing() -> list[Any]:
    box: list[Any] = []
    box.append(box)
    return box


WRONG_NUMBERS: dict[str, Callable[[], Any]] = {
    "nan": lambda: NAN,
    "float64 nan": lambda: np.float64("nan"),
    "float16 nan": lambda: np.float16("nan"),
    "lying nan": lambda: LyingFloat("nan"),
    "zero-d nan": lambda: np.array(NAN),
    "[nan]": lambda: [NAN],
    "array with nan": lambda: np.array([0.5, NAN]),
    "float32 nan array": lambda: np.array([NAN, 0.5], dtype=np.float32),
    "Decimal nan": lambda: decimal.Decimal("NaN"),
    "Decimal snan": lambda: decimal.Decimal("sNaN"),
    "True": lambda: True,
    "np.True_": lambda: np.True_,
    "[True]": lambda: [True],
    "[1, True]": lambda: [1, True],
    "bool array": lambda: np.array([True, False]),
    "str": lambda: "0.5",
    "empty str": lambda: "",
    "np.str_": lambda: np.str_("1"),
    "bytes": lambda: b"1",
    "bytearray": lambda: bytearray(b"1"),
    "complex": lambda: 1 + 0j,
    "np.complex128": lambda: np.complex128(1),
    "complex array": lambda: np.array([1 + 0j, 2]),
    "str array": lambda: np.array(["1", "2"]),
    "bytes array": lambda: np.array([b"1"]),
    "[str]": lambda: ["1", "2"],
    "[None]": lambda: [None],
    "[bytes, float]": lambda: [b"1", 1.0],
    "object array of objects": lambda: np.array([Junk(), Junk()], dtype=object),
    "object array with None": lambda: np.array([1.0, None], dtype=object),
    "object array with nan": lambda: np.array([1.0, NAN], dtype=object),
    "structured array": lambda: np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
    "datetime64": lambda: np.datetime64("2020-01-01"),
    "timedelta64": lambda: np.timedelta64(3, "s"),
    "datetime": lambda: datetime.datetime(2020, 1, 1),
    "ragged": lambda: [[1.0], [1.0, 2.0]],
    "ragged object array": lambda: np.array([np.array([1.0]), np.array([1.0, 2.0])], dtype=object),
    "dict": lambda: {"a": 1},
    "set": lambda: {1.0},
    "generator": lambda: (x for x in (0.5, 0.5)),
    "function": lambda: len,
    "type": lambda: float,
    "junk": Junk,
    "lying array": Lying,
    "self-containing list": self_containing,
    "masked array": lambda: np.ma.array([0.5, 0.5], mask=[False, True]),
    "masked constant": lambda: np.ma.masked,
    "Ellipsis": lambda: ...,
    "10**5000": lambda: 10**5000,  # more digits than Python prints
}

EXTREME_NUMBERS: dict[str, Callable[[], Any]] = {
    "inf": lambda: INF,
    "-inf": lambda: -INF,
    "0": lambda: 0,
    "0.0": lambda: 0.0,
    "-0.0": lambda: -0.0,
    "-1": lambda: -1,
    "-0.5": lambda: -0.5,
    "1": lambda: 1,
    "1.0": lambda: 1.0,
    "1.5": lambda: 1.5,
    "smallest subnormal": lambda: 5e-324,
    "negative subnormal": lambda: -5e-324,
    "largest subnormal": lambda: 2.225073858507201e-308,
    "smallest normal": lambda: 2.2250738585072014e-308,
    "1e-300": lambda: 1e-300,
    "1e-17": lambda: 1e-17,
    "1 - 2**-53": lambda: 1 - 2**-53,
    "1 + 2**-52": lambda: 1 + 2**-52,
    "-1e300": lambda: -1e300,
    "-2**63": lambda: -(2**63),
    "-10**400": lambda: -(10**400),
    "[inf]": lambda: [INF],
    "[0.5, 97.0]": lambda: [0.5, 97.0],
    "array with -inf": lambda: np.array([0.5, -INF]),
    "subnormal array": lambda: np.array([5e-324, 0.5]),
    "float16 inf": lambda: np.float16("inf"),
    "longdouble beyond double": lambda: np.longdouble("1e4000"),
    "longdouble array beyond double": lambda: np.array(["1e4000", "1"], dtype=np.longdouble),
    "empty list": lambda: [],
    "empty array": lambda: np.empty(0),
    "empty 2-d": lambda: np.empty((0, 3)),
    "empty rows": lambda: np.empty((3, 0)),
    "thirty dimensions": lambda: np.full((1,) * 30, 0.5),
    "nested list": lambda: [[[0.5]]],
    "broadcast zero stride": lambda: np.broadcast_to(0.5, (3,)),
}

# The amount of work may follow the number: a memory error, or an interrupt, is a right outcome as well.
HUGE_NUMBERS: dict[str, Callable[[], Any]] = {
    "2**31": lambda: 2**31,
    "2**53": lambda: 2**53,
    "2**53 + 1": lambda: 2**53 + 1,
    "2**63 - 1": lambda: 2**63 - 1,
    "2**63": lambda: 2**63,
    "2**64": lambda: 2**64,
    "10**400": lambda: 10**400,
    "-10**5000": lambda: -(10**5000),
    "uint64 max": lambda: np.uint64(2**64 - 1),
    "uint64 array": lambda: np.array([2**64 - 1, 1], dtype=np.uint64),
    "1e9": lambda: 1e9,
    "1e16": lambda: 1e16,
    "1e300": lambda: 1e300,
    "largest double": lambda: 1.7976931348623157e308,
    "[1e308, 1e308]": lambda: [1e308, 1e308],
    "[10**400]": lambda: [10**400],
    "object array of huge": lambda: np.array([10**400, 1], dtype=object),
    "Decimal 1e400": lambda: decimal.Decimal("1e400"),
    "Fraction huge": lambda: fractions.Fraction(10**400, 3),
}

# What a private number may be as well: it is clamped, or counts as 0 or 1, without an error.
ANY_NUMBER = {
    name
    for name in WRONG_NUMBERS
    if "nan" in name or name in ("True", "np.True_", "[True]", "[1, True]", "bool array")
}
ANY_NUMBER |= {"10**5000"}

WRONG_CHOICES: dict[str, Callable[[], Any]] = {
    "nonsense": lambda: "nonsense",
    "empty": lambda: "",
    "bytes": lambda: b"both",
    "number": lambda: 3,
    "nan": lambda: NAN,
    "True": lambda: True,
    "list": lambda: ["l1"],
    "array": lambda: np.array([1.0, 2.0]),
    "str array": lambda: np.array(["l1", "l2"]),
    "dict": lambda: {},
    "junk": Junk,
    "surrogate": lambda: "\ud800",
    "null": lambda: "l1\0",
    "lying": lambda: LyingText("nonsense"),
}

WRONG_FLAGS: dict[str, Callable[[], Any]] = {
    "no": lambda: "no",
    "empty": lambda: "",
    "0": lambda: 0,
    "2": lambda: 2,
    "nan": lambda: NAN,
    "array": lambda: np.array([True, False]),
    "empty list": lambda: [],
    "junk": Junk,
}

WRONG_OBJECTS: dict[str, Callable[[], Any]] = {
    "number": lambda: 3,
    "nan": lambda: NAN,
    "str": lambda: "x",
    "bytes": lambda: b"x",
    "True": lambda: True,
    "list": lambda: [1.0],
    "dict": lambda: {"a": 1},
    "array": lambda: np.array([1.0, 2.0]),
    "junk": Junk,
    "Junk class": lambda: Junk,
    "numpy generator": lambda: np.random.default_rng(1),
    "random.Random": lambda: random.Random(1),
}

WRONG_FUNCTIONS = {name: make for name, make in WRONG_OBJECTS.items() if name != "Junk class"}


def _raises(*_a: Any, **_k: Any) -> Any:
    raise RuntimeError("the caller's function failed")


# Functions that a caller gives, misbehaving; their own error may come through.
EXTREME_FUNCTIONS: dict[str, Callable[[], Any]] = {
    "raises": lambda: _raises,
    "returns None": lambda: lambda *a, **k: None,
    "returns nan": lambda: lambda *a, **k: NAN,
    "returns inf": lambda: lambda *a, **k: INF,
    "returns str": lambda: lambda *a, **k: "x",
    "returns junk": lambda: lambda *a, **k: Junk(),
    "returns complex": lambda: lambda *a, **k: 1j,
    "returns empty": lambda: lambda *a, **k: [],
    "returns ragged": lambda: lambda *a, **k: [[1.0], [1.0, 2.0]],
    "returns huge": lambda: lambda *a, **k: 1e308,
    "takes nothing": lambda: lambda: 0.5,
}

WRONG_PATHS: dict[str, Callable[[], Any]] = {
    "number": lambda: 97,  # never a file descriptor
    "True": lambda: True,
    "1.5": lambda: 1.5,
    "list": lambda: ["a"],
    "junk": Junk,
    "null byte": lambda: "a\0b",
    "empty": lambda: "",
    "folder": lambda: "/",
    "no such folder": lambda: "/no/such/folder/file",
    "long name": lambda: "/tmp/" + "x" * 5000,
    "surrogate": lambda: "/no/\ud800",
    "Path of no folder": lambda: pathlib.Path("/no/such/folder/file"),
}


def number_forms(value: Any) -> Iterator[tuple[str, Any, Any]]:
    """(name, form, plain value of the form) for a number."""
    plain = float(value)
    for kind in (np.float64, np.float32, np.float16, np.longdouble):
        yield np.dtype(kind).name, kind(plain), float(kind(plain))
    yield "zero-d array", np.array(plain), plain
    yield "big-endian zero-d", np.array(plain, dtype=">f8"), plain
    yield "Fraction", fractions.Fraction(plain), plain
    yield "Decimal", decimal.Decimal(plain), plain
    if plain.is_integer():
        whole = int(plain)
        yield "int", whole, whole
        yield "lying int", LyingInt(whole), whole
        yield "float", plain, whole
        for letter in "bBhHiIqQ":
            if np.iinfo(letter).min <= whole <= np.iinfo(letter).max:
                yield f"np.{np.dtype(letter).name}", np.dtype(letter).type(whole), whole
        yield "zero-d int array", np.array(whole), whole
        yield "big-endian int", np.array(whole, dtype=">i8"), whole
        yield "zero-d object", np.array(whole, dtype=object), whole


def array_forms(values: Any) -> Iterator[tuple[str, Any, Any]]:
    """(name, form, plain array of the same numbers) for an array of numbers."""
    base = np.array(values)
    if base.ndim == 0 or base.dtype.kind not in "iuf":
        return
    wide = np.repeat(base, 2, axis=-1)
    yield "strided", wide[..., ::2], base
    yield "reversed twice", base[..., ::-1].copy()[..., ::-1], base
    frozen = base.copy()
    frozen.flags.writeable = False
    yield "read-only", frozen, base
    yield "big-endian", base.astype(base.dtype.newbyteorder(">")), base
    yield "Fortran order", np.asfortranarray(base), base
    unaligned = np.zeros(base.nbytes + 1, dtype=np.uint8)[1:].view(base.dtype).reshape(base.shape)
    unaligned[...] = base
    yield "unaligned", unaligned, base
    yield "list", base.tolist(), base
    yield "tuple", tuple(base.tolist()), base
    yield "object array", base.astype(object), base
    yield "unmasked masked array", np.ma.array(base), base
    yield "subclass", base.view(np.matrix) if base.ndim == 2 else base.view(np.recarray), base
    yield "memoryview", memoryview(base), base
    for kind in (np.float32, np.float16, np.longdouble, np.int32, np.int64, np.uint8):
        form = base.astype(kind)
        if np.all(np.isfinite(form)) and (np.dtype(kind).kind == "f" or np.array_equal(form, base)):
            yield f"{np.dtype(kind).name} array", form, np.array(form.tolist())
