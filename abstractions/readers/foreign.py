"""Reads logs in foreign formats (Parquet tables, MCAP files and ROS 2 bags) as rows.

A log of messages is converted to a table. The table has one row for each message with a
requested field; a row contains the latest value of each field. Fields are written as
`/topic.field.field`. The column `time_s` is the time at which the message was written,
in seconds from the first message.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from forewarn.abstractions.dataset.pages import unpacked_bytes
from forewarn.abstractions.errors import (
    ForewarnError,
    InvalidTrace,
    MissingDependency,
    TooLarge,
    naming,
    near_miss,
    said,
)
from forewarn.abstractions.files import parse_json, read_yaml
from forewarn.abstractions.lines import (
    MAX_BYTES,
    MAX_LINE,
    MAX_LINES,
    MAX_VALUES,
    check_count,
)

Telling = tuple[int, str, Any]
"""The time in ns at which a message was written, its topic, and the message."""

MAX_CHUNK = 64 * 1024**2
"""The maximum size of a decompressed chunk of an MCAP file, in bytes."""

_METADATA = "metadata.yaml"


def is_bag(path: Path) -> bool:
    """Whether a folder is a ROS 2 bag."""
    return (path / _METADATA).is_file()


def messages(path: Path, topics: set[str]) -> Iterator[Telling]:
    """Yields the messages on these topics in the order in which they were written."""
    if path.suffix == ".mcap" and (told := _json(path, topics)) is not None:
        return iter(told)
    return _bag(path, topics)


def _json(path: Path, topics: set[str]) -> list[Telling] | None:
    """Returns the JSON messages of an MCAP file; None if the messages are not JSON."""
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
            _check(count := count + 1, MAX_LINES, "messages")
            if channel.topic in topics:
                _check(len(record.data), MAX_LINE, "bytes in a message")
                said = parse_json(record.data.decode(), str(path), channel.topic)
                told.append((record.log_time, channel.topic, said))
    if any(each.message_encoding == "json" for each in channels.values()):
        _check_topics(topics, {each.topic for each in channels.values()})
        return sorted(told, key=lambda telling: telling[0])
    return None


def _records(path: Path) -> Iterator[Any]:
    """Yields the records of an MCAP file, one chunk at a time."""
    try:
        from mcap.records import Chunk
        from mcap.stream_reader import StreamReader, breakup_chunk
    except ImportError as error:
        raise MissingDependency("reading MCAP files", "logs") from error
    size = 0
    with path.open("rb") as stream:
        reader = StreamReader(stream, emit_chunks=True, record_size_limit=MAX_BYTES)
        for record in reader.records:
            if not isinstance(record, Chunk):
                yield record
                continue
            record.data = _unpacked(record.compression, record.data)
            record.compression = ""
            _check(len(record.data), MAX_CHUNK, "bytes in a chunk")
            _check(size := size + len(record.data), MAX_BYTES, "bytes")
            yield from breakup_chunk(record)


def _unpacked(packing: str, data: bytes) -> bytes:
    """Decompresses a chunk, up to one byte more than the limit."""
    if packing == "zstd":
        from zstandard import ZstdDecompressor

        return ZstdDecompressor().stream_reader(data).read(MAX_CHUNK + 1)
    if packing == "lz4":
        from lz4.frame import LZ4FrameDecompressor

        found: bytes = LZ4FrameDecompressor().decompress(data, MAX_CHUNK + 1)
        return found
    return data


def _check(count: int, most: int, what: str) -> None:
    if count > most:
        mend = "split it into several logs"
        raise TooLarge(f"the log has more than {most} {what}", mend=mend)


def _bag(path: Path, topics: set[str]) -> Iterator[Telling]:
    try:
        from rosbags.highlevel import AnyReader
        from rosbags.typesys import Stores, get_typestore
    except ImportError as error:
        raise MissingDependency("reading ROS 2 bags", "logs") from error
    whole = path.parent if path.suffix == ".db3" else path
    _look_into(whole)
    with AnyReader(
        [whole], default_typestore=get_typestore(Stores.ROS2_HUMBLE)
    ) as reader:
        known = {each.topic for each in reader.connections}
        _check_topics(topics, known)
        used = [each for each in reader.connections if each.topic in topics]
        for connection, at_ns, raw in reader.messages(used):
            message = reader.deserialize(raw, connection.msgtype)
            yield at_ns, connection.topic, message


def _check_topics(topics: set[str], known: set[str]) -> None:
    if lacking := sorted(topics - known):
        mend = near_miss(lacking[0], known)
        mend = mend or f"its topics are {', '.join(sorted(known))}"
        problem = f"the log has no topic {lacking[0]}"
        raise InvalidTrace(problem, mend=mend)


def _look_into(bag: Path) -> None:
    """Rejects bags that could exceed the size limits, because rosbags trusts the sizes
    that a bag states.
    """
    if bag.is_dir():
        said = read_yaml(bag / _METADATA)
        facts = said.get("rosbag2_bagfile_information") if isinstance(said, dict) else 0
        packing = facts.get("compression_mode") if isinstance(facts, dict) else ""
        if str(packing or "none").lower() != "none":
            raise InvalidTrace(
                "compressed bags are not supported",
                mend="unpack the bag with `ros2 bag convert` and compression_mode none",
            )
    for path in bag.iterdir() if bag.is_dir() else [bag]:
        if path.suffix == ".mcap":
            for _ in _records(path):
                pass
        elif path.suffix == ".db3":
            _only_tables(path)


def _only_tables(path: Path) -> None:
    """Rejects databases with views or virtual tables, which could have endless rows."""
    with closing(
        sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    ) as db:
        kinds = db.execute("SELECT type, sql FROM sqlite_master").fetchall()
    for kind, sql in kinds:
        if kind not in ("table", "index") or "VIRTUAL" in str(sql).upper():
            raise InvalidTrace(
                "the database contains views or virtual tables, which are not "
                "supported",
            )


FOREIGN = {".parquet": "Parquet", ".mcap": "MCAP", ".db3": "bag"}

_MCAP = b"\x89MCAP"

Row = list[str]


def is_foreign(path: Path) -> bool:
    """Whether a path is a log in a foreign format: a file by suffix, a bag by
    content.
    """
    return path.suffix in FOREIGN or is_bag(path)


def foreign_rows(path: Path, wanted: Sequence[str]) -> Iterator[Row]:
    """Yields the column names, then the rows; an empty cell is an unknown value.

    Args:
        path: The path of the log.
        wanted: The requested fields; a Parquet table is always read with all columns.
    """
    with _of_others(path):
        if path.suffix == ".mcap" and not _begins(path, _MCAP):
            raise InvalidTrace(
                "this is not a valid MCAP file",
                mend="if it is a table in text form, rename it to end in .csv",
            )
        if path.suffix == ".parquet":
            yield from _table(path)
        else:
            yield from _told(path, [name for name in wanted if name.startswith("/")])


def _begins(path: Path, magic: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(magic)) == magic


def told_messages(path: Path, topics: set[str]) -> Iterator[Telling]:
    """Yields the messages of an MCAP file or a ROS 2 bag; converts errors to
    `InvalidTrace`.
    """
    with _of_others(path):
        yield from messages(path, topics)


@contextmanager
def _of_others(path: Path) -> Iterator[None]:
    """Rejects a log that is too large, and converts errors of third-party readers."""
    size = sum(p.stat().st_size for p in ([path] if path.is_file() else path.iterdir()))
    try:
        with naming(path):
            _check(size, MAX_BYTES, "bytes")
            yield
    except ForewarnError:
        raise
    except Exception as error:
        # Third-party readers raise many kinds of errors for a file in a wrong format.
        what = FOREIGN.get(path.suffix, "bag")
        raise InvalidTrace(
            f"this is not a valid {what} file: {str(error) or said(error):.120}",
            source=str(path),
            mend="copy the file again, or correct its file extension",
        ) from error


def _table(path: Path) -> Iterator[Row]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingDependency("reading Parquet files", "fleet") from error
    with parquet.ParquetFile(path) as looked:
        facts, schema = looked.metadata, looked.schema_arrow
    check_count(path, facts.num_rows)
    _check(facts.num_rows * facts.num_columns, MAX_VALUES, "values")
    groups = range(facts.num_row_groups)
    size = sum(facts.row_group(i).total_byte_size for i in groups)
    _check(size, MAX_BYTES, "bytes")
    with path.open("rb") as raw:
        names = schema.names
        size = sum(unpacked_bytes(raw, facts, i, names) for i in groups)
    _check(size, MAX_BYTES, "bytes")
    kinds = pa.types
    for column in schema:
        stored = column.type
        if kinds.is_dictionary(stored):
            stored = stored.value_type
        if not any(
            holds(stored)
            for holds in (
                kinds.is_null, kinds.is_boolean, kinds.is_integer, kinds.is_floating,
                kinds.is_decimal, kinds.is_string, kinds.is_large_string,
            )
        ):  # fmt: skip
            raise InvalidTrace(
                f"the column {column.name!r:.60} has the type {stored}, which is "
                "not supported for signals",
                mend="remove the column",
            )
    # Dictionary encoding keeps repeated texts small in memory.
    texts = [
        column.name
        for column in schema
        if kinds.is_string(column.type) or kinds.is_large_string(column.type)
    ]
    with parquet.ParquetFile(path, read_dictionary=texts) as file:
        yield list(schema.names)
        for batch in file.iter_batches():
            columns = [_words(column) for column in batch.columns]
            for row in zip(*columns, strict=True):
                yield [_cell(value) for value in row]


def _words(column: Any) -> list[Any]:
    """Returns the values of a column; equal dictionary values share one Python
    object.
    """
    words = getattr(column, "dictionary", None)
    if words is None:
        found: list[Any] = column.to_pylist()
        return found
    known = words.to_pylist()
    return [None if i is None else known[i] for i in column.indices.to_pylist()]


def _told(path: Path, wanted: Sequence[str]) -> Iterator[Row]:
    fields = {name: name.split(".") for name in wanted}
    topics = {parts[0] for parts in fields.values()}
    yield ["time_s", *fields]
    last = dict.fromkeys(fields, "")
    row: Row | None = None
    began_ns: int | None = None
    now_ns, count = 0, 0
    for at_ns, topic, message in messages(path, topics):
        began_ns = at_ns if began_ns is None else began_ns
        # Messages with the same time are combined in one row.
        if row is not None and at_ns > now_ns:
            check_count(path, count := count + 1)
            yield row
        now_ns = max(now_ns, at_ns)
        for name, (of, *parts) in fields.items():
            if of == topic:
                last[name] = _cell(field_of(message, parts, name, str(path)))
        if "" not in last.values():
            row = [repr((now_ns - began_ns) / 1e9), *last.values()]
    if row is not None:
        yield row


def field_of(message: Any, parts: Sequence[str], name: str, source: str) -> Any:
    """Returns a field of a message, which is a dictionary or an object.

    Args:
        parts: The names of the nested fields, outermost first.
        name: The full name of the field, for error messages.
        source: The name of the file, for error messages.
    """
    found = message
    for part in parts:
        try:
            if part.isdigit():
                found = found[int(part)]
            elif isinstance(found, dict):
                found = found[part]
            elif not part.startswith("_"):
                found = getattr(found, part)
            else:
                raise KeyError(part)
        except (KeyError, IndexError, TypeError, AttributeError):
            names = found if isinstance(found, dict) else dir(found)
            known = [each for each in names if not each.startswith("_")]
            raise InvalidTrace(
                f"{name:.200} has no field {part!r:.60}",
                source=source,
                mend=near_miss(part, known) or f"choose from {', '.join(known):.200}",
            ) from None
    return found


def _cell(value: Any) -> str:
    """Formats a value as in a CSV."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else repr(float(value))
