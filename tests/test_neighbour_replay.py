"""What claims a sensitivity or a guarantee is replayed on generated neighbours.

Queries are evaluated on both neighbours in exact rationals; mechanisms are checked at the exact laws of the two
outputs, not by drawing; the partial-knowledge count against the definition, with any product of probabilities.
"""

import csv
import functools
import json
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore import accounting, cli, gaussian, mechanisms, partial_knowledge, risk, sensitivity

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False)
replayed = 0


def replay(*strategies, examples=60):
    """`given`, with the examples counted."""

    def decorate(test):
        @functools.wraps(test)
        def counted(*arguments, **named):
            global replayed
            replayed += 1
            return test(*arguments, **named)

        return settings(max_examples=examples, deadline=None)(given(*strategies)(counted))

    return decorate


@pytest.fixture(scope="module", autouse=True)
def count_examples(tally):
    yield
    tally("neighbouring inputs replayed", replayed)


@st.composite
def neighbours(draw, least=1):
    """(lower, upper, data, neighbour, relation): one record removed, or replaced."""
    low, high = sorted(draw(st.lists(NUMBERS, min_size=2, max_size=2, unique=True)))
    inside = st.floats(low, high)
    data = draw(st.lists(inside, min_size=least + 1, max_size=8))
    at = draw(st.integers(0, len(data) - 1))
    relation = draw(st.sampled_from(["add_remove", "replace"]))
    extreme = draw(st.booleans())  # all records at one end but the one that changes: what a claim must just cover
    if extreme:
        ends = draw(st.permutations([low, high]))
        data = [ends[1] if i == at else ends[0] for i in range(len(data))]
    other = data[:at] + data[at + 1 :]
    if relation == "replace":
        other.insert(at, ends[0] if extreme else draw(inside))
    return low, high, data, other, relation


@replay(neighbours(), NUMBERS)
def test_count(case, threshold):
    _, _, data, other, relation = case
    change = abs(sum(x > threshold for x in data) - sum(x > threshold for x in other))
    assert change <= mechanisms.count_sensitivity(neighbours=relation)


@replay(neighbours())
def test_sum(case):
    low, high, data, other, relation = case
    change = abs(sum(map(Fraction, data)) - sum(map(Fraction, other)))
    assert change <= Fraction(mechanisms.sum_sensitivity(lower=low, upper=high, neighbours=relation))


@replay(neighbours())
def test_mean(case):
    low, high, data, other, relation = case
    change = abs(sum(map(Fraction, data)) / len(data) - sum(map(Fraction, other)) / len(other))
    # For add_remove `records` is a bound from below on the size of both.
    claimed = mechanisms.mean_sensitivity(
        lower=low, upper=high, records=min(len(data), len(other)), neighbours=relation
    )
    assert change <= Fraction(claimed)


@replay(neighbours(), st.sampled_from(["l1", "l2", "linf"]))
def test_histogram(case, norm):
    low, high, data, other, relation = case
    edges = np.linspace(low, high + 1, 4)
    difference = np.histogram(data, edges)[0] - np.histogram(other, edges)[0]
    size = {
        "l1": np.abs(difference).sum(),
        "l2": math.sqrt((difference**2).sum()),
        "linf": np.abs(difference).max(),
    }
    assert size[norm] <= mechanisms.histogram_sensitivity(norm=norm, neighbours=relation)


def test_sensitivities_are_rounded_up():
    # To the nearest double, each of these would be below what two neighbours can do.
    low, high = -1.0, 2.0**-54
    spread = Fraction(high) - Fraction(low)
    assert Fraction(mechanisms.sum_sensitivity(lower=low, upper=high, neighbours="replace")) >= spread
    for relation, records in (("replace", 5), ("add_remove", 4)):
        claimed = mechanisms.mean_sensitivity(lower=low, upper=high, records=records, neighbours=relation)
        assert Fraction(claimed) >= spread / 5
    assert Fraction(mechanisms.histogram_sensitivity(norm="l2", neighbours="replace")) ** 2 >= 2


