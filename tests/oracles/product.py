"""The product of a chain and the monitor of a law as a chain, for Storm to check."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from forewarn.monitors.chains.chain import Chain, check_size
from forewarn.monitors.laws.automaton import Automaton
from forewarn.monitors.risk.product import Ints, Reading, read_chain


def product_chain(chain: Chain, letters: Ints, automaton: Automaton) -> Chain:
    """Builds a chain of all reachable pairs of a state and a monitor state.

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
