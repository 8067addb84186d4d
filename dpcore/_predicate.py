"""A small language for choosing records: ``smoker == 1 and (age >= 65 or sex == "f")``.

Grammar::

    condition  = all ("or" all)*
    all        = one ("and" one)*
    one        = "not" one | "(" condition ")" | COLUMN OPERATOR VALUE
    OPERATOR   = "==" | "!=" | "<" | "<=" | ">" | ">="
    COLUMN     = a word, or any text in backquotes
    VALUE      = a number, or text in single or double quotes (only with == and !=)

There is nothing else: no functions, no arithmetic, no code. A comparison with a number is false on a cell that is
not a number, whichever the operator; a comparison with text is false on a missing cell. No cell is ever an error,
so that no error depends on private data.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]
# Deeper nesting than this is not a question that people ask, and would exhaust the interpreter's stack.
_DEEPEST = 50

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))|(?P<word>[^\W\d]\w*)|`(?P<quoted>[^`]+)`"""
    r"""|"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<sign>==|!=|<=|>=|<|>|\(|\)))"""
)
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


_KEYWORDS = ("and", "or", "not")


class _Token(NamedTuple):
    kind: str
    text: str


class Column:
    """Cells of one column, as text and as numbers, each made when first asked for."""

    def __init__(self, cells: Sequence[Any]) -> None:
        self._cells = cells
        self._numbers: NDArray[np.float64] | None = None
        self._texts: NDArray[np.object_] | None = None

    def __len__(self) -> int:
        return len(self._cells)

    @property
    def numbers(self) -> NDArray[np.float64]:
        """One number a cell; NaN where a cell is missing or is not a number."""
        if self._numbers is None:
            if isinstance(self._cells, np.ndarray) and self._cells.dtype.kind in "biuf":
                self._numbers = self._cells.astype(np.float64)
            else:
                self._numbers = np.fromiter(map(_number, self._cells), np.float64, len(self._cells))
        return self._numbers

    @property
    def texts(self) -> NDArray[np.object_]:
        """One string a cell, without the spaces around it; None where a cell is missing."""
        if self._texts is None:
            self._texts = np.empty(len(self._cells), object)
            self._texts[:] = [None if _missing(cell) else str(cell).strip() for cell in self._cells]
        return self._texts


def _missing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip()) or cell != cell


def _number(cell: Any) -> float:
    try:
        # Python reads "1_000" as a number; no table means that.
        return float("nan") if isinstance(cell, str) and "_" in cell else float(cell)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


class Predicate:
    """A condition on records, from its text.

    Examples
    --------
    >>> from dpcore._predicate import Column, Predicate
    >>> chosen = Predicate("age >= 65 and not sex == 'f'")
    >>> chosen.columns
    ('age', 'sex')
    >>> chosen({"age": Column(["70", "80", "x"]), "sex": Column(["m", "f", "m"])}).tolist()
    [True, False, False]
    """

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise TypeError(f"condition must be a string, got {text!r}")
        self.text = text
        self._names: list[str] = []
        self._tokens = _tokens(text)
        self._at = 0
        self._depth = 0
        self._evaluate = self._condition()
        if self._at < len(self._tokens):
            raise ValueError(f"condition {text!r}: {self._tokens[self._at].text!r} was not expected")
        self.columns = tuple(dict.fromkeys(self._names))

    def __call__(self, columns: Mapping[str, Column]) -> BoolArray:
        """Which records satisfy it."""
        return self._evaluate(columns)

    @property
    def canonical(self) -> str:
        """The condition in one spelling: spaces, quotes and forms of numbers do not make another question."""
        return " ".join(map(_spelled, self._tokens))

    def _peek(self) -> _Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else _Token("end", "")

    def _keyword(self, word: str) -> bool:
        if self._peek() == _Token("word", word):
            self._at += 1
            return True
        return False

    def _take(self, kinds: tuple[str, ...], wanted: str) -> _Token:
        token = self._peek()
        if token.kind not in kinds:
            found = f"found {token.text!r}" if token.kind != "end" else "it ends"
            raise ValueError(f"condition {self.text!r}: {found} where {wanted} was expected")
        self._at += 1
        return token

    def _condition(self) -> Callable[[Mapping[str, Column]], BoolArray]:
        parts = [self._all()]
        while self._keyword("or"):
            parts.append(self._all())
        return lambda columns: np.logical_or.reduce([part(columns) for part in parts])

    def _all(self) -> Callable[[Mapping[str, Column]], BoolArray]:
        parts = [self._one()]
        while self._keyword("and"):
            parts.append(self._one())
        return lambda columns: np.logical_and.reduce([part(columns) for part in parts])

    def _one(self) -> Callable[[Mapping[str, Column]], BoolArray]:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError(f"condition is nested more than {_DEEPEST} deep")
        try:
            if self._keyword("not"):
                inner = self._one()
                return lambda columns: ~inner(columns)
            if self._peek() == _Token("sign", "("):
                self._at += 1
                inner = self._condition()
                if self._take(("sign",), "a closing parenthesis").text != ")":
                    raise ValueError(f"condition {self.text!r}: a closing parenthesis is missing")
                return inner
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> Callable[[Mapping[str, Column]], BoolArray]:
        name = self._take(("word", "quoted"), "a column").text
        sign = self._take(("sign",), "one of == != < <= > >=").text
        if sign not in _OPERATORS:
            raise ValueError(f"condition {self.text!r}: one of == != < <= > >= must follow {name!r}")
        value = self._take(("number", "double", "single"), "a number or a text in quotes")
        self._names.append(name)
        compare = _OPERATORS[sign]
        if value.kind == "number":
            number = float(value.text)

            def numbers(columns: Mapping[str, Column]) -> BoolArray:
                cells = columns[name].numbers
                return np.asarray(compare(cells, number) & ~np.isnan(cells), dtype=np.bool_)

            return numbers
        if sign not in ("==", "!="):
            raise ValueError(f"condition {self.text!r}: text can be compared with == and != only")
        text = value.text.strip()

        def texts(columns: Mapping[str, Column]) -> BoolArray:
            cells = columns[name].texts
            return np.fromiter((c is not None and bool(compare(c, text)) for c in cells), np.bool_, len(cells))

        return texts


def _spelled(token: _Token) -> str:
    if token.kind == "number":
        return repr(float(token.text))
    if token.kind == "sign" or (token == _Token("word", token.text) and token.text in _KEYWORDS):
        return token.text
    return f"`{token.text}`" if token.kind in ("word", "quoted") else repr(token.text.strip())


def _tokens(text: str) -> list[_Token]:
    found, at = [], 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            rest = text[at:].strip()
            hint = "; equality is written ==" if rest.startswith("=") else ""
            raise ValueError(f"condition {text!r}: cannot read {rest[:20]!r}{hint}")
        found.append(_Token(match.lastgroup, match.group(match.lastgroup)))
        at = match.end()
    return found
