"""Reads logs of agents that call tools: OpenAI messages, OpenTelemetry spans and MCP
transcripts.

A log is converted to runs of tool calls. A call consists of the tool, the arguments,
the result, and whether the call failed. A call counts as failed if its result is
missing or reports an error. Entries that cannot be read are skipped and listed with
their place.

- OpenAI: one conversation per line or per file. A conversation is a list of messages,
  or an object with `messages` (Chat Completions) or `input` and `output` (Responses).
  Other keys of the object, or of its `metadata`, become facts about the run.
- OpenTelemetry with GenAI conventions: `execute_tool` spans in OTLP JSON or in the
  output of the console exporter. Each conversation or trace is a run.
- MCP: one JSON-RPC message per line. `initialize` begins a run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidInput, InvalidTrace, TooLarge
from forewarn.abstractions.files import parse_json, read_text
from forewarn.abstractions.lines import lines

MAX_RUNS = 100_000
MAX_CALLS = 10_000
"""The maximum number of runs in a file, and of calls in a run."""

MAX_RESULT = 65_536
"""The length to which results are truncated, in characters."""

_ENDINGS = (".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz")
_TOOL = "gen_ai.tool.name"


@dataclass(slots=True)
class ToolCall:
    """A tool call.

    Args:
        tool: The name of the tool.
        arguments: The arguments by name.
        result: The result; None if it is missing.
        failed: Whether the result is missing or reports an error.
    """

    tool: str
    arguments: dict[str, Any]
    result: Any = None
    failed: bool = True

    def returned(self, result: Any, failed: bool = False) -> None:
        """Records the result, and whether it reports an error."""
        self.result = _shortened(result)
        self.failed = failed or _reports_error(self.result)


@dataclass(frozen=True, slots=True)
class CallRun:
    """The calls of one conversation.

    Args:
        name: The name of the log, and the run's line, number or id in it.
        calls: The calls in chronological order.
        facts: Facts about the run from the log, such as the name of the model.
        request: The user's messages, if the log contains them.
    """

    name: str
    calls: tuple[ToolCall, ...]
    facts: Mapping[str, str]
    request: str = ""

    @property
    def digest(self) -> str:
        """The SHA-256 digest of the calls, the facts and the request."""
        content = [
            [[c.tool, c.arguments, c.result, c.failed] for c in self.calls],
            dict(self.facts),
            self.request,
        ]
        text = json.dumps(content, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Unread:
    """An entry of a log that could not be read.

    Args:
        source: The path of the log.
        place: The place in the log, such as a line.
        why: What is wrong.
    """

    source: str
    place: str
    why: str

    def __str__(self) -> str:
        return f"{self.source}: {self.place}: {self.why}"


@dataclass(slots=True)
class CallLog:
    """The runs in a log, and the entries that could not be read."""

    runs: list[CallRun] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)


def is_call_log(path: Path) -> bool:
    """Whether the beginning of a file shows that it is a log of tool calls."""
    if not path.name.endswith(_ENDINGS) or not path.is_file():
        return False
    try:
        _, value = next(_values(path), (0, None))
    except InvalidInput:
        return False
    return _kind(value) is not None


def read_calls(path: Path) -> CallLog:
    """Reads a log of tool calls.

    Raises:
        TooLarge: The log exceeds a size limit.
        InvalidTrace: The log contains no readable tool calls.
    """
    log, name = CallLog(), path.name.split(".")[0]
    spans: list[dict[str, Any]] = []
    transcript = _Transcript(name)
    try:
        for number, value in _values(path):
            place = f"line {number}"
            kind = _kind(value)
            try:
                if kind == "messages":
                    log.runs.append(_conversation(value, f"{name}:{number}"))
                elif kind == "spans":
                    spans += _spans(value)
                elif kind == "rpc":
                    transcript.add(value)
                else:
                    raise InvalidTrace(
                        "the entry is neither a conversation, nor spans, nor a "
                        "JSON-RPC message"
                    )
            except InvalidInput as error:
                log.unread.append(Unread(str(path), place, error.problem))
            if len(log.runs) > MAX_RUNS:
                raise TooLarge(
                    f"the log has more than {MAX_RUNS} runs", source=str(path)
                )
    except InvalidTrace as error:
        # Keep the runs before the damaged part.
        log.unread.append(Unread(str(path), error.place or "the end", error.problem))
    log.runs += transcript.runs()
    log.runs += _traces(spans, name, log, str(path))
    log.runs = [run for run in log.runs if run.calls]
    if not log.runs:
        why = f" ({log.unread[0].why})" if log.unread else ""
        raise InvalidTrace(f"the log contains no tool calls{why}", source=str(path))
    return log


def _values(path: Path) -> Iterator[tuple[int, Any]]:
    """Yields the JSON values of a file with their line numbers: one value per line, or
    a single value.
    """
    numbered = ((n, text) for n, text in lines(path) if text.strip())
    number, first = next(numbered, (1, ""))
    try:
        value = parse_json(first, str(path), f"line {number}")
    except InvalidInput:
        value = parse_json(read_text(path), str(path))
        if isinstance(value, list) and _kind(value) is None:
            yield from enumerate(value, start=1)
        else:
            yield number, value
        return
    yield number, value
    for number, text in numbered:
        try:
            yield number, parse_json(text, str(path), f"line {number}")
        except TooLarge:
            raise
        except InvalidInput:
            yield number, None


def _kind(value: Any) -> str | None:
    """Returns the log format that a JSON value belongs to; None if unknown."""
    if isinstance(value, list):
        return "messages" if value and all(map(_is_message, value)) else None
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("message"), dict) and "jsonrpc" in value["message"]:
        return "rpc"
    if "jsonrpc" in value:
        return "rpc"
    if isinstance(value.get("messages"), list):
        return "messages"
    if isinstance(value.get("output"), list) and "role" not in value:
        return "messages"
    spans = "resourceSpans" in value or "resource_spans" in value
    if spans or ("attributes" in value and ({"context", "spanId"} & value.keys())):
        return "spans"
    return None


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and ("role" in value or "type" in value)


def _shortened(result: Any) -> Any:
    if isinstance(result, str):
        return result[:MAX_RESULT]
    return result


def _reports_error(result: Any) -> bool:
    """Whether the content of a result shows that the call failed."""
    if isinstance(result, str):
        text = result.lstrip()
        if text[:1] == "{":
            try:
                result = json.loads(text)
            except (ValueError, RecursionError):
                return False
        else:
            return text.startswith(("Error", "ERROR", "error:", "Traceback (most"))
    if not isinstance(result, dict):
        return False
    told = (result.get("isError"), result.get("is_error"), result.get("error"))
    return any(each not in (None, False, "", 0) for each in told)


def arguments_of(value: Any) -> dict[str, Any]:
    """Returns the arguments of a call, from a JSON object or its text."""
    if isinstance(value, str):
        try:
            value = parse_json(value or "{}", "arguments")
        except InvalidInput as error:
            raise InvalidTrace("the arguments of a call are not valid JSON") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidTrace("the arguments of a call are not a JSON object")
    return value


def _facts(value: Mapping[str, Any]) -> dict[str, str]:
    """Returns the simple values of an object and of its `metadata`, as strings."""
    found: dict[str, str] = {}
    for part in (value, value.get("metadata")):
        if isinstance(part, dict):
            plain = (str, int, float, bool)
            found |= {k: str(v) for k, v in part.items() if isinstance(v, plain)}
    return found


def _called(name: Any, arguments: Any) -> ToolCall:
    if not isinstance(name, str) or not name:
        raise InvalidTrace("a call has no tool name")
    return ToolCall(name, arguments_of(arguments))


class _Calls:
    """The calls of a run that is being read."""

    def __init__(self) -> None:
        self.calls: list[ToolCall] = []
        self._open: dict[str, ToolCall] = {}

    def made(self, call: ToolCall, key: Any) -> None:
        if len(self.calls) >= MAX_CALLS:
            raise TooLarge(f"a run has more than {MAX_CALLS} calls")
        self.calls.append(call)
        self._open[repr(key)] = call  # `repr`, because 1 and "1" are different ids

    def ended(self, key: Any, result: Any, failed: bool = False) -> None:
        """Records the result of a call; ignores the result of an unknown call."""
        call = self._open.pop(repr(key), None)
        if call is not None:
            call.returned(result, failed)


# -- OpenAI ----------------------------------------------------------------------------


def _conversation(value: Any, name: str) -> CallRun:
    if isinstance(value, list):
        messages, facts = value, dict[str, str]()
    else:
        messages, facts = value.get("messages"), _facts(value)
        if messages is None:
            before = value.get("input")
            messages = [*(before if isinstance(before, list) else ()), *value["output"]]
    found, asked = _Calls(), list[str]()
    for message in messages:
        if not isinstance(message, dict):
            continue
        if message.get("role") == "user":
            asked.append(str(_text(message.get("content")) or ""))
        _message(message, found)
    request = "\n".join(asked)[:MAX_RESULT]
    return CallRun(name, tuple(found.calls), facts, request)


def _message(message: dict[str, Any], found: _Calls) -> None:
    role, kind = message.get("role"), message.get("type")
    if kind == "function_call":
        call = _called(message.get("name"), message.get("arguments"))
        found.made(call, message.get("call_id"))
    elif kind == "function_call_output":
        found.ended(message.get("call_id"), message.get("output"))
    elif role == "assistant":
        for each in _list(message, "tool_calls"):
            said = each.get("function")
            if not isinstance(said, dict):
                raise InvalidTrace("a call has no tool name")
            call = _called(said.get("name"), said.get("arguments"))
            found.made(call, each.get("id"))
        said = message.get("function_call")
        if isinstance(said, dict):
            name = said.get("name")
            found.made(_called(name, said.get("arguments")), f"function {name}")
    elif role == "tool":
        failed = message.get("status") == "error" or message.get("is_error") is True
        found.ended(message.get("tool_call_id"), _text(message.get("content")), failed)
    elif role == "function":
        found.ended(f"function {message.get('name')}", _text(message.get("content")))


def _text(content: Any) -> Any:
    """Returns the content of a message; a list of parts becomes one text."""
    if not isinstance(content, list):
        return content
    parts = (each.get("text") for each in content if isinstance(each, dict))
    return "\n".join(part for part in parts if isinstance(part, str))


# -- OpenTelemetry ---------------------------------------------------------------------


def _spans(value: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the spans in one exported value, in a uniform format."""
    found: list[dict[str, Any]] = []
    if "attributes" in value:
        context = value.get("context")
        trace = context.get("trace_id") if isinstance(context, dict) else None
        status = value.get("status")
        code = (
            status.get("status_code", status.get("code"))
            if isinstance(status, dict)
            else None
        )
        found.append(
            {
                "trace": str(trace or value.get("traceId")),
                "start": value.get("start_time") or value.get("startTimeUnixNano"),
                "failed": code in ("ERROR", "STATUS_CODE_ERROR", 2),
                "attributes": _attributes(value.get("attributes")),
            }
        )
        return found
    for resource in _list(value, "resourceSpans", "resource_spans"):
        for scope in _list(resource, "scopeSpans", "scope_spans"):
            for span in _list(scope, "spans"):
                found += _spans({"attributes": {}, **span})
    return found


