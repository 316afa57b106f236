"""Apollo's `.record` files: read as they stand, written with `cyber_record`.

A record is a row of sections, each behind its kind and size: a header, chunks of
messages, channels with their descriptors, an index. Reading goes through the sections
from the front and needs neither index nor descriptors, so a record whose writer was
killed is read as far as it goes. Only what is asked for is taken into memory.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from forewarn.abstractions.errors import InvalidTrace, MissingDependency

_SECTION = struct.Struct("<iiq")
_HEADER_BYTES = 2048
_SIZE_FIELD = 12
_HEADER, _CHUNK_HEADER, _CHUNK_BODY, _INDEX, _CHANNEL = range(5)
_LONGEST = 256 << 20
"""The longest single message or channel description that is read."""

_NAME_LIMIT = 4096


class Recorded(NamedTuple):
    """One message: its channel, when it was recorded, and its bytes."""

    channel: str
    time_ns: int
    content: bytes


class CutRecord(InvalidTrace):
    """A record that ends in the middle of something."""


def read_record(
    path: Path, channels: Collection[str] | None = None
) -> Iterator[Recorded]:
    """The messages of a record, in the order in which they were written.

    Args:
        path: The file.
        channels: Those that are wanted; None: all.

    Raises:
        InvalidTrace: It is no record, or is broken at some place.
    """
    for kind, size, file in _sections(path):
        if kind == _CHUNK_BODY:
            yield from _messages(_Reading(file, size, path), channels)


def record_channels(path: Path) -> dict[str, str]:
    """The channels of a record and the types of their messages."""
    found: dict[str, str] = {}
    try:
        for kind, size, file in _sections(path):
            if kind == _CHANNEL:
                reading = _Reading(file, size, path)
                fields = dict(_fields(reading, size, wanted=(1, 2)))
                found[_name(fields.get(1), reading)] = _name(fields.get(2), reading)
    except CutRecord:
        pass  # what was begun is there
    return found


def write_record(path: Path, said: Iterable[tuple[str, Any, int]]) -> int:
    """Writes messages with their channels and times in ns; gives their number."""
    try:
        from cyber_record.record import Record
    except ImportError as error:
        raise MissingDependency("writing Apollo's records", "apollo") from error
    count = 0
    with Record(str(path), "w") as record:
        for channel, message, time_ns in said:
            record.write(channel, message, time_ns)
            count += 1
    return count


# -- sections -------------------------------------------------------------------------


def _sections(path: Path) -> Iterator[tuple[int, int, BinaryIO]]:
    """Each section's kind and size, the file standing at its beginning."""
    try:
        file = path.open("rb")
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise InvalidTrace(problem, source=str(path)) from error
    with file:
        end = file.seek(0, 2)
        file.seek(0)
        at = whole = 0
        while at < end:
            head = file.read(_SECTION.size)
            if len(head) < _SECTION.size:
                raise CutRecord("it is cut", source=str(path), place=f"byte {at}")
            kind, _, size = _SECTION.unpack(head)
            if (at == 0) != (kind == _HEADER) or not _HEADER <= kind <= _CHANNEL:
                problem = "not a record of Apollo" if at == 0 else "no section of one"
                raise InvalidTrace(problem, source=str(path), place=f"byte {at}")
            begin = at + _SECTION.size
            if kind == _HEADER:
                whole = _whole_size(_Reading(file, min(size, _HEADER_BYTES), path))
                at = begin + _HEADER_BYTES
            elif not 0 <= size <= end - begin:
                raise CutRecord(
                    "it is cut, or broken", source=str(path), place=f"byte {at}"
                )
            else:
                yield kind, size, file
                at = begin + size
            file.seek(at)
        if at == 0 or at > end or whole > end:
            raise CutRecord("it is cut", source=str(path), place=f"byte {end}")


def _whole_size(reading: _Reading) -> int:
    """How long the record is, as its header says; 0 if its writer was killed."""
    sizes = [v for f, v in _fields(reading, reading.left, ()) if f == _SIZE_FIELD]
    return sizes[-1] if sizes and isinstance(sizes[-1], int) else 0


class _Reading:
    """A stretch of a file that is read from its beginning to its end."""

    def __init__(self, file: BinaryIO, size: int, path: Path) -> None:
        self._file, self.left, self._path = file, size, path

    def broken(self, problem: str) -> InvalidTrace:
        place = f"byte {self._file.tell()}"
        return InvalidTrace(problem, source=str(self._path), place=place)

    def bytes(self, count: int) -> bytes:
        if not 0 <= count <= min(self.left, _LONGEST):
            raise self.broken("a message is longer than its section")
        data = self._file.read(count)
        if len(data) < count:
            raise CutRecord("it is cut", source=str(self._path))
        self.left -= count
        return data

    def skip(self, count: int) -> None:
        if not 0 <= count <= self.left:
            raise self.broken("a message is longer than its section")
        self._file.seek(count, 1)
        self.left -= count

    def number(self) -> int:
        """A number of protobuf's, seven bits a byte."""
        value = 0
        for shift in range(0, 70, 7):
            byte = self.bytes(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise self.broken("a number has no end")


def _messages(
    reading: _Reading, channels: Collection[str] | None
) -> Iterator[Recorded]:
    """The messages of a chunk's body: its field 1, again and again."""
    while reading.left > 0:
        tag = reading.number()
        if tag != (1 << 3 | 2):
            raise reading.broken("not a message")
        size = reading.number()
        rest = reading.left - size
        if rest < 0:
            raise reading.broken("a message is longer than its section")
        channel, time_ns, content = "", 0, b""
        for field, value in _fields(reading, size, (1, 2, 3), channels):
            if field == 1:
                channel = _name(value, reading)
            elif field == 2 and isinstance(value, int):
                time_ns = value
            elif isinstance(value, bytes):
                content = value
        reading.skip(reading.left - rest)
        if channels is None or channel in channels:
            yield Recorded(channel, time_ns, content)


def _fields(
    reading: _Reading,
    size: int,
    wanted: Collection[int],
    channels: Collection[str] | None = None,
) -> Iterator[tuple[int, int | bytes]]:
    """The fields of one protobuf message; of unwanted channels only the first."""
    end = reading.left - size
    while reading.left > end:
        tag = reading.number()
        field, wire = tag >> 3, tag & 7
        if wire == 0:
            yield field, reading.number()
        elif wire == 2:
            length = reading.number()
            if length > reading.left - end:
                raise reading.broken("a field is longer than its message")
            if field not in wanted:
                reading.skip(length)
                continue
            value = reading.bytes(length)
            yield field, value
            if field == 1 and channels is not None:
                if value.decode(errors="replace") not in channels:
                    return
        elif wire in (1, 5):
            reading.skip(8 if wire == 1 else 4)
        else:
            raise reading.broken("not a field of a message")
    if reading.left < end:
        raise reading.broken("a message is longer than it says")


def _name(value: int | bytes | None, reading: _Reading) -> str:
    if not isinstance(value, bytes) or len(value) > _NAME_LIMIT:
        raise reading.broken("a channel has no name")
    return value.decode(errors="replace")
