"""The embedded SUMO world behind CARLA's protocol.

SUMO moves its own vehicles and pedestrians and runs the lights; what clients spawn is
put into it at every step, so that its traffic follows them, yields to them and stops
behind them. SUMO's y points left and its angles are a compass's.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final

from pydantic import Field

from forewarn.abstractions.schema import Strict
from forewarn.plugins.carla.standin import blueprints
from forewarn.plugins.carla.standin.actors import Vehicle
from forewarn.plugins.carla.standin.encoding import Pose, Vector, turned
from forewarn.plugins.carla.standin.supply import Busy
from forewarn.plugins.carla.standin.traffic import Guest, Mover
from forewarn.plugins.sumo import wire
from forewarn.plugins.sumo.episode import Beginning, Manoeuvres, give_up_checks
from forewarn.plugins.sumo.net import SumoNet
from forewarn.plugins.sumo.roads import Roads
from forewarn.plugins.sumo.support import find_map
from forewarn.plugins.sumo.traffic import (
    Car,
    Ego,
    Flow,
    Light,
    Queue,
    Surroundings,
    Walkers,
)
from forewarn.plugins.sumo.traffic import Traffic as Others

_CARS: Final = (
    "vehicle.audi.tt", "vehicle.citroen.c3", "vehicle.ford.mustang",
    "vehicle.lincoln.mkz_2020", "vehicle.mercedes.coupe_2020",
    "vehicle.nissan.patrol", "vehicle.seat.leon", "vehicle.toyota.prius",
)  # fmt: skip
_HERO: Final = "vehicle.lincoln.mkz_2020"
_TRUCK: Final = "vehicle.carlamotors.european_hgv"
_LONG_M: Final = 7.0
_GUEST, _STRANGER = "guest", "stranger"
_FREE: Final = 2  # moveToXY: exactly there, on a road or not
_ON_ROAD_M: Final = 2.0
_ONWARD: Final = 4
_WAITING: Final = 4
_BEGINS_M: Final = (20.0, 60.0)
_LAMPS: Final = ((1, 16), (2, 32), (4, 48), (8, 8), (16, 2), (64, 4), (128, 64))
"""SUMO's bits of a vehicle's lights, and CARLA's."""


class Stage(Strict):
    """A SUMO world's settings, as scenarios name them."""

    map: str = "crossing"
    ego: Ego
    flows: list[Flow] = []
    cars: list[Car] = []
    queues: list[Queue] = []
    walkers: list[Walkers] = []
    light: Light | None = None
    surroundings: Surroundings = Surroundings()
    route_files: str = ""
    period_s: float = Field(default=0.1, gt=0.01, le=1)

    def beginning(self) -> Beginning:
        others = Others(self.flows, self.cars, self.queues, self.walkers)
        return Beginning(
            find_map(self.map), self.ego, others, self.light, self.route_files,
            self.period_s,
        )  # fmt: skip


