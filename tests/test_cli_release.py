"""``dpcore release`` and ``dpcore ledger``: what is released, what is charged, and every wrong input."""

import csv
import datetime
import decimal
import fcntl
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

import dpcore
from dpcore import gaussian, partial_knowledge
from dpcore._predicate import Column, Predicate
from dpcore.cli import main
from dpcore.ledger import Ledger, LedgerBusyError

HOSPITAL = pathlib.Path(dpcore.__file__).parent / "data" / "hospital.csv"
SMOKERS = ("example:hospital", "--where", "smoker == 1")


def run(capsys, *arguments):
    code = main(["release", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def released(capsys, *arguments):
    code, out, err = run(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def refused(capsys, *arguments, code=2):
    got, out, err = run(capsys, *arguments)
    assert (got, out) == (code, "")
    assert len(err.splitlines()) == 1
    assert err.startswith("dpcore: ")
    return err


def hospital():
    with HOSPITAL.open(newline="") as file:
        return list(csv.DictReader(file))


# ---------------------------------------------------------------------- the data set that comes along


def test_the_example_is_what_its_generator_makes():
    root = pathlib.Path(__file__).resolve().parent.parent
    code = compile((root / "tools" / "make_hospital.py").read_text(), "make_hospital.py", "exec")
    scope = {"__name__": "make_hospital", "__file__": str(root / "tools" / "make_hospital.py")}
    exec(code, scope)
    made = [tuple(map(str, row)) for row in scope["patients"]()]
    assert made == [tuple(row.values()) for row in hospital()]


# ---------------------------------------------------------------------- values
# These tests draw noise. Bounds are set where the noise exceeds them with probability below 1e-9.


def test_a_count_is_the_true_count_and_integer_noise(capsys):
    true = sum(row["smoker"] == "1" for row in hospital())
    facts = released(capsys, *SMOKERS, "--epsilon", 2, "--no-ledger")
    assert isinstance(facts["value"], int)
    assert abs(facts["value"] - true) <= 12  # Pr = 2 e^-26 / (1 + e^-2)
    assert facts["upper"] - facts["value"] == facts["value"] - facts["lower"] == 1.0
    assert facts["noise_scale"] == 0.5
    assert "2-differentially private" in facts["statement"]


def test_gaussian_noise_with_delta(capsys):
    true = sum(row["smoker"] == "1" for row in hospital())
    facts = released(capsys, *SMOKERS, "--epsilon", 1, "--delta", 1e-6, "--no-ledger")
    assert facts["noise_scale"] == gaussian.sigma(epsilon=1.0, delta=1e-6)
    assert abs(facts["value"] - true) <= 7 * facts["noise_scale"]
    facts = released(capsys, *SMOKERS, "--proportion", "--epsilon", 1, "--delta", 1e-6, "--no-ledger")
    assert abs(facts["value"] - true / 10_000) <= 7 * facts["noise_scale"] / 10_000
    assert "adding" not in facts["statement"]


def test_a_mean_is_cut_off_and_noisy(capsys):
    ages = np.array([float(row["age"]) for row in hospital()])
    true = np.clip(ages, 20, 60).mean()
    arguments = ("example:hospital", "--mean", "age", "--lower", 20, "--upper", 60, "--no-ledger")
    facts = released(capsys, *arguments, "--epsilon", 1)
    assert facts["noise_scale"] == pytest.approx(40 / 10_000)
    assert abs(facts["value"] - true) <= 22 * facts["noise_scale"]
    facts = released(capsys, *arguments, "--epsilon", 1, "--delta", 1e-6)
    assert facts["noise_scale"] == pytest.approx(gaussian.sigma(epsilon=1.0, delta=1e-6) * 40 / 10_000)
    wide = released(
        capsys,
        "example:hospital",
        "--mean",
        "age",
        "--lower",
        "-1e3",
        "--upper",
        "1e3",
        "--epsilon",
        1,
        "--no-ledger",
    )
    assert abs(wide["value"] - ages.mean()) <= 22 * wide["noise_scale"]
    assert abs(facts["value"] - true) <= 7 * facts["noise_scale"]


def test_no_cell_is_ever_an_error(capsys, tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text('x,y\n1,a\n,\nnan,"b,c"\ninf,a\n-inf,é\n1e999,0x10\n1_0, a \n99999999999999999999,a\n')
    for question in ("x == 1", "x != 1", "x < 5", "y == 'a'", "y != 'a'", "not x == 1", "y == 10 or x > 0"):
        assert isinstance(released(capsys, path, "--where", question, "--epsilon", 1, "--no-ledger")["value"], int)
    facts = released(capsys, path, "--mean", "x", "--lower", 0, "--upper", 1, "--epsilon", 50, "--no-ledger")
    # 1, missing -> 0, nan -> 0, inf -> 1, -inf -> 0, inf -> 1, not a number -> 0, large -> 1
    assert facts["value"] == pytest.approx(4 / 8, abs=25 * facts["noise_scale"])
    facts = released(capsys, path, "--where", "y == 'a'", "--epsilon", 50, "--no-ledger")
    assert facts["value"] == 4  # Pr[noise] < 2 e^-50; the cell " a " is the text a


@pytest.mark.parametrize(
    "cell", [b"\xff\xfe", b"\0", b"x" * 200_000, b'"a\nb"', "\U0001f600".encode(), b"\x1b[31m"]
)
def test_no_byte_of_a_cell_is_an_error(capsys, tmp_path, cell):
    """Neither one that is no text, nor one too many for csv: the error would be about a record."""
    path = tmp_path / "odd.csv"
    path.write_bytes(b"x,y\n" + cell + b",1\n2,1\n")
    for question, true in (("x == 2", 1), ("y == 1", 2), ("not x == 'a'", 2)):
        facts = released(capsys, path, "--where", question, "--epsilon", 60, "--no-ledger")
        assert facts["value"] == true  # Pr[noise] < 2 e^-60


def test_the_number_of_records_is_an_error_only_where_it_is_public(capsys, tmp_path):
    path = tmp_path / "none.csv"
    path.write_text("x\n")
    assert released(capsys, path, "--where", "x == 1", "--epsilon", 60, "--no-ledger")["value"] == 0
    where = ("--where", "x == 1", "--epsilon", 1, "--no-ledger")
    for public in (
        (*where, "--proportion"),
        (*where, "--delta", 1e-6, "--known", 5, "--bias", 0.5),
        ("--mean", "x", "--lower", 0, "--upper", 1, "--epsilon", 1, "--no-ledger"),
    ):
        assert "has no records" in refused(capsys, path, *public)


def test_every_kind_of_parquet_column(capsys, tmp_path):
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5)
    columns = {
        "whole": pyarrow.array([1, None, 3], pyarrow.int8()),
        "yes": pyarrow.array([True, None, False]),
        "exact": pyarrow.array([decimal.Decimal("1.50"), None, decimal.Decimal("-2.25")]),
        "day": pyarrow.array([datetime.date(2026, 1, 2), None, datetime.date(2025, 1, 1)]),
        # A nanosecond is more than Python's own type can hold.
        "moment": pyarrow.array([1, None, 2], pyarrow.timestamp("ns")),
        "coarse": pyarrow.array([moment, None, moment], pyarrow.timestamp("s")),
        "group": pyarrow.array(["a", None, "b"]).dictionary_encode(),
        "raw": pyarrow.array([b"a", None, b"\xff"]),
        "empty": pyarrow.nulls(3),
        "many": pyarrow.array([[1], None, [2, 3]]),
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    for question, true in (
        ("whole >= 1", 2),
        ("yes == 1", 1),
        ("exact < 0", 1),
        ("day == '2026-01-02'", 1),
        ("not moment == 'x'", 3),
        ("coarse == '2026-01-02 03:04:05'", 2),
        ("group == 'b'", 1),
        ("raw == 'a'", 1),
        ("not empty == 1", 3),
    ):
        facts = released(capsys, tmp_path / "a.parquet", "--where", question, "--epsilon", 60, "--no-ledger")
        assert facts["value"] == true, question
    error = refused(capsys, tmp_path / "a.parquet", "--where", "many == 1", "--epsilon", 1, "--no-ledger")
    assert "column 'many'" in error
    assert "neither numbers nor text" in error


def test_tabs_and_parquet(capsys, tmp_path):
    (tmp_path / "a.tsv").write_text("x\ty\n1\ta\n2\tb\n")
    assert (
        released(capsys, tmp_path / "a.tsv", "--where", "y == 'b'", "--epsilon", 60, "--no-ledger")["value"] == 1
    )
    table = pyarrow.table({"x": [1, 2, None], "y": ["a", None, "b"], "z": [1.5, 2.5, 3.5]})
    parquet.write_table(table, tmp_path / "a.parquet")
    for question, expected in (("x >= 1", 2), ("y != 'a'", 1), ("z > 2", 2), ("not y == 'a'", 2)):
        facts = released(capsys, tmp_path / "a.parquet", "--where", question, "--epsilon", 60, "--no-ledger")
        assert facts["value"] == expected
    assert "no column 'w'" in refused(
        capsys, tmp_path / "a.parquet", "--where", "w == 1", "--epsilon", 1, "--no-ledger"
    )
    (tmp_path / "b.parquet").write_bytes(b"nonsense")
    assert "not a Parquet file" in refused(capsys, tmp_path / "b.parquet", "--epsilon", 1, "--no-ledger")


# ---------------------------------------------------------------------- conditions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a == 1", "1000"),
        ("a != 1", "0110"),  # the last cell is not a number
        ("a <= 2 and b == 'x'", "1000"),
        ("a == 1 or b == 'y' and a == 3", "1010"),
        ("(a == 1 or b == 'y') and a == 3", "0010"),
        ("not a == 1", "0111"),
        ("not (a == 1 or a == 2)", "0011"),
        ("`the c` > -1.5e0", "1110"),
        ('b == "y"', "0110"),
        ("b != 'y'", "1000"),
        ("a>.5 and a<2.", "1000"),
    ],
)
def test_conditions(text, expected):
    columns = {
        "a": Column(["1", "2", "3", "many"]),
        "b": Column(["x", "y", "y", ""]),
        "the c": Column([0, 1, 2, None]),
    }
    assert "".join(str(int(x)) for x in Predicate(text)(columns)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a =",
        "a = 1",
        "a == ",
        "== 1",
        "a == 1 and",
        "a == 1 b == 2",
        "(a == 1",
        "a == 1)",
        "a < 'x'",
        "a == b",
        "a == 1; import os",
        "__import__('os')",
        "a == 1x",
        "a + 1 == 2",
        "not",
        "a == 'x",
        "(" * 60 + "a == 1" + ")" * 60,
    ],
)
def test_bad_conditions_are_one_line(capsys, text):
    assert "condition" in refused(capsys, "example:hospital", "--where", text, "--epsilon", 1, "--no-ledger")


# ---------------------------------------------------------------------- the ledger


def test_no_ledger_is_made_whose_first_release_does_not_fit(capsys, tmp_path):
    """Its budget could never be changed: a forgotten --budget-delta left a ledger without use."""
    path = tmp_path / "new.ledger"
    asked = (*SMOKERS, "--epsilon", 0.5, "--delta", 1e-6, "--ledger", path, "--budget-epsilon")
    message = refused(capsys, *asked, 1, code=1)
    assert "delta 1e-06 is more than all of the budget, delta 0" in message
    assert "was not made: give a larger --budget-delta" in message
    assert "give a larger --budget-epsilon" in refused(capsys, *asked, 0.25, "--budget-delta", 1e-6, code=1)
    assert "--budget-epsilon must be" in refused(capsys, *asked, 0)
    assert "--budget-delta must be" in refused(capsys, *asked, 1, "--budget-delta", -1)
    assert not path.exists()
    released(capsys, *asked, 0.5, "--budget-delta", 1e-6)


def test_a_plain_release_says_what_it_does_to_earlier_ones_with_known(capsys, tmp_path):
    ledger = ("--ledger", tmp_path / "a.ledger")
    budget = (*ledger, "--budget-epsilon", 4, "--budget-delta", 1e-5)
    released(capsys, *SMOKERS, "--epsilon", 0.2, *PARTIAL, "--worst-case-epsilon", 1, *budget)
    other = ("example:hospital", "--where", "smoker == 0")
    assert "--known" not in released(capsys, *other, "--epsilon", 0.5, *ledger)["statement"]
    for asked in (("--epsilon", 0.5), ("--epsilon", 0.5, "--delta", 1e-6)):
        again = released(capsys, "example:hospital", "--where", "smoker==1.0", *asked, *ledger)
        assert "has 1 earlier release(s) of this count with --known" in again["statement"]
        assert "only the guarantee of the ledger's total" in again["statement"]


def test_a_release_is_charged_and_overspending_refused(capsys, tmp_path):
    path = tmp_path / "h.ledger"
    budget = ("--ledger", path, "--budget-epsilon", 1)
    facts = released(capsys, *SMOKERS, "--epsilon", 0.75, *budget)
    assert facts["ledger"]["epsilon_left"] == 0.25
    (charge,) = Ledger(path).charges
    assert (charge.epsilon, charge.delta, charge.label) == (0.75, 0.0, "smoker == 1")
    assert str(facts["value"]) not in path.read_text().splitlines()[1]  # the value is not in the ledger
    before = path.read_bytes()
    assert "0.25 left of 1" in refused(capsys, *SMOKERS, "--epsilon", 0.5, *budget, code=1)
    assert path.read_bytes() == before
    code, out, _ = run(capsys, *SMOKERS, "--epsilon", 0.25, "--ledger", path, "--quiet")
    assert (code, len(out.splitlines())) == (0, 1)
    assert int(out)
    assert "never changes" in refused(capsys, *SMOKERS, "--epsilon", 0.1, "--ledger", path, "--budget-epsilon", 2)


def test_certified_ledgers_are_charged_the_loss(capsys, tmp_path):
    path = tmp_path / "h.ledger"
    Ledger.create(path, epsilon=1.0, delta=1e-6, composition="certified")
    released(capsys, *SMOKERS, "--epsilon", 0.2, "--delta", 1e-7, "--ledger", path)
    assert Ledger(path).charges[0].loss["mechanisms"][0]["mechanism"] == "gaussian"
    released(capsys, *SMOKERS, "--epsilon", 0.2, "--ledger", path)
    assert 0.2 < Ledger(path).spent.epsilon < 0.4


def test_the_charge_is_on_the_disk_before_any_noise_is_drawn(capsys, tmp_path, monkeypatch):
    from dpcore import mechanisms

    path = tmp_path / "h.ledger"
    seen = []

    def spy(self, value, rng=None):
        seen.append(len(path.read_text().splitlines()))
        return 0

    monkeypatch.setattr(mechanisms.DiscreteLaplace, "release", spy)
    released(capsys, *SMOKERS, "--epsilon", 0.5, "--ledger", path, "--budget-epsilon", 1)
    assert seen == [2]


def test_nothing_is_shown_when_the_charge_is_not_durable(capsys, tmp_path, monkeypatch):
    path = tmp_path / "h.ledger"
    Ledger.create(path, epsilon=1.0)

    def failing(handle):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("dpcore.ledger._file.os.fsync", failing)
    assert "Input/output" in refused(capsys, *SMOKERS, "--epsilon", 0.5, "--ledger", path)


def test_held_corrupt_and_missing_ledgers(capsys, tmp_path):
    path = tmp_path / "h.ledger"
    Ledger.create(path, epsilon=1.0).charge(epsilon=0.5)
    arguments = (*SMOKERS, "--epsilon", 0.1, "--ledger", path)
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert "held by another process" in refused(capsys, *arguments, "--timeout", 0.05)
    damaged = path.read_bytes().replace(b"0.5", b"0.4")
    path.write_bytes(damaged)
    assert "damaged" in refused(capsys, *arguments)
    assert path.read_bytes() == damaged
    assert "there is no ledger" in refused(capsys, *SMOKERS, "--epsilon", 0.1, "--ledger", tmp_path / "none")
    assert "cannot create" in refused(
        capsys, *SMOKERS, "--epsilon", 0.1, "--ledger", tmp_path / "no" / "x", "--budget-epsilon", 1
    )
    assert "not a regular file" in refused(capsys, *SMOKERS, "--epsilon", 0.1, "--ledger", tmp_path)


def test_the_ledger_command(capsys, tmp_path):
    path = str(tmp_path / "h.ledger")

    def ledger(*arguments):
        code = main(["ledger", path, *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    assert ledger()[0] == 2
    assert ledger("--create")[0] == 2
    assert ledger("--create", "--epsilon", "-1")[0] == 2
    assert ledger("--create", "--epsilon", "2", "--delta", "1e-5", "--label", "survey")[0] == 0
    assert ledger("--create", "--epsilon", "2")[0] == 2
    assert ledger("--epsilon", "3")[0] == 2
    released(capsys, *SMOKERS, "--epsilon", 0.5, "--ledger", path, "--label", "smokers")
    code, out, err = ledger()
    assert (code, err) == (0, "")
    assert "smokers" in out
    assert "epsilon 1.5" in out
    assert all(len(line) <= 80 for line in out.splitlines() if not line.startswith(path))
    assert ledger("--quiet") == (0, "1.5\n", "")
    assert json.loads(ledger("--json")[1])["spent"]["epsilon"] == 0.5


# ---------------------------------------------------------------------- partial knowledge

PARTIAL = ("--delta", 1e-6, "--known", 5000, "--bias", "0.2:0.3")


def test_partial_knowledge_needs_less_noise_and_is_charged_the_worst_case(capsys, tmp_path):
    path = tmp_path / "h.ledger"
    true = sum(row["smoker"] == "1" for row in hospital())
    budget = ("--ledger", path, "--budget-epsilon", 4, "--budget-delta", 1e-5)
    facts = released(capsys, *SMOKERS, "--epsilon", 0.2, *PARTIAL, "--worst-case-epsilon", 1, *budget)
    calibrated = partial_knowledge.calibrate(
        epsilon=0.2, delta=1e-6, records=10_000, known=5000, bias=(0.2, 0.3), worst_case_epsilon=1.0
    )
    assert facts["noise_scale"] == calibrated.noise_scale < facts["gaussian_sigma"]
    assert facts["saving"] == calibrated.saving > 0.5
    assert isinstance(facts["value"], int)
    assert abs(facts["value"] - true) <= 7 * facts["noise_scale"] + 1
    (charge,) = Ledger(path).charges
    assert (charge.epsilon, charge.delta) == (1.0, 1e-6)
    code, out, _ = run(capsys, *SMOKERS, "--epsilon", 0.2, *PARTIAL, "--no-ledger")
    assert code == 0
    assert "saved" in out
    assert "Nothing is guaranteed if these assumptions fail" in " ".join(out.split())
    assert all(len(line) <= 80 for line in out.splitlines())


def test_the_same_count_again_is_combined_exactly_or_refused(capsys, tmp_path):
    path = tmp_path / "h.ledger"
    Ledger.create(path, epsilon=20.0, delta=1e-4)
    worst = ("--worst-case-epsilon", 5, "--ledger", path)
    first = released(capsys, *SMOKERS, "--epsilon", 0.1, *PARTIAL, *worst)["noise_scale"]
    assert "released 1 time(s) before" in refused(capsys, *SMOKERS, "--epsilon", 0.1, *PARTIAL, *worst, code=1)
    assert len(Ledger(path).charges) == 1
    second = released(capsys, *SMOKERS, "--epsilon", 0.12, *PARTIAL, *worst)["noise_scale"]
    # Both releases together are within the second one's epsilon and delta.
    together = partial_knowledge.count_delta(
        epsilon=0.12, records=10_000, known=5000, bias=(0.2, 0.3), noise_scale=[first, second]
    )
    assert 0.99e-6 < together <= 1e-6
    # A release of something else is not covered by the guarantee of the count, and the statement says so.
    other = released(capsys, "example:hospital", "--where", "age >= 65", "--epsilon", 0.2, *PARTIAL, *worst)
    assert "2 release(s) of other numbers" in other["statement"]


def test_other_spellings_and_plain_releases_of_the_count_are_releases_of_it(capsys, tmp_path):
    path = tmp_path / "h.ledger"
    Ledger.create(path, epsilon=40.0, delta=1e-4)
    worst = ("--worst-case-epsilon", 5, "--ledger", path)
    plain = released(capsys, *SMOKERS, "--epsilon", 0.15, "--delta", 1e-6, "--ledger", path)["noise_scale"]
    again = ("example:hospital", "--where", "`smoker`==1.0 ", "--epsilon", 0.12, *PARTIAL, *worst)
    facts = released(capsys, *again)
    assert "released 1 time(s) before" in facts["statement"]
    assert "other numbers" not in facts["statement"]
    together = partial_knowledge.count_delta(
        epsilon=0.12, records=10_000, known=5000, bias=(0.2, 0.3), noise_scale=[plain, facts["noise_scale"]]
    )
    assert 0.99e-6 < together <= 1e-6
    assert "released 2 time(s) before" in refused(capsys, *again, code=1)
    # What Laplace noise tells beside it is not known, and the statement says so.
    released(capsys, *SMOKERS, "--epsilon", 0.5, "--ledger", path)
    third = released(capsys, *SMOKERS, "--epsilon", 1, *PARTIAL, *worst)
    assert "does not hold: the count was released 1 time(s) with Laplace noise" in third["statement"]
    assert "released 2 time(s) before" in third["statement"]


def test_a_delta_as_large_as_one_record_comes_with_a_caution(capsys):
    asked = (*SMOKERS, "--epsilon", 0.2, "--known", 5000, "--bias", 0.25, "--worst-case-epsilon", 1, "--no-ledger")
    large = released(capsys, *asked, "--delta", 1e-4)
    assert "Caution: delta is not below 1/10000" in large["statement"]
    assert "Caution" not in released(capsys, *asked, "--delta", 0.99e-4)["statement"]


def test_no_noise_where_none_is_needed(capsys):
    facts = released(
        capsys, *SMOKERS, "--epsilon", 1, "--delta", 1e-6, "--known", 5000, "--bias", 0.25, "--no-ledger"
    )
    assert (facts["noise"], facts["noise_scale"], facts["lower"]) == ("none needed", 0.0, facts["value"])
    assert "without any noise" in facts["statement"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*PARTIAL, "--ledger", "x", "--budget-epsilon", 1), "--worst-case-epsilon is needed"),
        (("--delta", 1e-6, "--known", 10_000, "--bias", 0.5, "--no-ledger"), "known"),
        (("--delta", 1e-6, "--known", -1, "--bias", 0.5, "--no-ledger"), "known"),
        (("--delta", 1e-6, "--known", 5, "--bias", 1.5, "--no-ledger"), "bias"),
        (("--delta", 1e-6, "--known", 5, "--bias", "0.4:0.2", "--no-ledger"), "bias"),
        (("--delta", 1e-6, "--known", 5, "--bias", "a:b", "--no-ledger"), "not a number"),
        (("--delta", 1e-6, "--known", 5, "--bias", "0.2-0.3", "--no-ledger"), "a range (0.2:0.4)"),
        (("--delta", 1e-6, "--known", 5, "--bias", "10@0.5", "--no-ledger"), "9994 unknown records"),
        ((*PARTIAL, "--worst-case-epsilon", 0.1, "--no-ledger"), "--worst-case-epsilon must be"),
    ],
)
def test_bad_partial_knowledge(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert message in refused(capsys, *SMOKERS, "--epsilon", 0.2, *arguments)
    assert os.listdir(tmp_path) == []


# ---------------------------------------------------------------------- wrong input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("missing.csv", "--epsilon", 1), "there is no file missing.csv"),
        ((*SMOKERS, "--epsilon", 1), "--ledger FILE is needed"),
        (("missing.csv", "--epsilon", 1, "--no-ledger"), "there is no file missing.csv"),
        (("example:nothing", "--epsilon", 1, "--no-ledger"), "no example"),
        ((".", "--epsilon", 1, "--no-ledger"), "folder"),
        ((__file__, "--epsilon", 1, "--no-ledger"), "must end in"),
        ((*SMOKERS, "--no-ledger"), "--epsilon"),
        ((*SMOKERS, "--epsilon", 0, "--no-ledger"), "epsilon"),
        ((*SMOKERS, "--epsilon", "nan", "--no-ledger"), "epsilon"),
        ((*SMOKERS, "--epsilon", "inf", "--no-ledger"), "epsilon"),
        ((*SMOKERS, "--epsilon", 1, "--delta", 0, "--no-ledger"), "delta"),
        ((*SMOKERS, "--epsilon", 1, "--delta", 1, "--no-ledger"), "delta"),
        ((*SMOKERS, "--epsilon", 1, "--level", 1, "--no-ledger"), "level"),
        ((*SMOKERS, "--epsilon", 1, "--ledger", "x", "--no-ledger"), "exclude"),
        ((*SMOKERS, "--epsilon", 1, "--no-ledger", "--budget-epsilon", 1), "--ledger"),
        ((*SMOKERS, "--epsilon", 1, "--no-ledger", "--budget-delta", 1), "--budget-epsilon"),
        (("example:hospital", "--where", "smokes == 1", "--epsilon", 1, "--no-ledger"), "no column 'smokes'"),
        (("example:hospital", "--mean", "age", "--epsilon", 1, "--no-ledger"), "--lower"),
        (
            ("example:hospital", "--mean", "age", "--lower", 5, "--upper", 5, "--epsilon", 1, "--no-ledger"),
            "upper",
        ),
        (
            ("example:hospital", "--mean", "age", "--lower", 0, "--upper", "inf", "--epsilon", 1, "--no-ledger"),
            "upper",
        ),
        (
            ("example:hospital", "--mean", "age", "--lower", 0, "--upper", 1e-320, "--epsilon", 1, "--no-ledger"),
            "upper",
        ),
        (
            ("example:hospital", "--mean", "x", "--lower", 0, "--upper", 1, "--epsilon", 1, "--no-ledger"),
            "no column",
        ),
        ((*SMOKERS, "--mean", "age", "--lower", 0, "--upper", 9, "--epsilon", 1, "--no-ledger"), "--where"),
        ((*SMOKERS, "--lower", 0, "--epsilon", 1, "--no-ledger"), "--mean"),
        (("example:hospital", "--proportion", "--epsilon", 1, "--no-ledger"), "--where"),
        ((*SMOKERS, "--count", "--mean", "age", "--epsilon", 1, "--no-ledger"), "not allowed"),
        ((*SMOKERS, "--known", 5, "--epsilon", 1, "--no-ledger"), "--bias"),
        ((*SMOKERS, "--known", 5, "--bias", 0.5, "--epsilon", 1, "--no-ledger"), "--delta"),
        ((*SMOKERS, "--worst-case-epsilon", 5, "--epsilon", 1, "--no-ledger"), "--known"),
        ((*SMOKERS, "--known", 1.5, "--bias", 0.5, "--epsilon", 1, "--no-ledger"), "whole number"),
    ],
)
def test_bad_input_is_one_line_and_charges_nothing(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert message in refused(capsys, *arguments)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no first line"),
        (b"\n", "no first line"),
        (b"x,y\n1,2\n3\n", "line 3"),
        (b"x,y\n1,2,3\n", "line 2"),
        (b"x,x\n1,2\n", "more than one column"),
        (b"x,\xff\n1,1\n", "UTF-8"),
        ("x,y\n1,1\n".encode("utf-16"), "UTF-8"),
        (b'x,y\n"1,2\n', "not a table"),
        (b"\0\0\0\0", "UTF-8" if sys.version_info >= (3, 11) else "no column"),
    ],
)
def test_malformed_files_charge_nothing(capsys, tmp_path, content, message):
    path, book = tmp_path / "a.csv", tmp_path / "ledger"
    path.write_bytes(content)
    Ledger.create(book, epsilon=1.0)
    before = book.read_bytes()
    assert message in refused(capsys, path, "--where", "x == 1", "--epsilon", 1, "--ledger", book)
    assert book.read_bytes() == before


