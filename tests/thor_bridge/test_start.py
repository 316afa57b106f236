"""Episodes begin as their seed has it, here and through ai2thor's controller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.plugins.registry import make_world
from forewarn.thor_bridge.bridge import HouseholdWorld, ThorWorld
from forewarn.thor_bridge.household.actions import LocalController
from forewarn.thor_bridge.tasks import Variation, vary

ALL = Variation(moved=1.0, opened=1.0, switched=1.0, elsewhere=True)


def things(seed: int, variation: Variation, *spared: str) -> dict[str, dict[str, Any]]:
    controller = LocalController("Kitchen1")
    controller.reset("Kitchen1")
    vary(controller, variation, seed, spared)
    objects = controller.last_event.metadata["objects"]
    return {each["objectId"]: each for each in objects}


def differing(key: str, one: dict[str, Any], other: dict[str, Any]) -> set[str]:
    return {
        one[name]["objectType"] for name in one if one[name][key] != other[name][key]
    }


def test_the_seed_determines_the_initial_state() -> None:
    assert things(1, ALL) == things(1, ALL)
    assert differing("position", things(1, ALL), things(2, ALL))
    plain = things(1, Variation())
    assert plain == things(2, Variation())


def test_only_the_requested_states_differ() -> None:
    plain = things(1, Variation())
    moved = things(1, Variation(moved=0.5))
    somewhere = differing("parentReceptacles", plain, moved)
    assert somewhere and all(plain[n]["pickupable"] for n in plain
                             if plain[n]["parentReceptacles"]
                             != moved[n]["parentReceptacles"])  # fmt: skip
    assert not differing("isOpen", plain, moved)
    opened = things(1, Variation(opened=1.0))
    assert "Fridge" in differing("isOpen", plain, opened)
    assert not differing("position", plain, opened)
    switched = things(1, Variation(switched=1.0))
    assert {"LightSwitch", "Faucet"} <= differing("isToggled", plain, switched)


def test_moved_objects_are_in_plain_sight() -> None:
    places = things(3, Variation(moved=1.0))
    fork = next(each for each in places.values() if each["objectType"] == "Fork")
    (where, *_) = fork["parentReceptacles"]
    assert where.split("|")[0] in ("CounterTop", "DiningTable")
    assert fork["objectId"] in places[where]["receptacleObjectIds"]


@pytest.mark.parametrize("wrong", [{"randomSeed": "x"}, {"excludedObjectIds": "Fork"}])
def test_an_argument_of_none_is_rejected(wrong: dict[str, Any]) -> None:
    event = LocalController("Kitchen1").step("InitialRandomSpawn", **wrong)
    assert not event.metadata["lastActionSuccess"]
    assert event.metadata["errorCode"] == "InvalidArgument"


def test_excluded_objects_stay_as_they_are() -> None:
    plain = things(1, Variation())
    spared = things(1, ALL, "Faucet", "Fridge", "CounterTop")
    assert not {"Faucet", "Fridge"} & (
        differing("isToggled", plain, spared) | differing("isOpen", plain, spared)
    )
    for name, thing in spared.items():
        onto = [p.split("|")[0] for p in thing["parentReceptacles"] or ()]
        if "CounterTop" in onto:
            assert plain[name]["parentReceptacles"] == thing["parentReceptacles"]


@pytest.mark.needs("ai2thor", "msgpack")
def test_both_worlds_start_in_the_same_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    settings: dict[str, Any] = {"task": "paper-on-stove-merged", "vary": ALL}
    here = HouseholdWorld(**settings, failures="real")
    there = ThorWorld(**settings, failures="real")
    for seed in (3, 4):
        assert here.reset(seed) == there.reset(seed)
        assert here.metadata["agent"] == there.metadata["agent"]
    here.close()
    there.close()


def test_a_failed_preparation_is_drawn_again() -> None:
    """Episodes of a task that is prepared do not fail because a put found no room."""
    world = HouseholdWorld(task="paper-on-stove-merged", failures="real", vary=ALL)
    for seed in range(60):
        world.reset(seed)
    world.close()


def test_a_scenario_sets_how_many_objects_differ() -> None:
    world = make_world("household", {"vary": {"moved": 0.5, "elsewhere": True}})
    assert world.reset(1) == world.reset(1)
    world.close()
    with pytest.raises(InvalidInput, match="vary.moved"):
        make_world("household", {"vary": {"moved": 1.5}})
