"""Laplace releases, few or many, equal or different, beside randomised responses: bounds without any tolerance."""

import math
import random
from collections import defaultdict
from fractions import Fraction

import mpmath as mp
import pytest

from dpcore import accounting as acc

SPECTRAL_WIDTH = 1e-9  # promised for the spectral engine, up to a million copies
SUM_WIDTH = 1e-11  # of the finite sums


class Reference:
    """The law of the sum, times exp(-loss/2), expanded into differences of antiderivatives at exact knots.

    One Laplace release is half a unit at each end and a quarter of an integral between them; a randomised response
    is two atoms. The differences alternate and cancel, which the digits chosen here can afford: another way than
    the core's positive sums.
    """

    def __init__(self, laplace: list[float], responses: list[float]) -> None:
        self.digits = 50 + 3 * len(laplace)
        self.losses = laplace + responses
        with mp.workdps(self.digits):
            knots = {(0, Fraction(0)): mp.mpf(1)}  # (integrals taken, knot): coefficient
            for e in laplace:
                step: defaultdict = defaultdict(mp.mpf)
                for (n, at), c in knots.items():
                    for knot, sign in ((at, -1), (at + 2 * Fraction(e), 1)):
                        step[n, knot] += c / 2
                        step[n + 1, knot] += sign * c / 4
                knots = step
            for e in responses:
                keep = 1 / (1 + mp.exp(-mp.mpf(e)))
                step = defaultdict(mp.mpf)
                for (n, at), c in knots.items():
                    step[n, at] += c * keep
                    step[n, at + 2 * Fraction(e)] += c * keep
                knots = step
            self.knots = knots

    def integral(self, epsilon: float, powers: dict[int, int], prefactor: int) -> mp.mpf:
        """Over all m, powers[m mod 2] E[((V - t)/2)+^m]/m!, times exp((prefactor epsilon - all losses)/2)."""
        total = mp.mpf(0)
        at = Fraction(epsilon) + sum(map(Fraction, self.losses))
        for (n, knot), c in self.knots.items():
            if knot <= at:
                continue
            x = mp.mpf((knot - at).numerator) / (knot - at).denominator
            term = x**n / mp.factorial(n)
            part, m = mp.mpf(0), 0
            while m < 2 or term > mp.eps * abs(part):
                part += powers[m % 2] * term
                m += 1
                term *= x / (2 * (m + n))
            total += c * part
        return mp.exp((prefactor * mp.mpf(epsilon) - mp.fsum(map(mp.mpf, self.losses))) / 2) * total

    def delta(self, epsilon: float) -> mp.mpf:
        with mp.workdps(self.digits):
            return self.integral(epsilon, {0: 0, 1: 2}, 1)  # 2 sinh

    def confidence(self, epsilon: float) -> mp.mpf:
        """1 - Pr[L > epsilon] - Pr[L < -epsilon]: the law times exp(-loss/2) is symmetric."""
        with mp.workdps(self.digits):
            above = self.integral(epsilon, {0: 1, 1: 1}, 1)  # exp
            below = self.integral(epsilon, {0: 1, 1: -1}, -1)  # exp of the negative
            value = 1 - above - below
            return value if value > mp.mpf(10) ** -45 else mp.mpf(0)  # the cancellation's rest where it is 0


def build(laplace: list[float], responses: list[float]) -> acc.PrivacyLoss:
    releases = [acc.from_laplace(epsilon=e) for e in laplace]
    return acc.compose(releases + [acc.from_randomized_response(epsilon=e) for e in responses])


def check(laplace: list[float], responses: list[float], epsilons: list[float], width: float = SUM_WIDTH) -> None:
    loss, reference = build(laplace, responses), Reference(laplace, responses)
    for epsilon in epsilons:
        truth = reference.delta(epsilon)
        for engine in ("auto", "spectral"):
            bounds = loss.log_delta(epsilon, engine=engine)
            if truth == 0:
                assert bounds.upper == -math.inf
                continue
            with mp.workdps(40):
                assert bounds.lower <= mp.log(truth) <= bounds.upper
            assert bounds.upper - bounds.lower <= width
        inside = loss.confidence(epsilon)
        assert inside.lower <= reference.confidence(epsilon) <= inside.upper
        assert inside.width <= width


