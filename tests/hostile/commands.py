"""Every option of every command with hostile texts.

Right are exit 0 with an answer that has no NaN, exit 1 (the answer is no) and exit 2, the last two with one line
on standard error; never a traceback.

    python -P start.py commands.py COMMAND
"""

import argparse
import contextlib
import faulthandler
import io
import json
import os
import pathlib
import shlex
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

from dpcore import cli

LONG = 3.0  # seconds of processor time until a command is interrupted; only numbers beyond reason may need it
ENOUGH = 0.5  # and with such a number, which is to show that the interrupt is heeded
HUNG = 300.0  # on the clock, of a machine that others may use too

# A valid command line for each form of each command; {new} is a path at which nothing is, {ledger} a ledger,
# {loss} a saved loss and {pair} a pair of distributions.
COMMANDS: dict[str, tuple[str, ...]] = {
    "calibrate": (
        "calibrate gaussian --epsilon 1 --delta 1e-6 --sensitivity 1 --compositions 2 --method analytic",
        "calibrate count --records 100 --known 30 --bias 0.2 --epsilon 0.5 --delta 1e-3 --worst-case-epsilon 2"
        " --releases 1",
        "calibrate programme gaussian:sigma=1,count=2 --epsilon 1 --delta 1e-6",
    ),
    "release": (
        "release example:hospital --where 'smoker == 1' --epsilon 0.5 --delta 1e-6 --known 5000 --bias 0.2:0.3"
        " --worst-case-epsilon 1 --level 0.9 --no-ledger",
        "release example:hospital --mean age --lower 0 --upper 120 --epsilon 0.5 --no-ledger",
        "release example:hospital --proportion --where 'smoker == 1' --epsilon 0.5 --ledger {new}"
        " --budget-epsilon 2 --budget-delta 1e-6 --label a --timeout 1",
    ),
    "ledger": (
        "ledger {ledger} --timeout 1",
        "ledger {new} --create --epsilon 1 --delta 1e-6 --composition sum --label a",
    ),
    "account": (
        "account gaussian:sigma=50,count=10 --delta 1e-6 --engine auto",
        "account laplace:epsilon=0.1 --epsilon 0.5 --plot {plot}",
        "account {loss} {pair}:count=3 --confidence 0.5",
    ),
    "risk": (
        "risk --records 1000 --impact 100 --threshold 10 --cost 1000 --cost-floor 1 --cost-rate 1 --budget 500"
        " --allowed-error 16 --releases 2 --delta 1e-3 --sensitivity 1 --known 100 --bias 0.3 --confidence 0.9"
        " --prefer privacy --title a --report {report}",
    ),
    "reproduce": ("reproduce nothing --out {new}",),
    "info": ("info",),
    "completion": ("completion bash",),
}

TEXTS = (
    "nan", "-nan", "inf", "-inf", "0", "-0.0", "-1", "1", "0.5", "1.5", "1e400", "-1e400", "1e-400", "5e-324",
    "1e-300", "1e300", "1.7976931348623157e308", "9007199254740993", "18446744073709551616", "1e15", "1e9",
    "9" * 400, "9" * 5000, "1_000", "0x10", "1e", "--", "-", "", " ", "\t", "one", "True", "None", "[]", "1,2",
    "0.2:0.4", "0.4:0.2", ":", "0.2:", "600@0.1,369@0.5", "@", "0@0", "1@2@3", "١٢", "½", "é", "\ud800",
    "a\nb", "%s%n", "{}", "../../etc/passwd", "/", "/no/such/file", "x" * 5000, "x.toml", "laplace", "laplace:",
    "laplace:epsilon", "laplace:epsilon=", "laplace:epsilon=nan", "laplace:epsilon=1,epsilon=2", "smoker ==",
    "((((", "smoker == 1 and", "__import__('os')", "age > 1e999", "a.html", "a.png", "\"",
    "x.json", "x.npz:count=2", ".csv:", "/x.csv:count=nan", "pmf:p=1,q=1",
)  # fmt: skip
# Valid numbers that may ask for more work than there is time.
HUGE = ("5e-324", "1e-300", "1e300", "1.7976931348623157e308", "9007199254740993", "1e15", "1e9")


