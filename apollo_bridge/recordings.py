"""Reads and writes Apollo's .record files, and converts them to signals."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from forewarn.abstractions.errors import InvalidInput, InvalidTrace, MissingDependency
from forewarn.abstractions.frame import Frame
from forewarn.apollo_bridge.channels import INPUTS, ROUTING, Channel, Messages
from forewarn.apollo_bridge.maps import RoadMap
from forewarn.apollo_bridge.scene import Body
from forewarn.apollo_bridge.sense import ApolloSenses, provided
from forewarn.apollo_bridge.wire import stamp

_SECTION = struct.Struct("<iiq")
_HEADER_BYTES = 2048
_SIZE_FIELD = 12
_HEADER, _CHUNK_HEADER, _CHUNK_BODY, _INDEX, _CHANNEL = range(5)
_LONGEST = 256 << 20
"""Maximum size in bytes of a message or channel description."""

_NAME_LIMIT = 4096


class RecordedMessage(NamedTuple):
    """A recorded message: its channel, the time of recording, and its bytes."""

    channel: str
    time_ns: int
    content: bytes


class CutRecord(InvalidTrace):
    """The record ends in the middle of a section."""


def read_record(
    path: Path, channels: Collection[str] | None = None
) -> Iterator[RecordedMessage]:
    """Yields the messages of a record in the order in which they were written.

    Args:
        path: The file.
        channels: The channels to read; None for all.

    Raises:
        InvalidTrace: The file is not a record, or is damaged.
    """
    for kind, size, file in _sections(path):
        if kind == _CHUNK_BODY:
            yield from _messages(_Reading(file, size, path), channels)


def record_channels(path: Path) -> dict[str, str]:
    """Returns the message type of each channel of a record."""
    found: dict[str, str] = {}
    try:
        for kind, size, file in _sections(path):
            if kind == _CHANNEL:
                reading = _Reading(file, size, path)
                fields = dict(_fields(reading, size, wanted=(1, 2)))
                found[_name(fields.get(1), reading)] = _name(fields.get(2), reading)
    except CutRecord:
        pass  # keep the channels read before the end
    return found


def write_record(path: Path, said: Iterable[tuple[str, Any, int]]) -> int:
    """Writes messages with channels and times in nanoseconds; returns their number."""
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
    """Yields each section's kind and size, and the file positioned at the content."""
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
                raise CutRecord(
                    "the file is truncated", source=str(path), place=f"byte {at}"
                )
            kind, _, size = _SECTION.unpack(head)
            if (at == 0) != (kind == _HEADER) or not _HEADER <= kind <= _CHANNEL:
                problem = (
                    "the file is not an Apollo record"
                    if at == 0
                    else "this is not a valid section"
                )
                raise InvalidTrace(problem, source=str(path), place=f"byte {at}")
            begin = at + _SECTION.size
            if kind == _HEADER:
                whole = _whole_size(_Reading(file, min(size, _HEADER_BYTES), path))
                at = begin + _HEADER_BYTES
            elif not 0 <= size <= end - begin:
                raise CutRecord(
                    "the file is truncated or damaged",
                    source=str(path),
                    place=f"byte {at}",
                )
            else:
                yield kind, size, file
                at = begin + size
            file.seek(at)
        if at == 0 or at > end or whole > end:
            raise CutRecord(
                "the file is truncated", source=str(path), place=f"byte {end}"
            )


def _whole_size(reading: _Reading) -> int:
    """Returns the size stated in the record's header; 0 if the recorder was killed."""
    sizes = [v for f, v in _fields(reading, reading.left, ()) if f == _SIZE_FIELD]
    return sizes[-1] if sizes and isinstance(sizes[-1], int) else 0


