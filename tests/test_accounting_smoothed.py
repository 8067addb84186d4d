"""Compositions of atoms that share no lattice, and of many different Laplace releases: bounds by smoothing."""

from __future__ import annotations

import bisect
import functools
import math
import operator

import mpmath
import numpy as np
import pytest

from dpcore import accounting as acc


def total(losses: list[acc.PrivacyLoss]) -> acc.PrivacyLoss:
    return functools.reduce(operator.add, losses)


def all_sums(laws: list[tuple[list[float], list[float]]]) -> tuple[np.ndarray, np.ndarray]:
    """Every sum of losses with its mass, in 80-bit arithmetic: an independent reference good to 1e-16."""
    losses, masses = np.zeros(1, dtype=np.longdouble), np.ones(1, dtype=np.longdouble)
    for p, q in laws:
        pl, ql = np.array(p, dtype=np.longdouble), np.array(q, dtype=np.longdouble)
        losses = (losses[:, None] + np.log(pl / ql)[None, :]).ravel()
        masses = (masses[:, None] * pl[None, :]).ravel()
    return losses, masses


def exact(losses: np.ndarray, masses: np.ndarray, eps: float) -> np.longdouble:
    above = losses > eps
    return (masses[above] * -np.expm1(np.longdouble(eps) - losses[above])).sum()


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="the reference needs 80-bit long double")
def test_different_randomised_responses() -> None:
    epsilons = [0.05 + 0.013 * i for i in range(18)]
    loss = total([acc.from_randomized_response(epsilon=e) for e in epsilons])
    laws = []
    for e in epsilons:
        up = 1 / (1 + np.exp(-np.longdouble(e)))
        laws.append(([up, 1 - up], [1 - up, up]))
    losses, masses = all_sums(laws)
    for eps in (0.0, 0.3, 0.7, 1.1, 1.9, 2.6):
        truth = exact(losses, masses, eps)
        for engine in ("spectral", "auto"):
            found = loss.delta(eps, engine=engine)
            assert found.lower <= truth <= found.upper
            assert found.upper / found.lower - 1 <= 1e-9


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="the reference needs 80-bit long double")
def test_different_pairs_of_distributions() -> None:
    rng = np.random.default_rng(5)
    laws = []
    for _ in range(11):
        # Dyadic probabilities that sum to 1 exactly, so that the doubles are the numbers meant.
        p = rng.multinomial(1 << 20, [0.5, 0.3, 0.2]) / (1 << 20)
        q = rng.multinomial(1 << 20, [0.4, 0.35, 0.25]) / (1 << 20)
        laws.append((list(p), list(q)))
    loss = total([acc.from_pmf(p, q) for p, q in laws])
    losses, masses = all_sums(laws)
    reverse = all_sums([(q, p) for p, q in laws])
    for eps in (0.05, 0.4, 0.9, 1.6):
        truth = max(exact(losses, masses, eps), exact(*reverse, eps))
        for engine in ("spectral", "auto"):
            found = loss.delta(eps, engine=engine)
            assert found.lower <= truth <= found.upper
            assert found.upper / found.lower - 1 <= 1e-9


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="the reference needs 80-bit long double")
def test_distributions_with_more_than_64_outcomes() -> None:
    rng = np.random.default_rng(6)
    laws = []
    for size in (120, 70):
        p, q = (rng.multinomial(1 << 24, rng.dirichlet(np.full(size, 5.0))) / (1 << 24) for _ in range(2))
        laws.append((list(p), list(q)))
    loss = total([acc.from_pmf(p, q) for p, q in laws])
    forward, backward = all_sums(laws), all_sums([(q, p) for p, q in laws])
    for eps in (0.3, 1.7):
        truth = max(exact(*forward, eps), exact(*backward, eps))
        found = loss.delta(eps, engine="spectral")  # "auto" would enumerate
        assert found.lower <= truth <= found.upper
        assert found.upper / found.lower - 1 <= 1e-8


def discrete_gaussian(sigma: float, sensitivity: int) -> tuple[np.ndarray, np.ndarray]:
    """Losses in falling order and their masses, but for less than 1e-60 of mass."""
    reach = int(17 * sigma) + 3
    x = np.arange(-reach, reach + 1).astype(np.longdouble)
    s2 = np.longdouble(sigma) ** 2
    masses = np.exp(-x * x / (2 * s2))
    return sensitivity * (sensitivity - 2 * x) / (2 * s2), masses / masses.sum()


