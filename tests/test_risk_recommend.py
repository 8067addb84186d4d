"""The recommendation: every limit is recomputed here from its definition, and the report is read back."""

import html.parser
import json
import math
import re

import numpy as np
import pytest
from scipy import optimize

from dpcore import risk

HEALTH = {"records": 100, "cost": 550_000, "budget": 80_000, "allowed_error": 2.0}


def limit(report, name):
    (found,) = [item for item in report.limits if item.name == name]
    return found


def test_the_health_centre():
    report = risk.recommend(**HEALTH)
    assert report.feasible
    assert (report.lower, report.epsilon) == (0.5, 0.5)
    assert report.binding == "Allowed error with Laplace noise"
    assert report.upper == risk.CostModel(full=550_000).epsilon_within(80_000)
    assert report.expected_cost == pytest.approx(74434.41, abs=0.005)
    assert report.facts["cost_at_risk_published"] == pytest.approx(37805.86, abs=0.005)
    assert report.guess_right == pytest.approx(1 / (1 + math.exp(-0.5)))
    assert report.count_right == pytest.approx(math.tanh(0.25) + (1 - math.tanh(0.25)) / 101)
    (noise,) = report.noise
    assert noise.scale == noise.expected_error == 2.0
    assert noise.interval == pytest.approx(2 * math.log(20))


def test_accuracy_prefers_the_other_end():
    report = risk.recommend(**HEALTH, prefer="accuracy")
    assert report.epsilon == report.upper
    assert report.binding == "Budget"


def test_budget_at_risk_limits_are_tight():
    report = risk.recommend(**HEALTH)
    model = risk.CostModel(full=550_000)
    for name, method in (("Budget at risk", "exact"), ("Budget at risk, as published", "published")):
        value = limit(report, name).value
        assert not limit(report, name).used
        assert model.cheapest(epsilon0=value, method=method).cost <= 80_000
        assert model.cheapest(epsilon0=value * 1.00001, method=method).cost > 80_000


def test_risk_threshold_alone():
    report = risk.recommend(records=1000, impact=30_000, threshold=5_000)
    assert 30_000 * report.count_right <= 5_000
    # A count of 1000 people is one of 1001 values, which helps to guess it: a little stricter than all integers.
    endless = risk.disclosure_epsilon(impact=30_000, threshold=5_000)
    assert endless * 0.99 < report.epsilon < endless
    just_above = risk.disclosure_bound(epsilon=report.epsilon * (1 + 1e-9), values=1001)
    assert 30_000 * just_above > 5_000
    assert limit(report, "Risk threshold, as published").value == 0.0
    assert not limit(report, "Risk threshold (plausible values)").used


def numbers(words):
    return [float(x.replace(",", "")) for x in re.findall(r"[\d.,]*\d", words)]


def test_conflict_names_two_requirements_and_the_remedies_work():
    ask = HEALTH | {"budget": 20_000}
    report = risk.recommend(**ask)
    assert not report.feasible
    assert report.epsilon is None
    conflict = report.conflict
    assert (conflict.first, conflict.second) == ("Allowed error with Laplace noise", "Budget")
    assert conflict.at_least == 0.5
    assert conflict.at_most == pytest.approx(0.301733, abs=1e-6)
    error, budget = conflict.remedies
    assert risk.recommend(**ask | {"allowed_error": numbers(error)[0]}).feasible
    assert numbers(budget)[0] == 20_000
    assert risk.recommend(**ask | {"budget": numbers(budget)[1]}).feasible
    for name in ("allowed error", "budget", "0.5", "0.3017"):
        assert name in report.statement


def test_remedies_count_every_limit_that_is_in_the_way():
    report = risk.recommend(**HEALTH | {"budget": 20_000}, impact=30_000, threshold=5_000)
    raised = report.conflict.remedies[-1]
    assert "budget" in raised
    assert "risk threshold" in raised


