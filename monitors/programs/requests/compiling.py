"""A request to the program that it asks for, without a model."""

from __future__ import annotations

from forewarn.monitors.programs.requests import access, conditions, sentences
from forewarn.monitors.programs.requests.document import (
    InvalidRequest,
    Request,
    Table,
)


def compile_request(request: Request, source: str) -> str:
    """The program that a request in tables and sentences asks for.

    Raises:
        InvalidRequest: It holds what has no known form; names the line.
    """
    parts = [_of_table(table, source) for table in request.tables]
    if request.rules:
        parts.append(sentences.sentences_program(request.rules, source))
    return "\n".join(parts)


def notes_on(request: Request) -> list[str]:
    """What a reader should know of a request that compiles."""
    return [
        f"no robot here is known to meet a {thing}: the rule is about that very name"
        for thing in sentences.unknown_things(request.rules)
    ]


def _of_table(table: Table, source: str) -> str:
    if access.is_access(table):
        return access.access_program(access.access_of_table(table, source))
    for head, compile_ in conditions.TABLES.items():
        if conditions.has_head(table, head):
            return compile_(table, source)
    known = " / ".join(", ".join(head) for head in (access.HEAD, *conditions.TABLES))
    raise InvalidRequest(
        f"a table of {', '.join(table.head)}",
        source=source,
        place=f"line {table.line}",
        mend=f"known are tables of {known}",
    )
