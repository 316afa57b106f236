"""Reads `forewarn.trace/1`: a header line, then one JSON object per frame."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from forewarn.abstractions.dataset.arrays import first_fault
from forewarn.abstractions.errors import (
    InvalidInput,
    InvalidTrace,
    SignalFault,
    near_miss,
)
from forewarn.abstractions.files import (
    check_count,
    check_frames,
    lines,
    parse_json,
)
from forewarn.abstractions.frame import Frame, Value
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
    path: Path, vocabulary: Vocabulary | None = None, *, checked: bool = True
) -> tuple[TraceHeader, Vocabulary | None, Frames]:
    """Reads a trace; returns the header, the vocabulary and an iterator over the
    frames.

    Args:
        checked: Whether to check the values of signals, and not only their names.
    """
    numbered = ((n, text) for n, text in lines(path) if text.strip())
    number, text = next(numbered, (1, ""))
    place = f"line {number}"
    data = _parsed(text, path, place)
    if isinstance(data, dict) and data.get("format") != "forewarn.trace/1":
        raise InvalidTrace(
            f"the format is {data.get('format')!r:.60}, not 'forewarn.trace/1'",
            source=str(path),
            place=place,
            mend='the first line must be the header: {"format": "forewarn.trace/1", …}',
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
        period_s=line.period_s,
        scenario=line.scenario,
        seed=line.seed,
        source=line.source,
        guarded=line.guarded,
    )
    try:
        _check_header(header, used)
    except InvalidTrace as error:
        raise error.within(str(path), place) from error
    return header, used, _frames(path, _Names(header, used, checked), numbered)


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


def _frames(path: Path, names: _Names, numbered: Iterator[tuple[int, str]]) -> Frames:
    last: Frame | None = None
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


_Check = Callable[[object], Value]


class _Names(dict[str, tuple[str, _Check | None]]):
    """Maps each key of the frames to its signal and a function that checks values.

    A key is looked up when it first appears, not in every frame.
    """

    def __init__(
        self, header: TraceHeader, vocabulary: Vocabulary | None, checked: bool
    ) -> None:
        super().__init__()
        self._header, self._vocabulary, self._checked = header, vocabulary, checked
        self._plain: set[str] = set()
        """The keys whose values are read as they are."""

    def __missing__(self, key: str) -> tuple[str, _Check | None]:
        name, known = key, True
        check: _Check | None = plain_values(key)
        if self._vocabulary is not None:
            name = self._vocabulary.canonical(key)
            known = self._vocabulary.knows(name)
            check = self._vocabulary.checker(name)
        if known and not self._checked:
            check = None
        if self._header.can_know(name):
            self[key] = name, check
            if check is None and name == key:
                self._plain.add(key)
        return name, check

    def read(self, signals: dict[str, Any]) -> dict[str, Value]:
        """Returns the values of a frame; raises `SignalFault` if one is invalid."""
        if self._plain.issuperset(signals):
            return signals
        values = {}
        for key, value in signals.items():
            name, check = self[key]
            values[name] = value if check is None else check(value)
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


def keep_json_lines(
    path: Path,
    names: Iterable[str] | None = None,
    vocabulary: Vocabulary | None = None,
) -> Kept:
    """Reads signals of a trace as arrays; by default all that the trace provides.

    Raises:
        InvalidTrace: The file is not a valid trace. Of signals that are not requested,
            only the names are checked.
    """
    header, used, rest = stream_json_lines(path, vocabulary, checked=False)
    wanted = list(header.provides if names is None else names)
    wanted = [name for name in wanted if header.can_know(name)]
    times_s: list[float] = []
    held: dict[str, list[Any]] = {name: [] for name in wanted}
    known = used.signals if used else {}
    try:
        for frame, _ in rest:
            times_s.append(frame.time_s)
            for name, values in held.items():
                values.append(frame.values[name])
        columns = {
            name: array_of(values, name in known and known[name].type == "number")
            for name, values in held.items()
        }
        valid = first_fault(columns, used) is None
    except (KeyError, OverflowError):
        valid = False
    if not valid:  # reading frame by frame finds the place of the error
        return Kept.of(read_json_lines(path, vocabulary), wanted)
    return Kept(header, np.array(times_s, np.float64), columns, used)
