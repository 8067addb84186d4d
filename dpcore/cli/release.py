r"""Release a count, a proportion or a mean from a CSV or Parquet file.

Noise is drawn from the operating system's randomness. The release is written
to a budget ledger, and is on the disk, before anything is printed; a release
that would overspend the budget is refused with exit code 1.

Without --known the release is differentially private: integer Laplace noise,
or Gaussian noise with --delta. With --known and --bias the noise is what is
needed against an attacker who knows only so many of the records, and the
ledger is charged what holds whatever the attacker knows: --worst-case-epsilon.

A condition compares columns with numbers or text, joined by and, or, not and
parentheses: 'smoker == 1 and (age >= 65 or sex == "f")'. A cell that is not a
number satisfies no comparison with a number; a cell never causes an error.

The number of records is taken to be public for a proportion, a mean, and with
--known. Values of a mean are cut off at --lower and --upper; a cell that is
not a number counts as --lower. FILE may be example:hospital, invented data.

examples:
  dpcore release example:hospital --where "smoker == 1" --epsilon 0.5 \
    --ledger hospital.ledger --budget-epsilon 4 --budget-delta 1e-5
  dpcore release example:hospital --where "smoker == 1" --epsilon 0.2 \
    --delta 1e-6 --known 5000 --bias 0.2:0.3 --worst-case-epsilon 1 \
    --ledger hospital.ledger
  dpcore release example:hospital --mean age --lower 0 --upper 120 \
    --epsilon 0.5 --no-ledger
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from dpcore._rounding import downward, upward
from dpcore.cli._output import (
    Refusal,
    UsageError,
    add_output_options,
    bias,
    emit,
    number,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcore.accounting import PrivacyLoss
    from dpcore.ledger import Charge, Ledger

SUMMARY = "release a count or mean from a file, with a budget ledger"
# Means are computed in whole steps of (upper - lower) / 2**30, fewer where the sum would not fit in a double: no
# rounding then depends on the data.
_MOST_STEP_BITS = 30


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("file", metavar="FILE", help="a .csv, .tsv or .parquet file, or example:hospital")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--count", action="store_true", help="how many records satisfy --where (the default)")
    what.add_argument("--proportion", action="store_true", help="which share of the records satisfies --where")
    what.add_argument("--mean", metavar="COLUMN", help="mean of a column, within --lower and --upper")
    parser.add_argument("--where", metavar="CONDITION", help="which records to count (default: all)")
    parser.add_argument("--lower", type=number, help="smallest value that enters a mean; chosen without the data")
    parser.add_argument("--upper", type=number, help="largest value that enters a mean; chosen without the data")
    parser.add_argument("--epsilon", type=number, required=True, help="privacy parameter, > 0")
    parser.add_argument("--delta", type=number, help="privacy parameter, in (0, 1); chooses Gaussian noise")
    parser.add_argument("--known", type=whole, help="how many records an attacker may know: needs --bias, --delta")
    parser.add_argument(
        "--bias", type=bias, help="share of unknown records that count: 0.3, 0.2:0.4, 60@0.1,40@0.5"
    )
    parser.add_argument(
        "--worst-case-epsilon", type=number, metavar="EPSILON", help="what holds whatever the attacker knows"
    )
    parser.add_argument("--level", type=number, default=0.95, help="level of the interval (default 0.95)")
    parser.add_argument("--ledger", metavar="LEDGER", help="the budget ledger of this data")
    parser.add_argument("--no-ledger", action="store_true", help="release without any record of what was spent")
    parser.add_argument(
        "--budget-epsilon", type=number, help="make the ledger, if it is not there, with this budget"
    )
    parser.add_argument(
        "--budget-delta", type=number, help="delta of that budget (default 0: no release with --delta fits)"
    )
    parser.add_argument("--label", help="name of the release in the ledger (default: made from the question)")
    parser.add_argument("--timeout", type=number, default=10.0, help="seconds to wait for the ledger (default 10)")
    add_output_options(parser)
    parser.set_defaults(run=run)


class _Plan(NamedTuple):
    """A release that is ready to be charged; nothing in it depends on private data."""

    mechanism: Any
    epsilon: float
    delta: float
    noise_scale: float
    facts: dict[str, Any]
    statement: str
    loss: PrivacyLoss | None
    after: int | None = None


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out."""
    from dpcore.ledger import LedgerError, OverspentError

    try:
        return _run(arguments)
    except OverspentError as error:
        raise Refusal(str(error)) from None
    except LedgerError as error:
        raise UsageError(str(error)) from None


