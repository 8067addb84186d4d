"""account, calibrate, risk, reproduce, completion: answers of the library, files, and wrong input."""

import errno
import functools
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from dpcore import accounting, gaussian, partial_knowledge
from dpcore.cli import COMMANDS, build_parser, main
from dpcore.cli.reproduce import NAMES


def run(capsys, *arguments):
    code = main(list(map(str, arguments)))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def facts(capsys, *arguments, code=0):
    got, out, err = run(capsys, *arguments, "--json")
    assert (got, err) == (code, "")
    return json.loads(out)


def narrow(out):
    return all(len(line) <= 80 for line in out.splitlines())


PROGRAMME = """
[[mechanism]]
name = "gaussian"
sigma = 50
count = 1000

[[mechanism]]
name = "laplace"
epsilon = 0.1
"""


# ---------------------------------------------------------------------- account


def test_account_says_what_the_library_says(capsys, tmp_path):
    loss = accounting.from_gaussian(sigma=50.0) * 1000 + accounting.from_laplace(epsilon=0.1)
    given = ("gaussian:sigma=50,count=1000", "laplace:epsilon=0.1")
    found = facts(capsys, "account", *given, "--delta", 1e-6, 1e-9, "--epsilon", 2)
    assert [row["epsilon_upper"] for row in found["epsilon"]] == [loss.epsilon(d).upper for d in (1e-6, 1e-9)]
    assert found["delta"][0]["delta_lower"] == loss.delta(2.0).lower
    assert found["releases"] == 1001
    file = tmp_path / "programme.toml"
    file.write_text(PROGRAMME)
    assert facts(capsys, "account", file, "--delta", 1e-6)["epsilon"] == found["epsilon"][:1]
    code, out, _ = run(capsys, "account", *given)
    assert code == 0
    assert narrow(out)
    assert [line.split()[0] for line in out.splitlines()[2:6]] == ["1e-05", "1e-06", "1e-08", "1e-10"]
    code, out, _ = run(capsys, "account", *given, "--delta", 1e-6, "--quiet")
    assert float(out) == loss.epsilon(1e-6).upper


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_account_draws(capsys, tmp_path, suffix):
    plot = tmp_path / f"a.{suffix}"
    assert run(capsys, "account", "gaussian:sigma=5,count=10", "--plot", plot)[0] == 0
    assert plot.stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "MECHANISM"),
        (("hope",), "there is no mechanism 'hope'; there is laplace, "),
        (
            ("randomised_response:epsilon=1",),
            "'randomised_response' (did you mean randomized_response?); there is",
        ),
        (("Gaussian:sigma=1",), "'Gaussian' (did you mean gaussian?); there is"),
        (("year.txt:count=2",), "no mechanism 'year.txt'; a file must end in .toml, .csv, .json, .npz"),
        (("--delta", "1e-6", "gaussian:sigma=5"), "'gaussian:sigma=5'; mechanisms come before the options"),
        (("--confidence", "1", "gaussian:sigma=5"), "'gaussian:sigma=5'; mechanisms come before the options"),
        (("gaussian",), "needs sigma"),
        (("gaussian:sigma",), "KEY=VALUE"),
        (("gaussian:sigma=0",), "sigma"),
        (("gaussian:sigma=nan",), "sigma"),
        (("gaussian:sigma=big",), "sigma"),
        (("gaussian:sigma=1,sigma=2",), "twice"),
        (("gaussian:sigma=1,rate=2",), "has no 'rate'"),
        (("gaussian:sigma=1,count=0",), "count"),
        (("gaussian:sigma=1,count=1.5",), "count"),
        (("none.toml",), "there is no file"),
        (("gaussian:sigma=1", "--delta", "-1"), "delta"),
        (("gaussian:sigma=1", "--plot", "a.txt"), "--plot"),
        (("gaussian:sigma=1", "--plot", "no/such/folder/a.png"), "no/such/folder"),
    ],
)
def test_account_bad_input(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, "account", *arguments)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert message in err
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "x = 1",
        "mechanism = 3",
        "[[mechanism]]\nsigma = 1",
        "[[mechanism]]\nname = 'gaussian'",
        "\0",
    ],
)
def test_bad_programmes_are_one_line(capsys, tmp_path, text):
    file = tmp_path / "a.toml"
    file.write_text(text)
    code, out, err = run(capsys, "account", file)
    assert (code, out, len(err.splitlines())) == (2, "", 1)


EMPTY = b'{"format": "dpcore.PrivacyLoss", "version": 1, "mechanisms": []}'
PAIR = "p,q\n0.5,0.25\n0.25,0.25\n0.25,0.5\n"


