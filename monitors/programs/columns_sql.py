"""Finds the tables and columns that SQL reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from forewarn.abstractions.errors import MissingDependency
from forewarn.monitors.programs.columns_found import Found, UnreadLog

_EXPLAIN = re.compile(r"^\s*explain\s+(query\s+plan\s+|analyze\s+)?", re.IGNORECASE)
_REPLACE = re.compile(r"^\s*replace(?=\s+into\b)", re.IGNORECASE)
_DIALECTS = (None, "sqlite", "tsql", "mysql", "postgres")


def read_sql(text: str, found: Found) -> None:
    """Adds the columns that statements read; raises UnreadLog if they do not parse."""
    try:
        import sqlglot
        from sqlglot import exp
        from sqlglot.optimizer.scope import traverse_scope
    except ImportError as error:
        raise MissingDependency("reading columns from SQL", "programs") from error
    try:
        text = _REPLACE.sub("insert", _EXPLAIN.sub("", text))
        for statement in _parsed(text, sqlglot):
            if isinstance(statement, exp.Command):
                raise UnreadLog(f"unknown SQL: {statement.this!s:.40}")
            named = {
                each.alias_or_name.casefold() for each in statement.find_all(exp.CTE)
            }
            if isinstance(statement, exp.Create) and (
                made := statement.find(exp.Table)
            ):
                named.add(made.name.casefold())
            for table in statement.find_all(exp.Table):
                if table.name.casefold() not in named:
                    found.table(table.name)
            for scope in traverse_scope(statement):
                _read_scope(scope, found, exp)
            if not isinstance(statement, exp.Query):
                _read_change(statement, found, exp)
    except (sqlglot.errors.SqlglotError, RecursionError) as error:
        raise UnreadLog(f"not valid SQL: {error}".split("\n")[0][:200]) from None


def _parsed(text: str, sqlglot: Any) -> Iterator[Any]:
    """Yields the statements, in the first dialect in which they parse."""
    exp = sqlglot.exp
    ignored = exp.Transaction, exp.Commit, exp.Rollback, exp.Pragma, exp.Set, exp.Use
    for dialect in _DIALECTS:
        try:
            statements = sqlglot.parse(text, dialect=dialect)
            break
        except sqlglot.errors.SqlglotError as error:
            if dialect == _DIALECTS[-1]:
                raise error
    return (s for s in statements if s is not None and not isinstance(s, ignored))


def _read_scope(scope: Any, found: Found, exp: Any) -> None:
    """Reads the columns of one SELECT, from its own tables and those of enclosing
    queries.
    """
    sources: dict[str, frozenset[str]] = {}
    outer = scope
    while outer is not None:
        for alias, source in outer.sources.items():
            real = isinstance(source, exp.Table)
            tables = frozenset([found.table(source.name)] if real else [])
            sources.setdefault(alias.casefold(), tables)
        outer = outer.parent
    select = scope.expression
    own: frozenset[str] = frozenset().union(
        *(sources[alias.casefold()] for alias in scope.selected_sources)
    )
    derived = not all(
        isinstance(scope.sources[alias], exp.Table) for alias in scope.selected_sources
    )
    aliases = {
        each.alias.casefold()
        for each in select.expressions
        if isinstance(each, exp.Alias)
    }
    for column in select.find_all(exp.Column):
        if column.parent_select is not select or column.is_star:
            continue  # belongs to a nested SELECT, which is read separately
        name = column.name
        if column.table:
            found.column(name, sources.get(column.table.casefold(), own))
        elif name.casefold() in aliases and _after(column, found.knows(name, own), exp):
            continue  # an alias in this SELECT
        elif own:
            # A column that this SELECT's tables lack belongs to an enclosing query's
            # table, or is an alias of a nested SELECT. In quotes, it may be a value.
            around = frozenset().union(*sources.values())
            near = own if found.knows(name, own) else around
            found.column(name, near, only_known=derived or column.this.quoted)
    if not isinstance(select.parent, exp.Exists):
        for each in select.expressions:
            if each.is_star and isinstance(each, exp.Star | exp.Column):
                alias = each.table if isinstance(each, exp.Column) else ""
                for table in sources.get(alias.casefold(), own) if alias else own:
                    found.everything(table)
    for join in select.args.get("joins") or ():
        for shared in join.args.get("using") or ():
            found.column(shared.name, own)
        if join.method == "NATURAL":
            for name in found.shared(own):
                found.column(name, own)


def _after(column: Any, known: bool, exp: Any) -> bool:
    """Whether aliases of a SELECT take precedence over columns at this place."""
    place = column.find_ancestor(exp.Order, exp.Having, exp.Qualify, exp.Select)
    if not isinstance(place, exp.Select):
        return not column.find_ancestor(exp.Window)
    return not known and not column.find_ancestor(exp.Alias)


def _read_change(statement: Any, found: Found, exp: Any) -> None:
    """Reads the columns of statements that write: UPDATE, DELETE, INSERT."""
    target = statement.this
    if isinstance(target, exp.Schema) and isinstance(target.this, exp.Table):
        for column in target.expressions:
            if isinstance(column, exp.Identifier):
                found.column(column.name, frozenset([found.table(target.this.name)]))
    tables = frozenset(t.name.casefold() for t in statement.find_all(exp.Table))
    for column in statement.find_all(exp.Column):
        if column.parent_select is None:
            found.column(column.name, tables)
