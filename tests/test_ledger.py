"""The budget ledger: arithmetic, crashes, damage, several processes."""

import dataclasses
import fcntl
import json
import os
import pathlib
import signal
import stat
import subprocess
import sys
import threading
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore import accounting
from dpcore.ledger import (
    CorruptLedgerError,
    Ledger,
    LedgerBusyError,
    LedgerError,
    OverspentError,
)
from dpcore.ledger._lines import sealed


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "a.ledger", epsilon=1.0, delta=1e-6, label="survey")


class LyingFloat(float):
    """Whatever comparisons want to hear."""

    def __ge__(self, other):
        return True

    __le__ = __ge__


def test_charges_add_up_and_the_budget_is_kept(ledger):
    assert ledger.charge(epsilon=0.25, delta=4e-7, label="smokers", details={"rows": 3}).number == 1
    assert ledger.charge(epsilon=0.75, delta=6e-7).number == 2
    spent = ledger.spent
    assert (spent.epsilon, spent.epsilon_left, spent.charges) == (1.0, 0.0, 2)
    assert spent.delta == pytest.approx(1e-6)
    assert spent.delta_left >= 0.0
    with pytest.raises(OverspentError, match="epsilon 1e-300"):
        ledger.charge(epsilon=1e-300)
    assert len(ledger.charges) == 2
    assert ledger.charges[0].details == {"rows": 3}
    assert "smokers" in ledger.charges[0].statement
    assert ledger.to_dict()["spent"]["charges"] == 2
    assert Ledger(ledger.path).spent == spent
    assert "2 releases" in ledger.statement
    assert Ledger(ledger.path).label == "survey"


def test_sums_are_exact_where_floating_point_is_not(tmp_path):
    # Ten times 0.1 is more than 1 in exact arithmetic (0.1 is stored as a number above 1/10), though floating
    # point adds it up to 0.9999999999999999.
    ledger = Ledger.create(tmp_path / "a", epsilon=1.0)
    for _ in range(9):
        ledger.charge(epsilon=0.1)
    with pytest.raises(OverspentError):
        ledger.charge(epsilon=0.1)
    assert Fraction(ledger.spent.epsilon) >= 9 * Fraction(0.1)
    ledger.charge(epsilon=ledger.spent.epsilon_left)
    assert ledger.spent.epsilon == 1.0


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0.0, 0.7), max_size=8))
def test_never_more_than_the_budget(tmp_path_factory, costs):
    ledger = Ledger.create(tmp_path_factory.mktemp("ledger") / "a", epsilon=1.0)
    total = Fraction(0)
    for cost in costs:
        fits = total + Fraction(cost) <= 1
        if fits:
            ledger.charge(epsilon=cost)
            total += Fraction(cost)
        else:
            with pytest.raises(OverspentError):
                ledger.charge(epsilon=cost)
    assert Fraction(ledger.spent.epsilon) >= total
    assert ledger.spent.charges == sum(1 for _ in ledger.charges)


def test_delta_is_kept_too(ledger):
    with pytest.raises(OverspentError, match="delta"):
        ledger.charge(epsilon=0.1, delta=2e-6)
    assert ledger.charges == ()


def test_certified_composition_allows_more(tmp_path):
    loss = accounting.from_gaussian(sigma=30.0)
    plain = Ledger.create(tmp_path / "plain", epsilon=1.0, delta=1e-6)
    tight = Ledger.create(tmp_path / "tight", epsilon=1.0, delta=1e-6, composition="certified")
    each = float(loss.epsilon(1e-7))
    fits = int(1.0 / each)
    assert fits < 9
    for _ in range(fits):
        plain.charge(loss=loss, delta=1e-7)
    with pytest.raises(OverspentError):
        plain.charge(loss=loss, delta=1e-7)
    for _ in range(9):
        tight.charge(loss=loss, delta=1e-7)
    spent = tight.spent
    assert spent.epsilon == float((loss * 9).epsilon(1e-6))
    assert spent.epsilon_left == pytest.approx(1.0 - spent.epsilon)
    with pytest.raises(OverspentError, match="together"):
        tight.charge(epsilon=0.9)
    tight.charge(epsilon=0.01)
    assert tight.spent.epsilon > spent.epsilon