def _run(arguments: argparse.Namespace) -> int:
    from dpcore import _table
    from dpcore._predicate import Predicate

    path = _table.locate(arguments.file)
    _check(arguments)
    chosen = None if arguments.where is None else Predicate(arguments.where)
    wanted = [arguments.mean] if arguments.mean is not None else list(chosen.columns if chosen else ())
    columns, records = _table.read_columns(path, wanted)
    # Only where their number is public may it be an error: without records a plain count is 0 and noise.
    if records < 1 and (arguments.mean is not None or arguments.proportion or arguments.known is not None):
        raise UsageError(f"{path} has no records")
    ledger = _open_ledger(arguments)
    question = _question(arguments, path.name)
    if arguments.mean is not None:
        return _release_mean(arguments, columns[arguments.mean].numbers, records, ledger, question)
    count = records if chosen is None else int(chosen(columns).sum())
    plan = _plan_count(arguments, records, ledger, question)
    half_width = 0.0 if plan.mechanism is None else float(plan.mechanism.interval(arguments.level))
    ledger = _charge(arguments, ledger, plan, question)
    released = count if plan.mechanism is None else int(plan.mechanism.release(count))
    scale = 1.0 / records if arguments.proportion else 1.0
    value: float = released if scale == 1.0 and not arguments.proportion else released * scale
    if arguments.proportion:
        plan = plan._replace(
            statement=f"{plan.statement} The number of records, {records}, is taken to be public."
        )
    _show(arguments, value, half_width * scale, plan, ledger, question)
    return 0


def _check(arguments: argparse.Namespace) -> None:
    """What the library cannot check, because it is about how options go together."""
    if arguments.mean is not None:
        if arguments.lower is None or arguments.upper is None:
            raise UsageError("--mean needs --lower and --upper, chosen without looking at the data")
        for name in ("where", "known"):
            if getattr(arguments, name) is not None:
                raise UsageError(f"--{name} cannot be used with --mean")
    elif arguments.lower is not None or arguments.upper is not None:
        raise UsageError("--lower and --upper need --mean")
    if arguments.proportion and arguments.where is None:
        raise UsageError("--proportion needs --where")
    if (arguments.known is None) != (arguments.bias is None):
        raise UsageError("--known and --bias must be given together")
    if arguments.known is not None and arguments.delta is None:
        raise UsageError("--known needs --delta")
    if arguments.known is None and arguments.worst_case_epsilon is not None:
        raise UsageError("--worst-case-epsilon needs --known and --bias")
    if arguments.ledger is None and not arguments.no_ledger:
        raise UsageError("--ledger FILE is needed to record what is spent (or --no-ledger to do without)")
    if arguments.ledger is not None and arguments.no_ledger:
        raise UsageError("--ledger and --no-ledger exclude each other")
    if arguments.ledger is not None and arguments.known is not None and arguments.worst_case_epsilon is None:
        raise UsageError(
            "--worst-case-epsilon is needed with --known and --ledger: it is what the ledger is charged, because "
            "only guarantees that hold whatever the attacker knows add up"
        )
    if arguments.ledger is not None and arguments.worst_case_epsilon == float("inf"):
        raise UsageError("--worst-case-epsilon must be finite with --ledger, which is charged with it")
    if arguments.budget_epsilon is None and arguments.budget_delta is not None:
        raise UsageError("--budget-delta needs --budget-epsilon")
    if arguments.budget_epsilon is not None and arguments.ledger is None:
        raise UsageError("--budget-epsilon needs --ledger")


def _question(arguments: argparse.Namespace, file: str) -> dict[str, Any]:
    """The question in public facts; two releases with the same ones are of the same number."""
    if arguments.mean is not None:
        return {"file": file, "mean": arguments.mean, "lower": arguments.lower, "upper": arguments.upper}
    return {"file": file, "count": " ".join((arguments.where or "all records").split())}


# ---------------------------------------------------------------------- the ledger


def _open_ledger(arguments: argparse.Namespace) -> Ledger | None:
    """The ledger that is there; None if there is to be none, or if it will be made when the release is charged."""
    from dpcore.ledger import Ledger

    if arguments.ledger is None:
        return None
    if not os.path.lexists(arguments.ledger):
        if arguments.budget_epsilon is None:
            raise UsageError(f"there is no ledger {arguments.ledger}; --budget-epsilon makes one")
        return None
    ledger = Ledger(arguments.ledger, timeout=arguments.timeout)
    budget = (arguments.budget_epsilon, arguments.budget_delta or 0.0)
    if arguments.budget_epsilon is not None and (ledger.epsilon, ledger.delta) != budget:
        raise UsageError(
            f"ledger {arguments.ledger} has the budget epsilon {ledger.epsilon:g}, delta {ledger.delta:g}"
            ", and the budget of a ledger never changes"
        )
    return ledger


