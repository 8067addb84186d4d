"""Few sampled Gaussian steps beside few atoms or few Laplace releases: delta and confidence.

The reference goes through the outputs of the steps, not through transforms: with one sampled step every
probability is a sum of normal tails over all sums of the atoms' losses; with a second step, or a Laplace release,
it is one more integral, by mpmath, divided where the integrand has a kink. Masses are exact rationals or functions
of the doubles given, 30 digits; bounds must bracket them without any tolerance. One step alone is the hardest for
transforms: widths are asserted at 1e-9 from two steps on. Of many steps the buckets, which share nothing with
contours, and simulations are the reference.
"""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from scipy import special

from dpcore import accounting


def atoms_of(kind, parameters, copies):
    """All sums of the finite losses of so many releases, with their masses."""
    if kind == "response":
        e, delta = mp.mpf(parameters[0]), mp.mpf(parameters[1])
        up, down = (1 - delta) / (1 + mp.exp(-e)), (1 - delta) / (1 + mp.exp(e))
        return [
            (e * (copies - 2 * j), math.comb(copies, j) * up ** (copies - j) * down**j) for j in range(copies + 1)
        ]
    p, q = parameters
    single = [(mp.log(mp.mpf(a) / mp.mpf(b)), mp.mpf(a)) for a, b in zip(p, q, strict=True)]
    return [
        (mp.fsum(loss for loss, _ in chosen), mp.fprod(mass for _, mass in chosen))
        for chosen in itertools.product(single, repeat=copies)
    ]


class Step:
    def __init__(self, sigma, rate, neighbours):
        self.s, self.q, self.removal = mp.mpf(sigma), mp.mpf(rate), neighbours == "remove"

    def loss(self, x):
        value = mp.log(1 - self.q + self.q * mp.exp((2 * x - 1) / (2 * self.s**2)))
        return value if self.removal else -value

    def output(self, loss):
        """The output with this loss; minus infinity where every loss is on one side."""
        rise = mp.expm1(loss if self.removal else -loss) / self.q
        return mp.mpf(1) / 2 + self.s**2 * mp.log1p(rise) if rise > -1 else -mp.inf

    def density(self, x):
        here = mp.npdf(x, 0, self.s)
        return (1 - self.q) * here + self.q * mp.npdf(x, 1, self.s) if self.removal else here

    def above(self, x):
        """Pr[loss > x] under P, and under Q."""
        at = self.output(x)
        noise = mp.ncdf(-at / self.s)
        mixture = (1 - self.q) * noise + self.q * mp.ncdf((1 - at) / self.s)
        if self.removal:
            return mixture, noise
        return 1 - noise, 1 - mixture


def delta_of(step, x):
    p, q = step.above(x)
    return p - mp.exp(x) * q


def expected(tail, point_delta, atoms, epsilon, infinite):
    """delta and confidence from Pr[L > x] and delta(x) of the other losses."""
    eps = mp.mpf(epsilon)
    delta = infinite + mp.fsum(mass * point_delta(eps - loss) for loss, mass in atoms)
    inside = mp.fsum(mass * (tail(-eps - loss) - tail(eps - loss)) for loss, mass in atoms)
    return delta, inside


def check(composed, epsilon, delta, inside, width, inside_width):
    bounds = composed.delta(epsilon)
    assert mp.mpf(bounds.lower) <= delta <= mp.mpf(bounds.upper)
    assert bounds.upper / bounds.lower - 1 < width
    bounds = composed.confidence(epsilon)
    assert mp.mpf(bounds.lower) <= inside <= mp.mpf(bounds.upper)
    assert bounds.upper - bounds.lower < inside_width


THREE = ([0.25, 0.4375, 0.3125], [0.3125, 0.375, 0.3125])


def reversed_parts(parts):
    return [(kind, p[::-1] if kind == "pmf" else p, n) for kind, p, n in parts]


ONE_STEP = [
    (0.7, 0.004, "remove", [("response", (0.48, 0.0), 4)], 0.3),
    (0.7, 0.004, "add", [("response", (0.48, 0.0), 4)], 0.3),
    (1.3, 0.02, "remove", [("response", (0.1, 1e-6), 3), ("response", (0.27, 0.0), 2)], 0.2),
    (1.3, 0.02, "add", [("response", (0.1, 1e-6), 3), ("response", (0.27, 0.0), 2)], 0.2),
    (0.9, 0.001, "remove", [("pmf", THREE, 3)], 0.25),
    (0.9, 0.001, "add", [("pmf", THREE, 3)], 0.25),
    (2.5, 0.01, "remove", [("pmf", THREE, 2), ("response", (0.2, 0.0), 2)], 0.45),
]


