"""The exact delta of a noisy count against an attacker who knows part of the records."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpcore import _core
from dpcore._validation import (
    Number,
    broadcast,
    choice,
    count,
    integer,
    non_negative,
    positive,
    probability,
    real,
    scalar,
)
from dpcore.accounting import Bounds
from dpcore.partial_knowledge._bias import Bias, FloatArray, Strata, Unequal, parse
from dpcore.partial_knowledge._laws import DIRECTIONS, law_of


def checked_epsilon(epsilon: ArrayLike) -> Number:
    """In (0, 2**60]: the core keeps exponents in 64 bits."""
    return real("epsilon", epsilon, "a number in (0, 2**60]", 0.0, 2.0**60, low_open=True)


def unknown_records(records: int, known: int) -> int:
    """Records that are neither known nor the challenge; checks both arguments."""
    if not known < records:
        raise ValueError(f"known must be less than records = {records}, got {known}")
    return records - known - 1


def check_size(bias: Bias, unknown: int) -> None:
    """Strata and lists of probabilities must describe exactly the unknown records."""
    if isinstance(bias, (Strata, Unequal)) and bias.size != unknown:
        raise ValueError(
            f"bias must describe the {unknown} unknown records (records - known - 1), got {bias.size} of them"
        )


def combined_noise(noise_scale: ArrayLike) -> Number:
    """One noise scale that is equivalent to all releases: 1/beta^2 = sum 1/beta_i^2 over the last axis."""
    scales = non_negative("noise_scale", noise_scale)
    if isinstance(scales, float):
        return scales
    if scales.shape[-1] == 0:
        raise ValueError("noise_scale must hold at least one release, got an empty sequence")
    least = scales.min(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        combined = least[..., 0] / np.sqrt(np.sum((least / scales) ** 2, axis=-1))
    combined = np.where(least[..., 0] == 0.0, 0.0, combined)
    return float(combined) if combined.ndim == 0 else combined


def _log_delta(
    epsilon: ArrayLike, records: ArrayLike, known: ArrayLike, bias: Any, noise_scale: ArrayLike, direction: str
) -> Number:
    code = DIRECTIONS[choice("direction", direction, tuple(DIRECTIONS))]
    e = checked_epsilon(epsilon)
    n, k = count("records", records, least=1), count("known", known)
    law = parse(bias, several=True)
    noise = combined_noise(noise_scale)
    if type(e) is float and type(n) is float and type(k) is float and type(noise) is float:
        unknown = unknown_records(int(n), int(k))
        if type(law) is float:
            return _core.count_delta_bounded(e, unknown, law, noise, code)[0]
        if not isinstance(law, np.ndarray):
            check_size(law, unknown)
            return law_of(law, unknown).log_delta(e, noise, code)[0]
    bad = ~(np.asarray(k) < np.asarray(n))
    if bad.any():
        pair = np.broadcast_arrays(n, k)
        at = int(np.argmax(bad))
        raise ValueError(
            f"known must be less than records, got {int(pair[1].ravel()[at])} of {int(pair[0].ravel()[at])}"
        )
    unknown_array = np.asarray(n) - np.asarray(k) - 1.0
    if isinstance(law, (float, np.ndarray)):
        es, ms, ps, bs = broadcast(epsilon=e, unknown=unknown_array, bias=law, noise_scale=noise)
        return _core.count_log_delta(es, ms, ps, bs, code)
    one = law

    def each(e_: float, m_: float, b_: float) -> float:
        check_size(one, int(m_))
        return law_of(one, int(m_)).log_delta(e_, b_, code)[0]

    with np.errstate(all="ignore"):  # np.vectorize reads the flags that the core's own arithmetic has left
        out: FloatArray = np.vectorize(each, otypes=[np.float64])(e, unknown_array, noise)
    return out


def count_delta(
    *,
    epsilon: ArrayLike,
    records: ArrayLike,
    known: ArrayLike,
    bias: Any,
    noise_scale: ArrayLike,
    direction: str = "both",
) -> Number:
    """Smallest delta that a noisy count satisfies at `epsilon` against an attacker who knows `known` records.

    Parameters
    ----------
    epsilon : float or array, > 0
        Privacy parameter.
    records : int or array, >= 1
        Records that are counted, the attacked one included.
    known : int or array, 0 <= known < records
        Records whose value the attacker knows, or has chosen. ``records - known - 1`` are unknown to it;
        none of them unknown is plain differential privacy.
    bias : number, (low, high), list of (size, bias), `Unequal`, `Mixture`, or array of numbers
        Probability that an unknown record counts. A tuple is a range: the worst case over every choice of
        one probability a record within it. A list gives strata. A `Mixture` gives an upper bound where the
        exact value is out of reach (see Notes).
    noise_scale : float >= 0, or sequence of them
        Standard deviation of the normal noise. A sequence means that the *same* count was released several
        times, with these scales; of an array with more dimensions the last one is the releases.
    direction : {"both", "add", "remove"}
        "add" is the divergence of the count with the attacked record counted from the count without,
        "remove" the reverse, "both" the larger: the one that a guarantee needs.

    Returns
    -------
    float or array
        Relative error below 1e-11 from 1 down to 1e-300. See `log_count_delta` below that.

    Raises
    ------
    TypeError, ValueError
        If an argument is outside its domain.

    Notes
    -----
    The known records are a constant and cancel, so that it does not matter which values the attacker knows or
    whether it chose them. The optimal attack is a half line, hence one root and one sum; every term of the
    sum is positive in the form used here. A range is resolved to its worst vertex (some records at `low`, the
    others at `high`) by branch and bound. A mixture is exact without noise and where its likelihood ratio
    crosses ``exp(epsilon)`` once; otherwise the mixture of the deltas, which is never too small, is given.
    Proofs are in the page "Partial knowledge" of the documentation.

    Examples
    --------
    >>> from dpcore import partial_knowledge as pk
    >>> pk.count_delta(epsilon=0.1, records=10_001, known=0, bias=0.5, noise_scale=5.0)
    9.9459028516802...e-10
    >>> pk.count_delta(epsilon=0.1, records=10_001, known=10_000, bias=0.5, noise_scale=5.0)
    0.04...
    """
    value = _log_delta(epsilon, records, known, bias, noise_scale, direction)
    return math.exp(value) if type(value) is float else np.exp(value)


def log_count_delta(
    *,
    epsilon: ArrayLike,
    records: ArrayLike,
    known: ArrayLike,
    bias: Any,
    noise_scale: ArrayLike,
    direction: str = "both",
) -> Number:
    """Natural logarithm of `count_delta`, for values below the range of floating point.

    Examples
    --------
    >>> from dpcore import partial_knowledge as pk
    >>> pk.log_count_delta(epsilon=1.0, records=10**6, known=5 * 10**5, bias=0.5, noise_scale=0.0)
    -55489.81398...
    """
    return _log_delta(epsilon, records, known, bias, noise_scale, direction)


def joint_delta_bounds(
    *,
    epsilon: float,
    records: int,
    known: int,
    bias: float,
    noise_scale: float,
    estimate_scale: float,
    estimate_noise: str = "laplace",
    direction: str = "both",
) -> Bounds:
    """Certified bounds of the delta of two releases of one count; `joint_delta` is the upper one.

    Arguments as for `joint_delta`. The bounds hold without tolerance: quadrature, what is left out of the law,
    and rounding are inside.

    Examples
    --------
    >>> from dpcore import partial_knowledge as pk
    >>> bounds = pk.joint_delta_bounds(
    ...     epsilon=1.0, records=51, known=0, bias=0.5, noise_scale=3.011, estimate_scale=2.0
    ... )
    >>> bounds.lower <= 2.7964641860044173e-06 <= bounds.upper, bounds.width < 1e-16
    (True, True)
    """
    code = DIRECTIONS[choice("direction", direction, tuple(DIRECTIONS))]
    kind = choice("estimate_noise", estimate_noise, ("laplace", "gaussian"))
    e = scalar("epsilon", checked_epsilon(epsilon))
    unknown = unknown_records(integer("records", records, least=1), integer("known", known))
    p = scalar("bias", probability("bias", bias))
    noise = scalar("noise_scale", non_negative("noise_scale", noise_scale))
    estimate = scalar("estimate_scale", positive("estimate_scale", estimate_scale))
    if kind == "gaussian":
        # The combined scale is computed to a few roundings; delta falls with it.
        both = float(combined_noise([noise, estimate]))
        low, error = _core.count_delta_bounded(e, unknown, p, both * (1.0 + 2.0**-50), code)
        lower = low + math.log1p(-error) - 2.0**-51 * abs(low) if error < 1.0 else -math.inf
        high, error = _core.count_delta_bounded(e, unknown, p, both * (1.0 - 2.0**-50), code)
        upper = _core.log_delta_upper(high, error)
    else:
        lower, upper = _core.joint_delta_bounds(e, unknown, p, noise, estimate, code)
    # The exponential is good to a rounding or two of a value that may be subnormal.
    below = math.exp(lower) * (1.0 - 2.0**-50)
    above = math.exp(upper) * (1.0 + 2.0**-50)
    quantity = "delta" if direction == "both" else "delta_one_way"
    return Bounds(max(0.0, math.nextafter(below, -1.0)), min(1.0, math.nextafter(above, 2.0)), quantity, e)


def joint_delta(
    *,
    epsilon: float,
    records: int,
    known: int,
    bias: float,
    noise_scale: float,
    estimate_scale: float,
    estimate_noise: str = "laplace",
    direction: str = "both",
) -> float:
    """Delta of two releases of one count: with estimate noise, and with normal noise of scale `noise_scale`.

    Both depend on the same unknown records, so this is not the sum of two privacy losses.

    Parameters
    ----------
    epsilon, records, known
        As for `count_delta`.
    bias : float, in [0, 1]
        Probability that an unknown record counts.
    noise_scale : float, >= 0
        Standard deviation of the normal noise.
    estimate_scale : float, > 0
        Scale of the noise of the other release.
    estimate_noise : {"laplace", "gaussian"}
        Laplace(estimate_scale), or normal with standard deviation `estimate_scale`. With normal noise both
        releases are worth one with ``1/beta^2 = 1/noise_scale^2 + 1/estimate_scale^2``, exactly.
    direction : {"both", "add", "remove"}
        As for `count_delta`.

    Returns
    -------
    float
        An upper bound of the exact delta, usually within 1e-9 of it (1e-11 for normal noise);
        `joint_delta_bounds` has the lower one too.

    Notes
    -----
    A few ms at 10^4 unknown records, less than a tenth of a second at 10^6, some tenths at 10^8, seconds at 10^9.

    Examples
    --------
    >>> from dpcore import partial_knowledge as pk
    >>> pk.joint_delta(epsilon=1.0, records=51, known=0, bias=0.5, noise_scale=3.011, estimate_scale=2.0)
    2.79646418...e-06
    """
    return float(
        joint_delta_bounds(
            epsilon=epsilon,
            records=records,
            known=known,
            bias=bias,
            noise_scale=noise_scale,
            estimate_scale=estimate_scale,
            estimate_noise=estimate_noise,
            direction=direction,
        )
    )
