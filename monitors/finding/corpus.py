"""The training data for predicates: runs, laws and labelled moments.

The `Corpus` contains the runs, and labels each moment (tick of a run) with whether a
violation follows.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
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
from forewarn.monitors.evaluation.warned import Broken, came_true
from forewarn.monitors.finding.terms import (
    Family,
    Feature,
    Term,
    every_signal,
    families_of,
    features,
    matrix,
    table,
    terms,
)
from forewarn.monitors.laws.clocking import law_latches
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.trust.encoding import encode_trace, tick_times
from forewarn.monitors.trust.hindsight import LawPaths, dealt

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

FOLDS = 5
"""The number of folds in cross-validation."""

Ints = NDArray[np.int64]

PENDING_WEIGHT = 0.1
"""The weight of a moment with a pending obligation. There are many such moments before
a violation, but the outcome depends mostly on how the obligation arose.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """The moments of all runs up to the first violation, one run after the other.

    Args:
        run: The index of the run of each moment.
        row: The row of each moment in the tables of features and terms.
        doomed: Whether a violation follows: an obligation that is pending, or arises
            within the horizon, is not met.
        weight: The weight of each moment.
    """

    run: Ints
    row: Ints
    doomed: Bools
    weight: Floats

    def of(self, runs: Iterable[int]) -> Moments:
        """Returns the moments of some of the runs."""
        return self._those(np.isin(self.run, np.array(list(runs))))

    def thinned(self, every: int) -> Moments:
        """Keeps all doomed moments, and every n-th of the others with n times its
        weight.

        Consecutive moments are similar, and nearly all moments are harmless.
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
    """Runs, with the laws that they kept or broke.

    Args:
        runs: The signals of each run.
        laws: The laws; laws with parts must be replaced by their parts.
        vocabulary: The vocabulary of the signals.
        period_s: The period of the model to learn, in s.
        groups: The group of each run, such as its driver. Runs of a group are in the
            same fold if there are more than two groups. By default, each run is its
            own group.
    """

    def __init__(
        self,
        runs: Sequence[Kept],
        laws: Sequence[Law],
        vocabulary: Vocabulary | None,
        period_s: float,
        groups: Sequence[Hashable] = (),
    ) -> None:
        if not runs or not laws:
            raise InvalidInput(
                "to find predicates, at least one run and one law are needed"
            )
        self.groups = tuple(groups) or tuple(range(len(runs)))
        self.runs, self.laws = tuple(runs), tuple(laws)
        self.vocabulary, self.period_s = vocabulary, period_s
        self._tables: dict[Family, tuple[list[Feature], Floats]] = {}
        self._terms: dict[Family, tuple[list[Term], Floats]] = {}
        self.basis = Abstraction(
            self._law_predicates(), vocabulary=vocabulary, period_s=period_s
        )

    def under(self, laws: Sequence[Law]) -> Corpus:
        """Returns the same runs with other laws."""
        if list(laws) == list(self.laws):
            return self
        found = Corpus(
            self.runs, laws, self.vocabulary, self.period_s, self.groups
        )  # fmt: skip
        # Features and terms do not depend on the laws.
        found._tables, found._terms = self._tables, self._terms
        return found

    def folds(self, among: Iterable[int]) -> list[int]:
        """Returns the fold of each of the given runs.

        If there are only two groups, their runs are divided individually, because a
        model of one group would say little about a model of both.
        """
        groups = [self.groups[run] for run in among]
        return dealt(groups if len(set(groups)) > 2 else range(len(groups)), FOLDS)

    def broken(self) -> dict[str, int]:
        """Returns the number of runs that broke each law."""
        return {law: sum(of_run) for law, of_run in self.broken_runs().items()}

    def broken_runs(self) -> dict[str, list[bool]]:
        """Returns for each law whether each run broke the law."""
        return {
            law.name: [of_run[i][2] is not None for of_run in self._paths]
            for i, law in enumerate(self.laws)
        }

    def _law_predicates(self) -> list[Predicate]:
        """Returns the propositions of the laws' monitors, without duplicates."""
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
        """Returns the families of the laws, or else a family of all signals."""
        known = families_of(self.laws, self.vocabulary)
        return known or [every_signal(self.runs)]

    def features(self, family: Family) -> tuple[list[Feature], Floats]:
        """Returns the features of a family, and their values in all frames."""
        if family not in self._tables:
            found = features(family, self.runs, self.vocabulary)
            if not found:
                raise InvalidInput(
                    f"no signal of the family {family.name} changes within a run"
                )
            self._tables[family] = found, table(found, self.runs)
        return self._tables[family]

    def terms(self, family: Family) -> tuple[list[Term], Floats]:
        """Returns the terms for a family, and their values in all frames."""
        if family not in self._terms:
            found, _ = self.features(family)
            offered = terms(found, family, self.vocabulary, self.period_s)
            self._terms[family] = offered, matrix(offered, self.runs)
        return self._terms[family]

    @cached_property
    def _paths(self) -> list[list[tuple[Ints, Bools, Broken | None]]]:
        """For each run and law: the monitor's states up to the violation, whether an
        obligation is pending in each, and the violation.
        """
        judges = [LawPaths(law, self.basis, self.period_s) for law in self.laws]
        found = []
        for run in self.runs:
            codes = encode_trace(run, self.basis)
            times = tick_times(run, self.basis)
            distinct, place = np.unique(codes, return_inverse=True)
            of_run = []
            for judge in judges:
                path, broken = judge.follow(distinct, place, times)
                of_run.append((path, judge.automaton.pending[path], broken))
            found.append(of_run)
        return found

    @cached_property
    def harmless(self) -> bool:
        """Whether most clean runs have a pending obligation at some time."""
        owing = [
            any(pending.any() for _, pending, _ in of_run)
            for of_run in self._paths
            if all(broken is None for _, _, broken in of_run)
        ]
        return sum(owing) > len(owing) / 2

    def moments(self, horizon_s: float, of: Law | None = None) -> Moments:
        """Returns the moments of all runs, labelled for one law; by default, for all
        laws.
        """
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
            for _, pending, broken in of_run:
                owing |= pending[:n]
                event |= came_true(broken, times[:n], horizon_s)
            runs.append(np.full(n, number))
            rows.append(start + ends[:n])
            doomed.append(event)
            weights.append(np.where(owing, light, 1.0))
            start += len(run)
        return Moments(
            np.concatenate(runs), np.concatenate(rows), np.concatenate(doomed),
            np.concatenate(weights),
        )  # fmt: skip
