"""The messages between a control loop and its guard.

A loop sends a hello and then frames; the guard answers each frame with a decision.
Every message is a JSON object. On a socket, each message follows its length in four
bytes (big-endian); on standard input and output, each message is one line.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, get_args

from forewarn.abstractions.errors import InvalidInput, near_miss
from forewarn.abstractions.files import parse_json
from forewarn.abstractions.frame import Frame, is_number
from forewarn.monitors.guarding.decision import SEVERITY, Action, Decision, Kind, Turn
from forewarn.plugins.contracts import Shape, ShapeKind, Thing, ThingKind

PROTOCOL = "guard/1"
MAX_BYTES = 1 << 20
HELLO_BYTES = 1 << 16
LENGTH_BYTES = 4
MAX_SEQUENCE = 1 << 62
MAX_PERIOD_S = 1e6

_HELLO_KEYS = frozenset(
    {
        "forewarn", "token", "provides", "can", "scenario", "vocabulary", "period_s",
        "actions", "foresees",
    }
)  # fmt: skip
_FRAME_KEYS = frozenset(
    {"sequence", "time_s", "signals", "proposal", "foreseen", "scene", "obeyed"}
)
_ACTION_KEYS = frozenset({"name", "arguments"})
_VALUES = frozenset({float, int, bool, str, type(None)})

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class Malformed(InvalidInput):
    """A message violates the protocol."""


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message of a loop, in which it describes itself.

    Args:
        token: The token that authenticates the loop.
        provides: The signals in the frames of the loop; None if not stated.
        can: The decisions that the loop can carry out; any other decision escalates to
            the next more severe one. If None, the loop only receives decisions.
        scenario: The name of the scenario; None if not stated.
        vocabulary: The name of the vocabulary of the frames; None if not stated.
        period_s: The time between frames in seconds; None if not stated.
        actions: The actions that the loop accepts, each with the names of its
            arguments; None if not stated.
        foresees: Whether each proposal is sent with the signals that it would lead to.
    """

    token: str = ""
    provides: tuple[str, ...] | None = None
    can: frozenset[Kind] | None = None
    scenario: str | None = None
    vocabulary: str | None = None
    period_s: float | None = None
    actions: tuple[tuple[str, tuple[str, ...]], ...] | None = None
    foresees: bool = False

    @property
    def like(self) -> Hello:
        """The properties that loops must have in common to use the same guard."""
        return replace(self, token="", can=None, scenario=None)


def parse_object(message: bytes) -> dict[str, Any]:
    """Parses a message, which must be a single JSON object."""
    if len(message) > MAX_BYTES:
        raise Malformed(f"a message is longer than {MAX_BYTES} bytes")
    try:
        content = parse_json(message.decode("utf-8"), "")
    except InvalidInput as error:
        raise Malformed(error.problem, place=error.place) from None
    except UnicodeDecodeError as error:
        raise Malformed(f"not UTF-8 text at byte {error.start}") from None
    if not isinstance(content, dict):
        raise Malformed("a message must be a JSON object")
    return content


def is_hello(content: Mapping[str, Any]) -> bool:
    """Whether a message is a hello, which may still be invalid."""
    return "forewarn" in content


def read_hello(content: Mapping[str, Any]) -> Hello:
    """Parses a hello."""
    _only(content, _HELLO_KEYS)
    if content.get("forewarn") != PROTOCOL:
        raise Malformed(f'the hello must contain "forewarn": "{PROTOCOL}"')
    token = content.get("token", "")
    provides = content.get("provides")
    if not isinstance(token, str):
        raise Malformed("'token' must be a string")
    if provides is not None:
        if not isinstance(provides, list) or not all(
            isinstance(name, str) for name in provides
        ):
            raise Malformed("'provides' must be a list of signal names")
        provides = tuple(provides)
    scenario, vocabulary = content.get("scenario"), content.get("vocabulary")
    if not all(isinstance(name, str | None) for name in (scenario, vocabulary)):
        raise Malformed("'scenario' and 'vocabulary' must be strings")
    period_s = content.get("period_s")
    if period_s is not None and not (
        type(period_s) in (int, float) and 0 < period_s < MAX_PERIOD_S
    ):
        raise Malformed("'period_s' must be a number of seconds above 0")
    can, actions = _kinds(content.get("can")), _actions(content.get("actions"))
    foresees = content.get("foresees", False)
    if not isinstance(foresees, bool):
        raise Malformed("'foresees' must be true or false")
    return Hello(
        token, provides, can, scenario, vocabulary, period_s, actions, foresees
    )


