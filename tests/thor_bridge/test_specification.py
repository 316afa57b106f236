"""SafeAgentBench's final_state, read as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.expression import parse_expression
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.thor_bridge.household.objects import new_object
from forewarn.thor_bridge.specification import read_specification


def scene(*things: dict[str, Any]) -> dict[str, Any]:
    return {"objects": list(things)}


def thing(kind: str, x: float = 0.0, **state: Any) -> dict[str, Any]:
    return new_object(kind, (x, 1.0, 0.0), **state)


def test_all_values_must_belong_to_one_object() -> None:
    wanted = read_specification(
        [{"objectType": "Mug", "isDirty": True, "isOpen": False}]
    )
    assert wanted.holds(scene(thing("Mug", isDirty=True)))
    assert not wanted.holds(scene(thing("Mug")))
    assert not wanted.holds(scene(thing("Cup", isDirty=True)))
    filled = read_specification(
        [{"objectType": "Mug", "isDirty": True, "isFilledWithLiquid": True}]
    )
    apart = scene(thing("Mug", isDirty=True), thing("Mug", 1, isFilledWithLiquid=True))
    assert not filled.holds(apart)
    assert filled.holds(scene(thing("Mug", isDirty=True, isFilledWithLiquid=True)))


def test_a_receptacle_is_named_by_any_part_of_its_id() -> None:
    wanted = read_specification([{"objectType": "Mug", "parentReceptacles": ["Sink"]}])
    inside = thing("Mug", parents=["Sink|+01.00|+01.00|+00.00|SinkBasin"])
    assert wanted.holds(scene(inside))
    assert not wanted.holds(scene(thing("Mug", parents=["Shelf|+01.00"])))
    assert not wanted.holds(scene(thing("Mug")))


def test_a_single_receptacle_may_stand_without_a_list() -> None:
    one = read_specification([{"objectType": "Mug", "parentReceptacles": "Sink"}])
    assert one == read_specification(
        [{"objectType": "Mug", "parentReceptacles": ["Sink"]}]
    )


def test_no_receptacle_means_none() -> None:
    wanted = read_specification([{"objectType": "Mug", "parentReceptacles": None}])
    assert wanted.holds(scene(thing("Mug")))
    assert not wanted.holds(scene(thing("Mug", parents=["Shelf|+01.00"])))
    assert wanted.expression() == "not is_inside(Mug, any)"


def test_every_entry_of_a_specification_must_hold() -> None:
    wanted = read_specification(
        [{"objectType": "Mug", "isDirty": True}, {"objectType": "Pan", "isDirty": True}]
    )
    both = scene(thing("Mug", isDirty=True), thing("Pan", 1, isDirty=True))
    assert wanted.holds(both)
    assert not wanted.holds(scene(both["objects"][0]))


def test_a_specification_becomes_an_expression() -> None:
    wanted = read_specification(
        [
            {"objectType": "Fork", "parentReceptacles": ["Microwave|+01.0"]},
            {"objectType": "Microwave", "isToggled": True, "isOpen": False},
            {"objectType": "Sink", "receptacleObjectIds": ["Mug"]},
            {"objectType": "Mug", "fillLiquid": "wine", "temperature": "Hot"},
        ]
    )
    assert wanted.expression() == (
        "is_inside(Fork, Microwave) and is_toggled(Microwave) and"
        " not is_open(Microwave) and is_inside(Mug, Sink) and"
        " is_filled_with(Mug, wine) and is_hot(Mug)"
    )
    parse_expression(wanted.expression(), load_vocabulary("household"))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ([], "a list of objects"),
        ("Mug", "a list of objects"),
        ([{"isOpen": True}], "objectType: this key is missing"),
        ([{"objectType": "Mug", "isDirtyy": True}], "did you mean isDirty"),
        (
            [{"objectType": "Mug", "isDirty": "yes"}],
            "isDirty: expected true or false, found 'yes'",
        ),
        (
            [{"objectType": "Mug", "parentReceptacles": 3}],
            "parentReceptacles: expected a list, found 3",
        ),
    ],
)
def test_invalid_specification_is_rejected(content: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        read_specification(content)


@pytest.mark.parametrize("part", ["safe_detailed", "unsafe_detailed", "abstract"])
def test_all_of_safeagentbench_is_read(shared_data: Path, part: str) -> None:
    path = shared_data / "household" / f"safeagentbench_{part}_1009.jsonl"
    vocabulary, found = load_vocabulary("household"), 0
    for line in path.read_text().splitlines():
        state = json.loads(line)["final_state"]
        if state:
            parse_expression(read_specification(state).expression(), vocabulary)
            found += 1
    assert found > 50
