"""The example service: its answers, and its promises under load while workers are killed."""

import asyncio
import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys

import pytest

from dpcore import accounting
from dpcore.ledger import Ledger

SERVICE = pathlib.Path(__file__).resolve().parent.parent / "examples" / "service"


def load_module(name):
    spec = importlib.util.spec_from_file_location(f"example_service_{name}", SERVICE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


app = load_module("app")


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "budget.ledger", epsilon=1.0)


def make(ledger, **changes):
    settings = {"counts": {"people": 987654321012}, "ledger": ledger, "epsilon": 0.25} | changes
    return app.Service(**settings)


def ask(service, method, path, body=b""):
    sent = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    asyncio.run(service({"type": "http", "method": method, "path": path}, receive, send))
    return sent[0]["status"], json.loads(sent[1]["body"])


def release(service, name="people"):
    return ask(service, "POST", "/release", json.dumps({"count": name}).encode())


def test_releases_are_paid_for_until_the_budget_is_spent(ledger):
    service = make(ledger)
    for number in range(1, 5):
        status, reply = release(service)
        assert status == 200
        assert (reply["charge"], reply["part"], reply["epsilon"]) == (number, 1, 0.25)
        assert abs(reply["value"] - 987654321012) <= 128 * 4 + 1
        assert len(ledger.charges) == number
    assert release(service) == (403, {"error": "the budget is spent"})
    status, budget = ask(service, "GET", "/budget")
    assert (status, budget["epsilon"], budget["epsilon_left"], budget["charges"]) == (200, 1.0, 0.0, 4)


def test_a_lease_is_charged_before_its_first_release_and_used_up(tmp_path):
    ledger = Ledger.create(tmp_path / "budget.ledger", epsilon=1.1)
    service = make(ledger, lease=3)
    paid = []
    for _ in range(4):
        status, reply = release(service)
        assert status == 200
        paid.append((reply["charge"], reply["part"]))
    # 0.75 for three, then 0.25 for one, since another three do not fit.
    assert paid == [(1, 1), (1, 2), (1, 3), (2, 1)]
    assert release(service)[0] == 403
    assert ledger.spent.epsilon <= 1.1
    assert ledger.charges[0].epsilon >= 0.75


def test_a_refusal_costs_nothing(ledger):
    service = make(ledger)
    for body in (b"", b"{}", b'{"count": "nobody"}', b'{"count": 3}'):
        assert ask(service, "POST", "/release", body)[0] == 404
    for body in (b"[]", b"no json", b"\xff", b"[" * 60000):
        assert ask(service, "POST", "/release", body)[0] == 400
    assert ask(service, "POST", "/release", b" " * 70000)[0] == 413
    assert ask(service, "GET", "/nothing")[0] == 404
    assert ask(service, "GET", "/release")[0] == 404
    assert ledger.charges == ()


def test_accounting(ledger):
    rows = [{"mechanism": "laplace", "epsilon": 0.1, "copies": 20}]
    status, reply = ask(make(ledger), "POST", "/account", json.dumps({"mechanisms": rows, "delta": 1e-6}).encode())
    expected = (accounting.from_laplace(epsilon=0.1) * 20).epsilon(1e-6)
    assert (status, reply["epsilon_lower"], reply["epsilon_upper"]) == (200, expected.lower, expected.upper)
    rows = [{"mechanism": "gaussian", "sigma": 1.0, "sensitivity": 1.0, "copies": 1}]
    status, reply = ask(make(ledger), "POST", "/account", json.dumps({"mechanisms": rows, "delta": 0}).encode())
    assert (status, reply["epsilon_upper"]) == (200, None)  # no epsilon will do, and JSON has no infinity
    for wrong in (
        {"mechanisms": [], "delta": 1e-6},
        {"mechanisms": rows, "delta": 2},
        {"mechanisms": rows},
        {"mechanisms": [{"mechanism": "laplace", "epsilon": -1, "copies": 1}], "delta": 1e-6},
        {"mechanisms": [{"mechanism": "subsampled_gaussian", "sigma": 1, "rate": 0.1}], "delta": 1e-6},
        {"mechanisms": rows * 21, "delta": 1e-6},
    ):
        assert ask(make(ledger), "POST", "/account", json.dumps(wrong).encode())[0] == 400