class _Reading:
    """Reads a section of a record sequentially."""

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
            raise CutRecord("the file is truncated", source=str(self._path))
        self.left -= count
        return data

    def skip(self, count: int) -> None:
        if not 0 <= count <= self.left:
            raise self.broken("a message is longer than its section")
        self._file.seek(count, 1)
        self.left -= count

    def number(self) -> int:
        """Reads a protobuf varint."""
        value = 0
        for shift in range(0, 70, 7):
            byte = self.bytes(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise self.broken("a protobuf number has more than 10 bytes")


def _messages(
    reading: _Reading, channels: Collection[str] | None
) -> Iterator[RecordedMessage]:
    """Yields the messages of a chunk's body, which consists of a repeated field 1."""
    while reading.left > 0:
        tag = reading.number()
        if tag != (1 << 3 | 2):
            raise reading.broken("there is no message at this position")
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
            yield RecordedMessage(channel, time_ns, content)


def _fields(
    reading: _Reading,
    size: int,
    wanted: Collection[int],
    channels: Collection[str] | None = None,
) -> Iterator[tuple[int, int | bytes]]:
    """Yields the number and value of each field of a protobuf message.

    Reading stops after the channel's name if the channel is not in `channels`.
    """
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
            raise reading.broken("a message contains an invalid field")
    if reading.left < end:
        raise reading.broken("a message is longer than its stated size")


def _name(value: int | bytes | None, reading: _Reading) -> str:
    if not isinstance(value, bytes) or len(value) > _NAME_LIMIT:
        raise reading.broken("the name of a channel is missing or too long")
    return value.decode(errors="replace")


PIVOT = "localization"

_BACK_S = 1.0
_NEARLY = 0.9


class RecordedDrive:
    """Computes frames from a record. Only the newest message of each input is decoded.

    `provides` lists the signals that can be computed from the record's channels.
    `faults` counts the frames whose messages contained invalid values; `fault`
    describes the invalid value in the current frame, if any.

    Args:
        path: The `.record` file.
        messages: The message classes of the edition.
        road_map: Apollo's map.
        body: The car's dimensions.
        told: The values of signals that no channel provides, by signal.
        period_s: The time between two frames in seconds.
    """

    def __init__(
        self,
        path: Path,
        messages: Messages,
        road_map: RoadMap,
        *,
        body: Body | None = None,
        told: Mapping[str, Any] | None = None,
        period_s: float = 0.1,
    ) -> None:
        self._path, self._messages, self._period_s = path, messages, period_s
        there = record_channels(path)
        wanted = {**INPUTS, "routing": ROUTING}
        self.channels = {n: c for n, c in wanted.items() if c.name in there}
        for name in (PIVOT, "chassis"):
            if name not in self.channels:
                raise InvalidInput(
                    f"the record does not contain the channel {INPUTS[name].name}",
                    source=str(path),
                    mend="create the record with `forewarn apollo record`",
                )
        for channel in self.channels.values():
            if there[channel.name] != channel.type:
                raise InvalidInput(
                    f"the messages on {channel.name} have the type "
                    f"{there[channel.name]:.80} instead of {channel.type}",
                    source=str(path),
                )
        inputs = [name for name in INPUTS if name in self.channels]
        self.provides = provided(inputs, told or {})
        self._senses = ApolloSenses(road_map, body, told, period_s)
        self.faults, self.fault = 0, ""

    def frames(self) -> Iterator[Frame]:
        """Yields the frames, each at the first localization message of a period.

        Messages that were recorded at the same time belong to the frame, in any order.
        """
        newest = _Newest(self._messages, self.channels, str(self._path))
        names = {channel.name: name for name, channel in self.channels.items()}
        self._senses.reset()
        self.faults, self.fault = 0, ""
        begun_s, last_s = math.nan, -math.inf
        sequence = due = 0
        pending: tuple[float, int] | None = None
        for said in read_record(self._path, names):
            if pending is not None and said.time_ns > pending[1]:
                yield self._frame(pending[0], begun_s, sequence, newest)
                sequence, pending = sequence + 1, None
            name = names[said.channel]
            newest.keep(name, said)
            if name != PIVOT:
                continue
            now_s = newest.time_s(PIVOT)
            begun_s = now_s if math.isnan(begun_s) else begun_s
            if now_s < last_s - _BACK_S:
                raise InvalidTrace(
                    f"{last_s - begun_s:.3f} s after the start of the record, Apollo's "
                    "clock jumps back",
                    source=str(self._path),
                )
            if now_s >= begun_s + due * self._period_s - 1e-6 and now_s > last_s:
                if pending is not None:
                    yield self._frame(pending[0], begun_s, sequence, newest)
                    sequence += 1
                pending, last_s = (now_s, said.time_ns), now_s
                passed = math.floor((now_s - begun_s) / self._period_s + 1e-6)
                due = max(due, passed) + 1
        if pending is not None:
            yield self._frame(pending[0], begun_s, sequence, newest)

    def _frame(
        self, now_s: float, begun_s: float, sequence: int, newest: _Newest
    ) -> Frame:
        values = self._values(now_s, newest)
        return Frame(round(now_s - begun_s, 6), sequence, values)

    def steady(self) -> tuple[str, ...]:
        """Returns the signals that at least 90 % of the frames contain.

        Only the frames after every input has arrived are counted.
        """
        known: Counter[str] = Counter()
        count = 0
        ages = {f"{name}_age" for name in self.channels if name in INPUTS}
        for frame in self.frames():
            if ages <= frame.values.keys():
                count += 1
                known.update(frame.values.keys())
        return tuple(n for n in self.provides if known[n] >= _NEARLY * count > 0)

    def _values(self, now_s: float, newest: _Newest) -> dict[str, Any]:
        values = self._senses.values(now_s, newest.messages())
        self.fault = self._senses.fault
        self.faults += bool(self.fault)
        for name in self.channels:
            if name in INPUTS and name in newest:
                age_s = max(0.0, now_s - newest.time_s(name))
                values[f"{name}_age"] = round(age_s, 4)
        return values


class _Newest:
    """The newest message of each input, decoded on demand."""

    def __init__(
        self, messages: Messages, channels: Mapping[str, Channel], source: str
    ) -> None:
        self._types = {n: messages[c.type] for n, c in channels.items()}
        self._source = source
        self._said: dict[str, RecordedMessage] = {}
        self._read: dict[str, Any] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._said

    def keep(self, name: str, said: RecordedMessage) -> None:
        self._said[name] = said
        self._read.pop(name, None)

    def messages(self) -> dict[str, Any]:
        return {name: self._message(name) for name in self._said}

    def time_s(self, name: str) -> float:
        """Returns the time at which a message was created or, if unknown, recorded."""
        stamped = stamp(self._message(name))
        return self._said[name].time_ns / 1e9 if stamped is None else stamped

    def _message(self, name: str) -> Any:
        from google.protobuf.message import DecodeError

        known = self._read.get(name)
        if known is None:
            said = self._said[name]
            try:
                known = self._types[name].FromString(said.content)
            except DecodeError as error:
                raise InvalidTrace(
                    f"a message on {said.channel} cannot be decoded",
                    source=self._source,
                    place=f"{said.time_ns} ns",
                ) from error
            self._read[name] = known
        return known