@pytest.mark.parametrize("releases", [1, 12])
@pytest.mark.parametrize("delta", [None, 1e-6])
@pytest.mark.parametrize(("error", "budget"), [(0.37, 700.0), (1.9, 12_345.67), (3.0, 1.0)])
def test_remedies_are_enough_as_printed(releases, delta, error, budget):
    ask = {"records": 77, "releases": releases, "delta": delta, "allowed_error": error, "cost": 550_000}
    ask |= {"budget": budget, "impact": 30_000, "threshold": 1_000.0}
    conflict = risk.recommend(**ask).conflict
    allow, raised = conflict.remedies[:2]
    assert risk.recommend(**ask | {"allowed_error": numbers(allow)[0]}).feasible
    _, threshold, *more = numbers(raised)
    assert risk.recommend(**ask | {"threshold": threshold, "budget": more[1] if more else budget}).feasible
    if releases == 12 and delta is None and len(conflict.remedies) == 3:
        assert risk.recommend(**ask | {"releases": int(numbers(conflict.remedies[2])[0])}).feasible


def test_custom_costs():
    square = risk.recommend(records=10, cost=risk.CostModel.custom(lambda e: 1000 * e * e), budget=40.0)
    assert square.epsilon == pytest.approx(0.2)
    assert limit(square, "Budget at risk").value > 0.2
    root = risk.recommend(records=10, cost=risk.CostModel.custom(math.sqrt), budget=0.5)
    assert root.epsilon == pytest.approx(0.25)
    assert [item.name for item in root.limits] == ["Budget"]
    assert "<svg" in root.to_html()


def test_gaussian_noise_and_composition():
    report = risk.recommend(records=20_000, releases=12, delta=1e-6, allowed_error=30.0)
    assert {noise.name for noise in report.noise} == {
        "Laplace noise",
        "Laplace noise (exact composition)",
        "Gaussian noise",
    }
    # The recommended level is the smallest that some noise can keep, and that noise comes first.
    assert report.noise[0].expected_error <= 30.0 * (1 + 1e-3)
    assert report.lower == min(item.value for item in report.limits)
    for noise in report.noise:
        if noise.name == "Gaussian noise":
            from dpcore import gaussian

            assert gaussian.delta(epsilon=report.epsilon, sigma=noise.scale, sensitivity=math.sqrt(12)) <= 1e-6
        if "exact composition" in noise.name:
            from dpcore import accounting

            assert (accounting.from_laplace(epsilon=1 / noise.scale) * 12).delta(report.epsilon).upper <= 1e-6
    assert report.guess_right == pytest.approx(
        (math.exp(report.epsilon) + 1e-6) / (math.exp(report.epsilon) + 1), rel=1e-12
    )


def test_the_cost_at_risk_is_for_one_laplace_release_only():
    report = risk.recommend(records=100, cost=550_000, budget=80_000, allowed_error=20.0, releases=10)
    assert not any("at risk" in item.name for item in report.limits)
    assert "cost_at_risk" not in report.facts
    assert "half_level_confidence" not in report.facts


PATIENTS = {"records": 20_000, "known": 5_000, "bias": (0.015, 0.025), "delta": 1e-6, "allowed_error": 8.0}


@pytest.mark.parametrize("releases", [1, 3])
def test_partial_knowledge_says_how_much_less_noise_would_do(releases):
    from dpcore import partial_knowledge

    report = risk.recommend(**PATIENTS, releases=releases)
    partial = report.noise[-1]
    (plain,) = [noise for noise in report.noise if noise.name == "Gaussian noise"]
    assert partial.name == "Gaussian noise (partial knowledge)"
    assert "5,000" in partial.assumption
    assert partial.scale < plain.scale
    # Sorted last although its error may be the smallest: the decision does not rest on the assumption.
    assert not limit(report, "Allowed error with Gaussian noise (partial knowledge)").used
    assert any("no more than stated" in note for note in report.notes)
    asked = {"epsilon": report.epsilon, "records": 20_000, "known": 5_000, "bias": (0.015, 0.025)}
    assert float(partial_knowledge.count_delta(**asked, noise_scale=[partial.scale] * releases)) <= 1e-6


def test_relying_on_partial_knowledge_changes_the_decision():
    from dpcore import partial_knowledge

    ask = PATIENTS | {"allowed_error": 2.0}
    plain = risk.recommend(**ask)
    report = risk.recommend(**ask, rely_on_partial_knowledge=True)
    assert report.epsilon < plain.epsilon
    assert report.binding == "Allowed error with Gaussian noise (partial knowledge)"
    assert report.noise[0].name == "Gaussian noise (partial knowledge)"
    assert report.noise[0].expected_error <= 2.0 * (1 + 1e-6)
    found = partial_knowledge.calibrate(
        epsilon=report.epsilon, delta=1e-6, records=20_000, known=5_000, bias=(0.015, 0.025)
    )
    assert report.noise[0].scale == found.noise_scale
    # A limit in between conflicts without the assumption; the remedy says so.
    ask |= {"cost": 1e6, "budget": risk.CostModel(full=1e6).cost(math.sqrt(report.epsilon * plain.epsilon))}
    conflict = risk.recommend(**ask).conflict
    assert "rely on what attackers may know" in conflict.remedies[-1]
    relying = risk.recommend(**ask, rely_on_partial_knowledge=True)
    assert relying.feasible
    assert relying.count_right is None
    assert "no more than 5,000" in relying.table()
    assert "everybody else" not in relying.to_html()


