"""The syntax of laws: temporal formulas over the expression language.

An example is `always (a -> eventually[0, 2 s] b)`. Times are in seconds, milliseconds,
minutes or steps. `G F X U` are short for `always eventually next until`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, NoReturn

from forewarn.abstractions.arguments import checked
from forewarn.abstractions.errors import InvalidExpression, near_miss
from forewarn.abstractions.expression.parser import ExpressionParser
from forewarn.abstractions.expression.terms import Token
from forewarn.abstractions.expression.tree import OF_TEXT, Expression, within
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary

Formula = Expression
TimeUnit = Literal["s", "ms", "min", "steps"]

_SECONDS = {"s": Fraction(1), "ms": Fraction(1, 1000), "min": Fraction(60)}
MAX_STEPS = 1_000_000
"""The maximum time, in steps of the monitor's clock."""


@dataclass(frozen=True, slots=True, repr=False)
class Interval:
    """The interval `[low, high]` in `unit`; if `high` is None, it is unbounded."""

    low: float = 0
    high: float | None = None
    unit: TimeUnit = "steps"

    def __repr__(self) -> str:
        if self.high is None:
            return f"[{_number(self.low)} {self.unit},]" if self.low else ""
        return f"[{_number(self.low)}, {_number(self.high)} {self.unit}]"

    def steps(self, period_s: float | None) -> tuple[int, int | None]:
        """Returns the bounds in steps of a clock with this period: floor(bound /
        period).
        """
        high = None if self.high is None else self._floor(self.high, period_s)
        return self._floor(self.low, period_s), high

    def _floor(self, bound: float, period_s: float | None) -> int:
        exact = Fraction(repr(float(bound)))
        if self.unit != "steps":
            if period_s is None:
                raise InvalidExpression(
                    f"a time in {self.unit} needs a clock",
                    mend="give the frames' period, or write the time in steps",
                )
            exact = exact * _SECONDS[self.unit] / Fraction(repr(float(period_s)))
        if exact > MAX_STEPS:
            raise InvalidExpression(
                f"{_number(bound)} {self.unit} is more than {MAX_STEPS} steps",
                mend="use a coarser clock",
            )
        return math.floor(exact)


def _number(value: float) -> str:
    return repr(float(value)).removesuffix(".0")


class Temporal(Expression):
    """A node that refers to moments other than the present."""

    __slots__ = ()
    level: ClassVar[int] = 5


class Future(Temporal):
    """A future operator: `always`, `eventually`, `next` or `until`."""

    __slots__ = ()


