"""Subsampled Gaussian steps of which few are sampled: several contours, one for each number of large steps."""

from __future__ import annotations

import json
import math
import pathlib
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from dpcore import accounting as acc

ROWS = json.loads((pathlib.Path(__file__).parent / "data/subsampled_two_steps.json").read_text())["rows"]
FEW = json.loads((pathlib.Path(__file__).parent / "data/subsampled_few.json").read_text())["rows"]


def steps(row: dict[str, Any]) -> acc.PrivacyLoss:
    one, other = (
        acc.from_subsampled_gaussian(sigma=sigma, rate=rate, neighbours=row.get("neighbours", "remove"))
        for sigma, rate in row["steps"]
    )
    if "approximate" in row:
        epsilon, delta = row["approximate"]
        return one + other + acc.from_approximate(epsilon=epsilon, delta=delta)
    return one + other


def overlap_with_buckets(loss: acc.PrivacyLoss, eps: float, log: acc.Bounds) -> bool:
    """Whether the buckets, which share nothing with contours, have an answer, which must then overlap."""
    try:
        grid = loss.log_delta(eps, engine="buckets")
    except ValueError as error:
        if "more than its limit" not in str(error):
            raise
        return False
    assert log.lower <= grid.upper
    assert grid.lower <= log.upper
    return True


def named(row: dict[str, Any]) -> str:
    beside = "".join(f"-{row[key]}" for key in ("neighbours", "approximate") if key in row)
    return f"{row['steps']}-{row['epsilon']}{beside}"


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_two_steps(row: dict[str, Any]) -> None:
    loss, truth = steps(row), mp.mpf(row["log_delta"])
    equal = row["steps"][0] == row["steps"][1]
    for engine in ("auto", "spectral"):
        log = loss.log_delta(row["epsilon"], engine=engine)
        assert log.lower <= truth <= log.upper
        if equal and truth > -250 * math.log(10):
            assert log.upper - log.lower <= 1e-9


@pytest.mark.parametrize("row", FEW, ids=lambda row: "-".join(str(v) for v in list(row.values())[:5]))
def test_few_steps(row: dict[str, Any]) -> None:
    """One contour of 256 bits, which sees all that the pieces of double precision are put together from."""
    step = acc.from_subsampled_gaussian(sigma=row["sigma"], rate=row["rate"], neighbours=row["neighbours"])
    truth = mp.mpf(row["log_delta"])
    for engine in ("auto", "spectral"):
        log = (step * row["copies"]).log_delta(row["epsilon"], engine=engine)
        assert log.lower <= truth <= log.upper
        assert log.upper - log.lower <= 1e-9


@pytest.mark.parametrize("row", FEW[:6], ids=lambda row: "-".join(str(v) for v in list(row.values())[:5]))
def test_few_steps_in_two_kinds(row: dict[str, Any]) -> None:
    """Nearly equal steps are two kinds, whose large steps are counted together: the same answer, nearly."""
    other = row["sigma"] * (1.0 + 2.0**-50)
    half = row["copies"] // 2
    one, two = (
        acc.from_subsampled_gaussian(sigma=sigma, rate=row["rate"], neighbours=row["neighbours"])
        for sigma in (row["sigma"], other)
    )
    log = (one * half + two * (row["copies"] - half)).log_delta(row["epsilon"])
    truth = float(row["log_delta"])
    assert log.upper - log.lower <= 1e-9
    assert log.lower - 1e-9 <= truth <= log.upper + 1e-9  # d ln delta/d ln sigma is below 2e3 here


@pytest.mark.parametrize("eps", [0.1, 1.5])
def test_epsilon_of_two_steps(eps: float) -> None:
    row = next(r for r in ROWS if r["steps"][0] == r["steps"][1] == [1.0, 1e-3] and r["epsilon"] == eps)
    found = steps(row).epsilon(float(mp.exp(mp.mpf(row["log_delta"]))))
    slope = 200.0  # at least -d ln delta/d eps here
    assert found.lower <= eps + 1e-15 * slope
    assert found.upper >= eps - 1e-15 * slope
    assert found.upper - found.lower <= 1e-9


