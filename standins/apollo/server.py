"""An in-process replacement for Cyber RT, and a cyber_bridge server.

Messages are passed as bytes. A reader's callback runs on the writer's thread, and its
exceptions are ignored, as in Apollo.

Like cyber_bridge in Apollo, the bridge server acknowledges nothing and calls no
services. The server closes a connection after an unknown operation, ignores writers of
an unregistered type, and drops messages that a client does not read in time.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from forewarn import InvalidInput

Raw = Callable[[bytes], None]
Answer = Callable[[bytes], bytes | None]


class FakeCyber:
    """An in-process Cyber RT with the interface of cyber_py3's `cyber` module.

    `swallowed` counts the exceptions that callbacks have raised.
    """

    def __init__(self) -> None:
        self.ServiceUtils = self
        self.swallowed = 0
        self._lock = threading.Lock()
        self._readers: dict[str, list[Raw]] = {}
        self._services: dict[str, Answer] = {}
        self._up = False

    def init(self, module_name: str = "cyber_py") -> bool:
        """Starts Cyber RT, so that nodes can be created."""
        self._up = True
        return True

    def ok(self) -> bool:
        """Whether Cyber RT is running."""
        return self._up

    def is_shutdown(self) -> bool:
        """Whether Cyber RT has been shut down or was never started."""
        return not self._up

    def shutdown(self) -> None:
        """Shuts Cyber RT down."""
        self._up = False

    def Node(self, name: str) -> FakeNode:
        """Creates a node."""
        return FakeNode(self, name)

    def get_services(self, sleep_s: float = 2) -> list[str]:
        """Returns the names of the available services."""
        return list(self._services)

    def publish(self, channel: str, data: bytes) -> None:
        """Passes a message to all readers of a channel."""
        for reader in tuple(self._readers.get(channel, ())):
            try:
                reader(data)
            except Exception:
                self.swallowed += 1

    def read(self, channel: str, reader: Raw) -> Callable[[], None]:
        """Adds a reader of a channel's raw messages; returns a function that removes
        the reader.
        """
        with self._lock:
            self._readers.setdefault(channel, []).append(reader)

        def leave() -> None:
            with self._lock:
                if reader in self._readers[channel]:
                    self._readers[channel].remove(reader)

        return leave

    def serve(self, service: str, answer: Answer) -> None:
        """Adds a service. If `answer` returns None or no bytes, the call fails."""
        self._services[service] = answer

    def withdraw(self, service: str) -> None:
        """Removes a service."""
        self._services.pop(service, None)

    def call(self, service: str, request: bytes) -> bytes | None:
        """Calls a service and returns its answer, or None if the service does not
        answer.
        """
        answer = self._services.get(service)
        try:
            return None if answer is None else answer(request) or None
        except Exception:
            self.swallowed += 1
            return None


class FakeNode:
    """A node with the methods of `cyber.Node`."""

    def __init__(self, cyber: FakeCyber, name: str) -> None:
        self.name = name
        self._cyber = cyber
        self._read: set[str] = set()

    def create_reader(
        self, name: str, data_type: Any, callback: Callable[..., None], args: Any = None
    ) -> object | None:
        """Creates a reader; returns None if the node already reads the channel."""
        if name in self._read:
            return None
        self._read.add(name)
        extra = () if args is None else (args,)
        return self._cyber.read(
            name, lambda data: callback(data_type.FromString(data), *extra)
        )

    def create_writer(
        self, name: str, data_type: Any, qos_depth: int = 1
    ) -> FakeWriter:
        """Creates a writer."""
        return FakeWriter(self._cyber, name)

    def create_client(
        self, name: str, request_type: Any, response_type: Any
    ) -> FakeClient:
        """Creates a client of a service. The service need not exist yet."""
        return FakeClient(self._cyber, name, response_type)

    def create_service(
        self,
        name: str,
        req_data_type: Any,
        res_data_type: Any,
        callback: Callable[..., Any],
        args: Any = None,
    ) -> None:
        """Adds a service that answers with the callback's result."""
        extra = () if args is None else (args,)

        def answer(request: bytes) -> bytes | None:
            response = callback(req_data_type.FromString(request), *extra)
            return (
                None if response is None else bytes(response.SerializePartialToString())
            )

        self._cyber.serve(name, answer)