@pytest.mark.parametrize("suffix", ["json", "npz", "JSON"])
def test_saved_losses_and_pairs_are_parts(capsys, tmp_path, suffix):
    """Of a composition, alone, with a count and in a programme; the same as in the library."""
    saved, pair, programme = tmp_path / f"year.{suffix}", tmp_path / "pair.csv", tmp_path / "a.toml"
    year = accounting.from_gaussian(sigma=20.0) * 40 + accounting.from_discrete_laplace(scale=30.0, sensitivity=2)
    year += accounting.from_pmf([0.5, 0.5], [0.25, 0.75])
    both = accounting.from_pmf([0.5, 0.25, 0.25], [0.25, 0.25, 0.5])
    accounting.save(year, saved)
    pair.write_text(PAIR)
    found = facts(capsys, "account", saved, "--delta", 1e-6)
    assert found["epsilon"][0]["epsilon_upper"] == year.epsilon(1e-6).upper
    assert (found["releases"], found["mechanisms"]) == (42, year.to_dict()["mechanisms"])
    loss = year * 3 + both * 2 + accounting.from_laplace(epsilon=0.1)
    given = (f"{saved}:count=3", f"{pair}:count=2", "laplace:epsilon=0.1")
    found = facts(capsys, "account", *given, "--epsilon", 1)
    assert (found["releases"], found["mechanisms"]) == (42 * 3 + 3, loss.to_dict()["mechanisms"])
    assert found["delta"][0]["delta_upper"] == loss.delta(1.0).upper
    programme.write_text(  # files are looked for beside the programme
        f"[[mechanism]]\nfile = '{saved.name}'\ncount = 3\n[[mechanism]]\nfile = 'pair.csv'\ncount = 2\n"
        "[[mechanism]]\nname = 'laplace'\nepsilon = 0.1\n"
    )
    assert facts(capsys, "account", programme, "--epsilon", 1) == found
    assert facts(capsys, "account", f"{programme}:count=2", "--epsilon", 1)["releases"] == 2 * found["releases"]


