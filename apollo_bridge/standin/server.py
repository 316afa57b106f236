"""cyber_bridge as Apollo has it, in front of a fake cyber.

As there, nothing is acknowledged, an unknown operation ends the connection, a writer
whose type was not registered before is ignored without a word, what a connection does
not read is dropped, and services cannot be called.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Callable
from typing import Any

from forewarn.abstractions.errors import InvalidInput
from forewarn.apollo_bridge.buses.fake import FakeCyber
from forewarn.apollo_bridge.buses.frames import (
    AddReader,
    AddWriter,
    Frame,
    Publish,
    Reassembly,
    Register,
    encode,
)

PENDING_LIMIT = 64 << 20
_CHUNK = 1 << 18
_CONNECTIONS = 32


class BridgeServer:
    """Listens from the moment it is made; `close` ends it.

    `connections` and `losses` count who came, and who was sent away for what they
    sent; `dropped` counts messages that were not read in time.

    Args:
        cyber: Whose channels it shows.
        host: Where to listen.
        port: The port; 0 takes one that is free.
    """

    def __init__(
        self, cyber: FakeCyber, host: str = "127.0.0.1", port: int = 9090
    ) -> None:
        self._cyber = cyber
        self.connections = self.losses = self.dropped = 0
        self._lines: dict[socket.socket, _Line] = {}
        self._lock = threading.Lock()
        self._ending = False
        try:
            self._socket = socket.create_server((host, port))
        except OSError as error:
            raise InvalidInput(
                f"cannot listen on {host}:{port}: {error.strerror or error}",
                mend="is another server there? --port 0 takes a free one",
            ) from error
        self._socket.setblocking(False)
        self.host, self.port = host, int(self._socket.getsockname()[1])
        self._bell, self._ear = socket.socketpair()
        for end in (self._bell, self._ear):
            end.setblocking(False)
        self._thread = threading.Thread(
            target=self._serve, name="forewarn-stand-in", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Ends the server and all its connections; safe to call twice."""
        self._ending = True
        self._ring()
        self._thread.join()

    def _ring(self) -> None:
        with contextlib.suppress(OSError):
            self._bell.send(b"\0")

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector, self._bell, self._ear:
            selector.register(self._ear, selectors.EVENT_READ)
            selector.register(self._socket, selectors.EVENT_READ)
            while not self._ending:
                for key, events in selector.select():
                    if key.fileobj is self._ear:
                        with contextlib.suppress(BlockingIOError):
                            self._ear.recv(4096)
                    elif key.fileobj is self._socket:
                        self._accept(selector)
                    elif events & selectors.EVENT_READ:
                        self._lines[key.fileobj].receive()  # type: ignore[index]
                self._tend(selector)
            for line in list(self._lines.values()):
                line.end()
            self._socket.close()

    def _accept(self, selector: selectors.BaseSelector) -> None:
        try:
            connection, _ = self._socket.accept()
        except OSError:
            return  # they have gone again
        if len(self._lines) >= _CONNECTIONS:
            connection.close()
            return
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connections += 1
        with self._lock:
            self._lines[connection] = _Line(self, connection)
        selector.register(connection, selectors.EVENT_READ)

    def _tend(self, selector: selectors.BaseSelector) -> None:
        """Sends what waits, and parts with those who are gone."""
        for connection, line in list(self._lines.items()):
            waits = line.send()
            if line.ended:
                selector.unregister(connection)
                with self._lock:
                    del self._lines[connection]
                line.end()
            else:
                events = selectors.EVENT_WRITE if waits else 0
                selector.modify(connection, selectors.EVENT_READ | events)


class _Line:
    """One connection: what it reads, what it may write, what waits to be sent."""

    def __init__(self, server: BridgeServer, connection: socket.socket) -> None:
        self._server, self._connection = server, connection
        self._parts = Reassembly()
        self._pending = bytearray()
        self._lock = threading.Lock()
        self._leave: dict[str, Callable[[], None]] = {}
        self._types: set[str] = set()
        self._writers: set[str] = set()
        self.ended = False

    def end(self) -> None:
        for leave in self._leave.values():
            leave()
        self._connection.close()

    def receive(self) -> None:
        try:
            data = self._connection.recv(_CHUNK)
            if not data:
                self.ended = True
            for frame in self._parts.feed(data):
                self._handle(frame)
        except (OSError, InvalidInput):
            self._server.losses += 1
            self.ended = True

    def _handle(self, frame: Frame) -> None:
        match frame:
            case Register(files):
                for file in files:
                    self._types |= _message_types(file)
            case AddReader(channel, _):
                if channel not in self._leave:
                    self._leave[channel] = self._server._cyber.read(
                        channel, lambda data: self._put(channel, data)
                    )
            case AddWriter(channel, kind):
                if kind in self._types:
                    self._writers.add(channel)
            case Publish(channel, message):
                if channel in self._writers:
                    self._server._cyber.publish(channel, message)

    def _put(self, channel: str, data: bytes) -> None:
        with self._lock:
            if len(self._pending) + len(data) > PENDING_LIMIT:
                self._server.dropped += 1
                return
            self._pending += encode(Publish(channel, data))
        self._server._ring()

    def send(self) -> bool:
        """Sends what it can; whether more waits."""
        with self._lock:
            if self._pending and not self.ended:
                try:
                    sent = self._connection.send(self._pending[:_CHUNK])
                    del self._pending[:sent]
                except BlockingIOError:
                    pass
                except OSError:
                    self.ended = True
            return bool(self._pending)


def _message_types(file: bytes) -> set[str]:
    """The messages that a descriptor defines; none if it is no descriptor."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        read: Any = FileDescriptorProto.FromString(file)
    except DecodeError:
        return set()
    return {f"{read.package}.{message.name}" for message in read.message_type}
