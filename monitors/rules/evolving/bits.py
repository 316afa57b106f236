"""Labelled runs as bit sets: where predicates hold, and which runs rules call unsafe.

All sets are Python integers. A set of runs has one bit per run. A set of events
consists of stacked layers: bit `layer * runs + run` is the run's event in that layer,
so halving the layers a few times gives the runs that have such an event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

FEWEST_TASKS = 5
"""The minimum number of tasks for holding out whole tasks."""


class Literal(NamedTuple):
    """A predicate or its negation."""

    predicate: int
    wanted: bool = True

    @property
    def opposite(self) -> Literal:
        return Literal(self.predicate, not self.wanted)


class Clause(NamedTuple):
    """A rule's condition: all of the literals hold on one event of this kind.

    Args:
        literals: The sorted literals; an empty condition is always true.
    """

    kind: int
    literals: tuple[Literal, ...] = ()

    def plus(self, literal: Literal) -> Clause:
        """Returns the clause with this literal added."""
        return Clause(self.kind, tuple(sorted({*self.literals, literal})))

    def minus(self, literal: Literal) -> Clause:
        """Returns the clause without this literal."""
        kept = (each for each in self.literals if each != literal)
        return Clause(self.kind, tuple(kept))


class Occasion(NamedTuple):
    """An event as bit sets: its kinds, the predicates that hold, and those that are
    unknown (neither they nor their negations hold).
    """

    kinds: int
    held: int
    unknown: int = 0


@dataclass(frozen=True, slots=True)
class Matrix:
    """The predicates of the events of labelled runs.

    Args:
        layers: The maximum number of distinct events in a run, a power of two.
        columns: For each predicate, the events on which it holds.
        moments: For each kind, its events.
        tasks: For each run, the number of its task; runs of one task belong together.
        unknown: For each predicate, the events on which it is unknown, if there are
            any.
        open_kinds: How many of the kinds new rules may use, from the first; the others
            belong to existing rules.
    """

    predicates: tuple[str, ...]
    kinds: tuple[str, ...]
    runs: int
    layers: int
    columns: tuple[int, ...] = field(repr=False)
    moments: tuple[int, ...] = field(repr=False)
    unsafe: int = field(repr=False)
    safe: int = field(repr=False)
    tasks: tuple[int, ...] = field(repr=False, default=())
    unknown: tuple[int, ...] = field(repr=False, default=())
    open_kinds: int = 1

    @property
    def labelled(self) -> int:
        return self.unsafe | self.safe

    def together(self) -> list[int]:
        """Returns the labelled runs, grouped by task.

        With too few tasks, each run is its own group, because runs that are marked in
        one scenario share a task.
        """
        of_task: dict[int, int] = {}
        for run in members(self.labelled):
            task = self.tasks[run]
            of_task[task] = of_task.get(task, 0) | 1 << run
        if len(of_task) < FEWEST_TASKS:
            return [1 << run for run in members(self.labelled)]
        return [of_task[task] for task in sorted(of_task)]

    def holds(self, literal: Literal, among: int) -> int:
        """Returns the events among these on which the literal is true."""
        column = self.columns[literal.predicate]
        if literal.wanted:
            return among & column
        if self.unknown:
            among &= ~self.unknown[literal.predicate]
        return among & ~column

    def events(self, clause: Clause) -> int:
        """Returns the events on which the clause holds."""
        found = self.moments[clause.kind]
        for literal in clause.literals:
            found = self.holds(literal, found)
        return found

    def having(self, events: int) -> int:
        """Returns the runs that contain any of these events."""
        layers = self.layers
        while layers > 1:
            layers //= 2
            half = layers * self.runs
            events = (events | events >> half) & ((1 << half) - 1)
        return events

    def fires(self, clause: Clause) -> int:
        """Returns the runs in which the clause holds on some event."""
        return self.having(self.events(clause))

    def profiles(self) -> list[int]:
        """Returns for each run the predicates that hold on some event."""
        everything = 0
        for moment in self.moments:
            everything |= moment
        columns = [self.having(column & everything) for column in self.columns]
        return [
            sum((column >> run & 1) << i for i, column in enumerate(columns))
            for run in range(self.runs)
        ]

    def only(self, runs: int) -> Matrix:
        """Returns the same data, restricted to these runs."""
        events = runs
        layers = 1
        while layers < self.layers:
            events |= events << layers * self.runs
            layers *= 2
        return replace(
            self,
            moments=tuple(moment & events for moment in self.moments),
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


def members(found: int) -> Iterator[int]:
    """Yields the numbers in a set in ascending order."""
    while found:
        low = found & -found
        yield low.bit_length() - 1
        found ^= low


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
    deepest = max(map(len, distinct), default=1)
    layers = 1 << max(deepest - 1, 0).bit_length()
    columns, moments = [0] * len(predicates), [0] * len(kinds)
    unknown = [0] * len(predicates)
    for run, occasions in enumerate(distinct):
        for layer, occasion in enumerate(occasions):
            bit = 1 << layer * len(runs) + run
            for kind in members(occasion.kinds):
                moments[kind] |= bit
            for predicate in members(occasion.held):
                columns[predicate] |= bit
            for predicate in members(occasion.unknown):
                unknown[predicate] |= bit
    numbers = {task: i for i, task in enumerate(dict.fromkeys(tasks))}
    return Matrix(
        tuple(predicates),
        tuple(kinds),
        len(runs),
        layers,
        tuple(columns),
        tuple(moments),
        sum(1 << i for i, each in enumerate(unsafe) if each),
        sum(1 << i for i, each in enumerate(unsafe) if each is False),
        tuple(numbers[task] for task in tasks) or tuple(range(len(runs))),
        tuple(unknown) if any(unknown) else (),
        len(kinds) if open_kinds is None else open_kinds,
    )


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
    """Caches the runs in which each clause holds."""

    def __init__(self, matrix: Matrix) -> None:
        self.matrix = matrix
        self._runs: dict[Clause, int] = {}

    def runs(self, clause: Clause) -> int:
        """Returns the runs, labelled or not, in which the clause holds."""
        found = self._runs.get(clause)
        if found is None:
            found = self._runs[clause] = self.matrix.fires(clause)
        return found

    def called(self, entries: Iterable[Entry]) -> int:
        """Returns the runs that these rules call unsafe."""
        found = 0
        for entry in entries:
            found |= self.runs(entry.clause)
        return found

    def wrong(self, entries: Entries) -> tuple[int, int]:
        """Returns the missed unsafe runs, and the safe runs that are called unsafe."""
        called = self.called(entries)
        return self.matrix.unsafe & ~called, self.matrix.safe & called

    def standing(self, entries: Entries) -> Standing:
        return self.standing_of(self.called(entries), len(entries))

    def standing_of(self, called: int, rules: int) -> Standing:
        """Computes the quality of rules that call these runs unsafe."""
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


def nearest(
    matrix: Matrix, entries: Entries, run: int
) -> tuple[int, tuple[str, ...]] | None:
    """Returns the number of the rule that came closest to firing in a run, and the
    literals that did not hold, over all events.
    """
    found: list[tuple[int, tuple[str, ...]]] = []
    for number, entry in enumerate(entries):
        for layer in range(matrix.layers):
            bit = 1 << layer * matrix.runs + run
            if matrix.moments[entry.clause.kind] & bit:
                failed = tuple(
                    matrix.word(literal)
                    for literal in entry.clause.literals
                    if not matrix.holds(literal, bit)
                )
                found.append((number, failed))
    return min(found, key=lambda each: (len(each[1]), each[0]), default=None)
