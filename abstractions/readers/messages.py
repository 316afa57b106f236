"""Logs of messages: MCAP files with JSON, and ROS 2 bags.

Whatever a file says of its own size, no more of it is unpacked than we hold.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import (
    InvalidTrace,
    MissingDependency,
    TooLarge,
    near_miss,
)
from forewarn.abstractions.files import parse_json, read_yaml
from forewarn.abstractions.readers.lines import MAX_BYTES, MAX_LINE, MAX_LINES

Telling = tuple[int, str, Any]
"""When a message was written, in nanoseconds, on which topic, and the message."""

MAX_CHUNK = 64 * 1024**2
"""What a chunk of an MCAP file may hold once it is unpacked."""

_METADATA = "metadata.yaml"


def is_bag(path: Path) -> bool:
    """Whether a folder is a ROS 2 bag."""
    return (path / _METADATA).is_file()


def messages(path: Path, topics: set[str]) -> Iterator[Telling]:
    """The messages on these topics, in the order in which they were written."""
    if path.suffix == ".mcap" and (told := _json(path, topics)) is not None:
        return iter(told)
    return _bag(path, topics)


def _json(path: Path, topics: set[str]) -> list[Telling] | None:
    """Those of an MCAP file that speaks JSON; None for one that does not."""
    from mcap.records import Channel, Message

    channels: dict[int, Any] = {}
    told: list[Telling] = []
    count = 0
    for record in _records(path):
        if isinstance(record, Channel):
            channels[record.id] = record
        elif isinstance(record, Message):
            channel = channels.get(record.channel_id)
            if channel is None or channel.message_encoding != "json":
                continue
            _check(count := count + 1, MAX_LINES, "messages", path)
            if channel.topic in topics:
                _check(len(record.data), MAX_LINE, "bytes in a message", path)
                said = parse_json(record.data.decode(), str(path), channel.topic)
                told.append((record.log_time, channel.topic, said))
    if any(each.message_encoding == "json" for each in channels.values()):
        return sorted(told, key=lambda telling: telling[0])
    return None


def _records(path: Path) -> Iterator[Any]:
    """What an MCAP file holds, chunk by chunk."""
    try:
        from mcap.records import Chunk
        from mcap.stream_reader import StreamReader, breakup_chunk
    except ImportError as error:
        raise MissingDependency("mcap", "logs") from error
    size = 0
    with path.open("rb") as stream:
        reader = StreamReader(stream, emit_chunks=True, record_size_limit=MAX_BYTES)
        for record in reader.records:
            if not isinstance(record, Chunk):
                yield record
                continue
            record.data = _unpacked(record.compression, record.data)
            record.compression = ""
            _check(len(record.data), MAX_CHUNK, "bytes in a chunk", path)
            _check(size := size + len(record.data), MAX_BYTES, "bytes", path)
            yield from breakup_chunk(record)


def _unpacked(packing: str, data: bytes) -> bytes:
    """A chunk's bytes, or a few more than it may hold."""
    if packing == "zstd":
        from zstandard import ZstdDecompressor

        return ZstdDecompressor().stream_reader(data).read(MAX_CHUNK + 1)
    if packing == "lz4":
        from lz4.frame import LZ4FrameDecompressor

        found: bytes = LZ4FrameDecompressor().decompress(data, MAX_CHUNK + 1)
        return found
    return data


def _check(count: int, most: int, what: str, path: Path) -> None:
    if count > most:
        raise TooLarge(
            f"more than {most} {what}",
            source=str(path),
            mend="split it into several logs",
        )


def _bag(path: Path, topics: set[str]) -> Iterator[Telling]:
    try:
        from rosbags.highlevel import AnyReader
        from rosbags.typesys import Stores, get_typestore
    except ImportError as error:
        raise MissingDependency("rosbags", "logs") from error
    whole = path.parent if path.suffix == ".db3" else path
    _look_into(whole)
    with AnyReader(
        [whole], default_typestore=get_typestore(Stores.ROS2_HUMBLE)
    ) as reader:
        known = {each.topic for each in reader.connections}
        if lacking := sorted(topics - known):
            raise InvalidTrace(
                f"no topic {lacking[0]}", source=str(path),
                mend=near_miss(lacking[0], known) or f"it has {', '.join(known)}",
            )  # fmt: skip
        used = [each for each in reader.connections if each.topic in topics]
        for connection, at_ns, raw in reader.messages(used):
            message = reader.deserialize(raw, connection.msgtype)
            yield at_ns, connection.topic, message


def _look_into(bag: Path) -> None:
    """Refuses what unfolds without end; rosbags takes a bag at its word."""
    if bag.is_dir():
        said = read_yaml(bag / _METADATA)
        facts = said.get("rosbag2_bagfile_information") if isinstance(said, dict) else 0
        packing = facts.get("compression_mode") if isinstance(facts, dict) else ""
        if str(packing or "none").lower() != "none":
            raise InvalidTrace(
                "a bag that is packed is not read",
                source=str(bag),
                mend="unpack it: `ros2 bag convert`, with compression_mode none",
            )
    for path in bag.iterdir() if bag.is_dir() else [bag]:
        if path.suffix == ".mcap":
            for _ in _records(path):
                pass
        elif path.suffix == ".db3":
            _only_tables(path)


def _only_tables(path: Path) -> None:
    """A view can say that it has rows without end."""
    with closing(
        sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    ) as db:
        kinds = db.execute("SELECT type, sql FROM sqlite_master").fetchall()
    for kind, sql in kinds:
        if kind not in ("table", "index") or "VIRTUAL" in str(sql).upper():
            raise InvalidTrace("it holds more than tables", source=str(path))
