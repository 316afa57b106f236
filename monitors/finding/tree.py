"""Learns predicates from a small decision tree that predicts violations.

A state consists of the current leaf, the leaf half a second ago, and the propositions
of the laws. scikit-learn fits the tree; only the conditions of leaves are stored, so
that people can read them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forewarn.abstractions.abstraction import (
    MAX_PREDICATES,
    Abstraction,
    Predicate,
)
from forewarn.abstractions.errors import InvalidInput, MissingDependency
from forewarn.abstractions.expression import Expression, parse_expression
from forewarn.abstractions.expression.tree import Arithmetic
from forewarn.monitors.finding.corpus import Corpus
from forewarn.monitors.finding.terms import Family, Feature
from forewarn.monitors.trust.hindsight import Found

MOST_LEAVES = 24
LAG_S = 0.5
DIGITS = 3
SMALLEST = 1e-3
"""Thresholds with a smaller magnitude become 0, because no signal is that precise."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf of the tree.

    Args:
        condition: The condition that defines the leaf.
        moments: The number of training samples in the leaf.
        doomed: The weighted fraction of these samples that were followed by a
            violation.
    """

    condition: str
    moments: int
    doomed: float


@dataclass(frozen=True, slots=True)
class TreeRecipe:
    """Finds an abstraction from the leaves of a decision tree.

    Args:
        corpus: The runs and laws.
        family: The signals that the tree may split on.
        horizon_s: The prediction horizon in s.
        least: The minimum number of samples in a leaf for 200 runs; for n runs, it is
            multiplied by √(n / 200).
        leaves: The maximum number of leaves.
        lag_s: The age of the earlier leaf that is part of the state, in s; 0 if the
            state has no earlier leaf.
    """

    corpus: Corpus
    family: Family
    horizon_s: float
    least: int
    leaves: int = MOST_LEAVES
    lag_s: float = LAG_S

    @property
    def name(self) -> str:
        """A description to display."""
        return (
            f"tree of {self.leaves} leaves on {self.family.name}, {self.horizon_s:g} s"
            f" ahead, {self.least} moments a leaf"
        )

    def __call__(self, runs: Sequence[int]) -> Found:
        return Found(self.grown(runs)[0])

    def grown(self, runs: Sequence[int]) -> tuple[Abstraction, list[Leaf]]:
        """Fits a tree; returns the abstraction, and the leaves in the order of its
        predicates.
        """
        corpus = self.corpus
        found, values = corpus.features(self.family)
        moments = corpus.moments(self.horizon_s).of(runs)
        rows = _rounded(values[moments.row])
        room = (MAX_PREDICATES - len(corpus.basis.predicates)) // (1 + bool(self._lag))
        tree = _grow(
            rows, moments.doomed, moments.weight, min(self.leaves, room + 1),
            max(2, round(self.least * math.sqrt(len(runs) / 200.0))),
        )  # fmt: skip
        leaves = _leaves(tree, found)
        # The largest leaf needs no predicate, because it contains all frames that are
        # in no other leaf.
        leaves.remove(max(leaves, key=lambda leaf: leaf.moments))
        predicates = list(corpus.basis.predicates)
        known = {repr(predicate) for predicate in predicates}
        kept: list[Leaf] = []
        for leaf in leaves:
            node = parse_expression(leaf.condition, corpus.vocabulary)
            if repr(node) in known:
                continue
            kept.append(leaf)
            predicates.append(Predicate(node))
            if self._lag:
                predicates.append(Predicate(node, lag_s=self._lag))
        abstraction = Abstraction(
            predicates,
            name=f"learned: {self.name}",
            vocabulary=corpus.vocabulary,
            period_s=corpus.period_s,
        )
        return abstraction, kept

    @property
    def _lag(self) -> float:
        """The lag rounded to whole periods, at least one; 0 without a lag."""
        if not self.lag_s:
            return 0.0
        period_s = self.corpus.period_s
        return round(max(1, round(self.lag_s / period_s)) * period_s, 9)


def _rounded(values: Any) -> Any:
    """Returns the values rounded to `DIGITS` significant digits."""
    with np.errstate(divide="ignore"):
        size = np.floor(np.log10(np.abs(values)))
    scale = 10.0 ** (DIGITS - 1 - np.where(np.isfinite(size), size, 0.0))
    return np.round(values * scale) / scale


def _grow(rows: Any, doomed: Any, weight: Any, leaves: int, least: int) -> Any:
    """Fits a tree; returns scikit-learn's `Tree` object."""
    try:
        from sklearn.tree import DecisionTreeClassifier
    except ImportError as error:
        raise MissingDependency("scikit-learn", "learn") from error
    if not doomed.any() or doomed.all():
        raise InvalidInput(
            "the laws are broken in none or all of these runs, so nothing can be "
            "learned",
            mend="collect more runs",
        )
    tree = DecisionTreeClassifier(
        max_leaf_nodes=max(2, leaves), min_samples_leaf=least, random_state=0
    )
    return tree.fit(rows, doomed, sample_weight=weight).tree_


