"""Algorithm 2: sample the sensitivity, then respond through a mechanism scaled to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore import _validation as check
from dpcore._progress import ProgressOption
from dpcore._results import Result
from dpcore._rounding import downward, upward
from dpcore.sensitivity._errors import TargetError
from dpcore.sensitivity._norms import NORMS, Norm, as_numbers, digest
from dpcore.sensitivity._records import take
from dpcore.sensitivity._sampler import SensitivitySampler

if TYPE_CHECKING:
    from dpcore.sensitivity._estimate import SensitivityEstimate

# The norm each mechanism is made for, by the name of its class in dpcore.mechanisms.
_OWN_NORM = {"Laplace": "l1", "Gaussian": "l2", "Exponential": "sup", "Bernstein": "sup"}
_NORM_IN_MECHANISMS = {"l1": "l1", "l2": "l2", "sup": "linf"}


@dataclass(frozen=True, repr=False)
class RandomPrivateRelease(Result):
    """A value released with random differential privacy.

    Attributes
    ----------
    value : float, array, int or function
        What the mechanism released.
    epsilon, delta : float
        Differential privacy of the release on all but an exceptional share of pairs; delta may be 0.
    gamma : float
        Probability of an exceptional pair, at most.
    mechanism : str
    estimate : SensitivityEstimate
        Where gamma comes from.
    """

    value: Any
    epsilon: float
    delta: float
    gamma: float
    mechanism: str
    estimate: SensitivityEstimate

    @property
    def statement(self) -> str:
        """The guarantee in words."""
        level = f"{upward(self.epsilon)}, {upward(self.delta)}" if self.delta > 0 else f"{upward(self.epsilon)}"
        over = "over databases and sample together"
        if self.estimate.method == "confident":
            assert self.estimate.rho is not None
            over = f"over databases, with confidence {downward(1 - self.estimate.rho)} in the sample"
        law = "from the sampled distribution"
        if self.estimate.shift > 0:
            law = f"from any distribution Q with KL(sampled || Q) <= {self.estimate.shift:.6g}"
        return (
            f"({level}, {upward(self.gamma)})-random differential privacy: with probability at least "
            f"{downward(1 - self.gamma)} {over}, the release is ({level})-differentially private between two "
            f"databases of {self.estimate.records} records drawn {law} that differ in one record."
        )

    def __repr__(self) -> str:
        return (
            f"RandomPrivateRelease(value={self.value!r}, epsilon={upward(self.epsilon)}, "
            f"delta={upward(self.delta)}, "
            f"gamma={upward(self.gamma)}, mechanism={self.mechanism!r})"
        )


def mechanism_name(mechanism_class: Any) -> str:
    """Name of a mechanism class; TypeError for anything else."""
    if not isinstance(mechanism_class, type) or not hasattr(mechanism_class, "release"):
        raise TypeError(
            "mechanism_class must be a class with a method release, such as dpcore.mechanisms.Laplace, "
            f"got {mechanism_class!r}"
        )
    return mechanism_class.__name__


def _is_ours(mechanism_class: type, name: str) -> bool:
    return mechanism_class.__module__.startswith("dpcore.mechanisms") and name in _OWN_NORM


def build(
    mechanism_class: Any,
    *,
    epsilon: float,
    delta: float | None,
    sensitivity: float,
    size: int,
    norm: str,
    options: dict[str, Any],
) -> Any:
    """The mechanism for a target of `size` numbers and sensitivity `sensitivity` in `norm`."""
    name = mechanism_name(mechanism_class)
    arguments: dict[str, Any] = {"epsilon": epsilon, "sensitivity": sensitivity}
    if delta is not None:
        arguments["delta"] = delta
    if _is_ours(mechanism_class, name):
        if norm not in NORMS:
            raise ValueError(f"norm must be one of {', '.join(NORMS)} for {name}, got the user's own {norm!r}")
        arguments["neighbours"] = "replace"
        if name in ("Laplace", "Gaussian"):
            arguments |= {"dimension": size, "norm": _NORM_IN_MECHANISMS[norm]}
        # Scores and functions need the sup norm, which the others are never below.
    # An option that took the place of one of these would release with less noise than the statement says.
    taken = sorted((arguments.keys() | {"scale", "sigma"}) & options.keys())
    if taken:
        raise TypeError(f"{taken[0]} must not be given for {name}: it follows from the estimate")
    return mechanism_class(**arguments, **options)


def usable(sensitivity: float, infinite: int) -> float:
    """`sensitivity` if noise can be scaled to it; it comes from the public sample, so refusing leaks nothing."""
    if sensitivity == math.inf:
        raise ValueError(
            "the estimated sensitivity is infinite, no noise is enough: "
            f"the target was NaN or infinite in {infinite} of the sampled pairs"
        )
    if sensitivity == 0:
        raise ValueError(
            "the estimated sensitivity is 0: the target does not change on most pairs, so noise cannot be "
            "scaled to its change; ask for a smaller gamma"
        )
    return sensitivity


def respond(
    estimate: SensitivityEstimate,
    mechanism_class: Any,
    value: Any,
    *,
    epsilon: float,
    delta: float | None,
    rng: Any,
    options: dict[str, Any],
) -> RandomPrivateRelease:
    """Release `value`, with the estimate's sensitivity."""
    name = mechanism_name(mechanism_class)
    size = estimate.size
    mechanism = build(
        mechanism_class,
        epsilon=epsilon,
        delta=delta,
        sensitivity=usable(estimate.sensitivity, estimate.infinite),
        size=size,
        norm=estimate.norm,
        options=options,
    )
    if callable(value):
        _check_lattice(mechanism, name, estimate)
    else:
        try:
            value = as_numbers(value)
        except TypeError:
            value = None  # what it is instead depends on the private data
        if value is None or value.size != size:
            raise TargetError(f"value must hold {size} real numbers, as on the sampled databases")
    flat = _is_ours(mechanism_class, name) and name in ("Laplace", "Gaussian")
    if flat and size > 1:
        released = np.asarray(mechanism.release(value.reshape(-1), rng=rng)).reshape(value.shape)
    elif flat:
        released = np.asarray(mechanism.release(float(value.reshape(())), rng=rng)).reshape(value.shape)
    else:
        released = mechanism.release(value, rng=rng)
    if isinstance(released, np.ndarray) and released.ndim == 0:
        released = released.item()
    return RandomPrivateRelease(
        value=released,
        epsilon=check.scalar("epsilon", check.non_negative("epsilon", epsilon)),
        delta=0.0 if delta is None else check.scalar("delta", check.probability("delta", delta)),
        gamma=estimate.gamma,
        mechanism=name,
        estimate=estimate,
    )


