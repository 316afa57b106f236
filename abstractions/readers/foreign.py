"""Logs of other people's: Parquet tables, MCAP files and ROS 2 bags, as rows of cells.

A log of messages becomes a table: a row each time one of the wanted fields is told,
with the last that was told of the others. A field is `/topic.field.field`, and the
time is when its message was written, in seconds, as `time_s`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import (
    ForewarnError,
    InvalidTrace,
    MissingDependency,
    TooLarge,
    near_miss,
    said,
)
from forewarn.abstractions.readers.lines import (
    MAX_BYTES,
    MAX_VALUES,
    check_count,
)
from forewarn.abstractions.readers.messages import is_bag, messages

FOREIGN = {".parquet": "Parquet", ".mcap": "MCAP", ".db3": "bag"}

Row = list[str]


def is_foreign(path: Path) -> bool:
    """Whether a path is such a log: a file by its ending, a bag by what it holds."""
    return path.suffix in FOREIGN or is_bag(path)


def foreign_rows(path: Path, wanted: Sequence[str]) -> Iterator[Row]:
    """The names, then row after row; an empty cell is not known.

    Args:
        path: The log.
        wanted: The columns or fields.
    """
    size = sum(p.stat().st_size for p in ([path] if path.is_file() else path.iterdir()))
    _check(size, MAX_BYTES, "bytes", path)
    try:
        if path.suffix == ".parquet":
            yield from _table(path)
        else:
            yield from _told(path, [name for name in wanted if name.startswith("/")])
    except ForewarnError:
        raise
    except Exception as error:
        # Readers of others' raise all kinds of errors where a file is none of theirs.
        what = FOREIGN.get(path.suffix, "bag")
        raise InvalidTrace(
            f"no {what}: {said(error):.200}", source=str(path)
        ) from error


def _check(count: int, most: int, what: str, path: Path) -> None:
    if count > most:
        raise TooLarge(
            f"{count} {what} are more than {most}",
            source=str(path),
            mend="split it into several logs",
        )


def _table(path: Path) -> Iterator[Row]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingDependency("pyarrow", "fleet") from error
    with parquet.ParquetFile(path) as looked:
        facts, schema = looked.metadata, looked.schema_arrow
    check_count(path, facts.num_rows)
    _check(facts.num_rows * facts.num_columns, MAX_VALUES, "values", path)
    groups = range(facts.num_row_groups)
    size = sum(facts.row_group(i).total_byte_size for i in groups)
    _check(size, MAX_BYTES, "bytes", path)
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
                f"the column {column.name!r:.60} holds {stored}, no signal's values",
                source=str(path),
                mend="leave it out",
            )
    # A text that stands in each row is unpacked once.
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
    """A column's values; those of a dictionary are made once."""
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
