"""The proxy before a real MCP server: what breaks a law never reaches it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest
from click.testing import CliRunner

from forewarn.cli import main

pytest.importorskip("mcp", reason="mcp is not installed")

import anyio
from mcp import Client, MCPError, StdioServerParameters
from mcp.server import MCPServer, Server
from mcp.shared.message import SessionMessage
from mcp.types import CallToolResult, JSONRPCResponse, TextResourceContents

from forewarn.monitors.programs.tools import tools_of
from forewarn.plugins.agents import AgentGuard
from forewarn.plugins.mcp import BUSY, LATE, _Said, _tools, guarded_server

SERVER = Path(__file__).with_name("files_server.py")
SAFE = "copied_first := always (tool == delete -> once (tool == backup and not failed))"

OWN = 'own := always (tool == backup -> arg_path != "/etc/passwd")'
NEVER = "always (tool == delete -> not once (tool == backup and not failed))"


def call_of(session: Client, tool: str, path: str) -> Awaitable[Any]:
    return session.call_tool(tool, {"path": path})


async def left(session: Client) -> str:
    """The files that the server still has."""
    (content,) = (await session.read_resource("files://all")).contents
    assert isinstance(content, TextResourceContents)
    return content.text


def guarding(
    drive: Callable[[Client], Awaitable[None]], *laws: str, **more: Any
) -> AgentGuard:
    """An agent's session with the server, guarded in this process."""
    from tests.plugins.agents.files_server import kept, server

    kept.update(("a.txt", "b.txt"))
    guard = AgentGuard.by_laws(laws, **more)

    async def session() -> None:
        async with Client(server) as upstream:
            async with Client(guarded_server(upstream, guard)) as agent:
                await drive(agent)

    with guard:
        asyncio.run(asyncio.wait_for(session(), 60))
    return guard


def test_a_call_that_breaks_a_law_never_reaches_the_server() -> None:
    async def drive(agent: Client) -> None:
        refused = await call_of(agent, "delete", "a.txt")
        assert refused.is_error
        assert "copied_first" in refused.content[0].text
        assert await left(agent) == "a.txt b.txt"
        assert not (await call_of(agent, "backup", "a.txt")).is_error
        assert not (await call_of(agent, "delete", "a.txt")).is_error
        assert await left(agent) == "b.txt"

    guarding(drive, SAFE)


def test_a_call_that_failed_is_no_part_of_what_was_done() -> None:
    async def drive(agent: Client) -> None:
        assert (await call_of(agent, "backup", "none.txt")).is_error
        assert (await call_of(agent, "delete", "a.txt")).is_error

    guarding(drive, SAFE)


