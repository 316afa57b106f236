"""Evolution: edits rules step by step, as long as each edit gains enough.

A step tries every single edit, and covers (several new rules at once, each with a
minimum precision). The best candidate by `Standing` is chosen. The required gain of an
edit is set by cross-validation over tasks.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from forewarn.monitors.rules.evolving.bits import (
    NEW,
    Bench,
    Clause,
    Entries,
    Entry,
    Matrix,
    Standing,
    Words,
    count,
    counts,
    entries_of,
)
from forewarn.monitors.rules.evolving.groups import Groups, and_groups

Operator = Literal["AddDisjunct", "AddConjunct", "AddException"]
Stop = Literal["target", "no better", "budget"]

FOLDS = 5
NO_CHANGE = 1_000_000
LADDER = ((NO_CHANGE, 2), (5, 2), (4, 3), (3, 3), (2, 2), (2, 3))
"""The levels of caution, the most cautious first: the required gain of an edit, and the
maximum number of literals.
"""
LEAST_WORTH = min(worth for worth, _ in LADDER)
MOST_LITERALS = max(literals for _, literals in LADDER)

_MOST_COVERING = 6
_FLOORS = (1.0, 0.9, 0.8, 0.7)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of evolution.

    Args:
        worth: The minimum gain of an edit: the number of labelled runs that it
            corrects, minus the number that it breaks.
        literals: The maximum number of literals in a new rule.
        budget: The maximum number of steps.
    """

    worth: int = 2
    literals: int = 3
    budget: int = 40


class Edit(NamedTuple):
    """A change: the rule with this number, or a `NEW` one, gets this clause."""

    operator: Operator
    rule: int
    clause: Clause

    def of(self, entries: Entries) -> Entries:
        """Returns the rules after the edit."""
        if self.rule == NEW:
            return (*entries, Entry(NEW, self.clause))
        changed = Entry(entries[self.rule].origin, self.clause)
        return (*entries[: self.rule], changed, *entries[self.rule + 1 :])


class Candidate(NamedTuple):
    """A set of rules to try, and the edits that led to it.

    For the best candidate of a step, `of` is the number of candidates.
    """

    standing: Standing
    entries: Entries
    edits: tuple[Edit, ...]
    of: int = 1

    @property
    def rank(self) -> tuple[object, ...]:
        """Returns a sort key: the best candidate first; of equal ones, the shortest."""
        size = sum(len(entry.clause.literals) for entry in self.entries)
        worse = tuple(-value for value in self.standing)
        return (*worse, size, len(self.edits), self.entries)


@dataclass(frozen=True, slots=True)
class Evolution:
    """The course of an evolution: the initial quality, each change, the final rules,
    and why it ended.
    """

    start: Standing
    steps: tuple[Candidate, ...]
    entries: Entries
    stop: Stop

    @property
    def standing(self) -> Standing:
        return self.steps[-1].standing if self.steps else self.start


