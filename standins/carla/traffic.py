"""The traffic other than clients' actors: either none, or traffic that SUMO simulates.

SUMO moves its own vehicles and pedestrians and controls the traffic lights. Clients'
actors are copied into SUMO at every step, so that SUMO's traffic follows them, yields
to them and stops behind them. SUMO's y axis points left, and its angles are compass
bearings.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Final, Protocol

from forewarn.standins.carla import blueprints
from forewarn.standins.carla.actors import Pose, Vector, turned
from forewarn.standins.carla.guests import (
    CARS,
    TRUCK,
    Busy,
    Comers,
    Guest,
    Guests,
    kinds,
)
from forewarn.standins.carla.roads import Roads


@dataclass(frozen=True, slots=True)
class Mover:
    """A vehicle or pedestrian of the simulated traffic.

    Args:
        name: The road user's name in the traffic simulation.
        kind: The name of the blueprint.
        at: The pose of the road user's centre.
        speed: The speed along the heading, in m/s.
        half: Half the length, width and height in metres.
        lamps: The vehicle's lights, as CARLA's bit mask.
    """

    name: str
    kind: str
    at: Pose
    speed: float
    half: tuple[float, float, float]
    lamps: int = 0


class Traffic:
    """The traffic other than clients' actors; by default, there is none."""

    def hero(self) -> Mover | None:
        """Returns the car that a scenario provides for a client, or None."""
        return None

    def weather(self) -> list[float] | None:
        """Returns the scenario's weather as CARLA's weather parameters, or None."""
        return None

    def step(self, dt: float, guests: Sequence[Guest]) -> None:
        """Advances by `dt` seconds, with the guests at their current positions."""

    def movers(self) -> Iterable[Mover]:
        """Returns the vehicles and pedestrians that are currently on the road."""
        return ()

    def lights(self, group: str) -> str | None:
        """Returns the SUMO letters that a group of lights shows, or None if SUMO does
        not control the group.
        """
        return None

    def phase(self, group: str) -> tuple[int, float]:
        """Returns the current phase of a group's program and its remaining time in
        seconds.
        """
        return 0, 0.0

    def show(self, group: str, letters: str) -> None:
        """Makes a group of lights show the given SUMO letters permanently."""

    def remove(self, name: str) -> None:
        """Removes a simulated road user or a guest from the road."""

    def close(self) -> None:
        """Ends the simulation."""


MakesTraffic = Callable[[Roads, int, float], Traffic]
"""Creates the traffic of a world from its map, a seed and a step length in seconds."""


class Sumo(Protocol):
    """SUMO as a library, which can load only one net at a time."""

    def connect(self, owner: object, arguments: Sequence[str], routes: str) -> Any:
        """Loads a net and a route file for an owner; returns libsumo."""

    def release(self, owner: object) -> None:
        """Releases the simulation if the owner still holds it."""

    def give_up_checks(self, sumo: Any, name: str) -> None:
        """Turns off SUMO's speed checks and lane changes for a vehicle that a client
        drives.
        """


class Beginning(Protocol):
    """Loads the episodes of a scenario into SUMO."""

    @property
    def map(self) -> Path:
        """The SUMO net."""

    @property
    def period_s(self) -> float:
        """The duration of a step in seconds."""

    @property
    def ego_name(self) -> str:
        """The SUMO name of the scenario's ego vehicle."""

    def load(self, owner: object, seed: int) -> Any:
        """Loads the episode with the given seed; returns libsumo."""

    def manoeuvres(self) -> Any:
        """Returns the scripted commands for cars, as an object whose `due(now_s, sumo)`
        returns the commands that are due.
        """


@dataclass(frozen=True, slots=True)
class Stage:
    """The traffic and weather of a scenario.

    Args:
        beginning: Loads the scenario's episodes.
        weather: The values of `time_of_day`, `rain`, `snow`, `fog` and `visibility`.
    """

    beginning: Beginning
    weather: Mapping[str, float]


