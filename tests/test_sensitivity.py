"""The sampler: guarantees by simulation, the same answer however the work is split, nothing lost on errors.

Statistical tests: each compares a binomial count with the exact critical value of level 1e-6 (on each side), so
that the five of them together fail by chance with probability below 1e-5; each is run on a deliberately wrong
order statistic too, on which it must fail.
"""

import json
import math
import os
import signal
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from multiprocessing import get_context

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpcore.mechanisms import Laplace
from dpcore.sensitivity import (
    Evaluations,
    ExecutorError,
    Histogram,
    Mean,
    Quantile,
    SamplerError,
    SensitivityEstimate,
    SensitivitySampler,
    TargetError,
    operating_point,
    sample_then_respond,
    shifted_gamma,
)
from dpcore.sensitivity._norms import sensitivities

LEVEL = 1e-6


def exponential(count, rng):
    return rng.exponential(size=count)


def mean(data):
    return float(np.mean(data))


def batch_mean(data):
    return data.mean(axis=1)


def spread(data):
    return np.array([np.min(data), np.mean(data), np.max(data)])


class PairMean:
    def __init__(self):
        self.calls = 0

    def pair(self, common, a, b):
        self.calls += 1
        total = np.sum(common)
        return float((total + a) / (len(common) + 1)), float((total + b) / (len(common) + 1))


def sampler(target=mean, sample=exponential, **options):
    return SensitivitySampler(target, sample, **{"records": 10, **options})


# --- coverage -----------------------------------------------------------------------------------------------


def covered(sample, gamma, repeats, seed, wrong=0, **point):
    """How often a fresh pair stays within the estimate; `wrong` order statistics lower than right."""
    n = 5
    tested = SensitivitySampler(Mean(), sample, records=n)
    rng = np.random.default_rng(seed)
    hits = 0
    for i in range(repeats):
        estimate = tested.estimate(gamma=gamma, seed=seed * 10**6 + i, **point)
        values = np.sort(tested.evaluations.sensitivities)
        assert estimate.sensitivity == values[estimate.order - 1]
        a, b = (Mean()(x) for x in _fresh_pair(sample, n, rng))
        hits += abs(a - b) <= values[estimate.order - 1 - wrong]
    return hits


def _fresh_pair(sample, n, rng):
    x = sample(n + 1, rng)
    return x[:n], np.append(x[: n - 1], x[n])


def bernoulli(count, rng):
    return (rng.random(count) < 0.3).astype(float)


@pytest.mark.statistical
@pytest.mark.parametrize("samples", [None, 29])
def test_exchangeable_coverage_is_exact_for_continuous_sensitivities(samples):
    repeats, gamma = 1200, 0.1
    point = operating_point(gamma=gamma, samples=samples)
    right = point.order / (point.samples + 1)
    low, high = stats.binom.ppf([LEVEL, 1 - LEVEL], repeats, right)
    assert low <= covered(exponential, gamma, repeats, 1, samples=samples) <= high
    assert covered(exponential, gamma, repeats, 2, wrong=2, samples=samples) < low


@pytest.mark.statistical
def test_exchangeable_coverage_holds_with_ties():
    repeats, gamma = 1000, 0.5
    # The sensitivity is 0 with probability 0.58 and 1/5 otherwise; wrong is the smallest value of three.
    point = operating_point(gamma=gamma, samples=3)
    low = stats.binom.ppf(LEVEL, repeats, point.order / 4)
    assert point.order == 2
    assert covered(bernoulli, gamma, repeats, 3, samples=3) >= low
    # One sensitive pair in 5.3: the largest of nine holds for 0.9 of them, of the smallest it is never.
    rare = stats.binom.ppf(LEVEL, repeats, 0.9)
    assert covered(bernoulli, 0.1, repeats, 4) >= rare
    assert covered(bernoulli, 0.1, repeats, 5, wrong=8) < rare


@pytest.mark.statistical
@pytest.mark.parametrize("samples", [None, 40])
def test_confident_estimates_hold_as_often_as_promised(samples):
    repeats, gamma, confidence, n = 800, 0.2, 0.9, 5
    point = operating_point(gamma=gamma, samples=samples, method="confident", confidence=confidence)
    low = stats.binom.ppf(LEVEL, repeats, confidence)
    tested = SensitivitySampler(Mean(), exponential, records=n)
    right = wrong = 0
    for i in range(repeats):
        estimate = tested.estimate(gamma=gamma, samples=samples, method="confident", confidence=confidence, seed=i)
        assert (estimate.samples, estimate.order) == (point.samples, point.order)
        values = np.sort(tested.evaluations.sensitivities)
        # |D_n - D'_n|/n is exponential with rate n: its distribution function is known.
        right += 1 - math.exp(-n * estimate.sensitivity) >= 1 - gamma
        wrong += 1 - math.exp(-n * values[estimate.order - 2]) >= 1 - gamma
    assert right >= low
    assert wrong < low