@pytest.mark.parametrize("at", ["judged", "carried out"])
def test_a_call_that_is_taken_back_is_no_part_of_what_was_done(
    at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is the next one judged before the judgement of this one is over."""
    begun, free = threading.Event(), threading.Event()
    judge = AgentGuard.before

    def long(guard: AgentGuard, *call: Any) -> Any:
        if at == "judged":
            begun.set()
            free.wait(30)
        return judge(guard, *call)

    monkeypatch.setattr(AgentGuard, "before", long)

    async def drive(agent: Client) -> None:
        path = "a.txt" if at == "judged" else "slow.txt"
        taken_back = asyncio.ensure_future(call_of(agent, "backup", path))
        from tests.plugins.agents.files_server import slow

        await asyncio.to_thread((begun if at == "judged" else slow).wait, 30)
        taken_back.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taken_back
        deleting = asyncio.ensure_future(call_of(agent, "delete", "a.txt"))
        await asyncio.sleep(0.05)
        assert not deleting.done() or at != "judged"
        free.set()
        assert (await deleting).is_error
        assert not (await call_of(agent, "backup", "a.txt")).is_error
        assert not (await call_of(agent, "delete", "a.txt")).is_error

    guarding(drive, SAFE)


def test_laws_look_at_arguments_and_at_steps() -> None:
    async def drive(agent: Client) -> None:
        for path, fine in (("a.txt", True), ("b.txt", False)):
            assert (await call_of(agent, "delete", path)).is_error is not fine
        # A call that was refused is a step in which nothing was done.
        assert not (await call_of(agent, "backup", "b.txt")).is_error
        assert not (await call_of(agent, "delete", "b.txt")).is_error
        assert (await call_of(agent, "delete", "/etc/passwd")).is_error

    guarding(
        drive,
        "slowly := always (tool == delete -> not eventually[1,1 steps] tool == delete)",
        'own := always (tool == delete -> arg_path != "/etc/passwd")',
    )


def test_tools_and_resources_of_the_server_are_passed_on() -> None:
    async def drive(agent: Client) -> None:
        tools = (await agent.list_tools()).tools
        assert [tool.name for tool in tools] == ["backup", "delete"]
        assert agent.instructions == "Take care of the files."
        assert [str(r.uri) for r in (await agent.list_resources()).resources] == [
            "files://all"
        ]

    guarding(drive, SAFE)


def test_parallel_calls_are_judged_one_after_the_other() -> None:
    async def drive(agent: Client) -> None:
        calls = [call_of(agent, "delete", path) for path in ("a.txt", "b.txt")]
        answers = await asyncio.gather(*calls)
        assert sorted(answer.is_error for answer in answers) == [False, True]

    guarding(drive, "always (tool == delete -> not once[1,9 steps] tool == delete)")


RULES = """\
format: forewarn.rules/1
domain: household
rules:
- {name: kept, before: delete, enforce: skip}
"""


def test_the_command_stands_before_a_server_of_its_own(tmp_path: Path) -> None:
    rules, record = tmp_path / "rules.yaml", tmp_path / "calls.run.jsonl"
    rules.write_text(RULES, encoding="utf-8")
    proxy = StdioServerParameters(
        command=sys.executable,
        args=[
            *("-m", "forewarn.cli", "mcp", "guard", "--law", OWN),
            *("--rules", str(rules), "--record", str(record), "--live", "web"),
            *("--", sys.executable, str(SERVER)),
        ],
    )

    async def session() -> None:
        async with Client(proxy) as agent:
            assert not (await call_of(agent, "backup", "a.txt")).is_error
            for tool, path, name in (
                ("backup", "/etc/passwd", "own"), ("delete", "a.txt", "kept"),
            ):  # fmt: skip
                refused = await call_of(agent, tool, path)
                assert refused.is_error and name in refused.content[0].text

    asyncio.run(asyncio.wait_for(session(), 60))
    for command in ("verify", "replay"):
        done = CliRunner().invoke(main, [command, str(record)])
        assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--law", "always (tool ==", "--", "true"], 2, "--law"),
        (["--law", SAFE, "--", "no-such-server"], 3, "no-such-server"),
        (["--", "true"], 2, "--law"),
    ],
)
def test_unusable_server_is_reported_in_one_line(
    words: list[str], status: int, said: str
) -> None:
    done = CliRunner().invoke(main, ["mcp", "guard", *words])
    assert done.exit_code == status, done.output
    (line,) = done.stderr.splitlines()
    assert said in line


# -- servers and agents that go wrong -----------------------------------------------

ODD = """
import json, sys, time
mode = sys.argv[1]
listed = called = 0
tool = {"name": "backup", "inputSchema": {"type": "object", "properties": {"path": {}}}}
if mode == "open":
    del tool["inputSchema"]["properties"]
for line in sys.stdin:
    asked = json.loads(line)
    method, number = asked.get("method"), asked.get("id")
    if mode == "mute" or number is None:
        continue
    if method == "initialize":
        version = asked["params"]["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": {"tools": {}},
                  "serverInfo": {"name": "odd", "version": "1"}}
    elif method == "tools/list":
        listed += 1
        many = 200_000 if mode == "huge" and listed < 3 else 1
        result = {"tools": [{**tool, "name": f"t{i}"} for i in range(many)]}
    elif method == "tools/call":
        if mode == "hang":
            continue
        if mode == "die":
            sys.exit(3)
        if mode == "flood":
            while True:
                print('{"jsonrpc":"2.0","method":"notifications/message",'
                      '"params":{"level":"info","data":"' + "x" * 1000 + '"}}')
        called += 1
        text = "A" * (40 << 20 if mode == "huge" and called == 1 else 100_000)
        result = {"content": [{"type": "text", "text": text}], "isError": False}
    else:
        result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}), flush=True)