def test_unavoidable_cost_above_the_budget():
    report = risk.recommend(records=10, cost=risk.CostModel(full=100.0, floor=50.0), budget=40.0)
    assert not report.feasible
    assert "allows no epsilon, however small" in report.statement
    (remedy,) = report.conflict.remedies
    assert numbers(remedy)[1] > 50.0
    model = risk.CostModel(full=100.0, floor=50.0)
    assert risk.recommend(records=10, cost=model, budget=numbers(remedy)[1]).feasible
    assert "no value, however small" in report.to_html()


def test_an_error_that_limits_nothing_is_no_part_of_a_conflict():
    model = risk.CostModel(full=100.0, floor=50.0)
    report = risk.recommend(records=10, cost=model, budget=40.0, allowed_error=1e12, delta=1e-6)
    assert (report.conflict.first, report.conflict.second) == ("Release of anything at all", "Budget")


def test_a_budget_at_the_unavoidable_cost_is_not_advised():
    model = risk.CostModel(full=346.0, floor=10.0, rate=4.0)
    ask = {"records": 1000, "cost": model, "allowed_error": 3000.0}
    remedy = risk.recommend(**ask, budget=0.5).conflict.remedies[-1]
    assert numbers(remedy)[1] == 10.01
    assert risk.recommend(**ask, budget=10.01).feasible


def test_a_threshold_below_what_guessing_blindly_risks():
    # Of 11 possible counts one guess in eleven is right without any release: 9 of 100.
    report = risk.recommend(records=10, impact=100.0, threshold=9.0)
    assert not report.feasible
    assert report.conflict.second == "Risk threshold (best guess)"
    (remedy,) = report.conflict.remedies
    assert risk.recommend(records=10, impact=100.0, threshold=numbers(remedy)[1]).feasible


def test_releases_share_the_level():
    one, ten = (risk.recommend(records=100, allowed_error=2.0, releases=n) for n in (1, 10))
    assert ten.epsilon == 10 * one.epsilon
    assert ten.noise[0].expected_error == one.noise[0].expected_error


def test_disclosure_bound_is_tanh_and_monotone_in_delta():
    for epsilon in (0.01, 0.5, 3.0):
        assert risk.disclosure_bound(epsilon=epsilon) == pytest.approx(math.tanh(epsilon / 2), rel=1e-15)
        # By the sum, without the closed form.
        nearly = risk.disclosure_bound(epsilon=epsilon, delta=1e-300)
        assert nearly == pytest.approx(math.tanh(epsilon / 2), rel=1e-12)
        values = [risk.disclosure_bound(epsilon=epsilon, delta=d) for d in (0, 1e-9, 1e-6, 1e-3, 0.1, 1.0)]
        assert values == sorted(values)
        assert values[-1] == 1.0
    assert risk.disclosure_bound(epsilon=1.0, sensitivity=0.5) == pytest.approx(math.tanh(1.0), rel=1e-12)
    assert risk.disclosure_bound(epsilon=1.0, sensitivity=3.0) >= math.tanh(1 / 6)


def best_guess(epsilon, delta, sensitivity, values):
    """Largest probability of a right guess over all private mechanisms, by linear programming.

    The guess itself may be taken as the output: P[a, v] = Pr[guess v | value a], and for values within the
    sensitivity sum_v max(0, P[a, v] - e^epsilon P[b, v]) <= delta.
    """
    pairs = [(a, b) for a in range(values) for b in range(values) if a != b and abs(a - b) <= sensitivity]
    size = values * values
    rows, limits = [], []
    for k, (a, b) in enumerate(pairs):
        excess = slice(size + k * values, size + (k + 1) * values)
        for v in range(values):
            row = np.zeros(size + len(pairs) * values)
            row[a * values + v], row[b * values + v], row[excess.start + v] = 1.0, -math.exp(epsilon), -1.0
            rows.append(row)
            limits.append(0.0)
        row = np.zeros(size + len(pairs) * values)
        row[excess] = 1.0
        rows.append(row)
        limits.append(delta)
    gain = np.zeros(size + len(pairs) * values)
    gain[: size : values + 1] = -1 / values
    one = np.kron(np.eye(values), np.ones(values))
    one = np.hstack([one, np.zeros((values, len(pairs) * values))])
    found = optimize.linprog(gain, np.array(rows), limits, one, np.ones(values), bounds=(0, 1))
    assert found.status == 0
    return -found.fun


