"""Driver models with random traits that are not part of the signals.

A driver sees only the frames, and its traits affect only how it drives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any, Literal

from pydantic import Field

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.contracts import Example
from forewarn.plugins.functions import found

Share = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(ge=0)]
Profile = Literal["mixed", "cautious", "reckless"]

_BOLDNESS: dict[Profile, tuple[float, float]] = {
    "mixed": (1.6, 2.6),
    "cautious": (1.2, 8.0),
    "reckless": (6.0, 1.6),
}
_CALM: dict[Profile, float] = {"mixed": 1.0, "cautious": 0.3, "reckless": 1.8}
"""The factor for the rate at which a driver becomes inattentive, by profile."""

_BRAKE, _THRUST = 8.0, 3.5  # m/s²
_SHORT_OF_LINE_M = 1.0
_TURN_SPEED = 6.5  # m/s
_GAP_JUDGING_M = 45.0  # distance within which the driver judges gaps
_DECISION_M = 12.0
_SECOND_LOOK_S = 2.0
_REACTION_S = 0.7  # mean reaction time to a change of a traffic light
_SHOULDER_S = 0.6  # time until the driver has checked the blind spot
_SIGNALLING_S = 3.0


@dataclass(frozen=True, slots=True)
class Traits:
    """The traits of a driver, which are hidden from frames.

    Args:
        boldness: The willingness to take risks with lights, gaps and speeds, from 0 to
            1.
        speed: The speed on a free road in m/s.
        headway_s: The time gap kept to the vehicle ahead, in seconds.
        thrust: The acceleration in m/s².
        comfort: The comfortable braking in m/s².
        reaction_s: The reaction time to a change of a traffic light, in seconds.
        gap_s: The minimum time gap that the driver accepts at a junction, in seconds.
        misjudges_s: The standard deviation of the driver's error in judging time gaps,
            in seconds.
        looks_away: The rate of becoming inattentive, per second.
        looks_back: The rate of becoming attentive again, per second.
        rolls: Whether the driver turns right at a red light without stopping.
        keeps_clear: Whether the driver waits before a junction whose exit is blocked.
        lane_changes: The rate of lane changes, per second.
    """

    boldness: float
    speed: float
    headway_s: float
    thrust: float
    comfort: float
    reaction_s: float
    gap_s: float
    misjudges_s: float
    looks_away: float
    looks_back: float
    rolls: bool
    keeps_clear: bool
    lane_changes: float


class SumoDriver:
    """A simulated human driver with traits that are drawn at random for each episode.

    Args:
        profile: The population from which the driver is drawn.
        boldness: The willingness to take risks with lights, gaps and speeds, from 0 to
            1; by default, drawn from the population.
        speed_kmh: The mean speed of drivers on a free road in km/h.
        speed_sd_kmh: The standard deviation of this speed in km/h.
        headway_s: The mean time gap to the vehicle ahead in seconds.
        gap_s: The mean of the minimum time gap that drivers accept at a junction, in
            seconds.
        looks_away_per_s: The rate of becoming inattentive, per second.
        looks_back_per_s: The rate of becoming attentive again, per second.
        rolls: The fraction of drivers who turn right at a red light without stopping;
            by default, it increases with boldness.
        keeps_clear: The fraction of drivers who wait before a junction whose exit is
            blocked; by default, it decreases with boldness.
        lane_changes_per_s: The rate of lane changes, per second.
    """

    @staticmethod
    def example() -> Example:
        return Example(world="sumo", steps=60)

    def __init__(
        self,
        *,
        profile: Profile = "mixed",
        boldness: Share | None = None,
        speed_kmh: Rate = 48.0,
        speed_sd_kmh: Rate = 5.0,
        headway_s: Rate = 1.2,
        gap_s: float = 1.0,
        looks_away_per_s: Rate = 0.06,
        looks_back_per_s: Rate = 0.35,
        rolls: Share | None = None,
        keeps_clear: Share | None = None,
        lane_changes_per_s: Rate = 0.0,
    ) -> None:
        self._profile: Profile = profile
        self._boldness = boldness
        self._speed, self._speed_sd = speed_kmh / 3.6, speed_sd_kmh / 3.6
        self._headway_s, self._gap_s = headway_s, gap_s
        self._away, self._back = looks_away_per_s, looks_back_per_s
        self._rolls, self._keeps_clear = rolls, keeps_clear
        self._lane_changes = lane_changes_per_s
        self.reset(0)

    def reset(self, seed: int) -> None:
        luck = self._luck = Random(f"sumo driver {seed}")
        normal = luck.gauss
        bold = luck.betavariate(*_BOLDNESS[self._profile])
        bold = bold if self._boldness is None else self._boldness
        rolls, keeps = luck.random(), luck.random()
        self.traits = Traits(
            boldness=bold,
            speed=max(2.0, normal(self._speed, self._speed_sd) * (0.95 + 0.12 * bold)),
            headway_s=max(0.4, normal(self._headway_s, 0.25) - 0.4 * bold),
            thrust=max(1.0, normal(2.2, 0.4)),
            comfort=max(1.5, normal(3.0, 0.5)),
            reaction_s=max(0.1, normal(_REACTION_S, 0.25)),
            gap_s=normal(self._gap_s, 0.5) - 0.8 * (bold - 0.4),
            misjudges_s=abs(normal(0.35, 0.15)),
            looks_away=self._away * _CALM[self._profile],
            looks_back=self._back,
            rolls=rolls < (bold if self._rolls is None else self._rolls),
            keeps_clear=keeps
            < (1.0 - bold if self._keeps_clear is None else self._keeps_clear),
            lane_changes=self._lane_changes,
        )
        self._time_s: float | None = None
        self._attends = True
        self._light: str | None = None
        self._light_s = 0.0
        self._seen: str | None = None
        self._runs: bool | None = None
        self._brakes = False
        self._takes_gap = False
        self._waited_s = 0.0
        self._unsteady = 0.0
        self._error_s = luck.gauss(0.0, self.traits.misjudges_s)
        self._side: str | None = None
        self._side_s = 0.0

    def propose(self, frame: Frame, reflection: str | None = None) -> Action:
        values, traits, luck = frame.values, self.traits, self._luck
        before = frame.time_s if self._time_s is None else self._time_s
        dt = frame.time_s - before
        self._time_s = frame.time_s
        v: float = values["speed"] / 3.6
        turns = luck.random()
        if self._attends:
            self._attends = turns >= traits.looks_away * dt
        else:
            self._attends = turns < traits.looks_back * dt
        self._unsteady += -self._unsteady * dt / 0.8 + 0.5 * math.sqrt(dt) * luck.gauss(
            0.0, 1.0
        )
        self._look_at_light(values["traffic_light"], dt)
        a = self._free(v, self._wanted_speed(values))
        a = min(a, self._behind_lead(values, v))
        line = values["stop_line_distance"]
        stops = line is not None and (
            self._stops_at_light(v, line, dt)
            or self._yields(values, v, line, dt)
            or self._stays_out(values)
        )
        a = min(a, self._for_people(values, v))
        if self._rolling(values):
            stops = stops and self._yields(values, v, line or 0.0, dt)
            a = min(a, (4.0 - v) / 0.8)
        self._brakes = self._brakes and stops
        if stops and line is not None:
            a = min(a, self._stop(v, line))
        if reflection is not None:
            a = min(a, -traits.comfort)
        if v > 1.5 or (v > 0.1 and a > 0.0):
            a += self._unsteady
        arguments: dict[str, Any] = {
            "acceleration": round(max(-_BRAKE, min(_THRUST, a)), 3)
        }
        self._want_lane(values, frame.time_s, dt, arguments)
        return Action("control", arguments)

    # -- speed and distance -----------------------------------------------------------

    def _wanted_speed(self, values: Any) -> float:
        wanted = self.traits.speed
        if values["direction"] in ("left", "right", "u_turn"):
            turn = _TURN_SPEED + 2.0 * self.traits.boldness
            room = values["junction_distance"] or 0.0
            wanted = min(wanted, math.sqrt(turn * turn + 3.0 * room))
        return wanted

    def _free(self, v: float, wanted: float) -> float:
        return self.traits.thrust * (1.0 - (v / wanted) ** 4)

    def _follow(self, v: float, gap: float, its: float) -> float:
        """Returns the intelligent driver model's acceleration behind a vehicle."""
        traits = self.traits
        closing = v * (v - its) / (2.0 * math.sqrt(traits.thrust * traits.comfort))
        room = 2.0 + max(0.0, v * traits.headway_s + closing)
        free = (v / max(traits.speed, 1.0)) ** 4
        return traits.thrust * (1.0 - free - (room / max(gap, 0.3)) ** 2)

    def _behind_lead(self, values: Any, v: float) -> float:
        gap = values["lead_distance"]
        if gap is None or (not self._attends and gap > 8.0):
            return math.inf
        return self._follow(v, gap, values["lead_speed"] / 3.6)

    def _stop(self, v: float, line: float) -> float:
        """Returns the acceleration that stops the car just before the line, late and
        evenly.
        """
        if v < 0.2:
            return -2.0
        room = line - _SHORT_OF_LINE_M
        if room <= 0.1:
            return -max(2.0, v / 0.4)
        needs = v * v / (2.0 * room)
        comfort = self.traits.comfort
        if needs > 0.6 * comfort or (v < 2.5 and needs > 0.6):
            self._brakes = True
        if self._brakes and needs > 0.2 * comfort:
            return -1.02 * needs - 0.05
        return -0.3 if needs > 0.3 * comfort else math.inf

    # -- lights and right of way ------------------------------------------------------

    def _look_at_light(self, light: str | None, dt: float) -> None:
        if light != self._light:
            self._light, self._light_s = light, 0.0
        self._light_s += dt
        if light is None or (self._attends and self._light_s >= self.traits.reaction_s):
            self._seen = light

    def _stops_at_light(self, v: float, line: float, dt: float) -> bool:
        """Decides once whether to run a traffic light; may revise the decision."""
        bold, luck = self.traits.boldness, self._luck
        if self._seen not in ("red", "yellow"):
            self._runs = None
            return False
        needs = v * v / (2.0 * max(line - _SHORT_OF_LINE_M, 0.1))
        if self._runs is None:
            bearable = 3.2 - 2.4 * bold if self._seen == "yellow" else 6.0 - 3.5 * bold
            chance = 1.0 / (1.0 + math.exp(-2.5 * (needs - bearable)))
            if line > 60.0:
                chance *= 0.05
            self._runs = v > 2.0 and luck.random() < chance
        elif (
            self._runs
            and self._seen == "red"
            and needs < 3.0 - bold
            and luck.random() < 0.8 * dt
        ):
            self._runs = False
        return not self._runs

    def _yields(self, values: Any, v: float, line: float, dt: float) -> bool:
        """Whether to wait at the stop line because no gap looks long enough."""
        if line > _GAP_JUDGING_M or not self._must_look(values):
            self._takes_gap = False
            self._waited_s = 0.0
            return False
        if self._takes_gap or not self._attends:
            return False
        gap = values["arrival_gap"]
        if v < 1.0:
            self._waited_s += dt
        # A stationary driver waits for a longer gap, but accepts shorter ones over
        # time.
        careful = 0.8 if v < 1.0 else 0.0
        wanted = self.traits.gap_s + careful - 0.03 * self._waited_s
        # The error changes slowly; with independent errors, drivers would soon stop
        # waiting.
        share = min(1.0, dt / _SECOND_LOOK_S)
        fresh = self._luck.gauss(0.0, self.traits.misjudges_s)
        self._error_s += -share * self._error_s + math.sqrt(2.0 * share) * fresh
        if gap is None:
            enough = True
        else:
            enough = gap + self._error_s > wanted
        self._takes_gap = enough and line < _DECISION_M
        return not enough or (line < _DECISION_M and not self._takes_gap)

    def _must_look(self, values: Any) -> bool:
        if values["signal_ahead"] and values["direction"] == "forward":
            return False
        return values["priority_vehicle"] is True or values["arrival_gap"] is not None

    def _stays_out(self, values: Any) -> bool:
        return values["traffic_jam"] and self._attends and self.traits.keeps_clear

    def _rolling(self, values: Any) -> bool:
        rolls = self.traits.rolls and self._seen == "red"
        return (
            rolls
            and values["direction"] == "right"
            and not values["priority_pedestrian"]
            and (values["junction_distance"] or 0.0) < 60.0
        )

    def _for_people(self, values: Any, v: float) -> float:
        """Returns the acceleration for pedestrians whom the driver sees and expects to
        meet.
        """
        distance = values["pedestrian_distance"]
        if distance is None or not self._attends:
            return math.inf
        gap = values["pedestrian_arrival_gap"]
        careful = 2.0 - 1.8 * self.traits.boldness
        if gap is not None and gap > careful:
            return math.inf
        if distance > 10.0 + 2.2 * v:
            return math.inf
        room = distance - 3.0
        if room <= 0.3:
            return -v / 0.5 if distance > 0.5 else math.inf
        return -min(_BRAKE, v * v / (2.0 * room)) if v > 0.5 else -1.0

    # -- lanes ------------------------------------------------------------------------

    def _want_lane(
        self, values: Any, time_s: float, dt: float, arguments: dict[str, Any]
    ) -> None:
        """Signals, checks the blind spot if attentive, and then changes lanes."""
        if values["lane_count"] < 2 or self.traits.lane_changes <= 0.0:
            return
        if self._side is None:
            if self._luck.random() < self.traits.lane_changes * dt:
                self._side = "left" if self._luck.random() < 0.5 else "right"
                self._side_s = time_s
            else:
                return
        for_s = time_s - self._side_s
        if values["priority_vehicle"] and self._attends and for_s > _SHOULDER_S:
            self._side = None
            return
        arguments["turn_signal"] = self._side
        if values["lane_changing"]:
            return
        if for_s > _SIGNALLING_S - 1.0 * self.traits.boldness:
            arguments["lane_change"] = self._side
            self._side = None


