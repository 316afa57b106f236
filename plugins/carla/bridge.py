"""A world that runs a scenario on a CARLA server.

Without a host, the world starts a stand-in server, whose traffic is simulated by SUMO.
The same scenario and seed therefore produce the same traffic as in the world `sumo`.
"""

from __future__ import annotations

import math
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

from pydantic import Field

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.carla.act import Steering
from forewarn.plugins.carla.sense import Bumps, CarlaSenses, MapData
from forewarn.plugins.carla.support import carla_module
from forewarn.plugins.carla.wire import (
    LOOPBACK,
    PORT,
    CarlaLost,
    StandIn,
    answering,
    connect,
)
from forewarn.plugins.contracts import Example, Source, SteppedWorld
from forewarn.plugins.driving.act import CAR_ACTIONS, CarActuator, Wheel
from forewarn.plugins.driving.sense import PROVIDES, Surroundings
from forewarn.plugins.sumo.support import find_map
from forewarn.plugins.sumo.traffic import Car, Ego, Flow, Light, Queue, Walkers

HERO = "hero"
_BLINKS = {"left": 32, "right": 16, "u_turn": 32, "hazard": 48}
_ARRIVAL_M = 1.0
_SEEN_S = _ANSWERS_S = 5.0
_WHEELBASE = 1.2  # the wheelbase divided by half the car's length

_MOTION = (
    "speed", "acceleration", "brake", "throttle", "braking", "time_to_collision",
    "time_to_stop_line", "required_deceleration", "line_deceleration",
    "line_shortfall", "shortfall", "standing_age", "headway",
)  # fmt: skip

Period = Annotated[float, Field(gt=0.01, le=1)]


