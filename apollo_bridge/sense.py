"""Computes signals from Apollo's messages, including the age of each input.

The signals have the same meaning as in SUMO, because the same code computes them, from
the map, localization, perception and prediction. Values that Apollo itself measures are
used directly. The signals of an input that has never arrived are omitted. Messages that
contain NaN are invalid.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from forewarn.abstractions.errors import SignalFault
from forewarn.apollo_bridge.channels import INPUTS
from forewarn.apollo_bridge.maps import Network, RoadMap
from forewarn.apollo_bridge.scene import (
    TURN_SIGNALS,
    ApolloScene,
    Body,
    check_obstacles,
)
from forewarn.plugins.driving.places import Places
from forewarn.plugins.driving.roads import Roads
from forewarn.plugins.driving.scene import (
    SceneShown,
    TurnSignal,
)
from forewarn.plugins.driving.sense import PROVIDES, Senses, Surroundings


def planned(planning: Any) -> dict[str, Any]:
    """Computes the signals that are based on a planning message."""
    task = planning.decision.main_decision.WhichOneof("task")
    return {
        "destination_reached": task == "mission_complete",
        "overtaking": any(
            kind.WhichOneof("object_tag") == "overtake"
            for each in planning.decision.object_decision.decision
            for kind in each.object_decision
        ),
    }


OWN = (
    "speed", "acceleration", "brake", "throttle", "gear", "engine_on",
    "manual_control", "turn_signal", "horn_on", "high_beam_on", "low_beam_on",
    "warning_flash_on", "braking",
)  # fmt: skip
"""The signals that need only the chassis and localization messages."""

_UNTOLD = frozenset(
    {"fog_light_on", "special_location", "special_location_distance", "snapshot_age"}
)
"""The signals that Apollo does not provide."""

_FROM: Mapping[str, frozenset[str]] = {
    "obstacles": frozenset(
        {"lead_distance", "lead_speed", "nearest_distance", "nearest_speed",
         "oncoming_distance", "oncoming_speed", "pedestrian_distance",
         "priority_vehicle", "priority_pedestrian", "traffic_jam", "collision",
         "required_deceleration", "time_to_collision", "arrival_gap",
         "pedestrian_arrival_gap"}
    ),
    "lights": frozenset(
        {"traffic_light", "traffic_light_blinking", "traffic_light_age",
         "arrow_light", "arrow_light_blinking", "required_deceleration"}
    ),
    "planning": frozenset({"destination_reached", "overtaking", "direction"}),
}  # fmt: skip

_FORETOLD = frozenset(
    {"shortfall", "unanswered_age", "headway", "lead_acceleration", "giving_way_age",
     "jam_age", "priority_gap", "priority_arrival", "side_margin"}
)  # fmt: skip
"""The signals that depend indirectly on other road users; these signals are unknown if
the other road users are unknown.
"""

_GEARS = {0: "neutral", 1: "drive", 2: "reverse", 3: "parking", 4: "drive"}
_AUTO = 1


def provided(
    inputs: Collection[str], surroundings: Mapping[str, Any]
) -> tuple[str, ...]:
    """Returns the names of the signals in each frame.

    Args:
        inputs: The names of the available inputs, from `INPUTS`.
        surroundings: The values that are given for the weather and the time of day, by
            signal.
    """
    constant = set(Surroundings.model_fields) - set(surroundings)
    left_out = _UNTOLD | constant
    for name, signals in _FROM.items():
        if name not in inputs:
            left_out |= signals
    # The chassis may lack the time of day, so that signal is not declared.
    known = [name for name in PROVIDES if name not in left_out]
    return (*known, *(f"{name}_age" for name in INPUTS if name in inputs))


class ApolloSenses:
    """Computes the signals of one frame after another.

    Args:
        road_map: Apollo's map.
        body: The dimensions of the ego vehicle.
        surroundings: The values that are given for the weather and the time of day, by
            signal.
        period_s: The time between two frames in seconds.
    """

    def __init__(
        self,
        road_map: RoadMap,
        body: Body | None = None,
        surroundings: Mapping[str, Any] | None = None,
        period_s: float = 0.1,
    ) -> None:
        self._body = body or Body()
        self._told = dict(surroundings or {})
        constant = set(Surroundings.model_fields) - set(self._told)
        self._left_out = _UNTOLD.union(OWN, constant)
        self._period_s = period_s
        self._network = Network(road_map)
        self._roads = Roads(self._network)
        self._places = Places(self._roads)
        self.reset()

    def resize(self, body: Body) -> None:
        """Sets the dimensions of the ego vehicle from the next episode on."""
        self._body = body

    def reset(self) -> None:
        """Begins an episode."""
        self.fault = ""
        self._speed: float | None = None
        scene = ApolloScene(self._network, self._roads, self._places, self._body)
        surroundings = Surroundings(**self._told)
        self._looking = _Looking(scene, surroundings, self._period_s)

    @property
    def shown(self) -> SceneShown:
        """The scene for live views."""
        return SceneShown(self._roads, lambda: self._looking.scene)

    def values(self, time_s: float, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Computes the signals of a frame; `fault` describes the invalid value, if any.

        Signals that depend on an invalid value are omitted. For example, if an obstacle
        has no speed, the signals about other road users are omitted, but not those
        about the ego.

        Args:
            time_s: The time by Apollo's clock in seconds.
            inputs: The newest message received on each input, and the newest `routing`
            message.
        """
        self.fault = ""
        pose, chassis = inputs.get("localization"), inputs.get("chassis")
        if pose is None or chassis is None:
            return {}
        own = self._own(pose.pose, chassis)
        if "speed" not in own:
            return own
        try:
            values = self._around(time_s, own["speed"] / 3.6, inputs)
        except SignalFault as fault:
            self.fault = str(fault)
            values = {}
        if not values:
            return values | own
        # Measurements that the car does not report are not replaced by computed values.
        for name in self._left_out:
            values.pop(name, None)
        for name, signals in _FROM.items():
            if inputs.get(name) is None:
                for signal in signals:
                    values.pop(signal, None)
        return values | own

    def _around(
        self, time_s: float, speed: float, inputs: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Computes the signals about the road and, if no obstacle is invalid, about
        other road users.
        """
        try:
            check_obstacles(inputs.get("obstacles"))
        except SignalFault as fault:
            self.fault = str(fault)
            inputs = {**inputs, "obstacles": None}
        values = self._looking.look(time_s, speed, inputs)
        if self.fault:
            for name in _FROM["obstacles"] | _FORETOLD:
                values.pop(name, None)
        return values

    def _own(self, pose: Any, chassis: Any) -> dict[str, Any]:
        """Returns the car's own measurements; unknown values are omitted."""
        speed = abs(chassis.speed_mps)
        before, self._speed = self._speed, speed
        gains = _along(pose)
        if gains is None:
            gains = 0.0 if before is None else (speed - before) / self._period_s
        signal = chassis.signal
        blinks = TURN_SIGNALS[signal.turn_signal]
        if signal.emergency_light:
            blinks = TurnSignal.HAZARD
        numbers = {
            "speed": round(3.6 * speed, 3) if math.isfinite(speed) else math.nan,
            "acceleration": round(gains, 3) if math.isfinite(gains) else math.nan,
            "brake": round(chassis.brake_percentage, 2),
            "throttle": round(chassis.throttle_percentage, 2),
        }
        values: dict[str, Any] = {
            name: value for name, value in numbers.items() if math.isfinite(value)
        }
        if "acceleration" in values:
            values["braking"] = gains < -0.5
        if chassis.gear_location in _GEARS:
            values["gear"] = _GEARS[chassis.gear_location]
        gps = chassis.chassis_gps
        if "time_of_day" not in self._told and gps.gps_valid and gps.hours < 24:
            values["time_of_day"] = gps.hours + gps.minutes / 60.0
        return values | {
            "engine_on": chassis.engine_started,
            "manual_control": chassis.driving_mode != _AUTO,
            "turn_signal": blinks.value,
            "horn_on": signal.horn,
            "high_beam_on": signal.high_beam,
            "low_beam_on": signal.low_beam,
            "warning_flash_on": blinks is TurnSignal.HAZARD,
        }


def _along(pose: Any) -> float | None:
    """Returns the acceleration along the heading in m/s², or None if unknown."""
    if not pose.HasField("linear_acceleration"):
        return None
    gains = pose.linear_acceleration
    along = gains.x * math.cos(pose.heading) + gains.y * math.sin(pose.heading)
    return along if math.isfinite(along) else None


class _Looking:
    """Computes signals on Apollo's map with the code that all driving worlds share."""

    def __init__(
        self, scene: ApolloScene, surroundings: Surroundings, period_s: float
    ) -> None:
        self.scene = scene
        self._senses = Senses(scene, surroundings, period_s)

    def look(
        self, time_s: float, speed: float, inputs: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Computes the signals; returns an empty dict if the ego is not on a lane of
        the map.
        """
        scene, planning = self.scene, inputs.get("planning")
        line = [] if planning is None else [each.id for each in planning.lane_id]
        routing = inputs.get("routing")
        if not line and routing is not None:
            line = [s.id for r in routing.road for p in r.passage for s in p.segment]
        named = [n for n in map(scene.network.name_of.get, line) if n is not None]
        scene.route_lanes = frozenset(named)
        pose, chassis = inputs["localization"].pose, inputs["chassis"]
        if not math.isfinite(pose.position.x + pose.position.y + pose.heading):
            raise SignalFault("localization has no position or heading")
        scene.see_ego(time_s, pose, speed, chassis)
        if not scene.ego.lane:
            return {}
        scene.see_others(
            inputs.get("obstacles"), inputs.get("prediction"), inputs.get("lights")
        )
        scene.route = self._route(named)
        hit = scene.struck(math.inf) is not None
        values = self._senses.values(time_s, hit, chassis.signal.horn)
        if planning is not None:
            values |= planned(planning)
        if values["speed_limit"] == 0.0:
            values["speed_limit"] = None
        return values

    def _route(self, named: list[str]) -> tuple[str, ...]:
        """Returns the edges of the ego's route, given its lanes; without lanes, the
        edges straight ahead.
        """
        scene, lanes = self.scene, self.scene.roads.lanes
        scene.route = ()
        onward = scene.straight_on(scene.ego)
        if not named:
            return onward
        own = onward[0] if onward else lanes[scene.ego.lane].edge
        ahead = [lanes[name].edge for name in named if not lanes[name].inside]
        if own in ahead:
            del ahead[: ahead.index(own) + 1]
        return tuple(dict.fromkeys((own, *ahead)))
