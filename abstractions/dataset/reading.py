"""Reads the requested columns of `forewarn.traces/1` datasets, a few runs at a time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.dataset.arrays import (
    Arrays,
    first_fault,
    frames_of,
    numpy_of,
    unfolded_bytes,
    words_of,
)
from forewarn.abstractions.dataset.layout import (
    FORMAT,
    VALUES,
    Kind,
    PartFacts,
    RunFacts,
    column_of,
    kind_of,
    known_of,
    known_signal,
    parquet,
    signal_of,
)
from forewarn.abstractions.dataset.pages import unpacked_bytes
from forewarn.abstractions.dataset.tables import RunTable
from forewarn.abstractions.errors import OF_LOGS, InvalidTrace, TooLarge, naming
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.places import mapped, opened, storage_said, version
from forewarn.abstractions.trace import Note
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary

if TYPE_CHECKING:
    import pyarrow as pa

MAX_ROWS = 300_000
MAX_BYTES = VALUES * np.float64().nbytes
"""The maximum size of a row group, in bytes; files that we write stay far below it."""

_COUNTED = "whole", "number"
"""The kinds of the columns `sequence` and `time_s`."""

HELD = 4
"""The number of parts that are kept open; each caches the rows that were read last."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Consecutive runs, as one array per column.

    Args:
        runs: The metadata of each run.
        starts: The index of the first row of each run.
        times_s: The time of each row, in s.
        signals: The requested signals, as returned by `Trace.columns`.
    """

    runs: tuple[RunFacts, ...]
    starts: NDArray[np.int64]
    times_s: NDArray[np.float64]
    signals: Mapping[str, NDArray[Any]]


class Part:
    """A Parquet file with runs; one part of a dataset.

    Raises:
        InvalidTrace: The file is not a part of a dataset, or is incomplete.
    """

    def __init__(self, path: Path) -> None:
        pq = parquet()
        import pyarrow as pa

        self.path = path
        try:
            self._file = pq.ParquetFile(opened(path))
        except (OSError, pa.ArrowException) as error:
            raise self._unreadable(error) from error
        metadata = (self._file.metadata.metadata or {}).get(FORMAT.encode())
        if metadata is None:
            raise InvalidTrace(
                f"the metadata does not identify the file as {FORMAT}",
                source=str(path),
                mend=(
                    "write the file with `forewarn collect` or `forewarn convert`; "
                    f"for your own logs, {OF_LOGS}"
                ),
            )
        self.facts = PartFacts.loaded(metadata, str(path))
        self._first = np.cumsum([0, *(run.frames for run in self.facts.runs)]).tolist()
        whole = self._file.metadata
        if self._first[-1] != whole.num_rows:
            problem = (
                f"the file contains {whole.num_rows} frames, but the metadata of "
                f"its runs declares {self._first[-1]}"
            )
            raise InvalidTrace(problem, source=str(path))
        sizes = [whole.row_group(i).num_rows for i in range(whole.num_row_groups)]
        self._bounds: list[int] = np.cumsum([0, *sizes]).tolist()
        held = [whole.row_group(i).total_byte_size for i in range(len(sizes))]
        if max(sizes, default=0) > MAX_ROWS or max(held, default=0) > MAX_BYTES:
            raise self._too_large()
        with naming(path):
            self.kinds: dict[str, Kind] = {
                each.name: kind_of(each.type)
                for each in self._file.schema_arrow
                if each.name != "run"
            }
            # Dictionary encoding keeps repeated JSON texts small in memory.
            folded = [name for name, kind in self.kinds.items() if kind == "json"]
            source = opened(path)
            self._file = pq.ParquetFile(
                source,
                metadata=whole,
                read_dictionary=folded,
                pre_buffer=source is not path,
            )
        if (self.kinds.get("sequence"), self.kinds.get("time_s")) != _COUNTED:
            raise InvalidTrace(
                "the column 'sequence' or 'time_s' is missing or does not contain "
                "numbers",
                source=str(path),
            )
        self._number = {run.name: i for i, run in enumerate(self.facts.runs)}
        self._whole: tuple[int, pa.Table] | None = None
        self._last: tuple[tuple[object, ...], Vocabulary | None, Arrays] | None = None

    def _unreadable(self, error: Exception) -> InvalidTrace:
        told = getattr(error, "strerror", None) or storage_said(error)
        reason = told or "this is not a complete Parquet file"
        return InvalidTrace(reason[0].lower() + reason[1:], source=str(self.path))

    def run(self, name: str) -> RunFacts:
        """Returns the metadata of one run in the file."""
        return self.facts.runs[self._number[name]]

    def vocabulary(self, name: str | None) -> Vocabulary | None:
        """Returns the vocabulary with this name, as stored in this file."""
        return self.facts.vocabulary(name, self.path)

    # -- columns ------------------------------------------------------------------

    def rows(
        self,
        names: Iterable[str],
        signals: Sequence[str] | None,
        vocabulary: Vocabulary | None,
    ) -> Iterator[Rows]:
        """Yields the requested runs, several at a time if they share a row group.

        Args:
            names: The names of the runs.
            signals: The requested signals; by default all that a run provides.
            vocabulary: The vocabulary that declares the signals; by default that of the
                runs.

        Raises:
            InvalidTrace: A value is invalid, a requested signal is missing from a
                frame, or the time does not increase.
        """
        for some in self._together(names):
            yield self._rows(some, signals, vocabulary)

    def _together(self, names: Iterable[str]) -> Iterator[list[int]]:
        """Yields the indices of runs in groups that can be read together."""
        some: list[int] = []
        for number in (self._number[name] for name in names):
            if some and not self._follows(some, number):
                yield some
                some = []
            some.append(number)
        if some:
            yield some

    def _follows(self, some: Sequence[int], number: int) -> bool:
        if number != some[-1] + 1:
            return False
        one, other = (self.facts.runs[i].header for i in (some[-1], number))
        if (one.provides, one.vocabulary) != (other.provides, other.vocabulary):
            return False
        # The rows are in one row group if no other row group begins between them.
        first, last = self._first[some[0]], self._first[number + 1]
        return bisect_right(self._bounds, first) == bisect_left(self._bounds, last)

    def _rows(
        self,
        some: Sequence[int],
        signals: Sequence[str] | None,
        vocabulary: Vocabulary | None,
    ) -> Rows:
        runs = tuple(self.facts.runs[number] for number in some)
        header = runs[0].header
        vocabulary = vocabulary or self.vocabulary(header.vocabulary)
        wanted = header.provides if signals is None else signals
        wanted = tuple(s for s in wanted if header.can_know(s))
        first, last = self._first[some[0]], self._first[some[-1] + 1]
        pieces: list[Arrays] = []
        for at, start, stop in self._pieces(first, last):
            begin = self._bounds[at]
            arrays = self._arrays(at, wanted, vocabulary)
            pieces.append(arrays.part(slice(start - begin, stop - begin)))
        rows = Arrays.joined(pieces, wanted)
        starts = np.array([self._first[i] - first for i in some], np.int64)
        problem = rows.problem(starts, vocabulary)
        if problem is not None:
            row, text = problem
            number = int(np.searchsorted(starts, row, side="right")) - 1
            place = f"run {runs[number].name}, frame {row - starts[number]}"
            mend = ""
            if vocabulary and header.vocabulary not in (None, vocabulary.name):
                mend = f"the trace has the vocabulary {header.vocabulary}, but is read "
                mend += f"with {vocabulary.name}: give traces of that vocabulary"
            raise InvalidTrace(text, source=str(self.path), place=place, mend=mend)
        return Rows(runs, starts, rows.times_s, rows.signals)

    def _pieces(self, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """Yields each row group that contains some of these rows, with the range of the
        rows.
        """
        at = bisect_right(self._bounds, first) - 1
        while first < last:
            stop = min(last, self._bounds[at + 1])
            yield at, first, stop
            first, at = stop, at + 1

    def _arrays(
        self, number: int, signals: tuple[str, ...], vocabulary: Vocabulary | None
    ) -> Arrays:
        """Returns the signals in a row group; the last result is cached for other runs
        in the group.
        """
        key = number, signals
        last = self._last
        if last is None or last[0] != key or last[1] is not vocabulary:
            self._last = None
            last = key, vocabulary, self._read_arrays(number, signals, vocabulary)
            self._last = last
        return last[2]

    def _read_arrays(
        self, number: int, signals: tuple[str, ...], vocabulary: Vocabulary | None
    ) -> Arrays:
        stored = {s: column_of(s) for s in signals if column_of(s) in self.kinds}
        marks = {s: known_of(s) for s in signals if known_of(s) in self.kinds}
        table = self._table(number, ["time_s", *stored.values(), *marks.values()])
        there = {s: numpy_of(table.column(mark), "truth") for s, mark in marks.items()}
        held: dict[str, NDArray[Any]] = {}
        distinct: dict[str, list[Any]] = {}
        for signal in signals:
            if signal not in stored:
                held[signal] = np.empty(len(table), object)
                there[signal] = np.zeros(len(table), bool)
                continue
            column = table.column(stored[signal])
            held[signal] = numpy_of(column, self.kinds[stored[signal]], str(self.path))
            if self.kinds[stored[signal]] == "word":
                distinct[signal] = words_of(column)
        clean = not there and first_fault(held, vocabulary, distinct) is None
        return Arrays(numpy_of(table.column("time_s"), "number"), held, there, clean)

    def _table(self, number: int, columns: Sequence[str]) -> pa.Table:
        """Reads columns of a row group, after checking their decompressed size."""
        import pyarrow as pa

        rows = self._file.metadata.row_group(number).num_rows
        if rows * len(columns) * np.float64().nbytes > MAX_BYTES:
            raise self._too_large()
        try:
            if self._unpacked(number, columns) > MAX_BYTES:
                raise self._too_large()
            table = self._file.read_row_group(
                number, columns=list(columns), use_threads=False
            )
        except (OSError, ValueError, pa.ArrowException) as error:
            problem = storage_said(error) or "the file is damaged"
            raise InvalidTrace(problem, source=str(self.path)) from error
        if sum(map(unfolded_bytes, table.columns)) > MAX_BYTES:
            raise self._too_large()
        for at, name in enumerate(table.column_names):
            if self.kinds.get(name) == "json":
                table = table.set_column(at, name, table.column(at).cast(pa.string()))
        return table

    def _unpacked(self, number: int, columns: Sequence[str]) -> int:
        """Returns the decompressed size of columns in a row group, computed from their
        pages.
        """
        with mapped(self.path) as raw:
            return unpacked_bytes(raw, self._file.metadata, number, list(columns))

    def _too_large(self) -> TooLarge:
        problem = "a row group in the file exceeds the size limit"
        return TooLarge(problem, source=str(self.path))

    # -- whole runs ---------------------------------------------------------------

    def _tables(self, name: str) -> Iterator[pa.Table]:
        """Yields the rows of a run by row group, without the columns that only other
        runs have.
        """
        empty = True
        number = self._number[name]
        span = self._first[number], self._first[number + 1]
        for at, start, stop in self._pieces(*span):
            begin = self._bounds[at]
            if self._whole is None or self._whole[0] != at:
                self._whole = at, self._table(at, list(self.kinds))
            rows = self._whole[1].slice(start - begin, stop - start)
            yield rows.select([c for c in self.kinds if self._has(rows, c)])
            empty = False
        if empty:
            yield self._file.schema_arrow.empty_table().select(["sequence", "time_s"])

    def _has(self, rows: pa.Table, column: str) -> bool:
        """Whether a column is needed to represent these rows of a run."""
        import pyarrow.compute as pc

        signal, marked = signal_of(column), known_signal(column)
        if marked is not None:
            known = rows.column(column)
            return bool(pc.any(known).as_py() and not pc.all(known).as_py())
        if signal is not None:
            mark = known_of(signal)
            return mark not in self.kinds or bool(pc.any(rows.column(mark)).as_py())
        own = column in ("sequence", "time_s")
        return own or rows.column(column).null_count < len(rows)

    def run_table(self, name: str) -> RunTable:
        """Returns a run as it was written, for copying."""
        facts = self.run(name)
        chunks = tuple(self._own_words(rows) for rows in self._tables(name))
        spoken = self.vocabulary(facts.header.vocabulary)
        return RunTable(name, facts.header, chunks, facts.digest, spoken)

    def _own_words(self, rows: pa.Table) -> pa.Table:
        """Returns the rows with new dictionaries, which contain only the words that
        occur, in order of occurrence.
        """
        import pyarrow as pa

        for i, column in enumerate(rows.column_names):
            if self.kinds[column] == "word":
                words = rows.column(column).cast(pa.string()).dictionary_encode()
                rows = rows.set_column(i, column, words)
        return rows

    def frames(self, name: str) -> Iterator[tuple[Frame, Note | None]]:
        """Yields the frames of a run as they were written, without any checks."""
        for rows in self._tables(name):
            yield from frames_of(rows, self.kinds, str(self.path))


@lru_cache(maxsize=HELD)
def _opened(path: Path, size: int, changed_ns: int) -> Part:
    return Part(path)


def part_of(path: Path) -> Part:
    """Opens a part of a dataset; the part is cached until the file changes."""
    try:
        size, changed_ns = version(path)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InvalidTrace(reason, source=str(path)) from error
    return _opened(path, size, changed_ns)
