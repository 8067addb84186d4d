"""Counts under partial knowledge: delta, ranges, calibration."""

import itertools
import json
import math
import pathlib
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore import _core, gaussian
from dpcore import partial_knowledge as pk
from dpcore.partial_knowledge._bias import parse
from dpcore.partial_knowledge._calibrate import remaining_noise
from dpcore.partial_knowledge._laws import law_of

DATA = pathlib.Path(__file__).parent / "data"
ROWS = json.loads((DATA / "count_delta.json").read_text())["rows"]


def row_id(row):
    return f"eps{row['epsilon']}-m{row['m']}-p{row['p']}-beta{row['beta']}"


@pytest.mark.parametrize("row", ROWS, ids=row_id)
@pytest.mark.parametrize("direction", ["add", "remove"])
def test_reference_table(row, direction):
    with mp.workdps(40):
        _check_row(row, direction)


def _check_row(row, direction):
    want = mp.mpf(row[f"log_delta_{direction}"])
    known = 10
    arguments = dict(
        epsilon=row["epsilon"], records=row["m"] + known + 1, known=known, bias=row["p"], noise_scale=row["beta"]
    )
    got = pk.log_count_delta(**arguments, direction=direction)
    code = {"add": 0, "remove": 1}[direction]
    bounded, error = _core.count_delta_bounded(row["epsilon"], row["m"], row["p"], row["beta"], code)
    assert got == bounded
    off = abs(mp.mpf(got) - want)
    assert off <= error  # the bound that calibration relies on
    if want > math.log(1e-300):
        assert off < 1e-11
        delta = pk.count_delta(**arguments, direction=direction)
        assert abs(mp.mpf(delta) / mp.exp(want) - 1) < 1e-11
    else:
        assert off < 1e-13 * abs(want)


def brute_force(epsilon, m, p, beta, direction, digits=30):
    """Integral of the positive part of the difference of the densities, by mpmath, from the definition."""
    with mp.workdps(digits):
        p, beta = mp.mpf(p), mp.mpf(beta)
        b = [mp.binomial(m, k) * p**k * (1 - p) ** (m - k) for k in range(m + 1)]
        factor = mp.exp(mp.mpf(epsilon))

        def density(x):
            return mp.fsum(bk * mp.npdf(x, k, beta) for k, bk in enumerate(b))

        def gap(x):
            up, down = density(x - 1), density(x)
            return up - factor * down if direction == "add" else down - factor * up

        reach = 30 * beta + 3 * epsilon * beta**2
        grid = mp.linspace(-reach, m + 1 + reach, 600)
        signs = [gap(x) > 0 for x in grid]
        edges = [grid[0]]
        for x, y, sx, sy in zip(grid[:-1], grid[1:], signs[:-1], signs[1:], strict=True):
            if sx != sy:
                edges.append(mp.findroot(gap, (x, y), solver="anderson", tol=1e-40))
        edges.append(grid[-1])
        total = mp.mpf(0)
        for left, right in itertools.pairwise(edges):
            if gap((left + right) / 2) > 0:
                cuts = mp.linspace(left, right, 2 + int((right - left) / (4 * beta)))
                total += mp.quad(gap, cuts)
        return total


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "m", "p", "beta"),
    # The first two are cases in which a search for the threshold inside the support gives a negative delta.
    [(1.0, 1, 0.5, 4.0), (0.1, 5, 0.5, 30.0), (0.5, 12, 0.3, 0.4), (2.0, 3, 0.4, 0.3), (0.05, 8, 0.9, 6.0)],
)
def test_brute_force_integration(epsilon, m, p, beta):
    for direction in ("add", "remove"):
        want = brute_force(epsilon, m, p, beta, direction)
        got = pk.count_delta(
            epsilon=epsilon, records=m + 1, known=0, bias=p, noise_scale=beta, direction=direction
        )
        assert want > 0
        assert abs(mp.mpf(got) / want - 1) < 1e-11


def test_threshold_may_lie_far_outside_the_support():
    # With noise 300 over 1000 records the optimal threshold is 900 above the mean, 400 above the largest count.
    # A search inside the support ends at its edge, and the sum there is negative: no divergence can be.
    got = pk.count_delta(epsilon=0.01, records=1001, known=0, bias=0.5, noise_scale=300.0)
    plain = gaussian.delta(epsilon=0.01, sigma=300.0)
    more = gaussian.delta(epsilon=0.01, sigma=math.hypot(300.0, math.sqrt(250.0)))
    assert 0.99 * more < got < plain
    assert got == pytest.approx(1.25978181e-06, rel=1e-8)


