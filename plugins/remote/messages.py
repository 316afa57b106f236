"""The messages between a control loop and its guard.

A loop sends a hello and then frames; the guard answers each frame with a decision.
Every message is a JSON object. On a socket, each message follows its length in four
bytes (big-endian); on standard input and output, each message is one line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    validate_call,
)

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import GZIPPED, parse_json
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.serial import Strict, validated
from forewarn.monitors.guarding.decision import Action, Decision, Kind, Turn
from forewarn.plugins.contracts import Shape, ShapeKind, Thing, ThingKind

PROTOCOL: Final = "guard/1"
MAX_BYTES = 1 << 20
HELLO_BYTES = 1 << 16
LENGTH_BYTES = 4
MAX_SEQUENCE = 1 << 62
MAX_PERIOD_S = 1e6
_VALUES = frozenset({float, int, bool, str, type(None)})

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class Malformed(InvalidInput):
    """A message violates the protocol."""


class Hello(Strict):
    """The first message of a loop, in which it describes itself.

    Args:
        forewarn: The version of the protocol.
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

    forewarn: Literal["guard/1"] = PROTOCOL
    token: str = ""
    provides: tuple[str, ...] | None = None
    can: list[Kind] | None = None
    scenario: str | None = None
    vocabulary: str | None = None
    period_s: float | None = Field(default=None, gt=0, lt=MAX_PERIOD_S)
    actions: dict[str, list[str]] | None = None
    foresees: bool = False

    @field_validator("can")
    @classmethod
    def _can_stop(cls, can: list[Kind] | None) -> list[Kind] | None:
        if can is not None and "stop" not in can:
            raise ValueError("'can' must include stop, because every loop can stop")
        return can

    @property
    def like(self) -> str:
        """The properties that loops must have in common to use the same guard."""
        return self.model_dump_json(exclude={"token", "can", "scenario"})


def _plain(value: object) -> object:
    if type(value) not in _VALUES:
        raise ValueError("a signal must be a number, a string, a Boolean or null")
    return value


Signals = dict[str, Annotated[Any, AfterValidator(_plain)]]


class Proposal(Strict):
    """A proposed action."""

    name: str = Field(min_length=1)
    arguments: dict[str, Any] = {}


MOST_SHAPES: Final = 20_000
MOST_THINGS: Final = 2_000
_FARTHEST_M: Final = 1e6

_Number = Annotated[float, Field(ge=-_FARTHEST_M, le=_FARTHEST_M)]
_Text = Annotated[str, Field(max_length=80)]
_Point = Annotated[tuple[_Number, _Number], Field(strict=False)]
_checked = validate_call(config=ConfigDict(strict=True, allow_inf_nan=False))


@_checked
def _shape(kind: ShapeKind, width_m: _Number, points: list[_Point]) -> Shape:
    return Shape(kind, tuple(points), width_m)


@_checked
def _thing(
    name: _Text, kind: ThingKind, x: _Number, y: _Number, heading_deg: _Number,
    length_m: _Number, width_m: _Number, state: _Text = "", top_m: _Number = 0.0,
    label: _Text = "",
) -> Thing:  # fmt: skip
    return Thing(
        name, kind, x, y, heading_deg, length_m, width_m, state, top_m, label
    )  # fmt: skip


def _row(read: Callable[..., Any]) -> BeforeValidator:
    """Converts the entries of a row to the arguments of a function."""

    def made(row: object) -> Any:
        if not isinstance(row, list):
            raise ValueError("a row must be a list")
        try:
            return read(*row)
        except ValidationError as error:
            raise ValueError(
                f"the row is invalid: {error.errors()[0]['msg']}"
            ) from None

    return BeforeValidator(made)


class Scene(Strict):
    """The scene for live views in a message of a loop; rows are lists of values."""

    ground: list[Annotated[Any, _row(_shape)]] | None = Field(
        None, max_length=MOST_SHAPES
    )
    things: list[Annotated[Any, _row(_thing)]] | None = Field(
        None, max_length=MOST_THINGS
    )


class SceneTold:
    """Stores the newest scene that a loop has sent; implements `Scenic`."""

    def __init__(self) -> None:
        self._ground: list[Shape] = []
        self._things: list[Thing] = []

    def take(self, scene: Scene | None) -> None:
        """Stores the parts of a scene that a message contains."""
        if scene is not None:
            self._ground = self._ground if scene.ground is None else scene.ground
            self._things = self._things if scene.things is None else scene.things

    def ground(self) -> list[Shape]:
        """Returns the ground in the last message that contained one."""
        return self._ground

    def things(self) -> list[Thing]:
        """Returns the things in the last message that contained any."""
        return self._things


class FrameMessage(Strict):
    """A frame of a loop.

    Args:
        sequence: The sequence number.
        time_s: The time of the frame in seconds.
        signals: The values of the signals.
        proposal: The proposed action.
        foreseen: The signals that the proposal would lead to.
        scene: The scene for live views.
        obeyed: Whether the loop has obeyed the last decision; None if it is too early
            to tell.
    """

    sequence: int = Field(ge=0, le=MAX_SEQUENCE)
    time_s: float = Field(gt=-1e15, lt=1e15)
    signals: Signals
    proposal: Proposal | None = None
    foreseen: Signals | None = None
    scene: Scene | None = None
    obeyed: bool | None = True

    @property
    def frame(self) -> Frame:
        return Frame(self.time_s, self.sequence, self.signals)

    @property
    def action(self) -> Action | None:
        """The proposed action."""
        asked = self.proposal
        return None if asked is None else Action(asked.name, asked.arguments)

    @property
    def ahead(self) -> Frame | None:
        """The frame that the proposal would lead to."""
        if self.foreseen is None:
            return None
        return Frame(self.time_s, self.sequence, self.foreseen)


def parse_object(message: bytes) -> dict[str, Any]:
    """Parses a message, which must be a single JSON object."""
    if len(message) > MAX_BYTES:
        raise Malformed(f"a message is longer than {MAX_BYTES} bytes")
    try:
        content = parse_json(message.decode("utf-8"), "")
    except InvalidInput as error:
        place = error.place.removeprefix("line 1 ")  # a message is usually one line
        raise Malformed(error.problem, place=place, mend=error.mend) from None
    except UnicodeDecodeError as error:
        if message.startswith(GZIPPED):
            mend = "unpack it first, as in zcat FILE | …"
            raise Malformed("the input is gzipped", mend=mend) from None
        raise Malformed(f"not UTF-8 text at byte {error.start}") from None
    if not isinstance(content, dict):
        raise Malformed(f"a message must be a JSON object, not {content!r:.60}")
    return content


def parse_frame(content: Mapping[str, Any]) -> FrameMessage:
    """Returns the frame in a message."""
    unknown = content.keys() - FrameMessage.model_fields
    kind = content.get("format")
    if unknown and isinstance(kind, str) and kind.startswith("forewarn."):
        raise Malformed(
            f"this is the first line of a file of the format {kind!r:.60}, not a frame",
            mend="leave this line out",
        )
    name = next((key for key in content if key in unknown), "")
    if name and "signals" not in content and not isinstance(content[name], dict):
        written = _encode({"signals": {name: content[name]}})[1:-1]
        raise Malformed(
            f"unknown key {name!r:.60}", mend=f"if it is a signal, write {written:.60}"
        )
    return validated(FrameMessage, content, "", Malformed)


def is_hello(content: Mapping[str, Any]) -> bool:
    """Whether a message is a hello, which may still be invalid."""
    return "forewarn" in content


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
        # JSON cannot represent NaN, so omit the numbers.
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