class SumoTraffic:
    """Traffic that SUMO moves.

    Args:
        net: The roads, where no scenario says what is on them.
        seed: Where chance begins.
        step_s: SUMO's own step.
        busy: How much traffic there is.
        beginning: A scenario's episode, with its ego, instead.
    """

    def __init__(
        self,
        net: Path,
        seed: int,
        step_s: float,
        busy: Busy,
        beginning: Beginning | None = None,
    ) -> None:
        self._owed_s = 0.0
        self._now_s = 0.0
        self._in: dict[str, str] = {}
        self._unmoved: set[str] = set()
        self._shown: list[Mover] = []
        self._bodies: dict[str, tuple[str, Vector]] = {}
        self._luck = Random(f"traffic {seed}")  # noqa: S311
        if beginning is None:
            self._step_s = step_s
            arguments = [
                "--net-file", str(net), "--step-length", str(step_s),
                "--seed", str(seed % 2**31),
            ]  # fmt: skip
            self._sumo = wire.load(self, arguments, _kinds())
            self._manoeuvres = None
            self._hero = ""
        else:
            self._step_s = beginning.period_s
            self._sumo = beginning.load(self, seed)
            self._manoeuvres = Manoeuvres(beginning.traffic)
            self._hero = beginning.ego_name
            self._in[self._hero] = ""
        self._roads = Roads(SumoNet(self._sumo))
        self._groups = frozenset(self._sumo.trafficlight.getIDList())
        self._supply = _Supply(self._sumo, self._roads, self._luck, busy)
        self._goes_on = beginning is None
        self._look()

    def hero(self) -> Mover | None:
        """The scenario's ego, where it is now."""
        return self._vehicle(self._hero) if self._hero else None

    # -- the seam ---------------------------------------------------------------------

    def step(self, dt: float, guests: Sequence[Guest]) -> None:
        self._owed_s += dt
        stepped = False
        while self._owed_s > self._step_s - 1e-6:
            self._owed_s -= self._step_s
            self._step(guests)
            stepped = True
        if stepped:
            self._look()

    def movers(self) -> Iterable[Mover]:
        ahead_s = self._owed_s
        if ahead_s < 1e-6:
            return self._shown
        return [_onward(mover, ahead_s) for mover in self._shown]

    def lights(self, group: str) -> str | None:
        if group not in self._groups:
            return None
        letters: str = self._sumo.trafficlight.getRedYellowGreenState(group)
        return letters

    def phase(self, group: str) -> tuple[int, float]:
        lights = self._sumo.trafficlight
        left_s = lights.getNextSwitch(group) - self._sumo.simulation.getTime()
        return lights.getPhase(group), max(0.0, left_s)

    def show(self, group: str, letters: str) -> None:
        whole = list(self._sumo.trafficlight.getRedYellowGreenState(group))
        whole[: len(letters)] = letters
        self._sumo.trafficlight.setRedYellowGreenState(group, "".join(whole))

    def remove(self, name: str) -> None:
        self._in.pop(name, None)
        self._unmoved.discard(name)
        if name in self._sumo.vehicle.getIDList():
            self._sumo.vehicle.remove(name)
        elif name in self._sumo.person.getIDList():
            self._sumo.person.removeStages(name)
        self._shown = [mover for mover in self._shown if mover.name != name]

    def close(self) -> None:
        wire.release(self)

    # -- a step -----------------------------------------------------------------------

    def _step(self, guests: Sequence[Guest]) -> None:
        sumo = self._sumo
        if self._goes_on:
            self._supply.depart(self._now_s)
        if self._manoeuvres is not None:
            for name, arguments in self._manoeuvres.due(self._now_s, sumo):
                getattr(sumo.vehicle, name)(*arguments)
        for guest in guests:
            self._put(guest)
        sumo.simulationStep()
        self._now_s += self._step_s
        for name in sumo.simulation.getArrivedIDList():
            self._in.pop(name, None)
        for name in sumo.vehicle.getIDList():
            # SUMO knows where it is only now that the step is done.
            if name in self._in and name != self._hero:
                self._lead_on(name)

    def _put(self, guest: Guest) -> None:
        """Tells SUMO where a client's actor is now."""
        name = guest.name
        if name in self._unmoved:
            return
        x, y, _, _, yaw, _ = guest.at
        angle = (yaw + 90.0) % 360.0
        sumo = self._sumo
        try:
            if isinstance(guest, Vehicle):
                heading, half = math.radians(yaw), guest.half[0]
                front = x + half * math.cos(heading), -(y + half * math.sin(heading))
                if name not in self._in:
                    if not self._on_road(*front):
                        return
                    self._enter(guest, name)
                sumo.vehicle.moveToXY(name, "", -1, *front, angle, _FREE)
            else:
                if name not in self._in:
                    self._supply.enter(name)
                    self._in[name] = ""
                sumo.person.moveToXY(name, "", x, -y, angle, _FREE)
        except (sumo.TraCIException, ValueError):
            # Too far from every road for SUMO: it drives on unseen.
            self._in.pop(name, None)
            self._unmoved.add(name)

    def _on_road(self, x: float, y: float) -> bool:
        """Whether SUMO can find a lane there: without one it does not survive."""
        sumo = self._sumo.simulation
        edge, along, lane = sumo.convertRoad(x, y, False, "passenger")
        return math.dist((x, y), sumo.convert2D(edge, along, lane)) < _ON_ROAD_M

    def _enter(self, guest: Vehicle, name: str) -> None:
        vehicle = self._sumo.vehicle
        vehicle.add(name, "", typeID=_GUEST)
        vehicle.setLength(name, 2.0 * guest.half[0])
        vehicle.setWidth(name, 2.0 * guest.half[1])
        give_up_checks(self._sumo, name)
        self._in[name] = ""

    def _lead_on(self, name: str) -> None:
        """Gives a guest a way straight on, so that others know to yield to it."""
        edge: str = self._sumo.vehicle.getRoadID(name)
        if edge and edge != self._in[name] and not edge.startswith(":"):
            self._in[name] = edge
            self._sumo.vehicle.setRoute(name, self._supply.onward(edge))

    # -- looking ----------------------------------------------------------------------

    def _look(self) -> None:
        sumo, own = self._sumo, self._in
        shown = [
            self._vehicle(name)
            for name in sumo.vehicle.getIDList()
            if name not in own and name != self._hero
        ]
        shown += [self._person(n) for n in sumo.person.getIDList() if n not in own]
        self._shown = shown
        for name in sumo.simulation.getArrivedIDList():
            self._bodies.pop(name, None)

    def _vehicle(self, name: str) -> Mover:
        vehicle = self._sumo.vehicle
        x, y = vehicle.getPosition(name)
        angle = vehicle.getAngle(name)
        kind, half = self._bodies.get(name) or self._body(name)
        signals = vehicle.getSignals(name)
        lamps = sum(ours for theirs, ours in _LAMPS if signals & theirs)
        return Mover(
            name, kind, _middle(x, y, angle, half[0]), vehicle.getSpeed(name), half,
            lamps,
        )  # fmt: skip

    def _person(self, name: str) -> Mover:
        person = self._sumo.person
        x, y = person.getPosition(name)
        pick = zlib.crc32(name.encode()) % 51 + 1
        kind = f"walker.pedestrian.{pick:04d}"
        half = blueprints.find(kind).half
        at = _middle(x, y, person.getAngle(name), 0.0)
        return Mover(name, kind, at, person.getSpeed(name), half)

    def _body(self, name: str) -> tuple[str, Vector]:
        """What a vehicle looks like, and half its size."""
        vehicle = self._sumo.vehicle
        length, width = vehicle.getLength(name), vehicle.getWidth(name)
        kind: str = vehicle.getTypeID(name).partition("@")[0]
        if name == self._hero:
            kind = _HERO
        elif kind not in blueprints.library():
            pick = zlib.crc32(name.encode()) % len(_CARS)
            kind = _TRUCK if length > _LONG_M else _CARS[pick]
        height = blueprints.find(kind).half[2]
        found = self._bodies[name] = kind, (length / 2.0, width / 2.0, height)
        return found


