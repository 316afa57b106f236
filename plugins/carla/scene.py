"""Who is on the roads of a CARLA world at one moment.

CARLA's y points right, and its places are those of middles.
"""

from __future__ import annotations

import math
from typing import Any

from forewarn.plugins.driving.roads.lanes import LightName
from forewarn.plugins.driving.roads.network import Roads
from forewarn.plugins.driving.roads.places import Places
from forewarn.plugins.driving.scene import (
    Behind,
    Colour,
    Lamps,
    Light,
    Mover,
    TurnSignal,
)
from forewarn.plugins.driving.seen import SeenScene

_COLOURS = {
    "Red": Colour.RED, "Yellow": Colour.YELLOW, "Green": Colour.GREEN,
    "Off": Colour.OFF,
}  # fmt: skip
_RIGHT, _LEFT = 16, 32
_SIGNALS = {
    _RIGHT: TurnSignal.RIGHT, _LEFT: TurnSignal.LEFT,
    _RIGHT | _LEFT: TurnSignal.HAZARD,
}  # fmt: skip
_LOW_BEAM, _HIGH_BEAM, _FOG = 1 | 2, 4, 128  # position lights count as low beam
_SIDEWAYS = 0.3  # m/s; less is how anyone keeps to a lane
_STANDS = 0.2  # m/s


class CarlaScene(SeenScene):
    """The world around one vehicle.

    Args:
        world: A `carla.World`.
        ego: The vehicle's actor.
        roads: The map's.
        places: Its lanes by place.
    """

    def __init__(self, world: Any, ego: Any, roads: Roads, places: Places) -> None:
        super().__init__(roads, str(ego.id), places)
        self._world = world
        self._others: set[int] = set()
        self._middle_m: dict[str, float] = {}  # ahead of the actor's own place
        self._lights: dict[str, Any] = {}

    def behind(self) -> Behind | None:
        known = self.name in self.vehicles and self.ego.lane
        return super().behind() if known else None

    def body(self, name: str) -> Mover | None:
        """Somebody, by name; none if they are gone."""
        return self.vehicles.get(name) or self.people.get(name)

    # -- lights -----------------------------------------------------------------------

    def light(self, name: LightName) -> Light:
        actor = self._light(name)
        state = "" if actor is None else str(actor.get_state())
        return Light(_COLOURS.get(state, Colour.UNKNOWN))

    def light_age_s(self, name: LightName) -> float:
        actor = self._light(name)
        return 0.0 if actor is None else float(actor.get_elapsed_time())

    def _light(self, name: LightName) -> Any:
        """The actor of a light, which the map knows by its OpenDRIVE id."""
        key, _ = name
        if self._lights.get(key) is None:
            find = self._world.get_traffic_light_from_opendrive_id
            self._lights[key] = find(key)
        return self._lights[key]

    def see_lamps(self) -> None:
        """Asks which vehicles have which lights on."""
        for number, state in self._world.get_vehicles_light_states().items():
            mover = self.vehicles.get(str(number))
            if mover is not None:
                lit = int(state)
                mover.signal = _SIGNALS.get(lit & (_LEFT | _RIGHT), TurnSignal.OFF)
                bits = _LOW_BEAM, _HIGH_BEAM, _FOG
                mover.lamps = Lamps(*(lit & bit != 0 for bit in bits))

    # -- bodies -----------------------------------------------------------------------

    def look(self, snapshot: Any) -> bool:
        """Takes in a snapshot; tells whether the ego is in it."""
        seen: set[int] = set()
        for state in snapshot:
            number = state.id
            seen.add(number)
            if number in self._others:
                continue
            name = str(number)
            if (mover := self.vehicles.get(name)) is not None:
                self._follow(mover, state)
            elif (mover := self.people.get(name)) is not None:
                self._walk(mover, state)
            else:
                self._welcome(number, state)
        for group in (self.vehicles, self.people):
            for name in [name for name in group if int(name) not in seen]:
                del group[name]
                self._middle_m.pop(name, None)
        self._others &= seen
        return self.name in self.vehicles

    def _welcome(self, number: int, state: Any) -> None:
        actor = self._world.get_actor(number)
        kind = "" if actor is None else actor.type_id
        name = str(number)
        if kind.startswith("vehicle."):
            self._middle_m[name] = actor.bounding_box.location.x
            mover = self.vehicles[name] = _body(name, actor)
            self._follow(mover, state)
        elif kind.startswith("walker."):
            mover = self.people[name] = _body(name, actor)
            self._walk(mover, state)
        elif actor is not None:
            self._others.add(number)

    def _follow(self, mover: Mover, state: Any) -> None:
        pose, velocity = state.get_transform(), state.get_velocity()
        at, yaw = pose.location, math.radians(pose.rotation.yaw)
        cos, sin = math.cos(yaw), math.sin(yaw)
        ahead = self._middle_m[mover.name] + mover.length / 2.0
        mover.x, mover.y = at.x + ahead * cos, -(at.y + ahead * sin)
        mover.heading = -yaw
        vx, vy = velocity.x, velocity.y
        mover.speed = math.hypot(vx, vy)
        place = self.settle(mover)
        if place is None:
            mover.lane, mover.lateral = "", 0.0
            return
        mover.lane, mover.at_m = place.lane, place.along_m
        if mover.name == self.name:
            (_, heading) = self.places.at(place.lane, place.along_m)
            along = math.radians(heading)
            sideways = -vy * math.cos(along) - vx * math.sin(along)
            mover.lateral = sideways if abs(sideways) > _SIDEWAYS else 0.0

    def _walk(self, mover: Mover, state: Any) -> None:
        pose, velocity = state.get_transform(), state.get_velocity()
        mover.x, mover.y = pose.location.x, -pose.location.y
        mover.speed = math.hypot(velocity.x, velocity.y)
        if mover.speed > _STANDS:
            mover.heading = math.atan2(-velocity.y, velocity.x)
        else:
            mover.heading = -math.radians(pose.rotation.yaw)


def _body(name: str, actor: Any) -> Mover:
    """Somebody whose place is yet to be seen."""
    half = actor.bounding_box.extent
    return Mover(name, 0.0, 0.0, 0.0, 0.0, 2.0 * half.x, 2.0 * half.y)
