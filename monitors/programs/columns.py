"""The tables and columns that an agent's log reads: SQL, pandas code, calls of tools.

A log is a list of texts. SQL is parsed by sqlglot. Code is parsed by `ast` and never
run: pandas, and calls as EHRAgent makes them (`LoadDB`, `FilterDB`, `GetValue`). An
ambiguous column counts for every table to which it may belong, so that too many columns
are reported rather than too few.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from forewarn.monitors.programs.columns_code import Code
from forewarn.monitors.programs.columns_found import (
    LONGEST_LOG,
    Found,
    Tables,
    UnreadLog,
)
from forewarn.monitors.programs.columns_sql import read_sql
from forewarn.monitors.rules.arguments import Arguments, looks_like_sql

_FENCE = re.compile(r"^\s*```\w*\n(?P<text>.*?)```\s*$", re.DOTALL)
_LABEL = re.compile(r"^\s*sql(?:query)?\s*:", re.IGNORECASE)


def columns_of(
    log: Sequence[str], tables: Tables | None = None, *, complete: bool = True
) -> dict[str, list[str]]:
    """The tables that a log reads, each with its columns.

    Args:
        log: SQL statements, pandas code or calls of tools, in order.
        tables: The known tables.
        complete: Whether all of their columns are known.

    Raises:
        UnreadLog: A text is not of these kinds, or the log reads nothing.
        MissingDependency: The log contains SQL, and sqlglot is not installed.
    """
    found = Found(tables or {}, complete)
    code = Code(found)
    texts = []
    for text in log:
        if len(text) > LONGEST_LOG:
            raise UnreadLog(
                f"an entry in the log is longer than {LONGEST_LOG} characters"
            )
        fenced = _FENCE.match(text)
        texts.append(_LABEL.sub("", fenced["text"] if fenced else text))
    if len(texts) > 1 and not all(map(code.parses, texts)):
        whole = "\n".join(texts)  # the lines of one program
        texts = [whole] if code.parses(whole) else texts
    for text in texts:
        if looks_like_sql(text):
            read_sql(text, found)
        else:
            code.read(text)
    if not found.read:
        raise UnreadLog("the log does not read any known table")
    return {table: sorted(columns) for table, columns in sorted(found.read.items())}


def logged(arguments: Mapping[str, Any]) -> list[str]:
    """The queries and code in an action's arguments, at any depth."""
    return [
        text
        for role, text in Arguments().texts("", arguments)
        if role in ("sql", "code") or looks_like_sql(text)
    ]
