"""The nodes of expressions; the `repr` of a node parses back to an equal node."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import ClassVar, Literal

from forewarn.abstractions.errors import InvalidExpression
from forewarn.abstractions.vocabularies.signals import PLAIN, Unit, named_unit

Comparison = Literal["<", "<=", ">", ">=", "==", "!=", "starts_with", "matches"]

MIRRORED: dict[Comparison, Comparison] = {
    "<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!=",
}  # fmt: skip
EQUALITIES = ("==", "!=")
OF_TEXT = ("starts_with", "matches")

_PLAIN_WORD = re.compile(r"[^\W\d]\w*(#\d+)?")
_RESERVED = frozenset(
    "abs min max and or not true false is none"
    " always eventually once historically until since next".split()
)


class Expression:
    """The base class of nodes; `level` is the precedence, `children` are the
    operands.
    """

    __slots__ = ()
    level: ClassVar[int] = 10

    @property
    def children(self) -> tuple[Expression, ...]:
        """The operands, in the order of the fields."""
        found: list[Expression] = []
        for each in fields(self):  # type: ignore[arg-type]
            value = getattr(self, each.name)
            parts = value if isinstance(value, tuple) else (value,)
            found += [part for part in parts if isinstance(part, Expression)]
        return tuple(found)

    def walk(self) -> Iterator[Expression]:
        """Yields this node and all its descendants, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


def within(node: Expression, level: int) -> str:
    """Returns the text of `node` as an operand, in parentheses if its precedence is
    lower.
    """
    return f"({node!r})" if node.level < level else repr(node)


@dataclass(frozen=True, slots=True, repr=False)
class Constant(Expression):
    """`true` or `false`."""

    value: bool

    def __repr__(self) -> str:
        return "true" if self.value else "false"


@dataclass(frozen=True, slots=True, repr=False)
class Number(Expression):
    """A number, with the unit in which it was written."""

    value: float
    unit: str = ""

    def __repr__(self) -> str:
        text = repr(self.value).removesuffix(".0")
        return f"{text} {self.unit}" if self.unit else text


@dataclass(frozen=True, slots=True, repr=False)
class Text(Expression):
    """A text or the value of an enum, as in `traffic_light == red`."""

    value: str

    def __repr__(self) -> str:
        plain = _PLAIN_WORD.fullmatch(self.value) and self.value not in _RESERVED
        return self.value if plain else f'"{self.value}"'


@dataclass(frozen=True, slots=True, repr=False)
class Name(Expression):
    """A signal; `unit` is its unit in the vocabulary."""

    name: str
    unit: str = ""

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, repr=False)
class ObjectPredicate(Expression):
    """A Boolean signal about objects, as in `is_inside(Fork, Microwave)`."""

    name: str
    arguments: tuple[str, ...]

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(self.arguments)})"


@dataclass(frozen=True, slots=True, repr=False)
class IsNone(Expression):
    """`x is none`: the object that the signal describes is known to be absent."""

    operand: Name
    level: ClassVar[int] = 6

    def __repr__(self) -> str:
        return f"{self.operand!r} is none"


@dataclass(frozen=True, slots=True, repr=False)
class Compare(Expression):
    """A comparison of two numbers, or of a signal with a word, a prefix or a
    pattern.
    """

    operator: Comparison
    left: Expression
    right: Expression
    level: ClassVar[int] = 6

    def __repr__(self) -> str:
        right = within(self.right, 7)
        if self.operator in EQUALITIES and isinstance(self.right, Name):
            right = f"({right})"  # without parentheses, it could be parsed as a word
        if self.operator in OF_TEXT and isinstance(self.right, Text):
            right = f'"{self.right.value}"'
        return f"{within(self.left, 7)} {self.operator} {right}"


@dataclass(frozen=True, slots=True, repr=False)
class Arithmetic(Expression):
    """A sum, difference, product or quotient."""

    operator: Literal["+", "-", "*", "/"]
    left: Expression
    right: Expression

    @property
    def level(self) -> int:  # type: ignore[override]
        return 7 if self.operator in "+-" else 8

    def __repr__(self) -> str:
        left = within(self.left, self.level)
        return f"{left} {self.operator} {within(self.right, self.level + 1)}"


@dataclass(frozen=True, slots=True, repr=False)
class Negative(Expression):
    """The negation of a number."""

    operand: Expression
    level: ClassVar[int] = 9

    def __repr__(self) -> str:
        return f"-{within(self.operand, 10)}"


@dataclass(frozen=True, slots=True, repr=False)
class Call(Expression):
    """`abs(x)`, `min(x, y, …)` or `max(x, y, …)`."""

    function: Literal["abs", "min", "max"]
    arguments: tuple[Expression, ...]

    def __repr__(self) -> str:
        return f"{self.function}({', '.join(map(repr, self.arguments))})"


