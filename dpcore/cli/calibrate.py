r"""Find the smallest noise that satisfies a privacy target.

examples:
  dpcore calibrate gaussian --epsilon 1 --delta 1e-6
  dpcore calibrate count --records 10000 --known 5000 --bias 0.2:0.3 \
    --epsilon 0.2 --delta 1e-6 --worst-case-epsilon 1
  dpcore calibrate programme gaussian:sigma=1,count=52 laplace:epsilon=1 \
    --epsilon 1 --delta 1e-6
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dpcore._rounding import downward, rounded_up, upward
from dpcore.cli._output import (
    Refusal,
    add_command,
    add_output_options,
    bias,
    emit,
    number,
    print_json,
    print_table,
    print_text,
    whole,
)

if TYPE_CHECKING:
    from dpcore.accounting import PrivacyLoss
    from dpcore.cli._mechanisms import Row

SUMMARY = "the smallest noise that satisfies a privacy target"

_GAUSSIAN = """\
Smallest standard deviation of Gaussian noise that is (epsilon, delta)-private,
rounded up.

example:
  dpcore calibrate gaussian --epsilon 1 --delta 1e-6
"""
_COUNT = """\
Smallest noise for a count, against an attacker who knows only some of the
records; and what plain differential privacy would need.

The bias is the probability that an unknown record counts: a number (0.3), a
range, the worst case over every choice within it (0.2:0.4), or groups with
their sizes (600@0.1,400@0.5).

example:
  dpcore calibrate count --records 10000 --known 5000 --bias 0.2:0.3 \\
    --epsilon 0.2 --delta 1e-6 --worst-case-epsilon 1
"""
_PROGRAMME = """\
One factor for the noise of a whole programme of releases, so that all of them
together satisfy the target. Give each release with the noise that it has in
proportion to the others, as for `dpcore account`; or a file of them: FILE.toml,
or FILE.json and FILE.npz, written with accounting.save.

example:
  dpcore calibrate programme gaussian:sigma=1,count=52 laplace:epsilon=1 \\
    --epsilon 1 --delta 1e-6
