"""Where the records come from: a callable, an array to resample, or a SciPy distribution."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Rng = np.random.Generator


def take(records: Any, index: Any) -> Any:
    """Records by position: those of a slice or an array of positions, or a single one.

    A data frame or series of pandas is asked by position too, never by its labels.
    """
    return records.iloc[index] if hasattr(records, "iloc") else records[index]


def neighbour(records: Any, n: int) -> Any:
    """The first n records with the last of them replaced by the one after; a copy."""
    if isinstance(records, np.ndarray):
        return np.concatenate((records[: n - 1], records[n:]))
    if hasattr(records, "iloc"):
        return records.iloc[[*range(n - 1), n]]
    return [*records[: n - 1], records[n]]


@dataclass(frozen=True)
class ArraySource:
    """Rows of a public array or data frame, drawn with replacement: independent with its empirical law."""

    rows: Any
    seeded = True

    def draw(self, count: int, rng: Rng) -> Any:
        """`count` records."""
        return take(self.rows, rng.integers(0, len(self.rows), size=count))


@dataclass(frozen=True)
class DistributionSource:
    """A frozen SciPy distribution, old style (``rvs``) or new style (``sample``)."""

    distribution: Any
    seeded = True

    def draw(self, count: int, rng: Rng) -> Any:
        """`count` records."""
        if hasattr(self.distribution, "rvs"):
            return self.distribution.rvs(size=count, random_state=rng)
        return self.distribution.sample(count, rng=rng)


@dataclass(frozen=True)
class SeededSource:
    """A callable of (count, rng) that takes all its randomness from the generator it is given."""

    function: Callable[..., Any]
    by_name: bool
    seeded = True

    def draw(self, count: int, rng: Rng) -> Any:
        """`count` records."""
        return self.function(count, rng=rng) if self.by_name else self.function(count, rng)


@dataclass(frozen=True)
class PlainSource:
    """A callable of (count) with randomness of its own.

    It is only ever called in the caller's thread and in order: a copy of its generator in each worker process
    would draw the same "independent" records in all of them and void the guarantee.
    """

    function: Callable[..., Any]
    seeded = False

    def draw(self, count: int, rng: Rng | None = None) -> Any:
        """`count` records."""
        return self.function(count)


Source = ArraySource | DistributionSource | SeededSource | PlainSource


def as_source(sample: Any) -> Source:
    """The source that `sample` describes."""
    if hasattr(sample, "rvs") or (hasattr(sample, "sample") and hasattr(sample, "logpdf")):
        return DistributionSource(sample)
    if callable(sample):
        return _callable_source(sample)
    if isinstance(sample, (str, bytes, dict, set)) or sample is None:
        raise TypeError(_expected(sample))
    rows = sample
    if not hasattr(sample, "iloc"):
        try:
            rows = np.asarray(sample)
        except ValueError as error:
            raise ValueError(f"sample must be a rectangular array of records: {error}") from None
        if rows.ndim == 0:
            raise TypeError(_expected(sample))
    if len(rows) == 0:
        raise ValueError("sample must hold at least one record to resample, got an empty array")
    return ArraySource(rows)


def _expected(sample: Any) -> str:
    return (
        "sample must be a callable of (count) or (count, rng), an array of records to resample from, or a "
        f"frozen SciPy distribution, got {type(sample).__name__}"
    )


def _callable_source(function: Callable[..., Any]) -> Source:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return PlainSource(function)
    for parameter in parameters:
        if parameter.name == "rng" and parameter.kind is not parameter.POSITIONAL_ONLY:
            return SeededSource(function, by_name=True)
    required = [
        p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    if len(required) == 2:
        return SeededSource(function, by_name=False)
    if len(required) > 2:
        raise TypeError(f"sample must be a callable of (count) or (count, rng), got {len(required)} arguments")
    return PlainSource(function)


class Streams:
    """Independent random streams by number: stream i is the same whoever asks for it, and in whatever order.

    Philox is counter based: the key comes from the seed, the upper half of the counter is the number of the
    stream, and each stream has 2^128 blocks to itself.
    """

    def __init__(self, seed: int) -> None:
        key = np.random.SeedSequence(seed).generate_state(2, np.uint64)
        self._bits = np.random.Philox(key=key)
        self._state: Any = self._bits.state
        self._rng = np.random.Generator(self._bits)

    def __getitem__(self, number: int) -> Rng:
        """The generator, set to the start of stream `number`; valid until the next call."""
        self._state["state"]["counter"][2] = number
        # Setting the state also empties the buffer of numbers drawn from the stream before.
        self._bits.state = self._state
        return self._rng