def test_estimate_of_the_loan_example_is_near_the_analytic_one():
    # log(1/gamma)/(lambda n); 10^5 samples put the order statistic within 5 of its standard deviations.
    estimate = SensitivitySampler(Mean(), exponential, records=100).estimate(gamma=0.01, samples=10**5, seed=1)
    deviation = math.sqrt(0.99 / (0.01 * 1e5)) / 100
    assert estimate.sensitivity == pytest.approx(math.log(100) / 100, abs=5 * deviation)


# --- however it is split ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def processes():
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        yield pool


# Importable functions: a worker process cannot import this file.
KINDS = {
    "plain": {"target": np.mean},
    "array": {"target": partial(np.quantile, q=[0, 0.5, 1]), "norm": "l2"},
    "vectorised": {"target": partial(np.mean, axis=1), "vectorised": True},
    "native": {"target": Quantile(0.5)},
}


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_answer_on_any_executor(kind, processes):
    samples = 700
    tested = sampler(sample=stats.expon(), **KINDS[kind])
    here = tested.estimate(gamma=0.01, samples=samples, seed=5)
    values = tested.evaluations.sensitivities
    assert len(values) == samples
    with ThreadPoolExecutor(3) as threads:
        for executor in (threads, processes):
            there = tested.estimate(gamma=0.01, samples=samples, seed=5, executor=executor)
            assert there == here
            np.testing.assert_array_equal(tested.evaluations.sensitivities, values)
    assert tested.estimate(gamma=0.01, samples=samples, seed=6) != here


def test_evaluation_i_is_the_same_in_a_longer_run():
    tested = sampler()
    tested.estimate(samples=50, seed=9)
    short = tested.evaluations.sensitivities
    tested.estimate(samples=120, seed=9)
    np.testing.assert_array_equal(tested.evaluations.sensitivities[:50], short)
    assert len(set(tested.evaluations.sensitivities)) == 120


@pytest.mark.slow
def test_dask_cluster_gives_the_same_answer():
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        for kind in KINDS:
            tested = sampler(sample=stats.expon(), **KINDS[kind])
            here = tested.estimate(gamma=0.02, samples=300, seed=5)
            assert tested.estimate(gamma=0.02, samples=300, seed=5, executor=client.get_executor()) == here
        # A function that pickle cannot send: dask can.
        scale = 2.0
        tested = sampler(target=lambda data: scale * float(np.mean(data)), sample=stats.expon())
        here = tested.estimate(gamma=0.1, seed=5)
        assert tested.estimate(gamma=0.1, seed=5, executor=client.get_executor()) == here


def test_a_sampler_with_its_own_randomness_is_only_called_here(processes):
    where = []
    rng = np.random.default_rng(1)

    def own(count):
        where.append((os.getpid(), threading.get_ident()))
        return rng.exponential(size=count)

    tested = sampler(target=np.mean, sample=own)
    tested.estimate(gamma=0.02, executor=processes)
    there = tested.evaluations.sensitivities
    assert set(where) == {(os.getpid(), threading.get_ident())}
    # No two evaluations got the same records, and the order is that of a run without executor.
    assert len(set(there)) == 49
    rng = np.random.default_rng(1)
    tested.estimate(gamma=0.02)
    np.testing.assert_array_equal(tested.evaluations.sensitivities, there)
    with pytest.raises(ValueError, match="seed must not be given"):
        tested.estimate(gamma=0.02, seed=1)


# --- records, targets, norms --------------------------------------------------------------------------------


