"""Exports a run for other tools: as a CSV table for statistics, or as an MCAP log for
Foxglove.

Every message in a log is JSON with a JSON schema. Log times are the run's own and start
from zero, so the same record gives the same bytes.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from forewarn import __version__
from forewarn.abstractions.errors import MissingDependency, harmless_cell
from forewarn.abstractions.files import atomic_bytes, atomic_text
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary
from forewarn.monitors.guarding.decision import Risk
from forewarn.plugins.contracts import HIT, Shape, Thing
from forewarn.scenarios.report.drawing import asset
from forewarn.scenarios.report.runs import RecordedRun, vocabulary_of

WORLD = "world"
"""The name of the coordinate frame in which everything is drawn."""

_HEIGHT_M = {"pedestrian": 1.8, "light": 0.2}
_TALL_M = 1.5
_COLORS = {
    "ego": (0.04, 0.34, 0.82),
    "vehicle": (0.55, 0.58, 0.62),
    "pedestrian": (0.5, 0.31, 0.87),
    "furniture": (0.64, 0.58, 0.48),
    "object": (0.35, 0.38, 0.42),
    "green": (0.12, 0.64, 0.28),
    "yellow": (0.95, 0.72, 0.02),
    "red": (0.9, 0.22, 0.17),
    HIT: (0.9, 0.1, 0.1),
}
_GRAY = (0.45, 0.48, 0.52)
_INFO, _WARNING, _ERROR = 2, 3, 4  # Foxglove's log levels
_SCHEMAS = json.loads(asset("schemas.json", "forewarn.scenarios.live"))
"""The JSON schemas of Foxglove's messages and of ours, by name."""


def risk_topics(laws: Sequence[str]) -> list[str]:
    """Returns the risk topic of each law; special characters in names are replaced."""
    plain = [name.isascii() and name.replace("_", "").isalnum() for name in laws]
    return [
        f"/risk/{name if fits else number}"
        for number, (name, fits) in enumerate(zip(laws, plain, strict=True), start=1)
    ]


def risk_message(
    law: str, risk: Risk | None, left_s: float | None, threshold: float | None
) -> dict[str, Any]:
    """Returns the message with a law's risk at one frame.

    Args:
        law: The law's name.
        risk: The risk; None if unknown.
        left_s: The time left to meet a pending obligation, in seconds; None if none is
            pending.
        threshold: The law's lowest threshold; None if it has none.
    """
    low, point, high, likely = (None,) * 4 if risk is None else risk
    likely_low, likely_high = likely or (None, None)
    return {
        "law": law,
        "low": low,
        "risk": point,
        "high": high,
        "likely_low": likely_low,
        "likely_high": likely_high,
        "pending": left_s is not None,
        "left_s": left_s,
        "threshold": threshold,
    }


def plain(value: Any) -> Any:
    """Converts a signal's value to one that JSON can represent."""
    match value:
        case None | bool() | str() | int():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
    return str(value)


# -- Foxglove's own messages ----------------------------------------------------------


