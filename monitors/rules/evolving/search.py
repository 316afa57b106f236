"""Evolution: successive edits of rules, as long as each gains enough.

A step tries every single edit, and covers: several new rules together, each with a
minimum precision. The best candidate by `Standing` is chosen. The required gain of an
edit is chosen by cross-validation over tasks.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal as Either
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from forewarn.monitors.rules.evolving.bits import (
    NEW,
    Bench,
    Clause,
    Entries,
    Entry,
    Literal,
    Matrix,
    Standing,
    entries_of,
)
from forewarn.monitors.rules.evolving.groups import Groups, and_groups

Operator = Either["AddDisjunct", "Relax", "AddConjunct", "AddException", "Drop"]
Stop = Either["target", "no better", "budget"]

FOLDS = 5
NO_CHANGE = 1_000_000
LADDER = ((NO_CHANGE, 2), (5, 2), (4, 3), (3, 3), (2, 2), (2, 3))
"""The levels of caution, the most cautious first: the required gain of an edit, and the
number of literals.
"""
LEAST_WORTH = min(worth for worth, _ in LADDER)
MOST_LITERALS = max(literals for _, literals in LADDER)

_MOST_COVERING = 6
_FLOORS = (1.0, 0.9, 0.8, 0.7)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of evolution.

    Args:
        worth: The number by which an edit must correct more labelled runs than it
            breaks.
        literals: The maximum number of literals of a new rule.
        budget: Evolution stops after this number of steps.
    """

    worth: int = 2
    literals: int = 3
    target: float = 1.0
    budget: int = 40


class Edit(NamedTuple):
    """One change: of the rule of that number, or `NEW`, which gets this clause."""

    operator: Operator
    rule: int
    clause: Clause

    def of(self, entries: Entries) -> Entries:
        """The rules after the edit."""
        if self.rule == NEW:
            return (*entries, Entry(NEW, self.clause))
        before, after = entries[: self.rule], entries[self.rule + 1 :]
        if self.operator == "Drop":
            return (*before, *after)
        changed = Entry(entries[self.rule].origin, self.clause)
        return (*before, changed, *after)


class Candidate(NamedTuple):
    """A set of rules that is tried, and the edits that led there; for the best one, how
    many were tried.
    """

    standing: Standing
    entries: Entries
    edits: tuple[Edit, ...]
    of: int = 1

    @property
    def rank(self) -> tuple[object, ...]:
        """The sort key that puts the best first, and among equals the shortest."""
        size = sum(len(entry.clause.literals) for entry in self.entries)
        worse = tuple(-value for value in self.standing)
        return (*worse, size, len(self.edits), self.entries)


@dataclass(frozen=True, slots=True)
class Evolution:
    """How rules evolved: how good they were, each change, the rules now, and why it
    ended.
    """

    start: Standing
    steps: tuple[Candidate, ...]
    entries: Entries
    stop: Stop

    @property
    def standing(self) -> Standing:
        return self.steps[-1].standing if self.steps else self.start