def test_no_unknown_record_is_plain_differential_privacy():
    for epsilon, sigma in ((0.1, 20.0), (1.0, 2.0), (3.0, 0.1)):
        want = gaussian.delta(epsilon=epsilon, sigma=sigma)
        for known, bias in ((99, 0.3), (0, 0.0), (50, 1.0)):
            got = pk.count_delta(epsilon=epsilon, records=100, known=known, bias=bias, noise_scale=sigma)
            assert got == pytest.approx(want, rel=1e-12)
    assert pk.count_delta(epsilon=5.0, records=7, known=6, bias=0.5, noise_scale=0.0) == 1.0
    assert pk.count_delta(epsilon=5.0, records=7, known=0, bias=0.0, noise_scale=0.0) == 1.0


def test_directions_are_mirror_images():
    for bias in (0.25, 0.375, 0.9375):  # 1 - bias is exact
        one = dict(epsilon=0.2, records=400, known=17, noise_scale=3.0)
        add = pk.count_delta(**one, bias=bias, direction="add")
        assert add == pytest.approx(pk.count_delta(**one, bias=1 - bias, direction="remove"), rel=1e-13)
        remove = pk.count_delta(**one, bias=bias, direction="remove")
        assert pk.count_delta(**one, bias=bias) == max(add, remove)


def test_repeated_releases_combine_exactly():
    one = dict(epsilon=0.3, records=500, known=99, bias=0.4)
    four = pk.count_delta(**one, noise_scale=[6.0, 6.0, 6.0, 6.0])
    assert four == pytest.approx(pk.count_delta(**one, noise_scale=3.0), rel=1e-12)
    uneven = pk.count_delta(**one, noise_scale=[5.0, 12.0])
    assert uneven == pytest.approx(pk.count_delta(**one, noise_scale=60 / 13), rel=1e-12)
    assert pk.count_delta(**one, noise_scale=[5.0, 0.0]) == pk.count_delta(**one, noise_scale=0.0)
    # Adding epsilons would claim far less: the natural noise is spent once.
    halved = 2 * pk.count_delta(**one | {"epsilon": 0.15}, noise_scale=6.0)
    assert pk.count_delta(**one, noise_scale=[6.0, 6.0]) < halved


def test_arrays_of_large_epsilons_come_without_a_warning():
    # Warnings are errors here. The core's arithmetic leaves an overflow flag, which NumPy took for its own.
    for bias in ((0.2, 0.4), [(50, 0.2), (49, 0.4)]):
        common = {"records": 100, "known": 0, "bias": bias, "noise_scale": 2.0}
        found = pk.count_delta(epsilon=np.array([0.5, 97.0]), **common)
        assert found == pytest.approx([pk.count_delta(epsilon=e, **common) for e in (0.5, 97.0)], rel=1e-13)


def test_arrays_broadcast_and_equal_scalars():
    epsilon = np.array([0.1, 0.5])[:, None]
    bias = np.array([0.2, 0.5, 0.8])
    got = pk.count_delta(epsilon=epsilon, records=1000, known=100, bias=bias, noise_scale=2.0)
    assert got.shape == (2, 3)
    for i in range(2):
        for j in range(3):
            one = pk.count_delta(
                epsilon=float(epsilon[i, 0]), records=1000, known=100, bias=float(bias[j]), noise_scale=2.0
            )
            assert got[i, j] == pytest.approx(one, rel=1e-15)
    scales = np.array([[2.0, 2.0], [3.0, 4.0]])  # the last axis is the releases
    pair = pk.count_delta(epsilon=0.5, records=1000, known=0, bias=0.5, noise_scale=scales)
    assert pair.shape == (2,)
    assert pair[1] == pytest.approx(
        pk.count_delta(epsilon=0.5, records=1000, known=0, bias=0.5, noise_scale=2.4), rel=1e-12
    )


probabilities = st.one_of(
    st.floats(0.001, 0.999), st.sampled_from([0.5, 1e-6, 1 - 1e-6, 1e-12, 1 - 1e-12, 1e-40, 1e-150])
)
noises = st.one_of(st.floats(0.0, 100.0), st.sampled_from([0.0124, 0.0125, 0.0126, 1e4]))
settled = settings(max_examples=60, deadline=None)


