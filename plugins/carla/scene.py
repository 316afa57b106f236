"""Who is on the roads of a CARLA world at one moment, as the senses look at a scene.

Places are those of front bumpers, y points left, and angles are a compass's.
"""

from __future__ import annotations

import math
from typing import Any

from forewarn.plugins.carla.movers import CarlaVehicles
from forewarn.plugins.carla.places import Place, Places
from forewarn.plugins.driving.movers import Moment, Mover, People
from forewarn.plugins.driving.roads import Roads
from forewarn.plugins.driving.scene import Routes
from forewarn.plugins.driving.stopping import Behind

_LETTERS = {"Red": "r", "Yellow": "y", "Green": "G", "Off": "O"}
_LAMPS = ((16, 1), (32, 2), (1, 16), (2, 16), (128, 32), (4, 64))
"""CARLA's bits of a vehicle's lights, and SUMO's."""
_SIDEWAYS = 0.3  # m/s; less is how anyone keeps to a lane
_STAYS_M = 0.6  # so much worse a lane fits before it is left
_FOLLOWER_SEEN_M = 60.0
_STANDS = 0.2  # m/s
_CORNER_M = 1.6  # so near a crosswalk's end one is about to cross,
_AWAY = -0.4  # unless one walks away from it


class CarlaScene:
    """The world around one vehicle.

    Args:
        world: A `carla.World`.
        ego: The vehicle's actor.
        roads: The map's.
        places: Its lanes by place.
    """

    def __init__(self, world: Any, ego: Any, roads: Roads, places: Places) -> None:
        self._world, self._roads, self._places = world, roads, places
        self.name = str(ego.id)
        self.now = Moment()
        self._others: set[int] = set()
        self._middle_m: dict[str, float] = {}  # ahead of the actor's own place
        self.vehicle = CarlaVehicles(self.now, self.name, roads)
        self.person = Walkers(self.now, roads)
        self.trafficlight = Lights(world)
        self.routes: Routes = self.vehicle

    @property
    def ego(self) -> Mover:
        return self.now.vehicles[self.name]

    def behind(self) -> Behind | None:
        """Who follows the ego, if anyone is near and its lane is known."""
        ego = self.now.vehicles.get(self.name)
        if ego is None or not ego.lane:
            return None
        who, room_m = self.vehicle.getFollower(self.name, _FOLLOWER_SEEN_M)
        return Behind(max(0.0, room_m), self.vehicle.getSpeed(who)) if who else None

    def body(self, name: str) -> Mover | None:
        """Somebody, by name; none if they are gone."""
        return self.now.vehicles.get(name) or self.now.people.get(name)

    def look(self, snapshot: Any) -> bool:
        """Takes in a snapshot; tells whether the ego is in it."""
        vehicles, people = self.now.vehicles, self.now.people
        seen: set[int] = set()
        for state in snapshot:
            number = state.id
            seen.add(number)
            if number in self._others:
                continue
            name = str(number)
            mover = vehicles.get(name)
            if mover is not None:
                self._follow(name, mover, state)
                continue
            mover = people.get(name)
            if mover is not None:
                self._walk(mover, state)
            else:
                self._welcome(number, name, state)
        for group in (vehicles, people):
            for name in [name for name in group if int(name) not in seen]:
                del group[name]
                self._middle_m.pop(name, None)
        self._others &= seen
        return self.name in vehicles

    def see_lamps(self) -> None:
        """Asks which vehicles have which lights on."""
        for number, lamps in self._world.get_vehicles_light_states().items():
            mover = self.now.vehicles.get(str(number))
            if mover is not None:
                lit, bits = int(lamps), 0
                for theirs, ours in _LAMPS:
                    if lit & theirs:
                        bits |= ours
                mover.signals = bits

    def _welcome(self, number: int, name: str, state: Any) -> None:
        actor = self._world.get_actor(number)
        kind = "" if actor is None else actor.type_id
        if kind.startswith("vehicle."):
            self._middle_m[name] = actor.bounding_box.location.x
            mover = self.now.vehicles[name] = _body(actor)
            self._follow(name, mover, state)
        elif kind.startswith("walker."):
            mover = self.now.people[name] = _body(actor)
            self._walk(mover, state)
        elif actor is not None:
            self._others.add(number)

    def _follow(self, name: str, mover: Mover, state: Any) -> None:
        pose, velocity = state.get_transform(), state.get_velocity()
        at, yaw = pose.location, math.radians(pose.rotation.yaw)
        cos, sin = math.cos(yaw), math.sin(yaw)
        ahead = self._middle_m[name] + mover.length / 2.0
        mover.x, mover.y = at.x + ahead * cos, -(at.y + ahead * sin)
        mover.heading = -yaw
        vx, vy = velocity.x, velocity.y
        mover.speed = math.hypot(vx, vy)
        place = self._settle(mover)
        if place is None:
            mover.lane, mover.lateral = "", 0.0
            return
        mover.lane, mover.at_m = place.lane, place.along_m
        if name == self.name:
            (_, heading) = self._places.at(place.lane, place.along_m)
            along = math.radians(heading)
            sideways = -vy * math.cos(along) - vx * math.sin(along)
            mover.lateral = sideways if abs(sideways) > _SIDEWAYS else 0.0

    def _settle(self, mover: Mover) -> Place | None:
        """The lane that somebody is on; where several fit, the likely one."""
        lane = self._roads.lanes.get(mover.lane)
        x, y, heading = mover.x, mover.y, math.degrees(mover.heading)
        fitting = list(self._places.near(x, y, heading))
        if not fitting:
            return None
        best = min(fitting, key=lambda place: place.off)
        if lane is None:
            return best
        own = next((p for p in fitting if p.lane == lane.name), None)
        if own is not None and own.along_m < lane.length - 1e-3:
            # Inside a junction ways part slowly: one keeps to the one taken.
            keeps = math.inf if lane.inside else _STAYS_M
            if own.off < best.off + keeps:
                return own
        likely = self.vehicle.onward(mover, lane)
        return next((p for name in likely for p in fitting if p.lane == name), best)

    def _walk(self, mover: Mover, state: Any) -> None:
        pose, velocity = state.get_transform(), state.get_velocity()
        mover.x, mover.y = pose.location.x, -pose.location.y
        mover.speed = math.hypot(velocity.x, velocity.y)
        if mover.speed > _STANDS:
            mover.heading = math.atan2(-velocity.y, velocity.x)
        else:
            mover.heading = -math.radians(pose.rotation.yaw)