def test_every_kind_of_record_source():
    rows = np.random.default_rng(1).exponential(size=400)
    kinds = [
        rows,
        rows.tolist(),
        stats.expon(),
        exponential,
        lambda count, generator: generator.exponential(size=count),
        lambda count, *, rng: rng.exponential(size=count).tolist(),
        lambda count, scale=1.0: np.random.default_rng(count).exponential(scale, size=count),
    ]
    for sample in kinds:
        estimate = sampler(sample=sample).estimate(gamma=0.05)
        assert 0.01 < estimate.sensitivity < 2
    wide = stats.multivariate_normal(np.zeros(3), np.eye(3))
    estimate = SensitivitySampler(lambda x: x.mean(axis=0), wide, records=10).estimate(gamma=0.05, seed=1)
    assert estimate.size == 3
    new = getattr(stats, "Normal", None)
    if new is not None:
        assert sampler(sample=new()).estimate(gamma=0.1, seed=1).seed == 1


@pytest.mark.parametrize("vectorised", [False, True])
def test_a_target_may_change_its_database_in_place(vectorised):
    def largest(data):
        return np.sort(data, axis=-1)[..., -1]

    def largest_in_place(data):
        data.sort(axis=-1)
        return data[..., -1].copy()

    # Were the neighbour made after the first call, it would lose the largest record and not the last.
    want, got = (
        SensitivitySampler(target, exponential, records=10, vectorised=vectorised).estimate(samples=50, seed=1)
        for target in (largest, largest_in_place)
    )
    assert got.sensitivity == want.sensitivity
    assert want.sensitivity > 0


def test_data_frames_are_taken_by_position():
    numbers = np.random.default_rng(3).normal(size=60)
    # Labels that contradict the positions, each of them twice.
    labels = np.tile(np.arange(30)[::-1], 2)
    series = pandas.Series(numbers, index=labels)
    frame = pandas.DataFrame({"x": numbers, "name": ["?"] * 60}, index=labels)

    class Pair:
        def pair(self, common, a, b):
            return common.sum() + a, common.sum() + b

    def resampled(count, rng):
        return series.iloc[rng.integers(0, 60, size=count)]

    def estimate(target, sample):
        return SensitivitySampler(target, sample, records=8).estimate(samples=40, seed=1).sensitivity

    want = estimate(np.sum, numbers)
    for target, sample in (
        (np.sum, series),
        (np.sum, resampled),
        (Pair(), series),
        (lambda data: data["x"].sum(), frame),
    ):
        assert estimate(target, sample) == pytest.approx(want, rel=1e-12)
    assert estimate(Mean(), series) == estimate(Mean(), numbers)
    private = frame.iloc[:8]
    release = sample_then_respond(Laplace, lambda data: data["x"].sum(), private, frame, epsilon=1.0, gamma=0.1)
    assert math.isfinite(release.value)


def test_resampling_is_with_replacement():
    # Two rows and databases of 10 records: only possible with replacement.
    estimate = sampler(sample=np.array([0.0, 1.0])).estimate(gamma=0.1, seed=1)
    assert estimate.sensitivity in (0.0, pytest.approx(0.1))


def test_pair_path_is_used_and_agrees():
    plain, paired = sampler(), sampler(target=PairMean())
    a, b = plain.estimate(gamma=0.01, seed=1), paired.estimate(gamma=0.01, seed=1)
    assert b.sensitivity == pytest.approx(a.sensitivity, rel=1e-12)
    assert paired._plan.target.calls == 99

    class BatchPair:
        def pair(self, common, a, b):
            total = common.sum(axis=1)
            return total + a, total + b

    sums = sampler(target=BatchPair(), vectorised=True).estimate(gamma=0.01, seed=1)
    means = sampler(target=batch_mean, vectorised=True).estimate(gamma=0.01, seed=1)
    assert sums.sensitivity == pytest.approx(10 * means.sensitivity, rel=1e-12)


def test_native_path_agrees_with_the_same_target_in_python():
    for target, copy in ((Mean(), batch_mean), (Quantile(0.5), lambda x: np.median(x, axis=1))):
        native = sampler(target=target).estimate(gamma=0.003, seed=2)
        python = sampler(target=copy, vectorised=True).estimate(gamma=0.003, seed=2)
        assert native.sensitivity == pytest.approx(python.sensitivity, rel=1e-12)


def test_functions_on_a_grid():
    def distribution_function(data):
        data = np.sort(data)
        return lambda points: np.searchsorted(data, points, side="right") / len(data)

    tested = sampler(target=distribution_function, norm="sup", grid=np.linspace(0, 3, 50))
    estimate = tested.estimate(gamma=0.01, seed=1)
    assert estimate.sensitivity == pytest.approx(0.1)
    assert estimate.size == 50


