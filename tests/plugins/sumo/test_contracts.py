"""The SUMO plugs keep the contracts, two worlds in one process included."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle

import pytest

from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.contracts import Pilot, World
from forewarn.plugins.sumo.bridge import SumoWorld
from forewarn.plugins.sumo.pilots import SumoDriver
from forewarn.plugins.sumo.traffic import Ego, Flow, Light, Walkers
from forewarn.plugins.testing import ActuatorContract, PilotContract, WorldContract

pytestmark = pytest.mark.needs("libsumo")


def busy_crossing() -> SumoWorld:
    return SumoWorld(
        ego=Ego(route=["west_in", "north_out"], lane=2, position_m=140),
        flows=[Flow(routes=[["east_in", "west_out"]], per_hour=800)],
        walkers=[Walkers(walks=[["north_in", "south_out"]], per_hour=300)],
        light=Light(phase=4, left_s=15),
    )


class TestSumoWorld(WorldContract):
    steps = 120

    def make_world(self) -> World:
        return busy_crossing()

    def actions(self) -> Iterator[Action | None]:
        return cycle([Action("control", {"acceleration": 0.5}), None, Action("stop")])


class TestSumoDriver(PilotContract):
    def make_world(self) -> World:
        return busy_crossing()

    def make_pilot(self) -> Pilot:
        return SumoDriver()


class TestCarActuator(ActuatorContract):
    def make_world(self) -> World:
        return busy_crossing()

    def make_pilot(self) -> Pilot:
        return SumoDriver()