@pytest.mark.parametrize(
    "wrong",
    [
        ("--epsilon", -1),
        ("--delta", 2),
        ("--level", 1.5),
        ("--level", "nan"),
        ("--timeout", -1),
        ("--budget-epsilon", 0),
        ("--worst-case-epsilon", "inf"),
        ("--bias", 2),
        ("--known", 10**6),
    ],
)
def test_a_wrong_option_makes_no_ledger_and_spends_nothing(capsys, tmp_path, wrong):
    """Everything is checked before the first byte is written, and before anything is charged."""
    book = tmp_path / "h.ledger"
    given = {"--epsilon": 0.2, "--delta": 1e-6, "--known": 5000, "--bias": 0.3, "--worst-case-epsilon": 1}
    options = given | {"--budget-epsilon": 4, "--budget-delta": 1e-5} | {wrong[0]: wrong[1]}
    command = [str(word) for pair in options.items() for word in pair]
    refused(capsys, *SMOKERS, "--ledger", book, *command)
    assert os.listdir(tmp_path) == []
    Ledger.create(book, epsilon=4.0, delta=1e-5)
    refused(capsys, *SMOKERS, "--ledger", book, *command)
    assert Ledger(book).spent.charges == 0


def test_two_commands_make_one_ledger(tmp_path):
    """Started together, each with the budget of a new ledger: one makes it, both are charged to it."""
    command = [sys.executable, "-m", "dpcore", "release", *SMOKERS, "--epsilon", "0.25", "--quiet"]
    command += ["--ledger", "one.ledger", "--budget-epsilon", "1"]
    started = [
        subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(5)
    ]
    done = [(*worker.communicate(timeout=120), worker.returncode) for worker in started]
    assert sorted(code for *_, code in done) == [0, 0, 0, 0, 1]
    assert [err.startswith("dpcore: refused") for _, err, code in done if code] == [True]
    assert os.listdir(tmp_path) == ["one.ledger"]
    assert Ledger(tmp_path / "one.ledger").spent.epsilon == 1.0


