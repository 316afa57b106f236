"""Learns a hazard score that predicts violations; predicates divide the score into
bands.

The score is a sum of curves: step functions of single terms, and of pairs of terms that
predict more together. scikit-learn's gradient boosting fits the steps. Only arithmetic
expressions are stored, which people can read and plot. A score is more accurate on the
runs that it was fitted to, so the chain is learned from scores of held-out runs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.abstraction import (
    MAX_PREDICATES,
    Abstraction,
    Predicate,
)
from forewarn.abstractions.encoding import Score
from forewarn.abstractions.errors import InvalidInput, MissingDependency
from forewarn.abstractions.expression.tree import (
    Arithmetic,
    Choice,
    Compare,
    Curve,
    Expression,
    Name,
    Number,
)
from forewarn.monitors.finding.corpus import Corpus, Family, Term
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.trust.hindsight import Found, Recipe

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SINGLES, PAIRED, PAIRS = 20, 6, 6
"""The maximum numbers of terms with a curve, of terms tried in pairs, and of pairs."""

_FINE, _COARSE = 15, 5
"""The maximum number of steps of a curve, and of each axis of a pair."""

_FEWEST = 100
"""The minimum number of moments in a step."""

_FLAT = 0.03
"""Neighbouring steps with a smaller difference are merged."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The division of a term's range into steps, by `bounds`."""

    term: Term
    number: int
    bounds: tuple[float, ...]

    def of(self, rows: Floats) -> Ints:
        """The index of the step for each row; the last step is for none."""
        values = rows[:, self.number]
        step = np.searchsorted(self.bounds, values, side="right")
        return np.where(np.isnan(values), len(self.bounds) + 1, step)

    @property
    def size(self) -> int:
        """The number of steps, including the step for none."""
        return len(self.bounds) + 2

    def text(self, values: Sequence[Expression]) -> Expression:
        """The expression of a curve with these values; equal neighbouring steps are
        merged.
        """
        if self.term.truth:
            return Choice(self.term.expression, values[-2], values[0])
        kept = [values[0]]
        bounds: list[Number] = []
        for bound, value in zip(self.bounds, values[1:-1], strict=True):
            if repr(value) != repr(kept[-1]):
                bounds.append(Number(bound, self.term.unit))
                kept.append(value)
        return Curve(self.term.expression, tuple(bounds), tuple(kept), values[-1])


Shape = tuple[tuple[Steps, ...], tuple[tuple[Steps, Steps], ...]]
"""The terms, and the pairs of terms, that have a curve."""