def _list(value: Any, *names: str) -> Iterable[dict[str, Any]]:
    for name in names:
        found = value.get(name) if isinstance(value, dict) else None
        if isinstance(found, list):
            return [each for each in found if isinstance(each, dict)]
    return ()


def _attributes(value: Any) -> dict[str, Any]:
    """Converts OTLP's list of attributes to a mapping; returns a mapping unchanged."""
    if isinstance(value, dict):
        return value
    found: dict[str, Any] = {}
    for each in value if isinstance(value, list) else ():
        if isinstance(each, dict) and isinstance(each.get("value"), dict):
            found[str(each.get("key"))] = next(iter(each["value"].values()), None)
    return found


def _traces(
    spans: list[dict[str, Any]], name: str, log: CallLog, source: str
) -> Iterator[CallRun]:
    """Yields one run for each conversation, or for each trace without a conversation
    id.
    """
    talks = {
        span["trace"]: span["attributes"]["gen_ai.conversation.id"]
        for span in spans
        if "gen_ai.conversation.id" in span["attributes"]
    }
    runs: dict[str, _Calls] = {}
    facts: dict[str, dict[str, str]] = {}
    for span in sorted(spans, key=lambda span: str(span["start"]).rjust(30)):
        said = span["attributes"]
        run = str(said.get("gen_ai.conversation.id") or talks.get(span["trace"])
                  or span["trace"])  # fmt: skip
        own = facts.setdefault(run, {})
        for key, short in _FACTS.items():
            if key in said:
                own[short] = str(said[key])
        if said.get("gen_ai.operation.name") != "execute_tool":
            continue
        try:
            given = said.get("gen_ai.tool.call.arguments")
            call = _called(said.get(_TOOL), given)
            calls = runs.setdefault(run, _Calls())
            number = said.get("gen_ai.tool.call.id") or len(calls.calls)
            calls.made(call, number)
            failed = span["failed"] or "error.type" in said
            calls.ended(number, said.get("gen_ai.tool.call.result"), failed)
        except InvalidInput as error:
            log.unread.append(Unread(source, f"trace {run:.40}", error.problem))
    for run, found in runs.items():
        yield CallRun(f"{name}:{run}", tuple(found.calls), facts[run])


