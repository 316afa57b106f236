"""Traces from JSON Lines and other files into columns, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from forewarn.abstractions.dataset.layout import SUFFIX
from forewarn.abstractions.dataset.tables import RunTable, run_table
from forewarn.abstractions.dataset.writing import write_part
from forewarn.abstractions.errors import InvalidInput, InvalidTrace, SignalFault
from forewarn.abstractions.readers.stored import Stored
from forewarn.abstractions.trace import trace_writer

ROWS = 1 << 20
RUNS = 4096
"""A part is full with so many frames, or so many runs."""

_ENDINGS = (".gz", ".jsonl", ".json", ".csv")


def to_columns(runs: Iterable[Stored], folder: Path) -> Iterator[Path]:
    """Writes a dataset of these runs, part by part.

    Args:
        runs: Traces in any format that can be read.
        folder: Where the parts go.

    Yields:
        For each run the part that it is to be in.
    """
    seen: dict[str, Stored] = {}
    some: list[RunTable] = []
    parts = 0
    out = folder / f"part-{parts:05}{SUFFIX}"
    with ExitStack() as stack:
        for run in runs:
            name = name_of(run)
            if name in seen:
                raise InvalidInput(
                    f"{seen[name].path} is called {name} too",
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
    """What a run is called in a dataset: as in its own, or as its file."""
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
    """Writes a file of JSON Lines for each of these runs."""
    for run in runs:
        header, vocabulary, frames = run.stream()
        out = folder / f"{name_of(run)}.jsonl.gz"
        with trace_writer(out, header, vocabulary) as writer:
            for frame, note in frames:
                writer.write(frame, note)
        yield out
