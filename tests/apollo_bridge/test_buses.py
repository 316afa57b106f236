"""The ways to Apollo: a node, cyber_bridge over TCP, and what goes wrong there."""

from __future__ import annotations

import errno
import random
import selectors
import socket
import sys
import threading
import types
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from forewarn.apollo_bridge import frames

pytest.importorskip("google.protobuf", reason="google.protobuf is not installed")

from forewarn.abstractions.errors import InvalidInput
from forewarn.apollo_bridge import channels
from forewarn.apollo_bridge.channels import INPUTS, descriptor_files, messages
from forewarn.apollo_bridge.frames import AddWriter, Publish, Register, encode
from forewarn.apollo_bridge.tcp import TcpBus
from forewarn.apollo_bridge.wire import Bus, Inbox, NoCyber, NodeBus, find_cyber
from forewarn.standins.apollo.server import BridgeServer, FakeCyber
from tests.apollo_bridge.doubles import Proxy, eventually, message

Pad = messages()[channels.PLANNING_PAD.type]
Chassis = messages()[channels.CHASSIS.type]
LOCALIZATION, CHASSIS = channels.LOCALIZATION, channels.CHASSIS
PAD = channels.PLANNING_PAD.name


@pytest.fixture
def cyber() -> FakeCyber:
    return FakeCyber()


@pytest.fixture
def server(cyber: FakeCyber) -> Iterator[BridgeServer]:
    with closing(BridgeServer(cyber, frames, port=0)) as made:
        yield made


@pytest.fixture
def proxy(server: BridgeServer) -> Iterator[Proxy]:
    with closing(Proxy(server.port)) as made:
        yield made


@pytest.fixture(params=["node", "tcp"])
def bus(
    request: pytest.FixtureRequest, cyber: FakeCyber, server: BridgeServer
) -> Iterator[Bus]:
    made: Bus
    if request.param == "node":
        made = NodeBus(cyber)
    else:
        made = TcpBus("127.0.0.1", server.port)
        assert eventually(lambda: made.health.connected)
    with closing(made):
        yield made


def say(
    cyber: FakeCyber, channel: channels.Channel, *args: Any, **content: Any
) -> None:
    cyber.publish(channel.name, message(channel, *args, **content).SerializeToString())


class TestBus:
    def test_messages_come(self, bus: Bus, cyber: FakeCyber) -> None:
        inbox = Inbox(bus, INPUTS, messages())
        came = 0.0

        def there() -> bool:
            nonlocal came
            came += 1.0
            say(cyber, CHASSIS, came, speed_mps=2.5)
            return inbox.newest("chassis") is not None

        assert eventually(there)
        newest = inbox.newest("chassis")
        assert newest is not None and newest.message.speed_mps == 2.5
        assert inbox.newest("localization") is None

    def test_messages_go(self, bus: Bus, cyber: FakeCyber) -> None:
        got: list[bytes] = []
        cyber.read(PAD, got.append)
        writer = bus.create_writer(PAD, Pad)
        pad = message(channels.PLANNING_PAD, 1.0, action="STOP")
        assert eventually(lambda: (writer.write(pad), got)[1])
        assert Pad.FromString(got[0]) == pad

    def test_a_channel_is_read_once(self, bus: Bus) -> None:
        assert bus.create_reader("/a", Chassis, print) is not None
        assert bus.create_reader("/a", Chassis, print) is None

    def test_a_message_that_is_none_is_not_kept(
        self, bus: Bus, cyber: FakeCyber
    ) -> None:
        inbox = Inbox(bus, INPUTS, messages())

        def lost() -> bool:
            cyber.publish(CHASSIS.name, b"\xff\xff\xff")
            return cyber.swallowed + bus.health.losses > 0

        assert eventually(lost)
        assert inbox.newest("chassis") is None
        say(cyber, CHASSIS, 1.0)
        assert inbox.wait(lambda: inbox.newest("chassis") is not None, 20)

    def test_it_closes_twice(self, bus: Bus) -> None:
        bus.close()
        bus.close()
        assert not bus.health.connected


def test_services_can_only_be_called_through_a_node(
    cyber: FakeCyber, server: BridgeServer
) -> None:
    service = channels.ACTION_SERVICE
    request_type, reply_type = messages()[service.request], messages()[service.response]
    node = cyber.Node("apollo")
    node.create_service(
        service.name, request_type, reply_type, lambda request: reply_type(status=1)
    )
    with closing(NodeBus(cyber)) as bus:
        assert bus.services() == {service.name}
        client = bus.create_client(service.name, request_type, reply_type)
        assert client.send_request(request_type(command="STOP")).status == 1
        cyber.withdraw(service.name)
        assert client.send_request(request_type(command="STOP")) is None
    with closing(TcpBus("127.0.0.1", server.port)) as outside:
        assert outside.services() == frozenset()
        with pytest.raises(InvalidInput, match="cannot call the service"):
            outside.create_client(service.name, request_type, reply_type)


def test_no_node_exists_if_cyber_does_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(FakeCyber, "init", lambda self, name: False)
    with pytest.raises(
        NoCyber,
        match="Cyber RT could not be started: set it up in this container first",
    ):
        NodeBus(FakeCyber())


