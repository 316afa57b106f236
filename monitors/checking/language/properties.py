"""Properties of chains: the formulas of PCTL and of qualitative CTL, as values.

A state formula holds in a state or not. A path formula (`Temporal`) speaks of what
comes next and stands inside `P`, `E` or `A`. `str` prints what parses back.
`parse_property` in `property_parser` makes them from text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, TypeAlias

Relation: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">="]
Quantifier: TypeAlias = Literal["E", "A"]
PathOperator: TypeAlias = Literal["X", "F", "G", "U", "W", "R"]


@dataclass(frozen=True, slots=True)
class Constant:
    """`true` or `false`."""

    value: bool

    def __str__(self) -> str:
        return "true" if self.value else "false"


@dataclass(frozen=True, slots=True)
class Name:
    """A named set of states: a label, a definition, a state, a predicate."""

    name: str
    column: int = field(default=0, compare=False)

    def __str__(self) -> str:
        doubled = self.name.replace('"', '""')
        return f'"{doubled}"'


@dataclass(frozen=True, slots=True)
class Compare:
    """A variable of the model against a whole number, a variable or a state name."""

    variable: str
    relation: Relation
    other: int | str | Name
    column: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return f"{self.variable}{self.relation}{self.other}"


@dataclass(frozen=True, slots=True)
class Not:
    inner: StateFormula

    def __str__(self) -> str:
        return f"!{_bracketed(self.inner)}"


@dataclass(frozen=True, slots=True)
class Junction:
    """All of the parts hold (`&`), or at least one of them (`|`)."""

    operator: Literal["&", "|"]
    parts: tuple[StateFormula, ...]

    def __str__(self) -> str:
        return f" {self.operator} ".join(map(_bracketed, self.parts))


@dataclass(frozen=True, slots=True)
class Conditional:
    """`=>` or `<=>` of two state formulas."""

    operator: Literal["=>", "<=>"]
    left: StateFormula
    right: StateFormula

    def __str__(self) -> str:
        return f"{_bracketed(self.left)} {self.operator} {_bracketed(self.right)}"


@dataclass(frozen=True, slots=True)
class Bound:
    """The steps within which a path operator is decided: from `low` up to `high`."""

    low: int = 0
    high: int | None = None

    def __str__(self) -> str:
        if self.high is None:
            return f">={self.low}" if self.low else ""
        return f"[{self.low},{self.high}]" if self.low else f"<={self.high}"


@dataclass(frozen=True, slots=True)
class Temporal:
    """A path formula: one path operator over state formulas.

    X, F and G have one operand; their `left` is `true`. Release and weak until are
    the duals of until, horizons included, as PRISM has them.
    """

    operator: PathOperator
    left: StateFormula
    right: StateFormula
    bound: Bound = Bound()

    @property
    def operands(self) -> tuple[StateFormula, ...]:
        return (self.right,) if self.operator in "XFG" else (self.left, self.right)

    def __str__(self) -> str:
        *left, right = map(_bracketed, self.operands)
        return " ".join([*left, f"{self.operator}{self.bound}", right])


@dataclass(frozen=True, slots=True)
class Probability:
    """`P=? [path]`, a number, or `P>=0.9 [path]`, a state formula."""

    path: Temporal
    relation: Relation | None = None
    limit: Fraction = Fraction(0)
    column: int = field(default=0, compare=False)

    def __str__(self) -> str:
        test = "=?" if self.relation is None else f"{self.relation}{self.limit}"
        return f"P{test} [ {self.path} ]"


@dataclass(frozen=True, slots=True)
class Quantified:
    """`E [path]`: some path satisfies it; `A [path]`: every path does.

    Only whether a transition is possible counts, not how likely it is.
    """

    quantifier: Quantifier
    path: Temporal

    def __str__(self) -> str:
        return f"{self.quantifier} [ {self.path} ]"


StateFormula: TypeAlias = (
    Constant | Name | Compare | Not | Junction | Conditional | Probability | Quantified
)


TRUE = Constant(True)


def is_numeric(formula: StateFormula) -> bool:
    """Whether the formula asks for a number: `P=?`, which stands outermost only."""
    return isinstance(formula, Probability) and formula.relation is None


def parts(formula: StateFormula) -> tuple[StateFormula, ...]:
    """The state formulas directly inside this one."""
    match formula:
        case Not(inner):
            return (inner,)
        case Junction(_, inside):
            return inside
        case Conditional(_, left, right):
            return (left, right)
        case Probability(path=path) | Quantified(path=path):
            return path.operands
        case _:
            return ()


def walk(formula: StateFormula) -> Iterator[StateFormula]:
    """The formula and everything inside it."""
    yield formula
    for part in parts(formula):
        yield from walk(part)


def opposite(path: Temporal) -> Temporal:
    """The path formula that holds on exactly the other paths."""
    left, right, bound = path.left, path.right, path.bound
    match path.operator:
        case "X":
            return Temporal("X", TRUE, Not(right))
        case "F":
            return Temporal("G", TRUE, Not(right), bound)
        case "G":
            return Temporal("F", TRUE, Not(right), bound)
        case "U":
            return Temporal("R", Not(left), Not(right), bound)
        case "R":
            return Temporal("U", Not(left), Not(right), bound)
        case "W":
            only_left = Junction("&", (left, Not(right)))
            neither = Junction("&", (Not(left), Not(right)))
            return Temporal("U", only_left, neither, bound)


def _bracketed(formula: StateFormula) -> str:
    split = isinstance(formula, Junction | Conditional)
    return f"({formula})" if split else str(formula)
