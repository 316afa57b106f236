"""Writes `forewarn.traces/1` datasets: writes runs to parts, and joins parts.

The bytes of a part depend only on its runs, not on the order in which the runs were
recorded, the number of processes, or interruptions.
"""

from __future__ import annotations

import glob
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forewarn.abstractions.dataset.layout import (
    FORMAT,
    ROWS,
    SUFFIX,
    VALUES,
    Kind,
    PartFacts,
    RunFacts,
    array_of,
    column_of,
    common_kind,
    kind_of,
    known_of,
    known_signal,
    parquet,
    signal_of,
    texts_of,
    type_of,
)
from forewarn.abstractions.dataset.reading import Part
from forewarn.abstractions.dataset.tables import RunTable
from forewarn.abstractions.files import atomic_bytes
from forewarn.abstractions.places import files_below, mapped
from forewarn.abstractions.vocabularies.vocabulary import vocabulary_reference

if TYPE_CHECKING:
    import pyarrow as pa


_LEVEL = 9
"""The zstd compression level; higher levels take much longer and save almost nothing.
"""

_SHARE = 8
"""A column is dictionary-encoded if each value occurs at least this often on average.
"""


def write_part(path: Path, runs: Sequence[RunTable]) -> None:
    """Writes runs to a Parquet file, atomically and in the given order."""
    pq = parquet()
    import pyarrow as pa

    schema = _schema(runs)
    named = pa.schema([("run", type_of("word")), *schema])
    rows = min(ROWS, VALUES // len(named))
    groups = (
        pa.concat_tables(
            [_named(name, _fitted(chunk, schema), named) for name, chunk in group]
        )
        .unify_dictionaries()
        .combine_chunks()
        for group in _groups(runs, rows)
    )
    first = next(groups, None)
    if first is None:
        first = named.empty_table()
    with (
        atomic_bytes(path) as out,
        pq.ParquetWriter(
            out,
            named,
            compression="zstd",
            compression_level=_LEVEL,
            use_dictionary=_repeating(first),
            column_encoding={"sequence": "DELTA_BINARY_PACKED"},
            write_statistics=["run", "time_s"],
            # Compression works within a page, so use large pages.
            max_rows_per_page=rows,
        ) as writer,
    ):
        for group in chain([first], groups):
            writer.write_table(group, row_group_size=rows)
        # Metadata in the schema would be stored twice.
        writer.add_key_value_metadata({FORMAT: _facts(runs).dumped()})


def _repeating(rows: pa.Table) -> list[str]:
    """Returns the columns to dictionary-encode, because their values repeat often."""
    import pyarrow.compute as pc

    def repeats(name: str) -> bool:
        column = rows.column(name)
        kind = kind_of(column.type)
        if name in ("sequence", "time_s") or kind in ("nothing", "truth"):
            return False
        said = len(column) - column.null_count
        return kind == "word" or pc.count_distinct(column).as_py() * _SHARE <= said

    return [name for name in rows.column_names if repeats(name)]


def _schema(runs: Sequence[RunTable]) -> pa.Schema:
    """Returns the union of the runs' columns, each with a type that fits the values of
    all runs.
    """
    import pyarrow as pa

    schemas = {chunk.schema: None for run in runs for chunk in run.chunks}
    if len(schemas) == 1:
        return next(iter(schemas))
    kinds: dict[str, set[Kind]] = {}
    having: Counter[str] = Counter()
    for each in chain.from_iterable(schemas):
        kinds.setdefault(each.name, set()).add(kind_of(each.type))
        having[each.name] += 1
    for column in list(kinds):
        signal = signal_of(column)
        if signal is not None and having[column] < len(schemas):
            kinds[known_of(signal)] = {"truth"}
    columns = {name: type_of(common_kind(found)) for name, found in kinds.items()}
    return pa.schema([*columns.items()])


def _facts(runs: Sequence[RunTable]) -> PartFacts:
    spoken = {run.vocabulary.name: run.vocabulary for run in runs if run.vocabulary}
    told = {name: vocabulary_reference(each) for name, each in spoken.items()}
    return PartFacts(
        tuple(RunFacts(r.name, r.frames, r.header, r.digest) for r in runs),
        {name: content for name, content in told.items() if name != content},
    )


def _groups(
    runs: Sequence[RunTable], most: int
) -> Iterator[list[tuple[str, pa.Table]]]:
    """Yields the chunks for each row group, each with the name of its run."""
    group: list[tuple[str, Any]] = []
    rows = 0
    for name, chunk in ((run.name, chunk) for run in runs for chunk in run.chunks):
        if group and rows + len(chunk) > most:
            yield group
            group, rows = [], 0
        group.append((name, chunk))
        rows += len(chunk)
    if group:
        yield group


def _named(name: str, rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Adds a column with the name of the run."""
    import pyarrow as pa

    zeros = array_of(np.zeros(len(rows), np.int32), pa.int32())
    names = pa.DictionaryArray.from_arrays(zeros, texts_of([name]))
    return pa.Table.from_arrays([names, *rows.columns], schema=schema)


def _fitted(chunk: pa.Table, schema: pa.Schema) -> pa.Table:
    """Converts rows of a run to the schema of the part."""
    import pyarrow as pa

    if chunk.schema == schema:
        return chunk
    count, names = len(chunk), set(chunk.column_names)
    columns: list[Any] = []
    for each in schema:
        if each.name in names:
            columns.append(_as(chunk.column(each.name), kind_of(each.type)))
        elif (signal := known_signal(each.name)) is not None:
            there = column_of(signal) in names
            columns.append(array_of(np.full(count, there), each.type))
        else:
            columns.append(pa.nulls(count, each.type))
    return pa.table(columns, schema=schema)


def _as(column: pa.ChunkedArray, kind: Kind) -> pa.ChunkedArray:
    if kind_of(column.type) == kind:
        return column
    if kind != "json":
        return column.cast(type_of(kind))
    texts = [None if v is None else json.dumps(v) for v in column.to_pylist()]
    import pyarrow as pa

    return pa.chunked_array([texts_of(texts)])


def save_run(path: Path, run: RunTable) -> None:
    """Writes a run to its own Arrow file, which can be memory-mapped."""
    import pyarrow as pa

    schema = _schema([run]).with_metadata({FORMAT: _facts([run]).dumped()})
    whole = pa.BufferOutputStream()
    with pa.ipc.new_file(whole, schema) as ipc:
        for chunk in run.chunks:
            ipc.write_table(_fitted(chunk, schema).unify_dictionaries())
    # Written in one call, because pyarrow would write each column in several pieces.
    with atomic_bytes(path) as out:
        out.write(whole.getvalue())


def load_run(path: Path) -> RunTable:
    """Loads a run that `save_run` wrote; the file is memory-mapped."""
    import pyarrow as pa

    file = pa.ipc.open_file(mapped(path))
    facts = PartFacts.loaded(file.schema.metadata[FORMAT.encode()], str(path))
    (run,) = facts.runs
    batches = [file.get_batch(i) for i in range(file.num_record_batches)]
    chunks = tuple(
        pa.Table.from_batches([b]).replace_schema_metadata() for b in batches
    )
    spoken = facts.vocabulary(run.header.vocabulary, path)
    return RunTable(run.name, run.header, chunks, run.digest, spoken)


PENDING = ".runs"
"""The folder for runs that have not been joined into a part yet."""

TOGETHER = 256
"""The number of consecutive seeds in each part."""


def pend(folder: Path, run: RunTable) -> None:
    """Stores a run in a file of its own until the run is joined into a part."""
    save_run(folder / PENDING / f"{run.name}.arrow", run)


def pending(folder: Path) -> int:
    """Returns the number of runs that are not yet joined into a part; readers ignore
    them.
    """
    if not folder.is_dir():
        return 0
    return sum(path.suffix == ".arrow" for path in files_below(folder / PENDING))


def group_of(seed: int) -> int:
    """Returns the number of the part that the run with this seed belongs to."""
    return seed // TOGETHER


def join_all(folder: Path, stem: str) -> None:
    """Joins all pending runs of a campaign into parts."""
    groups = {group_of(seed) for seed, _ in _seeds(folder / PENDING, stem)}
    for group in sorted(groups):
        join(folder, stem, group)
    with suppress(OSError):
        (folder / PENDING).rmdir()


def join(folder: Path, stem: str, group: int) -> None:
    """Merges the runs of a group of seeds, whether pending or written, into one part.

    Args:
        folder: The folder of the dataset.
        stem: The part of the runs' names before the seed.
        group: The number of the group, as returned by `group_of`.
    """
    pending, parts = (
        [path for seed, path in _seeds(where, stem) if group_of(seed) == group]
        for where in (folder / PENDING, folder)
    )
    if not pending and len(parts) <= 1:
        return
    runs: dict[int, RunTable] = {}
    for path in parts:
        part = Part(path)
        for name in (facts.name for facts in part.facts.runs):
            runs[_seed(name, stem)] = part.run_table(name)
    runs |= {_seed(path.name, stem): load_run(path) for path in pending}
    out = folder / f"{stem}-{min(runs):06}-{max(runs):06}{SUFFIX}"
    write_part(out, [runs[seed] for seed in sorted(runs)])
    for path in (*parts, *pending):
        if path != out:
            path.unlink()


def _seeds(folder: Path, stem: str) -> list[tuple[int, Path]]:
    """Returns the files with runs of a campaign, each with the seed of its first
    run.
    """
    found = folder.glob(f"{glob.escape(stem)}-*")
    return [
        (_seed(path.name, stem), path)
        for path in sorted(found)
        if path.suffix in (SUFFIX, ".arrow")
    ]


def _seed(name: str, stem: str) -> int:
    return int(name.removeprefix(f"{stem}-").partition("-")[0].partition(".")[0])