def mechanism(kind, parameters, copies):
    if kind == "pmf":
        return accounting.from_pmf(*parameters) * copies
    epsilon, delta = parameters
    law = accounting.from_approximate(epsilon=epsilon, delta=delta) if delta else None
    return (law or accounting.from_randomized_response(epsilon=epsilon)) * copies


def atoms_and_rest(parts):
    atoms = [(mp.mpf(0), mp.mpf(1))]
    for part in parts:
        atoms = [(a + b, p * q) for (a, p), (b, q) in itertools.product(atoms, atoms_of(*part))]
    finite = mp.fprod((1 - mp.mpf(p[1])) ** n for kind, p, n in parts if kind == "response")
    return atoms, 1 - finite, accounting.compose([mechanism(*part) for part in parts])


@pytest.mark.parametrize(("sigma", "rate", "neighbours", "parts", "epsilon"), ONE_STEP)
def test_one_step_and_atoms(sigma, rate, neighbours, parts, epsilon):
    with mp.workdps(30):
        step = Step(sigma, rate, neighbours)
        found = []
        for direction in (parts, reversed_parts(parts)):
            atoms, infinite, _ = atoms_and_rest(direction)
            found.append(
                expected(lambda x: step.above(x)[0], lambda x: delta_of(step, x), atoms, epsilon, infinite)
            )
        delta, inside = max(delta for delta, _ in found), min(inside for _, inside in found)
        others = atoms_and_rest(parts)[2]
        composed = accounting.from_subsampled_gaussian(sigma=sigma, rate=rate, neighbours=neighbours) + others
        check(composed, epsilon, delta, inside, 1e-4, 1e-4)


@pytest.mark.parametrize("neighbours", ["remove", "add"])
def test_two_steps_and_atoms(neighbours):
    first, second = (0.8, 0.01), (1.2, 0.003)
    parts = [("response", (0.3, 0.0), 3)]
    with mp.workdps(30):
        a, b = Step(*first, neighbours), Step(*second, neighbours)
        atoms, infinite, others = atoms_and_rest(parts)
        composed = others + accounting.compose(
            [
                accounting.from_subsampled_gaussian(sigma=s, rate=q, neighbours=neighbours)
                for s, q in (first, second)
            ]
        )

        def over_first(value, x):
            # The second step's loss ends where the first one's is x less its least or largest one.
            ends = [-12 * a.s, *range(-8, 13)]
            edge = a.output(x - (1 if a.removal else -1) * mp.log1p(-b.q))
            ends += [edge] if mp.isfinite(edge) else []
            points = sorted({mp.mpf(end) for end in ends})
            return mp.quad(lambda y: a.density(y) * value(x - a.loss(y)), points)

        def tail(x):
            return over_first(lambda y: b.above(y)[0], x)

        def point_delta(x):
            return over_first(lambda y: delta_of(b, y), x)

        check(composed, 0.35, *expected(tail, point_delta, atoms, 0.35, infinite), 1e-9, 1e-9)


@pytest.mark.parametrize(
    ("sigma", "rate", "neighbours", "noise", "sensitivity", "copies", "epsilon"),
    [
        (0.7, 0.004, "remove", 3.0, 1, 2, 0.4),
        (0.7, 0.004, "add", 3.0, 1, 2, 0.4),
        (1.44, 0.00742, "remove", 5.5, 3, 1, 2.0),
        (2.0, 0.3, "add", 4.0, 2, 2, 0.0),
    ],
)
def test_one_step_and_a_discrete_gaussian(sigma, rate, neighbours, noise, sensitivity, copies, epsilon):
    """Hundreds of sums, each with the closed form of one step."""
    with mp.workdps(40):
        step = Step(sigma, rate, neighbours)
        s, shift = mp.mpf(noise), mp.mpf(sensitivity)
        reach = int(20 * noise)
        single = {n: mp.exp(-(mp.mpf(n) ** 2) / (2 * s**2)) for n in range(-reach, reach + 1)}
        total = mp.fsum(single.values())
        masses = {0: mp.mpf(1)}
        for _ in range(copies):
            sums = {}
            for n, a in masses.items():
                for m, b in single.items():
                    sums[n + m] = sums.get(n + m, mp.mpf(0)) + a * b / total
            masses = sums
        atoms = [(shift / s**2 * (shift / 2 * copies + n), mass) for n, mass in masses.items()]
        delta = mp.fsum(mass * delta_of(step, mp.mpf(epsilon) - loss) for loss, mass in atoms)
    composed = accounting.from_subsampled_gaussian(sigma=sigma, rate=rate, neighbours=neighbours)
    composed += accounting.from_discrete_gaussian(sigma=noise, sensitivity=sensitivity) * copies
    bounds = composed.delta(epsilon)
    assert mp.mpf(bounds.lower) <= delta <= mp.mpf(bounds.upper)
    assert bounds.upper / bounds.lower - 1 < 1e-9


