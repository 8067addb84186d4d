"""The Gaussian mechanism against the definition at high precision, its safe side, and bad input."""

import json
import math
import pathlib
import sys

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore import _core, gaussian

ROWS = json.loads((pathlib.Path(__file__).parent / "data" / "gaussian.json").read_text())["rows"]
UNIT = 2.0**-53


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(120):
        yield


def exact_delta(epsilon, sigma, sensitivity=1.0):
    """The definition; 120 digits suffice for delta above 1e-60 or so."""
    e, x = mp.mpf(epsilon), mp.mpf(sigma) / mp.mpf(sensitivity)
    return mp.ncdf(1 / (2 * x) - e * x) - mp.exp(e) * mp.ncdf(-1 / (2 * x) - e * x)


class LyingInt(int):
    """A whole number that says that it is another."""

    def __float__(self):
        return math.nan

    def __gt__(self, other):
        return True

    __lt__ = __ge__ = __le__ = __gt__


def test_what_a_number_says_of_itself_is_not_asked():
    assert gaussian.delta(epsilon=LyingInt(1), sigma=2.0) == gaussian.delta(epsilon=1, sigma=2.0)
    with pytest.raises(ValueError, match="sigma must be"):
        gaussian.delta(epsilon=1.0, sigma=LyingInt(-1))


def test_booleans_among_numbers_are_refused():
    for value in ([0.5, True], [[0.5], [np.True_]], (1, (2, False))):
        with pytest.raises((TypeError, ValueError), match=r"epsilon must be"):
            gaussian.delta(epsilon=value, sigma=2.0)


def arguments(row):
    return {name: float.fromhex(row[name]) for name in ("epsilon", "sigma", "sensitivity")}


def test_delta_matches_the_definition_to_1e_13():
    for row in ROWS:
        want = mp.mpf(row["delta"])
        got = gaussian.delta(**arguments(row))
        if want > mp.mpf("2.3e-308"):
            assert abs(mp.mpf(got) / want - 1) < 1e-13, row
        else:
            assert abs(mp.mpf(got) - want) <= mp.mpf(2) ** -1073, row


def test_log_delta_matches_the_definition():
    for row in ROWS:
        want = mp.mpf(row["log_delta"])
        got = gaussian.log_delta(**arguments(row))
        if want < -mp.mpf(1.7e308):
            assert got == -math.inf, row
            continue
        assert abs(mp.mpf(got) - want) <= max(mp.mpf(4 * 2 * UNIT) * abs(want), mp.mpf("1e-13")), row


def test_published_reference_values():
    # 25 digits, from the definition evaluated at 60 digits; inputs are the doubles nearest to the decimals.
    for epsilon, sigma, want in (
        (1.0, 1.0, "0.1269367375066439458008296"),
        (1.0, 4.2246788893, "0.00000100000000013077145817893"),
        (0.1, 50.0, "1.124001235692245742542043e-9"),
        (10.0, 0.3, "0.05749692226904972052530286"),
        (1.0, 37.0, "6.88478515205739194355479e-303"),
        (1e-9, 1e8, "3.509353313801823247979224e-9"),
        (30.0, 0.5, "9.662106682975180240385967e-46"),
        (800.0, 0.05, "1.960599162420048421320157e-198"),
    ):
        assert abs(gaussian.delta(epsilon=epsilon, sigma=sigma) / mp.mpf(want) - 1) < 2e-15


SIGMAS = (
    (1.0, 1e-6, "4.224678889326835292283418", "4.85638162128140181949357"),
    (0.1, 1e-6, "36.30469042619578316016247", "47.63919867394781896959165"),
    (0.01, 1e-9, "458.5084974972529494906589", "599.8640537198088806432742"),
    (5.0, 1e-12, "1.409837723610734658770046", "1.474706852100614869729065"),
    (1.0, 1e-20, "8.838226921980592348376777", "9.316011129159340488817537"),
    (0.001, 1e-5, "1724.25903358380749077072", "4265.00802699644012178409"),
    (20.0, 1e-8, "0.3437766670053082773211034", "0.351686167659932676451095"),
)


