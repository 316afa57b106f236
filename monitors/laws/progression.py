"""Progression of formulas: the obligations that remain after each frame.

Formulas are first normalised. Negations are pushed down to propositions, and times are
counted in steps. Maximal propositional parts become numbered propositions. Past
operators become numbered memories; the output of a memory is an additional proposition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from forewarn.abstractions.errors import InvalidExpression
from forewarn.abstractions.expression.scalar import Closure, Compiler
from forewarn.abstractions.expression.tree import (
    And,
    Constant,
    Expression,
    Implies,
    Not,
    Or,
)
from forewarn.monitors.laws.formula import (
    Always,
    Eventually,
    Formula,
    Future,
    Historically,
    Interval,
    Next,
    Once,
    Past,
    Since,
    Until,
    is_temporal,
)

Connective = Literal["true", "false", "atom", "not", "and", "or", "F", "G", "U", "R"]


@dataclass(frozen=True, slots=True)
class Node:
    """A formula in negation normal form.

    `atom` and `not` have the number of a proposition in `bit`; `F G U R` have bounds in
    steps and one or two operands (R is the dual of U).
    """

    kind: Connective
    bit: int = 0
    low: int = 0
    high: float = 0
    parts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Memory:
    """A past operator `left since[low, high] right`, whose operands test numbered
    bits.
    """

    low: int
    high: float
    left: Callable[[int], bool]
    right: Callable[[int], bool]

    def update(self, held: int, letter: int) -> int:
        """Returns the memory after a frame; bit k is set if `right` was true k steps
        ago and `left` has been true since.
        """
        held = (held << 1 if self.left(letter) else 0) | self.right(letter)
        if math.isinf(self.high):
            if held >> self.low:
                held = held & ((1 << self.low) - 1) | 1 << self.low
        else:
            held &= (1 << int(self.high) + 1) - 1
        # Without a lower bound, only the latest moment matters.
        return held & -held if self.low == 0 else held

    def holds(self, held: int) -> bool:
        return held >> self.low != 0


@dataclass(slots=True)
class Normal:
    """A formula's nodes, propositions and memories; nodes are referred to by number."""

    period_s: float | None
    propositions: list[Expression] = field(default_factory=list)
    memories: list[Memory] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    invariants: list[int] = field(default_factory=list)
    initially: list[int] = field(default_factory=list)
    _numbers: dict[Node, int] = field(default_factory=dict)
    _bits: dict[str, int] = field(default_factory=dict)

    @property
    def memory_bit(self) -> int:
        """The bit of the first memory's output, after those of the propositions."""
        return len(self.propositions)

    def add(self, node: Node) -> int:
        """Returns the number of a node; adds the node if it is new."""
        if node not in self._numbers:
            self._numbers[node] = len(self.nodes)
            self.nodes.append(node)
        return self._numbers[node]


def normalise(formula: Formula, period_s: float | None) -> Normal:
    """Normalises a law, split into invariants and conditions on the first frame.

    Raises:
        InvalidExpression: No violation of the law could ever be observed, or a past
            operator contains a future operator.
    """
    if period_s is not None and not 0 < period_s < math.inf:
        raise InvalidExpression(
            f"a clock period of {period_s} s is not valid", mend="give a period above 0"
        )
    normal = Normal(period_s)
    # Propositions are numbered first, so that the numbers of memories follow.
    _collect(formula, normal)
    for conjunct in _conjuncts(formula):
        match conjunct:
            case Always(operand=operand) if _is_invariant(conjunct):
                normal.invariants.append(_build(operand, True, normal))
            case _:
                normal.initially.append(_build(conjunct, True, normal))
    return normal


def _conjuncts(formula: Formula) -> list[Formula]:
    """Returns the conjuncts of a law, regardless of how the law was written.

    `always (a and b)`, `always a and always b` and `not (eventually not a or eventually
    not b)` yield the same two invariants.
    """
    match formula:
        case And(parts=parts) if is_temporal(formula):
            return [c for part in parts for c in _conjuncts(part)]
        case Not(operand=operand) if is_temporal(operand):
            denied = _denied(operand)
            return [formula] if denied is None else _conjuncts(denied)
        case Always(operand=operand, interval=interval) if interval == Interval():
            if not is_temporal(operand):
                return [formula]
            return [Always(part) for part in _conjuncts(operand)]
    return [formula]


def _denied(formula: Formula) -> Formula | None:
    """Moves the negation in `not formula` inwards, if that helps to split a law."""
    match formula:
        case Not(operand=operand):
            return operand
        case Or(parts=parts):
            return And(tuple(Not(part) for part in parts))
        case Implies(left=left, right=right):
            return And((left, Not(right)))
        case Eventually(operand=operand, interval=interval):
            return Always(Not(operand), interval)
    return None


def _is_invariant(formula: Formula) -> bool:
    return isinstance(formula, Always) and formula.interval == Interval()