class CarlaWorld(SteppedWorld):
    """A world on a CARLA server, in which a pilot chooses the ego's acceleration.

    The settings are those of the world `sumo`, so that scenarios run in both worlds
    without changes.

    Args:
        scenario: The name or file of the scenario whose traffic the stand-in simulates.
        host: The host of a CARLA server that already simulates the traffic of the
            scenario. Without it, a stand-in server is started.
        port: The port of the server.
        map: The name of the SUMO net that defines the edges of the route.
        ego: The ego's start and destination.
    """

    actions = CAR_ACTIONS

    @staticmethod
    def example() -> Example:
        """Returns an example of a world with a stand-in server."""
        return Example(
            {
                "scenario": "s1",
                "ego": {
                    "route": ["west_in", "east_out"], "lane": 2, "position_m": 100.0
                },
            },
            pilot="sumo-driver",
            steps=20,
        )  # fmt: skip

    def __init__(
        self,
        *,
        scenario: str = "",
        host: str = "",
        port: int = PORT,
        map: str = "crossing",
        ego: Ego,
        flows: list[Flow] | None = None,
        cars: list[Car] | None = None,
        queues: list[Queue] | None = None,
        walkers: list[Walkers] | None = None,
        light: Light | None = None,
        surroundings: Surroundings | None = None,
        period_s: Period = 0.1,
    ) -> None:
        if not scenario and not host:
            raise InvalidInput(
                "the world carla requires `scenario` or `host`",
                mend=(
                    "to run a scenario in CARLA, use "
                    "`forewarn run SCENARIO --world carla`"
                ),
            )
        carla_module()
        self._scenario, self._host, self._port = scenario, host, port
        self._map, self._edges = map, tuple(ego.route)
        self._surroundings = surroundings or Surroundings()
        self._period_s = period_s
        self.source = Source("carla 0.9.16", "driving", PROVIDES, period_s)
        self._bumps: Bumps | None = None
        self._stand_in: StandIn | None = None

    # -- methods of a world -----------------------------------------------------------

    def begin(self, seed: int) -> None:
        self._drop_sensor()
        host, port = self._server(seed)
        self._where = host, port
        with self._answering():
            self._world = connect(host, port, _ANSWERS_S).get_world()
            data = _data(self._world, self._map)
            ego = self._find_ego()
            route = _route(data, self._map, self._edges)
            self._ego = ego
            self._senses = CarlaSenses(
                self._world, ego, data, self._period_s, route, self._surroundings
            )
            self._bumps = Bumps(self._world, ego)
            half_m = ego.bounding_box.extent.x
            self._steering = Steering(
                data.roads, data.places, half_m, _WHEELBASE * half_m
            )
            self._wheel, self.over = Wheel(), None
            self._lamps = 0
            self._values: dict[str, Any] = {}
            self._see(0.0, horn=False)
        if self.over is not None:
            raise InvalidInput(f"the episode cannot begin, because {self.over}")

    def move(self, action: Action | None) -> None:
        speed = self._values["speed"] / 3.6
        action, acceleration = self._wheel.take(action, self._values, speed)
        told = {} if action is None else action.arguments
        with self._answering():
            self._change_lane(told.get("lane_change"))
            self._signal(told.get("turn_signal"))
            self._drive(acceleration)
            self._world.tick()
            time_s = round((self.steps + 1) * self._period_s, 6)
            self._see(time_s, told.get("horn") is True)

    def values(self) -> dict[str, Any]:
        return self._values

    def actuator(self) -> CarActuator:
        return CarActuator(lambda: self._senses.around(self._values["speed"] / 3.6))

    def close(self) -> None:
        super().close()
        self._drop_sensor()
        if self._stand_in is not None:
            _FREE.setdefault(self._scenario, []).append(self._stand_in)
            self._stand_in = None

    # -- seeing -----------------------------------------------------------------------

    def _see(self, time_s: float, horn: bool) -> None:
        values = self._senses.read(
            self._world.get_snapshot(),
            time_s,
            bump=None if self._bumps is None else self._bumps.take(),
            horn=horn,
        )
        if "stop_line_distance" not in values:
            self.over = "the ego left the road"
            self._values = {**self._values, **values}
            return
        if self._senses.left_m < max(_ARRIVAL_M, values["speed"] / 3.6 * 0.1):
            self.over = "the ego arrived"
            values["destination_reached"] = True
        if values["collision"]:
            others = self._senses.scene.people
            hit = "a pedestrian" if self._senses.struck in others else "a vehicle"
            self.over = f"the ego and {hit} collided"
            # The collision changes the speed, so use the values just before it.
            values |= {name: self._values[name] for name in _MOTION}
        self._values = {name: values[name] for name in PROVIDES}

    # -- driving ----------------------------------------------------------------------

    def _drive(self, acceleration: float) -> None:
        scene = self._senses.scene
        mover, speed = scene.ego, self._values["speed"] / 3.6
        steer = self._steering.angle(mover, scene.way())
        wanted = max(0.0, speed + acceleration * self._period_s)
        control = carla_module().VehicleAckermannControl(
            steer, 0.0, wanted, abs(wanted - speed) / self._period_s, 0.0
        )
        self._ego.apply_ackermann_control(control)

    def _change_lane(self, side: str | None) -> None:
        if side is None:
            return
        step = 1 if side == "left" else -1
        mover = self._senses.scene.ego
        roads = self._senses.scene.roads
        beside = roads.neighbour(roads.lanes[mover.lane], step)
        if beside is not None and beside.for_cars:
            self._steering.change_to(beside.name)

    def _signal(self, wanted: str | None) -> None:
        """Sets the turn signals as commanded or, by default, for the next turn."""
        if wanted is None:
            wanted = self._values["direction"]
        lamps = _BLINKS.get(wanted or "", 0)
        if lamps != self._lamps:
            self._lamps = lamps
            self._ego.set_light_state(carla_module().VehicleLightState(lamps))

    # -- the server -------------------------------------------------------------------

    def _server(self, seed: int) -> tuple[str, int]:
        if self._host:
            return self._host, self._port
        if self._stand_in is None or not self._stand_in.runs:
            self._stand_in = _stand_in(self._scenario)
        self._stand_in.restart(seed)
        return LOOPBACK, self._stand_in.port

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Ends the episode if the server stops answering."""
        try:
            with answering(*self._where):
                yield
        except CarlaLost:
            self.over = "the server is lost"
            self._bumps = None
            raise

    def _drop_sensor(self) -> None:
        if self._bumps is not None:
            self._bumps.close()
            self._bumps = None

    def _find_ego(self) -> Any:
        """Waits for the ego, which appears shortly after the episode begins."""
        until_s = time.monotonic() + _SEEN_S
        while time.monotonic() < until_s:
            for actor in self._world.get_actors():
                if actor.attributes.get("role_name") == HERO:
                    return actor
            time.sleep(_SEEN_S / 100.0)
        raise InvalidInput(f"the CARLA world has no vehicle with the role {HERO}")


_FREE: dict[str, list[StandIn]] = {}
"""Idle stand-in servers by scenario."""
_MAPS: dict[tuple[str, int], MapData] = {}


def _stand_in(scenario: str) -> StandIn:
    """Returns an idle stand-in server for a scenario, or starts one."""
    free = _FREE.get(scenario, [])
    while free:
        server = free.pop()
        if server.runs:
            return server
        server.stop()
    if any(_FREE.values()):
        stop_servers()  # idle stand-in servers of other scenarios
    return StandIn(["--scenario", scenario])


def stop_servers() -> None:
    """Stops the idle stand-in servers; the next episode starts a new one."""
    for servers in _FREE.values():
        while servers:
            servers.pop().stop()


def _data(world: Any, name: str) -> MapData:
    road_map = world.get_map()
    key = name, len(road_map.to_opendrive())
    if key not in _MAPS:
        _MAPS[key] = MapData(road_map)
    return _MAPS[key]


def _route(data: MapData, name: str, edges: Sequence[str]) -> tuple[str, ...]:
    """Converts a route along the edges of a SUMO net to edges of CARLA's map."""
    wanted: dict[str, tuple[float, float, float]] = {}
    for edge in ET.parse(find_map(name)).iter("edge"):  # noqa: S314  a file of ours
        lanes = edge.findall("lane")
        if edge.get("id") in edges and lanes:
            points = [
                (float(x), float(y))
                for x, y, *_ in (
                    point.split(",") for point in lanes[-1].get("shape", "").split()
                )
            ]
            (ax, ay), (bx, by) = points[len(points) // 2 - 1 : len(points) // 2 + 1]
            heading = math.degrees(math.atan2(by - ay, bx - ax))
            wanted[edge.get("id", "")] = (ax + bx) / 2.0, (ay + by) / 2.0, heading
    route: list[str] = []
    for edge_name in edges:
        found = data.edge_at(*wanted[edge_name]) if edge_name in wanted else None
        if found is None:
            raise InvalidInput(f"the map has no road for the edge {edge_name!r:.60}")
        route.append(found)
    return tuple(route)
