"""Runs the hostile cases of some base calls; a JSON line before and after each group, so that a crash has a name.

    python worker.py NAME-PREFIX ...

In a process of its own: a case may crash, run for ever, or take all memory. Address space is limited, so that an
allocation beyond reason fails; an alarm interrupts a call that runs long, and if the call does not heed it, the
process ends with a traceback.
"""

import faulthandler
import json
import math
import re
import resource
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import table
import values

from dpcore import ledger, samplers, sensitivity

LONG = 3.0  # seconds of processor time until a call is interrupted; only HUGE values may need it
ENOUGH = 0.5  # and with a HUGE value, which is to show that the interrupt is heeded
HUNG = 300.0  # seconds, on the clock of a busy machine, until a call that does not heed the interrupt is a hang
MEMORY = 6 << 30

REFUSALS = (ValueError, TypeError, ledger.LedgerError, sensitivity.EvaluationError)


class TimeUp(BaseException):
    """Raised by the alarm."""


def _alarm(_signal: int, _frame: Any) -> None:
    raise TimeUp


def kind_of(base: table.Base, name: str, value: Any) -> str:
    if name in base.kinds:
        return base.kinds[name]
    if name == "rng":
        return "rng"
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, (list, tuple, np.ndarray)):
        return "array"
    if isinstance(value, str):
        return "path" if value.startswith("/") else "choice"
    return "function" if callable(value) else "object"


Case = tuple[str, Callable[[], Any], str]  # name, maker of the value, "wrong" | "extreme" | "huge"


def cases(kind: str, nullable: bool, data: bool) -> Iterator[Case]:
    def group(table: dict[str, Callable[[], Any]], verdict: str) -> Iterator[Case]:
        for name, make in table.items():
            yield name, make, verdict

    if not nullable:
        yield "None", lambda: None, "extreme" if kind == "any" else "wrong"
    if kind in ("number", "array", "duration"):
        for name, make in values.WRONG_NUMBERS.items():
            yield name, make, "extreme" if data and name in values.ANY_NUMBER else "wrong"
        yield from group(values.EXTREME_NUMBERS, "extreme")
        yield from group(values.HUGE_NUMBERS, "huge")
    elif kind == "choice":
        yield from group(values.WRONG_CHOICES, "wrong")
    elif kind == "flag":
        yield from group(values.WRONG_FLAGS, "wrong")
    elif kind in ("object", "rng", "mapping"):
        yield from group(
            {k: v for k, v in values.WRONG_OBJECTS.items() if kind != "mapping" or k != "dict"}, "wrong"
        )
    elif kind == "progress":
        yield from group(
            {k: v for k, v in values.WRONG_OBJECTS.items() if k not in ("True", "Junk class")}, "wrong"
        )
    elif kind == "function":
        yield from group(values.WRONG_FUNCTIONS, "wrong")
        yield from group(values.EXTREME_FUNCTIONS, "extreme")
    elif kind == "path":
        yield from group(values.WRONG_PATHS, "wrong")
    elif kind == "text":
        yield from group({k: v for k, v in values.WRONG_OBJECTS.items() if k != "str"}, "wrong")
        yield "surrogate", lambda: "\ud800", "extreme"
        yield "null", lambda: "a\0b", "extreme"
        yield "markup", lambda: "<script>&\"'", "extreme"
    elif kind == "bias":
        yield from group({k: v for k, v in values.WRONG_NUMBERS.items() if k != "[bytes, float]"}, "wrong")
        yield from group(values.EXTREME_NUMBERS, "extreme")
        yield from group(values.HUGE_NUMBERS, "extreme")
    elif kind == "any":
        for some in (values.WRONG_NUMBERS, values.EXTREME_NUMBERS, values.HUGE_NUMBERS, values.WRONG_OBJECTS):
            yield from group(some, "huge")
    else:
        raise AssertionError(kind)


