"""Determines which abstract states can occur, from the predicates' meaning.

Predicates that share signals form a group. The possible patterns (combinations of truth
values) of a group are found by testing every cell of its signals' domains
(`expression.domain`). A state is valid if the pattern of each group is possible.
Combinations across groups are enumerated only when all states are requested.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from forewarn.abstractions.errors import InvalidAbstraction, TooLarge
from forewarn.abstractions.expression.domain import (
    combinations,
    components,
    leaves,
    read_by,
)
from forewarn.abstractions.expression.tree import Expression

if TYPE_CHECKING:
    from forewarn.abstractions.vocabularies.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Group:
    """Predicates that share signals: their bits and the possible patterns of these
    bits.
    """

    members: tuple[int, ...]
    mask: int
    patterns: frozenset[int]


@dataclass(frozen=True)
class Validity:
    """The valid states of an abstraction.

    Args:
        predicates: The predicate of each bit.
        constraints: Expressions that are true in every frame.
        latched: Bits that are latched over several frames. Latched bits may refer to
            different frames, so they do not restrict each other.
        past: Bits of predicates with a lag. Such bits restrict no other bits, and say
            nothing about the current frame.
        vocabulary: Declares the ranges of the signals, and which signals may be none.
    """

    predicates: tuple[Expression, ...]
    constraints: tuple[Expression, ...] = ()
    latched: frozenset[int] = frozenset()
    past: frozenset[int] = frozenset()
    vocabulary: Vocabulary | None = None

    @cached_property
    def _bound(self) -> list[int]:
        """The bits that refer to the current frame."""
        free = self.latched | self.past
        return [i for i in range(len(self.predicates)) if i not in free]

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The groups of predicates; each latched or lagged predicate is its
        own group.
        """
        bound = self._bound
        tied = [*(self.predicates[i] for i in bound), *self.constraints]
        known = leaves(tied, self.vocabulary)
        groups = [
            Group((i,), 1 << i, frozenset({0, 1 << i}))
            for i in sorted(self.latched | self.past)
        ]
        for members in components([read_by(node) for node in tied]):
            required = sum(1 << k for k, i in enumerate(members) if i >= len(bound))
            patterns: set[int] = set()
            for found in combinations([tied[i] for i in members], known):
                if found & required == required:
                    kept = [bound[i] for k, i in enumerate(members)
                            if i < len(bound) and found >> k & 1]  # fmt: skip
                    patterns.add(sum(1 << bit for bit in kept))
            if not patterns:
                raise InvalidAbstraction("the constraints leave no valid state")
            bits = tuple(bound[i] for i in members if i < len(bound))
            mask = sum(1 << bit for bit in bits)
            groups.append(Group(bits, mask, frozenset(patterns)))
        return tuple(groups)

    def admits(self, bits: int) -> bool:
        """Whether the state can occur."""
        return bits >> len(self.predicates) == 0 and all(
            bits & group.mask in group.patterns for group in self.groups
        )

    def count(self) -> int:
        """Returns the number of valid states."""
        return math.prod(len(group.patterns) for group in self.groups)

    def states(self, limit: int) -> list[int]:
        """Returns all valid states in ascending order; raises `TooLarge` if there are
        more than `limit`.
        """
        if (size := self.count()) > limit:
            raise TooLarge(
                f"{size} valid states exceed the limit of {limit}",
                mend="use fewer predicates, or learn over observed states",
            )
        patterns = (group.patterns for group in self.groups)
        return sorted(sum(parts) for parts in itertools.product(*patterns))

    def decide(self, expression: Expression) -> Callable[[int], bool]:
        """Returns a function that maps a state to the value of a condition.

        Raises:
            InvalidAbstraction: The state does not determine the condition's value.
        """
        direct = {
            repr(node): i
            for i, node in enumerate(self.predicates)
            if i not in self.past
        }
        if (bit := direct.get(repr(expression))) is not None:
            return lambda state: bool(state >> bit & 1)
        bound = self._bound
        nodes = [*(self.predicates[i] for i in bound), *self.constraints, expression]
        groups = components([read_by(node) for node in nodes])
        *used, last = next(group for group in groups if len(nodes) - 1 in group)
        members = [bound[k] for k in used if k < len(bound)]
        nodes = [nodes[k] for k in (*used, last)]
        required = sum(1 << k for k in range(len(members), len(used)))
        truths: dict[int, bool] = {}
        for found in combinations(nodes, leaves(nodes, self.vocabulary)):
            if found & required != required:
                continue
            pattern = sum(1 << i for k, i in enumerate(members) if found >> k & 1)
            holds = bool(found >> len(used) & 1)
            if truths.setdefault(pattern, holds) != holds:
                raise InvalidAbstraction(
                    "the predicates of the abstraction do not determine whether "
                    f"{expression!r} is true",
                    mend=f"add the predicate {expression!r}",
                )
        mask = sum(1 << i for i in members)
        return lambda state: truths.get(state & mask, False)
