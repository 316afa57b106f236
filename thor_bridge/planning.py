"""Finds plans for household tasks by a search over the model of the verbs.

The search is A* with the additive heuristic, subject to laws that no step of the plan
may break.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from itertools import count

from forewarn.abstractions.expression import parse_expression
from forewarn.abstractions.expression.tree import (
    And,
    Compare,
    Constant,
    Expression,
    Implies,
    IsNone,
    Not,
    Or,
)
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.laws.automaton import compile_law
from forewarn.monitors.laws.formula import parse_formula
from forewarn.thor_bridge.moves import Fact, Model, Move, fact_of

MOST_EXPANDED = 20_000
"""The number of expanded states after which the search gives up."""

_FAR = 1 << 30

Literal = tuple[Fact, bool]

_Node = tuple[int, tuple[int, ...]]
"""A state of facts, and the states of the laws' monitors."""


# -- conditions and laws


class Condition:
    """A condition on facts in disjunctive normal form.

    Args:
        ways: The disjuncts, each as a set of literals.
        facts: The model's facts and their bits; any other fact counts as false.
    """

    def __init__(
        self, ways: Iterable[frozenset[Literal]], facts: Mapping[Fact, int]
    ) -> None:
        self.ways = [
            way
            for way in ways
            if not any(wanted and fact not in facts for fact, wanted in way)
        ]
        self._masks = [
            (
                sum(facts[fact] for fact, wanted in way if wanted),
                sum(facts.get(fact, 0) for fact, wanted in way if not wanted),
            )
            for way in self.ways
        ]

    @classmethod
    def possible(cls, moves: Iterable[Move], facts: Mapping[Fact, int]) -> Condition:
        """Returns the condition that at least one of the moves is possible."""
        return cls(
            (
                frozenset(
                    (fact, True) for fact, bit in facts.items() if move.needs & bit
                )
                | {(fact, False) for fact, bit in facts.items() if move.lacks & bit}
                for move in moves
            ),
            facts,
        )

    def holds(self, state: int) -> bool:
        """Whether the condition is true in a state."""
        return any(
            state & needs == needs and not state & lacks for needs, lacks in self._masks
        )


NOTHING = Condition([frozenset()], {})
"""The condition that is always true."""


def _ways(
    tree: Expression, wanted: bool, facts: Mapping[Fact, int]
) -> list[frozenset[Literal]]:
    """Returns the disjuncts of an expression, or of its negation if `wanted` is
    false.
    """
    if isinstance(tree, Constant):
        return [frozenset()] if tree.value is wanted else []
    if isinstance(tree, Not):
        return _ways(tree.operand, not wanted, facts)
    if isinstance(tree, Implies):
        return _ways(Or((Not(tree.left), tree.right)), wanted, facts)
    if isinstance(tree, And | Or):
        parts = [_ways(part, wanted, facts) for part in tree.parts]
        if isinstance(tree, Or) is wanted:
            return [way for part in parts for way in part]
        found = [frozenset[Literal]()]
        for part in parts:
            found = [one | other for one in found for other in part]
        return [way for way in found if not any((f, not v) in way for f, v in way)]
    if isinstance(tree, Compare) and tree.operator == "!=":
        return _ways(Compare("==", tree.left, tree.right), not wanted, facts)
    if isinstance(tree, IsNone):
        known = [fact for fact in facts if fact.startswith(f"{tree.operand!r} == ")]
        if wanted:
            return [frozenset((fact, False) for fact in known)]
        return [frozenset({(fact, True)}) for fact in known]
    return [frozenset({(fact_of(tree), wanted)})]


def condition(model: Model, text: str) -> Condition:
    """Parses a condition in the household vocabulary."""
    tree = parse_expression(text, load_vocabulary("household"))
    return Condition(_ways(tree, True, model.facts), model.facts)


class Ban:
    """A law that no step of a plan may break. At the end of the plan, no obligation may
    be pending.

    Args:
        text: The law as a formula.
        facts: The model's facts and their bits.
    """

    def __init__(self, text: str, facts: Mapping[Fact, int]) -> None:
        self.text = text
        formula = parse_formula(text, load_vocabulary("household"))
        self.automaton = compile_law(formula, 1.0)
        self._conditions = [
            Condition(_ways(proposition, True, facts), facts)
            for proposition in self.automaton.propositions
        ]
        self._step = self.automaton.step.tolist()
        self._pending = self.automaton.pending.tolist()
        self.literals = {
            (fact, wanted)
            for condition in self._conditions
            for way in condition.ways
            for fact, _ in way
            for wanted in (True, False)
        }

    def after(self, monitor: int, state: int) -> int | None:
        """Returns the monitor's next state, given a state of the facts; None if that
        state breaks the law.
        """
        letter = sum(c.holds(state) << i for i, c in enumerate(self._conditions))
        after: int = self._step[monitor][self.automaton.column(letter)]
        return None if after == self.automaton.violated else after

    def owes(self, monitor: int) -> bool:
        """Whether an obligation is pending."""
        return bool(self._pending[monitor])


