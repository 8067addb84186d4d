"""With which probability a mechanism keeps its privacy loss below a level, and the inverses of that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcore import _core
from dpcore import _validation as check
from dpcore._validation import FloatArray, Number

METHODS = ("exact", "published")

Dimension = int | NDArray[np.int64]


def checked_dimension(value: Any) -> Dimension:
    """A whole number in [1, 1000000], or an array of them."""
    if isinstance(value, (np.ndarray, list, tuple)):
        raw = check.whole_array("dimension", value)
        if raw.dtype.kind not in "iu":
            raise TypeError(f"dimension must be an integer or an array of them, got dtype {raw.dtype}")
        if check.has_booleans(value):
            raise TypeError("dimension must be an integer or an array of them, got a boolean among numbers")
        if raw.ndim == 0:
            return check.integer("dimension", raw.item(), least=1, most=_core.MAX_DIMENSION)
        for item in np.unique(raw):
            check.integer("dimension", int(item), least=1, most=_core.MAX_DIMENSION)
        return raw.astype(np.int64)
    return check.integer("dimension", value, least=1, most=_core.MAX_DIMENSION)


def result(out: FloatArray, *inputs: Any) -> Number:
    """A float when every input was a single number, the array otherwise."""
    if all(isinstance(value, (int, float)) for value in inputs):
        return float(out.reshape(-1)[0])
    return out


def _over_dimensions(
    kernel: Callable[[FloatArray, FloatArray, int], FloatArray], dimension: Dimension, **named: Number
) -> Number:
    """`kernel` on two broadcast arguments, once for each different dimension."""
    if isinstance(dimension, int):
        first, second = check.broadcast(**named)
        return result(kernel(first, second, dimension), *named.values())
    shape = np.broadcast_shapes(dimension.shape, *(np.shape(value) for value in named.values()))
    first, second = (np.broadcast_to(value, shape) for value in named.values())
    dimension = np.broadcast_to(dimension, shape)
    out = np.empty(shape)
    for item in np.unique(dimension):
        here = dimension == item
        out[here] = kernel(np.ascontiguousarray(first[here]), np.ascontiguousarray(second[here]), int(item))
    return out


def laplace_confidence(
    *, epsilon: Any, epsilon0: Any, dimension: Any = 1, method: str = "exact"
) -> float | FloatArray:
    """Probability that the Laplace mechanism's privacy loss stays within `epsilon`.

    The mechanism adds noise of scale sensitivity/epsilon0 to each coordinate of its answer. It is
    epsilon0-differentially private for certain, and loses no more than a smaller `epsilon` only with this
    probability, which is over the noise and for the worst pair of neighbouring databases.

    Parameters
    ----------
    epsilon : float >= 0 or array
        Level that the absolute privacy loss shall not exceed.
    epsilon0 : float > 0 or array
        Level the noise was calibrated for.
    dimension : int in [1, 1000000] or array, optional
        Number of coordinates of the answer. The exact value does not depend on it.
    method : {"exact", "published"}
        "exact": Pr[|loss| <= epsilon] = exp(-epsilon0/2) sinh(epsilon/2) below epsilon0.
        "published": Theorem 4 of Dandekar et al., P(T <= epsilon)/P(T <= epsilon0). **It is not the
        mechanism's confidence**: its proof takes two functions of one noise as independent. It says 0.714
        where the truth is 0.185 (epsilon = 0.6, epsilon0 = 1); it is offered so that the paper's numbers
        come out.

    Returns
    -------
    float or ndarray
        In [0, 1]; 1 where epsilon >= epsilon0.

    Notes
    -----
    The exact value jumps at epsilon0: just below it is (1 - exp(-epsilon0))/2, always less than one half.
    In words: whatever epsilon < epsilon0 is named, the Laplace mechanism exceeds it more often than not.
    Proof, also that a difference in one coordinate is the worst one: docs/risk_auditors.md.

    References
    ----------
    Dandekar, A., Basu, D., Bressan, S. (2021). Differential Privacy at Risk. PoPETs 2021(1).

    Examples
    --------
    >>> round(laplace_confidence(epsilon=0.6, epsilon0=1.0), 6)
    0.184701
    >>> round(laplace_confidence(epsilon=0.6, epsilon0=1.0, method="published"), 6)
    0.713769
    >>> laplace_confidence(epsilon=2.0, epsilon0=1.0)
    1.0
    """
    check.choice("method", method, METHODS)
    epsilon = check.non_negative("epsilon", epsilon)
    epsilon0 = check.positive("epsilon0", epsilon0)
    dimension = checked_dimension(dimension)
    if method == "exact":
        return _over_dimensions(
            lambda e, e0, _: _core.exact_laplace_confidence(e, e0),
            dimension,
            epsilon=epsilon,
            epsilon0=epsilon0,
        )
    return _over_dimensions(_core.published_laplace_confidence, dimension, epsilon=epsilon, epsilon0=epsilon0)


def epsilon_at_confidence(
    *, confidence: Any, epsilon0: Any, dimension: Any = 1, method: str = "exact"
) -> float | FloatArray:
    """Smallest level that the Laplace mechanism's loss keeps with the wanted confidence.

    Parameters
    ----------
    confidence : float in (0, 1) or array
        Wanted probability that the loss stays within the returned level.
    epsilon0 : float > 0 or array
        Level the noise was calibrated for.
    dimension : int in [1, 1000000] or array, optional
        Number of coordinates.
    method : {"exact", "published"}
        As in `laplace_confidence`. For one coordinate "published" is Equation 4,
        ln(1/(1 - confidence (1 - exp(-epsilon0)))).

    Returns
    -------
    float or ndarray
        The smallest double whose evaluated confidence reaches the wanted one; epsilon0 itself when no smaller
        level has it, which for "exact" is every confidence above (1 - exp(-epsilon0))/2.

    Examples
    --------
    >>> round(epsilon_at_confidence(confidence=0.6, epsilon0=0.8, method="published"), 4)
    0.4011
    >>> round(epsilon_at_confidence(confidence=0.2, epsilon0=0.8), 4)
    0.5882
    >>> epsilon_at_confidence(confidence=0.6, epsilon0=0.8)
    0.8
    """
    check.choice("method", method, METHODS)
    confidence = check.open_probability("confidence", confidence)
    epsilon0 = check.positive("epsilon0", epsilon0)
    dimension = checked_dimension(dimension)
    if method == "exact":
        return _over_dimensions(
            lambda c, e0, _: _core.exact_laplace_epsilon_at(c, e0),
            dimension,
            confidence=confidence,
            epsilon0=epsilon0,
        )
    return _over_dimensions(
        _core.published_laplace_epsilon_at, dimension, confidence=confidence, epsilon0=epsilon0
    )


def epsilon0_for(
    *, epsilon: Any, confidence: Any, dimension: Any = 1, method: str = "exact"
) -> float | FloatArray:
    """Largest calibration level, hence the least Laplace noise, that keeps `epsilon` with `confidence`.

    Parameters
    ----------
    epsilon : float > 0 or array
        Level to be kept.
    confidence : float in (0, 1) or array
        Probability with which it shall be kept.
    dimension : int in [1, 1000000] or array, optional
        Number of coordinates.
    method : {"exact", "published"}
        As in `laplace_confidence`.

    Returns
    -------
    float or ndarray
        The largest double whose evaluated confidence reaches the wanted one, at least `epsilon`. With
        "exact" it is `epsilon` itself from confidence (1 - exp(-epsilon))/2 on: there is nothing to gain.
        With "published" it is infinity where Theorem 4 claims the confidence for no noise at all, that is
        from P(T <= epsilon) down.

    Examples
    --------
    >>> round(epsilon0_for(epsilon=0.4, confidence=0.6, method="published"), 4)    # the paper rounds to 0.8
    0.7973
    >>> epsilon0_for(epsilon=0.4, confidence=0.6)
    0.4
    >>> epsilon0_for(epsilon=0.4, confidence=0.3, method="published")
    inf
    """
    check.choice("method", method, METHODS)
    epsilon = check.positive("epsilon", epsilon)
    confidence = check.open_probability("confidence", confidence)
    dimension = checked_dimension(dimension)
    if method == "exact":
        return _over_dimensions(
            lambda e, c, _: _core.exact_laplace_epsilon0_for(e, c),
            dimension,
            epsilon=epsilon,
            confidence=confidence,
        )
    return _over_dimensions(
        _core.published_laplace_epsilon0_for, dimension, epsilon=epsilon, confidence=confidence
    )


def gaussian_confidence(*, epsilon: Any, sigma: Any, sensitivity: Any = 1.0) -> float | FloatArray:
    """Probability that the Gaussian mechanism's privacy loss stays within `epsilon`.

    The paper leaves this mechanism as future work; its loss is normal with mean m^2/2 and variance m^2,
    m = sensitivity/sigma, so the probability is Phi(epsilon/m - m/2) - Phi(-epsilon/m - m/2). It falls as m
    grows, so the full sensitivity is the worst case.

    Parameters
    ----------
    epsilon : float >= 0 or array
        Level that the absolute privacy loss shall not exceed.
    sigma : float > 0 or array
        Standard deviation of the noise.
    sensitivity : float > 0 or array, optional
        Largest Euclidean distance between the answers on neighbouring databases.

    Returns
    -------
    float or ndarray

    Examples
    --------
    >>> round(gaussian_confidence(epsilon=1.0, sigma=3.0), 6)
    0.996926
    """
    epsilon = check.non_negative("epsilon", epsilon)
    sigma = check.positive("sigma", sigma)
    sensitivity = check.positive("sensitivity", sensitivity)
    arrays = check.broadcast(epsilon=epsilon, sigma=sigma, sensitivity=sensitivity)
    return result(_core.gaussian_confidence(*arrays), epsilon, sigma, sensitivity)


def mechanism_confidence(mechanism: Any, *, epsilon: float) -> Any:
    """Probability that any mechanism's privacy loss stays within `epsilon`, from its loss distribution.

    Parameters
    ----------
    mechanism : PrivacyLoss or an object with ``privacy_loss()``
        A loss distribution of `dpcore.accounting`, possibly a composition of many releases, or a mechanism of
        `dpcore.mechanisms`.
    epsilon : float >= 0
        Level that the absolute privacy loss shall not exceed.

    Returns
    -------
    Bounds
        Certified lower and upper bound of Pr[|loss| <= epsilon], for the worse of the two directions.

    Examples
    --------
    Nine Gaussian releases with sigma = 6 are as good as one with sigma = 2.

    >>> from dpcore import accounting
    >>> bounds = mechanism_confidence(accounting.from_gaussian(sigma=6.0) * 9, epsilon=1.0)
    >>> round(bounds.lower, 6), round(gaussian_confidence(epsilon=1.0, sigma=2.0), 6)
    (0.947716, 0.947716)
    """
    loss = mechanism.privacy_loss() if hasattr(mechanism, "privacy_loss") else mechanism
    if not hasattr(loss, "confidence"):
        raise TypeError(f"mechanism must be a PrivacyLoss or have privacy_loss(), got {mechanism!r}")
    return loss.confidence(check.scalar("epsilon", check.non_negative("epsilon", epsilon)))


def approximate_dp(*, epsilon: Any, confidence: Any) -> tuple[Number, Number]:
    """Approximate differential privacy that a confidence implies (Theorem 2): (epsilon, 1 - confidence).

    Holds for the *exact* confidence of the worst pair, and gives a valid but loose delta: for the Laplace
    mechanism the true one is 1 - exp((epsilon - epsilon0)/2). With the published confidence it is false
    whenever epsilon0 > ln 3: docs/risk_auditors.md has the counter-example.

    Parameters
    ----------
    epsilon : float >= 0 or array
        Level that is kept.
    confidence : float in [0, 1] or array
        Probability with which it is kept. The paper's gamma is the probability of failure in Definition 5 and
        Theorem 2, that of success from Theorem 4 on.

    Returns
    -------
    epsilon, delta : float or ndarray

    Examples
    --------
    >>> approximate_dp(epsilon=1.0, confidence=0.75)
    (1.0, 0.25)
    """
    return check.non_negative("epsilon", epsilon), 1.0 - check.probability("confidence", confidence)
