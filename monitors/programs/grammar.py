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
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from forewarn.abstractions.errors import InvalidInput, TooLarge, clean
from forewarn.abstractions.files import read_yaml

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
    checker = _Checker(text)
    for statement in tree.body:
        checker.check(statement, 0)
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


_WORDS: Mapping[str, str] = read_yaml(Path(__file__).with_name("grammar.yaml"))

_ALLOWED = (
    ast.Assign, ast.If, ast.For, ast.Expr, ast.Pass, ast.Constant, ast.Name,
    ast.UnaryOp, ast.BoolOp, ast.Compare, ast.List, ast.Tuple, ast.Dict, ast.Subscript,
    ast.Call, ast.keyword, ast.Not, ast.USub, ast.boolop, *COMPARISONS,
    ast.expr_context,
)  # fmt: skip


class _Checker:
    """Visits every node of the tree once and checks that it is allowed."""

    def __init__(self, text: str) -> None:
        self._lines = text.encode().splitlines()

    def check(self, node: ast.AST, depth: int) -> None:
        """Checks a node that is nested in `depth` others of its kind."""
        if isinstance(node, ast.expr | ast.stmt):
            block = isinstance(node, ast.stmt)
            limit = DEEPEST_BLOCK if block else DEEPEST_NESTING
            if depth > limit:
                problem = f"the program is nested more than {limit} levels deep"
                raise TooLarge(problem, place=f"line {node.lineno}")
        if not isinstance(node, _ALLOWED):
            self._unknown(node)
        self._node(node)
        for child in ast.iter_child_nodes(node):
            same = isinstance(child, ast.stmt) is isinstance(node, ast.stmt)
            inside = depth if isinstance(node, ast.keyword) else depth + 1
            self.check(child, inside if same else 0)

    def _node(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=[target]) | ast.For(target=target, orelse=[]):
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                for name in names or [target]:
                    if not isinstance(name, ast.Name):
                        refuse(name, "only names can be assigned to")
            case ast.Assign() | ast.For():
                self._unknown(node)
            case ast.Expr(value=value) if not isinstance(value, ast.Call):
                self._unknown(node)
            case ast.Constant(value=value):
                _constant(node, value)
            case ast.Name(id=name) | ast.keyword(arg=str(name)):
                self._name(node, name)
            case (
                ast.UnaryOp(op=ast.Not())
                | ast.UnaryOp(
                    op=ast.USub(), operand=ast.Constant(value=int() | float())
                )
            ):
                pass
            case ast.UnaryOp():
                self._unknown(node)
            case ast.Compare(ops=ops, comparators=others):
                for operator, other in zip(ops, others, strict=True):
                    none = isinstance(other, ast.Constant) and other.value is None
                    if isinstance(operator, ast.Is | ast.IsNot) and not none:
                        refuse(other, "`is` can only be used with None", "use ==")
            case ast.Dict(keys=keys) if None in keys:
                refuse(node, "** is not part of this language")
            case ast.keyword():
                refuse(node, "** is not part of this language")
            case ast.Call(func=called) if not isinstance(called, ast.Name):
                refuse(
                    node, "only functions of the toolbox can be called, by their names"
                )

    def _name(self, node: ast.Name | ast.keyword, name: str) -> None:
        if not NAME.fullmatch(name):
            mend = "begin with a letter; then use letters, digits and _"
            refuse(node, f"{name!r:.40} cannot be used as a name", mend)
        # Python normalizes letters that look like others; people may misread them.
        start = node.col_offset
        if self._lines[node.lineno - 1][start : start + len(name)] != name.encode():
            refuse(
                node, f"the name {name} contains characters other than plain letters"
            )

    def _unknown(self, node: ast.AST) -> NoReturn:
        name = type(node).__name__
        refuse(node, f"{_WORDS.get(name, name)} is not part of this language")


def _constant(node: ast.Constant, value: object) -> None:
    if value is None or isinstance(value, bool | str):
        return
    if not isinstance(value, int | float):
        refuse(node, f"{type(value).__name__} is not a type of value in this language")
    whole = isinstance(value, int)
    if not (abs(value) <= LARGEST_NUMBER if whole else math.isfinite(value)):
        refuse(node, "the number is too large")