# ---- mechanisms -------------------------------------------------------------------------------------------------

EPSILONS = st.floats(1e-3, 20.0)


def on_grid(value: float, grid: float) -> int:
    """The grid cell of a value, ties either way: the farthest that rounding may put it."""
    return round(Fraction(value) / Fraction(grid))


@replay(EPSILONS, st.floats(1e-3, 1e3), st.floats(-1e3, 1e3), st.floats(0, 1))
def test_laplace(epsilon, distance, value, share):
    mechanism = mechanisms.Laplace(epsilon=epsilon, sensitivity=distance)
    other = value + share * distance
    if abs(Fraction(value) - Fraction(other)) > Fraction(distance):
        return
    cells = abs(on_grid(value, mechanism.grid) - on_grid(other, mechanism.grid))
    # The density ratio of Laplace noise at a shift d is at most exp(d/scale).
    assert cells * Fraction(mechanism.grid) / Fraction(mechanism.scale) <= Fraction(epsilon)


@replay(EPSILONS, st.integers(1, 1000))
def test_discrete_laplace(epsilon, distance):
    mechanism = mechanisms.DiscreteLaplace(epsilon=epsilon, sensitivity=distance)
    assert Fraction(distance) / Fraction(mechanism.scale) <= Fraction(epsilon)


@replay(st.floats(1e-2, 5.0), st.floats(1e-12, 0.1), st.floats(1e-3, 1e3), st.floats(-1e3, 1e3), st.floats(0, 1))
def test_gaussian(epsilon, delta, distance, value, share):
    mechanism = mechanisms.Gaussian(epsilon=epsilon, delta=delta, sensitivity=distance)
    other = value + share * distance
    if abs(Fraction(value) - Fraction(other)) > Fraction(distance):
        return
    cells = abs(on_grid(value, mechanism.grid) - on_grid(other, mechanism.grid))
    if cells:
        shift = float(cells) * mechanism.grid
        # delta() is good to 1e-13 relative; the definition, at 40 digits, decides.
        with mpmath.workdps(40):
            s, e = mpmath.mpf(mechanism.scale) / mpmath.mpf(shift), mpmath.mpf(epsilon)
            exact = mpmath.ncdf(1 / (2 * s) - e * s) - mpmath.exp(e) * mpmath.ncdf(-1 / (2 * s) - e * s)
        assert exact <= delta
        assert gaussian.delta(epsilon=epsilon, sigma=mechanism.scale, sensitivity=shift) <= delta * (1 + 1e-12)


NORMS = st.sampled_from(["l1", "l2", "linf"])


@st.composite
def vectors(draw):
    """(norm, distance, vector, neighbour): in exact rationals, the neighbour is no farther than the distance."""
    norm, distance = draw(NORMS), draw(st.floats(1e-3, 1e3))
    size = draw(st.integers(2, 5))
    value = draw(st.lists(st.floats(-1e3, 1e3), min_size=size, max_size=size))
    move = [Fraction(x) for x in draw(st.lists(st.floats(-1, 1), min_size=size, max_size=size))]
    length = {"l1": sum(map(abs, move)), "linf": max(map(abs, move))}.get(norm)
    if length is None:  # a rational at least the root
        square = sum(x * x for x in move)
        length = Fraction(math.sqrt(square)) * Fraction(1 + 2**-50) + Fraction(2, 10**160)
    share = Fraction(distance) / length if length > 0 else Fraction(0)
    value = [Fraction(x) for x in value]
    return norm, distance, value, [x + m * share for x, m in zip(value, move, strict=True)]


@replay(EPSILONS, vectors())
def test_laplace_of_vectors(epsilon, case):
    norm, distance, value, other = case
    mechanism = mechanisms.Laplace(epsilon=epsilon, sensitivity=distance, dimension=len(value), norm=norm)
    grid = Fraction(mechanism.grid)
    cells = sum(abs(round(a / grid) - round(b / grid)) for a, b in zip(value, other, strict=True))
    assert cells * grid / Fraction(mechanism.scale) <= Fraction(epsilon)