@settled
@given(
    epsilon=st.floats(0.001, 4.0),
    unknown=st.integers(0, 3000),
    more=st.integers(1, 1000),
    bias=probabilities,
    noise=noises,
    wider=st.floats(1.0, 3.0),
    direction=st.sampled_from(["add", "remove"]),
)
def test_monotone(epsilon, unknown, more, bias, noise, wider, direction):
    """More unknown records, more noise, larger epsilon, fewer releases: never a larger delta."""

    def log_delta(epsilon=epsilon, unknown=unknown, noise=noise):
        return pk.log_count_delta(
            epsilon=epsilon, records=unknown + 1, known=0, bias=bias, noise_scale=noise, direction=direction
        )

    base = log_delta()
    slack = 1e-11 + 1e-12 * abs(base)
    assert log_delta(unknown=unknown + more) <= base + slack
    assert log_delta(noise=noise * wider) <= base + slack
    assert log_delta(epsilon=epsilon * wider) <= base + slack
    assert log_delta(noise=[noise, max(noise, 1.0) * 5]) >= base - slack
    assert base <= 0.0


@settled
@given(epsilon=st.floats(0.01, 3.0), unknown=st.integers(1, 30), bias=probabilities, noise=st.floats(0.0, 5.0))
def test_against_direct_sums(epsilon, unknown, bias, noise):
    """Double-precision evaluation of the definition on a grid of thresholds can only find less."""
    k = np.arange(unknown + 2)
    with mp.workdps(30):
        b = np.array(
            [
                float(mp.binomial(unknown, i) * mp.mpf(bias) ** i * (1 - mp.mpf(bias)) ** (unknown - i))
                for i in range(unknown + 1)
            ]
        )
    weight = np.append(0.0, b) - math.exp(epsilon) * np.append(b, 0.0)
    got = pk.count_delta(
        epsilon=epsilon, records=unknown + 1, known=0, bias=bias, noise_scale=noise, direction="add"
    )
    if noise < 0.02:
        want = np.maximum(weight, 0).sum()
        assert got <= want + 1e-12
        assert got == pytest.approx(want, rel=1e-9, abs=1e-12) or noise > 0
        return
    t = np.linspace(-5 * noise, unknown + 1 + 5 * noise, 400)
    tails = 0.5 * np.vectorize(math.erfc)((t[:, None] - k) / (noise * math.sqrt(2)))
    assert got >= (tails @ weight).max() - 1e-12


# Ranges


def two_group_pmf(at_low, low, at_high, high):
    def binomial(n, p):
        return np.array([math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)])

    return np.convolve(binomial(at_low, low), binomial(at_high, high))


@pytest.mark.parametrize(
    ("unknown", "low", "high", "epsilon", "noise"),
    [
        (10, 0.3825, 0.4425, 0.5, 0.0),
        (60, 0.1, 0.9, 0.2, 0.0),
        (40, 0.2, 0.6, 0.3, 1.5),
        (25, 0.45, 0.55, 0.1, 3.0),
        (12, 0.01, 0.02, 1.0, 0.4),
    ],
)
def test_range_is_its_worst_vertex(unknown, low, high, epsilon, noise):
    every = [
        _core.count_delta_window(epsilon, two_group_pmf(j, low, unknown - j, high), 1e-14, 0.0, noise, 2)[0]
        for j in range(unknown + 1)
    ]
    value, _, lower, at_low, _, proved = _core.count_delta_range(epsilon, unknown, low, high, noise, 2, 2000)
    assert proved
    assert value == lower == pytest.approx(max(every), abs=1e-11)
    assert every[at_low] == pytest.approx(max(every), abs=1e-11)
    got = pk.count_delta(epsilon=epsilon, records=unknown + 1, known=0, bias=(low, high), noise_scale=noise)
    assert got == pytest.approx(math.exp(max(every)), rel=1e-11)
    # Any probabilities inside, common or not, do no worse.
    for common in np.linspace(low, high, 7):
        inside = pk.count_delta(
            epsilon=epsilon, records=unknown + 1, known=0, bias=float(common), noise_scale=noise
        )
        assert inside <= got * (1 + 1e-12)