def _actions(content: object) -> tuple[tuple[str, tuple[str, ...]], ...] | None:
    """The actions in a hello, each with the names of its arguments."""
    if content is None:
        return None
    fits = isinstance(content, dict) and all(
        isinstance(names, list) and all(isinstance(name, str) for name in names)
        for names in content.values()
    )
    if not fits or not isinstance(content, dict):
        raise Malformed(
            "'actions' must map the name of each action to a list of argument names"
        )
    return tuple((name, tuple(arguments)) for name, arguments in content.items())


def _kinds(can: object) -> frozenset[Kind] | None:
    if can is None:
        return None
    if not isinstance(can, list) or not all(kind in SEVERITY for kind in can):
        raise Malformed(f"'can' must be a list containing only {', '.join(SEVERITY)}")
    if "stop" not in can:
        raise Malformed("'can' must include 'stop', because every loop can stop")
    return frozenset(can)


def read_obeyed(content: Mapping[str, Any]) -> bool | None:
    """Returns whether the loop reports that it obeyed the last decision.

    The result is None if it is too early to tell.
    """
    obeyed = content.get("obeyed", True)
    if obeyed is not None and not isinstance(obeyed, bool):
        raise Malformed("'obeyed' must be true, false or null")
    return obeyed


def read_frame(
    content: Mapping[str, Any],
) -> tuple[Frame, Action | None, Frame | None]:
    """Parses a frame, its proposal, and the frame that the proposal would lead to."""
    _only(content, _FRAME_KEYS)
    try:
        sequence, time_s = content["sequence"], content["time_s"]
        signals = content["signals"]
    except KeyError as error:
        raise Malformed(f"the frame has no '{error.args[0]}'") from None
    if type(sequence) is not int or not 0 <= sequence <= MAX_SEQUENCE:
        raise Malformed(f"'sequence' must be a whole number from 0 to {MAX_SEQUENCE}")
    if type(time_s) not in (int, float) or not -1e15 < time_s < 1e15:
        raise Malformed("'time_s' must be a finite number of seconds")
    frame = Frame(float(time_s), sequence, _signals(signals, "signals"))
    proposal, ahead = content.get("proposal"), content.get("foreseen")
    return (
        frame,
        None if proposal is None else read_action(proposal),
        None if ahead is None else replace(frame, values=_signals(ahead, "foreseen")),
    )


def _signals(content: object, key: str) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise Malformed(f"'{key}' must be an object that maps signal names to values")
    for name, value in content.items():
        if type(value) not in _VALUES:
            raise Malformed(
                f"the value of the signal {name!r:.60} must be a number, a string, "
                "a Boolean or null"
            )
    return content


def read_action(content: object) -> Action:
    """Parses a proposed action."""
    if not isinstance(content, dict):
        raise Malformed("'proposal' must be an object with 'name' and 'arguments'")
    _only(content, _ACTION_KEYS)
    name, arguments = content.get("name"), content.get("arguments", {})
    if not isinstance(name, str) or not name:
        raise Malformed("the 'name' of the proposal must be a non-empty string")
    if not isinstance(arguments, dict):
        raise Malformed("the 'arguments' of the proposal must be an object")
    return Action(name, arguments)


def write_turn(turn: Turn, slow_cap_kmh: float) -> bytes:
    """Formats the decision to carry out and its outcome as one line of JSON."""
    kind, decision = turn.outcome.kind, turn.decision
    if kind == "slow" and decision.cap_kmh is None:
        decision = replace(decision, cap_kmh=slow_cap_kmh)
    carried_out = turn.outcome.as_dict()
    return write_decision(replace(decision, kind=kind), carried_out=carried_out)


