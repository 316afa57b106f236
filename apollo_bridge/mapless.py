"""What can be said of the others and of lights without a map.

The way ahead is the trajectory that planning publishes, or straight on where it says
none. Perception lists the lights of the ego's next stop line, the first one counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from forewarn.abstractions.errors import SignalFault
from forewarn.apollo_bridge.scene import COLOURS, EGO, mover_of
from forewarn.apollo_bridge.vehicle import Body
from forewarn.plugins.driving.roads.lines import Point, apart
from forewarn.plugins.driving.scene import LEAD_SEEN_M, Colour, Mover
from forewarn.plugins.driving.seeing.arriving import rounded
from forewarn.plugins.driving.seeing.others import ONCOMING_M

LIGHTS = ("signal_ahead", "traffic_light", "traffic_light_blinking")
OTHERS = (
    "lead_distance", "lead_speed", "nearest_distance", "nearest_speed",
    "oncoming_distance", "oncoming_speed", "collision",
)  # fmt: skip
PLANNED = ("destination_reached", "overtaking")

_PEDESTRIAN = 3
_OTHER_WAY = math.radians(135.0)
_MOST_M = 1000.0


def mapless(body: Body, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The signals at one moment, of the inputs that came.

    Args:
        body: The ego's.
        inputs: The newest message of each input.

    Raises:
        SignalFault: A place, course, speed or size is not known.
    """
    values: dict[str, Any] = {}
    lights, planning = inputs.get("lights"), inputs.get("planning")
    if lights is not None:
        values |= _light(lights)
    if planning is not None:
        values |= planned(planning)
    if inputs.get("obstacles") is not None:
        pose = inputs["localization"].pose
        if not math.isfinite(pose.position.x + pose.position.y + pose.heading):
            raise SignalFault("localization has no place or heading")
        ego = _ego(body, pose)
        path = _path(planning, ego, body)
        values |= _others(ego, path, inputs["obstacles"].perception_obstacle)
    return values


def planned(planning: Any) -> dict[str, Any]:
    """What planning says of the drive itself."""
    task = planning.decision.main_decision.WhichOneof("task")
    return {
        "destination_reached": task == "mission_complete",
        "overtaking": any(
            kind.WhichOneof("object_tag") == "overtake"
            for each in planning.decision.object_decision.decision
            for kind in each.object_decision
        ),
    }


def _light(detection: Any) -> dict[str, Any]:
    lights = detection.traffic_light
    if not lights:
        return {
            "signal_ahead": bool(detection.contain_lights),
            "traffic_light": Colour.UNKNOWN.value if detection.contain_lights else None,
            "traffic_light_blinking": False if detection.contain_lights else None,
        }
    seen = next((light for light in lights if light.color in COLOURS), lights[0])
    return {
        "signal_ahead": True,
        "traffic_light": COLOURS.get(seen.color, Colour.UNKNOWN).value,
        "traffic_light_blinking": bool(seen.blink),
    }


def _ego(body: Body, pose: Any) -> Mover:
    """The ego's body, placed by its middle."""
    middle = body.length_m / 2.0 - body.back_m
    return Mover(
        EGO, pose.position.x + middle * math.cos(pose.heading),
        pose.position.y + middle * math.sin(pose.heading),
        pose.heading, 0.0, body.length_m, body.width_m,
    )  # fmt: skip


def _path(planning: Any, ego: Mover, body: Body) -> list[Point]:
    """The way ahead from the front bumper on."""
    cos, sin = math.cos(ego.heading), math.sin(ego.heading)
    front = ego.x + ego.length / 2.0 * cos, ego.y + ego.length / 2.0 * sin
    points = () if planning is None else planning.trajectory_point
    ahead = [
        (p.path_point.x, p.path_point.y)
        for p in points
        if (p.path_point.x - front[0]) * cos + (p.path_point.y - front[1]) * sin > 0.1
    ]
    if not ahead:
        ahead = [(front[0] + LEAD_SEEN_M * cos, front[1] + LEAD_SEEN_M * sin)]
    return [front, *ahead]


def _others(ego: Mover, path: Sequence[Point], found: Any) -> dict[str, Any]:
    kinds = (1, 4, 5, _PEDESTRIAN)
    everyone = [(mover_of(each), each.type) for each in found if each.type in kinds]
    vehicles = [m for m, kind in everyone if kind in (1, 4, 5)]
    lead: tuple[float, Mover] | None = None
    nearest: tuple[float, Mover] | None = None
    oncoming: tuple[float, Mover] | None = None
    for other in vehicles:
        gap = _ahead(path, other, ego.width)
        if gap is not None and gap <= LEAD_SEEN_M and (not lead or gap < lead[0]):
            lead = gap, other
        apart = _clearance(ego, other)
        if nearest is None or apart < nearest[0]:
            nearest = apart, other
        turned = abs(math.remainder(other.heading - ego.heading, math.tau))
        if turned > _OTHER_WAY and apart <= ONCOMING_M:
            if oncoming is None or apart < oncoming[0]:
                oncoming = apart, other
    values: dict[str, Any] = {}
    for name, seen in (("lead", lead), ("nearest", nearest), ("oncoming", oncoming)):
        values[f"{name}_distance"] = seen and rounded(min(seen[0], _MOST_M))
        values[f"{name}_speed"] = seen and rounded(3.6 * seen[1].speed)
    hit = (m for m, kind in everyone if kind in (1, 4, 5, _PEDESTRIAN))
    values["collision"] = any(_clearance(ego, other) <= 0.0 for other in hit)
    return values


def _ahead(path: Sequence[Point], other: Mover, width: float) -> float | None:
    """How far along the path somebody's rear is; None if they are not in it."""
    along = 0.0
    reach = (width + other.width) / 2.0
    for (ax, ay), (bx, by) in zip(path, path[1:], strict=False):
        size = math.hypot(bx - ax, by - ay)
        if size > 0.0:
            ux, uy = (bx - ax) / size, (by - ay) / size
            on = (other.x - ax) * ux + (other.y - ay) * uy
            aside = abs((other.y - ay) * ux - (other.x - ax) * uy)
            if 0.0 <= on <= size and aside < reach:
                turned = other.heading - math.atan2(uy, ux)
                half = (
                    abs(math.cos(turned)) * other.length
                    + abs(math.sin(turned)) * other.width
                )
                return max(0.0, along + on - half / 2.0)
        along += size
    return None


def _clearance(one: Mover, other: Mover) -> float:
    """The distance between two bodies, each a line as wide as it is."""
    between = apart(_spine(one), _spine(other))
    return max(0.0, between - (one.width + other.width) / 2.0)


def _spine(mover: Mover) -> tuple[Point, Point]:
    half = max(0.0, mover.length - mover.width) / 2.0
    dx, dy = half * math.cos(mover.heading), half * math.sin(mover.heading)
    return (mover.x - dx, mover.y - dy), (mover.x + dx, mover.y + dy)
