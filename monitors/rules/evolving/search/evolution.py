"""Evolution: step by step to rules that fit what was labelled, and no further."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal as Either

from forewarn.monitors.rules.evolving.bits.bench import (
    Bench,
    Entries,
    Entry,
    Standing,
)
from forewarn.monitors.rules.evolving.bits.groups import Groups, and_groups
from forewarn.monitors.rules.evolving.bits.hypothesis import Hypothesis
from forewarn.monitors.rules.evolving.bits.matrix import Clause, Matrix
from forewarn.monitors.rules.evolving.search.edits import Edit
from forewarn.monitors.rules.evolving.search.step import Search, Way

Stop = Either["target", "no better", "budget"]


@dataclass(frozen=True, slots=True)
class Step:
    """One accepted change.

    Args:
        edits: It.
        standing: How good the rules are after it.
        candidates: How many sets of rules were tried for it.
    """

    edits: tuple[Edit, ...]
    standing: Standing
    candidates: int


@dataclass(frozen=True, slots=True)
class Evolution:
    """How rules evolved.

    Args:
        start: How good they were.
        steps: What was changed.
        entries: The rules now.
        stop: Why it ended.
        hypothesis: The least that explains what the first rules missed.
    """

    start: Standing
    steps: tuple[Step, ...]
    entries: Entries
    stop: Stop
    hypothesis: Hypothesis | None = None

    @property
    def standing(self) -> Standing:
        return self.steps[-1].standing if self.steps else self.start


def evolve(
    matrix: Matrix,
    start: Sequence[Clause] = (),
    way: Way | None = None,
    groups: Groups | None = None,
    tick: Callable[[Step], None] = lambda step: None,
) -> Evolution:
    """Changes rules for the better as long as that is possible.

    Each change raises F1 on the labelled runs, or keeps it and raises what comes after
    it in `Standing`. At the end no single edit that is worth it does so.

    Args:
        matrix: The labelled runs.
        start: The rules at first.
        way: How.
        groups: The and-groups of the matrix, if they are known.
        tick: Hears of each step.
    """
    way = way or Way()
    if groups is None:
        groups = and_groups(matrix, way.literals, way.worth)
    bench = Bench(matrix)
    search = Search(bench, groups, way)
    entries: Entries = tuple(Entry(i, clause) for i, clause in enumerate(start))
    first = now = bench.standing(entries)
    hypothesis = search.hypothesis(entries) if way.ilp and way.prove else None
    steps: list[Step] = []
    stop: Stop = "budget"
    while len(steps) < way.budget:
        if now.f1 >= way.target:
            stop = "target"
            break
        tried = search.tried
        found = search.better(entries)
        if found is None:
            stop = "no better"
            break
        entries, now = found.entries, found.standing
        steps.append(Step(found.edits, now, search.tried - tried))
        tick(steps[-1])
    return Evolution(first, tuple(steps), entries, stop, hypothesis)
