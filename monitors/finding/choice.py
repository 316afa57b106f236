"""Which abstraction warns best: the one made by hand, picked predicates, or a tree.

Each is judged by how well the risks that come of it foretell what happens in runs that
neither it nor the chain was made from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from forewarn.abstractions.states.abstraction import Abstraction
from forewarn.monitors.finding.corpus import Corpus
from forewarn.monitors.finding.greedy import GreedyRecipe
from forewarn.monitors.finding.tree import Leaf, TreeRecipe, tree_text
from forewarn.monitors.trust.hindsight import (
    Counting,
    Foretold,
    Recipe,
    mostly_harmless,
    out_of_fold,
    skill,
)

FOLDS = 5
LEAST = (50, 150)
MOST_RUNS = 400
"""So many runs are enough to tell the ways apart; the one taken learns from all."""
_FIRST_LEAST = 150

Origin = Literal["hand-made", "picked", "learned"]
Progress = Callable[[Iterable[Any], str, int], Iterable[Any]]


@dataclass(frozen=True, slots=True)
class Evidence:
    """How one way to find predicates fared in runs that were left out.

    Args:
        kind: Which way.
        name: What exactly.
        skill: How much better than the base rate its risks were, by law.
    """

    kind: Origin
    name: str
    skill: dict[str, float]

    @property
    def mean(self) -> float:
        return sum(self.skill.values()) / max(len(self.skill), 1)

    def as_dict(self) -> dict[str, Any]:
        rounded = {law: round(value, 4) for law, value in self.skill.items()}
        return {"kind": self.kind, "name": self.name, "skill": rounded}


@dataclass(frozen=True, slots=True)
class Choice:
    """The abstraction that was chosen, and why.

    Args:
        abstraction: As it is found from all runs.
        recipe: How it is found from some.
        evidence: Of everything that was tried, the best first.
        leaves: The leaves of the tree, if it is one.
    """

    abstraction: Abstraction
    recipe: Recipe
    evidence: tuple[Evidence, ...]
    leaves: tuple[Leaf, ...] = ()

    @property
    def kind(self) -> Origin:
        return self.evidence[0].kind

    def as_dict(self) -> dict[str, Any]:
        """What the model remembers of it."""
        return {
            "chosen": self.evidence[0].kind,
            "folds": FOLDS,
            "tried": [each.as_dict() for each in self.evidence],
        }

    def text(self, said: str) -> str:
        """The abstraction's file."""
        return tree_text(self.abstraction, self.leaves, said)

    def sentences(self) -> Iterator[str]:
        """For people: what was tried, and how it fared."""
        yield (
            "Skill of the risk in runs that were left out: 1 is perfect, 0 no better"
            " than the base rate."
        )
        for each in self.evidence:
            yield f"  {each.mean:6.3f}  {each.kind}: {each.name}"


def choose(
    corpus: Corpus,
    hand: Abstraction | None,
    horizon_s: float,
    counting: Counting | None = None,
    progress: Progress = lambda items, *_: items,
) -> Choice:
    """Tries all ways and takes the best.

    Args:
        corpus: The runs.
        hand: The abstraction that was made by hand, if there is one.
        horizon_s: H.
        counting: How the chains are learned.
        progress: Shows how far it is.
    """
    judged = _Judged(corpus, horizon_s, counting or Counting())
    todo = _candidates(corpus, hand, horizon_s, judged)
    for kind, name, recipe in progress(todo, "abstractions tried", 0):
        judged.add(kind, name, recipe)
    evidence = sorted(judged.evidence, key=lambda each: -each.mean)
    recipe = judged.recipes[evidence[0].name]
    everything = range(len(corpus.runs))
    if isinstance(recipe, TreeRecipe):
        abstraction, leaves = recipe.grown(everything)
        return Choice(abstraction, recipe, tuple(evidence), tuple(leaves))
    return Choice(recipe(everything), recipe, tuple(evidence))


class _Judged:
    def __init__(self, corpus: Corpus, horizon_s: float, counting: Counting) -> None:
        self._corpus, self._horizon_s, self._counting = corpus, horizon_s, counting
        self.evidence: list[Evidence] = []
        self.recipes: dict[str, Recipe] = {}

    def add(self, kind: Origin, name: str, recipe: Recipe) -> None:
        found: dict[str, list[Foretold]] = {law.name: [] for law in self._corpus.laws}
        for fold in out_of_fold(
            self._corpus.runs[:MOST_RUNS], recipe, self._corpus.laws, [self._horizon_s],
            self._counting, FOLDS,
        ):  # fmt: skip
            for law, several in fold.items():
                found[law] += several
        skills = {
            law: skill(several, self._horizon_s, idle=not mostly_harmless(several))
            for law, several in found.items()
            if sum(each.broken_s is not None for each in several) >= FOLDS
        }
        self.evidence.append(Evidence(kind, name, skills))
        self.recipes[name] = recipe

    def best_tree(self) -> TreeRecipe:
        trees = (each for each in self.evidence if each.kind == "learned")
        recipe = self.recipes[max(trees, key=lambda each: each.mean).name]
        assert isinstance(recipe, TreeRecipe)  # noqa: S101
        return recipe


def _candidates(
    corpus: Corpus, hand: Abstraction | None, horizon_s: float, judged: _Judged
) -> Iterator[tuple[Origin, str, Recipe]]:
    """What is tried; where to look further depends on how the first fared."""
    if hand is not None:
        yield "hand-made", hand.name, lambda _: hand
    for family in corpus.families():
        tree = TreeRecipe(corpus, family, horizon_s, _FIRST_LEAST)
        yield "learned", tree.name, tree
    best = judged.best_tree()
    for least in LEAST:
        if least != _FIRST_LEAST:
            tree = replace(best, least=least)
            yield "learned", tree.name, tree
    greedy = GreedyRecipe(corpus, best.family, horizon_s)
    yield "picked", greedy.name, greedy
