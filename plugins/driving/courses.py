"""Computes driving signals in simulators whose vehicles follow lanes.

All vehicles are predicted to keep their speed along their paths. Two paths conflict
where the vehicles would touch. A vehicle that is ahead of the ego there, with a similar
heading, is a lead vehicle; the others count as crossing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from forewarn.plugins.driving.rss import behind, stopping

PERIOD_S = 0.2
PROVIDES = (
    "speed", "acceleration", "braking", "lead_distance", "lead_speed",
    "nearest_distance", "nearest_speed", "time_to_collision", "arrival_gap",
    "required_deceleration", "shortfall", "unanswered_age", "headway",
    "lead_acceleration", "collision", "destination_reached",
)  # fmt: skip

_LENGTH_M, _TOUCHES_M = 5.0, 2.4
_SEEN_M, _MOST_SEEN = 70.0, 8
_AHEAD_S = np.arange(0.0, 4.81, 0.4)
_GAP_S = np.abs(_AHEAD_S[:, None] - _AHEAD_S[None, :])
_ALONG = math.cos(math.radians(30.0))
_DEMAND, _BRAKING = 1.5, -0.5  # m/s²
_CLOSE_S = 2.0
_NEW_LEAD_M = 5.0
_MAX_JUMP = 100.0  # m/s²: limit for when another vehicle becomes the lead vehicle
_STEERING_S = 1.0  # time constant of returning to the middle of a lane

Points = NDArray[np.float64]


class Lane(NamedTuple):
    """A lane of a simulator, with the simulator's functions for its geometry."""

    length: float
    locate: Callable[[Any], tuple[float, float]]
    position: Callable[[float, float], Any]
    heading: Callable[[float], float]


class Course(NamedTuple):
    """The predicted positions and headings of a vehicle over the prediction horizon."""

    at: Points
    heading: Points

    @classmethod
    def along(
        cls, position: Any, speed: float, lane: Lane, after: Callable[[], Lane | None]
    ) -> Course:
        """Predicts the course of a vehicle that drives at constant speed.

        The vehicle moves to the middle of the lane, and then follows it.

        Args:
            position: The vehicle's current position.
            speed: The vehicle's speed in m/s.
            lane: The lane that the vehicle follows, or to which it is changing.
            after: Returns the next lane along the route; None after the last one.
        """
        along_m, aside_m = lane.locate(np.asarray(position))
        at, headings, since_s = [], [], 0.0
        for ahead_s in _AHEAD_S:
            along_m += speed * (ahead_s - since_s)
            aside_m *= math.exp((since_s - ahead_s) / _STEERING_S)
            since_s = ahead_s
            while along_m > lane.length and (following := after()) is not None:
                # Successive lanes overlap, so continue from the current position.
                here = lane.position(along_m, aside_m)
                lane = following
                along_m, aside_m = lane.locate(here)
            at.append(lane.position(along_m, aside_m))
            headings.append(lane.heading(along_m))
        angles = np.array(headings, dtype=float)
        points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        return cls(np.array(at, dtype=float), points)

    def apart(self, other: Course) -> Points:
        """Returns the distance between two vehicles for all pairs of times."""
        least = np.full((len(self.at), len(other.at)), np.inf)
        for mine in (-1.7, 0.0, 1.7):
            for its in (-1.7, 0.0, 1.7):
                one = self.at + mine * self.heading
                two = other.at + its * other.heading
                between = one[:, None, :] - two[None, :, :]
                np.minimum(least, np.hypot(between[..., 0], between[..., 1]), out=least)
        return least


