"""Edits of a set of rules: the four operators, and giving up what was learned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal as Either
from typing import NamedTuple

from forewarn.monitors.rules.evolving.bits.bench import (
    NEW,
    Bench,
    Entries,
    Entry,
    Standing,
)
from forewarn.monitors.rules.evolving.bits.matrix import Clause, Literal

Operator = Either["AddDisjunct", "Relax", "AddConjunct", "AddException", "Drop"]
WIDENS = ("AddDisjunct", "Relax")


class Edit(NamedTuple):
    """One change.

    Args:
        operator: What is done.
        rule: The number of the rule that changes; `NEW` for one that is added.
        clause: What it says afterwards; of a rule given up, what it said.
    """

    operator: Operator
    rule: int
    clause: Clause

    @property
    def direction(self) -> Either["recall", "precision"]:
        """What it is meant to raise."""
        return "recall" if self.operator in WIDENS else "precision"

    def of(self, entries: Entries) -> Entries:
        """The rules after it."""
        if self.rule == NEW:
            return (*entries, Entry(NEW, self.clause))
        before, after = entries[: self.rule], entries[self.rule + 1 :]
        if self.operator == "Drop":
            return (*before, *after)
        changed = Entry(entries[self.rule].origin, self.clause)
        return (*before, changed, *after)


class Candidate(NamedTuple):
    """A set of rules that is tried.

    Args:
        standing: How good it is.
        entries: The rules.
        edits: What led there.
    """

    standing: Standing
    entries: Entries
    edits: tuple[Edit, ...]

    @property
    def rank(self) -> tuple[object, ...]:
        """The best first; of equals the one that says least."""
        size = sum(len(entry.clause.literals) for entry in self.entries)
        worse = tuple(-value for value in self.standing)
        return (*worse, size, len(self.edits), self.entries)


class Effect(NamedTuple):
    """What an edit changes in what is called unsafe, as sets of runs.

    Args:
        righted: Called wrongly before, rightly after.
        wronged: The other way round.
    """

    righted: int
    wronged: int

    @property
    def net(self) -> int:
        return self.righted.bit_count() - self.wronged.bit_count()


def effect(bench: Bench, before: int, after: int) -> Effect:
    """What it changes to call other runs unsafe."""
    more, fewer = after & ~before, before & ~after
    unsafe, safe = bench.matrix.unsafe, bench.matrix.safe
    return Effect(more & unsafe | fewer & safe, more & safe | fewer & unsafe)


def narrowings(bench: Bench, entries: Entries, rules: Iterable[int]) -> Iterator[Edit]:
    """Each of these rules with each literal more: conjuncts and exceptions."""
    for number in rules:
        clause = entries[number].clause
        known = {literal.predicate for literal in clause.literals}
        for predicate in range(len(bench.matrix.predicates)):
            if predicate not in known:
                for wanted in (True, False):
                    operator: Operator = "AddConjunct" if wanted else "AddException"
                    longer = clause.plus(Literal(predicate, wanted))
                    yield Edit(operator, number, longer)


def widenings(entries: Entries) -> Iterator[Edit]:
    """Each rule with each literal less; the last one stays."""
    for number, entry in enumerate(entries):
        if len(entry.clause.literals) > 1:
            for literal in entry.clause.literals:
                yield Edit("Relax", number, entry.clause.minus(literal))


def drops(entries: Entries) -> Iterator[Edit]:
    """Each learned rule given up; what a person wrote is narrowed, not given up."""
    for number, entry in enumerate(entries):
        if entry.origin == NEW:
            yield Edit("Drop", number, entry.clause)
