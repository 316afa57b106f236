"""The one-file client: a plain old Python runs it, and losing the guard means stop."""

from __future__ import annotations

import ast
import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.monitors.guarding.decision import SEVERITY, Decision
from forewarn.monitors.guarding.listening import Listener
from forewarn.monitors.guarding.record import read_record
from forewarn.plugins.loop.replay import replay
from forewarn.plugins.remote import client as client_module
from forewarn.plugins.remote.client import GuardClient
from forewarn.plugins.remote.messages import framed
from forewarn.plugins.remote.server import GuardServer
from tests.plugins.doubles import Clock
from tests.plugins.remote.serving import (
    CALM,
    POLICY,
    PROVIDES,
    RISKY,
    TOKEN,
    frame,
    pool,
    served,
    serving,
)

FILE = Path(client_module.__file__)
LONG_S = 20.0
"""How long a test waits for what must come."""


@pytest.fixture
def server() -> Iterator[GuardServer]:
    """A server whose guard is ready: building one may outlast a lease."""
    with serving() as made:
        with connected(made.port, lease_s=LONG_S) as client:
            client.review(0, 0.0, CALM)
        yield made


@contextmanager
def connected(port: int, **options: Any) -> Iterator[GuardClient]:
    made = GuardClient(f"127.0.0.1:{port}", TOKEN, PROVIDES, **options)
    try:
        yield made
    finally:
        made.close()


# -- any Python from 3.6 on ----------------------------------------------------------


def test_the_file_has_the_syntax_of_python_3_6() -> None:
    ast.parse(FILE.read_text(), feature_version=(3, 6))


