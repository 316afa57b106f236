"""Counts first visits: in each run, the outcome after the first visit to each pair."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import numpy as np

from forewarn.monitors.evaluation.foretold import unmet_ahead
from forewarn.monitors.laws.automaton import Automaton
from forewarn.monitors.risk.first_visits import FirstVisits, monitor_digest
from forewarn.monitors.risk.product import Ints

_AT_ONCE = 64
"""The number of runs that are processed together."""


def count_first_visits(
    automaton: Automaton,
    letters: Ints,
    runs: Iterable[tuple[Ints, bool]],
    horizon_s: float,
    period_s: float,
) -> FirstVisits:
    """Counts the outcomes of the first visits in each run.

    Args:
        automaton: The law's monitor.
        letters: The letter that the monitor reads in each state of the chain.
        runs: The states of the chain in each run, and whether the run is complete; if
            not, outcomes after its last state are unknown.
        horizon_s: The horizon H, in seconds.
        period_s: The time between two states, in seconds.
    """
    steps = max(1, round(horizon_s / period_s))
    # The number of steps after which the outcome of a moment is certain.
    settled, size = steps + int(automaton.due.max(initial=0)), len(letters)
    counts = np.zeros((3, automaton.n * size), np.int64)
    left = iter(runs)
    while some := list(islice(left, _AT_ONCE)):
        read = [letters[states] for states, _ in some]
        ahead = unmet_ahead(automaton, read, steps)
        for (states, whole), (monitors, unmet) in zip(some, ahead, strict=True):
            length = len(monitors)
            pairs, first = np.unique(
                monitors * size + states[:length], return_index=True
            )
            # Once the law is broken, all earlier outcomes are known.
            open_ = not whole and length == len(states)
            unknown = open_ & (first + settled >= len(states))
            counts[0, pairs] += 1
            counts[1, pairs] += unmet[first] & ~unknown
            counts[2, pairs] += unknown
    visited = np.flatnonzero(counts[0])
    rows = np.stack([visited // size, visited % size, *counts[:, visited]], axis=1)
    return FirstVisits(horizon_s, monitor_digest(automaton, letters), rows)