@pytest.mark.parametrize(("epsilon", "delta", "analytic", "probabilistic"), SIGMAS)
def test_sigma_is_within_four_ulp_above_the_reference(epsilon, delta, analytic, probabilistic):
    for method, want in (("analytic", analytic), ("probabilistic", probabilistic)):
        got = gaussian.sigma(epsilon=epsilon, delta=delta, method=method)
        assert 0 <= mp.mpf(got) - mp.mpf(want) <= 4 * math.ulp(got)


epsilons = st.floats(-4, 2).map(lambda x: 10**x)
deltas = st.one_of(
    st.floats(-40, -1).map(lambda x: 10**x), st.floats(0.1, 0.9), st.floats(-12, -1).map(lambda x: 1 - 10**x)
)
sensitivities = st.floats(-3, 3).map(lambda x: 10**x)


@given(epsilons, deltas, sensitivities, st.integers(1, 10**6))
def test_sigma_is_safe_and_smallest(epsilon, delta, sensitivity, compositions):
    got = gaussian.sigma(epsilon=epsilon, delta=delta, sensitivity=sensitivity, compositions=compositions)
    total = mp.mpf(sensitivity) * mp.sqrt(compositions)
    assert exact_delta(epsilon, got, total) <= mp.mpf(delta)
    smaller = mp.mpf(got) - 4 * mp.mpf(math.ulp(got))
    assert exact_delta(epsilon, smaller, total) > mp.mpf(delta)


# Where searches get lost: epsilon far beyond use at either end, and delta next to 0, 1/2 and 1.
EXTREMES = [
    (epsilon, delta)
    for epsilon in (1e-300, 1.4e-199, 1e-30, 1.5e13, 1.07e34, 6.8e41, 1e150, 1e300)
    for delta in (5e-324, 1e-115, 1e-9, 0.2, 0.456, 0.4999641, 0.5, 0.5010849, 0.951, 1 - 1e-11, 1 - 2.0**-53)
]


@pytest.mark.parametrize("method", ["analytic", "probabilistic"])
def test_sigma_is_safe_and_smallest_at_the_ends_of_the_range(method):
    with mp.workdps(900):
        for epsilon, delta in EXTREMES:

            def exact(sigma, epsilon=epsilon):
                if method == "analytic":
                    return exact_delta(epsilon, sigma)
                return mp.ncdf(1 / (2 * mp.mpf(sigma)) - mp.mpf(epsilon) * mp.mpf(sigma))

            try:
                got = gaussian.sigma(epsilon=epsilon, delta=delta, method=method)
            except OverflowError:
                assert exact(sys.float_info.max) > mp.mpf(delta), (epsilon, delta)
                continue
            assert exact(got) <= mp.mpf(delta), (epsilon, delta)
            assert exact(mp.mpf(got) - 4 * mp.mpf(math.ulp(got))) > mp.mpf(delta), (epsilon, delta)


@given(epsilons, st.floats(-40, -0.4).map(lambda x: 10**x), sensitivities)
def test_probabilistic_sigma_bounds_the_tail(epsilon, delta, sensitivity):
    got = gaussian.sigma(epsilon=epsilon, delta=delta, sensitivity=sensitivity, method="probabilistic")
    x = mp.mpf(got) / mp.mpf(sensitivity)
    assert mp.ncdf(1 / (2 * x) - mp.mpf(epsilon) * x) <= mp.mpf(delta)
    assert got >= gaussian.sigma(epsilon=epsilon, delta=delta, sensitivity=sensitivity)


@given(st.floats(-4, -0.01).map(lambda x: 10**x), st.floats(-40, -0.4).map(lambda x: 10**x), st.integers(1, 1000))
def test_classical_sigma_is_its_formula_rounded_up(epsilon, delta, compositions):
    got = gaussian.sigma(epsilon=epsilon, delta=delta, method="classical", compositions=compositions)
    want = mp.sqrt(compositions) * mp.sqrt(2 * mp.log(mp.mpf("1.25") / mp.mpf(delta))) / mp.mpf(epsilon)
    assert 0 <= mp.mpf(got) - want <= 2 * math.ulp(got)