def test_range_known_values():
    inner = pk.count_delta(epsilon=0.5, records=11, known=0, bias=(0.3825, 0.4425), noise_scale=0.0)
    assert inner >= 0.1075
    wide = pk.count_delta(epsilon=0.2, records=301, known=0, bias=(0.1, 0.9), noise_scale=0.0)
    assert wide == pytest.approx(1.92399607785180e-2, rel=1e-12)
    assert _core.count_delta_range(0.2, 300, 0.1, 0.9, 0.0, 2, 2000)[3] in (3, 297)


@pytest.mark.parametrize("noise", [0.0, 20.0, 200.0])
def test_two_groups_against_their_convolution(noise):
    first, second = (3000, 0.3), (2000, 0.42)
    from_windows = np.convolve(
        *(np.exp([float(_log_binomial(n, p, k)) for k in range(n + 1)]) for n, p in (first, second))
    )
    for code in (0, 1):
        got, error = _core.count_delta_two_bounded(0.03, *first, *second, noise, code)
        want, _ = _core.count_delta_window(0.03, from_windows, 1e-13, 0.0, noise, code)
        assert got == pytest.approx(want, abs=1e-11)
        assert error < 1e-11


def exact_law(groups):
    law = {0: mp.mpf(1)}
    for size, bias in groups:
        p = mp.mpf(bias)
        part = [mp.binomial(size, k) * p**k * (1 - p) ** (size - k) for k in range(size + 1)]
        both: dict = {}
        for k, v in law.items():
            for j, w in enumerate(part):
                both[k + j] = both.get(k + j, mp.mpf(0)) + v * w
        law = both
    return law


@pytest.mark.parametrize(
    ("epsilon", "groups", "noise"),
    [
        (43.9, [(41, 0.44), (33, 0.27), (17, 0.2), (35, 5.9e-16)], 0.94),
        (1.9, [(34, 1.8e-23), (3, 1 - 4.5e-12), (9, 1 - 4.4e-14), (20, 0.094)], 23.4),
        (20.0, [(30, 0.1), (30, 0.2), (30, 0.9)], 0.0),
        (700.0, [(30, 0.1), (2, 0.2), (30, 0.9)], 0.0),
        (700.0, [(30, 0.1), (2, 0.2), (3, 0.9)], 0.05),
    ],
)
def test_many_strata_below_the_range_of_double(epsilon, groups, noise):
    size = sum(n for n, _ in groups)
    law = law_of(parse(groups, several=False), size)
    with mp.workdps(150):  # 300 gives the same 40 digits
        exact = exact_law(groups)
        for code, direction in enumerate(("add", "remove")):
            got, error = law.log_delta(epsilon, noise, code)
            if noise == 0.0:
                factor = mp.exp(mp.mpf(epsilon))
                up, down = (1, 0) if direction == "add" else (0, 1)
                want = mp.log(
                    mp.fsum(
                        max(mp.mpf(0), exact.get(k - up, mp.mpf(0)) - factor * exact.get(k - down, mp.mpf(0)))
                        for k in range(size + 2)
                    )
                )
            else:
                want = mp.log(half_line_of(exact, epsilon, noise, direction, steps=120))
            assert error < 1e-8
            assert abs(mp.expm1(got - want)) <= error


@pytest.mark.parametrize(
    ("epsilon", "groups", "noise"),
    [
        (12.12774652524004, [(29, 0.006141462172630819), (5, 0.5)], 2.1608475452711),  # 1e-216
        (0.0043, [(10, 5.4e-9), (2, 0.99999997)], 4269.75),  # wide noise over almost nothing
        (0.3, [(12, 0.2), (9, 0.6), (7, 0.4)], 40.0),
    ],
)
def test_strata_against_their_exact_convolution(epsilon, groups, noise):
    """Also where delta is too small, or the noise too wide, for the weights of the half line in double."""
    with mp.workdps(250):
        law = exact_law(groups)
        size = sum(n for n, _ in groups)
        for direction in ("add", "remove"):
            want = mp.log(half_line_of(law, epsilon, noise, direction, steps=70))
            got = pk.log_count_delta(
                epsilon=epsilon, records=size + 1, known=0, bias=groups, noise_scale=noise, direction=direction
            )
            assert abs(got - want) < 1e-11


