"""Operating points: equal to independent tables, safe at the edges, clear about bad input."""

import json
import math
import pathlib
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from dpcore.sensitivity import OperatingPoint, operating_point
from dpcore.sensitivity._operating_point import _is_confident

TABLE = json.loads((pathlib.Path(__file__).parent / "data" / "operating_points.json").read_text())

# Table 1 of the paper at the levels its text and figures use, and the exact counterparts.
LEVELS = [(0.5, 8, 1), (0.1, 285, 9), (0.05, 1305, 19), (0.01, 41971, 99), (0.001, 5486187, 999)]


@pytest.mark.parametrize(("gamma", "published", "exchangeable"), LEVELS)
def test_levels_of_the_paper(gamma, published, exchangeable):
    point = operating_point(gamma=gamma, method="published")
    assert (point.samples, point.order) == (published, published)
    point = operating_point(gamma=gamma)
    assert (point.samples, point.order) == (exchangeable, exchangeable)


@pytest.mark.parametrize("row", TABLE["published"])
def test_published_minimises_samples(row):
    point = operating_point(gamma=row["gamma"], method="published")
    assert point.samples == row["samples"]
    assert point.rho == pytest.approx(float(row["rho"]), rel=1e-13)


@pytest.mark.parametrize("row", TABLE["published_gamma"])
def test_published_minimises_gamma(row):
    point = operating_point(samples=row["samples"], method="published")
    assert point.order == row["samples"]
    assert point.gamma == pytest.approx(float(row["gamma"]), rel=1e-13)
    assert point.gamma >= float(row["gamma"])


@pytest.mark.parametrize("row", TABLE["published_order"])
def test_published_minimises_order(row):
    point = operating_point(samples=row["samples"], gamma=row["gamma"], method="published")
    assert point.order == row["order"]


@pytest.mark.parametrize("row", TABLE["confident"])
def test_confident_samples(row):
    point = operating_point(gamma=row["gamma"], confidence=row["confidence"], method="confident")
    assert point.samples == row["samples"]
    assert point.order == row["samples"]


@pytest.mark.parametrize("row", TABLE["confident_order"])
def test_confident_order(row):
    point = operating_point(
        samples=row["samples"], gamma=row["gamma"], confidence=row["confidence"], method="confident"
    )
    assert point.order == row["order"]


def test_rho_of_the_text():
    assert operating_point(gamma=0.05, method="published").rho == pytest.approx(0.0041829, abs=5e-8)


@settings(deadline=None)
@given(st.integers(1, 10**6))
def test_exchangeable_gamma_of_samples_is_safe_and_inverts(samples):
    point = operating_point(samples=samples)
    assert Fraction(point.gamma) >= Fraction(1, samples + 1)
    assert point.gamma <= math.nextafter(1 / (samples + 1), 1)
    assert operating_point(gamma=point.gamma).samples == samples


@settings(deadline=None)
@given(st.floats(1e-7, 0.999), st.integers(0, 10**6))
def test_exchangeable_order_is_the_smallest_that_holds(gamma, extra):
    samples = operating_point(gamma=gamma).samples + extra
    order = operating_point(gamma=gamma, samples=samples).order
    assert 1 <= order <= samples
    # The guarantee as a correctly rounded double, and one order statistic less no longer gives it.
    assert (samples + 1 - order) / (samples + 1) <= gamma
    assert order == 1 or (samples + 2 - order) / (samples + 1) > gamma


@pytest.mark.parametrize("n", [2, 3, 7, 49, 107, 1000003])
def test_a_gamma_of_one_over_n_means_that(n):
    assert operating_point(gamma=1 / n).samples == n - 1


@settings(deadline=None)
@given(st.floats(0.001, 0.9), st.floats(0.01, 0.9999), st.integers(0, 5000))
def test_confident_order_is_confident_and_smallest(gamma, confidence, extra):
    samples = operating_point(gamma=gamma, confidence=confidence, method="confident").samples + extra
    point = operating_point(gamma=gamma, samples=samples, confidence=confidence, method="confident")
    # An independent evaluation of the Beta tail; the tolerance is that of the reference.
    assert beta.sf(1 - gamma, point.order, samples + 1 - point.order) >= confidence * (1 - 1e-9)
    if point.order > 1:
        assert beta.sf(1 - gamma, point.order - 1, samples + 2 - point.order) < confidence + 1e-9


