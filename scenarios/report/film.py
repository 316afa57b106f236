"""The data for the animation of a run; frames are dropped until the data fits."""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from forewarn.monitors.guarding.decision import Risk
from forewarn.monitors.laws.lawbook import Law
from forewarn.plugins.contracts import Point, Shape, Thing
from forewarn.scenarios.report.runs import SLOW_S, LawStory, RecordedRun, vocabulary_of
from forewarn.scenarios.running.scenery import Scenery, VisibleThings

SEEN_M = 120.0
"""The maximum distance in metres from the ego at which things are shown, except
in rooms.
"""


def tracks(
    scenery: Scenery, sequences: Sequence[int], concern: Iterable[str]
) -> dict[str, Any]:
    """Returns the ground, and the tracks of the things to draw.

    Args:
        scenery: The scenes of the run.
        sequences: The sequence numbers of the frames that are shown.
        concern: The names in the laws; things with these names are highlighted.
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


def stills(
    scenery: Scenery, sequences: Sequence[int], room: int
) -> list[tuple[int, str]]:
    """Returns the pictures that a world rendered, each with the index of the frame from
    which it is shown.

    Args:
        scenery: The scenes of the run.
        sequences: The sequence numbers of the frames that are shown.
        room: The maximum number of characters; every second picture is dropped until
            the rest fit.
    """
    taken = sorted(scenery.pictures)
    found: dict[int, int] = {}
    for i, sequence in enumerate(sequences):
        found.setdefault(bisect_right(taken, sequence) - 1, i)
    found.pop(-1, None)  # frames before the first picture
    shown = [(i, scenery.pictures[taken[last]]) for last, i in found.items()]
    while shown and sum(len(picture) for _, picture in shown) > room:
        shown = shown[::2] if len(shown) > 1 else []
    return [(0, shown[0][1]), *shown[1:]] if shown else []


def concerned(laws: Iterable[Law]) -> set[str]:
    """Returns the names of the things in the laws: the arguments of signals, such as
    `Fridge` in `is_open(Fridge)`.
    """
    names: set[str] = set()
    for signal in (signal for law in laws for signal in law.signals):
        _, _, inside = signal.partition("(")
        names |= {part.strip(" )").partition("#")[0] for part in inside.split(",")}
    return names - {""}


def _ego(moment: VisibleThings | None) -> Point | None:
    for thing in moment.things.values() if moment is not None else ():
        if thing.kind == "ego":
            return thing.x, thing.y
    return None


class _Near:
    """The area around the ego's path; selects the shapes of the ground to draw."""

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
    moments: Sequence[VisibleThings | None], nearby: bool
) -> list[tuple[int, list[Thing]]]:
    """Returns each uninterrupted appearance of a thing, with the index of the first
    frame.
    """
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
        "states": in_runs([each.state for each in things]),
    }
    if thing.label in concern:
        content["concern"] = True
    return content


def in_runs(values: Sequence[Any]) -> list[list[Any]]:
    """Run-length encodes values: pairs of a first position and a value."""
    found: list[list[Any]] = []
    for i, value in enumerate(values):
        if not found or found[-1][1] != value:
            found.append([i, value])
    return found


def _numbers(values: Iterable[int]) -> list[int]:
    """Returns the values, or a single value if all are equal."""
    found = list(values)
    return found[:1] if len(set(found)) == 1 else found


def _cm(metres: float) -> int:
    return round(100.0 * metres)


LONGEST = 1_400_000
"""The maximum size of a run's data, in characters; longer runs are shown with fewer
frames.
"""

_DISTANCES = (
    "stop_line_distance", "lead_distance", "pedestrian_distance", "oncoming_distance",
    "nearest_distance", "junction_distance",
)  # fmt: skip
TOLD = ("speed", "traffic_light", "last_action", "last_action_object", "holding")
"""The signals that are shown next to a picture."""
_BEFORE_S, _AFTER_S = 4.0, 5.0

Window = tuple[float, float]
"""The beginning and the end of a part of a run, in seconds of simulated time."""


