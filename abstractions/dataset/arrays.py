"""Columns of rows that were read, as arrays; what is wrong with them, and how large."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.dataset.checking import first_fault
from forewarn.abstractions.dataset.layout import Kind
from forewarn.abstractions.files import parse_json
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Arrays:
    """Columns of some rows.

    Args:
        times_s: The time of each row.
        signals: The signals.
        there: Where some of them are there.
        clean: Whether every value is one of its signal.
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
        """The first row with which something is wrong, and what.

        Args:
            starts: Where runs begin.
            vocabulary: What the values are checked against.
        """
        times = self.times_s
        later = np.diff(times, prepend=-np.inf) > 0
        later[starts[starts < len(times)]] = True
        later &= np.isfinite(times)
        found: list[tuple[int, str]] = []
        if not later.all():
            at = int(np.argmin(later))
            found.append((at, f"the time {times[at]:g} s does not come after the last"))
        for name, known in self.there.items():
            if not known.all():
                text = f"{name} is provided, but absent from this frame"
                found.append((int(np.argmin(known)), text))
        if not self.clean and not found:
            fault = first_fault(self.signals, vocabulary)
            if fault is not None:
                found.append((fault[0], str(fault[1])))
        return min(found, default=None)


def words_of(column: pa.ChunkedArray) -> list[str | None]:
    """The words that a column may hold, and None where it holds that."""
    words = {word for chunk in column.chunks for word in chunk.dictionary.to_pylist()}
    return [*words, None] if column.null_count else [*words]


def numpy_of(column: pa.ChunkedArray, kind: Kind, source: str = "") -> NDArray[Any]:
    """A column as `Trace.columns` has it: NaN or None for none."""
    if kind == "word":
        parts = []
        for chunk in column.chunks:
            words = np.array([*chunk.dictionary.to_pylist(), None], object)
            parts.append(words[np.asarray(chunk.indices.fill_null(len(words) - 1))])
        return np.concatenate([np.empty(0, object), *parts])
    if kind in ("number", "whole"):
        return np.asarray(column.to_numpy(), np.float64)
    if kind == "truth" and not column.null_count:
        return np.asarray(column.to_numpy(), bool)
    values = column.to_pylist()
    if kind == "json":
        values = [None if v is None else parse_json(v, source) for v in values]
    found = np.empty(len(values), object)
    found[:] = values
    return found


def unfolded_bytes(column: pa.ChunkedArray) -> int:
    """How large a column is in which each row has a word of its own."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    total = 0
    for chunk in column.chunks:
        lengths = pc.binary_length(chunk.dictionary)
        total += pc.sum(lengths.take(chunk.indices)).as_py() or 0
    return total