def _stamp(time_s: float) -> dict[str, int]:
    at = round(time_s * 1e9)
    return {"sec": at // 1_000_000_000, "nsec": at % 1_000_000_000}


def _pose(x: float, y: float, z: float, heading_deg: float) -> dict[str, Any]:
    # Our headings are clockwise from north, Foxglove's counterclockwise from east.
    yaw = math.radians(90.0 - heading_deg)
    turn = {"x": 0.0, "y": 0.0, "z": math.sin(yaw / 2), "w": math.cos(yaw / 2)}
    return {"position": {"x": x, "y": y, "z": z}, "orientation": turn}


def _color(name: str) -> dict[str, float]:
    r, g, b = _COLORS.get(name, _GRAY)
    return {"r": r, "g": g, "b": b, "a": 1.0}


def _entity(name: str, time_s: float, **parts: Any) -> dict[str, Any]:
    kinds = ("arrows", "cubes", "spheres", "cylinders", "lines", "triangles", "texts",
             "models")  # fmt: skip
    return {
        "timestamp": _stamp(time_s),
        "frame_id": WORLD,
        "id": name,
        "lifetime": {"sec": 0, "nsec": 0},
        "frame_locked": False,
        "metadata": [],
        **{kind: parts.get(kind, []) for kind in kinds},
    }


def scene(things: Iterable[Thing], time_s: float) -> dict[str, Any]:
    """Returns an update that replaces the whole scene, so that seeking in a log
    works.
    """
    everything = {"timestamp": _stamp(time_s), "type": 1, "id": ""}
    entities = [_body(thing, time_s) for thing in things]
    return {"deletions": [everything], "entities": entities}


def _body(thing: Thing, time_s: float) -> dict[str, Any]:
    high = _HEIGHT_M.get(thing.kind, _TALL_M)
    if thing.top_m:
        high = 0.1
    middle = thing.top_m or high / 2
    marked = thing.kind == "light" or thing.state == HIT
    cube = {
        "pose": _pose(thing.x, thing.y, middle, thing.heading_deg),
        "size": {"x": thing.length_m, "y": thing.width_m, "z": high},
        "color": _color(thing.state if marked else thing.kind),
    }
    entity = _entity(thing.name, time_s, cubes=[cube])
    said = {"kind": thing.kind, "state": thing.state, "label": thing.label}
    entity["metadata"] = [{"key": k, "value": v} for k, v in said.items() if v]
    return entity


def ground(shapes: Iterable[Shape], time_s: float) -> dict[str, Any]:
    """Returns the scene update with the stationary parts of the scene."""
    lines = []
    for shape in shapes:
        points = [{"x": x, "y": y, "z": 0.0} for x, y in shape.points]
        lines.append(
            {
                "type": 0 if shape.width_m else 1,
                "pose": _pose(0.0, 0.0, 0.0, 90.0),
                "thickness": shape.width_m or 0.15,
                "scale_invariant": False,
                "points": points,
                "color": _color(shape.kind),
                "colors": [],
                "indices": [],
            }
        )
    entity = _entity("ground", time_s, lines=lines)
    return {"deletions": [], "entities": [entity]}


def transform(thing: Thing, time_s: float) -> dict[str, Any]:
    """Returns the transform from the world frame to the ego vehicle."""
    pose = _pose(thing.x, thing.y, 0.0, thing.heading_deg)
    return {
        "timestamp": _stamp(time_s),
        "parent_frame_id": WORLD,
        "child_frame_id": "ego",
        "translation": pose["position"],
        "rotation": pose["orientation"],
    }


def log(kind: str, text: str, time_s: float) -> dict[str, Any]:
    """Returns the log message for an event."""
    calm = kind in ("end", "proceed", "obeyed", "action")
    level = _ERROR if kind == "violated" else _INFO if calm else _WARNING
    return {
        "timestamp": _stamp(time_s), "level": level, "message": text, "name": kind,
        "file": "", "line": 0,
    }  # fmt: skip


# -- schemas --------------------------------------------------------------------------


def schemas(
    laws: Sequence[str],
    signals: Iterable[str],
    vocabulary: Vocabulary | None,
    seen: bool,
) -> dict[str, tuple[str, dict[str, Any]]]:
    """Returns each topic of a run with its schema's name and its JSON schema.

    Args:
        laws: The watched laws.
        signals: The available signals.
        vocabulary: The vocabulary of the signals.
        seen: Whether the run has scenes.
    """
    found = {
        "/signals": (
            "forewarn.Signals",
            {"type": "object", "properties": _types(signals, vocabulary)},
        )
    }
    names = dict.fromkeys(risk_topics(laws), "forewarn.Risk")
    names |= {"/decision": "forewarn.Decision", "/events": "foxglove.Log"}
    if seen:
        names |= dict.fromkeys(("/ground", "/scene"), "foxglove.SceneUpdate")
        names |= {"/tf": "foxglove.FrameTransform"}
    return found | {topic: (name, _SCHEMAS[name]) for topic, name in names.items()}


def _types(signals: Iterable[str], vocabulary: Vocabulary | None) -> dict[str, Any]:
    names = {"number": "number", "bool": "boolean", "enum": "string"}
    types: dict[str, Any] = {}
    for name in signals:
        signal = vocabulary.signals.get(name) if vocabulary is not None else None
        kind = "boolean" if signal is None else names[signal.type]
        types[name] = {"type": [kind, "null"]}
        if signal is not None and signal.unit:
            types[name]["description"] = signal.unit
    return types


def write_csv(run: RecordedRun, path: Path) -> int:
    """Writes a run's frames with risks and decisions as CSV; returns the number of
    rows.
    """
    bounds = ("low", "risk", "high", "likely low", "likely high", "left_s")
    head = ["time_s", "sequence", "decision"]
    head += [f"{law.name}: {each}" for law in run.laws for each in bounds]
    with atomic_text(path) as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(map(harmless_cell, [*head, *run.signals]))
        for i, time_s in enumerate(run.times_s):
            row: list[Any] = [time_s, run.sequences[i], run.decisions[i]]
            for law in run.laws:
                risk = law.risks[i]
                row += [None] * 3 if risk is None else risk[:3]
                row += (risk and risk.likely) or (None, None)
                row.append(law.left_s[i])
            writer.writerow([*row, *(_cell(each[i]) for each in run.signals.values())])
    return len(run.times_s)


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return harmless_cell(value) if isinstance(value, str) else value


Message = tuple[str, float, dict[str, Any]]
"""A topic, a time in seconds, and the message's content."""


def write_mcap(run: RecordedRun, path: Path) -> dict[str, int]:
    """Writes a run as an MCAP file.

    Returns:
        The number of messages by topic.

    Raises:
        MissingDependency: The extra `mcap` is not installed.
    """
    try:
        from mcap.writer import Writer
    except ImportError as error:
        raise MissingDependency("writing MCAP", "mcap") from error
    laws = [law.name for law in run.laws]
    seen = run.scenery is not None
    told = schemas(laws, run.signals, vocabulary_of(run), seen)
    counts: dict[str, int] = {}
    buffer = BytesIO()
    writer: Any = Writer(buffer)
    writer.start("", f"forewarn {__version__}")
    channels: dict[str, int] = {}
    for topic, (name, schema) in told.items():
        data = json.dumps(schema).encode()
        number = writer.register_schema(name, "jsonschema", data)
        channels[topic] = writer.register_channel(topic, "json", number)
    for topic, time_s, content in _messages(run):
        at = round(time_s * 1e9)
        counts[topic] = counts.get(topic, 0) + 1
        data = json.dumps(content, separators=(",", ":"), allow_nan=False).encode()
        writer.add_message(channels[topic], at, data, at, counts[topic])
    writer.finish()
    with atomic_bytes(path) as out:
        out.write(buffer.getvalue())
    return counts


LawRisk = tuple[str, Risk | None, float | None, Sequence[float]]
"""A law's name, its risk, the time left to meet a pending obligation, and its
thresholds.
"""


def moment(
    time_s: float, values: Mapping[str, Any], laws: Iterable[LawRisk], decision: str
) -> Iterator[Message]:
    """Yields the messages of one frame, without its scene."""
    yield "/signals", time_s, {name: plain(value) for name, value in values.items()}
    risks = list(laws)
    topics = risk_topics([name for name, *_ in risks])
    for topic, (law, risk, left_s, thresholds) in zip(topics, risks, strict=True):
        least = min(thresholds, default=None)
        yield topic, time_s, risk_message(law, risk, left_s, least)
    yield "/decision", time_s, {"decision": decision}


def scenes(things: Iterable[Thing], time_s: float) -> Iterator[Message]:
    """Yields the messages with the moving things of one frame."""
    seen = list(things)
    yield "/scene", time_s, scene(seen, time_s)
    for thing in seen:
        if thing.kind == "ego":
            yield "/tf", time_s, transform(thing, time_s)


def _messages(run: RecordedRun) -> Iterator[Message]:
    """Yields all messages in chronological order."""
    started = run.times_s[0]
    if run.scenery is not None:
        yield "/ground", started, ground(run.scenery.ground, started)
    moments = {m.sequence: m for m in run.scenery.moments} if run.scenery else {}
    events = list(run.events)
    for i, time_s in enumerate(run.times_s):
        risks = (
            (law.name, law.risks[i], law.left_s[i], [at for _, at in law.steps])
            for law in run.laws
        )
        values = {name: each[i] for name, each in run.signals.items()}
        yield from moment(time_s, values, risks, run.decisions[i])
        if (found := moments.get(run.sequences[i])) is not None:
            yield from scenes(found.things.values(), time_s)
        while events and events[0].time_s <= time_s:
            event = events.pop(0)
            told = log(event.kind, event.text, event.time_s)
            yield "/events", event.time_s, told
