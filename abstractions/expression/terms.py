"""Parses terms: names, numbers with units, sums, products and calls."""

from __future__ import annotations

import itertools
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from forewarn.abstractions.errors import InvalidExpression, near_miss
from forewarn.abstractions.expression.tree import (
    OF_TEXT,
    Arithmetic,
    Call,
    Conditional,
    Constant,
    Curve,
    Expression,
    LookBack,
    Name,
    Negative,
    Number,
    ObjectPredicate,
    common_unit,
    unit_of,
)
from forewarn.abstractions.vocabularies.signals import UNITS, close_unit

if TYPE_CHECKING:
    from forewarn.abstractions.vocabularies.vocabulary import Signal, Vocabulary


MAX_LENGTH = 40_000
"""The maximum length of an expression or formula, in characters."""

MAX_NUMBER = 1e100
"""The largest allowed number, so that unit conversions cannot overflow."""

_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<name>[^\W\d]\w*(?:\#\d+)?)
      | (?P<text>"[^"\n]*")
      | (?P<symbol><=>|->|=>|<=|>=|==|!=|&&|\|\||[-+*/()\[\]{},<>=!&|%²^°≤≥≠∧∨¬→])
    """,
    re.VERBOSE,
)
_SYNONYMS = {"&": "and", "&&": "and", "|": "or", "||": "or", "!": "not",
             "=>": "->", "=": "==", "≤": "<=", "≥": ">=", "≠": "!=", "∧": "and",
             "∨": "or", "¬": "not", "→": "->"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Token:
    """A token; `kind` is `number`, `name`, `text`, `symbol` or `end`."""

    kind: str
    text: str
    start: int
    end: int

    def __str__(self) -> str:
        return self.text if self.kind == "end" else repr(self.text)


def tokens(source: str) -> list[Token]:
    """Splits the text into tokens; the last one has the kind `end`.

    Raises:
        InvalidExpression: The text is too long, a number is too large, or a character
            does not begin a token.
    """
    if len(source) > MAX_LENGTH:
        raise InvalidExpression(
            f"the text is longer than {MAX_LENGTH} characters",
            place=f"column {MAX_LENGTH + 1}",
            mend="split it into several expressions",
        )
    found: list[Token] = []
    at = 0
    while at < len(source):
        match = _TOKEN.match(source, at)
        if match is None:
            place = f"column {at + 1}"
            problem = f"unexpected character {source[at]!r}"
            is_last = at == len(source.rstrip()) - 1
            dot = "names contain no dots: write arg_path for an argument"
            mend = {
                "'": "put words in double quotes",
                ".": "remove the full stop" if is_last else dot,
                ":": "to name a law, write NAME := FORMULA",
                ";": "write each law on its own: repeat --law, or add it to the list",
                "…": "replace it with the actual text, such as [0, 2 s]",
            }.get(source[at], "put text in double quotes, or remove the character")
            raise InvalidExpression(problem, place=place, mend=mend)
        kind = match.lastgroup or ""
        if kind != "space":
            text = match.group()
            if kind == "symbol":
                text = _SYNONYMS.get(text, text)
            if kind == "number" and float(text) > MAX_NUMBER:
                raise InvalidExpression(
                    f"the number {text} is too large",
                    place=f"column {at + 1}",
                    mend=f"the maximum is {MAX_NUMBER:g}",
                )
            found.append(Token(kind, text, at, match.end()))
        at = match.end()
    found.append(Token("end", "the end", at, at))
    return found


class Cursor:
    """A position in the tokens of a text; the base class of parsers."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens(text)
        self._at = 0

    @property
    def _peek(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._tokens[self._at]
        self._at += token.kind != "end"
        return token

    def _accept(self, *texts: str) -> Token | None:
        token = self._peek
        if token.text in texts and token.kind in ("symbol", "name"):
            return self._take()
        return None

    def _expect(self, text: str) -> Token:
        if token := self._accept(text):
            return token
        problem, mend = f"expected {text!r}, found {self._peek}", f"add {text!r}"
        if text == ")" and self._peek.kind in ("name", "number", "text"):
            problem = f"expected an operator or ')' before {self._peek}"
            mend = "join conditions with and, or, ->"
        self._fail(problem, mend=mend)

    def _fail(self, problem: str, token: Token | None = None, *, mend: str) -> NoReturn:
        token = token or self._peek
        place = f"column {token.start + 1}"
        if re.fullmatch(r"\d,\d", self._text[max(token.start - 1, 0) : token.end + 1]):
            mend = "write decimals with a point, as in 13.9"
        raise InvalidExpression(problem, place=place, mend=mend)


FUNCTIONS = {"abs": (1, 1), "min": (2, 8), "max": (2, 8)}
_PAST = ("ago", "least", "most")
_OF_LAWS = {"always", "eventually", "historically", "once", "since", "until"}
_CLOCK = {"s": 1.0, "ms": 0.001, "min": 60.0}
_STEP_WORDS = {"below", "else"}
_KEYWORDS = {"and", "or", "not", "true", "false", "is", "none"}
_FEW_UNITS = 6
_WORD = re.compile(r"[\w/²^%°]+")
NUMERIC = (Number, Arithmetic, Negative, Call, Curve, Conditional, LookBack)
"""The nodes that are numbers regardless of the vocabulary."""

MAX_SPAN_S = 60.0
"""The maximum time span of `ago`, `least` and `most`, in s."""

MAX_COUNTED_S = 3_600.0
"""The maximum time span of `count`, in s."""

MAX_DEPTH = 40
"""The maximum nesting depth; each level takes about 16 Python frames."""


class TermParser(Cursor, ABC):
    """The part of the parser that parses the terms of comparisons."""

    keywords: frozenset[str] = frozenset(_KEYWORDS)
    operators: frozenset[str] = (
        frozenset()
    )  # words that may follow a number and are not units
    remembers = True  # whether `ago`, `least` and `most` are allowed

    def __init__(
        self,
        text: str,
        vocabulary: Vocabulary | None = None,
        definitions: Mapping[str, Expression] | None = None,
    ) -> None:
        super().__init__(text)
        self._vocabulary = vocabulary
        self._definitions = definitions or {}
        self._depth = 0

    @abstractmethod
    def _implies(self) -> Expression:
        """Parses a condition or a number."""

    @abstractmethod
    def _counted(self) -> Expression:
        """Parses the condition of a count, in parentheses."""

    @abstractmethod
    def _curve(self) -> Expression:
        """Parses a curve after its opening parenthesis."""

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            mend = "split it into simpler conditions"
            self._fail(f"nested more than {MAX_DEPTH} levels deep", mend=mend)

    def _declared(self, node: Expression) -> Signal | None:
        if self._vocabulary and isinstance(node, Name):
            return self._vocabulary.signals.get(node.name)
        return None

    def _must_be_number(self, node: Expression, token: Token) -> None:
        declared = self._declared(node)
        numeric = isinstance(node, (*NUMERIC, Name))
        if not numeric or (declared and declared.type != "number"):
            mend = (
                "use + - * / < > == between numbers, and `and`, `or`, `not`, `->` "
                "between conditions"
            )
            if declared and declared.values:
                mend = f"compare it, as in {declared.name} == {declared.values[0]}"
            self._fail(f"{node!r} is not a number", token, mend=mend)

    def _check_units(self, node: Expression, token: Token) -> None:
        try:
            common_unit(node)
        except InvalidExpression as error:
            problem, mend = error.problem, error.mend
            if self._vocabulary is None:
                names = [each.name for each in node.walk() if isinstance(each, Name)]
                problem = (
                    f"the unit of {', '.join(names)} is unknown without a vocabulary"
                )
                mend = "give --vocabulary driving, or write `vocabulary: driving` in"
                mend += " the file"
            self._fail(problem, token, mend=mend)

    def _number(self) -> Expression:
        token = self._peek
        self._deeper()
        node = self._sum()
        self._depth -= 1
        self._must_be_number(node, token)
        return node

    def _plain_number(self) -> Expression:
        token = self._peek
        node = self._number()
        if (found := unit_of(node)) is not None and found.powers:
            self._fail(
                f"{node!r} has a unit, but a plain number is needed",
                token,
                mend="remove the unit",
            )
        return node

    def _sum(self) -> Expression:
        return self._operators(("+", "-"), self._product)

    def _product(self) -> Expression:
        return self._operators(("*", "/"), self._negative)

    def _operators(
        self, symbols: tuple[str, ...], level: Callable[[], Expression]
    ) -> Expression:
        token, depth = self._peek, self._depth
        left = level()
        while operator := self._accept(*symbols):
            self._deeper()
            self._must_be_number(left, token)
            token = self._peek
            right = level()
            self._must_be_number(right, token)
            left = Arithmetic(operator.text, left, right)  # type: ignore[arg-type]
            self._check_units(left, operator)
        self._depth = depth
        return left

    def _negative(self) -> Expression:
        if not self._accept("-"):
            return self._atom()
        token = self._peek
        node = self._atom()
        self._must_be_number(node, token)
        if isinstance(node, Number):
            return Number(-node.value, node.unit)
        return Negative(node)

    def _atom(self) -> Expression:
        token = self._take()
        if token.kind == "number":
            return Number(float(token.text), self._unit(token))
        if token.text == "(":
            self._deeper()
            node = self._implies()
            self._depth -= 1
            self._expect(")")
            return node
        if token.text in ("true", "false") and token.kind == "name":
            return Constant(token.text == "true")
        if token.kind != "name" or token.text in self.keywords:
            problem = f"expected a signal or a number, found {token}"
            mend = "write a condition such as speed > 5 km/h"
            if token.text == ",":
                mend = "remove the ','"
            self._fail(problem, token, mend=mend)
        if self._peek.text == "(" and self._peek.kind == "symbol":
            return self._application(token)
        if token.text == "count" and self._accept("["):
            return self._count()
        return self._name(token)

    def _unit(self, number: Token) -> str:
        signals = self._vocabulary.signals.values() if self._vocabulary else ()
        own = {signal.unit for signal in signals if signal.unit}
        known = {*UNITS, *own} - {""}
        pattern = "|".join(re.escape(u) for u in sorted(known, key=len, reverse=True))
        match = re.compile(rf"\s*({pattern})(?![\w/²^])").match(self._text, number.end)
        if match is None:
            token = self._peek
            known_word = token.text in self.keywords | self.operators | _STEP_WORDS
            if token.kind == "name" and not known_word:
                word = _WORD.match(self._text, token.start)
                written = word.group() if word else token.text
                mend = close_unit(written)
                if not mend and 0 < len(own) <= _FEW_UNITS:
                    mend = f"the vocabulary has the units {', '.join(sorted(own))}"
                mend = (
                    mend
                    or near_miss(written, known)
                    or (
                        "use a unit such as km/h, m or s, or join conditions with and, "
                        "or, ->"
                    )
                )
                self._fail(f"{written!r} is not a unit", mend=mend)
            return ""
        while self._peek.start < match.end() and self._peek.kind != "end":
            self._take()
        return match.group(1)

    def _application(self, name: Token) -> Expression:
        self._expect("(")
        if name.text in FUNCTIONS:
            arguments = [self._number()]
            while self._accept(","):
                arguments.append(self._number())
            self._expect(")")
            fewest, most = FUNCTIONS[name.text]
            if not fewest <= len(arguments) <= most:
                takes = f"{fewest} to {most} arguments" if most > 1 else "1 argument"
                mend = f"write {name.text}({', '.join('xy'[:fewest])})"
                self._fail(f"{name.text} takes {takes}", name, mend=mend)
            node = Call(name.text, tuple(arguments))  # type: ignore[arg-type]
            self._check_units(node, name)
            return node
        if name.text == "curve":
            return self._curve()
        if name.text in _PAST and self.remembers:
            return self._past(name)
        if name.text in OF_TEXT:
            mend = f'write signal {name.text} "…"'
            self._fail(f"{name.text} must come after a signal", name, mend=mend)
        words = [self._object(name)]
        while self._accept(","):
            words.append(self._object(name))
        self._expect(")")
        self._check_predicate(name, len(words))
        return ObjectPredicate(name.text, tuple(words))

    def _past(self, name: Token) -> Expression:
        operand = self._number()
        self._expect(",")
        token = self._peek
        span = self._negative()
        seconds = isinstance(span, Number) and span.unit == "s"
        if not seconds or not 0 < span.value <= MAX_SPAN_S:  # type: ignore[attr-defined]
            mend = f"write {name.text}(x, 0.5 s), with up to {MAX_SPAN_S:g} s"
            self._fail("expected a number of seconds", token, mend=mend)
        self._expect(")")
        return LookBack(name.text, operand, span)  # type: ignore[arg-type]

    def _count(self) -> LookBack:
        """Parses a count after its opening bracket, such as `0, 60 s](failed)`."""
        mend = "write count[0, 60 s](condition) <= 3"
        token = self._peek
        low = self._take()
        if low.kind == "number" and float(low.text) == 0 and self._accept(","):
            token = self._peek
            low = self._take()
        unit = self._take().text
        seconds = float(low.text) * _CLOCK.get(unit, 0) if low.kind == "number" else 0
        if not 0 < seconds <= MAX_COUNTED_S or not self._accept("]"):
            upto = f"a time span that ends now, up to {MAX_COUNTED_S:g} s"
            self._fail(f"a count must cover {upto}", token, mend=mend)
        if self._peek.text != "(":
            self._fail(f"expected '(', found {self._peek}", mend=mend)
        token = self._peek
        operand = self._counted()
        if any(isinstance(node, LookBack) for node in operand.walk()):
            mend = "count a condition on the current frame"
            self._fail(
                "a counted condition cannot itself look back in time", token, mend=mend
            )
        return LookBack("count", operand, Number(seconds, "s"))

    def _object(self, predicate: Token) -> str:
        token = self._take()
        if token.kind != "name":
            self._check_predicate(predicate)
            problem = f"expected an object's name, found {token}"
            mend = "write objects as in is_open(Microwave)"
            if token.kind == "text":
                mend = 'compare texts with signal starts_with "…" or matches "…"'
            self._fail(problem, token, mend=mend)
        return token.text

    def _check_predicate(self, name: Token, count: int | None = None) -> None:
        if self._vocabulary is None:
            return
        known = self._vocabulary.predicates
        if name.text not in known:
            names = [*known, *FUNCTIONS, "bands"]
            mend = near_miss(name.text, names) or self._has(known or FUNCTIONS)
            problem = f"{name.text!r} is not a predicate or function"
            self._fail(problem, name, mend=mend)
        arities = known[name.text].arities
        if count is not None and count not in arities:
            takes = " or ".join(map(str, arities))
            problem = f"{name.text} takes {takes} arguments, not {count}"
            self._fail(problem, name, mend=f"give {takes} objects")

    def _name(self, token: Token) -> Expression:
        if token.text in self._definitions:
            return self._definitions[token.text]
        if token.text in _OF_LAWS and self._peek.text == "[":
            mend = "put it in a law; for earlier values, use lag_s or latch"
            self._fail(f"{token.text} applies to several moments", token, mend=mend)
        if self._vocabulary is None:
            return Name(token.text)
        declared = self._vocabulary.signals.get(token.text)
        if declared is None:
            alias = self._vocabulary.aliases.get(token.text)
            known = [*self._vocabulary.signals, *self._definitions]
            mend = f"write {alias.signal}" if alias else near_miss(token.text, known)
            if token.text in ("None", "null"):
                mend = "write `is none` or `is not none`"
            elif token.text in ("t", "time", "time_s"):
                mend = "time is no signal: write an interval, as in always[2 s,] (…)"
            elif token.text in _CLOCK | {"h": 0} and self._at > 1:
                before = self._tokens[self._at - 3 : self._at - 1]
                if [each.text for each in before][1:] == ["/"]:
                    mend = f"write {before[0].text}/{token.text} without spaces"
            problem = f"unknown signal {token.text!r}"
            self._fail(problem, token, mend=mend or self._has(known))
        return Name(token.text, declared.unit or "")

    def _has(self, known: Iterable[str]) -> str:
        """Returns a hint for `mend` that lists the first known names."""
        some = list(itertools.islice(known, 7))
        more = ", …" if len(some) > 6 else ""
        name = self._vocabulary.name if self._vocabulary else ""
        return f"the vocabulary {name} has {', '.join(some[:6]) or 'none'}{more}"