# -- the search


def search(
    model: Model,
    state: int,
    goal: Condition,
    bans: Sequence[Ban] = (),
    monitors: Sequence[int] = (),
) -> list[Move] | None:
    """Returns moves that lead to the goal without breaking a law, or None if the search
    finds no such moves.

    Args:
        model: The action model: the preconditions and effects of each verb.
        state: The current state of the facts.
        goal: The goal, which must be reached with no obligation pending.
        bans: Laws that no step may break.
        monitors: The current states of the monitors of the laws.
    """
    moves = _relevant(model, goal, bans)
    estimate = _Estimate(model, moves, goal)
    start: _Node = (state, tuple(monitors))
    best = {start: 0}
    came: dict[
        tuple[int, tuple[int, ...]], tuple[tuple[int, tuple[int, ...]], Move]
    ] = {}
    order = count()
    front = [(estimate(state), next(order), 0, start)]
    for _ in range(MOST_EXPANDED):
        if not front:
            return None
        _, _, cost, node = heapq.heappop(front)
        if cost > best[node]:
            continue
        now, owed = node
        if goal.holds(now) and not any(map(Ban.owes, bans, owed)):
            plan: list[Move] = []
            while node in came:
                node, move = came[node]
                plan.append(move)
            return plan[::-1]
        for move in moves:
            if not move.possible(now):
                continue
            then = move.after(now)
            follows = _follow(bans, owed, then)
            if follows is None:
                continue
            new = (then, follows)
            if cost + 1 < best.get(new, _FAR):
                ahead = estimate(then)
                if ahead < _FAR:
                    best[new] = cost + 1
                    came[new] = (node, move)
                    entry = (cost + 1 + ahead, next(order), cost + 1, new)
                    heapq.heappush(front, entry)
    return None


def _follow(
    bans: Sequence[Ban], monitors: Sequence[int], state: int
) -> tuple[int, ...] | None:
    found: list[int] = []
    for ban, monitor in zip(bans, monitors, strict=True):
        after = ban.after(monitor, state)
        if after is None:
            return None
        found.append(after)
    return tuple(found)


def _relevant(model: Model, goal: Condition, bans: Sequence[Ban]) -> list[Move]:
    """Returns the moves that achieve a part of the goal, or a precondition of such a
    move.
    """
    bits = model.facts
    wanted = [literal for way in goal.ways for literal in way]
    wanted += [literal for ban in bans for literal in ban.literals]
    true = sum({bits[f] for f, v in wanted if v and f in bits})
    false = sum({bits[f] for f, v in wanted if not v and f in bits})
    chosen: dict[int, Move] = {}
    while True:
        before = len(chosen)
        for number, move in enumerate(model.moves):
            if number in chosen:
                continue
            for change in move.changes:
                if change.adds & true or change.removes & false:
                    chosen[number] = move
                    true |= move.needs
                    false |= move.lacks
                    for each in move.changes:
                        true |= each.needs
                    break
        if len(chosen) == before:
            return [chosen[number] for number in sorted(chosen)]


class _Estimate:
    """The additive heuristic: the sum of the costs of all facts in the goal.

    The costs are computed as if facts never became false.
    """

    def __init__(self, model: Model, moves: Sequence[Move], goal: Condition) -> None:
        size = len(model.facts)
        numbers = {fact: bit.bit_length() - 1 for fact, bit in model.facts.items()}

        def members(bits: int, offset: int = 0) -> tuple[int, ...]:
            return tuple(i + offset for i in range(size) if bits >> i & 1)

        self._size = size
        self._rules = [
            (
                members(move.needs | change.needs) + members(move.lacks, size),
                members(change.adds) + members(change.removes, size),
            )
            for move in moves
            for change in move.changes
        ]
        self._ways = [
            [numbers[f] + (0 if v else size) for f, v in way if v or f in numbers]
            for way in goal.ways
        ]
        self._known: dict[int, int] = {}

    def __call__(self, state: int) -> int:
        found = self._known.get(state)
        if found is None:
            found = self._known[state] = self._solve(state)
        return found

    def _solve(self, state: int) -> int:
        size = self._size
        cost = [0 if state >> i & 1 else _FAR for i in range(size)]
        cost += [_FAR if state >> i & 1 else 0 for i in range(size)]
        changed = True
        while changed:
            changed = False
            for needs, gives in self._rules:
                total = 1
                for each in needs:
                    total += cost[each]
                if total < _FAR:
                    for each in gives:
                        if total < cost[each]:
                            cost[each] = total
                            changed = True
        return min((sum(cost[i] for i in way) for way in self._ways), default=_FAR)
