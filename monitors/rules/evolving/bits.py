"""Bit sets of labelled runs: where predicates are true, and which runs rules call
unsafe.

A set of runs has one bit per run, in 64-bit words. A set of events has one row of bits
per layer: bit `run` of layer `n` represents the n-th distinct event of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FEWEST_TASKS = 5
"""The minimum number of tasks for holding out whole tasks."""

Words = NDArray[np.uint64]
"""A set of runs, or an array of such sets, whose last axis holds the words."""


def packed(flags: NDArray[np.bool_]) -> Words:
    """Returns the set of the runs whose flag is true; the last axis is the runs."""
    spare = [(0, 0)] * (flags.ndim - 1) + [(0, -flags.shape[-1] % 64)]
    found: Words = np.packbits(np.pad(flags, spare), -1, "little").view(np.uint64)
    return found


def unpacked(sets: Words) -> NDArray[np.bool_]:
    """Returns for each run whether it is in a set."""
    return np.unpackbits(sets.view(np.uint8), -1, None, "little").astype(np.bool_)


def members(found: Words) -> list[int]:
    """Returns the numbers of the runs in a set in ascending order."""
    numbers: list[int] = np.flatnonzero(unpacked(found)).tolist()
    return numbers


def counts(sets: Words) -> NDArray[np.int64]:
    """Counts the members of each set."""
    found: NDArray[np.int64] = np.bitwise_count(sets).sum(axis=-1, dtype=np.int64)
    return found


def count(found: Words) -> int:
    return int(counts(found))


class Literal(NamedTuple):
    """A predicate or its negation."""

    predicate: int
    wanted: bool = True


class Clause(NamedTuple):
    """A rule's condition: all literals are true on one event of this kind.

    Args:
        literals: The sorted literals; an empty condition is always true.
    """

    kind: int
    literals: tuple[Literal, ...] = ()

    def plus(self, literal: Literal) -> Clause:
        """Returns the clause with this literal added."""
        return Clause(self.kind, tuple(sorted({*self.literals, literal})))


class Occasion(NamedTuple):
    """An event as three bit fields: its kinds, the true predicates, and the unknown
    predicates (neither they nor their negations count as true).
    """

    kinds: int
    held: int
    unknown: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """A table of the predicates that are true on the events of labelled runs.

    Args:
        literals: The events on which each predicate is true, then those on which each
            is false.
        moments: The events of each kind.
        tasks: The number of each run's task; runs of one task are held out together.
        open_kinds: The number of kinds, from the first, that new rules may use; the
            others belong to existing rules.
    """

    predicates: tuple[str, ...]
    kinds: tuple[str, ...]
    literals: Words = field(repr=False)
    moments: Words = field(repr=False)
    unsafe: Words = field(repr=False)
    safe: Words = field(repr=False)
    tasks: tuple[int, ...] = field(repr=False)
    open_kinds: int = 1

    @property
    def labelled(self) -> Words:
        return self.unsafe | self.safe

    def set_of(self, runs: Iterable[int]) -> Words:
        """Returns the set of these runs."""
        flags = np.zeros(len(self.tasks), bool)
        flags[list(runs)] = True
        return packed(flags)

    def together(self) -> list[list[int]]:
        """Returns the labelled runs, grouped by task.

        With too few tasks, each run is its own group, because runs that are marked in
        one scenario share a task.
        """
        of_task: dict[int, list[int]] = {}
        for run in members(self.labelled):
            of_task.setdefault(self.tasks[run], []).append(run)
        if len(of_task) < FEWEST_TASKS:
            return [[run] for run in members(self.labelled)]
        return [of_task[task] for task in sorted(of_task)]

    def literal(self, number: int) -> Literal:
        """Returns the literal in a row of `literals`."""
        predicates = len(self.predicates)
        return Literal(number % predicates, number < predicates)

    def truth(self, literal: Literal) -> Words:
        """Returns the events on which a literal is true."""
        negated = 0 if literal.wanted else len(self.predicates)
        truth: Words = self.literals[literal.predicate + negated]
        return truth

    def events(self, clause: Clause) -> Words:
        """Returns the events on which the clause is true."""
        found: Words = self.moments[clause.kind]
        for literal in clause.literals:
            found = found & self.truth(literal)
        return found

    def fires(self, clause: Clause) -> Words:
        """Returns the runs in which the clause is true on some event."""
        found: Words = np.bitwise_or.reduce(self.events(clause))
        return found

    def profiles(self) -> NDArray[np.bool_]:
        """Returns whether each predicate is true on some event of each run."""
        everything = np.bitwise_or.reduce(self.moments)
        held = self.literals[: len(self.predicates)] & everything
        return unpacked(np.bitwise_or.reduce(held, axis=1))

    def only(self, runs: Words) -> Matrix:
        """Returns the same data, restricted to these runs."""
        return replace(
            self,
            moments=self.moments & runs,
            unsafe=self.unsafe & runs,
            safe=self.safe & runs,
        )

    def word(self, literal: Literal) -> str:
        """Describes a literal."""
        name = self.predicates[literal.predicate]
        return name if literal.wanted else f"not {name}"

    def said(self, clause: Clause) -> str:
        """Describes a clause."""
        words = " and ".join(map(self.word, clause.literals))
        return f"{self.kinds[clause.kind]}: {words or 'always'}"


def matrix(
    predicates: Sequence[str],
    kinds: Sequence[str],
    runs: Sequence[Sequence[Occasion]],
    unsafe: Sequence[bool | None],
    tasks: Sequence[str] = (),
    open_kinds: int | None = None,
) -> Matrix:
    """Creates the matrix of these runs. By default, all tasks differ and new rules may
    use every kind.

    Events of a run with the same predicates are stored only once.
    """
    distinct = [tuple(dict.fromkeys(run)) for run in runs]
    shape = max((1, *map(len, distinct))), -(-len(runs) // 64)
    moments = np.zeros((len(kinds), *shape), np.uint64)
    literals = np.zeros((2 * len(predicates), *shape), np.uint64)
    for run, occasions in enumerate(distinct):
        word, bit = run // 64, np.uint64(1 << run % 64)
        for layer, each in enumerate(occasions):
            failed = ~each.held & ~each.unknown
            signs = _flags(each.held, predicates) + _flags(failed, predicates)
            literals[signs, layer, word] |= bit
            moments[_flags(each.kinds, kinds), layer, word] |= bit
    numbers = {task: i for i, task in enumerate(dict.fromkeys(tasks))}
    return Matrix(
        tuple(predicates),
        tuple(kinds),
        literals,
        moments,
        packed(np.array([each is True for each in unsafe], bool)),
        packed(np.array([each is False for each in unsafe], bool)),
        tuple(numbers[task] for task in tasks) or tuple(range(len(runs))),
        len(kinds) if open_kinds is None else open_kinds,
    )


def _flags(bits: int, names: Sequence[str]) -> list[bool]:
    return [bool(bits >> i & 1) for i in range(len(names))]


NEW = -1


class Entry(NamedTuple):
    """A rule of a set: the number of its original, or `NEW`, and its current clause."""

    origin: int
    clause: Clause


Entries = tuple[Entry, ...]


def entries_of(clauses: Iterable[Clause]) -> Entries:
    """Returns the entries of unchanged rules."""
    return tuple(Entry(number, clause) for number, clause in enumerate(clauses))


class Standing(NamedTuple):
    """The quality of a set of rules, compared field by field; larger is better.

    Args:
        resolved: Minus the number of runs that the rules classify wrongly.
        short: Minus the number of rules.
    """

    f1: float
    precision: float
    resolved: int
    short: int
    recall: float = 0.0


class Bench:
    """Caches the runs in which each clause is true on some event."""

    def __init__(self, matrix: Matrix) -> None:
        self.matrix = matrix
        self._runs: dict[Clause, Words] = {}

    def runs(self, clause: Clause) -> Words:
        """Returns the runs, labelled or not, in which the clause is true."""
        if clause not in self._runs:
            self._runs[clause] = self.matrix.fires(clause)
        return self._runs[clause]

    def called(self, entries: Iterable[Entry]) -> Words:
        """Returns the runs that these rules call unsafe."""
        found = np.zeros_like(self.matrix.unsafe)
        for entry in entries:
            found |= self.runs(entry.clause)
        return found

    def wrong(self, entries: Entries) -> tuple[Words, Words]:
        """Returns the missed unsafe runs, and the safe runs that are called unsafe."""
        called = self.called(entries)
        return self.matrix.unsafe & ~called, self.matrix.safe & called

    def standing(self, entries: Entries) -> Standing:
        return self.standing_of(self.called(entries), len(entries))

    def standing_of(self, called: Words, rules: int) -> Standing:
        """Computes the quality of rules that call these runs unsafe."""
        hits = count(called & self.matrix.unsafe)
        alarms = count(called & self.matrix.safe)
        misses = count(self.matrix.unsafe) - hits
        wrong = alarms + misses
        return Standing(
            2 * hits / (2 * hits + wrong) if hits else 0.0,
            hits / (hits + alarms) if hits else 0.0,
            -wrong,
            -rules,
            hits / (hits + misses) if hits else 0.0,
        )


def nearest(
    matrix: Matrix, entries: Entries, run: int
) -> tuple[int, tuple[str, ...]] | None:
    """Returns the number of the rule that came closest to firing at any event of a run,
    and its literals that were not true there.
    """

    def has(events: Words) -> NDArray[Any]:
        """Returns whether the run's event in each layer is among these."""
        return unpacked(events)[:, run]

    found: list[tuple[int, tuple[str, ...]]] = []
    for number, entry in enumerate(entries):
        literals = entry.clause.literals
        truths = [has(matrix.truth(literal)) for literal in literals]
        for layer in np.flatnonzero(has(matrix.moments[entry.clause.kind])):
            pairs = zip(literals, truths, strict=True)
            failed = (matrix.word(each) for each, truth in pairs if not truth[layer])
            found.append((number, tuple(failed)))
    return min(found, key=lambda each: (len(each[1]), each[0]), default=None)
