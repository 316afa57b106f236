"""The ego's way over the roads, and where others cross it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from forewarn.plugins.driving.roads.lanes import LightName, Turn
from forewarn.plugins.driving.roads.lines import Point


@dataclass(frozen=True, slots=True)
class Footway:
    """Where pedestrians cross the ego's way.

    Args:
        edge: The crosswalk's edge.
        near_m: The distance from the stop line to its near side, along the way.
        at_m: To its middle.
        point: The conflict point.
        axis: The direction in which it runs.
        onward: The direction in which the ego crosses it.
    """

    edge: str
    near_m: float
    at_m: float
    point: Point
    axis: Point
    onward: Point


@dataclass(frozen=True, slots=True)
class Foe:
    """Another movement through the junction that meets the ego's.

    Args:
        target: The edge that it leads to.
        ego_m: The conflict point's distance from the ego's stop line.
        foe_m: Its distance from the movement's own stop line.
        half_m: How far before and after the point the two would touch.
        beside_m: From where on, from the ego's stop line, the two ways are so close
            that two cars do not fit beside each other.
        first: Whether that movement has right of way over the ego's.
        light: The light that governs it.
        before_m: For each lane of its way, the stop line's distance from its start.
    """

    target: str
    ego_m: float
    foe_m: float
    half_m: float
    beside_m: float
    first: bool
    light: LightName | None
    before_m: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Passage:
    """One junction on the ego's way.

    Args:
        line_m: Where it begins, along the way: the stop line, if there is one.
        end_m: Where it ends.
        turn: Where it leads.
        light: The light that governs it.
        stops: Whether there is a stop sign.
        is_junction: Whether anything crosses here at all.
        has_line: Whether one may have to stop here.
        exit: The edge that it leads to.
        junction: The junction's name.
        foes: The movements that meet it.
        foes_on: The same, by the lanes that lead to them.
        footways: The crosswalks that it leads over, in their turn.
    """

    line_m: float
    end_m: float
    turn: Turn
    light: LightName | None
    stops: bool
    is_junction: bool
    has_line: bool
    exit: str
    junction: str
    foes: tuple[Foe, ...]
    foes_on: Mapping[str, tuple[Foe, ...]]
    footways: tuple[Footway, ...]


@dataclass(frozen=True, slots=True)
class Way:
    """The lanes before the ego, from the one that it is on to its destination."""

    start_m: Mapping[str, float]
    passages: tuple[Passage, ...]
    length_m: float
