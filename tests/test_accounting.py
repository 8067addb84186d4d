"""Bounds of composed privacy losses against independent references, without any tolerance."""

import copy
import dataclasses
import fractions
import io
import itertools
import json
import math
import pathlib
import pickle
import re
import warnings
import zipfile
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore import accounting as acc

DATA = pathlib.Path(__file__).parent / "data"
SPECTRAL_WIDTH = 1e-9  # promised for the spectral engine, up to a million copies
BUCKET_WIDTH = 1e-4  # promised for the default buckets
mp.mp.dps = 40


def rows(name: str) -> list[dict]:
    return json.loads((DATA / f"{name}.json").read_text())["rows"]


def make(row: dict) -> acc.PrivacyLoss:
    one = {
        "laplace": lambda: acc.from_laplace(epsilon=row["epsilon0"]),
        "randomized_response": lambda: acc.from_randomized_response(epsilon=row["epsilon0"]),
        "approximate": lambda: acc.from_approximate(epsilon=row["epsilon0"], delta=row["delta0"]),
        "gaussian": lambda: acc.from_gaussian(sigma=row["sigma"]),
        "mixed": lambda: acc.from_randomized_response(epsilon=row["epsilon0"]),
        "discrete_laplace": lambda: acc.from_discrete_laplace(scale=row["scale"], sensitivity=row["shift"]),
        "discrete_gaussian": lambda: acc.from_discrete_gaussian(sigma=row["sigma"], sensitivity=row["shift"]),
        "pmf": lambda: acc.from_pmf(row["p"], row["q"]),
    }[row["kind"]]()
    loss = one * row["copies"]
    if row["kind"] == "mixed":
        loss += acc.from_gaussian(sigma=row["sigma"]) * row["releases"]
    return loss


def check_bracket(bounds: acc.Bounds, truth: mp.mpf, digits: int = 24) -> float:
    """The reference is rounded to `digits`, so it is itself an interval; nothing else is forgiven."""
    slack = mp.mpf(10) ** -digits
    assert mp.mpf(bounds.lower) <= truth * (1 + slack)
    assert mp.mpf(bounds.upper) >= truth * (1 - slack)
    return float(mp.mpf(bounds.upper) / mp.mpf(bounds.lower) - 1) if bounds.lower > 0 else math.inf


# ---------------------------------------------------------------------------------------- tables


@pytest.mark.parametrize("row", rows("laplace_composed"))
def test_laplace_table(row: dict) -> None:
    loss = acc.from_laplace(epsilon=float(row["epsilon0"])) * row["k"]
    for engine, width in (("auto", SPECTRAL_WIDTH), ("spectral", SPECTRAL_WIDTH)):
        bounds = loss.delta(float(row["epsilon"]), engine=engine)
        assert check_bracket(bounds, mp.mpf(row["delta"])) <= width


@pytest.mark.parametrize("row", rows("randomized_response_composed"))
def test_randomized_response_table(row: dict) -> None:
    loss = acc.from_randomized_response(epsilon=float(row["epsilon0"])) * row["k"]
    for engine, width in (("auto", SPECTRAL_WIDTH), ("spectral", SPECTRAL_WIDTH), ("buckets", BUCKET_WIDTH)):
        bounds = loss.delta(float(row["epsilon"]), engine=engine)
        assert check_bracket(bounds, mp.mpf(row["delta"])) <= width


@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize("row", rows("subsampled_gaussian"))
def test_subsampled_gaussian_table(row: dict, direction: str) -> None:
    loss = acc.from_subsampled_gaussian(sigma=float(row["sigma"]), rate=float(row["rate"]), neighbours=direction)
    bounds = (loss * row["k"]).delta(float(row["epsilon"]))
    assert check_bracket(bounds, mp.mpf(row[f"delta_{direction}"])) <= SPECTRAL_WIDTH


def test_both_neighbours_is_the_worse_composition() -> None:
    row = rows("subsampled_gaussian")[0]
    loss = acc.from_subsampled_gaussian(sigma=float(row["sigma"]), rate=float(row["rate"])) * row["k"]
    check_bracket(loss.delta(float(row["epsilon"])), mp.mpf(row["delta_remove"]))
    separate = [acc.from_subsampled_gaussian(sigma=1.0, rate=0.01, neighbours=n) * 1000 for n in ("add", "remove")]
    both = acc.from_subsampled_gaussian(sigma=1.0, rate=0.01) * 1000
    assert both.epsilon(1e-5).upper == max(s.epsilon(1e-5).upper for s in separate)


@pytest.mark.parametrize("engine", ["auto", "spectral", "buckets"])
@pytest.mark.parametrize(
    "kind",
    ["randomized_response", "approximate", "gaussian", "mixed", "discrete_laplace", "discrete_gaussian", "pmf"],
)
def test_sweep_is_bracketed(kind: str, engine: str) -> None:
    for row in rows("accounting_sweep"):
        if row["kind"] == kind:
            check_bracket(make(row).delta(row["epsilon"], engine=engine), mp.mpf(row["delta"]), 28)


@pytest.mark.parametrize("engine", ["auto", "spectral"])
def test_laplace_sweep_is_bracketed(engine: str) -> None:
    for row in rows("accounting_sweep"):
        if row["kind"] == "laplace":
            check_bracket(make(row).delta(row["epsilon"], engine=engine), mp.mpf(row["delta"]), 28)


@pytest.mark.parametrize(
    "kind", ["randomized_response", "approximate", "gaussian", "discrete_laplace", "discrete_gaussian", "pmf"]
)
def test_sweep_is_narrow(kind: str) -> None:
    for row in rows("accounting_sweep"):
        if row["kind"] == kind and row["copies"] <= 10**6:
            assert check_bracket(make(row).delta(row["epsilon"]), mp.mpf(row["delta"]), 28) <= SPECTRAL_WIDTH


def test_peer_failures() -> None:
    # dp_accounting 0.6 falls below the truth here, prv-accountant's certified bound too; both at these parameters.
    gaussian = [r for r in rows("accounting_sweep") if r.get("sigma") == 20.0 and r["kind"] == "gaussian"]
    assert len(gaussian) == 5
    for row in gaussian:
        assert check_bracket(make(row).delta(row["epsilon"]), mp.mpf(row["delta"]), 28) <= SPECTRAL_WIDTH
        check_bracket(make(row).delta(row["epsilon"], engine="buckets"), mp.mpf(row["delta"]), 28)


# ---------------------------------------------------------------------------------------- exact small cases


def exact_delta(p: list[Fraction], q: list[Fraction], copies: int, ratio: Fraction) -> Fraction:
    """max over directions of sum (P - ratio Q)+ over all outcome vectors; ratio is e^epsilon, rational."""
    best = Fraction(0)
    for a, b in ((p, q), (q, p)):
        total = Fraction(0)
        for outcome in itertools.product(range(len(p)), repeat=copies):
            x = math.prod((a[i] for i in outcome), start=Fraction(1))
            y = math.prod((b[i] for i in outcome), start=Fraction(1))
            total += max(x - ratio * y, Fraction(0))
        best = max(best, total)
    return best


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 16), min_size=2, max_size=4),
    st.lists(st.integers(0, 16), min_size=2, max_size=4),
    st.integers(0, 3),
)
def test_pmf_against_rationals(first: list[int], second: list[int], copies: int) -> None:
    n = min(len(first), len(second))

    def dyadic(w: list[int]) -> list[Fraction]:
        head = [Fraction(x, 64) for x in w[: n - 1]]
        return [*head, 1 - sum(head)]

    p, q = dyadic(first), dyadic(second)
    loss = acc.from_pmf([float(x) for x in p], [float(x) for x in q]) * copies
    truth = exact_delta(p, q, copies, Fraction(1))  # epsilon = 0: e^0 is rational
    bounds = loss.delta(0.0)
    assert Fraction(bounds.lower) <= truth <= Fraction(bounds.upper)
    assert bounds.upper <= bounds.lower * (1 + 1e-9) + 1e-290


# ---------------------------------------------------------------------------------------- closed forms and edges


@pytest.mark.parametrize("epsilon0", [1e-12, 1e-3, 1.0, 30.0])
def test_one_laplace(epsilon0: float) -> None:
    for share in (0.0, 0.3, 1 - 1e-9):
        eps = share * epsilon0
        truth = -mp.expm1((mp.mpf(eps) - mp.mpf(epsilon0)) / 2)
        assert check_bracket(acc.from_laplace(epsilon=epsilon0).delta(eps), truth, 30) <= 1e-12


def test_mixtures_without_a_usable_contour_end_and_are_narrow() -> None:
    loss = acc.from_discrete_gaussian(sigma=3.0, sensitivity=2) * 50 + acc.from_laplace(epsilon=0.125)
    bounds = loss.delta(15.0)
    assert bounds.upper / bounds.lower - 1 <= 10 * BUCKET_WIDTH
    assert loss.epsilon(1e-4, engine="spectral").upper >= 27.9  # once an endless loop


