"""Algorithm 2: estimates turned into releases by each mechanism, with the guarantee stated."""

import json
import math

import numpy as np
import pytest

from dpcore.mechanisms import Bernstein, Exponential, Gaussian, Laplace
from dpcore.samplers import InsecureTestRng
from dpcore.sensitivity import (
    Mean,
    SensitivityEstimate,
    SensitivitySampler,
    TargetError,
    sample_then_respond,
)

DATA = np.random.default_rng(1).exponential(size=200)


def exponential(count, rng):
    return rng.exponential(size=count)


def spread(data):
    return np.quantile(data, [[0.25, 0.5], [0.75, 0.9]])


def release(mechanism, target, **options):
    arguments = {"epsilon": 1.0, "gamma": 0.05, "seed": 1, "rng": InsecureTestRng(2), **options}
    return sample_then_respond(mechanism, target, DATA, exponential, **arguments)


def test_laplace():
    got = release(Laplace, Mean())
    estimate = SensitivitySampler(Mean(), exponential, records=200).estimate(gamma=0.05, seed=1)
    assert got.estimate == estimate
    assert (got.epsilon, got.delta, got.gamma) == (1.0, 0.0, 0.05)
    mechanism = estimate.mechanism(Laplace, epsilon=1.0)
    assert mechanism.sensitivity == estimate.sensitivity
    assert mechanism.neighbours == "replace"
    assert got.value == mechanism.release(Mean()(DATA), rng=InsecureTestRng(2))
    assert abs(got.value - DATA.mean()) < 20 * mechanism.scale
    assert type(got.value) is float
    assert got.statement.startswith("(1, 0.05)-random differential privacy: with probability at least 0.95 over")
    assert "200 records" in got.statement
    assert "value=" in repr(got)
    assert json.loads(json.dumps(got.to_dict()))["estimate"]["gamma"] == 0.05


def test_one_estimate_serves_many_releases(tmp_path):
    sampler = SensitivitySampler(spread, exponential, records=200, norm="l2")
    estimate = sampler.estimate(gamma=0.05, seed=3, method="confident", confidence=0.9)
    estimate.save(tmp_path / "estimate.json")
    loaded = SensitivityEstimate.load(tmp_path / "estimate.json")
    first, second = (
        e.respond(Gaussian, spread(DATA), epsilon=0.5, delta=1e-6, rng=InsecureTestRng(4))
        for e in (estimate, loaded)
    )
    np.testing.assert_array_equal(first.value, second.value)
    assert first.value.shape == (2, 2)
    assert first.delta == 1e-6
    assert "(0.5, 1e-06, 0.05)-random" in first.statement
    assert "with confidence 0.9 in the sample" in first.statement
    other = estimate.respond(Gaussian, spread(DATA), epsilon=0.5, delta=1e-6)
    assert not np.array_equal(other.value, first.value)
    moved = estimate.shifted(divergence=1e-6).respond(Gaussian, spread(DATA), epsilon=0.5, delta=1e-6)
    assert moved.gamma > 0.05
    assert "any distribution Q" in moved.statement


def test_the_noise_has_the_scale_of_the_estimate():
    # 4000 independent numbers; the mean absolute value of Laplace noise is its scale. The relative standard
    # deviation of the mean is 1/sqrt(4000) = 0.016, so that 5 of them are 0.08.
    estimate = SensitivitySampler(Mean(), exponential, records=200).estimate(gamma=0.05, seed=1)
    mechanism = estimate.mechanism(Laplace, epsilon=2.0)
    noise = mechanism.release(np.zeros(4000), rng=InsecureTestRng(5))
    assert np.mean(np.abs(noise)) == pytest.approx(estimate.sensitivity / 2, rel=0.08)


def test_vectors_use_the_norm_of_the_estimate():
    for norm, factor in (("l1", 1.0), ("l2", 2.0), ("sup", 4.0)):
        estimate = SensitivitySampler(spread, exponential, records=50, norm=norm).estimate(gamma=0.1, seed=1)
        assert estimate.size == 4
        mechanism = estimate.mechanism(Laplace, epsilon=1.0)
        # |x|_1 <= sqrt(4) |x|_2 <= 4 |x|_sup.
        assert mechanism.scale == pytest.approx(factor * estimate.sensitivity, rel=1e-6)


def test_exponential_chooses_among_scores():
    candidates = np.linspace(0, 3, 31)

    def scores(data):
        return -np.abs(np.mean(data[:, None] > candidates, axis=0) - 0.5)

    got = release(Exponential, scores, epsilon=50.0)
    assert isinstance(got.value, int)
    assert got.estimate.norm == "sup"
    # One record moves an empirical distribution function by 1/200 at most.
    assert got.estimate.sensitivity == pytest.approx(1 / 200)
    assert abs(candidates[got.value] - np.median(DATA)) < 0.3


def test_bernstein_releases_a_function():
    def smooth_distribution(data):
        return lambda y: np.mean(1 / (1 + np.exp((data[:, None] - 3 * np.asarray(y)) / 0.2)), axis=0)

    got = release(Bernstein, smooth_distribution, epsilon=100.0, lattice=8, order=2)
    assert got.estimate.size == 9
    points = np.linspace(0, 1, 200)
    assert got.value(points).shape == (200,)
    assert np.max(np.abs(got.value(points) - smooth_distribution(DATA)(points))) < 0.2
    # Lattice values in place of a function give the same release.
    lattice = np.arange(9) / 8
    same = release(Bernstein, lambda data: smooth_distribution(data)(lattice), epsilon=100.0, lattice=8, order=2)
    np.testing.assert_array_equal(same.value.values, got.value.values)