def discrete_laplace(scale: float, sensitivity: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.arange(sensitivity + 1).astype(np.longdouble)
    e = 1 / np.longdouble(scale)
    masses = np.tanh(e / 2) * np.exp(-e * x)
    masses[0] = 1 / (1 + np.exp(-e))
    masses[-1] = np.exp(-e * sensitivity) / (1 + np.exp(-e))
    return e * (sensitivity - 2 * x), masses


def randomized_response(epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    e = np.longdouble(epsilon)
    return np.array([e, -e]), np.array([1 / (1 + np.exp(-e)), 1 / (1 + np.exp(e))])


def power(law: tuple[np.ndarray, np.ndarray], copies: int) -> tuple[np.ndarray, np.ndarray]:
    """The law of a sum of losses on one lattice: sums of positive products, good to 1e-17."""
    losses, masses = law
    out = np.ones(1, dtype=np.longdouble)
    for _ in range(copies):
        out = np.convolve(out, masses)
    places = copies * losses[0] + (losses[1] - losses[0]) * np.arange(len(out)).astype(np.longdouble)
    keep = out > 1e-50
    return places[keep], out[keep]


def product(a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return (a[0][:, None] + b[0][None, :]).ravel(), (a[1][:, None] * b[1][None, :]).ravel()


# Kinds, parameters and copies. Up to sigma 3 atoms are turned on, beyond it are windows, with a single copy only
# just narrower than a period. Discrete Laplace laws of 64 and 65 atoms, and of 601.
MIXTURES = [
    [("gaussian", (7.777, 2), 1), ("gaussian", (12.12, 1), 1)],
    [("gaussian", (5.3171, 1), 6), ("gaussian", (2.0217, 3), 3)],
    [("gaussian", (1.3171, 1), 2), ("response", (0.1013,), 5)],
    [("gaussian", (0.4173, 1), 3), ("gaussian", (3.0179, 1), 1)],
    [("gaussian", (2.99, 1), 2), ("laplace", (3.0173, 63), 1)],
    [("gaussian", (3.01, 1), 2), ("laplace", (3.0173, 64), 1)],
    [("laplace", (1.0173, 1), 2), ("gaussian", (3.3173, 2), 1)],
    [("laplace", (300.173, 600), 1), ("gaussian", (4.0171, 1), 9)],
    [("laplace", (30.173, 90), 3), ("response", (0.3091,), 7), ("response", (0.1013,), 3)],
]
MAKERS = {
    "gaussian": (discrete_gaussian, lambda s, n: acc.from_discrete_gaussian(sigma=s, sensitivity=n)),
    "laplace": (discrete_laplace, lambda s, n: acc.from_discrete_laplace(scale=s, sensitivity=n)),
    "response": (randomized_response, lambda e: acc.from_randomized_response(epsilon=e)),
}
Kinds = list[tuple[str, tuple[float, ...], int]]


def mixture(kinds: Kinds) -> tuple[acc.PrivacyLoss, tuple[np.ndarray, np.ndarray]]:
    loss = total([MAKERS[kind][1](*parameters) * copies for kind, parameters, copies in kinds])
    laws = [power(MAKERS[kind][0](*parameters), copies) for kind, parameters, copies in kinds]
    return loss, functools.reduce(product, laws)


@pytest.mark.slow
@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="the reference needs 80-bit long double")
@pytest.mark.parametrize("kinds", MIXTURES)
def test_lattices_that_do_not_agree(kinds: Kinds) -> None:
    loss, (losses, masses) = mixture(kinds)
    mean = float((losses * masses).sum())
    spread = math.sqrt(float((losses * losses * masses).sum()) - mean * mean)
    for z in (-1.37, 0.21, 1.13, 2.9):
        eps = max(0.0, mean + z * spread)
        truth = exact(losses, masses, eps)
        if truth < 1e-30:
            continue  # beyond the reference
        found = loss.delta(eps)
        assert found.lower <= truth <= found.upper
        assert found.upper / found.lower - 1 <= (1e-9 if eps > 0 else 1e-6)  # 0 may be a sum of losses
        inside = loss.confidence(eps)
        assert inside.lower <= masses[abs(losses) <= eps].sum() <= inside.upper
        # Sums that cannot be told from eps; the smoothed step rises a little above 1.
        near = masses[abs(abs(losses) - eps) < 1e-3].sum()
        assert inside.upper - inside.lower <= 1.1 * near + 2e-9


@pytest.mark.slow
def test_deep_tails_and_many_copies() -> None:
    """Sixty digits: for each loss of the one law the tails of the other, under P and under Q."""
    with mpmath.workdps(60):
        e, copies = mpmath.mpf(0.010173), 2001
        mass = mpmath.exp(-copies * mpmath.log1p(mpmath.exp(e)))
        losses, above, above_q = [], [], []
        for j in range(copies + 1):
            losses.append(e * (2 * j - copies))
            above.append(mass)
            above_q.append(mass * mpmath.exp(-losses[j]))
            mass *= mpmath.mpf(copies - j) / (j + 1) * mpmath.exp(e)
        for masses in (above, above_q):
            masses.append(mpmath.mpf(0))
            for j in range(copies, -1, -1):
                masses[j] += masses[j + 1]
        s2 = mpmath.mpf(3.3) ** 2
        weights = {x: mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * s2)) for x in range(-100, 101)}
        scale = mpmath.fsum(weights.values())
        response = acc.from_randomized_response(epsilon=0.010173) * copies
        loss = response + acc.from_discrete_gaussian(sigma=3.3, sensitivity=3)
        for eps in (0.5, 9.3, 18.123):
            delta = outside = mpmath.mpf(0)
            for x, weight in weights.items():
                own = 3 * (3 - 2 * x) / (2 * s2)
                j = bisect.bisect_right(losses, eps - own)
                k = bisect.bisect_left(losses, -eps - own)
                delta += weight / scale * (above[j] - mpmath.exp(eps - own) * above_q[j])
                outside += weight / scale * (above[j] + above[0] - above[k])
            found, inside = loss.log_delta(eps), loss.confidence(eps)
            assert found.lower <= mpmath.log(delta) <= found.upper
            assert found.upper - found.lower <= 1e-9
            assert inside.lower <= 1 - outside <= inside.upper
            assert inside.upper - inside.lower <= 2e-9