@pytest.mark.parametrize("rate", [1e-6, 0.01, 0.5, 0.999])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 20.0])
def test_one_subsampled_gaussian(sigma: float, rate: float) -> None:
    s, q = mp.mpf(sigma), mp.mpf(rate)

    def gaussian(eps: mp.mpf) -> mp.mpf:
        return mp.ncdf(1 / (2 * s) - eps * s) - mp.e**eps * mp.ncdf(-1 / (2 * s) - eps * s)

    for eps in (0.0, 1e-4, 0.2, 1.5):
        e = mp.mpf(eps)
        remove = q * gaussian(mp.log1p(mp.expm1(e) / q))
        factor = 1 - (1 - q) * mp.e**e
        add = factor * gaussian(mp.log(q * mp.e**e / factor)) if factor > 0 else mp.mpf(0)
        for direction, truth in (("add", add), ("remove", remove)):
            loss = acc.from_subsampled_gaussian(sigma=sigma, rate=rate, neighbours=direction)
            if truth > mp.mpf("1e-280"):
                check_bracket(loss.delta(eps), truth, 30)
            else:
                assert loss.delta(eps).lower <= float(truth)
                assert mp.mpf(loss.delta(eps).upper) >= truth


@pytest.mark.parametrize("sigma", [1e16, 1e30, 4.855427069055737e43, 1e100])
def test_a_lattice_of_steps_beyond_number(sigma: float) -> None:
    """Losses next to 0 on a lattice whose step underflows: a crash, found by the fuzzer of the C interface."""
    loss = acc.from_discrete_gaussian(sigma=sigma, sensitivity=73)
    assert loss.delta(2.28).lower == 0.0
    for bounds in (loss.delta(2.28), loss.delta(1e-40), loss.delta(0.0), loss.confidence(1e-41)):
        assert 0.0 <= bounds.lower <= bounds.upper <= 1.0
    # Total variation of a shift by 73: at most 73/(2 sigma).
    assert loss.delta(0.0).lower <= 73 / (2 * sigma)
    assert 0.0 <= loss.epsilon(1e-6).lower <= loss.epsilon(1e-6).upper
    assert loss.epsilon(2.4e-317).lower <= loss.epsilon(2.4e-317).upper


def test_log_delta_below_the_smallest_double() -> None:
    loss = acc.from_gaussian(sigma=1.0) * 10
    eps = mp.mpf(400)
    rho = mp.mpf(5)
    with mp.workdps(60):
        s = mp.sqrt(2 * rho)
        log = mp.log(mp.ncdf((rho - eps) / s) - mp.e**eps * mp.ncdf((-rho - eps) / s))
    bounds = loss.log_delta(400.0)
    assert bounds.lower <= log <= bounds.upper
    assert bounds.upper - bounds.lower < 1e-9
    assert loss.delta(400.0).lower == 0.0
    assert 0.0 < loss.delta(400.0).upper < 1e-300


def test_empty_composition_loses_nothing() -> None:
    for loss in (acc.PrivacyLoss(), acc.from_gaussian(sigma=1.0) * 0, acc.from_laplace(epsilon=0.0) * 5):
        assert loss.delta(0.0) == acc.Bounds(0.0, 0.0)
        assert loss.epsilon(0.0) == acc.Bounds(0.0, 0.0)
        assert loss.confidence(0.0) == acc.Bounds(1.0, 1.0)
        assert loss.mean == 0.0


def test_infinite_mass() -> None:
    loss = acc.from_approximate(epsilon=1.0, delta=1e-5)
    assert loss.epsilon(0.9e-5).upper == math.inf
    assert loss.epsilon(0.9e-5).lower == math.inf
    assert loss.epsilon(1e-5).upper == pytest.approx(1.0, rel=1e-14)
    assert loss.delta(1.0).lower <= 1e-5 <= loss.delta(1.0).upper <= 1.0000000000001e-5
    assert loss.mean == math.inf
    many = acc.from_approximate(epsilon=0.01, delta=1e-9) * 1000 + acc.from_gaussian(sigma=10.0)
    mass = many.infinite_mass
    truth = -mp.expm1(1000 * mp.log1p(-mp.mpf(1e-9)))
    assert mp.mpf(mass.lower) <= truth <= mp.mpf(mass.upper)
    assert many.epsilon(0.99e-6).lower == math.inf
    assert many.delta(1000.0).lower >= 0.999e-6
    disjoint = acc.from_pmf([1.0, 0.0], [0.0, 1.0])
    assert disjoint.delta(3.0).upper == 1.0
    assert disjoint.delta(3.0).lower >= 1.0 - 1e-14


def test_bounded_losses_end() -> None:
    loss = acc.from_laplace(epsilon=0.1) * 30
    top = loss.epsilon(0.0)
    assert top.lower <= 30 * Fraction(0.1) <= top.upper
    assert loss.delta(math.nextafter(top.upper, 10.0)).upper == 0.0
    assert loss.max_loss == top.upper
    assert acc.from_gaussian(sigma=1.0).epsilon(0.0).upper == math.inf


def test_epsilon_on_an_atom() -> None:
    loss = acc.from_randomized_response(epsilon=0.25) * 40  # multiples of 0.5, exactly
    p = 1 / (1 + mp.e ** mp.mpf(-0.25))
    for eps in (0.0, 0.5, 3.0, 9.5):
        truth = mp.fsum(
            mp.binomial(40, j) * p**j * (1 - p) ** (40 - j) * (1 - mp.e ** (eps - (2 * j - 40) * mp.mpf(0.25)))
            for j in range(41)
            if (2 * j - 40) * 0.25 > eps
        )
        assert check_bracket(loss.delta(eps), truth, 30) <= SPECTRAL_WIDTH


# ---------------------------------------------------------------------------------------- inverse, tails, moments

LOSSES = {
    "gaussian": acc.from_gaussian(sigma=20.0) * 400,
    "laplace": acc.from_laplace(epsilon=0.05) * 1000,
    "few laplace": acc.from_laplace(epsilon=0.5) * 3,
    "randomised response": acc.from_randomized_response(epsilon=0.1) * 1000,
    "subsampled": acc.from_subsampled_gaussian(sigma=1.0, rate=0.01) * 1000,
    "mixed": acc.from_laplace(epsilon=0.3) * 5 + acc.from_gaussian(sigma=5.0) * 10 + acc.from_pure(epsilon=0.2),
    "discrete": acc.from_discrete_gaussian(sigma=10.0) * 50,
    "infinite": acc.from_approximate(epsilon=0.1, delta=1e-9) * 10 + acc.from_gaussian(sigma=3.0),
}


@pytest.mark.parametrize("name", LOSSES)
def test_epsilon_inverts_delta(name: str) -> None:
    loss = LOSSES[name]
    for delta in (0.3, 1e-3, 1e-7):
        eps = loss.epsilon(delta)
        assert eps.lower <= eps.upper < math.inf
        # Safe side: re-evaluated. Other side: cannot be improved.
        assert loss.delta(eps.upper).upper <= delta * (1 + 1e-12)
        if eps.lower > 0:
            assert loss.delta(eps.lower).lower >= delta * (1 - 1e-12)
        assert eps.width <= 1e-3 * max(eps.upper, 1e-3)


@pytest.mark.parametrize("name", ["gaussian", "laplace", "randomised response", "mixed", "few laplace"])
def test_engines_agree(name: str) -> None:
    loss = LOSSES[name]
    for eps in (0.2, 1.0):
        spectral, buckets = (loss.delta(eps, engine=e) for e in ("spectral", "buckets"))
        assert spectral.lower <= buckets.upper
        assert buckets.lower <= spectral.upper
        assert buckets.upper / buckets.lower - 1 <= BUCKET_WIDTH


def bucket_mixtures() -> list[tuple[acc.PrivacyLoss, float]]:
    p, q = [0.2, 0.3, 0.1, 0.4], [0.21, 0.28, 0.115, 0.395]
    gaussian, laplace = acc.from_discrete_gaussian, acc.from_laplace
    return [
        (gaussian(sigma=20.0, sensitivity=1) * 52 + gaussian(sigma=30.0, sensitivity=1) * 12, 2.0),
        (gaussian(sigma=71.0, sensitivity=3) * 2543 + gaussian(sigma=5.0, sensitivity=1) * 3, 9.0),
        (acc.from_randomized_response(epsilon=0.00035) * 29096 + acc.from_pure(epsilon=0.0117) * 3375, 0.92),
        (acc.from_approximate(epsilon=0.049, delta=1e-12) * 32 + acc.from_pmf(p, q) * 500, 1.0),
        (acc.from_pmf(p, q) * 3000, 7.5),
        (laplace(epsilon=0.027) * 520 + laplace(epsilon=0.02346927672809387) * 15680, 64.3),
        (laplace(epsilon=0.021) * 94 + acc.from_discrete_laplace(scale=500.0, sensitivity=2) * 12883, 1.6),
        (acc.from_subsampled_gaussian(sigma=0.5, rate=0.0016) * 4, 0.4444),
        (acc.from_subsampled_gaussian(sigma=0.52, rate=0.0087) * 909, 30.1),
        (acc.from_subsampled_gaussian(sigma=6.9, rate=0.001) * 4000 + acc.from_gaussian(sigma=190.0) * 65190, 5.0),
    ]


