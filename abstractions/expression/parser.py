"""Text to expression trees: recursive descent, one method a level of precedence.

The formula language of `monitors` extends this parser with temporal operators.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from forewarn.abstractions.errors import InvalidExpression, near_miss
from forewarn.abstractions.expression.lexer import Cursor, Token
from forewarn.abstractions.expression.tree import (
    MIRRORED,
    And,
    Arithmetic,
    Call,
    Choice,
    Compare,
    Constant,
    Curve,
    Expression,
    Implies,
    IsNone,
    Name,
    Negative,
    Not,
    Number,
    ObjectPredicate,
    Or,
    Past,
    Text,
    within,
)
from forewarn.abstractions.expression.typing import common_unit, unit_of
from forewarn.abstractions.vocabularies.units import UNITS

if TYPE_CHECKING:
    from forewarn.abstractions.vocabularies.vocabulary import Signal, Vocabulary

_FUNCTIONS = {"abs": (1, 1), "min": (2, 8), "max": (2, 8)}
_PAST = ("ago", "least", "most")
_STEP_WORDS = {"below", "else"}
_KEYWORDS = {"and", "or", "not", "true", "false", "is", "none"}
_WORD = re.compile(r"[\w/²^%°]+")
_NUMERIC = (Number, Arithmetic, Negative, Call, Curve, Choice, Past)
MAX_SPAN_S = 60.0
"""No while that is remembered is longer."""

MAX_DEPTH = 40
"""How deep parentheses and operators may nest; a level takes some 16 Python frames."""


def parse_expression(
    text: str,
    vocabulary: Vocabulary | None = None,
    definitions: Mapping[str, Expression] | None = None,
) -> Expression:
    """Parses a Boolean expression over signals.

    Args:
        text: For example `speed > 30 km/h and traffic_light == red`.
        vocabulary: Gives types and units. Without one any name is accepted: as
            a number where it is compared, as a truth value where it stands alone.
        definitions: Names that stand for expressions already parsed.

    Raises:
        InvalidExpression: With the column and what was expected there.
    """
    return ExpressionParser(text, vocabulary, definitions).parse()


def parse_quantity(text: str, vocabulary: Vocabulary | None = None) -> Expression:
    """Parses a number over signals, in whatever unit."""
    return ExpressionParser(text, vocabulary).parse_quantity()


def parse_score(text: str, vocabulary: Vocabulary | None = None) -> Expression:
    """Parses a number over signals that has no unit, as a score is."""
    return ExpressionParser(text, vocabulary).parse_quantity(plain=True)


class ExpressionParser(Cursor):
    """One parse of one text."""

    keywords: frozenset[str] = frozenset(_KEYWORDS)
    operators: frozenset[str] = frozenset()  # words like units that may follow a number
    remembers = True  # whether `ago`, `least` and `most` may be said

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

    def parse(self) -> Expression:
        """The whole text as one truth-valued expression."""
        node = self._truth(self._implies)
        if self._peek.kind != "end":
            problem = f"expected an operator before {self._peek}"
            self._fail(problem, mend="conditions are joined by and, or, ->")
        return node

    def parse_quantity(self, plain: bool = False) -> Expression:
        """The whole text as one number; plain: without unit."""
        node = self._plain_number() if plain else self._number()
        if self._peek.kind != "end":
            self._fail(f"expected an operator before {self._peek}", mend="add a +")
        return node

    # -- truth-valued levels ----------------------------------------------------

    def _truth(self, level: Callable[[], Expression]) -> Expression:
        """What `level` parses, which must have a truth value."""
        token = self._peek
        self._deeper()
        node = level()
        self._depth -= 1
        self._check_truth(node, token)
        return node

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            mend = "split it into simpler conditions"
            self._fail(f"nested more than {MAX_DEPTH} deep", mend=mend)

    def _check_truth(self, node: Expression, token: Token) -> None:
        if isinstance(node, _NUMERIC):
            mend = f"compare it, as in {within(node, 7)} > 0"
            self._fail(f"{node!r} is a number, not a condition", token, mend=mend)
        declared = self._declared(node)
        if declared and declared.type != "bool":
            example = "> 0" if declared.type == "number" else "== red"
            if declared.values:
                example = f"== {declared.values[0]}"
            mend = f"compare it, as in {declared.name} {example}"
            problem = f"{declared.name} is not a condition by itself"
            self._fail(problem, token, mend=mend)

    def _implies(self) -> Expression:
        token = self._peek
        left = self._or()
        if self._accept("->"):
            self._check_truth(left, token)
            return Implies(left, self._truth(self._implies))
        return left

    def _or(self) -> Expression:
        return self._chain("or", self._and, Or)

    def _and(self) -> Expression:
        return self._chain("and", self._binary, And)

    def _chain(
        self, word: str, level: Callable[[], Expression], node: type[And | Or]
    ) -> Expression:
        token = self._peek
        first = level()
        if self._peek.text != word:
            return first
        self._check_truth(first, token)
        parts = [first]
        while self._accept(word):
            parts.append(self._truth(level))
        return node(tuple(parts))

    def _binary(self) -> Expression:
        """Where temporal operators between two operands come in."""
        return self._unary()

    def _unary(self) -> Expression:
        if self._accept("not"):
            return Not(self._truth(self._unary))
        return self._comparison()

    # -- comparisons --------------------------------------------------------------

    def _comparison(self) -> Expression:
        start = self._peek
        left = self._sum()
        if self._accept("is"):
            negated = self._accept("not")
            self._expect("none")
            if not isinstance(left, Name):
                mend = "write it of one signal, as in lead_distance is none"
                self._fail("only a signal can be none", start, mend=mend)
            return Not(IsNone(left)) if negated else IsNone(left)
        operator = self._accept("<", "<=", ">", ">=", "==", "!=")
        if operator is None:
            return left
        node = self._compare(start, left, operator)
        if self._accept("<", "<=", ">", ">=", "==", "!="):
            self._at -= 1
            self._fail("comparisons do not chain", mend="write a < b and b < c")
        return node

    def _compare(self, start: Token, left: Expression, operator: Token) -> Expression:
        equality = operator.text in ("==", "!=")
        declared = self._declared(left)
        kind = declared.type if declared else None
        if equality and self._may_be_bool(left, kind):
            truth = self._accept("true", "false")
            if truth is None and (kind == "bool" or isinstance(left, ObjectPredicate)):
                truth = self._peek
                if truth.text not in ("0", "1"):
                    self._fail(f"{left!r} is true or false", mend=f"write {left!r}")
                self._take()
            if truth is not None:
                holds = (truth.text in ("true", "1")) == (operator.text == "==")
                return left if holds else Not(left)
        if equality and isinstance(left, Name) and kind != "number":
            text = self._enum_value(left, declared)
            if text is not None:
                return Compare(operator.text, left, text)  # type: ignore[arg-type]
        self._must_be_number(left, start)
        token = self._peek
        right = self._sum()
        self._must_be_number(right, token)
        node = Compare(operator.text, left, right)  # type: ignore[arg-type]
        self._check_units(node, operator)
        if isinstance(left, Number) and isinstance(right, Name):
            return Compare(MIRRORED[node.operator], right, left)
        return node

    def _may_be_bool(self, node: Expression, kind: str | None) -> bool:
        named = isinstance(node, Name | ObjectPredicate)
        return named and kind in (None, "bool")

    def _declared(self, node: Expression) -> Signal | None:
        if self._vocabulary and isinstance(node, Name):
            return self._vocabulary.signals.get(node.name)
        return None

    def _enum_value(self, left: Name, declared: Signal | None) -> Text | None:
        token = self._peek
        if declared is None or not declared.values:
            if token.kind == "text":
                self._take()
                return Text(token.text[1:-1])
            following = self._tokens[min(self._at + 1, len(self._tokens) - 1)]
            bare = token.kind == "name" and token.text not in self.keywords
            if bare and token.text not in _FUNCTIONS and following.text not in "+-*/(":
                self._take()
                return Text(token.text)
            return None
        values = declared.values
        word = token.text.strip('"')
        if word not in values:
            mend = near_miss(word, values) or f"it is one of {', '.join(values)}"
            self._fail(f"{left.name} is never {word!r}", mend=mend)
        self._take()
        return Text(word)

    def _must_be_number(self, node: Expression, token: Token) -> None:
        declared = self._declared(node)
        numeric = isinstance(node, (*_NUMERIC, Name))
        if not numeric or (declared and declared.type != "number"):
            mend = "numbers go with + - * / < > ==, conditions with and, or, not, ->"
            self._fail(f"{node!r} is not a number", token, mend=mend)

    def _check_units(self, node: Expression, token: Token) -> None:
        try:
            common_unit(node)
        except InvalidExpression as error:
            mend = error.mend
            if self._vocabulary is None:
                mend = "name the vocabulary that has it, as in vocabulary: driving"
            self._fail(error.problem, token, mend=mend)

    # -- numbers --------------------------------------------------------------------

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
            self._fail(problem, token, mend="write a condition such as speed > 5 km/h")
        if self._peek.text == "(" and self._peek.kind == "symbol":
            return self._application(token)
        return self._name(token)

    def _unit(self, number: Token) -> str:
        known = set(UNITS) - {""}
        if self._vocabulary:
            known |= {s.unit for s in self._vocabulary.signals.values() if s.unit}
        pattern = "|".join(re.escape(u) for u in sorted(known, key=len, reverse=True))
        match = re.compile(rf"\s*({pattern})(?![\w/²^])").match(self._text, number.end)
        if match is None:
            token = self._peek
            known_word = token.text in self.keywords | self.operators | _STEP_WORDS
            if token.kind == "name" and not known_word:
                word = _WORD.match(self._text, token.start)
                written = word.group() if word else token.text
                mend = near_miss(written, known) or "an operator may be missing"
                self._fail(f"{written!r} is not a unit", mend=mend)
            return ""
        while self._peek.start < match.end() and self._peek.kind != "end":
            self._take()
        return match.group(1)

    def _application(self, name: Token) -> Expression:
        self._expect("(")
        if name.text in _FUNCTIONS:
            arguments = [self._number()]
            while self._accept(","):
                arguments.append(self._number())
            self._expect(")")
            fewest, most = _FUNCTIONS[name.text]
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
        words = [self._object()]
        while self._accept(","):
            words.append(self._object())
        self._expect(")")
        self._check_predicate(name, len(words))
        return ObjectPredicate(name.text, tuple(words))

    def _curve(self) -> Expression:
        """The steps of a curve, after its opening parenthesis."""
        start = self._peek
        self._deeper()
        operand = self._implies()
        self._depth -= 1
        numeric = isinstance(operand, (*_NUMERIC, Name))
        declared = self._declared(operand)
        if not numeric or (declared is not None and declared.type == "bool"):
            return self._choice(operand, start)
        self._must_be_number(operand, start)
        bounds: list[Number] = []
        values: list[Expression] = []
        absent: Expression | None = None
        self._expect(",")
        while True:
            values.append(self._plain_number())
            if not self._accept("below"):
                break
            token = self._peek
            bounds.append(self._step_end(operand, token))
            if len(bounds) > 1 and not bounds[-2].value < bounds[-1].value:
                self._fail("the steps of a curve rise", token, mend="order them")
            self._expect(",")
        self._expect("else")
        if self._accept(","):
            absent = self._plain_number()
            self._expect("none")
        self._expect(")")
        return Curve(operand, tuple(bounds), tuple(values), absent)

    def _choice(self, condition: Expression, start: Token) -> Expression:
        self._check_truth(condition, start)
        self._expect(",")
        if self._peek.text == "true":
            self._fail("a number comes first", mend="write 0.3 true, 0 else")
        holding = self._plain_number()
        self._expect("true")
        self._expect(",")
        otherwise = self._plain_number()
        self._expect("else")
        self._expect(")")
        return Choice(condition, holding, otherwise)

    def _step_end(self, operand: Expression, token: Token) -> Number:
        bound = self._negative()
        if not isinstance(bound, Number):
            self._fail("a step ends at a number", token, mend="write 0.4 below 2 s")
        try:
            common_unit(Compare("<", operand, bound))
        except InvalidExpression as error:
            self._fail(error.problem, token, mend=error.mend)
        return bound

    def _plain_number(self) -> Expression:
        token = self._peek
        node = self._number()
        if (found := unit_of(node)) is not None and found.powers:
            self._fail(f"{node!r} is more than a number", token, mend="drop its unit")
        return node

    def _past(self, name: Token) -> Expression:
        operand = self._number()
        self._expect(",")
        token = self._peek
        span = self._negative()
        seconds = isinstance(span, Number) and span.unit == "s"
        if not seconds or not 0 < span.value <= MAX_SPAN_S:  # type: ignore[attr-defined]
            mend = f"write {name.text}(x, 0.5 s), with up to {MAX_SPAN_S:g} s"
            self._fail("a while is some seconds", token, mend=mend)
        self._expect(")")
        return Past(name.text, operand, span)  # type: ignore[arg-type]

    def _number(self) -> Expression:
        token = self._peek
        self._deeper()
        node = self._sum()
        self._depth -= 1
        self._must_be_number(node, token)
        return node

    def _object(self) -> str:
        token = self._take()
        if token.kind != "name":
            problem = f"expected an object's name, found {token}"
            self._fail(problem, token, mend="write objects as in is_open(Microwave)")
        return token.text

    def _check_predicate(self, name: Token, count: int) -> None:
        if self._vocabulary is None:
            return
        known = self._vocabulary.predicates
        if name.text not in known:
            mend = near_miss(name.text, [*known, *_FUNCTIONS]) or self._has(known)
            problem = f"{name.text!r} is not a predicate or function"
            self._fail(problem, name, mend=mend)
        arities = known[name.text].arities
        if count not in arities:
            takes = " or ".join(map(str, arities))
            problem = f"{name.text} takes {takes} arguments, not {count}"
            self._fail(problem, name, mend=f"name {takes} objects")

    def _name(self, token: Token) -> Expression:
        if token.text in self._definitions:
            return self._definitions[token.text]
        if self._vocabulary is None:
            return Name(token.text)
        declared = self._vocabulary.signals.get(token.text)
        if declared is None:
            alias = self._vocabulary.aliases.get(token.text)
            known = [*self._vocabulary.signals, *self._definitions]
            mend = f"write {alias.signal}" if alias else near_miss(token.text, known)
            problem = f"unknown signal {token.text!r}"
            self._fail(problem, token, mend=mend or self._has(known))
        return Name(token.text, declared.unit or "")

    def _has(self, known: Iterable[str]) -> str:
        """A hint for `mend` where no name is close: the first that there are."""
        some = list(itertools.islice(known, 7))
        more = ", …" if len(some) > 6 else ""
        return f"the vocabulary has {', '.join(some[:6]) or 'none'}{more}"
