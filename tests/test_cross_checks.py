"""Other libraries beside dpcore: they agree where they are right, and dpcore holds where they are known to fail.

tests/data/peers.json has their answers and the truth (mpmath); make_peers.py made it. Where a peer of the recorded
version is installed (extra `bench`), its answers are computed again.
"""

import functools
import importlib.metadata
import importlib.util
import json
import pathlib
from fractions import Fraction

import pytest

from dpcore import accounting, distributions, gaussian, mechanisms

DATA = pathlib.Path(__file__).parent / "data"
ROWS = json.loads((DATA / "peers.json").read_text())["rows"]

# How far a peer's answer may be from the truth where it is right, by its own account: the tolerance of its root
# finder, the grid of its convolution, the error it was asked for.
ACCURACY = {
    ("dp-accounting", "gaussian sigma"): 1e-12,
    ("dp-accounting", "gaussian composed"): 0.05,
    ("dp-accounting", "randomised response composed"): 1e-9,
    ("prv-accountant", "gaussian composed"): 0.1,
    ("prv-accountant", "randomised response composed"): 0.005,
    ("diffprivlib", "gaussian sigma"): 1e-8,
    ("autodp", "gaussian sigma"): 1e-6,
    ("opendp", "gaussian epsilon"): 0.3,  # through zero-concentrated privacy, which is not tight
    ("opendp", "discrete laplace radius"): 1.0,
    ("scipy", "hypergeometric pmf"): 1e-12,
    ("scipy", "binomial pmf"): 1e-14,
}

# Claims that are false, and by how much at least: (peer, question, claim, value of the case's last argument).
FAILURES = {
    # A pessimistic delta below the truth: second differences are clipped at 0.
    ("dp-accounting", "gaussian composed", "upper", 6.0): 1e-6,
    ("dp-accounting", "gaussian composed", "upper", 7.5): 0.02,
    ("dp-accounting", "gaussian composed", "upper", 8.0): 0.3,
    # An optimistic delta above the truth.
    ("dp-accounting", "gaussian composed", "lower", 8.0): 0.2,
    ("dp-accounting", "gaussian composed", "lower", 9.0): 1e3,
    # A certified upper bound below the truth: atoms beside the grid.
    ("prv-accountant", "randomised response composed", "upper", 10.0): 5e-4,
    # Its estimate of a small delta is not even positive.
    ("prv-accountant", "gaussian composed", "estimate", 9.0): 1e3,
    # Noise that is too small for the delta asked.
    ("diffprivlib", "gaussian sigma", "estimate", 1e-18): 0.009,
    ("autodp", "gaussian sigma", "estimate", 1e-14): 0.025,
    # Digits lost.
    ("scipy", "hypergeometric pmf", "estimate", 500003): 1e-10,
}


def name_of(row):
    last = list(row["case"].values())[-1]
    return row["peer"].split()[0], row["what"], row["claim"], last


def label(row):
    return "-".join(str(part).replace(" ", "_") for part in name_of(row))


def truth_of(row):
    return Fraction(row["truth"])  # decimal text, exact


def ours(row):
    """Our answer to the same question: bounds where dpcore gives bounds, a number elsewhere."""
    case, what = row["case"], row["what"]
    if what == "gaussian sigma":
        return gaussian.sigma(**case)
    if what == "gaussian epsilon":
        return gaussian.epsilon(**case)
    if what == "gaussian composed":
        return (accounting.from_gaussian(sigma=case["sigma"]) * case["copies"]).delta(case["epsilon"])
    if what == "randomised response composed":
        loss = accounting.from_randomized_response(epsilon=case["epsilon0"]) * case["copies"]
        return loss.delta(case["epsilon"])
    if what == "discrete laplace radius":
        return mechanisms.DiscreteLaplace(scale=case["scale"], sensitivity=1).interval(case["level"])
    if what == "hypergeometric pmf":
        k = case["k"]
        sizes = {key: case[key] for key in ("population", "marked", "drawn")}
        first, pmf = distributions.hypergeometric_pmf(**sizes)
        return float(pmf[k - first])
    assert what == "binomial pmf"
    first, pmf = distributions.binomial_pmf(trials=case["trials"], probability=case["probability"])
    return float(pmf[case["k"] - first])


@pytest.mark.parametrize("row", ROWS, ids=label)
def test_ours_holds(row, tally):
    tally("answers of other libraries compared", 1)
    got, truth = ours(row), truth_of(row)
    if isinstance(got, accounting.Bounds):
        assert Fraction(got.lower) <= truth <= Fraction(got.upper)
        assert got.upper / got.lower - 1 < 1e-9
    elif row["what"] in ("gaussian sigma", "gaussian epsilon"):
        assert 0 <= Fraction(got) / truth - 1 < Fraction(1, 10**14)  # the safe side, and close
    elif row["what"] == "discrete laplace radius":
        assert Fraction(got.half_width) == truth
    else:
        assert abs(Fraction(got) / truth - 1) <= Fraction(4, 10**15)


def violation(row):
    """By how much the peer's claim is false, relative to the truth; an estimate's distance from it."""
    value, truth = Fraction(row["value"]), truth_of(row)
    off = value / truth - 1
    if row["claim"] == "upper":
        return float(-off)
    if row["claim"] == "lower":
        return float(off)
    return float(abs(off))


@pytest.mark.parametrize("row", [r for r in ROWS if name_of(r) not in FAILURES], ids=label)
def test_peer_agrees_where_it_is_right(row):
    peer, what, claim, _ = name_of(row)
    allowed = ACCURACY[peer, what]
    value, truth = Fraction(row["value"]), truth_of(row)
    if claim == "estimate":
        assert violation(row) <= allowed
        return
    assert violation(row) <= 0, "a false claim that is not among the known ones"
    if float(truth) > 1e-12:  # below that these bounds are mostly slack
        assert abs(float(value - truth)) <= allowed * max(float(truth), 1.0 if "radius" in what else 0.0)


@pytest.mark.parametrize("row", [r for r in ROWS if name_of(r) in FAILURES], ids=label)
def test_known_failures_of_peers(row):
    assert violation(row) >= FAILURES[name_of(row)]


def test_every_known_failure_is_in_the_table():
    assert set(FAILURES) <= {name_of(row) for row in ROWS}


@functools.cache
def generator():
    spec = importlib.util.spec_from_file_location("make_peers", DATA / "make_peers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def recorded():
    return sorted({row["peer"] for row in ROWS})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the peers' own
@pytest.mark.parametrize("peer", recorded(), ids=lambda p: p.replace(" ", "-"))
def test_recorded_answers_are_the_peers_own(peer):
    name, version = peer.split()
    try:
        installed = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{name} is not installed; its recorded answers were checked")
    if installed != version:
        pytest.skip(f"{name} {installed} is installed, the recorded answers are those of {version}")
    rows = [row for row in ROWS if row["peer"] == peer]
    for old, new in zip(rows, generator().PEERS[name](), strict=True):
        assert {k: old[k] for k in ("what", "case", "claim")} == {k: new[k] for k in ("what", "case", "claim")}
        assert new["truth"] == old["truth"]
        # Transforms differ in their last bits between machines; below 1e-14 that is all these values are.
        assert new["value"] == pytest.approx(old["value"], rel=1e-6, abs=2e-14)
