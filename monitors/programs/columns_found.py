"""The tables and columns that a log reads, as found so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forewarn.abstractions.errors import InvalidInput

Tables = Mapping[str, Sequence[str]]
"""The columns of each table."""

LONGEST_LOG = 200_000

EVERY = "*"
"""Represents all columns of a table whose columns are unknown."""


class UnreadLog(InvalidInput):
    """The tables and columns that a log reads cannot be determined."""


class Found:
    """The tables and columns found so far, by normalized names."""

    def __init__(self, tables: Tables, complete: bool) -> None:
        self._complete = complete
        self.tables = {
            name.casefold(): [column.casefold() for column in columns]
            for name, columns in tables.items()
        }
        self.read: dict[str, set[str]] = {}

    def table(self, name: str) -> str:
        name = name.casefold()
        self.read.setdefault(name, set())
        return name

    def column(
        self, name: str, tables: frozenset[str], only_known: bool = False
    ) -> None:
        """Counts a column as read in those tables that have it, or else in all of them.

        With `only_known`, the name may be a value instead; if all columns are known,
        the name counts only if one of the tables has such a column.
        """
        name = name.casefold()
        has = [t for t in tables if name in self.tables.get(t, ())]
        unknown = [t for t in tables if t not in self.tables]
        drops = only_known and self._complete
        for table in has or unknown or (() if drops else tables):
            self.read.setdefault(table, set()).add(name)

    def knows(self, name: str, tables: frozenset[str]) -> bool:
        """Whether one of these tables has, or may have, the column."""
        return any(
            t not in self.tables or name.casefold() in self.tables[t] for t in tables
        )

    def shared(self, tables: frozenset[str]) -> list[str]:
        """Returns the columns that more than one of these tables has."""
        names = [name for t in tables for name in self.tables.get(t, ())]
        return sorted({name for name in names if names.count(name) > 1})

    def everything(self, table: str, without: frozenset[str] = frozenset()) -> None:
        known = self.tables.get(table) if self._complete else None
        names = set(known or [EVERY]) - without
        self.read.setdefault(table, set()).update(names)
