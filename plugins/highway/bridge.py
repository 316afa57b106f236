"""Roads of highway-env as worlds, with its driver models and commands for the ego.

While the driver is attentive, the ego follows the models of highway-env: IDM for the
distance, and MOBIL for lane changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import MissingDependency
from forewarn.plugins.contracts import Example
from forewarn.plugins.driving.drivers import (
    BRAKE,
    CAP,
    FASTEST,
    GREATEST,
    HEADWAY,
    LEAST,
    LOOKS,
    MOST,
    PERIOD_S,
    WANTS,
    Driver,
    DriverWorld,
)

try:
    import gymnasium
    from highway_env.vehicle.behavior import IDMVehicle
    from highway_env.vehicle.kinematics import Vehicle
except ImportError as error:
    raise MissingDependency("highway-env", "highway") from error

IDS = {
    "highway": "highway-v0",
    "merge": "merge-generic-v1",
    "roundabout": "roundabout-v1",
    "intersection": "intersection-v2",
}
"""The id of the environment for each road."""

_RESPONSE_S = 0.5  # time constant of the response to a speed cap
_SLOWING_HZ, _SLOW_S, _SLOW = 0.12, (1.5, 4.0), 3.0  # frequency, duration, m/s
_WAY_M = 350.0
ARRIVED: dict[str, Callable[[Any, float], bool]] = {
    "highway": lambda env, way_m: way_m > _WAY_M,
    "merge": lambda env, way_m: bool(env.vehicle.position[0] > env.end_position),
    "roundabout": lambda env, way_m: env.vehicle.lane_index[1].endswith(("xs", "xr")),
    "intersection": lambda env, way_m: bool(env.has_arrived(env.vehicle)),
}
"""Returns whether the ego has arrived, given the environment and the distance driven.
"""

SPACE = gymnasium.spaces.Box(np.array(LEAST), np.array(GREATEST), dtype=np.float64)

# The intersection of highway-env modifies the class of its drivers, which would affect
# later episodes. Each road and the ego therefore have classes of their own.
TRAFFIC = {road: f"{__name__}.{road.title()}Traffic" for road in IDS}


class Onward(IDMVehicle):
    """A vehicle that stops when it brakes to a standstill, instead of reversing.

    In the model of highway-env, a vehicle that has stopped too close to another vehicle
    reverses at increasing speed.
    """

    def clip_actions(self) -> None:
        super().clip_actions()
        least = -float(self.speed) / PERIOD_S  # reaches a standstill within one step
        self.action["acceleration"] = max(self.action["acceleration"], least)


class Wavering(Onward):
    """A vehicle that sometimes brakes hard at random."""

    target_speed: float
    _slow_s = 0.0
    _wants: float | None = None

    def step(self, dt: float) -> None:
        luck = self.road.np_random
        if self._wants is None:
            self._wants = self.target_speed
        self._slow_s -= dt
        if luck.uniform() < _SLOWING_HZ * dt:
            self._slow_s = luck.uniform(*_SLOW_S)
        slows = self._slow_s > 0.0
        self.target_speed = _SLOW if slows else self._wants
        super().step(dt)


class HighwayTraffic(Wavering):
    """A vehicle other than the ego on a motorway."""


class MergeTraffic(Wavering):
    """A vehicle other than the ego at a merge."""


class RoundaboutTraffic(Onward):
    """A vehicle other than the ego in or near a roundabout."""


class IntersectionTraffic(Onward):
    """A vehicle other than the ego at an intersection."""


class Ego(Onward):
    """The ego, which reacts only while its driver is attentive."""

    told: Any = (25.0, 1.5, 1.0, FASTEST, 6.0)

    def act(self, action: Any = None) -> None:
        if self.crashed:
            return
        told, before = self.told, self.action
        self.target_speed, self.TIME_WANTED = float(told[WANTS]), float(told[HEADWAY])
        looks = told[LOOKS] >= 0.5
        self.enable_lane_change = bool(looks)
        super().act()
        acceleration = float(self.action["acceleration"])
        if not looks:
            acceleration = max(0.0, float(before["acceleration"]))
        room = (float(told[CAP]) - self.speed) / _RESPONSE_S
        acceleration = max(-BRAKE, min(acceleration, room, float(told[MOST])))
        Vehicle.act(self, {**self.action, "acceleration": acceleration})


class Road(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A highway-env environment in which the ego follows commands until it arrives.

    Args:
        env: The environment to wrap.
        road: The name of the road.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], road: str) -> None:
        super().__init__(env)
        self.action_space = SPACE
        self._arrived, self._spares = ARRIVED[road], road == "intersection"

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        seen = self.env.reset(**options)
        env: Any = self.env.unwrapped
        former, vehicles = env.vehicle, env.road.vehicles
        ego = Ego.create_from(former)
        vehicles[vehicles.index(former)] = ego
        if self._spares:
            # Like the clean-up of highway-env, which however skips the vehicle after
            # each vehicle that it removes.
            vehicles[:] = [v for v in vehicles if v is ego or _apart_m(v, ego) >= 20.0]
        env.controlled_vehicles = [ego]
        self._began_m = float(ego.position[0])
        return seen

    def step(self, action: NDArray[Any]) -> Any:
        env: Any = self.env.unwrapped
        env.vehicle.told = action
        # Without an action, all vehicles follow their models.
        seen, reward, terminated, truncated, info = env.step(None)
        way_m = float(env.vehicle.position[0]) - self._began_m
        arrived = not env.vehicle.crashed and self._arrived(env, way_m)
        info["destination_reached"] = arrived
        return seen, reward, terminated or arrived, truncated, info


def _apart_m(one: Any, other: Any) -> float:
    return float(np.hypot(*(np.asarray(one.position) - np.asarray(other.position))))


def make(road: str, **config: Any) -> Road:
    """Creates an environment for a road, with changes to its configuration."""
    import highway_env  # noqa: F401 - registers the environments

    given = {
        "policy_frequency": round(1 / PERIOD_S),
        "simulation_frequency": round(1 / PERIOD_S),
        "other_vehicles_type": TRAFFIC[road],
        # Observations are not needed, because signals are computed from the simulation.
        "observation": {"type": "AttributesObservation", "attributes": []},
    }
    settings = {**given, **config}
    made = gymnasium.make(
        IDS[road], render_mode="rgb_array", disable_env_checker=True, config=settings
    )
    return Road(made, road)


try:
    from forewarn.plugins.highway.sense import RoadSenses
except ImportError as error:
    raise MissingDependency("highway-env", "highway") from error


class HighwayWorld(DriverWorld):
    """A world with a highway-env road, in which the pilot sends commands to the ego's
    driver.

    Args:
        road: The name of the road.
        config: Changes to the configuration of the environment.
        rss: Whether to add the longitudinal RSS margin.
    """

    @staticmethod
    def example() -> Example:
        """Returns an example with a road without traffic."""
        config = {"vehicles_count": 1, "duration": 30}
        return Example({"road": "highway", "config": config}, pilot="highway", steps=8)

    def __init__(
        self,
        *,
        road: Literal["highway", "merge", "roundabout", "intersection"],
        config: dict[str, Any] | None = None,
        rss: bool = False,
    ) -> None:
        def highway_env() -> Any:
            return make(road, **(config or {}))

        senses = RoadSenses(rss=rss)
        super().__init__(highway_env, senses, lambda env: env.vehicle.told)


class HighwayDriver(Driver):
    """A pilot for the worlds of highway-env."""

    @staticmethod
    def example() -> Example:
        return Example(world="highway", steps=8)