@pytest.mark.parametrize("number", range(10))
def test_bucket_width_of_atoms_between_the_points(number: int) -> None:
    # Lower lists were off to first order in the step: by 1e-3 to several times the truth.
    loss, eps = bucket_mixtures()[number]
    exact, grid = loss.delta(eps), loss.delta(eps, engine="buckets")
    assert grid.lower <= exact.upper
    assert exact.lower <= grid.upper
    assert grid.upper / grid.lower - 1 <= BUCKET_WIDTH


def test_bucket_epsilon_is_safe() -> None:
    loss = LOSSES["gaussian"]
    exact, grid = loss.epsilon(1e-6), loss.epsilon(1e-6, engine="buckets")
    assert grid.lower <= exact.upper
    assert exact.lower <= grid.upper
    assert grid.width <= 1e-3


@pytest.mark.parametrize("epsilon0", [0.5, 1.0, 20.0, 400.0])
@pytest.mark.parametrize("copies", [1, 2, 5])
def test_confidence_just_below_an_atom(epsilon0: float, copies: int) -> None:
    # Near the smallest loss the contour lies far out, where e^(-c d) overflows: the tail there is an atom, not 0.
    loss = acc.from_randomized_response(epsilon=epsilon0) * copies
    with mp.workdps(40):
        keep = 1 / (1 + mp.exp(-mp.mpf(epsilon0)))
        for share in (0.9, 0.995, 0.999, 1 - 1e-6, 1 - 1e-9):
            epsilon = copies * epsilon0 * share
            exact = mp.fsum(
                mp.binomial(copies, k) * keep**k * (1 - keep) ** (copies - k)
                for k in range(copies + 1)
                if abs(2 * k - copies) * epsilon0 <= epsilon
            )
            bounds = loss.confidence(epsilon)
            assert bounds.lower <= exact <= bounds.upper
            if epsilon0 < 100:
                assert bounds.width < 1e-4


def test_confidence() -> None:
    single = acc.from_laplace(epsilon=1.0)
    truth = mp.e ** mp.mpf(-0.5) * mp.sinh(mp.mpf(0.6) / 2)
    check_bracket(single.confidence(0.6), truth, 30)
    assert single.confidence(1.0) == acc.Bounds(1.0, 1.0)
    # Gaussian: L ~ Normal(rho, 2 rho)
    loss, rho = acc.from_gaussian(sigma=20.0) * 400, mp.mpf(1) / 2
    for eps in (0.01, 1.0, 5.0):
        truth = mp.ncdf(eps, rho, 1) - mp.ncdf(-eps, rho, 1)
        bounds = loss.confidence(eps)
        check_bracket(bounds, truth, 30)
        assert bounds.width <= 1e-12
    # randomised response: a binomial, atoms included on both ends
    loss = acc.from_randomized_response(epsilon=0.25) * 100
    p = 1 / (1 + mp.e ** mp.mpf(-0.25))
    for eps in (1.0, 1.2, 5.0):
        truth = mp.fsum(
            mp.binomial(100, j) * p**j * (1 - p) ** (100 - j)
            for j in range(101)
            if abs((2 * j - 100) * 0.25) <= eps
        )
        bounds = loss.confidence(eps)
        check_bracket(bounds, truth, 30)
        assert bounds.width <= 1e-11
    # a composition with atoms off any lattice
    bounds = (acc.from_laplace(epsilon=0.05) * 1000).confidence(3.0)
    assert 0 < bounds.lower <= bounds.upper < 1
    assert bounds.width < 1e-4


def subsampled_confidence(sigma: float, rate: float, direction: str, eps: float) -> mp.mpf:
    """Pr[|L| <= eps] of one step: the outputs x between those of losses -eps and eps."""
    s, q = mp.mpf(sigma), mp.mpf(rate)
    place = lambda loss: mp.mpf(1) / 2 + s**2 * mp.log1p(mp.expm1(loss) / q)  # noqa: E731
    high, low = place(mp.mpf(eps)), -mp.inf if -mp.expm1(-mp.mpf(eps)) >= q else place(-mp.mpf(eps))
    inside = lambda mean: mp.ncdf((high - mean) / s) - mp.ncdf((low - mean) / s)  # noqa: E731
    return inside(0) if direction == "add" else (1 - q) * inside(0) + q * inside(1)


def test_confidence_of_one_subsampled_release() -> None:
    """Closed form; before, rates below 1e-100 took seconds and said nothing (found by the fuzzer)."""
    rng = np.random.default_rng(5)
    rates = [5e-324, 1e-280, 1e-16, 1e-3, 0.01, 0.3, 0.5, 0.999, *(10 ** rng.uniform(-12, 0, 20))]
    with mp.workdps(60):
        for rate in rates:
            for sigma in (0.05, 0.7, 3.0, 1e3, 1e6):
                for eps in (
                    1e-300,
                    1e-9,
                    max(rate, 1e-300) * float(rng.uniform(1.1, 2)),
                    0.01,
                    0.5,
                    3.0,
                    300.0,
                    1e5,
                ):
                    for direction in ("add", "remove"):
                        loss = acc.from_subsampled_gaussian(sigma=sigma, rate=rate, neighbours=direction)
                        bounds = loss.confidence(eps)
                        truth = subsampled_confidence(sigma, rate, direction, eps)
                        assert bounds.lower <= truth <= bounds.upper, (sigma, rate, eps, direction, bounds)
                        # The rounding of x at sigma 10^6 is 10^6 roundings of x/sigma.
                        assert (
                            bounds.upper - bounds.lower
                            < 1e-13 + 1e-14 * sigma * abs(math.log(rate)) + 1e-15 * eps * sigma
                        )


def test_confidence_of_one_discrete_laplace_release() -> None:
    """Against the sum over the outputs in exact order; losses that equal epsilon count as within."""
    for scale, shift in ((0.5, 1), (0.5, 4), (2.0, 7), (0.90625, 100), (1e-3, 3), (1e6, 10)):
        q = mp.exp(-1 / mp.mpf(scale))
        for epsilon in (
            0.0,
            0.25 / scale,
            1 / scale,
            2 / scale,
            2.5 / scale,
            (shift - 1) / scale,
            2 * shift / scale,
        ):
            reach = Fraction(epsilon) * Fraction(scale)
            truth = mp.mpf(0)
            for x in range(shift + 1):
                mass = 1 / (1 + q) if x == 0 else q**shift / (1 + q) if x == shift else (1 - q) / (1 + q) * q**x
                truth += mass if abs(shift - 2 * x) <= reach else 0
            truth = mp.mpf(1) if reach >= shift else truth  # all of it, without the sum's rounding
            bounds = acc.from_discrete_laplace(scale=scale, sensitivity=shift).confidence(epsilon)
            assert bounds.lower <= truth <= bounds.upper, (scale, shift, epsilon, bounds, truth)
            assert bounds.upper - bounds.lower <= 1e-13 * truth + 1e-13 * truth / scale * shift + 1e-320


def test_one_release_with_many_atoms_takes_no_quadratic_time() -> None:
    loss = acc.from_discrete_laplace(scale=0.90625, sensitivity=262_144)  # once six minutes; found by the fuzzer
    assert loss.delta(0.5).lower > 1 - 1e-9
    assert loss.confidence(0.5).upper < 1e-300
    assert loss.epsilon(1e-6).upper == pytest.approx(262_144 / 0.90625)


@pytest.mark.parametrize("rate", [1e-280, 1e-17, 1e-16])
def test_confidence_of_hardly_ever_sampled_steps(rate: float) -> None:
    bounds = (acc.from_subsampled_gaussian(sigma=2.0, rate=rate) * 120).confidence(1.0)
    assert bounds.upper == 1.0
    assert 1.0 - 1e-12 <= bounds.lower < 1.0  # each step's closed form leaves a few roundings


def response_confidence(e: float, copies: int, eps: float) -> mp.mpf:
    """Pr[|L| <= eps] of randomised response; which sums are within eps is decided in exact arithmetic."""
    p = 1 / (1 + mp.e ** mp.mpf(-e))
    return mp.fsum(
        mp.binomial(copies, j) * p**j * (1 - p) ** (copies - j)
        for j in range(copies + 1)
        if abs((2 * j - copies) * Fraction(e)) <= Fraction(eps)
    )


