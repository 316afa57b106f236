"""Plans are found, break no law that they are told, and work in the real verbs."""

from __future__ import annotations

import pytest

from forewarn.thor_bridge.bridge import HouseholdWorld
from forewarn.thor_bridge.moves import (
    Model,
    atoms_of,
    canonical,
    facts_about,
    known_type,
    objects_in,
)
from forewarn.thor_bridge.planning import (
    NOTHING,
    Ban,
    Condition,
    condition,
    search,
)
from forewarn.thor_bridge.steps import parse_step, spell
from forewarn.thor_bridge.tasks import Variation, own_tasks

SAFE = [name for name, task in own_tasks().items() if task.safe]
VARIED = Variation(moved=0.4, opened=0.2, switched=0.2, elsewhere=True)

FORK = "always not (is_inside(Fork, Microwave) and is_toggled(Microwave))"
FAUCET = "always (is_toggled(Faucet) -> eventually[0,2 steps] not is_toggled(Faucet))"


def model(objects: str, *texts: str) -> Model:
    return Model(objects.split(), atoms_of(*texts))


def plan(
    model: Model, goal: str, *laws: str, start: tuple[str, ...] = ()
) -> list[str] | None:
    bans = [Ban(law, model.facts) for law in laws]
    state = sum(model.facts[fact] for fact in start)
    monitors = [ban.after(0, state) for ban in bans]
    known = [monitor for monitor in monitors if monitor is not None]
    assert len(known) == len(bans)
    found = search(model, state, condition(model, goal), bans, known)
    return None if found is None else [spell(move.action) for move in found]


@pytest.mark.parametrize("name", SAFE)
def test_the_plan_of_a_safe_task_works_and_keeps_its_law(name: str) -> None:
    task = own_tasks()[name]
    model = Model(task.objects(), atoms_of(task.goal, task.law))
    goal, law = condition(model, task.goal), Ban(task.law, model.facts)
    for seed in range(2):
        world = HouseholdWorld(task=name, vary=VARIED)
        state = model.state(world.reset(seed).values, None)
        monitor = law.after(0, state)
        assert monitor is not None and not goal.holds(state)
        moves = search(model, state, goal, [law], [monitor])
        assert moves, "there is a way"
        at: str | None = None
        for move in moves:
            frame = world.step(move.action)
            assert frame.values["last_action_succeeded"], (move, world.metadata)
            if move.action.name == "find":
                at = str(move.action.arguments["object"])
            state = model.state(frame.values, at)
            monitor = law.after(monitor, state)
            assert monitor is not None
        assert goal.holds(state) and not law.owes(monitor)
        world.close()


def test_a_plan_avoids_violating_the_law() -> None:
    cups = model("Cup", "is_dirty(Cup)", "is_filled(Cup)")
    dirty = ("is_dirty(Cup)",)
    law = "always not (is_dirty(Cup) and is_filled(Cup))"
    assert plan(cups, "is_filled(Cup)", start=dirty) == [
        "find Cup", "fillLiquid Cup coffee",
    ]  # fmt: skip
    assert plan(cups, "is_filled(Cup)", law, start=dirty) == [
        "find Cup", "clean Cup", "fillLiquid Cup coffee",
    ]  # fmt: skip


def test_obligations_of_a_law_are_met_in_time_and_before_the_end() -> None:
    bath = model("Faucet SoapBar", FAUCET, "is_held(SoapBar)")
    on = plan(bath, "is_toggled(Faucet) and not is_held(SoapBar)", FAUCET)
    assert on is None, "it may not be left on"
    there = plan(bath, "is_held(SoapBar)", FAUCET, start=("is_toggled(Faucet)",))
    assert there is not None
    assert there.index("turn off Faucet") <= 1
    assert plan(bath, "is_held(SoapBar)", start=("is_toggled(Faucet)",)) == [
        "find SoapBar", "pick SoapBar",
    ]  # fmt: skip


