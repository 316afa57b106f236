"""Rows of a run as frames, with what was noted of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from forewarn.abstractions.dataset.layout import (
    LABEL,
    NOTES,
    UNLABELLED,
    Kind,
    known_signal,
    signal_of,
)
from forewarn.abstractions.errors import InvalidInput, InvalidTrace
from forewarn.abstractions.files import parse_json
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.trace import Note

if TYPE_CHECKING:
    import pyarrow as pa


def frames_of(
    rows: pa.Table, kinds: Mapping[str, Kind], source: str
) -> Iterator[tuple[Frame, Note | None]]:
    """The frames as they were written; nothing is checked.

    Args:
        rows: Some of a run, without what only other runs have.
        kinds: What each column holds.
        source: The file that they come from.
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
    return [None if value is None else _parsed(value, source) for value in values]


def _parsed(text: str, source: str) -> Any:
    try:
        return parse_json(text, source)
    except InvalidInput as error:
        raise InvalidTrace(error.problem, source=source) from error
