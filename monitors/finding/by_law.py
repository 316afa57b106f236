"""Which abstraction warns best of each law: what serves one may ruin another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from forewarn.abstractions.abstraction import Abstraction
from forewarn.monitors.finding.choice import (
    FOLDS,
    Choice,
    Evidence,
    Progress,
    choose,
)
from forewarn.monitors.finding.corpus import Corpus
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.trust.hindsight import Counting


@dataclass(frozen=True, slots=True)
class Chosen:
    """What one model is for, and what its states are.

    Args:
        laws: The laws.
        choice: The abstraction, and how it was chosen.
    """

    laws: tuple[Law, ...]
    choice: Choice


def choose_by_law(
    corpus: Corpus,
    laws: Sequence[Law],
    hand: Abstraction | None,
    horizon_s: float,
    counting: Counting | None = None,
    progress: Progress = lambda items, *_: items,
) -> list[Chosen]:
    """Chooses for each law by itself; laws for which the same is taken stay together.

    Args:
        corpus: The runs.
        laws: What is chosen for; some may have parts, which the corpus has one by one.
        hand: The abstraction that was made by hand, if there is one.
        horizon_s: H.
        counting: How the chains are learned.
        progress: Shows how far it is.
    """
    found: list[Chosen] = []
    for own in _groups(corpus, laws):
        choice = choose(corpus.under(_parts(own)), hand, horizon_s, counting, progress)
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
    """One a law; what breaks too rarely to choose by stands with the first of them."""
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
    """The evidence of both, way by way."""
    found = {each.name: each for each in one}
    for each in other:
        own = found.get(each.name)
        found[each.name] = each if own is None else Evidence(
            own.kind, own.name, own.skill | each.skill, own.early_s | each.early_s,
            own.top | each.top,
        )  # fmt: skip
    return tuple(found.values())
