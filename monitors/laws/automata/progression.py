"""What is still owed after a frame: formula progression on clauses.

What is owed is a set of clauses that must all hold from the next frame on; a clause
is a set of literals one of which must. A literal is `F G U R` with the steps that are
left of its time. The empty set owes nothing; the empty clause cannot be kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from forewarn.monitors.laws.automata.normal import Normal

Literal = tuple[str, int, float, tuple[int, ...]]
Clause = frozenset[Literal]
Owed = frozenset[Clause]

NOTHING: Owed = frozenset()
BROKEN: Owed = frozenset([frozenset()])


def _implies(one: Literal, other: Literal) -> bool:
    if one == other:
        return True
    if one[0] != other[0] or one[3] != other[3]:
        return False
    (kind, low, high, _), (_, other_low, other_high, _) = one, other
    if kind in "FU":
        return other_low <= low and high <= other_high
    return low <= other_low and other_high <= high


def _strongest(literals: Iterable[Literal]) -> Clause:
    """The clause without literals that imply another of it."""
    kept: list[Literal] = []
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
    """The clauses without those that follow from another of them."""
    kept: list[Clause] = []
    for clause in clauses:
        if any(_clause_implies(other, clause) for other in kept):
            continue
        kept = [other for other in kept if not _clause_implies(clause, other)]
        kept.append(clause)
    return frozenset(kept)


def both(one: Owed, other: Owed) -> Owed:
    """Owing one and the other."""
    if not one or one is BROKEN:
        return other if not one else BROKEN
    if not other or other is BROKEN:
        return one if not other else BROKEN
    return _simplified([*one, *other])


def either(one: Owed, other: Owed) -> Owed:
    """Owing one or the other."""
    if not one or not other:
        return NOTHING
    if one is BROKEN:
        return other
    if other is BROKEN:
        return one
    return _simplified(_strongest([*a, *b]) for a in one for b in other)


class Progression:
    """Progresses what is owed through the letters of one law."""

    def __init__(self, normal: Normal) -> None:
        self._nodes = normal.nodes
        self._of_node: dict[tuple[int, int], Owed] = {}
        self._of_literal: dict[tuple[Literal, int], Owed] = {}
        self._of_clause: dict[tuple[Clause, int], Owed] = {}

    def start(self, nodes: Iterable[int]) -> Owed:
        """What owes these nodes at the next frame."""
        return frozenset(frozenset([("F", 0, 0, (node,))]) for node in nodes)

    def after(self, owed: Owed, letter: int) -> Owed:
        """What remains owed after a frame with that letter."""
        left: set[Clause] = set()
        for clause in owed:
            kept = self._clause(clause, letter)
            if kept is BROKEN:
                return BROKEN
            left |= kept
        return _simplified(left)

    def arising(self, node: int, letter: int) -> Owed:
        """What a node that must hold now makes owed from the next frame on."""
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

    def _literal(self, literal: Literal, letter: int) -> Owed:
        key = (literal, letter)
        if key not in self._of_literal:
            self._of_literal[key] = self._progress(literal, letter)
        return self._of_literal[key]

    def _progress(self, literal: Literal, letter: int) -> Owed:
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