"""
_LARGEST_FACTOR = 2.0**60
_STEP = 2.0  # small: the bounds of sampled steps take seconds where there is far too little noise
# More noise is more private: how a factor on the noise acts on each mechanism's own parameter.
_NOISE_PARAMETER = {
    "gaussian": ("sigma", 1),
    "discrete_gaussian": ("sigma", 1),
    "subsampled_gaussian": ("sigma", 1),
    "discrete_laplace": ("scale", 1),
    "laplace": ("epsilon", -1),
    "randomized_response": ("epsilon", -1),
    "pure": ("epsilon", -1),
}


def _target(parser: argparse.ArgumentParser, *, pure: bool = False) -> None:
    parser.add_argument("--epsilon", type=number, required=True, help="privacy parameter, > 0")
    parser.add_argument(
        "--delta", type=number, required=True, help=f"privacy parameter, in {'[0' if pure else '(0'}, 1)"
    )


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    kinds = parser.add_subparsers(metavar="KIND", required=True)
    gaussian = add_command(kinds, "gaussian", "Gaussian noise for a value of known L2 sensitivity", _GAUSSIAN)
    _target(gaussian)
    gaussian.add_argument("--sensitivity", type=number, default=1.0, help="L2 sensitivity, > 0 (default 1)")
    gaussian.add_argument("--compositions", type=int, default=1, help="releases covered together (default 1)")
    gaussian.add_argument(
        "--method",
        default="analytic",
        choices=("analytic", "probabilistic", "classical"),
        help="formula: the smallest noise (default), or one of two older, larger ones",
    )
    add_output_options(gaussian)
    gaussian.set_defaults(run=run_gaussian)

    count = add_command(kinds, "count", "a count, given what attackers can know", _COUNT)
    _target(count)
    count.add_argument("--records", type=whole, required=True, help="records that are counted")
    count.add_argument("--known", type=whole, required=True, help="records that an attacker may know")
    count.add_argument("--bias", type=bias, required=True, help="probability that an unknown record counts")
    count.add_argument(
        "--worst-case-epsilon",
        type=number,
        default=math.inf,
        metavar="EPSILON",
        help="also keep this plain guarantee, whatever the attacker knows (default: none)",
    )
    count.add_argument("--releases", type=int, default=1, help="how often the count is released (default 1)")
    add_output_options(count)
    count.set_defaults(run=run_count)

    programme = add_command(kinds, "programme", "a whole programme of releases", _PROGRAMME)
    programme.add_argument("mechanisms", nargs="+", metavar="MECHANISM", help="NAME:KEY=VALUE,... or a file")
    _target(programme, pure=True)
    add_output_options(programme)
    programme.set_defaults(run=run_programme)


def run_gaussian(arguments: argparse.Namespace) -> int:
    """Calibrate Gaussian noise."""
    from dpcore import gaussian

    asked = {
        "epsilon": arguments.epsilon,
        "delta": arguments.delta,
        "sensitivity": arguments.sensitivity,
        "compositions": arguments.compositions,
        "method": arguments.method,
    }
    sigma = gaussian.sigma(**asked)
    shown = rounded_up(sigma)
    releases = "one release" if arguments.compositions == 1 else f"{arguments.compositions} releases together"
    statement = (
        f"Gaussian noise of standard deviation {shown:.6g} added to a value of L2 sensitivity "
        f"{arguments.sensitivity:g} makes {releases} ({arguments.epsilon:g}, {arguments.delta:g})-differentially "
        "private; the exact delta of this sigma is not above the one asked."
    )
    emit(arguments, {"sigma": sigma if arguments.json or arguments.quiet else shown, **asked}, statement)
    return 0


def run_count(arguments: argparse.Namespace) -> int:
    """Calibrate the noise of a count."""
    from dpcore import partial_knowledge

    found = partial_knowledge.calibrate(
        epsilon=arguments.epsilon,
        delta=arguments.delta,
        records=arguments.records,
        known=arguments.known,
        bias=arguments.bias,
        worst_case_epsilon=arguments.worst_case_epsilon,
        releases=arguments.releases,
    )
    # The result itself comes first: it is what --quiet prints.
    facts: dict[str, Any] = {"noise_scale": found.noise_scale, "saving": found.saving, **found.to_dict()}
    if arguments.json or arguments.quiet:
        emit(arguments, facts, found.statement)
        return 0
    shown = {
        "noise_needed": rounded_up(found.noise_scale),
        "plain_DP_needs": rounded_up(found.gaussian_sigma),
        "saving": f"{100 * found.saving:.1f} %",
        "decided_by": "the unknown records are noise enough"
        if found.limited_by == "nothing"
        else found.limited_by,
    }
    emit(arguments, shown, found.statement)
    return 0


def run_programme(arguments: argparse.Namespace) -> int:
    """Calibrate one factor for the noise of many releases."""
    from dpcore import accounting
    from dpcore.cli import _mechanisms

    rows = _mechanisms.parse(arguments.mechanisms)
    for row in rows:
        if row.name not in _NOISE_PARAMETER:
            kind = "a pair of distributions" if row.name == "pmf" else row.name
            raise ValueError(
                f"{row.file + ': ' if row.file else ''}{kind} has no noise to scale; to hold it fixed and vary "
                "the others, use accounting.calibrate in Python"
            )

    def scaled(factor: float) -> list[_mechanisms.Row]:
        out = []
        for row in rows:
            key, sign = _NOISE_PARAMETER[row.name]
            out.append(row.with_parameter(key, row.parameters[key] * (factor if sign > 0 else 1 / factor)))
        return out

    def make(factor: float) -> accounting.PrivacyLoss:
        return _mechanisms.loss(scaled(factor))

    found = accounting.calibrate(
        make,
        epsilon=arguments.epsilon,
        delta=arguments.delta,
        parameter_range=_factors(make, rows, arguments.epsilon, arguments.delta),
        increasing=True,
    )
    together = sum(row.count for row in rows)
    one_way = _mechanisms.one_way(rows)
    statement = (
        f"With {upward(found.parameter)} times the noise given, "
        f"{'the release is' if together == 1 else f'the {together} releases together are'} "
        f"({found.epsilon!r}, {found.delta!r})-{'indistinguishable' if one_way else 'differentially private'}"
        f"{f' {one_way}' if one_way else ''}; delta is at most {upward(found.delta_upper)}. "
        "The questions may depend on earlier answers, as long as the noise was fixed beforehand."
    )
    if arguments.json:
        facts = found.to_dict()
        mechanisms = facts.pop("loss")["mechanisms"]
        print_json({**facts, "mechanisms": mechanisms, "statement": statement})
    elif arguments.quiet:
        print(repr(found.parameter))
    else:
        print_table(
            ("release", "times", "noise given", "noise needed"), _programme_rows(rows, scaled(found.parameter))
        )
        print()
        print_text(statement)
    return 0


def _factors(
    make: Callable[[float], PrivacyLoss], rows: list[Row], epsilon: float, delta: float
) -> tuple[float, float]:
    """Two factors, the first too small (or as small as a mechanism accepts) and the second large enough."""
    from dpcore._validation import positive, real
    from dpcore.cli import _mechanisms

    positive("epsilon", epsilon)
    real("delta", delta, "a number in [0, 1)", 0.0, 1.0, high_open=True)
    if delta == 0.0:
        unbounded = [row.name for row in rows if math.isinf(_mechanisms.loss([row]).max_loss)]
        if unbounded:
            raise Refusal(
                f"refused: delta 0 needs losses that are bounded, and that of {unbounded[0]} is not, whatever its "
                "noise; a delta above 0 is needed"
            )

    def enough(factor: float) -> bool:
        return float(make(factor).delta(epsilon)) <= delta

    low = high = 1.0
    if not enough(1.0):
        while high < _LARGEST_FACTOR:
            low, high = high, high * _STEP
            try:
                if enough(high):
                    return low, high
            except ValueError:  # more noise than a mechanism can have
                break
        raise Refusal(f"refused: even {low:g} times the noise is not enough for this epsilon and delta")
    while True:
        try:
            if not enough(low / _STEP):
                return low / _STEP, low
        except ValueError:  # less noise than a mechanism can have
            return low, _STEP * low
        low /= _STEP


def _programme_rows(before: list[Any], after: list[Any]) -> list[tuple[str, int, str, str]]:
    out = []
    for old, new in zip(before, after, strict=True):
        key, sign = _NOISE_PARAMETER[old.name]
        # What people copy is enough: more noise, or less epsilon, than is needed.
        needed = (upward if sign > 0 else downward)(new.parameters[key])
        out.append((old.name, old.count, f"{key} {old.parameters[key]!r}", f"{key} {needed}"))
    return out