def _check_new_budget(arguments: argparse.Namespace, plan: _Plan) -> None:
    """Refuse to make a ledger whose first release does not fit: its budget could never be changed."""
    if not arguments.budget_epsilon > 0.0:  # for the ledger to say
        return
    for name, budget, needed in (
        ("epsilon", arguments.budget_epsilon, plan.epsilon),
        ("delta", arguments.budget_delta or 0.0, plan.delta),
    ):
        if 0.0 <= budget < needed:
            raise Refusal(
                f"refused: {name} {upward(needed)} is more than all of the budget, {name} {downward(budget)}; "
                f"ledger {arguments.ledger} was not made: give a larger --budget-{name}"
            )


def _make_ledger(arguments: argparse.Namespace) -> Ledger:
    from dpcore.ledger import Ledger, LedgerError

    try:
        return Ledger.create(
            arguments.ledger,
            epsilon=arguments.budget_epsilon,
            delta=arguments.budget_delta or 0.0,
            timeout=arguments.timeout,
        )
    except FileExistsError:
        # Another process was faster: with the same budget it does not matter who made it.
        made = _open_ledger(arguments)
        if made is None:
            raise LedgerError(f"ledger {arguments.ledger} comes and goes; try again") from None
        return made
    except (ValueError, TypeError) as error:  # said of epsilon and delta, which are the release's own here
        raise UsageError(
            f"--budget-{error}" if str(error).startswith(("epsilon ", "delta ")) else str(error)
        ) from None


def _charge(
    arguments: argparse.Namespace, ledger: Ledger | None, plan: _Plan, question: dict[str, Any]
) -> Ledger | None:
    """Take the release out of the budget; when this returns it is on the disk, and noise may be drawn."""
    if arguments.ledger is None:
        return None
    if ledger is None:  # only now, when everything else has been found to be in order
        _check_new_budget(arguments, plan)
        ledger = _make_ledger(arguments)
    what = question.get("count") or f"mean of {question['mean']}"
    details = {"question": question, "noise_scale": plan.noise_scale}
    if arguments.known is not None:
        details |= {"known": arguments.known, "partial_knowledge_epsilon": arguments.epsilon}
    certified = ledger.composition == "certified" and plan.loss is not None
    ledger.charge(
        epsilon=None if certified else plan.epsilon,
        loss=plan.loss if certified else None,
        delta=plan.delta,
        label=arguments.label or what,
        details=details,
        after=plan.after,
    )
    return ledger


# ---------------------------------------------------------------------- counts


def _plan_count(
    arguments: argparse.Namespace, records: int, ledger: Ledger | None, question: dict[str, Any]
) -> _Plan:
    if arguments.known is not None:
        return _plan_partial(arguments, records, ledger, question)
    plan = _plan_plain(arguments)
    rested = 0 if ledger is None else _resting_on_silence(ledger.charges, question)
    if rested:
        plan = plan._replace(
            statement=f"{plan.statement} The ledger has {rested} earlier release(s) of this count with --known, "
            "whose guarantee against such attackers takes no account of this one. All together have only the "
            "guarantee of the ledger's total."
        )
    return plan


def _plan_plain(arguments: argparse.Namespace) -> _Plan:
    from dpcore import mechanisms

    if arguments.delta is None:
        discrete = mechanisms.DiscreteLaplace(epsilon=arguments.epsilon, sensitivity=1)
        statement = (
            f"The release is {upward(arguments.epsilon)}-differentially private: {_neighbours(arguments)} one "
            f"record changes the probability of anything seen by a factor of at most "
            f"e^{upward(arguments.epsilon)}. "
            f"Integer Laplace noise of scale {upward(discrete.scale)} was added."
        )
        facts = {"noise": "discrete Laplace", "noise_scale": discrete.scale}
        loss = discrete.privacy_loss()
        return _Plan(discrete, arguments.epsilon, 0.0, discrete.scale, facts, statement, loss)
    gaussian = _gaussian_count(arguments.epsilon, arguments.delta)
    statement = (
        f"The release is ({upward(arguments.epsilon)}, {upward(arguments.delta)})-differentially private for "
        f"{_neighbours(arguments)} one record. Gaussian noise of deviation {upward(gaussian.scale)}, "
        "rounded to whole numbers, was added."
    )
    facts = {"noise": "Gaussian", "noise_scale": gaussian.scale}
    loss = gaussian.privacy_loss()
    return _Plan(gaussian, arguments.epsilon, arguments.delta, gaussian.scale, facts, statement, loss)


