"""People on the crosswalks before the ego, and those about to step onto one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from forewarn.plugins.driving.roads.ways import Footway, Passage
from forewarn.plugins.driving.scene import EGO_WIDTH_M, Mover, Scene
from forewarn.plugins.driving.seeing.arriving import Conflict, Demand, rounded
from forewarn.plugins.driving.seeing.progress import Progress

_WALKER_M = 0.4
_WALK_HALF_M = EGO_WIDTH_M / 2.0 + _WALKER_M
_SOON_S = 6.0
_SEEN_M = 40.0
_SLOWEST = 0.3  # m/s
_ASKEW = 1e-6


def see_people(
    scene: Scene, progress: Progress, demand: Demand, conflicts: list[Conflict]
) -> dict[str, Any]:
    """The signals of those who cross the ego's way on foot.

    Args:
        scene: Everyone.
        progress: Where the ego is.
        demand: Hears of those that it would hit.
        conflicts: Has those added whose ways cross the ego's.
    """
    gap_s: float | None = None
    nearest_m: float | None = None
    first = False
    for person, passage, footway in _crossing(scene, progress):
        met = _meeting(person, passage, footway, progress, scene.ego.length)
        if met is None:
            continue
        begins = met.to_m - 1.0
        conflicts.append(Conflict(begins, met.clear_m, met.comes_s, met.leaves_s))
        gap = demand.meet(passage, met)
        if gap_s is None or gap < gap_s:
            gap_s = gap
        ours = met.to_m + _WALKER_M
        if met.comes_s < _SOON_S:
            if nearest_m is None or ours < nearest_m:
                nearest_m = max(0.0, ours)
            first = first or -1.0 < ours < _SEEN_M
    return {
        "pedestrian_distance": rounded(nearest_m),
        "pedestrian_arrival_gap": rounded(gap_s),
        "priority_pedestrian": first,
    }


def _crossing(
    scene: Scene, progress: Progress
) -> Iterator[tuple[Mover, Passage, Footway]]:
    """Those on the crosswalks ahead, or about to be."""
    if not scene.people:
        return
    footways = {f.edge: (p, f) for p in progress.met for f in p.footways}
    for person in scene.people.values() if footways else ():
        for edge in scene.crosswalks_of(person):
            if edge in footways:
                yield person, *footways[edge]
                break


def _meeting(
    person: Mover,
    passage: Passage,
    footway: Footway,
    progress: Progress,
    length_m: float,
) -> Conflict | None:
    """Where and when somebody is on the ego's way; None if one of them has passed."""
    pace = max(_SLOWEST, person.speed)
    ax, ay = footway.axis
    dx, dy = person.x - footway.point[0], person.y - footway.point[1]
    aside = dx * ax + dy * ay
    onward = math.cos(person.heading) * ax + math.sin(person.heading) * ay
    if abs(onward) < _ASKEW:
        aside = -abs(aside)  # along the road, about to turn onto it
    elif onward < 0.0:
        aside = -aside
    if aside > _WALK_HALF_M:
        return None
    ox, oy = footway.onward
    ours = passage.line_m + footway.at_m - progress.at_m + dx * ox + dy * oy
    if ours + length_m < -_WALKER_M:
        return None
    return Conflict(
        ours - _WALKER_M,
        ours + length_m + _WALKER_M,
        max(0.0, (-aside - _WALK_HALF_M) / pace),
        (_WALK_HALF_M - aside) / pace,
    )
