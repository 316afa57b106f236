"""A world with a car on a straight road, a traffic light and sometimes a car ahead.

The traffic light turns red as the car approaches. Most drivers are attentive. Reckless
drivers react late, keep short gaps and are inattentive for a while, and some run the
red light.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import Annotated

from pydantic import Field

from forewarn.abstractions.frame import Frame, Value
from forewarn.monitors.guarding.decision import Action, Decision, Kind
from forewarn.plugins.actions import CAP, Actions, ActionSpec, number
from forewarn.plugins.contracts import (
    HIT,
    Example,
    Replacing,
    Shape,
    Source,
    SteppedWorld,
    Thing,
)
from forewarn.plugins.driving.act import shown

PERIOD_S = 0.1
BRAKE_LIMIT = 8.0  # m/s²
THRUST_LIMIT = 3.0  # m/s²
SPEED_LIMIT_KMH = 50.0
LIGHT_SEEN_M = 200.0
LEAD_SEEN_M = 100.0
JUNCTION_M = 20.0
LEAD_BRAKES_S = 4.0
LONGEST_STEPS = 1200
CAR_M = 4.5, 1.8
LANE_M = 3.5

_DRAG = 0.3  # m/s², without a command
_RESPONSE = 0.5  # fraction of a new command that takes effect in each period

Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]

PROVIDES = (
    "speed",
    "acceleration",
    "braking",
    "speed_limit",
    "signal_ahead",
    "traffic_light",
    "stop_line_distance",
    "past_stop_line",
    "in_junction",
    "lead_distance",
    "lead_speed",
    "required_deceleration",
    "time_to_stop_line",
    "time_to_collision",
    "collision",
)


@dataclass(slots=True)
class _Lead:
    """The car ahead: keeps its speed, brakes hard once, and stops at a red light."""

    x: float
    v: float
    wanted: float
    brakes_at_s: float
    brakes_to: float

    def move(self, time_s: float, line_x: float, light: str) -> None:
        a = 1.5 if self.v < self.wanted else 0.0
        if self.brakes_at_s <= time_s < self.brakes_at_s + LEAD_BRAKES_S:
            a = -7.0 if self.v > self.brakes_to else 0.0
        ahead = line_x - 1.0 - self.x
        if light != "green" and ahead > 0.0:
            needed = self.v * self.v / (2.0 * max(ahead, 0.1))
            if needed <= 6.0:
                a = min(a, -needed) if needed >= 2.0 else min(a, 0.0)
        self.v = max(0.0, self.v + a * PERIOD_S)
        self.x += self.v * PERIOD_S


class TinyWorld(SteppedWorld):
    """A world with a straight road; omitted settings are drawn from the seed of the
    episode.

    Args:
        speed_kmh: The initial speed of the car in km/h.
        light_m: The initial distance to the stop line in m.
        yellow_at_s: The time in seconds at which the light turns yellow.
        yellow_s: The duration of the yellow phase in seconds.
        red_s: The duration of the red phase in seconds; after it, the light stays
            green.
        lead: Whether there is a car ahead.
        lead_brakes_at_s: The time in seconds at which the car ahead brakes hard.
    """

    source = Source("tiny", "driving", PROVIDES, PERIOD_S)
    actions = Actions(
        ActionSpec("control", {"acceleration": number(), CAP: number(0.0)}),
        ActionSpec("cut"),
    )
    longest_steps = LONGEST_STEPS

    def __init__(
        self,
        *,
        speed_kmh: Positive | None = None,
        light_m: Positive | None = None,
        yellow_at_s: float | None = None,
        yellow_s: Positive = 3.0,
        red_s: Positive | None = None,
        lead: bool | None = None,
        lead_brakes_at_s: float | None = None,
    ) -> None:
        self._given = {
            "speed_kmh": speed_kmh,
            "light_m": light_m,
            "yellow_at_s": yellow_at_s,
            "red_s": red_s,
            "lead_brakes_at_s": lead_brakes_at_s,
        }
        self._lead_given = lead
        self._yellow_s = yellow_s

    @staticmethod
    def example() -> Example:
        """Returns an example without other cars, in which only the guard brakes."""
        return Example({"lead": False, "yellow_at_s": 30.0}, steps=60)

    def begin(self, seed: int) -> None:
        luck = Random(f"tiny road {seed}")

        def drawn(name: str, low: float, high: float) -> float:
            # Draw a value even if it is set, so that the other random values stay the
            # same.
            value = low + (high - low) * luck.random()
            given = self._given.get(name)
            return value if given is None else given

        self._v = drawn("speed_kmh", 36.0, 58.0) / 3.6
        self._line_x = drawn("light_m", 60.0, 120.0)
        self._yellow_at_s = drawn("yellow_at_s", 0.5, 5.0)
        self._red_at_s = self._yellow_at_s + self._yellow_s
        self._green_at_s = self._red_at_s + drawn("red_s", 5.0, 9.0)
        has_lead = luck.random() < 0.5
        if self._lead_given is not None:
            has_lead = self._lead_given
        gap = drawn("lead_gap_m", 14.0, 40.0)
        brakes_at_s = drawn("lead_brakes_at_s", 1.0, 8.0)
        brakes_to = self._v * 0.4 * luck.random()
        lead_v = self._v * (0.85 + 0.15 * luck.random())
        lead = _Lead(gap, lead_v, lead_v, brakes_at_s, brakes_to)
        self._lead = lead if has_lead else None
        self._x = self._a = 0.0
        self._cut = False

    def move(self, action: Action | None) -> None:
        self._a += _RESPONSE * (self._command(action) - self._a)
        self._v += self._a * PERIOD_S
        if self._v <= 0.0:
            self._v = 0.0
            self._a = max(0.0, self._a)
        self._x += self._v * PERIOD_S
        if self._lead is not None:
            time_s = round((self.steps + 1) * PERIOD_S, 1)
            self._lead.move(time_s, self._line_x, self._light(time_s))

    def actuator(self) -> TinyActuator:
        return TinyActuator()

    def ground(self) -> list[Shape]:
        """Returns the road, which leads east, the junction and the stop line."""
        begin, end = -50.0, self._line_x + JUNCTION_M + 80.0
        half, line = LANE_M / 2.0, self._line_x
        near, far = line + LANE_M, line + JUNCTION_M - LANE_M
        return [
            Shape("lane", ((begin, 0.0), (end, 0.0)), LANE_M),
            Shape("junction", ((near, -12.0), (near, 12.0), (far, 12.0), (far, -12.0))),
            Shape("line", ((line, -half), (line, half)), 0.3),
        ]

    def things(self) -> list[Thing]:
        """Returns the cars and the traffic light."""
        back = CAR_M[0] / 2.0
        seen = [Thing("ego", "ego", self._x - back, 0.0, 90.0, *CAR_M)]
        if self._lead is not None:
            # The position of the car ahead is that of its rear.
            gap = self._lead.x - self._x
            state = HIT if gap <= 0.0 else ""
            x = self._lead.x + back
            seen.append(Thing("lead", "vehicle", x, 0.0, 90.0, *CAR_M, state))
        light = Thing(
            "light",
            "light",
            self._line_x,
            0.0,
            90.0,
            0.6,
            LANE_M,
            self._light(self.time_s),
        )
        return [*seen, light]

    def _light(self, time_s: float) -> str:
        if self._yellow_at_s <= time_s < self._green_at_s:
            return "yellow" if time_s < self._red_at_s else "red"
        return "green"

    def _command(self, action: Action | None) -> float:
        if action is not None and action.name == "cut":
            self._cut = True
        if self._cut:
            return -BRAKE_LIMIT
        if action is None:
            return -_DRAG
        wanted: float = action.arguments.get("acceleration", -_DRAG)
        cap_kmh: float = action.arguments.get(CAP, math.inf)
        over = self._v - cap_kmh / 3.6
        if over > -0.5:
            wanted = min(wanted, -2.0 * over)
        return max(-BRAKE_LIMIT, min(THRUST_LIMIT, wanted))

    def values(self) -> dict[str, Value]:
        v = self._v
        line = self._line_x - self._x
        before = line > 0.0
        needed: float | None = None
        to_line: float | None = None
        light = self._light(self.time_s)
        if before and v > 0.0:
            to_line = round(line / v, 2)
            if light != "green":
                needed = v * v / (2.0 * max(line, 0.1))
        gap: float | None = None
        lead_kmh: float | None = None
        to_collision: float | None = None
        collision = False
        if self._lead is not None:
            distance = self._lead.x - self._x
            collision = distance <= 0.0
            if distance <= LEAD_SEEN_M:
                gap = round(max(0.0, distance), 2)
                lead_kmh = round(3.6 * self._lead.v, 2)
                closing = v - self._lead.v
                if closing > 0.0:
                    to_collision = round(gap / closing, 2)
                    asked = closing * closing / (2.0 * max(gap, 0.1))
                    needed = asked if needed is None else max(needed, asked)
        if collision:
            self.over = "the car hit the car ahead"
        elif line < -JUNCTION_M:
            self.over = "the car crossed the junction"
        a = round(self._a, 3)
        seen = before and line <= LIGHT_SEEN_M
        return {
            "speed": round(3.6 * v, 2),
            "acceleration": a,
            "braking": a < -0.5,
            "speed_limit": SPEED_LIMIT_KMH,
            "signal_ahead": seen,
            "traffic_light": light if seen else None,
            "stop_line_distance": round(line, 2) if seen else None,
            "past_stop_line": not before,
            "in_junction": not before,
            "lead_distance": gap,
            "lead_speed": lead_kmh,
            "required_deceleration": (
                None if needed is None else round(min(needed, 1000.0), 3)
            ),
            "time_to_stop_line": to_line,
            "time_to_collision": to_collision,
            "collision": collision,
        }


@dataclass(frozen=True, slots=True)
class _Traits:
    """The traits of a driver, which are hidden from frames."""

    reckless: bool
    notices_s: float
    runs_lights: bool
    comfort: float
    gap_s: float
    wanted_kmh: float
    looks_away_s: float
    looks_back_s: float


class TinyPilot:
    """A driver whose traits are drawn from the seed of the episode.

    Args:
        reckless_share: The fraction of drivers who are reckless.
        reckless: Whether this driver is reckless; if None, this is drawn at random.
    """

    def __init__(
        self, *, reckless_share: Share = 0.4, reckless: bool | None = None
    ) -> None:
        self._share, self._reckless = reckless_share, reckless
        self.reset(0)

    def reset(self, seed: int) -> None:
        luck = Random(f"tiny driver {seed}")
        chance = [luck.random() for _ in range(9)]
        reckless = chance[0] < self._share if self._reckless is None else self._reckless
        looks_away_s = 8.0 * chance[6]
        self._traits = _Traits(
            reckless=reckless,
            notices_s=1.2 + 2.6 * chance[1] if reckless else 0.3 + 0.7 * chance[1],
            runs_lights=reckless and chance[2] < 0.6,
            comfort=3.0 + 2.0 * chance[3] if reckless else 1.8 + 1.2 * chance[3],
            gap_s=0.4 + 0.5 * chance[4] if reckless else 1.3 + 0.8 * chance[4],
            wanted_kmh=48.0 + 14.0 * chance[5] if reckless else 40.0 + 8.0 * chance[5],
            looks_away_s=looks_away_s,
            looks_back_s=looks_away_s + (5.0 * chance[7] if reckless else 0.0),
        )
        self._luck = luck
        self._saw_s: float | None = None
        self._commits: bool | None = None

    def propose(self, frame: Frame, reflection: str | None = None) -> Action:
        values, traits = frame.values, self._traits
        v = values["speed"] / 3.6
        wanted = traits.wanted_kmh / 3.6
        pull = 1.5 * (1.0 - (v / wanted) ** 2)
        a = max(-1.0, pull) + 0.4 * (self._luck.random() - 0.5)
        a = min(a, self._for_the_light(frame, v))
        if not traits.looks_away_s <= frame.time_s < traits.looks_back_s:
            a = min(a, self._for_the_lead(frame, v))
        if reflection is not None:
            a = min(a, -traits.comfort)
        return Action("control", {"acceleration": round(max(-7.0, a), 3)})

    def _for_the_light(self, frame: Frame, v: float) -> float:
        light = frame.values["traffic_light"]
        if light not in ("yellow", "red"):
            self._saw_s = self._commits = None
            return math.inf
        if self._saw_s is None:
            self._saw_s = frame.time_s
        if frame.time_s - self._saw_s < self._traits.notices_s:
            return math.inf
        room = frame.values["stop_line_distance"] - 1.0
        needed = v * v / (2.0 * room) if room > 0.05 else 7.0
        if self._commits is None:
            bearable = 2.2 if self._traits.runs_lights else 6.5
            self._commits = needed > bearable and v > 2.0
        if self._commits:
            return math.inf
        late = needed >= 0.8 * self._traits.comfort or room < 0.5
        return -1.1 * needed - 0.2 if late else math.inf

    def _for_the_lead(self, frame: Frame, v: float) -> float:
        values = frame.values
        gap: float | None = values["lead_distance"]
        if gap is None:
            return math.inf
        closing: float = v - values["lead_speed"] / 3.6
        room = 2.0 + v * self._traits.gap_s + max(0.0, 0.35 * v * closing)
        ratio = room / max(gap, 0.5)
        return 1.5 * (1.0 - ratio * ratio)


class TinyActuator(Replacing):
    """Slows and stops the car; `cut` permanently takes control from the driver."""

    can: frozenset[Kind] = frozenset({"alert", "slow", "stop", "cut"})

    def carry_out(
        self, decision: Decision, proposal: Action | None, frame: Frame
    ) -> Action | None:
        if decision.kind == "slow" and decision.cap_kmh is not None:
            wanted = {} if proposal is None else proposal.arguments
            cap = {CAP: decision.cap_kmh}
            return Action("control", {**wanted, **cap})
        if decision.kind == "cut":
            return Action("cut")
        return super().carry_out(decision, proposal, frame)

    def fallback(self, frame: Frame | None = None) -> Action | None:
        return Action("control", {"acceleration": -6.0})

    def obeyed(self, decision: Decision, frame: Frame) -> bool | None:
        return shown(decision, frame, lambda _, acceleration: acceleration < -1.0)
