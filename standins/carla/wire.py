"""The protocols of CARLA's two ports: msgpack-RPC for calls, and streams of frames.

A request is `[0, id, name, [metadata, argument, ...]]`, a notification `[2, name,
[...]]`, a response `[1, id, error, result]`. On the port for streams, a client sends
the id of a stream and receives the stream's frames.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from forewarn import MissingDependency

try:
    import msgpack
except ImportError as error:
    raise MissingDependency("CARLA's protocol", "carla") from error

LONGEST: Final = 16 << 20
"""Maximum size in bytes of a message, and of the answers that a client has not yet
read.
"""

CONNECTIONS: Final = 256

Answer = Callable[[str, list[Any]], tuple[str | None, Any]]
"""Carries out a call, given its name and arguments; returns an error or None, and the
result.
"""

_LIMITS = {
    "max_buffer_size": LONGEST,
    "max_str_len": LONGEST,
    "max_bin_len": LONGEST,
    "max_array_len": 1 << 20,
    "max_map_len": 0,
    "max_ext_len": 0,
}


def packed(value: object) -> bytes:
    """Encodes a value as msgpack."""
    body: bytes = msgpack.packb(value, unicode_errors="surrogateescape")
    return body


class Guests:
    """The open connections. If there are too many connections, the oldest one that has
    sent no valid data is closed.

    A genuine client sends data immediately; any other peer may send nothing.
    """

    def __init__(self) -> None:
        self._strange: dict[Guest, bool] = {}

    def __iter__(self) -> Iterator[Guest]:
        return iter(tuple(self._strange))

    def come(self, guest: Guest) -> bool:
        """Adds a connection; returns False if there are too many connections."""
        if len(self._strange) >= CONNECTIONS:
            oldest = next((g for g, strange in self._strange.items() if strange), None)
            if oldest is None:
                return False
            self.leave(oldest)
            oldest.close()
        self._strange[guest] = True
        return True

    def speaks(self, guest: Guest) -> None:
        """Marks a connection as that of a genuine client, because it has sent valid
        data.
        """
        if guest in self._strange:
            self._strange[guest] = False

    def leave(self, guest: Guest) -> None:
        self._strange.pop(guest, None)


class Guest(Protocol):
    """A connection that can be closed."""

    def close(self) -> None: ...


class Caller(asyncio.Protocol):
    """A client's connection for calls, which is closed if the client sends invalid
    data.
    """

    def __init__(self, answer: Answer, callers: Guests) -> None:
        self._answer = answer
        self._callers = callers
        self._unpacker = msgpack.Unpacker(
            raw=False, unicode_errors="surrogateescape", **_LIMITS
        )
        self._packer = msgpack.Packer(unicode_errors="surrogateescape")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101
        self._transport = transport
        if self._callers.come(self):
            keep_alive(transport)
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._callers.leave(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._unpacker.feed(data)
            for message in self._unpacker:
                self._take(message)
        except (ValueError, TypeError, RecursionError, msgpack.UnpackException):
            self.close()

    def _take(self, message: Any) -> None:
        kind, *rest = message
        if kind == 0:
            number, name, parameters = rest
        elif kind == 2:
            name, parameters = rest
            number = None
        else:
            raise ValueError("not a call")
        if not isinstance(name, str) or not isinstance(parameters, list):
            raise ValueError("not a call")
        self._callers.speaks(self)
        error, result = self._answer(name, parameters[1:])
        if number is not None:
            self._transport.write(self._packer.pack([1, number, error, result]))
            if self._transport.get_write_buffer_size() > LONGEST:
                self.close()

    def close(self) -> None:
        self._transport.abort()


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Turns on TCP keep-alive, which closes a connection whose peer has vanished."""
    line = transport.get_extra_info("socket")
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("KEEPIDLE", 20), ("KEEPINTVL", 5), ("KEEPCNT", 4)):
        if hasattr(socket, f"TCP_{option}"):
            line.setsockopt(socket.IPPROTO_TCP, getattr(socket, f"TCP_{option}"), value)


UNREAD: Final = 8 << 20
"""Maximum number of unread bytes per reader; a reader that exceeds it misses frames."""

_EXPECTED_S: Final = 2.0
_SIZE = struct.Struct("<I")


class Streams:
    """All streams and their readers.

    Args:
        first: Returns the data (possibly empty) that a new reader of a stream receives
            first, or None if the stream does not exist.
    """

    def __init__(self, first: Callable[[int], bytes | None]) -> None:
        self.first = first
        self.readers = Guests()
        self._of: dict[int, list[Reader]] = {}
        self._awaited: dict[int, tuple[float, list[bytes]]] = {}

    def expect(self, stream: int) -> None:
        """Buffers the frames of a stream for a client that has asked for the stream's
        token.

        Without the buffer, a client that ticks right after it starts to listen would
        miss the first frames.
        """
        if not self._of.get(stream):
            self._awaited[stream] = time.monotonic() + _EXPECTED_S, []

    def read(self, stream: int) -> bool:
        """Whether a stream has a reader or expects one."""
        if self._of.get(stream):
            return True
        awaited = self._awaited.get(stream)
        if awaited is not None and time.monotonic() > awaited[0]:
            del self._awaited[stream]
            return False
        return awaited is not None

    def send(self, stream: int, *parts: bytes) -> None:
        readers = self._of.get(stream)
        size = sum(map(len, parts))
        if readers:
            frame = b"".join((_SIZE.pack(size), *parts))
            for reader in readers:
                reader.send(frame)
        elif stream in self._awaited and self.read(stream):
            kept = self._awaited[stream][1]
            if sum(map(len, kept)) + size <= UNREAD:
                kept.append(b"".join((_SIZE.pack(size), *parts)))

    def end(self, stream: int) -> None:
        """Ends a stream and disconnects its readers."""
        self._awaited.pop(stream, None)
        for reader in self._of.pop(stream, []):
            reader.close()

    def join(self, stream: int, reader: Reader) -> bool:
        body = self.first(stream)
        if body is None:
            return False
        self._of.setdefault(stream, []).append(reader)
        if body:
            reader.send(_SIZE.pack(len(body)) + body)
        for frame in self._awaited.pop(stream, (0.0, []))[1]:
            reader.send(frame)
        return True

    def leave(self, stream: int, reader: Reader) -> None:
        readers = self._of.get(stream, [])
        if reader in readers:
            readers.remove(reader)
        if not readers:
            self._of.pop(stream, None)


class Reader(asyncio.Protocol):
    """The connection of a client that reads a stream."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._data = b""
        self._stream: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101
        self._transport = transport
        if self._streams.readers.come(self):
            keep_alive(transport)
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._streams.readers.leave(self)
        if self._stream is not None:
            self._streams.leave(self._stream, self)

    def data_received(self, data: bytes) -> None:
        if self._stream is not None:
            return  # a reader sends nothing after the stream's id
        self._data += data
        if len(self._data) >= _SIZE.size:
            (stream,) = _SIZE.unpack_from(self._data)
            self._data = b""
            if self._streams.join(stream, self):
                self._stream = stream
                self._streams.readers.speaks(self)
            else:
                self.close()

    def send(self, frame: bytes) -> None:
        if self._transport.get_write_buffer_size() <= UNREAD:
            self._transport.write(frame)

    def close(self) -> None:
        self._transport.abort()