class FunctionPilot:
    """A pilot that calls a function, which maps a frame to an acceleration in m/s².

    Args:
        function: The function, as `package.module:name` or `$here/file.py:name`.
    """

    @staticmethod
    def example() -> Example:
        return Example({"function": f"{__name__}:steady"}, world="sumo")

    def __init__(self, *, function: str) -> None:
        self._function = found(function)

    def reset(self, seed: int) -> None:
        start = getattr(self._function, "reset", None)
        if start is not None:
            start(seed)

    def propose(self, frame: Frame, reflection: str | None = None) -> Action:
        return Action("control", {"acceleration": float(self._function(frame))})


class PlannerPilot(FunctionPilot):
    """A pilot that calls a planner, which maps a frame to the ego's next pose.

    Args:
        function: The function, as `package.module:name` or `$here/file.py:name`. It
            returns how far the ego moves forward and to the left in the next period, in
            m, and how far it turns to the left, in degrees.
    """

    @staticmethod
    def example() -> Example:
        return Example({"function": f"{__name__}:straight_on"}, world="sumo")

    def propose(self, frame: Frame, reflection: str | None = None) -> Action:
        forward, left, turn = self._function(frame)
        return Action(
            "pose",
            {
                "forward_m": float(forward),
                "left_m": float(left),
                "turn_left_deg": float(turn),
            },
        )


def steady(frame: Frame) -> float:
    """An example of a driver function, which keeps 40 km/h."""
    return (40.0 - float(frame.values["speed"])) / 3.6


def straight_on(frame: Frame) -> tuple[float, float, float]:
    """An example of a planner function, which moves 0.5 m ahead in each period."""
    return 0.5, 0.0, 0.0
