"""The traffic settings of a scenario, and the route file that is generated from them.

Choices that the scenario leaves open, such as departure times and destinations, are
drawn at random from the seed of the episode.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal
from xml.sax.saxutils import quoteattr

from pydantic import Field

from forewarn.abstractions.errors import InvalidInput, near_miss
from forewarn.abstractions.serial import Strict
from forewarn.plugins.driving.scene import EGO_WIDTH_M
from forewarn.plugins.sumo import wire

EGO = "ego"
EGO_LENGTH_M = 4.8
WALKER = "walker"
_ARRIVE_M = 20.0  # where pedestrians arrive on the last edge
_SPACING_M = 7.5  # between the front bumpers in a queue

Route = list[str]


class Ego(Strict):
    """The ego's start and destination.

    Args:
        route: The edges from the first to the last. On a network of the user,
            intermediate edges may be omitted.
        vehicle: The vehicle in the user's files to take over, instead of a route.
        departs_s: The time in seconds for which the traffic runs before the ego
            appears.
    """

    route: Route = []
    vehicle: str = ""
    lane: int = Field(default=1, ge=0)
    position_m: float = Field(default=20.0, ge=0)
    speed_kmh: float = Field(default=40.0, ge=0)
    departs_s: float = Field(default=5.0, ge=0)


class Flow(Strict):
    """A stream of vehicles.

    Args:
        routes: The routes; each vehicle takes one at random.
        per_hour: The mean number of vehicles per hour, at exponentially distributed
            intervals.
    """

    routes: list[Route] = Field(min_length=1)
    per_hour: float = Field(ge=0)
    from_s: float = Field(default=0.0, ge=0)
    to_s: float = Field(default=120.0, ge=0)
    speed_kmh: float = Field(default=40.0, ge=0)
    top_speed_kmh: float = Field(default=60.0, gt=0)
    kind: Literal["car", "truck"] = "car"
    lane: int | None = Field(default=None, ge=0)


class Walkers(Strict):
    """A stream of pedestrians.

    Args:
        walks: Pairs of edges: the start and the destination.
        per_hour: The mean number of pedestrians per hour, at exponentially distributed
            intervals.
        start_m: The range of start positions on the first edge in m.
        ignore_lights: The fraction of pedestrians who ignore traffic lights and cars.
    """

    walks: list[Route] = Field(min_length=1)
    per_hour: float = Field(ge=0)
    start_m: tuple[float, float] = (190.0, 215.0)
    to_s: float = Field(default=120.0, ge=0)
    ignore_lights: float = Field(default=0.0, ge=0, le=1)


class Halt(Strict):
    """A stop of a vehicle at a position on a lane for some time."""

    edge: str
    lane: int = Field(ge=0)
    position_m: float = Field(ge=0)
    for_s: float = Field(gt=0)


class Manoeuvre(Strict):
    """A change of speed at a given time; `to_kmh: null` returns control to SUMO."""

    at_s: float = Field(ge=0)
    to_kmh: float | None = Field(default=None, ge=0)
    within_s: float = Field(default=1.0, gt=0)


class Car(Strict):
    """A single vehicle with scripted stops and speeds."""

    route: Route = Field(min_length=1)
    lane: int = Field(default=1, ge=0)
    position_m: float = Field(default=0.0, ge=0)
    speed_kmh: float = Field(default=0.0, ge=0)
    top_speed_kmh: float = Field(default=60.0, gt=0)
    departs_s: float = Field(default=0.0, ge=0)
    kind: Literal["car", "truck"] = "car"
    halts: list[Halt] = []
    manoeuvres: list[Manoeuvre] = []
    present: bool = True


class Queue(Strict):
    """A queue of stationary vehicles that start one after another.

    Args:
        head_m: The position of the first vehicle's front bumper in m.
        until_s: How long the first vehicle waits, in seconds. Each further vehicle
            waits one second longer.
    """

    edge: str
    lanes: list[int]
    head_m: float = Field(gt=0)
    count: int = Field(ge=0)
    until_s: float = Field(gt=0)
    then: Route = []


class Light(Strict):
    """The initial phase of the first traffic light on the route."""

    phase: int = Field(default=0, ge=0)
    left_s: float = Field(default=10.0, ge=0)


@dataclass(frozen=True, slots=True)
class Traffic:
    """All traffic except the ego."""

    flows: Sequence[Flow] = ()
    cars: Sequence[Car] = ()
    queues: Sequence[Queue] = ()
    walkers: Sequence[Walkers] = ()


_KINDS: dict[str, str] = {
    "car": 'length="4.6" width="1.8" accel="2.4" decel="4.5" sigma="0.4"'
    ' speedFactor="normc(1,0.1,0.7,1.3)"',
    "truck": 'vClass="truck" length="10" width="2.5" accel="1.3" decel="4" sigma="0.4"'
    ' speedFactor="normc(0.95,0.08,0.7,1.1)"',
}
_TYPES = f"""\
<vType id="{EGO}" length="{EGO_LENGTH_M}" width="{EGO_WIDTH_M}" minGap="0" accel="4"
 decel="9" emergencyDecel="9" sigma="0" speedFactor="4" speedDev="0" maxSpeed="80"/>