@pytest.mark.parametrize(
    "text",
    [
        "q,p\n0.25,0.5\n0.25,0.25\n0.5,0.25\n",
        '\ufeff"p","q"\r\n0.5,0.25\r\n0.25, 0.25\r\n\r\n2.5e-1,0.5\r\n',
        " p , q \n0.5,0.25\n0.25,0.25\n0.25,0.5",
    ],
)
def test_pairs_as_programs_write_them(capsys, tmp_path, text):
    pair = tmp_path / "pair.csv"
    pair.write_bytes(text.encode())
    found = facts(capsys, "account", pair)
    (row,) = accounting.from_pmf([0.5, 0.25, 0.25], [0.25, 0.25, 0.5]).to_dict()["mechanisms"]
    assert found["mechanisms"] == [row]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "a.csv is not a pair of distributions: p must be a list of at least one probability"),
        ("a.csv", b"p,q\n", "a.csv is not a pair of distributions: p must be a list of at least one probability"),
        ("a.csv", b"0.5,0.5\n0.5,0.5", "a.csv, line 1: the columns must be p,q, got '0.5,0.5'"),
        ("a.csv", b"p;q\n0.5;0.5", "a.csv, line 1: the columns must be p,q, got 'p;q'"),
        ("a.csv", b"p,q\n0.5,0.5\n0.5,half", "a.csv, line 3: q must be a number, got 'half'"),
        ("a.csv", b"p,q\n0.5,0.5\n0.5", "a.csv, line 3: expected two probabilities, p and q, found 1 cells"),
        ("a.csv", b"p,q\n0.5,0.5\n0.4,0.5", "a.csv is not a pair of distributions: p must sum to 1"),
        ("a.csv", b"p,q\n0.5,nan\n0.5,1", "a.csv is not a pair of distributions: q must be a finite"),
        ("a.csv", b"p,q\n1.5,1\n-0.5,0", "a.csv is not a pair of distributions: p must be a finite"),
        ("a.csv", b"p,q\n\xff,1", "a.csv is not UTF-8 text"),
        ("a.csv", b'p,q\n"0.5"x,1', "a.csv is not CSV: "),
        ("a.csv", b"p,q\n" + 200_000 * b"1" + b",1", "a.csv is not CSV: "),
        ("a.json", b"{", "a.json is not a saved PrivacyLoss: it is not JSON"),
        ("a.json", b"{}", "a.json is not a saved PrivacyLoss: data must be"),
        ("a.json", EMPTY, "there is no mechanism in a.json"),
        ("a.npz", b"PK\x03\x04", "a.npz is not a saved PrivacyLoss: the archive is cut off or damaged"),
        ("a.npz", b"", "a.npz is not a saved PrivacyLoss: it is not an npz file"),
        ("a.toml", b"[[mechanism]]\nfile = 'b.csv'", "there is no file b.csv"),
        ("a.toml", b"[[mechanism]]\nfile = 'a.toml'", "a.toml, mechanism 1: file must end in .csv, .json or .npz"),
        ("a.toml", b"[[mechanism]]\nfile = 3", "a.toml, mechanism 1: file must end in .csv, .json or .npz, got 3"),
        ("a.toml", b"[[mechanism]]\nfile = 'b.csv'\nsigma = 1", "a.toml, mechanism 1: beside file"),
        ("a.toml", b"[[mechanism]]\nfile = 'b.csv'\ncount = 0", "a.toml, mechanism 1: count must be"),
    ],
)
def test_damaged_files_are_one_line(capsys, tmp_path, monkeypatch, name, content, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(content)
    for command in (("account",), ("calibrate", "programme", "--epsilon", 1, "--delta", 1e-6)):
        code, out, err = run(capsys, *command, name)
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert err.startswith(f"dpcore: {message}")


def test_counts_of_files(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text(PAIR)
    (tmp_path / "a.json").mkdir()
    for given, message in (
        ("a.csv:count=0", "a.csv:count=0: count must be a whole number >= 1, got 0"),
        ("a.csv:count=1.5", "a.csv:count=1.5: count must be a whole number >= 1, got 1.5"),
        ("a.csv:times=2", "a.csv:times=2: a file has no 'times'; it has count"),
        ("a.csv:2", "a.csv:2: expected KEY=VALUE, found '2'"),
        ("a.csv:count=1e17", "copies must be an integer in [0, 9007199254740992]"),
        ("b.json", "there is no file b.json"),
        ("a.json", "a.json: Is a directory"),
        ("pmf:p=1,q=1", "pmf:p=1,q=1: a pair of distributions is given as a file: FILE.csv"),
    ):
        code, out, err = run(capsys, "account", given)
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert err.startswith(f"dpcore: {message}")


def test_account_says_how_likely_the_loss_stays_within(capsys):
    loss = accounting.from_gaussian(sigma=5.0) * 10
    found = facts(capsys, "account", "gaussian:sigma=5,count=10", "--confidence", 1, 2)
    assert found["confidence"] == [
        {
            "epsilon": epsilon,
            "confidence_lower": loss.confidence(epsilon).lower,
            "confidence_upper": loss.confidence(epsilon).upper,
        }
        for epsilon in (1.0, 2.0)
    ]
    assert found["epsilon"] == found["delta"] == []
    assert "private" not in found["statement"]
    code, out, _ = run(capsys, "account", "gaussian:sigma=5,count=10", "--confidence", 1, 2, "--delta", 1e-6)
    assert code == 0
    assert narrow(out)
    assert "for each pair of epsilon and delta above" in " ".join(out.split())
    assert "rely on the smaller of its two bounds" in " ".join(out.split())
    table = out.split("confidence at most")[1].splitlines()[2:4]
    for line, epsilon in zip(table, (1.0, 2.0), strict=True):
        asked, lower, upper = map(float, line.split())
        exact = loss.confidence(epsilon)
        assert asked == epsilon
        assert exact.lower - 1e-9 < lower <= exact.lower <= exact.upper <= upper
    code, out, _ = run(capsys, "account", "gaussian:sigma=5,count=10", "--confidence", 1, "--quiet")
    assert float(out) == loss.confidence(1.0).lower
    code, out, _ = run(capsys, "account", "gaussian:sigma=0.001", "--confidence", 1e4)
    assert float(out.splitlines()[2].split()[1]) < 1
    for wrong in ("-1", "nan", "inf"):
        code, out, err = run(capsys, "account", "gaussian:sigma=5", "--confidence", wrong)
        assert (code, out) == (2, "")
        assert err.startswith("dpcore: --confidence must be a finite number >= 0, got ")


def test_programmes_of_saved_losses_are_calibrated(capsys, tmp_path):
    file = tmp_path / "year.npz"
    accounting.save(accounting.from_gaussian(sigma=1.0) * 52 + accounting.from_laplace(epsilon=1.0), file)
    target = ("--epsilon", 1, "--delta", 1e-6)
    found = facts(capsys, "calibrate", "programme", file, *target)
    typed = ("gaussian:sigma=1,count=52", "laplace:epsilon=1")
    assert found == facts(capsys, "calibrate", "programme", *typed, *target)
    (tmp_path / "pair.csv").write_text(PAIR)
    code, _, err = run(capsys, "calibrate", "programme", file, tmp_path / "pair.csv", *target)
    assert code == 2
    assert "pair.csv: a pair of distributions has no noise to scale; to hold it fixed" in err
    assert "accounting.calibrate" in err
    one_way = "subsampled_gaussian:sigma=1,rate=0.01,neighbours=add"
    assert "differentially private" not in facts(capsys, "calibrate", "programme", one_way, *target)["statement"]


def test_programmes_of_bounded_losses_may_have_delta_0(capsys):
    given = ("calibrate", "programme", "laplace:epsilon=0.1,count=30", "discrete_laplace:scale=3")
    found = facts(capsys, *given, "--epsilon", 1, "--delta", 0)
    loss = accounting.PrivacyLoss.from_dict(
        {"format": "dpcore.PrivacyLoss", "version": 1, "mechanisms": found["mechanisms"]}
    )
    assert loss.delta(1.0).upper == found["delta_upper"] == 0
    assert 10 / 3 <= found["parameter"] <= 10 / 3 * (1 + 1e-6)
    code, _, err = run(capsys, *given, "subsampled_gaussian:sigma=1,rate=0.1", "--epsilon", 1, "--delta", 0)
    assert code == 1
    assert "delta 0 needs losses that are bounded, and that of subsampled_gaussian is not" in err
    for delta in (1, -1e-9, "nan"):
        code, _, err = run(capsys, *given, "--epsilon", 1, "--delta", delta)
        assert code == 2
        assert err.startswith("dpcore: --delta must be a number in [0, 1), got ")


def test_account_says_what_it_holds_for(capsys, tmp_path):
    """Pairs of distributions in their order, questions that depend on answers; nothing where it is moot."""
    pair = tmp_path / "pair.csv"
    pair.write_text(PAIR)
    order, adaptive = "p with the record, q without it", "Later questions may depend on earlier answers"
    said = facts(capsys, "account", pair, "laplace:epsilon=0.1")["statement"]
    assert f"{order}. With the columns swapped the answer may be another" in said
    assert adaptive in said
    assert "each pair of distributions is the worst of all that may be asked" in said
    said = facts(capsys, "account", pair)["statement"]
    assert order in said
    assert adaptive not in said
    said = facts(capsys, "account", "laplace:epsilon=0.1,count=2")["statement"]
    assert order not in said
    assert f"{adaptive}, as long as the mechanisms and their noise were fixed beforehand." in said
    # Only of guarantees: a mechanism that is less likely to lose much may be more likely to lose a little.
    assert "questions" not in facts(capsys, "account", "laplace:epsilon=1,count=2", "--confidence", 1)["statement"]
    with pytest.raises(SystemExit):
        run(capsys, "account", "--help")
    out = " ".join(capsys.readouterr().out.split())
    assert out.startswith("usage: dpcore account MECHANISM [MECHANISM ...] [--delta DELTA ...]")
    assert "with the columns swapped the answer may be another" in out
    assert "for confidence there is one way only" in out


def test_a_number_beyond_a_double_is_said_of_its_mechanism(capsys, tmp_path):
    file = tmp_path / "a.toml"
    file.write_text("[[mechanism]]\nname = 'laplace'\nepsilon = 1" + 400 * "0")
    code, _, err = run(capsys, "account", file)
    assert code == 2
    assert "a.toml, mechanism 1: a number is beyond the range of a double" in err


# ---------------------------------------------------------------------- calibrate


def test_what_is_printed_is_on_the_safe_side(capsys):
    """Digits that people copy: bounds rounded outward, noise up, epsilon of a release down."""
    _, out, _ = run(capsys, "account", "gaussian:sigma=50,count=1000", "laplace:epsilon=0.1", "--delta", 1e-6)
    row = next(line for line in out.splitlines() if line.startswith("1e-06")).split()
    loss = accounting.from_gaussian(sigma=50.0) * 1000 + accounting.from_laplace(epsilon=0.1)
    exact = loss.epsilon(1e-6)
    assert float(row[1]) <= exact.lower < exact.upper <= float(row[2])
    for sigma in ("1", "1.1", "1.7"):
        given = (f"gaussian:sigma={sigma},count=52", "laplace:epsilon=0.1")
        _, out, _ = run(capsys, "calibrate", "programme", *given, "--epsilon", 1.1, "--delta", 1e-6)
        rows = [line.split() for line in out.splitlines()]
        noise = {line[0]: float(line[-1]) for line in rows if line and line[0] in ("gaussian", "laplace")}
        copied = accounting.from_gaussian(sigma=noise["gaussian"]) * 52
        copied += accounting.from_laplace(epsilon=noise["laplace"])
        assert copied.delta(1.1).upper <= 1e-6


def test_a_programme_is_calibrated_to_the_safe_side(capsys):
    given = ("gaussian:sigma=1,count=52", "laplace:epsilon=1", "discrete_laplace:scale=2")
    found = facts(capsys, "calibrate", "programme", *given, "--epsilon", 1, "--delta", 1e-6)
    rows = {row["mechanism"]: row for row in found["mechanisms"]}
    assert rows["gaussian"]["sigma"] == found["parameter"]
    assert rows["laplace"]["epsilon"] == 1 / found["parameter"]
    loss = (
        accounting.from_gaussian(sigma=rows["gaussian"]["sigma"]) * 52
        + accounting.from_laplace(epsilon=rows["laplace"]["epsilon"])
        + accounting.from_discrete_laplace(scale=rows["discrete_laplace"]["scale"])
    )
    assert 0.999e-6 < loss.delta(1.0).upper <= 1e-6
    code, out, _ = run(capsys, "calibrate", "programme", *given, "--epsilon", 1, "--delta", 1e-6)
    assert code == 0
    assert narrow(out)
    code, _, err = run(
        capsys, "calibrate", "programme", "approximate:epsilon=1,delta=0.1", "--epsilon", 1, "--delta", 0.1
    )
    assert code == 2
    assert "no noise to scale" in err


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ("gaussian:sigma=1e9", "sigma"),
        ("gaussian:sigma=1e-9", "sigma"),
        ("subsampled_gaussian:sigma=1,rate=0.01,count=1000", "sigma"),
        ("randomized_response:epsilon=0.001", "epsilon"),
        ("laplace:epsilon=5", "epsilon"),
    ],
)
def test_the_noise_given_only_sets_the_proportions(capsys, given, key):
    """Whatever scale the noise is given in, what is needed comes out, and nothing less."""
    found = facts(capsys, "calibrate", "programme", given, "--epsilon", 1, "--delta", 1e-6)
    (row,) = found["mechanisms"]
    name, count, parameters = row.pop("mechanism"), row.pop("copies"), row
    make = getattr(accounting, f"from_{name}")
    assert (make(**parameters) * count).delta(1.0).upper <= 1e-6
    parameters[key] *= 0.999 if key == "sigma" else 1.001
    assert (make(**parameters) * count).delta(1.0).lower > 1e-6


