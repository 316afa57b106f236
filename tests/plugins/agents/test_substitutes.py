"""Rules that put another call in the place of one, before every kind of agent."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.guarding.decision import Action
from forewarn.monitors.guarding.policy import Policy
from forewarn.monitors.rules.agentspec import import_rules
from forewarn.monitors.rules.judging import RuleJudge
from forewarn.monitors.rules.libraries import library
from forewarn.plugins.agents import WITHHELD, AgentGuard
from forewarn.plugins.agents.trajectory import POLICY
from forewarn.plugins.programs.rules import judge_of

RULE = """\
rule @keep
trigger
    delete
check
    true
enforce
    invoke_action(backup, {"path": "a.txt"})
end
"""
TOOLS = {"delete": ["path"], "backup": ["path"]}
BACKUP = Action("backup", {"path": "a.txt"})


@pytest.fixture
def judge(tmp_path: Path) -> RuleJudge:
    path = tmp_path / "keep.ar"
    path.write_text(RULE)
    return RuleJudge(import_rules([path], {"code": library("code")}).rules)


def guard(judge: RuleJudge, *laws: str, policy: Policy = POLICY) -> AgentGuard:
    return AgentGuard.by_laws(laws, policy, judges=[judge])


def test_the_caller_is_told_what_to_run_instead(judge: RuleJudge) -> None:
    law = "copied := always (tool == wipe -> once (tool == backup and not failed))"
    with guard(judge, law) as asked:
        asked.check_tools({**TOOLS, "wipe": []})
        assert not asked.before("wipe", {}).passes
        verdict = asked.before("delete", {"path": "a.txt"})
        assert not verdict.passes and verdict.instead == BACKUP
        assert "keep" in verdict.message
        asked.after(call=verdict.call)
        # What was done instead counts for the laws, and nothing else does.
        assert asked.before("wipe", {}).passes


@pytest.mark.parametrize(
    ("tools", "problem"),
    [({"delete": ["path"]}, "backup"), ({**TOOLS, "backup": ["file"]}, "'path'")],
)
def test_a_call_that_no_tool_takes_is_rejected(
    judge: RuleJudge, tools: dict[str, list[str]], problem: str
) -> None:
    with guard(judge) as asked, pytest.raises(InvalidInput, match=problem):
        asked.check_tools(tools)


def test_tools_that_stand_for_other_actions_are_not_substituted(
    judge: RuleJudge,
) -> None:
    renamed = lambda tool, given: Action(f"robot {tool}", given)  # noqa: E731
    guard = AgentGuard.by_laws([], action_of=renamed, judges=[judge])
    with guard as asked, pytest.raises(InvalidInput, match="keep substitutes"):
        asked.check_tools(TOOLS)


def test_nothing_runs_if_the_tools_are_unknown(judge: RuleJudge) -> None:
    with guard(judge) as asked:
        verdict = asked.before("delete", {"path": "a.txt"})
        assert not verdict.passes and verdict.instead is None


@pytest.mark.parametrize(
    ("law", "passes"),
    [
        ("always not tool == backup", 0),
        ("always (tool == backup -> not eventually[1,9 steps] tool == backup)", 1),
        ("always not (tool == backup and arg_path > 3)", 0),
    ],
)
def test_a_substitute_that_breaks_a_law_is_not_made(
    judge: RuleJudge, law: str, passes: int
) -> None:
    with guard(judge, law) as asked:
        asked.check_tools(TOOLS)
        verdicts = []
        for _ in range(3):
            verdicts.append(asked.before("delete", {}))
            asked.after(call=verdicts[-1].call)
    made = [each.instead for each in verdicts]
    assert made == [BACKUP] * passes + [None] * (3 - passes)
    assert not any(each.passes for each in verdicts)


def test_in_shadow_the_call_itself_passes(judge: RuleJudge) -> None:
    with guard(judge, policy=replace(POLICY, shadow=True)) as asked:
        asked.check_tools(TOOLS)
        assert asked.before("delete", {"path": "a.txt"}).passes


class Files:
    def __init__(self) -> None:
        self.done: list[tuple[str, str]] = []

    def delete(self, path: str) -> str:
        self.done.append(("delete", path))
        return "gone"

    def backup(self, path: str) -> str:
        self.done.append(("backup", path))
        return "copied"


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_langchain(judge: RuleJudge, way: str) -> None:
    pytest.importorskip("langchain", reason="langchain is not installed")
    from langchain.agents import create_agent
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from langchain_core.tools import tool

    from forewarn.plugins.langchain import GuardMiddleware
    from tests.plugins.agents.test_langchain import Scripted

    files = Files()
    tools = [tool(each, description="Acts.") for each in (files.delete, files.backup)]
    call = {"name": "delete", "args": {"path": "b.txt"}, "id": "1"}
    said = [AIMessage("", tool_calls=[call]), AIMessage("done")]

    def run(offered: list[Any]) -> Any:
        with guard(judge) as asked:
            model = Scripted(messages=iter(said))
            agent = create_agent(model, offered, middleware=[GuardMiddleware(asked)])
            given: Any = {"messages": [HumanMessage("clean up")]}
            if way == "invoke":
                return agent.invoke(given)
            return asyncio.run(agent.ainvoke(given))

    (answer,) = (m for m in run(tools)["messages"] if isinstance(m, ToolMessage))
    assert files.done == [("backup", "a.txt")]
    assert answer.tool_call_id == "1" and answer.status == "success"
    assert answer.text.endswith("Its result is: copied") and "keep" in answer.text
    with pytest.raises(InvalidInput, match="backup"):
        run(tools[:1])


@pytest.mark.parametrize("way", ["call", "acall"])
def test_langchain_substitute_that_the_agent_lacks_is_not_reported_as_done(
    judge: RuleJudge, way: str
) -> None:
    pytest.importorskip("langchain", reason="langchain is not installed")
    from langchain.agents.middleware import ToolCallRequest

    from forewarn.plugins.langchain import GuardMiddleware

    call: Any = {"name": "delete", "args": {"path": "b.txt"}, "id": "1"}
    unused: Any = None
    request = ToolCallRequest(call, tool=None, state={}, runtime=unused)
    law = "always (tool == wipe -> once (tool == backup and not failed))"
    with guard(judge, law) as asked:
        asked.check_rules({**TOOLS, "wipe": []})  # another agent has them
        middleware: Any = GuardMiddleware(asked)
        if way == "call":
            answer = middleware.wrap_tool_call(request, None)
        else:
            answer = asyncio.run(middleware.awrap_tool_call(request, None))
        assert (answer.status, answer.text) == ("error", f"{WITHHELD}.")
        assert not asked.before("wipe", {}).passes


def test_openai_agents(judge: RuleJudge) -> None:
    pytest.importorskip("agents", reason="openai-agents is not installed")
    from agents import Agent, Runner, function_tool

    from forewarn.plugins.openai_agents import guarded_tools
    from tests.plugins.agents.test_openai_agents import Scripted

    files = Files()
    delete = function_tool(files.delete, name_override="robot")
    backup = function_tool(files.backup)
    rules = judge.as_dict()
    (rule,) = rules["rules"]
    robot = {**rules, "rules": [{**rule, "before": "robot"}]}
    with guard(judge_of(robot)) as asked:
        tools = guarded_tools([delete, backup], asked)
        model = Scripted(['{"path": "b.txt"}'], "done")
        agent = Agent(name="a", model=model, tools=tools)
        found = asyncio.run(Runner.run(agent, "clean up"))
        with pytest.raises(InvalidInput, match="backup"):
            guarded_tools([delete], asked)
    assert files.done == [("backup", "a.txt")]
    (output,) = (item.output for item in found.new_items if hasattr(item, "output"))
    assert output.endswith("Its result is: copied") and "keep" in output


def test_openai_substitute_that_runs_elsewhere_is_not_reported_as_done(
    judge: RuleJudge,
) -> None:
    pytest.importorskip("agents", reason="openai-agents is not installed")
    from agents import Agent, Runner, WebSearchTool, function_tool

    from forewarn.plugins.openai_agents import guarded_tools
    from tests.plugins.agents.test_openai_agents import Scripted

    files, rules = Files(), judge.as_dict()
    (rule,) = rules["rules"]
    search: Any = {"name": "web_search", "arguments": {}}
    other = {**rule, "before": "robot", "enforce": {"substitute": search}}
    robot = {**rules, "rules": [other]}
    with guard(judge_of(robot)) as asked:
        delete = function_tool(files.delete, name_override="robot")
        harmless = ["web_search"]
        tools = guarded_tools([delete, WebSearchTool()], asked, harmless=harmless)
        agent = Agent(name="a", model=Scripted(['{"path": "b"}'], "done"), tools=tools)
        found = asyncio.run(Runner.run(agent, "clean up"))
    (output,) = (item.output for item in found.new_items if hasattr(item, "output"))
    assert files.done == [] and output == f"{WITHHELD}."


def test_mcp(judge: RuleJudge) -> None:
    pytest.importorskip("mcp", reason="mcp is not installed")
    from mcp import Client
    from mcp.server import MCPServer

    from forewarn.plugins.mcp import guarded_server

    files = Files()
    server = MCPServer("files")
    server.tool()(files.delete)
    server.tool()(files.backup)

    async def session(asked: AgentGuard) -> Any:
        async with (
            Client(server) as upstream,
            Client(guarded_server(upstream, asked)) as agent,
        ):
            return await agent.call_tool("delete", {"path": "b.txt"})

    with guard(judge) as asked:
        asked.check_tools(TOOLS)
        answer = asyncio.run(asyncio.wait_for(session(asked), 60))
    assert files.done == [("backup", "a.txt")]
    assert not answer.is_error
    assert "keep" in answer.content[0].text and answer.content[1].text == "copied"