@given(st.floats(-1.5, 4).map(lambda x: 10**x), st.floats(-40, -0.2).map(lambda x: 10**x), sensitivities)
def test_epsilon_is_safe_and_close(sigma, delta, sensitivity):
    got = gaussian.epsilon(sigma=sigma * sensitivity, delta=delta, sensitivity=sensitivity)
    assert exact_delta(got, sigma * sensitivity, sensitivity) <= mp.mpf(delta)
    if got > 1e-9:
        less = got * (1 - mp.mpf("1e-13")) - mp.mpf("1e-15")
        assert exact_delta(less, sigma * sensitivity, sensitivity) > mp.mpf(delta)


def test_epsilon_is_zero_where_no_epsilon_is_needed():
    assert gaussian.epsilon(sigma=1000.0, delta=0.01) == 0.0
    assert gaussian.epsilon(sigma=1.0, delta=0.01) > 0


@given(epsilons, st.floats(-2, 3).map(lambda x: 10**x))
def test_delta_falls_with_epsilon_and_sigma(epsilon, sigma):
    here = gaussian.delta(epsilon=epsilon, sigma=sigma)
    assert 0 <= here <= 1
    assert gaussian.delta(epsilon=epsilon * 1.01, sigma=sigma) <= here * (1 + 1e-13)
    assert gaussian.delta(epsilon=epsilon, sigma=sigma * 1.01) <= here * (1 + 1e-13)


def test_extremes_do_not_overflow():
    big, small = 1.7e308, 5e-324
    assert gaussian.delta(epsilon=big, sigma=big) == 0.0
    assert gaussian.delta(epsilon=small, sigma=small) == 1.0
    assert gaussian.delta(epsilon=1.0, sigma=small, sensitivity=big) == 1.0
    assert gaussian.delta(epsilon=1.0, sigma=big, sensitivity=small) == 0.0
    assert gaussian.delta(epsilon=1e308, sigma=1.0) == 0.0
    assert gaussian.log_delta(epsilon=1e160, sigma=1.0) == -math.inf  # the logarithm is below -1e308
    assert -1e301 < gaussian.log_delta(epsilon=1e150, sigma=1.0) < -1e299
    assert gaussian.log_delta(epsilon=1.0, sigma=1e-5) == 0.0
    for delta in (5e-324, 1 - 2.0**-53):
        sigma = gaussian.sigma(epsilon=1.0, delta=delta)
        assert _core.gaussian_delta_certified(1.0, sigma, 1.0, 1.0, delta)
    with pytest.raises(OverflowError, match="range of a double"):
        gaussian.sigma(epsilon=1e-300, delta=1e-300, sensitivity=1e300)


def test_arrays_equal_scalars_bit_for_bit_and_broadcast():
    rng = np.random.default_rng(3)
    epsilon = 10 ** rng.uniform(-4, 2, 700)
    sigma = 10 ** rng.uniform(-2, 3, 700)
    delta = 10 ** rng.uniform(-30, -0.1, 700)
    for sensitivity in (1.0, 0.37):
        got = gaussian.delta(epsilon=epsilon, sigma=sigma, sensitivity=sensitivity)
        one = [
            gaussian.delta(epsilon=e, sigma=s, sensitivity=sensitivity)
            for e, s in zip(epsilon, sigma, strict=True)
        ]
        assert got.tolist() == one
    assert gaussian.log_delta(epsilon=epsilon, sigma=sigma).tolist() == [
        gaussian.log_delta(epsilon=e, sigma=s) for e, s in zip(epsilon, sigma, strict=True)
    ]
    for method in ("analytic", "probabilistic"):
        assert gaussian.sigma(epsilon=epsilon, delta=delta, method=method).tolist() == [
            gaussian.sigma(epsilon=e, delta=d, method=method) for e, d in zip(epsilon, delta, strict=True)
        ]
    assert gaussian.epsilon(sigma=sigma, delta=delta).tolist() == [
        gaussian.epsilon(sigma=s, delta=d) for s, d in zip(sigma, delta, strict=True)
    ]
    rare = np.where(np.arange(700) % 97 == 5, 1e-7, sigma)  # some elements need the slow path
    for sensitivity in (1.0, 0.37):
        assert gaussian.delta(epsilon=epsilon * 1e12, sigma=rare, sensitivity=sensitivity).tolist() == [
            gaussian.delta(epsilon=e, sigma=s, sensitivity=sensitivity)
            for e, s in zip(epsilon * 1e12, rare, strict=True)
        ]
    table = gaussian.delta(epsilon=epsilon[:3, None], sigma=sigma[None, :5])
    assert table.shape == (3, 5)
    assert table[2, 4] == gaussian.delta(epsilon=epsilon[2], sigma=sigma[4])
    assert gaussian.delta(epsilon=[], sigma=1.0).shape == (0,)
    assert gaussian.delta(epsilon=[[1.0]], sigma=2.0).shape == (1, 1)
    # Larger than one chunk, so that threads share the work.
    wide = gaussian.delta(epsilon=np.resize(epsilon, 10**5), sigma=2.0)
    assert np.array_equal(wide[:700], gaussian.delta(epsilon=epsilon, sigma=2.0))
    assert np.array_equal(wide[-1400:-700], wide[10**5 - 1400 - 700 * 20 : 10**5 - 700 - 700 * 20])