BESIDE = {
    "two removals, a lattice": lambda: (
        sampled(1.84, 0.000389, 2, "remove") + accounting.from_discrete_gaussian(sigma=33.2575819) * 30,
        1.331,
    ),
    "many removals, one discrete Gaussian": lambda: (
        sampled(0.581, 0.000167, 336, "remove") + accounting.from_discrete_gaussian(sigma=18.0, sensitivity=3),
        0.348,
    ),
    "additions, two lattices": lambda: (
        sampled(2.69, 0.000212, 512, "add")
        + accounting.from_randomized_response(epsilon=0.16) * 38
        + accounting.from_discrete_gaussian(sigma=8.4, sensitivity=3) * 23,
        3.927,
    ),
    "additions of much noise": lambda: (
        sampled(2.57, 0.00011, 13813, "add") + accounting.from_discrete_gaussian(sigma=20.0) * 7,
        0.141,
    ),
    "removals, one Laplace": lambda: (
        sampled(0.871, 0.000139, 3930, "remove") + accounting.from_laplace(epsilon=0.098376) * 1,
        0.787,
    ),
    "epsilon is a sum of losses": lambda: (
        sampled(0.8, 0.01, 1, "remove")
        + sampled(1.2, 0.003, 1, "remove")
        + accounting.from_randomized_response(epsilon=0.3) * 3,
        0.3,
    ),
}


@pytest.mark.parametrize("name", BESIDE)
def test_steps_beside_listed_losses_meet_the_buckets(name):
    composed, epsilon = BESIDE[name]()
    found, grid = composed.log_delta(epsilon), composed.log_delta(epsilon, engine="buckets")
    assert max(found.lower, grid.lower) <= min(found.upper, grid.upper)
    assert found.upper - found.lower < 1e-9


LAPLACE = [(0.8, 0.01, "remove", 0.5, 0.3), (0.8, 0.01, "add", 0.5, 0.3), (1.5, 0.002, "remove", 0.2, 0.1)]


@pytest.mark.parametrize(("sigma", "rate", "neighbours", "laplace", "epsilon"), LAPLACE)
def test_one_step_and_a_laplace_release(sigma, rate, neighbours, laplace, epsilon):
    parts = [("response", (0.15, 0.0), 1)]
    with mp.workdps(30):
        step, e = Step(sigma, rate, neighbours), mp.mpf(laplace)
        atoms, infinite, others = atoms_and_rest(parts)
        composed = accounting.from_subsampled_gaussian(sigma=sigma, rate=rate, neighbours=neighbours) + others
        composed = composed + accounting.from_laplace(epsilon=laplace)

        def over_laplace(value, x):
            # Half of the mass at e, half of e^-e at -e, e^{(loss - e)/2}/4 between.
            edge = x - (1 if step.removal else -1) * mp.log1p(-step.q)
            points = sorted({-e, e} | ({edge} if -e < edge < e else set()) | {k * e / 8 for k in range(-7, 8)})
            between = mp.quad(lambda y: mp.exp((y - e) / 2) / 4 * value(x - y), points)
            return value(x - e) / 2 + value(x + e) * mp.exp(-e) / 2 + between

        def tail(x):
            return over_laplace(lambda y: step.above(y)[0], x)

        def point_delta(x):
            return over_laplace(lambda y: delta_of(step, y), x)

        check(composed, epsilon, *expected(tail, point_delta, atoms, epsilon, infinite), 1e-3, 0.5)


def sampled(sigma, rate, copies, neighbours):
    return accounting.from_subsampled_gaussian(sigma=sigma, rate=rate, neighbours=neighbours) * copies


