"""Foresight signals, which are derived from other driving signals and their history.

Foresight signals depend only on the signals of the current and earlier frames. They are
therefore defined in the same way for every source of driving frames, and use neither
the driver's intentions nor future data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from forewarn.plugins.driving.roads import Passage, Way

SEEN_M = 200.0  # lights, lines, junctions
PATH_SEEN_M = 80.0
"""The maximum distance to junctions that are checked for conflicts."""

_LEFT_M = 2.0  # the ego has passed a crosswalk when it is this far past its middle


class Progress(NamedTuple):
    """The ego's position along its path at one time.

    Args:
        way: The ego's path.
        at_m: The position of the ego's front along the path.
        here: The junction that the ego is in; None if it is in none.
        ahead: The next junction; None if there is none.
        line: The next junction at which the ego may have to stop.
        met: The nearby junctions: the one that the ego is in, if any, and the next one.
        to_junction: The distance to the next junction in m; 0 inside a junction, None
            if no junction is near.
        to_line: The distance to the next stop line in m; None if no line is near.
    """

    way: Way
    at_m: float
    here: Passage | None
    ahead: Passage | None
    line: Passage | None
    met: tuple[Passage, ...]
    to_junction: float | None
    to_line: float | None

    @classmethod
    def along(cls, way: Way, at_m: float) -> Self:
        """Locates the ego, given its distance along the path."""
        here = ahead = line = None
        for passage in way.passages:
            if passage.end_m <= at_m or not passage.is_junction:
                continue
            if passage.line_m <= at_m:
                here = passage
                continue
            ahead = ahead or passage
            if passage.has_line:
                line = passage
                break
        to_ahead = None if ahead is None else ahead.line_m - at_m
        met = () if here is None else (here,)
        if ahead is not None and ahead.line_m - at_m < PATH_SEEN_M:
            met = *met, ahead
        to_junction = to_ahead if here is None else 0.0
        to_line = None if line is None else line.line_m - at_m
        return cls(
            way, at_m, here, ahead, line, met, _seen(to_junction), _seen(to_line)
        )

    def to(self, passage: Passage) -> float:
        """Returns the distance from the ego's front to a junction, in m."""
        return passage.line_m - self.at_m

    def is_later(self, passage: Passage) -> bool:
        """Whether the ego is in a junction that it must leave before this one."""
        return self.here is not None and passage is not self.here

    @property
    def to_crosswalk(self) -> float | None:
        """The distance to the next crosswalk in m; None if no crosswalk is near."""
        for met in (self.here, self.ahead):
            if met is None:
                continue
            for footway in met.footways:
                if self.to(met) + footway.at_m > -_LEFT_M:
                    return _seen(max(0.0, self.to(met) + footway.near_m))
        return None


def _seen(distance_m: float | None) -> float | None:
    return None if distance_m is None or distance_m > SEEN_M else distance_m


INPUTS: dict[str, tuple[str, ...]] = {
    "line_deceleration": ("speed", "stop_line_distance"),
    "line_shortfall": ("speed", "acceleration", "stop_line_distance"),
    "shortfall": ("acceleration", "required_deceleration"),
    "unanswered_age": ("required_deceleration", "braking"),
    "turn_signal_age": ("turn_signal",),
    "standing_age": ("speed",),
    "giving_way_age": ("priority_vehicle", "priority_pedestrian"),
    "jam_age": ("traffic_jam",),
    "headway": ("speed", "lead_distance"),
    "lead_acceleration": ("lead_distance", "lead_speed"),
}
"""The input signals of each foresight signal."""

NAMES = tuple(INPUTS)

DRAC = "deceleration_to_avoid_crash"
_INPUTS = {**INPUTS, DRAC: ("speed", "lead_distance", "lead_speed")}

_UNKNOWN: dict[str, Any] = {
    "speed": 0.0, "acceleration": 0.0, "braking": False, "stop_line_distance": None,
    "required_deceleration": None, "turn_signal": "off", "priority_vehicle": False,
    "priority_pedestrian": False, "traffic_jam": False, "lead_distance": None,
    "lead_speed": None,
}  # fmt: skip
"""Default values of inputs that a source lacks.

The signals that depend on such inputs are omitted from the result.
"""

