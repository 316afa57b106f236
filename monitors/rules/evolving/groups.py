"""And-groups: conjunctions of a few predicates, with the runs in which they are true.

All groups are computed once, in order of length. If several groups are true in the
same runs, only the simplest is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.monitors.rules.evolving.bits import (
    Clause,
    Literal,
    Matrix,
    Words,
    counts,
)

MOST_CELLS = 40_000_000
"""The maximum size of all groups of one length, in 64-bit words."""


@dataclass(frozen=True, slots=True)
class Groups:
    """And-groups with their runs, the simplest first.

    Args:
        predicates: The number of predicates to combine.
        kinds: The kind of event of each group.
        literals: One row of predicate numbers per group, padded with -1; for a negated
            predicate, `predicates` is added to its number.
        sets: The runs in which each group is true, as 64-bit words.
    """

    predicates: int
    kinds: NDArray[np.int64] = field(repr=False)
    literals: NDArray[np.int64] = field(repr=False)
    sets: Words = field(repr=False)

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of literals in each group."""
        sizes: NDArray[np.int64] = (self.literals >= 0).sum(axis=1)
        return sizes

    def kept(self, which: NDArray[Any]) -> Groups:
        """Returns only these groups."""
        return replace(
            self,
            kinds=self.kinds[which],
            literals=self.literals[which],
            sets=self.sets[which],
        )

    def clause(self, number: int) -> Clause:
        literals = (each for each in self.literals[number].tolist() if each >= 0)
        found = (Literal(n % self.predicates, n < self.predicates) for n in literals)
        return Clause(int(self.kinds[number]), tuple(sorted(found)))

    def counts(self, among: Words) -> NDArray[np.int64]:
        """Counts, for each group, the runs in `among` in which it is true."""
        return counts(self.sets & among)


def and_groups(matrix: Matrix, most: int = 3, least: int = 1) -> Groups:
    """Returns the and-groups with at most `most` literals and at least one non-negated
    predicate that are true in at least `least` unsafe runs.
    """
    found: list[tuple[NDArray[np.int64], NDArray[np.int64], Words]] = []
    for kind, moment in enumerate(matrix.moments[: matrix.open_kinds]):
        literals = matrix.literals & moment
        names = np.zeros((1, 0), np.int64)
        events = moment[None]
        for depth in range(1, most + 1):
            if events.size * len(literals) > MOST_CELLS:
                break
            names, events, runs = _longer(
                names, events, literals, lambda r: counts(r & matrix.unsafe) >= least
            )
            padded = np.pad(names, ((0, 0), (0, most - depth)), constant_values=-1)
            named = runs & matrix.labelled
            found.append((np.full(len(names), kind), padded, named))
    predicates = len(matrix.predicates)
    kinds, rows, sets = (np.concatenate(parts) for parts in zip(*found, strict=True))
    unwanted = (rows >= predicates).sum(axis=1)
    order = np.lexsort((*rows.T[::-1], kinds, unwanted, (rows >= 0).sum(axis=1)))
    keys = np.ascontiguousarray(sets[order]).view(f"V{sets.shape[1] * 8}").ravel()
    first = order[np.sort(np.unique(keys, return_index=True)[1])]
    return Groups(predicates, kinds[first], rows[first], sets[first])


def _longer(
    names: NDArray[np.int64],
    events: Words,
    literals: Words,
    enough: Callable[[Words], NDArray[np.bool_]],
) -> tuple[NDArray[np.int64], Words, Words]:
    """Extends each group by one literal; returns the new groups, their events and runs.

    Literals are added in order, positive before negated ones, so each group is
    generated once. A literal is dropped if it excludes no event or leaves too few
    unsafe runs, because it would also do so in longer groups.
    """
    first = not names.shape[1]
    found: list[tuple[NDArray[np.int64], Words, Words]] = []
    for literal in range(len(literals) // 2 if first else len(literals)):
        parents = slice(None) if first else names[:, -1] < literal
        before = events[parents]
        after = before & literals[literal]
        runs = np.bitwise_or.reduce(after, axis=1)
        kept = enough(runs)
        if not first:
            kept &= (after != before).any(axis=(1, 2))
        longer = np.pad(names[parents][kept], ((0, 0), (0, 1)), constant_values=literal)
        found.append((longer, after[kept], runs[kept]))
    grown, left, named = zip(*found, strict=True)
    return np.concatenate(grown), np.concatenate(left), np.concatenate(named)