def test_a_plan_is_void_after_another_charge(ledger):
    ledger.charge(epsilon=0.1, after=0)
    with pytest.raises(LedgerError, match="meanwhile"):
        ledger.charge(epsilon=0.1, after=0)
    assert ledger.charge(epsilon=0.1, after=1).number == 2


def test_a_loss_cannot_be_sold_for_less(ledger):
    loss = accounting.from_laplace(epsilon=0.5)
    with pytest.raises(ValueError, match="less than what loss costs"):
        ledger.charge(epsilon=0.4, loss=loss)
    assert ledger.charge(loss=loss).epsilon == 0.5
    with pytest.raises(ValueError, match="no finite epsilon"):
        ledger.charge(loss=accounting.from_gaussian(sigma=1.0), delta=0.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "epsilon or loss"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": float("inf")}, "epsilon"),
        ({"epsilon": "1"}, "epsilon"),
        ({"epsilon": 0.1, "delta": 1.5}, "delta"),
        ({"epsilon": 0.1, "delta": float("nan")}, "delta"),
        ({"epsilon": 0.1, "label": 3}, "label"),
        ({"epsilon": 0.1, "loss": 3}, "loss"),
        ({"epsilon": 0.1, "details": {"x": float("nan")}}, "details"),
        ({"epsilon": 0.1, "details": {"x": object()}}, "details"),
        ({"epsilon": 0.1, "details": {"x": "y" * 2**20}}, "bytes"),
    ],
)
def test_bad_charges_leave_the_file_alone(ledger, arguments, message):
    before = pathlib.Path(ledger.path).read_bytes()
    with pytest.raises((TypeError, ValueError), match=message):
        ledger.charge(**arguments)
    assert pathlib.Path(ledger.path).read_bytes() == before


@pytest.mark.parametrize(
    "arguments",
    [
        {"epsilon": 0.0},
        {"epsilon": float("inf")},
        {"epsilon": float("nan")},
        {"epsilon": 1.0, "delta": 1.0},
        {"epsilon": 1.0, "delta": -1.0},
        {"epsilon": 1.0, "composition": "hope"},
        {"epsilon": 1.0, "label": None},
    ],
)
def test_bad_budgets(tmp_path, arguments):
    with pytest.raises((TypeError, ValueError)):
        Ledger.create(tmp_path / "a", **arguments)
    assert os.listdir(tmp_path) == []


def test_creation_never_overwrites_and_leaves_nothing_behind(tmp_path):
    Ledger.create(tmp_path / "a", epsilon=1.0).charge(epsilon=1.0)
    with pytest.raises(FileExistsError, match="never overwritten"):
        Ledger.create(tmp_path / "a", epsilon=100.0)
    assert os.listdir(tmp_path) == ["a"]
    assert stat.S_IMODE(os.stat(tmp_path / "a").st_mode) == 0o600
    with pytest.raises(FileNotFoundError, match="cannot create ledger"):
        Ledger.create(tmp_path / "no" / "folder", epsilon=1.0)
    with pytest.raises(FileNotFoundError, match="there is no ledger"):
        Ledger(tmp_path / "b")
    for never in (float("nan"), LyingFloat("nan"), 10**400, True):
        with pytest.raises(ValueError, match="timeout"):
            Ledger(tmp_path / "a", timeout=never)


# ---------------------------------------------------------------------- crashes and damage


def test_every_torn_write_is_ignored_and_repaired(tmp_path, tally):
    """Cut the last line at many places: the charges before it stay, the next charge goes through."""
    ledger = Ledger.create(tmp_path / "a", epsilon=10.0)
    ledger.charge(epsilon=1.0, label="one")
    kept = os.path.getsize(ledger.path)
    ledger.charge(epsilon=2.0, label="two")
    whole = pathlib.Path(ledger.path).read_bytes()
    for size in [*range(kept, len(whole) - 3, 7), *range(len(whole) - 3, len(whole))]:
        tally("faults injected", 1)
        path = tmp_path / "torn"
        path.write_bytes(whole[:size])
        torn = Ledger(path)
        # All but the line's end is there: counted, to be on the safe side.
        expected = 2 if size == len(whole) - 1 else 1
        assert torn.spent.charges == expected
        assert torn.charge(epsilon=0.5, label="three").number == expected + 1
        assert torn.charge(epsilon=0.5, label="four").number == expected + 2
        again = Ledger(path)
        assert [c.label for c in again.charges] == [*["one", "two"][:expected], "three", "four"]
        assert path.read_bytes().endswith(b"\n")


