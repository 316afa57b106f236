"""Judging sets of rules: what they call unsafe, and which set is the better."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from forewarn.monitors.rules.evolving.bits.matrix import Clause, Matrix

NEW = -1


class Entry(NamedTuple):
    """A rule of a set.

    Args:
        origin: The number of the rule that it was at the start; `NEW` for none.
        clause: What it says now.
    """

    origin: int
    clause: Clause


Entries = tuple[Entry, ...]


class Standing(NamedTuple):
    """How good a set of rules is; more is better, the first first.

    Args:
        f1: Of what it calls unsafe.
        precision: How much of that is.
        resolved: Minus the runs that it calls wrongly.
        short: Minus its rules.
        recall: How much of what is unsafe it calls so; it follows from the others.
    """

    f1: float
    precision: float
    resolved: int
    short: int
    recall: float = 0.0


class Bench:
    """Remembers in which runs each clause holds."""

    def __init__(self, matrix: Matrix) -> None:
        self.matrix = matrix
        self._runs: dict[Clause, int] = {}

    def runs(self, clause: Clause) -> int:
        """The runs, labelled or not, in which it holds."""
        found = self._runs.get(clause)
        if found is None:
            found = self._runs[clause] = self.matrix.fires(clause)
        return found

    def called(self, entries: Iterable[Entry]) -> int:
        """The runs that these rules call unsafe."""
        found = 0
        for entry in entries:
            found |= self.runs(entry.clause)
        return found

    def standing(self, entries: Entries) -> Standing:
        """How good they are."""
        return self.standing_of(self.called(entries), len(entries))

    def standing_of(self, called: int, rules: int) -> Standing:
        """How good it is to call these runs unsafe."""
        hits = (called & self.matrix.unsafe).bit_count()
        alarms = (called & self.matrix.safe).bit_count()
        misses = self.matrix.unsafe.bit_count() - hits
        wrong = alarms + misses
        return Standing(
            2 * hits / (2 * hits + wrong) if hits else 0.0,
            hits / (hits + alarms) if hits else 0.0,
            -wrong,
            -rules,
            hits / (hits + misses) if hits else 0.0,
        )


class Counterexamples(NamedTuple):
    """Where a set of rules is wrong.

    Args:
        misses: Unsafe runs that no rule fires in.
        alarms: Safe runs that some rule fires in.
        alone: For each rule, the safe runs that fall quiet if it does.
        held: For each rule, the unsafe runs that only it fires in.
    """

    misses: int
    alarms: int
    alone: tuple[int, ...]
    held: tuple[int, ...]


def mine(bench: Bench, entries: Entries) -> Counterexamples:
    """Where the rules are wrong, and which of them."""
    matrix = bench.matrix
    runs = [bench.runs(entry.clause) for entry in entries]
    once = twice = 0
    for each in runs:
        twice |= once & each
        once |= each
    only = [each & ~twice for each in runs]
    return Counterexamples(
        matrix.unsafe & ~once,
        matrix.safe & once,
        tuple(each & matrix.safe for each in only),
        tuple(each & matrix.unsafe for each in only),
    )


class Nearest(NamedTuple):
    """How a rule came nearest to firing in a run.

    Args:
        rule: The rule's number.
        failed: The literals that did not hold, fewest of all rules and events.
    """

    rule: int
    failed: tuple[str, ...]


def nearest(matrix: Matrix, entries: Entries, run: int) -> Nearest | None:
    """The rule that lacked least to fire in a run, and what it lacked."""
    found: list[Nearest] = []
    for number, entry in enumerate(entries):
        for layer in range(matrix.layers):
            bit = 1 << layer * matrix.runs + run
            if matrix.moments[entry.clause.kind] & bit:
                failed = tuple(
                    matrix.word(literal)
                    for literal in entry.clause.literals
                    if not matrix.holds(literal, bit)
                )
                found.append(Nearest(number, failed))
    return min(found, key=lambda each: (len(each.failed), each.rule), default=None)