def test_the_search_for_a_factor_keeps_away_from_far_too_little_noise(monkeypatch, capsys):
    """A quarter of the noise of 2000 sampled steps took 4 s; half of it takes 0.3."""
    asked, make = [], accounting.from_subsampled_gaussian

    @functools.wraps(make)
    def counted(**parameters):
        asked.append(parameters["sigma"])
        return make(**parameters)

    monkeypatch.setattr(accounting, "from_subsampled_gaussian", counted)
    given = "subsampled_gaussian:sigma=0.9,rate=0.005,count=2000"
    found = facts(capsys, "calibrate", "programme", given, "--epsilon", 2, "--delta", 1e-6)
    assert round(found["mechanisms"][0]["sigma"], 6) == 0.863888
    assert min(asked) == 0.45


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("risk --records 10 --cost -4 --budget 3", "--cost must be"),
        ("risk --records 10 --cost 4 --budget 3 --cost-rate 0", "--cost-rate must be"),
        ("risk --records 10 --cost 4 --budget 3 --cost-floor -1", "--cost-floor must be"),
        ("risk --records 10 --allowed-error -1", "--allowed-error must be"),
        ("risk --records 10", "--impact and --threshold, --cost and --budget, or --allowed-error must be given"),
        ("calibrate count --epsilon 1 --delta 1e-6 --records 9 --known 9 --bias .1", "--known must be less"),
        ("account gaussian:sigma=1 --delta 2", "--delta must be"),
        ("account laplace:epsilon=-1", "laplace:epsilon=-1: epsilon must be"),
        ("account gaussian:sigma=0 --epsilon 1", "gaussian:sigma=0: sigma must be"),
    ],
)
def test_a_complaint_names_the_option(capsys, command, message):
    code, _, err = run(capsys, *command.split())
    assert code == 2
    assert err.startswith(f"dpcore: {message}")


