"""Logs of other people's: Parquet tables, MCAP files and ROS 2 bags, as rows of cells.

A log of messages becomes a table: a row each time one of the wanted fields is told,
with the last that was told of the others. A field is `/topic.field.field`, and the
time is when its message was written, in seconds, as `time_s`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidTrace, MissingDependency, near_miss
from forewarn.abstractions.readers.lines import MAX_BYTES, check_count

FOREIGN = (".parquet", ".mcap", ".db3")

Row = list[str]
_Telling = tuple[int, str, Any]
"""When a message was written, in nanoseconds, on which topic, and the message."""


def is_foreign(path: Path) -> bool:
    """Whether a path is such a log: a file by its ending, a bag by what it holds."""
    return path.suffix in FOREIGN or (path / "metadata.yaml").is_file()


def foreign_rows(path: Path, wanted: Sequence[str]) -> Iterator[Row]:
    """The names, then row after row; an empty cell is not known.

    Args:
        path: The log.
        wanted: The columns or fields.
    """
    size = sum(p.stat().st_size for p in ([path] if path.is_file() else path.iterdir()))
    if size > MAX_BYTES:
        raise InvalidTrace(
            f"{size} bytes are more than {MAX_BYTES}", source=str(path),
            mend="split it into several logs",
        )  # fmt: skip
    if path.suffix == ".parquet":
        return _table(path)
    return _told(path, [name for name in wanted if name.startswith("/")])


def _table(path: Path) -> Iterator[Row]:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingDependency("pyarrow", "fleet") from error
    try:
        with parquet.ParquetFile(path) as file:
            yield list(file.schema_arrow.names)
            count = 0
            for batch in file.iter_batches():
                check_count(path, count := count + batch.num_rows)
                columns = [column.to_pylist() for column in batch.columns]
                for row in zip(*columns, strict=True):
                    yield [_cell(value) for value in row]
    except (OSError, ValueError) as error:
        raise InvalidTrace(f"no Parquet: {error}", source=str(path)) from error


def _told(path: Path, wanted: Sequence[str]) -> Iterator[Row]:
    fields = {name: name.split(".") for name in wanted}
    topics = {parts[0] for parts in fields.values()}
    messages = _json_messages(path, topics) if _tells_json(path) else _bag(path, topics)
    yield ["time_s", *fields]
    last = dict.fromkeys(fields, "")
    row: Row | None = None
    began_ns: int | None = None
    now_ns, count = 0, 0
    for at_ns, topic, message in messages:
        began_ns = at_ns if began_ns is None else began_ns
        # What is written at one moment is one row, however many messages it takes.
        if row is not None and at_ns > now_ns:
            check_count(path, count := count + 1)
            yield row
        now_ns = max(now_ns, at_ns)
        for name, (of, *parts) in fields.items():
            if of == topic:
                last[name] = _cell(_field(message, parts, name, path))
        if "" not in last.values():
            row = [repr((now_ns - began_ns) / 1e9), *last.values()]
    if row is not None:
        yield row


def _field(message: Any, parts: Sequence[str], name: str, path: Path) -> Any:
    found = message
    for part in parts:
        if isinstance(found, dict):
            known = list(found)
        else:
            known = [each for each in dir(found) if not each.startswith("_")]
        try:
            if part.isdigit():
                found = found[int(part)]
            elif isinstance(found, dict):
                found = found[part]
            elif part in known:
                found = getattr(found, part)
            else:
                raise KeyError(part)
        except (KeyError, IndexError, TypeError):
            raise InvalidTrace(
                f"no field {part!r:.60} of {name:.200}",
                source=str(path),
                mend=near_miss(part, known) or f"it has {', '.join(known):.200}",
            ) from None
    return found


def _cell(value: Any) -> str:
    """As a CSV has it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else repr(float(value))


def _tells_json(path: Path) -> bool:
    if path.suffix != ".mcap":
        return False
    with _mcap(path) as (reader, _):
        summary = reader.get_summary()
        channels = summary.channels.values() if summary else ()
        return any(channel.message_encoding == "json" for channel in channels)


class _mcap:
    """An MCAP file that is open while it is read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Any:
        try:
            from mcap.exceptions import McapError
            from mcap.reader import make_reader
        except ImportError as error:
            raise MissingDependency("mcap", "logs") from error
        self._stream = self._path.open("rb")
        try:
            return make_reader(self._stream), McapError
        except McapError as error:
            self._stream.close()
            raise InvalidTrace(f"no MCAP: {error}", source=str(self._path)) from error

    def __exit__(self, *_: object) -> None:
        self._stream.close()


def _json_messages(path: Path, topics: set[str]) -> Iterator[_Telling]:
    with _mcap(path) as (reader, error_kind):
        try:
            for _, channel, message in reader.iter_messages(topics=sorted(topics)):
                yield message.log_time, channel.topic, json.loads(message.data)
        except (error_kind, ValueError) as error:
            raise InvalidTrace(f"no MCAP: {error}", source=str(path)) from error


def _bag(path: Path, topics: set[str]) -> Iterator[_Telling]:
    try:
        from rosbags.highlevel import AnyReader, AnyReaderError
        from rosbags.typesys import Stores, get_typestore
    except ImportError as error:
        raise MissingDependency("rosbags", "logs") from error
    try:
        with AnyReader(
            [path.parent if path.suffix == ".db3" else path],
            default_typestore=get_typestore(Stores.ROS2_HUMBLE),
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
    except AnyReaderError as error:
        raise InvalidTrace(f"no bag: {error}", source=str(path)) from error