@replay(st.floats(1e-2, 5.0), st.floats(1e-12, 0.1), vectors())
def test_gaussian_of_vectors(epsilon, delta, case):
    norm, distance, value, other = case
    mechanism = mechanisms.Gaussian(
        epsilon=epsilon, delta=delta, sensitivity=distance, dimension=len(value), norm=norm
    )
    grid = Fraction(mechanism.grid)
    cells = sum((round(a / grid) - round(b / grid)) ** 2 for a, b in zip(value, other, strict=True))
    if cells:
        with mpmath.workdps(40):
            shift = mpmath.sqrt(mpmath.mpf(cells)) * mpmath.mpf(mechanism.grid)
            s, e = mpmath.mpf(mechanism.scale) / shift, mpmath.mpf(epsilon)
            assert mpmath.ncdf(1 / (2 * s) - e * s) - mpmath.exp(e) * mpmath.ncdf(-1 / (2 * s) - e * s) <= delta


@pytest.mark.parametrize("size", [2, 4])
def test_rounding_of_vectors_at_its_worst(size):
    """Every coordinate lies just below the middle of two cells and moves beyond another: a cell more in each."""
    plain = mechanisms.Laplace(epsilon=1.0, sensitivity=1.0, dimension=size, norm="l1")
    grid = Fraction(plain.grid)
    distance = 1 + size * grid / 512
    assert Fraction(float(distance)) == distance
    mechanism = mechanisms.Laplace(epsilon=1.0, sensitivity=float(distance), dimension=size, norm="l1")
    assert Fraction(mechanism.grid) == grid
    start = grid / 2 - grid / 1024
    cells = size * (round((start + distance / size) / grid) - round(start / grid))
    assert cells * grid > distance
    assert cells * grid / Fraction(mechanism.scale) <= 1


def discrete_gaussian(sigma, farthest):
    """Law of a discrete Gaussian on -n..n, with what is beyond left out (below 1e-35)."""
    n = math.ceil(13 * sigma) + farthest
    weights = np.exp(-0.5 * (np.arange(-n, n + 1) / sigma) ** 2)
    return weights / math.fsum(weights)


def hockey_stick(p, q, epsilon):
    return math.fsum(np.maximum(p - math.exp(epsilon) * q, 0.0).ravel())


@replay(st.floats(0.3, 5.0), st.floats(1e-9, 0.1), st.integers(1, 4), examples=25)
def test_discrete_gaussian(epsilon, delta, distance):
    mechanism = mechanisms.DiscreteGaussian(epsilon=epsilon, delta=delta, sensitivity=distance)
    pmf = discrete_gaussian(mechanism.scale, distance)
    found = []
    for shift in range(1, distance + 1):
        p, q = np.append(pmf, np.zeros(shift)), np.append(np.zeros(shift), pmf)
        found.append(max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)))
    assert max(found) <= delta * (1 + 1e-9)
    assert max(found) > 0.99 * delta  # not by far too much noise either
    bounds = accounting.from_discrete_gaussian(sigma=mechanism.scale, sensitivity=distance).delta(epsilon)
    assert bounds.lower * (1 - 1e-9) <= found[-1] <= bounds.upper * (1 + 1e-9)


@replay(st.floats(0.8, 5.0), st.floats(1e-5, 0.1), NORMS, st.integers(-2, 2), st.integers(-2, 2), examples=20)
def test_discrete_gaussian_of_vectors(epsilon, delta, norm, right, up):
    if not (right or up):
        return
    distance = {"l1": abs(right) + abs(up), "l2": math.hypot(right, up), "linf": max(abs(right), abs(up))}[norm]
    # To the next double, where the length is no double: the neighbour is at that distance then, or nearer.
    mechanism = mechanisms.DiscreteGaussian(
        epsilon=epsilon, delta=delta, sensitivity=math.nextafter(distance, 9), dimension=2, norm=norm
    )
    pmf = discrete_gaussian(mechanism.scale, 2)
    pad = np.pad(np.outer(pmf, pmf), 2)
    moved = np.roll(pad, (right, up), axis=(0, 1))
    assert hockey_stick(pad, moved, epsilon) <= delta * (1 + 1e-9)


