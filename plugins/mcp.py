"""An MCP proxy server that asks the guard before each tool call.

Neither the agent nor the server needs changes. Resources and prompts of the server are
passed on unchanged, but its notifications (such as progress) are dropped. Both sides
are untrusted, so the size of messages, the number of waiting calls and the duration of
a call are limited.

This module requires the extra `mcp`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any

from forewarn.abstractions.errors import MissingDependency, Unreachable
from forewarn.plugins.agents import AgentGuard, Verdict

try:
    import anyio
    from mcp import Client, MCPError
    from mcp.server import Server
    from mcp.server.stdio import stdio_server
    from mcp.shared.message import SessionMessage
    from mcp.types import (
        CallToolRequest,
        CallToolRequestParams,
        CallToolResult,
        CancelledNotification,
        CancelledNotificationParams,
        ErrorData,
        JSONRPCError,
        JSONRPCResponse,
        TextContent,
        Tool,
    )
    from mcp_types import jsonrpc_message_adapter
except ImportError as error:
    raise MissingDependency("MCP", "mcp") from error

__all__ = ["guarded_server", "serve"]

MAX_MESSAGE = 8 << 20
"""The maximum size of a message in bytes; longer messages are answered with an error.
"""

MAX_WAITING = 1000
"""The maximum number of calls that wait for their turn."""

MAX_UNASKED = 100_000
"""The maximum number of unsolicited messages from a server between two responses."""

MAX_PAGES = 100

CALL_LIMIT_S = 300.0
START_LIMIT_S = 60.0
EXIT_LIMIT_S = 5.0
GRACE_S = 2.0

BUSY = "Too many calls wait for the guard, so this one is not carried out."
LATE = "The server did not answer in time. The call counts as failed."

_HEAD = 200
_ID = re.compile(rb'"id"\s*:\s*(\d{1,15}|"[\w-]{1,64}")')


class NoServer(Unreachable):
    """The guarded MCP server does not start or answer."""


def guarded_server(
    upstream: Client,
    guard: AgentGuard,
    *,
    limit_s: float = CALL_LIMIT_S,
    take_back: Callable[[], object] = lambda: None,
) -> Server[Any]:
    """Creates a server with the tools of another server that asks the guard before each
    call.

    Args:
        upstream: A client that is connected to the other server.
        guard: Reviews the calls one at a time.
        limit_s: The time limit of a call in seconds.
        take_back: Notifies the other server that the last call was cancelled.
    """
    waiting = 0
    given_up: deque[asyncio.Future[CallToolResult]] = deque()

    def give_up(calling: asyncio.Future[CallToolResult], verdict: Verdict) -> None:
        take_back()
        given_up.append(calling)
        if len(given_up) > MAX_WAITING:
            given_up.popleft().cancel()
        # The server may ignore the notification, so a late success counts.
        calling.add_done_callback(lambda _: guard.after(*_end_of(calling, verdict)))

    async def call_tool(_: Any, asked: Any) -> CallToolResult:
        nonlocal waiting
        if waiting >= MAX_WAITING:
            return _refusal(BUSY)
        waiting += 1
        try:
            return await guarded_call(asked.name, asked.arguments or {})
        finally:
            waiting -= 1

    async def guarded_call(name: str, arguments: dict[str, Any]) -> CallToolResult:
        async with guard.turn_async() as judging:
            verdict = await judging(guard.before, name, arguments)
            other = verdict.instead
            if other is not None:
                name, arguments = other.name, dict(other.arguments)
            elif not verdict.passes:
                return _refusal(verdict.message)
            # The call runs in its own task, because the server may still carry it out
            # after it was cancelled.
            calling = asyncio.ensure_future(_carry_out(upstream, name, arguments))
            stopped = None
            try:
                await asyncio.wait([calling], timeout=limit_s)
            finally:
                if not calling.done():
                    give_up(calling, verdict)
                if verdict.acts:
                    stopped = await judging(guard.after, *_end_of(calling, verdict))
            if stopped is not None:
                return _refusal(stopped.message)
            answer = calling.result() if calling.done() else _refusal(LATE)
            if other is not None:
                said = TextContent(type="text", text=verdict.message)
                return answer.model_copy(update={"content": [said, *answer.content]})
            return answer

    offered = upstream.server_capabilities
    more: dict[str, Any] = {}
    if offered.resources is not None:
        more |= _resources(upstream)
    if offered.prompts is not None:
        more |= _prompts(upstream)
    info = upstream.server_info
    return Server(
        info.name if info is not None else "guarded",
        version=info.version if info is not None else "",
        instructions=upstream.instructions,
        on_list_tools=_listing(upstream.list_tools),
        on_call_tool=call_tool,
        **more,
    )


def _end_of(
    calling: asyncio.Future[CallToolResult], verdict: Verdict
) -> tuple[bool | None, int | None, Any]:
    """Returns the report for the guard: whether the call failed, its number and its
    result.
    """
    if not calling.done():
        return None, verdict.call, None
    if calling.cancelled() or calling.exception() is not None:
        return True, verdict.call, None
    answer = calling.result()
    failed = answer.is_error or answer.result_type != "complete"
    return failed, verdict.call, _result(answer)


def _result(answer: CallToolResult) -> Any:
    """Returns the structured content of a result or, if there is none, its text."""
    if answer.structured_content is not None:
        return answer.structured_content
    texts = (part.text for part in answer.content if isinstance(part, TextContent))
    return "\n".join(texts)


async def _carry_out(
    upstream: Client, name: str, arguments: dict[str, Any]
) -> CallToolResult:
    """Calls a tool, and returns its result unchanged.

    The `call_tool` method of the client would also list all tools in order to validate
    the result.
    """
    asked = CallToolRequestParams(name=name, arguments=arguments)
    request = CallToolRequest(params=asked)
    return await upstream.session.send_request(request, CallToolResult)


async def serve(
    command: list[str],
    environment: Mapping[str, str],
    guard: AgentGuard,
    *,
    limit_s: float = CALL_LIMIT_S,
) -> None:
    """Starts a server with a command, and serves its guarded tools on standard input
    and output.

    Raises:
        NoServer: The server does not start or does not speak MCP.
        InvalidInput: A law uses an argument that none of the tools has.
    """
    said = _Said()
    async with _started(command, environment, said) as upstream:
        if (tools := await _tools(upstream)) is not None:
            guard.check_tools(tools)
        server = guarded_server(
            upstream, guard, limit_s=limit_s, take_back=said.take_back
        )
        stdin: Any = _Requests(sys.stdin.buffer, lambda: _exit_soon(guard))
        async with stdio_server(stdin=stdin) as (hears, says):
            await server.run(hears, says, server.create_initialization_options())
            # Close now, because this process may be killed before the other server
            # ends.
            guard.close()


async def listed(
    command: list[str], environment: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Starts a server with a command, and returns the descriptions of its tools.

    Raises:
        NoServer: The server does not start or does not list its tools.
    """
    async with _started(command, environment, _Said()) as upstream:
        tools = await _all_tools(upstream)
    if tools is None:
        raise NoServer(f"the MCP server {command[0]!r:.80} did not list its tools")
    return [t.model_dump(mode="json", by_alias=True, exclude_none=True) for t in tools]


