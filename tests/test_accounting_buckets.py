"""The bucket engine's default grid: every way that it takes, against the contours and against exact sums.

The contours (engine="auto") share nothing with the buckets but the mechanisms' parameters.
"""

from __future__ import annotations

import contextlib
import itertools
import math

import mpmath as mp
import numpy as np
import pytest

from dpcore import accounting as acc

WIDTH = 1e-4  # promised


def pair(losses: list[float], q: list[float]) -> acc.PrivacyLoss:
    p = np.array(q) * np.exp(losses)
    return acc.from_pmf(p / p.sum(), np.array(q))


def sampled(sigma: float, rate: float, neighbours: str = "remove") -> acc.PrivacyLoss:
    return acc.from_subsampled_gaussian(sigma=sigma, rate=rate, neighbours=neighbours)


CASES = {
    # Copies on grids that grow with them; one grid for all would take more than 2^22 buckets.
    "many Laplace": lambda: (acc.from_laplace(epsilon=0.0016342448) * 997282, 50.0),
    "many sampled": lambda: (sampled(6.1, 0.0071) * 546516, 18.0),
    "many discrete Gaussian": lambda: (acc.from_discrete_gaussian(sigma=2300.0, sensitivity=3) * 76132, 0.4246),
    "two very different Laplace": lambda: (
        acc.from_laplace(epsilon=6.5e-05) * 740007
        + acc.from_laplace(epsilon=0.0044) * 482
        + acc.from_discrete_gaussian(sigma=410.0, sensitivity=2) * 38300,
        8.2,
    ),
    "Laplace and response": lambda: (
        acc.from_laplace(epsilon=0.00025) * 90249 + acc.from_randomized_response(epsilon=0.0014) * 8026,
        2.934453280136196,
    ),
    # Half of the mass next to the lowest loss, with nothing below it to merge with.
    "heap at the end": lambda: (sampled(0.5, 0.0012) * 68899 + acc.from_gaussian(sigma=20.0), 5.0),
    # Outcomes without a lattice, more copies than can be composed exactly.
    "three outcomes": lambda: (pair([-0.0022, 0.0011, -0.0005], [0.2, 0.5, 0.3]) * 20000, 0.9),
    "five outcomes": lambda: (
        pair([0.0022, 0.0007, -0.0014, 0.0016, -0.0013], [0.1, 0.2, 0.3, 0.2, 0.2]) * 12244,
        0.8,
    ),
    # Two lattices, composed with each other before they are put on a grid.
    "two lattices": lambda: (
        acc.from_gaussian(sigma=2.6) * 64
        + acc.from_discrete_laplace(scale=28.0, sensitivity=1) * 190
        + acc.from_pure(epsilon=0.1280987431615561) * 217,
        120.0,
    ),
    "six outcomes": lambda: (
        pair([-0.00083, -0.00491, -0.00557, 0.00142, -0.00361, 0.00193], [0.1, 0.1, 0.1, 0.35, 0.1, 0.25]) * 70735,
        12.0,
    ),
    # Atoms on no lattice that occur once: composed with the many copies of another law on the finest grid.
    "outcomes beside sampled": lambda: (
        sampled(1.9, 0.028) * 351 + pair([0.1365, -0.028, -0.262, 0.117], [0.2, 0.3, 0.2, 0.3]) * 6,
        6.0,
    ),
    # Fifty lowest atoms that lie between the points: raised with what is beyond them.
    "different Laplace and Gaussian": lambda: (
        acc.compose(
            [acc.from_laplace(epsilon=1 / b) for b in range(20, 70)]
            + [acc.from_gaussian(sigma=float(b)) for b in range(20, 70)]
        ),
        1.0,
    ),
    # One release: only losses above epsilon are tabulated.
    "one release far out": lambda: (sampled(6.55, 1.7e-4), 9.2e-4),
    "one added record": lambda: (
        acc.from_subsampled_gaussian(sigma=0.82, rate=0.1, neighbours="add"),
        0.1,
    ),
    "one release, delta 1e-240": lambda: (acc.from_gaussian(sigma=0.4), 80.0),
    # Between two humps: none or one large step.
    "valley": lambda: (sampled(1.8, 0.0039) * 366, 0.8982948752683553),
    "valley of 15000": lambda: (sampled(2.6, 0.0012) * 14894, 1.8),
    "valley beside others": lambda: (sampled(29.0, 0.013) * 24731 + sampled(4.4, 0.014) * 996, 3.72),
    # The second hump is so far out that its untilted density underflows.
    "few sampled": lambda: (sampled(3.0467805752496724, 0.00219508150558192) * 3, 0.0031129391673267058),
    # Nothing of the outputs next to 1 + c, and a nearest tilt below 0.
    "two sampled of much noise": lambda: (sampled(2661.1857685705627, 0.019777212457154508) * 2, 0.0),
    # By the number of large steps, the cut where the density underflows.
    "seven sampled": lambda: (sampled(9.813659248249241, 0.00200276901801035) * 7, 1.4652623612800167e-07),
    # The second hump is beyond lifting: by the number of large steps, of which one or more are next to nothing and
    # cannot be placed.
    "nine sampled": lambda: (sampled(4.493572608581753, 3.428647836345248e-05) * 9, 2.6857920121788063e-10),
    # Steps that decide by themselves are left out: removals above epsilon, additions far below it.
    "two sampled far out": lambda: (sampled(4.63, 0.0038) * 2, 0.0213),
    "six sampled, delta 1e-22": lambda: (
        sampled(1.7879902926140654, 0.000618176999305838) * 6,
        0.09790661509228073,
    ),
    "ten sampled at epsilon 0": lambda: (sampled(1.0089553955090476, 0.0002694240339533711) * 10, 0.0),
    "two kinds of removal": lambda: (sampled(0.6, 0.002) * 3 + sampled(1.7, 0.0004) * 4, 12.0),
    "three added": lambda: (sampled(1.4905383901737437, 0.002203815676171383, "add") * 3, 0.006347617878853901),
    # Losses a part in 10^9 apart: counted from the largest one.
    "four added next to the largest loss": lambda: (
        sampled(0.37926805486079573, 0.00936768375573914, "add") * 4,
        0.037647345704077226,
    ),
    "two kinds added": lambda: (sampled(0.9, 0.003, "add") * 2 + sampled(1.5, 0.0004, "add") * 5, 0.0078),
    "one sampled": lambda: (sampled(4.1421664155896245, 0.0009025834631281856), 0.00036491540454812883),
    # Outputs that hold next to nothing without the record are left out, whatever the other releases do.
    "rare outputs far above epsilon": lambda: (
        sampled(0.364, 3.329e-9) * 106 + acc.from_randomized_response(epsilon=0.07) * 2,
        0.1,
    ),
    "rare outputs beside additions": lambda: (
        sampled(1.182, 0.00272) * 17
        + sampled(1.483, 0.09019, "add") * 25
        + acc.from_randomized_response(epsilon=1.1647926941977278) * 6,
        8.61835684858379,
    ),
    "rare outputs, one step": lambda: (
        sampled(0.1195, 8.398e-10) * 3 + acc.from_pure(epsilon=0.020344257979064816),
        0.0172,
    ),
    # What is left has no loss above epsilon: the infinite mass alone.
    "nothing left": lambda: (sampled(2.222, 4.45e-5) * 2 + acc.from_approximate(epsilon=0.07, delta=1e-12), 0.3),
    # Nearly all losses at log(1 - rate), much closer to 0 than the grid.
    "hardly ever sampled": lambda: (
        sampled(0.3329, 9.583e-9) * 134467 + acc.from_approximate(epsilon=0.004078519210641529, delta=1e-9) * 14,
        0.02,
    ),
    "hardly ever added": lambda: (
        sampled(0.1232, 3.078e-10, "add") * 253596
        + sampled(0.4401, 0.001136)
        + acc.from_randomized_response(epsilon=0.06751849224988894) * 3,
        1.2544041825315855e-6,
    ),
    # A list on a coarser grid than the last one, that is put on it with gaps.
    "one rare output beside others": lambda: (
        sampled(3.668, 3.646e-5)
        + sampled(0.5925, 2.991e-5)
        + pair([0.0028, -0.0042, 0.001, -0.0022, 0.0016], [0.2, 0.3, 0.1, 0.2, 0.2]) * 84,
        0.3,
    ),
    # By the number of large removals; additions have one hump.
    "valley beside additions": lambda: (
        sampled(4.041, 0.008627, "add") * 31
        + sampled(3.149, 0.007649) * 4
        + acc.from_pure(epsilon=0.4381797125443928),
        2.0,
    ),
    # Only the infinite mass is left.
    "infinite": lambda: (
        acc.from_approximate(epsilon=0.0012, delta=1e-12) * 1613 + acc.from_gaussian(sigma=61.0) * 11,
        21.0,
    ),
    "one coarse discrete Gaussian": lambda: (acc.from_discrete_gaussian(sigma=2.96, sensitivity=2), 4.5),
}