@pytest.mark.parametrize("values", [2, 3, 8])
@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.05])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_disclosure_bound_over_every_mechanism(epsilon, delta, values):
    for sensitivity in (1, 2):
        bound = risk.disclosure_bound(epsilon=epsilon, delta=delta, sensitivity=float(sensitivity), values=values)
        best = best_guess(epsilon, delta, sensitivity, values)
        assert bound >= best * (1 - 1e-7)  # the solver's accuracy
        if delta == 0 and sensitivity == 1:
            assert bound == pytest.approx(best, rel=1e-6)
            # Without the range the bound is too small: a few values are easier to guess.
            assert risk.disclosure_bound(epsilon=epsilon) < best


def test_disclosure_bound_holds_for_gaussian_noise():
    # The best guess at an integer under Gaussian noise is right with probability erf(1/(2 sqrt(2) sigma)).
    from dpcore import gaussian

    for sigma in (0.4, 1.0, 5.0):
        for delta in (1e-9, 1e-3):
            epsilon = gaussian.epsilon(sigma=sigma, delta=delta)
            right = math.erf(1 / (2 * math.sqrt(2) * sigma))
            assert right <= risk.disclosure_bound(epsilon=epsilon, delta=delta)


# --- the report ---------------------------------------------------------------------------------------------


class Reader(html.parser.HTMLParser):
    """Collects what a browser would load, and the words."""

    def __init__(self):
        super().__init__()
        self.loads, self.words, self.tags = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.loads += [value for name, value in attrs if name in ("src", "href", "data", "action")]

    def handle_data(self, data):
        self.words.append(data)


@pytest.mark.parametrize("budget", [80_000, 20_000])
def test_html_stands_alone(budget, tmp_path):
    report = risk.recommend(
        **HEALTH | {"budget": budget}, impact=30_000, threshold=20_000, title="A <b>bold</b> title"
    )
    path = report.save(tmp_path / "report.html")
    page = path.read_text(encoding="utf-8")
    reader = Reader()
    reader.feed(page)
    assert reader.loads == []
    assert "script" not in reader.tags
    assert not re.search(r"url\(|@import|https?:", page)
    assert page.count("<svg") == 4
    assert "A <b>bold" not in page
    words = " ".join("".join(reader.words).split())
    assert ("Use epsilon = 0.5" in words) == report.feasible
    assert ("No epsilon meets all requirements" in words) != report.feasible
    # Every number of a plot is finite.
    assert not re.search(r"\b(nan|inf)\b", page)


def test_json_and_text(tmp_path):
    report = risk.recommend(**HEALTH)
    data = json.loads(report.save(tmp_path / "r.json").read_text())
    assert data["epsilon"] == 0.5
    assert data["limits"][0]["name"] == "Allowed error with Laplace noise"
    assert data["statement"] == report.statement
    assert "curves" not in data
    text = report.save(tmp_path / "r.txt").read_text()
    assert "Use epsilon = 0.5" in text
    assert max(map(len, text.splitlines())) <= 100
    with pytest.raises(ValueError, match="path"):
        report.save(tmp_path / "r.pdf")
    assert "epsilon=0.5" in repr(report)


def test_infinity_is_valid_json():
    report = risk.recommend(records=100, allowed_error=2.0)
    assert json.loads(report.to_json())["upper"] == "Infinity"


