"""Scenes as a page carries them: a track a thing, in whole centimetres."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from forewarn.monitors.laws.lawbook import Law
from forewarn.plugins.contracts import Point, Shape, Thing
from forewarn.scenarios.running.scenery import Moment, Scenery

SEEN_M = 120.0
"""How far from the ego others are shown where there is no room around it."""


def tracks(
    scenery: Scenery, sequences: Sequence[int], concern: Iterable[str]
) -> dict[str, Any]:
    """What a page draws.

    Args:
        scenery: What there was to see.
        sequences: The frames that are shown.
        concern: Names in the laws: what bears one is marked.
    """
    by_sequence = {moment.sequence: moment for moment in scenery.moments}
    moments = [by_sequence.get(sequence) for sequence in sequences]
    room = any(shape.kind == "floor" for shape in scenery.ground)
    way = [ego for moment in moments if (ego := _ego(moment)) is not None]
    near = None if room or not way else _Near(way)
    names = set(concern)
    return {
        "room": room,
        "ground": [
            [shape.kind, _cm(shape.width_m), [_cm(v) for p in shape.points for v in p]]
            for shape in scenery.ground
            if near is None or near.shape(shape)
        ],
        "things": [
            _track(first, things, names)
            for first, things in _presences(moments, near is not None)
        ],
    }


def concerned(laws: Iterable[Law]) -> set[str]:
    """What laws speak of: every word that stands in brackets."""
    names: set[str] = set()
    for signal in (signal for law in laws for signal in law.signals):
        _, _, inside = signal.partition("(")
        names |= {part.strip(" )").partition("#")[0] for part in inside.split(",")}
    return names - {""}


def _ego(moment: Moment | None) -> Point | None:
    for thing in moment.things.values() if moment is not None else ():
        if thing.kind == "ego":
            return thing.x, thing.y
    return None


class _Near:
    """What lies within sight of the ego's way."""

    def __init__(self, way: Sequence[Point]) -> None:
        self._way = way[:: max(1, len(way) // 50)]

    def shape(self, shape: Shape) -> bool:
        low_x, high_x = _span(x for x, _ in shape.points)
        low_y, high_y = _span(y for _, y in shape.points)
        return any(low_x <= x <= high_x and low_y <= y <= high_y for x, y in self._way)


def _span(values: Iterable[float]) -> tuple[float, float]:
    known = list(values)
    return min(known) - SEEN_M, max(known) + SEEN_M


def _presences(
    moments: Sequence[Moment | None], nearby: bool
) -> list[tuple[int, list[Thing]]]:
    """Each thing for as long as it is seen without a gap, with its first frame."""
    found: list[tuple[int, list[Thing]]] = []
    open_: dict[str, list[Thing]] = {}
    at: Point | None = None
    for i, moment in enumerate(moments):
        at = _ego(moment) or at
        seen: Mapping[str, Thing] = {} if moment is None else moment.things
        still: dict[str, list[Thing]] = {}
        for name, thing in seen.items():
            apart = math.dist(at, (thing.x, thing.y)) if nearby and at else 0.0
            if apart > SEEN_M:
                continue
            track = open_.get(name)
            if track is None:
                track = []
                found.append((i, track))
            track.append(thing)
            still[name] = track
        open_ = still
    return found


def _track(first: int, things: Sequence[Thing], concern: set[str]) -> dict[str, Any]:
    thing = things[0]
    content: dict[str, Any] = {
        "name": thing.label or thing.name,
        "kind": thing.kind,
        "first": first,
        "frames": len(things),
        "x": _numbers(_cm(each.x) for each in things),
        "y": _numbers(_cm(each.y) for each in things),
        "h": _numbers(round(each.heading_deg) for each in things),
        "l": _cm(thing.length_m),
        "w": _cm(thing.width_m),
        "top": _numbers(_cm(each.top_m) for each in things),
        "states": runs([each.state for each in things]),
    }
    if thing.label in concern:
        content["concern"] = True
    return content


def runs(values: Sequence[Any]) -> list[list[Any]]:
    """Where a value begins that stays for a while: pairs of place and value."""
    found: list[list[Any]] = []
    for i, value in enumerate(values):
        if not found or found[-1][1] != value:
            found.append([i, value])
    return found


def _numbers(values: Iterable[int]) -> list[int]:
    """The values, or one if it stays the same."""
    found = list(values)
    return found[:1] if len(set(found)) == 1 else found


def _cm(metres: float) -> int:
    return round(100.0 * metres)
