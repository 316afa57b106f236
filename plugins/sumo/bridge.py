"""A world that simulates episodes in SUMO, given its settings and a seed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Value
from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.actions import Actions, ActionSpec, number
from forewarn.plugins.contracts import Example, Shape, Source, SteppedWorld, Thing
from forewarn.plugins.driving.act import (
    CAR_ACTIONS,
    CarActuator,
    CarSurroundings,
    Wheel,
    amount,
)
from forewarn.plugins.driving.roads import Roads
from forewarn.plugins.driving.rss import SIGNALS
from forewarn.plugins.driving.scene import TOUCH, SceneShown
from forewarn.plugins.driving.sense import CRITICALITY, PROVIDES, Surroundings
from forewarn.plugins.sumo import wire
from forewarn.plugins.sumo.routes import Routes
from forewarn.plugins.sumo.sense import SumoNet, SumoSenses
from forewarn.plugins.sumo.support import (
    check_there,
    examine,
    find_map,
    is_own_network,
    libsumo,
)
from forewarn.plugins.sumo.traffic import (
    Beginning,
    Car,
    Command,
    Ego,
    Flow,
    Light,
    Queue,
    Traffic,
    Walkers,
)

_END_M = 5.0
_TURN_SIGNALS = {"off": 0, "right": 1, "left": 2, "hazard": 4}
_LANES = {"left": 1, "right": -1}

POSE = ActionSpec(
    "pose",
    {
        "forward_m": number(unit="m"),
        "left_m": number(unit="m"),
        "turn_left_deg": number(unit="deg"),
    },
)

Period = Annotated[float, Field(gt=0.01, le=1)]


class SumoWorld(SteppedWorld):
    """A world in which the ego drives through SUMO traffic.

    SUMO's safety checks are turned off for the ego, so it can run a red light or hit a
    road user. By default, vehicles at junctions do not brake for the ego.

    Args:
        map: The name of a shipped map, or the path to a `.net.xml` or `.sumocfg`.
        ego: The ego's start and destination.
        flows: Streams of vehicles.
        cars: Single vehicles with scripted behaviour.
        queues: Queues of stationary vehicles.
        walkers: Streams of pedestrians.
        light: The initial phase of the first traffic light.
        surroundings: Weather, time of day and traffic rules.
        route_files: Additional SUMO route files, separated by commas.
        period_s: The time between frames in seconds.
        rss: Whether to add the RSS margins.
        criticality: Whether to add the deceleration to avoid a crash (DRAC) and the
            post-encroachment time (PET).
    """

    actions = Actions(*CAR_ACTIONS, POSE)

    @staticmethod
    def example() -> Example:
        """Returns an example with a busy crossing."""
        return Example(
            {
                "ego": {
                    "route": ["west_in", "north_out"], "lane": 2, "position_m": 140.0
                },
                "flows": [{"routes": [["east_in", "west_out"]], "per_hour": 800.0}],
                "walkers": [{"walks": [["north_in", "south_out"]], "per_hour": 300.0}],
                "light": {"phase": 4, "left_s": 15.0},
            },
            pilot="sumo-driver",
        )  # fmt: skip

    def __init__(
        self,
        *,
        map: str = "crossing",
        ego: Ego,
        flows: list[Flow] | None = None,
        cars: list[Car] | None = None,
        queues: list[Queue] | None = None,
        walkers: list[Walkers] | None = None,
        light: Light | None = None,
        surroundings: Surroundings | None = None,
        route_files: str = "",
        period_s: Period = 0.1,
        rss: bool = False,
        criticality: bool = False,
    ) -> None:
        if not ego.route and not ego.vehicle:
            raise InvalidInput("the ego requires `route` or `vehicle`")
        libsumo()
        self._map = find_map(map)
        for name in route_files.split(","):
            if name.strip():
                check_there(Path(name.strip()), "route_files")
        traffic = Traffic(flows or (), cars or (), queues or (), walkers or ())
        if is_own_network(self._map):
            routes = Routes(self._map)
            ego, traffic = routes.ego(ego), routes.traffic(traffic)
        self.beginning = Beginning(
            self._map, ego, traffic, light, route_files, period_s
        )
        self._name = self.beginning.ego_name
        self.surroundings = surroundings or Surroundings()
        self._period_s = period_s
        self._rss = rss
        self._criticality = criticality
        provides = (
            *PROVIDES, *(SIGNALS if rss else ()), *(CRITICALITY if criticality else ())
        )  # fmt: skip
        version = examine().versions["libsumo"]
        self.source = Source(f"sumo {version}", "driving", provides, period_s)

    # -- methods of a world -----------------------------------------------------------

    def begin(self, seed: int) -> None:
        self._seed = seed
        self._past: list[tuple[Command, ...]] = []
        self._manoeuvres = self.beginning.manoeuvres()
        self._sumo = self.beginning.load(self, seed)
        roads = _roads(self._map, self._sumo)
        self._senses = SumoSenses(
            self._sumo, self._name, roads, self._period_s, self.surroundings,
            rss=self._rss, criticality=self._criticality,
        )  # fmt: skip
        self._wheel = Wheel()
        self._shown = SceneShown(roads, lambda: self._senses.scene)
        self._struck: str | None = None
        self._others: set[frozenset[str]] = set()
        self._signal: str | None = None
        self._speed: float = self._sumo.vehicle.getSpeed(self._name)
        self._values = self._senses.values(0.0)

    def move(self, action: Action | None) -> None:
        self._regain()
        now_s = len(self._past) * self._period_s
        commands = list(self._manoeuvres.due(now_s, self._sumo))
        before = self._speed
        action, acceleration = self._wheel.take(action, self._values, before)
        if action is not None:
            commands += self._wishes(action)
        if action is not None and action.name == POSE.name:
            commands.append(self._pose(action))
        else:
            speed = max(0.0, before + acceleration * self._period_s)
            commands.append(("setSpeed", (self._name, speed)))
        self._past.append(tuple(commands))
        self._command(self._past[-1])
        self._see(before, action is not None and action.arguments.get("horn") is True)

    def _wishes(self, action: Action) -> Iterator[Command]:
        """Yields the commands for the turn signals and the lane."""
        signal = action.arguments.get("turn_signal")
        if signal is not None:
            yield "setSignals", (self._name, _TURN_SIGNALS[signal])
        elif self._signal is not None:
            yield "setSignals", (self._name, -1)
        self._signal = signal
        side = action.arguments.get("lane_change")
        if side is not None:
            vehicle = self._sumo.vehicle
            lane = vehicle.getLaneIndex(self._name) + _LANES[side]
            beside = self.roads.lanes.get(f"{vehicle.getRoadID(self._name)}_{lane}")
            if beside is not None and beside.for_cars:
                yield "changeLane", (self._name, lane, 2.0)

    def _pose(self, action: Action) -> Command:
        """Returns the command for the next pose that a planner chose.

        The pose is converted from the ego's frame of reference to that of the
        simulation.
        """
        vehicle = self._sumo.vehicle
        forward, left = amount(action, "forward_m", 0.0), amount(action, "left_m", 0.0)
        x, y = vehicle.getPosition(self._name)
        angle = vehicle.getAngle(self._name)
        heading = math.radians(90.0 - angle)
        x += forward * math.cos(heading) - left * math.sin(heading)
        y += forward * math.sin(heading) + left * math.cos(heading)
        angle -= amount(action, "turn_left_deg", 0.0)
        return "moveToXY", (self._name, "", -1, x, y, angle, 2)

    def values(self) -> dict[str, Value]:
        return self._values

    @property
    def facts(self) -> dict[str, float]:
        """The fact `others_collided`: the number of pairs of other road users that
        collided.
        """
        return {"others_collided": len(self._others)}

    def actuator(self) -> CarActuator:
        return CarActuator(self._around)

    def close(self) -> None:
        super().close()
        wire.release(self)

    def ground(self) -> list[Shape]:
        """Returns the road network for pictures; junctions are outlines."""
        self._regain()
        junction = self._sumo.junction
        outlines = [
            Shape("junction", tuple((x, y) for x, y, *_ in junction.getShape(name)))
            for name in junction.getIDList()
            if not name.startswith(":")
        ]
        outlines = [shape for shape in outlines if len(set(shape.points)) > 2]
        lanes = [each for each in self._shown.ground() if each.kind != "junction"]
        return [*outlines, *lanes]

    def things(self) -> list[Thing]:
        """Returns the ego, other road users and traffic lights for pictures."""
        self._regain()
        return self._shown.things(self._struck)

    # -- for stand-ins, which serve the simulation through another protocol ------------

    @property
    def sumo(self) -> Any:
        """The module libsumo, with the episode of this world loaded."""
        self._regain()
        return self._sumo

    @property
    def roads(self) -> Roads:
        """The road network."""
        return _roads(self._map, self._sumo)

    # -- the simulation ---------------------------------------------------------------

    def _regain(self) -> None:
        """Restores the state if another world has taken over the simulation."""
        if not wire.has(self):
            self._sumo = self.beginning.load(self, self._seed)
            for past in self._past:
                self._command(past)

    def _command(self, commands: tuple[Command, ...]) -> None:
        vehicle = self._sumo.vehicle
        for name, arguments in commands:
            getattr(vehicle, name)(*arguments)
        self._sumo.simulationStep()

    def _see(self, before: float, horn: bool) -> None:
        time_s = round(len(self._past) * self._period_s, 6)
        hit = self._hit(before)
        values = self._senses.values(time_s, collision=hit is not None, horn=horn)
        ego = self._senses.scene.vehicles.get(self._name)
        if ego is not None and values:
            self._speed = ego.speed
        else:
            arrived = self._name in self._sumo.simulation.getArrivedIDList()
            # A planner may drive past the end of the route.
            arrived = arrived or (ego is not None and self._senses.left_m < _END_M)
            self.over = "the ego arrived" if arrived else "the ego left the road"
            values = {**self._values, "destination_reached": arrived}
            values["collision"] = hit is not None
        if hit is not None:
            self.over = f"the ego and {hit} collided"
        self._values = values

    def _hit(self, before: float) -> str | None:
        """Returns the road user that the ego hit in this step, or None."""
        for crash in self._sumo.simulation.getCollisions():
            pair = crash.collider, crash.victim
            if self._name not in pair:
                self._others.add(frozenset(pair))
                continue
            other = pair[1] if pair[0] == self._name else pair[0]
            if other in self._sumo.vehicle.getIDList():
                self._struck = other
                return "a vehicle"
            if before > TOUCH:
                self._struck = other
                return "a pedestrian"
        return None

    def _around(self) -> CarSurroundings:
        self._regain()
        return self._senses.around(self._speed)


_KNOWN: dict[tuple[Path, int], Roads] = {}


def _roads(path: Path, sumo: Any) -> Roads:
    """Returns the road network, which is cached until the file changes."""
    key = path, path.stat().st_mtime_ns
    if key not in _KNOWN:
        _KNOWN[key] = Roads(SumoNet(sumo))
    return _KNOWN[key].on(SumoNet(sumo))