BAD = [
    ({"records": 0, "allowed_error": 1.0}, "records"),
    ({"records": 10}, "must be given"),
    ({"records": 10, "impact": 5.0}, "together"),
    ({"records": 10, "budget": 5.0}, "together"),
    ({"records": 10, "known": 5, "allowed_error": 1.0}, "together"),
    ({"records": 10, "known": 5, "bias": 0.5, "allowed_error": 1.0}, "delta"),
    (
        {"records": 10, "known": 5, "bias": 0.5, "delta": 0.01, "sensitivity": 2.0, "allowed_error": 1.0},
        "sensitivity",
    ),
    ({"records": 10, "allowed_error": 0.0}, "allowed_error"),
    ({"records": 10, "allowed_error": math.nan}, "allowed_error"),
    ({"records": 10, "impact": 5.0, "threshold": 0.0}, "threshold"),
    ({"records": 10, "impact": -5.0, "threshold": 1.0}, "impact"),
    ({"records": 10, "allowed_error": 1e12, "delta": 1e-6}, "do not limit epsilon"),
    ({"records": 10, "cost": -5.0, "budget": 1.0}, "cost"),
    ({"records": 10, "cost": 5.0, "budget": -1.0}, "budget"),
    ({"records": 10, "allowed_error": 1.0, "releases": 0}, "releases"),
    ({"records": 10, "allowed_error": 1.0, "delta": 1.0}, "delta"),
    ({"records": 10, "allowed_error": 1.0, "confidence": 0.5}, "confidence"),
    ({"records": 10, "allowed_error": 1.0, "prefer": "both"}, "prefer"),
    ({"records": 10, "allowed_error": 1.0, "rely_on_partial_knowledge": True}, "known and bias"),
    ({"records": 10, "impact": 5.0, "threshold": 7.0}, "do not limit"),
    (
        {
            "records": 10,
            "known": 5,
            "bias": 0.5,
            "delta": 0.01,
            "impact": 9.0,
            "threshold": 1.0,
            "rely_on_partial_knowledge": True,
        },
        "must not be given with rely_on_partial_knowledge",
    ),
]


def test_one_impact_only():
    with pytest.raises(TypeError, match="impact must be a single number"):
        risk.recommend(records=10, impact=[5.0, 6.0], threshold=1.0)


@pytest.mark.parametrize(("arguments", "named"), BAD)
def test_bad_input_is_named(arguments, named):
    with pytest.raises(ValueError, match=named):
        risk.recommend(**arguments)


def test_a_limit_that_nothing_meets_says_so():
    """At most 0 is not the same as no limit."""
    words = {
        (kind, value): risk.Limit("Budget", kind, value, True, "").statement
        for kind in ("lower", "upper")
        for value in (0.0, math.inf)
    }
    assert words["upper", 0.0] == words["lower", math.inf] == "Budget allows no epsilon at all."
    assert words["upper", math.inf] == words["lower", 0.0] == "Budget does not limit epsilon."


@pytest.mark.parametrize("level", [0.05, 0.7, 8.0, 300.0])
@pytest.mark.parametrize("releases", [2, 12])
def test_composed_epsilon_is_that_of_the_certified_curve(level, releases):
    """The search skips questions whose answer is known; it must end where a search without that does."""
    from dpcore.accounting import from_laplace
    from dpcore.risk._noise import _composed_epsilon

    loss = from_laplace(epsilon=level) * releases
    found = _composed_epsilon(level, releases, 1e-3)
    assert float(loss.delta(found).upper) <= 1e-3
    assert float(loss.delta(found * (1 - 3e-6)).upper) > 1e-3


@pytest.mark.parametrize("allowed", [1e-3, 1e-17])
def test_an_error_that_nothing_allows_is_refused(allowed):
    """In a fraction of a second; it took 16 and 60 s before the search knew large levels."""
    report = risk.recommend(
        records=1000, impact=100.0, threshold=10.0, allowed_error=allowed, releases=2, delta=1e-3
    )
    assert not report.feasible


def test_what_is_at_most_so_is_rounded_up():
    """54.3201 times in 100 is not at most 54.3; and delta is not a probability of failure."""
    report = risk.recommend(records=100, cost=550_000, budget=80_000, allowed_error=6.0, delta=1e-6)
    assert report.guess_right is not None
    said = re.findall(r"at\s+most\s+([0-9.]+)\s+times in\s+100", report.table() + report.statement)
    assert len(said) >= 3
    assert all(
        float(number) >= 100 * bound for number, bound in zip(said[:2], 2 * [report.guess_right], strict=True)
    )
    assert float(said[-1]) - 100 * report.guess_right < 0.1
    assert "ailure" not in report.table()
    assert "Part of the probability without promise (delta)" in report.table()
