"""The proxy before a real MCP server: what breaks a law never reaches it."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from forewarn.cli import main

pytest.importorskip("mcp", reason="mcp is not installed")

from mcp import Client, StdioServerParameters
from mcp.types import TextResourceContents

from forewarn.plugins.agents import AgentGuard
from forewarn.plugins.mcp import guarded_server

SERVER = Path(__file__).with_name("files_server.py")
SAFE = "copied_first := always (tool == delete -> once (tool == backup and not failed))"


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


def test_what_the_server_offers_is_passed_on() -> None:
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


def test_the_command_stands_before_a_server_of_its_own(tmp_path: Path) -> None:
    record = tmp_path / "calls.run.jsonl"
    proxy = StdioServerParameters(
        command=sys.executable,
        args=[
            *("-m", "forewarn.cli", "mcp", "guard", "--law", SAFE),
            *("--record", str(record), "--", sys.executable, str(SERVER)),
        ],
    )

    async def session() -> None:
        async with Client(proxy) as agent:
            assert (await call_of(agent, "delete", "a.txt")).is_error
            assert not (await call_of(agent, "backup", "a.txt")).is_error
            assert not (await call_of(agent, "delete", "a.txt")).is_error

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
def test_what_cannot_be_guarded_is_said_in_one_line(
    words: list[str], status: int, said: str
) -> None:
    done = CliRunner().invoke(main, ["mcp", "guard", *words])
    assert done.exit_code == status, done.output
    (line,) = done.stderr.splitlines()
    assert said in line
