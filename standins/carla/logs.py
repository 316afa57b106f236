"""Reads and writes CARLA's recorder logs.

A log consists of a header and frames of little-endian packets. Positions are in
centimetres, rotations are roll, pitch and yaw in degrees, and actors have the ids of
the recorded run. A log is untrusted input: it is checked before use, and an error
message contains the position of the error.
"""

from __future__ import annotations

import math
import os
import stat
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from forewarn.standins.carla.actors import Pose, Refusal, number

LARGEST: Final = 512 << 20
"""Maximum size of a log in bytes, enough for several hours of a busy town."""

START, END, ADDED, REMOVED, POSITIONS, LIGHTS, PEDALS, LAMPS = 0, 1, 2, 3, 6, 7, 8, 10

OTHER, VEHICLE, WALKER, TRAFFIC_LIGHT, TRAFFIC_SIGN, SENSOR = range(6)
"""The kinds of actors."""

_MAGIC = "CARLA_RECORDER"
_VERSION = 1
_MOST_PACKETS = 4_000_000
_MOST_BYTES = 16 << 20  # per packet
_HEAD, _PACKET, _FRAME = (
    struct.Struct("<q"),
    struct.Struct("<BI"),
    struct.Struct("<Q2d"),
)
_COUNT = struct.Struct("<H")
_ADDED, _NUMBER = struct.Struct("<IB6f"), struct.Struct("<I")
_RECORDS: Final[Mapping[int, struct.Struct]] = {
    kind: struct.Struct(shape)
    for kind, shape in {
        REMOVED: "<I",  # actor
        POSITIONS: "<I6f",  # actor, place, rotation
        LIGHTS: "<I?fB",  # actor, frozen, time in this colour, colour
        PEDALS: "<I3f?i",  # actor, steer, throttle, brake, hand brake, gear
        LAMPS: "<II",  # actor, bits
    }.items()
}


class BadLog(Refusal):
    """A file is not a recorder log, or the log is incomplete."""


@dataclass(frozen=True, slots=True)
class Added:
    """The record of an actor that was added to the world."""

    number: int
    kind: int
    at: Pose
    blueprint: int
    name: str
    attributes: tuple[tuple[int, str, str], ...]


@dataclass(slots=True)
class Frame:
    """The packets of one tick, by kind."""

    number: int
    lasts_s: float
    elapsed_s: float
    packets: dict[int, bytes] = field(default_factory=dict)

    def records(self, kind: int) -> list[tuple[Any, ...]]:
        """Returns the records in a packet of this kind; empty if the frame has no such
        packet.
        """
        body = self.packets.get(kind)
        if body is None:
            return []
        shape = _RECORDS[kind]
        count = _count(body)
        end = _COUNT.size + count * shape.size
        if end > len(body):
            raise BadLog(f"frame {self.number}: packet {kind} is too short")
        return list(shape.iter_unpack(body[_COUNT.size : end]))

    def added(self) -> Iterator[Added]:
        body = self.packets.get(ADDED)
        if body is None:
            return
        parts = _Parts(body)
        for _ in range(parts.take(_COUNT)[0]):
            number, kind, *place = parts.take(_ADDED)
            (blueprint,) = parts.take(_NUMBER)
            name = parts.text()
            attributes = tuple(
                (parts.take(_BYTE)[0], parts.text(), parts.text())
                for _ in range(parts.take(_COUNT)[0])
            )
            yield Added(number, kind, pose(place), blueprint, name, attributes)


_BYTE, _TIME = struct.Struct("<B"), struct.Struct("<d")


class _Parts:
    """Reads the fields of a packet one after another."""

    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0

    def take(self, shape: struct.Struct) -> tuple[Any, ...]:
        try:
            found = shape.unpack_from(self._body, self._at)
        except struct.error:
            raise BadLog("the packet of a new actor is too short") from None
        self._at += shape.size
        return found

    def text(self) -> str:
        (length,) = self.take(_COUNT)
        raw = self._body[self._at : self._at + length]
        if len(raw) < length:
            raise BadLog("the packet of a new actor is too short")
        self._at += length
        return raw.decode("utf-8", "replace")


def _count(body: bytes) -> int:
    if len(body) < _COUNT.size:
        raise BadLog("a packet is too short to contain the number of its records")
    return int(_COUNT.unpack_from(body)[0])


def pose(place: Iterable[float]) -> Pose:
    """Converts a pose from the units of a log to metres."""
    x, y, z, roll, pitch, yaw = (number(value) for value in place)
    return x / 100.0, y / 100.0, z / 100.0, pitch, yaw, roll


# -- reading --------------------------------------------------------------------------


