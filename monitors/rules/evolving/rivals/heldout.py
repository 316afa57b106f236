"""Held-out figures: random splits by task, for evolved rules and for their rivals."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from forewarn.monitors.rules.evolving.bits.bench import Bench, Standing
from forewarn.monitors.rules.evolving.bits.matrix import Clause, Matrix
from forewarn.monitors.rules.evolving.rivals.learners import Learner


def held_out(matrix: Matrix, share: float, seed: int) -> int:
    """The labelled runs of a share of the tasks, drawn at random."""
    together = matrix.together()
    random.Random(seed).shuffle(together)  # noqa: S311
    return sum(together[: round(share * len(together))])


@dataclass(frozen=True, slots=True)
class Fared:
    """How a learner fared on runs that were held out.

    Args:
        name: Who.
        standings: On each split.
    """

    name: str
    standings: tuple[Standing, ...]

    @property
    def mean(self) -> float:
        return sum(each.f1 for each in self.standings) / len(self.standings)

    @property
    def least(self) -> float:
        return min(each.f1 for each in self.standings)

    def as_dict(self) -> dict[str, Any]:
        count = len(self.standings)
        return {
            "name": self.name,
            "precision": sum(each.precision for each in self.standings) / count,
            "recall": sum(each.recall for each in self.standings) / count,
            "f1": self.mean,
            "least_f1": self.least,
        }


def fared(
    name: str,
    learner: Learner,
    matrix: Matrix,
    start: Sequence[Clause],
    seeds: Iterable[int],
    share: float = 0.3,
) -> Fared:
    """Learns from the runs that are left, and is judged on those held out."""
    return Fared(name, tuple(_each(learner, matrix, start, seeds, share)))


def _each(
    learner: Learner,
    matrix: Matrix,
    start: Sequence[Clause],
    seeds: Iterable[int],
    share: float,
) -> Iterator[Standing]:
    for seed in seeds:
        held = held_out(matrix, share, seed)
        call = learner(matrix.only(matrix.labelled & ~held), start)
        yield Bench(matrix.only(held)).standing_of(call(matrix) & held, 0)
