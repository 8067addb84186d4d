"""Numbers for people, rounded to the safe side; imports nothing heavy, so that the command line starts fast."""

from __future__ import annotations

import decimal
import math


def rounded_up(value: float, digits: int = 6) -> float:
    """The smallest number of so many digits that is not below `value`, as its shortest decimal form has it.

    For what people copy: noise, and the epsilon and delta of a guarantee.

    Examples
    --------
    >>> from dpcore._rounding import rounded_up
    >>> rounded_up(458.5082001), rounded_up(0.1)
    (458.509, 0.1)
    """
    return _rounded(value, digits, decimal.ROUND_CEILING)


def upward(value: float, digits: int = 6) -> str:
    """`rounded_up` as text."""
    return f"{rounded_up(value, digits):.{digits}g}"


def downward(value: float, digits: int = 6) -> str:
    """The largest number of so many digits that is not above `value`, as text: for what is left of a budget."""
    return f"{_rounded(value, digits, decimal.ROUND_FLOOR):.{digits}g}"


def percent_up(share: float, places: int = 1) -> str:
    """A share in percent with so many decimals, not below `share`: for what is at most so.

    Examples
    --------
    >>> from dpcore._rounding import percent_up
    >>> percent_up(0.5432), percent_up(0.55), percent_up(0.5432, 0)
    ('54.4', '55.0', '55')
    """
    last = decimal.Decimal(1).scaleb(-places)
    return str((100 * decimal.Decimal(repr(float(share)))).quantize(last, rounding=decimal.ROUND_CEILING))


def _rounded(value: float, digits: int, rounding: str) -> float:
    number = float(value)
    if not math.isfinite(number):
        return number
    return float(decimal.Context(prec=digits, rounding=rounding).plus(decimal.Decimal(repr(number))))
