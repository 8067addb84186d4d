"""What may be known about the unknown records: one bias, a range, strata, unequal probabilities, a mixture."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcore._validation import integer, probability, scalar

FloatArray = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Range:
    """Every record has a probability of its own somewhere in [low, high]; the worst case over all of them.

    Examples
    --------
    >>> from dpcore.partial_knowledge import Range
    >>> Range(0.2, 0.3)
    Range(low=0.2, high=0.3)
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        low = scalar("low", probability("low", self.low))
        high = scalar("high", probability("high", self.high))
        if not low <= high:
            raise ValueError(f"bias must be a range (low, high) with low <= high, got ({low!r}, {high!r})")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    def __str__(self) -> str:
        return f"of any probabilities in [{self.low!r}, {self.high!r}], different from record to record if need be"


@dataclasses.dataclass(frozen=True)
class Strata:
    """Groups of records, each with a size and a bias of its own.

    Examples
    --------
    >>> from dpcore.partial_knowledge import Strata
    >>> Strata([(600, 0.1), (400, 0.5)]).size
    1000
    """

    groups: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        groups = []
        if isinstance(self.groups, (str, bytes)) or not isinstance(self.groups, Sequence):
            raise TypeError(f"strata must be a list of (size, bias) pairs, got {self.groups!r}")
        if len(self.groups) == 0:
            raise ValueError("strata must hold at least one (size, bias) pair, got none")
        for i, group in enumerate(self.groups):
            if not isinstance(group, (tuple, list)) or len(group) != 2:
                raise TypeError(f"strata must be a list of (size, bias) pairs, got {group!r} at index {i}")
            size = integer(f"size of stratum {i}", group[0])
            groups.append((size, scalar(f"bias of stratum {i}", probability(f"bias of stratum {i}", group[1]))))
        object.__setattr__(self, "groups", tuple(groups))

    @property
    def size(self) -> int:
        """Records in all groups together."""
        return sum(size for size, _ in self.groups)

    def __str__(self) -> str:
        parts = ", ".join(f"{size} with bias {bias!r}" for size, bias in self.groups)
        return f"in strata ({parts})"


@dataclasses.dataclass(frozen=True)
class Unequal:
    """One probability for each unknown record (their sum is Poisson-binomial).

    Examples
    --------
    >>> from dpcore.partial_knowledge import Unequal
    >>> Unequal([0.1, 0.5, 0.9]).size
    3
    """

    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        values = np.asarray(probability("probabilities", self.probabilities), dtype=np.float64)
        if values.ndim != 1:
            raise ValueError(f"probabilities must be a one-dimensional list, got shape {values.shape}")
        object.__setattr__(self, "probabilities", tuple(values.tolist()))

    @property
    def size(self) -> int:
        """Number of records."""
        return len(self.probabilities)

    def __str__(self) -> str:
        return f"with {len(self.probabilities)} probabilities given one by one"


@dataclasses.dataclass(frozen=True)
class Mixture:
    """The bias itself is random: one of `components`, each a (weight, bias) pair; weights add up to 1.

    Each bias may be anything that `bias` may be elsewhere. The attacker does not see which component holds.

    Examples
    --------
    >>> from dpcore.partial_knowledge import Mixture
    >>> print(Mixture([(0.5, 0.1), (0.5, (0.2, 0.4))]))
    from a mixture of 2 laws
    """

    components: tuple[tuple[float, Any], ...]

    def __post_init__(self) -> None:
        if not isinstance(self.components, Sequence) or len(self.components) == 0:
            raise ValueError("components must be a non-empty list of (weight, bias) pairs")
        parts = []
        for i, component in enumerate(self.components):
            if not isinstance(component, (tuple, list)) or len(component) != 2:
                raise TypeError(f"components must be (weight, bias) pairs, got {component!r} at index {i}")
            weight = scalar(f"weight {i}", probability(f"weight {i}", component[0]))
            parts.append((weight, parse(component[1], several=False)))
        total = math.fsum(weight for weight, _ in parts)
        if not abs(total - 1.0) <= 1e-12:
            raise ValueError(f"weights of a mixture must add up to 1, got {total!r}")
        object.__setattr__(self, "components", tuple(parts))

    def __str__(self) -> str:
        return f"from a mixture of {len(self.components)} laws"


Bias = float | Range | Strata | Unequal | Mixture


def parse(value: Any, *, several: bool) -> Bias | FloatArray:
    """The bias argument: a number, (low, high), [(size, bias), ...], or one of the classes above.

    With `several` a NumPy array of numbers is allowed: one result for each.
    """
    if isinstance(value, (Range, Strata, Unequal, Mixture)):
        return value
    if isinstance(value, np.ndarray) and value.ndim > 0:
        if not several:
            raise TypeError("bias must be one law here, got an array; use Unequal(...) for a probability a record")
        array = probability("bias", value)
        assert isinstance(array, np.ndarray)
        return array
    if isinstance(value, tuple) and len(value) == 2 and not isinstance(value[0], (tuple, list)):
        return Range(*value)
    if isinstance(value, (list, tuple)):
        if len(value) > 0 and not isinstance(value[0], (tuple, list)):
            raise TypeError(
                "bias must be a number, a tuple (low, high), a list of (size, bias) strata, or a NumPy "
                "array of "
                f"biases; for one probability a record use Unequal(...); got {value!r}"
            )
        return Strata(tuple(value))
    if value is None or isinstance(value, str):
        raise TypeError(
            "bias must be a number, a tuple (low, high), or a list of (size, bias) strata; if it is not known, "
            f"give a range or use PartialKnowledgeCount, which estimates it; got {value!r}"
        )
    return scalar("bias", probability("bias", value))