@replay(st.floats(0.1, 3.0), st.integers(1, 4), st.floats(0.0, 3.0))
def test_loss_of_discrete_laplace(scale, distance, epsilon):
    weights = np.exp(-np.abs(np.arange(-140, 141)) / scale)
    pmf = weights / math.fsum(weights)
    bounds = accounting.from_discrete_laplace(scale=scale, sensitivity=distance).delta(epsilon)
    for shift in range(1, distance + 1):
        exact = hockey_stick(np.append(pmf, np.zeros(shift)), np.append(np.zeros(shift), pmf), epsilon)
        assert exact <= bounds.upper * (1 + 1e-9) + 1e-15
    assert bounds.lower <= exact * (1 + 1e-9) + 1e-15


@replay(EPSILONS, st.integers(2, 50))
def test_randomized_response(epsilon, categories):
    mechanism = mechanisms.RandomizedResponse(epsilon=epsilon, categories=categories)
    keep = mechanism.keep_probability
    other = (1 - keep) / (categories - 1)
    assert other == 0 or math.log(keep / other) <= epsilon * (1 + 1e-9) + 1e-7


def log_choice(factor, scores):
    """Logarithms of the probabilities of the exponential mechanism's choice, to 40 digits."""
    weights = [mpmath.mpf(v.numerator) / v.denominator for v in (Fraction(factor) * Fraction(x) for x in scores)]
    top = max(weights)
    total = top + mpmath.log(mpmath.fsum(mpmath.exp(w - top) for w in weights))
    return [w - total for w in weights]


@replay(
    EPSILONS, st.floats(1e-3, 1e3), st.lists(st.floats(-50, 50), min_size=1, max_size=6), st.booleans(), st.data()
)
def test_exponential(epsilon, distance, scores, monotone, data):
    mechanism = mechanisms.Exponential(epsilon=epsilon, sensitivity=distance, monotone=monotone)
    least = 0.0 if monotone else -1.0
    moves = [data.draw(st.floats(least, 1.0)) for _ in scores]
    other = [Fraction(s) + Fraction(m) * Fraction(distance) for s, m in zip(scores, moves, strict=True)]
    with mpmath.workdps(40):
        pairs = zip(log_choice(mechanism.factor, scores), log_choice(mechanism.factor, other), strict=True)
        for first, second in pairs:
            assert abs(first - second) <= mpmath.mpf(epsilon) * (1 + mpmath.mpf(10) ** -30)


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 7.3])
def test_exponential_at_its_worst(epsilon, monotone):
    """An unlikely candidate gains what it may, all others lose what they may: the loss is epsilon, nearly."""
    mechanism = mechanisms.Exponential(epsilon=epsilon, sensitivity=3.0, monotone=monotone)
    gap = Fraction(60 / mechanism.factor)
    lost = 0 if monotone else 3
    with mpmath.workdps(40):
        before, after = (log_choice(mechanism.factor, s)[0] for s in ([-gap, 0, 0], [3 - gap, -lost, -lost]))
        assert epsilon * (1 - 1e-12) < after - before <= epsilon


@replay(EPSILONS, st.floats(1e-3, 10.0), st.integers(1, 6), st.integers(1, 2))
def test_bernstein(epsilon, distance, lattice, dimension):
    mechanism = mechanisms.Bernstein(epsilon=epsilon, sensitivity=distance, lattice=lattice, dimension=dimension)
    points = mechanism.points().reshape(-1, dimension)
    assert len(points) == (lattice + 1) ** dimension
    # Every value may move by the sensitivity, each rounded to the grid: the L1 distance over scale is epsilon.
    assert len(points) * Fraction(distance) / Fraction(mechanism.scale) <= Fraction(epsilon)