@dataclass(frozen=True, slots=True, repr=False)
class Curve(Expression):
    """A step function of a number: `curve(speed, 0.1 below 30 km/h, 0.4 else)`.

    Args:
        operand: The argument of the function.
        bounds: The upper bounds of all steps but the last, in ascending order.
        values: The value of each step; there is one more value than bounds.
        absent: The value if the operand is none; if not given, the result is none too.
    """

    operand: Expression
    bounds: tuple[Number, ...]
    values: tuple[Expression, ...]
    absent: Expression | None = None

    def __repr__(self) -> str:
        steps = zip(self.values, self.bounds, strict=False)
        parts = [f"{value!r} below {bound!r}" for value, bound in steps]
        parts.append(f"{self.values[-1]!r} else")
        if self.absent is not None:
            parts.append(f"{self.absent!r} none")
        return f"curve({self.operand!r}, {', '.join(parts)})"


@dataclass(frozen=True, slots=True, repr=False)
class Conditional(Expression):
    """A number that depends on whether a condition is true: `curve(braking, 0.3 true,
    -0.1 else)`.
    """

    condition: Expression
    holding: Expression
    otherwise: Expression

    def __repr__(self) -> str:
        cases = f"{self.holding!r} true, {self.otherwise!r} else"
        return f"curve({self.condition!r}, {cases})"


@dataclass(frozen=True, slots=True, repr=False)
class LookBack(Expression):
    """`ago(x, 0.5 s)`, `least(x, 1 s)`, `most(x, 1 s)`, `count[0, 60 s](failed)`.

    An expression over time depends on several frames. A `Reader` remembers the
    necessary values, and adds the result to the frame under the expression's text.
    `count` is the number of frames in the span, including the current one, in which the
    condition held.
    """

    function: Literal["ago", "least", "most", "count"]
    operand: Expression
    span: Number

    @property
    def span_s(self) -> float:
        return self.span.value

    def __repr__(self) -> str:
        if self.function == "count":
            return f"count[0, {self.span!r}]({self.operand!r})"
        return f"{self.function}({self.operand!r}, {self.span!r})"


@dataclass(frozen=True, slots=True, repr=False)
class Not(Expression):
    operand: Expression
    level: ClassVar[int] = 5

    def __repr__(self) -> str:
        return f"not {within(self.operand, 5)}"


@dataclass(frozen=True, slots=True, repr=False)
class And(Expression):
    parts: tuple[Expression, ...]
    level: ClassVar[int] = 3

    def __repr__(self) -> str:
        return " and ".join(within(part, 4) for part in self.parts)


@dataclass(frozen=True, slots=True, repr=False)
class Or(Expression):
    parts: tuple[Expression, ...]
    level: ClassVar[int] = 2

    def __repr__(self) -> str:
        return " or ".join(within(part, 3) for part in self.parts)


@dataclass(frozen=True, slots=True, repr=False)
class Implies(Expression):
    """`left -> right`."""

    left: Expression
    right: Expression
    level: ClassVar[int] = 1

    def __repr__(self) -> str:
        return f"{within(self.left, 2)} -> {within(self.right, 1)}"


def signals_of(expression: Expression) -> tuple[str, ...]:
    """Returns the names of the signals in the expression, in order of appearance."""
    found: dict[str, None] = {}
    for node in expression.walk():
        if isinstance(node, Name):
            found[node.name] = None
        elif isinstance(node, ObjectPredicate):
            found[repr(node)] = None
    return tuple(found)


def atoms(node: Expression) -> Iterator[Expression]:
    """Yields the atoms of an expression: operands of Boolean operators that are not
    Boolean operators themselves.
    """
    if isinstance(node, Not | And | Or | Implies):
        for child in node.children:
            yield from atoms(child)
    else:
        yield node


def unit_of(node: Expression) -> Unit | None:
    """Returns the unit of a number; None if it adopts the unit of the other operand."""
    match node:
        case Number(unit=name):
            return named_unit(name) if name else None
        case Name(unit=name):
            return named_unit(name)
        case Negative(operand=operand):
            return unit_of(operand)
        case Curve() | Conditional() | LookBack(function="count"):
            return None
        case LookBack(operand=operand):
            return unit_of(operand)
        case Arithmetic(operator="*", left=left, right=right):
            return _product(left, right, 1)
        case Arithmetic(operator="/", left=left, right=right):
            return _product(left, right, -1)
        case _:
            return common_unit(node)


def _product(left: Expression, right: Expression, sign: int) -> Unit | None:
    one, other = unit_of(left), unit_of(right)
    if one is None and other is None:
        return None
    return (one or PLAIN).times(other or PLAIN, sign)


def summands(node: Expression) -> Iterator[Expression]:
    """Yields the terms of a sum."""
    if isinstance(node, Arithmetic) and node.operator == "+":
        yield from summands(node.left)
        yield from summands(node.right)
    else:
        yield node


def common_unit(node: Expression) -> Unit | None:
    """Returns the unit to which the operands of a comparison, sum or call are
    converted.

    Raises:
        InvalidExpression: The units of the operands have different dimensions.
    """
    if isinstance(node, Arithmetic) and node.operator in "*/":
        return unit_of(node)
    if not isinstance(node, Arithmetic | Compare | Call):
        return unit_of(node)
    chosen: Unit | None = None
    first: Expression | None = None
    for operand in node.children:
        found = unit_of(operand)
        if found is None:
            continue
        if chosen is None:
            chosen, first = found, operand
        elif not chosen.same_kind(found):
            raise InvalidExpression(
                f"{first!r} and {operand!r} have different units",
                mend="compare quantities of the same kind",
            )
    return chosen
