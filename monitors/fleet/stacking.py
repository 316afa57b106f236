"""Many tallies beside each other, in arrays: to be summed, and held to each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from forewarn.monitors.chains.learning import Tally
from forewarn.monitors.fleet.tallies import FleetTally

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """What each contributor counted of each transition that anybody saw.

    Args:
        tallies: The contributors.
        states: The names of all states.
        before: The state that each transition leads out of.
        after: The state that it leads to.
        who: The contributor of each count.
        pair: Which transition it is of.
        times: The count itself.
    """

    tallies: tuple[FleetTally, ...]
    states: tuple[str, ...]
    before: Ints
    after: Ints
    who: Ints
    pair: Ints
    times: Floats

    @classmethod
    def of(cls, tallies: Sequence[FleetTally]) -> Stack:
        """That of some tallies of one subject."""
        number: defaultdict[str, int] = defaultdict(count().__next__)
        steps = []
        for each in tallies:
            places = np.array([number[name] for name in each.states], np.int64)
            own = each.steps.copy()
            own[:, :2] = places[own[:, :2]]
            steps.append(own)
        counted = np.concatenate([np.empty((0, 3), np.int64), *steps])
        who = np.repeat(np.arange(len(steps)), [len(own) for own in steps])
        wide = max(len(number), 1)
        keys, pair = np.unique(
            counted[:, 0] * wide + counted[:, 1], return_inverse=True
        )
        return cls(
            tuple(tallies),
            tuple(number),
            keys // wide,
            keys % wide,
            who,
            pair.astype(np.int64),
            counted[:, 2].astype(np.float64),
        )

    @property
    def contributors(self) -> int:
        return len(self.tallies)

    def total(self, chosen: Sequence[int]) -> Tally:
        """What some of them counted together."""
        parts = [self.tallies[i] for i in chosen]
        there = set[str]().union(*(each.states for each in parts))
        tally = Tally(seen={name: {} for name in self.states if name in there})
        for each in parts:
            for into, counts in ((tally.starts, each.starts), (tally.ends, each.ends)):
                for i, times in counts.tolist():
                    name = each.states[i]
                    into[name] = into.get(name, 0) + times
        # Whole numbers below 2⁵³ stay whole as floating-point numbers.
        inside = np.isin(self.who, chosen)
        sums = np.bincount(self.pair[inside], self.times[inside], len(self.before))
        seen = np.flatnonzero(sums)
        columns = (self.before[seen], self.after[seen], sums[seen].astype(np.int64))
        for before, after, times in zip(*(c.tolist() for c in columns), strict=True):
            tally.seen[self.states[before]][self.states[after]] = times
        tally.traces = sum(tally.starts.values())
        tally.frames = tally.traces + int(sums.sum())
        return tally