class Lesson:
    """The training data for a score: moments with their outcomes."""

    def __init__(
        self, offered: Sequence[Term], rows: Floats, doomed: Any, weight: Floats
    ) -> None:
        if not doomed.any() or doomed.all():
            raise InvalidInput(
                "a law is broken in none or all of these runs, so nothing can be "
                "learned",
                mend="collect more runs",
            )
        self.offered, self.rows, self.doomed, self.weight = (
            offered, rows, doomed, weight,
        )  # fmt: skip

    def steps(self, number: int, most: int) -> Steps:
        """Divides a term into steps at quantiles of all moments and of
        doomed moments.
        """
        term, values = self.offered[number], self.rows[:, number]
        if term.truth:
            return Steps(term, number, (0.5,))
        known = ~np.isnan(values)
        if not known.any():
            return Steps(term, number, ())
        everywhere, doomed = values[known], values[known & self.doomed]
        shares = np.linspace(0.0, 1.0, most // 2 + 3)[1:-1]
        cuts = np.quantile(everywhere, shares)
        if doomed.size:
            cuts = np.append(cuts, np.quantile(doomed, shares))
        span = float(np.subtract(*np.quantile(everywhere, [0.99, 0.01])))
        return Steps(term, number, rounded(cuts, span, float(everywhere.min())))

    def shape(self) -> Shape:
        """Selects the most predictive terms and pairs of terms."""
        each = [self.steps(number, _FINE) for number in range(len(self.offered))]
        every = tuple(steps for steps in each if steps.bounds)
        first = self.fitted((every, ()))
        kept = [every[i] for i in first.heaviest(self.rows, SINGLES)]
        coarse = [self.steps(steps.number, _COARSE) for steps in kept[:PAIRED]]
        coarse = [steps for steps in coarse if steps.bounds]
        pairs = tuple(itertools.combinations(coarse, 2))
        if not pairs:
            return tuple(kept), ()
        second = self.fitted((tuple(kept), pairs))
        best = second.heaviest_pairs(self.rows, PAIRS)
        return tuple(kept), tuple(pairs[i] for i in best)

    def fitted(self, shape: Shape, among: Any = slice(None)) -> Fit:
        """Fits the curves of a shape."""
        try:
            from sklearn.ensemble import HistGradientBoostingClassifier
            from threadpoolctl import threadpool_limits
        except ImportError as error:
            raise MissingDependency("scikit-learn", "learn") from error
        singles, pairs = shape
        rows, doomed = self.rows[among], self.doomed[among]
        columns = [steps.of(rows) for steps in singles]
        groups: list[set[int]] = [{i} for i in range(len(singles))]
        for one, other in pairs:
            at = len(columns)
            columns += [one.of(rows), other.of(rows)]
            groups.append({at, at + 1})
        table = np.column_stack(columns).astype(np.float64)
        model = HistGradientBoostingClassifier(
            max_iter=150, learning_rate=0.06, max_leaf_nodes=6 if not pairs else 10,
            min_samples_leaf=_FEWEST, l2_regularization=10.0, early_stopping=False,
            interaction_cst=groups, max_bins=2 * _FINE, random_state=0,
        )  # fmt: skip
        # On a busy machine, waiting for other threads costs more time than they save.
        with threadpool_limits(1):
            model.fit(table, doomed, sample_weight=self.weight[among])
            return _read(model, shape, len(columns))


def rounded(cuts: Floats, span: float, lowest: float) -> tuple[float, ...]:
    """The cuts without duplicates, rounded to about 1/200 of the span."""
    resolution = 10.0 ** math.floor(math.log10(span / 200)) if span > 0 else 1.0
    digits = max(0, -round(math.log10(resolution)))
    kept = {round(round(float(cut) / resolution) * resolution, digits) for cut in cuts}
    return tuple(sorted(cut + 0.0 for cut in kept if cut > lowest))


@dataclass(frozen=True, slots=True)
class Fit:
    """A sum of curves.

    Args:
        base: The constant term of the sum.
        singles: The terms, each with the value of every step.
        pairs: The pairs of terms, each with the value of every cell.
    """

    base: float
    singles: tuple[tuple[Steps, Floats], ...]
    pairs: tuple[tuple[Steps, Steps, Floats], ...]

    def values(self, rows: Floats) -> Floats:
        """The value of the sum for each row."""
        total = np.full(len(rows), self.base)
        for steps, added in self.singles:
            total += added[steps.of(rows)]
        for one, other, cells in self.pairs:
            total += cells[one.of(rows), other.of(rows)]
        return total

    def heaviest(self, rows: Floats, most: int) -> list[int]:
        """The indices of the curves that contribute most to the sum."""
        weight = [added[steps.of(rows)].std() for steps, added in self.singles]
        return [int(i) for i in np.argsort(weight)[::-1][:most] if weight[i] > _FLAT]

    def heaviest_pairs(self, rows: Floats, most: int) -> list[int]:
        """The indices of the pairs that contribute most to the sum."""
        weight = [cells[a.of(rows), b.of(rows)].std() for a, b, cells in self.pairs]
        return [int(i) for i in np.argsort(weight)[::-1][:most] if weight[i] > _FLAT]

    @property
    def expression(self) -> Expression:
        """The sum as an arithmetic expression."""
        parts: list[Expression] = [Number(_written(self.base))]
        for steps, added in self.singles:
            if np.ptp(added) > _FLAT:
                parts.append(
                    steps.text([Number(_written(v)) for v in _flattened(added)])
                )
        for one, other, cells in self.pairs:
            if np.ptp(cells) <= _FLAT:
                continue
            inner = [
                other.text([Number(_written(v)) for v in _flattened(row)])
                for row in cells
            ]
            parts.append(one.text(inner))
        total, *rest = parts
        for part in rest:
            total = Arithmetic("+", total, part)
        return total


def _written(value: float) -> float:
    return round(float(value), 2) + 0.0


def _flattened(values: Floats) -> Floats:
    """The values, with each step that hardly differs from the previous one set to its
    value.
    """
    kept = values.copy()
    for i in range(1, len(kept) - 1):
        if abs(kept[i] - kept[i - 1]) < _FLAT:
            kept[i] = kept[i - 1]
    return kept


def _read(model: Any, shape: Shape, width: int) -> Fit:
    """The contribution of each step to a fitted model, found by evaluating each step
    alone.
    """
    singles, pairs = shape
    rows = [np.zeros((1, width))]
    for i, steps in enumerate(singles):
        block = np.zeros((steps.size, width))
        block[:, i] = np.arange(steps.size)
        rows.append(block)
    at = len(singles)
    for one, other in pairs:
        block = np.zeros((one.size * other.size, width))
        cells = np.indices((one.size, other.size)).reshape(2, -1)
        block[:, at], block[:, at + 1] = cells
        rows.append(block)
        at += 2
    said = model.decision_function(np.concatenate(rows))
    base, parts = float(said[0]), np.split(said, np.cumsum([len(r) for r in rows]))
    curves = [part - base for part in parts[1 : 1 + len(singles)]]
    # Center the curves around zero, which makes them easier to read.
    middles = [float(curve.mean()) for curve in curves]
    curves = [curve - middle for curve, middle in zip(curves, middles, strict=True)]
    maps = [
        (part - base).reshape(one.size, other.size)
        for part, (one, other) in zip(parts[1 + len(singles) :], pairs, strict=False)
    ]
    return Fit(
        base + sum(middles),
        tuple(zip(singles, curves, strict=True)),
        tuple((*pair, cells) for pair, cells in zip(pairs, maps, strict=True)),
    )


_ENOUGH = 30_000
"""The number of moments above which harmless moments are thinned before fitting."""

_CUTS = 27
"""The maximum number of cuts that divide a score into bands."""

_MOST_ALARMED, _FEWEST_ALARMED = 0.8, 0.01
"""The fractions of clean runs that reach the lowest and highest cuts among those chosen
by quantiles of clean runs.
"""


def score_names(laws: Sequence[Law]) -> list[str]:
    """A distinct name for the score of each law."""
    names: list[str] = []
    for number, law in enumerate(laws, 1):
        name = f"danger_of_{law.name}" if law.name.isidentifier() else "danger"
        names.append(f"{name}_{number}" if name in names else name)
    return names


@dataclass(frozen=True, slots=True)
class ScoreRecipe:
    """Finds an abstraction from hazard scores, one for each law.

    Args:
        corpus: The runs and laws.
        family: The signals that scores may use.
        horizon_s: The prediction horizon in s.
    """

    corpus: Corpus
    family: Family
    horizon_s: float

    @property
    def name(self) -> str:
        """A description to display."""
        return f"bands of a score on {self.family.name}, {self.horizon_s:g} s ahead"

    def __call__(self, runs: Sequence[int]) -> Found:
        scored = self._scored(runs)
        whole = [each.lesson.fitted(each.shape) for each in scored]
        return Found(self._abstraction(scored, whole), self._apart(scored, runs))

    def left_out(self, runs: Sequence[int]) -> Recipe:
        """A recipe for cross-validation, which returns the abstraction for each fold.

        The scores of each fold are fitted once, without its runs, and then reused.
        """
        apart = self._apart(self._scored(runs), runs)

        def recipe(others: Sequence[int]) -> Found:
            left_out = min(set(runs).difference(others))
            return Found(apart[left_out], apart)

        return recipe

    def _apart(
        self, scored: Sequence[Scored], runs: Sequence[int]
    ) -> dict[int, Abstraction]:
        """For each run, the abstraction with scores fitted without the runs of its
        fold.
        """
        folds = zip(*(each.folds for each in scored), strict=True)
        without = [self._abstraction(scored, fits) for fits in folds]
        fold_of = zip(runs, self.corpus.folds(runs), strict=True)
        return {run: without[fold] for run, fold in fold_of}

    def _abstraction(
        self, scored: Sequence[Scored], fits: Sequence[Fit]
    ) -> Abstraction:
        """The abstraction with the bands of the given scores."""
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

    def _scored(self, runs: Sequence[int]) -> list[Scored]:
        laws = self.corpus.laws
        named = zip(laws, score_names(laws), strict=True)
        return [self._scored_as(name, law, runs) for law, name in named]

    def _scored_as(self, name: str, law: Law, runs: Sequence[int]) -> Scored:
        corpus = self.corpus
        offered, values = corpus.terms(self.family)
        moments = corpus.moments(self.horizon_s, law).of(runs)
        told = moments.thinned(max(1, len(moments.run) // _ENOUGH))
        lesson = Lesson(offered, values[told.row], told.doomed, told.weight)
        shape = lesson.shape()
        fold_of = np.empty(len(corpus.runs), np.int64)
        fold_of[list(runs)] = dealt_to = corpus.folds(runs)
        fold, count = fold_of[told.run], max(dealt_to) + 1
        folds = [lesson.fitted(shape, fold != number) for number in range(count)]
        outside = np.empty(len(moments.run))
        for number, fit in enumerate(folds):
            here = fold_of[moments.run] == number
            outside[here] = fit.values(values[moments.row[here]])
        return Scored(
            name, lesson, shape, tuple(folds), outside, moments.run, moments.doomed
        )

    @staticmethod
    def _bands(name: str, cuts: Sequence[float]) -> list[Predicate]:
        return [Predicate(Compare(">=", Name(name), Number(cut))) for cut in cuts]


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """The training data for a law's score, and the fit for each fold of the
    cross-validation.
    """

    name: str
    lesson: Lesson
    shape: Shape
    folds: tuple[Fit, ...]
    outside: Floats
    run: Ints
    doomed: NDArray[np.bool_]

    def cuts(self, room: int) -> list[float]:
        """The cuts between bands: a few over the whole range, the others where
        thresholds matter.

        The cuts where thresholds matter are quantiles of the highest score of each run:
        half of them for clean runs, denser at high scores, and half for violating runs.
        If many clean runs reached the last band, or most violations were in the same
        band, no threshold would give a low false-alarm rate and still detect
        violations.
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
