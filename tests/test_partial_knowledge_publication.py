"""What a released count may be published with: intervals, cautions, and nothing that tells the count.

Statistical tests state their level; the flakiness of the module is below 1e-5 a run.
"""

import math
import multiprocessing
import os

import mpmath as mp
import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from dpcore import mechanisms
from dpcore import partial_knowledge as pk
from dpcore.mechanisms._base import normal_half_width
from dpcore.partial_knowledge._release import combined_half_width
from dpcore.partial_knowledge._unknown_bias import calibrate_from_estimate, make_plan, release_grid
from dpcore.samplers import InsecureTestRng

LEVEL = 1e-6


def test_interval_is_that_of_the_command():
    mechanism = pk.PartialKnowledgeCount(
        records=2000, known=500, epsilon=0.2, delta=1e-6, worst_case_epsilon=math.inf, bias=0.4
    )
    out = mechanism.release(600, rng=InsecureTestRng(1))
    grid = release_grid(out.noise_scale, 2000)
    plain = mechanisms.Gaussian(sigma=out.noise_scale, sensitivity=1.0, grid=grid, values_on_grid=True)
    for level in (0.5, 0.95, 1 - 1e-9):
        assert out.interval(level) == plain.interval(level)
        # Exact: half a cell less must hold the noise less often, half a cell more often enough.
        width = out.interval(level).half_width
        with mp.workdps(40):
            scale = mp.sqrt(2) * mp.mpf(out.noise_scale)
            covered = [mp.erf((width + step * grid) / scale) for step in (-0.5, 0.5)]
            assert covered[0] < level <= covered[1]
    for level in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="level"):
            out.interval(level)


def test_interval_of_an_exact_count_is_the_count():
    out = pk.PartialKnowledgeCount(
        records=10**6, known=10**5, epsilon=1.0, delta=1e-6, worst_case_epsilon=math.inf, bias=0.5
    ).release(450_123)
    assert out.interval(0.95).around(out.value) == (450_123.0, 450_123.0)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_combined_interval_holds_whatever_the_dependence(level):
    """The worst share `a` for every first output, integrated; and no wider than the formula says."""
    most = math.sqrt(0.5)
    r = combined_half_width(level, most)
    assert normal_half_width(level) < r < math.sqrt(-2 * math.log1p(-level))
    first = np.linspace(-9, 9, 2001)
    share = np.linspace(0, most, 401)[:, None]
    rest = np.sqrt(1 - share**2)
    inside = ndtr((r - share * first) / rest) - ndtr((-r - share * first) / rest)
    worst = inside.min(axis=0) @ stats.norm.pdf(first) * (first[1] - first[0])
    assert level <= worst <= level + 0.35 * (1 - level)
    assert combined_half_width(level, 0.0) == pytest.approx(normal_half_width(level), rel=1e-10)
    # Rotating the two normal numbers to the worst direction reaches the formula itself.
    angle = math.asin(most)
    turns = np.linspace(-np.pi, np.pi, 40_001)[:-1]
    nearest = np.abs(np.angle(np.exp(1j * (turns[:, None] - np.array([0.0, angle])))))
    inner = (turns >= 0) & (turns <= angle) | (turns <= angle - np.pi)
    across = np.abs(np.cos(np.minimum(nearest, np.pi - nearest).min(axis=1)))
    reach = np.where(inner, 1.0, across)
    covered = np.mean(-np.expm1(-0.5 * (r / np.maximum(reach, 1e-9)) ** 2))
    assert covered == pytest.approx(level, rel=1e-4)


@pytest.mark.statistical
def test_interval_of_a_release_with_estimated_bias():
    """2000 releases; the level of the test is 1e-6 (exact binomial), and half the width fails it."""
    count, level = 3000, 0.9
    inside = np.zeros(2, dtype=int)
    rng = InsecureTestRng(12)
    asked = dict(records=10**4, known=1000, epsilon=0.05, delta=1e-4, worst_case_epsilon=1.0)
    for _ in range(2000):
        out = pk.PartialKnowledgeCount(**asked).release(count, rng=rng)
        width = out.interval(level).half_width
        inside += abs(out.value - count) <= width, abs(out.value - count) <= width / 2
    chance = stats.binom.cdf(inside, 2000, level)
    assert chance[0] > LEVEL > chance[1]


@pytest.mark.parametrize("bias", [None, 0.5, (0.3, 0.6), [(20, 0.2), (24, 0.3)]])
def test_a_delta_as_large_as_one_record_comes_with_a_caution(bias):
    asked = dict(records=50, known=5, epsilon=1.0, worst_case_epsilon=2.0, bias=bias)
    assert (
        "Caution: delta is not below 1/50" in pk.PartialKnowledgeCount(delta=0.02, **asked).release(20).statement
    )
    assert "Caution" not in pk.PartialKnowledgeCount(delta=0.0199, **asked).release(20).statement


def test_caution_is_about_the_delta_that_is_stated():
    asked = dict(records=10**5, known=0, epsilon=1.0, delta=1e-3, bias=0.5)
    assert "Caution" not in pk.calibrate(**asked).statement  # no noise, and far less than the delta asked for
    assert "Caution" in pk.calibrate(**asked, worst_case_epsilon=8.0).statement


def test_statements_do_not_round_the_assumptions():
    found = pk.calibrate(epsilon=1.0, delta=1e-3, records=30, known=5, bias=(0.2000004, 0.3))
    assert "[0.2000004, 0.3]" in found.statement
    found = pk.calibrate(epsilon=1.0, delta=1e-3, records=30, known=5, bias=0.2000004)
    assert "of bias 0.2000004;" in found.statement