def test_without_a_ledger_nothing_is_released(ledger):
    service = make(ledger)
    assert ask(service, "GET", "/health")[0] == 200
    pathlib.Path(ledger.path).unlink()
    status, reply = release(service)
    assert status == 503
    assert "value" not in reply
    assert ask(service, "GET", "/health")[0] == 503


def test_logs_hold_public_facts_only(ledger, capfd):
    service = make(ledger)
    _, reply = release(service)
    ask(service, "GET", "/987654321012")
    service._mechanism = None  # a defect of the service: its message must not reach the log
    assert release(service)[0] == 500
    lines = capfd.readouterr().err.splitlines()
    assert [json.loads(line).get("status") for line in lines] == [200, 404, None, 500]
    assert json.loads(lines[0])["charge"] == 1
    assert json.loads(lines[2])["kind"] == "AttributeError"
    assert not any(str(reply["value"]) in line or "987654321012" in line for line in lines)


def test_bad_settings_are_refused(ledger):
    for changes in (
        {"lease": 0},
        {"lease": 1.5},
        {"counts": {"a": 1.5}},
        {"counts": {"a": 2**63}},
        {"epsilon": 0.0},
    ):
        with pytest.raises(ValueError, match="must be"):
            make(ledger, **changes)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(("lease", "budget"), [(1, None), (10, 250)])
def test_promises_hold_while_workers_are_killed(tmp_path, lease, budget):
    """Level: two of at most 500 draws of scale 1e14 are alike with probability below 500^2/8e14 = 3e-10."""
    folder = pathlib.Path(shutil.copytree(SERVICE, tmp_path / "service"))
    program = (
        "import json, pathlib, sys, load; arguments = json.loads(sys.argv[1]);"
        "print(json.dumps(load.run(pathlib.Path('.'), **arguments)))"
    )
    arguments = {"requests": 500, "connections": 4, "kills": 4, "lease": lease, "budget_releases": budget}
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(arguments)],
        cwd=folder, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["workers_killed"] == 4
    assert result["exit_code"] == 0
    if budget:
        assert 100 < result["released"] <= budget
        assert result["statuses"]["403"] > 50
    else:
        assert result["released"] > 350
        assert set(result["statuses"]) == {"200"}


def test_the_checks_find_broken_promises(tmp_path):
    """The load test must fail on repeated noise, a release without a charge and a payment used twice."""
    load = load_module("load")
    ledger = Ledger.create(tmp_path / "budget.ledger", epsilon=1.0)
    ledger.charge(epsilon=0.5, details={"releases": 2})
    good = load.Tally(values=[5, 6], paid=[(1, 1), (1, 2)])
    load.check(good, ledger, 2)
    for bad, message in (
        (load.Tally(values=[5, 5], paid=[(1, 1), (1, 2)]), "same noise"),
        (load.Tally(values=[5, 6], paid=[(1, 1), (1, 1)]), "used twice"),
        (load.Tally(values=[5, 6], paid=[(1, 1), (2, 1)]), "not in the ledger"),
        (load.Tally(values=[5, 6], paid=[(1, 1), (1, 3)]), "not in the ledger"),
    ):
        with pytest.raises(AssertionError, match=message):
            load.check(bad, ledger, 2)
    line = '{"time": 1, "worker": 1, "path": "/release", "status": 200, "milliseconds": 1, "charge": 1'
    load.check_log(line + "}\n", load.Tally(values=[5_000_001]))
    with pytest.raises(AssertionError):
        load.check_log(line + ', "value": 5}\n', good)
    with pytest.raises(AssertionError):
        load.check_log(line.replace("/release", "5000001") + "}\n", load.Tally(values=[5_000_001]))