async def _tools(upstream: Client) -> dict[str, list[str]] | None:
    """Returns all tools of a server, each with the names of its arguments.

    Returns None if a tool takes arbitrary arguments, or if the tools cannot be listed.
    """
    tools = await _all_tools(upstream)
    if tools is None:
        return None
    given: dict[str, Any] = {
        tool.name: tool.input_schema.get("properties") for tool in tools
    }
    if not all(isinstance(each, dict) for each in given.values()):
        return None
    return {name: list(each) for name, each in given.items()}


async def _all_tools(upstream: Client) -> list[Tool] | None:
    found: list[Tool] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        try:
            with anyio.fail_after(START_LIMIT_S):
                page = await upstream.list_tools(cursor=cursor)
        except (MCPError, TimeoutError):
            return None
        found += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return found
    return None


def _exit_soon(guard: AgentGuard) -> None:
    """Ends this process soon, even if it hangs, because the agent has disconnected."""

    def leave() -> None:
        guard.close()
        os._exit(0)

    timer = threading.Timer(EXIT_LIMIT_S, leave)
    timer.daemon = True
    try:
        timer.start()
    except RuntimeError:  # no thread can be started
        asyncio.get_running_loop().call_later(EXIT_LIMIT_S, leave)


@asynccontextmanager
async def _started(
    command: list[str], environment: Mapping[str, str], said: _Said
) -> AsyncIterator[Client]:
    threading.Thread(target=int).start()  # fails early: asyncio also needs a thread
    upstream = Client(_server_process(command, environment, said))
    try:
        async with asyncio.timeout(START_LIMIT_S):
            await upstream.__aenter__()
    except (OSError, MCPError, ExceptionGroup) as error:
        why: BaseException = error
        while isinstance(why, ExceptionGroup):
            why = why.exceptions[0]
        if not isinstance(why, OSError | MCPError):
            raise
        raise NoServer(
            f"the MCP server {command[0]!r:.80} does not start, or does not answer as "
            f"an MCP server: {getattr(why, 'strerror', None) or why} "
            "(try running its command alone)"
        ) from error
    try:
        yield upstream
    finally:
        await upstream.__aexit__(None, None, None)


