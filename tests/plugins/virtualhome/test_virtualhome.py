"""VirtualHome's homes: what is shown, what is left on, who performs programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action

pytest.importorskip("virtualhome_eval", reason="virtualhome-eval is not installed")

from forewarn.plugins.virtualhome.bridge import Performer, VirtualHomeWorld
from forewarn.plugins.virtualhome.home import Program, load_programs, parse_step

OURS = load_programs()


def done(world: VirtualHomeWorld, *steps: str) -> Frame:
    frame = world.reset(0)
    for step in steps:
        frame = world.step(parse_step(step))
    return frame


@pytest.mark.parametrize("program", OURS, ids=[each.name for each in OURS])
def test_each_of_our_programs_can_be_done_and_leaves_nothing(program: Program) -> None:
    world = VirtualHomeWorld()
    frame = world.reset(0)
    for step in program.steps:
        frame = world.step(step)
        assert frame.values["last_action_succeeded"], step
    assert frame.values["left_on"] == frame.values["left_open"] == 0.0
    assert frame.values["holding"] is None


def test_graph_is_read_as_object_predicates() -> None:
    watch = [
        "is_inside(Milk, Fridge)", "is_inside(Milk, Kitchen)", "is_open(Fridge)",
        "is_near(Fridge)", "is_held(Milk)", "is_on(Novel, Sofa)",
        "is_toggled(any)", "is_inside(Character, Kitchen)",
    ]  # fmt: skip
    world = VirtualHomeWorld(watch=watch)
    before = world.reset(0).values
    assert [key for key in watch if before[key]] == [
        "is_inside(Milk, Fridge)", "is_inside(Milk, Kitchen)", "is_on(Novel, Sofa)",
    ]  # fmt: skip
    after = done(world, "[WALK] <fridge>", "[OPEN] <fridge>", "[GRAB] <milk>").values
    assert [key for key in watch if after[key]] == [
        "is_inside(Milk, Kitchen)", "is_open(Fridge)", "is_near(Fridge)",
        "is_held(Milk)", "is_on(Novel, Sofa)", "is_inside(Character, Kitchen)",
    ]  # fmt: skip
    assert after["holding"] == "Milk"


def test_appliances_left_on_are_counted_with_their_age() -> None:
    world = VirtualHomeWorld()
    steps = [
        "[WALK] <stove>",
        "[SWITCHON] <stove>",
        "[WALK] <oven>",
        "[SWITCHON] <oven>",
    ]
    after = done(world, *steps).values
    assert (after["left_on"], after["left_on_age"]) == (2.0, 2.0)
    after = done(world, *steps, "[SWITCHOFF] <oven>").values
    assert (after["left_on"], after["left_on_age"]) == (1.0, 3.0)
    steps += ["[SWITCHOFF] <oven>", "[WALK] <stove>", "[SWITCHOFF] <stove>"]
    after = done(world, *steps).values
    assert (after["left_on"], after["left_on_age"]) == (0.0, None)


def test_appliances_on_at_the_start_do_not_count() -> None:
    """VirtualHome's own home of a task begins with its lamps on."""
    world = VirtualHomeWorld(scene="task:27_2", watch=["is_toggled(any)"])
    frame = world.reset(0)
    assert frame.values["is_toggled(any)"] and frame.values["left_on"] == 0.0
    frame = done(
        world,
        "[WALK] <washing_machine> (1)",
        "[OPEN] <washing_machine> (1)",
        "[CLOSE] <washing_machine> (1)",
        "[SWITCHON] <washing_machine> (1)",
    )
    assert (frame.values["left_on"], frame.values["left_open"]) == (1.0, 0.0)


def test_impossible_actions_fail_and_change_nothing() -> None:
    world = VirtualHomeWorld(watch=["is_open(Fridge)", "is_toggled(Stove)"])
    for step in ("[OPEN] <fridge>", "[SWITCHON] <stove>", "[OPEN] <spaceship>"):
        frame = done(world, step)
        assert frame.values["last_action_succeeded"] is False
        assert not any(frame.values[key] for key in ("is_open(Fridge)", "left_on"))
    full = ("[WALK] <drawer>", "[OPEN] <drawer>", "[GRAB] <fork>", "[GRAB] <knife>")
    both = done(world, *full, "[WALK] <fridge>", "[OPEN] <fridge>")
    assert both.values["last_action_succeeded"] is False, "no hand is free"


