"""The oracle of ROSMonitoring's nodes, asked as they ask."""

from __future__ import annotations

import importlib
import json
import math
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.errors import InvalidInput
from forewarn.plugins.remote.messages import MAX_BYTES, Malformed
from forewarn.plugins.ros.oracle import Oracle, OracleServer
from forewarn.plugins.ros.websocket import WebSocket
from tests.plugins.remote.serving import POLICY
from tests.plugins.ros.nodes import (
    EGO,
    LIGHTS,
    OBJECTS,
    event,
    lights,
    listening,
    odometry,
    pose,
    thing,
    twist,
)

pytestmark = pytest.mark.needs("websocket")

COMMAND = "/control/command/control_cmd"


@pytest.fixture(scope="module")
def listener() -> Iterator[OracleServer]:
    with listening() as server:
        yield server


@pytest.fixture
def told(listener: OracleServer) -> Iterator[Told]:
    listener.oracle.enter()
    yield Told(listener.oracle)
    listener.oracle.leave()


class Node:
    """Asks as ROSMonitoring's generated monitors do: send, then receive."""

    def __init__(self, server: OracleServer) -> None:
        import websocket

        self.line = websocket.create_connection(
            f"ws://127.0.0.1:{server.port}", timeout=20.0
        )

    def __enter__(self) -> Node:
        return self

    def __exit__(self, *_: object) -> None:
        self.line.close()

    def ask(self, topic: str, time_s: float, content: dict[str, Any]) -> Any:
        self.line.send(json.dumps(event(topic, time_s, content)))
        return json.loads(self.line.recv())

    def drive(self, steps: int, speed: float, began_s: float = 100.0) -> Any:
        """Says what topics say, step by step; gives the last answer."""
        for step in range(steps):
            time_s = began_s + 0.1 * step
            self.ask(OBJECTS, time_s, {"objects": []})
            self.ask(LIGHTS, time_s, lights())
            said = self.ask(EGO, time_s, odometry(0.1 * speed * step, speed))
        return said


class Told:
    """An oracle that hears what topics say, without a socket."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle

    def say(self, topic: str, time_s: Any, content: dict[str, Any]) -> Any:
        told = json.dumps(event(topic, 0.0, content) | {"time": time_s})
        return json.loads(self.oracle.answer(told.encode()))["verdict"]

    def drive(self, began_s: float, steps: int = 5) -> list[str]:
        """What is answered to the ego, step by step."""
        verdicts = []
        for step in range(steps):
            time_s = began_s + 0.1 * step
            self.say(OBJECTS, time_s, {"objects": []})
            self.say(LIGHTS, time_s, lights())
            verdicts.append(self.say(EGO, time_s, odometry(0.5 * step, 5.0)))
        return verdicts


def test_commands_pass_only_after_a_frame_with_low_risk() -> None:
    with listening() as server, Node(server) as node:
        first = node.ask(COMMAND, 99.9, {"longitudinal": {"velocity": 5.0}})
        assert first["verdict"] == "currently_false"
        assert first["topic"] == COMMAND and first["time"] == 99.9
        assert node.drive(3, 5.0)["verdict"] == "currently_true"
        assert node.ask(COMMAND, 100.2, {})["verdict"] == "currently_true"
        fast = node.drive(2, 25.0, began_s=100.3)
        assert fast["verdict"] == "currently_false" and fast["decision"] == "stop"
        assert "no_collision" in fast["spec"] or "collision" in fast["spec"]
        assert node.ask(COMMAND, 100.5, {})["verdict"] == "currently_false"
        call = {"service": "go", "time": 100.5, "request": {"fast": True}}
        node.line.send(json.dumps(call))
        assert json.loads(node.line.recv())["request"] == {"fast": True}


@pytest.mark.parametrize(
    "said",
    ["[]", "no JSON", '{"topic": "x"}', '{"time": NaN}', '{"time": 1e999}'],
)
def test_invalid_events_do_not_pass(said: str) -> None:
    with listening() as server, Node(server) as node:
        node.drive(2, 5.0)
        node.line.send(said)
        assert json.loads(node.line.recv())["verdict"] == "currently_false"


def test_nodes_share_one_run_that_ends_with_the_last(tmp_path: Path) -> None:
    with listening(record=tmp_path) as server:
        with Node(server) as one, Node(server) as other:
            for step in range(3):
                other.ask(LIGHTS, 0.1 * step, lights())
                other.ask(OBJECTS, 0.1 * step, {"objects": []})
                said = one.ask(EGO, 0.1 * step, odometry(0.0, 5.0))
            assert said["verdict"] == "currently_true"
        while server.oracle.nodes:
            time.sleep(0.001)
        with Node(server) as again:
            assert again.ask(COMMAND, 9.0, {})["verdict"] == "currently_false"
    (record,) = tmp_path.glob("*.run.jsonl")
    assert '"ended":"the last node left"' in record.read_text().replace(" ", "", 1)


def test_shadow_holds_nothing_back() -> None:
    with listening(policy=replace(POLICY, shadow=True)) as server:
        with Node(server) as node:
            assert node.ask(COMMAND, 0.0, {})["verdict"] == "currently_true"
            assert node.drive(2, 25.0)["verdict"] == "currently_true"


def test_only_this_machine_is_heard() -> None:
    import websocket

    with listening() as server:
        with pytest.raises(websocket.WebSocketException):
            websocket.create_connection(
                f"ws://127.0.0.1:{server.port}", origin="http://evil.example"
            )
        with pytest.raises(InvalidInput, match="not a loopback address"):
            OracleServer(server.oracle, "0.0.0.0")  # noqa: S104


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("Host", "evil.example"), ("Host", "here.evil.example:8080"), ("Host", ""),
        ("Origin", "http://here.evil.example"), ("Origin", "null"),
        ("Origin", "http://127.0.0.1.evil.example"), ("Origin", "http://[::"),
    ],
)  # fmt: skip
def test_no_name_is_looked_up_to_let_a_page_in(
    field: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: here)
    fields = {"Host": "localhost:9", "Upgrade": "websocket", "Sec-WebSocket-Key": "x"}
    fields |= {"Sec-WebSocket-Version": "13", "Origin": "http://127.0.0.1:80"}
    assert greeted(fields).startswith(b"HTTP/1.1 101")
    with pytest.raises(Malformed, match="does not name this machine"):
        greeted(fields | {field: value})


def greeted(fields: dict[str, str]) -> bytes:
    """What a client hears that begins with these fields."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        theirs.sendall(f"GET / HTTP/1.1\r\n{lines}\r\n".encode())
        WebSocket(ours).shake_hands()
        return theirs.recv(1 << 12)


