"""The tables and columns that an agent's log reads: SQL, pandas code, calls of tools.

A log is a list of texts. SQL is parsed by sqlglot. Code is parsed by `ast` and never
run: pandas, and calls as EHRAgent makes them (`LoadDB`, `FilterDB`, `GetValue`). An
ambiguous column counts for every table that it may belong to, so that too many are
named rather than too few.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from forewarn.abstractions.errors import InvalidInput, MissingDependency
from forewarn.monitors.rules.arguments import Arguments, looks_like_sql

Tables = Mapping[str, Sequence[str]]
"""The columns of each table."""

EVERY = "*"
"""The name of all columns of a table whose columns nobody knows."""

LONGEST_LOG = 200_000

_FILE = re.compile(r"(?:.*[/\\])?(?P<name>[\w-]+)(?:\.\w+)*")
_FENCE = re.compile(r"^\s*```\w*\n(?P<text>.*?)```\s*$", re.DOTALL)
_COMPARED = re.compile(
    r"\s*(?P<column>[A-Za-z_]\w*)\s*(?:[<>=!]|\bin\b|\blike\b)", re.I
)
_NAME = re.compile(r"[A-Za-z_]\w*")
_AGGREGATES = frozenset(
    "max min count sum mean avg list distinct first last std".split()
)
_READS = frozenset("read_csv read_parquet read_excel read_table read_pickle".split())
_RUNS_SQL = frozenset(
    "read_sql read_sql_query execute sqlinterpreter sql query".split()
)
_TAKES_COLUMNS = frozenset(
    "merge join groupby sort_values drop_duplicates set_index agg aggregate pivot"
    " pivot_table melt nlargest nsmallest filter explode dropna value_counts".split()
)


class UnreadLog(InvalidInput):
    """A log whose reads cannot be determined."""


def columns_of(
    log: Sequence[str], tables: Tables | None = None, *, complete: bool = True
) -> dict[str, list[str]]:
    """The tables that a log reads, each with its columns.

    Args:
        log: SQL statements, pandas code or calls of tools, in their order.
        tables: The known tables.
        complete: Whether these have all of their columns.

    Raises:
        UnreadLog: A text is none of these, or nothing is read.
        MissingDependency: It holds SQL, and sqlglot is not installed.
    """
    found = _Found(tables or {}, complete)
    names: dict[str, frozenset[str]] = {}
    for text in log:
        if len(text) > LONGEST_LOG:
            raise UnreadLog(f"a text of a log is longer than {LONGEST_LOG} characters")
        fenced = _FENCE.match(text)
        text = fenced["text"] if fenced else text
        if looks_like_sql(text):
            _read_sql(text, found)
        else:
            _read_code(text, found, names)
    if not found.read:
        raise UnreadLog("the log reads nothing that is known")
    return {table: sorted(columns) for table, columns in sorted(found.read.items())}


def logged(arguments: Mapping[str, Any]) -> list[str]:
    """The queries and code in an action's arguments, at any depth."""
    return [
        text
        for role, text in Arguments().texts("", arguments)
        if role in ("sql", "code") or looks_like_sql(text)
    ]


class _Found:
    """What was read so far, by plain names."""

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
        """A column of one of these tables: of all that have it, else of all.

        Args:
            name: Its name.
            tables: The tables.
            only_known: It may be a value: where the tables are known, it counts only
                if one has it.
        """
        name = name.casefold()
        has = [t for t in tables if name in self.tables.get(t, ())]
        unknown = [t for t in tables if t not in self.tables]
        drops = only_known and self._complete
        for table in has or unknown or (() if drops else tables):
            self.read.setdefault(table, set()).add(name)

    def knows(self, name: str, tables: frozenset[str]) -> bool:
        """Whether one of these tables has a column, or may have it."""
        return any(
            t not in self.tables or name.casefold() in self.tables[t] for t in tables
        )

    def everything(self, table: str) -> None:
        known = self.tables.get(table) if self._complete else None
        self.read.setdefault(table, set()).update(known or [EVERY])


def _read_sql(text: str, found: _Found) -> None:
    try:
        import sqlglot
        from sqlglot import exp
        from sqlglot.optimizer.scope import traverse_scope
    except ImportError as error:
        raise MissingDependency("reading columns from SQL", "programs") from error
    try:
        statements = [each for each in sqlglot.parse(text) if each is not None]
        for statement in statements:
            named = {
                each.alias_or_name.casefold() for each in statement.find_all(exp.CTE)
            }
            for table in statement.find_all(exp.Table):
                if table.name.casefold() not in named:
                    found.table(table.name)
            for scope in traverse_scope(statement):
                _read_scope(scope, found, exp)
            if not isinstance(statement, exp.Query):
                _read_change(statement, found, exp)
    except (sqlglot.errors.SqlglotError, RecursionError) as error:
        raise UnreadLog(f"it is no SQL: {error}".split("\n")[0][:200]) from None


