"""Compositions of which some terms have few sums of losses: every sum, or every one with bounds of the rest."""

from __future__ import annotations

import math
from collections import defaultdict

import mpmath as mp
import numpy as np
import pytest

from dpcore import accounting as acc

WIDTH = 1e-9
LONG = pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="the reference needs 80-bit long double")
Terms = list[tuple[str, tuple, int]]


def release(kind: str, parameters: tuple) -> acc.PrivacyLoss:
    if kind == "gaussian":
        return acc.from_discrete_gaussian(sigma=parameters[0], sensitivity=parameters[1])
    if kind == "laplace":
        return acc.from_discrete_laplace(scale=parameters[0], sensitivity=parameters[1])
    if kind == "continuous":
        return acc.from_laplace(epsilon=parameters[0])
    return acc.from_randomized_response(epsilon=parameters[0])


def composed(terms: Terms) -> acc.PrivacyLoss:
    return acc.compose([release(kind, parameters) * copies for kind, parameters, copies in terms])


def law(kind: str, parameters: tuple) -> tuple[np.longdouble, np.longdouble, np.ndarray]:
    """First loss, (negative) step and masses, from the definitions."""
    if kind == "gaussian":
        sigma, n = np.longdouble(parameters[0]), parameters[1]
        reach = int(38 * parameters[0]) + 3  # but for e^-700 of mass
        x = np.arange(-reach, reach + 1).astype(np.longdouble)
        masses = np.exp(-x * x / (2 * sigma * sigma))
        return n * (n + 2 * reach) / (2 * sigma * sigma), -n / (sigma * sigma), masses / masses.sum()
    if kind == "laplace":
        e, n = 1 / np.longdouble(parameters[0]), parameters[1]
        masses = np.tanh(e / 2) * np.exp(-e * np.arange(n + 1).astype(np.longdouble))
        masses[0] = 1 / (1 + np.exp(-e))
        masses[-1] = np.exp(-e * n) / (1 + np.exp(-e))
        return e * n, -2 * e, masses
    e = np.longdouble(parameters[0])
    return e, -2 * e, np.array([1 / (1 + np.exp(-e)), 1 / (1 + np.exp(e))])


def sums(kind: str, parameters: tuple, copies: int) -> tuple[np.ndarray, np.ndarray]:
    """Losses and masses of a sum: positive products only, one release after the other."""
    first, step, masses = law(kind, parameters)
    out = np.ones(1, dtype=np.longdouble)
    for _ in range(copies):
        out = np.convolve(out, masses)
    return copies * first + step * np.arange(len(out)).astype(np.longdouble), out


def all_sums(terms: Terms) -> tuple[np.ndarray, np.ndarray]:
    """But for sums of mass below 1e-290."""
    losses, masses = np.zeros(1, dtype=np.longdouble), np.ones(1, dtype=np.longdouble)
    for term in terms:
        more, weights = sums(*term)
        losses, masses = (losses[:, None] + more).ravel(), (masses[:, None] * weights).ravel()
        keep = masses > 1e-290
        losses, masses = losses[keep], masses[keep]
    return losses, masses


def exact(losses: np.ndarray, masses: np.ndarray, epsilon: float) -> np.longdouble:
    above = losses > epsilon
    return -(masses[above] * np.expm1(np.longdouble(epsilon) - losses[above])).sum()


def check_confidence(loss: acc.PrivacyLoss, losses: np.ndarray, masses: np.ndarray, epsilon: float) -> None:
    # A sum that is epsilon but for its last digits may count or not, here and in the bounds.
    near = 1e-12 * (1 + epsilon)
    most = masses[np.abs(losses) <= epsilon + near].sum()
    least = masses[np.abs(losses) <= epsilon - near].sum()
    inside = loss.confidence(epsilon)
    assert inside.lower <= most * (1 + 1e-16)
    assert least * (1 - 1e-16) <= inside.upper
    if least == most:
        assert inside.width <= WIDTH


# What had bounds up to 4 % apart, and what the sums' code has to tell apart: few and many copies, one atom next to
# epsilon, epsilon between two far atoms.
LISTED: list[tuple[Terms, list[float]]] = [
    ([("gaussian", (0.3, 3), 1), ("response", (0.19,), 3), ("laplace", (1.5, 8), 12)], [300.24973784436935, 70.0]),
    ([("gaussian", (0.3, 2), 1), ("gaussian", (0.6660337839287312, 1), 1)], [97.02210393806072, 22.5, 40.0]),
    ([("response", (0.51,), 15), ("gaussian", (0.87, 1), 6)], [73.94752749866808, 3.0]),
    ([("gaussian", (5.2520864995854195, 3), 1), ("laplace", (2.097780191633397, 4), 387)], [620.0, 600.0]),
    ([("gaussian", (2.4193187421715217, 3), 41), ("gaussian", (3.912503875744548, 1), 1)], [33.0, 100.0]),
    ([("laplace", (0.3, 2), 2), ("gaussian", (0.4173, 1), 7)], [13.0, 60.0, 0.0]),
]