def test_norms_of_one_vector():
    first, second = np.array([[3.0, -4.0]]), np.zeros((1, 2))
    assert sensitivities(first, second, "l1")[0] == 7.0
    assert sensitivities(first, second, "l2")[0] == pytest.approx(5.0, rel=1e-14)
    assert sensitivities(first, second, "sup")[0] == 4.0
    assert sensitivities(first, second, lambda d: float(d @ d))[0] == 25.0
    for scale in (1e-300, 1e300):
        assert sensitivities(first * scale, second, "l2")[0] == pytest.approx(5 * scale, rel=1e-14)


@settings(deadline=None)
@given(
    st.integers(1, 6).flatmap(
        lambda d: st.tuples(*(st.lists(st.floats(-1e9, 1e9), min_size=d, max_size=d) for _ in "ab"))
    )
)
def test_norms_are_never_below_the_exact_ones(vectors):
    a, b = (np.array([v]) for v in vectors)
    exact = [abs(Fraction(x) - Fraction(y)) for x, y in zip(*vectors, strict=True)]
    total = sum(exact)
    for norm, got, want in (
        ("l1", sensitivities(a, b, "l1")[0], total),
        ("sup", sensitivities(a, b, "sup")[0], max(exact)),
    ):
        assert Fraction(got) >= want, norm
        assert Fraction(got) <= want * (1 + Fraction(1, 2**48)) + Fraction(1, 2**1073), norm
    square = sum(x * x for x in exact)
    got = Fraction(sensitivities(a, b, "l2")[0])
    assert got * got >= square or square < Fraction(1, 2**2000)
    assert got * got <= square * (1 + Fraction(1, 2**45)) + Fraction(1, 2**2000)


def test_whole_numbers_stay_exact():
    assert sensitivities(np.array([[5, 7]]), np.array([[4, 9]]), "l1")[0] == 3.0
    large = 2**60
    got = sensitivities(np.array([large + 1]), np.array([large]), "l1")[0]
    assert 1.0 <= got <= math.nextafter(1.0, 2)
    estimate = sampler(target=Histogram([0, 1, 2]), sample=np.array([0.5, 1.5])).estimate(gamma=0.1, seed=3)
    assert estimate.sensitivity == 2.0
    assert sampler(target=lambda x: bool(x[0] > 1), sample=exponential).estimate(gamma=0.1).sensitivity == 0.0


# --- not finite ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("norm", ["l1", "l2", "sup", lambda d: 0.0])
def test_not_finite_is_infinitely_sensitive(bad, norm):
    def target(data):
        return np.array([1.0, bad if data[-1] > 1 else 1.0])

    tested = sampler(target=target, norm=norm)
    assert tested.estimate(gamma=0.05, seed=1).sensitivity == math.inf
    # Pr[one of the two last records > 1] = 0.6: the smallest of many is still finite.
    estimate = tested.estimate(gamma=0.9, samples=99, seed=1)
    assert estimate.sensitivity == 0.0
    assert estimate.infinite > 0


def test_nan_everywhere_stops_early():
    estimate = sampler(target=lambda data: math.nan).estimate(gamma=0.001)
    assert estimate.sensitivity == math.inf
    assert estimate.evaluated == estimate.infinite == 16
    assert estimate.samples == 999


# --- early stop ---------------------------------------------------------------------------------------------


def test_early_stop_gives_the_same_answer_and_count_on_any_executor():
    full = SensitivitySampler(Histogram([0, 1, 2, 9]), exponential, records=10)
    tested = SensitivitySampler(Histogram([0, 1, 2, 9]), exponential, records=10, bound=2.0)
    slow, fast = full.estimate(gamma=1e-4, seed=1), tested.estimate(gamma=1e-4, seed=1)
    assert slow.sensitivity == fast.sensitivity == 2.0
    assert fast.evaluated < slow.evaluated == slow.samples == 9999
    with ThreadPoolExecutor(2) as threads:
        assert tested.estimate(gamma=1e-4, seed=1, executor=threads) == fast
    # What an early stop left is enough to resume from, and the count is still that of the first run.
    assert tested.estimate(gamma=1e-4, resume=full.evaluations) == fast
    # Ties decide an inner order statistic without any bound.
    tied = full.estimate(gamma=0.2, samples=9999, seed=1)
    assert tied.evaluated < 9999
    values = np.sort(_all(full, 9999))
    assert tied.sensitivity == values[tied.order - 1]


def _all(tested, samples):
    tested.estimate(samples=samples, seed=1)
    return tested.evaluations.sensitivities