def _neighbours(arguments: argparse.Namespace) -> str:
    """With which change of the data the guarantee is about; a proportion shows the number of records."""
    return "replacing" if arguments.proportion else "adding, removing or replacing"


def _gaussian_count(epsilon: float, delta: float) -> Any:
    from dpcore import mechanisms

    return mechanisms.Gaussian(epsilon=epsilon, delta=delta, sensitivity=1.0, grid=1.0, values_on_grid=True)


def _plan_partial(
    arguments: argparse.Namespace, records: int, ledger: Ledger | None, question: dict[str, Any]
) -> _Plan:
    import math

    from dpcore import mechanisms, partial_knowledge

    worst = arguments.worst_case_epsilon if arguments.worst_case_epsilon is not None else math.inf
    charges = () if ledger is None else ledger.charges
    earlier, unlike, others = _earlier(charges, question)
    asked = {
        "epsilon": arguments.epsilon,
        "delta": arguments.delta,
        "records": records,
        "known": arguments.known,
        "bias": arguments.bias,
        "worst_case_epsilon": worst,
    }
    found = partial_knowledge.calibrate(**asked)
    if earlier:
        try:
            found = partial_knowledge.calibrate(**asked, earlier_noise_scales=earlier)
        except ValueError:
            raise Refusal(
                f"refused: this count was released {len(earlier)} time(s) before, and this leaves no room "
                f"for another within epsilon {upward(arguments.epsilon)}, delta {upward(arguments.delta)} "
                f"and worst-case epsilon {worst:g}; use the value released before, or ask with a larger "
                "--epsilon and --worst-case-epsilon"
            ) from None
    mechanism, loss = None, None
    if found.noise_scale > 0.0:
        mechanism = mechanisms.Gaussian(sigma=found.noise_scale, sensitivity=1.0, grid=1.0, values_on_grid=True)
        loss = mechanism.privacy_loss()
    statement = found.statement
    if unlike:
        statement += (
            f" What is assumed about earlier releases does not hold: the count was released {unlike} time(s) with "
            "Laplace noise, which this takes no account of. All together have only the guarantee of the ledger's "
            "total."
        )
    if others:
        statement += (
            f" This is about this count alone: {others} release(s) of other numbers are in the ledger, and all "
            "together have only the guarantee of the ledger's total."
        )
    facts = {
        "noise": "Gaussian" if mechanism is not None else "none needed",
        "noise_scale": found.noise_scale,
        "gaussian_sigma": found.gaussian_sigma,
        "saving": found.saving,
        "worst_case_epsilon": worst,
        "records": records,
        "known": arguments.known,
        "unknown": records - arguments.known - 1,
    }
    # The plan rests on the earlier releases: it is void if there is another one before it is charged.
    return _Plan(mechanism, worst, arguments.delta, found.noise_scale, facts, statement, loss, len(charges))


def _earlier(charges: Sequence[Charge], question: dict[str, Any]) -> tuple[list[float], int, int]:
    """Earlier releases of this very count: noise scales of the normal ones, how many others; and all the rest.

    A release with a delta has normal noise: rounded to whole numbers, so that it tells no more than the noise.
    """
    this = _same(question)
    scales: list[float] = []
    unlike = others = 0
    for charge in charges:
        asked, scale = charge.details.get("question"), charge.details.get("noise_scale")
        if not isinstance(asked, dict) or _same(asked) != this:
            others += 1
        elif charge.delta > 0.0 and isinstance(scale, (int, float)):
            scales.append(float(scale))
        else:
            unlike += 1
    return scales, unlike, others


def _resting_on_silence(charges: Sequence[Charge], question: dict[str, Any]) -> int:
    """How many earlier releases of this very count have a guarantee that counts on no further one."""
    this = _same(question)
    partial = (charge.details for charge in charges if "partial_knowledge_epsilon" in charge.details)
    return sum(isinstance(d.get("question"), dict) and _same(d["question"]) == this for d in partial)


def _same(question: dict[str, Any]) -> dict[str, Any]:
    """The question with its condition in one spelling."""
    from dpcore._predicate import Predicate

    condition = question.get("count")
    try:
        return question | {"count": Predicate(condition).canonical} if isinstance(condition, str) else question
    except ValueError:  # all records, or a label of somebody else's
        return question


