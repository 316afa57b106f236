"""Reads CSV files: a header row with names, then one row per frame.

A cell is a number, a name, `true`, `false` or `none`; an empty cell means that the
frame does not contain the signal. If a built-in vocabulary contains most of the
columns, it is used to convert and check these columns; other columns are kept
unchanged. Columns may have our names, or aliases such as LawBreaker's. If no vocabulary
contains most of the columns, any names are accepted.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import (
    OF_LOGS,
    InvalidTrace,
    SignalFault,
    naming,
    near_miss,
)
from forewarn.abstractions.frame import Frame, Value, is_number
from forewarn.abstractions.lines import check_count, first_line, lines
from forewarn.abstractions.trace import Trace, TraceHeader, check_order
from forewarn.abstractions.vocabularies.vocabulary import (
    SHIPPED,
    Vocabulary,
    load_vocabulary,
)

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_NOT_FINITE = re.compile(r"[-+]?(nan|inf|infinity)", re.IGNORECASE)
_OUTSIDE = re.compile(r"\S+ is (-\d\S*).*, below its range")
"""The message about a negative number, which may stand for an unknown value."""
_WORD = re.compile(r"[A-Za-z_][\w#]*")
_WORDS: Mapping[str, Value] = {"true": True, "false": False, "none": None}
_ORDER = ("time_s", "sequence")


def read_table(
    path: Path,
    vocabulary: Vocabulary | None,
    period_s: float | None,
    rename: Mapping[str, str],
    known_only: bool = False,
    foreign: Iterator[list[str]] | None = None,
) -> Trace:
    """Reads a whole CSV; if `vocabulary` is given, it must contain every column.

    If `known_only` is true, unknown columns are ignored instead. `foreign` provides the
    rows of a log that is not a CSV.
    """
    if foreign is None:
        first_line(path)  # raises an error if the file is empty
    # csv.reader needs line endings, because quoted cells may span several lines.
    text_rows = csv.reader((text + "\n" for _, text in lines(path)), strict=True)
    rows: Any = text_rows if foreign is None else _Numbered(foreign)
    try:
        head: list[str] = next(rows, [])
        with naming(path, "line 1"):
            names = _header(head, rename)
            used = vocabulary or _matching(names)
            if vocabulary is not None and known_only:
                names = [n if _is_used(n, vocabulary) else "" for n in names]
            elif vocabulary is not None:
                _check_known(names, vocabulary)
            _check_times(names, period_s)
        frames = tuple(_frames(path, names, rows, used, period_s))
    except csv.Error as error:
        place = f"line {rows.line_num}"
        raise InvalidTrace(f"not CSV: {error}", source=str(path), place=place) from None
    seen: dict[str, None] = {}
    for frame in frames:
        seen.update(dict.fromkeys(frame.values))
    header = TraceHeader(
        vocabulary=used.name if used else None,
        provides=tuple(seen),
        period_s=None if "time_s" in names else period_s,
        source=path.name,
    )
    return Trace(header, frames, vocabulary=used)


class _Numbered:
    """An iterator over rows that counts them, like `csv.reader`."""

    def __init__(self, rows: Iterator[list[str]]) -> None:
        self._rows, self.line_num = rows, 0

    def __iter__(self) -> _Numbered:
        return self

    def __next__(self) -> list[str]:
        self.line_num += 1
        return next(self._rows)


def _header(row: list[str], rename: Mapping[str, str]) -> list[str]:
    columns = [cell.strip() for cell in row]
    if len(columns) == 1 and re.search(r"[;\t]", columns[0]):
        raise InvalidTrace(
            "the columns must be separated by commas",
            mend="save the file with comma-separated columns and decimal points",
        )
    for column, signal in rename.items():
        if column not in columns:
            swapped = f"write the column first: {signal}={column}"
            raise InvalidTrace(
                f"the file has no column {column!r:.60}",
                mend=(signal in columns and swapped)
                or near_miss(column, columns)
                or f"the columns are {', '.join(columns):.200}",
            )
    if "".join(columns[:1]).startswith("#"):
        problem, mend = "this line is a comment, not the header", "remove it"
        raise InvalidTrace(problem, mend=mend)
    names = [rename.get(column, column) for column in columns]
    problem = mend = ""
    if any(_NUMBER.fullmatch(name) for name in names):
        problem = "there is no header row"
        mend = "add a first row with the names of the columns"
    elif not all(names):
        problem, mend = "a column has no name", "name it, or leave it out"
    elif len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        problem, mend = f"the column {twice!r:.60} appears twice", "rename one of them"
    elif not set(names) - set(_ORDER):
        problem, mend = "no column contains a signal", "add one column per signal"
    if problem:
        raise InvalidTrace(problem, mend=mend)
    return names


def _check_times(names: list[str], period_s: float | None) -> None:
    if "time_s" not in names and period_s is None:
        close = next((name for name in names if name.lower().startswith("time")), "")
        mend = f"rename the column {close} to time_s" if close else "add it"
        raise InvalidTrace(
            "the file has no column 'time_s'",
            mend=f"{mend}, give the time between rows with --period, or {OF_LOGS}",
        )


def _matching(names: list[str]) -> Vocabulary | None:
    """Returns the built-in vocabulary that contains more than half of the names; None
    if none does.
    """
    signals = [name for name in names if name not in _ORDER]
    for shipped in SHIPPED:
        vocabulary = load_vocabulary(shipped)
        known = sum(_knows(vocabulary, name) for name in signals)
        if known * 2 > len(signals):
            return vocabulary
    return None


def _knows(vocabulary: Vocabulary, name: str) -> bool:
    return name in vocabulary.aliases or vocabulary.knows(name)


def _is_used(name: str, vocabulary: Vocabulary) -> bool:
    return name in _ORDER or _knows(vocabulary, name)


def _check_known(names: list[str], vocabulary: Vocabulary) -> None:
    for name in names:
        if not _is_used(name, vocabulary):
            raise InvalidTrace(vocabulary.unknown(name, OF_LOGS))


def _frames(
    path: Path,
    names: list[str],
    rows: Iterator[list[str]],
    vocabulary: Vocabulary | None,
    period_s: float | None,
) -> Iterator[Frame]:
    last: Frame | None = None
    count = 0
    for row in rows:
        if not row or row == [""] and len(names) > 1:
            continue
        count += 1
        check_count(path, count)
        try:
            frame = _frame(names, row, vocabulary, count - 1, period_s)
            check_order(last, frame)
        except InvalidTrace as error:
            place = f"line {rows.line_num}"  # type: ignore[attr-defined]
            raise error.within(str(path), place) from error
        except SignalFault as fault:
            place = f"line {rows.line_num}"  # type: ignore[attr-defined]
            mend = ""
            if code := _OUTSIDE.match(str(fault)):
                mend = (
                    "leave the cell empty if the value is unknown; in a log "
                    f"scenario, write none_codes: [{code[1]}]"
                )
            raise InvalidTrace(
                str(fault), source=str(path), place=place, mend=mend
            ) from fault
        yield frame
        last = frame


def _frame(
    names: list[str],
    row: list[str],
    vocabulary: Vocabulary | None,
    index: int,
    period_s: float | None,
) -> Frame:
    if len(row) != len(names):
        few = "only " if len(row) < len(names) else ""
        raise InvalidTrace(
            f"the row has {few}{len(row)} cells, but there are {len(names)} columns",
            mend="put a cell that contains a comma in quotes",
        )
    values: dict[str, Value] = {}
    for name, cell in zip(names, row, strict=True):
        text = cell.strip()
        if text and name:
            values[name] = _value(name, text)
    time_s, sequence = values.pop("time_s", None), values.pop("sequence", index)
    if "time_s" not in names:
        time_s = index * (period_s or 0.0)
    if not is_number(time_s):
        raise InvalidTrace("'time_s' must be a number")
    if not is_number(sequence) or sequence != int(sequence) or sequence < 0:
        raise InvalidTrace("'sequence' must be a whole number, 0 or more")
    if vocabulary is not None:
        known = {k: v for k, v in values.items() if _knows(vocabulary, k)}
        free = {k: v for k, v in values.items() if k not in known}
        values = {**vocabulary.translate(known), **free}
    return Frame(float(time_s), int(sequence), values)


def _value(name: str, text: str) -> Value:
    if _NUMBER.fullmatch(text):
        number = float(text)
        if number - number == 0:
            return number
    if _NOT_FINITE.fullmatch(text) or _NUMBER.fullmatch(text):
        raise InvalidTrace(f"{name} is {text}, not a finite number")
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if not _WORD.fullmatch(text) and name == "time_s":
        raise InvalidTrace(
            f"the time is {text!r:.60}, not a number",
            mend="convert the times to numbers, such as the seconds since the start",
        )
    if not _WORD.fullmatch(text):
        raise InvalidTrace(
            f"{name} is {text!r:.60}: neither a number nor a name",
            mend="write only the number, or leave the cell empty if it is unknown",
        )
    return text
