"""Finds the tables and columns that an agent's log reads with SQL, pandas or tools.

A log is a list of texts. SQL is parsed by sqlglot. Code is parsed by `ast` and never
run: it may use pandas and EHRAgent's functions (`LoadDB`, `FilterDB`, `GetValue`). An
ambiguous column counts for every table to which it may belong, so that too many columns
are reported rather than too few.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from forewarn.monitors.programs.columns_code import Code
from forewarn.monitors.programs.columns_found import (
    LONGEST_LOG,
    Found,
    Tables,
    UnreadLog,
)
from forewarn.monitors.programs.columns_sql import read_sql
from forewarn.monitors.rules.arguments import Arguments, Role, looks_like_sql

_FENCE = re.compile(r"^\s*```\w*\n(?P<text>.*?)```\s*$", re.DOTALL)
_LABEL = re.compile(r"^\s*sql(?:query)?\s*:", re.IGNORECASE)


def columns_of(
    log: Sequence[str], tables: Tables | None = None, *, complete: bool = True
) -> dict[str, list[str]]:
    """Returns the tables that a log reads, each with its columns.

    Args:
        log: SQL statements, pandas code or calls of tools, in order.
        complete: Whether `tables` lists all columns.

    Raises:
        UnreadLog: A text cannot be parsed, or the log reads nothing.
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
        whole = "\n".join(texts)  # they may be the lines of one program
        texts = [whole] if code.parses(whole) else texts
    for text in texts:
        if looks_like_sql(text):
            read_sql(text, found)
        else:
            code.read(text)
    if not found.read:
        raise UnreadLog("no query in the log reads a known table")
    return {table: sorted(columns) for table, columns in sorted(found.read.items())}


def logged(
    tool: str, arguments: Mapping[str, Any], tables: Tables
) -> tuple[list[str], bool]:
    """Returns the queries and code in an action's arguments, at any depth, and whether
    another argument may read tables, such as a command or the name of a table.
    """
    log: list[str] = []
    unread = False
    for role, text in Arguments().texts(tool, arguments):
        if role in ("sql", "code") or looks_like_sql(text):
            log.append(text)
        else:
            unread |= role == "shell" or _names_any(text.casefold(), role, tables)
    return log, unread


def _names_any(text: str, role: Role | None, tables: Tables) -> bool:
    """Whether a text names a table, its file or its folder."""
    names = map(str.casefold, tables)
    if role in ("path", "url"):
        words = (rf"(?<![^\W_]){re.escape(name)}(?![^\W_])" for name in names)
        return any(re.search(word, text) for word in words)
    return PurePath(text.strip()).stem in names
