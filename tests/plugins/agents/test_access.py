"""One access program before every kind of agent: what a role may not read stays so."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from forewarn.monitors.programs.compiling import compile_request
from forewarn.monitors.programs.file import ProgramFile
from forewarn.monitors.programs.request import read_request
from forewarn.plugins.agents import AgentGuard
from forewarn.plugins.programs.judging import ProgramJudge

pytest.importorskip("sqlglot", reason="sqlglot is not installed")

REQUEST = """\
# Who reads what

| role | database | columns |
|---|---|---|
| nurse | patient | uniquepid, age |
| nurse | lab | uniquepid, labname |
| doctor | patient | uniquepid, age, address |
| doctor | lab | uniquepid, labname, labresult |
"""
PERMITTED = "SELECT age, labname FROM patient JOIN lab USING (uniquepid)"
FORBIDDEN = "SELECT age, labresult FROM patient JOIN lab USING (uniquepid)"
WHY = "this role may not read all that is needed"


def judge(program: str = "", role: str = "nurse") -> ProgramJudge:
    program = program or compile_request(read_request(REQUEST, "r"), "r", "a clinic")
    file = ProgramFile(
        name="access",
        request=REQUEST,
        specification="a clinic",
        made_by="rules",
        program=program,
    )
    return ProgramJudge(file, {"user": {"role": role}})


def guard(*judges: ProgramJudge) -> AgentGuard:
    return AgentGuard.by_laws([], judges=list(judges) or [judge()])


class Database:
    def __init__(self) -> None:
        self.ran: list[str] = []

    def query(self, sql: str) -> str:
        self.ran.append(sql)
        return "3 rows"


@pytest.mark.parametrize(("role", "passes"), [("nurse", False), ("doctor", True)])
@pytest.mark.parametrize(
    "arguments",
    [
        {"sql": FORBIDDEN},
        {"request": {"steps": [{"query": FORBIDDEN}]}},
        {"code": f"import pandas as pd\npd.read_sql({FORBIDDEN!r}, db)"},
        {"code": "lab = pd.read_csv('lab.csv')\nlab[lab.labresult > 3].labresult"},
    ],
)
def test_columns_are_found_in_what_a_tool_is_given(
    role: str, passes: bool, arguments: dict[str, Any]
) -> None:
    with guard(judge(role=role)) as asked:
        assert asked.before("run", arguments).passes is passes


def test_a_call_with_unreadable_sql_is_withheld() -> None:
    with guard() as asked:
        assert not asked.before("run", {"sql": "SELECT FROM WHERE ((("}).passes


@pytest.mark.parametrize(
    ("tool", "arguments", "passes"),
    [
        ("run", {"command": "sqlite3 clinic.db .dump"}, False),
        ("terminal", {"line": "cat lab.csv"}, False),
        ("read_file", {"path": "/data/Lab.csv"}, False),
        ("read_file", {"path": "export/lab_2020.parquet"}, False),
        ("fetch", {"url": "https://clinic/patient?age=3"}, False),
        ("rows", {"table": "lab", "limit": 3}, False),
        ("rows", {"sources": [{"of": " PATIENT "}]}, False),
        ("export", {"sql": PERMITTED, "from": "lab.csv"}, False),
        ("export", {"sql": PERMITTED, "path": "out/ages.csv"}, True),
        ("read_file", {"path": "/data/labels.csv"}, True),
        ("say", {"text": "The lab is closed; ask a patient."}, True),
    ],
)
def test_other_ways_to_a_known_table_are_withheld(
    tool: str, arguments: dict[str, Any], passes: bool
) -> None:
    with guard() as asked:
        assert asked.before(tool, arguments).passes is passes


def test_programs_know_the_request_and_the_log() -> None:
    program = 'if Asks(request, "book", "flight") and "GRANT" in log:\n    deny("no")\n'
    with guard(judge(program)) as asked:
        for request, sql, passes in (
            ("book me a flight", "SELECT age FROM patient", True),
            ("look up my age", "GRANT ALL", True),
            ("book me a flight", "GRANT ALL", False),
        ):
            assert asked.before("run", {"sql": sql}, request).passes is passes


def test_langchain() -> None:
    pytest.importorskip("langchain", reason="langchain is not installed")
    from langchain.agents import create_agent
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from langchain_core.tools import tool

    from forewarn.plugins.langchain import GuardMiddleware
    from tests.plugins.agents.test_langchain import Scripted

    database = Database()
    query = tool(database.query, description="Asks the database.")
    calls = [
        {"name": "query", "args": {"sql": sql}, "id": str(i)}
        for i, sql in enumerate((FORBIDDEN, PERMITTED))
    ]
    said = [*(AIMessage("", tool_calls=[call]) for call in calls), AIMessage("done")]
    with guard() as asked:
        agent = create_agent(
            Scripted(messages=iter(said)), [query], middleware=[GuardMiddleware(asked)]
        )
        found = agent.invoke({"messages": [HumanMessage("how old are they?")]})
    assert database.ran == [PERMITTED]
    refused = next(m for m in found["messages"] if isinstance(m, ToolMessage))
    assert WHY in refused.text


def test_openai_agents() -> None:
    pytest.importorskip("agents", reason="openai-agents is not installed")
    from agents import Agent, Runner, function_tool

    from forewarn.plugins.openai_agents import guarded_tools
    from tests.plugins.agents.test_openai_agents import Scripted

    database = Database()
    tool = function_tool(
        database.query, name_override="robot", description_override="Asks."
    )
    model = Scripted(
        [json.dumps({"sql": FORBIDDEN})], [json.dumps({"sql": PERMITTED})], "done"
    )
    with guard() as asked:
        agent = Agent(name="a", model=model, tools=guarded_tools([tool], asked))
        found = asyncio.run(Runner.run(agent, "how old are they?"))
    assert database.ran == [PERMITTED]
    outputs = [item.output for item in found.new_items if hasattr(item, "output")]
    assert WHY in str(outputs[0]) and outputs[1] == "3 rows"


def test_mcp_guard() -> None:
    pytest.importorskip("mcp", reason="mcp is not installed")
    from mcp import Client
    from mcp.server import MCPServer

    from forewarn.plugins.mcp import guarded_server

    database = Database()
    server = MCPServer("clinic")
    server.tool()(database.query)

    async def session(asked: AgentGuard) -> None:
        async with (
            Client(server) as upstream,
            Client(guarded_server(upstream, asked)) as agent,
        ):
            refused = await agent.call_tool("query", {"sql": FORBIDDEN})
            assert refused.is_error and WHY in repr(refused.content)
            assert not (await agent.call_tool("query", {"sql": PERMITTED})).is_error

    with guard() as asked:
        asyncio.run(asyncio.wait_for(session(asked), 60))
    assert database.ran == [PERMITTED]