@pytest.mark.parametrize(
    ("sigma", "rate", "copies", "neighbours", "eps"),
    [
        (1.88, 2.08e-05, 129, "remove", 0.003),
        (8.92, 0.00022, 53, "remove", 0.0023),
        (1.458, 0.00178, 49, "remove", 2.0),
        (0.826, 9.8e-05, 1301, "add", 0.068),
        (1.335, 0.00107, 11, "add", 0.0015),
        (0.5191, 0.0001836, 73833, "remove", 0.2573),  # pieces as narrow as their edges
        (0.448, 0.01548, 26, "add", 0.0297),
        (0.3275, 7.814e-05, 147, "remove", 0.02221),
        # No bounds, or a width of 1e-3 to 1, before large steps were counted.
        (1.259, 0.0003256, 39, "remove", 9.641),
        (1.957, 0.0001092, 21, "remove", 6.56),
        pytest.param(1.062, 1.256e-05, 2354, "remove", 11.58, marks=pytest.mark.slow),  # buckets: half a minute
        (24.82, 0.0002138, 14, "remove", 0.001063),
        (28.47, 0.001478, 4, "remove", 0.003347),
        (27.84, 5.26e-05, 27910, "remove", 0.003317),
        (0.3556, 2.504e-05, 3, "remove", 0.2988),
        (0.4696, 0.0003063, 272273, "remove", 0.4679),
        (0.3107, 3.702e-05, 326, "remove", 17.12),
        (0.3569, 0.01876, 7, "add", 0.1318),
        (0.4319, 0.8021, 2, "add", 2.407),
        (20.11, 0.01912, 2, "add", 0.02911),
        (24.35, 5.611e-05, 823380, "add", 0.02708),
    ],
)
def test_narrow_far_from_what_a_step_loses(
    sigma: float, rate: float, copies: int, neighbours: str, eps: float
) -> None:
    """Bounds that were wide, or none."""
    loss = acc.from_subsampled_gaussian(sigma=sigma, rate=rate, neighbours=neighbours) * copies
    log = loss.log_delta(eps)
    assert log.upper - log.lower <= 1e-9
    overlap_with_buckets(loss, eps, log)


@pytest.mark.parametrize("neighbours", ["add", "remove"])
@pytest.mark.parametrize(("sigma", "rate"), [(2.0, 0.5), (0.8, 1e-3), (30.0, 0.2)])
@pytest.mark.parametrize("delta", [0.01, 1e-9, 6e-284])
def test_epsilon_of_one_step(neighbours: str, sigma: float, rate: float, delta: float) -> None:
    """The ends are on their sides of delta, by the definition at 400 digits."""
    found = acc.from_subsampled_gaussian(sigma=sigma, rate=rate, neighbours=neighbours).epsilon(delta)
    with mp.workdps(400):
        q, s = mp.mpf(rate), mp.mpf(sigma)

        def truth(eps: float) -> mp.mpf:
            factor = mp.exp(mp.mpf(eps))

            def tail(x: mp.mpf) -> mp.mpf:
                return mp.erfc(x / (s * mp.sqrt(2))) / 2

            if neighbours == "remove":  # the sampled law against the plain one, above the output with that ratio
                at = mp.mpf("0.5") + s * s * mp.log((factor - (1 - q)) / q)
                return (1 - q - factor) * tail(at) + q * tail(at - 1)
            rest = 1 / factor - (1 - q)  # the plain law against the sampled one, below
            if rest <= 0:
                return mp.mpf(0)
            at = mp.mpf("0.5") + s * s * mp.log(rest / q)
            return (1 - factor * (1 - q)) * tail(-at) - factor * q * tail(1 - at)

        assert truth(found.upper) <= delta
        assert found.lower == 0.0 or truth(found.lower) >= delta
    assert found.upper - found.lower <= 1e-12 * max(1.0, found.upper)


@pytest.mark.parametrize("sigma", [0.8, 1.0, 2.0])
@pytest.mark.parametrize(
    ("rate", "copies"), [(0.01, 5), (0.01, 100), (0.001, 30), (0.001, 1000), (0.001, 3000), (1e-5, 2000)]
)
def test_narrow_at_every_epsilon(sigma: float, rate: float, copies: int) -> None:
    """Widths of at most 1e-9, and the same answer as the buckets within their bounds."""
    loss = acc.from_subsampled_gaussian(sigma=sigma, rate=rate, neighbours="remove") * copies
    for eps in (0.1, 1.0, 3.0) if rate > 1e-4 else (1.0, 3.0):
        log = loss.log_delta(eps)
        assert log.upper - log.lower <= 1e-9
    overlap_with_buckets(loss, 1.0, loss.log_delta(1.0))


def test_both_ways_agree_where_both_are_narrow() -> None:
    """Around eight expected samples one contour becomes enough: answers on both sides of the change fit."""
    few = acc.from_subsampled_gaussian(sigma=1.0, rate=0.01, neighbours="remove") * 790
    many = acc.from_subsampled_gaussian(sigma=1.0, rate=0.01, neighbours="remove") * 810
    for eps in (0.5, 1.0, 2.0):
        a, b, middle = few.log_delta(eps), many.log_delta(eps), (few + many).log_delta(2 * eps)
        assert a.upper - a.lower <= 1e-9
        assert b.upper - b.lower <= 1e-9
        assert a.upper < b.lower  # more steps, more delta
        assert middle.lower <= middle.upper