def test_a_range_is_never_below_any_of_its_vertices_errors_included():
    for epsilon, unknown, low, high, noise in ((0.5, 30, 0.1, 0.3, 0.0), (4.0, 25, 0.01, 0.2, 1.0)):
        value, error, *_ = _core.count_delta_range(epsilon, unknown, low, high, noise, 2, 2000)
        for j in range(unknown + 1):
            vertex, off = _core.count_delta_two_bounded(epsilon, j, low, unknown - j, high, noise, 2)
            assert value + math.log1p(error) >= vertex + math.log1p(off) - 1e-15 * abs(vertex)


def test_least_noise_joins_no_noise():
    """On both sides of the noise below which it is taken for none."""
    for epsilon, unknown, bias in ((3.6e-6, 1, 0.5), (0.5, 40, 0.3), (16.3, 1, 0.9999), (2.0, 5, 1e-40)):
        for direction in (0, 1):
            bounds = [
                _core.count_delta_bounded(epsilon, unknown, bias, noise, direction)
                for noise in (0.0, 0.0124999, 0.0125, 0.0125001, 0.015)
            ]
            for value, error in bounds[1:]:
                assert abs(value - bounds[0][0]) <= error + bounds[0][1]


def _log_binomial(n, p, k):
    return (
        math.lgamma(n + 1)
        - math.lgamma(k + 1)
        - math.lgamma(n - k + 1)
        + k * math.log(p)
        + (n - k) * math.log1p(-p)
    )


def test_search_that_runs_out_of_budget_gives_an_upper_bound():
    exact = _core.count_delta_range(0.05, 3000, 0.45, 0.55, 4.0, 2, 10**6)
    assert exact[5]
    short = _core.count_delta_range(0.05, 3000, 0.45, 0.55, 4.0, 2, 60)
    assert not short[5]
    assert short[0] >= exact[0]
    assert short[2] <= exact[0] + 1e-12


def test_thesis_theorem_4_22_is_false():
    """The worst common bias of an interval need not be at its ends."""

    def delta(bias):
        return pk.count_delta(epsilon=0.5, records=11, known=0, bias=bias, noise_scale=0.0)

    assert delta(0.3825) == pytest.approx(0.1020, abs=5e-5)
    assert delta(0.4425) == pytest.approx(0.1039, abs=5e-5)
    assert delta(0.4125) == pytest.approx(0.1075, abs=5e-5)


# Joint releases


# Calibration


@pytest.mark.parametrize(
    ("epsilon", "delta", "records", "known", "bias"),
    [
        pytest.param(0.35, 1e-6, 601, 0, 0.1, marks=pytest.mark.slow),
        pytest.param(0.5, 1e-8, 400, 100, 0.37, marks=pytest.mark.slow),
        pytest.param(0.3, 1e-9, 300, 50, 0.5, marks=pytest.mark.slow),
        (1.0, 1e-6, 30, 10, 0.5),
        (0.01, 1e-5, 900, 899, 0.5),
        (2.0, 1e-12, 60, 3, 0.95),
    ],
)
def test_calibrated_noise_is_safe_and_smallest(epsilon, delta, records, known, bias):
    c = pk.calibrate(epsilon=epsilon, delta=delta, records=records, known=known, bias=bias)
    unknown = records - known - 1
    assert 0 < c.noise_scale <= c.gaussian_sigma
    assert c.delta <= delta
    safe = max(half_line(epsilon, unknown, bias, c.noise_scale, d) for d in ("add", "remove"))
    assert safe <= delta  # exactly, in 40 digits
    less = max(
        half_line(epsilon, unknown, bias, mp.mpf(c.noise_scale) * (1 - mp.mpf("1e-9")), d)
        for d in ("add", "remove")
    )
    assert less > delta


def half_line(epsilon, m, p, beta, direction):
    """An independent evaluation with 40 digits: the half line, its threshold by bisection from a wide bracket."""
    with mp.workdps(40):
        p = mp.mpf(p)
        mean, deviation = float(m * p), float(mp.sqrt(m * p * (1 - p)))
        low, high = max(0, int(mean - 14 * deviation) - 30), min(m, int(mean + 14 * deviation) + 30)
        b = {
            low: mp.exp(
                mp.loggamma(m + 1)
                - mp.loggamma(low + 1)
                - mp.loggamma(m - low + 1)
                + low * mp.log(p)
                + (m - low) * mp.log(1 - p)
            )
        }
        for k in range(low + 1, high + 1):
            b[k] = b[k - 1] * (m - k + 1) / k * p / (1 - p)
        return half_line_of(b, epsilon, beta, direction, steps=50)


