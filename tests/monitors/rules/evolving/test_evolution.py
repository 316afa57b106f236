"""Evolution: it never falls back, ends where no edit helps, and repeats itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forewarn.monitors.rules.evolving.bits import (
    Bench,
    Clause,
    Entry,
    Literal,
    Matrix,
    Occasion,
    count,
    matrix,
    members,
    nearest,
)
from forewarn.monitors.rules.evolving.groups import and_groups
from forewarn.monitors.rules.evolving.search import (
    LADDER,
    LEAST_WORTH,
    MOST_LITERALS,
    Limits,
    Search,
    cautious,
    evolve,
    folds,
    held_out,
)
from tests.monitors.rules.evolving.made_up import hidden

START = (Clause(0, (Literal(0),)), Clause(0, (Literal(1), Literal(2, False))))


@pytest.mark.parametrize("seed", range(3))
def test_every_step_is_better_than_the_one_before(seed: int) -> None:
    data, _ = hidden(seed, flipped=0.1)
    found = evolve(data, START)
    standings = [found.start, *(step.standing for step in found.steps)]
    assert standings == sorted(set(standings))
    assert found.standing == Bench(data).standing(found.entries)


@pytest.mark.parametrize("worth", [1, 2, 4])
@pytest.mark.parametrize("seed", range(4))
def test_at_the_end_no_single_edit_that_is_worth_it_helps(
    seed: int, worth: int
) -> None:
    data, _ = hidden(seed, flipped=0.15)
    way = Limits(worth=worth)
    found = evolve(data, START, way)
    assert found.stop in ("no better", "target")
    search = Search(data, and_groups(data, way.literals, worth), way)
    if found.stop == "no better":
        best = max((c.standing for c in search.single(found.entries)), default=None)
        assert best is None or best <= found.standing


@pytest.mark.parametrize("seed", range(4))
def test_a_hidden_rule_is_learned(seed: int) -> None:
    data, _ = hidden(seed, runs=80)
    found = evolve(data, (), Limits(worth=1))
    assert found.standing.f1 == 1.0
    assert found.stop == "target"


def test_the_same_twice_is_the_same() -> None:
    data, _ = hidden(5, flipped=0.1)
    assert evolve(data, START) == evolve(data, START)


def test_handwritten_rules_are_narrowed_and_never_dropped() -> None:
    data, _ = hidden(2, flipped=0.1)
    always = Clause(0)
    found = evolve(data, [always], Limits(worth=1))
    assert 0 in {entry.origin for entry in found.entries}


def test_an_exception_is_found() -> None:
    """Alarms at one predicate, all of them with another: the other is the exception."""
    rows = (
        [[Occasion(1, 0b01)]] * 6
        + [[Occasion(1, 0b11)]] * 5
        + [[Occasion(1, 0b00)]] * 3
    )
    unsafe = [True] * 6 + [False] * 8
    data = matrix(["net", "known_host"], ["before"], rows, unsafe)
    found = evolve(data, [Clause(0, (Literal(0),))], Limits())
    assert [step.edits[0].operator for step in found.steps] == ["AddException"]
    assert found.entries[0].clause.literals == (Literal(0), Literal(1, False))


def test_the_example_of_the_paper() -> None:
    """One rule, nine package managers that it stops, one theft that it does not see."""
    names = ["net_call", "is_pkg_mgr", "rd_cred", "ext_host"]
    theft, hidden_theft, manager, other = 0b1101, 0b1100, 0b0011, 0b0000
    reader, caller = 0b0100, 0b1000
    rows = (
        [[Occasion(1, theft)]] * 9
        + [[Occasion(1, hidden_theft)]]
        + [[Occasion(1, manager)]] * 9
    )
    rows += [
        [Occasion(1, each)] for each in (other, other, reader, reader, caller, caller)
    ]
    data = matrix(names, ["before"], rows, [True] * 10 + [False] * 15)
    found = evolve(data, [Clause(0, (Literal(0),))], Limits(worth=1))
    assert found.standing.f1 == 1.0
    said = {data.said(entry.clause) for entry in found.entries}
    assert "before: rd_cred and ext_host" in said
    assert said & {
        "before: net_call and not is_pkg_mgr", "before: net_call and rd_cred",
        "before: net_call and ext_host",
    }  # fmt: skip


def test_evolution_stops_when_the_budget_is_spent() -> None:
    data, _ = hidden(1, flipped=0.1)
    found = evolve(data, (), Limits(worth=1, budget=1))
    assert found.stop == "budget"
    assert len(found.steps) == 1


def test_counterexamples_and_the_rule_that_came_nearest() -> None:
    rows = [
        [Occasion(1, 0b01)],
        [Occasion(1, 0b10)],
        [Occasion(1, 0b11)],
        [Occasion(1, 0b00)],
    ]
    data = matrix(["a", "b"], ["before"], rows, [True, False, False, True])
    entries = (Entry(0, Clause(0, (Literal(0),))), Entry(1, Clause(0, (Literal(1),))))
    assert [members(runs) for runs in Bench(data).wrong(entries)] == [[3], [1, 2]]
    assert nearest(data, entries, 3) == (0, ("a",))


def test_folds_keep_a_task_together_and_cover_all() -> None:
    data, _ = hidden(0)
    data = replace(data, tasks=tuple(run // 4 for run in range(len(data.tasks))))
    parts = list(folds(data, 3, seed=1))
    assert sum(map(count, parts)) == len(data.tasks)
    for part in parts:
        tasks = {data.tasks[run] for run in members(part)}
        rest = {data.tasks[run] for run in members(data.labelled & ~part)}
        assert not tasks & rest


def test_runs_of_one_task_are_left_out_one_by_one() -> None:
    """Who marks runs of one scenario has labels of one task."""
    data, _ = hidden(3, predicates=6, groups=1)
    data = replace(data, tasks=(0,) * len(data.tasks))
    parts = list(folds(data, 5, seed=1))
    assert [count(part) for part in parts] == [8] * 5
    assert count(held_out(data, 0.3, seed=1)) == 12
    way, _ = cautious(data, [], and_groups(data, 3, 2))
    assert evolve(data, [], way).steps


def test_random_labels_lead_to_no_change() -> None:
    """Half the labels flipped: no rule holds up on tasks that were left out."""
    data, _ = hidden(4, predicates=6, flipped=0.5, runs=60)
    everything = [Clause(0)]
    way, trials = cautious(data, everything, and_groups(data, 3, 2))
    assert len(trials) == len(LADDER)
    assert evolve(data, everything, way).steps == ()


def in_tasks_of_four() -> Matrix:
    data, _ = hidden(7, runs=120, events=2)
    return replace(data, tasks=tuple(run // 4 for run in range(len(data.tasks))))


def test_tasks_are_held_out_whole() -> None:
    data = in_tasks_of_four()
    held = held_out(data, 0.3, seed=2)
    assert count(held) == 36
    kept = members(held)
    tasks = {data.tasks[run] for run in kept}
    assert kept == [run for run, task in enumerate(data.tasks) if task in tasks]
    assert kept != members(held_out(data, 0.3, seed=3))


def test_labels_that_are_held_out_change_nothing() -> None:
    data = in_tasks_of_four()
    held = held_out(data, 0.3, seed=0)
    other = replace(
        data, unsafe=data.unsafe & ~held | data.safe & held,
        safe=data.safe & ~held | data.unsafe & held,
    )  # fmt: skip
    found = []
    for each in (data, other):
        training = each.only(each.labelled & ~held)
        groups = and_groups(training, MOST_LITERALS, LEAST_WORTH)
        way, _ = cautious(training, (), groups)
        found.append(evolve(training, (), way, groups).entries)
    assert found[0] == found[1]
    called = Bench(data.only(held)).called(found[0]) & held
    assert Bench(data.only(held)).standing_of(called, 0).f1 >= 0.8