def test_confidence_next_to_the_ends_of_a_lattice() -> None:
    # Just below the largest loss the best contour runs off to infinity: overflow must not pass for probability 0.
    for e, copies in (
        (0.05, 8),
        (0.8935048396274173, 19),
        (4.623591052988786, 3),
        (1e-6, 2),
        (0.004916818556443201, 14),
    ):
        loss = acc.from_randomized_response(epsilon=e) * copies
        for eps in (copies * e * (1 - 3e-4), copies * e * (1 - 1e-12), copies * e, 2 * e, e, 0.0):
            bounds = loss.confidence(eps)
            check_bracket(bounds, response_confidence(e, copies, eps), 35)
            assert bounds.width < 1e-12


def test_delta_next_to_the_largest_loss() -> None:
    e, copies = 2.3185608024386144, 37
    p = 1 / (1 + mp.e ** mp.mpf(-e))
    for share in (1e-3, 1e-8, 1e-13, 1.2e-16):
        eps = copies * e * (1 - share)
        truth = p**copies * -mp.expm1(mp.mpf(eps) - copies * mp.mpf(e))
        assert truth > 0
        loss = acc.from_randomized_response(epsilon=e) * copies
        for engine in ("auto", "spectral", "buckets"):
            check_bracket(loss.delta(eps, engine=engine), truth, 30)
        assert loss.delta(eps).upper / loss.delta(eps).lower < 1.05


def test_small_infinite_masses_are_kept() -> None:
    tiny = acc.from_pmf([0.5, 0.5 + 1e-10, 1e-30], [0.5, 0.5, 0.0])
    for copies in (1, 3):
        # Sum over the three-outcome vectors with at least one infinite loss; the total is not exactly one.
        total, finite = (
            sum(map(Fraction, w), Fraction(0)) for w in ([0.5, 0.5 + 1e-10, 1e-30], [0.5, 0.5 + 1e-10])
        )
        truth = total**copies - finite**copies
        bounds = (tiny * copies).delta(5.0)
        assert Fraction(bounds.lower) <= truth <= Fraction(bounds.upper)
        assert bounds.upper <= bounds.lower * (1 + 1e-12)
        assert (tiny * copies).epsilon(1e-31).lower == math.inf
    for certain in (acc.from_pmf([0.0, 1.0], [1.0, 0.0]), acc.from_approximate(epsilon=1.0, delta=1.0)):
        assert certain.epsilon(0.5) == acc.Bounds(math.inf, math.inf)
        assert certain.confidence(3.0) == acc.Bounds(0.0, 0.0)


@pytest.mark.parametrize(("scale", "shift", "copies"), [(50.0, 40, 3), (3.5, 2, 40), (0.3, 5, 7), (300.0, 150, 2)])
def test_discrete_laplace_of_any_sensitivity(scale: float, shift: int, copies: int) -> None:
    e = 1 / mp.mpf(scale)
    end = 1 / (1 + mp.e**-e)
    one = [end] + [mp.tanh(e / 2) * mp.e ** (-e * x) for x in range(1, shift)] + [end * mp.e ** (-e * shift)]
    masses = [mp.mpf(1)]
    for _ in range(copies):
        masses = [
            mp.fsum(masses[j] * one[i - j] for j in range(max(0, i - shift), min(len(masses), i + 1)))
            for i in range(len(masses) + shift)
        ]
    loss = acc.from_discrete_laplace(scale=scale, sensitivity=shift) * copies
    top = copies * shift / scale
    for eps in (0.0, 0.1 * top, 0.5 * top, 0.97 * top):
        losses = [e * (copies * shift - 2 * i) for i in range(len(masses))]
        truth = mp.fsum(m * -mp.expm1(eps - l) for m, l in zip(masses, losses, strict=True) if l > eps)
        for engine in ("auto", "spectral", "buckets"):
            check_bracket(loss.delta(eps, engine=engine), truth, 30)
        assert loss.delta(eps).upper <= loss.delta(eps).lower * (1 + SPECTRAL_WIDTH)


def test_large_sensitivity_costs_nothing() -> None:
    # 10^6 inner losses are a geometric series, not a sum: this would take minutes otherwise.
    fine = acc.from_discrete_laplace(scale=2e7, sensitivity=10**6) * 1000
    smooth = acc.from_laplace(epsilon=0.05) * 1000
    assert fine.delta(5.0).upper == pytest.approx(smooth.delta(5.0).upper, rel=1e-4)


def test_little_gaussian_noise_beside_atoms() -> None:
    # The atoms' characteristic function comes back again and again; only the Gaussian part ends the integral.
    e, copies, sigma, releases = 0.18964168263136907, 126, 24.5, 3
    loss = acc.from_randomized_response(epsilon=e) * copies + acc.from_gaussian(sigma=sigma) * releases
    p, rho = 1 / (1 + mp.e ** mp.mpf(-e)), releases / (2 * mp.mpf(sigma) ** 2)
    deviation = mp.sqrt(2 * rho)
    for eps in (2.5, 11.1):
        truth = mp.mpf(0)
        for j in range(copies + 1):
            at = eps - (2 * j - copies) * mp.mpf(e)
            x = (rho - at) / deviation
            one = mp.ncdf(x) - mp.e**at * mp.ncdf(x - deviation)
            truth += math.comb(copies, j) * p**j * (1 - p) ** (copies - j) * one
        for engine in ("auto", "spectral"):
            assert check_bracket(loss.delta(eps, engine=engine), truth, 25) <= SPECTRAL_WIDTH


def test_enumeration_of_many_copies() -> None:
    # C(n, j) p^j alone overflows here.
    a, b, n, m = 0.5, 0.17320508, 3000, 5
    loss = acc.from_randomized_response(epsilon=a) * n + acc.from_randomized_response(epsilon=b) * m
    p, q = (1 / (1 + mp.e ** mp.mpf(-x)) for x in (a, b))
    first = [math.comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(n + 1)]
    second = [mp.binomial(m, j) * q**j * (1 - q) ** (m - j) for j in range(m + 1)]
    for eps in (400.0,):
        truth = mp.fsum(
            x * y * -mp.expm1(eps - l)
            for i, x in enumerate(first)
            for j, y in enumerate(second)
            if (l := (2 * i - n) * mp.mpf(a) + (2 * j - m) * mp.mpf(b)) > eps
        )
        bounds = loss.delta(eps)
        assert check_bracket(bounds, truth, 30) <= SPECTRAL_WIDTH


def test_confidence_of_masses_that_miss_one() -> None:
    # p and q add up to 1 + 1.7e-16 and 1 + 1e-16: with 10^5 copies the total is off by 1e-11, not a chance.
    p = [0.06286891660574744, 0.3011099207884929, 0.34574938801229727, 0.17045574976278388, 0.11981602483067867]
    q = [0.2721774587062604, 0.07867182867634412, 0.14003544153032157, 0.4627787502172391, 0.04633652086983491]
    pair = acc.from_pmf(p, q)
    with mp.workdps(50):  # Chernoff at 1/2; the others add at most 0.18 to the loss
        root = mp.fsum(mp.sqrt(mp.mpf(x) * y) for x, y in zip(p, q, strict=True))
        for copies, other in (
            (1000, acc.from_approximate(epsilon=0.0027, delta=1.2494806320795348e-14) * 65),
            (100_000, acc.from_randomized_response(epsilon=0.0027) * 65),
        ):
            loss = pair * copies + other
            for eps in (0.0, 1.0, 1.58):
                found = loss.confidence(eps)
                assert found.lower <= mp.exp((eps + 0.18) / 2) * root**copies
                assert found.upper <= 1.0
    other = acc.from_pmf(
        [0.32811230133413927, 0.6012490316982172, 0.0706386669676437],
        [0.4815437659898468, 0.20314012938047607, 0.3153161046296773],
    )
    for copies in (1, 64, 10_000, 1_000_000):  # no loss is beyond
        found = (other * copies).confidence(2 * (other * copies).max_loss)
        assert 1.0 - 1e-14 - 4e-16 * copies <= found.lower <= 1.0 == found.upper


def test_next_to_a_sum_of_losses_their_rounding_counts() -> None:
    # Three atoms that share no lattice, in doubles that are exact; the largest sum is a few units in the last
    # place above epsilon, so that delta is as uncertain as the sum of rounded logarithms is.
    p, q = [0.5, 0.3125, 0.1875], [0.21875, 0.375, 0.40625]
    loss = acc.from_pmf(p, q)
    for copies in (3, 7, 9, 12):
        with mp.workdps(60):
            top = copies * mp.log(mp.mpf(p[0]) / q[0])
            for below in range(5):
                epsilon = float(top) - below * math.ulp(float(top))
                truth = mp.mpf(p[0]) ** copies * max(mp.mpf(0), -mp.expm1(epsilon - top))
                # The other direction's largest sum is smaller: nothing of it is left there.
                bounds = (loss * copies).delta(epsilon)
                assert bounds.lower <= truth <= bounds.upper, (copies, below)
                assert bounds.upper < 1e-13


