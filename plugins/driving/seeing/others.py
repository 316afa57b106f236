"""Other vehicles: who is ahead, who is near, whose way is crossed, who goes first."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from forewarn.plugins.driving.bodies import clearance
from forewarn.plugins.driving.roads.ways import Foe, Passage
from forewarn.plugins.driving.scene import Colour, Mover, Near, Scene
from forewarn.plugins.driving.seeing.arriving import (
    Conflict,
    Demand,
    rounded,
)
from forewarn.plugins.driving.seeing.progress import Progress

OTHERS_SEEN_M = 120.0
ONCOMING_M = 30.0
JAM_SEEN_M = 60.0
JAM_EXIT_M = 30.0

_CREEP = 1.5  # m/s: a vehicle that stands may set off
_LEAD_BRAKES = 6.0  # m/s²
_SOON_S = 6.0
_HINDERS_S = 1.0  # who would pass so shortly before or after is hindered
_PRIORITY_M = 12.0  # from where on one must give way
_OTHER_WAY = math.radians(135.0)
_STANDS = 1.0  # m/s
_JAM = 3
_RED = Colour.RED
_FARTHEST_M = 1000.0


def see_lead(lead: Near | None, demand: Demand) -> dict[str, Any]:
    """The signals of the vehicle ahead, and what it asks of the ego."""
    if lead is None:
        return {"lead_distance": None, "lead_speed": None}
    its, gap = lead.who.speed, lead.room_m
    demand.brake_within(gap + its * its / (2.0 * _LEAD_BRAKES))
    closing = demand.speed - its
    if closing > 0.05:
        demand.collide_in(gap / closing)
    return {"lead_distance": round(gap, 3), "lead_speed": round(3.6 * its, 3)}


class Around(NamedTuple):
    """Who is around the ego at one moment.

    Args:
        near: Everybody within sight, in the scene's order.
        nearest: Of all.
        oncoming: The nearest of those who come the other way.
    """

    near: list[Mover]
    nearest: Mover | None
    oncoming: Mover | None


def around(scene: Scene) -> Around:
    """Everybody else, seen once."""
    ego = scene.ego
    back = ego.length / 2.0
    x = ego.x - back * math.cos(ego.heading)
    y = ego.y - back * math.sin(ego.heading)
    near: list[Mover] = []
    watch, seen_m2 = scene.watch, OTHERS_SEEN_M * OTHERS_SEEN_M
    nearest = oncoming = None
    nearest_m2 = oncoming_m2 = math.inf
    for other in scene.vehicles.values():
        if other is ego:
            continue
        dx, dy = other.x - x, other.y - y
        away_m2 = dx * dx + dy * dy
        if away_m2 < nearest_m2:
            nearest, nearest_m2 = other, away_m2
        if away_m2 > seen_m2:
            continue
        near.append(watch(other))
        if away_m2 < oncoming_m2:
            turned = math.remainder(other.heading - ego.heading, math.tau)
            if abs(turned) > _OTHER_WAY:
                oncoming, oncoming_m2 = other, away_m2
    if nearest is not None and not near:
        scene.watch(nearest)
    return Around(near, nearest, oncoming)


def see_around(ego: Mover, seen: Around) -> dict[str, Any]:
    """How far the nearest vehicle is, and the nearest that comes the other way."""
    nearest_m, nearest_kmh = _apart(ego, seen.nearest, math.inf)
    oncoming_m, oncoming_kmh = _apart(ego, seen.oncoming, ONCOMING_M)
    return {
        "nearest_distance": nearest_m,
        "nearest_speed": nearest_kmh,
        "oncoming_distance": oncoming_m,
        "oncoming_speed": oncoming_kmh,
    }


def _apart(
    ego: Mover, other: Mover | None, most_m: float
) -> tuple[float, float] | tuple[None, None]:
    """How far somebody is and how fast, if not too far."""
    apart = None if other is None else clearance(ego, other, most_m)
    if other is None or apart is None:
        return None, None
    return round(min(apart, _FARTHEST_M), 3), round(3.6 * other.speed, 3)


def jammed(scene: Scene, near: list[Mover], progress: Progress) -> bool:
    """Whether vehicles stand in the junction ahead, or right behind it."""
    jam = progress.here
    if jam is None and progress.ahead is not None:
        jam = progress.ahead if progress.to(progress.ahead) < JAM_SEEN_M else None
    if jam is None:
        return False
    standing = 0
    for other in near:
        lane = scene.roads.lanes.get(other.lane) if other.speed < _STANDS else None
        if lane is not None:
            leaves = lane.edge == jam.exit and other.at_m < JAM_EXIT_M
            standing += leaves or (lane.inside and lane.junction == jam.junction)
    return standing >= _JAM


class Crossing(NamedTuple):
    """What is seen of those whose ways cross the ego's.

    Args:
        first: Whether the ego must give way to one of them.
        signals: Of them.
    """

    first: bool
    signals: dict[str, Any]


def see_crossing(
    scene: Scene,
    near: list[Mover],
    progress: Progress,
    demand: Demand,
    conflicts: list[Conflict],
) -> Crossing:
    """The vehicles whose ways cross the ego's.

    Args:
        scene: Everyone.
        near: Those within sight.
        progress: Where the ego is.
        demand: Hears of those that it would hit.
        conflicts: Has those added whose ways cross the ego's.
    """
    gaps: list[float] = []
    first_gaps: list[float] = []
    first_comes: list[float] = []
    hinders = False
    for passage, foe, other in _meeting(scene, near, progress):
        met = _when(passage, foe, other, progress, scene.ego.length)
        if met is None:
            continue
        ours = progress.to(passage)
        begins = min(met.to_m - foe.half_m, ours + foe.beside_m)
        ends = met.clear_m + foe.half_m
        conflicts.append(Conflict(begins, ends, met.comes_s, met.leaves_s))
        gap = demand.meet(passage, met)
        gaps.append(gap)
        if foe.first and met.comes_s < _SOON_S:
            hinders = hinders or (gap < _HINDERS_S and ours < _PRIORITY_M)
            first_gaps.append(gap)
            first_comes.append(met.comes_s)
    return Crossing(
        hinders,
        {
            "arrival_gap": rounded(min(gaps, default=None)),
            "priority_gap": rounded(min(first_gaps, default=None)),
            "priority_arrival": rounded(min(first_comes, default=None)),
        },
    )


def _meeting(
    scene: Scene, near: list[Mover], progress: Progress
) -> Iterator[tuple[Passage, Foe, Mover]]:
    """Everybody whose way meets the ego's, if no light holds them."""
    met = progress.met
    for other in near if met else ():
        for passage in met:
            foes = passage.foes_on.get(other.lane, ())
            edges = scene.edges_of(other) if foes else ()
            for foe in foes:
                if foe.target not in edges:
                    continue
                waits = foe.light is not None and foe.before_m[other.lane] > 0.0
                if waits and foe.light and scene.light(foe.light).colour is _RED:
                    continue
                yield passage, foe, other


def _when(
    passage: Passage, foe: Foe, other: Mover, progress: Progress, length_m: float
) -> Conflict | None:
    """When the other is where the ways meet; None if one of them has passed."""
    theirs = foe.before_m[other.lane] - other.at_m + foe.foe_m
    ours = passage.line_m + foe.ego_m - progress.at_m
    half = foe.half_m
    if theirs + other.length < -half or ours + length_m < -half:
        return None
    pace = max(other.speed, _CREEP)
    return Conflict(
        ours - half,
        ours + length_m + half,
        max(0.0, (theirs - half) / pace),
        max(0.0, (theirs + other.length + half) / pace),
    )