@LONG
@pytest.mark.parametrize(("terms", "epsilons"), LISTED)
def test_every_sum(terms: Terms, epsilons: list[float]) -> None:
    loss, (losses, masses) = composed(terms), all_sums(terms)
    for epsilon in epsilons:
        truth = exact(losses, masses, epsilon)
        for engine in ("auto", "spectral"):
            found = loss.delta(epsilon, engine=engine)
            assert found.lower <= truth <= found.upper
            assert found.upper <= found.lower * (1 + WIDTH)
        check_confidence(loss, losses, masses, epsilon)


def test_the_largest_sum_next_to_epsilon() -> None:
    """2.4 x 3 + 1.8 is 9 but for the last digits of doubles: 1e-16 of its mass lies above 9."""
    loss = acc.from_approximate(epsilon=2.4, delta=1e-12) * 3 + acc.from_approximate(epsilon=1.8, delta=1e-12)
    with mp.workdps(60):
        top = 3 * mp.mpf(2.4) + mp.mpf(1.8)
        keep = (1 - mp.mpf(1e-12)) ** 4
        mass = keep / ((1 + mp.exp(-mp.mpf(2.4))) ** 3 * (1 + mp.exp(-mp.mpf(1.8))))
        for epsilon in (9.0, 8.999999999999998, 8.999999999999):
            truth = 1 - keep + mass * max(0, 1 - mp.exp(epsilon - top))
            found = loss.delta(epsilon)
            assert found.lower <= truth <= found.upper
            assert found.upper <= found.lower * (1 + WIDTH)


@LONG
def test_random_mixtures() -> None:
    rng = np.random.default_rng(7)
    for _ in range(30):
        terms: Terms = []
        for _ in range(int(rng.integers(2, 4))):
            copies = int(rng.choice([1, 1, 2, 3, 9]))
            scale = math.sqrt(copies) * 10 ** rng.uniform(-0.5, 0.5)
            scale = max(0.3, float(f"{scale:.2g}") if rng.random() < 0.5 else scale)
            kind = str(rng.choice(["gaussian", "laplace", "response"]))
            size = (1 / scale,) if kind == "response" else (scale, int(rng.integers(1, 4)))
            terms.append((kind, size, copies))
        loss, (losses, masses) = composed(terms), all_sums(terms)
        for deviations in (0, 2, 8, 20):
            epsilon = max(0.0, loss.mean + deviations * math.sqrt(loss.variance))
            truth = exact(losses, masses, epsilon)
            if truth < 1e-250:
                continue
            found = loss.delta(epsilon)
            assert found.lower <= truth <= found.upper, (terms, epsilon)
            assert found.upper <= found.lower * (1 + WIDTH), (terms, epsilon)
            check_confidence(loss, losses, masses, epsilon)


@LONG
@pytest.mark.parametrize(
    ("few", "sigma", "copies", "epsilon"),
    [
        (("gaussian", (0.4683350034863341, 3), 3), 130.085764754492, 17871, 357.2242086513983),  # was 1e-5 wide
        (("gaussian", (0.9, 3), 6), 47.02997568722074, 867, 60.0),
        (("laplace", (0.51, 5), 4), 30.1, 900, 44.0),
    ],
)
def test_few_sums_beside_a_fine_lattice(few: tuple, sigma: float, copies: int, epsilon: float) -> None:
    """So many discrete Gaussians add up to one of sigma^2 copies, but for e^{-pi^2 sigma^2} of it."""
    loss = composed([few, ("gaussian", (sigma, 1), copies)])
    variance = copies * np.longdouble(sigma) ** 2
    reach = int(39 * math.sqrt(float(variance)))
    x = np.arange(-reach, reach + 1).astype(np.longdouble)
    masses = np.exp(-x * x / (2 * variance))
    masses /= masses.sum()
    # The loss of the sum x of all noises: copies (1/(2 sigma^2)) - x/sigma^2.
    losses = (np.longdouble(copies) / 2 - x) / np.longdouble(sigma) ** 2
    truth = np.longdouble(0)
    for at, mass in zip(*sums(*few), strict=True):
        truth += mass * exact(losses, masses, np.longdouble(epsilon) - at)
    found = loss.log_delta(epsilon)
    assert found.lower <= np.log(truth) <= found.upper
    assert found.upper - found.lower <= WIDTH