def test_programmes_that_cannot_be_saved(capsys):
    target = ("--epsilon", 1, "--delta", 1e-6)
    assert run(capsys, "calibrate", "programme", "subsampled_gaussian:sigma=1,rate=1,count=1e14", *target)[0] == 1
    assert (
        facts(capsys, "calibrate", "programme", "subsampled_gaussian:sigma=0.06,rate=1e-9", *target)["parameter"]
        == 1
    )
    for wrong in ("nan", 0, -1):
        assert (
            run(capsys, "calibrate", "programme", "gaussian:sigma=1", "--epsilon", wrong, "--delta", 1e-6)[0] == 2
        )
        code = run(capsys, "calibrate", "programme", "gaussian:sigma=1", "--epsilon", 1, "--delta", wrong)[0]
        assert code == (1 if wrong == 0 else 2)  # delta 0 may be asked; a Gaussian cannot have it


def test_keys_are_named_like_the_attributes(capsys):
    target = ("--epsilon", 0.2, "--delta", 1e-6)
    count = facts(capsys, "calibrate", "count", "--records", 1000, "--known", 500, "--bias", "0.2:0.3", *target)
    made = partial_knowledge.calibrate(epsilon=0.2, delta=1e-6, records=1000, known=500, bias=(0.2, 0.3))
    assert set(count) == {*made.to_dict(), "saving"}
    assert count["bias"] == {"low": 0.2, "high": 0.3}
    assert count["worst_case_epsilon"] == "Infinity"
    for name in ("noise_scale", "delta", "gaussian_sigma", "saving", "limited_by", "statement"):
        assert count[name] == getattr(made, name)
    programme = facts(capsys, "calibrate", "programme", "gaussian:sigma=1,count=52", *target)
    found = accounting.calibrate(
        lambda sigma: accounting.from_gaussian(sigma=sigma) * 52,
        epsilon=0.2,
        delta=1e-6,
        parameter_range=(1.0, 1e4),
    )
    assert set(programme) == set(found.to_dict()) - {"loss"} | {"mechanisms"}
    assert programme["parameter"] == pytest.approx(found.parameter, rel=1e-9)
    assert programme["mechanisms"] == [
        {"mechanism": "gaussian", "sigma": programme["parameter"], "sensitivity": 1.0, "copies": 52}
    ]