class _Supply:
    """Who else comes onto the roads, and which ways lead where."""

    def __init__(self, sumo: Any, roads: Roads, luck: Random, busy: Busy) -> None:
        self._sumo, self._luck = sumo, luck
        self._straight: dict[str, str] = {}
        entered: set[str] = set()
        edges = [e for e in roads.lanes_of if not e.startswith(":")]
        leads: dict[str, set[str]] = {edge: set() for edge in edges}
        for edge in edges:
            for lane in roads.lanes_of[edge]:
                for link in lane.links if lane.for_cars else ():
                    to = link.to.rpartition("_")[0]
                    if to in leads:
                        leads[edge].add(to)
                        entered.add(to)
                        if link.turn == "s" or edge not in self._straight:
                            self._straight[edge] = to
        drivable = [e for e in edges if any(ln.for_cars for ln in roads.lanes_of[e])]
        self._routes = self._ways(drivable, leads, entered)
        self._walkable = [
            e for e in edges if any(not lane.for_cars for lane in roads.lanes_of[e])
        ]
        self._next = {
            "vehicle": self._wait(busy.vehicles_per_hour if self._routes else 0.0),
            "walker": self._wait(busy.walkers_per_hour if self._walkable else 0.0),
        }
        self._busy = busy
        self._count = 0

    def onward(self, edge: str) -> list[str]:
        """The way straight on from an edge."""
        way = [edge]
        while len(way) < _ONWARD and way[-1] in self._straight:
            way.append(self._straight[way[-1]])
        return way

    def depart(self, now_s: float) -> None:
        """Sends those off whose time has come."""
        while self._next["vehicle"] <= now_s:
            self._next["vehicle"] += self._wait(self._busy.vehicles_per_hour)
            self._drive()
        while self._next["walker"] <= now_s:
            self._next["walker"] += self._wait(self._busy.walkers_per_hour)
            self._walk()

    def enter(self, name: str) -> None:
        """Puts a client's walker somewhere; it is moved at once."""
        if not self._walkable:
            raise ValueError("nobody can walk here")
        person = self._sumo.person
        person.add(name, self._walkable[0], 1.0, typeID=_STRANGER)
        person.appendWaitingStage(name, 1e6)

    def _wait(self, per_hour: float) -> float:
        return self._luck.expovariate(per_hour / 3600.0) if per_hour > 0 else math.inf

    def _ways(
        self, edges: Sequence[str], leads: dict[str, set[str]], entered: set[str]
    ) -> list[Sequence[str]]:
        starts = [edge for edge in edges if edge not in entered] or list(edges)
        ends = [edge for edge in edges if not leads[edge]] or list(edges)
        found: list[Sequence[str]] = []
        for start in starts:
            for end in ends:
                if start == end and leads[start]:
                    continue
                way = self._sumo.simulation.findRoute(start, end).edges
                if way:
                    found.append(tuple(way))
        return found

    def _drive(self) -> None:
        sumo = self._sumo
        route = self._routes[self._luck.randrange(len(self._routes))]
        kind = _TRUCK if self._luck.random() < 0.08 else self._luck.choice(_CARS)
        if len(sumo.simulation.getPendingVehicles()) >= _WAITING:
            return  # the way in is full
        self._count += 1
        way = f"way{self._routes.index(route)}"
        if way not in sumo.route.getIDList():
            sumo.route.add(way, list(route))
        sumo.vehicle.add(
            f"npc{self._count}", way, typeID=kind, departLane="best",
            departSpeed="desired",
        )  # fmt: skip

    def _walk(self) -> None:
        sumo = self._sumo
        start, end = (
            self._luck.choice(self._walkable),
            self._luck.choice(self._walkable),
        )
        share = self._luck.random()
        stages = sumo.simulation.findIntermodalRoute(start, end, "")
        edges = [edge for stage in stages for edge in stage.edges]
        if start == end or not edges:
            return
        self._count += 1
        name = f"npc{self._count}"
        length = sumo.lane.getLength(f"{start}_0")
        low, high = _BEGINS_M
        # Not the whole way from the edge of the map: people live near junctions.
        back = low + (high - low) * share
        to_end = length - back if len(edges) > 1 else back
        sumo.person.add(name, start, max(1.0, min(length - 1.0, to_end)),
                        typeID=_STRANGER)  # fmt: skip
        sumo.person.appendWalkingStage(name, edges, -1.0)


