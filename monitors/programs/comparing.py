"""What stays the same in every run of a program, and how values are compared."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from forewarn.abstractions.frame import is_number
from forewarn.monitors.programs.grammar import refuse
from forewarn.monitors.programs.running import Run
from forewarn.monitors.programs.values import (
    CHARACTERS_A_STEP,
    ProgramFault,
    Value,
    kind,
)


def constant(node: ast.expr) -> tuple[bool, Value]:
    """Whether an expression is the same in every run, and its value then."""
    if isinstance(node, ast.Constant):
        return True, node.value
    if isinstance(node, ast.List | ast.Tuple):
        items = []
        for item in node.elts:
            same, value = constant(item)
            if not same:
                return False, None
            items.append(value)
        return True, tuple(items)
    if isinstance(node, ast.Dict):
        return _constant_mapping(node)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        assert isinstance(node.operand, ast.Constant)  # noqa: S101
        return True, -node.operand.value  # type: ignore[operator]
    return False, None


def _constant_mapping(node: ast.Dict) -> tuple[bool, Value]:
    made: dict[str, Value] = {}
    whole = True
    keys: set[str] = set()
    for key, item in zip(node.keys, node.values, strict=True):
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            whole = False
            continue
        if key.value in keys:
            refuse(node, f"the key {key.value!r:.40} stands twice")
        keys.add(key.value)
        same, value = constant(item)
        whole &= same
        made[key.value] = value
    return whole, made if whole else None


_SINGLE = (str, int, float, bool, type(None))


def compared(run: Run, operator: str, left: Value, right: Value, line: int) -> bool:
    """One comparison: of single values, of numbers, or of one with what holds many."""
    if operator in ("in", "not in"):
        return _is_in(run, left, right, line) is (operator == "in")
    if operator in ("is", "is not"):
        return (left is None) is (operator == "is")
    if operator in ("==", "!="):
        for value in (left, right):
            if not isinstance(value, _SINGLE):
                raise ProgramFault(f"line {line} compares {kind(value)}")
            if isinstance(value, str):
                run.spend(len(value) // CHARACTERS_A_STEP)
        return _same(left, right) is (operator == "==")
    if not (is_number(left) and is_number(right)):
        odd = right if is_number(left) else left
        raise ProgramFault(f"line {line} compares {kind(odd)} as if it were a number")
    if left != left or right != right:
        raise ProgramFault(f"line {line} compares what is no number")
    if operator == "<":
        return bool(left < right)
    if operator == "<=":
        return bool(left <= right)
    return bool(left > right) if operator == ">" else bool(left >= right)


def _same(left: Value, right: Value) -> bool:
    """Equal and of one kind: 1 is not true."""
    return isinstance(left, bool) is isinstance(right, bool) and bool(left == right)


def _is_in(run: Run, item: Value, among: Value, line: int) -> bool:
    if isinstance(among, str) and isinstance(item, str):
        run.spend((len(among) + len(item)) // CHARACTERS_A_STEP)
        return item in among
    if isinstance(item, _SINGLE) and isinstance(among, list | tuple):
        length = len(item) if isinstance(item, str) else 0
        run.spend(len(among) * (1 + length // CHARACTERS_A_STEP))
        return any(isinstance(each, _SINGLE) and _same(item, each) for each in among)
    if isinstance(item, str) and isinstance(among, Mapping):
        return item in among
    raise ProgramFault(f"line {line} looks for {kind(item)} in {kind(among)}")
