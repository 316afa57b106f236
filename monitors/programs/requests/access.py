"""Role tables to guard programs: who may read which columns of which database."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from forewarn.abstractions.errors import suggest
from forewarn.abstractions.schema import Strict, validated
from forewarn.monitors.programs.requests.document import InvalidRequest, Table
from forewarn.monitors.programs.values import plain

Access = Mapping[str, Mapping[str, Sequence[str]]]
"""Of each role the databases with the columns that it may read."""

HEAD = ("role", "database", "columns")


class _RoleFile(Strict):
    roles: dict[str, dict[str, list[str]]]
    databases: dict[str, list[str]] = {}


def access_of_file(content: object, source: str) -> Access:
    """The access that a JSON role table grants.

    Raises:
        InvalidRequest: It breaks the schema, grants a column that no database has, or
            names a role or a database twice.
    """
    file = validated(_RoleFile, content, source, InvalidRequest)
    _no_twins(file.roles, "role", source)
    known = {plain(name): columns for name, columns in file.databases.items()}
    for role, row in file.roles.items():
        _no_twins(row, f"database of {role}", source)
        for database, columns in row.items():
            if known:
                _known(role, database, columns, known, source)
    return file.roles


def access_of_table(table: Table, source: str) -> Access:
    """The access that a table of roles, databases and columns grants."""
    found: dict[str, dict[str, list[str]]] = {}
    spelt: dict[str, str] = {}
    for line, cells in table.rows:
        if len(cells) != len(HEAD):
            raise InvalidRequest(
                f"a row of {len(cells)} cells, not {len(HEAD)}",
                source=source,
                place=f"line {line}",
            )
        role, database = (spelt.setdefault(plain(c), c) for c in cells[:2])
        columns = [c.strip(" `") for c in cells[2].split(",")]
        row = found.setdefault(role, {}).setdefault(database, [])
        row += [c for c in columns if c and c not in row]
    return found


def is_access(table: Table) -> bool:
    """Whether a table's head says that it grants access."""
    return tuple(plain(cell) for cell in table.head) == HEAD


def access_program(access: Access) -> str:
    """The program that denies what a role is not granted."""
    lines = ["may_read = {"]
    for role, row in access.items():
        lines.append(f"    {_text(role)}: {{")
        for database, columns in row.items():
            listed = ", ".join(_text(column) for column in columns)
            lines.append(f"        {_text(database)}: [{listed}],")
        lines.append("    },")
    lines += [
        "}",
        'granted = AllowedTo(may_read, user["role"])',
        "denied, missing = CheckAccess(granted, needed)",
        "if denied:",
        '    deny("this role may not read all that is needed", missing)',
    ]
    return "\n".join(lines) + "\n"


def _text(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _no_twins(names: Mapping[str, object], what: str, source: str) -> None:
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(plain(name), name)
        if other != name:
            raise InvalidRequest(
                f"the {what} stands twice, as {other!r} and as {name!r}", source=source
            )


def _known(
    role: str,
    database: str,
    columns: Sequence[str],
    known: Mapping[str, Sequence[str]],
    source: str,
) -> None:
    has = known.get(plain(database))
    if has is None:
        raise InvalidRequest(
            f"{role} is granted an unknown database {database!r}",
            source=source,
            mend=suggest(plain(database), known),
        )
    there = {plain(column) for column in has}
    for column in columns:
        if plain(column) not in there:
            raise InvalidRequest(
                f"{role} is granted {column!r}, which {database} does not have",
                source=source,
                mend=suggest(column, has),
            )