@pytest.mark.parametrize("neighbours", ["add", "both"])
def test_other_directions(neighbours: str) -> None:
    loss = acc.from_subsampled_gaussian(sigma=1.0, rate=0.01, neighbours=neighbours) * 300
    remove = acc.from_subsampled_gaussian(sigma=1.0, rate=0.01, neighbours="remove") * 300
    # At epsilon 0 delta is the total variation, which has no direction.
    start, other = loss.log_delta(0.0), remove.log_delta(0.0)
    assert start.lower <= other.upper
    assert other.lower <= start.upper
    for eps in (0.0, 0.1, 1.0):
        log = loss.log_delta(eps)
        assert log.upper - log.lower <= 1e-9
        assert log.lower <= remove.log_delta(eps).upper


@pytest.mark.slow
def test_beside_other_mechanisms() -> None:
    """Different steps, Laplace and approximate releases beside them: the buckets must overlap."""
    loss = (
        acc.from_subsampled_gaussian(sigma=1.0, rate=0.001, neighbours="remove") * 500
        + acc.from_subsampled_gaussian(sigma=1.3, rate=0.004, neighbours="remove") * 200
        + acc.from_laplace(epsilon=0.05) * 2
        + acc.from_approximate(epsilon=0.01, delta=1e-9)
    )
    for eps in (0.5, 1.5):
        log = loss.log_delta(eps)
        assert log.upper - log.lower <= 1e-9
        assert overlap_with_buckets(loss, eps, log)


def test_cuts_where_the_loss_of_another_step_is_beyond_the_range_of_exp() -> None:
    """The cut of one step at which another loses more than 709 was infinite; sums that did not exist were read."""
    sharp = acc.from_subsampled_gaussian(sigma=0.43, rate=0.84, neighbours="add") * 3
    broad = acc.from_subsampled_gaussian(sigma=163.0, rate=2e-06, neighbours="remove") * 18
    # Where nothing infinite happens the loss is -2048 beside theirs: the last cut is far out.
    lost = acc.from_pmf([2.0**-13, 1.0 - 2.0**-13], [0.0, 1.0]) * 2**24
    bounds = (sharp + broad + lost).delta(127.0)
    assert 1.0 - 1e-9 <= bounds.lower <= bounds.upper == 1.0


@pytest.mark.parametrize("second_copies", [1, 19])
def test_buckets_of_two_long_lists_count_each_once(second_copies: int) -> None:
    """The list that made the lists too long to be kept was prepared, and counted, twice."""
    first = (
        acc.from_subsampled_gaussian(sigma=0.47617787987386434, rate=0.0064102949331662175, neighbours="add") * 22
    )
    second = acc.from_subsampled_gaussian(sigma=4.466483193215055, rate=0.0005930857652653495, neighbours="add")
    eps = 0.01210205510456571
    sampled = math.log(22 * 0.0064102949331662175 + second_copies * 0.0005930857652653495)  # no step, no loss
    for loss in (first + second * second_copies, second * second_copies + first):
        grid, auto = loss.log_delta(eps, engine="buckets"), loss.log_delta(eps)
        assert grid.lower <= grid.upper <= sampled
        assert auto.lower <= auto.upper
        assert grid.lower <= auto.upper
        assert auto.lower <= grid.upper


@pytest.mark.parametrize("neighbours", ["add", "remove"])
@pytest.mark.parametrize(
    ("sigma", "rate", "copies", "eps"), [(0.8, 0.01, 20, 0.05), (1.0, 0.003, 100, 0.2), (0.6, 0.02, 30, 0.3)]
)
def test_confidence_of_few_steps(neighbours: str, sigma: float, rate: float, copies: int, eps: float) -> None:
    """Known to 1e-9, and between what differences of delta say: delta(y) - e^-s delta(y+s) is the integral over
    [y, y+s] of e^{y-x} Pr[L > x] dx; under Q the loss of the other direction is -L."""
    loss = acc.from_subsampled_gaussian(sigma=sigma, rate=rate, neighbours=neighbours) * copies
    other = {"add": "remove", "remove": "add"}[neighbours]
    back = acc.from_subsampled_gaussian(sigma=sigma, rate=rate, neighbours=other) * copies
    found = loss.confidence(eps)
    assert found.upper - found.lower <= 1e-9
    s = 1e-3
    above = [
        (loss.delta(y).upper - math.exp(-s) * loss.delta(y + s).lower) / -math.expm1(-s) for y in (eps - s, eps)
    ]
    # Pr[L < -eps] = E_Q[e^L; L < -eps], which is E[e^-L'; L' > eps] of the other direction: Pr[L' > eps] -
    # delta'(eps), times e^-eps.
    tail = [
        (back.delta(y).upper - math.exp(-s) * back.delta(y + s).lower) / -math.expm1(-s) for y in (eps - s, eps)
    ]
    below = [math.exp(-eps) * (t - back.delta(eps).lower) for t in tail]
    assert found.lower <= 1.0 - min(above) - min(below) + 1e-7
    assert found.upper >= 1.0 - max(above) - max(below) - 1e-7