class FakeWriter:
    """Publishes on one channel."""

    def __init__(self, cyber: FakeCyber, name: str) -> None:
        self.name = name
        self._cyber = cyber

    def write(self, data: Any) -> bool:
        """Publishes a message, or raw bytes."""
        raw = data if isinstance(data, bytes) else data.SerializeToString()
        self._cyber.publish(self.name, raw)
        return True


class FakeClient:
    """Calls one service."""

    def __init__(self, cyber: FakeCyber, name: str, response_type: Any) -> None:
        self._cyber, self.name, self._response = cyber, name, response_type

    def send_request(self, data: Any) -> Any:
        """Returns the response, or None if the service does not exist or does not
        answer.
        """
        reply = self._cyber.call(self.name, data.SerializeToString())
        if reply is None:
            return None
        response = self._response()
        response.ParseFromString(reply)
        return response


PENDING_LIMIT = 64 << 20
_CHUNK = 1 << 18
_CONNECTIONS = 32


class BridgeServer:
    """A cyber_bridge server that listens from its creation until `close` is called.

    `connections` counts the clients accepted, `losses` the clients disconnected because
    of an error or invalid data, and `dropped` the messages that clients did not read in
    time.

    Args:
        cyber: The Cyber RT instance whose channels are served.
        codec: The module that encodes and decodes cyber_bridge frames:
            `forewarn.apollo_bridge.frames`.
        host: The address to listen on.
        port: The port to listen on; 0 for any free port.
    """

    def __init__(
        self,
        cyber: FakeCyber,
        codec: ModuleType,
        host: str = "127.0.0.1",
        port: int = 9090,
    ) -> None:
        self._cyber, self._codec = cyber, codec
        self.connections = self.losses = self.dropped = 0
        self._lines: dict[socket.socket, _Line] = {}
        self._lock = threading.Lock()
        self._ending = False
        try:
            self._socket = socket.create_server((host, port))
        except OSError as error:
            raise InvalidInput(
                f"cannot listen on {host}:{port}: {error.strerror or error}",
                mend="is another server running? --port 0 chooses a free port",
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
        """Stops the server and closes all connections; may be called more than once."""
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
            return  # the client has already disconnected
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
        """Sends pending data and removes closed connections."""
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
    """A client connection with its readers, writers and pending data."""

    def __init__(self, server: BridgeServer, connection: socket.socket) -> None:
        self._server, self._connection = server, connection
        self._codec = server._codec
        self._parts = self._codec.Reassembly()
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

    def _handle(self, frame: Any) -> None:
        codec = self._codec
        match frame:
            case codec.Register(files):
                for file in files:
                    self._types |= _message_types(file)
            case codec.AddReader(channel, _):
                if channel not in self._leave:
                    self._leave[channel] = self._server._cyber.read(
                        channel, lambda data: self._put(channel, data)
                    )
            case codec.AddWriter(channel, kind):
                if kind in self._types:
                    self._writers.add(channel)
            case codec.Publish(channel, message):
                if channel in self._writers:
                    self._server._cyber.publish(channel, message)

    def _put(self, channel: str, data: bytes) -> None:
        with self._lock:
            if len(self._pending) + len(data) > PENDING_LIMIT:
                self._server.dropped += 1
                return
            self._pending += self._codec.encode(self._codec.Publish(channel, data))
        self._server._ring()

    def send(self) -> bool:
        """Sends as much pending data as possible; returns whether any is left."""
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
    """Returns the names of the messages that a file descriptor defines, or an empty set
    if the bytes are not a valid file descriptor.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        read: Any = FileDescriptorProto.FromString(file)
    except DecodeError:
        return set()
    return {f"{read.package}.{message.name}" for message in read.message_type}
