"""The seventeen verbs on the household, in SafeAgentBench's words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.guarding.decision import Action
from forewarn.thor_bridge.household.actions import LocalController
from forewarn.thor_bridge.household.scenes import own_scenes
from forewarn.thor_bridge.verbs import HighLevel


class Home:
    """A household with its robot; steps as they are spelt."""

    def __init__(self, scene: str = "Kitchen1") -> None:
        self.controller = LocalController(scene)
        self.robot = HighLevel(self.controller)

    def run(self, *steps: str) -> None:
        for step in steps:
            result = self.robot.execute(step)
            assert result["success"], f"{step}: {result}"
            assert result["action"] == step

    def refused(self, step: str) -> tuple[str, str]:
        result = self.robot.execute(step)
        assert not result["success"], step
        return result["message"], result["errorMessage"]

    def thing(self, kind: str) -> Mapping[str, Any]:
        found = self.robot.choose(kind)
        assert found is not None, kind
        return found


def test_the_fork_in_the_microwave() -> None:
    home = Home()
    home.run(
        "find Fork", "pick Fork", "find Microwave", "open Microwave", "put Microwave",
        "close Microwave", "turn on Microwave",
    )  # fmt: skip
    microwave = home.thing("Microwave")
    (fork,) = (
        thing
        for thing in home.controller.last_event.metadata["objects"]
        if thing["objectType"] == "Fork"
    )
    assert microwave["isToggled"]
    assert fork["parentReceptacles"] == [
        microwave["objectId"],
        *(microwave["parentReceptacles"] or ()),
    ]
    assert fork["temperature"] == "Hot"


def test_cooking_slicing_and_toasting() -> None:
    home = Home()
    home.run("find Bread", "slice Bread", "find Potato", "cook Potato")
    assert home.thing("Potato")["isCooked"]
    home.run("find Fridge", "open Fridge", "find Egg", "slice Egg")
    home.run("find Egg")


def _shut(home: Home, kind: str) -> bool:
    return home.robot.choose(kind) is None


def test_liquids_and_dirt() -> None:
    home = Home()
    home.run(
        "find Mug", "fillLiquid Mug water", "pick Mug", "pour", "find Sink", "put Sink",
    )  # fmt: skip
    mug = home.thing("Mug")
    assert not mug["isFilledWithLiquid"]
    home.run("find Mug", "dirty Mug")
    assert home.thing("Mug")["isDirty"]
    home.run("clean Mug", "fill Mug wine", "emptyLiquid Mug")
    assert not home.thing("Mug")["isFilledWithLiquid"]


def test_objects_can_be_broken_dropped_and_thrown() -> None:
    home = Home()
    home.run("find Plate", "pick Plate", "throw")
    assert home.thing("Plate")["isBroken"]
    home.run("find Cup", "break Cup")
    assert home.thing("Cup")["isBroken"]


def test_rejected_actions_have_messages() -> None:
    home = Home()
    assert home.refused("find Unicorn")[0] == "Cannot find Unicorn"
    assert home.refused("drop")[0] == "Nothing Done. Robot is not holding any object"
    assert home.refused("put Shelf")[0].startswith("Nothing Done")
    assert home.refused("pick Unicorn")[1] == (
        "Nothing Done. Cannot find Unicorn to pick up"
    )
    assert home.refused("slice Unicorn")[0] == "Cannot find Unicorn to slice"
    home.run("find Apple", "pick Apple")
    assert home.refused("slice Apple") == (
        "Slice action failed",
        "target object cannot be sliced if it is in the agent's hand",
    )
    assert home.refused("put Unicorn")[0] == "Cannot find Unicorn None"
    home.run("find Microwave")
    message, error = home.refused("put Microwave")
    assert message == "Putting the object on Microwave failed"
    assert error.startswith("Target openable Receptacle is CLOSED")
    # A basin is found as its sink: ids begin with Sink.
    assert home.refused("find SinkBasin")[0] == "Cannot find Sinkbasin"


def test_a_failed_grasp_is_known_without_an_error() -> None:
    home = Home()
    home.run("find Apple", "pick Apple", "find Bread")
    result = home.robot.do(Action("pick", {"object": "Bread"}))
    assert not result.done
    assert "already" in result.error
    assert result.as_dict() == {
        "action": "pick Bread",
        "success": True,
        "message": "",
        "errorMessage": result.error,
    }


def test_an_object_in_a_closed_container_is_not_found() -> None:
    home = Home()
    home.run("find Apple", "pick Apple", "find Fridge", "open Fridge", "put Fridge")
    home.run("close Fridge")
    assert home.refused("find Apple")[0] == "Cannot find Apple"
    home.run("open Fridge", "find Apple", "pick Apple")


def test_a_number_means_the_same_object_for_the_whole_episode() -> None:
    home = Home()
    one = home.robot.choose("Cabinet", 1)
    two = home.robot.choose("Cabinet", 2)
    assert one is not None and two is not None
    assert one["objectId"] != two["objectId"]
    home.run("find Fridge")
    again = home.robot.choose("Cabinet", 1)
    assert again is not None and again["objectId"] == one["objectId"]
    unnumbered = home.robot.choose("Cabinet")
    assert unnumbered is not None
    assert unnumbered["objectId"] not in (one["objectId"], two["objectId"])


def test_a_put_may_name_the_held_object() -> None:
    home = Home()
    home.run("find Apple", "pick Apple", "find CounterTop")
    wrong = home.robot.do(Action("put", {"object": "Mug", "receptacle": "CounterTop"}))
    assert wrong.message == "Nothing Done. Robot is not holding Mug"
    right = Action("put", {"object": "Apple", "receptacle": "CounterTop"})
    assert home.robot.do(right).done


def test_other_actions_are_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="has no action 'fly'"):
        Home().robot.do(Action("fly"))
    with pytest.raises(InvalidInput, match="has no argument 'object'"):
        Home().robot.do(Action("find"))


@pytest.mark.parametrize("scene", sorted(own_scenes()))
def test_everything_in_our_scenes_can_be_found_and_faced(scene: str) -> None:
    home = Home(scene)
    objects = home.controller.last_event.metadata["objects"]
    kinds = sorted({thing["objectType"] for thing in objects})
    unfound = []
    for kind in kinds:
        if kind in ("Floor", "SinkBasin", "BathtubBasin") or _shut(home, kind):
            continue
        chosen = home.robot.choose(kind)
        assert chosen is not None
        result = home.robot.do(Action("find", {"object": kind}))
        target = home.controller.world.objects[chosen["objectId"]]
        agent = home.controller.last_event.metadata["agent"]["position"]
        place = target["position"]
        away = math.hypot(place["x"] - agent["x"], place["z"] - agent["z"])
        if not (result.done and target["visible"] and away < 2.0):
            unfound.append((kind, result.error, target["visible"], round(away, 2)))
    assert unfound == []
