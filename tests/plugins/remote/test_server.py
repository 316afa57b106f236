"""The server: hello, frames, and every way to be shown out."""

from __future__ import annotations

import hmac
import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.guarding.listening import Listener
from forewarn.plugins.loop.replay import replay
from forewarn.plugins.remote import server as server_module
from forewarn.plugins.remote import session
from forewarn.plugins.remote.messages import HELLO_BYTES, MAX_BYTES, framed
from forewarn.plugins.remote.server import MAX_CONNECTIONS, MAX_STRANGERS, GuardServer
from tests.plugins.remote.serving import (
    CALM,
    RISKY,
    TOKEN,
    frame,
    hello,
    pool,
    serving,
)


class Line:
    """A raw connection."""

    def __init__(self, server: GuardServer, host: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection((host, server.port), 20)

    def send(self, *messages: bytes) -> Line:
        self.socket.sendall(b"".join(map(framed, messages)))
        return self

    def read(self) -> dict[str, Any] | None:
        """The next message; None once the server has hung up."""
        try:
            head = self._exactly(4)
            content: dict[str, Any] = json.loads(
                self._exactly(int.from_bytes(head, "big"))
            )
        except (ConnectionError, EOFError):
            return None
        return content

    def _exactly(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            chunk = self.socket.recv(length - len(data))
            if not chunk:
                raise EOFError
            data += chunk
        return data

    def close(self) -> None:
        self.socket.close()


@pytest.fixture
def server() -> Iterator[GuardServer]:
    with serving() as made:
        yield made


@pytest.fixture
def line(server: GuardServer) -> Iterator[Line]:
    made = Line(server)
    yield made
    made.close()


def test_frames_are_answered_in_order(line: Line) -> None:
    line.send(hello(), frame(0), frame(1, RISKY), frame(2, {"speed": 1.0}))
    answers = [line.read() for _ in range(3)]
    assert [a and (a["sequence"], a["decision"]) for a in answers] == [
        (0, "proceed"), (1, "stop"), (2, "stop"),
    ]  # fmt: skip
    assert answers[1] is not None and answers[2] is not None
    assert answers[1]["risk"]["point"] > 0.9
    assert answers[2]["reason"].endswith("collision is missing")


def test_a_message_may_come_in_pieces(line: Line) -> None:
    for byte in framed(hello()) + framed(frame(0)):
        line.socket.sendall(bytes([byte]))
    answer = line.read()
    assert answer is not None and answer["decision"] == "proceed"


def test_each_connection_is_an_episode_of_its_own(server: GuardServer) -> None:
    one, two = Line(server), Line(server)
    one.send(hello(), frame(5))
    two.send(hello(), frame(3))
    for line, sequence in ((one, 5), (two, 3)):
        answer = line.read()
        assert answer is not None
        assert (answer["sequence"], answer["decision"]) == (sequence, "proceed")
    one.send(frame(5))
    answer = one.read()
    assert answer is not None and answer["reason"].endswith("frame 5 came twice")
    one.close()
    two.close()


def test_a_guard_is_used_again_from_the_beginning() -> None:
    built: list[object] = []

    class Ear(Listener):
        """Made once for each loop."""

        def __init__(self) -> None:
            built.append(self)

    with serving(pool(listeners=[Ear]).lend) as server:
        for _ in range(3):
            line = Line(server).send(hello(), frame(0))
            answer = line.read()
            assert answer is not None and answer["decision"] == "proceed"
            line.socket.shutdown(socket.SHUT_WR)
            assert line.read() is None
            line.close()
    assert len(built) == 1


@pytest.mark.parametrize(
    "first",
    [
        *(hello(token=shown) for shown in ("wrong", TOKEN + "x", "")),
        json.dumps({"forewarn": "guard/1"}).encode(),
    ],
)
def test_client_without_the_token_gets_no_information(line: Line, first: bytes) -> None:
    line.send(first, frame(0))
    assert line.read() is None


@pytest.mark.parametrize("first", [frame(0), b"GET / HTTP/1.1\r\n", b""])
def test_client_without_a_hello_is_only_told_how_to_begin(
    line: Line, first: bytes
) -> None:
    line.send(first, frame(0))
    assert [*(line.read() or {})] == ["error"]
    assert line.read() is None


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"forewarn": "guard/2"}, "did you mean guard/1?"),
        ({"provides": "speed"}, 'write ["speed"]'),
    ],
)
def test_a_wrong_hello_with_the_token_is_explained(
    wrong: dict[str, Any], problem: str, line: Line
) -> None:
    line.send(hello(**wrong), frame(0))
    answer = line.read()
    assert answer is not None and problem in answer["error"]
    assert line.read() is None


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (b"{}", "sequence: this key is missing"),
        (b"nonsense", "not JSON"),
        (hello(), "the hello was sent twice"),
        (frame(0, {"speed": []}), "must be a number, a string"),
        (b'{"sequence": NaN}', "NaN is not a number"),
    ],
)
def test_a_malformed_message_ends_the_connection(
    line: Line, message: bytes, problem: str
) -> None:
    line.send(hello(), message, frame(1))
    answer = line.read()
    assert answer is not None and problem in answer["error"]
    assert line.read() is None


