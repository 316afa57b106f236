"""A client of cyber_bridge over TCP, for use outside Apollo's container.

One thread does all network I/O. A writer only queues a message; a newer message on the
same channel replaces it. Messages that cannot be sent are dropped and counted, because
a command from before a lost connection is stale. If messages arrive faster than they
are read, only the newest message of each channel is delivered.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from forewarn.abstractions.errors import InvalidInput
from forewarn.apollo_bridge.channels import descriptor_files
from forewarn.apollo_bridge.frames import (
    AddReader,
    AddWriter,
    BrokenStream,
    Publish,
    Reassembly,
    Register,
    encode,
)
from forewarn.apollo_bridge.wire import Bus, Callback, Client, Health, NodeBus

PORT = 9090
RETRY_S = 0.5
CONNECT_S = 2.0
LAST_WORD_S = 0.5
_CHUNK = 1 << 18


def parse_address(address: str) -> tuple[str, int]:
    """Returns the host and port of `tcp://HOST:PORT`; the default port is 9090."""
    scheme, _, rest = address.rpartition("://")
    host, colon, port = rest.rpartition(":")
    if not colon or "]" in port:
        host, port = rest, str(PORT)
    host = host.strip("[]")
    if scheme != "tcp" or not host or not port.isdecimal() or int(port) > 65535:
        raise InvalidInput(
            f"{address!r:.80} is not a valid address of cyber_bridge",
            mend=f"use the form tcp://HOST:{PORT}",
        )
    return host, int(port)


class _Reading(NamedTuple):
    data_type: Any
    callback: Callback
    extra: tuple[Any, ...]


class TcpWriter:
    """Publishes on one channel."""

    def __init__(self, name: str, leave: Callable[[str, bytes], bool]) -> None:
        self.name = name
        self._leave = leave

    def write(self, data: Any) -> bool:
        """Queues a message; returns False if there is no connection."""
        return self._leave(self.name, data.SerializeToString())


class TcpBus:
    """A connection to cyber_bridge that reconnects whenever it is lost.

    Args:
        host: The host of cyber_bridge.
        port: The port of cyber_bridge.
        newest_only: Whether to skip messages if newer ones have arrived. A recorder
            needs all messages.
    """

    def __init__(
        self, host: str, port: int = PORT, *, newest_only: bool = True
    ) -> None:
        self._address = host, port
        self._newest_only = newest_only
        self.health = Health(problem=f"{host}:{port} has not answered yet")
        self._lock = threading.Lock()
        self._readers: dict[str, _Reading] = {}
        self._writers: dict[str, Any] = {}
        self._said: list[bytes] = []
        self._tray: dict[str, bytes] = {}
        self._sending = b""
        self._ending = False
        self._bell, self._ear = socket.socketpair()
        for end in (self._bell, self._ear):
            end.setblocking(False)
        # Created now, because later there may be no free file descriptor.
        self._pause = selectors.DefaultSelector()
        self._pause.register(self._ear, selectors.EVENT_READ)
        self._thread = threading.Thread(
            target=self._live, name="forewarn-cyber-bridge", daemon=True
        )
        self._thread.start()

    # -- the interface of a bus
    # ------------------------------------------------------------

    def create_reader(
        self, name: str, data_type: Any, callback: Callback, args: Any = None
    ) -> object | None:
        extra = () if args is None else (args,)
        with self._lock:
            if name in self._readers:
                return None
            self._readers[name] = _Reading(data_type, callback, extra)
            self._say(encode(AddReader(name, data_type.DESCRIPTOR.full_name)))
        return self._readers[name]

    def create_writer(self, name: str, data_type: Any, qos_depth: int = 1) -> TcpWriter:
        with self._lock:
            if name not in self._writers:
                self._writers[name] = data_type
                self._say(_introduced(name, data_type))
        return TcpWriter(name, self._leave)

    def create_client(self, name: str, request_type: Any, response_type: Any) -> Client:
        raise InvalidInput(
            f"cyber_bridge cannot call the service {name}",
            mend="run inside Apollo's container with --node",
        )

    def services(self) -> frozenset[str]:
        """Returns an empty set, because cyber_bridge supports only channels."""
        return frozenset()

    def close(self) -> None:
        self._ending = True
        self._ring()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    # -- outgoing messages ------------------------------------------------------------

    def _leave(self, channel: str, message: bytes) -> bool:
        with self._lock:
            if not self.health.connected:
                self.health.dropped += 1
                return False
            if channel in self._tray:
                self.health.dropped += 1
            self._tray[channel] = message
        self._ring()
        return True

    def _say(self, frame: bytes) -> None:
        if self.health.connected:
            self._said.append(frame)
            self._ring()

    def _ring(self) -> None:
        # On an error, the thread has already been woken or has ended.
        with contextlib.suppress(OSError):
            self._bell.send(b"\0")

    # -- the thread -------------------------------------------------------------------

    def _live(self) -> None:
        with self._bell, self._ear, self._pause:
            while not self._ending:
                try:
                    with self._connection() as line:
                        self._talk(line)
                except (OSError, BrokenStream) as error:
                    if self.health.connected:
                        self.health.lose(error)
                    else:
                        self.health.problem = str(error)
                with self._lock:
                    self.health.connected = False
                    self.health.dropped += len(self._tray)
                    self._tray.clear()
                    self._said.clear()
                if not self._ending:
                    self._rest()

    def _connection(self) -> socket.socket:
        line = socket.create_connection(self._address, CONNECT_S)
        try:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line.setblocking(False)
        except OSError:
            line.close()
            raise
        return line

    def _rest(self) -> None:
        """Waits before reconnecting, unless the bus is closed."""
        if self._pause.select(RETRY_S):
            self._hush()

    def _hush(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._ear.recv(4096)

    def _talk(self, line: socket.socket) -> None:
        parts = Reassembly()
        with self._lock:
            self._sending = b"".join(
                [_introduced(n, t) for n, t in self._writers.items()]
                + [
                    encode(AddReader(n, r.data_type.DESCRIPTOR.full_name))
                    for n, r in self._readers.items()
                ]
            )
            self.health.connected = True
        with selectors.DefaultSelector() as selector:
            selector.register(self._ear, selectors.EVENT_READ)
            selector.register(line, selectors.EVENT_READ)
            while not self._ending:
                self._send(line)
                waits = selectors.EVENT_WRITE if self._sending else 0
                selector.modify(line, selectors.EVENT_READ | waits)
                for key, events in selector.select():
                    if key.fileobj is self._ear:
                        self._hush()
                    elif events & selectors.EVENT_READ:
                        self._receive(line, parts)
        self._send_rest(line)

    def _send_rest(self, line: socket.socket) -> None:
        """Sends the remaining messages, such as a stop, when the bus is closed."""
        line.settimeout(LAST_WORD_S)
        rest = self._sending
        self._sending = b""
        line.sendall(rest + self._waiting())

    def _send(self, line: socket.socket) -> None:
        self._sending = self._sending or self._waiting()
        if self._sending:
            with contextlib.suppress(BlockingIOError):
                sent = line.send(self._sending)
                self._sending = self._sending[sent:]

    def _waiting(self) -> bytes:
        """Empties the queue of outgoing messages and returns the encoded messages."""
        with self._lock:
            news = [encode(Publish(c, m)) for c, m in self._tray.items()]
            waiting = b"".join(self._said + news)
            self._said.clear()
            self._tray.clear()
        return waiting

    def _receive(self, line: socket.socket, parts: Reassembly) -> None:
        data = line.recv(_CHUNK)
        if not data:
            raise BrokenStream("cyber_bridge closed the connection")
        came: list[Publish] = []
        for frame in parts.feed(data):
            if not isinstance(frame, Publish):
                raise BrokenStream(
                    f"cyber_bridge sent an unexpected frame: {type(frame).__name__}"
                )
            came.append(frame)
        if self._newest_only and len(came) > 1:
            newest = {frame.channel: frame for frame in came}
            self.health.skipped += len(came) - len(newest)
            came = [f for f in came if newest[f.channel] is f]
        for frame in came:
            self._deliver(frame)

    def _deliver(self, frame: Publish) -> None:
        reading = self._readers.get(frame.channel)
        if reading is None:
            return
        try:
            message = reading.data_type.FromString(frame.message)
            reading.callback(message, *reading.extra)
        except Exception as error:
            # No caller could handle this, and the next message may be valid.
            self.health.lose(f"{frame.channel}: {type(error).__name__}: {error}")


def _introduced(channel: str, data_type: Any) -> bytes:
    files = tuple(descriptor_files(data_type))
    kind = data_type.DESCRIPTOR.full_name
    return encode(Register(files)) + encode(AddWriter(channel, kind))


def connect(address: str, *, newest_only: bool = True) -> Bus:
    """Connects to Apollo. The address is `node` inside Apollo's container, or
    `tcp://HOST:PORT`.
    """
    if address == "node":
        return NodeBus()
    return TcpBus(*parse_address(address), newest_only=newest_only)
