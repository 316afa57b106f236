"""The product of a chain and the monitor of a law.

A product state is a pair (s, q): the chain is in s, and the monitor is in q after
reading the letter of s. Arrays over pairs are indexed [q, s].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import InvalidModel, TooLarge
from forewarn.monitors.laws.automaton import Automaton

MAX_PAIRS = 10_000_000
"""The maximum number of pairs (monitor state, chain state) in a table."""

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """The transitions of a chain, and the letter that a monitor reads in each state.

    An obligation pending at END is decided by repeating the last state forever. END is
    therefore split into one absorbing copy for each letter that may come last; in this
    copy, the monitor keeps reading that letter. The first copy keeps END's number, and
    the others come last, so that all other numbers stay the same.

    Args:
        indptr: The start of each row, with END split.
        indices: The successors, ascending within each row.
        origin: For each transition, its number before END was split; for the self-loop
            of an added copy, the original number of transitions.
        letters: For each state, the column of its letter in the automaton's tables.
        ends: The copies of END; empty if there is no END.
        size: The number of states before END was split.
    """

    indptr: Ints
    indices: Ints
    origin: Ints
    letters: Ints
    ends: Ints
    size: int

    @property
    def n(self) -> int:
        return len(self.letters)

    def sources(self) -> Ints:
        return np.repeat(np.arange(self.n), np.diff(self.indptr))

    def weights(self, data: Floats) -> Floats:
        """Converts values of the original transitions to the transitions with END
        split.
        """
        return np.append(data, 1.0)[self.origin] if self.ends.size > 1 else data

    def restore(self, values: Floats) -> Floats:
        """Converts values [q, s] to the original states; END gets the value of its
        worst copy.
        """
        if self.ends.size < 2:
            return values
        kept = values[:, : self.size].copy()
        kept[:, self.ends[0]] = values[:, self.ends].max(axis=1)
        return kept


def read_chain(
    indptr: Ints, indices: Ints, end: int | None, letters: Ints, automaton: Automaton
) -> Reading:
    """Splits END, and checks the letters that the automaton reads along a chain."""
    n = len(indptr) - 1
    monitor_states, columns = automaton.step.shape
    letters = np.array(letters, dtype=np.int64)
    if letters.shape != (n,):
        raise InvalidModel(
            f"the chain has {n} states, but {letters.size} of them have letters"
        )
    if end is not None:
        letters[end] = 0
    if letters.min() < 0 or letters.max() >= columns:
        raise InvalidModel(
            f"a letter is outside the monitor's table, which has {columns} columns"
        )
    if monitor_states * n > MAX_PAIRS:
        raise TooLarge(
            f"{n:,} states with {monitor_states:,} monitor states make more than "
            f"{MAX_PAIRS:,} pairs",
            mend="use a coarser clock or fewer predicates",
        )
    origin = np.arange(len(indices))
    if end is None:
        nowhere = np.zeros(0, dtype=np.int64)
        return Reading(indptr, indices, origin, letters, nowhere, n)
    sources = np.repeat(np.arange(n), np.diff(indptr))
    entering = (indices == end) & (sources != end)
    kinds, kind = np.unique(letters[sources[entering]], return_inverse=True)
    kinds = kinds if kinds.size else np.zeros(1, dtype=np.int64)
    added = np.arange(n, n + kinds.size - 1)
    ends = np.append(end, added)
    targets = indices.copy()
    targets[entering] = ends[kind]
    sources, targets = np.append(sources, added), np.append(targets, added)
    order = np.lexsort((targets, sources))
    letters = np.append(letters, kinds[1:])
    letters[end] = kinds[0]
    return Reading(
        indptr=np.searchsorted(sources, np.arange(n + added.size + 1)),
        indices=targets[order],
        origin=np.minimum(order, len(indices)),
        letters=letters,
        ends=ends,
        size=n,
    )


def consistent_pairs(automaton: Automaton, letters: Ints, end: int | None) -> Bools:
    """Returns the pairs [q, s] that can occur: reading s leads from some monitor state
    to q.

    Nothing is read in END, so any monitor state may occur there.
    """
    step = automaton.step
    after = np.zeros(step.shape, dtype=bool)
    after[step, np.arange(step.shape[1])] = True
    pairs: Bools = after[:, letters]
    if end is not None:
        pairs[:, end] = True
    return pairs