@settings(deadline=None)
@given(st.integers(1, 10**5), st.floats(0.01, 0.9999))
def test_confident_gamma_of_samples(samples, confidence):
    gamma = operating_point(samples=samples, confidence=confidence, method="confident").gamma
    assert operating_point(gamma=gamma, confidence=confidence, method="confident").samples == samples


@settings(deadline=None)
@given(st.floats(1e-4, 0.999))
def test_every_published_point_holds_exactly(gamma):
    point = operating_point(gamma=gamma, method="published")
    assert point.exact_gamma <= gamma
    assert point.rho is not None
    # Inequalities (1) and (2) of Theorem 15.
    assert 0 < point.rho < min(gamma, 0.5)
    assert point.samples >= math.log(1 / point.rho) / (2 * (gamma - point.rho) ** 2)
    assert operating_point(gamma=gamma, samples=point.samples, method="published").order <= point.samples


def test_time_budget():
    point = operating_point(evaluations_per_second=50.5, seconds=2)
    assert point == operating_point(samples=101)
    with pytest.raises(ValueError, match=r"at least 1, got 0\.1 \* 2"):
        operating_point(evaluations_per_second=0.1, seconds=2)
    with pytest.raises(ValueError, match="together"):
        operating_point(seconds=2)
    with pytest.raises(ValueError, match="samples must not be given"):
        operating_point(samples=3, seconds=2, evaluations_per_second=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gamma": 0.0}, r"gamma must be a number in \(0, 1\)"),
        ({"gamma": 1.0}, "gamma must be"),
        ({"gamma": math.nan}, "gamma must be"),
        ({"gamma": 1e-300}, "gamma must be at least"),
        ({"gamma": 1e-13, "method": "confident"}, "needs more than"),
        ({"gamma": 1e-9, "method": "published"}, "needs more than"),
        ({"samples": 0}, r"samples must be an integer in \[1"),
        ({}, "gamma, samples, or"),
        ({"gamma": 0.1, "method": "wilks"}, "method must be one of"),
        ({"gamma": 0.1, "confidence": 0.9}, "confidence must be given for method 'confident' only"),
        ({"gamma": 0.1, "confidence": 1.0, "method": "confident"}, "confidence must be"),
        ({"gamma": 0.01, "samples": 98}, r"samples must be at least 99 for gamma=0\.01"),
        ({"gamma": 0.01, "samples": 41970, "method": "published"}, "samples must be at least 41971"),
        (
            {"gamma": 0.05, "samples": 89, "method": "confident", "confidence": 0.99},
            r"samples must be at least 90 .*confidence=0\.99",
        ),
        ({"samples": 1, "method": "published"}, "samples must be at least 2"),
    ],
)
def test_bad_values(arguments, message):
    with pytest.raises(ValueError, match=message):
        operating_point(**arguments)


@pytest.mark.parametrize(
    "arguments", [{"gamma": "x"}, {"gamma": [0.1]}, {"samples": 3.0}, {"gamma": 0.1, "method": 3}]
)
def test_bad_types(arguments):
    with pytest.raises(TypeError):
        operating_point(**arguments)


@pytest.mark.parametrize("method", ["exchangeable", "confident", "published"])
def test_result_object(method):
    point = operating_point(gamma=0.1, method=method)
    assert isinstance(point, OperatingPoint)
    assert str(point.samples) in point.statement
    assert "0.1" in point.statement
    assert point.to_dict()["order"] == point.order
    assert method in repr(point)
    with pytest.raises(AttributeError):
        point.samples = 3


@pytest.mark.parametrize(("samples", "allowed", "gamma"), [(103_263_858, 1000, 1e-5), (1_431_662_479, 10, 1e-8)])
def test_confident_decisions_are_safe_for_many_samples(samples, allowed, gamma):
    # Pr[Binomial(samples, gamma) <= allowed], summed at 50 digits.
    with mp.workdps(50):
        p = mp.mpf(gamma)
        term = total = mp.exp(samples * mp.log1p(-p))
        for j in range(allowed):
            term *= mp.mpf(samples - j) / (j + 1) * p / (1 - p)
            total += term
        above, below = float(1 - total * (1 - mp.mpf("4e-9"))), float(1 - total * (1 + mp.mpf("4e-9")))
    assert not _is_confident(samples, samples - allowed, gamma, above)
    assert _is_confident(samples, samples - allowed, gamma, below)