# More than two seconds of processor time.
SLOW = {"hardly ever added", "hardly ever sampled", "different Laplace and Gaussian"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in CASES]
)
def test_default_grid_meets_the_contours(name: str) -> None:
    loss, epsilon = CASES[name]()
    exact, found = loss.log_delta(epsilon), loss.log_delta(epsilon, engine="buckets")
    assert found.lower <= exact.upper
    assert exact.lower <= found.upper
    assert math.expm1(found.upper - found.lower) <= WIDTH
    assert loss.log_delta(epsilon, engine="buckets") == found


def three_outcomes(p: np.ndarray, q: np.ndarray, copies: int, epsilon: float) -> mp.mpf:
    """delta by every multiplicity, in the direction where it is larger."""
    ps, qs = ([mp.mpf(float(x)) for x in law] for law in (p, q))
    ways = [mp.mpf(0), mp.mpf(0)]
    for i, j in itertools.product(range(copies + 1), repeat=2):
        k = copies - i - j
        if k < 0:
            continue
        number = mp.factorial(copies) / (mp.factorial(i) * mp.factorial(j) * mp.factorial(k))
        under = [number * x[0] ** i * x[1] ** j * x[2] ** k for x in (ps, qs)]
        ways[0] += max(0, under[0] - mp.exp(epsilon) * under[1])
        ways[1] += max(0, under[1] - mp.exp(epsilon) * under[0])
    return max(ways)