def test_moments() -> None:
    assert (acc.from_gaussian(sigma=2.0) * 8).mean == pytest.approx(1.0, rel=1e-14)
    assert (acc.from_gaussian(sigma=2.0) * 8).variance == pytest.approx(2.0, rel=1e-14)
    e = 0.7
    assert acc.from_laplace(epsilon=e).mean == pytest.approx(e - 1 + math.exp(-e), rel=1e-12)
    square = float(
        mp.e ** mp.mpf(-e) / 2 * e**2
        + mp.mpf(e) ** 2 / 2
        + mp.quad(lambda l: l**2 * mp.e ** ((l - e) / 2) / 4, [-e, e])
    )
    variance = square - (e - 1 + math.exp(-e)) ** 2
    assert acc.from_laplace(epsilon=e).variance == pytest.approx(variance, rel=1e-10)
    assert acc.from_randomized_response(epsilon=e).mean == pytest.approx(e * math.tanh(e / 2), rel=1e-12)
    for small in (1e-9, 3e-5, 1e-4, 2e-3):  # both sides of where the series takes over
        x = mp.mpf(small)
        mean = x - 1 + mp.e**-x
        second = x**2 / 2 * (1 + mp.e**-x) + mp.quad(lambda l, x=x: l**2 * mp.e ** ((l - x) / 2) / 4, [-x, x])
        assert acc.from_laplace(epsilon=small).mean == pytest.approx(float(mean), rel=1e-10, abs=0.0)
        assert acc.from_laplace(epsilon=small).variance == pytest.approx(
            float(second - mean**2), rel=1e-10, abs=0.0
        )


# ---------------------------------------------------------------------------------------- properties


@settings(max_examples=30, deadline=None)
@given(st.floats(0.01, 1.0), st.floats(0.5, 30.0), st.integers(1, 500), st.integers(1, 500), st.floats(0.0, 10.0))
def test_composition_is_addition(e: float, sigma: float, j: int, k: int, eps: float) -> None:
    a, b = acc.from_laplace(epsilon=e), acc.from_gaussian(sigma=sigma)
    left = (a * j + b) + a * k
    right = acc.compose([b, a * (j + k)])
    assert left.delta(eps) == right.delta(eps)
    # More releases never lose less; more epsilon never needs more delta.
    assert (right + a).delta(eps).upper >= right.delta(eps).lower
    assert right.delta(eps + 0.1).lower <= right.delta(eps).upper


def test_scalars_and_arrays_agree() -> None:
    loss = LOSSES["mixed"]
    grid = np.array([[0.0, 0.5], [1.0, 3.0]])
    together = loss.delta(grid)
    assert together.lower.shape == (2, 2)
    for index in np.ndindex(2, 2):
        alone = loss.delta(float(grid[index]))
        assert (together.lower[index], together.upper[index]) == (alone.lower, alone.upper)
    assert isinstance(loss.delta(1).lower, float)
    assert float(loss.delta(1.0)) == loss.delta(1.0).upper
    assert together.width.shape == (2, 2)


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_save_and_load(tmp_path: pathlib.Path, suffix: str) -> None:
    loss = acc.compose(
        [*LOSSES.values(), acc.from_pmf([0.1, 0.9], [0.3, 0.7]) * 3, acc.from_discrete_laplace(scale=2.5)]
    )
    acc.save(loss, tmp_path / f"loss{suffix}")
    again = acc.load(tmp_path / f"loss{suffix}")
    assert again == loss
    assert hash(again) == hash(loss)
    assert again.log_delta(30.0) == loss.log_delta(30.0)
    with pytest.raises(ValueError, match=r"\.json or \.npz"):
        acc.save(loss, tmp_path / "loss.pkl")


def test_damaged_files_are_refused(tmp_path: pathlib.Path) -> None:
    """With the name of the file and a reason in plain words; not those of zipfile, zlib or pickle."""
    good = acc.from_pmf([0.5, 0.5], [0.25, 0.75]).to_dict()
    text = json.dumps(good)
    twice = text[:-1] + ', "mechanisms": []}'  # of which Python would take the last, no mechanism
    for content, reason in (
        (b"\xff\xfe\x00", "it is not UTF-8 text"),
        (b"", "it is not JSON (Expecting value"),
        (b"{bad", "it is not JSON"),
        (text[:60].encode(), "it is not JSON"),
        (b"[" * 100_000, "it is nested too deeply"),
        (b"[]", "data must be a dict whose 'format' is"),
        (b"3", "data must be a dict whose 'format' is"),
        (twice.encode(), "'mechanisms' is given twice"),
        (json.dumps({**good, "mechanisms": [3]}).encode(), "mechanisms[0]: a mechanism must be a dict, got 3"),
        (json.dumps({**good, "version": 7}).encode(), "version must be 1, got 7"),
        (text.replace("0.75", "0.8").encode(), "mechanisms[0]: q must sum to 1 within 1e-09, got 1.05"),
        (text.replace('"q"', '"r"').encode(), "mechanisms[0]: pmf has no 'r'; it has p, q"),
        (text.replace("0.75", "[]").encode(), "mechanisms[0]: q must be a rectangular array"),
    ):
        (tmp_path / "loss.json").write_bytes(content)
        with pytest.raises(ValueError, match=r"loss\.json is not a saved PrivacyLoss: ") as failed:
            acc.load(tmp_path / "loss.json")
        assert reason in str(failed.value)

    def saved(**arrays: np.ndarray) -> bytes:
        stream = io.BytesIO()
        np.savez(stream, **arrays)  # type: ignore[arg-type]
        return stream.getvalue()

    rows = [{"mechanism": "pmf", "p": "p9", "q": "q9", "copies": 1}]
    nine = np.array(json.dumps({**good, "mechanisms": rows}))
    half, objects = np.full(2, 0.5), np.array([{}], dtype=object)
    whole = saved(description=nine, p9=half, q9=half)
    assert len(whole) > 600
    flipped = whole.replace(b"\x00\x00\xe0\x3f", b"\x00\x00\xe1\x3f")  # 0.5
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("description", b"text")
    no_array = stream.getvalue()
    with zipfile.ZipFile(stream := io.BytesIO(), "w") as archive:
        archive.writestr("description.npy", b"\x93NUMPY\x01\x00\x10\x00{'descr': ((((((")
    bad_header = stream.getvalue()
    np.save(stream := io.BytesIO(), half)
    one_array = stream.getvalue()
    for content, reason in (
        (b"", "it is not an npz file"),
        (b"not a zip", "it is not an npz file"),
        (one_array, "it is not an npz file"),
        (pickle.dumps([1]), "it is not an npz file"),
        (whole[:60], "the archive is cut off or damaged"),
        (whole[:-30], "the archive is cut off or damaged"),
        (flipped, "the array 'p9' in the archive is damaged"),
        (bad_header, "the array 'description' in the archive is damaged"),
        (no_array, "'description' in the archive is not an array"),
        (saved(x=half), "the archive holds no array 'description'"),
        (saved(description=objects), "the array 'description' in the archive holds Python objects"),
        (saved(description=nine, p9=half), "the archive holds no array 'q9'"),
        (saved(description=nine, p9=half, q9=objects), "the array 'q9' in the archive holds Python objects"),
        (saved(description=nine, p9=half, q9=half * 1j), "mechanisms[0]: q must be a real number or an array"),
        (saved(description=nine, p9=half, q9=np.array(["a"])), "mechanisms[0]: q must be a real number"),
        (saved(description=half), "it is not JSON"),
        (saved(description=np.array(twice)), "'mechanisms' is given twice"),
        (saved(description=np.array("[1, 2]")), "data must be a dict whose 'format' is"),
        (saved(description=np.array(json.dumps({**good, "mechanisms": [3]}))), "mechanisms[0]: a mechanism"),
    ):
        (tmp_path / "loss.npz").write_bytes(content)
        with pytest.raises(ValueError, match=r"loss\.npz is not a saved PrivacyLoss: ") as failed:
            acc.load(tmp_path / "loss.npz")
        assert reason in str(failed.value)
    with pytest.raises(FileNotFoundError):
        acc.load(tmp_path / "missing.json")