class Search:
    """Looks for better rules, made of and-groups."""

    def __init__(self, matrix: Matrix, groups: Groups, way: Limits) -> None:
        self.bench, self._way = Bench(matrix), way
        self._groups = groups
        # What is wrong as often as right is no rule, whatever other rules say.
        right, wrong = self._sides(0)
        fit = (right - wrong >= way.worth) & (groups.sizes <= way.literals)
        self._groups = groups.kept(fit)

    def better(self, entries: Entries) -> Candidate | None:
        """The best set of rules that one step finds; None if none is better."""
        tried = [*self.single(entries), *self._covers(entries)]
        best = min(tried, key=lambda each: each.rank, default=None)
        if best is None or best.standing <= self.bench.standing(entries):
            return None
        return best._replace(of=len(tried))

    def single(self, entries: Entries) -> Iterator[Candidate]:
        """Every single edit that gains enough."""
        called = self.bench.called(entries)
        for number, entry in enumerate(entries):
            others = self.bench.called((*entries[:number], *entries[number + 1 :]))
            for edit in self._changes(number, entry):
                if self._is_worth_it(called, others, edit):
                    yield self._candidate(entries, (edit,))
        gain, harm = self._sides(called)
        for number in np.flatnonzero(gain - harm >= self._way.worth).tolist():
            yield self._candidate(entries, (self._added(number),))

    def _changes(self, number: int, entry: Entry) -> Iterator[Edit]:
        """The edits of a rule: widened, removed if it was learned, and narrowed."""
        clause, matrix = entry.clause, self.bench.matrix
        if len(clause.literals) > 1:
            for literal in clause.literals:
                yield Edit("Relax", number, clause.minus(literal))
        if entry.origin == NEW:
            yield Edit("Drop", number, clause)
        hits = (self.bench.runs(clause) & matrix.unsafe).bit_count()
        known = {literal.predicate for literal in clause.literals}
        free = (i for i in range(len(matrix.predicates)) if i not in known)
        for literal in (Literal(i, wanted) for i in free for wanted in (True, False)):
            narrowed = clause.plus(literal)
            left = (self.bench.runs(narrowed) & matrix.unsafe).bit_count()
            # What leaves less than half of a rule's hits gives the rule up unsaid.
            if left and 2 * left >= hits:
                more: Operator = "AddConjunct" if literal.wanted else "AddException"
                yield Edit(more, number, narrowed)

    def _is_worth_it(self, called: int, others: int, edit: Edit) -> bool:
        drops = edit.operator == "Drop"
        after = others if drops else others | self.bench.runs(edit.clause)
        unsafe, labelled = self.bench.matrix.unsafe, self.bench.matrix.labelled
        changed = (called ^ after) & labelled
        righted = changed & ~(after ^ unsafe)
        gained = 2 * righted.bit_count() - changed.bit_count()
        return gained >= (0 if drops else self._way.worth)

    def _covers(self, entries: Entries) -> Iterator[Candidate]:
        """New rules, added one by one with a minimum precision, for the runs still
        missed.
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
                called |= self._groups.set_of(number)
                yield self._candidate(entries, tuple(edits))

    def _added(self, number: int) -> Edit:
        return Edit("AddDisjunct", NEW, self._groups.clause(number))

    def _candidate(self, entries: Entries, edits: tuple[Edit, ...]) -> Candidate:
        for edit in edits:
            entries = edit.of(entries)
        return Candidate(self.bench.standing(entries), entries, edits)

    def _sides(self, called: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each group, the numbers of missed and quiet runs in which it holds."""
        matrix = self.bench.matrix
        missed, quiet = matrix.unsafe & ~called, matrix.safe & ~called
        return self._groups.counts(missed), self._groups.counts(quiet)


def evolve(
    matrix: Matrix,
    start: Sequence[Clause] = (),
    way: Limits = Limits(),
    groups: Groups | None = None,
) -> Evolution:
    """Improves rules as long as possible.

    Each change raises F1 on the labelled runs, or keeps it and raises what comes after
    it in `Standing`. At the end no single edit gains enough.
    """
    if groups is None:
        groups = and_groups(matrix, way.literals, way.worth)
    search = Search(matrix, groups, way)
    entries = entries_of(start)
    first = now = search.bench.standing(entries)
    steps: list[Candidate] = []
    stop: Stop = "budget"
    while len(steps) < way.budget:
        if now.f1 >= way.target:
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
    """One degree of caution, as in `Limits`, and its F1 on all folds together."""

    worth: int
    literals: int
    f1: float


def cautious(
    matrix: Matrix, start: Sequence[Clause], groups: Groups, seed: int = 0
) -> tuple[Limits, tuple[Trial, ...]]:
    """The search with the best level of caution; a less cautious level must prove
    better.

    A level replaces a more cautious one if, on held-out tasks, it corrects more traces
    than it spoils, and by more than chance: by more than the square root of the number
    of changed verdicts. The seed shuffles the tasks.
    """
    parts = list(folds(matrix, FOLDS, seed))
    trials: list[Trial] = []
    chosen, held_up = Limits(*LADDER[0]), 0
    for worth, literals in LADDER:
        way = Limits(worth, literals)
        called = 0
        for part in parts:
            found = evolve(matrix.only(~part), start, way, groups)
            called |= Bench(matrix).called(found.entries) & part
        trials.append(Trial(worth, literals, Bench(matrix).standing_of(called, 0).f1))
        right = called & matrix.unsafe | ~called & matrix.safe
        better = (right & ~held_up).bit_count()
        worse = (held_up & ~right).bit_count()
        if not held_up or (better > worse and (better - worse) ** 2 > better + worse):
            chosen, held_up = way, right
    return chosen, tuple(trials)


def folds(matrix: Matrix, count: int, seed: int) -> Iterator[int]:
    """The labelled runs, shuffled into parts; runs of one task go to the same part."""
    together = _shuffled(matrix, seed)
    return (sum(together[part::count]) for part in range(count))


def held_out(matrix: Matrix, share: float, seed: int) -> int:
    """The labelled runs of a share of the tasks, drawn at random."""
    together = _shuffled(matrix, seed)
    return sum(together[: round(share * len(together))])


def _shuffled(matrix: Matrix, seed: int) -> list[int]:
    together = matrix.together()
    random.Random(seed).shuffle(together)  # noqa: S311
    return together