@pytest.mark.parametrize("copies", [2, 3, 6, 11])
@pytest.mark.parametrize("epsilon0", [1e-4, 0.1, 0.25, 1.0, 6.3])
def test_few_equal_releases(epsilon0: float, copies: int) -> None:
    top = copies * epsilon0
    # Whole multiples of epsilon0 meet a loss exactly, or miss it by the rounding of the product.
    shares = [
        0.0,
        0.3 * top,
        epsilon0 * (copies - 1),
        epsilon0 * (copies - 2),
        0.5 * top,
        0.77 * top,
        top * (1 - 1e-6),
    ]
    check([epsilon0] * copies, [], [*shares, math.nextafter(epsilon0 * (copies - 2), 0.0), top, 2 * top])
    loss = acc.from_laplace(epsilon=epsilon0) * copies
    bounds = loss.epsilon(loss.delta(0.4 * top).upper)
    assert bounds.lower <= 0.4 * top * (1 + 1e-9)
    assert bounds.upper >= 0.4 * top * (1 - 1e-9)
    assert bounds.upper - bounds.lower <= 1e-8 * top


@pytest.mark.parametrize(
    ("laplace", "responses"),
    [
        ([0.1, 0.2, 0.35], []),
        ([1.0] * 3 + [0.5] * 2, []),
        ([0.05 * i for i in range(1, 8)], []),
        ([1.0], [0.3] * 10),
        ([0.5] * 3, [0.1] * 40),
        ([2.0, 1e-3], [1e-3, 0.25]),
        ([30.0, 0.1], [0.1]),
        ([1e-8, 1.0, 1.0], []),
    ],
)
def test_few_different_releases(laplace: list[float], responses: list[float]) -> None:
    top = math.fsum(laplace + responses)
    meeting = math.fsum(laplace[1:] + responses) - laplace[0]  # a loss, up to the rounding of the sum
    ties = [x for x in (meeting, math.nextafter(meeting, 0.0), math.nextafter(meeting, 2 * top)) if 0 <= x < top]
    check(laplace, responses, [0.0, 0.2 * top, 0.6 * top, *ties, top * (1 - 1e-6), top * (1 - 1e-12)])


def test_random_releases() -> None:
    rng = random.Random(20)
    for case in range(40):
        pool = [10 ** rng.uniform(-3, 0.8) for _ in range(rng.randint(1, 3))]
        laplace = [rng.choice(pool) for _ in range(rng.randint(2, 7))]
        responses = [rng.choice([*pool, 0.25]) for _ in range(case % 3)]
        signs = [rng.choice((-1, 1)) for _ in laplace + responses]
        top = math.fsum(laplace + responses)
        loss_met = abs(math.fsum(s * e for s, e in zip(signs, laplace + responses, strict=True)))
        check(laplace, responses, [rng.uniform(0, top), loss_met, top * (1 - 10 ** rng.uniform(-12, -1))])


def test_losses_equal_to_epsilon_count_as_within() -> None:
    pair = acc.from_laplace(epsilon=0.5) * 2
    assert pair.confidence(1.0) == acc.Bounds(1.0, 1.0)
    just_below = pair.confidence(math.nextafter(1.0, 0.0))  # a quarter is at the upper end, e^-1/4 below
    truth = 1 - (1 + mp.exp(-1)) / 4
    assert just_below.lower <= truth + mp.mpf(10) ** -15
    assert just_below.upper >= truth - mp.mpf(10) ** -15
    assert just_below.width <= SUM_WIDTH
    middle = pair.confidence(0.0)  # one up, one down
    assert middle.lower <= mp.exp(mp.mpf(-0.5)) / 2 <= middle.upper
    # 0.1 + 0.2 is not the double 0.3 but 2^-55 above it, and the next double is above that
    different = acc.from_laplace(epsilon=0.1) + acc.from_laplace(epsilon=0.2)
    assert different.confidence(0.3).upper < 0.8
    assert different.confidence(0.1 + 0.2) == acc.Bounds(1.0, 1.0)


def test_contour_of_tails() -> None:
    # Enough releases for a contour, few enough for the reference.
    loss, reference = acc.from_laplace(epsilon=5.0) * 50, Reference([5.0] * 50, [])
    for deviations in (-1.5, 0.5):
        epsilon = loss.mean + deviations * math.sqrt(loss.variance)
        bounds = loss.confidence(epsilon)
        assert bounds.lower <= reference.confidence(epsilon) <= bounds.upper
        assert bounds.width <= SPECTRAL_WIDTH


