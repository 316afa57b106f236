"""A request to the program that it asks for, without a model."""

from __future__ import annotations

from forewarn.monitors.programs.requests.access import (
    HEAD,
    access_of_table,
    access_program,
    is_access,
)
from forewarn.monitors.programs.requests.document import InvalidRequest, Request


def compile_request(request: Request, source: str) -> str:
    """The program that a request in tables asks for.

    Raises:
        InvalidRequest: It holds what has no known form; names the line.
    """
    parts: list[str] = []
    for table in request.tables:
        if not is_access(table):
            raise InvalidRequest(
                f"a table of {', '.join(table.head)}",
                source=source,
                place=f"line {table.line}",
                mend=f"known are tables of {', '.join(HEAD)}",
            )
        parts.append(access_program(access_of_table(table, source)))
    return "\n".join(parts)
