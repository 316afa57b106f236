"""The product of a chain and the monitor of a law.

A product state is a pair (s, q): the chain is in s, and the monitor is in q after
reading the letter of s. Arrays over pairs are indexed [q, s].
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import InvalidModel, TooLarge
from forewarn.monitors.chains.chain import Chain, check_size
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
        """Maps the values of transitions before END was split to the present
        transitions.
        """
        return np.append(data, 1.0)[self.origin] if self.ends.size > 1 else data

    def restore(self, values: Floats) -> Floats:
        """Maps values [q, s] to the original states; END gets the value of its worst
        copy.
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
        raise InvalidModel(f"there are {letters.size} letters, but {n} states")
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
    """The pairs [q, s] that can occur, because reading s leads from some state to q.

    Nothing is read in END, so any monitor state may occur there.
    """
    step = automaton.step
    after = np.zeros(step.shape, dtype=bool)
    after[step, np.arange(step.shape[1])] = True
    pairs: Bools = after[:, letters]
    if end is not None:
        pairs[:, end] = True
    return pairs


def product_chain(chain: Chain, letters: Ints, automaton: Automaton) -> Chain:
    """Builds a chain of all reachable pairs, for other tools.

    The product starts in the chain's initial state, or else in every state, after the
    monitor has read that state. A pair is named "s|q". The labels of the chain are
    kept, and `violated` and `pending` are added. A product that would be too large is
    rejected before it is built.
    """
    reading = read_chain(chain.indptr, chain.indices, chain.end, letters, automaton)
    n = reading.n
    starts = np.arange(n) if chain.initial is None else np.array([chain.initial])
    start_pairs = automaton.step[0, reading.letters[starts]] * np.int64(n) + starts
    layers = list(_explore(reading, automaton.step, start_pairs))
    pairs, lengths, targets, entries = (
        np.concatenate(parts) for parts in zip(*layers, strict=True)
    )
    by_pair = np.argsort(pairs)
    number = by_pair[np.searchsorted(pairs, targets, sorter=by_pair)]
    order = np.lexsort((number, np.repeat(np.arange(pairs.size), lengths)))
    monitor, state = np.divmod(pairs, n)
    before = np.where(np.isin(state, reading.ends), chain.end or 0, state)
    entries = reading.origin[entries[order]]
    exact = (*chain.exact, Fraction(1)) if chain.exact else ()
    groups = {name: np.isin(before, list(g)) for name, g in chain.labels.items()}
    groups |= {
        "pending": automaton.pending[monitor],
        "violated": monitor == automaton.violated,
    }
    return Chain(
        states=_pair_names(chain, reading, automaton, monitor, state),
        indptr=np.append(0, np.cumsum(lengths)),
        indices=number[order],
        data=np.append(chain.data, 1.0)[entries],
        exact=tuple(exact[i] for i in entries.tolist()) if exact else None,
        initial=None if chain.initial is None else 0,
        labels={k: frozenset(np.flatnonzero(g).tolist()) for k, g in groups.items()},
    )


def _pair_names(
    chain: Chain, reading: Reading, automaton: Automaton, monitor: Ints, state: Ints
) -> tuple[str, ...]:
    copies = range(2, reading.ends.size + 1)
    states = (*chain.states, *(f"{chain.states[reading.ends[0]]}:{i}" for i in copies))
    pairs = zip(state.tolist(), monitor.tolist(), strict=True)
    return tuple(f"{states[s]}|{automaton.names[q]}" for s, q in pairs)


def _explore(
    reading: Reading, step: NDArray[np.int32], starts: Ints
) -> Iterator[tuple[Ints, Ints, Ints, Ints]]:
    """Explores pairs breadth first; returns them with row lengths, successor pairs and
    transitions.
    """
    indptr, n = reading.indptr, reading.n
    seen = np.zeros(step.shape[0] * n, dtype=bool)
    seen[starts] = True
    pairs, states, transitions = starts, 0, 0
    while pairs.size:
        monitor, state = np.divmod(pairs, n)
        lengths = indptr[state + 1] - indptr[state]
        states, transitions = states + pairs.size, transitions + int(lengths.sum())
        check_size(states, transitions, source="the product with the law")
        offset = np.repeat(indptr[state] - np.cumsum(lengths) + lengths, lengths)
        entries = offset + np.arange(lengths.sum())
        successors = reading.indices[entries]
        after = step[np.repeat(monitor, lengths), reading.letters[successors]]
        targets = after * np.int64(n) + successors
        yield pairs, lengths, targets, entries
        pairs = np.unique(targets[~seen[targets]])
        seen[pairs] = True
