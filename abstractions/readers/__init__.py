"""Reads recorded traces; the format is detected from the content, not from the name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from forewarn.abstractions.arguments import checked
from forewarn.abstractions.errors import InvalidTrace
from forewarn.abstractions.files import other_kind, read_text
from forewarn.abstractions.lines import first_line
from forewarn.abstractions.places import place
from forewarn.abstractions.readers.json_lines import read_json_lines
from forewarn.abstractions.readers.lawbreaker import read_lawbreaker
from forewarn.abstractions.readers.tabular import read_table
from forewarn.abstractions.trace import Trace
from forewarn.abstractions.vocabularies.vocabulary import YAML, Vocabulary


@checked
def read_trace(
    path: Path | str,
    vocabulary: Vocabulary | None = None,
    period_s: float | None = None,
    rename: Mapping[str, str] | None = None,
) -> Trace:
    """Reads a whole trace in the format `forewarn.trace/1`, CSV or LawBreaker's JSON.

    Args:
        path: The path or storage URL of the file, which may be gzipped.
        vocabulary: The vocabulary that declares the signals. By default, the header of
            a trace names the vocabulary, and a CSV is matched against the built-in
            ones.
        period_s: The time between the rows of a CSV without a `time_s` column, in s.
        rename: Maps column names to signal names, for a CSV only.

    Raises:
        InvalidTrace: The file is not a valid trace.
    """
    path = place(path)
    head = first_line(path)
    if not head.lstrip().startswith("{"):
        if path.suffix in YAML and (problem := other_kind(read_text(path), "a trace")):
            mend = "give a file that `forewarn collect` wrote, or a CSV file"
            raise InvalidTrace(problem, source=str(path), mend=mend)
        return read_table(path, vocabulary, period_s, rename or {})
    if rename:
        raise InvalidTrace(
            "columns can be renamed only in a CSV file", source=str(path)
        )
    if _is_whole_json(head):
        return read_lawbreaker(path)
    return read_json_lines(path, vocabulary)


def is_json_lines(path: Path) -> bool:
    """Whether the first line shows that a file has the format `forewarn.trace/1`."""
    head = first_line(path)
    return head.lstrip().startswith("{") and not _is_whole_json(head)


def _is_whole_json(head: str) -> bool:
    """Whether the first line shows that a file contains a single JSON value."""
    if '"forewarn.' in head:
        return False
    try:
        value = json.loads(head)
    except (ValueError, RecursionError):
        return True
    return isinstance(value, dict) and "trace" in value