@replay(st.lists(st.integers(0, 50), min_size=1, max_size=6), st.data())
def test_loss_of_a_pmf(weights, data):
    others = [data.draw(st.integers(0, 50)) for _ in weights]
    if not sum(weights) or not sum(others):
        return
    p = [Fraction(w, sum(weights)) for w in weights]
    q = [Fraction(w, sum(others)) for w in others]
    loss = accounting.from_pmf([float(x) for x in p], [float(x) for x in q])
    epsilon = data.draw(st.floats(0, 3))
    scale = Fraction(math.exp(epsilon))
    exact = max(
        sum(max(a - scale * b, Fraction(0)) for a, b in zip(x, y, strict=True)) for x, y in ((p, q), (q, p))
    )
    found = loss.delta(epsilon)
    # The inputs are rounded to doubles, which moves delta by at most 1e-15 for each outcome and e^epsilon.
    slack = 1e-14 * (1 + math.exp(epsilon)) * len(p)
    assert found.lower - slack <= exact <= found.upper + slack


# ---- counts under partial knowledge -----------------------------------------------------------------------------


def law(probabilities):
    """Exact law of a sum of independent Bernoullis."""
    out = [Fraction(1)]
    for p in probabilities:
        out = [(1 - p) * a + p * b for a, b in zip([*out, Fraction(0)], [Fraction(0), *out], strict=True)]
    return out


def divergence(pmf, epsilon, noise):
    """The larger of the two hockey-stick divergences between X + N and X + 1 + N, by the definition."""
    values = np.array([float(x) for x in pmf])
    shifted, plain = np.append(0.0, values), np.append(values, 0.0)
    if noise > 0:  # the two densities on a fine grid; the sum is good to about the square of the step
        at = np.linspace(-9 * noise, len(plain) + 9 * noise, 100_001)
        kernel = np.exp(-0.5 * ((at[:, None] - np.arange(len(plain))) / noise) ** 2)
        kernel *= (at[1] - at[0]) / (noise * math.sqrt(2 * math.pi))
        shifted, plain = kernel @ shifted, kernel @ plain
    scale = math.exp(epsilon)
    return max(np.maximum(x - scale * y, 0.0).sum() for x, y in ((plain, shifted), (shifted, plain)))


@replay(
    st.lists(st.floats(0.05, 0.95), min_size=1, max_size=5),
    st.floats(0.1, 2.0),
    st.sampled_from([0.0, 0.7, 2.0]),
    examples=15,
)
def test_partial_knowledge_count(probabilities, epsilon, noise):
    exact = divergence(law(map(Fraction, probabilities)), epsilon, noise)
    records = len(probabilities) + 1
    common = {"epsilon": epsilon, "records": records, "known": 0, "noise_scale": noise}
    unequal = partial_knowledge.count_delta(bias=partial_knowledge.Unequal(probabilities), **common)
    assert abs(exact - unequal) <= 1e-6 * exact + 1e-9  # the quadrature's error at the kink
    # Equal records, by the function of one number and by that of arrays.
    first = probabilities[0]
    same = divergence(law([Fraction(first)] * len(probabilities)), epsilon, noise)
    one = partial_knowledge.count_delta(bias=first, **common)
    (many,) = partial_knowledge.count_delta(bias=np.array([first]), **common)
    for found in (one, many):
        assert abs(same - found) <= 1e-6 * same + 1e-9
    # The same records in strata of one.
    strata = partial_knowledge.count_delta(
        bias=partial_knowledge.Strata([(1, p) for p in probabilities]), **common
    )
    assert abs(exact - strata) <= 1e-6 * exact + 1e-9
    # The worst case over the range covers every product of probabilities in it.
    ranged = partial_knowledge.count_delta(bias=(min(probabilities), max(probabilities)), **common)
    assert exact <= ranged * (1 + 1e-6) + 1e-9