class Search:
    """Searches for better rules, which consist of and-groups."""

    def __init__(self, matrix: Matrix, groups: Groups, way: Limits) -> None:
        self.bench, self._way = Bench(matrix), way
        self._groups = groups
        # A clause that is wrong as often as right is not a useful rule.
        right, wrong = self._sides(np.zeros_like(matrix.unsafe))
        fit = (right - wrong >= way.worth) & (groups.sizes <= way.literals)
        self._groups = groups.kept(fit)

    def better(self, entries: Entries) -> Candidate | None:
        """Returns the best set of rules after one step; None if none is better."""
        tried = [*self.single(entries), *self._covers(entries)]
        best = min(tried, key=lambda each: each.rank, default=None)
        if best is None or best.standing <= self.bench.standing(entries):
            return None
        return best._replace(of=len(tried))

    def single(self, entries: Entries) -> Iterator[Candidate]:
        """Yields every single edit that gains enough."""
        called = self.bench.called(entries)
        for number in range(len(entries)):
            for edit in self._narrower(entries, number, called):
                yield self._candidate(entries, (edit,))
        gain, harm = self._sides(called)
        for number in np.flatnonzero(gain - harm >= self._way.worth).tolist():
            yield self._candidate(entries, (self._added(number),))

    def _narrower(self, entries: Entries, number: int, called: Words) -> Iterator[Edit]:
        """Yields the conditions and exceptions that are worth adding to a rule."""
        clause, matrix = entries[number].clause, self.bench.matrix
        others = self.bench.called((*entries[:number], *entries[number + 1 :]))
        sets = np.bitwise_or.reduce(matrix.literals & matrix.events(clause), axis=1)
        freed = called & ~(others | sets)
        gains = counts(freed & matrix.safe) - counts(freed & matrix.unsafe)
        # An edit that loses half of a rule's hits would silently remove the rule.
        left = counts(sets & matrix.unsafe)
        hits = count(self.bench.runs(clause) & matrix.unsafe)
        worth_it = (gains >= self._way.worth) & (left > 0) & (2 * left >= hits)
        for row in np.flatnonzero(worth_it).tolist():
            literal = matrix.literal(row)
            if all(literal.predicate != each.predicate for each in clause.literals):
                more: Operator = "AddConjunct" if literal.wanted else "AddException"
                yield Edit(more, number, clause.plus(literal))

    def _covers(self, entries: Entries) -> Iterator[Candidate]:
        """Yields sets with new rules for missed runs, added one by one with a minimum
        precision.
        """
        for floor in _FLOORS:
            edits: list[Edit] = []
            called = self.bench.called(entries)
            for _ in range(_MOST_COVERING):
                gain, harm = self._sides(called)
                enough = gain - harm >= self._way.worth
                enough &= gain >= floor * (gain + harm)
                if not enough.any():
                    break
                number = int(np.argmax(np.where(enough, gain - harm, -1)))
                edits.append(self._added(number))
                called = called | self._groups.sets[number]
                yield self._candidate(entries, tuple(edits))

    def _added(self, number: int) -> Edit:
        return Edit("AddDisjunct", NEW, self._groups.clause(number))

    def _candidate(self, entries: Entries, edits: tuple[Edit, ...]) -> Candidate:
        for edit in edits:
            entries = edit.of(entries)
        return Candidate(self.bench.standing(entries), entries, edits)

    def _sides(self, called: Words) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Counts, for each group, the missed unsafe runs and the safe runs without an
        alarm in which it is true.
        """
        matrix = self.bench.matrix
        missed, quiet = matrix.unsafe & ~called, matrix.safe & ~called
        return self._groups.counts(missed), self._groups.counts(quiet)


def evolve(
    matrix: Matrix,
    start: Sequence[Clause] = (),
    way: Limits = Limits(),
    groups: Groups | None = None,
) -> Evolution:
    """Improves rules until no edit gains enough.

    Each change raises F1 on the labelled runs, or keeps F1 and raises a later field of
    `Standing`.
    """
    if groups is None:
        groups = and_groups(matrix, way.literals, way.worth)
    search = Search(matrix, groups, way)
    entries = entries_of(start)
    first = now = search.bench.standing(entries)
    steps: list[Candidate] = []
    stop: Stop = "budget"
    while len(steps) < way.budget:
        if now.f1 == 1.0:
            stop = "target"
            break
        found = search.better(entries)
        if found is None:
            stop = "no better"
            break
        entries, now = found.entries, found.standing
        steps.append(found)
    return Evolution(first, tuple(steps), entries, stop)


# -- caution


@dataclass(frozen=True, slots=True)
class Trial:
    """One level of caution, as in `Limits`, and its F1 over all folds."""

    worth: int
    literals: int
    f1: float


def cautious(
    matrix: Matrix, start: Sequence[Clause], groups: Groups, seed: int = 0
) -> tuple[Limits, tuple[Trial, ...]]:
    """Chooses a level of caution; a less cautious level must prove to be better.

    On held-out tasks, a level must correct more traces than it breaks to replace a more
    cautious level. The difference must exceed the square root of the number of changed
    verdicts. The seed shuffles the tasks.
    """
    parts = list(folds(matrix, FOLDS, seed))
    trials: list[Trial] = []
    nobody = np.zeros_like(matrix.unsafe)
    chosen, held_up = Limits(*LADDER[0]), nobody
    for worth, literals in LADDER:
        way = Limits(worth, literals)
        called = nobody
        for part in parts:
            found = evolve(matrix.only(~part), start, way, groups)
            called = called | Bench(matrix).called(found.entries) & part
        trials.append(Trial(worth, literals, Bench(matrix).standing_of(called, 0).f1))
        right = called & matrix.unsafe | ~called & matrix.safe
        better, worse = count(right & ~held_up), count(held_up & ~right)
        proves = better > worse and (better - worse) ** 2 > better + worse
        if proves or not held_up.any():
            chosen, held_up = way, right
    return chosen, tuple(trials)


def folds(matrix: Matrix, parts: int, seed: int) -> Iterator[Words]:
    """Splits the labelled runs at random; the runs of a task stay together."""
    together = _shuffled(matrix, seed)
    for part in range(parts):
        yield matrix.set_of(chain.from_iterable(together[part::parts]))


def held_out(matrix: Matrix, share: float, seed: int) -> Words:
    """Returns the labelled runs of a random fraction of the tasks."""
    together = _shuffled(matrix, seed)
    kept = together[: round(share * len(together))]
    return matrix.set_of(chain.from_iterable(kept))


def _shuffled(matrix: Matrix, seed: int) -> list[list[int]]:
    together = matrix.together()
    random.Random(seed).shuffle(together)  # noqa: S311
    return together
