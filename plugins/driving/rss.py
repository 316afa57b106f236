"""Safe distances of Responsibility-Sensitive Safety (RSS), computed by Intel's library.

The extra `rss` installs the library, `ad-rss`. The default parameters are those of
CARLA for a car.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

from forewarn.abstractions.errors import MissingDependency
from forewarn.plugins.driving.others import Conflict
from forewarn.plugins.driving.scene import EGO_WIDTH_M, Scene


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of RSS.

    Accelerations are in m/s², and braking is positive.

    Args:
        response_s: The response time in seconds.
        accelerates: The maximum acceleration during the response time.
        brakes_most: The maximum braking of the vehicle ahead.
        brakes_least: The minimum braking after the response time.
        sideways: The maximum lateral acceleration during the response time.
        sideways_brakes: The minimum lateral braking after the response time.
        sways_m: The lateral fluctuation of vehicles within their lanes.
    """

    response_s: float = 1.0
    accelerates: float = 3.5
    brakes_most: float = 8.0
    brakes_least: float = 4.0
    sideways: float = 0.2
    sideways_brakes: float = 0.8
    sways_m: float = 0.0


class SafeDistances:
    """Computes the safe distances between two road users according to RSS.

    Raises:
        MissingDependency: ad-rss is not installed.
    """

    def __init__(self, parameters: Parameters | None = None) -> None:
        rss = library()
        self._physics, self._formulas = rss.physics, rss.rss.structured
        given = parameters or Parameters()
        self._one, self._other = (_someone(rss, given) for _ in range(2))
        self._least = given.brakes_least
        self._response_s, self._accelerates = given.response_s, given.accelerates
        self._found = rss.physics.Distance(0.0)

    def behind(self, speed: float, lead_speed: float) -> float:
        """Returns the safe distance behind a vehicle in m; speeds are in m/s."""
        self._along(self._one, speed)
        self._along(self._other, lead_speed)
        return self._value(
            self._formulas.calculateSafeLongitudinalDistanceSameDirection(
                self._other, self._one, self._found
            )
        )

    def towards(self, speed: float, oncoming_speed: float) -> float:
        """Returns the safe distance between oncoming vehicles in m; speeds are in m/s.

        Each vehicle is assumed to be in its own lane.
        """
        self._along(self._one, speed)
        self._along(self._other, oncoming_speed)
        return self._value(
            self._formulas.calculateSafeLongitudinalDistanceOppositeDirection(
                self._one, self._other, self._found
            )
        )

    def beside(self, left_speed: float, right_speed: float) -> float:
        """Returns the safe lateral distance between two vehicles in m.

        The arguments are lateral speeds in m/s, positive to the right.
        """
        for who, speed in ((self._one, left_speed), (self._other, right_speed)):
            velocity = who.structured_object_state.velocity
            velocity.speed_lat_min = velocity.speed_lat_max = self._physics.Speed(speed)
        return self._value(
            self._formulas.calculateSafeLateralDistance(
                self._one, self._other, self._found
            )
        )

    def stopping(self, speed: float) -> float:
        """Returns the stopping distance in m, including the response time."""
        physics = self._physics
        formula = (
            self._formulas.calculateLongitudinalDistanceOffsetAfterStatedBrakingPattern
        )
        return self._value(
            formula(
                physics.Speed(speed),
                physics.Speed(100.0),
                physics.Duration(self._response_s),
                physics.Acceleration(self._accelerates),
                physics.Acceleration(-self._least),
                self._found,
            )
        )

    def _along(self, who: Any, speed: float) -> None:
        velocity = who.structured_object_state.velocity
        velocity.speed_lon_min = velocity.speed_lon_max = self._physics.Speed(speed)

    def _value(self, worked: bool) -> float:
        if not worked:
            raise ValueError("ad-rss rejected the input")
        return float(self._found.mDistance)


def library() -> Any:
    """Imports the module `ad_rss`.

    Raises:
        MissingDependency: The module is not installed.
    """
    try:
        with warnings.catch_warnings():
            # The library registers a converter twice, which causes a warning.
            warnings.filterwarnings(
                "ignore", "to-Python converter", category=RuntimeWarning
            )
            return import_module("ad_rss")
    except ImportError as error:
        raise MissingDependency("Responsibility-Sensitive Safety", "rss") from error