def _body(actor: Any) -> Mover:
    """Somebody whose place is yet to be seen."""
    half = actor.bounding_box.extent
    return Mover(0.0, 0.0, 0.0, 0.0, 2.0 * half.x, 2.0 * half.y)


class Walkers(People):
    """The pedestrians: on a crosswalk, about to be, or elsewhere."""

    def getNextEdge(self, name: str) -> str:
        """The crosswalk that somebody walks to from its corner; empty for none."""
        mover = self._now.people[name]
        ux, uy = math.cos(mover.heading), math.sin(mover.heading)
        for crosswalk in self.near(mover.x, mover.y):
            along, aside = crosswalk.place(mover.x, mover.y)
            (ax, ay), (bx, by) = crosswalk.ends
            towards = ((bx - ax) * ux + (by - ay) * uy) / crosswalk.length_m
            if along > crosswalk.length_m / 2.0:
                along, towards = crosswalk.length_m - along, -towards
            near = -_CORNER_M < along < 0.0 and abs(aside) <= crosswalk.half_m
            if near and towards > _AWAY:
                return crosswalk.edge
        return ""


class Lights:
    """The traffic lights by the map's names of them, in TraCI's terms."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self._actors: dict[str, Any] = {}

    def _actor(self, name: str) -> Any:
        actor = self._actors.get(name)
        if actor is None:
            actor = self._world.get_traffic_light_from_opendrive_id(name)
            self._actors[name] = actor
        return actor

    def getRedYellowGreenState(self, name: str) -> str:
        actor = self._actor(name)
        return "u" if actor is None else _LETTERS.get(str(actor.get_state()), "u")

    def getSpentDuration(self, name: str) -> float:
        actor = self._actor(name)
        return 0.0 if actor is None else float(actor.get_elapsed_time())