def test_without_apollo_no_node_is_created() -> None:
    with pytest.raises(NoCyber, match="inside Apollo's container"):
        NodeBus()


def test_cyber_is_found_where_apollo_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    package = types.ModuleType("cyber_py3")
    module = types.ModuleType("cyber_py3.cyber")
    monkeypatch.setitem(sys.modules, "cyber_py3", package)
    monkeypatch.setitem(sys.modules, "cyber_py3.cyber", module)
    assert find_cyber() is module


def test_the_bus_reconnects_to_a_restarted_bridge(cyber: FakeCyber) -> None:
    first = BridgeServer(cyber, frames, port=0)
    with closing(TcpBus("127.0.0.1", first.port)) as bus:
        inbox = Inbox(bus, INPUTS, messages())
        got: list[bytes] = []
        cyber.read(PAD, got.append)
        writer = bus.create_writer(PAD, Pad)
        assert eventually(lambda: bus.health.connected)
        first.close()
        assert eventually(lambda: not bus.health.connected)
        assert bus.health.losses == 1
        old = message(channels.PLANNING_PAD, 1.0, action="STOP")
        assert not writer.write(old), "what cannot leave is lost, and said so"
        assert bus.health.dropped == 1
        with closing(BridgeServer(cyber, frames, port=first.port)):
            assert eventually(lambda: bus.health.connected)
            new = message(channels.PLANNING_PAD, 2.0, action="STOP")
            assert eventually(lambda: (writer.write(new), got)[1])
            # Readers and writers were introduced again, and nothing came late.
            assert {Pad.FromString(data).header.timestamp_sec for data in got} == {2.0}

            def there() -> bool:
                say(cyber, CHASSIS, 3.0)
                return inbox.newest("chassis") is not None

            assert eventually(there)


def test_bus_connects_although_the_bridge_starts_later(cyber: FakeCyber) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with closing(TcpBus("127.0.0.1", port)) as bus:
        writer = bus.create_writer(PAD, Pad)
        assert not writer.write(Pad(action="STOP"))
        with closing(BridgeServer(cyber, frames, port=port)):
            assert eventually(lambda: bus.health.connected)


