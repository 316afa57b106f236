"""MCP: a server that stands before another one, and asks the guard before each call.

Neither the agent nor the server need know. What the server offers beside tools is
passed on as it is; what it says of its own accord (progress, changed lists) is not.

Needs the extra `mcp`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from forewarn.abstractions.errors import MissingDependency, Unreachable
from forewarn.plugins.agents import AgentGuard

try:
    from mcp import Client, MCPError, StdioServerParameters
    from mcp.server import Server
    from mcp.server.stdio import stdio_server
    from mcp.types import CallToolResult, TextContent
except ImportError as error:
    raise MissingDependency("MCP", "mcp") from error

__all__ = ["guarded_server", "serve"]


class NoServer(Unreachable):
    """The MCP server that is to be guarded does not start, or does not answer."""


def guarded_server(upstream: Client, guard: AgentGuard) -> Server[Any]:
    """A server with the tools of another one, each of which asks the guard first.

    Args:
        upstream: The other server; it must be connected.
        guard: Judges the calls, one after the other.
    """

    async def call_tool(_: Any, asked: Any) -> CallToolResult:
        arguments = asked.arguments or {}
        async with guard.turn_async() as judging:
            verdict = await judging(guard.before, asked.name, arguments)
            if not verdict.passes:
                return _refusal(verdict.message)
            failed, stopped = True, None
            try:
                answer = await upstream.call_tool(asked.name, arguments)
                failed = answer.is_error
            finally:
                if verdict.acts:
                    stopped = await judging(guard.after, failed, verdict.call)
            return answer if stopped is None else _refusal(stopped.message)

    async def list_tools(_: Any, asked: Any) -> Any:
        return await upstream.list_tools(cursor=_cursor(asked))

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
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        **more,
    )


async def serve(
    command: list[str], environment: dict[str, str], guard: AgentGuard
) -> None:
    """Guards the server that a command starts, on this process's standard streams.

    Raises:
        NoServer: It does not start, or does not speak MCP.
    """
    async with _started(command, environment) as upstream:
        server = guarded_server(upstream, guard)
        async with stdio_server() as (hears, says):
            await server.run(hears, says, server.create_initialization_options())
            # At once: whoever started this may end it before the other server ends.
            guard.close()


@asynccontextmanager
async def _started(
    command: list[str], environment: dict[str, str]
) -> AsyncIterator[Client]:
    first, *rest = command
    upstream = Client(StdioServerParameters(command=first, args=rest, env=environment))
    try:
        await upstream.__aenter__()
    except (OSError, MCPError) as error:
        raise NoServer(
            f"the MCP server {first!r:.80} does not start: {error} (try its command by"
            " itself)"
        ) from error
    try:
        yield upstream
    finally:
        await upstream.__aexit__(None, None, None)


def _resources(upstream: Client) -> dict[str, Any]:
    async def listed(_: Any, asked: Any) -> Any:
        return await upstream.list_resources(cursor=_cursor(asked))

    async def templates(_: Any, asked: Any) -> Any:
        return await upstream.list_resource_templates(cursor=_cursor(asked))

    async def read(_: Any, asked: Any) -> Any:
        return await upstream.read_resource(asked.uri)

    return {
        "on_list_resources": listed,
        "on_list_resource_templates": templates,
        "on_read_resource": read,
    }


def _prompts(upstream: Client) -> dict[str, Any]:
    async def listed(_: Any, asked: Any) -> Any:
        return await upstream.list_prompts(cursor=_cursor(asked))

    async def got(_: Any, asked: Any) -> Any:
        return await upstream.get_prompt(asked.name, asked.arguments)

    return {"on_list_prompts": listed, "on_get_prompt": got}


def _cursor(asked: Any) -> str | None:
    return None if asked is None else asked.cursor


def _refusal(message: str) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=message)], is_error=True
    )
