"""Files of state sequences, which carry names of states and no frames."""

from __future__ import annotations

import io
from pathlib import Path

from forewarn.abstractions.dataset.layout import SUFFIX
from forewarn.abstractions.errors import InvalidTrace, TooLarge
from forewarn.abstractions.files import MAX_LINES, check_count, first_line, read_text
from forewarn.monitors.chains.chain import MAX_NAME


def holds_traces(path: Path) -> bool:
    """Whether a file holds a trace of frames, and not sequences of state names."""
    if path.suffix == SUFFIX:
        return True
    head = first_line(path)
    return head.lstrip().startswith("{") or ".csv" in path.suffixes


def read_sequences(path: Path) -> list[list[str]]:
    """The sequences in a file with one a line; names are set apart by blanks.

    Empty lines and comments are passed over: lines that begin with # and a blank.
    """
    text = read_text(path)
    if "\0" in text:
        raise InvalidTrace("this is not a text file", source=str(path))
    sequences: list[list[str]] = []
    names = 0
    for number, line in enumerate(io.StringIO(text), 1):
        if number > MAX_LINES:
            raise TooLarge(f"more than {MAX_LINES} lines", source=str(path))
        row = line.split()
        if not row or row[0] == "#":
            continue
        if row[0][0] == "#":
            raise InvalidTrace(
                f"a line begins with {row[0]!r:.60}",
                source=str(path),
                place=f"line {number}",
                mend="a comment has a blank after #; a state cannot be called so",
            )
        names += len(row)
        check_count(path, names)
        if max(map(len, row)) > MAX_NAME:
            raise InvalidTrace(
                f"a name is longer than {MAX_NAME} characters",
                source=str(path),
                place=f"line {number}",
            )
        sequences.append(row)
    if not sequences:
        raise InvalidTrace("there is no sequence of states", source=str(path))
    if all(len(row) == 1 and "," in row[0] for row in sequences):
        raise InvalidTrace(
            "every line is one long name",
            source=str(path),
            mend="use blanks, not commas",
        )
    return sequences