def half_line_of(b, epsilon, beta, direction, steps):
    """The same for any log-concave law {k: probability}, in the precision that is set."""
    beta = mp.mpf(beta)
    factor = mp.exp(mp.mpf(epsilon))
    low, high = min(b), max(b)
    weight = {}
    for k in range(low, high + 2):
        up, down = b.get(k - 1, mp.mpf(0)), b.get(k, mp.mpf(0))
        weight[k] = up - factor * down if direction == "add" else down - factor * up
    sign = 1 if direction == "add" else -1

    def positive(x):
        return mp.fsum(w * mp.exp(-((x - k) ** 2) / (2 * beta**2)) for k, w in weight.items()) > 0

    inner = mp.fsum(k * v for k, v in b.items())
    outer = inner + sign * (10 + 5 * beta)
    while not positive(outer):
        outer += outer - inner
    while positive(inner):
        inner -= outer - inner
    for _ in range(steps):
        middle = (inner + outer) / 2
        inner, outer = (inner, middle) if positive(middle) else (middle, outer)
    return mp.fsum(w * mp.erfc(sign * (outer - k) / (beta * mp.sqrt(2))) / 2 for k, w in weight.items())


def test_no_noise_where_nature_is_enough():
    c = pk.calibrate(epsilon=1.0, delta=1e-6, records=10**6, known=5 * 10**5, bias=0.3)
    assert c.noise_scale == 0.0
    assert c.saving == 1.0
    assert c.limited_by == "nothing"
    assert "without any noise" in c.statement
    assert "Nothing is guaranteed if these assumptions fail" in c.statement
    # Just enough and just not enough: delta at noise 0 on both sides of the target.
    at_zero = pk.count_delta(epsilon=0.5, records=600, known=0, bias=0.37, noise_scale=0.0)
    assert (
        pk.calibrate(epsilon=0.5, delta=at_zero * (1 + 1e-10), records=600, known=0, bias=0.37).noise_scale == 0.0
    )
    assert (
        pk.calibrate(epsilon=0.5, delta=at_zero * (1 - 1e-10), records=600, known=0, bias=0.37).noise_scale > 0.0
    )


def test_all_known_is_the_analytic_gaussian():
    c = pk.calibrate(epsilon=0.7, delta=1e-7, records=50, known=49, bias=0.5)
    assert c.noise_scale == pytest.approx(gaussian.sigma(epsilon=0.7, delta=1e-7), rel=1e-12)
    assert c.noise_scale <= c.gaussian_sigma
    assert c.saving == pytest.approx(0.0, abs=1e-12)


def test_worst_case_floor():
    c = pk.calibrate(epsilon=0.5, delta=1e-6, records=10**6, known=10**5, bias=0.5, worst_case_epsilon=4.0)
    assert c.noise_scale == gaussian.sigma(epsilon=4.0, delta=1e-6)
    assert c.limited_by == "worst case"
    assert "(4, 1e-06)-differential privacy holds" in c.statement
    assert "Nothing is guaranteed" not in c.statement
    with pytest.raises(ValueError, match="worst_case_epsilon"):
        pk.calibrate(epsilon=0.5, delta=1e-6, records=100, known=10, bias=0.5, worst_case_epsilon=0.4)


def test_releases_and_earlier_releases():
    one = dict(epsilon=0.2, delta=1e-6, records=2000, known=500, bias=0.4)
    single = pk.calibrate(**one)
    three = pk.calibrate(**one, releases=3)
    assert three.noise_scale == pytest.approx(single.noise_scale * math.sqrt(3), rel=1e-12)
    spent = [three.noise_scale] * 2
    third = pk.calibrate(**one, earlier_noise_scales=spent)
    assert third.noise_scale == pytest.approx(three.noise_scale, rel=1e-9)
    total = pk.count_delta(epsilon=0.2, records=2000, known=500, bias=0.4, noise_scale=[*spent, third.noise_scale])
    assert total <= 1e-6
    assert "released 2 time(s) before" in third.statement
    with pytest.raises(ValueError, match="leave room"):
        pk.calibrate(**one, earlier_noise_scales=[single.noise_scale])