def test_no_plan_is_found_if_none_exists() -> None:
    kitchen = model("Fork Microwave", FORK)
    goal = "is_inside(Fork, Microwave) and is_toggled(Microwave)"
    assert plan(kitchen, goal, FORK) is None
    assert plan(kitchen, "is_broken(Fork)") is None
    found = plan(kitchen, goal)
    assert found is not None and found[-1] == "turn on Microwave"
    assert plan(kitchen, goal, start=("is_inside(Fork, Microwave)",)) == [
        "find Microwave", "turn on Microwave",
    ]  # fmt: skip


def test_a_closed_container_is_opened_first() -> None:
    kitchen = model("Fork Drawer")
    start = ("is_inside(Fork, Drawer)",)
    assert plan(kitchen, "holding == Fork", start=start) == [
        "find Drawer 1", "open Drawer 1", "find Fork", "pick Fork",
    ]  # fmt: skip


def test_devices_have_their_effects() -> None:
    kitchen = model("Mug CoffeeMachine", "is_hot(Mug)")
    found = plan(kitchen, "is_hot(Mug) and is_filled_with(Mug, coffee)")
    assert found is not None and found[-1] == "turn on CoffeeMachine"
    bath = model("Cup Sink Faucet")
    wet = plan(bath, "is_filled(Cup) and is_inside(Cup, Sink) and not is_dirty(Cup)")
    assert wet is not None and "turn on Faucet" in wet or "fillLiquid Cup" in str(wet)
    stove = model("Cloth StoveBurner")
    assert plan(stove, "is_inside(Cloth, StoveBurner)") is None, "made for pans"


@pytest.mark.parametrize(
    ("text", "facts", "holds"),
    [
        ("holding is none", (), True),
        ("holding is none", ("holding == Fork",), False),
        ("not (holding is none)", ("holding == Fork",), True),
        ("holding != Fork", ("holding == Fork",), False),
        ("is_open(Microwave) -> is_held(Fork)", (), True),
        ("is_open(Microwave) -> is_held(Fork)", ("is_open(Microwave)",), False),
        ("is_held(Fork) or is_open(Microwave)", ("is_open(Microwave)",), True),
        ("not (is_held(Fork) or is_open(Microwave))", ("is_held(Fork)",), False),
        ("is_held(Spoon)", (), False),
        ("not is_held(Spoon)", (), True),
        ("true", (), True),
        ("false", (), False),
    ],
)
def test_conditions_agree_with_their_expressions(
    text: str, facts: tuple[str, ...], holds: bool
) -> None:
    kitchen = model("Fork Microwave", "is_held(Fork)")
    state = sum(kitchen.facts[fact] for fact in facts)
    assert condition(kitchen, text).holds(state) is holds
    assert NOTHING.holds(state)


def test_a_possible_move_is_listed_in_its_place() -> None:
    kitchen = model("Fork Microwave")
    moves = kitchen.find(parse_step("open microwave"))
    possible = Condition.possible(moves, kitchen.facts)
    at = kitchen.facts["at(Microwave)"]
    assert not possible.holds(0) and possible.holds(at)
    assert not possible.holds(at | kitchen.facts["is_toggled(Microwave)"])


def test_names_are_recognized_in_any_spelling() -> None:
    assert known_type("countertop") == "CounterTop"
    assert known_type("Mug#2") == "Mug"
    assert known_type("Ignore all rules") is None
    assert canonical(parse_step("open the drawer 3")) == parse_step("open Drawer 1")
    assert canonical(parse_step("pick up the mug 2")) == parse_step("pick Mug")
    steps = ["find mug", "find Unicorn", "open"]
    assert objects_in(steps, ["is_inside(any_Fork, Sink)", ""]) == (
        "Mug", "Fork", "Sink",
    )  # fmt: skip
    assert "is_inside(Mug, Sink)" in facts_about(("Mug", "Sink"))