def simulated(rng, count, sigma, rate, copies, neighbours):
    """The sum of the steps' losses, drawn."""
    total = np.zeros(count)
    for _ in range(copies):
        x = rng.normal(0.0, sigma, count)
        if neighbours == "remove":
            x += rng.random(count) < rate
        lam = np.log1p(rate * np.expm1((x - 0.5) / sigma**2))
        total += lam if neighbours == "remove" else -lam
    return total


def assert_likely(losses, epsilon, inside):
    share = np.mean(np.abs(losses) <= epsilon)
    off = 6 * math.sqrt(share * (1 - share) / len(losses))
    assert inside.lower - off < share < inside.upper + off


def test_responses_beside_many_steps():
    composed = sampled(0.5727463675509566, 0.00013219083949246268, 6, "remove")
    composed = composed + sampled(0.7069390060346114, 0.004117429944625457, 20, "remove")
    composed = composed + accounting.from_randomized_response(epsilon=0.4811321647404485) * 4
    epsilon = 0.30337272820675076
    delta, inside = composed.delta(epsilon), composed.confidence(epsilon)
    grid = composed.delta(epsilon, engine="buckets")
    assert grid.lower <= delta.lower <= delta.upper <= grid.upper
    assert delta.upper / delta.lower - 1 < 1e-9
    assert inside.upper - inside.lower < 1e-9
    rng = np.random.default_rng(5)
    count = 1_000_000
    losses = simulated(rng, count, 0.5727463675509566, 0.00013219083949246268, 6, "remove")
    losses += simulated(rng, count, 0.7069390060346114, 0.004117429944625457, 20, "remove")
    up = rng.binomial(4, 1 / (1 + math.exp(-0.4811321647404485)), count)
    assert_likely(losses + 0.4811321647404485 * (2 * up - 4), epsilon, inside)


def test_laplace_releases_beside_many_additions():
    composed = sampled(2.3449151694614834, 0.00039803621773575986, 55, "add")
    composed = composed + sampled(0.9812285708654219, 0.0016924221909018842, 6, "add")
    composed = composed + accounting.from_laplace(epsilon=0.42647870721079284) * 13
    delta = composed.delta(0.26344408822927456)
    grid = composed.delta(0.26344408822927456, engine="buckets")
    assert grid.lower <= delta.lower <= delta.upper <= grid.upper
    assert delta.upper / delta.lower - 1 < 1e-9


@pytest.mark.parametrize(
    ("sigma", "rate", "copies", "epsilon"), [(0.874, 0.00178, 47, 0.0514), (1.0, 0.003, 100, 0.05)]
)
def test_confidence_of_additions_is_narrow(sigma, rate, copies, epsilon):
    inside = sampled(sigma, rate, copies, "add").confidence(epsilon)
    assert inside.upper - inside.lower < 1e-9
    assert_likely(simulated(np.random.default_rng(6), 400_000, sigma, rate, copies, "add"), epsilon, inside)


def _gaussian_delta(sigma: float, epsilon: np.ndarray) -> np.ndarray:
    """Of one Gaussian release, sensitivity 1: phi(a) (R(a) - R(b)), R Mills' ratio."""
    a = epsilon * sigma - 0.5 / sigma
    b = a + 1.0 / sigma
    return 0.5 * np.exp(-0.5 * a * a) * (special.erfcx(a / np.sqrt(2)) - special.erfcx(b / np.sqrt(2)))


def _one_step_delta(sigma: float, rate: float, removal: bool, x: np.ndarray) -> np.ndarray:
    """Of one sampled release at every x, of either sign: a Gaussian one at another epsilon."""

    def forward(removed: bool, at: np.ndarray) -> np.ndarray:
        if removed:
            return rate * _gaussian_delta(sigma, np.log1p(np.expm1(at) / rate))
        left = 1.0 - (1.0 - rate) * np.exp(at)
        safe = np.where(left > 0.0, left, 1.0)
        return np.where(left > 0.0, left * _gaussian_delta(sigma, np.log(rate) + at - np.log(safe)), 0.0)

    at = np.abs(x)
    return np.where(x >= 0.0, forward(removal, at), -np.expm1(-at) + np.exp(-at) * forward(not removal, at))


