"""From a CARLA snapshot to the driving signals.

Lights, lines and right of way come from the map, not from the vehicle: what CARLA's
vehicles say of their traffic light is known to be wrong. What is measured on the car
itself (pedals, gear) comes from its control.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from forewarn.plugins.carla.maps.net import CarlaNet
from forewarn.plugins.carla.scene import CarlaScene
from forewarn.plugins.driving.bodies import touches
from forewarn.plugins.driving.roads.network import Roads
from forewarn.plugins.driving.roads.places import Places
from forewarn.plugins.driving.scene import Mover, TurnSignal
from forewarn.plugins.driving.seeing.arriving import Conflict
from forewarn.plugins.driving.sense import Senses, Surroundings

_TOUCH = 0.8  # m/s: below it a pedestrian has walked into the car, not the reverse
_TOUCH_M = 0.05  # bodies that are held apart do not quite meet
_WEATHER_S, _LAMPS_S = 1.0, 0.2  # what takes a call is asked for now and then


class MapData:
    """What is worked out once for a map.

    Args:
        road_map: A `carla.Map`.
    """

    def __init__(self, road_map: Any) -> None:
        self.roads = Roads(CarlaNet(road_map))
        self.places = Places(self.roads)

    def edge_at(self, x: float, y: float, heading_deg: float) -> str | None:
        """The edge of the lane nearest to a place, in the senses' axes."""
        near = min(
            self.places.near(x, y, heading_deg), key=lambda p: p.off, default=None
        )
        return None if near is None else self.roads.lanes[near.lane].edge


class CarlaSenses:
    """What a vehicle of a CARLA world perceives, snapshot after snapshot.

    Args:
        world: A `carla.World`.
        ego: The vehicle's actor.
        data: Its map.
        period_s: The time between frames.
        route: The edges that it will take; without them it goes straight on, or
            where it signals to.
        surroundings: What no snapshot tells.
    """

    def __init__(
        self,
        world: Any,
        ego: Any,
        data: MapData,
        period_s: float,
        route: Sequence[str] = (),
        surroundings: Surroundings | None = None,
    ) -> None:
        self._world, self._ego, self._data = world, ego, data
        self._told = surroundings
        self.scene = CarlaScene(world, ego, data.roads, data.places)
        self._given = tuple(route)
        self._senses = Senses(self.scene, surroundings or Surroundings(), period_s)
        self._weather: dict[str, Any] = {}
        self._weather_due_s = self._lamps_due_s = -math.inf
        self._way_of: tuple[str, TurnSignal] | None = None
        self._moved = 0.0  # how fast it came there
        self.struck: str | None = None

    @property
    def left_m(self) -> float:
        """Of the way."""
        return self._senses.left_m

    @property
    def conflicts(self) -> list[Conflict]:
        """Where others cross the ego's way."""
        return self._senses.conflicts

    def values(
        self,
        snapshot: Any,
        time_s: float,
        bump: str | None = None,
        *,
        horn: bool = False,
    ) -> dict[str, Any]:
        """The signals of a snapshot; few of them where the ego is on no road.

        Args:
            snapshot: A `carla.WorldSnapshot`.
            time_s: The frame's time.
            bump: Whom a collision sensor has told of.
            horn: Whether the horn is on.
        """
        if not self.scene.look(snapshot):
            return {}
        if time_s >= self._lamps_due_s:
            self._lamps_due_s = time_s + _LAMPS_S
            self.scene.see_lamps()
        mover = self.scene.ego
        own = self._own()
        hit = self._touches(mover, bump)
        self._moved = mover.speed
        if not mover.lane:
            return {**own, "speed": round(3.6 * mover.speed, 3), "collision": hit}
        self._find_way(mover)
        values = self._senses.values(time_s, hit, horn)
        if self._told is None:
            values |= self._look_up(time_s)
        return values | own

    def _own(self) -> dict[str, Any]:
        control = self._ego.get_control()
        return {
            "brake": round(100.0 * control.brake, 2),
            "throttle": round(100.0 * control.throttle, 2),
            "gear": "reverse" if control.reverse else "drive",
        }

    def _look_up(self, time_s: float) -> dict[str, Any]:
        """The weather."""
        if time_s >= self._weather_due_s:
            self._weather_due_s = time_s + _WEATHER_S
            weather = self._world.get_weather()
            self._weather = {
                "rain": min(1.0, max(0.0, weather.precipitation / 100.0)),
                "fog": min(1.0, max(0.0, weather.fog_density / 100.0)),
            }
        return self._weather

    # -- the way ----------------------------------------------------------------------

    def _find_way(self, ego: Mover) -> None:
        """Where nobody tells the route: straight on, or where the ego signals to."""
        if self._given:
            self.scene.route = self._given
            return
        known = ego.lane, ego.signal
        if known == self._way_of:
            return
        self._way_of = known
        self.scene.route = self.scene.straight_on(ego)

    # -- bodies -----------------------------------------------------------------------

    def _touches(self, ego: Mover, bump: str | None) -> bool:
        """Whether the ego's body and somebody's touch, or a sensor says so."""
        if bump is not None:
            self.struck = bump
            return bump not in self.scene.people or self._moved > _TOUCH
        scene = self.scene
        for group, people in ((scene.vehicles, False), (scene.people, True)):
            for name, other in group.items():
                if other is ego or (people and self._moved < _TOUCH):
                    continue
                if touches(ego, other, on_foot=people, within_m=_TOUCH_M):
                    self.struck = name
                    return True
        return False
