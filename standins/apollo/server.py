"""An in-process replacement for Cyber RT, and a cyber_bridge server.

Messages are passed as bytes. A reader's callback runs on the writer's thread, and its
exceptions are ignored, as in Apollo.

Like cyber_bridge in Apollo, the bridge server acknowledges nothing and calls no
services. The server closes a connection after an unknown operation, ignores writers of
an unregistered type, and drops messages that a client does not read in time.
"""

from __future__ import annotations

import asyncio
import contextlib
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
_CONNECTIONS = 64


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
        self.cyber, self.codec = cyber, codec
        self.connections = self.losses = self.dropped = 0
        self.lines: set[_Line] = set()
        try:
            self._socket = socket.create_server((host, port))
        except OSError as error:
            raise InvalidInput(
                f"cannot listen on {host}:{port}: {error.strerror or error}",
                mend="is another server running? --port 0 chooses a free port",
            ) from error
        self.host, self.port = host, int(self._socket.getsockname()[1])
        self.loop = asyncio.new_event_loop()
        self._ending = asyncio.Event()
        self._thread = threading.Thread(
            target=self._live, name="forewarn-stand-in", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stops the server and closes all connections; may be called more than once."""
        with contextlib.suppress(RuntimeError):  # the loop is already closed
            self.loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()

    def _live(self) -> None:
        with contextlib.closing(self.loop):
            self.loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        server = await self.loop.create_server(lambda: _Line(self), sock=self._socket)
        await self._ending.wait()
        # A connection that is being accepted while the server closes would stay open.
        while accepting := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(accepting)
        server.close()
        for line in self.lines:
            line.close()
        await asyncio.sleep(0)  # until the connections are closed


class _Line(asyncio.Protocol):
    """A client connection with its readers and writers."""

    def __init__(self, server: BridgeServer) -> None:
        self._server, self._codec = server, server.codec
        self._parts = self._codec.Reassembly()
        self._lock = threading.Lock()
        self._pending = 0
        self._leave: dict[str, Callable[[], None]] = {}
        self._types: set[str] = set()
        self._writers: set[str] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101
        self._transport = transport
        if len(self._server.lines) >= _CONNECTIONS:
            self.close()
            return
        self._server.connections += 1
        self._server.lines.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.losses += exc is not None
        self._server.lines.discard(self)
        for leave in self._leave.values():
            leave()

    def close(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._parts.feed(data):
                self._handle(frame)
        except InvalidInput:
            self._server.losses += 1
            self.close()

    def _handle(self, frame: Any) -> None:
        codec = self._codec
        match frame:
            case codec.Register(files):
                for file in files:
                    self._types |= _message_types(file)
            case codec.AddReader(channel, _):
                if channel not in self._leave:
                    self._leave[channel] = self._server.cyber.read(
                        channel, lambda data: self._put(channel, data)
                    )
            case codec.AddWriter(channel, kind):
                if kind in self._types:
                    self._writers.add(channel)
            case codec.Publish(channel, message):
                if channel in self._writers:
                    self._server.cyber.publish(channel, message)

    def _put(self, channel: str, data: bytes) -> None:
        """Queues a message, from any thread."""
        frame = self._codec.encode(self._codec.Publish(channel, data))
        with self._lock:
            if self._pending + len(frame) > PENDING_LIMIT:
                self._server.dropped += 1
                return
            self._pending += len(frame)
        self._server.loop.call_soon_threadsafe(self._send, frame)

    def _send(self, frame: bytes) -> None:
        with self._lock:
            self._pending -= len(frame)
        if self._transport.get_write_buffer_size() + len(frame) > PENDING_LIMIT:
            self._server.dropped += 1
        else:
            self._transport.write(frame)


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
