"""Encodes and decodes the frames of cyber_bridge, Apollo's TCP protocol.

Numbers are little endian. A frame consists of an operation (one byte) and its parts,
each preceded by its length (four bytes). Frames are not acknowledged. An unknown
operation ends the connection.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from forewarn.abstractions.errors import InvalidInput

LIMIT = 64 << 20
"""Maximum size of a frame in bytes; a planning message with debug data has several MB.
"""

_NAME_LIMIT = 4096
_FILES_LIMIT = 4096
_REGISTER, _ADD_READER, _ADD_WRITER, _PUBLISH = 1, 2, 3, 4
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Register:
    """Registers the file descriptors of messages, imported files first."""

    files: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class AddReader:
    """Subscribes to a channel."""

    channel: str
    type: str


@dataclass(frozen=True, slots=True)
class AddWriter:
    """Announces a channel for publishing; ignored unless the type is registered."""

    channel: str
    type: str


@dataclass(frozen=True, slots=True)
class Publish:
    """Publishes a message; used in both directions."""

    channel: str
    message: bytes


Frame = Register | AddReader | AddWriter | Publish


class BrokenStream(InvalidInput):
    """The data is not a valid frame, so the data after it cannot be interpreted."""


def encode(frame: Frame) -> bytes:
    """Encodes a frame as bytes."""
    match frame:
        case Register(files):
            head = bytes([_REGISTER]) + _LENGTH.pack(len(files))
            return head + b"".join(map(_part, files))
        case AddReader(channel, kind):
            return bytes([_ADD_READER]) + _part(channel.encode()) + _part(kind.encode())
        case AddWriter(channel, kind):
            return bytes([_ADD_WRITER]) + _part(channel.encode()) + _part(kind.encode())
        case Publish(channel, message):
            return bytes([_PUBLISH]) + _part(channel.encode()) + _part(message)


def _part(content: bytes) -> bytes:
    return _LENGTH.pack(len(content)) + content


class Reassembly:
    """Assembles frames from the chunks in which they arrive.

    Args:
        limit: The maximum size of a frame in bytes.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._data = bytearray()
        self._needs = 1

    def feed(self, data: bytes) -> list[Frame]:
        """Adds data; returns the frames that are now complete, in order.

        Raises:
            BrokenStream: The data is not a frame; the connection must be closed.
        """
        self._data += data
        frames: list[Frame] = []
        begin = 0
        while len(self._data) - begin >= self._needs:
            self._at = begin
            try:
                frames.append(self._frame())
            except _Incomplete:
                self._needs = self._at - begin
                break
            begin, self._needs = self._at, 1
        if begin:
            del self._data[:begin]
        return frames

    def _frame(self) -> Frame:
        begin = self._at
        self._take(1)
        match operation := self._data[begin]:
            case 1:
                count = self._number()
                if count > _FILES_LIMIT:
                    raise BrokenStream(
                        f"a frame has {count} descriptors, more than {_FILES_LIMIT}"
                    )
                return Register(tuple(self._bytes(begin) for _ in range(count)))
            case 2:
                return AddReader(self._name(), self._name())
            case 3:
                return AddWriter(self._name(), self._name())
            case 4:
                return Publish(self._name(), self._bytes(begin))
        raise BrokenStream(f"a frame has the unknown operation {operation}")

    def _take(self, count: int) -> None:
        """Advances by `count` bytes; raises `_Incomplete` if these bytes have not
        arrived.
        """
        self._at += count
        if self._at > len(self._data):
            raise _Incomplete

    def _number(self) -> int:
        self._take(4)
        number: int = _LENGTH.unpack_from(self._data, self._at - 4)[0]
        return number

    def _bytes(self, begin: int) -> bytes:
        length = self._number()
        if self._at - begin + length > self._limit:
            raise BrokenStream(f"a frame is longer than {self._limit} bytes")
        self._take(length)
        return bytes(memoryview(self._data)[self._at - length : self._at])

    def _name(self) -> str:
        length = self._number()
        if not 0 < length <= _NAME_LIMIT:
            raise BrokenStream(
                f"a name has {length} bytes instead of 1 to {_NAME_LIMIT}"
            )
        self._take(length)
        try:
            return self._data[self._at - length : self._at].decode()
        except UnicodeDecodeError:
            raise BrokenStream("a name is not UTF-8 text") from None


class _Incomplete(Exception):
    """The rest of a frame has not yet arrived. `_at` is the position up to which data
    is needed.
    """