@pytest.mark.parametrize("count", [np.int64(20), np.uint8(20), np.array(20), 20])
def test_whole_numbers_of_any_type_are_counts(count):
    asked = dict(records=50, known=5, epsilon=1.0, delta=1e-3, worst_case_epsilon=2.0)
    for bias in (None, 0.5):
        out = pk.PartialKnowledgeCount(**asked, bias=bias).release(count, rng=InsecureTestRng(3))
        want = pk.PartialKnowledgeCount(**asked, bias=bias).release(20, rng=InsecureTestRng(3))
        assert out == want
        assert type(out.value) is float


@pytest.mark.parametrize("count", [math.nan, 20.0, "20", None, True, np.float64(20), np.bool_(True), 20j])
def test_other_counts_are_refused_by_their_type_alone_and_spend_nothing(count):
    mechanism = pk.PartialKnowledgeCount(
        records=50, known=5, epsilon=1.0, delta=1e-3, worst_case_epsilon=2.0, bias=0.5
    )
    with pytest.raises(TypeError, match="count must be an integer, got a") as caught:
        mechanism.release(count)
    assert "20" not in str(caught.value)
    mechanism.release(20)


@pytest.mark.parametrize("count", [-(10**400), -1, 51, 10**400])
def test_counts_outside_are_not_to_be_told_from_the_ends(count):
    asked = dict(records=50, known=5, epsilon=1.0, delta=1e-3, worst_case_epsilon=2.0)
    for bias in (None, 0.5):
        out = pk.PartialKnowledgeCount(**asked, bias=bias).release(count, rng=InsecureTestRng(3))
        end = pk.PartialKnowledgeCount(**asked, bias=bias).release(min(max(count, 0), 50), rng=InsecureTestRng(3))
        assert (out, out.statement, out.to_dict()) == (end, end.statement, end.to_dict())


@pytest.mark.parametrize("bias", [None, 0.5])
def test_nothing_but_the_noisy_outputs_depends_on_the_count(bias):
    """With the same noise a neighbouring count moves the outputs by 1; the rest is a function of the first."""
    asked = dict(records=1000, known=5, epsilon=0.5, delta=1e-4, worst_case_epsilon=2.0)
    a, b = (
        pk.PartialKnowledgeCount(**asked, bias=bias).release(count, rng=InsecureTestRng(5)) for count in (400, 401)
    )
    assert b.outputs[0][0] - a.outputs[0][0] == 1.0
    if bias is not None:
        assert (a.calibration, a.noise_scale, a.records) == (b.calibration, b.noise_scale, b.records)
        return
    public = make_plan(1000, 5, 0.5, 1e-4, "passive", None, None, 2.0)
    for out in (a, b):
        assert calibrate_from_estimate(public, out.outputs[0][0]) == out.calibration
        assert [scale for _, scale in out.outputs] == [out.calibration.estimate_scale, out.calibration.noise_scale]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_cannot_release():
    """Otherwise every worker of a pool would make the one release that the guarantee covers."""
    mechanism = pk.PartialKnowledgeCount(
        records=50, known=5, epsilon=1.0, delta=1e-3, worst_case_epsilon=2.0, bias=0.5
    )
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    with mechanism._lock:  # held by another thread at the time: the child must not wait for it
        child = context.Process(target=_release_into, args=(mechanism, queue))
        child.start()
        child.join(60)
    assert queue.get() == "RuntimeError: a forked process cannot release"
    assert mechanism.release(20).noise_scale > 0


def _release_into(mechanism, queue):
    try:
        queue.put(repr(mechanism.release(20)))
    except RuntimeError as error:
        queue.put(f"RuntimeError: {str(error)[:31]}")


@pytest.mark.parametrize("bias", [None, 0.3])
def test_noise_far_below_the_spacing_of_doubles_is_no_error(bias):
    """An exception would come after the release was spent, and for some estimates only."""
    asked = dict(records=1000, known=100, epsilon=0.5, delta=1e-6, worst_case_epsilon=1e300, bias=bias)
    for count in (0, 500, 1000):
        out = pk.PartialKnowledgeCount(**asked).release(count, rng=InsecureTestRng(1))
        if out.noise_scale < 1e-20:
            assert out.value == count
            assert 0.0 <= out.interval(0.95).half_width < 1e-10


def test_noise_that_cannot_be_drawn_is_refused_before_anything_is_released():
    asked = dict(records=1000, known=100, epsilon=1e-300, worst_case_epsilon=math.inf)
    for more in (dict(bias=0.0, delta=1e-18), dict(delta=1e-18), dict(delta=1e-6, estimate_share=1e-30)):
        with pytest.raises(ValueError, match=r"noise of scale 2\*\*49 is enough"):
            pk.PartialKnowledgeCount(**asked, **more)
    with pytest.raises(ValueError, match=r"noise of scale 2\*\*49 is enough"):
        pk.calibrate_unknown_bias(3, records=1000, known=100, epsilon=1e-300, delta=1e-18)


def test_failure_share_is_no_matter_where_the_bias_is_given():
    asked = dict(records=1000, known=100, epsilon=5.0, delta=1e-300, worst_case_epsilon=math.inf)
    assert pk.PartialKnowledgeCount(**asked, bias=0.3).calibration.delta <= 1e-300
    with pytest.raises(ValueError, match="delta times failure_share"):
        pk.PartialKnowledgeCount(**asked)
