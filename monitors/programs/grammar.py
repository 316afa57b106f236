"""Parses a guard program and checks that it belongs to the language.

The language is a small part of Python's syntax: assignments, literals, comparisons,
`and`, `or`, `not`, `if`, `for` over existing values, and calls of the toolbox's
functions by name. There are no attributes, definitions, imports, arithmetic or
formatting, so a program can access only its inputs.
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from typing import NoReturn

from forewarn.abstractions.errors import InvalidInput, TooLarge, clean

LONGEST_PROGRAM = 64_000
"""The maximum number of characters of a program."""

MOST_TOKENS = 8_000
"""The maximum number of tokens, so that people can review a program and it is parsed
within milliseconds.
"""

DEEPEST_NESTING = 20
DEEPEST_BLOCK = 90
"""The maximum nesting depth of blocks; `elif` counts as an `if` in an `else`."""

LARGEST_NUMBER = 2**53

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,59}")

_TOKENS = re.compile(r"\w+|[^\w\s]")

COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Is: "is",
    ast.IsNot: "is not",
}

_WORDS: dict[type[ast.AST], str] = {
    ast.Attribute: "a dot after a name",
    ast.Lambda: "a lambda",
    ast.FunctionDef: "a definition of a function",
    ast.AsyncFunctionDef: "a definition of a function",
    ast.ClassDef: "a class",
    ast.Import: "an import",
    ast.ImportFrom: "an import",
    ast.BinOp: "arithmetic",
    ast.JoinedStr: "a formatted text",
    ast.ListComp: "a comprehension",
    ast.SetComp: "a comprehension",
    ast.DictComp: "a comprehension",
    ast.GeneratorExp: "a comprehension",
    ast.While: "a while loop",
    ast.Try: "a try",
    ast.With: "a with",
    ast.Slice: "a slice",
    ast.Starred: "a star",
    ast.NamedExpr: "an assignment inside an expression",
    ast.Return: "a return",
    ast.Set: "a set",
}


class InvalidProgram(InvalidInput):
    """The text is not a guard program."""


def parse(text: str) -> ast.Module:
    """Returns the syntax tree, which contains only what the language allows.

    Raises:
        InvalidProgram: The text is not in the language; the message states the line.
        TooLarge: The text exceeds the limits on length or nesting.
    """
    _refuse_large(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tree = ast.parse(text)
    except (SyntaxError, SyntaxWarning, DeprecationWarning) as error:
        line = getattr(error, "lineno", None)
        reason = getattr(error, "msg", None) or str(error)
        raise InvalidProgram(
            f"not valid Python syntax: {reason}",
            place=f"line {line}" if line else "",
        ) from None
    except (ValueError, RecursionError, MemoryError):
        raise InvalidProgram("the program cannot be parsed") from None
    if not tree.body:
        raise InvalidProgram(
            "the program is empty",
            mend=("write at least one rule that denies something"),
        )
    _Checker(text).block(tree.body, 0)
    return tree


def _refuse_large(text: str) -> None:
    if len(text) > LONGEST_PROGRAM:
        raise TooLarge(f"the program is longer than {LONGEST_PROGRAM} characters")
    if text != clean(text) or "\x00" in text:
        raise InvalidProgram("the program contains invisible characters")
    if len(_TOKENS.findall(text)) > MOST_TOKENS:
        raise TooLarge(f"the program has more than {MOST_TOKENS} tokens")


def refuse(node: ast.AST, problem: str, mend: str = "") -> NoReturn:
    """Raises an error at a place in the program."""
    line = getattr(node, "lineno", None)
    raise InvalidProgram(problem, place=f"line {line}" if line else "", mend=mend)


def _not_deeper(node: ast.stmt | ast.expr, depth: int, limit: int) -> None:
    if depth > limit:
        raise TooLarge(
            f"the program is nested more than {limit} deep", place=f"line {node.lineno}"
        )


class _Checker:
    """Visits every node of the tree once and checks that it is allowed."""

    def __init__(self, text: str) -> None:
        self._lines = text.encode().splitlines()

    def block(self, body: list[ast.stmt], depth: int) -> None:
        for statement in body:
            self._statement(statement, depth)

    def _statement(self, node: ast.stmt, depth: int) -> None:
        _not_deeper(node, depth, DEEPEST_BLOCK)
        match node:
            case ast.Assign(targets=[target], value=value):
                self._target(target)
                self._expression(value, 0)
            case ast.If(test=test, body=body, orelse=orelse):
                self._expression(test, 0)
                self.block(body, depth + 1)
                self.block(orelse, depth + 1)
            case ast.For(target=target, iter=items, body=body, orelse=[]):
                self._target(target)
                self._expression(items, 0)
                self.block(body, depth + 1)
            case ast.Expr(value=ast.Call() as call):
                self._expression(call, 0)
            case ast.Pass():
                pass
            case _:
                self._unknown(node)

    def _target(self, node: ast.expr) -> None:
        match node:
            case ast.Name(id=name):
                self._name(node, name)
            case ast.Tuple(elts=parts) if parts:
                for part in parts:
                    if not isinstance(part, ast.Name):
                        refuse(part, "only names can be assigned to")
                    self._name(part, part.id)
            case _:
                refuse(node, "only names can be assigned to")

    def _name(self, node: ast.expr | ast.keyword, name: str) -> None:
        if not NAME.fullmatch(name):
            refuse(node, f"{name!r:.40} cannot be a name here", "letters and digits")
        # Python normalizes letters that look like others; people may misread them.
        start = node.col_offset
        if self._lines[node.lineno - 1][start : start + len(name)] != name.encode():
            refuse(
                node, f"the name {name} contains characters other than plain letters"
            )

    def _expression(self, node: ast.expr, depth: int) -> None:
        _not_deeper(node, depth, DEEPEST_NESTING)
        parts: list[ast.expr] = []
        match node:
            case ast.Constant(value=value):
                self._constant(node, value)
            case ast.Name(id=name):
                self._name(node, name)
            case ast.UnaryOp(
                op=ast.USub(), operand=ast.Constant(value=int() | float())
            ):
                self._expression(node.operand, depth + 1)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                parts = [operand]
            case ast.BoolOp(values=values):
                parts = values
            case ast.Compare(left=left, ops=ops, comparators=others):
                parts = [left, *others]
                for operator, other in zip(ops, others, strict=True):
                    none = isinstance(other, ast.Constant) and other.value is None
                    if isinstance(operator, ast.Is | ast.IsNot) and not none:
                        refuse(other, "`is` can only be used with None", "write ==")
            case ast.List(elts=items) | ast.Tuple(elts=items):
                parts = items
            case ast.Dict(keys=keys, values=values):
                for key in keys:
                    if key is None:
                        refuse(node, "** is not part of this language")
                    parts.append(key)
                parts += values
            case ast.Subscript(value=value, slice=index):
                parts = [value, index]
            case ast.Call(func=ast.Name(id=name) as called, args=args, keywords=named):
                self._name(called, name)
                parts = list(args)
                for keyword in named:
                    if keyword.arg is None:
                        refuse(node, "** is not part of this language")
                    self._name(keyword, keyword.arg)
                    parts.append(keyword.value)
            case ast.Call():
                refuse(
                    node, "only functions of the toolbox can be called, by their names"
                )
            case _:
                self._unknown(node)
        for part in parts:
            self._expression(part, depth + 1)

    def _constant(self, node: ast.Constant, value: object) -> None:
        if value is None or isinstance(value, bool | str):
            return
        if isinstance(value, int) and abs(value) <= LARGEST_NUMBER:
            return
        if isinstance(value, float) and math.isfinite(value):
            return
        if isinstance(value, int | float):
            refuse(node, "the number is too large")
        refuse(node, f"{type(value).__name__} is not a type of value in this language")

    def _unknown(self, node: ast.AST) -> NoReturn:
        words = _WORDS.get(type(node), f"{type(node).__name__}")
        refuse(node, f"{words} is not part of this language")