class CourseSenses(ABC):
    """Computes the signals in a simulator whose vehicles follow lanes.

    A subclass lists the vehicles, and predicts the course of each.

    Args:
        rss: Whether to add the longitudinal RSS margin.
    """

    MORE: tuple[str, ...] = ()
    """The signals that `own` returns in addition to those in `PROVIDES`."""

    def __init__(self, *, rss: bool = False) -> None:
        self._rss = rss
        more = ("rss_longitudinal_margin",) if rss else ()
        self.provides = (*PROVIDES, *self.MORE, *more)

    @abstractmethod
    def ego(self, env: Any) -> Any:
        """Returns the ego, which has a `position` and a `speed` in m/s."""

    @abstractmethod
    def everyone(self, env: Any) -> Iterable[Any]:
        """Returns all vehicles, including the ego, with the same attributes."""

    @abstractmethod
    def course(self, vehicle: Any) -> Course:
        """Predicts the course of a vehicle."""

    @abstractmethod
    def own(self, ego: Any, info: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the signals that depend only on the ego."""

    def reset(self, env: Any) -> None:
        self._env = env
        self._speed = float(self.ego(env).speed)
        self._unanswered_s = 0.0
        self._lead: tuple[float, float] | None = None

    def __call__(self, observation: Any, info: Mapping[str, Any]) -> dict[str, Any]:
        ego = self.ego(self._env)
        speed = max(0.0, float(ego.speed))
        acceleration = (speed - self._speed) / PERIOD_S
        self._speed = speed
        found = self._others(ego, speed)
        brakes = acceleration < _BRAKING
        asked = found["required_deceleration"]
        unanswered = asked is not None and asked > _DEMAND and not brakes
        self._unanswered_s = self._unanswered_s + PERIOD_S if unanswered else 0.0
        return {
            "speed": speed * 3.6,
            "acceleration": max(-500.0, min(500.0, acceleration)),
            "braking": brakes,
            "shortfall": None if asked is None else asked - max(0.0, -acceleration),
            "unanswered_age": self._unanswered_s,
            **self.own(ego, info),
            **found,
        }

    def _others(self, ego: Any, speed: float) -> dict[str, Any]:
        here, everyone = np.asarray(ego.position), list(self.everyone(self._env))
        far = sorted(
            (float(np.hypot(*(np.asarray(other.position) - here))), i)
            for i, other in enumerate(everyone)
            if other is not ego
        )
        near = [(m, everyone[i]) for m, i in far if m < _SEEN_M]
        course = self.course(ego)
        lead: tuple[float, float] | None = None
        soonest = gap_s = asks = margin = None
        for _, other in near[:_MOST_SEEN]:
            its_speed = max(0.0, float(other.speed))
            its = self.course(other)
            touch = course.apart(its) < _TOUCHES_M
            together = np.flatnonzero(np.diagonal(touch))
            if together.size:
                soonest = _least(soonest, float(_AHEAD_S[together[0]]))
            if not touch.any():
                continue
            i, j = np.unravel_index(np.where(touch, _GAP_S, 9.0).argmin(), touch.shape)
            along = float(course.heading[i] @ its.heading[j]) > _ALONG
            if along and i < j:
                continue  # the other vehicle follows the ego
            path_m = max(0.0, float(_AHEAD_S[i]) * speed)
            if along:
                room = max(0.0, self._room(here, ego, other))
                if lead is None or room < lead[0]:
                    lead = room, its_speed
                closing = max(0.0, speed - its_speed)
                asks = _most(asks, closing**2 / 2.0 / max(room, 0.1))
                margin = _least(margin, room - behind(speed, its_speed))
            else:
                apart_s = float(_GAP_S[i, j])
                gap_s = _least(gap_s, apart_s)
                if apart_s < _CLOSE_S:
                    room = max(0.1, path_m - _LENGTH_M / 2.0)
                    asks = _most(asks, speed**2 / 2.0 / room)
                    margin = _least(margin, room - stopping(speed))
        gap_m = None if lead is None else lead[0]
        told = {
            "lead_distance": gap_m,
            "lead_speed": None if lead is None else lead[1] * 3.6,
            "nearest_distance": max(0.0, near[0][0] - _LENGTH_M) if near else None,
            "nearest_speed": max(0.0, float(near[0][1].speed)) * 3.6 if near else None,
            "time_to_collision": soonest,
            "arrival_gap": gap_s,
            "required_deceleration": None if asks is None else min(asks, 1000.0),
            "headway": None if gap_m is None or speed < 0.5 else gap_m / speed,
            "lead_acceleration": self._of_lead(lead),
        }
        if self._rss:
            told["rss_longitudinal_margin"] = margin
        return told

    def _room(self, here: Points, ego: Any, other: Any) -> float:
        return float(np.hypot(*(np.asarray(other.position) - here))) - _LENGTH_M

    def _of_lead(self, lead: tuple[float, float] | None) -> float | None:
        """Returns the lead vehicle's acceleration in m/s²; 0 for a new lead vehicle."""
        before, self._lead = self._lead, lead
        if lead is None:
            return None
        if before is None or abs(before[0] - lead[0]) > _NEW_LEAD_M:
            return 0.0
        return max(-_MAX_JUMP, min(_MAX_JUMP, (lead[1] - before[1]) / PERIOD_S))


def _least(one: float | None, other: float) -> float:
    return other if one is None else min(one, other)


def _most(one: float | None, other: float) -> float:
    return other if one is None else max(one, other)