def test_calibration_over_a_range_holds_for_every_vertex():
    c = pk.calibrate(epsilon=0.3, delta=1e-6, records=201, known=0, bias=(0.2, 0.4))
    single = pk.calibrate(epsilon=0.3, delta=1e-6, records=201, known=0, bias=0.2)
    assert c.noise_scale >= single.noise_scale * (1 - 2.0**-45)  # both are least to about that
    for j in range(0, 201, 8):
        pmf = two_group_pmf(j, 0.2, 200 - j, 0.4)
        assert _core.count_delta_window(0.3, pmf, 1e-14, 0.0, c.noise_scale, 2)[0] <= math.log(1e-6)
    assert (
        pk.count_delta(epsilon=0.3, records=201, known=0, bias=(0.2, 0.4), noise_scale=c.noise_scale * 0.999)
        > 1e-6
    )


def test_mixture_is_an_upper_bound():
    parts = [(0.3, 0.2), (0.7, 0.6)]
    mixture = pk.Mixture(parts)
    one = dict(epsilon=0.4, records=41, known=0, direction="add")
    pmf = sum(w * np.exp([_log_binomial(40, p, k) for k in range(41)]) for w, p in parts)
    exact = np.maximum(np.append(0, pmf) - math.exp(0.4) * np.append(pmf, 0), 0).sum()
    bound = pk.count_delta(**one, bias=mixture, noise_scale=0.0)
    assert exact <= bound * (1 + 1e-12)
    assert bound <= sum(w * pk.count_delta(**one, bias=p, noise_scale=0.0) for w, p in parts) * (1 + 1e-12)


def test_result_is_plain_data():
    c = pk.calibrate(epsilon=0.1, delta=1e-6, records=1000, known=10, bias=0.3)
    facts = c.to_dict()
    json.dumps(facts)
    assert facts["noise_scale"] == c.noise_scale
    assert c.proportion_noise_scale == c.noise_scale / 1000
    with pytest.raises(AttributeError):
        c.noise_scale = 0.0


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"records": 0}, "records"),
        ({"records": -5}, "records"),
        ({"known": 100}, "known must be less than records"),
        ({"known": -1}, "known"),
        ({"bias": 1.1}, "bias"),
        ({"bias": math.nan}, "bias"),
        ({"bias": (0.6, 0.4)}, "low <= high"),
        ({"bias": (0.1, 1.5)}, "high"),
        ({"bias": []}, "strata"),
        ({"bias": [(3, 0.5)]}, "99 unknown records"),
        ({"bias": [(-1, 0.5)]}, "size of stratum"),
        ({"noise_scale": -1.0}, "noise_scale"),
        ({"noise_scale": []}, "noise_scale"),
        ({"noise_scale": math.inf}, "noise_scale"),
        ({"direction": "up"}, "direction"),
    ],
)
def test_bad_arguments(change, match):
    arguments = dict(epsilon=0.5, records=100, known=0, bias=0.5, noise_scale=1.0) | change
    with pytest.raises(ValueError, match=match):
        pk.count_delta(**arguments)


@pytest.mark.parametrize(
    "change", [{"epsilon": "1"}, {"records": 10.5}, {"bias": "x"}, {"bias": [0.1, 0.2]}, {"bias": None}]
)
def test_bad_types(change):
    arguments = dict(epsilon=0.5, records=100, known=0, bias=0.5, noise_scale=1.0) | change
    with pytest.raises((TypeError, ValueError)):
        pk.count_delta(**arguments)


@pytest.mark.parametrize(("name", "value"), [("delta", 0.0), ("delta", 1.0), ("delta", math.nan), ("releases", 0)])
def test_bad_calibration(name, value):
    arguments = dict(epsilon=0.5, delta=1e-6, records=100, known=0, bias=0.5) | {name: value}
    with pytest.raises(ValueError, match=name):
        pk.calibrate(**arguments)


@pytest.mark.parametrize(
    ("epsilon", "unknown", "bias", "noise", "direction", "exact"),
    [
        # from the definition, with 3000-bit ball arithmetic
        (575.25, 3, 9.9e-201, 0.17, 0, -5888.280081198066231),  # e^epsilon bias is not small: it is not 0
        (784.0, 163, 3.4e-251, 0.0, 0, -94006.18851431098620),
        (500.0, 2, 5e-324, 1.0, 0, -124763.4731657299086),
        (1.0, 2, 5e-324, 1.0, 1, -2.064066446500390534),
        (6.0, 3, 1e-200, 9.0, 0, -1466.096700932143059),
        (0.05, 3, 1e-199, 300.0, 0, -124.5269545356811281),  # ln(bias) to 460 u would cost 7e-11 here
    ],
)
def test_biases_next_to_nothing(epsilon, unknown, bias, noise, direction, exact):
    value, error = _core.count_delta_bounded(epsilon, unknown, bias, noise, direction)
    assert abs(value - exact) <= error + 2.0**-51 * abs(exact)
    if exact > -690:
        assert abs(value - exact) < 1e-11


