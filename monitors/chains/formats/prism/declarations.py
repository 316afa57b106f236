"""What a PRISM-language text declares, before any state is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from forewarn.monitors.chains.formats.prism.expression import (
    Environment,
    Expression,
    Value,
)


@dataclass(frozen=True, slots=True)
class Variable:
    name: str
    low: int
    high: int
    initial: int
    boolean: bool

    def text(self, value: int) -> str:
        return ("false", "true")[value] if self.boolean else str(value)

    def value(self, value: int) -> Value:
        return bool(value) if self.boolean else value


@dataclass(frozen=True, slots=True)
class Branch:
    probability: Fraction | Expression
    assigned: tuple[tuple[str, int | Expression], ...]


@dataclass(frozen=True, slots=True)
class Command:
    """A command: where its text begins, how long that is, and what it says."""

    start: int
    length: int
    guard: Expression | None
    fixed: Mapping[str, int]
    branches: tuple[Branch, ...]


@dataclass(slots=True)
class Declarations:
    """What the text declares.

    Args:
        evaluated: How many characters there are, beside the commands', of what is
            worked out anew in every state.
    """

    constants: dict[str, Value] = field(default_factory=dict)
    formulas: dict[str, Expression] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    labels: dict[str, Expression] = field(default_factory=dict)
    start: Expression | None = None
    evaluated: int = 0


class Names(dict[str, Value]):
    """An environment that evaluates formulas when they are asked for."""

    def __init__(self, values: Environment, formulas: Mapping[str, Expression]) -> None:
        super().__init__(values)
        self.formulas = formulas

    def __missing__(self, name: str) -> Value:
        value = self[name] = self.formulas[name](self)
        return value