@pytest.mark.parametrize("engine", ["auto", "spectral"])
@pytest.mark.parametrize("epsilon0", [0.01, 0.1, 0.3, 1.0, 2.0, 5.0, 10.0])
def test_every_number_of_releases_is_narrow(epsilon0: float, engine: str) -> None:
    for copies in (2, 10, 50, 200, 500, 1000, 10**4, 10**6):
        loss = acc.from_laplace(epsilon=epsilon0) * copies
        for delta in (0.5, 1e-3, 1e-10, 1e-30, 1e-100, 1e-250):
            epsilon = loss.epsilon(delta, engine=engine).upper
            for at in (epsilon * (1 - 1e-3), epsilon * (1 - 1e-9)):
                bounds = loss.log_delta(at, engine=engine)
                assert bounds.upper == -math.inf or math.expm1(bounds.upper - bounds.lower) <= SPECTRAL_WIDTH
                assert loss.confidence(at).width <= SPECTRAL_WIDTH


@pytest.mark.parametrize(("epsilon0", "copies"), [(0.01, 1000), (0.1, 100), (0.2, 100), (0.5, 50), (1.0, 100)])
def test_sums_and_buckets_agree(epsilon0: float, copies: int) -> None:
    loss = acc.from_laplace(epsilon=epsilon0) * copies
    for deviations in (1.0, 3.0, 6.0):
        epsilon = copies * epsilon0**2 / 2 + deviations * epsilon0 * math.sqrt(copies)
        if epsilon < copies * epsilon0:
            narrow, buckets = loss.delta(epsilon), loss.delta(epsilon, engine="buckets")
            assert narrow.upper / narrow.lower - 1 <= SPECTRAL_WIDTH
            assert buckets.lower <= narrow.upper
            assert narrow.lower <= buckets.upper


def test_infinite_mass_beside_laplace() -> None:
    # Infinite with probability 0.001, else randomised response: Pr[|L| <= eps] shrinks by that, delta(eps) too but
    # for the 0.001 itself.
    loss = acc.from_laplace(epsilon=1.0) * 2 + acc.from_approximate(epsilon=0.5, delta=0.001)
    keep, reference = 1 - mp.mpf(0.001), Reference([1.0, 1.0], [0.5])
    for epsilon in (0.0, 0.5, 1.3, 2.4):
        bounds, truth = loss.delta(epsilon), mp.mpf(0.001) + keep * reference.delta(epsilon)
        assert bounds.lower <= truth <= bounds.upper
        assert bounds.upper / bounds.lower - 1 <= SUM_WIDTH
        inside = loss.confidence(epsilon)
        assert inside.lower <= keep * reference.confidence(epsilon) <= inside.upper
        assert inside.width <= SUM_WIDTH


def test_epsilon_of_different_releases_inverts_delta() -> None:
    loss = build([1.0] * 3 + [0.5] * 2, [0.25])
    for delta in (0.3, 1e-2, 1e-6):
        bounds = loss.epsilon(delta)
        assert loss.delta(bounds.upper).upper <= delta
        assert loss.delta(bounds.lower).lower > delta * (1 - 1e-10)
        assert bounds.width <= 1e-9


def test_confidence_far_from_the_mean() -> None:
    loss = acc.from_laplace(epsilon=1.0) * 10**6  # mean 367879, standard deviation 650
    assert loss.confidence(0.0).upper <= 1e-12
    assert loss.confidence(360000.0).upper <= 1e-12
    assert loss.confidence(375000.0).lower >= 1 - 1e-12


@pytest.mark.parametrize(
    ("epsilon0", "epsilon"),
    [
        (1.0, 0.25), (50.0, 49.0), (700.0, 690.0), (1420.0, 1419.0), (1450.0, 1419.0), (1480.0, 1410.0),
        (1485.0, 1415.0), (2000.0, 1999.0), (3000.0, 2999.5), (1e6, 1e5), (2.0**53, 2.0**17),
        (2.0**53, 2.0**53 - 4),
    ],
)  # fmt: skip
def test_confidence_of_one_release_at_large_levels(epsilon0, epsilon):
    """Found by the fuzzer: exp(-epsilon0/2) and sinh(epsilon/2) leave the doubles before their product does."""
    found = acc.from_laplace(epsilon=epsilon0).confidence(epsilon)
    with mp.workdps(60):
        exact = -mp.expm1(-mp.mpf(epsilon)) * mp.exp((mp.mpf(epsilon) - mp.mpf(epsilon0)) / 2) / 2
        assert found.lower <= exact <= found.upper
        assert exact < 1e-300 or found.upper - found.lower <= 1e-12 * exact


def test_epsilon_is_never_above_the_largest_loss() -> None:
    loss = acc.from_laplace(epsilon=300.0) * 12
    found = loss.epsilon(1e-3)
    assert found.lower <= found.upper <= loss.max_loss == 3600.0