<vType id="{WALKER}" vClass="pedestrian" speedFactor="normc(1,0.15,0.6,1.5)"/>
<vType id="bold_{WALKER}" vClass="pedestrian" speedFactor="normc(1,0.15,0.6,1.5)"
 jmDriveAfterRedTime="300" jmIgnoreFoeProb="1"/>
"""


def _types(vehicles: Iterable[Flow | Car]) -> str:
    wanted = {_type_name(v): v for v in vehicles}
    return "".join(
        f'<vType id="{name}" maxSpeed="{v.top_speed_kmh / 3.6:.3f}" {_KINDS[v.kind]}/>'
        for name, v in sorted(wanted.items())
    )


# SUMO reads this parameter from a vehicle, but not from its type.
_NOT_FOR_THE_EGO = f'<param key="junctionModel.ignoreIDs" value="{EGO}"/>'


def _type_name(vehicle: Flow | Car) -> str:
    return f"{vehicle.kind}_{vehicle.top_speed_kmh:.3f}"


def route_file(ego: Ego, traffic: Traffic, seed: int) -> str:
    """Returns the text of the route file for an episode."""
    departures: list[tuple[float, str]] = []
    cars = [car for car in traffic.cars if car.present]
    queued = [_queued(queue) for queue in traffic.queues]
    for i, flow in enumerate(traffic.flows):
        departures += _flow(flow, f"flow{i}", Random(f"flow {i} {seed}"))
    for i, car in enumerate(traffic.cars):
        if car.present:
            departures.append((car.departs_s, _car(car, car_name(i))))
    for i, group in enumerate(queued):
        departures += [(0.0, _car(car, f"queue{i}.{n}")) for n, car in enumerate(group)]
    for i, walkers in enumerate(traffic.walkers):
        departures += _walkers(walkers, f"walker{i}", Random(f"walkers {i} {seed}"))
    if not ego.vehicle:
        text = _vehicle(
            EGO, EGO, ego.route, ego.departs_s, ego.lane, ego.position_m, ego.speed_kmh
        )
        departures.append((ego.departs_s, text))
    departures.sort(key=lambda departure: departure[0])
    body = "\n".join(text for _, text in departures)
    types = _types([*traffic.flows, *cars, *(car for group in queued for car in group)])
    return f"<routes>\n{_TYPES}{types}{body}\n</routes>\n"


def car_name(index: int) -> str:
    """Returns a car's name in the simulation, given its index in `cars`."""
    return f"car{index}"


def _flow(flow: Flow, name: str, luck: Random) -> Iterator[tuple[float, str]]:
    kind = _type_name(flow)
    for n, time_s in enumerate(_times(flow.per_hour, flow.from_s, flow.to_s, luck)):
        route = flow.routes[int(luck.random() * len(flow.routes))]
        speed = flow.speed_kmh * (0.85 + 0.3 * luck.random())
        speed = min(speed, flow.top_speed_kmh)
        called = f"{name}.{n}"
        yield (
            time_s,
            _vehicle(
                called, kind, route, time_s, flow.lane, None, speed, _NOT_FOR_THE_EGO
            ),
        )


def _walkers(walkers: Walkers, name: str, luck: Random) -> Iterator[tuple[float, str]]:
    low, high = walkers.start_m
    for n, time_s in enumerate(_times(walkers.per_hour, 0.0, walkers.to_s, luck)):
        walk = walkers.walks[int(luck.random() * len(walkers.walks))]
        bold = luck.random() < walkers.ignore_lights
        start = low + (high - low) * luck.random()
        yield (
            time_s,
            (
                f'<person id="{name}.{n}" type="{"bold_" if bold else ""}{WALKER}"'
                f' depart="{time_s:.1f}" departPos="{start:.1f}">'
                f"<walk edges={quoteattr(' '.join(walk))}"
                f' arrivalPos="{_ARRIVE_M:.1f}"/></person>'
            ),
        )


def _times(
    per_hour: float, from_s: float, to_s: float, luck: Random
) -> Iterator[float]:
    if per_hour <= 0.0:
        return
    time_s = from_s + luck.expovariate(per_hour / 3600.0)
    while time_s < to_s:
        yield time_s
        time_s += max(1.0, luck.expovariate(per_hour / 3600.0))


def _car(car: Car, name: str) -> str:
    halts = "".join(
        f"<stop lane={quoteattr(f'{halt.edge}_{halt.lane}')}"
        f' startPos="{max(0.0, halt.position_m - 4.0):.1f}"'
        f' endPos="{halt.position_m:.1f}" duration="{halt.for_s:.1f}"/>'
        for halt in car.halts
    )
    return _vehicle(
        name, _type_name(car), car.route, car.departs_s, car.lane, car.position_m,
        min(car.speed_kmh, car.top_speed_kmh),
        halts + _NOT_FOR_THE_EGO,
    )  # fmt: skip