def plain(result: Any, depth: int = 0) -> Any:
    """A result as numbers and texts that can be compared."""
    if depth > 20:
        return "deep"
    if isinstance(result, np.ndarray):
        return [list(result.shape), result.tolist()]
    if isinstance(result, np.generic):
        return result.item()
    if isinstance(result, str):  # a charge's statement says when it was made
        return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "then", result)
    if result is None or isinstance(result, (bool, int, float, bytes)):
        return result
    if isinstance(result, dict):
        return {str(k): plain(v, depth + 1) for k, v in result.items() if k not in ("time", "bias")}
    if isinstance(result, (list, tuple)):
        return [plain(v, depth + 1) for v in result]
    if hasattr(result, "to_dict") and not isinstance(result, ledger.Ledger):
        return plain(result.to_dict(), depth + 1)
    if isinstance(result, (samplers.InsecureTestRng, ledger.Ledger)) or callable(result):
        return type(result).__name__
    if hasattr(result, "losses"):  # buckets
        return [plain(result.losses), plain(result.upper), plain(result.lower)]
    if hasattr(result, "pmf"):
        return [result.k, result.pmf, result.logpmf]
    return type(result).__name__


def has_nan(result: Any) -> bool:
    if isinstance(result, float):
        return math.isnan(result)
    if isinstance(result, dict):
        return any(map(has_nan, result.values()))
    return isinstance(result, list) and any(map(has_nan, result))


def content(value: Any) -> bytes | None:
    """The bytes of an array, to see afterwards whether a call changed them."""
    return np.asarray(value).tobytes() if isinstance(value, np.ndarray) and value.dtype != object else None


class Runner:
    """Counts the cases and keeps the failures."""

    def __init__(self) -> None:
        self.count = 0
        self.refused = 0
        self.long: list[str] = []
        self.failures: list[str] = []

    def fail(self, where: str, what: str) -> None:
        self.failures.append(f"{where}: {what}"[:600])

    def call(self, base: table.Base, name: str, value: Any, limit: float = LONG) -> tuple[str, Any]:
        """What came of it, and the plain result or the error.

        "answer", "refused", "long", "memory" or "wrong error".
        """
        function, arguments = base.make()
        arguments[name] = value
        self.count += 1
        faulthandler.dump_traceback_later(HUNG, exit=True)
        signal.setitimer(signal.ITIMER_PROF, limit)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                result = plain(function(**arguments))
            signal.setitimer(signal.ITIMER_PROF, 0)
            return "answer", result
        except TimeUp:
            return "long", None
        except MemoryError:
            return "memory", None
        except REFUSALS as error:
            return "refused", error
        except OverflowError as error:
            documented = "OverflowError" in (getattr(PUBLIC.get(base.name), "__doc__", None) or "")
            return ("refused" if documented else "wrong error"), error
        except OSError as error:
            return ("refused" if kind_of(base, name, base.make()[1][name]) == "path" else "wrong error"), error
        except Exception as error:
            if str(error) == "the caller's function failed" or "no array after all" in str(error):
                return "refused", ValueError(f"{name}: the caller's own error")
            return "wrong error", error
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            faulthandler.cancel_dump_traceback_later()

    def named(self, where: str, base: table.Base, name: str, error: Any, wrong: bool = True) -> None:
        """The message must name the argument; for a value wrong only beside the others, one of these will do."""
        self.refused += 1
        names = [base.aliases.get(name, name)]
        if not wrong:
            names += (table.parameters(PUBLIC[base.name]) if base.name in PUBLIC else []) or list(base.make()[1])
        # NumPy's and Python's own subclasses of the documented errors are accidents, not refusals.
        if isinstance(error, (OSError, ledger.LedgerError)):
            return  # of a file: the message names the file
        if isinstance(error, UnicodeError) or type(error).__module__.startswith("numpy"):
            self.fail(where, f"an accident: {type(error).__name__}: {error}")
        elif isinstance(error, OverflowError) or "takes 0 positional arguments" in str(error):
            pass  # an answer out of range is no single argument's fault; the caller's function is the caller's
        elif not re.search(rf"\b({'|'.join(names)})\b", str(error)):
            self.fail(where, f"does not name the argument: {type(error).__name__}: {error}")
        elif len(str(error)) > 2000:
            self.fail(where, f"message of {len(str(error))} characters")

    def hostile(self, base: table.Base, name: str, kind: str, nullable: bool) -> None:
        for label, make, verdict in cases(kind, nullable, name in base.data):
            where = f"{base.name}({name}={label})"
            value = make()
            before = content(value)
            outcome, result = self.call(base, name, value, ENOUGH if verdict == "huge" else LONG)
            if outcome == "answer":
                if verdict == "wrong":
                    self.fail(where, f"was accepted and gave {result!r}")
                elif has_nan(result) and name not in base.data:
                    self.fail(where, f"gave NaN: {result!r}")
            elif outcome == "refused":
                self.named(where, base, name, result, verdict == "wrong")
            elif outcome == "wrong error":
                self.fail(where, f"{type(result).__name__}: {result}")
            elif verdict != "huge":
                self.fail(where, f"{outcome} for a value that needs neither time nor memory")
            elif outcome == "long":
                self.long.append(where)
            if content(value) != before:
                self.fail(where, "changed its argument")

    def forms(self, base: table.Base, name: str, value: Any, kind: str) -> None:
        if kind == "choice":
            self.same(base, name, "np.str_", np.str_(value), value)
            return
        if kind == "flag":
            self.same(base, name, "np.bool_", np.bool_(value), value)
            return
        if kind == "number":
            for label, form, same in values.number_forms(value):
                self.same(base, name, label, form, same)
            for label, form, same in values.array_forms([value, value]):
                if name not in ("bias", "size") or label != "tuple":  # a pair is a range, or a shape, there
                    self.same(base, name, label, form, same)
        elif kind == "array" and np.array(value).ndim:
            for label, form, same in values.array_forms(value):
                self.same(base, name, label, form, same)

    def same(self, base: table.Base, name: str, label: str, form: Any, plain_value: Any) -> None:
        where = f"{base.name}({name}={label} of {plain_value!r})"
        expected, reference = self.call(base, name, plain_value)
        self.count -= 1
        before = content(form)
        outcome, result = self.call(base, name, form)
        if outcome == "refused":
            self.named(where, base, name, result)
        elif outcome != "answer":
            self.fail(where, f"{outcome}: {type(result).__name__}: {result}")
        elif expected != "answer":
            self.fail(where, f"was accepted, the plain value was not ({reference}); gave {result!r}")
        elif flat(result) != flat(reference):
            self.fail(where, f"gave {result!r}, the plain value {reference!r}")
        if content(form) != before:
            self.fail(where, "changed its argument")


