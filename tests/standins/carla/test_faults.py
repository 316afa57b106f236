"""What clients do wrong, by accident or on purpose: the server goes on, bounded."""

from __future__ import annotations

import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from forewarn.cli import main
from tests.standins.carla.clients import Serve, Standin

msgpack = pytest.importorskip("msgpack")


@pytest.fixture(scope="module")
def standin(serve: Serve) -> Standin:
    return serve("--map", "tee", "--kinematic")


@contextmanager
def line(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as made:
        yield made


def call(made: socket.socket, name: str, *arguments: Any) -> Any:
    """A call by hand: its error and its result."""
    made.sendall(msgpack.packb([0, 7, name, [[False], *arguments]]))
    unpacker = msgpack.Unpacker(unicode_errors="surrogateescape")
    while True:
        data = made.recv(65536)
        assert data, "the server hung up"
        unpacker.feed(data)
        for kind, number, error, result in unpacker:
            assert (kind, number) == (1, 7)
            return error, result


def serves(standin: Standin) -> None:
    """A new client is served."""
    with line(standin.port) as made:
        assert call(made, "version") == (None, [[1, "0.9.16"]])
    assert standin.process.poll() is None


def test_an_unknown_call_is_answered_by_an_error_that_names_it(
    standin: Standin,
) -> None:
    with line(standin.port) as made:
        error, result = call(made, "make_coffee", 1)
        assert "make_coffee" in error and result is None
        assert call(made, "version")[0] is None


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xc1" * 100,
        msgpack.packb([5, 1, "version", []]),
        msgpack.packb({}),
        msgpack.packb([0, 1, 2, 3]),
        msgpack.packb([0, 1, "version", "no list"]),
        b"\xdd\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff" + b"x" * 100,
        b"\x91" * 5000 + b"\xc0",
    ],
    ids=["http", "reserved", "kind", "map", "types", "list", "array", "blob", "deep"],
)
def test_invalid_call_ends_the_connection(standin: Standin, data: bytes) -> None:
    with line(standin.port) as made:
        made.sendall(data)
        made.shutdown(socket.SHUT_WR)
        try:
            assert made.recv(100) == b""
        except ConnectionResetError:
            pass
    serves(standin)


def test_incomplete_messages_and_idle_connections_do_not_block_others(
    standin: Standin,
) -> None:
    whole = msgpack.packb([0, 7, "version", [[False]]])
    with line(standin.port) as slow, line(standin.port), line(standin.port + 1):
        for byte in whole[:-1]:
            slow.sendall(bytes([byte]))
        serves(standin)
        slow.sendall(whole[-1:])
        assert msgpack.unpackb(slow.recv(100))[3] == [[1, "0.9.16"]]
    with line(standin.port + 1) as torn:
        torn.sendall(b"\x01\x00")
    with line(standin.port + 1) as stranger:
        stranger.sendall(struct.pack("<I", 424242))
        try:
            assert stranger.recv(100) == b"", "no such stream"
        except ConnectionResetError:
            pass
    serves(standin)


def test_half_open_connections_do_not_block_clients(standin: Standin) -> None:
    with ExitStack() as crowd, line(standin.port) as known:
        assert call(known, "version")[0] is None
        reads = crowd.enter_context(line(standin.port + 1))
        reads.sendall(struct.pack("<I", 1))
        assert reads.recv(4)
        for _ in range(600):
            for port in (standin.port, standin.port + 1):
                stranger = crowd.enter_context(line(port))
                stranger.sendall(b"\x94")  # what a call begins with, and no more
        serves(standin)
        assert call(known, "version")[0] is None
        with line(standin.port + 1) as late:
            late.sendall(struct.pack("<I", 1))
            assert late.recv(4)
        call(known, "tick_cue", True)
        assert reads.recv(4)


def test_a_stalled_reader_does_not_fill_memory(standin: Standin) -> None:
    with line(standin.port) as made, line(standin.port + 1) as stalled:
        stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stalled.sendall(struct.pack("<I", 1))
        time.sleep(0.1)
        before = memory(standin.process.pid)
        batch = msgpack.packb([0, 7, "tick_cue", [[True]]]) * 500
        unpacker = msgpack.Unpacker()
        for _ in range(200):
            made.sendall(batch)
            answers = 0
            while answers < 500:
                unpacker.feed(made.recv(65536))
                answers += sum(1 for _ in unpacker)
        # 100,000 snapshots went by: about 80 MB.
        assert memory(standin.process.pid) - before < 40e6
    serves(standin)


