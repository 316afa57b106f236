"""A machine without a thread or a file left: the guard falls back, or goes on."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from forewarn.abstractions.frame import Frame, Source
from forewarn.cli import main
from forewarn.monitors.guarding.decision import Action, Decision
from forewarn.monitors.guarding.record import read_record
from forewarn.plugins.agents import AgentGuard
from forewarn.plugins.loop.alerts import Webhook
from forewarn.plugins.loop.approval import Answer, Desk
from forewarn.plugins.loop.guarding import Guarding
from forewarn.plugins.loop.lease import Lease, Watchdog
from forewarn.plugins.remote.messages import framed
from tests.plugins.remote.serving import POLICY, frame, hello, model, serving

LAW = "copied := always (tool == delete -> once (tool == backup and not failed))"
CALM = {"speed": 5.0, "collision": False}
NO_THREAD = "can't start new thread"


@contextmanager
def no_threads() -> Iterator[None]:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError(NO_THREAD)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        yield


def test_watchdog_without_a_thread_falls_back_and_reports_it() -> None:
    halted: list[None] = []
    with no_threads(), pytest.raises(RuntimeError, match=NO_THREAD):
        Watchdog(Lease(1.0), lambda: halted.append(None)).__enter__()
    assert halted


def test_a_question_that_cannot_be_asked_keeps_no_later_one_from_being_asked() -> None:
    class Yes:
        def ask(self, decision: Decision, proposal: Action | None) -> Answer:
            return Answer("approve")

    desk, decision = Desk(Yes(), 5.0), Decision("ask", 0, 0.0)
    with no_threads(), pytest.raises(RuntimeError, match=NO_THREAD):
        desk.ask(decision, None)
    assert desk.ask(decision, None) == Answer("approve")


def test_calls_are_judged_where_no_thread_is_left() -> None:
    guard = AgentGuard.by_laws([LAW])

    async def passes(tool: str) -> bool:
        async with guard.turn_async() as judging:
            verdict = await judging(guard.before, tool, {})
            if verdict.passes:
                await judging(guard.after, False, verdict.call)
        return verdict.passes

    async def drive() -> list[bool]:
        with no_threads():
            passed = [await passes(tool) for tool in ("delete", "backup", "delete")]
        return [*passed, await passes("delete")]

    assert asyncio.run(asyncio.wait_for(drive(), 10)) == [False, True, True, True]
    assert guard._steps == 4  # each was judged once


@pytest.mark.parametrize(
    "words",
    [
        ["run", "tiny-road", "--webhook", "http://127.0.0.1:9"],
        ["mcp", "guard", "--law", LAW, "--", "true"],
    ],
)
def test_a_command_without_a_thread_ends_with_one_line(words: list[str]) -> None:
    with no_threads():
        done = CliRunner().invoke(main, words)
    assert done.exit_code == 3, done.output
    assert done.stderr == "forewarn: could not start another thread on this machine\n"


def test_a_server_without_a_thread_turns_loops_away_until_there_is_one() -> None:
    with serving() as server:
        line = socket.socket()
        line.settimeout(10.0)
        with no_threads():
            line.connect(("127.0.0.1", server.port))
            assert line.recv(1) == b""  # the loop's own lease stops it
        line.close()
        with socket.create_connection(("127.0.0.1", server.port), 10.0) as line:
            line.sendall(framed(hello()) + framed(frame(0)))
            line.shutdown(socket.SHUT_WR)
            assert b"proceed" in line.makefile("rb").read()


def test_a_server_without_a_file_waits_until_there_is_one() -> None:
    breathed, sleep = threading.Event(), time.sleep

    def breathe(seconds: float) -> None:
        breathed.set()
        sleep(seconds)

    def work() -> bool:
        with serving() as server, pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "sleep", breathe)
            line = socket.socket()
            line.settimeout(10.0)
            with no_files():
                line.connect(("127.0.0.1", server.port))
                assert breathed.wait(10.0)
            # Now there is a file, and the same connection is served.
            with line:
                line.sendall(framed(hello()) + framed(frame(0)))
                line.shutdown(socket.SHUT_WR)
                return b"proceed" in line.makefile("rb").read()

    assert in_child_without_files(work)


def in_child_without_files(work: Callable[[], bool]) -> bool:
    """Whether work is true in a process that can open no further file."""
    child = os.fork()
    if child == 0:
        status = 1
        with suppress(BaseException):
            status = 0 if work() else 1
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@contextmanager
def no_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, hard))  # one may be polled
    try:
        with pytest.raises(OSError, match="Too many open files"):
            os.open(os.devnull, os.O_RDONLY)
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_guard_continues_without_free_file_descriptors(tmp_path: Path) -> None:
    record = tmp_path / "calls.run.jsonl"

    def work() -> bool:
        hook = Webhook("http://127.0.0.1:9")
        guard = AgentGuard.by_laws([LAW], record=record, listeners=[lambda: hook])
        with no_files():
            passed = []
            for tool in ("delete", "backup", "delete"):
                verdict = guard.before(tool, {})
                guard.after(False, verdict.call)
                passed.append(verdict.passes)
            hook.close()
        guard.close()
        return passed == [False, True, True] and hook.dropped == 1

    assert in_child_without_files(work)
    assert len(list(read_record(record))) > 3


def test_a_run_whose_record_cannot_be_opened_lets_nothing_pass(tmp_path: Path) -> None:
    def work() -> bool:
        loop = Guarding([model()], POLICY, record=tmp_path / "runs").open(
            Source("road")
        )
        with no_files(), pytest.raises(OSError, match="Too many open files"):
            loop.begin(None)
        return loop.review(Frame(0.0, 0, CALM)).kind == "stop"

    assert in_child_without_files(work)