@replay(st.floats(0.1, 0.9), st.integers(2, 8), st.floats(0.2, 2.0), st.floats(1e-6, 0.2), examples=10)
def test_calibrated_count(bias, records, epsilon, delta):
    found = partial_knowledge.calibrate(epsilon=epsilon, delta=delta, records=records, known=0, bias=bias)
    exact = divergence(law([Fraction(bias)] * (records - 1)), epsilon, found.noise_scale)
    assert exact <= delta * (1 + 1e-6) + 1e-9


@replay(
    st.floats(0.05, 0.95),
    st.floats(0.05, 0.95),
    st.integers(1, 7),
    st.integers(2, 6),
    st.floats(0.1, 2.0),
    st.sampled_from([0.0, 0.7, 2.0]),
    examples=15,
)
def test_mixture_of_biases(first, second, eighths, records, epsilon, noise):
    """A bias that is itself random: what is claimed covers the law of the sum over both."""
    share = Fraction(eighths, 8)
    laws = [law([Fraction(p)] * (records - 1)) for p in (first, second)]
    exact = divergence([share * a + (1 - share) * b for a, b in zip(*laws, strict=True)], epsilon, noise)
    bias = partial_knowledge.Mixture([(float(share), first), (float(1 - share), second)])
    found = partial_knowledge.count_delta(epsilon=epsilon, records=records, known=0, bias=bias, noise_scale=noise)
    assert exact <= found * (1 + 1e-6) + 1e-9


@replay(
    st.floats(0.6, 3.0),
    st.floats(0.05, 0.9),
    st.floats(0.0, 2.0),
    st.sampled_from(["add", "remove"]),
    st.floats(0, 1),
    examples=30,
)
def test_subsampled_gaussian(sigma, rate, epsilon, direction, share):
    """One record more or less, at any distance up to the sensitivity, on a grid of outputs."""
    at = np.linspace(-9 * sigma, 1 + 9 * sigma, 200_001)
    density = [np.exp(-0.5 * ((at - x) / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi)) for x in (0.0, share)]
    without, with_record = density[0], (1 - rate) * density[0] + rate * density[1]
    pair = (with_record, without) if direction == "remove" else (without, with_record)
    exact = float(np.maximum(pair[0] - math.exp(epsilon) * pair[1], 0.0).sum() * (at[1] - at[0]))
    claimed = accounting.from_subsampled_gaussian(sigma=sigma, rate=rate, neighbours=direction).delta(epsilon)
    assert exact <= claimed.upper * (1 + 1e-6) + 1e-9


@replay(st.floats(0.1, 3.0), st.floats(0.02, 0.98), st.floats(0, 1))
def test_confidence_of_laplace(epsilon0, level, share):
    """The loss of neighbours at any distance: within epsilon at least as often as is claimed."""
    epsilon = level * epsilon0
    # The loss at x is epsilon0 (|x - share| - |x|), x in units of the sensitivity, noise of scale 1/epsilon0.
    reach = epsilon / epsilon0
    if share <= reach:
        exact = 1.0
    else:  # between the two answers it is share - 2 x: within `reach` of 0 on an interval of length `reach`
        low, high = (share - reach) / 2, (share + reach) / 2
        exact = 0.5 * (math.exp(-epsilon0 * low) - math.exp(-epsilon0 * high))
    claimed = risk.laplace_confidence(epsilon=epsilon, epsilon0=epsilon0)
    assert claimed <= exact * (1 + 1e-12)