@pytest.mark.parametrize("copies", [2, 9, 60])
def test_pairs_against_every_multiplicity(copies: int) -> None:
    p, q = np.array([0.2, 0.5, 0.3]), np.array([0.25, 0.45, 0.3])
    loss = acc.from_pmf(p, q) * copies
    with mp.workdps(40):
        for epsilon in (0.01, 0.3, 1.1):
            delta = three_outcomes(p, q, copies, epsilon)
            found = loss.delta(epsilon, engine="buckets")
            assert found.lower <= delta <= found.upper
            assert delta == 0 or found.upper / found.lower - 1 <= WIDTH


@pytest.mark.parametrize(
    ("p", "q", "copies", "epsilon"),
    [
        ([0.5138459684934061, 1e-20], [0.18259176750506115, 1e-10], 15, 9.0),
        ([0.5410216532479487, 4.519351290799729e-12], [0.7378479998735172, 0.0021747147945325013], 31, 2.091),
        ([0.3, 1e-40], [0.4, 1e-10], 7, 0.5),
        ([0.3, 1e-10], [0.4, 1e-40], 7, 0.5),
        ([0.25, 1e-14], [0.2, 0.1], 50, 3.0),
    ],
)
def test_pairs_with_rare_outcomes(p: list[float], q: list[float], copies: int, epsilon: float) -> None:
    """Sums of losses so far apart that under the other tilts the weights of all but the farthest underflow: they
    were cut off as if they were nothing."""
    ps, qs = (np.array([*law, 1.0 - sum(law)]) for law in (p, q))
    loss = acc.from_pmf(ps, qs) * copies
    with mp.workdps(60):
        for at in (0.5 * epsilon, epsilon, 1.3 * epsilon):
            delta = three_outcomes(ps, qs, copies, at)
            for engine in ("auto", "buckets"):
                found = loss.delta(at, engine=engine)
                assert found.lower <= delta <= found.upper, (at, engine)


def test_composing_too_many_is_refused_before_the_first_product() -> None:
    buckets = acc.from_laplace(epsilon=1.0).buckets(step=0.01)
    with pytest.raises(ValueError, match="bucket engine would need"):
        buckets.self_compose(10**6)


def test_losses_next_to_nothing_have_bounds() -> None:
    found = (acc.from_laplace(epsilon=1e-300) * 2).delta(0.0, engine="buckets")
    assert 0.0 <= found.lower <= 1e-300 <= found.upper <= 1e-299


def test_a_step_of_ones_own_is_one_grid() -> None:
    loss = acc.from_laplace(epsilon=0.01) * 4000
    exact = loss.delta(2.0)
    coarse, fine = (loss.delta(2.0, engine="buckets", step=0.02 / n) for n in (4, 16))
    for found in (coarse, fine):
        assert found.lower <= exact.upper
        assert exact.lower <= found.upper
    assert fine.upper - fine.lower < 0.2 * (coarse.upper - coarse.lower)


