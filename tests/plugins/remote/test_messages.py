"""Messages: what is taken, what is malformed, and that nothing else happens."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from forewarn.abstractions.frame import Frame
from forewarn.abstractions.serial import validated
from forewarn.monitors.guarding.decision import Action, Decision, Risk
from forewarn.plugins.remote.messages import (
    MAX_BYTES,
    FrameMessage,
    Hello,
    Malformed,
    framed,
    parse_object,
    write_decision,
)

GOOD = {"sequence": 3, "time_s": 1, "signals": {"speed": 2.5, "wet": None}}


def read_hello(content: dict[str, Any]) -> Hello:
    return validated(Hello, content, "", Malformed)


def read_frame(content: dict[str, Any]) -> FrameMessage:
    return validated(FrameMessage, content, "", Malformed)


def test_a_frame_is_read() -> None:
    proposal = {"name": "open", "arguments": {"object": "Door"}}
    frame = Frame(1.0, 3, {"speed": 2.5, "wet": None})
    told = read_frame(GOOD)
    assert (told.frame, told.action, told.ahead) == (frame, None, None)
    told = read_frame(GOOD | {"proposal": proposal, "foreseen": {"speed": 9}})
    assert told.ahead == Frame(1.0, 3, {"speed": 9})
    assert type(told.signals["wet"]) is type(None)
    assert told.action == Action("open", {"object": "Door"})
    assert read_frame(GOOD | {"proposal": {"name": "wait"}}).action == Action("wait")
    assert read_frame(GOOD | {"proposal": None}).action is None


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"sequence": -1}, "sequence: "),
        ({"sequence": 1.0}, "sequence: "),
        ({"sequence": True}, "sequence: "),
        ({"sequence": 1 << 63}, "sequence: "),
        ({"time_s": "1"}, "time_s: "),
        ({"time_s": True}, "time_s: "),
        ({"time_s": 1e300}, "time_s: "),
        ({"time_s": 10**400}, "time_s: "),
        ({"time_s": math.inf}, "time_s: "),
        ({"signals": []}, "signals: expected a mapping"),
        ({"signals": {"speed": [1]}}, "speed: a signal must be a number, a string"),
        ({"signals": {"speed": {}}}, "speed: a signal must be a number, a string"),
        ({"foreseen": []}, "foreseen: expected a mapping"),
        ({"foreseen": {"speed": [1]}}, "speed: a signal must be a number, a string"),
        ({"signal": {}}, "unknown key 'signal' .*did you mean signals"),
        ({"proposal": "open"}, "proposal: "),
        ({"proposal": {}}, "proposal.name: "),
        ({"proposal": {"name": ""}}, "proposal.name: "),
        ({"proposal": {"name": 1}}, "proposal.name: "),
        ({"proposal": {"name": "x", "arguments": 1}}, "proposal.arguments: "),
        ({"proposal": {"name": "x", "object": 1}}, "unknown key 'object'"),
    ],
)
def test_a_frame_that_breaks_the_form_is_malformed(
    changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(Malformed, match=problem):
        read_frame(GOOD | changes)


@pytest.mark.parametrize("key", GOOD)
def test_a_frame_lacks_nothing(key: str) -> None:
    with pytest.raises(Malformed, match=f"{key}: this key is missing"):
        read_frame({k: v for k, v in GOOD.items() if k != key})


def test_a_hello_is_read() -> None:
    assert read_hello({"forewarn": "guard/1"}) == Hello()
    full = {"forewarn": "guard/1", "scenario": "s1", "provides": ["speed"]}
    assert read_hello(full) == Hello(scenario="s1", provides=("speed",))
    source: dict[str, Any] = {
        "can": ["stop"], "vocabulary": "driving", "period_s": 0.1
    }  # fmt: skip
    assert read_hello(full | source) == Hello(
        scenario="s1", provides=("speed",), **source
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"forewarn": "guard/2"}, {"forewarn": None}, {"token": 3}, {"token": None},
        {"provides": "speed"}, {"provides": [1]}, {"provides": {}}, {"version": 1},
        {"scenario": 1}, {"vocabulary": []}, {"period_s": True}, {"period_s": 0},
        {"period_s": "1"}, {"period_s": 1e9},
    ],
)  # fmt: skip
def test_a_hello_that_breaks_the_form_is_malformed(changes: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        read_hello({"forewarn": "guard/1", "token": "t"} | changes)


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (b"", "not JSON"),
        (b"[]", "a message must be a JSON object"),
        (b"3", "a message must be a JSON object"),
        (b'{"a": 1', "not JSON"),
        (b'{"a": 1} {}', "not JSON"),
        (b'{"a": NaN}', "NaN is not a number"),
        (b'{"a": -Infinity}', "-Infinity is not a number"),
        (b'{"a": 1, "a": 2}', "the key 'a' appears twice"),
        (b'{"a": "\xff"}', "not UTF-8 text at byte 7"),
        (b'{"a": ' + b"[" * 100_000, "nested too deeply|not JSON"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "thousands of digits"),
        (b" " * (MAX_BYTES + 1), "longer than"),
    ],
)
def test_messages_that_are_not_json_objects_are_malformed(
    message: bytes, problem: str
) -> None:
    with pytest.raises(Malformed, match=problem):
        parse_object(message)


def test_a_decision_is_written_as_the_contract_says() -> None:
    decision = Decision(
        "slow", 3, 0.3, "51_5", Risk(0.1, 0.5, 0.9), "it is at risk", left_s=2.0,
        cap_kmh=15.0,
    )  # fmt: skip
    content = json.loads(write_decision(decision))
    assert content == decision.as_dict()
    assert {"sequence", "decision", "law", "risk", "reason", "left_s", "cap_kmh"} <= (
        set(content)
    )
    assert content["risk"] == {"low": 0.1, "point": 0.5, "high": 0.9}


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_nan_and_infinity_in_decisions_become_null(bad: float) -> None:
    for decision in (
        Decision("stop", 3, 0.3, "51_5", Risk(0.0, bad, 1.0), left_s=1.0),
        Decision("stop", 3, 0.3, "51_5", Risk(0.0, 0.5, 1.0), left_s=bad),
        Decision("stop", 3, 0.3, action=Action("go", {"x": bad})),
    ):
        content = json.loads(write_decision(decision))
        assert (content["decision"], content["left_s"]) == ("stop", None)
        risk = decision.risk
        finite = risk is not None and risk.finite
        assert (content["risk"] is not None) == finite


def test_a_message_follows_its_length() -> None:
    assert framed(b"{}") == b"\x00\x00\x00\x02{}"
    assert framed(b"x" * 258)[:4] == b"\x00\x00\x01\x02"
