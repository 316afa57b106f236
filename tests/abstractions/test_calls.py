"""Logs of agents' calls: what three formats say, and what is reported as unreadable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.readers import calls
from forewarn.abstractions.readers.calls import is_call_log, read_calls

ASSISTANT = {
    "role": "assistant",
    "tool_calls": [
        {"id": "a", "function": {"name": "find", "arguments": '{"query": "ann"}'}},
        {"id": "b", "function": {"name": "send", "arguments": '{"to": "ann"}'}},
    ],
}
MESSAGES = [
    {"role": "user", "content": "Write to Ann."},
    ASSISTANT,
    {"role": "tool", "tool_call_id": "a", "content": '{"email": "ann@x.org"}'},
    {"role": "tool", "tool_call_id": "b", "content": "Error: no such person"},
]
CHAT = {
    "model": "gpt",
    "metadata": {"task": "mail", "label": "safe"},
    "messages": MESSAGES,
}
RESPONSE = {
    "object": "response",
    "output": [
        {"type": "function_call", "call_id": "1", "name": "find", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "found"},
    ],
}


def write(path: Path, *values: Any) -> Path:
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


def test_openai_messages(tmp_path: Path) -> None:
    log = read_calls(write(tmp_path / "log.jsonl", CHAT, MESSAGES, RESPONSE))
    first, second, third = log.runs
    assert [(c.tool, c.arguments, c.failed) for c in first.calls] == [
        ("find", {"query": "ann"}, False),
        ("send", {"to": "ann"}, True),
    ]
    assert first.facts == {"model": "gpt", "task": "mail", "label": "safe"}
    assert first.request == "Write to Ann." and log.unread == []
    assert second.calls == first.calls and second.name == "log:2"
    assert third.calls[0].result == "found"


def test_a_whole_file_of_json(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps([CHAT, CHAT], indent=2))
    assert is_call_log(path) and len(read_calls(path).runs) == 2
    path.write_text(json.dumps(MESSAGES, indent=2))
    assert len(read_calls(path).runs) == 1


def span(tool: str, start: int, **more: str) -> dict[str, Any]:
    said = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.call.arguments": '{"n": 1}',
        **more,
    }
    listed = [{"key": k, "value": {"stringValue": v}} for k, v in said.items()]
    return {"traceId": "t", "startTimeUnixNano": str(start), "attributes": listed}


def test_opentelemetry_spans_in_the_order_of_their_times(tmp_path: Path) -> None:
    failed = {**span("drop", 2), "status": {"code": 2}}
    chat = span("", 1, **{"gen_ai.request.model": "m"})
    chat["attributes"][0]["value"]["stringValue"] = "chat"
    spans = [failed, span("open", 1), chat]
    exported = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    (run,) = read_calls(write(tmp_path / "spans.json", exported)).runs
    assert [(c.tool, c.failed) for c in run.calls] == [("open", False), ("drop", True)]
    assert run.facts["model"] == "m"
    printed = {
        "name": "execute_tool open",
        "context": {"trace_id": "0x1"},
        "start_time": "2026-01-01T00:00:00Z",
        "attributes": {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "open",
        },
        "status": {"status_code": "UNSET"},
    }
    (run,) = read_calls(write(tmp_path / "console.jsonl", printed)).runs
    assert [(c.tool, c.arguments, c.failed) for c in run.calls] == [("open", {}, False)]


def rpc(key: int | str, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": key, **more}


def test_mcp_transcripts_begin_a_run_at_each_initialize(tmp_path: Path) -> None:
    start = rpc(0, method="initialize", params={"clientInfo": {"name": "ide"}})
    call = {"name": "read", "arguments": {"path": "x"}}
    wrong = {"content": [{"type": "text", "text": "gone"}], "isError": True}
    log = read_calls(
        write(
            tmp_path / "mcp.jsonl", start, rpc(1, method="tools/call", params=call),
            rpc(1, result={"content": [], "structuredContent": {"size": 3}}),
            rpc(2, method="tools/call", params=call), rpc(2, result=wrong), start,
            {"at": 1, "message": rpc(1, method="tools/call", params=call)},
            rpc(1, error={"code": -1}),
        )
    )  # fmt: skip
    first, second = log.runs
    assert [(c.result, c.failed) for c in first.calls] == [
        ({"size": 3}, False),
        ("gone", True),
    ]
    assert first.facts == {"client": "ide"} and second.calls[0].failed


def test_ids_of_different_types_are_different_ids(tmp_path: Path) -> None:
    asked = {"method": "tools/call", "params": {"name": "copy", "arguments": {}}}
    path = write(
        tmp_path / "mcp.jsonl", rpc(1, **asked), rpc("1", **asked),
        rpc("1", result={"content": []}), rpc(1, error={"code": -1}),
    )  # fmt: skip
    (run,) = read_calls(path).runs
    assert [call.failed for call in run.calls] == [True, False]


def test_what_cannot_be_read_is_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    bad = {"messages": [{"role": "assistant", "tool_calls": [{"function": {}}]}]}
    path = write(tmp_path / "log.jsonl", CHAT, bad, {"other": 1}, CHAT)
    with path.open("a") as out:
        out.write('{"messages": [')
    log = read_calls(path)
    assert len(log.runs) == 2
    assert [each.place for each in log.unread] == ["line 2", "line 3", "line 5"]
    assert "a call has no tool name" in str(log.unread[0])


def test_the_calls_of_a_run_are_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "MAX_CALLS", 1)
    log = read_calls(write(tmp_path / "log.jsonl", CHAT, RESPONSE))
    assert len(log.runs) == 1 and "more than 1 calls" in log.unread[0].why


def test_a_trace_is_no_log_of_calls(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", {"format": "forewarn.trace/1", "provides": []})
    assert not is_call_log(path)


@pytest.mark.parametrize(
    "value",
    [
        {"messages": [{"role": "assistant", "tool_calls": 5}]},
        {"messages": [{"role": "assistant", "tool_calls": [{"function": "x"}]}]},
        {"messages": [{"role": "assistant", "tool_calls": ["x"]}]},
        {"messages": [{"type": "function_call", "name": "x", "arguments": "["}]},
        {"messages": [{"type": "function_call", "name": "x", "arguments": [1]}]},
        {"messages": [{"role": "tool", "tool_call_id": [1], "content": {"a": 1}}]},
        {"traceId": ["t"], "spanId": 1, "attributes": {"gen_ai.conversation.id": [1]}},
        {"spanId": 1, "status": 3, "attributes": [1, {"key": 2, "value": {}}]},
        {"resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": 4}]}]}]},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 3}},
        {"jsonrpc": "2.0", "method": "initialize", "params": [1], "message": None},
        {"jsonrpc": "2.0", "id": {"a": 1}, "result": {"content": "x"}},
    ],
)
def test_values_of_the_wrong_shape_are_reported(tmp_path: Path, value: Any) -> None:
    log = read_calls(write(tmp_path / "log.jsonl", CHAT, value))
    assert len(log.runs) == 1


KEYS = (
    "messages role tool_calls function name arguments id output type call_id jsonrpc"
    " method params result attributes spanId resourceSpans context content message"
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS.split()),
            inner
            | st.sampled_from(["assistant", "function_call", "tools/call", "user"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=25)
@given(st.lists(JSON, min_size=1, max_size=4))
def test_no_json_does_more_than_be_refused(
    tmp_path_factory: pytest.TempPathFactory, values: list[Any]
) -> None:
    path = write(tmp_path_factory.mktemp("log") / "log.jsonl", *values)
    try:
        read_calls(path)
    except InvalidInput:
        pass
