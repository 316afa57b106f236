"""What is recorded reads back, whatever an action holds, or it is not judged."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forewarn.abstractions.files import parse_json, parse_yaml
from forewarn.monitors.guarding.decision import Action, oversized
from forewarn.monitors.guarding.encoding import decoded, encodable
from forewarn.monitors.guarding.policy import InvalidPolicy, Policy
from forewarn.monitors.guarding.record import (
    ORIGIN,
    BrokenRecord,
    RunRecord,
    line_hash,
    read_record,
)
from forewarn.plugins.agents import AgentGuard
from forewarn.plugins.loop.replay import replay


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def cyclic() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


ODD: dict[str, Callable[[], Any]] = {
    "half a character": lambda: {"text": json.loads('"hello \\ud83d"')},
    "half a character in a key": lambda: {"\ud800": 1},
    "1.6 MB of commas": lambda: {"text": "1," * 800_000},
    "17 MB of text": lambda: {"text": "A" * (17 << 20)},
    "a large number": lambda: {"n": 10**2000, "s": "é"},
    "a huge number": lambda: {"n": 10**5000},
    "a key of ours": lambda: {"x": {"$float": "abc"}},
    "another key of ours": lambda: {"x": {"$repr": ["a"]}},
    "a hash": lambda: {"x": '","hash":"' + "0" * 64},
    "985 levels": lambda: {"x": deep(985)},
    "5000 levels": lambda: {"x": deep(5000)},
    "a circle": lambda: {"x": cyclic()},
    "keys alike": lambda: {"x": {1: "a", "1": "b"}},
    "a key that is a pair": lambda: {"x": {(1, (2, "é")): 3}},
    "a key that is a pair of odd things": lambda: {"x": {(1.5, frozenset({1})): 3}},
    "a set": lambda: {"x": {1, 2}},
    "no number": lambda: {"x": float("nan")},
    "a cut": lambda: {"$cut": True},
}


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_call_ends_neither_the_agent_nor_the_record(
    odd: str, tmp_path: Path
) -> None:
    path = tmp_path / "calls.run.jsonl"
    law = "always (tool == delete -> once (tool == backup))"
    with AgentGuard.by_laws([law], record=path) as guard:
        guard.before("write", ODD[odd]())
        guard.after(False)
        assert guard.before("look", {}).passes
        guard.after(False)
        assert not guard.before("delete", {}).passes
    reviews, divergence = replay(path)
    assert reviews >= 2 and divergence is None


@pytest.mark.parametrize("odd", ODD)
def test_written_values_read_back(odd: str) -> None:
    value = ODD[odd]()
    if oversized(value):
        return
    text = json.dumps(encodable(value), allow_nan=False)
    again = decoded(parse_json(text, "the test"))
    assert json.dumps(encodable(again)) == text


@pytest.mark.parametrize("machine", [{}, {"python": "3.11"}])
def test_the_first_line_takes_nothing_behind_its_hash(
    machine: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "a.run.jsonl"
    with RunRecord(path, {"seed": 7}, machine) as record:
        pass
    data = path.read_bytes()
    assert list(read_record(path))[-1].content["hash"] == record.head
    first, *rest = data.decode().splitlines()
    for more in (
        ',"period_s":8}',
        ',"judges":[{}],"x":{}}',
        ',"x":{"y":1}}',
        ',"machine":{"python":"3.11"}}',
    ):
        path.write_text("\n".join([first[:-1] + more, *rest, ""]))
        with pytest.raises(BrokenRecord, match="was added to this|not JSON|twice"):
            list(read_record(path))
    for at in range(data.index(b"\n")):
        path.write_bytes(data[:at] + bytes([data[at] ^ 2]) + data[at + 1 :])
        with pytest.raises(BrokenRecord, match="line 1"):
            list(read_record(path))


OLD = (
    '{"format":"forewarn.run/1","seed":7,"hash":"HEAD","machine":{"python":"3.11"}}\n'
    '{"end":true,"lines":1,"previous":"HEAD","hash":"END"}\n'
)
"""A record of before the hash covered what machine made it."""


def test_records_with_facts_behind_the_first_hash_still_verify(tmp_path: Path) -> None:
    path = tmp_path / "a.run.jsonl"
    head = line_hash(ORIGIN, '{"format":"forewarn.run/1","seed":7}')
    end = line_hash(head, f'{{"end":true,"lines":1,"previous":"{head}"}}')
    old = OLD.replace("HEAD", head).replace("END", end)
    path.write_text(old)
    assert [line.content.get("seed") for line in read_record(path)] == [7, None]
    for more in ('"3.11","a":{"seed":8}', '"3.11"},"seed_":{"a":"8"', '["3.11"]'):
        path.write_text(old.replace('"3.11"', more))
        with pytest.raises(
            BrokenRecord, match="was added to this line after it was written"
        ):
            list(read_record(path))


def test_a_line_that_is_no_review_no_event_and_no_end_breaks_the_record(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.run.jsonl"
    with RunRecord(path, {"seed": 7}) as record:
        record._line({"sequence": 1, "time_s": 0.1, "signals": {}})
    with pytest.raises(
        BrokenRecord, match="line 2: this line is not a review, an event"
    ):
        list(read_record(path))


def test_a_fork_neither_judges_nor_writes(tmp_path: Path) -> None:
    path = tmp_path / "calls.run.jsonl"
    law = "once_only := always (tool == pay -> not once[1, 100 steps] (tool == pay))"
    guard = AgentGuard.by_laws([law], record=path)
    child = os.fork()
    if not child:
        passed = guard.before("pay", {}).passes
        guard.close()
        os._exit(int(passed))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert guard.before("pay", {}).passes
    guard.close()
    assert replay(path) == (1, None)


def test_a_threshold_that_nothing_reaches_is_rejected() -> None:
    text = (
        "format: forewarn.policy/1\nrules:\n- law: '*'\n  p_safe_below: {stop: 0.0}\n"
    )
    with pytest.raises(InvalidPolicy, match="stop would never begin"):
        Policy.from_dict(parse_yaml(text, "p"), "p")


def test_an_action_is_cut_by_size_depth_and_number() -> None:
    assert not oversized(Action("a", {"x": [1.0] * 1000, "y": "é" * 1000}).arguments)
    assert oversized({"x": [0] * 60_000})
    assert oversized({"x": deep(70)})
