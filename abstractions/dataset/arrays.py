"""Converts Parquet columns to arrays and frames, and checks their values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.dataset.layout import (
    LABEL,
    NOTES,
    UNLABELLED,
    Kind,
    known_signal,
    signal_of,
    values_of,
)
from forewarn.abstractions.errors import SignalFault
from forewarn.abstractions.files import parse_json
from forewarn.abstractions.frame import Frame, Value
from forewarn.abstractions.trace import Note, plain_values
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary

if TYPE_CHECKING:
    import pyarrow as pa


_Check = Callable[[object], Value]


def first_fault(
    columns: Mapping[str, NDArray[Any]],
    vocabulary: Vocabulary | None,
    distinct: Mapping[str, Iterable[Value]] | None = None,
) -> tuple[int, SignalFault] | None:
    """Returns the index of the first frame with an invalid value, and the error; None
    if all values are valid.

    Args:
        columns: The signals, as returned by `Trace.columns`.
        vocabulary: The vocabulary that declares the signals.
        distinct: The distinct values of some columns, which make the check faster.
    """
    found: tuple[int, SignalFault] | None = None
    for name, column in columns.items():
        check = vocabulary.checker(name) if vocabulary else plain_values(name)
        known = (distinct or {}).get(name)
        if known is not None and not any(_fault(check, value) for value in known):
            continue
        for at in _suspects(name, column, vocabulary):
            fault = _fault(check, _plain(column[at]))
            if fault is not None:
                if found is None or at < found[0]:
                    found = at, fault
                break
    return found


def _suspects(
    name: str, column: NDArray[Any], vocabulary: Vocabulary | None
) -> Iterable[int]:
    """Returns the indices of the frames to check, in ascending order; all other values
    are valid.
    """
    if column.dtype.kind == "f":
        bad = np.isinf(column)
        signal = vocabulary.signals.get(name) if vocabulary else None
        if signal is not None:
            low = -np.inf if signal.low is None else signal.low
            high = np.inf if signal.high is None else signal.high
            bad |= (column < low) | (column > high)
            if not signal.may_be_none or signal.type != "number":
                bad |= np.isnan(column)
            if signal.type != "number":
                bad[:1] = True
        elif vocabulary is not None:
            bad[:1] = True
        return np.flatnonzero(bad).tolist()
    if column.dtype == bool:
        return range(min(len(column), 1))
    values = column.tolist()
    if len(set(map(type, values)) - {type(None)}) > 1:
        return range(len(values))
    # All values have the same type, so it is enough to check each distinct value once.
    numbers = range(len(values))
    return dict(zip(reversed(values), reversed(numbers), strict=True)).values()


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return None if value != value else value


def _fault(check: _Check, value: object) -> SignalFault | None:
    try:
        check(value)
    except SignalFault as fault:
        return fault
    return None


def frames_of(
    rows: pa.Table, kinds: Mapping[str, Kind], source: str
) -> Iterator[tuple[Frame, Note | None]]:
    """Yields the frames and notes in rows of a dataset, without any checks.

    Args:
        rows: Rows of one run, with only the columns that this run has.
        kinds: The kind of each column.
        source: The name of the file, for error messages.
    """
    signals: dict[str, list[Any]] = {}
    absent: dict[str, list[bool]] = {}
    for column in rows.column_names:
        values = _values(rows, column, kinds, source)
        if (signal := signal_of(column)) is not None:
            signals[signal] = values
        elif (signal := known_signal(column)) is not None:
            absent[signal] = values
    moments = zip(
        rows.column("sequence").to_pylist(),
        rows.column("time_s").to_pylist(),
        _notes(rows, kinds, source),
        strict=True,
    )
    for i, (sequence, time_s, note) in enumerate(moments):
        held = {
            signal: column[i]
            for signal, column in signals.items()
            if signal not in absent or absent[signal][i]
        }
        yield Frame(time_s, sequence, held), note


def _notes(
    rows: pa.Table, kinds: Mapping[str, Kind], source: str
) -> Iterator[Note | None]:
    if LABEL not in rows.column_names:
        yield from (None for _ in range(len(rows)))
        return
    held = {
        key: _values(rows, key, kinds, source)
        for key in NOTES
        if key in rows.column_names
    }
    for i, label in enumerate(_values(rows, LABEL, kinds, source)):
        if label is None:
            yield None
            continue
        said = {key: column[i] for key, column in held.items()}
        said["interventions"] = tuple(said.get("interventions") or ())
        yield Note(label=None if label == UNLABELLED else label, **said)


def _values(
    rows: pa.Table, column: str, kinds: Mapping[str, Kind], source: str
) -> list[Any]:
    values: list[Any] = rows.column(column).to_pylist()
    if kinds[column] != "json":
        return values
    return [None if value is None else parse_json(value, source) for value in values]


@dataclass(frozen=True, slots=True)
class Arrays:
    """Rows of a dataset, as one array per column.

    Args:
        times_s: The time of each row.
        signals: The value of each signal in each row.
        there: For each signal that some rows lack, a mask of the rows that contain it.
        clean: Whether every value is valid for its signal.
    """

    times_s: NDArray[np.float64]
    signals: Mapping[str, NDArray[Any]]
    there: Mapping[str, NDArray[np.bool_]]
    clean: bool

    def part(self, rows: slice) -> Arrays:
        return Arrays(
            self.times_s[rows],
            {name: column[rows] for name, column in self.signals.items()},
            {name: known[rows] for name, known in self.there.items()},
            self.clean,
        )

    @classmethod
    def joined(cls, pieces: Sequence[Arrays], signals: Sequence[str]) -> Arrays:
        if len(pieces) == 1:
            return pieces[0]
        marked = {name for piece in pieces for name in piece.there}
        return cls(
            np.concatenate([np.empty(0), *(piece.times_s for piece in pieces)]),
            {
                name: np.concatenate([piece.signals[name] for piece in pieces])
                for name in (signals if pieces else ())
            },
            {
                name: np.concatenate([piece.there[name] for piece in pieces])
                for name in marked
            },
            all(piece.clean for piece in pieces),
        )

    def problem(
        self, starts: NDArray[np.int64], vocabulary: Vocabulary | None
    ) -> tuple[int, str] | None:
        """Returns the index of the first row with an error, and the error; None if
        there is none.

        Args:
            starts: The index of the first row of each run.
            vocabulary: The vocabulary that declares the signals.
        """
        times = self.times_s
        later = np.diff(times, prepend=-np.inf) > 0
        later[starts[starts < len(times)]] = True
        later &= np.isfinite(times)
        found: list[tuple[int, str]] = []
        if not later.all():
            at = int(np.argmin(later))
            found.append(
                (
                    at,
                    f"the time {times[at]:g} s is not later than that of the previous "
                    "frame",
                )
            )
        for name, known in self.there.items():
            if not known.all():
                text = (
                    f"the signal {name} is listed in 'provides', but missing from "
                    "this frame"
                )
                found.append((int(np.argmin(known)), text))
        if not self.clean and not found:
            fault = first_fault(self.signals, vocabulary)
            if fault is not None:
                found.append((fault[0], str(fault[1])))
        return min(found, default=None)


def words_of(column: pa.ChunkedArray) -> list[str | None]:
    """Returns the distinct words of a dictionary column, including None if it
    occurs.
    """
    words = {word for chunk in column.chunks for word in chunk.dictionary.to_pylist()}
    return [*words, None] if column.null_count else [*words]


def numpy_of(column: pa.ChunkedArray, kind: Kind, source: str = "") -> NDArray[Any]:
    """Converts a column to the array that `Trace.columns` returns."""
    if kind == "word":
        parts = []
        for chunk in column.chunks:
            words = np.array([*chunk.dictionary.to_pylist(), None], object)
            indices, none = values_of(chunk.indices)
            if none is not None:
                indices = np.where(none, len(words) - 1, indices)
            parts.append(words[indices])
        return np.concatenate([np.empty(0, object), *parts])
    if kind in ("number", "whole"):
        numbers = [np.empty(0, np.float64)]
        for held, none in map(values_of, column.chunks):
            numbers.append(held if none is None else np.where(none, np.nan, held))
        return np.concatenate(numbers)
    if kind == "truth" and not column.null_count:
        truths = [values_of(chunk)[0] for chunk in column.chunks]
        return np.concatenate([np.empty(0, np.bool_), *truths])
    values = column.to_pylist()
    if kind == "json":
        values = [None if v is None else parse_json(v, source) for v in values]
    found = np.empty(len(values), object)
    found[:] = values
    return found


def unfolded_bytes(column: pa.ChunkedArray) -> int:
    """Returns the size of a column in bytes after its dictionary is expanded."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    total = 0
    for chunk in column.chunks:
        lengths = pc.binary_length(chunk.dictionary)
        total += pc.sum(lengths.take(chunk.indices)).as_py() or 0
    return total