@pytest.mark.parametrize(
    ("sigma", "rate", "neighbours", "response", "copies", "noise", "shift", "releases", "epsilon"),
    [
        (1.81, 0.000878, "remove", 0.044171783493911106, 457, 88.0, 3, 39, 0.46842733261969244),
        (0.662, 0.03, "add", 0.05, 300, 40.5, 2, 25, 0.7),
        (2.3, 0.2, "remove", 0.011, 900, 150.25, 1, 60, 0.4),
        (0.9, 0.004, "add", 0.13, 25, 61.3, 3, 50, 1.1),
    ],
)
def test_one_step_beside_two_lattices(sigma, rate, neighbours, response, copies, noise, shift, releases, epsilon):
    """Millions of sums of losses, which are smoothed: against all of them in a plain sum of the closed form."""
    # Masses relative to the largest: positive terms throughout.
    k = np.arange(copies + 1)
    log_mass = special.gammaln(copies + 1) - special.gammaln(k + 1) - special.gammaln(copies - k + 1)
    log_mass += k * -np.log1p(np.exp(-response)) + (copies - k) * -np.log1p(np.exp(response))
    mass = np.exp(log_mass - log_mass.max())
    mass /= mass.sum()
    two_points = response * (2.0 * k - copies)
    reach = int(12 * noise)
    x = np.arange(-reach, reach + 1)
    one = np.exp(-(x * x) / (2.0 * noise * noise))
    one /= one.sum()
    sum_mass, low = np.ones(1), 0
    for _ in range(releases):
        sum_mass, low = np.convolve(sum_mass, one), low - reach
        keep = np.flatnonzero(sum_mass > 1e-30)
        sum_mass, low = sum_mass[keep[0] : keep[-1] + 1], low + int(keep[0])
    sums = low + np.arange(sum_mass.size)
    noise_loss = shift / noise**2 * (0.5 * shift * releases - sums)
    delta = math.fsum(
        float(m)
        * float(
            np.dot(sum_mass, _one_step_delta(sigma, rate, neighbours == "remove", epsilon - loss - noise_loss))
        )
        for m, loss in zip(mass, two_points, strict=True)
        if m > 1e-25
    )
    loss = (
        accounting.from_subsampled_gaussian(sigma=sigma, rate=rate, neighbours=neighbours)
        + accounting.from_randomized_response(epsilon=response) * copies
        + accounting.from_discrete_gaussian(sigma=noise, sensitivity=shift) * releases
    )
    bounds = loss.delta(epsilon, engine="spectral")
    assert bounds.upper <= bounds.lower * (1.0 + 1e-9)
    # The plain sum is good to some 1e-12.
    assert bounds.lower <= delta * (1.0 + 1e-11)
    assert bounds.upper >= delta * (1.0 - 1e-11)


@pytest.mark.parametrize(
    ("sigma", "rate", "steps", "other"),
    [
        (0.96, 0.0013, 2, accounting.from_randomized_response(epsilon=0.18) * 3),
        (0.95, 0.0007, 44, accounting.from_laplace(epsilon=0.804) * 6),
        (0.64, 0.0004, 739, accounting.from_discrete_gaussian(sigma=23.0) * 9),
    ],
)
def test_epsilon_is_as_narrow_as_delta(sigma, rate, steps, other):
    """A new user's programmes: epsilon was up to 1e-2 wide, its work spent on contours that do not end."""
    loss = accounting.from_subsampled_gaussian(sigma=sigma, rate=rate) * steps + other
    epsilon = loss.epsilon(1e-6)
    assert epsilon.width <= 1e-9 * epsilon.upper
    assert loss.delta(epsilon.upper).lower <= 1e-6 <= loss.delta(epsilon.lower).upper


def test_equal_mechanisms_made_apart_are_one():
    step = {"sigma": 0.9, "rate": 0.004}
    apart = sum(
        (accounting.from_subsampled_gaussian(**step) * 50 for _ in range(3)),
        accounting.from_subsampled_gaussian(**step) * 50,
    )
    once = accounting.from_subsampled_gaussian(**step) * 200
    assert apart.delta(0.5) == once.delta(0.5)
    p, q = [0.5, 0.3, 0.2], [0.4, 0.35, 0.25]
    assert (accounting.from_pmf(p, q) + accounting.from_pmf(p, q) + once).delta(1.0) == (
        accounting.from_pmf(p, q) * 2 + once
    ).delta(1.0)
    # Another pair of the same length is another law.
    assert (accounting.from_pmf(p, q) + accounting.from_pmf(q, p)).delta(0.2) != (
        accounting.from_pmf(p, q) * 2
    ).delta(0.2)
