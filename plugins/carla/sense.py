"""From a CARLA snapshot to the driving signals.

Lights, lines and right of way come from the map, not from the vehicle: the traffic
light that CARLA's vehicles report is known to be wrong. What is measured on the car
itself (pedals, gear) comes from its control.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any

from forewarn.plugins.carla.maps import CarlaNet
from forewarn.plugins.carla.support import carla_module
from forewarn.plugins.driving.others import Conflict
from forewarn.plugins.driving.places import Places
from forewarn.plugins.driving.roads import LightName, Roads
from forewarn.plugins.driving.scene import (
    Behind,
    Colour,
    Lamps,
    Light,
    Mover,
    SeenScene,
    TurnSignal,
    touches,
)
from forewarn.plugins.driving.sense import Senses, Surroundings

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
        """Reads which vehicles have which lights on."""
        for number, state in self._world.get_vehicles_light_states().items():
            mover = self.vehicles.get(str(number))
            if mover is not None:
                lit = int(state)
                mover.signal = _SIGNALS.get(lit & (_LEFT | _RIGHT), TurnSignal.OFF)
                bits = _LOW_BEAM, _HIGH_BEAM, _FOG
                mover.lamps = Lamps(*(lit & bit != 0 for bit in bits))

    # -- bodies -----------------------------------------------------------------------

    def look(self, snapshot: Any) -> bool:
        """Reads a snapshot; returns whether the ego is in it."""
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
    """A road user whose position is not yet known."""
    half = actor.bounding_box.extent
    return Mover(name, 0.0, 0.0, 0.0, 0.0, 2.0 * half.x, 2.0 * half.y)


class Bumps:
    """Receives collisions from its creation until it is closed.

    Args:
        world: A `carla.World`.
        vehicle: The vehicle's actor.
    """

    def __init__(self, world: Any, vehicle: Any) -> None:
        kind = world.get_blueprint_library().find("sensor.other.collision")
        place = carla_module().Transform()
        self._sensor = world.spawn_actor(kind, place, attach_to=vehicle)
        self._others: list[str] = []
        self._sensor.listen(self._hear)

    def _hear(self, event: Any) -> None:
        other = event.other_actor
        self._others.append("" if other is None else str(other.id))

    def take(self) -> str | None:
        """The road user that the vehicle hit since the last call; None if there is
        none.

        It is empty if that is not an actor but a part of the map.
        """
        if not self._others:
            return None
        first, self._others = self._others[0], []
        return first

    def close(self) -> None:
        """Takes the sensor away; safe to call twice."""
        sensor, self._sensor = self._sensor, None
        if sensor is not None:
            # A server that is gone has taken it along.
            with contextlib.suppress(RuntimeError):
                sensor.stop()
                sensor.destroy()


_TOUCH = 0.8  # m/s: below it a pedestrian has walked into the car, not the reverse
_TOUCH_M = 0.05  # bodies that are held apart do not quite meet
_WEATHER_S, _LAMPS_S = 1.0, 0.2  # what takes a call is asked for now and then


class MapData:
    """Data computed once per map.

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
            bump: The road users that a collision sensor has reported.
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
        """If the route is unknown: straight on, or where the ego signals to."""
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
        """Whether the ego's body touches another, or a sensor reports it."""
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