def memory(pid: int) -> float:
    status = Path(f"/proc/{pid}/statm")
    if not status.exists():
        pytest.skip("there is no /proc here")
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_connections_are_bounded(standin: Standin) -> None:
    lines = [socket.create_connection(("127.0.0.1", standin.port)) for _ in range(300)]
    try:
        time.sleep(0.3)
        ended, _, _ = select.select(lines, [], [], 0)
        assert len(ended) >= 300 - 256
    finally:
        for made in lines:
            made.close()
    time.sleep(0.2)
    serves(standin)


def test_random_bytes_end_connections_and_nothing_else(standin: Standin) -> None:
    luck = random.Random(5)
    for _ in range(60):
        with line(standin.port + luck.randrange(2)) as made:
            try:
                made.sendall(luck.randbytes(luck.randrange(1, 400)))
            except ConnectionError:
                pass
    serves(standin)


@pytest.mark.soak
def test_thousands_of_altered_messages(standin: Standin) -> None:
    luck = random.Random(11)
    calls: list[list[Any]] = [
        ["spawn_actor", [1, "vehicle.tesla.model3", []], [[0.0] * 3, [0.0] * 3]],
        ["tick_cue"],
        ["apply_batch", [[[2, [100, [0.5, 0.0, 0.0, False, False, False, 0]]]]], True],
        ["set_episode_settings", [True, False, [True, 0.05], True, 0.01, 10, 0.0, True,
                                  3000.0, 2000.0, True]],
        ["get_actors_by_id", [1, 2, 3]],
    ]  # fmt: skip
    for n in range(4000):
        name, *arguments = luck.choice(calls)
        data = bytearray(msgpack.packb([0, n, name, [[False], *arguments]]))
        for _ in range(luck.randrange(4)):
            data[luck.randrange(len(data))] = luck.randrange(256)
        if luck.random() < 0.2:
            data = data[: luck.randrange(1, len(data))]
        with line(standin.port + (luck.random() < 0.1)) as made:
            try:
                made.sendall(data * luck.choice([1, 1, 3]))
                made.settimeout(0.001)
                made.recv(10)
            except OSError:
                pass
        if n % 200 == 0:
            serves(standin)
    serves(standin)


def test_client_of_a_killed_server_gets_an_error_in_time(serve: Serve) -> None:
    standin = serve("--map", "tee", "--kinematic")
    body = f"""
    import os, signal, time
    synchronous()
    world.tick()
    client.set_timeout(1.0)
    os.kill({standin.process.pid}, signal.SIGKILL)
    began = time.monotonic()
    try:
        world.tick()
    except RuntimeError as error:
        tell([str(error)[:8], time.monotonic() - began < 5])
    """
    ((said, soon),) = standin.script(body)
    assert (said, soon) == ("time-out", True)
    standin.process.wait(timeout=10)


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)]
)
def test_signal_ends_the_server_at_once_despite_clients(
    serve: Serve, number: signal.Signals, status: int
) -> None:
    standin = serve("--map", "tee")
    with line(standin.port) as made, line(standin.port + 1) as reader:
        call(made, "version")
        reader.sendall(struct.pack("<I", 1))
        time.sleep(0.2)
        standin.process.send_signal(number)
        assert standin.process.wait(timeout=10) == status
    assert standin.process.stderr is not None
    assert standin.process.stderr.read().strip() in ("", "forewarn: interrupted")


def test_occupied_port_is_reported_in_one_line(standin: Standin) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "forewarn.cli", "carla", "serve", "--kinematic",
         "--port", str(standin.port)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.endswith("address already in use (choose another port with --port)")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--map", "crosing"], "crossing"),
        (["--map", "no/such.xodr"], "such.xodr"),
        (["--host", "example.org"], "IPv4"),
        (["--scenario", "no-such"], "no-such"),
        (["--scenario", "s1", "--kinematic"], "combined with --kinematic"),
        (["--scenario", "s1", "--map", "tee"], "combined with --map"),
        (["--rate", "0"], "rate"),
    ],
)
def test_map_that_cannot_be_served_is_reported(options: list[str], said: str) -> None:
    pytest.importorskip("carla", reason="no carla for this Python")
    done = CliRunner().invoke(main, ["carla", "serve", "--port", "0", *options])
    assert done.exit_code == 2
    assert said in done.stderr and len(done.stderr.splitlines()) == 1


def test_missing_package_is_reported_with_its_install_command() -> None:
    program = (
        "import sys; sys.modules['carla'] = None\n"
        "from forewarn.cli import main; main(['carla', 'serve', '--port', '0'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert "forewarn[carla]" in done.stderr and len(done.stderr.splitlines()) == 1