def flat(result: Any) -> Any:
    """Without the marks of the container: a float and an array of one are the same answer here."""
    if isinstance(result, dict):
        return [flat(v) for v in result.values()]
    if isinstance(result, list):
        return [flat(v) for v in result]
    return float(result) if isinstance(result, (int, float)) and abs(result) < 2**53 else result


def run(prefixes: list[str]) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGPROF, _alarm)
    for base in table.bases():
        if not any(base.name == p or base.name.startswith(p + ".") for p in prefixes):
            continue
        _, arguments = base.make()
        for name, value in arguments.items() or [("", None)]:
            print(json.dumps({"begin": f"{base.name}({name})"}), flush=True)
            runner = Runner()
            if name:
                kind = kind_of(base, name, value)
                outcome, result = runner.call(base, name, value)
                if outcome != "answer":
                    runner.fail(base.name, f"the base call itself: {outcome}: {result!r}")
                elif has_nan(result):
                    runner.fail(base.name, "the base call gave NaN")
                else:
                    runner.hostile(base, name, kind, nullable(base, name))
                    runner.forms(base, name, value, kind)
            else:
                base.make()[0]()
                runner.count += 1
            print(
                json.dumps(
                    {
                        "end": f"{base.name}({name})",
                        "cases": runner.count,
                        "refused": runner.refused,
                        "long": runner.long,
                        "failures": runner.failures,
                    }
                ),
                flush=True,
            )
    return 0


PUBLIC = dict(table.public())


def nullable(base: table.Base, name: str) -> bool:
    """Whether None is a documented value of the argument."""
    import inspect

    try:
        parameter = inspect.signature(PUBLIC[base.name]).parameters[name]
    except (KeyError, ValueError):
        return False
    return parameter.default is None or "None" in str(parameter.annotation)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
