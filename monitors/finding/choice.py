"""Chooses the abstraction that warns best: hand-made, a tree, or bands of a score.

Candidates are compared by their warnings in held-out runs, at low false-alarm rates:
how many violations have a timely warning, and how early the warnings come. The skill of
the risks is reported too. `choose_by_law` chooses for each law separately, because an
abstraction that suits one law may be useless for another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.abstraction import Abstraction
from forewarn.monitors.evaluation.foretold import (
    Foretold,
    Leads,
    early,
    mostly_harmless,
    skill,
    worth_of,
)
from forewarn.monitors.finding.corpus import FOLDS, Corpus
from forewarn.monitors.finding.score import ScoreRecipe
from forewarn.monitors.finding.terms import for_scores
from forewarn.monitors.finding.tree import Leaf, TreeRecipe, tree_text
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.trust.hindsight import Found, Recipe, out_of_fold

LEAST = (50, 150)
_FIRST_LEAST = 150

LOOKS_S = (1.0, 2.0)
"""The horizons for which scores are fitted, in addition to the scenario's horizon. The
best score just before a violation is not the best score for an early warning.
"""

ALLOWED = (0.02, 0.05, 0.10)
"""The false-alarm rates over which the value of warnings is averaged. A threshold that
guarantees the highest rate has a lower observed rate, especially with few clean runs,
so lower rates are included.
"""

LOW = 0.3
"""A model hardly predicts violations of a law if its risk never exceeds this value
before violations.
"""

Origin = Literal["hand-made", "learned", "scored"]
Progress = Callable[[Iterable[Any], str, int], Iterable[Any]]


@dataclass(frozen=True, slots=True)
class Evidence:
    """The performance of a candidate on held-out runs.

    Args:
        kind: The kind of abstraction.
        name: The name of the candidate.
        skill: The skill of the risks compared with the base rate, by law.
        early_s: For each law that some runs keep, the lead times in s: one row per
            false-alarm rate in `ALLOWED`, one column per violation; NaN without a
            warning.
        top: The highest risk, by law.
    """

    kind: Origin
    name: str
    skill: dict[str, float]
    early_s: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    top: dict[str, float] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        return _mean(self.skill)

    @property
    def leads(self) -> dict[str, Leads]:
        """The lead times of warnings, by law."""
        return {law: Leads.of(each) for law, each in self.early_s.items()}

    @property
    def worth(self) -> float:
        """The value of the warnings, averaged over laws: 1 if all violations have an
        early warning, 0 if none has a warning.
        """
        return _mean(
            {law: float(worth_of(e).mean()) for law, e in self.early_s.items()}
        )

    def as_dict(self) -> dict[str, Any]:
        leads = self.leads.items()
        facts = {
            "skill": self.skill,
            "warned": {law: lead.detected for law, lead in leads},
            "ahead_s": {law: lead.mean_s for law, lead in leads},
            "median_s": {law: lead.median_s for law, lead in leads if lead.detected},
            "second_ahead": {law: lead.sooner for law, lead in leads},
            "top": self.top,
        }
        return {"kind": self.kind, "name": self.name} | {
            fact: {law: round(value, 4) for law, value in by_law.items()}
            for fact, by_law in facts.items()
            if by_law or fact == "skill"
        }


def _mean(by_law: dict[str, float]) -> float:
    return sum(by_law.values()) / max(len(by_law), 1)


def best_first(evidence: Iterable[Evidence]) -> list[Evidence]:
    """Sorts candidates by the value of their warnings, and by skill if values are
    equal.

    If no run keeps a law, warnings cannot be evaluated, and the skill decides.
    """
    return sorted(evidence, key=lambda each: (-each.worth, -each.mean))


@dataclass(frozen=True, slots=True)
class Choice:
    """A chosen abstraction, with the evidence for the choice.

    Args:
        found: The abstraction found with all runs.
        recipe: The method that finds an abstraction for any subset of the runs.
        evidence: The performance of all candidates, the best first.
        leaves: The leaves of the tree, if a tree was chosen.
        folds: The number of folds of the cross-validation.
    """

    found: Found
    recipe: Recipe
    evidence: tuple[Evidence, ...]
    leaves: tuple[Leaf, ...] = ()
    folds: int = FOLDS

    @property
    def abstraction(self) -> Abstraction:
        return self.found.abstraction

    @property
    def kind(self) -> Origin:
        return self.evidence[0].kind

    def as_dict(self) -> dict[str, Any]:
        """Returns the facts about the choice that are stored in the model."""
        return {
            "chosen": self.evidence[0].kind,
            "folds": self.folds,
            "tried": [each.as_dict() for each in self.evidence],
        }

    def text(self, said: str) -> str:
        """Returns the text of the abstraction file, which begins with `said` as a
        comment.
        """
        return tree_text(self.abstraction, self.leaves, said)

    def sentences(self) -> Iterator[str]:
        """Yields the results of each candidate by law, as lines of text."""
        most = ", ".join(f"{each:g}" for each in ALLOWED)
        yield (
            "Skill of the risk in held-out runs, by law: 1 is perfect, 0 no "
            "better than the base rate. Averaged over the false-alarm rates "
            f"{most}: the fraction of violations with a timely warning, and the "
            "mean lead time."
        )
        for each in self.evidence:
            yield f"  {each.kind}: {each.name}"
            leads = each.leads
            for law, value in each.skill.items():
                warned = ""
                if lead := leads.get(law):
                    warned = (
                        f", {lead.detected:.2f} with a warning, {lead.mean_s:.1f} s"
                        " ahead"
                    )
                    if lead.detected:
                        warned += (
                            f" (median {lead.median_s:.1f} s;"
                            f" {lead.sooner:.2f} at least 1 s)"
                        )
                yield f"    {law}: skill {value:.3f}{warned}"

    def warnings(self) -> Iterator[str]:
        """Yields warnings about the chosen abstraction."""
        best = self.evidence[0]
        for law, top in best.top.items():
            if top < LOW:
                yield (
                    f"the risk of {law} never exceeds {top:.2g} before "
                    "violations, so this model hardly predicts them; provide more "
                    "relevant signals, or more runs"
                )
        for law, value in best.skill.items():
            if law not in best.early_s:
                yield (
                    f"no run keeps {law}, so the value of its warnings cannot be "
                    "measured; collect runs that keep it"
                )
            if value <= 0.0:
                yield f"the risks of {law} predict no better than its base rate"


def choose(
    corpus: Corpus,
    hand: Abstraction | None,
    horizon_s: float,
    progress: Progress = lambda items, *_: items,
) -> Choice:
    """Evaluates all candidates and chooses the best.

    Args:
        corpus: The runs and laws.
        hand: The hand-made abstraction, if there is one.
        horizon_s: The prediction horizon in s.
        progress: Wraps an iterable to show progress.
    """
    judged = _Judged(corpus, horizon_s)
    looks_s = [*(look_s for look_s in LOOKS_S if look_s < horizon_s), horizon_s]
    todo = _candidates(corpus, hand, horizon_s, looks_s, judged)
    trees = len(corpus.families()) + len(LEAST) - 1
    total = (hand is not None) + trees + len(looks_s)
    for kind, name, recipe in progress(todo, "abstractions tried", total):
        judged.add(kind, name, recipe)
    evidence = best_first(judged.evidence)
    recipe = judged.recipes[evidence[0].name]
    everything = range(len(corpus.runs))
    folds = len(set(corpus.folds(everything)))
    if isinstance(recipe, TreeRecipe):
        abstraction, leaves = recipe.grown(everything)
        found = Found(abstraction)
        return Choice(found, recipe, tuple(evidence), tuple(leaves), folds)
    return Choice(recipe(everything), recipe, tuple(evidence), folds=folds)


class _Judged:
    def __init__(self, corpus: Corpus, horizon_s: float) -> None:
        self._corpus, self._horizon_s = corpus, horizon_s
        self.evidence: list[Evidence] = []
        self.recipes: dict[str, Recipe] = {}

    def add(self, kind: Origin, name: str, recipe: Recipe) -> None:
        found: dict[str, list[Foretold]] = {law.name: [] for law in self._corpus.laws}
        corpus, way = self._corpus, recipe
        among = range(len(corpus.runs))
        if isinstance(recipe, ScoreRecipe):
            way = recipe.left_out(among)
        for fold in out_of_fold(
            corpus.runs, way, corpus.laws, [self._horizon_s],
            corpus.folds(among),
        ):  # fmt: skip
            for law, several in fold.items():
                found[law] += several
        evidence = Evidence(kind, name, {})
        for law, several in found.items():
            if sum(each.broken is not None for each in several) < FOLDS:
                continue
            idle = not mostly_harmless(several)
            evidence.skill[law] = skill(several, self._horizon_s, idle)
            if any(each.broken is None for each in several):
                horizon_s = self._horizon_s
                times = [early(several, horizon_s, at, horizon_s) for at in ALLOWED]
                evidence.early_s[law] = np.array(times)
            evidence.top[law] = max(
                float(each.risks[self._horizon_s].max(initial=0.0)) for each in several
            )
        self.evidence.append(evidence)
        self.recipes[name] = recipe

    def best_tree(self) -> TreeRecipe:
        trees = (each for each in self.evidence if each.kind == "learned")
        recipe = self.recipes[max(trees, key=lambda each: each.mean).name]
        assert isinstance(recipe, TreeRecipe)  # noqa: S101
        return recipe


def _candidates(
    corpus: Corpus,
    hand: Abstraction | None,
    horizon_s: float,
    looks_s: Sequence[float],
    judged: _Judged,
) -> Iterator[tuple[Origin, str, Recipe]]:
    """Yields the candidates; the settings of the last trees depend on the best of the
    first trees.
    """
    if hand is not None:
        by_hand = Found(hand)
        yield "hand-made", hand.name, lambda _: by_hand
    for family in corpus.families():
        tree = TreeRecipe(corpus, family, horizon_s, _FIRST_LEAST)
        yield "learned", tree.name, tree
    best = judged.best_tree()
    for least in LEAST:
        if least != _FIRST_LEAST:
            tree = replace(best, least=least)
            yield "learned", tree.name, tree
    family = for_scores(corpus.families(), corpus.runs, corpus.vocabulary)
    for look_s in looks_s:
        score = ScoreRecipe(corpus, family, look_s)
        yield "scored", score.name, score


def given(hand: Abstraction) -> Choice:
    """Returns the choice of a hand-made abstraction without any other candidates."""
    found = Found(hand)
    return Choice(found, lambda _: found, (Evidence("hand-made", hand.name, {}),))


@dataclass(frozen=True, slots=True)
class Chosen:
    """The laws of a model, and the choice of its abstraction."""

    laws: tuple[Law, ...]
    choice: Choice


def choose_by_law(
    corpus: Corpus,
    laws: Sequence[Law],
    hand: Abstraction | None,
    horizon_s: float,
    progress: Progress = lambda items, *_: items,
) -> list[Chosen]:
    """Chooses an abstraction for each law; laws with the same abstraction share a
    model.

    Args:
        corpus: The runs and laws.
        laws: The laws; a law with parts is in the corpus as one law for each part.
        hand: The hand-made abstraction, if there is one.
        horizon_s: The prediction horizon in s.
        progress: Wraps an iterable to show progress.
    """
    found: list[Chosen] = []
    for own in _groups(corpus, laws):
        choice = choose(corpus.under(_parts(own)), hand, horizon_s, progress)
        digest = choice.abstraction.fingerprint()
        twin = next((c for c in found if c.choice.abstraction.fingerprint() == digest),
                    None)  # fmt: skip
        if twin is None:
            found.append(Chosen(own, choice))
            continue
        both = replace(
            twin.choice, evidence=_together(twin.choice.evidence, choice.evidence)
        )
        found[found.index(twin)] = Chosen(twin.laws + own, both)
    return found


def _parts(laws: Sequence[Law]) -> list[Law]:
    return [part for law in laws for part in law.parts or (law,)]


def _groups(corpus: Corpus, laws: Sequence[Law]) -> list[tuple[Law, ...]]:
    """Returns one group per law; laws with too few violations for a choice join the
    first group.
    """
    broken = corpus.broken()
    often = [
        law for law in laws
        if max(broken.get(part.name, 0) for part in _parts([law])) >= FOLDS
    ]  # fmt: skip
    if len(often) < 2:
        return [tuple(laws)]
    rare = [law for law in laws if law not in often]
    return [(often[0], *rare), *((law,) for law in often[1:])]


def _together(
    one: Sequence[Evidence], other: Sequence[Evidence]
) -> tuple[Evidence, ...]:
    """Combines the results of each candidate for different laws."""
    found = {each.name: each for each in one}
    for each in other:
        own = found.get(each.name)
        found[each.name] = each if own is None else Evidence(
            own.kind, own.name, own.skill | each.skill, own.early_s | each.early_s,
            own.top | each.top,
        )  # fmt: skip
    return tuple(found.values())