def test_a_wrong_bound_is_found_out():
    with pytest.raises(TargetError, match="bound must not be below"):
        sampler(bound=0.01).estimate(gamma=0.01, seed=1)
    with pytest.raises(ValueError, match="bound must be"):
        sampler(bound=0.0)


# --- errors keep what was done ------------------------------------------------------------------------------


class Fails:
    """Raises in one evaluation, counted by pairs."""

    def __init__(self, at, error):
        self.at, self.error, self.calls = at, error, 0

    def pair(self, common, a, b):
        self.calls += 1
        if self.calls - 1 == self.at:
            raise self.error
        return float(a), float(b)


def test_a_target_that_raises():
    tested = sampler(target=Fails(40, ZeroDivisionError("no")))
    with pytest.raises(TargetError, match=r"evaluation 40: target raised ZeroDivisionError: no") as caught:
        tested.estimate(gamma=0.01, seed=1)
    assert "40 of 99 evaluations made are kept" in str(caught.value)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert len(caught.value.evaluations) == 40
    assert caught.value.index == 40
    assert len(tested.evaluations) == 40
    # The second try goes on where the first one stopped, and ends at the answer of a run without trouble.
    again = tested.estimate(gamma=0.01, resume=caught.value.evaluations)
    assert tested._plan.target.calls == 41 + 59
    assert again.sensitivity == sampler(target=Fails(-1, None)).estimate(gamma=0.01, seed=1).sensitivity


class Exits:
    def __call__(self, data):
        raise SystemExit(3)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (lambda data: "x", "target must return real numbers"),
        (lambda data: None, "target must return real numbers"),
        (lambda data: 1j, "target must return real numbers"),
        (lambda data: [[1.0], [1.0, 2.0]], "target must return"),
        (lambda data: data[data > np.median(data) + 0.4], "target must return one shape"),
        (Exits(), "target raised SystemExit"),
    ],
)
def test_targets_that_return_rubbish(target, message):
    with pytest.raises(TargetError, match=message):
        sampler(target=target).estimate(gamma=0.01, seed=1)


def test_varying_shape_is_found_across_pieces():
    class Grows:
        calls = 0

        def pair(self, common, a, b):
            Grows.calls += 1
            value = np.zeros(1 if Grows.calls <= 60 else 2)
            return value, value

    with ThreadPoolExecutor(1) as executor, pytest.raises(TargetError, match=r"one shape, got \(1,\)"):
        sampler(target=Grows()).estimate(gamma=0.01, seed=1, executor=executor)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (lambda data: data.mean(), "one value for each of the 99 databases"),
        (lambda data: data.mean(axis=0), "one value for each of the 99 databases"),
        (lambda data: np.array(["a"] * len(data)), "real numbers"),
        (lambda data: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_vectorised_targets_that_return_rubbish(target, message):
    with pytest.raises(TargetError, match=message):
        sampler(target=target, vectorised=True).estimate(gamma=0.01, seed=1)


@pytest.mark.parametrize(
    ("norm", "message"),
    [
        (lambda d: -1.0, "norm must return a number >= 0"),
        (lambda d: 1 / 0, "norm failed"),
        (lambda d: "x", "norm"),
    ],
)
def test_norms_that_fail(norm, message):
    with pytest.raises(TargetError, match=message):
        sampler(norm=norm).estimate(gamma=0.1, seed=1)


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (lambda count: np.zeros(count - 1), "sample must return 11 records when asked for as many, got 10"),
        (lambda count: np.zeros(count + 1), "got 12"),
        (lambda count: 3.0, "got float without a length"),
        (lambda count: 1 / 0, "sample raised ZeroDivisionError"),
        (lambda count, rng: rng.normal(size=5), "got 5"),
        (lambda count, rng: rng.nothing(), "sample raised AttributeError"),
    ],
)
def test_samplers_that_fail(sample, message):
    with pytest.raises(SamplerError, match=message):
        sampler(sample=sample).estimate(gamma=0.1)


def test_a_sampler_that_fails_later_keeps_what_was_made():
    for executor in (None, ThreadPoolExecutor(2)):
        calls = 0

        def sample(count):
            nonlocal calls
            calls += 1
            if calls > 30:
                raise OSError("source gone")
            return np.random.default_rng(calls).exponential(size=count)

        with pytest.raises(SamplerError, match="evaluation 30: sample raised OSError") as caught:
            sampler(sample=sample).estimate(gamma=0.01, executor=executor)
        assert len(caught.value.evaluations) == 30


