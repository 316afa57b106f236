"""The stand-in and who watches it, a step each: nobody waits, nobody is late."""

from __future__ import annotations

import time
from typing import Any, Self

from forewarn.apollo_bridge.bridge import ApolloWorld
from forewarn.apollo_bridge.buses.contract import Bus
from forewarn.apollo_bridge.maps.hdmap import RoadMap
from forewarn.apollo_bridge.standin.play import StandIn
from forewarn.monitors.guarding.decision import Action

_PATIENCE_S = 10.0
_AGAIN_S = 0.05


class LockstepWorld(ApolloWorld):
    """Apollo as the stand-in plays it, on simulated time; use `LockstepWorld.of`."""

    _stand_in: StandIn
    _pace: float

    @classmethod
    def of(
        cls,
        stand_in: StandIn,
        bus: Bus,
        road_map: RoadMap,
        *,
        pace: float = 0.0,
        **settings: Any,
    ) -> Self:
        """A world that watches a stand-in over a bus, and moves it on.

        Args:
            stand_in: Whom it watches.
            bus: How it hears of it.
            road_map: The scenario's map.
            pace: How fast the clock goes beside ours; 0: as fast as it can.
            settings: More for `ApolloWorld.on`.
        """
        world = cls.on(bus, road_map=road_map, clock=lambda: stand_in.now_s, **settings)
        world._stand_in, world._pace = stand_in, pace
        return world

    def begin(self, seed: int) -> None:
        self._listen()
        self._stand_in.begin(seed)
        self._senses.resize(self._stand_in.drive.body)
        begun_s = self._stand_in.now_s
        until_s = time.monotonic() + _PATIENCE_S
        # What was said before anybody listened was not heard.
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
