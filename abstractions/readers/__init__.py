"""Readers of recorded traces, chosen by the file's content, not by its name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from forewarn.abstractions.errors import InvalidTrace
from forewarn.abstractions.files import first_line
from forewarn.abstractions.places import place
from forewarn.abstractions.readers.json_lines import read_json_lines
from forewarn.abstractions.readers.lawbreaker import read_lawbreaker
from forewarn.abstractions.readers.tabular import read_table
from forewarn.abstractions.trace import Trace
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary


def read_trace(
    path: Path | str,
    vocabulary: Vocabulary | None = None,
    period_s: float | None = None,
    rename: Mapping[str, str] | None = None,
) -> Trace:
    """A whole trace: `forewarn.trace/1`, CSV, or LawBreaker's JSON.

    Args:
        path: The file, gzipped or not, or its address in storage.
        vocabulary: The vocabulary that the names are checked against. Without it a
            trace's header names the vocabulary, and a CSV is matched against the
            shipped vocabularies.
        period_s: The time between rows of a CSV that has no `time_s` column.
        rename: For a CSV: column names to signal names.

    Raises:
        InvalidTrace: The message gives the line and the problem.
    """
    path = place(path)
    head = first_line(path)
    if not head.lstrip().startswith("{"):
        return read_table(path, vocabulary, period_s, rename or {})
    if rename:
        raise InvalidTrace("only the columns of a CSV can be renamed", source=str(path))
    if _is_whole_json(head):
        return read_lawbreaker(path)
    return read_json_lines(path, vocabulary)


def is_json_lines(path: Path) -> bool:
    """Whether a file is `forewarn.trace/1`, by its first line."""
    head = first_line(path)
    return head.lstrip().startswith("{") and not _is_whole_json(head)


def _is_whole_json(head: str) -> bool:
    """Whether the file is a single JSON value instead of one per line."""
    if '"forewarn.' in head:
        return False
    try:
        value = json.loads(head)
    except (ValueError, RecursionError):
        return True
    return isinstance(value, dict) and "trace" in value
