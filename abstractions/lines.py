"""Reads text files line by line, within size limits."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from forewarn.abstractions.errors import OF_LOGS, InvalidTrace, TooLarge, mend_of
from forewarn.abstractions.files import GZIPPED, PICKLE, unpacked
from forewarn.abstractions.limits import available_memory

MAX_LINE = 1024 * 1024
MAX_FRAMES = 300_000
MAX_VALUES = 3_000_000
MAX_LINES = 1_000_000
MAX_BYTES = 256 * 1024**2
"""Size limits on a line, a trace and a decompressed file.

All limits but `MAX_LINE` are multiplied by `_room`.
"""

_MEND = "split it into several traces"

_LOGS = (".mcap", ".db3")
_PACKED = (*_LOGS, ".parquet")


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the numbered lines of a text file, gzipped or not, without line endings.

    Raises:
        InvalidTrace: The file cannot be read or is not a text file.
        TooLarge: The file exceeds a size limit.
    """
    number, total, values = 0, 0, 0
    try:
        with unpacked(path) as stream:
            while line := stream.readline(MAX_LINE + 1):
                number += 1
                total += len(line)
                values += line.count(b",")
                _check(path, number, line, total, values)
                yield number, _decoded(path, number, line)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidTrace(
            "the gzipped file is truncated or damaged",
            source=str(path),
            place=f"after line {number}",
            mend="copy it again, or recover the intact part with `gzip -dc`",
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidTrace(
            reason[0].lower() + reason[1:], source=str(path), mend=mend_of(error, path)
        ) from error


@lru_cache(maxsize=64)
def _room(path: Path) -> int:
    """Returns the factor by which a file may exceed the limits: the free memory in GiB.

    For a compressed file, the factor also depends on the size, so that the content of
    a small file stays small.
    """
    room = available_memory() >> 30
    try:
        with path.open("rb") as file:
            if file.read(2) == GZIPPED or path.suffix in _PACKED:
                room = min(room, path.stat().st_size >> 24)
    except OSError:
        return 1
    return max(1, room)


def first_line(path: Path) -> str:
    """Returns the first line of a file that is not blank, or `{` if a line is too long.

    JSON without line breaks may exceed the limit; `{` is enough to detect the format.
    """
    if path.suffix in _LOGS:
        raise InvalidTrace("this is not a text file", source=str(path), mend=OF_LOGS)
    try:
        for _, text in lines(path):
            if text.strip():
                return text
    except TooLarge:
        return "{"
    raise InvalidTrace(
        "the file is empty",
        source=str(path),
        mend="record or copy it again",
    )


def _check(path: Path, number: int, line: bytes, total: int, values: int) -> None:
    place = f"line {number}"
    if number == 1 and line.startswith(PICKLE):
        raise InvalidTrace(
            "this is a pickle, which could run code when it is read",
            source=str(path),
            mend="write it as CSV or as JSON Lines",
        )
    if len(line) > MAX_LINE:
        problem = f"the line is longer than {MAX_LINE} bytes"
        raise TooLarge(problem, source=str(path), place=place)
    if number > MAX_LINES and number > (most := MAX_LINES * _room(path)):
        problem = f"the file has more than {most} lines"
        raise TooLarge(problem, source=str(path))
    if values > MAX_VALUES and values > (most := MAX_VALUES * _room(path)):
        problem = f"the file contains more than {most} values"
        raise TooLarge(problem, source=str(path), place=place, mend=_MEND)
    if total > MAX_BYTES and total > (most := MAX_BYTES * _room(path)):
        problem = f"the file contains more than {most} bytes"
        raise TooLarge(problem, source=str(path), place=place)


def _decoded(path: Path, number: int, line: bytes) -> str:
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        place = f"line {number}"
        problem, mend = "not UTF-8 text", "save it as UTF-8"
        if number == 1:
            problem, mend = _other_kind(path, line) or (problem, mend)
        raise InvalidTrace(problem, source=str(path), place=place, mend=mend) from error
    if "\0" in text:
        problem, mend = "this is not a text file", ""
        if number == 1:
            problem, mend = _other_kind(path, line) or (problem, mend)
        place = f"line {number}"
        raise InvalidTrace(problem, source=str(path), place=place, mend=mend)
    return text.rstrip("\r\n")


def _other_kind(path: Path, line: bytes) -> tuple[str, str] | None:
    """Returns the format of a file that is not text, with the fix; None if unknown."""
    if line.startswith(b"PAR1"):
        return "this is a Parquet file", f"name it {path.stem}.parquet"
    if line.startswith(b"PK\3\4"):
        return "this is an Excel workbook or a zip archive", "export it as CSV"
    return None


def check_frames(path: Path) -> None:
    """Raises `TooLarge` if a JSON Lines file contains too many frames; parses none."""
    count = 0
    with suppress(OSError, EOFError, zlib.error), unpacked(path) as stream:
        most = MAX_BYTES * _room(path)
        while (chunk := stream.read(1 << 20)) and stream.tell() <= most:
            count += chunk.count(b"\n{")
            check_count(path, count)


def check_count(path: Path, count: int) -> None:
    """Raises `TooLarge` if a trace has more frames than the limit."""
    if count > MAX_FRAMES and count > (most := MAX_FRAMES * _room(path)):
        problem = f"the trace has more than {most} frames"
        raise TooLarge(problem, source=str(path), mend=_MEND)
