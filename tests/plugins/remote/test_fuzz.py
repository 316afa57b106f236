"""Whatever comes over the line: answers or an end, and no memory kept of it."""

from __future__ import annotations

import gc
import json
import logging
import socket
import tracemalloc
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from forewarn.abstractions.errors import ForewarnError
from forewarn.monitors.guarding.decision import RANK
from forewarn.plugins.remote.client import GuardClient
from forewarn.plugins.remote.messages import framed
from forewarn.plugins.remote.session import GuardPool, Session, serve_stream
from tests.plugins.remote.fuzz import conversation
from tests.plugins.remote.serving import CALM, PROVIDES, TOKEN, pool, serving

QUICK = 2_000
MANY = 100_000
GROWTH_BYTES = 200_000


def converse(pieces: list[bytes], guards: GuardPool) -> list[dict[str, Any]]:
    """The answers to a stream; only errors of ours may end it."""
    answers: list[bytes] = []
    left = iter(pieces)
    with Session(guards.lend, TOKEN) as session, suppress(ForewarnError):
        serve_stream(lambda *_: next(left, b""), answers.append, session)
    return [json.loads(answer[4:]) for answer in answers]


def fuzz(cases: int, seed: int) -> set[str]:
    """Runs the cases; gives the kinds of decision that came back."""
    guards = pool()
    kinds: set[str] = set()
    kept = 0
    for case in range(cases):
        for answer in converse(conversation(Random(f"{seed} {case}")), guards):
            assert answer["decision"] in RANK
            kinds.add(answer["decision"])
            if answer["decision"] == "proceed":
                assert answer["risk"]["point"] < 0.3
        if case == cases // 5:
            gc.collect()
            tracemalloc.start()
            kept = tracemalloc.get_traced_memory()[0]
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - kept
    tracemalloc.stop()
    assert grown < GROWTH_BYTES, f"{grown} bytes more after {cases} conversations"
    return kinds


def test_no_conversation_brings_it_down() -> None:
    assert fuzz(QUICK, seed=1) == {"proceed", "stop"}


@pytest.mark.soak
def test_no_conversation_brings_it_down_in_the_long_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR)  # captured warnings would take memory
    assert fuzz(MANY, seed=2) == {"proceed", "stop"}


def over_the_socket(cases: int, seed: int) -> None:
    with serving() as server:
        for case in range(cases):
            with socket.create_connection(("127.0.0.1", server.port), 20) as line:
                with suppress(OSError):  # it was shown out
                    for piece in conversation(Random(f"{seed} {case}")):
                        line.sendall(piece)
                    line.shutdown(socket.SHUT_WR)
                    while line.recv(65536):
                        pass
        client = GuardClient(f"127.0.0.1:{server.port}", TOKEN, PROVIDES, lease_s=20.0)
        assert client.review(0, 0.0, CALM)["decision"] == "proceed"
        client.close()


def test_the_server_outlives_every_conversation() -> None:
    over_the_socket(200, seed=3)


@pytest.mark.soak
def test_the_server_outlives_very_many() -> None:
    over_the_socket(10_000, seed=4)


def ask(luck: Random) -> dict[str, Any]:
    """What a client makes of a guard that answers with damaged bytes."""
    ours, theirs = socket.socketpair()
    client = GuardClient("127.0.0.1:9", TOKEN, PROVIDES, lease_s=20.0)
    client._socket = ours
    body = json.dumps({"sequence": 1, "decision": "proceed", "risk": None}).encode()
    pieces = [framed(body)] if luck.random() < 0.1 else conversation(luck)
    with theirs:
        for piece in pieces:
            theirs.sendall(piece)
        theirs.shutdown(socket.SHUT_WR)
        decision = client.review(1, 0.1, CALM)
        client.close()
    return decision


def test_no_answer_brings_the_client_down() -> None:
    kinds = {ask(Random(f"5 {case}"))["decision"] for case in range(QUICK)}
    assert kinds == {"proceed", "stop"}


@pytest.mark.soak
def test_no_answer_brings_the_client_down_in_the_long_run() -> None:
    kinds = {ask(Random(f"6 {case}"))["decision"] for case in range(MANY)}
    assert kinds == {"proceed", "stop"}