class Log:
    """A log that has been checked. Use the log in a `with` statement, or call `close`.

    Args:
        path: The path of the log, which must be a regular file; symbolic links are
            rejected.

    Raises:
        FileNotFoundError: The file does not exist.
        BadLog: The file is not a log, or the log is incomplete.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)
        flags |= getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        try:
            self._file: BinaryIO = os.fdopen(os.open(path, flags), "rb")
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._bad(
                error.strerror or "the recording cannot be opened"
            ) from None
        try:
            facts = os.fstat(self._file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise self._bad("the recording is not a regular file")
            if facts.st_size > LARGEST:
                raise self._bad(f"the recording is larger than {LARGEST >> 20} MiB")
            self._size = facts.st_size
            self._read_head()
            self._begin = self._file.tell()
            self.frames, self.duration_s = 0, 0.0
            self._look_through()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[Frame]:
        self._file.seek(self._begin)
        frame: Frame | None = None
        for kind, size in self._packets():
            body = self._file.read(size)
            if len(body) < size:
                raise self._bad("the recording became shorter while it was read")
            if kind == START:
                frame = Frame(*_FRAME.unpack(body))
            elif frame is not None and kind == END:
                yield frame
            elif frame is not None:
                frame.packets[kind] = body

    def _bad(self, problem: str) -> BadLog:
        return BadLog(f"{self.path.name}: {problem}")

    def _read_head(self) -> None:
        self.version = self._short()
        if self._text() != _MAGIC:
            raise self._bad("File is not a CARLA recorder")
        (self.date_s,) = _HEAD.unpack(self._exactly(_HEAD.size))
        self.map = self._text()

    def _exactly(self, size: int) -> bytes:
        body = self._file.read(size)
        if len(body) < size:
            raise self._bad("File is not a CARLA recorder: its header is too short")
        return body

    def _short(self) -> int:
        return int(_COUNT.unpack(self._exactly(_COUNT.size))[0])

    def _text(self) -> str:
        return self._exactly(self._short()).decode("utf-8", "replace")

    def _packets(self) -> Iterator[tuple[int, int]]:
        while head := self._file.read(_PACKET.size):
            if len(head) < _PACKET.size:
                raise self._torn("the header of a packet is truncated")
            kind, size = _PACKET.unpack(head)
            yield kind, size

    def _torn(self, problem: str) -> BadLog:
        return self._bad(
            f"the recording is damaged at byte {self._file.tell()}: {problem}"
        )

    def _look_through(self) -> None:
        """Checks the structure of packets and frames, and determines the duration."""
        inside, count = False, 0
        for kind, size in self._packets():
            count += 1
            if count > _MOST_PACKETS:
                raise self._bad(f"the recording has more than {_MOST_PACKETS} packets")
            if size > min(_MOST_BYTES, self._size - self._file.tell()):
                raise self._torn(f"a packet with {size} bytes is too large")
            if (kind == START) is inside or (kind == START and size != _FRAME.size):
                raise self._torn("a packet is not inside a frame")
            if kind == START:
                self._start(_FRAME.unpack(self._file.read(size)))
                inside = True
            else:
                inside = kind != END
                self._file.seek(size, os.SEEK_CUR)
        if inside:
            raise self._torn("the last frame is truncated")

    def _start(self, head: tuple[int, float, float]) -> None:
        elapsed = head[2]
        if not math.isfinite(elapsed) or elapsed < self.duration_s:
            raise self._torn(
                f"the frames are not in order: a frame at {elapsed:g} s follows one at "
                f"{self.duration_s:g} s"
            )
        self.frames, self.duration_s = self.frames + 1, elapsed


def part_of(log: Log, begin_s: float, lasts_s: float) -> tuple[float, float]:
    """Returns the start and end in seconds of the part to replay.

    A negative `begin_s` counts from the end of the log. If `lasts_s` is 0 or less, the
    part lasts until the end of the log.
    """
    if begin_s < 0.0:
        begin_s = max(0.0, log.duration_s + begin_s)
    return begin_s, begin_s + lasts_s if lasts_s > 0.0 else log.duration_s


# -- writing --------------------------------------------------------------------------


def is_log(path: Path) -> bool:
    """Whether a file starts with the signature of a log."""
    magic = _string(_MAGIC)
    with path.open("rb") as file:
        return file.read(_COUNT.size + len(magic))[_COUNT.size :] == magic


def head(map_name: str, date_s: int) -> bytes:
    """Returns the header of a log."""
    return b"".join(
        [_COUNT.pack(_VERSION), _string(_MAGIC), _HEAD.pack(date_s), _string(map_name)]
    )


def frame_start(which: int, elapsed_s: float) -> bytearray:
    """Returns the header of a frame whose duration is not yet known."""
    return bytearray(_packet(START, _FRAME.pack(which, -1.0, elapsed_s)))


def lasts(frame: bytearray, seconds: float) -> None:
    """Writes a frame's duration into its header."""
    _TIME.pack_into(frame, _PACKET.size + 8, seconds)


def frame_end() -> bytes:
    return _packet(END, b"")


def packet(kind: int, records: Iterable[tuple[Any, ...]]) -> bytes:
    shape = _RECORDS[kind]
    packed = [shape.pack(*record) for record in records]
    return _packet(kind, _COUNT.pack(len(packed)) + b"".join(packed))


def added_packet(actors: Iterable[Added]) -> bytes:
    parts: list[bytes] = []
    every = list(actors)
    for actor in every:
        parts.append(_ADDED.pack(actor.number, actor.kind, *place(actor.at)))
        parts.append(_NUMBER.pack(actor.blueprint) + _string(actor.name))
        parts.append(_COUNT.pack(len(actor.attributes)))
        for kind, name, value in actor.attributes:
            parts.append(_BYTE.pack(kind) + _string(name) + _string(value))
    return _packet(ADDED, _COUNT.pack(len(every)) + b"".join(parts))


def place(at: Pose) -> tuple[float, ...]:
    """Converts a pose to the units of a log."""
    x, y, z, pitch, yaw, roll = at
    return 100.0 * x, 100.0 * y, 100.0 * z, roll, pitch, yaw


def _packet(kind: int, body: bytes) -> bytes:
    return _PACKET.pack(kind, len(body)) + body


def _string(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")[:0xFFFF]
    return _COUNT.pack(len(raw)) + raw
