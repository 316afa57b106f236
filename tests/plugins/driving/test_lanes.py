"""Changing lanes: who approaches in the lane that the ego moves to."""

from __future__ import annotations

from typing import Any

import pytest

from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.sumo.bridge import SumoWorld
from forewarn.plugins.sumo.traffic import Car, Ego

pytestmark = pytest.mark.needs("libsumo")


def near_miss(lane: int) -> Car:
    """A fast car just behind the ego, in this lane."""
    return Car(
        route=["road"], lane=lane, position_m=30, speed_kmh=110, top_speed_kmh=110,
        departs_s=1,
    )  # fmt: skip


def driven(world: SumoWorld, *signals: str) -> list[Any]:
    """Starts a lane change to the right, and then signals; returns all values."""
    world.reset(0)
    control: dict[str, Any] = {"acceleration": 0.0}
    begins = {**control, "turn_signal": "right", "lane_change": "right"}
    actions = [Action("control", begins)]
    actions += [Action("control", {**control, "turn_signal": each}) for each in signals]
    return [world.step(action).values for action in actions]


EGO = Ego(route=["road"], lane=1, position_m=60, speed_kmh=90, departs_s=1)


def test_a_signal_during_a_lane_change_announces_the_next_one() -> None:
    world = SumoWorld(map="highway", ego=EGO, cars=[near_miss(2)])
    values = driven(world, *["right"] * 3, *["left"] * 30)
    world.close()
    during = [each for each in values if each["lane_changing"]]
    assert {"right", "left"} <= {each["turn_signal"] for each in during}
    assert not any(each["priority_vehicle"] for each in during)


def test_a_lane_change_gives_way_in_its_own_lane_whatever_is_signalled() -> None:
    world = SumoWorld(map="highway", ego=EGO, cars=[near_miss(0)])
    values = driven(world, *["right"] * 3, *["left"] * 30)
    world.close()
    signalled = [each for each in values if each["turn_signal"] == "left"]
    assert signalled[0]["lane_changing"] and signalled[0]["priority_vehicle"]
    assert not signalled[-1]["lane_changing"]
    assert signalled[-1]["side_margin"] > 0.0, "the next change is announced"