LARGE = 10**400
ODD_OBJECTS: list[Any] = [
    5, {}, "", "xx", None, True, [5], [{}], [None], [[]] * 1001,
    [thing(pose(1.0), twist(1.0), label=LARGE)],
    [thing(pose(1.0), twist(1.0)) | {"classification": [{"label": None}]}],
    [thing(pose(LARGE), twist(1.0))],
]  # fmt: skip
ODD_LIGHTS: list[Any] = [
    5, {}, "", [5], [{"elements": 5}], [{"elements": [{"color": LARGE}]}],
    [{"elements": [{"color": [1]}]}], [{"elements": {"color": 1}}],
]  # fmt: skip


def test_no_message_whatever_is_without_an_answer_or_passes() -> None:
    with listening() as server:
        ask, time_s = server.oracle.answer, 0.0

        def say(topic: str, content: Any) -> str:
            said = json.dumps(event(topic, time_s, content)).encode()
            verdict: str = json.loads(ask(said))["verdict"]
            return verdict

        server.oracle.enter()
        for objects, groups in [
            *((odd, []) for odd in ODD_OBJECTS),
            *(([], odd) for odd in ODD_LIGHTS),
        ]:
            for ordinary in (True, True, True, False):
                time_s += 0.1
                say(OBJECTS, {"objects": [] if ordinary else objects})
                say(LIGHTS, lights() if ordinary else {"traffic_light_groups": groups})
                verdict = say(EGO, odometry(0.5 * time_s, 5.0))
                passes = verdict == "currently_true"
                assert passes is ordinary, (objects, groups, verdict)
        for levels in (100, 900, 985, 990, 995, 1_000, 100_000):
            deep = b"[" * levels + b"]" * levels
            said = ask(b'{"service":"go","time":1,"request":' + deep + b"}")
            assert said.endswith(b"}") and b'"verdict"' in said
        server.oracle.leave()


@pytest.mark.parametrize(
    "odd_s",
    [1e300, -1e300, math.nan, math.inf, "9.5", None, True, 1e14, -1e14, 160.0, 40.0],
)
@pytest.mark.parametrize(
    ("topic", "content"), [(EGO, odometry(0.0, 5.0)), (LIGHTS, lights())]
)
def test_a_message_at_an_absurd_time_keeps_out_no_other(
    topic: str, content: dict[str, Any], odd_s: Any, told: Told
) -> None:
    assert told.say(topic, odd_s, content) == "currently_false"
    assert told.drive(100.0) == ["currently_true"] * 5
    told.say(topic, odd_s, content)
    judged = told.oracle.frames
    assert told.drive(100.5) == ["currently_true"] * 5
    assert told.oracle.frames == judged + 5