@replay(
    st.floats(0.1, 0.9),
    st.integers(2, 5),
    st.floats(0.1, 1.5),
    st.floats(0.7, 2.0),
    st.floats(1.0, 4.0),
    examples=10,
)
def test_joint_release(bias, records, epsilon, noise, scale):
    """A count with Laplace noise and the same count with Gaussian noise: both densities on a grid of pairs."""
    pmf = [float(x) for x in law([Fraction(bias)] * (records - 1))]
    counts = np.arange(records + 1)
    plain, shifted = np.append(pmf, 0.0), np.append(0.0, pmf)
    # Laplace densities have kinks at the counts, which are on the grid; tails of exp(-25) are left out.
    y = np.arange(-25 * scale // 1, records + 25 * scale, 1 / 16)
    z = np.arange(-7 * noise, records + 7 * noise, noise / 64)
    first = np.exp(-np.abs(y[:, None] - counts) / scale) / (2 * scale * 16)
    second = np.exp(-0.5 * ((z[:, None] - counts) / noise) ** 2) / (64 * math.sqrt(2 * math.pi))
    a, b = (first @ (pair[:, None] * second.T) for pair in (plain, shifted))
    exact = max(hockey_stick(a, b, epsilon), hockey_stick(b, a, epsilon))
    known = {"epsilon": epsilon, "records": records, "known": 0, "bias": bias}
    bounds = partial_knowledge.joint_delta_bounds(noise_scale=noise, estimate_scale=scale, **known)
    assert bounds.lower * (1 - 2e-3) - 1e-5 <= exact <= bounds.upper * (1 + 2e-3) + 1e-5


# ---- targets of the sensitivity sampler -------------------------------------------------------------------------


@replay(st.integers(1, 20), st.integers(0, 2**32))
def test_sampled_sensitivity_is_never_above_the_true_one(records, seed):
    def uniform(count, rng):
        return rng.random(count)

    for target, norm, true in (
        (sensitivity.Mean(), "l1", 1 / records),
        (sensitivity.Sum(), "l1", 1.0),
        (sensitivity.Histogram((0.0, 0.5, 1.0)), "l1", 2.0),
        (sensitivity.Quantile(0.5), "l1", 1.0),
    ):
        sampler = sensitivity.SensitivitySampler(target, uniform, records=records, norm=norm)
        found = sampler.estimate(gamma=0.2, seed=seed)
        assert found.sensitivity <= true * (1 + 1e-12)


@replay(st.integers(0, 2**32), st.integers(2, 12))
def test_pairs_are_neighbours(seed, records):
    """What a native target says of a pair is what it says of the two databases, evaluated one by one."""
    blocks = np.random.default_rng(seed).random((3, records + 1))
    for target in (
        sensitivity.Mean(),
        sensitivity.Sum(),
        sensitivity.Quantile(0.3),
        sensitivity.Histogram((0, 0.5, 1)),
    ):
        first, second = target._neighbour_values(blocks)
        for block, a, b in zip(blocks, first, second, strict=True):
            singles = [np.asarray(target(np.delete(block, i))) for i in range(records + 1)]
            for value in (a, b):
                assert any(np.allclose(value, single, rtol=1e-14, atol=1e-300) for single in singles)


# ---- the release command ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "question",
    [
        ["--where", "smoker == 1", "--delta", "1e-6"],
        ["--where=smoker==1", "--delta=1e-6", "--known=3", "--bias=0.2:0.4", "--worst-case-epsilon=2"],
        ["--proportion", "--where", "age > 40"],
        ["--mean", "age", "--lower", "0", "--upper", "100"],
    ],
)  # fmt: skip
def test_release_differs_in_the_value_alone(tmp_path, capsys, question):
    """Two files that differ in one record give the same output but for the value and its interval."""
    rows = [[40 + i, i % 2] for i in range(20)]
    shown = []
    path = tmp_path / "people.csv"
    for last in ([90, 1], [1, 0], ["", "x"]):
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([["age", "smoker"], *rows, last])
        assert cli.main(["release", str(path), *question, "--epsilon", "0.5", "--no-ledger", "--json"]) == 0
        shown.append(json.loads(capsys.readouterr().out))
    private = {"value", "interval", "low", "high", "statement", "file", "lower", "upper"}
    public = [{key: fact for key, fact in facts.items() if key not in private} for facts in shown]
    assert public[0] == public[1] == public[2]
    assert len(public[0]) >= 3
