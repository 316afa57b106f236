"""Who drives on highway-env's roads: its own driver models, and how an ego is told.

The ego keeps its distance and changes lanes by highway-env's own model (IDM and MOBIL)
whenever it looks. What an action says is how fast it would go, at which distance, and
whether it looks; and what a guard allows it at most.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import MissingDependency

try:
    import gymnasium
    from highway_env.vehicle.behavior import IDMVehicle
    from highway_env.vehicle.kinematics import Vehicle
except ImportError as error:
    raise MissingDependency("highway-env's roads", "highway") from error

IDS = {
    "highway": "highway-v0",
    "merge": "merge-v1",
    "roundabout": "roundabout-v1",
    "intersection": "intersection-v2",
}
"""The roads, by highway-env's own names of today."""

PERIOD_S = 0.2
FASTEST = 40.0  # m/s
BRAKE = 8.0  # m/s²
_RESPONDS_S = 0.5  # to a cap on the speed

WANTS, HEADWAY, LOOKS, CAP, MOST = range(5)
"""The parts of an action: m/s, s, 0 or 1, m/s, m/s²."""

SPACE = gymnasium.spaces.Box(
    np.array([0.0, 0.1, 0.0, 0.0, -BRAKE]),
    np.array([FASTEST, 5.0, 1.0, FASTEST, 6.0]),
    dtype=np.float64,
)
STOP = [0.0, 1.5, 1.0, 0.0, -BRAKE]

# highway-env changes its driver models for all episodes to come where it makes a
# crossing: each road has a model of its own, and the ego has another.
TRAFFIC = {road: f"{__name__}.{road.title()}Traffic" for road in IDS}


class HighwayTraffic(IDMVehicle):
    """Others on a motorway."""


class MergeTraffic(IDMVehicle):
    """Others where two ways become one."""


class RoundaboutTraffic(IDMVehicle):
    """Others in and before a roundabout."""


class IntersectionTraffic(IDMVehicle):
    """Others at a crossing."""


class Ego(IDMVehicle):
    """The ego: the same model, which looks when it is told to."""

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
        room = (float(told[CAP]) - self.speed) / _RESPONDS_S
        acceleration = max(-BRAKE, min(acceleration, room, float(told[MOST])))
        if self.speed <= 0.0:
            acceleration = max(0.0, acceleration)
        Vehicle.act(self, {**self.action, "acceleration": acceleration})


class Road(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A road of highway-env whose ego is told how to drive.

    Args:
        env: The environment.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.action_space = SPACE

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        seen = self.env.reset(**options)
        env: Any = self.env.unwrapped
        former, vehicles = env.vehicle, env.road.vehicles
        ego = Ego.create_from(former)
        vehicles[vehicles.index(former)] = ego
        env.controlled_vehicles = [ego]
        return seen

    def step(self, action: NDArray[Any]) -> Any:
        env: Any = self.env.unwrapped
        env.vehicle.told = action
        # Without an action of its own the environment lets its vehicles drive.
        return env.step(None)


def make(road: str, **config: Any) -> Road:
    """A road of highway-env, with changes to its configuration."""
    import highway_env  # noqa: F401 - registers them

    given = {
        "policy_frequency": round(1 / PERIOD_S),
        "simulation_frequency": 10,
        "other_vehicles_type": TRAFFIC[road],
        # Nobody looks at it: the signals come from the road itself.
        "observation": {"type": "Kinematics", "vehicles_count": 1},
    }
    settings = {**given, **config}
    return Road(gymnasium.make(IDS[road], disable_env_checker=True, config=settings))


class Driver:
    """Somebody who drives: how fast, how close, and how often looking elsewhere.

    Args:
        wants_kmh: The speed that drivers want, from and to.
        headway_s: The distance in time that they keep, from and to.
        distracted: How many of them look elsewhere now and then.
        away_s: For how long, from and to.
    """

    def __init__(
        self,
        *,
        wants_kmh: tuple[float, float] = (80.0, 130.0),
        headway_s: tuple[float, float] = (0.6, 2.0),
        distracted: float = 0.5,
        away_s: tuple[float, float] = (1.0, 4.0),
    ) -> None:
        self._wants_kmh, self._headway_s = wants_kmh, headway_s
        self._distracted, self._away_s = distracted, away_s

    def reset(self, seed: int) -> None:
        self._luck = luck = Random(f"highway driver {seed}")
        self._wants = luck.uniform(*self._wants_kmh) / 3.6
        self._headway = luck.uniform(*self._headway_s)
        self._errs = luck.random() < self._distracted
        self._looks, self._left_s = True, luck.uniform(1.0, 4.0)

    def __call__(self, observation: Any) -> list[float]:
        self._left_s -= PERIOD_S
        if self._left_s <= 0.0:
            self._looks = not (self._looks and self._errs)
            span = (1.0, 4.0) if self._looks else self._away_s
            self._left_s = self._luck.uniform(*span)
        return [self._wants, self._headway, float(self._looks), FASTEST, 6.0]


def slower(env: Any, action: list[float] | None, cap_kmh: float) -> list[float]:
    """The action with a cap on the speed."""
    told = list(env.vehicle.told if action is None else action)
    told[CAP] = min(told[CAP], cap_kmh / 3.6)
    return told