def test_foresee_leaves_the_home_unchanged() -> None:
    world = VirtualHomeWorld()
    done(world, "[WALK] <stove>")
    on = Action("switchon", {"object": "Stove"})
    foreseen = [world.foresee(on).values["left_on_age"] for _ in range(2)]
    assert foreseen == [0.0, 0.0]
    assert world.step(Action("wait")).values["left_on"] == 0.0
    assert world.ended() is None


@pytest.mark.parametrize(
    ("predicate", "words"),
    [
        ("is_broken(Mug)", "does not provide"),
        ("is_near(Mug, Sink)", "does not provide"),
    ],
)
def test_predicates_that_the_graph_lacks_are_rejected(
    predicate: str, words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        VirtualHomeWorld(watch=[predicate])


def test_a_graph_of_ones_own_is_read_and_another_file_refused(tmp_path: Path) -> None:
    own, other = tmp_path / "home.json", tmp_path / "other.json"
    nodes = [
        {"id": 1, "class_name": "attic", "category": "Rooms", "properties": [],
         "states": []},
        {"id": 2, "class_name": "character", "category": "Characters",
         "properties": [], "states": []},
        {"id": 3, "class_name": "old_radio", "category": "Electronics",
         "properties": ["HAS_SWITCH"], "states": ["OFF"]},
    ]  # fmt: skip
    edges = [
        {"from_id": each, "relation_type": "INSIDE", "to_id": 1} for each in (2, 3)
    ]
    own.write_text(json.dumps({"nodes": nodes, "edges": edges}))
    world = VirtualHomeWorld(scene=str(own), watch=["is_toggled(OldRadio)"])
    frame = done(world, "[WALK] <old_radio>", "[SWITCHON] <old_radio>")
    assert frame.values["is_toggled(OldRadio)"] is True
    nobody = {"nodes": nodes[:1], "edges": []}
    for content, words in (
        ({"rooms": 3}, "not a valid VirtualHome graph"),
        (nobody, "character"),
    ):
        other.write_text(json.dumps(content))
        with pytest.raises(InvalidInput, match=words):
            VirtualHomeWorld(scene=str(other))
    with pytest.raises(InvalidInput, match="no task 1_1"):
        VirtualHomeWorld(scene="task:1_1")


@pytest.mark.parametrize(
    ("step", "name", "arguments"),
    [
        ("[SWITCHON] <light> (2)", "switchon", {"object": "Light#2"}),
        ("[Walk] <living_room> (1)", "walk", {"object": "LivingRoom"}),
        ("[GRAB] <food_food> (1.1000)", "grab", {"object": "FoodFood"}),
        ("[PUTIN] <milk> (1) <fridge> (1)", "putin",
         {"object": "Milk", "receptacle": "Fridge"}),
        ("[STANDUP]", "standup", {}),
        ("[CUT] <bread> (1)", "slice", {"object": "Bread"}),
        (["PUTIN", ["milk", "fridge"]], "putin",
         {"object": "Milk", "receptacle": "Fridge"}),
    ],
)  # fmt: skip
def test_steps_are_read_as_people_and_models_write_them(
    step: str | list[object], name: str, arguments: dict[str, str]
) -> None:
    assert parse_step(step) == Action(name, arguments)


@pytest.mark.parametrize(
    "step", ["", "open the fridge", "[OPEN]", "[FLY] <fridge>", ["OPEN", "fridge"], [1]]
)
def test_invalid_step_is_rejected(step: str | list[object]) -> None:
    with pytest.raises(InvalidInput):
        parse_step(step)


def performed(pilot: Performer, seed: int, tell: bool = False) -> Frame:
    """An episode; whoever would finish with something left may be told so."""
    world = VirtualHomeWorld()
    frame = world.reset(seed)
    pilot.reset(seed)
    while world.ended() is None:
        action = pilot.propose(frame)
        if tell and action.name == "finish" and frame.values["left_on"]:
            action = pilot.propose(frame, "something is on")
        frame = world.step(action)
    return frame


def test_the_forgetful_leave_things_and_the_thorough_do_not() -> None:
    for seed in range(5):
        end = performed(Performer(), seed).values
        assert end["left_on"] == end["left_open"] == 0.0
    forgetful = Performer(forgetful=1.0, forgets=1.0, in_a_row=(3, 3))
    left = [performed(forgetful, seed).values for seed in range(5)]
    assert sum(end["left_on"] + end["left_open"] for end in left) > 5
    round_ = Performer(forgetful=1.0, forgets=1.0, looks_round=1.0, in_a_row=(3, 3))
    assert performed(round_, 1).values["left_on"] == 0.0


def plan_told(pilot: Performer, seed: int) -> list[tuple[Any, Any, Any]]:
    """Frame by frame the last verb, how many steps are left, and what comes next."""
    world = VirtualHomeWorld()
    frames = [world.reset(seed)]
    pilot.reset(seed)
    while world.ended() is None:
        frames.append(world.step(pilot.propose(frames[-1])))
    told = ("last_action", "steps_left", "next_action")
    return [tuple(frame.values[name] for name in told) for frame in frames]


def test_a_performer_says_where_in_the_plan_it_is_and_what_comes_next() -> None:
    told = plan_told(Performer(program=2), 0)
    steps = OURS[2].steps
    assert told[0] == (None, None, None)
    assert [left for _, left, _ in told[1:-1]] == [*range(len(steps) - 1, -1, -1)]
    assert told[-1] == ("finish", 0.0, None)
    verbs = [verb for verb, _, _ in told]
    assert [after for _, _, after in told[1:-1]] == verbs[2:]


def test_omitted_step_is_still_part_of_the_plan() -> None:
    forgetful = plan_told(Performer(program=2, forgetful=1.0, forgets=1.0), 0)
    left = [steps for _, steps, _ in forgetful[1:-1]]
    assert len(left) < len(OURS[2].steps) == 1 + left[0]
    assert not {"close", "switchoff"} & {verb for verb, _, _ in forgetful}


def test_looking_round_is_announced() -> None:
    told = plan_told(
        Performer(program=2, forgetful=1.0, forgets=1.0, looks_round=1.0), 0
    )
    verbs, said = [verb for verb, _, _ in told], [after for _, _, after in told]
    assert "switchoff" in verbs and said.index("finish") == len(told) - 2
    assert said[1:-1] == verbs[2:]


def test_missing_plan_leaves_the_steps_open() -> None:
    world = VirtualHomeWorld()
    frame = done(world, "[WALK] <stove>")
    assert frame.values["steps_left"] is frame.values["next_action"] is None
    said = {"object": "Stove", "steps_left": 4.0, "next_action": "not one word"}
    frame = world.step(Action("walk", said))
    assert frame.values["steps_left"] == 4.0
    assert frame.values["next_action"] == "unnamed", "words of a world's are data"
    frame = world.step(None)
    assert (frame.values["steps_left"], frame.values["next_action"]) == (4.0, None)


def test_person_who_heeds_a_warning_puts_things_right() -> None:
    told: dict[str, Any] = {"forgetful": 1.0, "forgets": 1.0, "in_a_row": (3, 3)}
    for seed in range(5):
        assert performed(Performer(**told), seed, tell=True).values["left_on"] == 0.0
    deaf = [performed(Performer(**told, heeds=0.0), n, tell=True) for n in range(5)]
    assert any(end.values["left_on"] for end in deaf)


def test_world_and_performer_take_the_same_program_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "plans.json"
    plan = {
        "name": "wash clothes",
        "scene": "task:27_2",
        "steps": [["WALK", ["washing_machine"]], ["SWITCHON", ["washing_machine"]]],
    }
    text = {"format": "forewarn.household-programs/1", "programs": [plan]}
    path.write_text(json.dumps(text))
    world = VirtualHomeWorld(programs=path, program=0)
    pilot = Performer(programs=path, program=0)
    frame = world.reset(3)
    pilot.reset(3)
    while world.ended() is None:
        frame = world.step(pilot.propose(frame))
    assert frame.values["left_on"] == 1.0
    with pytest.raises(InvalidInput, match="no program 1"):
        Performer(programs=path, program=1)