def test_a_function_is_only_released_where_its_sensitivity_was_sampled():
    def smooth_distribution(data):
        return lambda y: np.mean(1 / (1 + np.exp((data[:, None] - 3 * np.asarray(y)) / 0.2)), axis=0)

    def estimate(grid):
        sampler = SensitivitySampler(smooth_distribution, exponential, records=200, norm="sup", grid=grid)
        return sampler.estimate(gamma=0.05, seed=1)

    options = {"epsilon": 1.0, "lattice": 8}
    lattice = np.arange(9) / 8
    whole = estimate(lattice)
    assert whole.respond(Bernstein, smooth_distribution(DATA), **options).value.values.shape == (9,)
    # At one point, or at as many other points, the function may change less than on the lattice.
    for other in (estimate([0.0]), estimate(lattice / 8)):
        assert other.sensitivity < whole.sensitivity
        with pytest.raises(ValueError, match="the estimate says nothing about the other points"):
            other.respond(Bernstein, smooth_distribution(DATA), **options)
    with pytest.raises(ValueError, match="the estimate says nothing about the other points"):
        whole.respond(Bernstein, smooth_distribution(DATA), epsilon=1.0, lattice=9)
    with pytest.raises(ValueError, match="grid must be left out for Bernstein"):
        release(Bernstein, smooth_distribution, grid=lattice / 8, lattice=8)
    with pytest.raises(TypeError, match="does not release functions"):
        whole.respond(Laplace, smooth_distribution(DATA), epsilon=1.0)


@pytest.mark.parametrize(
    "option", [{"sensitivity": 1e-9}, {"scale": 1.0}, {"dimension": 2}, {"norm": "linf"}, {"neighbours": None}]
)
def test_no_option_takes_the_place_of_the_estimate(option):
    estimate = SensitivitySampler(Mean(), exponential, records=200).estimate(gamma=0.05, seed=1)
    with pytest.raises(TypeError, match="follows from the estimate"):
        estimate.respond(Laplace, 1.0, epsilon=1.0, **option)
    with pytest.raises(TypeError, match="follows from the estimate"):
        estimate.mechanism(Laplace, epsilon=1.0, **option)


def test_vectorised_and_pair_targets_on_the_data():
    plain = release(Laplace, lambda data: float((data**2).sum()))
    batch = release(Laplace, lambda data: (data**2).sum(axis=1), vectorised=True)
    assert batch.value == pytest.approx(plain.value, abs=10 * plain.estimate.sensitivity)

    class Squares:
        def pair(self, common, a, b):
            shared = (common**2).sum()
            return shared + a**2, shared + b**2

    assert release(Laplace, Squares()).value == pytest.approx(plain.value, rel=1e-6)


class Own:
    """A mechanism of the user's."""

    def __init__(self, *, epsilon, sensitivity):
        self.scale = sensitivity / epsilon

    def release(self, value, rng=None):
        return value + self.scale


def test_a_mechanism_of_the_users_own():
    got = release(Own, Mean(), norm=lambda d: 2 * abs(float(d[0])))
    assert got.value == pytest.approx(DATA.mean() + got.estimate.sensitivity)
    assert got.mechanism == "Own"
    with pytest.raises(TypeError, match="norm must be given for the mechanism Own"):
        release(Own, Mean())


def test_the_private_data_are_no_sample():
    with pytest.raises(ValueError, match="sample must not be the private data"):
        sample_then_respond(Laplace, Mean(), DATA, DATA, epsilon=1.0, gamma=0.05)


def test_bad_arguments_are_found_before_any_evaluation():
    calls = []

    def target(data):
        calls.append(1)
        return float(data.mean())

    for options, error in (
        ({"epsilon": 0.0}, ValueError),
        ({"epsilon": math.nan}, ValueError),
        ({"gamma": 2.0}, ValueError),
        ({"norm": "l3"}, ValueError),
        ({"norm": lambda d: 1.0}, ValueError),
        ({"unknown": 1}, TypeError),
        ({"delta": 1e-6}, TypeError),
    ):
        with pytest.raises(error):
            release(Laplace, target, **options)
    with pytest.raises(TypeError, match="mechanism_class must be a class"):
        release("Laplace", target)
    with pytest.raises(TypeError, match="data must be a sequence"):
        sample_then_respond(Laplace, target, 3.0, exponential, epsilon=1.0, gamma=0.1)
    with pytest.raises(ValueError, match="number of records of data"):
        sample_then_respond(Laplace, target, [], exponential, epsilon=1.0, gamma=0.1)
    assert not calls


def test_sensitivities_that_no_noise_fits():
    with pytest.raises(ValueError, match="is infinite, no noise is enough"):
        release(Laplace, lambda data: math.inf)
    with pytest.raises(ValueError, match="is 0: the target does not change"):
        release(Laplace, lambda data: 1.0)


def test_failures_on_the_private_data_tell_nothing_by_themselves():
    def target(data):
        if data is DATA:
            raise ValueError(f"secret {data[0]}")
        return float(data.mean())

    with pytest.raises(TargetError, match="target failed on the data") as caught:
        release(Laplace, target)
    assert "secret" not in str(caught.value)

    def changes_shape(data):
        return np.zeros(3) if data is DATA else np.array([data[0], data[1], data[2], data[3]])[:2] + data[-1]

    with pytest.raises(TargetError, match="value must hold 2 real numbers"):
        release(Laplace, changes_shape)
