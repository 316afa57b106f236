"""Parses guard requests, and writes the programs for tables in requests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from forewarn.abstractions.errors import InvalidInput, clean, suggest
from forewarn.abstractions.serial import Strict, validated
from forewarn.monitors.programs.values import plain

LONGEST_REQUEST = 200_000

_RULE_LINE = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(?P<text>.+)")
_BAR = re.compile(r"\s*\|")
_RULER = re.compile(r"[\s|:-]+")


class InvalidRequest(InvalidInput):
    """A guard request cannot be read, or cannot be compiled without a model."""


class Rule(NamedTuple):
    """A rule in words, with its line."""

    line: int
    text: str


class Table(NamedTuple):
    """A table: its header and its rows, each with its line."""

    line: int
    head: tuple[str, ...]
    rows: tuple[tuple[int, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Request:
    """A guard request: its first heading, its text, and its lists and tables."""

    title: str
    text: str
    rules: tuple[Rule, ...] = ()
    tables: tuple[Table, ...] = ()


def read_request(text: str, source: str) -> Request:
    """Parses a request from Markdown.

    In a text without lists or tables, every line is a rule.
    """
    if len(text) > LONGEST_REQUEST:
        raise InvalidRequest(
            f"the request is longer than {LONGEST_REQUEST} characters", source=source
        )
    text = clean(text.replace("\r\n", "\n"))
    lines = text.split("\n")
    title = next((n.lstrip("# ").strip() for n in lines if n.startswith("#")), "")
    tables = tuple(_tables(lines))
    rules = tuple(_listed(lines))
    if not rules and not tables:
        rules = tuple(
            Rule(number, line.strip())
            for number, line in enumerate(lines, 1)
            if line.strip() and not line.startswith("#")
        )
    if not rules and not tables:
        raise InvalidRequest("the request contains no rule", source=source)
    return Request(title, text, rules, tables)


def _listed(lines: list[str]) -> Iterator[Rule]:
    """Yields the entries of lists; an indented line continues the previous one."""
    entry: Rule | None = None
    for number, line in enumerate([*lines, ""], 1):
        found = _RULE_LINE.fullmatch(line)
        indented = found is None and line[:1] in (" ", "\t") and line.strip()
        if indented and entry is not None:
            entry = Rule(entry.line, f"{entry.text} {line.strip()}")
            continue
        if entry is not None:
            yield entry
        entry = None if found is None else Rule(number, found["text"].strip())


def _tables(lines: list[str]) -> Iterator[Table]:
    numbered = groupby(enumerate(lines, 1), lambda each: bool(_BAR.match(each[1])))
    for barred, block in numbered:
        cells = [(n, _cells(line)) for n, line in block if not _RULER.fullmatch(line)]
        if barred and cells:
            (line, head), *rows = cells
            yield Table(line, head, tuple(rows))


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip().strip("`") for cell in line.strip().strip("|").split("|"))


Access = Mapping[str, Mapping[str, Sequence[str]]]
"""For each role, the databases with the columns that the role may read."""


class RoleTable(Strict):
    """The databases and columns that each role may read, and all databases."""

    roles: dict[str, dict[str, list[str]]]
    databases: dict[str, list[str]] = {}

    @property
    def tables(self) -> dict[str, list[str]]:
        """The databases, each with all its columns."""
        found: dict[str, dict[str, None]] = {}
        for databases in (self.databases, *self.roles.values()):
            for name, columns in databases.items():
                found.setdefault(name, {}).update(dict.fromkeys(columns))
        return {name: list(columns) for name, columns in found.items()}


def role_table(content: object, source: str) -> RoleTable:
    """Parses a JSON role table.

    Raises:
        InvalidRequest: The table violates the schema, grants a column that no database
            has, or lists a role or a database twice.
    """
    file = validated(RoleTable, content, source, InvalidRequest)
    _no_twins(file.roles, "role", source)
    known = {plain(name): columns for name, columns in file.databases.items()}
    for role, row in file.roles.items():
        _no_twins(row, f"database of {role}", source)
        for database, columns in row.items() if known else ():
            has = known.get(plain(database))
            if has is None:
                raise InvalidRequest(
                    f"{role} is granted the unknown database {database!r}",
                    source=source,
                    mend=suggest(plain(database), known),
                )
            there = set(map(plain, has))
            for column in columns:
                if plain(column) not in there:
                    raise InvalidRequest(
                        f"{role} is granted {column!r}, but {database} has no such "
                        "column",
                        source=source,
                        mend=suggest(column, has),
                    )
    return file


def _access_program(table: Table, source: str) -> str:
    found: dict[str, dict[str, list[str]]] = {}
    spelt: dict[str, str] = {}
    for _, cells in _rows(table, source):
        role, database = (spelt.setdefault(plain(c), c) for c in cells[:2])
        columns = [c.strip(" `") for c in cells[2].split(",")]
        row = found.setdefault(role, {}).setdefault(database, [])
        row += [c for c in columns if c and c not in row]
    return access_program(found)


def access_program(access: Access) -> str:
    """Returns the program that denies access to data that a role is not granted."""
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
                f"the {what} appears twice, as {other!r} and {name!r}", source=source
            )


def _use_program(table: Table, source: str) -> str:
    """Returns the program that denies things that a role may not use in a room."""
    rows: dict[str, dict[str, list[str]]] = {}
    for line, (role, room, things) in _rows(table, source):
        if not role or not room:
            raise InvalidRequest(
                "the row lacks a role or a room", source=source, place=f"line {line}"
            )
        known = rows.setdefault(plain(role), {}).setdefault(plain(room), [])
        known += [thing.strip() for thing in things.split(",") if thing.strip()]
    text = json.dumps(rows, indent=4, ensure_ascii=False)
    return (
        f"may_use = {text}\n"
        'if not MayUse(may_use, user["role"], place["room"], action):\n'
        '    deny("this role may not use this here")\n'
    )


def _odd_program(table: Table, source: str) -> str:
    """Returns the program that stops driving outside the permitted conditions."""
    limits = []
    for line, (signal, least, most) in _rows(table, source):
        span = [_limit(cell, source, line) for cell in (least, most)]
        limits.append(f"    {json.dumps(signal)}: [{span[0]}, {span[1]}],\n")
    return (
        f"limits = {{\n{''.join(limits)}}}\n"
        "outside, signals = CheckOdd(limits, frame)\n"
        "if outside:\n"
        '    deny("outside the permitted driving conditions", signals)\n'
    )


def _rows(table: Table, source: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    for line, cells in table.rows:
        if len(cells) != len(table.head):
            raise InvalidRequest(
                f"a row has {len(cells)} cells instead of {len(table.head)}",
                source=source,
                place=f"line {line}",
            )
        yield line, cells


def _limit(cell: str, source: str, line: int) -> str:
    if cell in ("", "-"):
        return "None"
    try:
        return json.dumps(float(cell), allow_nan=False)
    except ValueError:
        raise InvalidRequest(
            f"{cell!r:.40} is not a number", source=source, place=f"line {line}"
        ) from None


TABLES: Mapping[tuple[str, ...], Callable[[Table, str], str]] = {
    ("role", "database", "columns"): _access_program,
    ("role", "room", "things"): _use_program,
    ("signal", "least", "most"): _odd_program,
}
"""The known kinds of table, by their headers."""
