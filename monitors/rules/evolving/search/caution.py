"""How much a rule must be worth: what held up on tasks that were left out."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from forewarn.monitors.rules.evolving.bits.bench import Bench
from forewarn.monitors.rules.evolving.bits.groups import Groups
from forewarn.monitors.rules.evolving.bits.matrix import Clause, Matrix
from forewarn.monitors.rules.evolving.search.evolution import evolve
from forewarn.monitors.rules.evolving.search.step import Way

FOLDS = 5
NO_CHANGE = 1_000_000
LADDER = ((NO_CHANGE, 2), (5, 2), (4, 3), (3, 3), (2, 2), (2, 3))
"""What is tried, the most cautious first: what an edit is worth, and literals."""
LEAST_WORTH = min(worth for worth, _ in LADDER)
MOST_LITERALS = max(literals for _, literals in LADDER)


@dataclass(frozen=True, slots=True)
class Trial:
    """One degree of caution, and how it fared on tasks that were left out.

    Args:
        worth: See `Way`.
        literals: See `Way`.
        f1: Of all folds together.
    """

    worth: int
    literals: int
    f1: float


def cautious(
    matrix: Matrix,
    start: Sequence[Clause],
    way: Way,
    groups: Groups,
    seed: int = 0,
) -> tuple[Way, tuple[Trial, ...]]:
    """The way with the caution that held up; the less cautious must prove better.

    One degree takes the place of a more cautious one if, on tasks that were left out,
    it puts more traces right than wrong, and by more than luck: by more than the root
    of how many are called otherwise.

    Args:
        matrix: The labelled runs; no other is looked at.
        start: The rules at first.
        way: All else.
        groups: The and-groups of the matrix.
        seed: Deals the tasks.
    """
    parts = list(folds(matrix, FOLDS, seed))
    trials: list[Trial] = []
    chosen, held_up = LADDER[0], 0
    for worth, literals in LADDER:
        tried = replace(way, worth=worth, literals=literals, prove=False)
        called = 0
        for part in parts:
            found = evolve(matrix.only(~part), start, tried, groups)
            called |= Bench(matrix).called(found.entries) & part
        trials.append(Trial(worth, literals, Bench(matrix).standing_of(called, 0).f1))
        right = called & matrix.unsafe | ~called & matrix.safe
        better = (right & ~held_up).bit_count()
        worse = (held_up & ~right).bit_count()
        if not held_up or (better > worse and (better - worse) ** 2 > better + worse):
            chosen, held_up = (worth, literals), right
    return replace(way, worth=chosen[0], literals=chosen[1]), tuple(trials)


def folds(matrix: Matrix, count: int, seed: int) -> Iterator[int]:
    """The labelled runs dealt into parts, runs of a task into the same."""
    together = matrix.together()
    random.Random(seed).shuffle(together)  # noqa: S311
    for part in range(count):
        yield sum(together[part::count])
