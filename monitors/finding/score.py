"""A score that tells a violation that is coming; bands of it become the states.

The score adds up curves of what is seen. It is sharper on runs that it was fitted to
than on others, so the chain is counted by scores of runs that were left out of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.abstraction import (
    MAX_PREDICATES,
    Abstraction,
    Predicate,
)
from forewarn.abstractions.encoding import Score
from forewarn.abstractions.expression.tree import Compare, Name, Number
from forewarn.monitors.finding.corpus import Corpus
from forewarn.monitors.finding.curves import Fit, Lesson, Shape
from forewarn.monitors.finding.inputs import Family
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.trust.hindsight import Found, Recipe, dealt

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FOLDS = 5
"""Into so many shares runs are dealt, to be scored by what the others show."""

_ENOUGH = 30_000
"""So many moments tell as much as all: more are thinned where nothing goes wrong."""

_CUTS = 27
"""The most bands of a score, less one."""

_MOST_ALARMED, _FEWEST_ALARMED = 0.8, 0.01
"""Of the clean runs, those that reach the lowest and the highest of the bands that
decide who alarms."""


@dataclass(frozen=True, slots=True)
class ScoreRecipe:
    """How a score is found, law by law.

    Args:
        corpus: From what.
        family: The signals that it may read.
        horizon_s: How far ahead it is to tell.
    """

    corpus: Corpus
    family: Family
    horizon_s: float

    @property
    def name(self) -> str:
        """For people."""
        return f"bands of a score on {self.family.name}, {self.horizon_s:g} s ahead"

    def __call__(self, runs: Sequence[int]) -> Found:
        scored = [self._scored(law, runs) for law in self.corpus.laws]
        whole = [each.lesson.fitted(each.shape) for each in scored]
        return Found(self._abstraction(scored, whole), self._apart(scored, runs))

    def left_out(self, runs: Sequence[int]) -> Recipe:
        """What is found by the runs outside a fold, for each of the folds.

        The scores of each fold are fitted without it already: to see how bands of them
        warn there, nothing need be fitted again.
        """
        apart = self._apart([self._scored(law, runs) for law in self.corpus.laws], runs)

        def recipe(others: Sequence[int]) -> Found:
            left_out = min(set(runs).difference(others))
            return Found(apart[left_out], apart)

        return recipe

    def _apart(
        self, scored: Sequence[Scored], runs: Sequence[int]
    ) -> dict[int, Abstraction]:
        """By run, what is found without those of its fold."""
        folds = zip(*(each.folds for each in scored), strict=True)
        without = [self._abstraction(scored, fits) for fits in folds]
        dealt_to = dealt(len(runs), FOLDS)
        return {run: without[fold] for run, fold in zip(runs, dealt_to, strict=True)}

    def _abstraction(
        self, scored: Sequence[Scored], fits: Sequence[Fit]
    ) -> Abstraction:
        """Bands of these scores."""
        corpus = self.corpus
        room = (MAX_PREDICATES - len(corpus.basis.predicates)) // len(scored)
        scores, predicates = [], list(corpus.basis.predicates)
        for each, fit in zip(scored, fits, strict=True):
            scores.append(Score(each.name, fit.expression))
            predicates += self._bands(each.name, each.cuts(room))
        return Abstraction(
            predicates, name=f"learned: {self.name}", scores=scores,
            vocabulary=corpus.vocabulary, period_s=corpus.period_s,
        )  # fmt: skip

    def _scored(self, law: Law, runs: Sequence[int]) -> Scored:
        corpus = self.corpus
        offered, values = corpus.terms(self.family)
        moments = corpus.moments(self.horizon_s, law).of(runs)
        told = moments.thinned(max(1, len(moments.run) // _ENOUGH))
        lesson = Lesson(offered, values[told.row], told.doomed, told.weight)
        shape = lesson.shape()
        fold_of = np.empty(len(corpus.runs), np.int64)
        fold_of[list(runs)] = dealt(len(runs), FOLDS)
        fold = fold_of[told.run]
        folds = [lesson.fitted(shape, fold != number) for number in range(FOLDS)]
        outside = np.empty(len(moments.run))
        for number, fit in enumerate(folds):
            here = fold_of[moments.run] == number
            outside[here] = fit.values(values[moments.row[here]])
        name = f"danger_of_{law.name}" if law.name.isidentifier() else "danger"
        return Scored(
            name, lesson, shape, tuple(folds), outside, moments.run, moments.doomed
        )

    @staticmethod
    def _bands(name: str, cuts: Sequence[float]) -> list[Predicate]:
        return [Predicate(Compare(">=", Name(name), Number(cut))) for cut in cuts]


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """A law's score: what it is fitted to, and fitted to all but each fold's runs."""

    name: str
    lesson: Lesson
    shape: Shape
    folds: tuple[Fit, ...]
    outside: Floats
    run: Ints
    doomed: NDArray[np.bool_]

    def cuts(self, room: int) -> list[float]:
        """Where bands end: a few everywhere, the others where it is decided who alarms.

        Half of those are the heights that the score reaches in runs that keep the law,
        finer the fewer reach them; the other half those that it reaches in the others.
        Where many clean runs come to the last band, or most violations lie in one,
        nothing is left to choose for who allows few alarms.
        """
        begins = np.flatnonzero(np.diff(self.run, prepend=-1))
        tops = np.maximum.reduceat(self.outside, begins)
        broken = np.logical_or.reduceat(self.doomed, begins)
        clean = tops if broken.all() else tops[~broken]
        many = min(_CUTS, room)
        few, half = many // 9, (many - many // 9) // 2
        alarmed = np.geomspace(_MOST_ALARMED, _FEWEST_ALARMED, half - 1)
        cuts = (
            *np.quantile(self.outside, np.linspace(0.0, 1.0, few + 2)[1:-1]),
            *np.quantile(clean, [*(1.0 - alarmed), 1.0]),
            *np.quantile(tops[broken], np.linspace(0.0, 1.0, half + 2)[1:-1]),
        )
        return sorted({round(float(cut), 2) for cut in cuts})