class Dies(Executor):
    """Runs a few tasks, then breaks like a pool whose worker was killed."""

    def __init__(self, tasks):
        self.tasks = tasks

    def submit(self, function, /, *arguments, **named):
        future = Future()
        self.tasks -= 1
        if self.tasks < 0:
            future.set_exception(RuntimeError("a worker was killed"))
        else:
            future.set_result(function(*arguments, **named))
        return future


def test_an_executor_that_dies_half_way():
    tested = sampler()
    with pytest.raises(
        ExecutorError, match=r"executor failed at evaluation \d+: RuntimeError: a worker"
    ) as caught:
        tested.estimate(gamma=0.001, seed=4, executor=Dies(5))
    kept = caught.value.evaluations
    assert 5 <= len(kept) < 999
    assert tested.estimate(gamma=0.001, resume=kept) == sampler().estimate(gamma=0.001, seed=4)


def test_a_worker_that_is_killed():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:

        def kill(done, total):
            for process in pool._processes.values():
                process.kill()

        tested = sampler(target=np.mean, sample=stats.expon())
        with pytest.raises(ExecutorError, match=r"executor (failed at|did not take) evaluation \d+: Broken"):
            tested.estimate(samples=10**6, seed=1, executor=pool, progress=kill)
        assert 0 < len(tested.evaluations) < 10**6


def test_a_function_that_cannot_be_sent(processes):
    with pytest.raises(ExecutorError, match="top level of a module"):
        sampler(target=lambda data: 0.0).estimate(gamma=0.1, seed=1, executor=processes)


def test_an_executor_that_is_shut_down():
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(ExecutorError, match="executor did not take evaluation 0"):
        sampler().estimate(gamma=0.1, seed=1, executor=pool)


class Unpicklable(Exception):
    def __init__(self, text):
        super().__init__(text)
        self.handle = threading.Lock()


def test_an_error_that_cannot_come_back():
    tested = sampler(target=Fails(3, Unpicklable("x")))
    with ThreadPoolExecutor(1) as pool, pytest.raises(TargetError, match="raised Unpicklable: x") as caught:
        tested.estimate(gamma=0.1, seed=1, executor=pool)
    assert caught.value.__cause__ is None
    assert caught.value.evaluations.indices[:3].tolist() == [0, 1, 2]
    assert 3 not in caught.value.evaluations.indices


# --- interrupts, checkpoints, files -------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [0, 2])
def test_an_interrupt_loses_little_and_is_resumed(threads, tmp_path):
    file = tmp_path / "work.json"
    executor = ThreadPoolExecutor(threads) if threads else None

    def watch(done, total):
        if done >= 50:
            raise KeyboardInterrupt

    tested = sampler()
    with pytest.raises(KeyboardInterrupt):
        tested.estimate(gamma=0.001, seed=8, progress=watch, checkpoint=file, executor=executor)
    kept = tested.evaluations
    assert 50 <= len(kept) < 999
    loaded = Evaluations.load(file)
    np.testing.assert_array_equal(loaded.sensitivities, kept.sensitivities)
    seen = []
    again = sampler().estimate(
        gamma=0.001, checkpoint=file, progress=lambda done, total: seen.append(done), executor=executor
    )
    assert again == sampler().estimate(gamma=0.001, seed=8)
    assert seen[-1] == 999
    assert not file.exists()


def test_resume_with_gaps_and_batches():
    tested = sampler(target=Mean())
    want = tested.estimate(gamma=0.001, seed=3)
    full = tested.evaluations
    keep = (full.indices < 300) | (full.indices > 600)
    holes = Evaluations(
        **{**full.__dict__, "indices": full.indices[keep], "sensitivities": full.sensitivities[keep]}
    )
    assert tested.estimate(gamma=0.001, resume=holes) == want
    # More samples than before: the short last batch of the first run is drawn anew.
    assert tested.estimate(gamma=0.0005, resume=full) == tested.estimate(gamma=0.0005, seed=3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"records": 11}, "same records"),
        ({"norm": "l2"}, "same norm"),
        ({"target": spread}, "same target"),
        ({"vectorised": True}, "same block"),
        ({"sample": lambda count: np.zeros(count)}, "same kind of sample"),
    ],
)
def test_resuming_something_else_is_refused(change, message):
    tested = sampler()
    tested.estimate(gamma=0.1, seed=1)
    with pytest.raises(ValueError, match=message):
        sampler(**change).estimate(gamma=0.1, resume=tested.evaluations)
    with pytest.raises(ValueError, match="seed must be that"):
        tested.estimate(gamma=0.1, seed=2, resume=tested.evaluations)
    with pytest.raises(TypeError, match="resume must be Evaluations"):
        tested.estimate(gamma=0.1, resume=[1.0])