@pytest.mark.slow
def test_random_steps_overlap_with_buckets() -> None:
    rng = np.random.default_rng(20261117)
    compared = 0
    for _ in range(40):
        sigma = float(np.exp(rng.uniform(math.log(0.5), math.log(5.0))))
        rate = float(np.exp(rng.uniform(math.log(1e-4), math.log(0.2))))
        copies = int(rng.integers(2, max(3, int(8.0 / rate))))
        eps = float(np.exp(rng.uniform(math.log(0.05), math.log(5.0))))
        loss = acc.from_subsampled_gaussian(sigma=sigma, rate=rate, neighbours="remove") * copies
        compared += overlap_with_buckets(loss, eps, loss.log_delta(eps, engine="spectral"))
    assert compared >= 15


@pytest.mark.parametrize(("copies", "eps"), [(100, 100.0), (100, 200.0), (100000, 700.0)])
def test_certainty_is_not_claimed_where_a_tail_underflows(copies: int, eps: float) -> None:
    """Pr[L > eps] >= delta(eps) > 0, however small: no lower bound of the confidence is 1."""
    loss = acc.from_subsampled_gaussian(sigma=1.0, rate=0.01, neighbours="remove") * copies
    assert math.isfinite(loss.log_delta(eps).lower)
    assert loss.confidence(eps).lower < 1.0


@pytest.mark.parametrize(("sigma", "copies"), [(0.2, 3), (0.3, 4), (0.3, 50)])
def test_rates_next_to_one(sigma: float, copies: int) -> None:
    """Unsampled steps have the loss -log(1 - rate), of which 1 + rate (e^y - 1) keeps four digits only."""
    loss = acc.from_subsampled_gaussian(sigma=sigma, rate=1.0 - 1e-12, neighbours="add") * copies
    for share in (0.2, 0.5, 0.9):
        log = loss.log_delta(share * loss.max_loss)
        assert log.upper - log.lower < 1e-8
        overlap_with_buckets(loss, share * loss.max_loss, log)


@pytest.mark.parametrize("epsilon", [38.0, 40.0, 42.0])
def test_many_large_steps(epsilon: float) -> None:
    """Thousands of steps of little noise far out: some tens of them are large. There was no lower bound."""
    loss = acc.from_subsampled_gaussian(sigma=0.52, rate=0.0064) * 3153
    log, grid = loss.log_delta(epsilon), loss.log_delta(epsilon, engine="buckets")
    assert log.upper - log.lower <= 1e-9
    assert grid.lower <= log.upper
    assert log.lower <= grid.upper


@pytest.mark.parametrize("exponent", [3, 5, 7, 9])
def test_width_of_many_steps_is_that_of_their_roundings(exponent: int) -> None:
    copies = 10**exponent
    loss = acc.from_subsampled_gaussian(sigma=1.0, rate=copies**-0.5, neighbours="both") * copies
    bounds = loss.log_delta(3.0)
    assert bounds.upper - bounds.lower <= max(1e-9, copies * 2.0**-53)
    # One less is hardly less.
    near = acc.from_subsampled_gaussian(sigma=1.0, rate=copies**-0.5, neighbours="both") * (copies - 1)
    assert near.log_delta(3.0).lower <= bounds.upper


@pytest.mark.slow
@pytest.mark.parametrize("eps", [2.0, 1000.0, 1395.0])
def test_many_steps_of_little_noise(eps: float) -> None:
    """Steps that are not sampled are next to an atom: no contour ends, and delta was wide (1e-6 to 1e-2)."""
    loss = acc.from_subsampled_gaussian(sigma=0.1, rate=0.005) * 2000
    log = loss.log_delta(eps)
    assert -math.inf < log.lower <= log.upper <= log.lower + 1e-9
    if eps == 2.0:  # the others take buckets ten seconds
        assert overlap_with_buckets(loss, eps, log)


@pytest.mark.slow
def test_epsilon_of_little_noise() -> None:
    """It was between 821 and 1396: the search began at losses of one step, far below."""
    loss = acc.from_subsampled_gaussian(sigma=0.1, rate=0.005) * 2000
    found = loss.epsilon(1e-6)
    assert found.upper - found.lower <= 1e-9 * found.upper
    assert loss.delta(found.upper).upper <= 1e-6 * (1 + 1e-9)
    assert loss.delta(found.lower * (1 - 1e-9)).lower > 1e-6
