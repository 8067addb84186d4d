"""Errata of the thesis, as docs/partial_knowledge.md lists them, that no other test shows."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy import special, stats

from dpcore import gaussian
from dpcore import partial_knowledge as pk
from dpcore.partial_knowledge import published

pytestmark = pytest.mark.filterwarnings("ignore::dpcore.partial_knowledge.published.NotForRelease")


def loss(bias, rest, unknown):
    """|ln| of (4.32): `rest` counting records among the `unknown`, which the thesis takes with the challenge."""
    return abs(math.log((unknown - rest) / rest * bias / (1 - bias)))


def test_corollary_3_2_means_sqrt_two_times_epsilon():
    """Pr[loss > epsilon] is delta for s (t + sqrt(t^2 + eps)) / (sqrt(2) eps), not for / sqrt(2 eps)."""
    for epsilon, delta in ((0.1, 1e-6), (0.5, 1e-4)):
        t = special.erfcinv(2 * delta)
        meant = (t + math.sqrt(t * t + epsilon)) / (math.sqrt(2) * epsilon)
        printed = (t + math.sqrt(t * t + epsilon)) / math.sqrt(2 * epsilon)

        def exceeds(sigma, epsilon=epsilon):  # the loss is normal with mean 1/(2 sigma^2), deviation 1/sigma
            return stats.norm.sf(epsilon * sigma - 0.5 / sigma)

        assert exceeds(meant) == pytest.approx(delta, rel=1e-9)
        assert exceeds(printed) > 10 * delta
        assert gaussian.sigma(epsilon=epsilon, delta=delta, method="probabilistic") == pytest.approx(
            meant, rel=1e-12
        )


def test_equation_4_31_prints_one_record_too_many():
    """The binomials of (4.30) have n - n' - 1 records; their ratio is (n-n'-k)/k, which (4.32) has right."""
    unknown, k = 11, 4  # n - n' = 12
    assert math.comb(unknown, k) / math.comb(unknown, k - 1) == pytest.approx((unknown + 1 - k) / k)
    printed = math.factorial(unknown + 1) / (math.factorial(k) * math.factorial(unknown - k))
    assert printed != math.comb(unknown, k)


def test_algorithm_1_returns_no_noise_when_noise_1_is_exactly_right():
    """Neither loop of lines 5 to 14 runs, hi stays 0, and line 37 returns it."""
    case = dict(epsilon=0.5, records=41, known=0, bias=0.3)
    delta = pk.count_delta(**case, noise_scale=1.0)
    found = published.algorithm_1(**case, delta=delta)
    assert (found.noise_scale, found.returned_at) == (0.0, 37)
    assert pk.count_delta(**case, noise_scale=0.0) > 1.05 * delta
    assert pk.calibrate(**case, delta=delta).noise_scale == pytest.approx(1.0, rel=1e-9)


def test_lines_6_to_8_use_the_exact_bias():
    """bias_D - l in line 7, and one end of line 6, is the bias without noise: tau tells counts apart."""
    traces = [
        published.algorithm_2(
            count, records=4000, known=1000, epsilon=1.0, delta=1e-4, laplace=1200.5 - count
        ).trace
        for count in (1200, 1201)
    ]
    assert traces[0]["bias_D"] == pytest.approx(traces[1]["bias_D"], abs=1e-15)
    assert [t["bias_ends"][0] for t in traces] == pytest.approx([1200 / 4000, 1201 / 4000], abs=1e-15)
    assert traces[0]["tau_1"] != traces[1]["tau_1"]


def test_lines_7_and_8_mean_the_smallest_tau():
    """Every x above tau/2 has a smaller tail still, so that the largest one, as printed, is no bound at all."""
    n, bias, kappa2 = 1000, 0.3, 1e-6
    tau, _ = published.chernoff_tau(records=n, bias=bias, kappa2=kappa2)
    tails = [stats.binom.cdf(math.floor(n * (bias - x)), n, bias) for x in (tau / 2, 0.75 * tau, tau)]
    assert all(tail <= kappa2 / 2 for tail in tails)
    assert tails == sorted(tails, reverse=True)


def test_lines_14_to_16_count_one_class_too_few():
    """out = min(n', c) - base is the last index; the lists of line 15 need one place more."""
    trace = published.algorithm_2(30, records=100, known=40, epsilon=2.0, delta=0.2, laplace=0.0).trace
    _, pmf = published.occurrence_probabilities(records=100, known=40, count=30)
    assert trace["out"] == len(pmf) - 1
    # The lists as lines 20 to 24 leave them: the worst class first, each with its number of hits and probability.
    assert np.all(np.diff(trace["losses"][1:]) <= 0)
    np.testing.assert_array_equal(trace["prb"], pmf[trace["idx"]])


def test_theorem_4_17_and_corollary_4_18_fail_across_the_two_sides():
    """The loss grows on either side of bias_D but not alike: the nearer bias may have the larger loss."""
    bias_d, share = 0.4, 0.6

    def at(bias):
        rest = (bias_d - share * bias) / (1 - share)  # Corollary 4.15
        return loss(bias, rest, 1.0)

    assert at(0.3) < at(0.497)  # (4.54) with bias 0.3 and bias' 0.497 ...
    assert abs(0.3 - bias_d) > abs(0.497 - bias_d)  # ... and not (4.55)


def test_equation_4_36_has_a_constant_too_many():
    """d/db |ln(const b/(1-b))| is +-1/(b (1-b)) whatever const."""
    for constant in (0.2, 7.0):
        b = 0.37
        slope = (loss(b + 1e-6, 1.0, 1.0 + constant) - loss(b - 1e-6, 1.0, 1.0 + constant)) / 2e-6
        assert abs(slope) == pytest.approx(1 / (b * (1 - b)), rel=1e-6)
        assert abs(slope) != pytest.approx(1 / (constant * b * (1 - b)), rel=0.1)


def test_equations_4_72_and_4_73_mean_the_smaller():
    """From x <= max(x', x'') follows epsilon - x >= the *smaller* of epsilon - x' and epsilon - x''."""
    epsilon, x, x1, x2 = 1.0, 2.0, 0.5, 3.0
    assert x <= max(x1, x2)
    assert epsilon - x >= min(epsilon - x1, epsilon - x2)
    assert not epsilon - x >= max(epsilon - x1, epsilon - x2)


def test_delta_of_theorem_4_22_lacks_the_positive_part():
    """E[1 - exp(eps - loss)] without it is no divergence: it is negative for a private count."""
    m, p, epsilon = 30, 0.5, 0.7
    k = np.arange(1, m + 1)
    b = stats.binom.pmf(np.arange(m + 1), m, p)
    losses = np.abs(np.log(b[k - 1] / b[k]))
    assert np.sum(b[k] * (1 - np.exp(epsilon - losses))) < 0
    assert pk.count_delta(epsilon=epsilon, records=m + 1, known=0, bias=p, noise_scale=0.0) > 0


def test_lemma_4_10_is_proved_for_half_the_scale():
    """Its statement has Laplace(2/eps), its proof Laplace(1/eps); line 9 uses the former, as line 4 draws."""
    stated = published.laplace_truncation_error(epsilon=0.5, records=1000, tau=0.1)
    assert stated == pytest.approx(stats.laplace.cdf(-49, scale=4.0))
    assert stated > 100 * stats.laplace.cdf(-49, scale=2.0)


def test_equation_5_3_prints_the_reciprocal():
    n, known, count, hits = 12, 5, 6, 2
    ways = math.comb(known, hits) * math.comb(n - known, count - hits)
    assert ways / math.comb(n, count) == pytest.approx(stats.hypergeom.pmf(hits, n, count, known))  # (5.4)
    assert ways * math.comb(n, count) > 1  # (5.3)


def test_lemma_5_1_loses_eight_digits_at_ten_million():
    n, known, count = 10**7, 5 * 10**6, 5 * 10**6
    hits = 2_500_000

    def log_factorial(x):
        return math.lgamma(x + 1)

    plus = (known, n - known, count, n - count)
    minus = (n, hits, count - hits, known - hits, n - known - (count - hits))
    summed = math.exp(sum(map(log_factorial, plus)) - sum(map(log_factorial, minus)))
    first, pmf = published.occurrence_probabilities(records=n, known=known, count=count)
    with mp.workdps(40):
        exact = mp.exp(sum(mp.loggamma(x + 1) for x in plus) - sum(mp.loggamma(x + 1) for x in minus))
    assert abs(summed / exact - 1) > 1e-9
    assert abs(mp.mpf(pmf[hits - first]) / exact - 1) < 1e-14


def test_conjecture_4_12_is_false():
    """The density of the loss is not decreasing: without noise its mass first grows."""
    b = stats.binom.pmf(np.arange(41), 40, 0.3)
    losses = np.log(b[:-1] / b[1:])  # increasing in k
    assert np.all(np.diff(losses) > 0)
    mass = b[1:][losses > -0.5]
    assert mass[1] > mass[0]
    assert mass[-1] < mass.max()


def test_figure_4_1_was_made_with_bias_0_4():
    """Its caption (a) says 0.8; minima at 0.75, 0.5, 0.25 belong to 0.4. It disproves 3.9, not 4.12 as it says."""
    for hits, least in ((500, 0.75), (1000, 0.5), (1500, 0.25)):
        assert loss(least, 0.4 * 5000 - hits, 2000) == pytest.approx(0.0, abs=1e-12)
        rest = 0.8 * 5000 - hits
        assert rest >= 2000 or loss(least, rest, 2000) > 0.1