def _kinds() -> str:
    """SUMO's vehicle types: one for each blueprint that the traffic uses."""
    rows = [
        f'<vType id="{_GUEST}" minGap="0" accel="4" decel="9" emergencyDecel="9"'
        ' sigma="0" speedFactor="4" speedDev="0" maxSpeed="80"/>',
        f'<vType id="{_STRANGER}" vClass="pedestrian"'
        ' speedFactor="normc(1,0.15,0.6,1.5)"/>',
    ]
    for name in (*_CARS, _TRUCK):
        half = blueprints.find(name).half
        lorry = name == _TRUCK
        rows.append(
            f'<vType id="{name}" vClass="{"truck" if lorry else "passenger"}"'
            f' length="{2 * half[0]:.2f}" width="{2 * half[1]:.2f}"'
            f' accel="{1.3 if lorry else 2.4}" decel="4.5" sigma="0.4"'
            ' speedFactor="normc(1,0.1,0.7,1.2)"/>'
        )
    return f"<routes>{''.join(rows)}</routes>"


def _middle(x: float, y: float, angle: float, half: float) -> Pose:
    """From SUMO's front bumper and compass to CARLA's middle and yaw."""
    yaw = turned(angle - 90.0)
    heading = math.radians(yaw)
    return (
        x - half * math.cos(heading),
        -y - half * math.sin(heading),
        0.0,
        0.0,
        yaw,
        0.0,
    )


def _onward(mover: Mover, ahead_s: float) -> Mover:
    """Where a mover is a little later, between two of SUMO's steps."""
    x, y, z, pitch, yaw, roll = mover.at
    heading, way = math.radians(yaw), mover.speed * ahead_s
    at = x + way * math.cos(heading), y + way * math.sin(heading), z, pitch, yaw, roll
    return replace(mover, at=at)