@pytest.mark.parametrize(
    ("groups", "epsilon", "direction", "exact"),
    [
        ([(9, 0.39), (8, 2.4e-30)], 193.0, 1, -4.448666896333021270),
        ([(6, 0.91), (7, 0.5)], 777.0, 0, -5.417894340747064922),  # e^-epsilon is below the range of double
        ([(1, 0.04), (1, 0.999999), (1, 1e-12), (1, 0.33)], 737.75, 1, -14.25681011905389890),
        ([(1, 0.5), (1, 1e-300), (1, 1e-60), (1, 0.25)], 500.0, 0, -140.2345471213225770),
    ],
)
def test_strata_at_large_epsilon(groups, epsilon, direction, exact):
    law = law_of(pk.Strata(tuple(groups)), sum(size for size, _ in groups))
    value, error = law.log_delta(epsilon, 0.0, direction)
    assert abs(value - exact) <= min(error, 1e-12)


def test_window_says_when_what_it_lacks_matters():
    # b(k) below 1e-290 is not in the window, and counts e^epsilon times: the window cannot tell.
    law = law_of(pk.Unequal([0.5, 0.3, 1e-295, 0.2]), 4)
    value, error = law.log_delta(670.0, 0.0, 0)
    plain = _core.count_delta_window(670.0, law.pmf, 4e-16, 1e-285, 0.0, 0)
    assert plain[1] > 1.0
    assert value <= _core.log_delta_upper(*plain)
    assert error < math.inf


def test_mixture_without_noise_at_large_epsilon_is_an_upper_bound():
    # One value has all of it: delta is 0.453 times 0.924^7, and ln(delta e^-460) + 460 has lost digits.
    weight, bias = 0.4530045922811501, 0.9243528414316275
    law = law_of(pk.Mixture([(weight, bias), (1.0 - weight, 0.0)]), 7)
    exact = Fraction(weight) * Fraction(bias) ** 7
    upper = _core.log_delta_upper(*law.log_delta(461.780053608049, 0.0, 0))
    assert upper >= math.log(exact) - 1e-17
    assert upper < math.log(exact) + 1e-12


@pytest.mark.parametrize("ratio", [1e-3, 0.5, 0.9, 1 - 1e-6, 1 - 1e-12])
def test_what_earlier_releases_leave_is_never_too_much(ratio):
    rng = np.random.default_rng(5)
    for total in 10 ** rng.uniform(-2, 6, 50):
        spent = total / ratio
        noise = remaining_noise(total, spent)
        assert (
            1 / Fraction(noise) ** 2 + 1 / (Fraction(spent) * (1 - Fraction(1, 2**51))) ** 2
            <= 1 / Fraction(total) ** 2
        )
        assert noise < 1.001 * total / math.sqrt((1 - ratio) * (1 + ratio))


def test_earlier_releases_that_leave_nothing_are_refused():
    one = dict(epsilon=0.5, delta=1e-6, records=50, known=20, bias=0.3)
    needed = pk.calibrate(**one).noise_scale
    for earlier in ([0.0], [needed], [needed * 0.5], [1e-300, 1.0]):
        with pytest.raises(ValueError, match="must leave room"):
            pk.calibrate(**one, earlier_noise_scales=earlier)
    assert remaining_noise(1.0, 0.0) == remaining_noise(1.0, 1.0) == math.inf
    # where no noise is needed, not even an exact earlier release is in the way
    free = dict(epsilon=1.0, delta=1e-6, records=10**6, known=5 * 10**5, bias=0.3)
    assert pk.calibrate(**free, earlier_noise_scales=[0.0]).noise_scale == 0.0


def test_saving_is_not_negative():
    first = pk.calibrate(epsilon=0.5, delta=1e-6, records=50, known=20, bias=0.3)
    again = pk.calibrate(
        epsilon=0.5,
        delta=1e-6,
        records=50,
        known=20,
        bias=0.3,
        earlier_noise_scales=[first.noise_scale * 1.01],
    )
    assert again.noise_scale > again.gaussian_sigma
    assert again.saving == 0.0