def test_a_ledger_that_is_taken_between_look_and_charge(capsys, tmp_path, monkeypatch):
    book = tmp_path / "h.ledger"
    Ledger.create(book, epsilon=4.0, delta=1e-5)
    plain = Ledger.charges.fget

    def held(self):
        raise LedgerBusyError("ledger is held by another process")

    monkeypatch.setattr(Ledger, "charges", property(held))
    partial = ("--delta", 1e-6, "--known", 5000, "--bias", 0.3, "--worst-case-epsilon", 1, "--epsilon", 0.2)
    assert "held by another process" in refused(capsys, *SMOKERS, *partial, "--ledger", book)
    monkeypatch.setattr(Ledger, "charges", property(plain))
    assert Ledger(book).charges == ()


def test_an_interrupted_release_says_so_and_leaves_the_ledger_sound(tmp_path):
    """The ledger is held, the command waits for it, and Ctrl-C arrives."""
    path = tmp_path / "h.ledger"
    ledger = Ledger.create(path, epsilon=1.0)
    command = [sys.executable, "-m", "dpcore", "release", *SMOKERS, "--epsilon", "0.5", "--ledger", str(path)]
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        # In a session of its own with the default handling, as a shell starts it.
        worker = subprocess.Popen(
            command,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        time.sleep(3.0)
        worker.send_signal(signal.SIGINT)
        out, err = worker.communicate(timeout=30)
    assert (worker.returncode, out, err) == (130, "", "dpcore: interrupted\n")
    assert ledger.spent.charges == 0


def test_results_print_within_80_columns(capsys, tmp_path):
    code, out, _ = run(capsys, *SMOKERS, "--epsilon", 0.5, "--ledger", tmp_path / "l", "--budget-epsilon", 9)
    assert code == 0
    assert all(len(line) <= 80 for line in out.splitlines())
    assert math.isclose(Ledger(tmp_path / "l").spent.epsilon, 0.5)