def words(line: str, folder: pathlib.Path) -> list[str]:
    for name, file in (("new", "new.ledger"), ("plot", "plot.png"), ("report", "report.txt")):
        target = folder / file
        if target.exists():
            target.unlink()
        line = line.replace("{" + name + "}", str(target))
    if "{ledger}" in line:
        from dpcore.ledger import Ledger

        kept = folder / "kept.ledger"
        if not kept.exists():
            Ledger.create(kept, epsilon=1.0)
        line = line.replace("{ledger}", str(kept))
    for name, file in (("loss", "loss.npz"), ("pair", "pair.csv")):
        if "{" + name + "}" in line:
            from dpcore import accounting

            accounting.save(accounting.from_gaussian(sigma=2.0), folder / "loss.npz")
            (folder / "pair.csv").write_text("p,q\n0.25,0.5\n0.75,0.5\n")
            line = line.replace("{" + name + "}", str(folder / file))
    return shlex.split(line)


def places(argv: list[str]) -> Iterator[int]:
    """Indices of what may be replaced: values of options, and positional arguments after the command."""
    for i, word in enumerate(argv[1:], 1):
        if not word.startswith("--"):
            yield i


def options(parser: argparse.ArgumentParser) -> set[str]:
    """All long options of a parser and its subcommands that take a value."""
    found: set[str] = set()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                found |= options(sub)
        elif action.option_strings and action.nargs != 0:
            found.add(action.option_strings[-1])
    return found


class TimeUp(BaseException):
    """Raised by the alarm."""


TOOK_LONG = "took long"


def _alarm(_signal: int, _frame: Any) -> None:
    raise TimeUp


def check(argv: list[str], limit: float = LONG) -> str | None:
    """What is wrong with the outcome, or None."""
    out, errors = io.StringIO(), io.StringIO()
    faulthandler.dump_traceback_later(HUNG, exit=True)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors), warnings.catch_warnings():
            warnings.simplefilter("error")
            code: Any = cli.main(argv)
    except SystemExit as end:
        code = end.code
    except TimeUp:
        return TOOK_LONG  # and it heeded the interrupt
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()
    said = errors.getvalue()
    if code == 0:
        if "--json" in argv:
            answer = json.loads(out.getvalue(), parse_constant=lambda name: name)
            if "NaN" in json.dumps(answer):
                return f"gave NaN: {out.getvalue()[:200]}"
        return None
    if code not in (1, 2):
        return f"exit code {code}"
    if out.getvalue() and code == 2:
        return f"printed before it failed: {out.getvalue()[:200]!r}"
    if len(said.strip().splitlines()) != 1 or not said.startswith("dpcore: "):
        return f"said {said[:300]!r}"
    return f"a line of {len(said)} characters" if len(said) > 1000 else None


def main(command: str) -> int:
    signal.signal(signal.SIGPROF, _alarm)
    given: set[str] = set()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.chdir(folder)
        for line in COMMANDS[command]:
            print(json.dumps({"begin": line}), flush=True)
            failures, long = [], []
            cases = 0
            base = words(line, folder) + ([] if command == "completion" else ["--json"])
            given |= {word for word in base if word.startswith("--")}
            if command != "reproduce" and (wrong := check(base)):
                failures.append(f"{line}: {wrong}")
            for place in places(base):
                for text in TEXTS:
                    argv = words(line, folder) + base[len(words(line, folder)) :]
                    argv[place] = text
                    cases += 1
                    wrong = check(argv, ENOUGH if text in HUGE else LONG)
                    if wrong == TOOK_LONG and text in HUGE:
                        long.append(f"{argv[place - 1]} {text}")
                    elif wrong:
                        failures.append(f"{' '.join(argv[: place + 1])[:120]!r}: {wrong}")
            for missing in range(1, len(base)):
                cases += 1
                wrong = check(base[:missing])
                if wrong:
                    failures.append(f"{' '.join(base[:missing])!r}: {wrong}")
            result = {"end": line, "cases": cases, "refused": 0, "long": long, "failures": failures}
            print(json.dumps(result), flush=True)
    parsers = next(a for a in cli.build_parser()._actions if isinstance(a, argparse._SubParsersAction)).choices
    left = options(parsers[command]) - given
    if left:
        print(json.dumps({"end": "", "cases": 0, "failures": [f"options without a case: {sorted(left)}"]}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