class Past(Temporal):
    """A past operator: `once`, `historically` or `since`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, repr=False)
class _Unary(Temporal):
    operand: Formula
    interval: Interval = Interval()
    word: ClassVar[str] = ""

    def __repr__(self) -> str:
        return f"{self.word}{self.interval!r} {within(self.operand, 5)}"


@dataclass(frozen=True, slots=True, repr=False)
class _Binary(Temporal):
    left: Formula
    right: Formula
    interval: Interval = Interval()
    word: ClassVar[str] = ""
    level: ClassVar[int] = 4

    def __repr__(self) -> str:
        left, right = within(self.left, 5), within(self.right, 5)
        return f"{left} {self.word}{self.interval!r} {right}"


class Always(_Unary, Future):
    __slots__ = ()
    word: ClassVar[str] = "always"


class Eventually(_Unary, Future):
    __slots__ = ()
    word: ClassVar[str] = "eventually"


class Once(_Unary, Past):
    __slots__ = ()
    word: ClassVar[str] = "once"


class Historically(_Unary, Past):
    __slots__ = ()
    word: ClassVar[str] = "historically"


class Until(_Binary, Future):
    __slots__ = ()
    word: ClassVar[str] = "until"


class Since(_Binary, Past):
    __slots__ = ()
    word: ClassVar[str] = "since"


Timed = _Unary | _Binary


@dataclass(frozen=True, slots=True, repr=False)
class Next(Future):
    operand: Formula

    def __repr__(self) -> str:
        return f"next {within(self.operand, 5)}"


_PREFIX: dict[str, type[_Unary]] = {
    "always": Always, "G": Always, "eventually": Eventually, "F": Eventually,
    "once": Once, "historically": Historically,
}  # fmt: skip
_INFIX: dict[str, type[_Binary]] = {"until": Until, "U": Until, "since": Since}
_NEXT = ("next", "X")
TEMPORAL = tuple(w for w in (*_PREFIX, *_INFIX, *_NEXT) if len(w) > 1)
"""The words that refer to other moments."""
_WORDS = (*TEMPORAL, *OF_TEXT)
_TIME_UNITS: dict[str, TimeUnit] = {
    "s": "s", "ms": "ms", "min": "min", "steps": "steps", "step": "steps",
}  # fmt: skip

_ELSEWHERE = {
    "before": "write always (b -> once a)",
    "between": "write a >= 1 and a <= 2",
    "count": "write count[0, 60 s](a) <= 3",
    "for": "write historically[0, 1 s] a",
    "if": "write a -> b",
    "implies": "write a -> b",
    "never": "write always not (…)",
    "previous": "refer to the past with once, historically and since",
    "then": "write a -> b",
    "within": "write the time after the operator: eventually[0, 2 s] (…)",
}
"""Operators of other languages, and how to express them here."""


@checked
def parse_formula(
    text: str,
    vocabulary: Vocabulary | None = None,
    definitions: Mapping[str, Expression] | None = None,
) -> Formula:
    """Parses the formula of a law.

    Args:
        text: The law, such as `always(brake > 5 -> eventually[0, 2 s] speed < 0.5)`.
        vocabulary: The vocabulary with the types and units of signals; without one, any
            name is accepted.
        definitions: Parsed expressions, by the names that refer to them.

    Raises:
        InvalidExpression: The text is not a valid formula; the message names the column
            and the expected syntax.
    """
    return _FormulaParser(text, vocabulary, definitions).parse()


def is_temporal(formula: Formula) -> bool:
    """Whether the formula refers to moments other than the present."""
    return any(isinstance(node, Temporal) for node in formula.walk())


def is_momentary(formula: Formula) -> bool:
    """Whether only the first moment of a run can violate the formula."""
    return not any(isinstance(node, Future) for node in formula.walk())


class _FormulaParser(ExpressionParser):
    keywords = ExpressionParser.keywords | set(TEMPORAL)
    operators = frozenset(_INFIX)
    remembers = False  # laws refer to the past with once, historically and since

    def _unary(self) -> Expression:
        token = self._peek
        if token.kind == "name" and not self._is_signal(token.text):
            if token.text in _PREFIX:
                self._take()
                node = _PREFIX[token.text]
                interval = self._interval()
                return node(self._truth(self._unary), interval)
            if token.text in _NEXT:
                self._take()
                return Next(self._truth(self._unary))
            if token.text in _INFIX and token.text in self.keywords:
                mend = f"write a {token.text}[0, 2 s] b"
                self._fail(f"{token.text} must follow a condition", mend=mend)
        return super()._unary()

    def _fail(self, problem: str, token: Token | None = None, *, mend: str) -> NoReturn:
        """Raises an error; suggests an operator if a preceding word looks like a
        misspelt operator.
        """
        at = token or self._peek
        last = max(at.start, self._peek.start)
        words = [each for each in self._tokens if each.start <= last]
        for each in reversed(words[-4:]):
            known = each.kind != "name" or each.text in self._all_words()
            meant = _ELSEWHERE.get(each.text) or near_miss(each.text, _WORDS)
            if close := "" if known else meant:
                super()._fail(f"{each.text!r} is not an operator", each, mend=close)
        super()._fail(problem, token, mend=mend)

    def _counted(self) -> Expression:
        token = self._peek
        operand = super()._counted()
        if is_temporal(operand):
            mend = "use a condition on a single moment"
            self._fail(
                "a counted condition cannot refer to other moments", token, mend=mend
            )
        return operand

    def _check_predicate(self, name: Token, count: int | None = None) -> None:
        known = self._vocabulary and name.text in self._vocabulary.predicates
        close = _ELSEWHERE.get(name.text) or near_miss(name.text, _WORDS)
        if not known and close:
            super()._fail(f"unknown predicate {name.text!r}", name, mend=close)
        super()._check_predicate(name, count)

    def _all_words(self) -> set[str]:
        signals = self._vocabulary.signals if self._vocabulary else ()
        return {
            *self.keywords,
            *self.operators,
            *OF_TEXT,
            *("None", "null", "count"),
            *self._definitions,
            *signals,
        }

    def _binary(self) -> Expression:
        token = self._peek
        left = self._unary()
        word = self._peek.text
        if self._peek.kind != "name" or word not in _INFIX:
            return left
        self._take()
        self._check_truth(left, token)
        interval = self._interval()
        right = self._truth(self._unary)
        if self._peek.kind == "name" and self._peek.text in _INFIX:
            self._fail(f"{word!r} cannot be chained", mend="add parentheses")
        return _INFIX[word](left, right, interval)

    def _is_signal(self, word: str) -> bool:
        """Whether a one-letter operator is used as a signal's name."""
        declared = self._vocabulary is not None and word in self._vocabulary.signals
        return declared or word in self._definitions

    def _interval(self) -> Interval:
        if not self._accept("["):
            return Interval()
        start = self._peek
        low, low_unit = self._bound()
        if self._peek.text == "]":
            mend = f"write both times, as in [0, {_number(low)} {low_unit or 's'}]"
            self._fail("an interval has two times", start, mend=mend)
        self._expect(",")
        high, high_unit = None, None
        if self._peek.text != "]":
            high, high_unit = self._bound()
        self._expect("]")
        if high is None and low == 0:
            return Interval()
        unit = high_unit or low_unit or ("steps" if high is None else None)
        if unit is None:
            self._fail("the time has no unit", start, mend="write s, ms or steps")
        if low_unit not in (None, unit):
            mend = "write the unit once, after the second time"
            self._fail("both times must have the same unit", start, mend=mend)
        whole = low == int(low) and (high is None or high == int(high))
        if unit == "steps" and not whole:
            self._fail(
                "the number of steps must be whole",
                start,
                mend=("round the number, or use s"),
            )
        if high is not None and low > high:
            first, last = _number(low), _number(high)
            problem = f"the interval ends before it begins: {first} > {last}"
            self._fail(problem, start, mend=f"write [{last}, {first} {unit}]")
        return Interval(low, high, unit)

    def _bound(self) -> tuple[float, TimeUnit | None]:
        token = self._take()
        if token.text == "-":
            mend = "write once[0, 1 s] a or eventually[0, 2 s] a instead of [-1, 2 s]"
            self._fail("a time cannot be negative", token, mend=mend)
        if token.kind != "number":
            mend = "write times as in [0, 2 s]"
            if token.text.lower() in ("inf", "infinity"):
                mend = "leave out the interval, or its second time, as in [1 s,]"
            super()._fail(f"expected a time, found {token}", token, mend=mend)
        value = float(token.text)
        if self._peek.kind != "name":
            return value, None
        unit = self._take()
        if unit.text not in _TIME_UNITS:
            problem = f"{unit.text!r} is not a unit of time"
            self._fail(problem, unit, mend="use s, ms, min or steps")
        return value, _TIME_UNITS[unit.text]
