"""Reads the signals that are asked for from `forewarn.trace/1`, in one pass.

A fast parser reads lines that look like the first. Whatever else there is, a key that
stands twice or a value that cannot be, is left to `json_lines`, which says what is
wrong and where.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from forewarn.abstractions.dataset.checking import first_fault
from forewarn.abstractions.readers.json_lines import (
    read_json_lines,
    stream_json_lines,
)
from forewarn.abstractions.readers.lines import MAX_LINE
from forewarn.abstractions.trace import Kept, TraceHeader, array_of
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary

MAX_HELD = 100_000_000
"""No more values are held of one trace."""

_OWN = frozenset(("sequence", "time_s", "signals"))
_NOTED = frozenset(("proposal", "executed", "tool_output", "interventions", "label"))
_BLOCK = 1 << 20
_LARGEST = 2**53


class _Odd(Exception):
    """A line is not as the first was."""


def keep_json_lines(
    path: Path,
    names: Iterable[str] | None = None,
    vocabulary: Vocabulary | None = None,
) -> Kept:
    """These signals of a trace, by columns; without names all that it provides.

    Raises:
        InvalidTrace: With the line and what is wrong there. Of signals that are not
            asked for only the names are checked.
    """
    header, used, rest = stream_json_lines(path, vocabulary)
    wanted = list(header.provides if names is None else names)
    wanted = [name for name in wanted if header.can_know(name)]
    try:
        return _kept(path, header, used, wanted)
    except (_Odd, OSError, EOFError, zlib.error):
        return Kept.of(read_json_lines(path, vocabulary), wanted)


def _kept(
    path: Path, header: TraceHeader, vocabulary: Vocabulary | None, names: Sequence[str]
) -> Kept:
    rows: list[Any] = []
    moments: list[tuple[int, float]] = []
    shape: tuple[str, ...] = ()
    outer: tuple[str, ...] = ()
    noted: list[str] = []
    picked = itemgetter(*names) if names else len
    for line, data in _parsed(path):
        signals = data.get("signals")
        if type(signals) is not dict:
            raise _Odd
        if tuple(signals) != shape:
            _check_names(signals, header, vocabulary)
            shape = tuple(signals)
        if tuple(data) != outer:
            outer = tuple(data)
            noted = [key for key in outer if key not in _OWN]
            if not _NOTED.issuperset(noted):
                raise _Odd
        keys = len(outer) + len(shape)
        if noted:
            keys += sum([_keys(data[key]) for key in noted])
            if data.get("label") not in ("safe", "unsafe", None):
                raise _Odd
            if type(data.get("interventions", [])) is not list:
                raise _Odd
        # Who says a key twice, or hides one in a text, has more colons than keys.
        if line.count(b":") != keys and line.count(b'":') != keys:
            raise _Odd
        try:
            rows.append(picked(signals))
            moments.append((data["sequence"], data["time_s"]))
        except KeyError:
            raise _Odd from None
        if len(rows) * (len(names) + 1) > MAX_HELD:
            raise _Odd
    if not rows:
        raise _Odd
    times = _times(moments)
    values = zip(*rows, strict=True) if len(names) > 1 else [rows] if names else []
    known = vocabulary.signals if vocabulary else {}
    columns = {
        name: array_of(column, name in known and known[name].type == "number")
        for name, column in zip(names, values, strict=True)
    }
    if first_fault(columns, vocabulary) is not None:
        raise _Odd
    return Kept(header, times, columns, vocabulary)


def _parsed(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """The lines after the header, each with what it says."""
    try:
        from orjson import JSONDecodeError, loads
    except ImportError:
        raise _Odd from None
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        stream = gzip.GzipFile(fileobj=raw) if packed else raw
        first, rest = True, b""
        while True:
            # Many lines at once: a packed file gives them slowly one by one.
            some = stream.read(_BLOCK)
            *lines, rest = (rest + some).split(b"\n")
            if not some:
                lines, rest = [*lines, rest], b""
            if len(rest) > MAX_LINE:
                raise _Odd
            for line in lines:
                if first or not line:
                    first = first and not line.strip()
                    continue
                try:
                    data = loads(line)
                except JSONDecodeError:
                    raise _Odd from None
                if type(data) is not dict:
                    raise _Odd
                yield line, data
            if not some:
                return


def _check_names(
    signals: dict[str, Any], header: TraceHeader, vocabulary: Vocabulary | None
) -> None:
    for key in signals:
        name = key if vocabulary is None else vocabulary.canonical(key)
        if name != key or not header.can_know(key):
            raise _Odd
        if vocabulary is not None and not vocabulary.knows(key):
            raise _Odd


def _keys(value: Any) -> int:
    """How many keys there are in a value, at any depth."""
    if type(value) is dict:
        return len(value) + sum(map(_keys, value.values()))
    if type(value) is list:
        return sum(map(_keys, value))
    return 0


def _times(moments: Sequence[tuple[int, float]]) -> np.ndarray[Any, np.dtype[Any]]:
    """The times, where they and the sequence are as they must be."""
    sequence, times_s = zip(*moments, strict=True)
    if set(map(type, sequence)) != {int} or not set(map(type, times_s)) <= {int, float}:
        raise _Odd
    if sequence[0] < 0 or sequence[-1] > _LARGEST or abs(times_s[-1]) >= 1e15:
        raise _Odd
    times = np.array(times_s, np.float64)
    if (np.diff(sequence) <= 0).any() or (np.diff(times) <= 0).any():
        raise _Odd
    if not np.isfinite(times).all() or abs(times[0]) >= 1e15:
        raise _Odd
    return times