@pytest.mark.parametrize("tail", [b"\0" * 100, b'{"epsilon":3' + b"\0" * 50 + b"\n", b"\xff\xfe", b"{", b"\0\n"])
def test_room_that_was_never_filled_is_a_torn_write(ledger, tail):
    ledger.charge(epsilon=0.5)
    with open(ledger.path, "ab") as file:
        file.write(tail)
    assert Ledger(ledger.path).spent.epsilon == 0.5
    assert ledger.charge(epsilon=0.25).number == 2
    assert Ledger(ledger.path).spent.epsilon == 0.75


def test_every_flipped_bit_of_a_complete_line_is_found(ledger, tally):
    ledger.charge(epsilon=0.5, label="one")
    ledger.charge(epsilon=0.25, delta=1e-7, label="two")
    whole = bytearray(pathlib.Path(ledger.path).read_bytes())
    for at in range(0, len(whole) - 1, 3):
        for bit in (0, 3, 6):
            damaged = bytearray(whole)
            damaged[at] ^= 1 << bit
            tally("faults injected", 1)
            with open(ledger.path, "wb") as file:
                file.write(damaged)
            with pytest.raises(CorruptLedgerError, match=r"a\.ledger"):
                Ledger(ledger.path)


def test_lines_cannot_be_left_out_or_reordered(ledger):
    for epsilon in (0.1, 0.2, 0.3):
        ledger.charge(epsilon=epsilon)
    lines = pathlib.Path(ledger.path).read_bytes().splitlines(keepends=True)
    for wrong in ([0, 2, 3], [0, 1, 3], [0, 2, 1, 3], [1, 2, 3], [0, 1, 1, 2, 3], [0, 0, 1]):
        with open(ledger.path, "wb") as file:
            file.write(b"".join(lines[i] for i in wrong))
        with pytest.raises(CorruptLedgerError):
            Ledger(ledger.path)


def test_an_open_ledger_notices_that_lines_went_missing_or_the_file_was_replaced(ledger, tmp_path):
    size = os.path.getsize(ledger.path)
    ledger.charge(epsilon=0.5)
    assert ledger.spent.charges == 1
    os.truncate(ledger.path, size)
    with pytest.raises(CorruptLedgerError, match="lost lines"):
        ledger.charge(epsilon=0.5)
    other = Ledger.create(tmp_path / "b", epsilon=99.0)
    os.replace(other.path, ledger.path)
    with pytest.raises(LedgerError, match="replaced"):
        ledger.charge(epsilon=0.5)


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"hello\n", b"[1]\n", b'{"format":"dpcore.ledger"}\n', b"\0" * 64]
)
def test_other_files_are_not_ledgers(tmp_path, content):
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(CorruptLedgerError, match="not a dpcore ledger"):
        Ledger(path)
    assert path.read_bytes() == content


def test_folders_and_pipes_are_not_ledgers(tmp_path):
    with pytest.raises(LedgerError):
        Ledger(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LedgerError, match="regular"):
        Ledger(tmp_path / "pipe")