def test_quiet_prints_the_number_alone(capsys):
    code, out, _ = run(capsys, "calibrate", "gaussian", "--epsilon", 1, "--delta", 1e-6, "--quiet")
    assert (code, out) == (0, f"{gaussian.sigma(epsilon=1.0, delta=1e-6)!r}\n")


# ---------------------------------------------------------------------- risk


def test_risk_recommends_reports_and_refuses(capsys, tmp_path):
    given = ("risk", "--records", 100, "--cost", 550000, "--allowed-error", 2)
    for suffix in ("html", "json", "txt"):
        report = tmp_path / f"decision.{suffix}"
        found = facts(capsys, *given, "--budget", 80000, "--report", report)
        assert found["epsilon"] == 0.5
        assert "0.5" in report.read_text()
    code, out, _ = run(capsys, *given, "--budget", 80000)
    assert code == 0
    assert narrow(out)
    assert run(capsys, *given, "--budget", 80000, "--quiet")[:2] == (0, "0.5\n")
    assert facts(capsys, *given, "--budget", 20000, code=1)["feasible"] is False
    for wrong in (
        ("risk",),
        ("risk", "--records", 100),
        ("risk", "--records", 0, "--allowed-error", 2),
        ("risk", "--records", 100, "--impact", 5, "--allowed-error", 2),
        (*given, "--budget", "nan"),
        (*given, "--budget", 80000, "--report", tmp_path / "a.doc"),
        (*given, "--budget", 80000, "--report", tmp_path / "no" / "a.html"),
    ):
        code, out, err = run(capsys, *wrong)
        assert (code, out, len(err.splitlines())) == (2, "", 1)