def _collect(formula: Formula, normal: Normal) -> None:
    if not is_temporal(formula):
        _proposition(formula, normal)
        return
    for child in formula.children:
        _collect(child, normal)


def _proposition(formula: Expression, normal: Normal) -> None:
    """Assigns a number to a propositional formula; a leading `not` is skipped."""
    while isinstance(formula, Not):
        formula = formula.operand
    key = repr(formula)
    if key not in normal._bits and not isinstance(formula, Constant):
        normal._bits[key] = len(normal.propositions)
        normal.propositions.append(formula)


def _literal(formula: Expression, positive: bool, normal: Normal) -> int:
    while isinstance(formula, Not):
        formula, positive = formula.operand, not positive
    if isinstance(formula, Constant):
        return normal.add(Node("true" if formula.value == positive else "false"))
    bit = normal._bits[repr(formula)]
    return normal.add(Node("atom" if positive else "not", bit=bit))


def _build(formula: Formula, positive: bool, normal: Normal) -> int:
    if not is_temporal(formula):
        return _literal(formula, positive, normal)
    match formula:
        case Not(operand=operand):
            return _build(operand, not positive, normal)
        case Implies(left=left, right=right):
            return _build(Or((Not(left), right)), positive, normal)
        case And(parts=parts) | Or(parts=parts):
            conjunction = isinstance(formula, And) == positive
            numbers = tuple(_build(part, positive, normal) for part in parts)
            return normal.add(Node("and" if conjunction else "or", parts=numbers))
        case Next(operand=operand):
            inner = _build(operand, positive, normal)
            return normal.add(Node("F", low=1, high=1, parts=(inner,)))
        case Always() | Eventually():
            universal = isinstance(formula, Always) == positive
            low, high = _bounds(formula.interval, normal)
            if not universal and math.isinf(high):
                raise InvalidExpression(
                    f"{formula!r} can never be broken in a finite run"
                    if positive
                    else f"`not {formula!r}` can never be broken in a finite run",
                    mend=(
                        "add a time limit, such as [0, 10 s], or check that the "
                        "parentheses of `always (a -> b)` enclose the whole condition"
                    ),
                )
            inner = _build(formula.operand, positive, normal)
            kind: Connective = "G" if universal else "F"
            return normal.add(Node(kind, low=low, high=high, parts=(inner,)))
        case Until(left=left, right=right):
            low, high = _bounds(formula.interval, normal)
            numbers = (_build(left, positive, normal), _build(right, positive, normal))
            kind = "U" if positive else "R"
            return normal.add(Node(kind, low=low, high=high, parts=numbers))
        case Past():
            bit = _memory(formula, normal)
            negated = isinstance(formula, Historically)
            return normal.add(Node("atom" if positive != negated else "not", bit=bit))
    raise TypeError(f"{formula!r} is not a formula")


def _bounds(interval: Interval, normal: Normal) -> tuple[int, float]:
    low, high = interval.steps(normal.period_s)
    return low, math.inf if high is None else high


def _memory(formula: Formula, normal: Normal) -> int:
    """Returns the bit that stores the output of a past operator; `historically a` is
    rewritten as `not once not a`.
    """
    key = f"memory {formula!r}"
    if key in normal._bits:
        return normal._bits[key]
    always_true: Expression = Constant(True)
    match formula:
        case Once(operand=operand, interval=interval):
            left, right = always_true, operand
        case Historically(operand=operand, interval=interval):
            left, right = always_true, Not(operand)
        case Since(left=left, right=right, interval=interval):
            pass
        case _:
            raise TypeError(f"{formula!r} is not a past operator")
    low, high = _bounds(interval, normal)
    operands = _Operands(normal)
    tests = operands.test(left), operands.test(right)
    bit = normal.memory_bit + len(normal.memories)
    normal.memories.append(Memory(low, high, *tests))
    normal._bits[key] = bit
    return bit


class _Operands(Compiler):
    """Compiles the operands of past operators to tests of the bits that are already
    known.
    """

    def __init__(self, normal: Normal) -> None:
        self._normal = normal

    def test(self, node: Formula) -> Closure:
        match node:
            case Not() | Constant():
                return super().test(node)
            case Past():
                holds = self._bit(_memory(node, self._normal))
                return self.inverse(holds) if isinstance(node, Historically) else holds
            case Future():
                raise InvalidExpression(
                    f"{node!r} refers to the future inside a past operator",
                    mend="put the past operator inside the future one",
                )
        if is_temporal(node):
            return super().test(node)
        return self._bit(self._normal._bits[repr(node)])

    def _bit(self, bit: int) -> Closure:
        return lambda letter: bool(letter >> bit & 1)


Timed = tuple[str, int, float, tuple[int, ...]]
Clause = frozenset[Timed]
Owed = frozenset[Clause]

NOTHING: Owed = frozenset()
BROKEN: Owed = frozenset([frozenset()])