def write_decision(decision: Decision, **more: Any) -> bytes:
    """Formats a decision as one line of JSON."""
    try:
        return _encode(decision.as_dict() | more).encode()
    except ValueError:
        # JSON cannot represent NaN, which means nothing to the client.
        known = decision.risk is not None and decision.risk.finite
        safe = replace(
            decision, risk=decision.risk if known else None, left_s=None, action=None
        )
        return _encode(safe.as_dict() | more).encode()


def write_error(problem: str) -> bytes:
    """Formats the last message to a loop before its connection is closed."""
    return _encode({"error": problem}).encode()


def framed(message: bytes) -> bytes:
    """Returns a message preceded by its length."""
    return len(message).to_bytes(LENGTH_BYTES, "big") + message


def _only(content: Mapping[str, Any], known: frozenset[str]) -> None:
    if content.keys() <= known:
        return
    unknown = str(next(key for key in content if key not in known))
    hint = near_miss(unknown[:60], known)
    raise Malformed(f"unknown key {unknown!r:.60}", mend=hint)


MOST_SHAPES: Final = 20_000
MOST_THINGS: Final = 2_000
_MOST_TEXT: Final = 80
_FARTHEST_M: Final = 1e6


class SceneTold:
    """Stores the newest scene that a loop has sent; implements `Scenic`."""

    def __init__(self) -> None:
        self._ground: list[Shape] = []
        self._things: list[Thing] = []

    def take(self, content: Mapping[str, Any]) -> None:
        """Stores the scene in a message, if it contains one.

        Raises:
            Malformed: The scene is invalid.
        """
        scene = content.get("scene")
        if scene is None:
            return
        if not isinstance(scene, dict) or not set(scene) <= {"ground", "things"}:
            raise Malformed(
                "'scene' must be an object with only 'ground' and 'things'",
                place="scene",
            )
        if "ground" in scene:
            self._ground = _rows(scene, "ground", MOST_SHAPES, _shape)
        if "things" in scene:
            self._things = _rows(scene, "things", MOST_THINGS, _thing)

    def ground(self) -> list[Shape]:
        """Returns the ground in the last message that contained one."""
        return self._ground

    def things(self) -> list[Thing]:
        """Returns the things in the last message that contained any."""
        return self._things


def _rows(scene: Mapping[str, Any], name: str, most: int, read: Any) -> list[Any]:
    rows = scene[name]
    if not isinstance(rows, list) or len(rows) > most:
        raise Malformed(
            f"expected a list of at most {most} rows", place=f"scene.{name}"
        )
    try:
        return [read(*row) for row in rows]
    except (TypeError, ValueError) as error:
        raise Malformed(f"{error}"[:120], place=f"scene.{name}") from None


def _shape(kind: object, width_m: object, points: object) -> Shape:
    if kind not in get_args(ShapeKind) or not isinstance(points, list):
        raise ValueError("a shape must have a known kind, a width and a list of points")
    line = tuple((_number(x), _number(y)) for x, y in points)
    return Shape(kind, line, _number(width_m))  # type: ignore[arg-type]


def _thing(
    name: object, kind: object, x: object, y: object, heading_deg: object,
    length_m: object, width_m: object, state: object = "", top_m: object = 0.0,
    label: object = "",
) -> Thing:  # fmt: skip
    if kind not in get_args(ThingKind):
        raise ValueError(f"an object has the unknown kind {kind!r:.60}")
    return Thing(
        _text(name), kind, _number(x), _number(y),  # type: ignore[arg-type]
        _number(heading_deg), _number(length_m), _number(width_m), _text(state),
        _number(top_m), _text(label),
    )  # fmt: skip


def _number(value: object) -> float:
    if not is_number(value):
        raise ValueError("not a number")
    if not math.isfinite(value) or abs(value) > _FARTHEST_M:
        raise ValueError(f"the number {value} is out of range")
    return float(value)


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > _MOST_TEXT:
        raise ValueError(f"expected text of at most {_MOST_TEXT} characters")
    return value
