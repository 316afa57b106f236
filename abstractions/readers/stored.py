"""Reads stored runs, from one file per run or from a dataset of many runs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.arguments import checked
from forewarn.abstractions.dataset.layout import SUFFIX, parquet
from forewarn.abstractions.dataset.reading import part_of
from forewarn.abstractions.dataset.tables import RunTable, run_table
from forewarn.abstractions.dataset.writing import write_part
from forewarn.abstractions.errors import InvalidInput, InvalidTrace, SignalFault
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.places import files_below, place
from forewarn.abstractions.readers import is_json_lines, read_trace
from forewarn.abstractions.readers.json_lines import keep_json_lines, stream_json_lines
from forewarn.abstractions.trace import Kept, Note, Trace, TraceHeader, trace_writer
from forewarn.abstractions.vocabularies.vocabulary import YAML, Vocabulary

FACTS = "runs.csv"
"""The name of the table of facts about the runs in a folder."""


@dataclass(frozen=True, slots=True, order=True)
class Stored:
    """A run stored in a file.

    Args:
        path: The file of the run, or the part of a dataset that contains the run.
        run: The name of the run in the dataset; empty if the file contains only this
            run.
    """

    path: Path
    run: str = ""

    @property
    def name(self) -> str:
        """The name of the run in the dataset, or of the file."""
        return self.run or self.path.name

    @property
    def digest(self) -> str:
        """The SHA-256 digest of the file or, in a dataset, of the run's content."""
        if self.run:
            return part_of(self.path).run(self.run).digest
        with self.path.open("rb") as raw:
            return hashlib.file_digest(raw, "sha256").hexdigest()

    def trace(
        self, vocabulary: Vocabulary | None = None, period_s: float | None = None
    ) -> Trace:
        """Reads the whole run."""
        if not self.run:
            return read_trace(self.path, vocabulary, period_s)
        part = part_of(self.path)
        header = part.run(self.run).header
        used = vocabulary or part.vocabulary(header.vocabulary)
        noted = list(part.frames(self.run))
        notes = {i: note for i, (_, note) in enumerate(noted) if note is not None}
        return Trace(header, tuple(frame for frame, _ in noted), notes, used)

    def stream(
        self,
    ) -> tuple[TraceHeader, Vocabulary | None, Iterator[tuple[Frame, Note | None]]]:
        """Reads the run; returns the header, the vocabulary and an iterator over the
        frames.
        """
        if self.run:
            part = part_of(self.path)
            header = part.run(self.run).header
            vocabulary = part.vocabulary(header.vocabulary)
            return header, vocabulary, part.frames(self.run)
        if is_json_lines(self.path):
            return stream_json_lines(self.path)
        trace = read_trace(self.path)
        noted = ((f, trace.notes.get(i)) for i, f in enumerate(trace.frames))
        return trace.header, trace.vocabulary, noted

    def kept(
        self,
        names: Iterable[str] | None = None,
        vocabulary: Vocabulary | None = None,
        period_s: float | None = None,
    ) -> Kept:
        """Reads signals of the run as arrays; by default all that the run provides."""
        (batch,) = batches([self], names, vocabulary, period_s)
        return next(batch.apart())


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Several runs that were read together, as one array per signal.

    Args:
        runs: The stored runs.
        headers: The header of each run.
        starts: The index of the first frame of each run.
        times_s: The time of each frame, in s.
        signals: The requested signals that the runs can provide.
        vocabulary: The vocabulary of the runs, if it is known.
    """

    runs: tuple[Stored, ...]
    headers: tuple[TraceHeader, ...]
    starts: NDArray[np.int64]
    times_s: NDArray[np.float64]
    signals: Mapping[str, NDArray[Any]]
    vocabulary: Vocabulary | None

    @classmethod
    def of(cls, run: Stored, kept: Kept) -> Batch:
        """Returns a batch with a single run."""
        starts = np.zeros(1, np.int64)
        return cls(
            (run,), (kept.header,), starts, kept.times_s, kept.signals, kept.vocabulary
        )

    @classmethod
    def joined(cls, runs: Sequence[Kept], names: Iterable[str]) -> Batch:
        """Joins runs that provide the same signals; keeps the named signals."""
        first, lengths = runs[0], [len(run) for run in runs]
        return cls(
            (Stored(Path()),) * len(runs),
            tuple(run.header for run in runs),
            np.cumsum([0, *lengths])[:-1],
            np.concatenate([run.times_s for run in runs]),
            {
                name: np.concatenate([run.signals[name] for run in runs])
                for name in names
                if name in first.signals
            },
            first.vocabulary,
        )

    def __len__(self) -> int:
        return len(self.times_s)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of frames in each run."""
        return np.diff(self.starts, append=len(self))

    def apart(self) -> Iterator[Kept]:
        """Yields each run separately."""
        ends = (self.starts + self.lengths).tolist()
        for header, start, end in zip(
            self.headers, self.starts.tolist(), ends, strict=True
        ):
            signals = {name: col[start:end] for name, col in self.signals.items()}
            yield Kept(header, self.times_s[start:end], signals, self.vocabulary)