def _implies(one: Timed, other: Timed) -> bool:
    if one == other:
        return True
    if one[0] != other[0] or one[3] != other[3]:
        return False
    (kind, low, high, _), (_, other_low, other_high, _) = one, other
    if kind in "FU":
        return other_low <= low and high <= other_high
    return low <= other_low and other_high <= high


def _strongest(literals: Iterable[Timed]) -> Clause:
    """Returns the clause without literals that imply another literal of the clause."""
    kept: list[Timed] = []
    for literal in literals:
        if any(_implies(literal, other) for other in kept):
            continue
        kept = [other for other in kept if not _implies(other, literal)]
        kept.append(literal)
    return frozenset(kept)


@lru_cache(maxsize=1 << 16)
def _clause_implies(one: Clause, other: Clause) -> bool:
    return all(any(_implies(a, b) for b in other) for a in one)


def _simplified(clauses: Iterable[Clause]) -> Owed:
    """Returns the clauses without those that follow from another clause."""
    kept: list[Clause] = []
    for clause in clauses:
        if any(_clause_implies(other, clause) for other in kept):
            continue
        kept = [other for other in kept if not _clause_implies(clause, other)]
        kept.append(clause)
    return frozenset(kept)


def both(one: Owed, other: Owed) -> Owed:
    """Returns the conjunction of two obligations."""
    if not one or one is BROKEN:
        return other if not one else BROKEN
    if not other or other is BROKEN:
        return one if not other else BROKEN
    if other <= one:
        return one
    return _simplified([*one, *other])


def either(one: Owed, other: Owed) -> Owed:
    """Returns the disjunction of two obligations."""
    if not one or not other:
        return NOTHING
    if one is BROKEN:
        return other
    if other is BROKEN:
        return one
    return _simplified(_strongest([*a, *b]) for a in one for b in other)


class Progression:
    """Progresses the obligations of a law through letters."""

    def __init__(self, normal: Normal) -> None:
        self._nodes = normal.nodes
        self._of_node: dict[tuple[int, int], Owed] = {}
        self._of_literal: dict[tuple[Timed, int], Owed] = {}
        self._of_clause: dict[tuple[Clause, int], Owed] = {}

    def start(self, nodes: Iterable[int]) -> Owed:
        """Returns the obligation for these nodes to be true at the next frame."""
        return frozenset(frozenset([("F", 0, 0, (node,))]) for node in nodes)

    def after(self, owed: Owed, letter: int) -> Owed:
        """Returns the obligations that remain after a frame with this letter."""
        left: set[Clause] = set()
        for clause in owed:
            kept = self._clause(clause, letter)
            if kept is BROKEN:
                return BROKEN
            left |= kept
        return _simplified(left) if len(left) > 1 else frozenset(left)

    def arising(self, node: int, letter: int) -> Owed:
        """Returns the obligations for later frames if a node must be true now."""
        key = (node, letter)
        if key not in self._of_node:
            self._of_node[key] = self._node(node, letter)
        return self._of_node[key]

    def _node(self, number: int, letter: int) -> Owed:
        node = self._nodes[number]
        match node.kind:
            case "true":
                return NOTHING
            case "false":
                return BROKEN
            case "atom":
                return NOTHING if letter >> node.bit & 1 else BROKEN
            case "not":
                return BROKEN if letter >> node.bit & 1 else NOTHING
            case "and":
                owed = NOTHING
                for part in node.parts:
                    owed = both(owed, self.arising(part, letter))
                return owed
            case "or":
                owed = BROKEN
                for part in node.parts:
                    owed = either(owed, self.arising(part, letter))
                return owed
        return self._literal((node.kind, node.low, node.high, node.parts), letter)

    def _clause(self, clause: Clause, letter: int) -> Owed:
        key = (clause, letter)
        if key not in self._of_clause:
            kept = BROKEN
            for literal in clause:
                kept = either(kept, self._literal(literal, letter))
            self._of_clause[key] = kept
        return self._of_clause[key]

    def _literal(self, literal: Timed, letter: int) -> Owed:
        key = (literal, letter)
        if key not in self._of_literal:
            self._of_literal[key] = self._progress(literal, letter)
        return self._of_literal[key]

    def _progress(self, literal: Timed, letter: int) -> Owed:
        kind, low, high, parts = literal
        later: Owed = frozenset([frozenset([(kind, max(low - 1, 0), high - 1, parts)])])
        if kind in "FG":
            if low > 0:
                return later
            now = self.arising(parts[0], letter)
            if kind == "F":
                return either(now, later if high > 0 else BROKEN)
            return both(now, later if high > 0 else NOTHING)
        first = self.arising(parts[0], letter)
        if low > 0:
            return both(first, later) if kind == "U" else either(first, later)
        second = self.arising(parts[1], letter)
        if kind == "U":
            return either(second, both(first, later if high > 0 else BROKEN))
        return both(second, either(first, later if high > 0 else NOTHING))