def test_no_damage_of_an_archive_is_another_error(tmp_path: pathlib.Path) -> None:
    """Every cut, and every byte overwritten, of a small file: it loads, or says that it is none."""
    file = tmp_path / "loss.npz"
    acc.save(acc.from_pmf([0.5, 0.5], [0.25, 0.75]), file)
    whole, refused = file.read_bytes(), 0
    damaged = [whole[:length] for length in range(len(whole))]
    damaged += [whole[:i] + bytes([whole[i] ^ 0xFF]) + whole[i + 1 :] for i in range(len(whole))]
    for content in damaged:
        file.write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                acc.load(file)
            except ValueError as error:
                assert "loss.npz is not a saved PrivacyLoss: " in str(error)  # noqa: PT017
                refused += 1
    assert refused > len(damaged) // 2


def test_loading_checks_values() -> None:
    good = (acc.from_laplace(epsilon=1.0) * 2).to_dict()
    for key, value in (("copies", -1), ("epsilon", "x"), ("mechanism", "nothing"), ("extra", 1)):
        bad = json.loads(json.dumps(good))
        bad["mechanisms"][0][key] = value
        with pytest.raises((ValueError, TypeError)):
            acc.PrivacyLoss.from_dict(bad)
    for bad in ({}, {**good, "version": 2}, {**good, "mechanisms": 1}, {**good, "mechanisms": [1]}):
        with pytest.raises(ValueError, match=r"must|mechanism"):
            acc.PrivacyLoss.from_dict(bad)


# ------------------------------------------------------------------------------------ Gaussians only


def test_gaussian_compositions_at_any_scale() -> None:
    """Sums of Gaussian losses against the analytic formula at 320 digits: bracketed, and tight."""
    parts_of = (
        [(1.0, 1)],
        [(20.0, 400)],
        [(0.1, 1)],
        [(1e-3, 7)],
        [(3.0, 10), (5.0, 4), (0.7, 1)],
        [(1e3, 10**9)],
        [(1e100, 10**6), (3e99, 5)],
        [(1e-100, 3), (1.0, 1)],
        [(1e100, 1), (0.3, 2)],
    )
    with mp.workdps(320):

        def phi(x: mp.mpf) -> mp.mpf:
            return mp.erfc(-x / mp.sqrt(2)) / 2

        for parts in parts_of:
            loss = sum(
                (acc.from_gaussian(sigma=s) * k for s, k in parts[1:]),
                acc.from_gaussian(sigma=parts[0][0]) * parts[0][1],
            )
            mu = mp.sqrt(sum(k / mp.mpf(s) ** 2 for s, k in parts))
            scales = [
                0.0,
                *(float(mu * (mu / 2 + c)) for c in (-30, -3, -0.5, 0, 0.01, 1, 4, 9, 36)),
                float(mu * mp.mpf("1e-5")),
            ]
            for eps in (e for e in scales if e >= 0.0):
                near, far = mp.mpf(eps) / mu - mu / 2, mp.mpf(eps) / mu + mu / 2
                truth = phi(-near) - mp.exp(eps) * phi(-far)
                log = loss.log_delta(eps)
                assert log.lower <= mp.log(truth) <= log.upper
                # rho is known to some roundings: they count as near times far, and squared at near = 0.
                rounding = 4e-15 * abs(log.lower) + float(1e-14 * max(abs(near), 1) * far + (2e-15 * far) ** 2)
                assert log.upper - log.lower <= 3e-13 + rounding
                inside = phi(near) - phi(-far)
                confidence = loss.confidence(eps)
                assert confidence.lower <= inside <= confidence.upper
                assert confidence.upper - confidence.lower <= min(1.0, 1e-14 + 2e-15 * float(far))
                if 1e-300 < truth < 0.9:
                    answer = loss.epsilon(float(truth))
                    d_low, d_high = (
                        phi(mu / 2 - e / mu) - mp.exp(e) * phi(-e / mu - mu / 2)
                        for e in (mp.mpf(answer.lower), mp.mpf(answer.upper))
                    )
                    assert d_high <= mp.mpf(float(truth))
                    assert d_low >= mp.mpf(float(truth)) or answer.lower == 0.0
                    assert answer.upper - answer.lower <= 1e-11 * answer.upper + 1e-11 * float(mu)


# ---------------------------------------------------------------------------------------- buckets


def test_buckets_keep_all_mass_and_bound_delta() -> None:
    loss = acc.from_gaussian(sigma=2.0)
    grid = loss.buckets(step=0.01)
    for masses in (grid.upper, grid.lower):
        total = masses["mass"].sum() + masses["infinite"] + masses["above"] + masses["below"]
        assert total == pytest.approx(1.0, rel=1e-11)
    four = grid.self_compose(4)
    coarse = four.coarsen()
    assert coarse.step == 2 * grid.step
    for eps in (0.0, 0.7, 2.0):
        truth = (loss * 4).delta(eps)
        for buckets, width in ((four, 1e-3), (coarse, 0.1)):
            bounds = buckets.delta(eps)
            assert bounds.lower <= truth.upper
            assert bounds.upper >= truth.lower
            assert bounds.upper / bounds.lower - 1 < width
    cut = loss.buckets(step=0.01, low=-0.5, high=1.0)
    assert cut.upper["above"] > 0
    assert cut.lower["below"] > 0
    assert cut.delta(0.3).lower <= loss.delta(0.3).upper
    assert cut.delta(0.3).upper >= loss.delta(0.3).lower
    assert "Buckets(" in repr(cut)


@pytest.mark.parametrize("cut", [False, True])
def test_coarse_grids_bound_closed_forms(cut: bool) -> None:
    # Wide steps, cut ends, coarsened again and again: looser, never wrong.
    def one_gaussian(sigma: float, eps: float) -> mp.mpf:
        s = mp.mpf(sigma)
        return mp.ncdf(1 / (2 * s) - eps * s) - mp.e ** mp.mpf(eps) * mp.ncdf(-1 / (2 * s) - eps * s)

    for sigma in (0.4, 0.73, 1.77, 4.0):
        loss, mean, deviation = acc.from_gaussian(sigma=sigma), 0.5 / sigma**2, 1 / sigma
        for share in (0.05, 0.19, 0.34, 1.1, 2.5):
            ends = {"low": mean - 1.3 * deviation, "high": mean + 0.9 * deviation} if cut else {}
            grid = loss.buckets(step=share * deviation, **ends)
            for _ in range(4):
                for eps in (0.0, 0.4 * deviation, mean, mean + deviation, mean + 2.5 * deviation):
                    bounds = grid.delta(eps)
                    assert bounds.lower <= one_gaussian(sigma, eps) <= bounds.upper
                grid = grid.coarsen()


def test_bucket_memory_is_refused_beforehand() -> None:
    with pytest.raises(ValueError, match=r"would need .* buckets"):
        (acc.from_gaussian(sigma=1.0) * 100).delta(1.0, engine="buckets", step=1e-8)
    with pytest.raises(ValueError, match=r"would need .* buckets"):
        acc.from_gaussian(sigma=1.0).buckets(step=1e-9)


def test_named_step() -> None:
    loss = acc.from_laplace(epsilon=0.05) * 1000
    truth = mp.mpf("0.002796577759642328749433105")
    wide, narrow = (loss.delta(5.0, engine="buckets", step=s) for s in (1e-3, 2.5e-4))
    assert check_bracket(narrow, truth) < check_bracket(wide, truth)
    with pytest.raises(ValueError, match="step needs engine='buckets'"):
        loss.delta(5.0, step=1e-3)


# ---------------------------------------------------------------------------------------- calibration


def test_calibrate_matches_the_gaussian_formula() -> None:
    from dpcore import gaussian

    found = acc.calibrate(
        lambda s: acc.from_gaussian(sigma=s) * 100, epsilon=1.0, delta=1e-6, parameter_range=(0.1, 1000.0)
    )
    exact = gaussian.sigma(epsilon=1.0, delta=1e-6, compositions=100)
    assert exact * (1 - 1e-12) <= found.parameter <= exact * (1 + 1e-8)
    assert found.delta_upper <= 1e-6
    assert float(found) == found.parameter
    assert "differentially private" in found.statement
    # A budget grows the other way.
    budget = acc.calibrate(
        lambda e: acc.from_laplace(epsilon=e) * 100, epsilon=1.0, delta=1e-6, parameter_range=(1e-4, 1.0)
    )
    assert (acc.from_laplace(epsilon=budget.parameter) * 100).delta(1.0).upper <= 1e-6
    assert (acc.from_laplace(epsilon=budget.parameter * 1.0001) * 100).delta(1.0).lower > 1e-6


