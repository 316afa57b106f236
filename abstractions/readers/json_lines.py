"""Reads `forewarn.trace/1`: a header line, then one JSON object per frame."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

import numpy as np

from forewarn.abstractions.dataset.arrays import first_fault
from forewarn.abstractions.errors import (
    InvalidInput,
    InvalidTrace,
    SignalFault,
    naming,
    near_miss,
)
from forewarn.abstractions.files import other_kind, parse_json, unpacked
from forewarn.abstractions.frame import Frame, Value
from forewarn.abstractions.lines import MAX_LINE, check_count, check_frames, lines
from forewarn.abstractions.serial import Strict, validated
from forewarn.abstractions.trace import (
    Kept,
    Note,
    Trace,
    TraceHeader,
    array_of,
    check_order,
    plain_values,
)
from forewarn.abstractions.vocabularies.vocabulary import (
    Vocabulary,
    named_vocabulary,
    vocabulary_from,
)

_NOTES = ("proposal", "executed", "tool_output", "interventions", "label")
_KEYS = ("sequence", "time_s", "signals", *_NOTES)


class _HeaderLine(Strict):
    format: Literal["forewarn.trace/1"]
    vocabulary: str | dict[str, Any] | None = None
    provides: list[str]
    period_s: float | None = None
    scenario: str = ""
    seed: int | None = None
    source: str = ""
    guarded: bool = False


def read_json_lines(path: Path, vocabulary: Vocabulary | None = None) -> Trace:
    """Reads a whole trace into memory; `stream_json_lines` reads one frame at a
    time.
    """
    header, used, rest = stream_json_lines(path, vocabulary)
    frames: list[Frame] = []
    notes: dict[int, Note] = {}
    for frame, note in rest:
        if note is not None:
            notes[len(frames)] = note
        frames.append(frame)
    return Trace(header, tuple(frames), notes, used)


Frames = Iterator[tuple[Frame, Note | None]]


def stream_json_lines(
    path: Path, vocabulary: Vocabulary | None = None
) -> tuple[TraceHeader, Vocabulary | None, Frames]:
    """Reads a trace; returns the header, the vocabulary and an iterator over the
    frames.
    """
    numbered = ((n, text) for n, text in lines(path) if text.strip())
    number, text = next(numbered, (1, ""))
    place = f"line {number}"
    data = _parsed(text, path, place)
    if isinstance(data, dict) and (given := data.get("format")) != "forewarn.trace/1":
        kind = other_kind(f"format: {given}", "a trace")
        mend = 'the first line must be the header: {"format": "forewarn.trace/1", …}'
        if kind and not str(given).startswith("forewarn.trace/"):
            raise InvalidTrace(kind, source=str(path), mend="give a file with a trace")
        if given is None:
            mend += '; an agent\'s log has {"messages": […]} on each line, see '
            mend += "docs/warrants.md; for other logs, see docs/own-world.md"
        problem = f"the format is {given!r:.60}, not 'forewarn.trace/1'"
        raise InvalidTrace(
            "the line has no 'format'" if given is None else problem,
            source=str(path),
            place=place,
            mend=mend,
        )
    line = validated(_HeaderLine, data, f"{path}: {place}", InvalidTrace)
    check_frames(path)
    used, said = vocabulary, line.vocabulary
    if used is None and isinstance(said, dict):
        used = vocabulary_from(said, f"{path}: {place}: vocabulary")
    elif used is None and isinstance(said, str):
        used = named_vocabulary(said, f"{path}: {place}", path.parent)
    header = TraceHeader(
        vocabulary=used.name if used else None,
        provides=tuple(used.canonical(key) if used else key for key in line.provides),
        **line.model_dump(exclude={"format", "vocabulary", "provides"}),
    )
    with naming(path, place):
        _check_header(header, used)
    return header, used, _frames(path, header, used, numbered)


def _check_header(header: TraceHeader, vocabulary: Vocabulary | None) -> None:
    if header.period_s is not None and not header.period_s > 0:
        raise InvalidTrace("'period_s' must be greater than 0")
    if len(set(header.provides)) < len(header.provides):
        raise InvalidTrace("a signal appears twice in 'provides'")
    if vocabulary is None:
        return
    for key in header.provides:
        if not vocabulary.knows(key) and key not in vocabulary.predicates:
            raise InvalidTrace(vocabulary.unknown(key))


def _frames(
    path: Path,
    header: TraceHeader,
    vocabulary: Vocabulary | None,
    numbered: Iterator[tuple[int, str]],
) -> Frames:
    last: Frame | None = None
    names = _Names(header, vocabulary)
    for count, (number, text) in enumerate(numbered, 1):
        check_count(path, count)
        place = f"line {number}"
        data = _parsed(text, path, place)
        try:
            frame, note = _frame(data, names)
            check_order(last, frame)
        except InvalidTrace as error:
            raise error.within(str(path), place) from error
        except SignalFault as fault:
            mend = "write a value that the vocabulary allows, or omit the signal"
            raise InvalidTrace(
                str(fault), source=str(path), place=place, mend=mend
            ) from fault
        yield frame, note
        last = frame


def _parsed(text: str, path: Path, place: str) -> Any:
    try:
        return parse_json(text, str(path), place)
    except InvalidInput as error:
        cut = _is_cut(error, text)
        raise InvalidTrace(
            "the line is truncated" if cut else error.problem,
            source=str(path),
            place=place,
            mend="remove this line to use the lines before it" if cut else error.mend,
        ) from error


def _is_cut(error: InvalidInput, text: str) -> bool:
    """Whether the error means that the JSON text is truncated."""
    cause = error.__cause__
    if not isinstance(cause, json.JSONDecodeError):
        return False
    return cause.pos >= len(text.rstrip()) or cause.msg.startswith("Unterminated")


class _Names(dict[str, tuple[str, Callable[[object], Value]]]):
    """Maps each key of the frames to its signal and a function that checks values.

    A key is looked up when it first appears, not in every frame.
    """

    def __init__(self, header: TraceHeader, vocabulary: Vocabulary | None) -> None:
        super().__init__()
        self._header, self._vocabulary = header, vocabulary

    def __missing__(self, key: str) -> tuple[str, Callable[[object], Value]]:
        name, check = key, plain_values(key)
        if self._vocabulary is not None:
            name = self._vocabulary.canonical(key)
            check = self._vocabulary.checker(name)
        if self._header.can_know(name):
            self[key] = name, check
        return name, check

    def read(self, signals: Mapping[str, object]) -> dict[str, Value]:
        """Checks the values of a frame; raises `SignalFault` if one is invalid."""
        values = {}
        for key, value in signals.items():
            name, check = self[key]
            values[name] = check(value)
        for key in signals:
            if key not in self:
                raise InvalidTrace(
                    f"the signal {self[key][0]!r:.60} is not listed in the "
                    "header's 'provides'",
                    mend=near_miss(key, self._header.provides)
                    or "add it to 'provides' in the first line",
                )
        return values


def _frame(data: Any, names: _Names) -> tuple[Frame, Note | None]:
    if not isinstance(data, dict):
        raise InvalidTrace(
            "expected an object with the keys 'sequence', 'time_s' and 'signals'"
        )
    for key in data:
        if key not in _KEYS:
            raise InvalidTrace(f"unknown key {key!r:.60}", mend=near_miss(key, _KEYS))
    sequence, time_s, signals = (data.get(key) for key in _KEYS[:3])
    if isinstance(sequence, bool) or not isinstance(sequence, int) or sequence < 0:
        raise InvalidTrace("'sequence' must be a whole number, 0 or more")
    if isinstance(time_s, bool) or not isinstance(time_s, int | float):
        raise InvalidTrace("'time_s' must be a number")
    if not abs(time_s) < 1e15:
        raise InvalidTrace(
            f"'time_s' is {float(min(time_s, 1e300))!r}, which is too large"
        )
    if not isinstance(signals, dict):
        raise InvalidTrace("'signals' must be an object")
    values = names.read(signals)
    note = _note(data) if any(key in data for key in _NOTES) else None
    return Frame(float(time_s), sequence, values), note


def _note(data: Mapping[str, Any]) -> Note:
    interventions = data.get("interventions", [])
    if not isinstance(interventions, list):
        raise InvalidTrace("'interventions' must be a list")
    label = data.get("label")
    if label not in ("safe", "unsafe", None):
        raise InvalidTrace("'label' must be safe, unsafe or null")
    return Note(
        proposal=data.get("proposal"),
        executed=data.get("executed"),
        tool_output=data.get("tool_output"),
        interventions=tuple(interventions),
        label=label,
    )


MAX_HELD = 100_000_000
"""The maximum number of values that the fast reader holds in memory."""

_OWN = frozenset(("sequence", "time_s", "signals"))
_NOTED = frozenset(("proposal", "executed", "tool_output", "interventions", "label"))
_BLOCK = 1 << 20
_LARGEST = 2**53


class _Odd(Exception):
    """The fast reader cannot read the file; it must be read frame by frame."""


def keep_json_lines(
    path: Path,
    names: Iterable[str] | None = None,
    vocabulary: Vocabulary | None = None,
) -> Kept:
    """Reads signals of a trace as arrays; by default all that the trace provides.

    Raises:
        InvalidTrace: The file is not a valid trace. The values of signals that are not
            requested are not checked.
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
    for line, data in _records(path):
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
        # If there are more colons than keys, a key is duplicated or a text has a colon.
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


def _records(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Yields the lines after the header, and their parsed content."""
    try:
        from orjson import JSONDecodeError, loads
    except ImportError:
        raise _Odd from None
    with unpacked(path) as stream:
        first, rest = True, b""
        while True:
            # Read large blocks, because reading a gzipped file line by line is slow.
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
    """Returns the number of keys in a value, at any depth."""
    if type(value) is dict:
        return len(value) + sum(map(_keys, value.values()))
    if type(value) is list:
        return sum(map(_keys, value))
    return 0


def _times(moments: Sequence[tuple[int, float]]) -> np.ndarray[Any, np.dtype[Any]]:
    """Returns the times as an array; raises `_Odd` if a time or a sequence number is
    invalid.
    """
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
