"""Wraps tools of the OpenAI Agents SDK so that they ask the guard before they run.

The SDK checks its guardrails for all parallel calls before it runs any of them, so the
checks do not see the effects of the other calls. The guard therefore reviews each call
when its tool is invoked, one call at a time. When the guard stops the agent, the run
ends with the SDK's guardrail exception.

This module requires the extra `openai-agents`.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Collection, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NoReturn

from forewarn.abstractions.arguments import checked
from forewarn.abstractions.errors import InvalidInput, MissingDependency
from forewarn.plugins.agents import (
    STOPPED,
    UNREADABLE,
    AgentGuard,
    check_harmless,
    json_arguments,
)

try:
    from agents import (
        FunctionTool,
        Tool,
        ToolGuardrailFunctionOutput,
        ToolInputGuardrail,
        ToolInputGuardrailData,
        ToolInputGuardrailTripwireTriggered,
        ToolOriginType,
    )
    from agents.tool_context import ToolContext
except ImportError as error:
    raise MissingDependency("the OpenAI Agents SDK", "openai-agents") from error

__all__ = ["guarded_tools"]

_RAISED: ContextVar[list[BaseException]] = ContextVar("raised")
"""The exceptions that the running tool has raised."""


@checked
def guarded_tools(
    tools: Sequence[Tool], guard: AgentGuard, *, harmless: Collection[str] = ()
) -> list[Tool]:
    """Wraps tools so that each asks the guard before it runs.

    Args:
        tools: The tools of the agent.
        guard: Reviews the calls. Agents that act in the same world must share one
            guard.
        harmless: The names of tools that do not affect the world; they are not wrapped.

    Raises:
        InvalidInput: A tool runs in another process or does not report failures, or a
            rule applies to calls that no tool accepts.
    """
    for tool in tools:
        if not hasattr(tool, "name"):
            raise InvalidInput(
                f"{tool!r:.80} is not a tool of the SDK",
                source="tools",
                mend="make the tool with @function_tool",
            )
    guard.check_rules({t.name: _arguments(t) for t in tools})
    check_harmless(harmless, [t.name for t in tools])
    run = {t.name: _reporting(t) for t in tools if isinstance(t, FunctionTool)}
    found: list[Tool] = []
    for tool in tools:
        if tool.name in harmless:
            found.append(tool)
        elif isinstance(tool, FunctionTool) and not _is_of_a_server(tool):
            found.append(_guarded(tool, guard, run))
        elif isinstance(tool, FunctionTool):
            raise InvalidInput(
                f"the tool {tool.name!r:.60} belongs to an MCP server, so "
                "the guard would not see failed calls",
                mend="guard the server with `forewarn mcp guard`",
            )
        else:
            raise InvalidInput(
                f"the tool {tool.name!r:.60} does not run in this process, "
                "so it cannot be guarded",
                mend="remove the tool, or list it in `harmless`",
            )
    return found


def _arguments(tool: Tool) -> list[str]:
    schema = getattr(tool, "params_json_schema", {})
    return list(schema.get("properties", ()))


def _is_of_a_server(tool: FunctionTool) -> bool:
    origin = getattr(tool, "_tool_origin", None)
    return origin is not None and origin.type == ToolOriginType.MCP


def _reporting(tool: FunctionTool) -> FunctionTool:
    """Copies a tool so that it also reports the exceptions that the SDK handles."""
    inner = copy.copy(tool)
    invoker: Any = inner.on_invoke_tool
    if hasattr(invoker, "__agents_bind_function_tool__"):
        run = invoker._invoke_tool_impl

        async def reporting(context: ToolContext[Any], arguments: str) -> Any:
            try:
                return await run(context, arguments)
            except BaseException as error:
                _RAISED.get().append(error)
                raise

        invoker._invoke_tool_impl = reporting
    return inner


async def _invoked(
    tool: FunctionTool, context: ToolContext[Any], arguments: str
) -> tuple[Any, bool]:
    """Invokes a reporting tool; returns its answer, and whether it failed."""
    raised: list[BaseException] = []
    before = _RAISED.set(raised)
    try:
        answer = await tool.on_invoke_tool(context, arguments)
    finally:
        _RAISED.reset(before)
    return answer, bool(raised)


def _asked_for(context: ToolContext[Any]) -> str:
    """Returns the last message of a person to the agent."""
    for item in reversed(context.turn_input):
        if isinstance(item, dict) and item.get("role") == "user":
            content = item.get("content")
            return content if isinstance(content, str) else ""
    return ""


def _guarded(
    tool: FunctionTool, guard: AgentGuard, run: Mapping[str, FunctionTool]
) -> FunctionTool:
    async def refuse_stopped(
        data: ToolInputGuardrailData,
    ) -> ToolGuardrailFunctionOutput:
        if guard.stopped:
            return _tripped(guard)
        return ToolGuardrailFunctionOutput.allow()

    guardrail: ToolInputGuardrail[Any] = ToolInputGuardrail(refuse_stopped, "forewarn")

    def stop() -> NoReturn:
        raise ToolInputGuardrailTripwireTriggered(guardrail, _tripped(guard))

    async def invoke(context: ToolContext[Any], arguments: str) -> Any:
        try:
            given = json_arguments(arguments)
        except InvalidInput:
            return UNREADABLE
        async with guard.turn_async() as judging:
            asked = _asked_for(context)
            verdict = await judging(guard.before, tool.name, given, asked)
            if verdict.stopped:
                stop()
            name, other = tool.name, verdict.instead
            if other is not None:
                name, arguments = other.name, json.dumps(dict(other.arguments))
            if not (verdict.passes or other) or name not in run:
                return await judging(guard.unmade, verdict)
            failed, stopped, answer = True, None, None
            try:
                answer, failed = await _invoked(run[name], context, arguments)
            finally:
                if verdict.acts:
                    stopped = await judging(guard.after, failed, verdict.call, answer)
            if stopped is not None:
                stop()
            return answer if other is None else f"{verdict.message}{answer}"

    guardrails = [guardrail, *(tool.tool_input_guardrails or ())]
    return dataclasses.replace(
        tool, on_invoke_tool=invoke, tool_input_guardrails=guardrails
    )


def _tripped(guard: AgentGuard) -> ToolGuardrailFunctionOutput:
    facts = {"message": STOPPED, "reason": guard.why_stopped}
    return ToolGuardrailFunctionOutput.raise_exception(facts)