def _leaves(tree: Any, found: Sequence[Feature]) -> list[Leaf]:
    """Returns the leaves of a tree with their conditions, from left to right."""
    bounds: dict[int, tuple[float, float]] = {}
    leaves: list[Leaf] = []

    def descend(node: int) -> None:
        feature = int(tree.feature[node])
        if feature < 0:
            share = tree.value[node][0]
            doomed = float(share[1] / share.sum()) if len(share) > 1 else 0.0
            count = int(tree.n_node_samples[node])
            leaves.append(Leaf(_condition(bounds, found), count, doomed))
            return
        cut = float(f"{float(tree.threshold[node]):.{DIGITS + 1}g}")
        cut = 0.0 if abs(cut) < SMALLEST else cut
        before = bounds.get(feature, (-math.inf, math.inf))
        for child, span in (
            (tree.children_left[node], (before[0], min(before[1], cut))),
            (tree.children_right[node], (max(before[0], cut), before[1])),
        ):
            # Two bounds may coincide after rounding; the leaf between them is then
            # empty.
            if span[0] < span[1]:
                bounds[feature] = span
                descend(int(child))
        bounds[feature] = before

    descend(0)
    return leaves


def _condition(bounds: dict[int, tuple[float, float]], found: Sequence[Feature]) -> str:
    """Returns the condition that every feature is within its bounds."""
    parts = []
    for number in sorted(bounds):
        feature, (low, high) = found[number], bounds[number]
        if low > -math.inf and high < math.inf:
            parts.append(feature.between(low, high))
        elif low > -math.inf:
            parts.append(feature.above(low))
        elif high < math.inf:
            parts.append(feature.below(high))
    return " and ".join(parts) or "true"


def tree_text(abstraction: Abstraction, leaves: Sequence[Leaf], said: str) -> str:
    """Returns the text of the abstraction file, with a comment on each leaf.

    Args:
        abstraction: The abstraction found from the tree.
        leaves: The leaves of the tree.
        said: The comment at the top.
    """
    content = abstraction.as_dict()
    of_leaf = {
        repr(parse_expression(leaf.condition, abstraction.vocabulary)): leaf
        for leaf in leaves
    }
    lines = [f"# {line}" for line in said.splitlines()]
    lines += [f"{key}: {_quoted(content[key])}"
              for key in ("format", "name", "vocabulary", "period_s")
              if key in content]  # fmt: skip
    if abstraction.scores:
        lines += ["# A score is a sum of curves and trees.", "scores:"]
    for score in abstraction.scores:
        lines.append(f"  {score.name}: >-")
        lines += [f"    {part}" for part in _summands(score.expression)]
    lines.append("predicates:")
    for entry in content["predicates"]:
        when = entry["when"] if isinstance(entry, dict) else entry
        if (leaf := of_leaf.get(when)) is not None:
            lines.append(
                f"  # {leaf.moments} moments; a violation followed"
                f" {100 * leaf.doomed:.0f} % of them"
            )
        lines.append(f"  - {_quoted(entry)}")
    return "\n".join(lines) + "\n"


def _summands(node: Expression) -> list[str]:
    """Returns the lines of a sum, one for each term; all but the first begin with a
    sign.
    """
    parts: list[str] = []
    while isinstance(node, Arithmetic) and node.operator in "+-":
        first, *others = _summands(node.right)
        if others:
            first, others[-1] = f"({first}", f"{others[-1]})"
        parts[:0] = [f"{node.operator} {first}", *others]
        node = node.left
    return [repr(node), *parts]


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
