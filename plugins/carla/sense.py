"""Converts a CARLA snapshot to the driving signals.

Traffic lights, stop lines and right of way are derived from the map, because the
traffic light that CARLA reports for a vehicle is known to be unreliable. Pedals and
gear are read from the control of the vehicle.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any

from forewarn.plugins.carla.maps import CarlaNet
from forewarn.plugins.carla.support import carla_module
from forewarn.plugins.driving.places import Places
from forewarn.plugins.driving.roads import LightName, Roads
from forewarn.plugins.driving.scene import (
    TOUCH,
    Behind,
    Colour,
    Lamps,
    Light,
    Mover,
    SeenScene,
    TurnSignal,
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
_STANDSTILL = 0.2  # m/s


class CarlaScene(SeenScene):
    """The scene around one vehicle in a CARLA world.

    Args:
        world: A `carla.World`.
        ego: The actor of the vehicle.
        roads: The road network of the map.
        places: Finds the lanes at a position.
    """

    def __init__(self, world: Any, ego: Any, roads: Roads, places: Places) -> None:
        super().__init__(roads, str(ego.id), places)
        self._world = world
        self._others: set[int] = set()
        self._middle_m: dict[str, float] = {}  # ahead of the actor's origin
        self._lights: dict[str, Any] = {}

    def behind(self) -> Behind | None:
        known = self.name in self.vehicles and self.ego.lane
        return super().behind() if known else None

    def body(self, name: str) -> Mover | None:
        """Returns a road user by name, or None if it no longer exists."""
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
        """Finds the actor of a traffic light by its OpenDRIVE id."""
        key, _ = name
        if self._lights.get(key) is None:
            find = self._world.get_traffic_light_from_opendrive_id
            self._lights[key] = find(key)
        return self._lights[key]

    def see_lamps(self) -> None:
        """Reads which lamps of each vehicle are on."""
        for number, state in self._world.get_vehicles_light_states().items():
            mover = self.vehicles.get(str(number))
            if mover is not None:
                lit = int(state)
                mover.signal = _SIGNALS.get(lit & (_LEFT | _RIGHT), TurnSignal.OFF)
                bits = _LOW_BEAM, _HIGH_BEAM, _FOG
                mover.lamps = Lamps(*(lit & bit != 0 for bit in bits))

    # -- bodies -----------------------------------------------------------------------

    def look(self, snapshot: Any) -> bool:
        """Reads a snapshot; returns whether it contains the ego."""
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
            mover.on_foot = True
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
        self.locate(mover, vx, -vy)

    def _walk(self, mover: Mover, state: Any) -> None:
        pose, velocity = state.get_transform(), state.get_velocity()
        mover.x, mover.y = pose.location.x, -pose.location.y
        mover.speed = math.hypot(velocity.x, velocity.y)
        if mover.speed > _STANDSTILL:
            mover.heading = math.atan2(-velocity.y, velocity.x)
        else:
            mover.heading = -math.radians(pose.rotation.yaw)


def _body(name: str, actor: Any) -> Mover:
    """Returns a road user with its size, but without a position."""
    half = actor.bounding_box.extent
    return Mover(name, 0.0, 0.0, 0.0, 0.0, 2.0 * half.x, 2.0 * half.y)


class Bumps:
    """A collision sensor on a vehicle.

    Args:
        world: A `carla.World`.
        vehicle: The actor of the vehicle.
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
        """Returns the name of the first actor that was hit since the last call.

        The name is empty if the vehicle hit a part of the map, and None if there was no
        collision.
        """
        if not self._others:
            return None
        first, self._others = self._others[0], []
        return first

    def close(self) -> None:
        """Removes the sensor; may be called twice."""
        sensor, self._sensor = self._sensor, None
        if sensor is not None:
            # If the server has exited, the sensor no longer exists either.
            with contextlib.suppress(RuntimeError):
                sensor.stop()
                sensor.destroy()


_TOUCH_M = 0.05  # CARLA's physics keeps bodies slightly apart
_WEATHER_S, _LAMPS_S = 1.0, 0.2  # intervals between calls to the server