# -- messages of limited size ------------------------------------------------------


@asynccontextmanager
async def _server_process(
    command: list[str], environment: Mapping[str, str], asking: _Said
) -> AsyncIterator[Any]:
    """Starts a server in its own process group; yields the streams for a client."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env=environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=MAX_MESSAGE,
        start_new_session=True,
    )
    heard, hears = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    says, said = anyio.create_memory_object_stream[SessionMessage](0)
    assert process.stdin is not None and process.stdout is not None  # noqa: S101
    tasks = [
        asyncio.create_task(_hear(process.stdout, heard)),
        asyncio.create_task(_say(process.stdin, said, heard, asking)),
    ]
    try:
        yield hears, says
    finally:
        with anyio.CancelScope(shield=True):
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await _end(process)
            for stream in (heard, hears, says, said):
                stream.close()


async def _hear(stdout: asyncio.StreamReader, heard: Any) -> None:
    """Passes on the messages of the server until it ends."""
    unasked = 0
    with heard, suppress(anyio.BrokenResourceError):
        while unasked < MAX_UNASKED:
            line = await _line(stdout)
            if line is None:
                return
            unasked += 1
            if b'"method":"notifications/' in line[:_HEAD].replace(b" ", b""):
                continue
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                if isinstance(message, JSONRPCResponse | JSONRPCError):
                    unasked = 0
                await heard.send(SessionMessage(message))
            except ValueError as error:
                await heard.send(error)


async def _line(stdout: asyncio.StreamReader) -> bytes | None:
    """Returns the next line; an error response replaces a line that is too long."""
    head = tail = b""
    while True:
        try:
            line = await stdout.readuntil(b"\n")
        except asyncio.LimitOverrunError as error:
            part = await stdout.readexactly(error.consumed)
            head, tail = head or part[:_HEAD], part[-_HEAD:]
            continue
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        if not head:
            return line
        asked = _ID.search(head) or _ID.search(tail + line[-_HEAD:])
        if asked is None:
            return b"null"
        told = ErrorData(code=-32000, message="the answer is too long")
        answer = JSONRPCError(jsonrpc="2.0", id=0, error=told).model_dump_json()
        return answer.encode().replace(b'"id":0', b'"id":' + asked[1])


@dataclass
class _Said:
    """Tracks the last call that was sent to a server.

    Args:
        stdin: The standard input of the server.
        call: The request id of the last call.
    """

    stdin: asyncio.StreamWriter | None = None
    call: str | int | None = None

    def take_back(self) -> None:
        """Notifies the server that the last call was cancelled."""
        if self.stdin is None or self.call is None:
            return
        about = CancelledNotificationParams(request_id=self.call)
        told = CancelledNotification(params=about).model_dump(
            by_alias=True, exclude_none=True
        )
        self.stdin.write(json.dumps({"jsonrpc": "2.0", **told}).encode() + b"\n")


async def _say(
    stdin: asyncio.StreamWriter, said: Any, heard: Any, asking: _Said
) -> None:
    """Passes on requests to the server until it ends."""
    asking.stdin = stdin
    try:
        async for each in said:
            if getattr(each.message, "method", "") == "tools/call":
                asking.call = each.message.id
            text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
            stdin.write(text.encode() + b"\n")
            await stdin.drain()
    except (OSError, UnicodeError):
        heard.close()


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ends a server: closes its input, and then sends signals."""
    if process.stdin is not None:
        process.stdin.close()
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                await process.wait()
                break
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
    with suppress(TimeoutError, OSError):
        async with asyncio.timeout(GRACE_S):
            await process.wait()
            # The pipe closes only after the remaining output has been read.
            while process.stdout is not None and await process.stdout.read(MAX_MESSAGE):
                pass


