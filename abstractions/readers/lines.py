"""Text files read line by line, within limits."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from forewarn.abstractions.errors import OF_LOGS, InvalidTrace, TooLarge, mend_of

MAX_LINE = 1024 * 1024
MAX_FRAMES = 300_000
MAX_VALUES = 3_000_000
MAX_LINES = 1_000_000
MAX_BYTES = 256 * 1024**2
"""What a line may hold, a trace, and a file once it is unpacked."""

_MEND = "split it into several traces"

_LOGS = (".mcap", ".db3")

_PICKLE = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """The numbered lines, without their ends, of a text file, gzipped or not.

    Raises:
        InvalidTrace: The file cannot be read, or is not text.
        TooLarge: It exceeds one of the limits above.
    """
    number, total, values = 0, 0, 0
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            stream = gzip.GzipFile(fileobj=raw) if packed else raw
            while line := stream.readline(MAX_LINE + 1):
                number += 1
                total += len(line)
                values += line.count(b",")
                _check(path, number, line, total, values)
                yield number, _decoded(path, number, line)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidTrace(
            "the gzipped file is cut off or damaged",
            source=str(path),
            place=f"after line {number}",
            mend="copy it again, or unpack what is whole of it with `gzip -dc`",
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidTrace(
            reason[0].lower() + reason[1:], source=str(path), mend=mend_of(error, path)
        ) from error


def first_line(path: Path) -> str:
    """The first line that is not blank; a JSON file may have no other.

    A line longer than the limit comes cut: enough to tell formats apart.
    """
    if path.suffix in _LOGS:
        raise InvalidTrace("this is no text", source=str(path), mend=OF_LOGS)
    try:
        for _, text in lines(path):
            if text.strip():
                return text
    except TooLarge:
        return "{"
    raise InvalidTrace(
        "the file is empty", source=str(path), mend="write it again: `forewarn collect`"
    )


def _check(path: Path, number: int, line: bytes, total: int, values: int) -> None:
    place = f"line {number}"
    if number == 1 and line.startswith(_PICKLE):
        raise InvalidTrace(
            "this is a pickle, which could run code when it is read",
            source=str(path),
            mend="write it as CSV or as JSON Lines",
        )
    if len(line) > MAX_LINE:
        problem = f"the line is longer than {MAX_LINE} bytes"
        raise TooLarge(problem, source=str(path), place=place)
    if number > MAX_LINES:
        problem = f"the file has more than {MAX_LINES} lines"
        raise TooLarge(problem, source=str(path))
    if values > MAX_VALUES:
        problem = f"the file holds more than {MAX_VALUES} values"
        raise TooLarge(problem, source=str(path), place=place, mend=_MEND)
    if total > MAX_BYTES:
        problem = f"the file holds more than {MAX_BYTES} bytes"
        raise TooLarge(problem, source=str(path), place=place)


def _decoded(path: Path, number: int, line: bytes) -> str:
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        place = f"line {number}"
        raise InvalidTrace(
            "not UTF-8 text", source=str(path), place=place, mend="save it as UTF-8"
        ) from error
    if "\0" in text:
        place = f"line {number}"
        raise InvalidTrace("this is not a text file", source=str(path), place=place)
    return text.rstrip("\r\n")


def check_count(path: Path, count: int) -> None:
    """Raises `TooLarge` when a trace has more frames than we hold."""
    if count > MAX_FRAMES:
        problem = f"more than {MAX_FRAMES} frames"
        raise TooLarge(problem, source=str(path), mend=_MEND)
