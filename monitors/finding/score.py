"""Learns a hazard score that predicts violations; predicates divide the score into
bands.

The score is the mean of two sums: one of step functions of single terms, the curves,
and one of small trees, which combine terms. Curves predict best from few runs, trees
from many. scikit-learn's gradient boosting fits both. Only arithmetic expressions are
stored, so that people can read and plot them. A score is more accurate on the runs that
it was fitted to, so the chain is learned from scores of held-out runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
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
    Compare,
    Conditional,
    Curve,
    Expression,
    Name,
    Number,
)
from forewarn.monitors.finding.corpus import Corpus, Moments
from forewarn.monitors.finding.terms import Family, Term
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.trust.hindsight import Found, Recipe

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STEPS = 15
"""The maximum number of steps of a curve."""

CURVES, TREES = 20, 24
"""The maximum numbers of curves and of trees, so that the text is not too long."""

_GROUP = 10
"""The maximum number of summands in one pair of parentheses, to limit the nesting
depth.
"""

LEAVES, VIOLATIONS = 12, 10
"""The maximum number of leaves of a tree, and the number of violating runs per tree."""

_FEWEST = 100
"""The minimum number of moments in a step or leaf."""

_FLAT = 0.03
"""Neighbouring steps with a smaller difference are merged."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The division of a term's range into steps, by `bounds`; the last step is for
    `none`.

    If danger is known to rise or fall with the term, it falls from step to step.
    """

    term: Term
    number: int
    bounds: tuple[float, ...]

    @classmethod
    def of(cls, term: Term, number: int, rows: Floats, doomed: Any) -> Steps:
        """Divides a term into steps at quantiles of all moments and of doomed
        moments.
        """
        values = rows[:, number]
        known = ~np.isnan(values)
        if term.truth or not known.any():
            return cls(term, number, (0.5,) if term.truth else ())
        everywhere, doomed = values[known], values[known & doomed]
        shares = np.linspace(0.0, 1.0, STEPS // 2 + 3)[1:-1]
        edges = np.quantile(everywhere, shares)
        if doomed.size:
            edges = np.append(edges, np.quantile(doomed, shares))
        span = float(np.subtract(*np.quantile(everywhere, [0.99, 0.01])))
        return cls(term, number, rounded(edges, span, float(everywhere.min())))

    def within(self, rows: Floats) -> Ints:
        """Returns the index of the step for each row."""
        values = rows[:, self.number]
        step = np.searchsorted(self.bounds, values, side="right")
        if self._reversed:
            step = len(self.bounds) - step
        return np.where(np.isnan(values), len(self.bounds) + 1, step)

    @property
    def _reversed(self) -> bool:
        """Whether the first step is the one with the largest values."""
        return self.term.danger == "rises"

    @property
    def size(self) -> int:
        """The number of steps, including the step for `none`."""
        return len(self.bounds) + 2

    def curve(self, values: Floats) -> Expression:
        """Returns the expression of a curve with these values, one for each step;
        neighbouring steps that hardly differ are merged.
        """
        known = values[-2::-1] if self._reversed else values[:-1]
        first, *others = map(float, known)
        if self.term.truth:
            return Conditional(self.term.expression, _number(others[0]), _number(first))
        kept, bounds = [first], []
        for bound, value in zip(self.bounds, others, strict=True):
            if abs(value - kept[-1]) >= _FLAT:
                bounds.append(Number(bound, self.term.unit))
                kept.append(value)
        told = tuple(map(_number, kept))
        return Curve(self.term.expression, tuple(bounds), told, _number(values[-1]))

    def split(self, last: int, low: Expression, high: Expression) -> Expression:
        """Returns an expression: `low` up to step `last`, otherwise `high`."""
        if self.term.truth:
            return Conditional(self.term.expression, high, low)
        if last == len(self.bounds):
            return Curve(self.term.expression, (), (low,), high)
        at = len(self.bounds) - 1 - last if self._reversed else last
        bound = Number(self.bounds[at], self.term.unit)
        # A comparison with `none` is false.
        within = Compare(">=" if self._reversed else "<", self.term.expression, bound)
        return Conditional(within, low, high)


def rounded(edges: Floats, span: float, lowest: float) -> tuple[float, ...]:
    """Returns the edges without duplicates, rounded to about 1/200 of the span."""
    resolution = 10.0 ** math.floor(math.log10(span / 200)) if span > 0 else 1.0
    digits = max(0, -round(math.log10(resolution)))
    kept = {
        round(round(float(edge) / resolution) * resolution, digits) for edge in edges
    }
    return tuple(sorted(edge + 0.0 for edge in kept if edge > lowest))


def _number(value: float) -> Number:
    return Number(round(float(value), 2) + 0.0)


def _plus(left: Expression, right: Expression) -> Expression:
    return Arithmetic("+", left, right)


@dataclass(frozen=True, slots=True)
class Split:
    """An inner node of a tree: `low` up to step `last` of a term, otherwise `high`."""

    term: int
    last: int
    low: Split | float
    high: Split | float

    def values(self, table: Ints) -> Floats:
        low, high = (
            side.values(table) if isinstance(side, Split) else side
            for side in (self.low, self.high)
        )
        return np.where(table[:, self.term] <= self.last, low, high)

    def expression(self, steps: Sequence[Steps]) -> Expression:
        low, high = (
            side.expression(steps) if isinstance(side, Split) else _number(side)
            for side in (self.low, self.high)
        )
        if repr(low) == repr(high):
            return low
        return steps[self.term].split(self.last, low, high)


@dataclass(frozen=True, slots=True)
class Fit:
    """A sum of curves and trees.

    Args:
        base: The constant term of the sum.
        steps: The steps of each term.
        curves: The value of every step, by term.
        trees: The trees.
    """

    base: float
    steps: tuple[Steps, ...]
    curves: dict[int, Floats]
    trees: tuple[Split, ...]

    def values(self, rows: Floats) -> Floats:
        """Returns the value of the sum for each row."""
        table = _table(self.steps, rows)
        total = np.full(len(rows), self.base)
        for number, curve in self.curves.items():
            total += curve[table[:, number]]
        for tree in self.trees:
            total += tree.values(table)
        return total

    @property
    def expression(self) -> Expression:
        """The sum as an arithmetic expression, without flat curves."""
        base: Expression = _number(self.base)
        parts = list(self._summands())
        if len(parts) > _GROUP:
            starts = range(0, len(parts), _GROUP)
            parts = [reduce(_plus, parts[at : at + _GROUP]) for at in starts]
        return reduce(_plus, parts, base)

    def _summands(self) -> Iterator[Expression]:
        for number, curve in self.curves.items():
            if np.ptp(curve) > _FLAT:
                yield self.steps[number].curve(curve)
        for tree in self.trees:
            yield tree.expression(self.steps)


def _table(steps: Sequence[Steps], rows: Floats) -> Ints:
    """Returns the step of each term for each row."""
    return np.column_stack([each.within(rows) for each in steps])


class Lesson:
    """The training data for a score: the steps of terms at moments."""

    def __init__(self, offered: Sequence[Term], rows: Floats, moments: Moments) -> None:
        if not moments.doomed.any() or moments.doomed.all():
            raise InvalidInput(
                "a law is broken in none or all of these runs, so nothing can be "
                "learned",
                mend="collect more runs",
            )
        every = (
            Steps.of(term, number, rows, moments.doomed)
            for number, term in enumerate(offered)
        )
        self.steps = tuple(steps for steps in every if steps.bounds)
        self.table, self.moments = _table(self.steps, rows), moments

    def fitted(self, among: Any = slice(None)) -> Fit:
        """Fits curves and trees to some of the moments."""
        run, doomed = self.moments.run[among], self.moments.doomed[among]
        wanted = len(np.unique(run[doomed])) / VIOLATIONS
        trees = min(max(int(wanted), 1), TREES)
        base, ones = self._boosted(
            among, max_iter=75, learning_rate=0.12, max_leaf_nodes=6,
            interaction_cst=[{number} for number in range(len(self.steps))],
        )  # fmt: skip
        # If the number of trees is limited, the learning rate is increased instead.
        further, together = self._boosted(
            among, max_iter=trees, learning_rate=0.1 * min(max(wanted / trees, 1), 2),
            max_leaf_nodes=LEAVES,
        )  # fmt: skip
        ladder = np.arange(max(steps.size for steps in self.steps))
        each_step = np.tile(ladder[:, None], len(self.steps))
        curves = np.zeros(each_step.shape)
        for split in ones:
            curves[:, split.term] += split.values(each_step)
        kept, base = {}, base + further
        for number, steps in enumerate(self.steps):
            curve = curves[: steps.size, number]
            here = curve[self.table[among, number]]
            # Center the curves around zero, which makes them easier to read.
            base += float(here.mean())
            kept[number] = curve - here.mean(), float(here.std())
        heaviest = sorted(kept, key=lambda number: -kept[number][1])[:CURVES]
        return Fit(
            base,
            self.steps,
            {number: kept[number][0] for number in sorted(heaviest)},
            tuple(together),
        )

    def _boosted(self, among: Any, **settings: Any) -> tuple[float, list[Split]]:
        """Fits a boosted sum; returns half of its constant term and half of its trees,
        because the score is the mean of two sums.
        """
        try:
            from sklearn.ensemble import HistGradientBoostingClassifier
            from threadpoolctl import threadpool_limits
        except ImportError as error:
            raise MissingDependency("scikit-learn", "learn") from error
        model = HistGradientBoostingClassifier(
            min_samples_leaf=_FEWEST, l2_regularization=10.0, early_stopping=False,
            random_state=0,
            monotonic_cst=[-1 if steps.term.danger else 0 for steps in self.steps],
            **settings,
        )  # fmt: skip
        moments, table = self.moments, self.table[among]
        # On a busy machine, waiting for other threads takes more time than the threads
        # save.
        with threadpool_limits(1):
            model.fit(table, moments.doomed[among], sample_weight=moments.weight[among])
            total = float(model.decision_function(table[:1])[0]) / 2.0
        trees = [_split(tree.nodes, 0) for (tree,) in model._predictors]
        splits = [tree for tree in trees if isinstance(tree, Split)]
        return total - sum(float(each.values(table[:1])[0]) for each in splits), splits


def _split(nodes: Any, at: int) -> Split | float:
    """Converts a tree of scikit-learn, and halves its values."""
    node = nodes[at]
    if node["is_leaf"]:
        return float(node["value"]) / 2.0
    low, high = _split(nodes, int(node["left"])), _split(nodes, int(node["right"]))
    return Split(int(node["feature_idx"]), int(node["num_threshold"]), low, high)


_ENOUGH = 30_000
"""The number of moments above which harmless moments are thinned before fitting."""

_EDGES = 27
"""The maximum number of edges that divide a score into bands."""

_MOST_ALARMED, _FEWEST_ALARMED = 0.8, 0.01
"""The fractions of clean runs that reach the lowest and highest edges among those
chosen by quantiles of clean runs.
"""


def score_names(laws: Sequence[Law]) -> list[str]:
    """Returns a distinct name for the score of each law."""
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
        whole = [each.lesson.fitted() for each in scored]
        return Found(self._abstraction(scored, whole), self._apart(scored, runs))

    def left_out(self, runs: Sequence[int]) -> Recipe:
        """Returns a recipe for cross-validation, which returns the abstraction for each
        fold.

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
        """Returns for each run the abstraction with scores fitted without the runs of
        its fold.
        """
        folds = zip(*(each.folds for each in scored), strict=True)
        without = [self._abstraction(scored, fits) for fits in folds]
        fold_of = zip(runs, self.corpus.folds(runs), strict=True)
        return {run: without[fold] for run, fold in fold_of}

    def _abstraction(
        self, scored: Sequence[Scored], fits: Sequence[Fit]
    ) -> Abstraction:
        """Returns the abstraction with the bands of the given scores."""
        corpus = self.corpus
        room = (MAX_PREDICATES - len(corpus.basis.predicates)) // len(scored)
        scores, predicates = [], list(corpus.basis.predicates)
        for each, fit in zip(scored, fits, strict=True):
            scores.append(Score(each.name, fit.expression))
            predicates += [
                Predicate(Compare(">=", Name(each.name), Number(edge)))
                for edge in each.edges(room)
            ]
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
        lesson = Lesson(offered, values[told.row], told)
        fold_of = np.empty(len(corpus.runs), np.int64)
        fold_of[list(runs)] = dealt_to = corpus.folds(runs)
        fold, count = fold_of[told.run], max(dealt_to) + 1
        folds = [lesson.fitted(fold != number) for number in range(count)]
        outside = np.empty(len(moments.run))
        for number, fit in enumerate(folds):
            here = fold_of[moments.run] == number
            outside[here] = fit.values(values[moments.row[here]])
        return Scored(name, lesson, tuple(folds), outside, moments.run, moments.doomed)


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """The training data for a law's score, and the fit for each fold of the
    cross-validation.
    """

    name: str
    lesson: Lesson
    folds: tuple[Fit, ...]
    outside: Floats
    run: Ints
    doomed: NDArray[np.bool_]

    def edges(self, room: int) -> list[float]:
        """Returns the edges between bands: a few over the whole range, the others near
        likely thresholds.

        The edges near likely thresholds are quantiles of the highest score of each run:
        half of them for clean runs, denser at high scores, and half for violating runs.
        If many clean runs reached the last band, or most violations were in the same
        band, no threshold would give a low false-alarm rate and still detect
        violations.
        """
        begins = np.flatnonzero(np.diff(self.run, prepend=-1))
        tops = np.maximum.reduceat(self.outside, begins)
        broken = np.logical_or.reduceat(self.doomed, begins)
        clean = tops if broken.all() else tops[~broken]
        many = min(_EDGES, room)
        few, half = many // 9, (many - many // 9) // 2
        alarmed = np.geomspace(_MOST_ALARMED, _FEWEST_ALARMED, half - 1)
        edges = (
            *np.quantile(self.outside, np.linspace(0.0, 1.0, few + 2)[1:-1]),
            *np.quantile(clean, [*(1.0 - alarmed), 1.0]),
            *np.quantile(tops[broken], np.linspace(0.0, 1.0, half + 2)[1:-1]),
        )
        return self._rising(sorted({round(float(edge), 2) for edge in edges}))

    def _rising(self, edges: list[float]) -> list[float]:
        """Removes edges above which violations follow significantly less often.

        Each run counts once per band, when it first reaches the band.
        """
        while edges:
            band = np.searchsorted(edges, self.outside, side="right")
            key = self.run * (len(edges) + 1) + band
            first = np.unique(key, return_index=True)[1]
            runs = np.bincount(band[first], minlength=len(edges) + 1) + 1e-9
            share = np.bincount(band[first], self.doomed[first], len(runs)) / runs
            both = np.convolve(share * runs, [1, 1], "valid") / (runs[1:] + runs[:-1])
            chance = np.sqrt(both * (1 - both) * (1 / runs[1:] + 1 / runs[:-1]))
            fall = (share[:-1] - share[1:]) - chance
            if fall.max() <= 0:
                break
            edges = np.delete(edges, fall.argmax()).tolist()
        return edges
