"""Apollo's `.record` files, read and written with `cyber_record`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidInput, MissingDependency


def _record_class() -> Any:
    try:
        from cyber_record.record import Record
    except ImportError as error:
        raise MissingDependency("Apollo's records", "apollo") from error
    return Record


def read_record(path: Path) -> Iterator[tuple[str, bytes, int]]:
    """The channel, bytes and time in ns of each message, in their order."""
    record_class = _record_class()
    if not path.is_file():
        raise InvalidInput("there is no such file", source=str(path))
    try:
        with record_class(str(path)) as record:
            for channel, message, time_ns in record.read_messages():
                yield channel, message.SerializePartialToString(), time_ns
    except InvalidInput:
        raise
    except Exception as error:  # whatever its reader stumbles over
        problem = f"not a record that can be read: {type(error).__name__}: {error}"
        raise InvalidInput(problem, source=str(path)) from error


def write_record(path: Path, said: Iterable[tuple[str, Any, int]]) -> int:
    """Writes messages with their channels and times in ns; gives their number."""
    count = 0
    with _record_class()(str(path), "w") as record:
        for channel, message, time_ns in said:
            record.write(channel, message, time_ns)
            count += 1
    return count