"""


class Raw:
    """An agent that writes and reads the lines of the proxy itself."""

    def __init__(self, folder: Path, mode: str, *options: str) -> None:
        server = folder / "odd.py"
        server.write_text(ODD, encoding="utf-8")
        words = ("-m", "forewarn.cli", "mcp", "guard", "--law", "always not tool == x")
        self.process = subprocess.Popen(
            [sys.executable, *words, *options, "--", sys.executable, server, mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.ask(
            "initialize",
            protocolVersion="2025-06-18",
            capabilities={},
            clientInfo={"name": "agent", "version": "1"},
        )
        self.read()
        self.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    def ask(self, method: str, **params: Any) -> None:
        asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self.write(json.dumps(asked).encode() + b"\n")

    def call(self, **arguments: Any) -> None:
        self.ask("tools/call", name="backup", arguments=arguments)

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def read(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def peak_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text("utf-8")
        (line,) = (each for each in status.splitlines() if each.startswith("VmHWM"))
        return int(line.split()[1]) / 1024

    def end(self) -> int:
        """Hangs up; the status of the proxy, which ends soon and without a word."""
        assert self.process.stdin is not None and self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdin.close()
        try:
            status = self.process.wait(20)
            assert self.process.stderr.read() == b""
            return status
        finally:
            self.process.kill()
            self.process.stdout.close()
            self.process.stderr.close()
            self.process.wait()


def test_a_call_that_never_returns_fails_and_lets_the_next_one_in() -> None:
    from tests.plugins.agents.files_server import server

    guard = AgentGuard.by_laws([SAFE])

    async def session() -> None:
        async with Client(server) as upstream:
            guarded = guarded_server(upstream, guard, limit_s=0.2)
            async with Client(guarded) as agent:
                slow = await call_of(agent, "backup", "slow.txt")
                assert slow.is_error and slow.content[0].text == LATE
                assert (await call_of(agent, "delete", "a.txt")).is_error

    with guard:
        asyncio.run(asyncio.wait_for(session(), 60))


@pytest.mark.parametrize("left", ["too late", "taken back"])
@pytest.mark.parametrize(("law", "first"), [(SAFE, False), (NEVER, True)])
def test_success_after_the_time_limit_counts_from_then_on(
    law: str, first: bool, left: str
) -> None:
    begun, done = asyncio.Event(), asyncio.Event()
    slow = MCPServer("slow")

    @slow.tool()
    async def backup() -> None:
        begun.set()
        await done.wait()

    @slow.tool()
    def delete() -> None: ...

    guard = AgentGuard.by_laws([law])

    async def session() -> None:
        async with Client(slow) as upstream:
            limit_s = 0.05 if left == "too late" else 60.0
            told: list[str] = []
            guarded = guarded_server(
                upstream, guard, limit_s=limit_s, take_back=lambda: told.append(left)
            )
            async with Client(guarded) as agent:
                calling = asyncio.ensure_future(agent.call_tool("backup", {}))
                await begun.wait()
                if left == "taken back":
                    calling.cancel()
                with suppress(asyncio.CancelledError):
                    assert LATE in str(await calling)
                deleted = await agent.call_tool("delete", {})
                assert deleted.is_error is not first and told == [left]
                done.set()
                await asyncio.sleep(0.05)
                deleted = await agent.call_tool("delete", {})
                assert deleted.is_error is first

    with guard:
        asyncio.run(asyncio.wait_for(session(), 10))


def test_a_server_is_told_which_call_nobody_waits_for() -> None:
    stdin = MagicMock()
    _Said().take_back()
    _Said(stdin, 7).take_back()
    ((line,),) = (told.args for told in stdin.write.call_args_list)
    told = json.loads(line)
    assert told["method"] == "notifications/cancelled"
    assert told["params"] == {"requestId": 7} and line.endswith(b"\n")


def test_a_call_that_asks_for_more_input_has_failed() -> None:
    async def more(_: Any, asked: Any) -> CallToolResult:
        return CallToolResult(content=[], result_type="input_required")

    guard = AgentGuard.by_laws([SAFE])

    async def session() -> None:
        server = Server("asks", on_call_tool=more)
        async with Client(server) as upstream:
            async with Client(guarded_server(upstream, guard)) as agent:
                with suppress(MCPError):
                    await agent.session.call_tool("backup", {})
        assert not guard.before("delete", {}).passes

    with guard:
        asyncio.run(asyncio.wait_for(session(), 60))


@pytest.mark.parametrize("fails_first", [True, False])
def test_only_the_first_answer_to_a_call_counts(fails_first: bool) -> None:
    @asynccontextmanager
    async def twice() -> AsyncIterator[Any]:
        answers, hears = anyio.create_memory_object_stream[SessionMessage](9)
        says, asked = anyio.create_memory_object_stream[SessionMessage](9)

        async def answer() -> None:
            async for each in asked:
                message: Any = each.message
                results: list[dict[str, Any]] = [{"tools": []}]
                if getattr(message, "id", None) is None:
                    continue
                if message.method == "initialize":
                    version = message.params["protocolVersion"]
                    info = {"name": "twice", "version": "1"}
                    results = [{"protocolVersion": version, "serverInfo": info,
                                "capabilities": {"tools": {}}}]  # fmt: skip
                elif message.method == "tools/call":
                    failed = fails_first, not fails_first
                    results = [{"content": [], "isError": each} for each in failed]
                for result in results:
                    told = JSONRPCResponse(jsonrpc="2.0", id=message.id, result=result)
                    await answers.send(SessionMessage(told))

        async with answers, hears, says, asked:
            serving = asyncio.ensure_future(answer())
            yield hears, says
            serving.cancel()

    guard = AgentGuard.by_laws([SAFE])

    async def session() -> None:
        async with Client(twice()) as upstream:
            async with Client(guarded_server(upstream, guard)) as agent:
                backup = await agent.call_tool("backup", {})
                assert backup.is_error is fails_first
        assert guard.before("delete", {}).passes is not fails_first

    with guard:
        asyncio.run(asyncio.wait_for(session(), 60))


def test_too_many_calls_at_once_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forewarn.plugins.mcp.MAX_WAITING", 3)

    async def drive(agent: Client) -> None:
        calls = [call_of(agent, "backup", "a.txt") for _ in range(9)]
        answers = await asyncio.gather(*calls)
        said = [each.content[0].text for each in answers if each.is_error]
        assert set(said) == {BUSY} and 0 < len(said) < 9

    guarding(drive, SAFE)


@pytest.mark.slow
def test_messages_that_are_too_long_are_answered_with_an_error(tmp_path: Path) -> None:
    agent = Raw(tmp_path, "huge")
    agent.call(path="a")
    assert "the answer is too long" in str(agent.read())
    agent.write(
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"backup",'
        b'"arguments":{"path":"' + b"A" * (20 << 20) + b'"}}}\n'
    )
    assert agent.read()["error"]["message"] == "Method not found"
    for odd in (b"1" * 5000, b"[" * 5000 + b"]" * 5000):
        agent.write(
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"backup",'
            b'"arguments":{"path":' + odd + b"}}}\n"
        )
        assert agent.read()["id"] == 1
    agent.ask("tools/list")
    assert "the answer is too long" in str(agent.read())
    agent.ask("tools/list")
    assert len(agent.read()["result"]["tools"]) == 1
    agent.call(path="a")
    assert agent.read()["result"]["isError"] is False
    assert agent.peak_mb() < 500
    assert agent.end() == 0


@pytest.mark.slow
@pytest.mark.parametrize("shadow", [False, True])
def test_where_a_tool_takes_any_arguments_a_law_may_name_any(
    shadow: bool, tmp_path: Path
) -> None:
    """In shadow mode the call passes although it breaks the law."""
    law = ["--law", "always not arg_path == x"]
    agent = Raw(tmp_path, "open", *law, *["--shadow"] * shadow)
    agent.call(path="x")
    assert agent.read()["result"]["isError"] is not shadow
    agent.call(path="y")
    assert not agent.read()["result"]["isError"]
    assert agent.end() == 0


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["die", "hang", "flood"])
def test_a_server_that_ends_or_floods_within_a_call_fails_it(
    mode: str, tmp_path: Path
) -> None:
    """And the proxy ends when the agent hangs up within a call and reads no answer."""
    record = tmp_path / "calls.run.jsonl"
    agent = Raw(tmp_path, mode, "--record", str(record))
    for _ in range(2 if mode != "hang" else 0):
        agent.call(path="a")
        answer = agent.read()
        assert "error" in answer or answer["result"]["isError"]
    for _ in range(3):
        agent.call(path="a")
    time.sleep(0.5 if mode != "die" else 0.0)
    assert agent.end() == 0
    assert CliRunner().invoke(main, ["verify", str(record)]).exit_code == 0


def test_server_that_never_answers_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forewarn.plugins.mcp.START_LIMIT_S", 0.5)
    server = tmp_path / "odd.py"
    server.write_text(ODD, encoding="utf-8")
    command = ["--law", SAFE, "--", sys.executable, str(server), "mute"]
    done = CliRunner().invoke(main, ["mcp", "guard", *command])
    assert done.exit_code == 3 and "does not start" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_law_about_an_argument_that_no_tool_has_is_an_error() -> None:
    law = "always not (tool == delete and arg_pth == x)"
    command = ["--law", law, "--", sys.executable, str(SERVER)]
    done = CliRunner().invoke(main, ["mcp", "guard", *command])
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert "arg_pth" in line and "did you mean arg_path?" in line


@pytest.mark.parametrize("properties", [5, None, "path", [{"path": 1}]])
def test_a_schema_that_is_none_names_no_arguments(properties: object) -> None:
    schema = {"type": "object", "properties": properties}
    tool = SimpleNamespace(name="backup", input_schema=schema)
    page = SimpleNamespace(tools=[tool], next_cursor=None)
    upstream: Any = SimpleNamespace(list_tools=AsyncMock(return_value=page))
    assert asyncio.run(_tools(upstream)) is None
    entry = {"name": "backup", "inputSchema": schema}
    assert tools_of([entry], "tools.json")[0].arguments == ()
