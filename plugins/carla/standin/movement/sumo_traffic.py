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
from typing import Final

from pydantic import Field

from forewarn.abstractions.serial import Strict
from forewarn.plugins.carla.standin import blueprints
from forewarn.plugins.carla.standin.encoding import Pose, Vector, turned
from forewarn.plugins.carla.standin.movement.arrivals import CARS, TRUCK, Comers, kinds
from forewarn.plugins.carla.standin.movement.choice import Busy
from forewarn.plugins.carla.standin.movement.sumo_guests import Guests
from forewarn.plugins.carla.standin.movement.traffic import Guest, Mover
from forewarn.plugins.driving.roads.network import Roads
from forewarn.plugins.driving.sense import Surroundings
from forewarn.plugins.sumo import wire
from forewarn.plugins.sumo.episode import Beginning, Manoeuvres
from forewarn.plugins.sumo.maps.net import SumoNet
from forewarn.plugins.sumo.support import find_map
from forewarn.plugins.sumo.traffic import Car, Ego, Flow, Light, Queue, Walkers
from forewarn.plugins.sumo.traffic import Traffic as Others

_HERO: Final = "vehicle.lincoln.mkz_2020"
_LONG_M: Final = 7.0
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
        surroundings: The scenario's weather and time of day.
    """

    def __init__(
        self,
        net: Path,
        seed: int,
        step_s: float,
        busy: Busy,
        beginning: Beginning | None = None,
        surroundings: Surroundings | None = None,
    ) -> None:
        self._surroundings = surroundings
        self._owed_s = 0.0
        self._now_s = 0.0
        self._shown: list[Mover] = []
        self._bodies: dict[str, tuple[str, Vector]] = {}
        self._luck = Random(f"traffic {seed}")  # noqa: S311
        if beginning is None:
            self._step_s = step_s
            arguments = [
                "--net-file", str(net), "--step-length", str(step_s),
                "--seed", str(seed % 2**31),
            ]  # fmt: skip
            self._sumo = wire.connect(self, arguments, kinds())
            self._manoeuvres = None
            self._hero = ""
        else:
            self._step_s = beginning.period_s
            self._sumo = beginning.load(self, seed)
            self._manoeuvres = Manoeuvres(beginning.traffic)
            self._hero = beginning.ego_name
        self._roads = Roads(SumoNet(self._sumo))
        self._groups = frozenset(self._sumo.trafficlight.getIDList())
        self._comers = Comers(self._sumo, self._roads, self._luck, busy)
        self._guests = Guests(self._sumo, self._comers, self._hero)
        self._goes_on = beginning is None
        self._look()

    def hero(self) -> Mover | None:
        """The scenario's ego, where it is now."""
        return self._vehicle(self._hero) if self._hero else None

    def weather(self) -> list[float] | None:
        return None if self._surroundings is None else _weather(self._surroundings)

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
        self._guests.remove(name)
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
            self._comers.depart(self._now_s)
        if self._manoeuvres is not None:
            for name, arguments in self._manoeuvres.due(self._now_s, sumo):
                getattr(sumo.vehicle, name)(*arguments)
        self._guests.put(guests)
        sumo.simulationStep()
        self._now_s += self._step_s
        self._guests.after()

    # -- looking ----------------------------------------------------------------------

    def _look(self) -> None:
        sumo, own = self._sumo, self._guests.names
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
            pick = zlib.crc32(name.encode()) % len(CARS)
            kind = TRUCK if length > _LONG_M else CARS[pick]
        height = blueprints.find(kind).half[2]
        found = self._bodies[name] = kind, (length / 2.0, width / 2.0, height)
        return found


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


def _weather(of: Surroundings) -> list[float]:
    """A scenario's weather in CARLA's terms, the sun where it is at that time."""
    altitude = 60.0 * math.sin((of.time_of_day - 6.0) / 12.0 * math.pi)
    falls = max(of.rain, of.snow)
    return [
        100.0 * max(0.05, falls), 100.0 * of.rain, 100.0 * of.rain, 10.0,
        15.0 * (of.time_of_day - 12.0), altitude, 100.0 * of.fog,
        min(of.visibility, 10_000.0) / 100.0 if of.fog else 0.75, 0.1,
        100.0 * of.rain, 1.0, 0.03, 0.0331, 0.0,
    ]  # fmt: skip