def _check_lattice(mechanism: Any, name: str, estimate: SensitivityEstimate) -> None:
    """A function is released on the mechanism's lattice: the sensitivity must have been sampled there."""
    if not hasattr(mechanism, "points"):
        raise TypeError(f"value must be numbers for {name}, which does not release functions")
    if estimate.grid != digest(mechanism.points()):
        raise ValueError(
            f"value must be numbers, or the sensitivity sampled with grid={name}(...).points(): the estimate says "
            "nothing about the other points of this lattice"
        )


def sample_then_respond(
    mechanism_class: Any,
    target: Callable[..., Any],
    data: Sequence[Any] | Any,
    sample: Any,
    *,
    epsilon: float,
    delta: float | None = None,
    gamma: float | None = None,
    samples: int | None = None,
    method: str = "exchangeable",
    confidence: float | None = None,
    norm: Norm | None = None,
    grid: Any = None,
    vectorised: bool = False,
    bound: float = math.inf,
    seed: int | None = None,
    executor: Any = None,
    progress: ProgressOption = False,
    rng: Any = None,
    **options: Any,
) -> RandomPrivateRelease:
    """Make any function private: estimate its sensitivity by sampling, then release it (Algorithm 2).

    Parameters
    ----------
    mechanism_class : class
        ``Laplace``, ``Gaussian``, ``Exponential`` or ``Bernstein`` of `dpcore.mechanisms`, or any class that
        is constructed from epsilon (, delta) and sensitivity and has a method ``release(value, rng=None)``.
    target : callable
        The function: of a database, to numbers (Laplace, Gaussian), to scores of the candidates
        (Exponential), or to a function on [0, 1]^l or its lattice values (Bernstein).
    data : sequence
        The private database; its length is public.
    sample
        Where independent records come from, see `SensitivitySampler`. Must not depend on `data`.
    epsilon, delta : float
        Of the mechanism.
    gamma, samples, method, confidence
        The operating point, see `operating_point`.
    norm, grid, vectorised, bound, seed, executor, progress
        See `SensitivitySampler`; `norm` defaults to the mechanism's own. For Bernstein the grid is its lattice.
    rng : InsecureTestRng, optional
        Predictable noise, for tests.
    **options
        For the mechanism: ``lattice`` and ``order`` of Bernstein, for example.

    Returns
    -------
    RandomPrivateRelease

    Raises
    ------
    EvaluationError
        If sampling fails, see `SensitivitySampler.estimate`. A target that raises on `data` itself raises
        `TargetError`: that it did depends on private data, so keep it to yourself.
    ValueError
        If an argument is outside its domain, or the estimated sensitivity is 0 or infinite.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.mechanisms import Laplace
    >>> from dpcore.sensitivity import sample_then_respond
    >>> def incomes(count, rng):
    ...     return rng.lognormal(mean=10, sigma=1, size=count)
    >>> private = np.random.default_rng(0).lognormal(mean=10, sigma=1, size=1000)
    >>> release = sample_then_respond(Laplace, np.median, private, incomes, epsilon=1.0, gamma=0.01, seed=1)
    >>> print(release.statement)
    (1, 0.01)-random differential privacy: with probability at least 0.99 over databases and sample together, \
the release is (1)-differentially private between two databases of 1000 records drawn from the sampled \
distribution that differ in one record.
    """
    name = mechanism_name(mechanism_class)
    ours = _is_ours(mechanism_class, name)
    if sample is data:
        raise ValueError(
            "sample must not be the private data: the noise would be scaled to them and tell about them"
        )
    if norm is None:
        if not ours:
            raise TypeError(f"norm must be given for the mechanism {name}")
        norm = _OWN_NORM[name]
    elif isinstance(norm, str):
        norm = str.__str__(norm)  # what a subclass says of itself is not asked
    # Bad arguments of the mechanism are found before the work begins.
    trial = build(
        mechanism_class,
        epsilon=epsilon,
        delta=delta,
        sensitivity=1.0,
        size=1,
        norm=norm if isinstance(norm, str) else "",
        options=options,
    )
    if ours and name == "Bernstein" and not vectorised:
        if grid is not None and digest(grid) != digest(trial.points()):
            raise ValueError("grid must be left out for Bernstein, which releases the function on its own lattice")
        grid = trial.points()
    try:
        records = len(data)
    except TypeError:
        raise TypeError(f"data must be a sequence of records, got {type(data).__name__}") from None
    check.integer("the number of records of data", records, least=1)
    sampler = SensitivitySampler(
        target, sample, records=records, norm=norm, grid=grid, vectorised=vectorised, bound=bound
    )
    estimate = sampler.estimate(
        gamma=gamma,
        samples=samples,
        method=method,
        confidence=confidence,
        seed=seed,
        executor=executor,
        progress=progress,
    )
    usable(estimate.sensitivity, estimate.infinite)
    value = _value_on(target, data, grid, vectorised)
    return respond(estimate, mechanism_class, value, epsilon=epsilon, delta=delta, rng=rng, options=options)


def _value_on(target: Any, data: Any, grid: Any, vectorised: bool) -> Any:
    """The target on the private database."""
    try:
        if vectorised:
            batch = np.asarray(data)[None]
            if callable(target):
                return np.asarray(target(batch))[0]
            return np.asarray(target.pair(batch[:, :-1], batch[:, -1], batch[:, -1])[0])[0]
        if callable(target):
            value = target(data)
        else:
            value = target.pair(take(data, slice(-1)), take(data, -1), take(data, -1))[0]
        return value(grid) if grid is not None and callable(value) else value
    except (Exception, SystemExit) as error:
        raise TargetError("target failed on the data (the cause may tell about them)") from error