def test_the_bus_waits_for_descriptors(
    cyber: FakeCyber, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, without = selectors.DefaultSelector, threading.Event()
    refused = 0

    def made() -> selectors.BaseSelector:
        nonlocal refused
        if (
            without.is_set()
            and threading.current_thread().name == "forewarn-cyber-bridge"
        ):
            refused += 1
            raise OSError(errno.EMFILE, "Too many open files")
        return real()

    monkeypatch.setattr(selectors, "DefaultSelector", made)
    with (
        closing(BridgeServer(cyber, frames, port=0)) as server,
        closing(TcpBus("127.0.0.1", server.port)) as bus,
    ):
        assert eventually(lambda: bus.health.connected)
        assert eventually(lambda: bool(server.lines))
        without.set()
        (line,) = server.lines
        server.loop.call_soon_threadsafe(line.close)
        assert eventually(lambda: refused > 0)
        without.clear()
        got: list[bytes] = []
        cyber.read(PAD, got.append)
        writer = bus.create_writer(PAD, Pad)
        stop = message(channels.PLANNING_PAD, 1.0, action="STOP")
        assert eventually(lambda: (writer.write(stop), got)[1])


def test_a_slow_connection_delivers_the_same_messages(
    cyber: FakeCyber, server: BridgeServer, proxy: Proxy
) -> None:
    proxy.piece, proxy.delay_s = 3, 0.0005
    with closing(TcpBus("127.0.0.1", proxy.port, newest_only=False)) as bus:
        came: list[float] = []
        bus.create_reader(
            CHASSIS.name, Chassis, lambda m: came.append(m.header.timestamp_sec)
        )

        def begun() -> bool:
            say(cyber, CHASSIS, -1.0)
            return bool(came)

        assert eventually(begun)
        for number in range(20):
            say(cyber, CHASSIS, float(number), speed_mps=1.5)
        assert eventually(lambda: came and came[-1] == 19.0)
        assert [time_s for time_s in came if time_s >= 0] == list(map(float, range(20)))


def test_only_the_newest_message_of_a_burst_is_parsed(
    cyber: FakeCyber, server: BridgeServer, proxy: Proxy
) -> None:
    with closing(TcpBus("127.0.0.1", proxy.port)) as bus:
        inbox = Inbox(bus, INPUTS, messages())

        def begun() -> bool:
            say(cyber, CHASSIS, 1.0)
            return inbox.newest("chassis") is not None

        assert eventually(begun)
        proxy.deaf = True
        for number in range(500):
            say(cyber, CHASSIS, 2.0 + number)
        proxy.deaf = False

        def last_s() -> float:
            newest = inbox.newest("chassis")
            assert newest is not None
            return float(newest.message.header.timestamp_sec)

        assert inbox.wait(lambda: last_s() == 501.0, 20)
        assert bus.health.skipped > 100


def test_writer_never_waits_for_a_bridge_that_does_not_read(
    cyber: FakeCyber,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        with closing(TcpBus("127.0.0.1", deaf.getsockname()[1])) as bus:
            assert eventually(lambda: bus.health.connected)
            writer = bus.create_writer("/big", Chassis)
            big = Chassis()
            big.header.module_name = "x" * (1 << 20)
            for _ in range(50):  # 50 MB: far more than any socket's buffer
                assert writer.write(big)
            assert bus.health.dropped > 30


def test_a_command_sent_before_a_disconnection_is_not_delivered_after_it(
    cyber: FakeCyber, server: BridgeServer, proxy: Proxy
) -> None:
    got: list[bytes] = []
    cyber.read(PAD, got.append)
    with closing(TcpBus("127.0.0.1", proxy.port)) as bus:
        writer = bus.create_writer(PAD, Pad)
        assert eventually(lambda: bus.health.connected)
        proxy.deaf = True
        for number in range(5):
            writer.write(message(channels.PLANNING_PAD, float(number), action="STOP"))
        proxy.cut()
        assert eventually(lambda: bus.health.losses >= 1)
        proxy.deaf = False
        assert eventually(lambda: bus.health.connected)
        last = message(channels.PLANNING_PAD, 9.0, action="RESUME_CRUISE")
        assert eventually(lambda: (writer.write(last), got)[1])
        assert all(Pad.FromString(data).action == 5 for data in got[-1:])


def test_the_last_message_is_sent_when_the_bus_is_closed(
    cyber: FakeCyber, server: BridgeServer
) -> None:
    got: list[bytes] = []
    cyber.read(PAD, got.append)
    for number in range(20):
        bus = TcpBus("127.0.0.1", server.port)
        writer = bus.create_writer(PAD, Pad)
        assert eventually(lambda b=bus: b.health.connected)
        assert writer.write(message(channels.PLANNING_PAD, 1.0 + number, action="STOP"))
        bus.close()
        assert eventually(lambda n=number: len(got) == n + 1)


def test_closing_does_not_wait_for_a_bridge_that_does_not_read() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        bus = TcpBus("127.0.0.1", deaf.getsockname()[1])
        assert eventually(lambda: bus.health.connected)
        big = Chassis()
        big.header.module_name = "x" * (40 << 20)
        assert bus.create_writer("/big", Chassis).write(big)
        bus.close()
        assert not bus.health.connected


def test_fuzzed_bytes_end_the_connection_and_are_counted(cyber: FakeCyber) -> None:
    dice = random.Random(3)
    with socket.create_server(("127.0.0.1", 0)) as mad:
        with closing(TcpBus("127.0.0.1", mad.getsockname()[1])) as bus:
            inbox = Inbox(bus, INPUTS, messages())
            for turn in range(5):
                line, _ = mad.accept()
                with line:
                    line.sendall(b"\x09" + dice.randbytes(dice.randrange(1, 4000)))
                    assert eventually(lambda n=turn: bus.health.losses > n)
            assert inbox.newest("chassis") is None


def test_the_server_survives_fuzzed_bytes(
    cyber: FakeCyber, server: BridgeServer
) -> None:
    dice = random.Random(4)
    for _ in range(40):
        with socket.create_connection(("127.0.0.1", server.port)) as line:
            line.sendall(dice.randbytes(dice.randrange(1, 300)))
    with socket.create_connection(("127.0.0.1", server.port)) as line:
        line.settimeout(20)
        line.sendall(b"\x07")
        assert line.recv(10) == b"", "an unknown operation ends the connection"
    assert eventually(lambda: server.losses > 0)
    with closing(TcpBus("127.0.0.1", server.port)) as bus:
        assert eventually(lambda: bus.health.connected)


def test_a_writer_of_an_unregistered_type_is_ignored(
    cyber: FakeCyber, server: BridgeServer
) -> None:
    got: list[bytes] = []
    cyber.read(PAD, got.append)
    writer = encode(AddWriter(PAD, "apollo.planning.PadMessage"))
    register = encode(Register(tuple(descriptor_files(Pad))))

    def say_on(line: socket.socket, *parts: bytes) -> None:
        line.sendall(b"".join(parts))

    with socket.create_connection(("127.0.0.1", server.port)) as line:
        say_on(line, writer, encode(Publish(PAD, b"\x10\x04")))
        say_on(line, register, encode(Publish(PAD, b"\x10\x03")))
        say_on(line, writer, encode(Publish(PAD, b"\x10\x05")))
        assert eventually(lambda: got)
        assert got == [b"\x10\x05"]


def test_a_stamp_from_the_future_does_not_make_an_old_message_fresh() -> None:
    """Its publisher hangs, and Apollo's clock catches up with the stamp."""
    cyber, now_s = FakeCyber(), 100.0
    with closing(NodeBus(cyber)) as bus:
        inbox = Inbox(bus, INPUTS, messages(), clock=lambda: now_s)
        say(cyber, LOCALIZATION, 1010.0)
        for second in range(11):
            now_s = 100.0 + second
            say(cyber, CHASSIS, 1000.0 + second)
            age_s = inbox.age_s("localization")
            assert age_s is not None and age_s >= second