def test_confidence_with_hardly_any_gaussian_noise() -> None:
    """It ends the integral after some 10^5 nodes; nothing is smoothed."""
    kinds = [("response", (0.3091,), 7), ("response", (0.1013,), 6), ("response", (0.7717,), 5)]
    loss, (losses, masses) = mixture(kinds)
    sigma = 1e4
    both = loss + acc.from_gaussian(sigma=sigma)
    rho = mpmath.mpf(1) / (2 * mpmath.mpf(sigma) ** 2)
    with mpmath.workdps(25):
        for eps in (0.4, 2.6, 0.7717 * 5 - 0.3091):
            truth = mpmath.mpf(0)
            for at, mass in zip(losses, masses, strict=True):
                middle = mpmath.mpf(repr(at).split("'")[1]) + rho
                spread = mpmath.sqrt(2 * rho)
                inside = mpmath.ncdf((eps - middle) / spread) - mpmath.ncdf((-eps - middle) / spread)
                truth += mpmath.mpf(repr(mass).split("'")[1]) * inside
            found = both.confidence(eps)
            assert found.lower <= truth <= found.upper
            assert found.upper - found.lower <= 1e-9


# Integer sigmas and decimal epsilons: a common lattice but for the last digits.
# The first epsilons are sums of losses.
NEARLY_LATTICES = [
    ([("gaussian", (20.0, 1), 14), ("gaussian", (30.0, 1), 6)], (0.0, 0.5, 1.0, 0.70013)),
    ([("laplace", (10.0, 1), 52), ("gaussian", (20.0, 1), 12)], (0.1, 3.0, 2.0123)),
    ([("gaussian", (1.3, 1), 2), ("response", (0.1,), 5)], (0.5, 2.7, 2.71)),
    ([("laplace", (300.0, 100), 2), ("gaussian", (20.0, 1), 3)], (0.25, 0.7, 0.6001)),
    ([("response", (0.1,), 40), ("response", (0.3,), 30), ("response", (0.7,), 50)], (3.0, 17.2, 9.01)),
    ([("laplace", (1.5, 3), 9), ("response", (0.1,), 90), ("gaussian", (0.75, 2), 2)], (12.0, 20.0, 7.003)),
]


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="the reference needs 80-bit long double")
@pytest.mark.parametrize(("kinds", "epsilons"), NEARLY_LATTICES)
def test_nearly_a_lattice(kinds: Kinds, epsilons: tuple[float, ...]) -> None:
    """Narrow also where epsilon is a sum of losses."""
    loss, (losses, masses) = mixture(kinds)
    for eps in epsilons:
        truth = exact(losses, masses, eps)
        found = loss.delta(eps)
        assert found.lower <= truth <= found.upper
        assert found.upper / found.lower - 1 <= 2e-11
        back = loss.epsilon(float(truth))
        assert exact(losses, masses, back.upper) <= float(truth)
        assert back.lower == 0 or exact(losses, masses, back.lower) >= float(truth)
        assert back.upper - back.lower <= 1e-10
        # A sum of losses that equals epsilon but for its last digits may count or not.
        surely, perhaps = (masses[abs(losses) <= eps + gap].sum() for gap in (-1e-13, 1e-13))
        inside = loss.confidence(eps)
        assert inside.lower <= perhaps
        assert surely <= inside.upper
        assert inside.upper - inside.lower <= perhaps - surely + 1e-10


