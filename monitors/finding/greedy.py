"""Predicates picked one after the other, each the one that then tells most."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.abstraction import Abstraction, Predicate
from forewarn.abstractions.expression import parse_expression
from forewarn.monitors.finding.corpus import Corpus
from forewarn.monitors.finding.inputs import Family
from forewarn.monitors.finding.tree import SMALLEST
from forewarn.monitors.trust.hindsight import Found

MOST = 8
CUTS = 7
_EVERY = 3  # moments follow each other closely: a third of them tells as much


@dataclass(frozen=True, slots=True)
class GreedyRecipe:
    """How predicates are picked.

    Args:
        corpus: From what.
        family: The signals that they may compare.
        horizon_s: How far ahead they are to tell.
        least: How many moments each group that they tell apart has at least, in 200
            runs; more runs, more.
        most: How many are picked at most.
    """

    corpus: Corpus
    family: Family
    horizon_s: float
    least: int = 100
    most: int = MOST

    @property
    def name(self) -> str:
        """For people."""
        return (
            f"{self.most} predicates on {self.family.name}, {self.horizon_s:g} s ahead"
        )

    def __call__(self, runs: Sequence[int]) -> Found:
        corpus = self.corpus
        found, values = corpus.features(self.family)
        moments = corpus.moments(self.horizon_s).of(runs)
        kept = slice(None, None, _EVERY)
        rows, doomed = values[moments.row[kept]], moments.doomed[kept]
        weight = moments.weight[kept]
        texts: list[str] = []
        columns: list[NDArray[np.bool_]] = []
        for feature, column in zip(found, rows.T, strict=True):
            for bound in _cuts(column, doomed):
                texts.append(feature.above(bound))
                columns.append(column > bound)
        codes = _codes(corpus, moments.run[kept], moments.row[kept])
        least = max(2, round(self.least * math.sqrt(len(runs) / 200.0) / _EVERY))
        picked = _pick(codes, columns, doomed, weight, least, self.most)
        nodes = [parse_expression(texts[i], corpus.vocabulary) for i in sorted(picked)]
        known = {repr(predicate) for predicate in corpus.basis.predicates}
        abstraction = Abstraction(
            [
                *corpus.basis.predicates,
                *(Predicate(node) for node in nodes if repr(node) not in known),
            ],
            name=f"picked: {self.name}",
            vocabulary=corpus.vocabulary,
            period_s=corpus.period_s,
        )
        return Found(abstraction)


def _cuts(column: NDArray[np.float64], doomed: NDArray[np.bool_]) -> list[float]:
    """Where a cut is tried: evenly among what is doomed, and among all."""
    shares = np.linspace(0.0, 1.0, CUTS + 2)[1:-1]
    cuts = [np.quantile(column[doomed], shares)] if doomed.any() else []
    cuts.append(np.quantile(column, shares))
    rounded = {
        float(f"{cut:.3g}") if abs(cut) >= SMALLEST else 0.0
        for cut in np.concatenate(cuts).tolist()
    }
    return sorted(cut for cut in rounded if column.min() <= cut < column.max())


def _codes(
    corpus: Corpus, run: NDArray[np.int64], row: NDArray[np.int64]
) -> NDArray[np.int64]:
    """What the laws' own predicates tell apart."""
    starts = np.cumsum([0, *map(len, corpus.runs)])
    codes = np.empty(len(row), np.int64)
    for number in np.unique(run).tolist():
        here = run == number
        kept = corpus.runs[number]
        columns = kept.columns(corpus.basis.signals)
        all_codes = corpus.basis.encode_arrays(columns, len(kept))
        codes[here] = all_codes[row[here] - starts[number]]
    return np.unique(codes, return_inverse=True)[1].astype(np.int64)


def _pick(
    codes: NDArray[np.int64],
    columns: Sequence[NDArray[np.bool_]],
    doomed: NDArray[np.bool_],
    weight: NDArray[np.float64],
    least: int,
    most: int,
) -> list[int]:
    positive = weight * doomed

    def unsettled(groups: NDArray[np.int64]) -> float:
        total = np.bincount(groups, weight)
        ones = np.bincount(groups, positive)
        count = np.bincount(groups)
        share = np.divide(ones, total, out=np.zeros_like(ones), where=total > 0)
        # A group of few moments tells nothing: it is charged as if it knew nothing.
        small = (count > 0) & (count < least)
        return float((share * (1 - share) * total).sum() + 0.25 * total[small].sum())

    picked: list[int] = []
    now = unsettled(codes)
    while len(picked) < most:
        tried = [
            (unsettled(codes * 2 + column), i)
            for i, column in enumerate(columns)
            if i not in picked
        ]
        if not tried:
            break
        best, i = min(tried)
        if best > 0.995 * now:
            break
        picked.append(i)
        now = best
        codes = np.unique(codes * 2 + columns[i], return_inverse=True)[1]
        codes = codes.astype(np.int64)
    return picked
