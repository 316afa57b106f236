"""The page's server as its neighbours on this machine find it, kind or not."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.abstractions.frame import Frame, Source
from forewarn.monitors.chains.model import load_model
from forewarn.monitors.guarding.listening import Run
from forewarn.monitors.guarding.policy import Policy
from forewarn.monitors.guarding.watch import load_watch
from forewarn.plugins.contracts import Scenic
from forewarn.scenarios.live.feed import Feed, ToPage
from forewarn.scenarios.live.server import MOST_HEAD
from tests.scenarios import learned
from tests.scenarios.live.serving import Served, ended, run, serving


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving() as found:
        yield found


@pytest.fixture(scope="module")
def heard(served: Served, tmp_path_factory: pytest.TempPathFactory) -> list[list[Any]]:
    """What a viewer hears who comes when a run is over already."""
    run(tmp_path_factory.mktemp("run"), served.feed)
    return served.watch(ended)


def of(heard: list[list[Any]], kind: str) -> list[list[Any]]:
    return [each[2:] for each in heard if each[1:2] == [kind]]


def test_a_run_is_told_as_it_was(heard: list[list[Any]]) -> None:
    ((about,),) = of(heard, "begin")
    assert about["name"] == "tiny-road, seed 9000"
    names = [law["name"] for law in about["laws"]]
    assert "stop_at_red" in names and about["predicates"]
    ((ground,),) = of(heard, "ground")
    assert {shape[0] for shape in ground} == {"lane", "junction", "line"}
    frames = of(heard, "frame")
    assert len(frames) > 30
    for time_s, _, _, _, _, risks, bits, *_ in frames:
        assert time_s >= 0.0 and int(bits, 16) < 2 ** len(about["predicates"])
        for low, point, high, *_ in (risk for risk in risks if risk):
            assert 0.0 <= low <= point <= high <= 1.0
    (scene,) = of(heard, "scene")
    assert any(kind == "ego" for _, kind, *_ in scene[1])
    assert of(heard, "end")[0][1] == 0, "nothing was dropped"


def test_decisions_and_acknowledgements_are_sent(heard: list[list[Any]]) -> None:
    kinds = [kind for _, kind, _ in of(heard, "event")]
    frames = of(heard, "frame")
    acted = any(kind == "stop" for _, _, kind, *_ in frames)
    assert acted == ("stop" in kinds) == ("obeyed" in kinds)


def test_the_page_holds_nothing_and_asks_for_nothing_else(served: Served) -> None:
    with served.ask("/", Authorization="none") as answer:
        text = answer.read().decode()
        policy = answer.headers["Content-Security-Policy"]
    assert answer.status == 200 and served.token not in text
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy and "unsafe" not in policy


@pytest.mark.parametrize(
    ("path", "method", "headers", "status"),
    [
        ("/stream", "GET", {"Authorization": "Bearer wrong"}, 401),
        ("/stream", "GET", {"Authorization": ""}, 401),
        ("/feed", "POST", {}, 401),
        ("/stream", "GET", {"Host": "evil.example"}, 421),
        ("/", "GET", {"Host": "evil.example"}, 421),
        ("/stream", "GET", {"Origin": "http://evil.example"}, 403),
        ("/stream", "GET", {"Origin": "null"}, 403),
        ("/../page.py", "GET", {}, 404),
        ("/stream", "POST", {}, 404),
        ("/", "DELETE", {}, 404),
        ("/", "GET", {"X": "x" * MOST_HEAD}, 400),
    ],
)
def test_unauthorised_viewer_is_rejected(
    served: Served, path: str, method: str, headers: dict[str, str], status: int
) -> None:
    """The viewers' token is shown where no other is: it opens the stream alone."""
    with served.ask(path, method, **headers) as answer:
        assert answer.status == status
        assert answer.read() == b""


@pytest.mark.parametrize("noise", [b"\r\n\r\n", b"\x00\xff\r\n\r\n", b"GET /\r\n\r\n"])
def test_noise_is_answered_shortly(served: Served, noise: bytes) -> None:
    with socket.create_connection(("127.0.0.1", served.feed.port), 10) as line:
        line.sendall(noise)
        assert line.recv(100).startswith(b"HTTP/1.1 400 ")


def test_other_addresses_get_no_data(served: Served) -> None:
    with socket.socket() as line, pytest.raises(OSError):
        line.settimeout(2)
        line.connect((socket.gethostbyname(socket.gethostname()), served.feed.port))
        if line.getpeername()[0].startswith("127."):
            raise OSError("this machine has no other name")


def test_viewer_that_does_not_read_does_not_block_the_loop(tmp_path: Path) -> None:
    with serving() as served:
        deaf = []
        for _ in range(10):
            line = socket.create_connection(("127.0.0.1", served.feed.port), 10)
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            head = (
                f"GET /stream HTTP/1.1\r\nHost: 127.0.0.1:{served.feed.port}\r\n"
                f"Authorization: Bearer {served.token}\r\n\r\n"
            )
            line.sendall(head.encode())
            deaf.append(line)
        for seed in range(9000, 9003):
            run(tmp_path / str(seed), served.feed, seed)
        heard = served.watch(lambda heard: len(of(heard, "end")) == 3)
        assert [end[1] for end in of(heard, "end")] == [0, 0, 0]
        for line in deaf:
            line.close()


class Mute:
    """A server that takes connections and never reads."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.feed = ToPage("127.0.0.1", self._listener.getsockname()[1], "x" * 16)

    def close(self) -> None:
        self._listener.close()


def test_a_server_that_does_not_read_costs_frames_and_no_time(tmp_path: Path) -> None:
    mute = Mute()
    made: list[Feed] = []

    def maker() -> Feed:
        made.append(mute.feed())
        return made[0]

    run(tmp_path, maker)
    mute.close()
    assert made[0].failures <= 1, "only its last words found no ear"


def test_a_server_that_is_not_there_costs_nothing(tmp_path: Path) -> None:
    mute = Mute()
    mute.close()
    run(tmp_path, mute.feed)


def test_a_world_that_cannot_show_itself_is_told_without_a_picture(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Scenic) -> None:
        raise RuntimeError("no picture today")

    monkeypatch.setattr("forewarn.plugins.tiny.driving.TinyWorld.ground", fail)
    with serving() as fresh:
        run(tmp_path, fresh.feed)
        heard = fresh.watch(ended)
    assert not of(heard, "ground") and not of(heard, "scene")
    assert len(of(heard, "frame")) > 30


def test_faulty_frames_are_sent_too(served: Served) -> None:
    """A time that is no number, values of any kind: all of it is JSON."""
    feed = served.feed()
    feed.decided(None, Frame(float("nan"), 0, {}), None)  # type: ignore[arg-type]
    assert feed.failures == 0, "it tells nothing before something began"


def test_silent_connections_do_not_block_others() -> None:
    with serving() as served:
        where = ("127.0.0.1", served.feed.port)
        silent = [socket.create_connection(where, 10) for _ in range(200)]
        for line in silent:
            line.sendall(b"GET / HT")
        with served.ask("/") as answer:
            assert answer.status == 200
        for line in silent:
            line.close()


def test_live_server_that_accepts_no_connection_does_not_block_the_loop() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        feeds = [
            Feed(ToPage("127.0.0.1", deaf.getsockname()[1], "a token"))
            for _ in range(5)
        ]
        watch = load_watch(load_model(learned.model("tiny-road")), horizon_s=3.0)
        told = Run("a run", Source("a car"), watch, Policy())
        began_s = time.monotonic()
        for feed in feeds:
            feed.began(told)
        assert time.monotonic() - began_s < 0.5
