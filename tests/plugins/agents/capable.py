"""The rows of agents in the table of capabilities."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from forewarn.abstractions.frame import Frame, Source
from forewarn.plugins.agents import AgentGuard
from forewarn.plugins.loop.guarding import Guarding
from tests.plugins.capabilities import OCCUPIED, SIMULATED, Way

CALLS = 5
SEEN = Frame(0.0, 0, {"speed": 1.0})


class Agent(Way):
    name, title = "AgentGuard", "an agent that calls tools, in your own program"
    without: ClassVar[Mapping[str, str]] = {"lease": SIMULATED}

    def sees(self, foresees: bool) -> tuple[Source, Frame]:
        return Source("agent", "driving", ("speed",), 0.5), SEEN

    def drive(self, guarding: Guarding, foresees: bool, folder: Path) -> None:
        foresee = (lambda action: SEEN) if foresees else None
        with AgentGuard(guarding, observe=lambda: SEEN, foresee=foresee) as guard:
            self.call(guard)

    def call(self, guard: AgentGuard) -> None:
        """Makes a few calls."""
        guard.check_rules({"go": []})
        for _ in range(CALLS):
            with guard.turn():
                if guard.before("go", {}).passes:
                    guard.after()


class LangChain(Agent):
    name, title = "LangChain", "a LangChain agent, with `GuardMiddleware`"
    needs = "langchain"

    def call(self, guard: AgentGuard) -> None:
        from langchain.agents import create_agent
        from langchain_core.language_models.fake_chat_models import (
            GenericFakeChatModel,
        )
        from langchain_core.messages import AIMessage
        from langchain_core.tools import tool

        from forewarn.plugins.langchain import GuardMiddleware

        class Scripted(GenericFakeChatModel):
            def bind_tools(self, tools: Any, **_: Any) -> Any:
                return self

        @tool
        def go() -> str:
            """Go."""
            return "done"

        calls: list[AIMessage] = [
            AIMessage("", tool_calls=[{"name": "go", "args": {}, "id": str(i)}])
            for i in range(CALLS)
        ]
        model = Scripted(messages=iter([*calls, AIMessage("end")]))
        agent = create_agent(model, [go], middleware=[GuardMiddleware(guard)])
        agent.invoke({"messages": [("user", "go")]})  # type: ignore[call-overload]


class OpenAIAgents(Agent):
    name, title = "OpenAI Agents", "an agent of the OpenAI SDK, with `guarded_tools`"
    needs = "agents"

    def call(self, guard: AgentGuard) -> None:
        from agents import ToolInputGuardrailTripwireTriggered, function_tool
        from agents.tool_context import ToolContext

        from forewarn.plugins.openai_agents import guarded_tools

        def go() -> str:
            """Go."""
            return "done"

        tool: Any
        (tool,) = guarded_tools([function_tool(go)], guard)

        async def made() -> None:
            context = ToolContext(
                context=None, tool_name="go", tool_call_id="1", tool_arguments="{}"
            )
            with suppress(ToolInputGuardrailTripwireTriggered):
                await tool.on_invoke_tool(context, "{}")

        for _ in range(CALLS):
            asyncio.run(made())


class McpServer(Agent):
    name, title = "MCP", "the tools of any MCP server, with `forewarn mcp guard`"
    needs, command = "mcp", ("mcp", "guard")
    without: ClassVar[Mapping[str, str]] = {
        **Agent.without,
        "tally": "rejected: no chain is learned for laws over calls",
        "ask": OCCUPIED,
    }

    def drive(self, guarding: Guarding, foresees: bool, folder: Path) -> None:
        super().drive(replace(guarding, approver=None), foresees, folder)

    def call(self, guard: AgentGuard) -> None:
        from mcp import Client

        from forewarn.plugins.mcp import guarded_server
        from tests.plugins.agents.files_server import server

        guard.check_rules({"backup": ["path"]})  # as `serve` does

        async def session() -> None:
            async with Client(server) as upstream:
                async with Client(guarded_server(upstream, guard)) as agent:
                    for _ in range(CALLS):
                        await agent.call_tool("backup", {"path": "a.txt"})

        asyncio.run(session())