def test_a_later_version_is_refused(ledger):
    header = json.loads(pathlib.Path(ledger.path).read_text())
    del header["check"]
    with open(ledger.path, "wb") as file:
        file.write(sealed({**header, "version": 2}, ""))
    with pytest.raises(CorruptLedgerError, match="version is 2"):
        Ledger(ledger.path)


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        (1, "epsilon", 10**400), (1, "epsilon", True), (1, "epsilon", "0.5"), (1, "epsilon", -0.5),
        (1, "delta", 1.5), (1, "delta", None), (1, "number", 1.0), (1, "number", 2), (1, "label", 3),
        (1, "time", None), (1, "details", 3), (1, "loss", 3), (1, "more", 1),
        (0, "delta", 1.5), (0, "label", 3), (0, "epsilon", 10**400), (0, "epsilon", 0), (0, "epsilon", [2.0]),
    ],
)  # fmt: skip
def test_values_of_the_wrong_kind_behind_right_checksums(ledger, line, key, value):
    ledger.charge(epsilon=0.25)
    bodies = [json.loads(text) for text in pathlib.Path(ledger.path).read_text().splitlines()]
    bodies[line][key] = value
    before, lines = "", []
    for body in bodies:
        body.pop("check")
        lines.append(sealed(body, before))
        before = json.loads(lines[-1])["check"]
    pathlib.Path(ledger.path).write_bytes(b"".join(lines))
    with pytest.raises(CorruptLedgerError, match="damaged" if line else "not a dpcore ledger"):
        Ledger(ledger.path)


def test_nothing_is_charged_when_the_disk_is_full(ledger, monkeypatch):
    before = pathlib.Path(ledger.path).read_bytes()
    real = os.write
    calls = []

    def short(handle, data):
        calls.append(len(data))
        if len(calls) == 1:
            return real(handle, data[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dpcore.ledger._file.os.write", short)
    with pytest.raises(OSError, match="No space"):
        ledger.charge(epsilon=0.5)
    monkeypatch.undo()
    assert pathlib.Path(ledger.path).read_bytes() == before
    assert ledger.charge(epsilon=0.5).number == 1


def test_a_charge_that_is_not_durable_does_not_return(ledger, monkeypatch):
    def failing(handle):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("dpcore.ledger._file.os.fsync", failing)
    with pytest.raises(OSError, match="Input/output"):
        ledger.charge(epsilon=0.5)
    monkeypatch.undo()
    assert ledger.spent.epsilon in (0.0, 0.5)


def test_a_process_killed_while_charging_leaves_a_sound_ledger(tmp_path, tally):
    """Killed at many points of a busy loop; what the program said was charged is in the file."""
    program = (
        "import sys\nfrom dpcore.ledger import Ledger\nledger = Ledger(sys.argv[1])\n"
        "while True:\n    print(ledger.charge(epsilon=0.001, label='x' * 3000).number, flush=True)\n"
    )
    path = tmp_path / "a"
    Ledger.create(path, epsilon=1000.0)
    for _ in range(4):
        worker = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
        said = [worker.stdout.readline() for _ in range(3)]
        worker.send_signal(signal.SIGKILL)
        tally("faults injected", 1)
        said += worker.stdout.read().splitlines()
        worker.wait()
        worker.stdout.close()
        told = max(int(line) for line in said if line.strip())
        assert len(Ledger(path).charges) >= told
    Ledger(path).charge(epsilon=1.0)


# ---------------------------------------------------------------------- several processes


def test_a_held_ledger_is_a_clear_error_after_a_bounded_wait(ledger):
    with open(ledger.path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(LedgerBusyError, match=r"held by another process \(waited 0\.05 s\)"):
            Ledger(ledger.path, timeout=0.05)
    assert Ledger(ledger.path, timeout=0.0).spent.charges == 0


_SPENDER = """
import sys
from dpcore.ledger import Ledger, OverspentError
ledger = Ledger(sys.argv[1])
done = 0
for _ in range(10):
    try:
        ledger.charge(epsilon=0.0625)
        done += 1
    except OverspentError:
        pass
print(done)
"""


def test_processes_and_threads_share_one_budget(tmp_path):
    path = tmp_path / "a"
    Ledger.create(path, epsilon=1.0)
    command = [sys.executable, "-c", _SPENDER, str(path)]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert sum(int(worker.communicate(timeout=60)[0]) for worker in workers) == 16
    assert len(Ledger(path).charges) == 16
    path = tmp_path / "b"
    shared = Ledger.create(path, epsilon=1.0)
    counts = []

    def work():
        done = 0
        for _ in range(10):
            try:
                shared.charge(epsilon=0.0625)
                done += 1
            except OverspentError:
                pass
        counts.append(done)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counts) == len(Ledger(path).charges) == 16


def test_results_are_frozen(ledger):
    with pytest.raises(dataclasses.FrozenInstanceError):
        ledger.charge(epsilon=0.1).epsilon = 0.0
