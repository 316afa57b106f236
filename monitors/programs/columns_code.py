"""Finds the tables and columns that code reads with pandas or EHRAgent's functions.

The code is analysed, never run. The value of each expression is rows of some tables,
known texts, or nothing relevant.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from forewarn.abstractions.files import read_yaml
from forewarn.monitors.programs.columns_found import LONGEST_LOG, Found, UnreadLog
from forewarn.monitors.programs.columns_sql import read_sql
from forewarn.monitors.rules.arguments import looks_like_sql

_FILE = re.compile(r"(?:.*[/\\])?(?P<name>[\w-]+)(?:\.\w+)*")
_BARE = re.compile(
    r"\b(?P<tool>LoadDB|FilterDB|GetValue|SQLInterpreter|Calculate)"
    r"(?:\[(?P<quoted>(?:[^\[\]]|\[[^\[\]]*\])*)\]|\((?P<bare>[^'\"()]*)\))",
    re.IGNORECASE,
)
_FILLED = re.compile(r"%(\(\w+\))?[sdif]|\{[^{}]*\}")
_COMPARED = re.compile(
    r"\s*(?:min|max)?\s*\(?\s*(?P<column>[A-Za-z_]\w*)\s*\)?\s*"
    r"(?:[<>=!]|\bin\b|\blike\b|$)",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r"\|\|?|&&?|\band\b|\bor\b", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z_]\w*")
_LOADS = re.compile(r"load|read|table|csv|parquet|fetch_")
_SUFFIX = re.compile(r"_[xy]$")

_TOOLS = ("loaddb", "filterdb", "getvalue")


_SPELT = read_yaml(Path(__file__).with_name("columns_names.yaml"))
_NAMES = {kind: frozenset(names.split()) for kind, names in _SPELT.items()}


@dataclass(frozen=True, slots=True)
class _Held:
    """The possible value of an expression: rows of these tables, or one of these texts.

    If `whole` is true, the rows have all columns except those in `without`.
    """

    tables: frozenset[str] = frozenset()
    whole: bool = False
    without: frozenset[str] = frozenset()
    texts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if sum(map(len, self.texts)) > LONGEST_LOG:
            raise UnreadLog("the code creates strings that are too long")

    def __or__(self, other: _Held) -> _Held:
        return _Held(
            self.tables | other.tables,
            self.whole or other.whole,
            self.without | other.without,
            tuple(dict.fromkeys((*self.texts, *other.texts))),
        )


_NOTHING = _Held()
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_MOST_CALLS = 50


class Code:
    """Tracks tables through the texts of a log."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self._names: dict[str, _Held] = {}
        self._functions: dict[str, _Function] = {}
        self._made: set[str] = set()
        self._last = _NOTHING
        self._entered: list[ast.AST] = []
        self._branches = 0
        self._asked = False

    def parses(self, text: str) -> bool:
        """Whether a text is SQL or a complete program."""
        if looks_like_sql(text):
            return True
        with suppress(UnreadLog):
            return _parsed(text) is not None
        return False

    def read(self, text: str) -> None:
        """Adds the columns that a text reads; raises UnreadLog if it does not parse."""
        try:
            self._asked = False
            self._run(_parsed(text).body)
            for function in self._functions.values():
                if function not in self._entered:
                    self._enter(function, [])
        except RecursionError:
            raise UnreadLog(f"the code is nested too deeply: {text!r:.80}") from None
        if not self._asked:  # a query in a text may be executed elsewhere
            for held in self._names.values():
                self._query(held)

    def _run(self, statements: Iterable[ast.stmt]) -> _Held:
        """Analyses statements, and returns the value that they return."""
        returned = _NOTHING
        for each in statements:
            match each:
                case ast.Assign(targets=targets, value=value):
                    held = self._value(value)
                    for target in targets:
                        self._bind(target, held)
                    if isinstance(value, ast.Lambda) and isinstance(
                        targets[0], ast.Name
                    ):
                        self._functions[targets[0].id] = value
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._bind(target, self._value(value))
                case ast.AugAssign(target=target, value=value):
                    held = self._value(value)
                    old = self._value(target)
                    texts = _joined([old, held]) if old.texts and held.texts else ()
                    self._bind(target, replace(old | held, texts=texts))
                case ast.Expr(value=value):
                    held = self._value(value)
                    calls = (n for n in ast.walk(value) if isinstance(n, ast.Call))
                    if not any(_called(call) in _TOOLS for call in calls):
                        self._show(held)
                    self._query(held)
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self._functions[each.name] = each
                case ast.Return(value=ast.expr() as value):
                    returned |= self._value(value)
                case ast.For(target=target, iter=items):
                    self._loop(target, items)
                    returned |= self._run((*each.body, *each.orelse))
                case ast.With(items=items_):
                    for item in items_:
                        held = self._value(item.context_expr)
                        if item.optional_vars is not None:
                            self._bind(item.optional_vars, held)
                    returned |= self._run(each.body)
                case _:
                    returned |= self._branch(each)
        return returned

    def _branch(self, node: ast.AST) -> _Held:
        """Analyses any other statement: its expressions, then its blocks."""
        returned = _NOTHING
        self._branches += 1
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._value(child)
            elif isinstance(child, ast.stmt):
                returned |= self._run([child])
            else:
                returned |= self._branch(child)
        self._branches -= 1
        return returned

    def _bind(self, target: ast.expr, held: _Held) -> None:
        match target:
            case ast.Name(id=name):
                old = self._names.get(name, _NOTHING) if self._branches else _NOTHING
                self._names[name] = old | held
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self._bind(part, held)
            case ast.Subscript(value=value, slice=key):
                self._made.update(self._value(key).texts)
                if isinstance(value, ast.Name) and not self._value(value).tables:
                    self._bind(value, self._value(value) | replace(held, texts=()))

    def _loop(self, target: ast.expr, items: ast.expr) -> None:
        held = self._value(items)
        if isinstance(target, ast.Tuple) and held.whole:
            self._bind(target.elts[0], _NOTHING)  # a number or a name
            for part in target.elts[1:]:
                self._bind(part, held)
        else:
            self._bind(target, held)

    def _value(self, node: ast.expr | None) -> _Held:
        match node:
            case ast.Constant(value=str(text)):
                return _Held(texts=(text,))
            case ast.Name(id=name):
                if name in self._names:
                    return self._names[name]
                return self._table(name)
            case ast.JoinedStr(values=parts):
                known = [
                    self._value(p.value) if isinstance(p, ast.FormattedValue)
                    else self._value(p) for p in parts
                ]  # fmt: skip
                for each in known:
                    self._show(each)
                return _Held(texts=_joined(known))
            case ast.BinOp(left=left, op=op, right=right):
                one, other = self._value(left), self._value(right)
                if isinstance(op, ast.Mod) and one.texts:
                    return _Held(texts=tuple(_FILLED.sub("?", t) for t in one.texts))
                if isinstance(op, ast.Div) and other.texts:
                    return other
                if isinstance(op, ast.Add) and (one.texts or other.texts):
                    return _Held(texts=_joined([one, other]))
                return replace(one | other, whole=False)
            case ast.Call():
                return self._call(node)
            case ast.Attribute(value=value, attr=attr):
                return self._attribute(self._value(value), attr, value)
            case ast.Subscript(value=value, slice=key):
                return self._subscript(node, self._value(value), key)
            case ast.NamedExpr(target=target, value=value):
                held = self._value(value)
                self._bind(target, held)
                return held
            case ast.Lambda(body=body):
                return replace(self._value(body), whole=False)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                for part in node.generators:
                    self._loop(part.target, part.iter)
                    for test in part.ifs:
                        self._value(test)
                if isinstance(node, ast.DictComp):
                    return self._value(node.key) | self._value(node.value)
                return self._value(node.elt)
            case None:
                return _NOTHING
        held = _NOTHING
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                held |= self._value(child)
        if isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp):
            return replace(held, whole=False, texts=())
        return held

    def _table(self, name: str) -> _Held:
        known = name.casefold() in self._found.tables
        return _Held(frozenset([name.casefold()]), True) if known else _NOTHING

    def _attribute(self, base: _Held, attr: str, value: ast.expr) -> _Held:
        name = attr.casefold()
        if not base.tables:
            return self._table(attr) if isinstance(value, ast.Name) else base
        if name in _NAMES["keeps"]:
            return base
        if name not in _NAMES["about"] or self._found.knows(name, base.tables):
            self._column(attr, base)
        return _Held(base.tables)

    def _subscript(self, node: ast.Subscript, base: _Held, key: ast.expr) -> _Held:
        indexer = node.value.attr if isinstance(node.value, ast.Attribute) else ""
        selected = self._value(key)
        self._apply(key, base)
        if not base.tables or set(map(str.casefold, selected.texts)) & base.tables:
            named = [self._table(text) for text in selected.texts]
            return next((each for each in named if each.tables), base)
        if indexer in ("loc", "at"):
            if not isinstance(key, ast.Tuple):
                return base  # the label of a row
            selected = self._value(key.elts[-1])
        if not selected.texts or selected.tables:
            return base
        for text in selected.texts:
            self._column(text, base)
        return _Held(base.tables)

    def _call(self, node: ast.Call) -> _Held:
        name = _called(node)
        method = isinstance(node.func, ast.Attribute)
        receiver = self._value(node.func.value) if method else _NOTHING  # type: ignore[attr-defined]
        given = [
            (word, value, self._value(value))
            for word, value in _arguments(node)
            if not isinstance(value, ast.Lambda)
        ]
        frames = receiver
        for word, _, held in given:
            if word not in _NAMES["column_parameters"] and held.tables:
                frames |= replace(held, texts=())
            self._query(held)
        applied = [self._apply(value, frames) for _, value in _arguments(node)]
        own = self._functions.get(getattr(node.func, "id", ""))
        if own is not None:
            return self._enter(own, [held for _, _, held in given])
        if name in _NAMES["opens"]:
            return self._open(name, given)
        for _, _, held in given if name in _TOOLS else ():
            for text in held.texts:
                frames |= self._table(text)
        if name in _TOOLS:
            return self._tool(name, node, frames if frames.tables else self._last)
        if _LOADS.search(name) and not frames.tables:
            frames = self._open(name, given)
            return frames if frames.tables <= self._found.tables.keys() else _NOTHING
        if receiver.texts or not frames.tables:
            return self._text_of(name, receiver, [held for _, _, held in given])
        for table in frames.tables:
            self._found.table(table)
        if name in ("query", "eval"):
            for text in (t for _, _, held in given for t in held.texts):
                self._condition(text, frames)
        if name == "drop":
            dropped = {t.casefold() for _, _, held in given for t in held.texts}
            return replace(frames, without=frames.without | dropped, texts=())
        chosen = self._columns_given(name, given, frames)
        kept = name in _NAMES["keeps"] or (not method and any(applied))
        if frames.whole and not kept:
            outside = not receiver.tables and name not in _NAMES["counts"]
            if outside or name in _NAMES["reads_all"] or name.startswith("to_"):
                self._show(frames)
        whole = frames.whole and kept and not (chosen and name in _NAMES["selects"])
        return replace(frames, whole=whole, texts=())

    def _columns_given(
        self, name: str, given: Sequence[tuple[str, ast.expr, _Held]], frames: _Held
    ) -> bool:
        """Reads the columns that a method receives by name; returns whether there are
        any.
        """
        chosen = False
        for word, value, held in given:
            if word and word not in _NAMES["column_parameters"]:
                self._made.add(word)
            for inner in ast.walk(value):
                if isinstance(inner, ast.Call) and _called(inner) in ("col", "column"):
                    for text in self._value(inner).texts:
                        chosen = True
                        self._column(text, frames)
            if name not in _NAMES["takes_columns"] or held.tables:
                continue
            texts: Sequence[str] = held.texts
            if isinstance(value, ast.Dict):
                texts = [t for k in value.keys for t in self._value(k).texts]
                self._made |= {t for v in value.values for t in self._value(v).texts}
            elif name in ("agg", "aggregate"):
                texts = texts[:1] if word else ()
            elif word and word not in _NAMES["column_parameters"]:
                texts = ()
            for text in texts:
                if text not in _NAMES["how"]:
                    chosen = True
                    self._column(text, frames)
        words = {word for word, _, _ in given}
        tables = frames.tables
        if name == "merge" and not chosen and "left_index" not in words:
            for shared in self._found.shared(tables):
                self._found.column(shared, tables)
        return chosen

    def _apply(self, value: ast.expr, frames: _Held) -> bool:
        """Analyses a function argument that is applied to the rows."""
        function = self._functions.get(getattr(value, "id", ""))
        if isinstance(value, ast.Lambda):
            function = value
        if function is not None:
            self._enter(function, [replace(frames, texts=())])
        return function is not None

    def _enter(self, function: _Function, given: Sequence[_Held]) -> _Held:
        if len(self._entered) > _MOST_CALLS:
            raise UnreadLog("the code calls its own functions too often")
        self._entered.append(function)
        kept = dict(self._names)
        for parameter, held in zip(function.args.args, given, strict=False):
            self._names[parameter.arg] = held
        try:
            if isinstance(function, ast.Lambda):
                return self._value(function.body)
            return self._run(function.body)
        finally:
            self._names = kept

    def _open(self, name: str, given: Sequence[tuple[str, ast.expr, _Held]]) -> _Held:
        """Returns the table in a file or database that is opened."""
        texts = [t for word, _, h in given if word != "usecols" for t in h.texts]
        if name == "loaddb" and not texts:
            texts = [t for _, value, _ in given for t in _bare(value)]
        stems = [f["name"].casefold() for t in texts if (f := _FILE.fullmatch(t))]
        known = [stem for stem in stems if stem in self._found.tables]
        if name == "open" and not known:
            return _NOTHING
        tables = frozenset(known or stems[:1])
        for table in tables:
            self._found.table(table)
        held = _Held(tables, True)
        for word, _, columns in given:
            if word in ("usecols", "columns"):
                held = _Held(tables)
                for text in columns.texts:
                    self._column(text, held)
        self._last = held
        return held

    def _tool(self, name: str, node: ast.Call, frames: _Held) -> _Held:
        """Analyses calls of EHRAgent's functions: conditions, or columns to combine."""
        for word, value in _arguments(node):
            held = self._value(value)
            named = [self._table(text) for text in held.texts]
            if held.tables or any(each.tables for each in named):
                continue
            for text in held.texts or _bare(value):
                if name == "filterdb":
                    if not (held.texts or word):
                        continue
                    plain = word and self._found.knows(word, frames.tables)
                    for part in _BETWEEN.split(f"{word}=" if plain else text):
                        if compared := _COMPARED.match(part):
                            self._column(compared["column"], frames)
                else:
                    for part in _NAME.findall(text):
                        if part.casefold() not in _NAMES["aggregates"]:
                            self._found.column(part, frames.tables)
        return replace(frames, whole=name == "filterdb" and frames.whole)

    def _condition(self, text: str, frames: _Held) -> None:
        """Reads the columns in a condition that is written as a text."""
        plain = text.replace("@", " _at_").replace("`", " ")
        try:
            tree = ast.parse(plain.strip(), mode="eval")
        except (SyntaxError, ValueError):
            words = _NAME.findall(plain)
        else:
            words = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name)]
        for word in words:
            if not word.startswith("_at_"):
                self._column(word, frames)

    def _text_of(self, name: str, receiver: _Held, given: Sequence[_Held]) -> _Held:
        """Returns the texts that a call computes from texts."""
        if name == "format":
            return _Held(texts=tuple(_FILLED.sub("?", t) for t in receiver.texts))
        if name == "join" and receiver.texts and given:
            return _Held(texts=(receiver.texts[0].join(given[-1].texts),))
        if name in _NAMES["same_text"]:
            return replace(given[-1] if given else receiver, whole=False)
        return _NOTHING

    def _column(self, name: str, held: _Held) -> None:
        known = self._found.knows(name, held.tables)
        base = _SUFFIX.sub("", name)
        if not known and base != name and self._found.knows(base, held.tables):
            name = base  # merging tables adds a suffix to shared columns
        elif not known and name in self._made:
            return
        self._found.column(name, held.tables, only_known=True)

    def _show(self, held: _Held) -> None:
        """Counts all columns as read, because the rows are shown or passed to unknown
        code.
        """
        if held.whole:
            for table in held.tables:
                self._found.everything(table, held.without)

    def _query(self, held: _Held) -> None:
        """Analyses the SQL in texts that a call receives."""
        for text in held.texts:
            if looks_like_sql(text):
                self._asked = True
                read_sql(_FILLED.sub("?", text), self._found)