def film(
    run: RecordedRun,
    share: int = LONGEST,
    window: Window | None = None,
) -> dict[str, Any]:
    """Returns a run's data for the page's script.

    Args:
        run: The run.
        share: The maximum number of characters.
        window: The part of the run to show, with only the signals of the curves; None
            for the whole run with all signals.
    """
    stride = 1
    while True:
        found = _film(run, stride, window, share // 2)
        size = len(json.dumps(found, separators=(",", ":")))
        if size <= share or stride >= len(run.times_s):
            return found
        stride *= 2


def _film(
    run: RecordedRun,
    stride: int,
    window: Window | None,
    room: int,
) -> dict[str, Any]:
    begin, end = window or (run.times_s[0], run.times_s[-1])
    there = [i for i, time_s in enumerate(run.times_s) if begin <= time_s <= end]
    shown = there[::stride]
    if shown[-1] != there[-1]:
        shown.append(there[-1])

    def kept(values: Sequence[Any]) -> list[Any]:
        return [values[i] for i in shown]

    signals = {
        name: [_short(v) for v in kept(each)]
        for name, each in _signals(run)
        if window is None or name in (*TOLD, *_DISTANCES)
    }
    units = _units(run)
    scene = None
    if run.scenery is not None and run.scenery.pictures:
        scene = {"pictures": stills(run.scenery, kept(run.sequences), room)}
    elif run.scenery is not None:
        scene = tracks(run.scenery, kept(run.sequences), concerned(_laws(run)))
    return {
        "times": [round(t, 3) for t in kept(run.times_s)],
        "stride": stride,
        "step": run.period_s >= SLOW_S,
        "start": max(_start(run), round(begin, 3)),
        "until": min(_until(run), round(end, 3)),
        "decisions": in_runs(kept(run.decisions)),
        "laws": [_law(law, run, kept) for law in run.laws],
        "signals": [
            {"name": name, "unit": units.get(name), **_packed(values)}
            for name, values in signals.items()
        ],
        "curves": [
            {"name": name, "unit": units.get(name), "values": signals[name]}
            for name in _curves(run, signals)
        ],
        "strips": [
            {"name": name, "values": values}
            for name, values in signals.items()
            if name in _law_signals(run) and all(isinstance(v, bool) for v in values)
        ],
        "told": [[name, units.get(name)] for name in TOLD if name in signals],
        "scene": scene,
    }


def _law(law: LawStory, run: RecordedRun, kept: Any) -> dict[str, Any]:
    risks = kept(law.risks)
    foreseen = kept(run.foreseen)
    return {
        "name": law.name,
        "steps": [[kind, threshold] for kind, threshold in law.steps],
        "low": [_part(risk, 0) for risk in risks],
        "point": [_part(risk, 1) for risk in risks],
        "high": [_part(risk, 2) for risk in risks],
        "likely": _likely(risks),
        "pending": kept(law.left_s),
        "foreseen": [_part(risk, 1) for risk in foreseen],
        # An obligation still pending at the end may go unmet after the last frame.
        "broken": [min(round(t, 3), round(run.times_s[-1], 3)) for t, _ in law.broken],
        "marks": _marks(law, run),
    }


def _marks(law: LawStory, run: RecordedRun) -> list[list[Any]]:
    marks: list[list[Any]] = []
    alarm = first_alarm(law, run)
    if alarm is not None:
        marks.append([alarm, "alarm", "warning"])
    for time_s, since_s in law.broken:
        if since_s < time_s:
            marks.append([since_s, "owed", "trigger"])
        marks.append([min(time_s, run.times_s[-1]), "violated", "broken"])
    return sorted(marks)


def first_alarm(law: LawStory, run: RecordedRun) -> float | None:
    """Returns the time at which the guard first warned or intervened for this law;
    None if it never did.
    """
    if not law.steps:
        return None
    least = min(threshold for _, threshold in law.steps)
    judged = zip(run.times_s, run.decisions, law.risks, run.foreseen, strict=True)
    for time_s, kind, risk, ahead in judged:
        points = [each.point for each in (risk, ahead) if each is not None]
        if kind != "proceed" and any(point >= least for point in points):
            return time_s
    return None


def _start(run: RecordedRun) -> float:
    """Returns the time at which playback starts: shortly before the first event."""
    turns = [e.time_s for e in run.events if e.kind not in ("end", "proceed", "action")]
    if not turns or run.period_s >= SLOW_S:
        return run.times_s[0]
    return max(run.times_s[0], min(turns) - _BEFORE_S)


def _until(run: RecordedRun) -> float:
    """Returns the time at which playback stops: shortly after the first violation and
    the first alarm.
    """
    moments = [e.time_s for e in run.events if e.kind in ("violated", "obeyed")]
    alarms = [a for law in run.laws if (a := first_alarm(law, run)) is not None]
    if not moments and not alarms:
        return run.times_s[-1]
    last = min(moments, default=0.0)
    return min(run.times_s[-1], max(last, min(alarms, default=0.0)) + _AFTER_S)


def _signals(run: RecordedRun) -> Iterable[tuple[str, Sequence[Any]]]:
    """Returns all signals; those of the laws and of the picture's text come first."""
    first = [*TOLD, *_law_signals(run)]
    names = sorted(run.signals, key=lambda name: name not in first)
    return [(name, run.signals[name]) for name in names]


def _laws(run: RecordedRun) -> list[Law]:
    return [] if run.watch is None else [law.law for law in run.watch.laws]


def _law_signals(run: RecordedRun) -> list[str]:
    return list(dict.fromkeys(s for law in _laws(run) for s in law.signals))


def _curves(run: RecordedRun, signals: Mapping[str, Sequence[Any]]) -> list[str]:
    """Returns the names of the plotted signals: the speed and the most relevant
    distance.
    """
    mentioned = [name for name in _DISTANCES if name in _law_signals(run)]
    known = [
        name
        for name in (*mentioned, *_DISTANCES)
        if any(isinstance(v, float | int) for v in signals.get(name, ()))
    ]
    return [*(["speed"] if "speed" in signals else []), *known[:1]]


def _units(run: RecordedRun) -> dict[str, str]:
    vocabulary = vocabulary_of(run)
    signals = {} if vocabulary is None else vocabulary.signals
    return {name: signal.unit for name, signal in signals.items() if signal.unit}


def _likely(risks: Sequence[Risk | None]) -> list[list[float | None]]:
    """Returns the two ends of the risk's likely interval by frame; empty if no model
    has one.
    """
    ends = [(None, None) if r is None or r.likely is None else r.likely for r in risks]
    if all(low is None for low, _ in ends):
        return []
    return [
        [None if end is None else round(end, 3) for end in side]
        for side in zip(*ends, strict=True)
    ]


def _part(risk: Risk | None, part: int) -> float | None:
    return None if risk is None else round(risk[:3][part], 4)


def _short(value: Any) -> Any:
    match value:
        case None | bool():
            return value
        case int() | float():
            # JSON has no NaN or infinity, so these become text.
            finite = value - value == 0
            return float(f"{value:.4g}") if finite else str(value)
        case str():
            return value[:60]
    return str(value)[:60]


def _packed(values: Sequence[Any]) -> dict[str, Any]:
    packed = in_runs(values)
    if 2 * len(packed) < len(values):
        return {"runs": packed}
    return {"values": list(values)}