def _queued(queue: Queue) -> list[Car]:
    """Returns the vehicles of a queue that fit on the edge."""
    cars: list[Car] = []
    for lane in queue.lanes:
        for n in range(queue.count):
            front = queue.head_m - n * _SPACING_M
            if front < 5.0:
                break
            halt = Halt(
                edge=queue.edge, lane=lane, position_m=front, for_s=queue.until_s + n
            )
            cars.append(
                Car(route=[queue.edge, *queue.then], lane=lane,
                    position_m=front - 0.1, halts=[halt])
            )  # fmt: skip
    return cars


def _vehicle(
    name: str,
    kind: str,
    route: Route,
    departs_s: float,
    lane: int | None,
    position_m: float | None,
    speed_kmh: float,
    inside: str = "",
) -> str:
    where = "best" if lane is None else str(lane)
    position = "base" if position_m is None else f"{position_m:.2f}"
    return (
        f'<vehicle id="{name}" type="{kind}" depart="{departs_s:.1f}"'
        f' departLane="{where}" departPos="{position}"'
        f' departSpeed="{speed_kmh / 3.6:.3f}">'
        f"<route edges={quoteattr(' '.join(route))}/>{inside}</vehicle>"
    )


WAIT_S = 120.0
"""The maximum time that the ego waits for free space at its start, in seconds."""

Command = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Beginning:
    """The initial state of an episode, except for the seed.

    Args:
        map: A `.net.xml` or `.sumocfg` file.
        ego: The ego's start and destination.
        traffic: All other traffic.
        light: The initial phase of the first traffic light.
        route_files: Additional SUMO route files, separated by commas.
        period_s: The duration of a simulation step in seconds.
    """

    map: Path
    ego: Ego
    traffic: Traffic
    light: Light | None = None
    route_files: str = ""
    period_s: float = 0.1

    @property
    def ego_name(self) -> str:
        return self.ego.vehicle or EGO

    def manoeuvres(self) -> Manoeuvres:
        """Returns the scripted commands for the other cars of an episode."""
        return Manoeuvres(self.traffic)

    def load(self, owner: object, seed: int) -> Any:
        """Loads the episode with a seed, and runs it until the ego appears.

        Args:
            owner: The new owner of the simulation.
            seed: The episode's seed.

        Returns:
            The module libsumo, for further commands.
        """
        config = self.map.name.endswith(".sumocfg")
        arguments = [
            "--configuration-file" if config else "--net-file", str(self.map),
            "--step-length", str(self.period_s), "--seed", str(seed % 2**31),
        ]  # fmt: skip
        routes = route_file(self.ego, self.traffic, seed)
        if self.ego.vehicle and self.traffic == Traffic((), (), (), ()):
            routes = ""
        sumo = wire.connect(owner, arguments, routes, self.route_files)
        name = self.ego_name
        deadline_s = sumo.simulation.getTime() + self.ego.departs_s + WAIT_S
        while name not in sumo.vehicle.getIDList():
            if sumo.simulation.getTime() > deadline_s:
                loaded = sumo.vehicle.getLoadedIDList()
                if name not in loaded:
                    raise InvalidInput(
                        f"the routes define no vehicle {name!r:.60} that departs in "
                        f"the first {deadline_s:g} s",
                        source="ego",
                        mend=near_miss(name, loaded)
                        or "name the routes in route_files, or write ego: {route: […]}",
                    )
                raise InvalidInput(
                    f"there was no free space to insert the ego {name!r:.60}",
                    mend=(
                        "check that the ego's lane and position are free for its speed"
                    ),
                )
            sumo.simulationStep()
        wire.give_up_checks(sumo, name)
        coming = sumo.vehicle.getNextTLS(name)
        if self.light is not None and coming:
            light, phase = coming[0][0], self.light.phase
            programme = sumo.trafficlight.getAllProgramLogics(light)[0]
            sumo.trafficlight.setPhase(light, phase % len(programme.phases))
            sumo.trafficlight.setPhaseDuration(light, self.light.left_s)
        return sumo


class Manoeuvres:
    """The scripted commands for cars in chronological order."""

    def __init__(self, traffic: Traffic) -> None:
        self._left: list[tuple[float, str, Manoeuvre]] = sorted(
            (move.at_s, car_name(i), move)
            for i, car in enumerate(traffic.cars)
            if car.present
            for move in car.manoeuvres
        )

    def due(self, now_s: float, sumo: Any) -> Iterator[Command]:
        """Yields the commands that are due, and removes them."""
        while self._left and self._left[0][0] <= now_s + 1e-9:
            _, car, move = self._left.pop(0)
            if car not in sumo.vehicle.getIDList():
                continue
            if move.to_kmh is None:
                yield "setSpeed", (car, -1.0)
            else:
                yield "slowDown", (car, move.to_kmh / 3.6, move.within_s)
