"""One step of evolution: suggestions from what went wrong, and their candidates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from forewarn.monitors.rules.evolving.bits.bench import NEW, Bench, Entries, mine
from forewarn.monitors.rules.evolving.bits.groups import Groups
from forewarn.monitors.rules.evolving.bits.hypothesis import Hypothesis, explain
from forewarn.monitors.rules.evolving.bits.matrix import Clause
from forewarn.monitors.rules.evolving.search.edits import (
    Candidate,
    Edit,
    Effect,
    drops,
    effect,
    narrowings,
    widenings,
)

RECALL_QUOTA = 6
PRECISION_QUOTA = 4
_CHAIN = 3
_BRANCH = 6
_FLOORS = (1.0, 0.9, 0.8, 0.7)


@dataclass(frozen=True, slots=True)
class Way:
    """How rules evolve; what is switched off is for comparison.

    Args:
        worth: So many more labelled runs than it wrongs an edit has to right.
        literals: So many literals a new rule has at most.
        target: Evolution stops at this F1.
        budget: It stops after so many steps.
        ilp: Whether the least hypothesis nominates; else predicates that are frequent
            in what was missed do, one by one.
        quiet: Whether safe runs that no rule fires in count as negatives, or only
            those where one does.
        branches: Whether failures are covered by several new rules at once.
        chains: Whether one edit for precision is followed by some for recall.
        novelty: How much less a suggestion counts that names what rules name already.
        prove: Whether clingo is asked to prove hypotheses.
        polish: Whether, when no suggestion helps, every single edit is tried.
    """

    worth: int = 2
    literals: int = 3
    target: float = 1.0
    budget: int = 40
    ilp: bool = True
    quiet: bool = True
    branches: bool = True
    chains: bool = True
    novelty: float = 0.5
    prove: bool = True
    polish: bool = True


class Suggestion(NamedTuple):
    """An edit that a step thinks of.

    Args:
        score: What it rights less what it wrongs, less the more it repeats.
        edit: The edit.
        effect: What it changes, all alone.
    """

    score: float
    edit: Edit
    effect: Effect


@dataclass(slots=True)
class Search:
    """Looks for better rules.

    Args:
        bench: Judges them.
        groups: The and-groups that new rules are made of.
        way: How.
    """

    bench: Bench
    groups: Groups
    way: Way
    tried: int = 0
    _known: dict[int, Hypothesis] = field(default_factory=dict, repr=False)
    _without: tuple[Entries, tuple[int, ...]] = field(default=((), ()), repr=False)

    def __post_init__(self) -> None:
        # What is wrong as often as right is no rule, whatever other rules say.
        right, wrong = self._sides(0)
        fit = right - wrong >= self.way.worth
        fit &= self.groups.sizes <= self.way.literals
        self.groups = self.groups.kept(fit)

    def hypothesis(self, entries: Entries) -> Hypothesis:
        """The least that explains what these rules miss."""
        matrix = self.bench.matrix
        called = self.bench.called(entries)
        found = self._known.get(called)
        if found is None:
            negatives = matrix.safe if self.way.quiet else matrix.safe & called
            misses = matrix.unsafe & ~called
            found = explain(self.groups, misses, negatives, self.way.prove)
            self._known[called] = found
        return found

    def better(self, entries: Entries) -> Candidate | None:
        """The best set of rules that one step finds, if one is better than these."""
        now = self.bench.standing(entries)
        found = self._best(self._candidates(entries))
        if (found is None or found.standing <= now) and self.way.polish:
            found = self._best(self.single(entries))
        return found if found is not None and found.standing > now else None

    def _best(self, candidates: Iterable[Candidate]) -> Candidate | None:
        best: Candidate | None = None
        for candidate in candidates:
            self.tried += 1
            if best is None or candidate.rank < best.rank:
                best = candidate
        return best

    def single(self, entries: Entries) -> Iterator[Candidate]:
        """Every single edit that is worth it."""
        called = self.bench.called(entries)
        everything = range(len(entries))
        for edit in (
            *widenings(entries),
            *drops(entries),
            *narrowings(self.bench, entries, everything),
        ):
            if self._worth_it(entries, called, edit):
                yield self._candidate(entries, (edit,))
        for number in self._gaining(called):
            edit = Edit("AddDisjunct", NEW, self.groups.clause(number))
            yield self._candidate(entries, (edit,))

    # -- suggestions

    def _candidates(self, entries: Entries) -> Iterator[Candidate]:
        called = self.bench.called(entries)
        wider = self._picked(entries, called, self._for_recall(entries), RECALL_QUOTA)
        narrower = self._picked(
            entries, called, self._for_precision(entries), PRECISION_QUOTA
        )
        for edit in (*wider, *narrower):
            yield self._candidate(entries, (edit,))
        if self.way.chains:
            for edit in narrower:
                yield from self._chain(entries, edit, wider)
        if self.way.branches:
            for floor in _FLOORS:
                yield from self._branch(entries, called, floor)

    def _for_recall(self, entries: Entries) -> Iterator[Edit]:
        for clause in self._nominated(entries):
            yield Edit("AddDisjunct", NEW, clause)
        yield from widenings(entries)

    def _nominated(self, entries: Entries) -> Iterator[Clause]:
        """New rules: those of the least hypothesis, and others of its predicates."""
        if not self.way.ilp:
            yield from self._frequent(entries)
            return
        clauses = self.hypothesis(entries).clauses
        yield from clauses
        named = {literal for clause in clauses for literal in clause.literals}
        count = self.groups.predicates
        codes = [each.predicate + count * (not each.wanted) for each in named]
        only = np.isin(self.groups.literals, [-1, *codes]).all(axis=1)
        for number in np.flatnonzero(only).tolist():
            if (clause := self.groups.clause(number)) not in clauses:
                yield clause

    def _frequent(self, entries: Entries) -> Iterator[Clause]:
        """Single predicates, each for itself."""
        short = np.flatnonzero(self.groups.sizes == 1).tolist()
        yield from (self.groups.clause(number) for number in short)

    def _for_precision(self, entries: Entries) -> Iterator[Edit]:
        found = mine(self.bench, entries)
        blamed = [number for number, alone in enumerate(found.alone) if alone]
        yield from narrowings(self.bench, entries, blamed)
        yield from drops(entries)

    def _picked(
        self, entries: Entries, called: int, edits: Iterable[Edit], quota: int
    ) -> list[Edit]:
        """A greedy cover of what is wrong by suggestions, at most so many."""
        waiting = [
            Suggestion(found.net * self._new(edit, called), edit, found)
            for edit in edits
            if (found := self._worth_it(entries, called, edit))
        ]
        waiting.sort(key=lambda each: (-each.score, each.edit))
        picked: list[Edit] = []
        done = 0
        while waiting and len(picked) < quota:
            best = max(
                waiting,
                key=lambda each: (
                    (each.effect.righted & ~done).bit_count()
                    - each.effect.wronged.bit_count()
                    + each.score / (1 + abs(each.score))
                ),
            )
            if not best.effect.righted & ~done and picked:
                break
            picked.append(best.edit)
            done |= best.effect.righted
            waiting.remove(best)
        return picked

    def _new(self, edit: Edit, called: int) -> float:
        """How little of what the edit names is named already."""
        unsafe = self.bench.runs(edit.clause) & self.bench.matrix.unsafe
        if edit.rule != NEW or not unsafe:
            return 1.0
        known = (unsafe & called).bit_count() / unsafe.bit_count()
        return 1.0 - self.way.novelty * known

    def _worth_it(self, entries: Entries, called: int, edit: Edit) -> Effect | None:
        """What the edit changes, unless it says more than that is worth."""
        found = effect(self.bench, called, self._after(entries, called, edit))
        worth = 0 if edit.operator == "Drop" else self.way.worth
        if edit.operator in ("AddConjunct", "AddException"):
            # What leaves less than half of a rule's hits gives the rule up unsaid.
            unsafe = self.bench.matrix.unsafe
            hits = self.bench.runs(entries[edit.rule].clause) & unsafe
            left = self.bench.runs(edit.clause) & unsafe
            if 2 * left.bit_count() < hits.bit_count() or not left:
                return None
        return found if found.net >= worth else None

    def _after(self, entries: Entries, called: int, edit: Edit) -> int:
        """The runs that are called unsafe after an edit."""
        if edit.rule == NEW:
            return called | self.bench.runs(edit.clause)
        others = self._others(entries)[edit.rule]
        return (
            others if edit.operator == "Drop" else others | self.bench.runs(edit.clause)
        )

    def _others(self, entries: Entries) -> tuple[int, ...]:
        """For each rule, the runs that the others call unsafe."""
        if self._without[0] != entries:
            called = (
                self.bench.called((*entries[:i], *entries[i + 1 :]))
                for i in range(len(entries))
            )
            self._without = entries, tuple(called)
        return self._without[1]

    # -- candidates

    def _candidate(self, entries: Entries, edits: tuple[Edit, ...]) -> Candidate:
        for edit in edits:
            entries = edit.of(entries)
        return Candidate(self.bench.standing(entries), entries, edits)

    def _chain(
        self, entries: Entries, first: Edit, wider: Iterable[Edit]
    ) -> Iterator[Candidate]:
        """An edit for precision, and then such for recall as still are worth it."""
        edits = [first]
        now = first.of(entries)
        for edit in wider:
            if edit.rule != NEW or len(edits) > _CHAIN:
                continue
            if self._worth_it(now, self.bench.called(now), edit):
                edits.append(edit)
                now = edit.of(now)
                yield self._candidate(entries, tuple(edits))

    def _branch(
        self, entries: Entries, called: int, floor: float
    ) -> Iterator[Candidate]:
        """New rules one after the other, each so precise, for what is still missed."""
        edits: list[Edit] = []
        now = called
        for _ in range(_BRANCH):
            number = self._precise(now, floor)
            if number is None:
                return
            edits.append(Edit("AddDisjunct", NEW, self.groups.clause(number)))
            now |= self.groups.set_of(number)
            yield self._candidate(entries, tuple(edits))

    def _sides(self, called: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Of each group, how much that is missed it holds in, and how much quiet."""
        matrix = self.bench.matrix
        missed, quiet = matrix.unsafe & ~called, matrix.safe & ~called
        return self.groups.counts(missed), self.groups.counts(quiet)

    def _gaining(self, called: int) -> list[int]:
        """The groups that are worth a rule."""
        gain, harm = self._sides(called)
        found: list[int] = np.flatnonzero(gain - harm >= self.way.worth).tolist()
        return found

    def _precise(self, called: int, floor: float) -> int | None:
        """The group that rights most, of those that are right often enough."""
        gain, harm = self._sides(called)
        enough = (gain - harm >= self.way.worth) & (gain >= floor * (gain + harm))
        if not enough.any():
            return None
        return int(np.argmax(np.where(enough, gain - harm, -1)))