def test_lattices_of_unbounded_losses_agree_exactly_or_not_at_all() -> None:
    """Sigmas one last bit away from a common lattice: bounds that overlap those on it, and are as narrow."""
    other = acc.from_discrete_gaussian(sigma=20.0, sensitivity=1) * 52
    on = other + acc.from_discrete_gaussian(sigma=30.0, sensitivity=1) * 12
    off = other + acc.from_discrete_gaussian(sigma=math.nextafter(30.0, 31.0), sensitivity=1) * 12
    for eps in (0.70013, 2.0123):
        a, b = on.log_delta(eps), off.log_delta(eps)
        assert max(a.lower, b.lower) <= min(a.upper, b.upper)
        assert a.upper - a.lower <= 1e-11  # a lattice
        assert 1e-11 < b.upper - b.lower <= 1e-9  # smoothed


@pytest.mark.slow
@pytest.mark.parametrize(
    "loss",
    [
        total([acc.from_laplace(epsilon=0.05 + 0.0131 * i**1.1) for i in range(12)]),
        total([acc.from_randomized_response(epsilon=0.05 + 0.0131 * i**1.1) for i in range(30)]),
        total([acc.from_randomized_response(epsilon=0.05 + 0.0131 * i**1.1) * 30 for i in range(5)]),
        acc.from_laplace(epsilon=0.3) * 3 + acc.from_discrete_laplace(scale=3.0, sensitivity=1) * 5,
        acc.from_pmf([0.5, 0.3, 0.2], [0.4, 0.35, 0.25]) * 50
        + acc.from_randomized_response(epsilon=0.21) * 50
        + acc.from_approximate(epsilon=0.11, delta=1e-8) * 50,
    ],
)
def test_too_many_sums_to_enumerate(loss: acc.PrivacyLoss) -> None:
    """Narrow, and within the bounds of the buckets, which share nothing with it; epsilon goes back to delta."""
    for share in (0.2137, 0.5219):  # no sum of losses itself, where delta has a kink
        eps = share * (loss.max_loss if math.isfinite(loss.max_loss) else 20.0)
        found, grid = loss.log_delta(eps), loss.log_delta(eps, engine="buckets")
        assert found.upper - found.lower <= 1e-9
        assert found.lower <= grid.upper
        assert grid.lower <= found.upper
    back = loss.epsilon(math.exp(found.upper))
    assert back.lower <= eps
    assert back.upper - eps <= 1e-7 * (1 + eps)


@pytest.mark.slow
def test_confidence_of_many_kinds() -> None:
    loss = total([acc.from_laplace(epsilon=0.05 + 0.0131 * i**1.1) for i in range(12)])
    previous = 0.0
    for eps in (0.1, 0.5, 1.2):
        found = loss.confidence(eps)
        assert found.upper - found.lower <= 2e-5
        assert found.lower > previous
        previous = found.upper