def batches(
    runs: Iterable[Stored],
    names: Iterable[str] | None = None,
    vocabulary: Vocabulary | None = None,
    period_s: float | None = None,
) -> Iterator[Batch]:
    """Yields the runs in order; runs from the same row group of a dataset share a
    batch.

    Args:
        runs: The runs to read.
        names: The requested signals; by default all that a run provides.
        vocabulary: Overrides the vocabulary that a run names.
        period_s: The time between the rows of a CSV without a `time_s` column, in s.
    """
    wanted = None if names is None else tuple(names)
    for (path, in_part), some in groupby(runs, key=lambda r: (r.path, bool(r.run))):
        if in_part:
            part = part_of(path)
            for rows in part.rows((run.run for run in some), wanted, vocabulary):
                yield Batch(
                    tuple(Stored(path, facts.name) for facts in rows.runs),
                    tuple(facts.header for facts in rows.runs),
                    rows.starts, rows.times_s, rows.signals,
                    vocabulary or part.vocabulary(rows.runs[0].header.vocabulary),
                )  # fmt: skip
            continue
        for run in some:
            yield Batch.of(run, _kept(path, wanted, vocabulary, period_s))


def _kept(
    path: Path,
    names: Sequence[str] | None,
    vocabulary: Vocabulary | None,
    period_s: float | None,
) -> Kept:
    if is_json_lines(path):
        return keep_json_lines(path, names, vocabulary)
    trace = read_trace(path, vocabulary, period_s)
    return Kept.of(trace, trace.header.provides if names is None else names)


def files_in(path: Path) -> list[Path]:
    """Returns the file itself, or the files in a folder, sorted by name.

    Skips YAML files (vocabularies, scenarios and policies), reports, and the file
    `runs.csv` with facts about the runs.
    """
    if not path.is_dir():
        return [path]
    found = [
        each
        for each in files_below(path)
        if each.suffix not in (*YAML, ".html") and each.name != FACTS
    ]
    if not found:
        mend = f"record traces with `forewarn collect … --out {path}`"
        folders = sorted(each for each in path.glob("[!.]*") if each.is_dir())
        if folders:
            mend = f"give one of its folders, such as {folders[0]}"
        raise InvalidInput("the folder contains no traces", source=str(path), mend=mend)
    if any(each.name.removesuffix(".gz").endswith(".run.jsonl") for each in found):
        problem = "the folder contains run records, not traces"
        mend = "record traces of unguarded runs with `forewarn collect`"
        raise InvalidInput(problem, source=str(path), mend=mend)
    return found


def stored_runs(paths: Iterable[Path]) -> list[Stored]:
    """Returns the runs in these files; a run that is in two parts of a dataset is
    listed once.
    """
    found: dict[tuple[Path, str], Stored] = {}
    for path in paths:
        if path.suffix != SUFFIX:
            found[path, ""] = Stored(path)
            continue
        for run in part_of(path).facts.runs:
            found.setdefault((path.parent, run.name), Stored(path, run.name))
    return list(found.values())


@checked
def read_traces(
    path: Path | str, vocabulary: Vocabulary | None = None
) -> Iterator[Trace]:
    """Yields all runs in a file or a folder, in any supported format.

    Args:
        path: A file or folder of traces, such as the output of `forewarn collect`, or
            its storage URL.
        vocabulary: The vocabulary for runs that do not name their own.

    Raises:
        InvalidTrace: A file is not a valid trace.
    """
    for run in stored_runs(files_in(place(path))):
        yield run.trace(vocabulary)


ROWS = 1 << 20
RUNS = 4096
"""A part of a dataset is full once it has this many frames or this many runs."""

_ENDINGS = (".gz", ".jsonl", ".json", ".csv")


def to_columns(runs: Iterable[Stored], folder: Path) -> Iterator[Path]:
    """Writes runs to a dataset, one part at a time.

    Args:
        runs: Traces in any supported format.
        folder: The folder of the dataset.

    Yields: For each run, the path of the part that will contain it.
    """
    parquet()
    seen: dict[str, Stored] = {}
    some: list[RunTable] = []
    parts = 0
    out = folder / f"part-{parts:05}{SUFFIX}"
    with ExitStack() as stack:
        for run in runs:
            name = name_of(run)
            if name in seen:
                raise InvalidInput(
                    f"the run in {seen[name].path} has the same name, {name}",
                    source=str(run.path),
                    mend="rename one of them",
                )
            seen[name] = run
            spool = Path(stack.enter_context(TemporaryDirectory()))
            some.append(_table(run, name, spool))
            yield out
            if sum(t.frames for t in some) >= ROWS or len(some) >= RUNS:
                write_part(out, some)
                some.clear()
                stack.close()
                parts += 1
                out = folder / f"part-{parts:05}{SUFFIX}"
        if some:
            write_part(out, some)


def name_of(run: Stored) -> str:
    """Returns the name of a run in a dataset: its own name, or the name of its file
    without suffixes.
    """
    name = run.name
    if not run.run:
        for ending in _ENDINGS:
            name = name.removesuffix(ending)
    return name


def _table(run: Stored, name: str, spool: Path) -> RunTable:
    header, vocabulary, frames = run.stream()
    try:
        return run_table(name, header, frames, vocabulary, spool)
    except (InvalidTrace, SignalFault) as error:
        if isinstance(error, InvalidTrace):
            raise error.within(str(run.path)) from None
        raise InvalidTrace(str(error), source=str(run.path)) from None


def to_lines(runs: Iterable[Stored], folder: Path) -> Iterator[Path]:
    """Writes each run to a gzipped JSON Lines file; yields the path of each file."""
    for run in runs:
        header, vocabulary, frames = run.stream()
        out = folder / f"{name_of(run)}.jsonl.gz"
        with trace_writer(out, header, vocabulary) as writer:
            for frame, note in frames:
                writer.write(frame, note)
        yield out