def test_a_length_beyond_the_limit_ends_the_connection(line: Line) -> None:
    line.send(hello())
    line.socket.sendall((MAX_BYTES + 1).to_bytes(4, "big"))
    answer = line.read()
    assert answer is not None and "longer than" in answer["error"]
    assert line.read() is None


def test_a_stream_that_ends_in_the_middle_is_a_loss(server: GuardServer) -> None:
    line = Line(server).send(hello())
    line.socket.sendall(framed(frame(0))[:-3])
    line.socket.shutdown(socket.SHUT_WR)
    answer = line.read()
    assert answer is not None and "middle of a message" in answer["error"]
    line.close()
    server.close()
    assert (server.connections, server.losses) == (1, 1)


def test_source_that_lacks_signals_of_the_model_is_rejected(line: Line) -> None:
    line.send(hello(provides=["speed"]))
    answer = line.read()
    assert answer is not None and "collision" in answer["error"]
    assert line.read() is None


def test_client_that_never_says_hello_is_disconnected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_module, "HELLO_S", 0.05)
    with serving() as server:
        line = Line(server)
        assert line.read() is None
        line.close()
        server.close()
        assert server.losses == 1


@pytest.mark.parametrize("trickle", [b"", b"\x00"])
def test_strangers_keep_no_loop_out(server: GuardServer, trickle: bytes) -> None:
    strangers = [Line(server) for _ in range(3 * MAX_STRANGERS)]
    for line in strangers:
        with suppress(OSError):
            line.socket.sendall(trickle)
    loop = Line(server).send(hello(), frame(0))
    answer = loop.read()
    assert answer is not None and answer["decision"] == "proceed"
    for line in (loop, *strangers):
        line.close()


def test_a_hello_that_comes_byte_by_byte_has_no_more_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_module, "HELLO_S", 0.2)
    with serving() as server:
        line = Line(server)
        with pytest.raises(OSError):
            for byte in framed(hello()):
                line.socket.sendall(bytes([byte]))
                time.sleep(0.02)
        line.close()


def test_a_message_that_comes_byte_by_byte_has_no_more_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_module, "MESSAGE_S", 0.2)
    with serving() as server:
        line = Line(server).send(hello(), frame(0))
        assert line.read() is not None
        with pytest.raises(OSError):
            for byte in framed(frame(1)):
                line.socket.sendall(bytes([byte]))
                time.sleep(0.02)
        line.close()


def test_a_stranger_may_not_say_much(line: Line) -> None:
    line.socket.sendall((HELLO_BYTES + 1).to_bytes(4, "big"))
    assert "longer than" in (line.read() or {})["error"]
    assert line.read() is None


def test_client_that_stalls_after_hello_is_disconnected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_module, "IDLE_S", 0.05)
    monkeypatch.setattr(server_module, "MESSAGE_S", 0.5)
    with serving() as server:
        line = Line(server).send(hello(), frame(0))
        assert line.read() is not None
        line.socket.sendall(b"\x00")
        assert line.read() is None
        line.close()