def test_a_real_ctrl_c_stops_a_native_run():
    big = SensitivitySampler(Mean(), exponential, records=2000)
    timer = threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        big.estimate(samples=10**6, seed=1)
    assert time.monotonic() - start < 5
    assert 0 < len(big.evaluations) < 10**6


def test_estimates_are_saved_and_loaded(tmp_path):
    file = tmp_path / "estimate.json"
    for estimate in (
        sampler().estimate(gamma=0.1, seed=1),
        sampler(target=lambda data: math.nan).estimate(gamma=0.1),
        sampler().estimate(gamma=0.1, method="confident", confidence=0.9),
        sampler().estimate(gamma=0.1, seed=2).shifted(divergence=1e-4),
    ):
        estimate.save(file)
        assert SensitivityEstimate.load(file) == estimate
        json.loads(file.read_text(), parse_constant=pytest.fail)
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "is not a JSON file"),
        ("[]", "does not hold"),
        ('{"dpcore": "evaluations", "format": 1}', "does not hold sensitivity estimate"),
        ('{"dpcore": "sensitivity estimate", "format": 9}', "has format 9"),
        ('{"dpcore": "sensitivity estimate", "format": 1}', "KeyError"),
        ('{"dpcore": "sensitivity estimate", "format": 1, "sensitivity": 1, "sensitivity": 0.1}', "given twice"),
    ],
)
def test_files_that_are_something_else(text, message, tmp_path):
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        SensitivityEstimate.load(file)


@pytest.mark.parametrize(
    "change",
    [
        {"sensitivity": -1.0},
        {"sensitivity": math.nan},
        {"sensitivity": True},
        {"gamma": 2.0},
        {"gamma": 0.0999},  # less than nine samples can promise
        {"order": 8},
        {"order": 99},
        {"evaluated": 10},
        {"infinite": 10},
        {"method": "hopeful"},
        {"method": "confident"},  # without its confidence
        {"rho": math.nan},
        {"rho": 0.5},
        {"seed": 2.5},
        {"grid": 7},
        {"norm": None},
    ],
)
def test_files_with_wrong_numbers(change, tmp_path):
    file = tmp_path / "x.json"
    sampler().estimate(gamma=0.1, seed=1).save(file)
    fields = json.loads(file.read_text())
    file.write_text(json.dumps({**fields, **change}))
    with pytest.raises(ValueError, match="does not hold a sensitivity estimate"):
        SensitivityEstimate.load(file)


def test_evaluations_with_wrong_numbers(tmp_path):
    file = tmp_path / "x.json"
    tested = sampler()
    tested.estimate(gamma=0.1, seed=1)
    tested.evaluations.save(file)
    fields = json.loads(file.read_text())
    for change in (
        {"indices": [0]},
        {"indices": [0] * 9},
        {"indices": [0.5, *range(1, 9)]},
        {"sensitivities": [-1.0] * 9},
        {"seed": "x"},
        {"seed": -1},
        {"wanted": 8},
        {"records": True},
        {"block": 0},
        {"shape": [1.5]},
        {"target": None},
    ):
        file.write_text(json.dumps({**fields, **change}))
        with pytest.raises(ValueError, match="does not hold evaluations"):
            Evaluations.load(file)
    with pytest.raises(FileNotFoundError, match="existing folder"):
        tested.estimate(gamma=0.1, checkpoint=tmp_path / "no" / "x.json")


# --- arguments, results, budget -----------------------------------------------------------------------------


def test_result_object():
    estimate = sampler().estimate(gamma=0.1, seed=1)
    assert "at most 0.1" in estimate.statement
    assert "mean" in estimate.statement
    assert "confidence 0.99" in sampler().estimate(gamma=0.1, method="confident").statement
    assert estimate.to_dict()["sensitivity"] == estimate.sensitivity
    assert type(estimate.sensitivity) is float
    assert "gamma=0.1" in repr(estimate)
    with pytest.raises(AttributeError):
        estimate.gamma = 0.5
    fresh = sampler()
    assert fresh.evaluations is None
    assert "mean" in repr(fresh)
    fresh.estimate(gamma=0.1)
    assert "9 of 9" in repr(fresh.evaluations)
    assert "9 of 9" in fresh.evaluations.statement


