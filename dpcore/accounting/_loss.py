"""`PrivacyLoss`, its `Bounds`, and the functions that make one from a mechanism."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpcore import _core
from dpcore._results import Result
from dpcore._validation import (
    FloatArray,
    Number,
    choice,
    integer,
    iterable,
    non_negative,
    positive,
    probability,
    real,
    shown,
    single,
)

ENGINES = ("auto", "spectral", "buckets")
NEIGHBOURS = ("add", "remove", "both")
_ENGINE: dict[str, _core.Engine] = {
    "auto": getattr(_core.Engine, "auto"),  # noqa: B009  (a keyword-like name)
    "spectral": _core.Engine.spectral,
    "buckets": _core.Engine.buckets,
}

# Beyond these the squares of the core overflow or underflow.
_LARGEST_RATIO = 1e100
# An array of one point each: the inner masses of a discrete Laplace mechanism are listed one by one.
_LARGEST_SHIFT = 10**6
_MASS_TOLERANCE = 1e-9


# What is bounded, in words, with the name of what it was asked at; and the end to rely on.
_QUANTITIES: dict[str, tuple[str, str, str]] = {
    "delta": ("delta", "epsilon", "upper"),
    "delta_one_way": ("delta, in one direction,", "epsilon", "upper"),
    "log_delta": ("the natural logarithm of delta", "epsilon", "upper"),
    "epsilon": ("epsilon", "delta", "upper"),
    "confidence": ("confidence (how likely the loss stays within epsilon)", "epsilon", "lower"),
    "infinite_mass": ("the probability of an infinite loss", "", "upper"),
}


@dataclasses.dataclass(frozen=True, repr=False)
class Bounds(Result):
    """A certified interval: ``lower <= true value <= upper``, rounding included.

    ``float(bounds)`` is the upper bound, the safe side of a delta or an epsilon. For a confidence the safe
    side is ``lower``. ``statement`` says what is bounded and which side to rely on.

    Parameters
    ----------
    lower, upper : float or array
        The ends.
    quantity : str, optional
        What is bounded: "delta", "delta_one_way" (in one direction alone), "log_delta", "epsilon", "confidence" or
        "infinite_mass". Answers of the library say it; bounds that are equal are equal whatever it is.
    at : float or array, optional
        The epsilon, or for "epsilon" the delta, that was asked.

    Examples
    --------
    >>> from dpcore import accounting
    >>> bounds = accounting.from_laplace(epsilon=1.0).delta(0.5)
    >>> bounds.lower <= 0.2211992169285951 <= bounds.upper
    True
    >>> bounds.quantity, bounds.at
    ('delta', 0.5)
    >>> print(accounting.Bounds(0.25, 0.5, quantity="delta", at=1.0).statement)
    delta at epsilon 1.0 lies between 0.25 and 0.5, rounding errors included; rely on the upper bound
    """

    lower: Number
    upper: Number
    quantity: str | None = dataclasses.field(default=None, compare=False)
    at: Number | None = dataclasses.field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.quantity is not None and (type(self.quantity) is not str or self.quantity not in _QUANTITIES):
            choice("quantity", self.quantity, tuple(_QUANTITIES))

    @property
    def width(self) -> Number:
        """``upper - lower`` (0 where both are infinite)."""
        if isinstance(self.lower, np.ndarray) or isinstance(self.upper, np.ndarray):
            same = np.equal(self.lower, self.upper)
            with np.errstate(invalid="ignore"):
                return np.where(same, 0.0, np.subtract(self.upper, self.lower))
        return 0.0 if self.lower == self.upper else self.upper - self.lower

    @property
    def statement(self) -> str:
        """What is bounded, the bounds in full precision, and the side to rely on, in words."""
        what, asked, side = _QUANTITIES.get(self.quantity or "", ("the true value", "", ""))
        if asked and self.at is not None:
            what += f" at {asked} {_written(self.at)}"
        several = isinstance(self.lower, np.ndarray) or isinstance(self.upper, np.ndarray)
        if not several and self.lower == self.upper:
            return f"{what} is {_written(self.lower)}"
        each = ", element by element" if several else ""
        relied = f"; rely on the {side} bound" if side else ""
        ends = f"{_written(self.lower)} and {_written(self.upper)}"
        return f"{what} lies between {ends}{each}, rounding errors included{relied}"

    def __float__(self) -> float:
        if isinstance(self.upper, np.ndarray) and self.upper.ndim:
            raise TypeError(f"float() needs bounds of a single number, these have shape {self.upper.shape}")
        return float(self.upper)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Bounds):
            return NotImplemented
        return bool(np.array_equal(self.lower, other.lower) and np.array_equal(self.upper, other.upper))

    def __repr__(self) -> str:
        fields = ((f.name, getattr(self, f.name)) for f in dataclasses.fields(self))
        return f"Bounds({', '.join(f'{name}={value!r}' for name, value in fields if value is not None)})"


def _written(value: Number) -> str:
    """Numbers with all their digits (rounded, a bound might be none), of a long array the first and the last."""
    if not isinstance(value, np.ndarray):
        return str(value)
    text = np.array2string(
        value,
        separator=", ",
        threshold=8,
        edgeitems=2,
        formatter={"float_kind": lambda x: repr(float(x))},
    )
    return " ".join(text.split())


def _answer(pair: tuple[Any, Any], quantity: str, at: Number | None = None) -> Bounds:
    # A copy: what was asked stays, whatever becomes of the caller's array.
    return Bounds(*pair, quantity, at.copy() if isinstance(at, np.ndarray) else at)


class PrivacyLoss:
    """The privacy loss of one mechanism or of a composition. Immutable; made by the ``from_`` functions.

    ``a + b`` and ``a.compose(b)`` compose, ``a * k`` is the k-fold composition of `a` with itself (also
    ``k * a``; ``k = 0`` is the empty composition, which loses nothing). ``sum(losses, PrivacyLoss())`` and
    `compose` join many.

    Notes
    -----
    The loss of outputs P against Q is ``L = log(dP/dQ)`` under P, and ``delta(epsilon) = E[max(0, 1 -
    exp(epsilon - L))]`` is the larger of the two directions. Composition adds independent losses in each
    direction. A `PrivacyLoss` lists its mechanisms; work is done when a question is asked.

    Examples
    --------
    >>> from dpcore import accounting
    >>> year = accounting.from_gaussian(sigma=50.0) * 1000 + accounting.from_laplace(epsilon=0.1)
    >>> f"{year.epsilon(1e-6).upper:.6f}"
    '2.957816'
    """

    __slots__ = ("_loss",)
    # NumPy would multiply by each element of an array; it is to leave the operators to this class.
    __array_ufunc__ = None

    def __init__(self) -> None:
        self._loss = _core.PrivacyLoss()

    @classmethod
    def _wrap(cls, loss: _core.PrivacyLoss) -> PrivacyLoss:
        self = object.__new__(cls)
        self._loss = loss
        return self

    # ------------------------------------------------------------------ composition

    def compose(self, other: PrivacyLoss) -> PrivacyLoss:
        """Compose with `other`: both are released."""
        if not isinstance(other, PrivacyLoss):
            raise TypeError(f"other must be a PrivacyLoss, got {shown(other)}")
        return PrivacyLoss._wrap(self._loss.compose(other._loss))

    def __add__(self, other: object) -> PrivacyLoss:
        if not isinstance(other, PrivacyLoss):
            return NotImplemented
        return PrivacyLoss._wrap(self._loss.compose(other._loss))

    def __radd__(self, other: object) -> PrivacyLoss:
        if type(other) is int and other == 0:  # the start value of sum()
            return self
        if isinstance(other, np.ndarray):  # for which NumPy would complain of something else
            raise TypeError("unsupported operands for +: an array and a PrivacyLoss; compose joins many")
        return NotImplemented

    def __mul__(self, copies: int) -> PrivacyLoss:
        return PrivacyLoss._wrap(self._loss.times(float(integer("copies", copies))))

    __rmul__ = __mul__

    # ------------------------------------------------------------------ questions

    def delta(self, epsilon: ArrayLike, *, engine: str = "auto", step: float | None = None) -> Bounds:
        """Smallest delta for which the composition is (`epsilon`, delta)-differentially private.

        Parameters
        ----------
        epsilon : float or array
            Finite, at least 0.
        engine : {"auto", "spectral", "buckets"}
            How to compute it; never changes what is computed. "auto" is the narrowest.
        step : float, optional
            Grid of the bucket engine, > 0; by default chosen so that the relative width is about 1e-4.

        Returns
        -------
        Bounds
            Floats for a number, arrays for an array.

        Examples
        --------
        >>> from dpcore import accounting
        >>> f"{(accounting.from_laplace(epsilon=0.05) * 1000).delta(5.0).upper:.9g}"
        '0.00279657776'
        """
        at = epsilon if type(epsilon) is float and 0.0 <= epsilon < math.inf else non_negative("epsilon", epsilon)
        if step is None:
            return _answer(self._loss.delta(at, _engine(engine)), "delta", at)
        choice("engine", engine, ENGINES)
        if engine != "buckets":
            raise ValueError(f"step needs engine='buckets', got engine={engine!r}")
        return _answer(self._loss.delta(at, _engine(engine), _number("step", step)), "delta", at)

    def log_delta(self, epsilon: ArrayLike, *, engine: str = "auto") -> Bounds:
        """Natural logarithm of `delta`; works where delta itself is below the smallest double.

        Examples
        --------
        >>> from dpcore import accounting
        >>> f"{accounting.from_gaussian(sigma=1.0).log_delta(50.0).upper:.6f}"
        '-1233.869083'
        """
        at = non_negative("epsilon", epsilon)
        return _answer(self._loss.log_delta(at, _engine(engine)), "log_delta", at)

    def epsilon(self, delta: ArrayLike, *, engine: str = "auto") -> Bounds:
        """Smallest epsilon for which the composition is (epsilon, `delta`)-differentially private.

        Infinite, by definition, where `delta` is below the probability of an infinite loss.

        Parameters
        ----------
        delta : float or array
            In [0, 1].
        engine : {"auto", "spectral", "buckets"}
            See `delta`.

        Examples
        --------
        >>> from dpcore import accounting
        >>> f"{(accounting.from_gaussian(sigma=50.0) * 1000).epsilon(1e-6).upper:.9f}"
        '2.921600590'
        """
        at = delta if type(delta) is float and 0.0 <= delta <= 1.0 else probability("delta", delta)
        return _answer(self._loss.epsilon(at, _engine(engine)), "epsilon", at)

    def confidence(self, epsilon: ArrayLike) -> Bounds:
        """Pr[|loss| <= epsilon], the smaller of the two directions; its safe side is ``lower``.

        Examples
        --------
        >>> from dpcore import accounting
        >>> f"{accounting.from_laplace(epsilon=1.0).confidence(0.6).lower:.6f}"
        '0.184701'
        """
        at = non_negative("epsilon", epsilon)
        return _answer(self._loss.confidence(at, _engine("auto")), "confidence", at)

    def buckets(
        self, *, step: float, low: float = -math.inf, high: float = math.inf, direction: str = "forward"
    ) -> Buckets:
        """The loss of a single mechanism on a grid of the given step: privacy buckets, from above and below.

        Parameters
        ----------
        step : float
            Finite, > 0.
        low, high : float
            Losses outside are kept as named masses.
        direction : {"forward", "backward"}
            P against Q or Q against P.

        Examples
        --------
        >>> from dpcore import accounting
        >>> grid = accounting.from_laplace(epsilon=1.0).buckets(step=0.01)
        >>> bounds = grid.self_compose(2).delta(1.5)
        >>> bounds.upper / bounds.lower < 1.0001
        True
        """
        entries = self._loss.entries()
        if len(entries) != 1 or entries[0][4] != 1:
            raise ValueError("buckets are made from a single mechanism; compose them with self_compose")
        backward = choice("direction", direction, ("forward", "backward")) == "backward"
        least, most = single("low", low, _any_real), single("high", high, _any_real)
        if not least < most:
            raise ValueError(f"low must be below high, got {least!r} and {most!r}")
        return Buckets(_core.Buckets.of(self._loss, _number("step", step), least, most, backward))

    @property
    def mean(self) -> float:
        """Expected loss (in nats), the larger of the two directions; infinite with infinite loss."""
        return self._loss.mean()

    @property
    def variance(self) -> float:
        """Variance of the loss, in the direction of the larger mean; infinite with infinite loss."""
        return self._loss.variance()

    @property
    def max_loss(self) -> float:
        """Upper bound of the loss: the epsilon of pure differential privacy, possibly infinite."""
        return self._loss.max_loss()

    @property
    def infinite_mass(self) -> Bounds:
        """Probability of an infinite loss: delta never falls below it."""
        return _answer(self._loss.infinite_mass(), "infinite_mass")

    # ------------------------------------------------------------------ plain data

    def to_dict(self) -> dict[str, Any]:
        """Mechanisms and copies as plain data; `from_dict` reads it back.

        Examples
        --------
        >>> from dpcore import accounting
        >>> loss = accounting.from_laplace(epsilon=0.5) * 3
        >>> loss.to_dict()["mechanisms"]
        [{'mechanism': 'laplace', 'epsilon': 0.5, 'copies': 3}]
        """
        mechanisms = []
        for name, parameters, p, q, copies in self._loss.entries():
            row: dict[str, Any] = {"mechanism": name, **parameters}
            if name == "subsampled_gaussian":
                row["neighbours"] = next(n for n in NEIGHBOURS if ord(n[0]) == parameters["neighbours"])
            if name == "pmf":
                row |= {"p": p, "q": q}
            mechanisms.append({**row, "copies": int(copies)})
        return {"format": "dpcore.PrivacyLoss", "version": 1, "mechanisms": mechanisms}

    @staticmethod
    def from_dict(data: dict[str, Any]) -> PrivacyLoss:
        """The loss that `to_dict` described; every value is checked as if it had been typed in."""
        if not isinstance(data, dict) or data.get("format") != "dpcore.PrivacyLoss":
            raise ValueError("data must be a dict whose 'format' is 'dpcore.PrivacyLoss'")
        if type(data.get("version")) is not int or data["version"] != 1:
            raise ValueError(f"version must be 1, got {shown(data.get('version'))}")
        rows = data.get("mechanisms")
        if not isinstance(rows, list):
            raise ValueError(f"mechanisms must be a list, got {shown(rows)}")
        losses = []
        for index, row in enumerate(rows):
            try:
                losses.append(_from_row(row))
            except (TypeError, ValueError) as error:
                raise ValueError(f"mechanisms[{index}]: {error}") from None
        return compose(losses)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PrivacyLoss):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(repr(self.to_dict()))

    def __repr__(self) -> str:
        rows = self.to_dict()["mechanisms"]
        parts = []
        for row in rows[:4]:
            name, copies = row.pop("mechanism"), row.pop("copies")
            if name == "pmf":
                row = {"outcomes": len(row["p"])}
            inside = ", ".join(f"{key}={value!r}" for key, value in row.items())
            parts.append(f"{name}({inside})" + (f" * {copies}" if copies != 1 else ""))
        if len(rows) > 4:
            parts.append(f"and {len(rows) - 4} more")
        return f"PrivacyLoss({' + '.join(parts)})"

    def __reduce__(self) -> Any:
        # Plain data only, so that it can travel to other processes.
        return PrivacyLoss.from_dict, (self.to_dict(),)


class Buckets:
    """Privacy buckets: the loss of a mechanism on a grid, from above and from below. Immutable.

    ``upper`` and ``lower`` hold the masses (arrays) and, by name, what has no bucket: ``infinite`` (truly
    infinite loss), ``above`` (cut off at the top) and ``below`` (cut off at the bottom). The upper list is
    never less private than it claims, the lower never more.

    Examples
    --------
    >>> from dpcore import accounting
    >>> grid = accounting.from_laplace(epsilon=1.0).buckets(step=0.25)
    >>> grid.step, sorted(grid.upper)
    (0.25, ['above', 'below', 'infinite', 'mass'])
    """

    __slots__ = ("_buckets",)

    def __init__(self, buckets: _core.Buckets) -> None:
        self._buckets = buckets

    @property
    def step(self) -> float:
        """Distance of the grid points."""
        return self._buckets.step

    @property
    def losses(self) -> FloatArray:
        """The grid points."""
        return self._buckets.losses

    @property
    def upper(self) -> dict[str, Any]:
        """Masses of the pessimistic list ("mass", "infinite", "above", "below")."""
        return self._buckets.upper

    @property
    def lower(self) -> dict[str, Any]:
        """Masses of the optimistic list."""
        return self._buckets.lower

    def convolve(self, other: Buckets) -> Buckets:
        """Compose with other buckets of the same step, by direct convolution."""
        if not isinstance(other, Buckets):
            raise TypeError(f"other must be Buckets, got {shown(other)}")
        return Buckets(self._buckets.convolve(other._buckets))

    def self_compose(self, copies: int) -> Buckets:
        """Compose with itself, by repeated squaring."""
        return Buckets(self._buckets.self_compose(integer("copies", copies)))

    def coarsen(self) -> Buckets:
        """Return the same loss on a grid of twice the step; the bounds stay bounds."""
        return Buckets(self._buckets.coarsen())

    def delta(self, epsilon: float) -> Bounds:
        """Bounds of delta at `epsilon` (finite, at least 0) from the two lists, in this one direction."""
        at = single("epsilon", epsilon, non_negative)
        return _answer(self._buckets.delta(at), "delta_one_way", at)

    def __repr__(self) -> str:
        losses = self.losses
        return f"Buckets({losses.size} from {losses[0]:.6g} to {losses[-1]:.6g}, step {self.step:.6g})"


def _engine(engine: str) -> _core.Engine:
    found = _ENGINE.get(engine) if isinstance(engine, str) else None
    return found if found is not None else _ENGINE[choice("engine", engine, ENGINES)]


def _number(name: str, value: Any) -> float:
    return value if type(value) is float and 0.0 < value < math.inf else single(name, value, positive)


def _budget(value: Any) -> float:
    if type(value) is float and 0.0 <= value < 1e100:
        return value
    return single("epsilon", value, lambda name, x: real(name, x, "a number in [0, 1e100]", 0.0, 1e100))


def _any_real(name: str, value: Any) -> Number:
    return real(name, value, "a number", -math.inf, math.inf)


def compose(losses: Iterable[PrivacyLoss]) -> PrivacyLoss:
    """The composition of all `losses`; the same as adding them up, in linear time.

    Examples
    --------
    >>> from dpcore import accounting
    >>> losses = [accounting.from_laplace(epsilon=0.01 * i) for i in range(1, 4)]
    >>> accounting.compose(losses) == losses[0] + losses[1] + losses[2]
    True
    """
    cores = []
    for loss in iterable("losses", losses, "a sequence of PrivacyLoss objects"):
        if not isinstance(loss, PrivacyLoss):
            raise TypeError(f"losses must be PrivacyLoss objects, got {shown(loss)}")
        cores.append(loss._loss)
    return PrivacyLoss._wrap(_core.PrivacyLoss.compose_all(cores))


def from_laplace(*, epsilon: float) -> PrivacyLoss:
    """Laplace noise of scale sensitivity/`epsilon`.

    Parameters
    ----------
    epsilon : float
        In [0, 1e100].

    Examples
    --------
    >>> from dpcore import accounting
    >>> accounting.from_laplace(epsilon=1.0).epsilon(0.0).upper
    1.0
    """
    return PrivacyLoss._wrap(_core.PrivacyLoss.laplace(_budget(epsilon)))


def from_gaussian(*, sigma: float, sensitivity: float = 1.0) -> PrivacyLoss:
    """Gaussian noise of standard deviation `sigma` on a value of L2 sensitivity `sensitivity`.

    Parameters
    ----------
    sigma, sensitivity : float
        Finite, > 0, with a ratio between 1e-100 and 1e100.

    Examples
    --------
    >>> from dpcore import accounting
    >>> f"{accounting.from_gaussian(sigma=1.0).delta(1.0).upper:.9f}"
    '0.126936738'
    """
    s, d = _number("sigma", sigma), _number("sensitivity", sensitivity)
    if not 1.0 / _LARGEST_RATIO <= s / d <= _LARGEST_RATIO:
        raise ValueError(f"sigma/sensitivity must be in [1e-100, 1e100], got {s / d!r}")
    return PrivacyLoss._wrap(_core.PrivacyLoss.gaussian(s, d))


def from_discrete_laplace(*, scale: float, sensitivity: int = 1) -> PrivacyLoss:
    """Integer noise with mass proportional to ``exp(-|x|/scale)``; answers differ by `sensitivity`.

    Parameters
    ----------
    scale : float
        Finite, > 0: ``sensitivity/epsilon`` for an epsilon-differentially private release.
    sensitivity : int
        In [1, 10**6].

    Examples
    --------
    >>> from dpcore import accounting
    >>> f"{accounting.from_discrete_laplace(scale=2.0).epsilon(0.0).upper:.9f}"
    '0.500000000'
    """
    shift = integer("sensitivity", sensitivity, least=1, most=_LARGEST_SHIFT)
    b = _number("scale", scale)
    if not 1.0 / _LARGEST_RATIO <= b <= _LARGEST_RATIO:
        raise ValueError(f"scale must be in [1e-100, 1e100], got {b!r}")
    return PrivacyLoss._wrap(_core.PrivacyLoss.discrete_laplace(b, float(shift)))


def from_discrete_gaussian(*, sigma: float, sensitivity: int = 1) -> PrivacyLoss:
    """Integer noise with mass proportional to ``exp(-x^2/(2 sigma^2))``; answers differ by `sensitivity`.

    Parameters
    ----------
    sigma : float
        In [0.01, 1e100].
    sensitivity : int
        In [1, 10**6].

    Examples
    --------
    >>> from dpcore import accounting
    >>> f"{accounting.from_discrete_gaussian(sigma=2.0).delta(1.0).upper:.9f}"
    '0.007248777'
    """
    shift = integer("sensitivity", sensitivity, least=1, most=_LARGEST_SHIFT)
    s = _number("sigma", sigma)
    if not 0.01 <= s <= _LARGEST_RATIO:
        raise ValueError(f"sigma must be in [0.01, 1e100], got {s!r}")
    return PrivacyLoss._wrap(_core.PrivacyLoss.discrete_gaussian(s, float(shift)))


def from_randomized_response(*, epsilon: float) -> PrivacyLoss:
    """Binary randomised response: the truth with probability ``exp(epsilon)/(1 + exp(epsilon))``.

    Examples
    --------
    >>> from dpcore import accounting
    >>> (accounting.from_randomized_response(epsilon=1.0) * 2).epsilon(0.0).upper
    2.0
    """
    return PrivacyLoss._wrap(_core.PrivacyLoss.randomized_response(_budget(epsilon)))


def from_pure(*, epsilon: float) -> PrivacyLoss:
    """Any `epsilon`-differentially private mechanism (randomised response is the worst of them).

    Examples
    --------
    >>> from dpcore import accounting
    >>> accounting.from_pure(epsilon=0.5).epsilon(0.0).upper
    0.5
    """
    return PrivacyLoss._wrap(_core.PrivacyLoss.pure(_budget(epsilon)))


def from_approximate(*, epsilon: float, delta: float) -> PrivacyLoss:
    """Any (`epsilon`, `delta`)-differentially private mechanism: infinite loss with probability `delta`.

    Examples
    --------
    >>> from dpcore import accounting
    >>> accounting.from_approximate(epsilon=1.0, delta=1e-6).epsilon(1e-7).upper
    inf
    """
    mass = single("delta", delta, probability)
    return PrivacyLoss._wrap(_core.PrivacyLoss.approximate(_budget(epsilon), mass))


def from_subsampled_gaussian(*, sigma: float, rate: float, neighbours: str = "both") -> PrivacyLoss:
    """Gaussian noise on a Poisson sample: each record enters with probability `rate`; sensitivity 1.

    Parameters
    ----------
    sigma : float
        Noise as a multiple of the sensitivity, in [0.05, 1e6].
    rate : float
        In [0, 1].
    neighbours : {"add", "remove", "both"}
        "both" is the worse of the two compositions, all removals and all additions: differential privacy for data
        sets that differ by one record. "remove" and "add" are one direction alone, to study it: less than
        differential privacy.

    Examples
    --------
    >>> from dpcore import accounting
    >>> training = accounting.from_subsampled_gaussian(sigma=1.0, rate=0.01) * 1000
    >>> f"{training.epsilon(1e-6).upper:.6f}"
    '2.124515'
    """
    s = _number("sigma", sigma)
    if not 0.05 <= s <= 1e6:
        raise ValueError(f"sigma must be in [0.05, 1e6], got {s!r}")
    q = single("rate", rate, probability)
    code = choice("neighbours", neighbours, NEIGHBOURS)[0]
    return PrivacyLoss._wrap(_core.PrivacyLoss.subsampled_gaussian(s, q, code))


def from_pmf(p: ArrayLike, q: ArrayLike) -> PrivacyLoss:
    """A mechanism with finitely many outputs: probabilities `p` with the record, `q` without it.

    Parameters
    ----------
    p, q : arrays
        Of one length, non-negative, each summing to 1 within 1e-9. They are used as given, not normalised. The
        order matters beside others that treat a removed and an added record differently (another pair,
        `from_subsampled_gaussian`): p goes with the data that have the record. Where either may be the case, ask
        for both orders and take the worse answer.

    Examples
    --------
    >>> from dpcore import accounting
    >>> accounting.from_pmf([0.75, 0.25, 0.0], [0.5, 0.25, 0.25]).delta(0.0).upper
    0.25...
    """
    first, second = _pmf("p", p), _pmf("q", q)
    if first.shape != second.shape:
        raise ValueError(f"p and q must have the same length, got {first.size} and {second.size}")
    first, second = np.ascontiguousarray(first), np.ascontiguousarray(second)
    return PrivacyLoss._wrap(_core.PrivacyLoss.pmf(first, second))


def _pmf(name: str, value: ArrayLike) -> FloatArray:
    array = np.atleast_1d(np.asarray(non_negative(name, value), dtype=np.float64))
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be a list of at least one probability, got an array of shape {array.shape}")
    try:  # in pieces, between which Ctrl-C is seen
        total = math.fsum(math.fsum(array[i : i + 2**16].tolist()) for i in range(0, array.size, 2**16))
    except OverflowError:
        total = math.inf
    if not abs(total - 1.0) <= _MASS_TOLERANCE:
        raise ValueError(f"{name} must sum to 1 within {_MASS_TOLERANCE:g}, got {total!r}")
    return array


_MAKERS: dict[str, Callable[..., PrivacyLoss]] = {
    "laplace": from_laplace,
    "gaussian": from_gaussian,
    "discrete_laplace": lambda *, scale, sensitivity: from_discrete_laplace(
        scale=scale, sensitivity=_whole("sensitivity", sensitivity)
    ),
    "discrete_gaussian": lambda *, sigma, sensitivity: from_discrete_gaussian(
        sigma=sigma, sensitivity=_whole("sensitivity", sensitivity)
    ),
    "randomized_response": from_randomized_response,
    "pure": from_pure,
    "approximate": from_approximate,
    "subsampled_gaussian": from_subsampled_gaussian,
    "pmf": from_pmf,
}


def _from_row(row: Any) -> PrivacyLoss:
    """One mechanism of `PrivacyLoss.to_dict`."""
    if not isinstance(row, dict):
        raise ValueError(f"a mechanism must be a dict, got {shown(row)}")
    arguments = dict(row)
    name = choice("mechanism", arguments.pop("mechanism", None), tuple(_MAKERS))
    copies = arguments.pop("copies", 1)
    known = inspect.signature(_MAKERS[name]).parameters
    for key in arguments:
        if key not in known:
            raise ValueError(f"{name} has no {shown(key)}; it has {', '.join(known)}")
    for key, parameter in known.items():
        if parameter.default is parameter.empty and key not in arguments:
            raise ValueError(f"{name} needs {key}")
    made: PrivacyLoss = _MAKERS[name](**arguments) * copies
    return made


def _whole(name: str, value: Any) -> int:
    """A whole number that was stored as a float."""
    number = single(name, value, positive)
    if number != math.floor(number):
        raise ValueError(f"{name} must be an integer, got {value!r}")
    return int(number)
