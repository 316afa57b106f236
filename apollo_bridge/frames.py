"""The frames of cyber_bridge, Apollo's own TCP protocol.

Numbers are little endian. A frame is an operation, one byte, and its parts, each after
its length, four bytes. Nothing is acknowledged; the connection ends at an operation
that is unknown.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from forewarn.abstractions.errors import InvalidInput

LIMIT = 64 << 20
"""The longest frame in bytes; Apollo's planning with its debug part has several MB."""

_NAME_LIMIT = 4096
_FILES_LIMIT = 4096
_REGISTER, _ADD_READER, _ADD_WRITER, _PUBLISH = 1, 2, 3, 4
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Register:
    """Descriptors of messages, imported ones first."""

    files: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class AddReader:
    """Subscribes to a channel."""

    channel: str
    type: str


@dataclass(frozen=True, slots=True)
class AddWriter:
    """Announces a channel to publish on; ignored while the type is not registered."""

    channel: str
    type: str


@dataclass(frozen=True, slots=True)
class Publish:
    """A message, in either direction."""

    channel: str
    message: bytes


Frame = Register | AddReader | AddWriter | Publish


class BrokenStream(InvalidInput):
    """Bytes that are not a frame; nothing after them can be trusted."""


def encode(frame: Frame) -> bytes:
    """A frame as it travels."""
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
    """Assembles frames from the pieces in which they arrive.

    Args:
        limit: The length limit of a frame.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._data = bytearray()
        self._needs = 1

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are whole now, in their order.

        Raises:
            BrokenStream: The bytes are not frames; the connection must be closed.
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
                    raise BrokenStream(f"{count} descriptors in one frame")
                return Register(tuple(self._bytes(begin) for _ in range(count)))
            case 2:
                return AddReader(self._name(), self._name())
            case 3:
                return AddWriter(self._name(), self._name())
            case 4:
                return Publish(self._name(), self._bytes(begin))
        raise BrokenStream(f"{operation} is not a known operation")

    def _take(self, count: int) -> None:
        """Advances by this many bytes, all of which must be present."""
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
            raise BrokenStream(f"a name has {length} bytes")
        self._take(length)
        try:
            return self._data[self._at - length : self._at].decode()
        except UnicodeDecodeError:
            raise BrokenStream("a name is not UTF-8 text") from None


class _Incomplete(Exception):
    """The rest of the frame has not arrived yet; `_at` is the position that it must
    reach.
    """