def test_number_of_connections_is_limited(server: GuardServer) -> None:
    lines = [Line(server).send(hello(), frame(0)) for _ in range(MAX_CONNECTIONS)]
    assert all(line.read() is not None for line in lines)
    late = Line(server).send(hello())
    answer = late.read()
    assert (
        answer is not None
        and "already serves the maximum of 16 loops" in answer["error"]
    )
    assert late.read() is None
    late.close()
    lines[0].close()
    deadline_s = time.monotonic() + 20
    while time.monotonic() < deadline_s:
        line = Line(server)
        try:
            line.send(hello(), frame(0))
        except ConnectionError:
            answer = None
        else:
            answer = line.read()
        line.close()
        if answer is not None and "decision" in answer:
            break
    assert answer is not None and "decision" in answer
    for line in lines:
        line.close()


def test_closing_ends_every_connection() -> None:
    with serving() as server:
        line = Line(server).send(hello(), frame(0))
        assert line.read() is not None
        server.close()
        assert line.read() is None
        line.close()
    assert not any("_attend" in thread.name for thread in threading.enumerate())


def test_closing_while_a_connection_is_taken_in() -> None:
    """As a signal does that comes between taking it in and starting its thread."""
    server = GuardServer(pool().lend, TOKEN)
    closed: list[bool] = []

    class Unstarted(threading.Thread):
        def start(self) -> None:
            server.close()
            closed.append(True)
            super().start()

    thread = threading.Thread(target=server.serve)
    thread.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("forewarn.plugins.remote.server.threading.Thread", Unstarted)
        line = Line(server)
        assert line.read() is None
        thread.join(20)
    assert closed and not thread.is_alive()
    line.close()


@pytest.mark.parametrize(
    ("host", "port", "token", "problem"),
    [
        ("0.0.0.0", 0, TOKEN, "not a loopback address"),  # noqa: S104
        ("192.0.2.1", 0, TOKEN, "not a loopback address"),
        ("no.such.host.invalid", 0, TOKEN, "not a loopback address"),
        ("127.0.0.1", 99_999, TOKEN, "99999 is not a valid port"),
        ("127.0.0.1", 0, "short", "at least 16 characters"),
    ],
)
def test_invalid_addresses_and_tokens_are_rejected(
    host: str, port: int, token: str, problem: str
) -> None:
    with pytest.raises(InvalidInput, match=problem):
        GuardServer(pool().lend, token, host, port)


@pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is Linux's own")
def test_others_may_reach_it_only_when_told_and_show_the_token() -> None:
    with serving(host="0.0.0.0", allow_remote=True) as server:  # noqa: S104
        stranger, friend = Line(server, "127.0.0.2"), Line(server, "127.0.0.2")
        assert stranger.send(hello(token="x" * len(TOKEN)), frame(0)).read() is None
        assert friend.send(hello(), frame(0)).read() is not None
        stranger.close()
        friend.close()
    with serving() as server, pytest.raises(ConnectionRefusedError):
        Line(server, "127.0.0.2")


def test_how_much_of_a_token_is_right_takes_no_longer_to_say(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = []

    def compare(shown: bytes, token: bytes) -> bool:
        compared.append((shown, token))
        return hmac.compare_digest(shown, token)

    monkeypatch.setattr(session, "hmac", SimpleNamespace(compare_digest=compare))
    wrong = TOKEN[:-1] + "?"
    assert line.send(hello(token=wrong), frame(0)).read() is None
    assert compared == [(wrong.encode(), TOKEN.encode())]


def test_occupied_port_is_reported(server: GuardServer) -> None:
    with pytest.raises(InvalidInput, match=f"127.0.0.1:{server.port}: address already"):
        GuardServer(pool().lend, TOKEN, port=server.port)


def test_every_episode_is_recorded_and_replays(tmp_path: Path) -> None:
    recorded = pool(record=tmp_path / "runs")
    with serving(recorded.lend) as server:
        for signals in (CALM, RISKY):
            line = Line(server)
            many = [frame(i, signals) for i in range(100)]  # as no training was
            line.send(hello(), *many, b"bad")
            while line.read() is not None:
                pass
            line.close()
    records = sorted((tmp_path / "runs").glob("*.run.jsonl"))
    assert [replay(record) for record in records] == [(100, None), (100, None)]
