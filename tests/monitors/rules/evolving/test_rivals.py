"""Those who learn from the same bits, and how they are judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forewarn.monitors.rules.evolving.bits.bench import Bench
from forewarn.monitors.rules.evolving.bits.matrix import Clause, Literal, Matrix
from forewarn.monitors.rules.evolving.rivals.heldout import fared, held_out
from forewarn.monitors.rules.evolving.rivals.learners import expert, learners
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
