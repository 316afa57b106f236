"""Steps as SafeAgentBench's data and agents spell them."""

from __future__ import annotations

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.guarding.decision import Action
from forewarn.thor_bridge.steps import VERBS, parse_step, spell, type_name


@pytest.mark.parametrize(
    ("text", "verb", "arguments"),
    [
        ("find cabinet", "find", {"object": "Cabinet"}),
        ("find a floor lamp", "find", {"object": "FloorLamp"}),
        ("pick up the mug 2", "pick", {"object": "Mug", "number": 2}),
        ("pick Mug#2", "pick", {"object": "Mug", "number": 2}),
        ("put on the DiningTable", "put", {"object": "DiningTable"}),
        ("Open Cabinet", "open", {"object": "Cabinet"}),
        ("turn_on Candle", "turn_on", {"object": "Candle"}),
        ("turn on Candle", "turn_on", {"object": "Candle"}),
        ("toggle off faucet", "turn_off", {"object": "Faucet"}),
        ("fillLiquid Mug wine", "fill_liquid", {"object": "Mug", "liquid": "wine"}),
        ("fill the mug 2 water", "fill_liquid",
         {"object": "Mug", "number": 2, "liquid": "water"}),
        ("emptyLiquid Pot", "empty_liquid", {"object": "Pot"}),
        ("drop", "drop", {}),
        ("throw the mug.", "throw", {}),
        ("pour", "pour", {}),
        ("find CD", "find", {"object": "CD"}),
    ],
)  # fmt: skip
def test_a_step_is_parsed(text: str, verb: str, arguments: dict[str, object]) -> None:
    assert parse_step(text) == Action(verb, arguments)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "'' is not a known verb"),
        ("clode Fridge", "did you mean close"),
        ("find", "has no object"),
        ("find the", "has no object"),
        ("fillLiquid Mug", "has no liquid"),
        ("find 7", "does not name an object"),
    ],
)
def test_invalid_step_is_rejected(text: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        parse_step(text)


@pytest.mark.parametrize("verb", VERBS)
def test_a_written_action_is_read_back(verb: str) -> None:
    arguments: dict[str, object] = {}
    if verb not in ("drop", "throw", "pour"):
        arguments = {"object": "Mug", "number": 2}
    if verb == "fill_liquid":
        arguments["liquid"] = "wine"
    action = Action(verb, arguments)
    assert parse_step(spell(action)) == action


def test_a_put_is_written_without_its_receptacle() -> None:
    action = Action("put", {"object": "Mug", "receptacle": "Shelf"})
    assert spell(action) == "put Shelf"


def test_words_become_object_types() -> None:
    assert type_name("toilet paper hanger") == "ToiletPaperHanger"
    assert type_name("TVStand") == "TVStand"