def laplace_knots(copies: int) -> dict[tuple[int, int], mp.mpf]:
    """The law of the sum times exp(-loss/2), in antiderivatives at knots: as in test_accounting_laplace.py."""
    knots = {(0, 0): mp.mpf(1)}  # (integrals taken, knot): coefficient
    for _ in range(copies):
        step: defaultdict[tuple[int, int], mp.mpf] = defaultdict(mp.mpf)
        for (n, at), c in knots.items():
            for knot, sign in ((at, -1), (at + 1, 1)):
                step[n, knot] += c / 2
                step[n + 1, knot] += sign * c / 4
        knots = step
    return knots


def laplace_delta(knots: dict[tuple[int, int], mp.mpf], epsilon0: float, copies: int, epsilon: mp.mpf) -> mp.mpf:
    """2 sinh((V - t)/2) integrated n times, term by term; 60 digits outlast what few copies cancel."""
    e = mp.mpf(epsilon0)
    total = mp.mpf(0)
    for (n, knot), c in knots.items():
        x = 2 * e * knot - (epsilon + copies * e)
        if x <= 0:
            continue
        term = x**n / mp.factorial(n)
        part, m = mp.mpf(0), 0
        while m < 2 or term > mp.eps * abs(part):
            part += 2 * term if m % 2 else 0
            m += 1
            term *= x / (2 * (m + n))
        total += c * part
    return mp.exp((epsilon - copies * e) / 2) * total


@pytest.mark.parametrize(
    ("few", "epsilon0", "copies", "epsilons"),
    [
        ([("gaussian", (0.34, 1), 1)], 0.09, 9, [16.0, 4.4, 4.0]),
        ([("gaussian", (0.3, 2), 2)], 0.5, 6, [24.0, 44.5]),
        ([("gaussian", (0.3, 3), 1), ("laplace", (6.177, 4), 3)], 0.042, 7, [51.0, 82.0]),
        ([("gaussian", (1.5, 3), 2)], 0.25, 8, [2.0, 4.0, 6.0]),  # losses of both equal epsilon
        ([("gaussian", (4.0, 2), 3)], 2.9, 1, [3.7, 0.4]),  # one Laplace release: a closed form
    ],
)
def test_few_sums_beside_laplace(few: Terms, epsilon0: float, copies: int, epsilons: list[float]) -> None:
    loss = composed([*few, ("continuous", (epsilon0,), copies)])
    laplace = laplace_knots(copies)
    points = [(mp.mpf(0), mp.mpf(1))]
    with mp.workdps(60):
        for kind, parameters, times in few:
            a = mp.mpf(parameters[0])
            n = parameters[1]
            if kind == "gaussian":
                span = range(-int(25 * a) - 3, int(25 * a) + 4)
                one = [(n * (n - 2 * x) / (2 * a * a), mp.exp(-x * x / (2 * a * a))) for x in span]
                norm = mp.fsum(m for _, m in one)
                one = [(at, m / norm) for at, m in one]
            else:
                u = mp.exp(-1 / a)
                one = [((n - 2 * x) / a, (1 - u) / (1 + u) * u**x) for x in range(n + 1)]
                one[0], one[-1] = (n / a, 1 / (1 + u)), (-n / a, u**n / (1 + u))
            for _ in range(times):
                merged: dict[str, tuple[mp.mpf, mp.mpf]] = {}
                for at, m in points:
                    for more, w in one:
                        key = mp.nstr(at + more, 45)  # equal sums, up to their last digits
                        old = merged.get(key, (at + more, mp.mpf(0)))
                        merged[key] = (old[0], old[1] + m * w)
                points = [(at, m) for at, m in merged.values() if m > mp.mpf(10) ** -120]
        top = copies * mp.mpf(epsilon0)
        for epsilon in epsilons:
            truth = mp.mpf(0)
            for at, mass in points:
                x = epsilon - at
                if x <= -top:
                    truth += mass * (1 - mp.exp(x))
                elif x < top:
                    truth += mass * laplace_delta(laplace, epsilon0, copies, x)
            found = loss.log_delta(epsilon)
            assert found.lower <= mp.log(truth) <= found.upper
            assert found.upper - found.lower <= WIDTH
