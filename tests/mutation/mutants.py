"""Mutants of a module: its source with one small fault in it, each with a name.

A name says where the fault is and what was changed, so that it stays the same while
lines move: `Gate._order: frame.time_s <= last.time_s => frame.time_s < last.time_s`.
What is only prose (docstrings, the texts of messages) and what only types see
(annotations) is left alone.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
_REMOVABLE = (
    ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Raise, ast.Continue,
    ast.Break, ast.Delete,
)  # fmt: skip
_UNSEEN = frozenset({"annotation", "returns", "decorator_list", "type_comment"})


@dataclass(frozen=True, slots=True)
class Mutant:
    """A module with one fault: its name and the whole source."""

    name: str
    source: str


@dataclass(frozen=True, slots=True)
class _Change:
    """One node, where it stands, and what stands there instead."""

    scope: str
    owner: ast.AST
    field: str
    index: int | None
    new: ast.AST

    def swap(self) -> tuple[ast.AST, ast.AST]:
        """Puts the new node in; gives what stood there, and what now does."""
        if self.index is None:
            was = getattr(self.owner, self.field)
            setattr(self.owner, self.field, self.new)
        else:
            nodes = getattr(self.owner, self.field)
            was, nodes[self.index] = nodes[self.index], self.new
        return was, self.new


def mutants(source: str) -> list[Mutant]:
    """All mutants of a module, in the order of its lines."""
    tree = ast.parse(source)
    return [
        Mutant(name, ast.unparse(ast.fix_missing_locations(tree)) + "\n")
        for name in _named(tree)
    ]


def names(source: str) -> set[str]:
    """The names of all mutants of a module, which takes less time than the mutants."""
    return set(_named(ast.parse(source)))


def _named(tree: ast.Module) -> Iterator[str]:
    """The name of each mutant, while the tree is that mutant's."""
    taken: Counter[str] = Counter()
    for change in list(_changes(tree, "")):
        was, now = change.swap()
        became = "removed" if isinstance(now, ast.Pass) else _text(now)
        name = f"{change.scope or 'module'}: {_text(was)} => {became}"
        taken[name] += 1
        if taken[name] > 1:
            name += f" ({taken[name]})"
        yield name
        _Change(change.scope, change.owner, change.field, change.index, was).swap()


def _text(node: ast.AST) -> str:
    return " ".join(ast.unparse(ast.fix_missing_locations(node)).split())


def _changes(
    node: ast.AST, scope: str, once: frozenset[str] = frozenset()
) -> Iterator[_Change]:
    """What can be changed below a node.

    Args:
        node: The node.
        scope: The function or class that it stands in.
        once: The names that this function assigns once. Without that they would be
            unknown names, which every test finds.
    """
    declares = isinstance(node, ast.Module | ast.ClassDef)
    for field, value in ast.iter_fields(node):
        if field in _UNSEEN:
            continue
        many = isinstance(value, list)
        for index, child in enumerate(value if many else [value]):
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr):
                continue
            place = index if many else None
            needed = declares or _names(child) & once
            for new in _instead(child, removable=not needed):
                yield _Change(scope, node, field, place, new)
            name = _declared(child) if declares else None
            if name is not None:
                inner = f"{scope}.{name}" if scope else name
                yield from _changes(child, inner, _assigned_once(child))
            else:
                yield from _changes(child, scope, once)
    test = getattr(node, "test", None)
    if isinstance(test, ast.Name | ast.Attribute | ast.Call | ast.NamedExpr):
        yield _Change(scope, node, "test", None, ast.UnaryOp(ast.Not(), test))


def _declared(node: ast.AST) -> str | None:
    """The name of what a class or module declares."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.AnnAssign(target=ast.Name(id=name)):
            return name
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
    return None


def _names(node: ast.AST) -> set[str]:
    """The plain names that a statement assigns."""
    match node:
        case ast.Assign(targets=targets):
            return {t.id for t in targets if isinstance(t, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
    return set()


def _assigned_once(function: ast.AST) -> frozenset[str]:
    stored = Counter(
        node.arg if isinstance(node, ast.arg) else node.id
        for node in ast.walk(function)
        if isinstance(node, ast.arg)
        or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    )
    return frozenset(name for name, times in stored.items() if times == 1)


def _instead(node: ast.AST, *, removable: bool) -> Iterator[ast.AST]:
    """The nodes that may stand where a node stands."""
    match node:
        case ast.Compare():
            for i, op in enumerate(node.ops):
                for other in _COMPARISONS[type(op)]:
                    changed = copy.deepcopy(node)
                    changed.ops[i] = other()
                    yield changed
        case ast.BoolOp():
            flipped = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield ast.BoolOp(flipped, node.values)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node.operand
        case ast.BinOp() if type(node.op) in _OPERATORS:
            yield ast.BinOp(node.left, _OPERATORS[type(node.op)](), node.right)
        case ast.Constant(value=bool()):
            yield ast.Constant(not node.value)
        case ast.Constant(value=int() | float() as value):
            more = value + 1
            yield ast.Constant(more if more != value else -value)
        case ast.Call(func=ast.Name(id=name)) if name in _CALLS:
            called = ast.Name(_CALLS[name], ast.Load())
            yield ast.Call(called, node.args, node.keywords)
        case ast.Return(value=value) if value is not None and not _is_none(value):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Constant()):
            pass  # a docstring
        case ast.AnnAssign(value=None):
            pass  # for types only
        case ast.stmt() if isinstance(node, _REMOVABLE) and removable:
            yield ast.Pass()


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