def makes_traffic(
    busy: Busy | None,
    sumo: Sumo | None = None,
    stage: Callable[[int], Stage] | None = None,
) -> MakesTraffic:
    """Returns a function that creates the traffic of each world.

    Args:
        busy: The amount of random traffic; None for no traffic.
        sumo: Access to SUMO, which simulates the traffic on maps that have a SUMO net.
        stage: Returns the scenario's traffic for a seed, which is used only on the
            scenario's own map.
    """

    def make(on: Roads, seed: int, step_s: float) -> Traffic:
        if busy is None or on.net is None or sumo is None:
            return Traffic()
        staged = None if stage is None else stage(seed)
        if staged is not None and staged.beginning.map != on.net:
            staged = None
        return SumoTraffic(sumo, on.net, seed, step_s, busy, staged)

    return make


_HERO: Final = "vehicle.lincoln.mkz_2020"
_LONG_M: Final = 7.0
_LAMPS: Final = ((1, 16), (2, 32), (4, 48), (8, 8), (16, 2), (64, 4), (128, 64))
"""Pairs of SUMO's bit and CARLA's bits for each of a vehicle's lights."""


class SumoTraffic(Traffic):
    """Traffic that SUMO simulates.

    Args:
        sumo: SUMO as a library.
        net: The SUMO net, which is used if no scenario defines the traffic.
        seed: The seed of all random choices.
        step_s: SUMO's step length in seconds.
        busy: The amount of random traffic.
        stage: A scenario's traffic and ego vehicle, which replace random traffic.
    """

    def __init__(
        self,
        sumo: Sumo,
        net: Path,
        seed: int,
        step_s: float,
        busy: Busy,
        stage: Stage | None = None,
    ) -> None:
        self._stage, self._connection = stage, sumo
        self._owed_s = 0.0
        self._now_s = 0.0
        self._shown: list[Mover] = []
        self._bodies: dict[str, tuple[str, Vector]] = {}
        self._luck = Random(f"traffic {seed}")  # noqa: S311
        if stage is None:
            self._step_s = step_s
            arguments = [
                "--net-file", str(net), "--step-length", str(step_s),
                "--seed", str(seed % 2**31),
            ]  # fmt: skip
            self._sumo = sumo.connect(self, arguments, kinds())
            self._manoeuvres = None
            self._hero = ""
        else:
            self._step_s = stage.beginning.period_s
            self._sumo = stage.beginning.load(self, seed)
            self._manoeuvres = stage.beginning.manoeuvres()
            self._hero = stage.beginning.ego_name
        self._groups = frozenset(self._sumo.trafficlight.getIDList())
        self._comers = Comers(self._sumo, self._luck, busy)
        self._guests = Guests(self._sumo, self._comers, self._hero, sumo.give_up_checks)
        self._goes_on = stage is None
        self._look()

    def hero(self) -> Mover | None:
        """Returns the scenario's ego vehicle at its current position, or None."""
        return self._vehicle(self._hero) if self._hero else None

    def weather(self) -> list[float] | None:
        return None if self._stage is None else _weather(self._stage.weather)

    # -- the `Traffic` interface ------------------------------------------------------

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
        self._connection.release(self)

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
        """Returns the blueprint and the half size of a vehicle."""
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
    """Converts SUMO's front-bumper position and compass angle to CARLA's centre and
    yaw.
    """
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
    """Extrapolates a mover's position between two SUMO steps."""
    x, y, z, pitch, yaw, roll = mover.at
    heading, way = math.radians(yaw), mover.speed * ahead_s
    at = x + way * math.cos(heading), y + way * math.sin(heading), z, pitch, yaw, roll
    return replace(mover, at=at)


def _weather(of: Mapping[str, float]) -> list[float]:
    """Converts a scenario's weather and time of day to CARLA's weather parameters."""
    altitude = 60.0 * math.sin((of["time_of_day"] - 6.0) / 12.0 * math.pi)
    falls = max(of["rain"], of["snow"])
    return [
        100.0 * max(0.05, falls), 100.0 * of["rain"], 100.0 * of["rain"], 10.0,
        15.0 * (of["time_of_day"] - 12.0), altitude, 100.0 * of["fog"],
        min(of["visibility"], 10_000.0) / 100.0 if of["fog"] else 0.75, 0.1,
        100.0 * of["rain"], 1.0, 0.03, 0.0331, 0.0,
    ]  # fmt: skip
