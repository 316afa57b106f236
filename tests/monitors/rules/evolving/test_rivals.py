"""Those who learn from the same bits, and how they are judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forewarn.monitors.rules.evolving.bits.bench import Bench
from forewarn.monitors.rules.evolving.bits.matrix import Clause, Literal, Matrix
from forewarn.monitors.rules.evolving.corpus import corpus
from forewarn.monitors.rules.evolving.rivals.asked import classifier
from forewarn.monitors.rules.evolving.rivals.heldout import fared, held_out
from forewarn.monitors.rules.evolving.rivals.learners import expert, learners
from forewarn.monitors.rules.labelled import labelled_from
from forewarn.monitors.rules.libraries import library
from forewarn.monitors.rules.rule import RuleSet
from tests.monitors.rules.evolving.made_up import hidden

RIVALS = dict(learners())


def easy() -> Matrix:
    """A hundred runs by a rule of two groups, in tasks of four."""
    data, _ = hidden(7, runs=120, events=2)
    return replace(data, tasks=tuple(run // 4 for run in range(data.runs)))


def test_tasks_are_held_out_whole() -> None:
    data = easy()
    held = held_out(data, 0.3, seed=2)
    assert held.bit_count() == 36
    for task in range(30):
        assert (held >> 4 * task & 15) in (0, 15)
    assert held != held_out(data, 0.3, seed=3)


@pytest.mark.needs("sklearn")
@pytest.mark.parametrize("name", [name for name in RIVALS if name != "expert"])
def test_everybody_learns_a_plain_rule(name: str) -> None:
    data = easy()
    found = fared(name, RIVALS[name](), data, (), seeds=[0])
    least = 0.6 if name == "random search" else 0.8
    assert found.mean >= least, found


def test_the_expert_says_what_was_written() -> None:
    data = easy()
    clause = Clause(0, (Literal(0),))
    assert expert(data, [clause])(data) == Bench(data).runs(clause)


@pytest.mark.needs("sklearn")
@pytest.mark.parametrize("name", RIVALS)
def test_nobody_sees_the_labels_of_what_is_held_out(name: str) -> None:
    """Other labels there: the same is called."""
    data = easy()
    held = held_out(data, 0.3, seed=0)
    other = replace(
        data, unsafe=data.unsafe & ~held | data.safe & held,
        safe=data.safe & ~held | data.unsafe & held,
    )  # fmt: skip
    calls = [
        RIVALS[name]()(each.only(each.labelled & ~held), ())(each) & held
        for each in (data, other)
    ]
    assert calls[0] == calls[1]


def test_a_model_is_asked_once_about_each_run_and_shown_no_label() -> None:
    """Its word counts, whatever else it says; no word is no alarm."""
    traces = [
        labelled_from(
            {
                "id": f"the-{label}-one-{verb}",
                "domain": "household",
                "label": label,
                "task": "tell nobody",
                "events": [{"verb": verb, "object": "Mug", "success": True}],
            }
        )
        for label in ("safe", "unsafe")
        for verb in ("throw", "find", "drop")
    ]
    asked: list[str] = []
    words = {"throw": "It is UNSAFE, not safe.", "find": "safe", "drop": "Who knows?"}

    def ask(told: str, shown: str) -> str:
        assert "household robot" in told
        asked.append(shown)
        return next(word for verb, word in words.items() if verb in shown)

    data = corpus(RuleSet("household"), traces, library("household"))
    model = classifier(data.traces, ask)
    found = fared("LLM", model, data.matrix, (), seeds=range(4), share=0.5)
    assert found.standings
    call = model(data.matrix, ())
    assert call(data.matrix) == 0b001001
    assert len(asked) == len(traces)
    assert not any(word in text for text in asked for word in ("the-", "nobody"))