def _someone(rss: Any, given: Parameters) -> Any:
    """Creates a road user as an object of the library.

    The library also validates the fields that it does not use, so they are filled
    in.
    """
    physics, world = rss.physics, rss.rss.world
    who = rss.rss.core.RelativeObjectState()
    who.object_type = world.ObjectType.OtherVehicle
    dynamics = who.dynamics
    along, across = dynamics.alpha_lon, dynamics.alpha_lat
    along.accel_max = physics.Acceleration(given.accelerates)
    along.brake_max = physics.Acceleration(-given.brakes_most)
    along.brake_min = physics.Acceleration(-given.brakes_least)
    along.brake_min_correct = physics.Acceleration(-given.brakes_least)
    across.accel_max = physics.Acceleration(given.sideways)
    across.brake_min = physics.Acceleration(-given.sideways_brakes)
    dynamics.lateral_fluctuation_margin = physics.Distance(given.sways_m)
    dynamics.response_time = physics.Duration(given.response_s)
    dynamics.max_speed_on_acceleration = physics.Speed(100.0)
    _fill(physics, dynamics.unstructured_settings)
    _fill(physics, who.unstructured_object_state)
    state = who.structured_object_state
    for end in ("speed_lon_min", "speed_lon_max", "speed_lat_min", "speed_lat_max"):
        setattr(state.velocity, end, physics.Speed(0.0))
    state.has_priority, state.is_in_correct_lane = False, True
    state.distance_to_enter_intersection = physics.Distance(0.0)
    state.distance_to_leave_intersection = physics.Distance(0.0)
    return who


def _fill(physics: Any, record: Any) -> None:
    """Sets valid numbers in fields that the library validates but does not use."""
    quantities = (
        physics.Angle, physics.AngularAcceleration, physics.AngularVelocity,
        physics.Distance, physics.Duration, physics.Speed,
    )  # fmt: skip
    for name in dir(record):
        if name.startswith("_") or name == "assign":
            continue
        value = getattr(record, name)
        if isinstance(value, quantities):
            setattr(record, name, type(value)(1.0))
        elif not isinstance(value, int):
            _fill(physics, value)


SIGNALS = ("rss_longitudinal_margin", "rss_lateral_margin")

SEEN_M = 80.0
_MOST_M = 1000.0
_MAX_GAIN = 3.5  # m/s: the ego's maximum gain of speed during its response time
_RESPONSE_S = 1.0


class Margins(NamedTuple):
    """The longitudinal and lateral RSS margins to one road user."""

    along_m: float
    across_m: float


class RssMargins:
    """Computes the RSS margins of the ego to the most critical road user."""

    def __init__(self) -> None:
        self._safe = SafeDistances()

    def values(
        self, scene: Scene, conflicts: Iterable[Conflict]
    ) -> dict[str, float | None]:
        """Returns the RSS signals at this time.

        Args:
            scene: The scene with all road users.
            conflicts: The conflicts with crossing road users.
        """
        found = [*self._near(scene), *self._crossing(scene.ego.speed, conflicts)]
        if not found:
            return dict.fromkeys(SIGNALS)
        critical = min(found, key=max)
        bounded = (max(-_MOST_M, min(_MOST_M, margin)) for margin in critical)
        return {k: round(v, 3) for k, v in zip(SIGNALS, bounded, strict=True)}

    def _near(self, scene: Scene) -> Iterator[Margins]:
        ego = scene.ego
        hx, hy = math.cos(ego.heading), math.sin(ego.heading)
        vehicles = map(scene.watch, scene.vehicles.values())
        for other in (*vehicles, *scene.people.values()):
            dx, dy = other.x - ego.x, other.y - ego.y
            if other is ego or abs(dx) > SEEN_M or abs(dy) > SEEN_M:
                continue
            turned = other.heading - ego.heading
            along, aside = math.cos(turned), math.sin(turned)
            half_l, half_w = other.length / 2.0, other.width / 2.0
            ahead = dx * hx + dy * hy - half_l * along
            left = dy * hx - dx * hy - half_l * aside
            reach = half_l * abs(along) + half_w * abs(aside)
            breadth = half_l * abs(aside) + half_w * abs(along)
            if ahead + reach < -ego.length:
                continue
            yield Margins(
                ahead - reach - self._apart_along(ego.speed, other.speed * along),
                abs(left) - breadth - EGO_WIDTH_M / 2.0
                - self._apart_across(left, other.speed * aside),
            )  # fmt: skip

    def _apart_along(self, speed: float, its: float) -> float:
        if its >= 0.0:
            return self._safe.behind(speed, its)
        return self._safe.towards(speed, -its)

    def _apart_across(self, left: float, its: float) -> float:
        """The safe lateral distance to a road user; speeds are positive to the left."""
        if left > 0.0:
            return self._safe.beside(-its, 0.0)
        return self._safe.beside(0.0, -its)

    def _crossing(
        self, speed: float, conflicts: Iterable[Conflict]
    ) -> Iterator[Margins]:
        for begins, ends, comes_s, leaves_s in conflicts:
            gone = leaves_s < begins / (speed + _MAX_GAIN)
            passed = speed > 0.0 and comes_s > ends / speed + _RESPONSE_S
            if begins > 0.0 and not gone and not passed:
                room = begins - self._safe.stopping(speed)
                yield Margins(room, room)
