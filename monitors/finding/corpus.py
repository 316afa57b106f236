"""The runs that predicates are found from: what came of them, moment by moment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.abstraction import Abstraction, Predicate
from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.latching import tick_ends
from forewarn.abstractions.trace import Kept
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary
from forewarn.monitors.finding.inputs import (
    Family,
    Feature,
    every_signal,
    families_of,
    features,
    table,
)
from forewarn.monitors.finding.terms import Term, matrix, terms
from forewarn.monitors.laws.clocking import law_latches
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.trust.hindsight import LawPaths
from forewarn.monitors.trust.training import encode_trace, tick_times

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

PENDING_WEIGHT = 0.1
"""What a moment counts at which something is owed already: there are many of them in
a violation, and its outcome is told by how it came about."""


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """The moments of all runs, one after the other, up to the first violation.

    Args:
        run: The run of each.
        row: Its row in the table of features.
        doomed: Whether what is owed, or arises within H, then goes unmet.
        weight: How much it counts.
    """

    run: Ints
    row: Ints
    doomed: Bools
    weight: Floats

    def of(self, runs: Iterable[int]) -> Moments:
        """Those of some runs alone."""
        return self._those(np.isin(self.run, np.array(list(runs))))

    def thinned(self, every: int) -> Moments:
        """The doomed ones, and of the others one that counts for so many in a row.

        They follow each other closely, and nearly all are of no danger.
        """
        weight = np.where(self.doomed, self.weight, self.weight * every)
        kept = self.doomed.copy()
        kept[::every] = True
        return replace(self, weight=weight)._those(kept)

    def _those(self, kept: Bools) -> Moments:
        return Moments(
            self.run[kept], self.row[kept], self.doomed[kept], self.weight[kept]
        )


class Corpus:
    """Runs with the laws that they kept or broke.

    Args:
        runs: What was kept of them.
        laws: The laws, none with parts.
        vocabulary: What their signals are.
        period_s: The clock of the model that is to be learned.
    """

    def __init__(
        self,
        runs: Sequence[Kept],
        laws: Sequence[Law],
        vocabulary: Vocabulary | None,
        period_s: float,
    ) -> None:
        if not runs or not laws:
            raise InvalidInput("predicates are found from runs under laws")
        self.runs, self.laws = tuple(runs), tuple(laws)
        self.vocabulary, self.period_s = vocabulary, period_s
        self._tables: dict[Family, tuple[list[Feature], Floats]] = {}
        self._terms: dict[Family, tuple[list[Term], Floats]] = {}
        self.basis = Abstraction(
            self._law_predicates(), vocabulary=vocabulary, period_s=period_s
        )

    def under(self, laws: Sequence[Law]) -> Corpus:
        """The same runs under some of the laws."""
        if list(laws) == list(self.laws):
            return self
        found = Corpus(self.runs, laws, self.vocabulary, self.period_s)
        # What the runs show is the same whatever it is to tell.
        found._tables, found._terms = self._tables, self._terms
        return found

    def broken(self) -> dict[str, int]:
        """In how many runs each law was broken."""
        return {
            law.name: sum(of_run[i][2] is not None for of_run in self._paths)
            for i, law in enumerate(self.laws)
        }

    def _law_predicates(self) -> list[Predicate]:
        """What the laws' monitors read, each once."""
        found: dict[str, Predicate] = {}
        each_frame = self.runs[0].header.period_s == self.period_s
        for law in self.laws:
            propositions = law.compile(self.period_s).propositions
            latches = law_latches(law.formula, propositions)
            for proposition, latch in zip(propositions, latches, strict=True):
                kept = Predicate(proposition, "last" if each_frame else latch)
                found.setdefault(repr(proposition), kept)
        return list(found.values())

    def families(self) -> list[Family]:
        """The families that may be searched."""
        known = families_of(self.laws, self.vocabulary)
        return known or [every_signal(self.runs)]

    def features(self, family: Family) -> tuple[list[Feature], Floats]:
        """The features of a family, and their values at each frame of all runs."""
        if family not in self._tables:
            found = features(family, self.runs, self.vocabulary)
            if not found:
                raise InvalidInput(f"nothing of {family.name} ever changes in a run")
            self._tables[family] = found, table(found, self.runs)
        return self._tables[family]

    def terms(self, family: Family) -> tuple[list[Term], Floats]:
        """What a score may add up, and its values at each frame of all runs."""
        if family not in self._terms:
            found, _ = self.features(family)
            offered = terms(found, family, self.vocabulary, self.period_s)
            self._terms[family] = offered, matrix(offered, self.runs)
        return self._terms[family]

    @cached_property
    def _paths(self) -> list[list[tuple[Ints, Bools, tuple[float, float] | None]]]:
        """Of each run and law: its ticks before the violation, what is owed, when."""
        judges = [LawPaths(law, self.basis, self.period_s) for law in self.laws]
        found = []
        for run in self.runs:
            codes = encode_trace(run, self.basis)
            times = tick_times(run, self.basis)
            distinct, place = np.unique(codes, return_inverse=True)
            of_run = []
            for judge in judges:
                path, broken_s = judge.follow(distinct, place, times)
                of_run.append((path, judge.automaton.pending[path], broken_s))
            found.append(of_run)
        return found

    @cached_property
    def harmless(self) -> bool:
        """Whether most runs that keep the laws owe something for a while."""
        owing = [
            any(pending.any() for _, pending, _ in of_run)
            for of_run in self._paths
            if all(broken_s is None for _, _, broken_s in of_run)
        ]
        return sum(owing) > len(owing) / 2

    def moments(self, horizon_s: float, of: Law | None = None) -> Moments:
        """The moments that may tell of a law, or of any of them."""
        among = [of is None or law is of for law in self.laws]
        runs, rows, doomed, weights = [], [], [], []
        light = 1.0 if self.harmless else PENDING_WEIGHT
        start = 0
        for number, run in enumerate(self.runs):
            ends = tick_ends(run.times(), self.period_s)
            times = run.times()[ends]
            of_run = list(compress(self._paths[number], among))
            n = min(len(path) for path, _, _ in of_run)
            event, owing = np.zeros(n, bool), np.zeros(n, bool)
            for _, pending, broken_s in of_run:
                owing |= pending[:n]
                if broken_s is not None:
                    event |= broken_s[1] <= times[:n] + horizon_s + 1e-9
            runs.append(np.full(n, number))
            rows.append(start + ends[:n])
            doomed.append(event)
            weights.append(np.where(owing, light, 1.0))
            start += len(run)
        return Moments(
            np.concatenate(runs), np.concatenate(rows), np.concatenate(doomed),
            np.concatenate(weights),
        )  # fmt: skip