def _parsed(text: str) -> ast.Module:
    """Parses the program in a text; calls of EHRAgent's functions may lack quotes."""
    for each in (text, _BARE.sub(_quoted, text)):
        with suppress(SyntaxError, ValueError, MemoryError, RecursionError):
            tree = ast.parse(each.strip())
            if not any(map(_indexed_tool, ast.walk(tree))):
                return tree
    raise UnreadLog(f"the entry is neither SQL nor Python code: {text!r:.80}")


def _indexed_tool(node: ast.AST) -> bool:
    return isinstance(node, ast.Subscript) and bool(_BARE.match(ast.unparse(node)))


def _quoted(match: re.Match[str]) -> str:
    if match["quoted"] is not None:
        return f"{match['tool']}({match['quoted']!r})"
    first, comma, rest = match["bare"].partition(",")
    return f"{match['tool']}({first}{comma}{rest.strip()!r})"


def _bare(node: ast.expr) -> list[str]:
    """Returns the text of a bare name, written without quotes."""
    return [node.id] if isinstance(node, ast.Name) else []


def _called(node: ast.Call) -> str:
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.casefold()
    return ""


def _arguments(node: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """Yields the arguments of a call, each with its keyword or ""."""
    yield from (("", value) for value in node.args)
    yield from ((keyword.arg or "", keyword.value) for keyword in node.keywords)


def _joined(parts: Sequence[_Held]) -> tuple[str, ...]:
    """Returns the concatenated texts; an unknown part becomes `?`."""
    return ("".join(each.texts[0] if each.texts else "?" for each in parts),)