def _browser():
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.skipif(_browser() is None, reason="no browser is installed")
def test_the_report_opens_in_a_browser(capsys, tmp_path):
    report = tmp_path / "decision.html"
    given = ("--records", 10000, "--impact", 5000, "--threshold", 1000, "--allowed-error", 60)
    assert run(capsys, "risk", *given, "--releases", 12, "--delta", 1e-6, "--report", report)[0] == 0
    source = report.read_text()
    assert "<script" not in source
    assert "http:" not in source.replace("http://www.w3.org", "")
    assert "https:" not in source
    command = [_browser(), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile"]
    done = subprocess.run([*command, "--dump-dom", report.as_uri()], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    # The browser's own view of the page: the verdict, and every picture with its shapes.
    assert "Use epsilon = " in done.stdout
    assert done.stdout.count("<svg") == source.count("<svg") >= 3
    assert done.stdout.count("<rect") == source.count("<rect")
    picture = tmp_path / "shot.png"
    shot = [*command, f"--screenshot={picture}", "--window-size=900,2000", report.as_uri()]
    subprocess.run(shot, capture_output=True, timeout=120, check=True)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 20_000


# ---------------------------------------------------------------------- reproduce


def test_the_lecture_is_reproduced(capsys, tmp_path):
    out = tmp_path / "a" / "b"
    found = facts(capsys, "reproduce", "lecture", "--out", out)
    names = sorted(path.name for path in out.iterdir())
    assert sorted(os.path.basename(file) for file in found["files"]) == names
    assert sum(name.endswith(".png") for name in names) == sum(name.endswith(".svg") for name in names) == 5
    assert sum(name.endswith(".csv") for name in names) == 5
    assert all(name.startswith("lecture") for name in names)  # sources share a folder
    page = (out / "lecture.md").read_text()
    assert "Var Lap(b) = 2 b²" in page
    for figure in (name for name in names if name.endswith(".png")):
        assert figure in page
    risk = [line.split(",") for line in (out / "lecture-risk.csv").read_text().splitlines()[1:]]
    for _, scale, exact, printed, simulated in risk:
        assert float(exact) == 2 * float(printed) == 2 * float(scale) ** 2
        # 20000 draws: the mean of squares has a relative deviation of sqrt(5/20000), and the seed is fixed.
        assert abs(float(simulated) / float(exact) - 1) < 6 * math.sqrt(5 / 20000)


def test_every_source_has_a_module():
    root = os.path.dirname(sys.modules["dpcore"].__file__)
    for name in NAMES:
        assert os.path.exists(os.path.join(root, "reproduce", name.replace("-", "_") + ".py")), name


def test_an_interrupted_or_failing_reproduction_leaves_nothing(capsys, tmp_path, monkeypatch):
    from dpcore.reproduce import lecture

    def interrupted(out, *, progress=False):
        (out / "half.csv").write_text("x")
        raise KeyboardInterrupt

    monkeypatch.setattr(lecture, "run", interrupted)
    code, out, err = run(capsys, "reproduce", "lecture", "--out", tmp_path / "new")
    assert (code, out, err) == (130, "", "dpcore: interrupted\n")
    assert os.listdir(tmp_path) == []
    (tmp_path / "kept.txt").write_text("mine")
    assert run(capsys, "reproduce", "lecture", "--out", tmp_path)[0] == 130
    assert os.listdir(tmp_path) == ["kept.txt"]


def test_a_terminated_reproduction_leaves_nothing(tmp_path):
    """SIGTERM and Ctrl-C, to the real program, at several moments of its work."""
    for wish in (signal.SIGTERM, signal.SIGINT):
        for wait in (0.5, 1.5):
            command = [sys.executable, "-m", "dpcore", "reproduce", "partial-knowledge", "--out", "new"]
            worker = subprocess.Popen(
                command,
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            end = time.monotonic() + 60
            while not list(tmp_path.glob("new/.partial-knowledge-*")) and time.monotonic() < end:
                time.sleep(0.02)
            time.sleep(wait)
            worker.send_signal(wish)
            out, err = worker.communicate(timeout=60)
            assert (worker.returncode, out, err) == (130, "", "dpcore: interrupted\n")
            assert os.listdir(tmp_path) == []


def test_a_full_disk_leaves_no_half_of_a_file(capsys, tmp_path, monkeypatch):
    """The old report and plot stay whole when the new one cannot be written."""
    report, plot = tmp_path / "decision.html", tmp_path / "curve.png"
    report.write_text("old")
    plot.write_text("old")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    given = ("--records", 100, "--cost", 550000, "--budget", 80000, "--allowed-error", 2)
    for wrong in (("risk", *given, "--report", report), ("account", "gaussian:sigma=5", "--plot", plot)):
        code, out, err = run(capsys, *wrong)
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert str(wrong[-1]) in err
        assert "No space left" in err
    assert sorted(os.listdir(tmp_path)) == ["curve.png", "decision.html"]
    assert report.read_text() == plot.read_text() == "old"


def test_names_cannot_steer_the_terminal(capsys, tmp_path):
    code, _, err = run(capsys, "account", "\x1b[31mred\x07")
    assert code == 2
    assert err.rstrip("\n").isprintable()
    assert len(run(capsys, "account", "x" * 10**5)[2]) < 600


def test_reproduce_bad_input(capsys, tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    for wrong in (
        ("lecture",),
        ("nothing", "--out", tmp_path),
        ("lecture", "--out", file),
        ("lecture", "--out", file / "x"),
    ):
        code, out, err = run(capsys, "reproduce", *wrong)
        assert (code, out, len(err.splitlines())) == (2, "", 1)


# ---------------------------------------------------------------------- completion, pipes


def _complete(script, *words):
    """What bash would offer after these words."""
    typed = " ".join(f"'{word}'" for word in words)
    program = f'{script}\nCOMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _dpcore; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_bash_completes(capsys):
    code, script, _ = run(capsys, "completion", "bash")
    assert code == 0
    assert set(COMMANDS) <= set(_complete(script, "dpcore", ""))
    assert _complete(script, "dpcore", "cal") == ["calibrate"]
    assert _complete(script, "dpcore", "calibrate", "gau") == ["gaussian"]
    assert _complete(script, "dpcore", "calibrate", "gaussian", "--eps") == ["--epsilon"]
    assert _complete(script, "dpcore", "release", "x.csv", "--epsilon", "1", "--led") == ["--ledger"]
    assert _complete(script, "dpcore", "account", "x.toml", "--engine", "") == ["auto", "buckets", "spectral"]
    assert _complete(script, "dpcore", "reproduce", "lec") == ["lecture"]


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes(capsys, tmp_path):
    script = tmp_path / "dpcore.fish"
    script.write_text(run(capsys, "completion", "fish")[1])

    def offers(typed):
        program = f"source {script}; complete -C '{typed}'"
        done = subprocess.run(["fish", "-c", program], capture_output=True, text=True, check=True)
        return [line.split("\t")[0] for line in done.stdout.splitlines()]

    assert offers("dpcore cal") == ["calibrate"]
    assert offers("dpcore calibrate gau") == ["gaussian"]
    assert offers("dpcore calibrate gaussian --eps") == ["--epsilon"]
    assert offers("dpcore account x.toml --engine ") == ["auto", "buckets", "spectral"]
    assert offers("dpcore reproduce lec") == ["lecture"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes(capsys, tmp_path):
    script = tmp_path / "_dpcore"
    script.write_text(run(capsys, "completion", "zsh")[1])

    def offers(*typed):
        # zsh completes in its line editor only: what the function would hand to it is printed instead.
        program = f"""autoload -Uz compinit; compinit -u -D; source {script}
            [[ $_comps[dpcore] == _dpcore ]] || exit 1
            _describe() {{ print -rl -- $words_ }}; _files() {{ : }}
            words=(dpcore {" ".join(f"'{word}'" for word in typed)}); CURRENT=$#words; _dpcore"""
        done = subprocess.run(["zsh", "-f", "-c", program], capture_output=True, text=True, check=True)
        return {line.replace("\\:", "\0").split(":")[0].replace("\0", ":") for line in done.stdout.splitlines()}

    assert set(COMMANDS) <= offers("")
    assert {"gaussian", "count", "programme"} <= offers("calibrate", "")
    assert "--epsilon" in offers("calibrate", "gaussian", "--eps")
    assert offers("account", "x.toml", "--engine", "") == {"auto", "buckets", "spectral"}
    assert {"lecture", "all"} <= offers("reproduce", "")
    assert "example:hospital" in offers("release", "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_every_command_and_option(capsys, shell):
    code, script, _ = run(capsys, "completion", shell)
    assert code == 0
    for command in COMMANDS:
        assert command in script
    assert "worst-case-epsilon" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)
    assert run(capsys, "completion", "tcsh")[0] == 2


def test_a_closed_pipe_is_not_an_error_message():
    program = f"{sys.executable} -P -m dpcore account laplace:epsilon=0.1 --json 2>&1 >/dev/full | cat"
    if sys.version_info < (3, 11):
        program = program.replace(" -P", "")
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, cwd="/")
    assert "Traceback" not in done.stdout
    program = f"cd / && {sys.executable} -m dpcore completion fish | head -1"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.startswith("#")


def test_all_parsers_refuse_abbreviations():
    def walk(parser):
        assert parser.allow_abbrev is False
        for action in parser._actions:
            if hasattr(action, "choices") and isinstance(action.choices, dict):
                for sub in action.choices.values():
                    walk(sub)

    walk(build_parser())


def test_the_long_grid_is_shared_by_the_cores():
    from dpcore.cli.reproduce import _executor
    from dpcore.reproduce import partial_knowledge as reproduce

    with _executor("lecture") as executor:
        assert executor is None
    cells = reproduce.grid(records=(10**4,), epsilons=(0.01,), biases=(0.5,), shares=(0.5,))
    with _executor("partial-knowledge") as executor:
        if len(os.sched_getaffinity(0)) < 2:
            assert executor is None
        else:
            (rows,) = executor.map(reproduce.evaluate, [cells])
            assert rows == reproduce.evaluate(cells)


def test_account_of_one_direction_does_not_claim_differential_privacy(capsys):
    """`neighbours=add` alone has a far smaller epsilon than both; a new user took the sentence for a guarantee."""
    assert main(["account", "subsampled_gaussian:sigma=0.9,rate=0.004,neighbours=add", "--delta", "1e-6"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "one direction alone (neighbours=add)" in text
    assert "less than differential privacy" in text
    assert main(["account", "subsampled_gaussian:sigma=0.9,rate=0.004", "--delta", "1e-6"]) == 0
    assert "The release is (epsilon, delta)-differentially private" in " ".join(capsys.readouterr().out.split())
