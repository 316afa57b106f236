"""Two laws: what serves one does not ruin the other."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from forewarn.abstractions.abstraction import from_expressions
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.trace import Kept, Trace, TraceHeader
from forewarn.monitors.finding import choice
from forewarn.monitors.finding.choice import Choice, Evidence, choose_by_law
from forewarn.monitors.finding.corpus import Corpus
from forewarn.monitors.laws.lawbook import find_laws
from forewarn.monitors.trust.hindsight import Found

pytestmark = pytest.mark.needs("sklearn")

PERIOD_S = 0.1
LAWS = find_laws("spill := always not spilled") + find_laws("burn := always not burnt")
RARE = find_laws("fall := always not fallen")


def run(seed: int) -> Trace:
    """A pot fills and a plate heats up; now and then nobody sees to it."""
    luck = random.Random(seed)
    level, heat = luck.uniform(20, 50), luck.uniform(20, 50)
    pours, heats = luck.uniform(0, 2.2), luck.uniform(0, 2.2)
    frames: list[Frame] = []
    for i in range(40):
        values: dict[str, Any] = {
            "level": round(level, 2), "heat": round(heat, 2),
            "spilled": level > 100, "burnt": heat > 100, "fallen": seed == 3 and i > 30,
        }  # fmt: skip
        frames.append(Frame(i * PERIOD_S, i, values))
        level += max(0.0, luck.gauss(pours, 0.5))
        heat += max(0.0, luck.gauss(heats, 0.5))
    header = TraceHeader(None, tuple(frames[0].values), PERIOD_S, "pot", seed, "made")
    return Trace(header, tuple(frames))


def corpus(laws: Any) -> Corpus:
    runs = [run(seed) for seed in range(60)]
    kept = [Kept.of(each, each.header.provides) for each in runs]
    return Corpus(kept, laws, None, PERIOD_S)


@pytest.mark.slow
def test_each_law_has_what_tells_of_it_and_a_rare_one_stands_with_the_first() -> None:
    laws = [*LAWS, *RARE]
    runs = corpus(laws)
    assert runs.broken()["fall"] == 1
    assert min(runs.broken()["spill"], runs.broken()["burn"]) >= 5
    spill, burn = choose_by_law(runs, laws, None, 1.0)
    assert [law.name for law in spill.laws] == ["spill", "fall"]
    assert [law.name for law in burn.laws] == ["burn"]
    for chosen, own in ((spill, "level"), (burn, "heat")):
        (law, *_) = chosen.laws
        best = chosen.choice.evidence[0]
        assert own in chosen.choice.abstraction.signals
        assert set(best.leads) == {law.name} and best.leads[law.name].detected > 0.5
    assert "spilled" not in burn.choice.abstraction.signals
    assert "burnt" not in spill.choice.abstraction.signals


def test_laws_for_which_the_same_is_taken_share_a_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hand = from_expressions(["spilled", "burnt", "level > 90"], period_s=PERIOD_S)
    asked: list[list[str]] = []

    def by_hand(corpus: Corpus, *_: object) -> Choice:
        names = [law.name for law in corpus.laws]
        asked.append(names)
        early_s = {name: np.full((1, 5), 2.0) for name in names}
        best = Evidence("hand-made", "pots", dict.fromkeys(names, 0.5), early_s)
        return Choice(Found(hand), lambda _: Found(hand), (best,))

    monkeypatch.setattr(choice, "choose", by_hand)
    (both,) = choose_by_law(corpus(LAWS), LAWS, hand, 1.0)
    assert asked == [["spill"], ["burn"]]
    assert [law.name for law in both.laws] == ["spill", "burn"]
    (best,) = both.choice.evidence
    assert best.skill == {"spill": 0.5, "burn": 0.5}
    assert {law: lead.detected for law, lead in best.leads.items()} == {
        "spill": 1.0,
        "burn": 1.0,
    }
