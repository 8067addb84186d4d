"""Every public function, class, method and command with a table of hostile values, one argument at a time.

The outcome must be an error of a documented kind whose message names the argument, or a right answer; never a
crash, a hang, an accident of Python or NumPy, NaN, a warning, or a changed argument. tests/hostile/table.py has a
valid call of each, tests/hostile/values.py the values, tests/hostile/worker.py the rules; they run in processes of
their own.
"""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent / "hostile"
sys.path.insert(0, str(HERE))
import commands  # noqa: E402
import table  # noqa: E402

PARTS = [
    "gaussian",
    "distributions",
    "samplers",
    "mechanisms",
    "accounting",
    "audit",
    "ledger",
    "partial_knowledge",
    "risk",
    "sensitivity",
    "SecureBitGenerator",
]


def run(script: str, *arguments: str) -> tuple[list[dict], str]:
    """The lines of a worker, and what was under way when it ended early."""
    with subprocess.Popen(
        [sys.executable, "-I", str(HERE / "start.py"), script, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        out, errors = process.communicate(timeout=1200)
    lines = [json.loads(line) for line in out.splitlines()]
    begun = lines[-1].get("begin", "") if lines else "nothing"
    stopped = "" if process.returncode == 0 else f"ended with {process.returncode} in {begun}:\n{errors[-3000:]}"
    return [line for line in lines if "end" in line], stopped


@pytest.fixture(scope="module")
def workers(request):
    """The workers of the tests that were chosen, as many at a time as there are cores, the longest first."""
    pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count())
    wanted = [
        item.callspec.params
        for item in request.session.items
        if item.path == request.path and "callspec" in vars(item)
    ]
    jobs = [("worker.py", p["part"]) for p in wanted if "part" in p]
    jobs += [("commands.py", p["command"]) for p in wanted if "command" in p]
    jobs.sort(key=lambda job: job[1] not in ("risk", "sensitivity"))
    yield {job: pool.submit(run, *job) for job in jobs}
    pool.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_functions(part, workers, tally, capsys):
    lines, stopped = workers["worker.py", part].result()
    failures = [failure for line in lines for failure in line["failures"]]
    cases = sum(line["cases"] for line in lines)
    refused = sum(line["refused"] for line in lines)
    interrupted = [where for line in lines for where in line["long"]]
    with capsys.disabled():
        print(f"\nhostile input, {part}: {cases} cases, {refused} refused, {len(interrupted)} interrupted")
    tally("hostile inputs tried", cases)
    assert not stopped, stopped
    assert not failures, "\n".join(failures[:40]) + f"\n{len(failures)} in all"
    assert cases > 10


@pytest.mark.slow
@pytest.mark.parametrize("command", commands.COMMANDS)
def test_commands(command, workers, tally, capsys):
    lines, stopped = workers["commands.py", command].result()
    failures = [failure for line in lines for failure in line["failures"]]
    cases = sum(line["cases"] for line in lines)
    interrupted = [where for line in lines for where in line.get("long", [])]
    with capsys.disabled():
        print(f"\nhostile input, dpcore {command}: {cases} cases, {len(interrupted)} interrupted {interrupted}")
    tally("hostile inputs tried", cases)
    assert not stopped, stopped
    assert not failures, "\n".join(failures[:40]) + f"\n{len(failures)} in all"
    assert cases > (0 if command == "info" else 10)


def test_every_command_takes_part():
    from dpcore import cli

    assert set(commands.COMMANDS) == set(cli.COMMANDS)


def test_every_public_callable_takes_part():
    covered: dict[str, set[str]] = {}
    for base in table.bases():
        covered.setdefault(base.name, set()).update(base.make()[1])
    missing = []
    for name, thing in table.public():
        if name not in covered:
            missing.append(name)
            continue
        for parameter in table.parameters(thing):
            if parameter not in covered[name] and (name, parameter) not in table.UNREACHED and covered[name]:
                missing.append(f"{name}({parameter})")
    assert not missing


def test_the_table_names_nothing_that_is_gone():
    for area, names in table.OBJECTS.items():
        assert names <= set(table.AREAS[area].__all__), area


def test_a_careless_function_fails():
    """What the workers call a failure: the rules, on a function that breaks each of them."""
    lines, stopped = run("careless.py")
    assert not stopped, stopped
    (line,) = [line for line in lines if line["failures"]]
    found = "\n".join(line["failures"])
    for rule in ("was accepted", "gave NaN", "does not name the argument", "ZeroDivisionError", "changed its"):
        assert rule in found
