"""Reads the JSON traces that LawBreaker records from Apollo.

LawBreaker's preprocessing makes up some signals (speed limits, street lights,
visibility and arrow lights). This reader omits the made-up signals, so laws over them
do not apply. Two choices of LawBreaker are kept, because its results depend on them:
`timestamp` assumes ten localization messages per second, and the ego's speed is that of
the chassis. In LawBreaker's published example, however, the positions suggest 12.5
messages per second, and the chassis speed sometimes freezes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidInput, InvalidTrace, SignalFault
from forewarn.abstractions.files import check_items, other_kind, read_text
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.lines import check_count
from forewarn.abstractions.trace import Trace, TraceHeader, check_order
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary

MESSAGES_PER_SECOND = 10

_LIGHTS = {"UNKNOWN": 0, "RED": 1, "YELLOW": 2, "GREEN": 3, "BLACK": 4}
_FROM_EGO = (
    *("crosswalkAhead", "junctionAhead", "stopSignAhead", "stoplineAhead"),
    *("isTrafficJam", "isOverTaking", "isLaneChanging", "isTurningAround"),
    *("PriorityNPCAhead", "PriorityPedsAhead"),
)
_FROM_CHASSIS = ("gear", "engineOn", "turnSignal", "hornOn", "highBeamOn", "lowBeamOn")
_OTHERS = (
    ("NPCAhead", "lead_distance", "lead_speed"),
    ("NearestNPC", "nearest_distance", "nearest_speed"),
    ("NPCOpposite", "oncoming_distance", "oncoming_speed"),
    ("PedAhead", "pedestrian_distance", ""),
)


def read_lawbreaker(path: Path) -> Trace:
    """Reads a whole recording as a trace in the driving vocabulary."""
    data = _read(path)
    steps = data.get("trace") if isinstance(data, dict) else None
    if not isinstance(steps, list):
        if problem := other_kind(read_text(path)[:1_000], "a trace"):
            mend = "give a file that `forewarn collect` wrote, or a CSV file"
            raise InvalidTrace(problem, source=str(path), mend=mend)
        raise InvalidTrace(
            "the file is neither forewarn.trace/1, nor CSV, nor a LawBreaker recording",
            source=str(path),
            mend="a recording must have a list under the key 'trace'",
        )
    check_count(path, len(steps))
    vocabulary = load_vocabulary("driving")
    frames = tuple(_frames(path, data, steps))
    header = TraceHeader(
        vocabulary=vocabulary.name,
        provides=tuple(frames[0].values) if frames else (),
        period_s=1 / MESSAGES_PER_SECOND,
        scenario=str(data.get("ScenarioName", "")),
        source=path.name,
    )
    return Trace(header, frames, vocabulary=vocabulary)


def _read(path: Path) -> Any:
    # Recordings contain NaN in fields that no signal uses. In a field that a signal
    # uses, the vocabulary rejects NaN.
    try:
        text = read_text(path)
        check_items(text, str(path))
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        problem = f"not JSON: {error.msg.lower()}"
        raise InvalidTrace(problem, source=str(path), place=place) from error
    except (RecursionError, ValueError) as error:
        raise InvalidTrace("the JSON cannot be parsed", source=str(path)) from error


def _frames(path: Path, data: Mapping[str, Any], steps: list[Any]) -> Iterator[Frame]:
    vocabulary = load_vocabulary("driving")
    last: Frame | None = None
    index = -1
    try:
        scene = _scene(data)
        # Some simulators do not provide the acceleration, and record zeros.
        accelerates = any(map(_acceleration, steps))
        for index, step in enumerate(steps):
            row = {**scene, **_row(step)}
            if accelerates:
                row["acceleration"] = _acceleration(step)
            ticks = step["timestamp"] - steps[0]["timestamp"]
            frame = Frame(ticks / MESSAGES_PER_SECOND, index, vocabulary.translate(row))
            check_order(last, frame)
            yield frame
            last = frame
    except InvalidInput as error:
        raise error.within(str(path), f"trace.{index}") from error
    except SignalFault as fault:
        place = f"trace.{index}"
        raise InvalidTrace(str(fault), source=str(path), place=place) from fault
    except KeyError as error:
        problem = f"the LawBreaker recording lacks the key {error.args[0]!r:.60}"
        raise InvalidTrace(
            problem, source=str(path), place=f"trace.{max(index, 0)}"
        ) from None
    except (
        TypeError,
        AttributeError,
        LookupError,
        ArithmeticError,
        ValueError,
    ) as error:
        problem = "the entry is not a valid step of a LawBreaker recording"
        raise InvalidTrace(
            problem, source=str(path), place=f"trace.{max(index, 0)}"
        ) from error


def _scene(data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the signals that are constant in the whole recording."""
    row = {
        k: data["weather"][k] for k in ("rain", "fog", "snow") if k in data["weather"]
    }
    return row | {"Time": data["time"]["hour"] + data["time"]["minute"] / 60}


def _row(step: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of one step, under our names or LawBreaker's aliases."""
    ego, chassis, truth = step["ego"], step["ego"]["Chasis"], step["truth"]
    row: dict[str, Any] = {name: ego[name] for name in _FROM_EGO}
    row |= {name: chassis[name] for name in _FROM_CHASSIS}
    row |= {
        "speed": 3.6 * abs(chassis["speed"]),
        "brake": chassis["brake"],
        "direction": ego["planning_of_turn"],
        "manualIntervention": str(chassis["error_code"]) == "3",
        "currentLanenumber": ego["currentLane"]["number"],
        "currentLanedirection": ego["currentLane"]["turn"],
        "in_junction": ego["junctionAhead"] == 0,
        "collision": truth["minDistToEgo"] <= 0,
    }
    row |= _light(step["traffic_lights"])
    for who, distance, speed in _OTHERS:
        row |= _other(truth, who, distance, speed)
    return row


def _light(lights: Mapping[str, Any]) -> dict[str, Any]:
    if not lights.get("containLights"):
        none = ("traffic_light", "traffic_light_blinking")
        return {"signalAhead": False, **dict.fromkeys(none)}
    light = lights["trafficLightList"][0]
    return {
        "signalAhead": True,
        "trafficLightAheadcolor": _LIGHTS.get(light["color"], light["color"]),
        "trafficLightAheadblink": bool(light["blink"]),
    }


def _other(
    truth: Mapping[str, Any], who: str, distance: str, speed: str
) -> dict[str, Any]:
    row: dict[str, Any] = {distance: None}
    if speed:
        row[speed] = None
    if truth[who] is None:
        return row
    for other in truth["obsList"]:
        if other["name"] == truth[who]:
            row[distance] = other["distToEgo"]
            if speed:
                row[speed] = 3.6 * other["speed"]
            return row
    raise InvalidTrace(
        f"'{who}' is {truth[who]!r:.60}, but 'obsList' has no object with this name"
    )


def _acceleration(step: Mapping[str, Any]) -> float:
    """Returns the acceleration along the heading in m/s², without gravity."""
    pose = step["ego"]["pose"]
    vector, heading = pose["linearAcceleration"], pose["heading"]
    return float(vector["x"] * math.cos(heading) + vector["y"] * math.sin(heading))