@pytest.mark.parametrize(
    ("loss", "epsilon", "step"),
    [
        # The lower list is one point, outside of the window: its moments, not the upper list's, say how far.
        (acc.from_gaussian(sigma=27.12179776898548) * 31169028, 21348.99916986752, 690.7127324149137),
        # Half a cell of 26 units: 1 - e^-above is 1 in double all over its upper part.
        (acc.from_laplace(epsilon=8.820930038815025), 7.398903374499855, 52.44298698678436),
        # The weights at the few points there are underflow: not a delta of 0.
        (
            acc.from_randomized_response(epsilon=0.0011417552105662877) * 192111,
            1.981527914691239,
            400.39529706163245,
        ),
        (
            acc.from_discrete_laplace(scale=29.67870051608402, sensitivity=3) * 7
            + acc.from_pure(epsilon=0.0005778296324182257) * 5794,
            1.6722128089991024,
            224.834076800908,
        ),
    ],
)
def test_steps_far_too_wide_are_no_less_certain(loss: acc.PrivacyLoss, epsilon: float, step: float) -> None:
    exact, found = loss.delta(epsilon), loss.delta(epsilon, engine="buckets", step=step)
    assert found.lower <= exact.upper
    assert exact.lower <= found.upper


def test_what_no_grid_changes_does_not_end_the_search_for_a_finer_one() -> None:
    loss = sampled(1.302648653087435, 0.00021246460188817024) * 8
    exact, found = loss.log_delta(0.00483494594529946), loss.log_delta(0.00483494594529946, engine="buckets")
    assert found.lower <= exact.upper
    assert exact.lower <= found.upper
    assert math.expm1(found.upper - found.lower) < 2e-3  # of 1.8e-4 for which the grid is not to blame


def one_addition(sigma: float, rate: float, epsilon: float) -> mp.mpf:
    """delta of one step, a record added, from normal tails."""
    s, q, e = mp.mpf(sigma), mp.mpf(rate), mp.mpf(epsilon)
    rise = (mp.exp(-e) - (1 - q)) / q
    if rise <= 0:
        return mp.mpf(0)
    x = mp.mpf(1) / 2 + s**2 * mp.log(rise)
    plain = mp.ncdf(x / s)
    return plain - mp.exp(e) * ((1 - q) * plain + q * mp.ncdf((x - 1) / s))


def two_steps(sigma: float, rate: float, removal: bool, epsilon: float) -> mp.mpf:
    """delta of two steps: one integral of the closed form of the other."""
    s, q, e = mp.mpf(sigma), mp.mpf(rate), mp.mpf(epsilon)

    def ratio(x: mp.mpf) -> mp.mpf:
        return 1 - q + q * mp.exp((2 * x - 1) / (2 * s**2))

    def one(level: mp.mpf) -> mp.mpf:  # sup of P(S) - level Q(S)
        rise = ((level if removal else 1 / level) - (1 - q)) / q
        x = mp.mpf(1) / 2 + s**2 * mp.log(rise) if rise > 0 else -mp.inf
        plain = mp.ncdf(-x / s) if removal else mp.ncdf(x / s)
        other = mp.ncdf(-(x - 1) / s) if removal else mp.ncdf((x - 1) / s)
        mixed = (1 - q) * plain + q * other
        return mixed - level * plain if removal else plain - level * mixed

    def term(x: mp.mpf) -> mp.mpf:
        r = ratio(x)
        return mp.npdf(x, 0, s) * (r * one(mp.exp(e) / r) if removal else one(mp.exp(e) * r))

    # Where the loss of one step alone is epsilon, and where additions pay nothing.
    cut = mp.mpf(1) / 2 + s**2 * mp.log((mp.exp(e) - (1 - q)) / q) if removal else None
    if removal:
        return mp.quad(term, [-12 * s, 0, 1, cut / 2, *(cut + s * k / 2 for k in range(-8, 9)), cut + 14 * s])
    top = mp.mpf(1) / 2 + s**2 * mp.log((mp.exp(-e) / (1 - q) - (1 - q)) / q)
    return mp.quad(term, [top - s * mp.mpf(k) / 4 for k in range(60, -1, -1)])


@pytest.mark.parametrize(
    ("sigma", "rate", "removal", "epsilon"),
    [
        (0.8, 0.001, True, 3.0),
        (1.7, 0.0005, True, 0.02),
        (0.9, 0.002, True, 0.001),
        (1.2, 0.003, False, 0.0057),
        (0.5, 0.002, False, 0.00400399),
    ],
)
def test_two_sampled_steps_against_an_integral(sigma: float, rate: float, removal: bool, epsilon: float) -> None:
    loss = sampled(sigma, rate, "remove" if removal else "add") * 2
    with mp.workdps(50):
        truth = mp.log(two_steps(sigma, rate, removal, epsilon))
        found = loss.log_delta(epsilon, engine="buckets")
        assert found.lower <= truth <= found.upper
        assert math.expm1(found.upper - found.lower) <= WIDTH
        exact = loss.log_delta(epsilon)
        assert exact.lower <= truth <= exact.upper  # the integral itself is good to 1e-9


