"""Steps the stand-in and the world alternately, so that neither waits for the other."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from forewarn.apollo_bridge.bridge import BusWorld
from forewarn.apollo_bridge.channels import messages
from forewarn.apollo_bridge.maps import RoadMap, read_map
from forewarn.apollo_bridge.scene import Body
from forewarn.apollo_bridge.wire import Bus, NodeBus
from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.driving.roads import Roads
from forewarn.plugins.driving.sense import Surroundings
from forewarn.plugins.registry import make_world
from forewarn.plugins.sumo import wire
from forewarn.plugins.sumo.bridge import SumoWorld
from forewarn.plugins.sumo.pilots import SumoDriver
from forewarn.plugins.sumo.sense import SumoNet
from forewarn.plugins.sumo.support import find_map
from forewarn.standins.apollo.mapping import draw
from forewarn.standins.apollo.play import StandIn
from forewarn.standins.apollo.server import FakeCyber

_PATIENCE_S = 10.0
_AGAIN_S = 0.05


class LockstepWorld(BusWorld):
    """The stand-in for Apollo as a world in simulated time.

    Args:
        stand_in: The stand-in for Apollo.
        bus: The bus on which the stand-in's messages arrive.
        road_map: The scenario's map.
        pace: The speed of the clock relative to real time; 0 for as fast as possible.
        settings: Other arguments of `BusWorld`.
    """

    def __init__(
        self,
        stand_in: StandIn,
        bus: Bus,
        road_map: RoadMap,
        *,
        pace: float = 0.0,
        **settings: Any,
    ) -> None:
        super().__init__(
            lambda: bus, road_map=road_map, clock=lambda: stand_in.now_s, **settings
        )
        self._stand_in, self._pace = stand_in, pace

    def begin(self, seed: int) -> None:
        self._listen()
        self._stand_in.begin(seed)
        self._senses.resize(Body.of(*self._stand_in.drive.size))
        begun_s = self._stand_in.now_s
        until_s = time.monotonic() + _PATIENCE_S
        # Messages sent before the readers existed are lost, so repeat them.
        while not self._inbox.wait(lambda: self._heard(begun_s), _AGAIN_S):
            if time.monotonic() > until_s:
                break
            self._stand_in.say()
        self._due_s = time.monotonic()
        super().begin(seed)

    def _heard(self, since_s: float) -> bool:
        return not self._missing() and self._pivot_s() >= since_s

    def move(self, action: Action | None) -> None:
        self.commander.want(action)
        self._stand_in.tick()
        if self._pace > 0.0:
            self._due_s += self.source.period_s / self._pace
            time.sleep(max(0.0, self._due_s - time.monotonic()))
        super().move(action)
        self.over = self.over or self._stand_in.drive.over or None


def example_world() -> LockstepWorld:
    """Returns a world with a stand-in for Apollo at a busy crossing."""
    cyber = FakeCyber()
    traffic: Any = make_world("sumo", SumoWorld.example().settings)
    played = StandIn(cyber, messages(9), traffic, SumoDriver())
    return LockstepWorld(
        played,
        NodeBus(cyber),
        read_map(draw_map("crossing")),
        surroundings=Surroundings().model_dump(),
    )


def draw_map(name: str) -> Any:
    """Converts an included map or a `.net.xml` file to an `apollo.hdmap.Map`
    message.
    """
    owner = object()
    sumo = wire.connect(owner, ["--net-file", str(find_map(name))], "")
    try:
        map_type = messages()["apollo.hdmap.Map"]
        return draw(map_type, sumo, Roads(SumoNet(sumo)), Path(name).name.split(".")[0])
    finally:
        wire.release(owner)