@pytest.mark.parametrize("odd_s", [1e14, -1e14, 160.0, 40.0])
def test_a_topic_at_another_time_than_the_others_is_lost(
    odd_s: float, told: Told
) -> None:
    told.drive(100.0)
    told.say(LIGHTS, odd_s, lights())
    assert told.say(EGO, 100.5, odometry(3.0, 5.0)) == "currently_false"


@pytest.mark.parametrize("began_s", [0.0, 160.0, 1e9])
def test_the_oracle_continues_after_a_leap_of_all_topics(
    began_s: float, told: Told
) -> None:
    told.drive(100.0)
    judged = told.oracle.frames
    assert told.drive(began_s, 30)[-9:] == ["currently_true"] * 9
    assert told.oracle.frames > judged + 20


def test_an_oversized_message_ends_the_connection() -> None:
    import websocket

    with listening() as server:
        with Node(server) as node:
            heard: str | bytes = b"?"
            with suppress(OSError, websocket.WebSocketException):
                node.line.send(" " * (MAX_BYTES + 1))
                heard = node.line.recv()
            assert heard in (b"?", "")
    assert server.losses == 1


def said_to(data: bytes) -> list[bytes]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        return list(WebSocket(ours).messages())


def masked(content: bytes, code: int = 1, mask: bytes = b"\x01\x02\x03\x04") -> bytes:
    size = len(content)
    head = bytes([0x80 | code])
    if size < 126:
        head += bytes([0x80 | size])
    else:
        head += bytes([0x80 | 126]) + size.to_bytes(2, "big")
    hidden = bytes(byte ^ mask[i % 4] for i, byte in enumerate(content))
    return head + mask + hidden


@given(st.lists(st.binary(max_size=300), max_size=4), st.binary(min_size=4, max_size=4))
def test_messages_come_as_they_were_sent(sent: list[bytes], mask: bytes) -> None:
    data = b"".join(masked(each, mask=mask) + masked(b"", 9) for each in sent)
    assert said_to(data + masked(b"", 8)) == sent


@given(st.binary(max_size=200))
def test_any_bytes_end_in_an_answer_or_an_error(data: bytes) -> None:
    try:
        said_to(data)
    except InvalidInput:
        pass


def generated(port: int) -> Any:
    """A monitor as ROSMonitoring itself generates it, from a user's copy of it."""
    home = Path(os.environ.get("ROSMONITORING", "nowhere")) / "src"
    if not (home / "rosmonitoring").is_dir():
        pytest.skip("no copy of ROSMonitoring at $ROSMONITORING")
    sys.path.insert(0, str(home))
    try:
        config = importlib.import_module("rosmonitoring.config")
        generator = importlib.import_module("rosmonitoring.generator")
    finally:
        sys.path.remove(str(home))
    topic = {"name": EGO, "type": "nav_msgs.msg.Odometry", "action": "log"}
    oracle = {"url": "127.0.0.1", "port": port, "action": "nothing"}
    monitor = {"id": "guarded", "log": "x", "oracle": oracle, "topics": [topic]}
    (spec,) = config.parse_config({"monitors": [{"monitor": monitor}]}).monitors
    module = ModuleType("guarded")
    source = generator.render_monitor_source(spec, "ros2")
    exec(compile(source, "guarded.py", "exec"), vars(module))  # noqa: S102
    (kind,) = (e for e in vars(module).values() if hasattr(e, "_oracle_verdict"))
    made = object.__new__(kind)
    made.oracle = made._connect_oracle()
    return made


def test_the_generated_ros_monitor_reads_the_verdicts() -> None:
    with listening() as server:
        monitor = generated(server.port)
        for step in range(4):
            speed = 5.0 if step < 3 else 25.0
            for topic, said in (
                (OBJECTS, {"objects": []}),
                (LIGHTS, lights()),
                (EGO, odometry(step, speed)),
            ):
                heard = monitor._oracle_verdict(event(topic, 0.1 * step, said))
            allowed, verdict, answer = heard
            assert allowed is (speed < 10.0)
            assert verdict == ("currently_true" if allowed else "currently_false")
            assert answer["topic"] == EGO
        monitor.oracle.close()