@pytest.mark.parametrize(
    ("sigma", "rate", "loss", "epsilon"),
    [
        (0.2, 1e-9, 0.05, 0.03),
        (0.2, 1e-9, 0.05, 0.07),
        (0.15, 0.3, 0.4, 0.1),
        (1.0, 1e-3, 0.5, 0.0),
        (1.0, 1e-3, 0.5, 3.0),
        (6.351, 0.004839, 0.2485, 0.1),
        (2.222, 4.45e-5, 0.07, 0.03),
        (0.8, 1e-5, 1.2, 1.25),
        (4.0, 0.05, 2.0, 1e-3),
    ],
)
def test_one_removal_beside_a_response(sigma: float, rate: float, loss: float, epsilon: float) -> None:
    """Exactly: the response's two losses are two epsilons for the removal."""
    found = (sampled(sigma, rate) + acc.from_randomized_response(epsilon=loss)).log_delta(
        epsilon, engine="buckets"
    )
    with mp.workdps(300):
        s, q = mp.mpf(sigma), mp.mpf(rate)

        def removal(at: mp.mpf) -> mp.mpf:
            rise = (mp.exp(at) - (1 - q)) / q
            if rise <= 0:
                return 1 - mp.exp(at)
            x = mp.mpf(1) / 2 + s**2 * mp.log(rise)
            plain = mp.ncdf(-x / s)
            return (1 - q) * plain + q * mp.ncdf((1 - x) / s) - mp.exp(at) * plain

        e, l = mp.mpf(epsilon), mp.mpf(loss)
        truth = mp.log((mp.exp(l) * removal(e - l) + removal(e + l)) / (1 + mp.exp(l)))
        assert found.lower <= truth <= found.upper
    assert math.expm1(found.upper - found.lower) <= WIDTH


@pytest.mark.parametrize(
    ("sigma", "rate", "below"),
    [
        (0.3, 0.99999, 1e-5),
        (0.3, 0.999999999, 1e-5),
        (0.13586814443492065, 0.9999999999850715, 1e-10),
        (1.0, 1 - 1e-14, 9e-3),
        (0.0658, 3.33e-11, 5e-12),
        (1.5, 0.99, 1e-4),
        (0.5, 0.01, 1e-9),
    ],
)
def test_one_addition_next_to_its_largest_loss(sigma: float, rate: float, below: float) -> None:
    """Losses there are differences of nearly equal numbers at rates next to 1, and may be one number with all that
    is above: a cell that begins at the largest loss but for rounding was left out."""
    loss = acc.from_subsampled_gaussian(sigma=sigma, rate=rate, neighbours="add")
    epsilon = -math.log1p(-rate) - below
    with mp.workdps(400):
        truth = one_addition(sigma, rate, epsilon)
        steps = [None, *(below * 10.0 ** (-k / 7) for k in range(-7, 14))]
        steps += [1.4457531511493971e-12 * (1 + k * 1e-5) for k in range(-4, 5)] if below == 1e-10 else []
        for step in steps:
            with contextlib.suppress(ValueError):  # more buckets than there may be
                found = loss.delta(epsilon, engine="buckets", **({} if step is None else {"step": step}))
                assert found.lower <= truth <= found.upper, step
        found = loss.delta(epsilon)
        assert found.lower <= truth <= found.upper
    assert loss.delta(math.nextafter(loss.max_loss, 0.0), engine="buckets").lower == 0.0


@pytest.mark.parametrize("copies", [1, 3])
def test_one_finite_loss(copies: int) -> None:
    """No step is right for a grid of a law without any spread: infinitely many buckets were asked for."""
    truth = 1 - 0.5**copies  # at 0 in both directions; beyond, the infinite mass of the other one
    for p, q in (([1.0, 0.0], [0.5, 0.5]), ([0.5, 0.5], [1.0, 0.0])):
        for eps in (0.0, 0.3):
            grid = (acc.from_pmf(p, q) * copies).delta(eps, engine="buckets")
            assert grid.lower <= truth <= grid.upper <= truth * (1 + 1e-12)