def test_published_and_confident_methods():
    assert sampler(target=Mean()).estimate(gamma=0.1, method="published", seed=1).samples == 285
    with pytest.raises(ValueError, match="samples must be at least 99"):
        sampler().estimate(gamma=0.01, samples=50)


def test_time_budget():
    def slow(data):
        time.sleep(0.002)
        return 0.0

    tested = sampler(target=slow)
    assert 50 < tested.rate(seconds=0.2) < 300
    estimate = tested.estimate(seconds=0.5)
    assert 10 <= estimate.samples <= 150
    assert estimate.gamma == pytest.approx(1 / (estimate.samples + 1))
    with pytest.raises(ValueError, match="together with seconds"):
        tested.estimate(seconds=1, samples=3)


def test_progress_line_only_on_a_terminal(capsys, monkeypatch):
    sampler().estimate(gamma=0.1, progress=True)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    sampler().estimate(gamma=0.1, progress=True)
    shown = capsys.readouterr().err
    assert "9/9" in shown
    assert shown.endswith("\n")
    with pytest.raises(TypeError, match="progress must be"):
        sampler().estimate(gamma=0.1, progress="yes")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"target": 3}, TypeError, "target must be callable"),
        ({"sample": None}, TypeError, "sample must be"),
        ({"sample": "abc"}, TypeError, "sample must be"),
        ({"sample": []}, ValueError, "at least one record"),
        ({"sample": [[1], [1, 2]]}, ValueError, "rectangular"),
        ({"sample": lambda a, b, c: a}, TypeError, r"callable of \(count\)"),
        ({"records": 0}, ValueError, "records must be"),
        ({"records": 2.0}, TypeError, "records must be"),
        ({"norm": "l3"}, ValueError, "norm must be one of"),
        ({"vectorised": 1}, TypeError, "vectorised must be"),
        ({"vectorised": True, "grid": [1.0]}, ValueError, "grid must not"),
        ({"bound": math.nan}, ValueError, "bound must be"),
    ],
)
def test_bad_construction(options, error, message):
    with pytest.raises(error, match=message):
        sampler(**options)


# --- another distribution -----------------------------------------------------------------------------------


def test_shifted_gamma_is_the_largest_the_divergence_allows():
    for gamma in (1e-6, 0.01, 0.3):
        for total in (1e-8, 1e-3, 0.1, 1.0):
            q = shifted_gamma(gamma=gamma, records=1, divergence=total / 2)
            kl = gamma * math.log(gamma / q) + (1 - gamma) * math.log((1 - gamma) / (1 - q))
            assert kl >= total * (1 - 1e-6)
            assert kl == pytest.approx(total, rel=1e-5)
            assert q <= gamma + math.sqrt(total / 2) * (1 + 1e-12)


@settings(deadline=None)
@given(st.floats(1e-9, 0.9), st.integers(1, 1000), st.floats(0, 1e-4))
def test_exact_shift_lies_between_nothing_and_pinsker(gamma, records, divergence):
    try:
        published = shifted_gamma(gamma=gamma, records=records, divergence=divergence, method="published")
    except ValueError:
        published = 1.0
    exact = shifted_gamma(gamma=gamma, records=records, divergence=divergence)
    assert gamma <= exact <= published


@pytest.mark.parametrize("divergence", [1e3, 1e15, 1e300])
def test_a_shift_that_leaves_nothing_says_so(divergence):
    for method in ("exact", "published"):
        with pytest.raises(ValueError, match="guarantee"):
            shifted_gamma(gamma=0.01, records=99, divergence=divergence, method=method)


def test_shifted_estimate():
    estimate = sampler().estimate(gamma=0.01, seed=1)
    moved = estimate.shifted(divergence=1e-4, method="published")
    assert moved.gamma == pytest.approx(0.01 + math.sqrt(11e-4 / 2))
    assert moved.sensitivity == estimate.sensitivity
    assert "KL(sampled || Q) <= 0.0001" in moved.statement
    assert estimate.shifted(divergence=0.0) == estimate
    with pytest.raises(ValueError, match="shifted already"):
        moved.shifted(divergence=1e-4)
    with pytest.raises(ValueError, match="guarantee"):
        estimate.shifted(divergence=0.5, method="published")
    with pytest.raises(ValueError, match="divergence must be"):
        estimate.shifted(divergence=-1.0)