class _Requests:
    """The requests of the agent, line by line, as `stdio_server` expects them.

    Args:
        stdin: The stream to read.
        ended: Called at the end of the stream.
    """

    def __init__(self, stdin: IO[bytes], ended: Callable[[], None]) -> None:
        self._stdin, self._ended = stdin, ended

    def __aiter__(self) -> _Requests:
        return self

    async def __anext__(self) -> str:
        line = await anyio.to_thread.run_sync(self._read, abandon_on_cancel=True)
        if not line:
            self._ended()
            raise StopAsyncIteration
        return line.decode("utf-8", "replace")

    def _read(self) -> bytes:
        line = self._stdin.readline(MAX_MESSAGE)
        if not line:
            return line
        if len(line) < MAX_MESSAGE or line.endswith(b"\n"):
            try:
                jsonrpc_message_adapter.validate_json(line, by_name=False)
                return line
            except ValueError:
                return _unreadable(line, line)
        while len(rest := self._stdin.readline(MAX_MESSAGE)) == MAX_MESSAGE:
            if rest.endswith(b"\n"):
                break
        return _unreadable(line, rest)


def _unreadable(begins: bytes, ends: bytes) -> bytes:
    """Returns a request that replaces an unreadable message, so that it is answered."""
    asked = _ID.search(begins[:_HEAD]) or _ID.search(ends[-_HEAD:])
    number = b"null" if asked is None else asked[1]
    return b'{"jsonrpc":"2.0","id":%b,"method":"unreadable"}\n' % number


def _listing(ask: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Passes on requests for a list, page by page."""

    async def listed(_: Any, asked: Any) -> Any:
        return await ask(cursor=None if asked is None else asked.cursor)

    return listed


def _resources(upstream: Client) -> dict[str, Any]:
    async def read(_: Any, asked: Any) -> Any:
        return await upstream.read_resource(asked.uri)

    return {
        "on_list_resources": _listing(upstream.list_resources),
        "on_list_resource_templates": _listing(upstream.list_resource_templates),
        "on_read_resource": read,
    }


def _prompts(upstream: Client) -> dict[str, Any]:
    async def got(_: Any, asked: Any) -> Any:
        return await upstream.get_prompt(asked.name, asked.arguments)

    return {"on_list_prompts": _listing(upstream.list_prompts), "on_get_prompt": got}


def _refusal(message: str) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=message)], is_error=True
    )
