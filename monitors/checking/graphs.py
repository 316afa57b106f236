"""What is possible in a chain, however unlikely: its transitions as a graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from forewarn.monitors.chains.chain import Chain

Mask: TypeAlias = NDArray[np.bool_]
Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """The successors of every state, at least one each, and the predecessors."""

    indptr: Ints
    indices: Ints
    _from_ptr: Ints = field(init=False, repr=False)
    _from: Ints = field(init=False, repr=False)

    def __post_init__(self) -> None:
        sources = np.repeat(np.arange(self.n), np.diff(self.indptr))
        order = np.argsort(self.indices, kind="stable")
        counts = np.bincount(self.indices, minlength=self.n)
        object.__setattr__(self, "_from", sources[order])
        object.__setattr__(self, "_from_ptr", np.concatenate(([0], np.cumsum(counts))))

    @classmethod
    def of(cls, chain: Chain) -> Graph:
        return cls(chain.indptr, chain.indices)

    @property
    def n(self) -> int:
        return len(self.indptr) - 1

    def some_successor(self, target: Mask) -> Mask:
        """States with a successor in the target: CTL's EX."""
        found: Mask = np.logical_or.reduceat(target[self.indices], self.indptr[:-1])
        return found

    def every_successor(self, target: Mask) -> Mask:
        """States with no successor outside the target: CTL's AX."""
        found: Mask = np.logical_and.reduceat(target[self.indices], self.indptr[:-1])
        return found

    def may_reach(self, goal: Mask, through: Mask) -> Mask:
        """States with a path to the goal whose earlier states lie in `through`."""
        found = goal.copy()
        frontier = np.flatnonzero(goal)
        while frontier.size:
            before = np.unique(self._into(frontier))
            frontier = before[through[before] & ~found[before]]
            found[frontier] = True
        return found

    def must_reach(self, goal: Mask, through: Mask) -> Mask:
        """States from which every path comes to the goal, inside `through` till then.

        Stricter than with probability one: a loop that is left almost surely counts
        as a path that stays.
        """
        found = goal.copy()
        open_successors = np.diff(self.indptr)
        frontier = np.flatnonzero(goal)
        while frontier.size:
            into = self._into(frontier)
            np.subtract.at(open_successors, into, 1)
            before = np.unique(into)
            settled = (open_successors[before] == 0) & through[before]
            frontier = before[settled & ~found[before]]
            found[frontier] = True
        return found

    def surely_reach(self, goal: Mask, through: Mask) -> Mask:
        """States that come to the goal inside `through` with probability one."""
        never = ~self.may_reach(goal, through)
        return ~self.may_reach(never, through & ~goal)

    def _into(self, states: Ints) -> Ints:
        """The sources of all transitions into these states, with repetitions."""
        first = self._from_ptr[states]
        counts = self._from_ptr[states + 1] - first
        offsets = np.repeat(first - np.cumsum(counts) + counts, counts)
        into: Ints = self._from[offsets + np.arange(counts.sum())]
        return into


def within(graph: Graph, every: bool, hold: Mask, goal: Mask, steps: int) -> Mask:
    """States of which every (or some) path satisfies `hold U<=steps goal`."""
    found = goal
    for _ in range(steps):
        before = graph.every_successor(found) if every else graph.some_successor(found)
        further = goal | (hold & before)
        if np.array_equal(further, found):
            break
        found = further
    return found


def after(graph: Graph, every: bool, hold: Mask, target: Mask, steps: int) -> Mask:
    """States of which every (or some) path ends there after so many steps in `hold`."""
    found = target
    for _ in range(steps):
        before = graph.every_successor(found) if every else graph.some_successor(found)
        further = hold & before
        if np.array_equal(further, found):
            break
        found = further
    return found