_FACTS = {
    "gen_ai.request.model": "model",
    "gen_ai.agent.name": "agent",
    "gen_ai.provider.name": "provider",
}
"""The attributes of spans that become facts about the run, and the facts' names."""


# -- MCP -------------------------------------------------------------------------------


class _Transcript:
    """Converts the JSON-RPC messages of MCP sessions to runs."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._runs: list[tuple[_Calls, dict[str, str]]] = []

    def add(self, value: dict[str, Any]) -> None:
        inner = value.get("message")
        said = inner if isinstance(inner, dict) else value
        method, key = said.get("method"), said.get("id")
        if method == "initialize" or not self._runs:
            self._runs.append((_Calls(), {}))
        calls, facts = self._runs[-1]
        given = said.get("params")
        params: dict[str, Any] = given if isinstance(given, dict) else {}
        if method == "initialize":
            client = params.get("clientInfo")
            if isinstance(client, dict):
                facts["client"] = str(client.get("name"))
        elif method == "tools/call":
            call = _called(params.get("name"), params.get("arguments"))
            calls.made(call, key)
        elif "error" in said:
            calls.ended(key, said["error"], failed=True)
        elif isinstance(said.get("result"), dict):
            result = said["result"]
            content = result.get("structuredContent", _text(result.get("content")))
            calls.ended(key, content, result.get("isError") is True)

    def runs(self) -> Iterator[CallRun]:
        for number, (calls, facts) in enumerate(self._runs, start=1):
            yield CallRun(f"{self._name}:{number}", tuple(calls.calls), facts)