# ---------------------------------------------------------------------- means


def _release_mean(
    arguments: argparse.Namespace, values: Any, records: int, ledger: Ledger | None, question: dict[str, Any]
) -> int:
    import numpy as np

    from dpcore import mechanisms

    mechanisms.mean_sensitivity(  # checks lower and upper
        lower=arguments.lower, upper=arguments.upper, records=records, neighbours="replace"
    )
    bits = max(1, min(_MOST_STEP_BITS, 52 - records.bit_length()))
    steps = 2.0**bits
    how: dict[str, Any] = {"sensitivity": steps, "grid": 1.0, "values_on_grid": True, "neighbours": "replace"}
    mechanism: Any
    if arguments.delta is None:
        mechanism, noise, delta = mechanisms.Laplace(epsilon=arguments.epsilon, **how), "Laplace", 0.0
    else:
        delta = arguments.delta
        mechanism, noise = mechanisms.Gaussian(epsilon=arguments.epsilon, delta=delta, **how), "Gaussian"
    width = arguments.upper - arguments.lower
    to_mean = width / steps / records
    if not to_mean > 0.0:
        raise ValueError(f"upper must be further from lower, got {arguments.lower!r} and {arguments.upper!r}")
    private = f"{upward(arguments.epsilon)}" if delta == 0.0 else f"({upward(arguments.epsilon)}, {delta:g})"
    statement = (
        f"The release is {private}-differentially private if one of the {records} records, a number taken to be "
        f"public, is replaced. Values were cut off at {arguments.lower:g} and {arguments.upper:g}; {noise} noise "
        f"of scale {upward(mechanism.scale * to_mean)} was added."
    )
    facts = {"noise": noise, "noise_scale": mechanism.scale * to_mean, "records": records}
    plan = _Plan(
        mechanism, arguments.epsilon, delta, mechanism.scale * to_mean, facts, statement, mechanism.privacy_loss()
    )
    # A whole number of steps a record, so that the sum is exact and one record changes it by `steps` at most.
    with np.errstate(invalid="ignore", over="ignore"):
        share = (np.clip(values, arguments.lower, arguments.upper) - arguments.lower) / width
    whole_steps = np.rint(np.clip(np.nan_to_num(share, nan=0.0), 0.0, 1.0) * steps).astype(np.int64)
    total = float(int(whole_steps.sum()))
    half_width = (float(mechanism.interval(arguments.level)) + records / 2) * to_mean
    ledger = _charge(arguments, ledger, plan, question)
    released = float(mechanism.release(total))
    value = arguments.lower + released * to_mean
    _show(arguments, value, half_width, plan, ledger, question)
    return 0


# ---------------------------------------------------------------------- printing


def _show(
    arguments: argparse.Namespace,
    value: float,
    half_width: float,
    plan: _Plan,
    ledger: Ledger | None,
    question: dict[str, Any],
) -> None:
    low, high = value - half_width, value + half_width
    facts: dict[str, Any] = {
        "value": value,
        "lower": low,
        "upper": high,
        "level": arguments.level,
        "epsilon": arguments.epsilon,
        "delta": arguments.delta or 0.0,
        **plan.facts,
        "question": question,
    }
    spent = None
    if ledger is not None:
        from dpcore.ledger import LedgerError

        try:
            spent = ledger.spent
            facts["ledger"] = spent.to_dict()
        except (LedgerError, OSError):
            pass  # the charge itself is durable; what others do to the file since then is not our answer's concern
    if arguments.json or arguments.quiet:
        emit(arguments, facts, plan.statement)
        return
    shown: dict[str, Any] = {
        "released": value,
        "interval": f"{low:.6g} to {high:.6g} holds the true value with probability {arguments.level:g}",
        "noise": f"{plan.facts['noise']}, scale {upward(plan.noise_scale)}"
        if plan.mechanism
        else "none needed: this is the exact value",
    }
    if "gaussian_sigma" in plan.facts:
        saving = plan.facts["saving"]
        shown["plain DP"] = (
            f"scale {upward(plan.facts['gaussian_sigma'])}; saved {100 * saving:.1f} % of the noise"
        )
    if spent is not None:
        shown["charged"] = f"epsilon {upward(plan.epsilon)}, delta {upward(plan.delta)}"
        shown["budget left"] = f"epsilon {downward(spent.epsilon_left)}, delta {downward(spent.delta_left)}"
    else:
        shown["charged"] = "nothing: no ledger" if arguments.no_ledger else "yes"
    emit(arguments, shown, plan.statement)