ASKS = 1.5  # m/s²: required braking above which the ego must react
_STANDSTILL = 0.5  # km/h
_NEAR_M = 0.1
_MOST = 1000.0
_NEW_LEAD_M = 3.0  # a larger jump between frames means a new lead vehicle


def lacking(provides: Sequence[str]) -> tuple[str, ...]:
    """Returns the missing signals that can be derived from these signals."""
    return tuple(
        name
        for name, inputs in _INPUTS.items()
        if name not in provides and set(inputs) <= set(provides)
    )


class Foresight:
    """Computes the foresight signals of one episode, frame by frame.

    Args:
        period_s: The time between frames in seconds.
    """

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._since: dict[str, int] = {}
        self._frame = 0
        self._lead: tuple[float, float] | None = None
        self._lead_acceleration = 0.0
        self._signal = "off"

    def of(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the foresight signals of the next frame, given its other signals."""
        self._frame += 1
        speed = values["speed"] / 3.6
        brakes = max(0.0, -values["acceleration"])
        line, asked = values["stop_line_distance"], values["required_deceleration"]
        to_line = None
        if line is not None:
            to_line = min(_MOST, speed * speed / (2.0 * max(line, _NEAR_M)))
        signal = values["turn_signal"]
        if signal != self._signal:
            self._signal = signal
            self._since.pop("turn_signal_age", None)
        demand = asked is not None and asked > ASKS and not values["braking"]
        gives_way = values["priority_vehicle"] or values["priority_pedestrian"]
        lead = values["lead_distance"]
        unanswered_s = self._age("unanswered_age", demand)
        return {
            "line_deceleration": rounded(to_line),
            "line_shortfall": None if to_line is None else rounded(to_line - brakes),
            "shortfall": None if asked is None else rounded(asked - brakes),
            "unanswered_age": 0.0 if unanswered_s is None else unanswered_s,
            "turn_signal_age": self._age(
                "turn_signal_age", signal in ("left", "right")
            ),
            "standing_age": self._age("standing_age", values["speed"] < _STANDSTILL),
            "giving_way_age": self._age("giving_way_age", gives_way),
            "jam_age": self._age("jam_age", values["traffic_jam"]),
            "headway": (None if lead is None or speed < 1.0 else rounded(lead / speed)),
            "lead_acceleration": self._of_lead(lead, values["lead_speed"]),
        }

    def worked_out(
        self, names: Iterable[str], values: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Returns the named foresight signals.

        The inputs of other foresight signals may be missing.
        """
        known = {**_UNKNOWN, **values}
        found = {**self.of(known), DRAC: to_lead_speed(known)}
        return {name: found[name] for name in names}

    def _age(self, name: str, holds: bool) -> float | None:
        """Returns how many seconds a condition has been true; None if it is false."""
        if not holds:
            self._since.pop(name, None)
            return None
        since = self._since.setdefault(name, self._frame)
        return round((self._frame - since) * self._period_s, 6)

    def _of_lead(self, distance: float | None, speed_kmh: float | None) -> float | None:
        """Returns the lead vehicle's acceleration in m/s², smoothed over several
        frames.
        """
        before = self._lead
        if distance is None or speed_kmh is None:
            self._lead = None
            return None
        self._lead = distance, speed_kmh
        if before is None or abs(distance - before[0]) > _NEW_LEAD_M:
            self._lead_acceleration = 0.0
            return 0.0
        now = (speed_kmh - before[1]) / 3.6 / self._period_s
        self._lead_acceleration += 0.4 * (now - self._lead_acceleration)
        return round(max(-100.0, min(100.0, self._lead_acceleration)), 3)


def to_lead_speed(values: Mapping[str, Any]) -> float | None:
    """Returns the deceleration to avoid a crash (DRAC) in m/s².

    It is the braking with which the ego reaches the speed of the lead vehicle just
    before the two would collide; None if the ego is not approaching a lead vehicle.
    """
    lead, lead_kmh = values["lead_distance"], values["lead_speed"]
    if lead is None or lead_kmh is None or values["speed"] <= lead_kmh:
        return None
    closing = (values["speed"] - lead_kmh) / 3.6
    return rounded(min(_MOST, closing * closing / (2.0 * max(lead, _NEAR_M))))


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
