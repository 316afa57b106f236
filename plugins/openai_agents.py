"""The OpenAI Agents SDK: tools that ask the guard before they run.

The SDK asks the guardrails of all parallel calls before any of them runs, so none sees
what the others lead to. Here each call is judged where it is invoked, one after the
other; a call that is stopped ends the run with the SDK's own exception for guardrails.

Needs the extra `openai-agents`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any, NoReturn

from forewarn.abstractions.errors import InvalidInput, MissingDependency
from forewarn.plugins.agents import STOPPED, UNREADABLE, AgentGuard, json_arguments

try:
    from agents import (
        FunctionTool,
        Tool,
        ToolGuardrailFunctionOutput,
        ToolInputGuardrail,
        ToolInputGuardrailData,
        ToolInputGuardrailTripwireTriggered,
    )
    from agents.tool_context import ToolContext
except ImportError as error:
    raise MissingDependency("the OpenAI Agents SDK", "openai-agents") from error

__all__ = ["guarded_tools"]


def guarded_tools(
    tools: Sequence[Tool], guard: AgentGuard, *, harmless: Collection[str] = ()
) -> list[Tool]:
    """The same tools, each of which asks the guard before it runs.

    Args:
        tools: The agent's tools.
        guard: Judges the calls; one for each robot, whichever agents drive it.
        harmless: The names of tools that do nothing in the world; they stay as they
            are.

    Raises:
        InvalidInput: A tool runs elsewhere, where nobody can stop it.
    """
    found: list[Tool] = []
    for tool in tools:
        if tool.name in harmless:
            found.append(tool)
        elif isinstance(tool, FunctionTool):
            found.append(_guarded(tool, guard))
        else:
            raise InvalidInput(
                f"the tool {tool.name!r:.60} does not run here: nobody can guard it",
                mend="leave it out, or name it among the harmless ones",
            )
    return found


def _guarded(tool: FunctionTool, guard: AgentGuard) -> FunctionTool:
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
            verdict = await judging(guard.before, tool.name, given)
            if verdict.stopped:
                stop()
            if not verdict.passes:
                return verdict.message
            failed, stopped = True, None
            try:
                answer = await tool.on_invoke_tool(context, arguments)
                failed = False
            finally:
                if verdict.acts:
                    stopped = await judging(guard.after, failed)
            if stopped is not None:
                stop()
            return answer

    guardrails = [guardrail, *(tool.tool_input_guardrails or ())]
    return dataclasses.replace(
        tool, on_invoke_tool=invoke, tool_input_guardrails=guardrails
    )


def _tripped(guard: AgentGuard) -> ToolGuardrailFunctionOutput:
    facts = {"message": STOPPED, "reason": guard.why_stopped}
    return ToolGuardrailFunctionOutput.raise_exception(facts)