def _read_scope(scope: Any, found: _Found, exp: Any) -> None:
    """The columns of one SELECT, of the tables that it names itself or around it."""
    sources: dict[str, frozenset[str]] = {}
    outer = scope
    while outer is not None:
        for alias, source in outer.sources.items():
            real = isinstance(source, exp.Table)
            tables = frozenset([found.table(source.name)] if real else [])
            sources.setdefault(alias.casefold(), tables)
        outer = outer.parent
    own = frozenset().union(
        *(sources[alias.casefold()] for alias in scope.selected_sources)
    )
    derived = not all(
        isinstance(scope.sources[alias], exp.Table) for alias in scope.selected_sources
    )
    for column in scope.columns:
        if column.parent_select is not scope.expression:
            continue  # of a SELECT inside, which is read by itself
        if column.table:
            found.column(column.name, sources.get(column.table.casefold(), own))
        elif own:
            # One that none of its own tables has is of a table around it, or a name
            # that a SELECT inside gives.
            around = frozenset().union(*sources.values())
            near = own if found.knows(column.name, own) else around
            found.column(column.name, near, only_known=derived)
    for each in scope.expression.expressions:
        if each.is_star and isinstance(each, exp.Star | exp.Column):
            alias = each.table if isinstance(each, exp.Column) else ""
            for table in sources.get(alias.casefold(), own):
                found.everything(table)
    for join in scope.expression.args.get("joins") or ():
        for shared in join.args.get("using") or ():
            found.column(shared.name, own)


def _read_change(statement: Any, found: _Found, exp: Any) -> None:
    """The columns of what writes: UPDATE, DELETE, INSERT."""
    tables = frozenset(t.name.casefold() for t in statement.find_all(exp.Table))
    for column in statement.find_all(exp.Column):
        found.column(column.name, tables)


def _read_code(text: str, found: _Found, names: dict[str, frozenset[str]]) -> None:
    try:
        tree = ast.parse(text)
        reader = _Code(found, names)
        for statement in tree.body:
            reader.visit(statement)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UnreadLog(f"neither SQL nor code: {text!r:.80}") from None


class _Code(ast.NodeVisitor):
    """Follows tables through names, calls and selections."""

    def __init__(self, found: _Found, names: dict[str, frozenset[str]]) -> None:
        self._found, self._names = found, names

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        tables = self._tables(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):
                self._names[target.id] = tables

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.generic_visit(node)
        self._columns(node.slice, self._tables(node.value))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.generic_visit(node)
        tables = self._tables(node.value)
        known = {c for t in tables for c in self._found.tables.get(t, ())}
        if node.attr.casefold() in known:
            self._found.column(node.attr, tables)

    def visit_Call(self, node: ast.Call) -> None:
        name = _called(node).casefold()
        for text in _texts(node) if name in _RUNS_SQL else ():
            if looks_like_sql(text):
                _read_sql(text, self._found)
        self.generic_visit(node)
        tables = self._tables(node)
        for table in tables:
            self._found.table(table)
        if name == "filterdb":
            self._compared(node, tables, r"\|\|")
        elif name in ("query", "eval"):
            self._compared(node, tables, r"\band\b|\bor\b|[&|]")
        elif name == "getvalue":
            for text in _texts(node, 1):
                for word in _NAME.findall(text):
                    if word.casefold() not in _AGGREGATES:
                        self._found.column(word, tables)
        elif name in _TAKES_COLUMNS:
            for value in (*node.args, *(k.value for k in node.keywords)):
                if not self._tables(value):
                    self._columns(value, tables)

    def _compared(self, node: ast.Call, tables: frozenset[str], between: str) -> None:
        """The columns before comparisons in a condition that is a text."""
        start = 1 if isinstance(node.func, ast.Name) else 0
        for text in _texts(node, start):
            for part in re.split(between, text):
                if compared := _COMPARED.match(part.replace("(", " ")):
                    self._found.column(compared["column"], tables)

    def _columns(self, node: ast.AST, tables: frozenset[str]) -> None:
        """The texts of a selection, which name columns; those of conditions do not."""
        match node:
            case ast.Constant(value=str(text)) if tables:
                self._found.column(text, tables, only_known=True)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self._columns(part, tables)
            case ast.Dict(keys=keys, values=values):
                for each in filter(None, (*keys, *values)):
                    self._columns(each, tables)

    def _tables(self, node: ast.AST) -> frozenset[str]:
        """The tables that an expression may hold rows of."""
        match node:
            case ast.Name(id=name):
                if name in self._names:
                    return self._names[name]
                known = name.casefold() in self._found.tables
                return frozenset([name.casefold()] if known else [])
            case ast.Call():
                return self._returned(node)
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if (
                attr.casefold() in self._found.tables and not self._names.get(name)
            ):
                return frozenset([self._found.table(attr)])
            case ast.Subscript(
                value=ast.Name(id=name), slice=ast.Constant(value=key)
            ) if str(key).casefold() in self._found.tables and not self._names.get(
                name
            ):
                return frozenset([self._found.table(str(key))])
            case ast.Attribute(value=value) | ast.Subscript(value=value):
                return self._tables(value)
        return frozenset()

    def _returned(self, node: ast.Call) -> frozenset[str]:
        name = _called(node).casefold()
        if name in _READS or name in ("loaddb", "read_table"):
            files = (_FILE.fullmatch(text) for text in _texts(node))
            return frozenset(f["name"].casefold() for f in files if f)
        found: frozenset[str] = frozenset()
        if isinstance(node.func, ast.Attribute):
            found |= self._tables(node.func.value)
        for value in (*node.args, *(keyword.value for keyword in node.keywords)):
            for each in value.elts if isinstance(value, ast.List) else [value]:
                found |= self._tables(each)
        return found


def _called(node: ast.Call) -> str:
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _texts(node: ast.Call, start: int = 0) -> Iterator[str]:
    """The texts that a call is given; what is filled in later is a blank."""
    for value in node.args[start:]:
        if text := _text(value):
            yield text


def _text(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) or "?" for part in parts)
        case ast.BinOp(left=left, right=right, op=ast.Add() | ast.Mod()):
            return f"{_text(left)}{_text(right) or '?'}"
        case ast.Call(func=ast.Attribute(value=inner, attr="format")):
            return _text(inner)
    return ""
