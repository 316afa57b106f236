"""Converts the frames of a run to tables with one typed column per signal."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from operator import attrgetter, itemgetter
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from forewarn.abstractions.dataset.layout import (
    LABEL,
    NOTES,
    ROWS,
    UNLABELLED,
    Kind,
    array_of,
    column_of,
    declared_kind,
    known_of,
    texts_of,
    type_of,
)
from forewarn.abstractions.errors import InvalidTrace, SignalFault
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.trace import (
    Note,
    TraceHeader,
    check_order,
    header_keys,
    is_value,
)
from forewarn.abstractions.vocabularies.vocabulary import (
    SHIPPED,
    YAML,
    Vocabulary,
    load_vocabulary,
)

if TYPE_CHECKING:
    import pyarrow as pa

_NOTHING = (None,) * len(NOTES)
_told = attrgetter(*NOTES)

_WIDEST = 2**53
"""The limit up to which a float represents every integer exactly."""

_dumped = json.JSONEncoder(allow_nan=False, ensure_ascii=False).encode


@dataclass(frozen=True, slots=True)
class RunTable:
    """A run as Arrow tables, with its metadata.

    Args:
        name: The name of the run in the dataset.
        header: The trace header of the run.
        chunks: The rows in tables of up to `ROWS` rows, without the run's name.
        digest: The SHA-256 digest of the content.
        vocabulary: The vocabulary that declares the signals.
    """

    name: str
    header: TraceHeader
    chunks: tuple[pa.Table, ...]
    digest: str
    vocabulary: Vocabulary | None = None

    @property
    def frames(self) -> int:
        """The number of rows."""
        return sum(map(len, self.chunks))


def run_table(
    name: str,
    header: TraceHeader,
    frames: Iterable[tuple[Frame, Note | None]],
    vocabulary: Vocabulary | None = None,
    spool: Path | None = None,
) -> RunTable:
    """Converts a run to tables.

    Args:
        name: The name of the run in the dataset.
        header: The trace header of the run.
        frames: The frames, each with its note.
        vocabulary: The vocabulary that declares the signals; by default that of the
            header.
        spool: A folder to which full chunks are written; by default all stay in memory.

    Raises:
        InvalidTrace: A frame is not later than the last one, or contains a signal that
            the header does not list.
        SignalFault: A value is not a finite number, a Boolean, a name or None.
    """
    vocabulary = vocabulary or _spoken(header)
    if vocabulary is not None:
        header = replace(header, vocabulary=vocabulary.name)
    content = hashlib.sha256(_dumped(header_keys(header)).encode())
    chunks: list[pa.Table] = []
    last: Frame | None = None
    coming = iter(frames)
    while (some := list(islice(coming, ROWS))) or not chunks:
        _check_order(last, [frame for frame, _ in some])
        table, digest = _chunk(some, header, vocabulary)
        content.update(digest)
        if spool is not None and len(some) == ROWS:
            table = _on_disk(table, spool / f"{len(chunks)}.arrow")
        chunks.append(table)
        if len(some) < ROWS:
            break
        last = some[-1][0]
    return RunTable(name, header, tuple(chunks), content.hexdigest(), vocabulary)


def _spoken(header: TraceHeader) -> Vocabulary | None:
    """Returns the vocabulary that a header refers to, by name or by path; None if
    unknown.
    """
    named = header.vocabulary
    if named is None or (named not in SHIPPED and Path(named).suffix not in YAML):
        return None
    return load_vocabulary(named)


def _on_disk(table: pa.Table, path: Path) -> pa.Table:
    """Writes a table to disk and returns it memory-mapped."""
    import pyarrow as pa

    with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, table.schema) as ipc:
        ipc.write_table(table)
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def _chunk(
    noted: Sequence[tuple[Frame, Note | None]],
    header: TraceHeader,
    vocabulary: Vocabulary | None,
) -> tuple[pa.Table, bytes]:
    """Converts frames to a table; also returns a digest of the content."""
    import pyarrow as pa

    digests: list[bytes] = []
    columns: dict[str, pa.Array] = {}

    def add(column: str, values: Sequence[Any], kind: Kind, none: bool) -> None:
        content = hashlib.sha256(_heading(column, kind))
        try:
            columns[column] = _array(values, kind, none, content.update)
        except _NotFinite:
            _refuse(column, values)
        digests.append(content.digest())

    frames = [frame for frame, _ in noted]
    add("sequence", [frame.sequence for frame in frames], "whole", False)
    add("time_s", [frame.time_s for frame in frames], "number", False)
    for signal, values, known in _by_signal(frames):
        if not header.can_know(signal):
            raise InvalidTrace(
                f"the signal {signal} is not listed in the header's 'provides'"
            )
        if not all(known):
            add(known_of(signal), known, "truth", False)
        types = set(map(type, values))
        kind = _kind(signal, values, types, vocabulary)
        add(column_of(signal), values, kind, NoneType in types)
    if any(note is not None for _, note in noted):
        rows = [_NOTHING if note is None else _told(note) for _, note in noted]
        for key, told in zip(NOTES, zip(*rows, strict=True), strict=True):
            if told.count(None) + told.count(()) < len(told):
                held = [None if value == () else value for value in told]
                add(key, held, "json", None in held)
        labels = [None if n is None else n.label or UNLABELLED for _, n in noted]
        add(LABEL, labels, "word", None in labels)
    # Sort the digests, so that the order of the signals does not matter.
    table = pa.Table.from_arrays([*columns.values()], [*columns])
    return table, b"".join(sorted(digests))


@cache
def _heading(column: str, kind: Kind) -> bytes:
    return _dumped([column, "number" if kind == "whole" else kind]).encode()


def _check_order(last: Frame | None, frames: Sequence[Frame]) -> None:
    """Raises `InvalidTrace` if a frame is not later than the one before."""
    for frame in frames:
        if frame.sequence > _WIDEST:
            raise InvalidTrace(f"the sequence number {frame.sequence} is too large")
        check_order(last, frame)
        last = frame


def _by_signal(
    frames: Sequence[Frame],
) -> Iterator[tuple[str, Sequence[Any], Sequence[bool]]]:
    """Yields each signal, its value in every frame, and a mask of the frames that
    contain the signal (empty if all do).
    """
    if not frames:
        return
    names = list(frames[0].values)
    if len(names) > 1 and all(len(f.values) == len(names) for f in frames):
        picked = itemgetter(*names)
        try:
            rows = [picked(frame.values) for frame in frames]
        except KeyError:
            pass
        else:
            for name, values in zip(names, zip(*rows, strict=True), strict=True):
                yield name, values, ()
            return
    for name in dict.fromkeys(name for frame in frames for name in frame.values):
        known = [name in frame.values for frame in frames]
        yield name, [frame.values.get(name) for frame in frames], known


def _kind(
    signal: str,
    values: Sequence[Any],
    types: Set[type],
    vocabulary: Vocabulary | None,
) -> Kind:
    """Returns the kind that stores all of these values without loss."""
    declared = declared_kind(vocabulary, signal)
    types = types - {NoneType}
    if not types:
        return declared or "nothing"
    if types == {bool}:
        return "truth"
    if types == {str}:
        return "word"
    if types == {float}:
        return "number"
    _refuse(signal, values)
    if types <= {int, float} and all(
        abs(v) <= _WIDEST for v in values if isinstance(v, int)
    ):
        # These integers can be stored as floats without loss.
        return "whole" if types == {int} and declared != "number" else "number"
    return "json"


def _refuse(signal: str, values: Sequence[Any]) -> None:
    """Raises `SignalFault` for the first value that is not allowed in a frame."""
    for value in values:
        if not is_value(value):
            raise SignalFault(
                f"the signal {signal} has an invalid value: {value!r:.60}"
            )


class _NotFinite(Exception):
    """Some of the numbers are not finite."""


def _array(
    values: Sequence[Any], kind: Kind, none: bool, heard: Callable[[Any], None]
) -> pa.Array:
    """Converts values of one kind to an Arrow array.

    Args:
        none: Whether some values are None.
        heard: A function that is called with the content, such as a digest's `update`.
    """
    import pyarrow as pa

    if kind == "nothing":
        return pa.nulls(len(values))
    if kind == "json":
        try:
            texts = [None if value is None else _dumped(value) for value in values]
        except (TypeError, ValueError) as error:
            raise InvalidTrace(
                f"this frame cannot be written as JSON: {error}"
            ) from error
        heard(_dumped(texts).encode())
        return texts_of(texts)
    if kind == "word":
        # Words are numbered in order of occurrence, so equal values give equal bytes.
        words = [word for word in dict.fromkeys(values) if word is not None]
        number = {None: -1, **{word: i for i, word in enumerate(words)}}
        codes = np.array([*map(number.__getitem__, values)], np.int32)
        heard(codes.tobytes() + _dumped(words).encode())
        indices = array_of(codes, pa.int32(), codes < 0 if none else None)
        return pa.DictionaryArray.from_arrays(indices, texts_of(words))
    if kind == "truth":
        held = [value or False for value in values] if none else values
        numbers = np.array(held, np.bool_)
        mask = np.array([value is None for value in values]) if none else None
        heard(numbers.tobytes() + (b"" if mask is None else mask.tobytes()))
        return array_of(numbers, pa.bool_(), mask)
    # Hash all numbers as floats: a part stores integers as floats if another run has
    # fractions.
    nones = values.count(None) if none else 0
    numbers = np.array(values, np.float64)
    mask = ~np.isfinite(numbers)
    if np.count_nonzero(mask) > nones:
        raise _NotFinite
    heard(numbers)
    heard(mask)
    if kind == "whole":
        numbers = np.where(mask, 0.0, numbers).astype(np.int64)
    return array_of(numbers, type_of(kind), mask if none else None)
