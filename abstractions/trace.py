"""Traces: a header that describes the source, and the frames.

`forewarn.abstractions.readers.read_trace` reads all supported formats; `write_trace`
and `trace_writer` write the format `forewarn.trace/1` (JSON Lines).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TextIO

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import InvalidTrace, SignalFault
from forewarn.abstractions.files import atomic_text
from forewarn.abstractions.frame import Frame, Value
from forewarn.abstractions.vocabularies.vocabulary import (
    YAML,
    Vocabulary,
    load_vocabulary,
    vocabulary_reference,
)

FORMAT = "forewarn.trace/1"


@dataclass(frozen=True, slots=True)
class TraceHeader:
    """Metadata of a trace.

    Args:
        vocabulary: The name of the vocabulary, or the path of its file; None if the
            signals are not declared.
        provides: The signals that the source can provide. Object predicates are listed
            by their full text, or by their name alone for all instances.
        period_s: The time between two frames, in s; None if it is not constant.
        scenario: The scenario of the run.
        seed: The seed of the run.
        source: The program that recorded the trace.
        guarded: Whether a guard was allowed to intervene.
    """

    vocabulary: str | None = None
    provides: tuple[str, ...] = ()
    period_s: float | None = None
    scenario: str = ""
    seed: int | None = None
    source: str = ""
    guarded: bool = False

    def can_know(self, key: str) -> bool:
        """Whether a frame may contain the signal."""
        return key in self.provides or key.partition("(")[0] in self.provides


@dataclass(frozen=True, slots=True)
class Note:
    """The information that a trace may contain about a frame, in addition to signals.

    `proposal`, `executed` and `tool_output` are any JSON from the source. `label` is
    None if the trace is not labelled.
    """

    proposal: Any = None
    executed: Any = None
    tool_output: Any = None
    interventions: tuple[Any, ...] = ()
    label: Literal["safe", "unsafe"] | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """A header and frames; the keys of `notes` are indices of frames.

    The values of the signals conform to `vocabulary`, if it is given.
    """

    header: TraceHeader
    frames: tuple[Frame, ...]
    notes: Mapping[int, Note] = field(default_factory=dict)
    vocabulary: Vocabulary | None = None

    def __len__(self) -> int:
        return len(self.frames)

    def times(self) -> NDArray[np.float64]:
        """Returns the times of the frames, in s."""
        return np.array([frame.time_s for frame in self.frames], dtype=np.float64)

    def columns(self, names: Iterable[str] | None = None) -> dict[str, NDArray[Any]]:
        """Returns the signals as arrays with one value per frame.

        Arrays of numbers are float64, with NaN for none. Arrays of Booleans are bool,
        or object if there are None values. Arrays of names are object.

        Args:
            names: The requested signals; by default all signals that every frame
                contains.

        Raises:
            InvalidTrace: A frame does not contain a requested signal.
        """
        if names is None:
            common = set(self.frames[0].values) if self.frames else set()
            for frame in self.frames:
                common.intersection_update(frame.values)
            names = [name for name in self.header.provides if name in common]
        return {name: self._column(name) for name in names}

    def _column(self, name: str) -> NDArray[Any]:
        try:
            values = [frame.values[name] for frame in self.frames]
        except KeyError:
            at = next(i for i, f in enumerate(self.frames) if name not in f.values)
            raise InvalidTrace(
                f"the signal {name} is listed in 'provides', but missing from "
                "this frame",
                place=f"frame {at}",
            ) from None
        return array_of(values, self._is_number(name))

    def _is_number(self, name: str) -> bool:
        known = self.vocabulary.signals if self.vocabulary else {}
        return name in known and known[name].type == "number"


def array_of(values: Sequence[Any], number: bool) -> NDArray[Any]:
    """Converts values to an array; `number` gives the type if all values are None."""
    kinds = set(map(type, values))
    if kinds <= {bool} and kinds:
        return np.array(values, dtype=bool)
    if kinds <= {float, int, type(None)} and kinds != {type(None)}:
        return np.array(values, dtype=np.float64)
    if kinds == {type(None)} and number:
        return np.full(len(values), np.nan)
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


class TraceWriter:
    """Writes the frames of a trace; use `trace_writer` to create one."""

    def __init__(
        self, out: TextIO, header: TraceHeader, vocabulary: Vocabulary | None = None
    ) -> None:
        self._out, self._header = out, header
        self._last: Frame | None = None
        self._known = set[str]()
        self._line({"format": FORMAT, **header_keys(header, vocabulary)})

    def write(self, frame: Frame, note: Note | None = None) -> None:
        """Appends one frame.

        Raises:
            InvalidTrace: The frame is not later than the last one, or contains a signal
                that the header does not list.
            SignalFault: A value is not a finite number, a Boolean, a name or None.
        """
        check_order(self._last, frame)
        for key, value in frame.values.items():
            if key not in self._known:
                if not self._header.can_know(key):
                    raise InvalidTrace(
                        f"the signal {key} is not listed in the header's 'provides'"
                    )
                self._known.add(key)
            if not is_value(value):
                raise SignalFault(
                    f"the signal {key} has an invalid value: {value!r:.60}"
                )
        self._last = frame
        line: dict[str, Any] = {
            "sequence": frame.sequence,
            "time_s": frame.time_s,
            "signals": dict(frame.values),
        }
        if note is not None:
            line |= {
                key: list(value) if isinstance(value, tuple) else value
                for key in ("proposal", "executed", "tool_output", "interventions")
                if (value := getattr(note, key)) not in (None, ())
            }
            line["label"] = note.label
        self._line(line)

    def _line(self, value: Mapping[str, Any]) -> None:
        try:
            text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise InvalidTrace(
                f"this frame cannot be written as JSON: {error}"
            ) from error
        self._out.write(text + "\n")


@contextmanager
def trace_writer(
    path: Path, header: TraceHeader, vocabulary: Vocabulary | None = None
) -> Iterator[TraceWriter]:
    """Writes a trace frame by frame; the file appears once the trace is complete.

    A vocabulary that is not built in is embedded in the trace, so that the trace can be
    read without the vocabulary file.
    """
    with atomic_text(path) as out:
        yield TraceWriter(out, header, vocabulary)


def write_trace(path: Path, trace: Trace) -> None:
    """Writes a whole trace; gzips the file if its name ends in .gz."""
    with trace_writer(path, trace.header, trace.vocabulary) as writer:
        for index, frame in enumerate(trace.frames):
            writer.write(frame, trace.notes.get(index))


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """The part of a trace that is needed for learning: some signals, as arrays."""

    header: TraceHeader
    times_s: NDArray[np.float64]
    signals: Mapping[str, NDArray[Any]]
    vocabulary: Vocabulary | None = None

    @classmethod
    def of(cls, trace: Trace, names: Iterable[str]) -> Kept:
        """Keeps the named signals, except those that the trace cannot contain."""
        wanted = [name for name in names if trace.header.can_know(name)]
        signals = trace.columns(wanted)
        return cls(trace.header, trace.times(), signals, trace.vocabulary)

    def __len__(self) -> int:
        return len(self.times_s)

    def times(self) -> NDArray[np.float64]:
        return self.times_s

    def columns(self, names: Iterable[str]) -> dict[str, NDArray[Any]]:
        return {name: self.signals[name] for name in names}


def check_order(last: Frame | None, frame: Frame) -> None:
    """Raises `InvalidTrace` if the frame is not later than the last one."""
    if not math.isfinite(frame.time_s):
        raise InvalidTrace(f"the time is {frame.time_s}, not a finite number")
    if last is None:
        return
    if frame.sequence <= last.sequence:
        what = "repeated" if frame.sequence == last.sequence else "goes back"
        raise InvalidTrace(
            f"the sequence number {frame.sequence} {what}",
            mend="number the frames in order, starting at 0",
        )
    if frame.time_s <= last.time_s:
        raise InvalidTrace(
            f"the time {frame.time_s:g} s does not come after {last.time_s:g} s",
            mend="sort the frames by time, without duplicates",
        )


def is_value(value: object) -> bool:
    """Whether the value is a finite number, a Boolean, a text or None."""
    if value is None or isinstance(value, bool | str):
        return True
    return isinstance(value, int | float) and value - value == 0


def plain_values(key: str) -> Callable[[object], Value]:
    """Returns a function that checks the values of a signal that is not declared."""

    def check(value: object) -> Value:
        if not is_value(value):
            raise SignalFault(f"{key} cannot be {value!r:.60}")
        return value  # type: ignore[return-value]

    return check


def header_keys(
    header: TraceHeader, vocabulary: Vocabulary | None = None
) -> dict[str, Any]:
    """Returns the JSON object of a header in a file."""
    named = header.vocabulary
    if vocabulary is None and named is not None and Path(named).suffix in YAML:
        vocabulary = load_vocabulary(named)
    return {
        "vocabulary": named if vocabulary is None else vocabulary_reference(vocabulary),
        "provides": list(header.provides),
        "period_s": header.period_s,
        "scenario": header.scenario,
        "seed": header.seed,
        "source": header.source,
        "guarded": header.guarded,
    }