@pytest.mark.parametrize("kind", [np.float32, np.int64, ">f8", "strided", "readonly", "list"])
def test_array_kinds_are_accepted(kind):
    base = np.array([1, 2, 3, 4])
    if kind == "strided":
        array = np.arange(8.0)[1::2]
        base = array.copy()
    elif kind == "readonly":
        array = base.astype(float)
        array.setflags(write=False)
    elif kind == "list":
        array = base.tolist()
    else:
        array = base.astype(kind)
    want = [gaussian.delta(epsilon=float(x), sigma=2.0) for x in base]
    assert gaussian.delta(epsilon=array, sigma=2.0).tolist() == want


BAD = (0, 0.0, -1.0, math.nan, math.inf, -math.inf, [1.0, math.nan], np.array([1.0, 0.0]), [[1.0, -2.0]])
WRONG_TYPE = ("1", None, True, 1j, b"1", [None], ["a"], np.array([1j]), object(), {"a": 1})
CALLS = {
    gaussian.delta: {"epsilon": 1.0, "sigma": 1.0, "sensitivity": 1.0},
    gaussian.log_delta: {"epsilon": 1.0, "sigma": 1.0, "sensitivity": 1.0},
    gaussian.sigma: {"epsilon": 1.0, "delta": 1e-6, "sensitivity": 1.0, "compositions": 1},
    gaussian.epsilon: {"sigma": 1.0, "delta": 1e-6, "sensitivity": 1.0},
}


@pytest.mark.parametrize("call", CALLS, ids=lambda f: f.__name__)
def test_bad_values_name_the_argument_and_the_value(call):
    for name in CALLS[call]:
        for value in BAD:
            with pytest.raises(ValueError, match=rf"^{name} must be .*, got "):
                call(**(CALLS[call] | {name: value}))
        for value in WRONG_TYPE:
            with pytest.raises(TypeError, match=rf"^{name} must be "):
                call(**(CALLS[call] | {name: value}))


def test_bad_delta_compositions_method_and_shapes():
    for value in (1, 1.0, 2.0, [0.5, 1.0]):
        with pytest.raises(ValueError, match="delta must be a number in"):
            gaussian.sigma(epsilon=1.0, delta=value)
    for value in (1.5, 0, -1, [1, 2.5], 2**60):
        with pytest.raises(ValueError, match="compositions must be an integer"):
            gaussian.sigma(epsilon=1.0, delta=0.1, compositions=value)
    with pytest.raises(ValueError, match="method must be one of 'analytic'"):
        gaussian.sigma(epsilon=1.0, delta=0.1, method="exact")
    with pytest.raises(TypeError, match="method must be one of"):
        gaussian.sigma(epsilon=1.0, delta=0.1, method=3)
    with pytest.raises(ValueError, match=r"epsilon must be < 1 for method='classical', got 1\.0"):
        gaussian.sigma(epsilon=1.0, delta=0.1, method="classical")
    with pytest.raises(ValueError, match="epsilon \\(3,\\), sigma \\(2,\\)"):
        gaussian.delta(epsilon=[1.0, 1.0, 1.0], sigma=[1.0, 1.0])
    with pytest.raises(ValueError, match="rectangular"):
        gaussian.delta(epsilon=[[1.0], [1.0, 2.0]], sigma=1.0)
    with pytest.raises(TypeError):
        gaussian.delta(1.0, 1.0)
