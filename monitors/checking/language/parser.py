"""Reads properties in the style of PRISM and Storm, with the column of each error.

Weakest first: a path operator, `=>`, `<=>`, `|`, `&`, then `!`, `EF` and its kin. So
`F a & b` is `F (a & b)`, as in PRISM, and `EF a & b` is `(EF a) & b`, as in CTL.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NoReturn, cast

from forewarn.abstractions.errors import TooLarge
from forewarn.monitors.checking.language.properties import (
    TRUE,
    Bound,
    Compare,
    Conditional,
    Constant,
    Junction,
    Name,
    Not,
    PathOperator,
    Probability,
    Quantified,
    Quantifier,
    Relation,
    StateFormula,
    Temporal,
    opposite,
)
from forewarn.monitors.checking.language.tokens import (
    KEYWORDS,
    PATH_OPERATORS,
    RELATIONS,
    Token,
    Tokens,
)

MAX_STEPS = 10_000_000
"""No horizon in a property may be larger."""

_CTL = re.compile("[EA][XFG]")


@dataclass(frozen=True, slots=True)
class _Path:
    """A path formula as it is read, before it is known to stand in P, E or A."""

    formula: Temporal
    column: int


_Node = StateFormula | _Path


def parse_property(text: str, source: str = "") -> StateFormula:
    """The property that a text says.

    Args:
        text: Such as `P=? [ F<=20 "unsafe" ]`, `P>=0.9 [ ... ]` or `AG !"unsafe"`.
        source: What to call the text in an error; the text itself if empty.

    Raises:
        InvalidProperty: With the column and, where there is one, the likely mend.
    """
    return _Parser(text, source or _clipped(text)).whole()


def _clipped(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:57] + "..."


class _Parser(Tokens):
    """One method a level of binding, weakest first."""

    def whole(self) -> StateFormula:
        if self.peek.kind == "end":
            self.fail("the property is empty", self.peek)
        node = self._expression()
        if self.peek.kind != "end":
            self.unexpected("the end of the property")
        if isinstance(node, _Path):
            self._outside(node)
        return node

    def _expression(self) -> _Node:
        self.down()
        node = self._unary_path()
        operator = self.accept("U", "W", "R")
        if operator is not None:
            left, bound = self._as_state(node), self._bound()
            right = self._state(self._unary_path)
            name = cast(PathOperator, operator.text)
            node = _Path(Temporal(name, left, right, bound), operator.column)
        self.up()
        return node

    def _unary_path(self) -> _Node:
        operator = self.accept("X", "F", "G")
        if operator is None:
            return self._implication()
        return _Path(
            self._one_operand(operator.text, self._unary_path), operator.column
        )

    def _one_operand(self, operator: str, read: Callable[[], _Node]) -> Temporal:
        start, bound = self.peek, self._bound()
        if operator == "X" and bound != Bound():
            self.fail("X looks exactly one step ahead and takes no horizon", start)
        return Temporal(cast(PathOperator, operator), TRUE, self._state(read), bound)

    def _implication(self) -> _Node:
        left = self._equivalence()
        if self.accept("=>") is None:
            return left
        self.down()
        right = self._state(self._implication)
        self.up()
        return Conditional("=>", self._as_state(left), right)

    def _equivalence(self) -> _Node:
        left, arrows = self._disjunction(), 0
        while self.accept("<=>"):
            self.down()
            arrows += 1
            right = self._state(self._disjunction)
            left = Conditional("<=>", self._as_state(left), right)
        self.up(arrows)
        return left

    def _disjunction(self) -> _Node:
        return self._junction("|", self._conjunction)

    def _conjunction(self) -> _Node:
        return self._junction("&", self._negation)

    def _junction(self, sign: Literal["&", "|"], read: Callable[[], _Node]) -> _Node:
        first = read()
        if self.peek.text != sign:
            return first
        inside = [self._as_state(first)]
        while self.accept(sign):
            inside.append(self._state(read))
        return Junction(sign, tuple(inside))

    def _negation(self) -> _Node:
        token = self.peek
        self.down()
        node: _Node
        if self.accept("!"):
            inner = self._negation()
            if isinstance(inner, _Path):
                node = _Path(opposite(inner.formula), inner.column)
            else:
                node = Not(self._as_state(inner))
        elif token.kind == "word" and _CTL.fullmatch(token.text):
            self.next()
            node = self._tight(token.text[0], token.text[1])
        elif token.text in ("E", "A") and self.second.text in ("X", "F", "G"):
            self.next()
            node = self._tight(token.text, self.next().text)
        else:
            node = self._primary()
        self.up()
        return node

    def _tight(self, quantifier: str, operator: str) -> Quantified:
        """`EF a` without brackets, which binds as tightly as a negation."""
        path = self._one_operand(operator, self._negation)
        return Quantified(cast(Quantifier, quantifier), path)

    def _primary(self) -> _Node:
        token = self.peek
        if self.accept("("):
            inner = self._expression()
            self.expect(")", "to close the parenthesis")
            return inner
        if token.kind == "text":
            self.next()
            if not token.quoted.strip():
                self.fail("the name between the quotes is empty", token)
            return Name(token.quoted, token.column)
        if token.kind == "number" or token.text == "-":
            return self._reversed_comparison()
        if token.kind == "word" and token.text not in PATH_OPERATORS:
            return self._word()
        if token.text == "R" and self.second.text in ("=?", *RELATIONS):
            return self._word()
        if token.kind == "word":
            self.fail(
                f"the path operator {token.text} cannot stand here",
                token,
                "one path operator in each P, E or A: nest P>=p [ ... ] for more",
            )
        self.unexpected("a state formula")

    def _word(self) -> _Node:
        token = self.next()
        following = self.peek.text
        if token.text in ("true", "false"):
            return Constant(token.text == "true")
        if token.text == "P":
            return self._probability(token)
        if token.text in ("E", "A"):
            return self._quantified(token)
        if token.text in ("Pmin", "Pmax"):
            self.fail(
                "a chain has no choices to minimise or maximise over", token, "write P"
            )
        if following == "=?" or token.text == "R":
            problem = f"{token.text}=? is not supported: only P=? asks for a number"
            self.fail(problem, token)
        if self.peek.kind == "sign" and following in RELATIONS:
            relation = cast(Relation, self.next().text)
            return Compare(token.text, relation, self._operand(), token.column)
        return Name(token.text, token.column)

    def _operand(self) -> int | str | Name:
        token = self.peek
        if token.kind == "text":
            self.next()
            return Name(token.quoted, token.column)
        if re.fullmatch("0[0-9]+", token.text):
            # No number is written so, but a state may well be called 010.
            return Name(self.next().text, token.column)
        if token.kind == "word" and token.text in ("true", "false"):
            self.next()
            return int(token.text == "true")
        if token.kind == "word" and token.text not in KEYWORDS:
            return self.next().text
        return self._whole_number("a variable is compared with a whole number")

    def _reversed_comparison(self) -> Compare:
        """`3 <= s`, which is `s >= 3`."""
        start = self.peek
        number = self._whole_number("a variable is compared with a whole number")
        relation = self.peek
        if relation.text not in RELATIONS:
            self.fail("a number alone is not a state formula", start)
        self.next()
        variable = self.peek
        if variable.kind != "word" or variable.text in KEYWORDS:
            self.unexpected("a variable of the model")
        self.next()
        mirrored = relation.text.translate(str.maketrans("<>", "><"))
        return Compare(variable.text, cast(Relation, mirrored), number, start.column)

    # Operators on paths

    def _probability(self, token: Token) -> Probability:
        if self.accept("=?"):
            return Probability(self._bracketed_path("P=?"), column=token.column)
        relation = self.accept("<", "<=", ">", ">=")
        if relation is None:
            mend = "write P=? or P>=0.9"
            self.fail("P says neither what to ask nor what to require", token, mend)
        limit = self._probability_value()
        path = self._bracketed_path(f"P{relation.text}{limit}")
        sign = cast(Relation, relation.text)
        return Probability(path, sign, limit, token.column)

    def _probability_value(self) -> Fraction:
        token = self.peek
        if self.accept("-"):
            self.fail("a probability is between 0 and 1", token)
        if token.kind != "number":
            self.unexpected("a probability")
        self.next()
        if len(token.text) > 40 or abs(_exponent(token.text)) > 400:
            self.fail("this number has too many digits", token)
        value = Fraction(token.text)
        if self.accept("/"):
            divisor = self._whole_number("a fraction is written as 3/4")
            if divisor == 0:
                self.fail("division by zero", token)
            value /= divisor
        if value > 1:
            self.fail(f"a probability is between 0 and 1, not {value}", token)
        return value

    def _quantified(self, token: Token) -> Quantified:
        kind = cast(Quantifier, token.text)
        if self.peek.text == "[":
            return Quantified(kind, self._bracketed_path(token.text))
        if self.peek.text == "(":
            node = self._primary()
            return Quantified(kind, self._as_path(node, token))
        mend = f"write {token.text} [ F ... ] or {token.text}F ..."
        self.fail(f"{token.text} needs a path formula in brackets", token, mend)

    def _bracketed_path(self, operator: str) -> Temporal:
        self.expect("[", f"after {operator}")
        start = self.peek
        node = self._expression()
        path = self._as_path(node, start)
        self.expect("]", f"to close the brackets of {operator}")
        return path

    def _bound(self) -> Bound:
        start = self.peek
        if self.accept("["):
            low = self._steps()
            self.expect(",", "between the two numbers")
            high = self._steps()
            self.expect("]", "after the two numbers")
            if high < low:
                self.fail(f"no step lies from {low} to {high}", start)
            return Bound(low, high)
        relation = self.accept("<", "<=", ">", ">=", "=")
        if relation is None:
            return Bound()
        steps = self._steps()
        match relation.text:
            case "<=":
                return Bound(0, steps)
            case "<":
                if steps == 0:
                    self.fail("no step lies before step 0", start, "write <=0")
                return Bound(0, steps - 1)
            case "=":
                return Bound(steps, steps)
            case ">=":
                return Bound(steps)
            case _:
                return Bound(steps + 1)

    def _steps(self) -> int:
        token = self.peek
        steps = self._whole_number("a horizon is a whole number of steps")
        if steps < 0:
            self.fail("a horizon counts steps and cannot be negative", token)
        if steps > MAX_STEPS:
            raise TooLarge(
                f"a horizon of {steps} steps is more than the limit of {MAX_STEPS}",
                source=self.source,
                place=f"column {token.column}",
                mend="leave the horizon out",
            )
        return steps

    def _whole_number(self, rule: str) -> int:
        start = self.peek
        negative = self.accept("-") is not None
        token = self.peek
        if token.kind != "number":
            self.unexpected("a whole number")
        if not token.text.isdecimal():
            self.fail(f"{rule}, not {token.text}", start)
        if len(token.text) > 18:
            self.fail("this number has too many digits", start)
        self.next()
        return -int(token.text) if negative else int(token.text)

    # Which kind of formula it is

    def _state(self, read: Callable[[], _Node]) -> StateFormula:
        return self._as_state(read())

    def _as_state(self, node: _Node) -> StateFormula:
        if isinstance(node, _Path):
            self._outside(node)
        if isinstance(node, Probability) and node.relation is None:
            self.fail(
                "P=? asks for a number and stands outermost only",
                Token("word", "P", node.column),
                "write P>=p [ ... ] inside another formula",
            )
        return node

    def _as_path(self, node: _Node, start: Token) -> Temporal:
        if isinstance(node, _Path):
            return node.formula
        mend = "such as F, G, X or U: P=? [ F ... ]"
        self.fail("the brackets hold no path operator", start, mend)

    def _outside(self, path: _Path) -> NoReturn:
        operator = path.formula.operator
        token = Token("word", operator, path.column)
        self.fail(
            f"the path operator {operator} stands outside of P, E and A",
            token,
            f"one path operator in each P, E or A: P=? [ {operator} ... ]",
        )


def _exponent(number: str) -> int:
    _, _, exponent = number.lower().partition("e")
    return int(exponent) if exponent else 0