def test_the_file_imports_only_modules_of_python_3_6() -> None:
    tree = ast.parse(FILE.read_text())
    names = [n.name for node in ast.walk(tree) if isinstance(node, ast.Import)
             for n in node.names]  # fmt: skip
    froms = [n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    assert names == ["json", "socket", "sys", "time"]
    assert froms == ["typing"]


def test_a_plain_interpreter_runs_it(server: GuardServer, tmp_path: Path) -> None:
    copy = tmp_path / "copied.py"
    copy.write_bytes(FILE.read_bytes())
    token = tmp_path / "token"
    token.write_text(TOKEN + "\n")
    lines = b"\n".join([frame(0), frame(1, RISKY), b"nonsense", b"[]", frame(2)])
    done = subprocess.run(
        [sys.executable, "-S", "-I", str(copy), f"127.0.0.1:{server.port}",
         str(token), ",".join(PROVIDES)],
        input=lines, capture_output=True, timeout=LONG_S,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    decisions = [json.loads(line) for line in done.stdout.splitlines()]
    assert [d["decision"] for d in decisions] == [
        "proceed", "stop", "stop", "stop", "proceed",
    ]  # fmt: skip
    assert decisions[2]["reason"] == "no guard: the line is not a valid frame"


def test_called_wrongly_it_says_how(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-S", "-I", FILE], capture_output=True)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"usage: client.py HOST:PORT")


# -- decisions -----------------------------------------------------------------------


def test_decisions_come_back(server: GuardServer) -> None:
    with connected(server.port, lease_s=LONG_S) as client:
        assert client.decision()["decision"] == "stop"
        calm = client.review(0, 0.0, CALM)
        assert (calm["decision"], calm["sequence"]) == ("proceed", 0)
        risky = client.review(1, 0.1, RISKY, {"name": "go", "arguments": {}})
        assert (risky["decision"], risky["risk"]["high"] > 0.9) == ("stop", True)
        assert client.decision() is risky


def test_an_action_is_judged_before_it_is_done() -> None:
    go = {"name": "go", "arguments": {}}
    with serving(pool(replace(POLICY, when="before")).lend) as server:
        with connected(server.port, lease_s=LONG_S, foresees=True) as client:
            said = [
                client.review(0, 0.0, CALM, go, foreseen=CALM),
                client.review(1, 0.1, CALM, go, foreseen=RISKY),
                client.review(2, 0.2, CALM, go),
                client.review(3, 0.3, CALM),
            ]
    assert [each["decision"] for each in said] == ["proceed", "stop", "stop", "proceed"]
    assert said[1]["now"]["point"] < 0.1 < said[1]["risk"]["point"]
    assert "there is no prediction" in said[2]["reason"]


def test_a_policy_that_looks_ahead_rejects_a_client_that_does_not() -> None:
    with serving(pool(replace(POLICY, when="both")).lend) as server:
        with connected(server.port, lease_s=LONG_S) as client:
            said = client.review(0, 0.0, CALM)
    assert said["decision"] == "stop" and "cannot predict" in said["reason"]


def test_a_word_counts_for_the_lease_from_when_the_frame_was_sent(
    server: GuardServer,
) -> None:
    clock = Clock(100.0)
    with connected(server.port, lease_s=0.5, clock=clock) as client:
        assert client.review(0, 0.0, CALM, wait_s=LONG_S)["decision"] == "proceed"
        for now_s, decision in (
            (100.499, "proceed"), (100.5, "stop"), (99.9, "stop"), (100.0, "proceed"),
        ):  # fmt: skip
            clock.now_s = now_s
            assert client.decision()["decision"] == decision


def test_after_close_it_says_stop(server: GuardServer) -> None:
    with connected(server.port, lease_s=LONG_S) as client:
        assert client.review(0, 0.0, CALM)["decision"] == "proceed"
        client.close()
        assert client.decision()["reason"] == "no guard: the connection was closed"


def test_a_wrong_token_is_guessed_at(server: GuardServer) -> None:
    client = GuardClient(f"127.0.0.1:{server.port}", "wrong", PROVIDES)
    assert "closed the connection" in client.review(0, 0.0, CALM)["reason"]
    client.close()


@pytest.mark.parametrize(
    ("signals", "said"),
    [
        ({"speed": float("nan")}, "not JSON compliant"),
        ({"speed": object()}, "not JSON serializable"),
        ({"speed": [1]}, "the guard reported: signals.speed: "),
        ({"text": "x" * (1 << 20)}, "longer than"),
    ],
)
def test_a_frame_that_cannot_be_judged_stops(
    server: GuardServer, signals: dict[str, Any], said: str
) -> None:
    with connected(server.port, lease_s=LONG_S) as client:
        assert client.review(0, 0.0, CALM)["decision"] == "proceed"
        answer = client.review(1, 0.1, signals)
        assert answer["decision"] == "stop" and said in answer["reason"]


def test_unreachable_guard_means_stop_and_a_later_retry(server: GuardServer) -> None:
    clock = Clock()
    with connected(9, lease_s=LONG_S, clock=clock) as client:
        assert "refused" in client.review(0, 0.0, CALM)["reason"]
        client._address = ("127.0.0.1", server.port)
        assert client.review(1, 0.1, CALM)["decision"] == "stop"  # not so soon
        clock.now_s = client_module.RETRY_S
        assert client.review(2, 0.2, CALM)["decision"] == "proceed"


# -- guards that go wrong ------------------------------------------------------------


@contextmanager
def pretending(*answers: bytes) -> Iterator[int]:
    """A guard that answers each frame with the next of these bytes, then hangs."""
    listener = socket.create_server(("127.0.0.1", 0))
    done = threading.Event()

    def attend() -> None:
        connection, _ = listener.accept()
        with connection:
            heard = b""
            for answer in (None, *answers):
                while len(heard) < 4 or len(heard) < 4 + int.from_bytes(heard[:4]):
                    chunk = connection.recv(65536)
                    if not chunk:
                        return
                    heard += chunk
                heard = heard[4 + int.from_bytes(heard[:4]) :]
                if answer is not None:
                    connection.sendall(answer)
            done.wait(LONG_S)

    thread = threading.Thread(target=attend)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        done.set()
        thread.join()
        listener.close()


def answer(**changes: Any) -> bytes:
    content = {"sequence": 0, "decision": "proceed", "risk": None} | changes
    return framed(json.dumps(content).encode())


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (answer(decision="go"), "not a decision"),
        (answer(decision=None), "not a decision"),
        (answer(decision=["proceed"]), ""),
        (answer(sequence=7), "a frame that was not sent"),
        (answer(sequence="0"), "not a decision"),
        (answer(risk=float("nan")), "contains NaN"),
        (answer(sequence=False), "not a decision"),
        (answer(decision="slow"), "no valid speed cap"),
        (answer(decision="slow", cap_kmh=-1.0), "no valid speed cap"),
        (answer(decision="slow", cap_kmh=True), "no valid speed cap"),
        (
            framed(b'{"sequence":0,"decision":"slow","cap_kmh":1e999}'),
            "no valid speed cap",
        ),
        (framed(b'{"sequence":0,"decision":"stop","decision":"proceed"}'), "twice"),
        (answer(error="I give up"), "the guard reported: I give up"),
        (framed(b"[]"), "not a JSON object"),
        (framed(b"\xff"), ""),
        (framed(b"["), ""),
        (framed(b"[" * 100_000), ""),
        (b"\xff\xff\xff\xff", "too long"),
    ],
)
def test_an_answer_that_is_none_counts_as_loss(reply: bytes, said: str) -> None:
    with pretending(reply) as port, connected(port, lease_s=LONG_S) as client:
        decision = client.review(0, 0.0, CALM)
        assert decision["decision"] == "stop" and said in decision["reason"]
        assert client.decision()["decision"] == "stop"


def test_a_late_answer_is_not_taken_for_that_to_a_later_frame() -> None:
    late = answer(sequence=0, decision="proceed")
    with pretending(b"", late + answer(sequence=1, decision="alert")) as port:
        with connected(port, lease_s=LONG_S) as client:
            assert client.review(0, 0.0, CALM, wait_s=0.05)["decision"] == "stop"
            assert client.review(1, 0.1, CALM)["decision"] == "alert"


@pytest.mark.parametrize(
    ("first", "more"),
    [(b"", answer(sequence=0) * 100), ((1 << 20).to_bytes(4, "big"), b" ")],
    ids=["earlier answers", "an answer that never ends"],
)
def test_endless_answer_of_a_guard_does_not_block_the_client(
    first: bytes, more: bytes
) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    done = threading.Event()

    def talk() -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            connection.recv(65536)
            connection.sendall(first)
            while not done.wait(0.0005):
                connection.sendall(more)

    thread = threading.Thread(target=talk)
    thread.start()
    try:
        with connected(listener.getsockname()[1], lease_s=0.1) as client:
            began_s = time.monotonic()
            assert client.review(7, 0.7, CALM)["decision"] == "stop"
            assert time.monotonic() - began_s < LONG_S / 4
    finally:
        done.set()
        thread.join()
        listener.close()


def test_while_the_lease_lasts_the_last_word_counts() -> None:
    with pretending(answer(), b"", b"") as port:
        clock = Clock()
        with connected(port, lease_s=LONG_S, clock=clock) as client:
            assert client.review(0, 0.0, CALM)["decision"] == "proceed"
            clock.now_s = 1.0
            held = client.review(1, 0.1, CALM, wait_s=-1.0)
            assert (held["decision"], held["sequence"]) == ("proceed", 0)
            clock.now_s = LONG_S
            assert client.review(2, 0.2, CALM, wait_s=-1.0)["decision"] == "stop"


def test_a_guard_that_does_not_read_is_lost() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    try:
        with connected(listener.getsockname()[1], lease_s=0.02) as client:
            frame = {"text": "x" * 1_000_000}
            deadline_s = time.monotonic() + LONG_S
            while "stopped reading" not in client.problem:
                assert client.review(0, 0.0, frame)["decision"] == "stop"
                assert time.monotonic() < deadline_s
    finally:
        listener.close()


# -- kill it -------------------------------------------------------------------------


@pytest.mark.parametrize("blow", [signal.SIGSTOP, signal.SIGKILL])
def test_within_the_lease_of_its_guard_s_death_the_vehicle_stops(
    tmp_path: Path, blow: signal.Signals
) -> None:
    """At no moment does a word count for longer than the lease it was given."""
    lease_s = 0.3
    with served(tmp_path) as (process, address):
        client = GuardClient(address, TOKEN, PROVIDES, lease_s=lease_s)
        deadline_s = time.monotonic() + LONG_S
        struck_s = math.inf
        proceeded, decision, sequence = 0, "", 0
        while decision != "stop" or struck_s == math.inf:
            sequence += 1
            client.review(sequence, 0.1 * sequence, CALM, wait_s=0.02)
            asked_s = time.monotonic()
            decision = client.decision()["decision"]
            if decision == "proceed":
                proceeded += 1
                # Nothing is answered after the blow: the word is from before it.
                assert asked_s < struck_s + lease_s
            if proceeded == 20 and struck_s == math.inf:
                struck_s = time.monotonic()
                os.kill(process.pid, blow)
                time.sleep(0.01)  # for the blow to land
            assert asked_s < deadline_s, "it never stopped"
        for _ in range(3):
            sequence += 1
            after = client.review(sequence, 0.1 * sequence, CALM, wait_s=0.02)
            assert after["decision"] == "stop"
        client.close()
        if blow is signal.SIGSTOP:
            os.kill(process.pid, signal.SIGCONT)


def test_a_guard_that_comes_back_is_heard_again(tmp_path: Path) -> None:
    with served(tmp_path) as (process, address):
        with connected(int(address.rpartition(":")[2]), lease_s=LONG_S) as client:
            assert client.review(0, 0.0, CALM)["decision"] == "proceed"
            os.kill(process.pid, signal.SIGSTOP)
            time.sleep(0.01)
            client._held = None  # as if the lease had run out
            assert client.review(1, 0.1, CALM, wait_s=0.05)["decision"] == "stop"
            os.kill(process.pid, signal.SIGCONT)
            assert client.review(2, 0.2, CALM)["decision"] == "proceed"


def test_a_loop_that_says_what_it_can_is_told_no_more_than_that(
    tmp_path: Path,
) -> None:
    told: list[str] = []

    class Ear(Listener):
        def alerted(self, decision: Decision) -> None:
            told.append(decision.kind)

    with serving(pool(listeners=[Ear], record=tmp_path / "runs").lend) as server:
        with connected(
            server.port, lease_s=LONG_S, can=["alert", "cut", "stop"]
        ) as one:
            calm = one.review(0, 0.0, CALM, {"name": "drive"})
            risky = one.review(1, 0.1, RISKY, {"name": "drive"})
            ignored = [one.review(n, n / 10, RISKY, obeyed=False) for n in range(2, 40)]
    assert calm["decision"] == "proceed"
    assert risky["decision"] == "stop" and risky["carried_out"]["kind"] == "stop"
    assert ignored[-1]["decision"] in ("stop", "cut") and told[0] == "stop"
    (record,) = (tmp_path / "runs").glob("*.run.jsonl")
    lines = [line.content for line in read_record(record)]
    done = [line for line in lines if line.get("event") == "carried_out"]
    assert done[0]["kind"] == "stop" and "executed" in done[0]
    assert replay(record)[1] is None


def test_client_knows_every_decision_kind() -> None:
    assert client_module.KINDS == set(SEVERITY)


def test_a_client_that_cannot_stop_is_rejected() -> None:
    with serving() as server, connected(server.port, can=["slow"]) as one:
        assert one.review(0, 0.0, CALM)["decision"] == "stop"
        assert "must include stop" in one.problem
