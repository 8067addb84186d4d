"""The lines of a ledger: the first one with the budget, every other one a charge, each with a checksum.

A checksum covers the line before it too. It finds accidents, not forgery.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import sys
from collections.abc import Mapping
from typing import Any

from dpcore import _paths
from dpcore._results import Result
from dpcore._rounding import upward

COMPOSITIONS = ("sum", "certified")
FORMAT = "dpcore.ledger"
VERSION = 1
# Longer lines than this are not ours; it bounds what a wrong file can make us read as one line.
LONGEST_LINE = 2**20


@dataclasses.dataclass(frozen=True)
class Charge(Result):
    """One line of a ledger.

    Attributes
    ----------
    number : int
        From 1, in the order of the file.
    time : str
        When it was charged, UTC.
    epsilon, delta : float
        What the release costs without any assumption about the attacker.
    label : str
        What was released, in the user's words.
    details : dict
        Public facts about the release.
    loss : dict or None
        ``PrivacyLoss.to_dict()`` of the release, if it was given.
    """

    number: int
    time: str
    epsilon: float
    delta: float
    label: str
    details: dict[str, Any]
    loss: dict[str, Any] | None = None

    @property
    def statement(self) -> str:
        """The charge in words."""
        what = f" for {self.label}" if self.label else ""
        return (
            f"Charge {self.number} of epsilon {upward(self.epsilon)} and delta "
            f"{upward(self.delta)}{what}, {self.time}."
        )


def canonical(body: Mapping[str, Any]) -> str:
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _check(text: str, before: str) -> str:
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()[:32]


def sealed(body: Mapping[str, Any], before: str) -> bytes:
    """A line with its checksum; `before`: that of the line before it."""
    return (canonical({**body, "check": _check(canonical(body), before)}) + "\n").encode()


def parse(line: bytes, before: str) -> tuple[dict[str, Any], str]:
    """What a line says, and its checksum."""
    if len(line) > LONGEST_LINE:
        raise ValueError("it is too long")
    try:
        body = json.loads(line)
    except ValueError:
        raise ValueError("it is not JSON") from None
    if not isinstance(body, dict):
        raise ValueError("it is not a JSON object")
    check = body.pop("check", None)
    if line + b"\n" != sealed(body, before):
        raise ValueError("its checksum is wrong")
    return body, str(check)


def check_header(body: dict[str, Any]) -> None:
    if body.get("format") != FORMAT:
        raise ValueError("its first line does not say so")
    if body.get("version") != VERSION:
        raise ValueError(f"its version is {body.get('version')!r}, this dpcore knows {VERSION}")
    if body.get("composition") not in COMPOSITIONS:
        raise ValueError(f"it adds up by {body.get('composition')!r}, which this dpcore does not know")
    finite("epsilon", body["epsilon"], zero=False)
    if not finite("delta", body["delta"]) < 1:
        raise ValueError(f"its delta is {body['delta']!r}")
    text("label", body["label"])


def charge_on(body: dict[str, Any], number: int) -> Charge:
    """The charge on a line, each value of its type: whatever else a checksum fits is not ours."""
    charge = Charge(**{"loss": None, **body})
    if type(charge.number) is not int or charge.number != number:
        raise ValueError(f"its number is {_paths.shown(charge.number)}, not {number}")
    for name, value, most in (("epsilon", charge.epsilon, sys.float_info.max), ("delta", charge.delta, 1.0)):
        if type(value) not in (int, float) or not 0 <= value <= most:  # an int beyond every double is not ours
            raise ValueError(f"its {name} is {_paths.shown(value)}")
    text("time", charge.time)
    text("label", charge.label)
    if not isinstance(charge.details, dict) or not (charge.loss is None or isinstance(charge.loss, dict)):
        raise TypeError("its details or its loss are not a JSON object")
    return charge


def now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")


def finite(name: str, value: Any, *, zero: bool = True) -> float:
    from dpcore._validation import non_negative, positive, scalar

    return scalar(name, (non_negative if zero else positive)(name, value))


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {value!r}")
    return value
