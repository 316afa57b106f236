"""Streams: a client connects, names the stream, and is sent its frames."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable
from typing import Final

from forewarn.plugins.carla.standin.rpc import Guests, keep_alive

UNREAD: Final = 8 << 20
"""Bytes that wait for a reader; one who lets more wait misses frames."""

_COMES_S: Final = 2.0
_SIZE = struct.Struct("<I")


class Streams:
    """All streams and who reads them.

    Args:
        first: What a new reader of a stream is sent at once; empty for nothing, none
            if there is no such stream.
    """

    def __init__(self, first: Callable[[int], bytes | None]) -> None:
        self.first = first
        self.readers = Guests()
        self._of: dict[int, list[Reader]] = {}
        self._awaited: dict[int, tuple[float, list[bytes]]] = {}

    def expect(self, stream: int) -> None:
        """Somebody has asked for the way to a stream, and is about to read it.

        Until then its frames are kept: a client that listens and ticks at once would
        else miss the first ones.
        """
        if not self._of.get(stream):
            self._awaited[stream] = time.monotonic() + _COMES_S, []

    def read(self, stream: int) -> bool:
        """Whether anybody reads the stream, or is about to."""
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
        """Ends a stream; its readers are let go."""
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
    """One reader of one stream."""

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
            return  # There is nothing more for a reader to say.
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