class MapData:
    """The road network of a map and the index of its lanes, computed once per map.

    Args:
        road_map: A `carla.Map`.
    """

    def __init__(self, road_map: Any) -> None:
        self.roads = Roads(CarlaNet(road_map))
        self.places = Places(self.roads)

    def edge_at(self, x: float, y: float, heading_deg: float) -> str | None:
        """Returns the edge of the nearest lane, or None.

        The position is in the axes of the road network.
        """
        near = min(
            self.places.near(x, y, heading_deg), key=lambda p: p.off, default=None
        )
        return None if near is None else self.roads.lanes[near.lane].edge


class CarlaSenses(Senses):
    """Computes the signals of one vehicle from successive CARLA snapshots.

    Args:
        world: A `carla.World`.
        ego: The actor of the vehicle.
        data: The road network of the map.
        period_s: The time between frames in seconds.
        route: The edges of the route. Without a route, the vehicle is expected to
            follow its turn signal or to go straight on.
        surroundings: Conditions that a snapshot does not contain. Without them, the
            weather is read from the server.
    """

    scene: CarlaScene

    def __init__(
        self,
        world: Any,
        ego: Any,
        data: MapData,
        period_s: float,
        route: Sequence[str] = (),
        surroundings: Surroundings | None = None,
    ) -> None:
        self._world, self._ego = world, ego
        self._told = surroundings
        scene = CarlaScene(world, ego, data.roads, data.places)
        super().__init__(scene, surroundings or Surroundings(), period_s)
        self._given = tuple(route)
        self._weather: dict[str, Any] = {}
        self._weather_due_s = self._lamps_due_s = -math.inf
        self._followed: tuple[str, TurnSignal] | None = None
        self._moved = 0.0  # the ego's speed before this snapshot
        self.struck: str | None = None

    def read(
        self,
        snapshot: Any,
        time_s: float,
        bump: str | None = None,
        *,
        horn: bool = False,
    ) -> dict[str, Any]:
        """Returns the signals of a snapshot; only a few of them if the ego is off the
        road.

        Args:
            snapshot: A `carla.WorldSnapshot`.
            time_s: The time of the frame in seconds.
            bump: The road user that the collision sensor has reported, if any.
            horn: Whether the horn is on.
        """
        if not self.scene.look(snapshot):
            return {}
        if time_s >= self._lamps_due_s:
            self._lamps_due_s = time_s + _LAMPS_S
            self.scene.see_lamps()
        mover = self.scene.ego
        own = self._own()
        hit = self._touches(bump)
        self._moved = mover.speed
        if not mover.lane:
            return {**own, "speed": round(3.6 * mover.speed, 3), "collision": hit}
        self._find_way(mover)
        values = self.values(time_s, hit, horn)
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
        """Returns the weather signals, which are read from the server once a second."""
        if time_s >= self._weather_due_s:
            self._weather_due_s = time_s + _WEATHER_S
            weather = self._world.get_weather()
            self._weather = {
                "rain": min(1.0, max(0.0, weather.precipitation / 100.0)),
                "fog": min(1.0, max(0.0, weather.fog_density / 100.0)),
            }
        return self._weather

    # -- route ------------------------------------------------------------------------

    def _find_way(self, ego: Mover) -> None:
        """Sets the route: the given one, or one that follows the ego's turn signal."""
        if self._given:
            self.scene.route = self._given
            return
        known = ego.lane, ego.signal
        if known == self._followed:
            return
        self._followed = known
        self.scene.route = self.scene.straight_on(ego)

    # -- bodies -----------------------------------------------------------------------

    def _touches(self, bump: str | None) -> bool:
        """Whether the ego touches a road user, or the sensor reports a collision."""
        if bump is not None:
            self.struck = bump
            return bump not in self.scene.people or self._moved > TOUCH
        other = self.scene.struck(self._moved, _TOUCH_M)
        if other is not None:
            self.struck = other.name
        return other is not None