@pytest.mark.parametrize("ends", [(0.999, 1.5), (0.3, 1.001), (1e-3, 1e3), (0.9, 1e6), (1e-6, 1.1), (0.5, 1.7)])
def test_calibrate_finds_the_root_anywhere_in_the_range(ends: tuple[float, float]) -> None:
    from dpcore import gaussian

    for delta in (0.3, 1e-6, 1e-200):
        exact = gaussian.sigma(epsilon=0.7, delta=delta)  # the smallest double that satisfies the target
        span = (exact * ends[0], exact * ends[1])
        asked = {"epsilon": 0.7, "delta": delta}
        found = acc.calibrate(lambda s: acc.from_gaussian(sigma=s), **asked, parameter_range=span)
        assert exact <= found.parameter <= exact * (1 + 3e-9)
        assert found.evaluations <= 30
        span = (1 / span[1], 1 / span[0])
        found = acc.calibrate(lambda s: acc.from_gaussian(sigma=1 / s), **asked, parameter_range=span)
        assert exact <= 1 / found.parameter <= exact * (1 + 3e-9)


def test_calibrate_edges() -> None:
    def make_loss(s: float) -> acc.PrivacyLoss:
        return acc.from_gaussian(sigma=s)

    assert acc.calibrate(make_loss, epsilon=1.0, delta=1e-6, parameter_range=(50.0, 60.0)).parameter == 50.0
    with pytest.raises(ValueError, match="no parameter"):
        acc.calibrate(make_loss, epsilon=1.0, delta=1e-6, parameter_range=(0.1, 0.2))
    with pytest.raises(ValueError, match="increasing"):
        acc.calibrate(make_loss, epsilon=1.0, delta=1e-6, parameter_range=(2.0, 1.0))
    with pytest.raises(TypeError, match="must return a PrivacyLoss"):
        acc.calibrate(lambda s: s, epsilon=1.0, delta=1e-6, parameter_range=(1.0, 2.0))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="increasing must be True here"):
        acc.calibrate(make_loss, epsilon=1.0, delta=0.1, parameter_range=(0.1, 10.0), increasing=False)
    with pytest.raises(ValueError, match=r"the loss is unbounded at the lower and unbounded at the upper end$"):
        acc.calibrate(make_loss, epsilon=1.0, delta=0.0, parameter_range=(0.1, 10.0))
    with pytest.raises(
        ValueError, match=r"the loss is at most 5\.0 at the lower and at most 90\.0 at the upper end$"
    ):
        acc.calibrate(lambda e: acc.from_laplace(epsilon=e) * 10, epsilon=1, delta=0, parameter_range=(0.5, 9.0))
    tiny = acc.calibrate(make_loss, epsilon=0.35, delta=5e-324, parameter_range=(1e-3, 1e9))
    assert tiny.delta_upper <= 5e-324


@pytest.mark.parametrize(
    "change",
    [
        {"mechanism": None},
        {"mechanism": "dice"},
        {"copies": 2.5},
        {"copies": math.inf},
        {"epsilon": "1"},
        {"b": 1},
    ],
)
def test_bad_rows_of_saved_losses_are_value_errors(change: dict[str, object]) -> None:
    data = acc.from_laplace(epsilon=1.0).to_dict()
    row = data["mechanisms"][0] | change
    with pytest.raises(ValueError, match=r"mechanism|laplace|copies"):
        acc.PrivacyLoss.from_dict(data | {"mechanisms": [row]})
    with pytest.raises(ValueError, match="version"):
        acc.PrivacyLoss.from_dict(data | {"version": True})


def test_no_copy_is_lost_at_the_limit() -> None:
    one = acc.from_gaussian(sigma=1e8)
    most = one * 2**53
    for more in (lambda: most + one, lambda: acc.compose([most, one]), lambda: one * 3002399751580331 * 3):
        with pytest.raises(ValueError, match="more than 2\\^53 copies"):
            more()
    other = acc.from_laplace(epsilon=1e-9)
    with pytest.raises(ValueError, match="more than 2\\^53 copies"):
        (most + other + one).delta(1.0)
    assert (one * 2**52 + one * 2**52) == most


# ---------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: acc.from_laplace(epsilon=-1.0), ValueError, "epsilon"),
        (lambda: acc.from_laplace(epsilon=math.nan), ValueError, "epsilon"),
        (lambda: acc.from_gaussian(sigma=0.0), ValueError, "sigma"),
        (lambda: acc.from_gaussian(sigma=math.inf), ValueError, "sigma"),
        (lambda: acc.from_subsampled_gaussian(sigma=1.0, rate=1.5), ValueError, "rate"),
        (lambda: acc.from_subsampled_gaussian(sigma=1.0, rate=math.nan), ValueError, "rate"),
        (lambda: acc.from_subsampled_gaussian(sigma=1.0, rate=0.1, neighbours="x"), ValueError, "neighbours"),
        (lambda: acc.from_approximate(epsilon=1.0, delta=-0.1), ValueError, "delta"),
        (lambda: acc.from_pmf([0.5, 0.5], [1.0]), ValueError, "same length"),
        (lambda: acc.from_pmf([0.5, 0.6], [0.5, 0.5]), ValueError, "sum to 1"),
        (lambda: acc.from_pmf([50, 50], [50, 50]), ValueError, r"p must sum to 1 within 1e-09, got 100\.0$"),
        (lambda: acc.from_pmf([1e308, 1e308], [0.5, 0.5]), ValueError, "p must sum to 1 within 1e-09, got inf$"),
        (lambda: acc.from_pmf([1.5, -0.5], [0.5, 0.5]), ValueError, "p must be"),
        (lambda: acc.from_pmf([], []), ValueError, "p must"),
        (lambda: acc.from_discrete_laplace(scale=1.0, sensitivity=1.5), TypeError, "integer"),
        (lambda: acc.from_laplace(epsilon=1.0) * -1, ValueError, "copies"),
        (lambda: acc.from_laplace(epsilon=1.0) * 2.0, TypeError, "integer"),
        (lambda: acc.from_laplace(epsilon=1.0) * True, TypeError, "integer"),
        (lambda: acc.from_laplace(epsilon=1.0).delta(-0.1), ValueError, "epsilon"),
        (lambda: acc.from_laplace(epsilon=1.0).delta(math.nan), ValueError, "epsilon"),
        (lambda: acc.from_laplace(epsilon=1.0).delta(1.0, engine="magic"), ValueError, "engine"),
        (lambda: acc.from_laplace(epsilon=1.0).epsilon(1.1), ValueError, "delta"),
        (lambda: acc.from_laplace(epsilon=1.0).epsilon(math.nan), ValueError, "delta"),
        (lambda: acc.from_laplace(epsilon=1.0).confidence(-1.0), ValueError, "epsilon"),
        (lambda: acc.from_laplace(epsilon=1.0) + 1, TypeError, "unsupported"),
        (lambda: acc.compose([1]), TypeError, "PrivacyLoss"),  # type: ignore[list-item]
    ],
)
def test_bad_input(call, error, words) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=words):
        call()


FIND = {"epsilon": 1.0, "delta": 1e-6, "parameter_range": (0.5, 20.0)}


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("epsilon", lambda v: acc.from_laplace(epsilon=v)),
        ("sigma", lambda v: acc.from_gaussian(sigma=v)),
        ("scale", lambda v: acc.from_discrete_laplace(scale=v)),
        ("delta", lambda v: acc.from_approximate(epsilon=1.0, delta=v)),
        ("rate", lambda v: acc.from_subsampled_gaussian(sigma=1.0, rate=v)),
        ("step", lambda v: acc.from_laplace(epsilon=1.0).delta(1.0, engine="buckets", step=v)),
        ("low", lambda v: acc.from_laplace(epsilon=1.0).buckets(step=0.1, low=v)),
        ("epsilon", lambda v: acc.from_laplace(epsilon=1.0).buckets(step=0.1).delta(v)),
        ("epsilon", lambda v: acc.calibrate(acc.from_laplace, **{**FIND, "epsilon": v})),
        ("delta", lambda v: acc.calibrate(acc.from_laplace, **{**FIND, "delta": v})),
        ("parameter_range[0]", lambda v: acc.calibrate(acc.from_laplace, **{**FIND, "parameter_range": (v, 9.0)})),
        ("relative_tolerance", lambda v: acc.calibrate(acc.from_laplace, **FIND, relative_tolerance=v)),
    ],
)
def test_an_array_is_no_number(name, call) -> None:  # type: ignore[no-untyped-def]
    """Said of the array, not of an element in it; and of no other type that an array would do."""
    for value, got in (
        (np.array([1.0, 2.0]), "an array of shape (2,)"),
        (np.array([0.5]), "an array of shape (1,)"),
        (np.array([-1.0, np.nan]), "an array of shape (2,)"),
        ([0.5, 0.25], "a list of length 2"),
        ((0.5,), "a tuple of length 1"),
        ([[1], [1, 2]], "a list of length 2"),
    ):
        with pytest.raises(TypeError) as failed:
            call(value)
        assert str(failed.value) == f"{name} must be a single number, got {got}"
    for value in ("1", True, 1j, {}, np.bool_(True), np.timedelta64(1), fractions.Fraction(1, 2)):
        with pytest.raises(TypeError) as failed:
            call(value)
        assert str(failed.value) == f"{name} must be a single number (float or int), got {value!r}"
    with pytest.raises(ValueError, match=f"^{re.escape(name)} must be .*, got nan$"):
        call(math.nan)


