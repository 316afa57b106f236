"""Valid files of all kinds, as Forewarn writes them."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from forewarn.abstractions.abstraction import from_expressions
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.trace import Note, Trace, TraceHeader, write_trace
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.formats.own import model_as_dict
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.chains.model import Model
from forewarn.monitors.guarding.decision import Action
from forewarn.monitors.guarding.guard import Guard
from forewarn.monitors.guarding.policy import Policy, Step, When
from forewarn.monitors.guarding.record import RunRecord
from forewarn.monitors.guarding.watch import load_watch
from forewarn.plugins.chat import Message, RecordedChat, Reply
from forewarn.plugins.loop.records import model_file
from forewarn.thor_bridge.household.scenes import own_scenes

LAW = "always (stop_line_distance < 5 m -> eventually[0, 0.3 s] speed < 1 km/h)"
SIGNALS = ("speed", "stop_line_distance", "traffic_light", "braking")
PREDICATES = (
    "stop_line_distance < 5 m",
    "speed < 1 km/h",
    "traffic_light == red",
    "braking",
)

VOCABULARY: dict[str, Any] = {
    "format": "forewarn.vocabulary/1",
    "name": "kettles",
    "signals": {
        "heat": {"type": "number", "unit": "m/s", "range": [0, 100], "none": "empty"},
        "lid": {"type": "bool"},
        "whistle": {"type": "enum", "values": ["low", "high"], "none": "silent"},
    },
    "inputs": {"stove": ["flame"]},
    "predicates": {"is_open": {"arities": [1]}, "is_inside": {"arities": [1, 2]}},
    "aliases": {
        "T": {"signal": "heat", "scale": 3.6, "none_codes": [-1]},
        "W": {"signal": "whistle", "codes": {0: "low", 1: "high"}},
    },
}
LAWS: dict[str, Any] = {
    "format": "forewarn.laws/1",
    "vocabulary": "driving",
    "statute": "House rules",
    "definitions": {"standing": "speed < 1 km/h", "near": "stop_line_distance < 5 m"},
    "laws": {
        "stops": {
            "title": "stops",
            "article": "1",
            "formula": "always (near -> eventually[0, 2 s] standing)",
            "clock_s": 0.5,
        },
        "both": {
            "title": "two parts",
            "editions": {
                "probguard": {"a": "always not collision", "b": "always standing"},
                "lawbreaker": {"a": "always standing", "b": "once[0, 1 s] near"},
            },
        },
    },
}
SCENARIO: dict[str, Any] = {
    "format": "forewarn.scenario/1",
    "name": "line",
    "title": "a line",
    "world": {
        "name": "tiny",
        "settings": {"gap": "$gap", "deep": {"list": [1, "$who"]}},
    },
    "pilot": {"name": "tiny", "settings": {}},
    "laws": [LAW, "no_collision"],
    "abstraction": {
        "format": "forewarn.abstraction/1",
        "name": "line",
        "vocabulary": "driving",
        "period_s": 0.1,
        "predicates": [*PREDICATES, "collision"],
    },
    "draws": {
        "gap": {"uniform": [1, 2.5]},
        "who": {"choice": ["a", True, None], "weights": [1, 2, 3]},
        "speed": {"normal": {"mean": 3, "sd": 1, "low": 0}},
        "count": {"integer": [1, 5]},
        "odd": {"chance": 0.25},
    },
    "end": {"max_time_s": 30, "on_violation": "stop"},
    "expected_base_rate": {"no_collision": [0, 0.5]},
}


def _yaml(content: object) -> bytes:
    return yaml.safe_dump(content, sort_keys=False).encode()


def frames() -> tuple[Frame, ...]:
    """Returns frames of a car that approaches a stop line twice."""
    found = []
    for i in range(40):
        at = (40 - i % 20) * 1.5 - 28
        values: dict[str, Any] = {
            "speed": max(0.0, at),
            "stop_line_distance": max(0.0, at) if i % 7 else None,
            "traffic_light": "red" if i % 3 else None,
            "braking": i % 2 == 0,
        }
        found.append(Frame(round(0.1 * i, 3), i, values))
    return tuple(found)


@cache
def chain() -> Chain:
    """Returns a chain with four states, a label and a variable."""
    third = Fraction(1, 3)
    rows = {
        0: {0: Fraction(14, 349), 1: Fraction(335, 349)},
        1: {1: third, 2: third, 3: third},
        2: {0: Fraction(1)},
    }
    return Chain.from_rows(
        ["0", "1", "2", "3"],
        rows,
        initial=0,
        labels={"hot": frozenset({2, 3})},
    )


def _learned(**facts: Any) -> Model:
    abstraction = from_expressions(PREDICATES, load_vocabulary("driving"))
    tally = Tally()
    names = [
        abstraction.state_name(abstraction.encode(frame.values)) for frame in frames()
    ]
    tally.add_sequence(names[:20])
    tally.add_sequence(names[20:])
    return learn(
        tally, Support("observed"), Fraction(1, 2), "absorb",
        abstraction=abstraction.as_dict(), period_s=0.1, laws=(LAW,), **facts,
    )  # fmt: skip


@cache
def model() -> Model:
    """Returns a model for one law that is learned from the frames."""
    return _learned(training={"traces": 2, "files": [{"name": "a", "sha256": "0"}]})


def model_json(of: Model) -> bytes:
    return json.dumps(model_as_dict(of), indent=1).encode()


def explicit(suffix: str = ".tra") -> bytes:
    """Returns a transition file, or the file of labels or variables next to it."""
    golden = Path(__file__).parents[1] / "golden" / "chains" / "kettle.tra"
    return golden.with_suffix(suffix).read_bytes()


def _probguard() -> bytes:
    content = {
        "states": ["00", "01", "11"],
        "state_index": {"00": 0, "01": 1, "11": 2},
        "transition_probs": {
            "00": {"00": "14/349", "01": "335/349"},
            "01": {"11": "1"},
            "11": {"11": "1/2", "00": "0.5"},
        },
        "state_interpret": {"00": ["a"]},
        "predicates": ["a", "b"],
    }
    return json.dumps(content, indent=1).encode()


def _trace() -> bytes:
    header = TraceHeader("driving", SIGNALS, 0.1, "line", 3, "fuzz")
    note = Note({"name": "control"}, None, "Stove", ("stop",), "unsafe")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.jsonl"
        write_trace(path, Trace(header, frames()[:6], {2: note}))
        return path.read_bytes()


def _table() -> bytes:
    rows = ["time_s,speed,stop_line_distance,traffic_light,braking,other"]
    for frame in frames()[:6]:
        cells = ("none" if v is None else str(v).lower() for v in frame.values.values())
        rows.append(f"{frame.time_s},{','.join(cells)},x{frame.sequence}")
    return "\n".join(rows).encode() + b"\n"


def _lawbreaker() -> bytes:
    def step(i: int) -> dict[str, Any]:
        ego: dict[str, Any] = dict.fromkeys(
            ("crosswalkAhead", "junctionAhead", "stopSignAhead", "stoplineAhead"), 20.0
        )
        ego |= dict.fromkeys(
            ("isTrafficJam", "isOverTaking", "isLaneChanging", "isTurningAround",
             "PriorityNPCAhead", "PriorityPedsAhead"), False,
        )  # fmt: skip
        ego["Chasis"] = {
            "gear": 1, "engineOn": True, "turnSignal": 0, "hornOn": False,
            "highBeamOn": False, "lowBeamOn": False, "speed": 3.0 + i, "brake": 0.0,
            "error_code": 0,
        }  # fmt: skip
        ego |= {"planning_of_turn": 0, "currentLane": {"number": 1, "turn": 0}}
        ego["pose"] = {"linearAcceleration": {"x": 1.0, "y": 0.5}, "heading": 0.1}
        return {
            "timestamp": i,
            "ego": ego,
            "truth": {
                "minDistToEgo": 4.5, "NPCAhead": "npc1", "NearestNPC": "npc1",
                "NPCOpposite": None, "PedAhead": None,
                "obsList": [{"name": "npc1", "distToEgo": 9.5, "speed": 2.0}],
            },
            "traffic_lights": {
                "containLights": i % 2,
                "trafficLightList": [{"color": "RED", "blink": 0}],
            },
        }  # fmt: skip

    content = {
        "ScenarioName": "s",
        "weather": {"rain": 0.0, "fog": 0.1, "snow": 0.0},
        "time": {"hour": 12, "minute": 30},
        "trace": [step(i) for i in range(3)],
    }
    return json.dumps(content, indent=1).encode()


def write_record(folder: Path, when: When = "after") -> Path:
    """Writes a run record of the frames, with its model next to it."""
    folder.mkdir(parents=True, exist_ok=True)
    written = model_json(model())
    digest = hashlib.sha256(written).hexdigest()
    path = folder / "run.jsonl"
    model_file(path, digest).write_bytes(written)
    policy = Policy(hold_s=0.2, when=when)
    watch = load_watch(model(), horizon_s=policy.horizon_s, provides=SIGNALS)
    header = {
        "model": {"sha256": digest},
        "policy": policy.as_dict(),
        "laws": [LAW],
        "provides": list(SIGNALS),
        "seed": 3,
    }
    clock = iter(range(10**6))
    with RunRecord(path, header, {"host": "here"}) as record:
        guard = Guard(
            watch, policy, provides=SIGNALS,
            clock=lambda: 0.001 * next(clock), listeners=[record],
        )  # fmt: skip
        for frame, then in pairwise(frames()[:7]):
            ahead = None if when == "after" else then
            guard.review(frame, Action("control", {"throttle": 0.5}), ahead)
        record.event("executed", action="stop")
    return path


@cache
def record(when: When = "after") -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return write_record(Path(folder), when).read_bytes()


@cache
def _replies() -> bytes:
    """Returns a recording of two replies of a model."""

    class Parrot:
        def reply(self, messages: Sequence[Message]) -> Reply:
            return Reply(messages[-1].text, 7, 2)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "0.jsonl"
        kept = RecordedChat(Parrot(), "m", path)
        kept.reply([Message("user", "find Mug")])
        kept.reply([Message("user", "pick Mug")])
        return path.read_bytes()


def _recordings() -> bytes:
    """Returns a recording of two runs in a household."""
    steps = [{"input": "find Mug", "success": True}, {"input": "x", "success": False}]
    row = {"set": "plans", "scene_name": "Kitchen1", "steps": steps}
    return f"{json.dumps(row)}\n{json.dumps(row)}\n".encode()


@cache
def _household() -> bytes:
    """Returns a scene file of a room with a few objects."""
    scene = own_scenes()["Bathroom1"]
    things = [dict(thing) for thing in scene.objects[:4]]
    entry = {"objects": things, "grid": [list(cell) for cell in scene.grid[:5]]}
    return json.dumps({"Bathroom1": entry}).encode()


@cache
def seeds() -> dict[str, tuple[bytes, ...]]:
    """Returns the valid files by the name of their reader."""
    policy = Policy(
        rules={
            "*": (Step("alert", 0.3), Step("stop", 0.8)),
            "53": (Step("slow", 0.4, False),),
        }
    )
    found = {
        "vocabulary": (_yaml(VOCABULARY),),
        "abstraction": (
            _yaml(SCENARIO["abstraction"]),
            _yaml(
                SCENARIO["abstraction"]
                | {
                    "vocabulary": None,
                    "predicates": [
                        "bands(speed, 1, 5, 15)",
                        {"when": "broken", "latch": "any"},
                        "is_inside(Fork, Microwave)",
                    ],
                    "constraints": ["not (broken and speed > 3)"],
                    "irreversible": ["broken"],
                }
            ),
        ),
        "policy": (_yaml(policy.as_dict()),),
        "laws": (_yaml(LAWS),),
        "scenario": (_yaml(SCENARIO),),
        "trace": (_trace(),),
        "table": (_table(),),
        "lawbreaker": (_lawbreaker(),),
        "states": (b"# two runs\ns0 s1 s1 s2\ns0 s2\n",),
        "support": (b'{"s0": ["s1", "s2"], "s1": ["s1"], "s2": []}',),
        "own model": (model_json(model()), model_json(Model(chain()))),
        "guarded model": (model_json(model()),),
        "explicit": (explicit(), b"dtmc\n0 1 0.5\n0 0 0.5\n1 1 1\n"),
        "labels": (
            explicit(".lab"),
            b"#DECLARATION\ninit a b\n#END\n0 init a\n3 b\n",
        ),
        "variables": (
            explicit(".sta"),
            b"(a,b)\n0:(0,true)\n1:(1,false)\n2:(2,true)\n3:(-3,false)\n",
        ),
        "probguard": (_probguard(),),
        "record": (record(),),
        "replay": (record(), record("both")),
        "replies": (_replies(),),
        "recordings": (_recordings(),),
        "household": (_household(),),
        "expression": (
            b"speed > 30 km/h and traffic_light == red -> not braking",
            b"abs(speed - lead_speed) * 2 <= max(3 km/h, speed / 4)"
            b" or lead_distance is none",
            b"not (a and b or true) -> is_inside(Fork, Microwave)",
        ),
        "formula": (
            LAW.encode(),
            b"always (a until[0, 5 steps] b and once[1, 3 steps] c)",
            b"G (historically[0, 2 s] speed < 3 -> X F[0, 4 s] braking)",
        ),
        "property": (
            b'P=? [ F<=20 ("a" | !"unsafe") ]',
            b'P>=0.9 [ "a" U[2,5] !"b" ] & A [ G E [ F "unsafe" ] ]',
            b'P<0.1 [ G<=4 ("a" & !"unsafe") ] <=> P>0.5 [ X true ]',
        ),
    }  # fmt: skip
    return found
