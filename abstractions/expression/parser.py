"""A recursive descent parser for expressions, with one method per level of precedence.

The parser for formulas in `monitors` extends this parser with temporal operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from forewarn.abstractions.errors import InvalidExpression, near_miss
from forewarn.abstractions.expression.pattern import pattern
from forewarn.abstractions.expression.terms import FUNCTIONS, NUMERIC, TermParser, Token
from forewarn.abstractions.expression.tree import (
    EQUALITIES,
    MIRRORED,
    OF_TEXT,
    And,
    Compare,
    Conditional,
    Curve,
    Expression,
    Implies,
    IsNone,
    LookBack,
    Name,
    Not,
    Number,
    ObjectPredicate,
    Or,
    Text,
    common_unit,
    within,
)

if TYPE_CHECKING:
    from forewarn.abstractions.vocabularies.vocabulary import Signal, Vocabulary


def parse_expression(
    text: str,
    vocabulary: Vocabulary | None = None,
    definitions: Mapping[str, Expression] | None = None,
) -> Expression:
    """Parses a Boolean expression over signals.

    Args:
        text: The expression, such as `speed > 30 km/h and traffic_light == red`.
        vocabulary: Declares types and units. Without a vocabulary, any name is
            accepted, as a number in a comparison and as a Boolean elsewhere.
        definitions: Parsed expressions that replace names in the text.

    Raises:
        InvalidExpression: The text is not a valid expression.
    """
    return ExpressionParser(text, vocabulary, definitions).parse()


def parse_quantity(text: str, vocabulary: Vocabulary | None = None) -> Expression:
    """Parses a numeric expression over signals, in any unit."""
    return ExpressionParser(text, vocabulary).parse_quantity()


def parse_score(text: str, vocabulary: Vocabulary | None = None) -> Expression:
    """Parses a numeric expression without a unit."""
    return ExpressionParser(text, vocabulary).parse_quantity(plain=True)


class ExpressionParser(TermParser):
    """Parses one text."""

    def parse(self) -> Expression:
        """Parses the whole text as a Boolean expression."""
        node = self._truth(self._implies)
        if self._peek.kind != "end":
            problem = f"expected an operator before {self._peek}"
            self._fail(problem, mend="join conditions with and, or, ->")
        return node

    def parse_quantity(self, plain: bool = False) -> Expression:
        """Parses the whole text as a numeric expression, without a unit if `plain` is
        true.
        """
        node = self._plain_number() if plain else self._number()
        if self._peek.kind != "end":
            self._fail(f"expected an operator before {self._peek}", mend="add a +")
        return node

    # -- Boolean levels ----------------------------------------------------

    def _truth(self, level: Callable[[], Expression]) -> Expression:
        """Parses an expression by the method `level`; the result must be Boolean."""
        token = self._peek
        self._deeper()
        node = level()
        self._depth -= 1
        self._check_truth(node, token)
        return node

    def _check_truth(self, node: Expression, token: Token) -> None:
        if isinstance(node, NUMERIC):
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
        """Parses an operand of `and`; overridden to parse binary temporal operators."""
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
            if self._accept("none") is None:
                mend, word = "write `is none` or `is not none`", self._peek.text
                if self._peek.kind == "name" and word not in ("None", "null"):
                    mend = f"write {left!r} {'!=' if negated else '=='} {word}"
                self._fail(f"expected none, found {self._peek}", mend=mend)
            if not isinstance(left, Name):
                mend = "name one signal, as in lead_distance is none"
                self._fail("only a signal can be none", start, mend=mend)
            return Not(IsNone(left)) if negated else IsNone(left)
        operator = self._accept("<", "<=", ">", ">=", "==", "!=")
        if operator is None:
            return self._of_texts(start, left)
        node = self._compare(start, left, operator)
        if self._accept("<", "<=", ">", ">=", "==", "!="):
            self._at -= 1
            self._fail("comparisons cannot be chained", mend="write a < b and b < c")
        return node

    def _of_texts(self, start: Token, left: Expression) -> Expression:
        """Parses `in`, `starts_with` or `matches` after `left`; returns `left` if none
        follows.
        """
        ahead = self._tokens[min(self._at + 1, len(self._tokens) - 1)]
        negated = self._peek.text == "not" and ahead.text == "in"
        if negated:
            self._take()
        if self._accept("in"):
            found = self._among(start, left)
            return Not(found) if negated else found
        operator = self._accept(*OF_TEXT)
        if operator is None and self._peek.text == "contains":
            mend = f'write {left!r} matches "…"'
            self._fail("'contains' is not an operator", mend=mend)
        if operator is None:
            return left
        declared = self._declared(left)
        if not isinstance(left, Name) or (declared and declared.type != "enum"):
            mend = f'name one signal, as in arg_path {operator.text} "/tmp/"'
            self._fail(f"{left!r} is not a text signal", start, mend=mend)
        token = self._take()
        if token.kind != "text":
            mend = f'write {left.name} {operator.text} "…"'
            self._fail(
                f"{operator.text} must be followed by a quoted text", token, mend=mend
            )
        text = token.text[1:-1]
        if operator.text == "matches":
            try:
                pattern(text)
            except InvalidExpression as error:
                mend = f"in {error.place}, {error.mend}"
                self._fail(error.problem, token, mend=mend)
        return Compare(operator.text, left, Text(text))  # type: ignore[arg-type]

    def _among(self, start: Token, left: Expression) -> Expression:
        """Parses the list after `in` as a disjunction of equalities."""
        mend = f"write {left!r} in [a, b]"
        closing = {"[": "]", "(": ")", "{": "}"}
        opened = self._accept(*closing)
        if opened is None:
            self._fail(f"expected a list, found {self._peek}", mend=mend)
        equal = Token("symbol", "==", start.start, start.end)
        parts = [self._compare(start, left, equal)]
        while self._accept(","):
            parts.append(self._compare(start, left, equal))
        if not self._accept(closing[opened.text]):
            if self._peek.kind == "name":
                mend = "put names with spaces in double quotes"
            self._fail(f"expected , or {closing[opened.text]}", mend=mend)
        return Or(tuple(parts)) if parts[1:] else parts[0]

    def _counted(self) -> Expression:
        self._expect("(")
        operand = self._truth(self._implies)
        self._expect(")")
        return operand

    def _compare(self, start: Token, left: Expression, operator: Token) -> Expression:
        equality = operator.text in EQUALITIES
        declared = self._declared(left)
        values = declared.values if declared else ()
        if self._peek.text == "none" and "none" not in values:
            mend = f"write {left!r} is {'not ' * (operator.text == '!=')}none"
            self._fail("none cannot be compared", mend=mend)
        kind = declared.type if declared else None
        if equality and self._may_be_bool(left, kind):
            truth = self._accept("true", "false")
            if truth is None and (kind == "bool" or isinstance(left, ObjectPredicate)):
                truth = self._peek
                if truth.text not in ("0", "1"):
                    self._fail(
                        f"{left!r} is Boolean: compare it with true, false, 0 or 1",
                        mend=f"write {left!r}",
                    )
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
        counted = isinstance(left, LookBack) and left.function == "count"
        if counted and isinstance(right, Number) and right.unit:
            mend = f"write {right.value:g}: it is compared with a number of frames"
            self._fail("a count has no unit", token, mend=mend)
        node = Compare(operator.text, left, right)  # type: ignore[arg-type]
        self._check_units(node, operator)
        if isinstance(left, Number) and isinstance(right, Name):
            return Compare(MIRRORED[node.operator], right, left)
        return node

    def _may_be_bool(self, node: Expression, kind: str | None) -> bool:
        named = isinstance(node, Name | ObjectPredicate)
        return named and kind in (None, "bool")

    def _enum_value(self, left: Name, declared: Signal | None) -> Text | None:
        token = self._peek
        if declared is None or not declared.values:
            if token.kind == "text":
                self._take()
                return Text(token.text[1:-1])
            following = self._tokens[min(self._at + 1, len(self._tokens) - 1)]
            bare = token.kind == "name" and token.text not in self.keywords
            if bare and token.text not in FUNCTIONS and following.text not in "+-*/(":
                self._take()
                return Text(token.text)
            return None
        values = declared.values
        word = token.text.strip('"')
        if word not in values:
            mend = near_miss(word, values) or f"use one of {', '.join(values)}"
            self._fail(f"{word!r} is not a value of {left.name}", mend=mend)
        self._take()
        return Text(word)

    # -- curves ---------------------------------------------------------------------

    def _curve(self) -> Expression:
        """Parses a curve after its opening parenthesis."""
        start = self._peek
        self._deeper()
        operand = self._implies()
        self._depth -= 1
        self._expect(",")
        if self._peek.text == "true":
            mend = "write 0.3 true, 0 else"
            self._fail("the number must come before true", mend=mend)
        first = self._plain_number()
        declared = self._declared(operand)
        named = isinstance(operand, Name)
        numeric = named and (declared is None or declared.type != "bool")
        # Without a vocabulary, only the steps show whether a signal is Boolean.
        if not (numeric or isinstance(operand, NUMERIC)) or (
            named and declared is None and self._peek.text == "true"
        ):
            return self._choice(operand, first, start)
        self._must_be_number(operand, start)
        values, bounds = [first], list[Number]()
        while self._accept("below"):
            token = self._peek
            bounds.append(self._step_end(operand, token))
            if len(bounds) > 1 and not bounds[-2].value < bounds[-1].value:
                self._fail(
                    "the steps of a curve must be in ascending order",
                    token,
                    mend="sort the steps",
                )
            self._expect(",")
            values.append(self._plain_number())
        self._expect("else")
        absent: Expression | None = None
        if self._accept(","):
            absent = self._plain_number()
            self._expect("none")
        self._expect(")")
        return Curve(operand, tuple(bounds), tuple(values), absent)

    def _choice(
        self, condition: Expression, holding: Expression, start: Token
    ) -> Expression:
        self._check_truth(condition, start)
        self._expect("true")
        self._expect(",")
        otherwise = self._plain_number()
        self._expect("else")
        self._expect(")")
        return Conditional(condition, holding, otherwise)

    def _step_end(self, operand: Expression, token: Token) -> Number:
        bound = self._negative()
        if not isinstance(bound, Number):
            self._fail(
                "the bound of a step must be a number",
                token,
                mend="write 0.4 below 2 s",
            )
        try:
            common_unit(Compare("<", operand, bound))
        except InvalidExpression as error:
            self._fail(error.problem, token, mend=error.mend)
        return bound