def test_numbers_of_any_type_will_do() -> None:
    for value in (1, 1.0, np.float64(1), np.float32(1), np.int8(1), np.array(1.0), np.array(1)):
        assert acc.from_laplace(epsilon=value) == acc.from_laplace(epsilon=1.0)
    one = acc.from_laplace(epsilon=1.0)
    assert np.int64(3) * one == one * np.int64(3) == one * 3
    for several in (np.array([1, 2]), [1, 2]):
        for call in (lambda v: v * one, lambda v: one * v):
            with pytest.raises(TypeError, match=r"copies must be an integer, got .*\[1, 2\]"):
                call(several)
    with pytest.raises(TypeError, match=r"unsupported operands for \+: an array and a PrivacyLoss"):
        np.array([1, 2]) + one
    assert np.sum([one, one]) == one * 2


def test_repr_is_readable() -> None:
    loss = acc.from_laplace(epsilon=0.5) * 3 + acc.from_pmf([0.5, 0.5], [0.25, 0.75])
    assert repr(loss) == "PrivacyLoss(laplace(epsilon=0.5) * 3 + pmf(outcomes=2))"
    assert repr(acc.Bounds(0.25, 0.5)) == "Bounds(lower=0.25, upper=0.5)"
    bounds = loss.delta(0.1)
    assert eval(repr(bounds), {"Bounds": acc.Bounds}) == bounds
    assert repr(bounds).endswith("quantity='delta', at=0.1)")


@pytest.mark.parametrize(
    ("ask", "words", "side"),
    [
        (lambda loss: loss.delta(1), "delta at epsilon 1.0 lies between", "upper"),
        (lambda loss: loss.delta(1.0, engine="buckets", step=0.01), "delta at epsilon 1.0 lies", "upper"),
        (lambda loss: loss.log_delta(1.0), "the natural logarithm of delta at epsilon 1.0 lies", "upper"),
        (lambda loss: loss.epsilon(1e-6), "epsilon at delta 1e-06 lies between", "upper"),
        (lambda loss: loss.confidence(2), "confidence (how likely the loss stays within", "lower"),
        (lambda loss: loss.buckets(step=0.01).delta(1.0), "delta, in one direction, at epsilon 1.0 lies", "upper"),
    ],
)
def test_statements_say_what_is_bounded_and_which_side_counts(ask, words, side) -> None:  # type: ignore[no-untyped-def]
    bounds = ask(acc.from_gaussian(sigma=2.0))
    assert bounds.statement.startswith(words)
    assert bounds.statement.endswith(f"; rely on the {side} bound")
    # All digits: one that is rounded may be no bound.
    assert f"between {bounds.lower!r} and {bounds.upper!r}, rounding errors included" in bounds.statement
    again = pickle.loads(pickle.dumps(bounds))
    for same in (again, dataclasses.replace(bounds), acc.Bounds(bounds.lower, bounds.upper)):
        assert same == bounds
        assert hash(same) == hash(bounds)
    assert again.statement == bounds.statement
    assert bounds.to_dict() == {
        "lower": bounds.lower,
        "upper": bounds.upper,
        "quantity": bounds.quantity,
        "at": bounds.at,
        "statement": bounds.statement,
    }
    with pytest.raises(dataclasses.FrozenInstanceError):
        bounds.quantity = "epsilon"


def test_statements_of_other_bounds() -> None:
    assert acc.Bounds(0.25, 0.5).statement == "the true value lies between 0.25 and 0.5, rounding errors included"
    assert acc.PrivacyLoss().delta(0.5).statement == "delta at epsilon 0.5 is 0.0"
    lost = acc.from_approximate(epsilon=1.0, delta=1e-6)
    assert lost.epsilon(1e-7).statement == "epsilon at delta 1e-07 is inf"
    assert lost.infinite_mass.statement.startswith("the probability of an infinite loss ")
    assert acc.Bounds(0.25, 0.5, "delta").statement.startswith("delta lies between")
    assert acc.Bounds(0.25, 0.5) != acc.Bounds(0.25, 0.75)
    assert acc.Bounds(0.25, 0.5) != (0.25, 0.5)
    for wrong, error in (("width", ValueError), (3, TypeError), ([], TypeError)):
        with pytest.raises(error, match="quantity must be one of"):
            acc.Bounds(0.25, 0.5, wrong)  # type: ignore[arg-type]


def test_statements_of_arrays() -> None:
    loss, grid = acc.from_gaussian(sigma=2.0), np.array([0.5, 1.0])
    bounds = loss.delta(grid)
    grid[0] = 7.0  # what was asked stays
    lower, upper = bounds.lower.tolist(), bounds.upper.tolist()
    assert bounds.statement == (
        f"delta at epsilon [0.5, 1.0] lies between {lower} and {upper}, element by element, rounding errors "
        "included; rely on the upper bound"
    )
    assert bounds.to_dict()["at"] == [0.5, 1.0]
    assert bounds == loss.delta([0.5, 1.0]) != loss.delta([0.5, 2.0])
    assert bounds != loss.delta(0.5)
    assert pickle.loads(pickle.dumps(bounds)) == copy.deepcopy(bounds) == bounds
    many = loss.confidence(np.linspace(0.0, 5.0, 1000).reshape(10, 100)).statement
    assert len(many) < 1500
    assert many.endswith("rely on the lower bound")
    assert "\n" not in many
    with pytest.raises(TypeError, match=r"float\(\) needs bounds of a single number, these have shape \(2,\)"):
        float(bounds)


def test_plot_draws_every_loss() -> None:
    pytest.importorskip("matplotlib")
    ax = acc.plot({"a": LOSSES["gaussian"], "b": LOSSES["randomised response"]}, epsilon=[0.0, 1.0, 2.0])
    assert len(ax.lines) == 2
    with pytest.raises(ValueError, match="empty"):
        acc.plot({})


@pytest.mark.parametrize(
    ("coarse", "copies", "fine", "times"), [(0.44, 37, 0.11, 1), (0.5, 80, 0.25, 3), (1.0, 40, 0.125, 2)]
)
def test_one_lattice_is_a_multiple_of_another(coarse: float, copies: int, fine: float, times: int) -> None:
    """The coarse law comes back to modulus 1 within the period of both; it was taken for dead."""
    loss = (
        acc.from_randomized_response(epsilon=coarse) * copies + acc.from_randomized_response(epsilon=fine) * times
    )
    with mp.workdps(40):
        points = []
        for i in range(copies + 1):
            for j in range(times + 1):
                mass = mp.binomial(copies, i) * mp.binomial(times, j)
                at = mp.mpf(coarse) * (2 * i - copies) + mp.mpf(fine) * (2 * j - times)
                for e, n, k in ((coarse, i, copies), (fine, j, times)):
                    up = 1 / (1 + mp.exp(-mp.mpf(e)))
                    mass *= up**n * (1 - up) ** (k - n)
                points.append((at, mass))
        for eps in (0.0, 1.7, 3.99, 4.0, 9.3):
            truth = mp.fsum(m * (1 - mp.exp(eps - at)) for at, m in points if at > eps)
            within = mp.fsum(m for at, m in points if -eps <= at <= eps)
            for engine in ("auto", "spectral"):
                found = loss.delta(eps, engine=engine)
                assert found.lower <= truth <= found.upper
                assert found.upper <= found.lower * (1 + 1e-9)
            inside = loss.confidence(eps)
            assert inside.lower <= within <= inside.upper


@pytest.mark.parametrize("engine", ["auto", "spectral", "buckets"])
@pytest.mark.parametrize(
    ("p", "q", "delta", "epsilon"),
    [
        ([0.5, 0.25, 0.25, 0.0], [0.25, 0.5, 0.0, 0.25], 0.25, math.log(2.0)),
        ([0.999999, 1e-6, 0.0], [0.999999, 0.0, 1e-6], 1e-6, 0.0),
    ],
)
def test_epsilon_at_the_infinite_mass_of_a_pair(
    p: list[float], q: list[float], delta: float, epsilon: float, engine: str
) -> None:
    """A sum without a rounding is the infinite mass itself; it was an interval around delta: [0, inf]."""
    found = acc.from_pmf(p, q).epsilon(delta, engine=engine)
    assert found.lower <= epsilon <= found.upper <= epsilon + 1e-12
    assert acc.from_pmf(p, q).epsilon(delta * (1 - 1e-15)).upper == math.inf
