"""Compiles the expressions of guard programs to closures that count their steps."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence

from forewarn.abstractions.errors import near_miss
from forewarn.abstractions.frame import is_number
from forewarn.monitors.programs.functions import SAID, Toolbox
from forewarn.monitors.programs.grammar import COMPARISONS, refuse
from forewarn.monitors.programs.running import Execution, Fact, truth_of
from forewarn.monitors.programs.values import (
    CHARACTERS_A_STEP,
    ORDER,
    ProgramFault,
    Value,
    kind,
    text_of,
)

_VARIES = object()


def constant(node: ast.expr | None) -> Value:
    """Returns an expression's value if it is the same in every run; else `_VARIES`."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=value)):
            return -value  # type: ignore[operator]
        case ast.List(elts=items) | ast.Tuple(elts=items):
            values = tuple(map(constant, items))
            return _VARIES if _VARIES in values else values
        case ast.Dict(keys=keys, values=items):
            made: dict[Value, Value] = {}
            for key, item in zip(map(constant, keys), items, strict=True):
                name = key if isinstance(key, str) else _VARIES
                if name in made and name is not _VARIES:
                    refuse(node, f"the key {name!r:.40} appears twice")
                made[name] = constant(item)
            return _VARIES if _VARIES in (*made, *made.values()) else made
    return _VARIES


_SINGLE = (str, int, float, bool, type(None))


def compared(
    run: Execution, operator: str, left: Value, right: Value, line: int
) -> bool:
    """Evaluates a comparison of values or numbers, or of a value with a collection."""
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
        raise ProgramFault(f"line {line} compares something that is not a number")
    return ORDER[operator](left, right)


def _same(left: Value, right: Value) -> bool:
    """Whether two values are equal and of the same type, so 1 differs from True."""
    return isinstance(left, bool) is isinstance(right, bool) and bool(left == right)


def _is_in(run: Execution, item: Value, among: Value, line: int) -> bool:
    if isinstance(among, str) and isinstance(item, str):
        run.spend((len(among) + len(item)) // CHARACTERS_A_STEP)
        return item in among
    if isinstance(item, _SINGLE) and isinstance(among, list | tuple):
        length = len(item) if isinstance(item, str) else 0
        run.spend(len(among) * (1 + length // CHARACTERS_A_STEP))
        return any(isinstance(each, _SINGLE) and _same(item, each) for each in among)
    if isinstance(item, str) and isinstance(among, Mapping):
        return item in among
    raise ProgramFault(
        f"line {line} looks for {kind(item)} in {kind(among)}, which cannot contain it"
    )


Expression = Callable[[Execution], Value]

HOLDS = "holds"
INPUTS = ("user", "action", "frame", "request", "log", "needed", "place", HOLDS)
"""The names of the inputs that a program can receive.

`holds` maps the name of every predicate to whether it holds now.
"""


class Expressions:
    """Compiles checked expressions to closures, over a toolbox and named inputs."""

    def __init__(self, text: str, toolbox: Toolbox, inputs: Sequence[str]) -> None:
        self._lines = text.split("\n")
        self._text, self._toolbox = text, toolbox
        self._known = set(inputs)
        self.used: set[str] = set()
        self.read: set[str] = set()
        self.weights: dict[int, int] = {}
        self.predicates: dict[str, None] = {}

    def introduced(self, node: ast.expr) -> str:
        """Declares a name to which a statement assigns a value."""
        name = node.id if isinstance(node, ast.Name) else ""
        if name in SAID or self._toolbox.get(name) is not None:
            refuse(node, f"{name} is a function and cannot be assigned to")
        self._known.add(name)
        return name

    def of(self, node: ast.expr) -> Expression:
        """Compiles an expression to a closure."""
        value = constant(node)
        if value is not _VARIES:
            # The size is computed once, because programs contain tables and inspect
            # them in each run.
            self._remember(value)
            return lambda run: value
        match node:
            case ast.Name(id=name):
                return self._name(node, name)
            case ast.UnaryOp(operand=operand):
                inner, line = self.of(operand), node.lineno
                return lambda run: not truth_of(inner(run), line)
            case ast.BoolOp(op=operator, values=values):
                return self._connected(operator, values)
            case ast.Compare():
                return self._comparison(node)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return self._list([self.of(item) for item in items])
            case ast.Dict(keys=keys, values=values):
                return self._mapping(keys, values)
            case ast.Subscript(value=base, slice=index):
                return self._looked_up(node, base, index)
            case ast.Call():
                return self._call(node)
        refuse(node, "this is not part of the language")

    def _remember(self, value: Value) -> int:
        """Stores the size of a constant, including everything in it."""
        if not isinstance(value, tuple | dict):
            return 1 + (len(value) // CHARACTERS_A_STEP if type(value) is str else 0)
        parts = value.values() if isinstance(value, dict) else value
        weight = 1 + len(value) + sum(map(self._remember, parts))
        self.weights[id(value)] = weight
        return weight

    def _name(self, node: ast.expr, name: str) -> Expression:
        if name in SAID or self._toolbox.get(name) is not None:
            refuse(
                node, f"{name} is a function: it can be called, but not used as a value"
            )
        if name not in self._known:
            refuse(
                node,
                f"the name {name} is not defined",
                mend=near_miss(name, self._known) or "inputs: " + ", ".join(INPUTS),
            )
        self.read.add(name)

        def look(run: Execution) -> Value:
            try:
                return run.names[name]
            except KeyError:
                raise ProgramFault(f"{name} has no value") from None

        return look

    def _connected(self, operator: ast.boolop, values: list[ast.expr]) -> Expression:
        parts = [(self._tested(value), value.lineno) for value in values]
        ends = isinstance(operator, ast.Or)

        def connect(run: Execution) -> Value:
            for evaluate, line in parts:
                if truth_of(evaluate(run), line) is ends:
                    return ends
            return not ends

        return connect

    def _tested(self, node: ast.expr) -> Expression:
        """Compiles an expression whose truth is recorded as a fact."""
        evaluate = self.of(node)
        if not is_bare(node):
            return evaluate
        line, text = node.lineno, self.said_of(node)

        def test(run: Execution) -> Value:
            value = evaluate(run)
            run.facts.append(Fact(line, text, (), value))
            return value

        return test

    def _comparison(self, node: ast.Compare) -> Expression:
        sides = [self.of(each) for each in (node.left, *node.comparators)]
        operators = [COMPARISONS[type(each)] for each in node.ops]
        line, text = node.lineno, self.said_of(node)

        def compare(run: Execution) -> Value:
            run.spend(1)
            values = [sides[0](run)]
            truth = True
            for operator, side in zip(operators, sides[1:], strict=True):
                values.append(side(run))
                truth = compared(run, operator, values[-2], values[-1], line)
                if not truth:
                    break
            run.facts.append(Fact(line, text, tuple(values), truth))
            return truth

        return compare

    def _list(self, items: list[Expression]) -> Expression:
        def make(run: Execution) -> Value:
            made = tuple(item(run) for item in items)
            run.look_at(made)
            return made

        return make

    def _mapping(
        self, keys: Sequence[ast.expr | None], values: list[ast.expr]
    ) -> Expression:
        pairs = [
            (self.of(key), self.of(value))
            for key, value in zip(keys, values, strict=True)
            if key is not None
        ]

        def make(run: Execution) -> Value:
            made = {text_of(key(run), "a key"): value(run) for key, value in pairs}
            run.look_at(made)
            return made

        return make

    def _looked_up(
        self, node: ast.Subscript, base: ast.expr, index: ast.expr
    ) -> Expression:
        inside, which = self.of(base), self.of(index)
        text, line = self.said_of(node), node.lineno
        if isinstance(base, ast.Name) and base.id == HOLDS:
            if not isinstance(index, ast.Constant) or not isinstance(index.value, str):
                refuse(
                    node,
                    "a predicate's name must be written out in the program: "
                    f'{HOLDS}["name"]',
                )
            self.predicates[index.value] = None

        def look_up(run: Execution) -> Value:
            run.spend(1)
            value, key = inside(run), which(run)
            if isinstance(value, Mapping) and isinstance(key, str):
                if key in value:
                    return value[key]
            elif isinstance(value, list | tuple) and type(key) is int:
                if 0 <= key < len(value):
                    return value[key]
            raise ProgramFault(f"line {line}: {text} does not exist")

        return look_up

    def _call(self, node: ast.Call) -> Expression:
        assert isinstance(node.func, ast.Name)  # noqa: S101
        name = node.func.id
        if name in SAID:
            refuse(node, f"{name} must be a separate statement")
        called = self._toolbox.get(name)
        if called is None:
            known = [*self._toolbox.names, *SAID]
            mend = near_miss(name, known) or "use a function of the toolbox"
            refuse(node, f"the toolbox has no function {name}", mend=mend)
        given = self._given(node, called.parameters, called.needed, called.signature)
        self.used.add(name)
        call, line, text = called.call, node.lineno, self.said_of(node)

        def do(run: Execution) -> Value:
            run.spend(1)
            arguments = [each(run) for each in given]
            for argument in arguments:
                run.look_at(argument)
            value = call(*arguments)
            if isinstance(value, bool):
                run.facts.append(Fact(line, text, (), value))
            elif value is not None and not isinstance(value, int | float):
                run.look_at(value)
            return value

        return do

    def _given(
        self, node: ast.Call, parameters: Sequence[str], needed: int, signature: str
    ) -> list[Expression]:
        given: dict[str, Expression] = {}
        pairs = [*zip(parameters, node.args, strict=False)]
        pairs += [(keyword.arg or "", keyword.value) for keyword in node.keywords]
        for name, value in pairs:
            if name not in parameters or name in given:
                refuse(node, f"wrong arguments; call it as {signature}")
            given[name] = self.of(value)
        lacking = [name for name in parameters[:needed] if name not in given]
        if lacking or len(node.args) > len(parameters):
            refuse(node, f"wrong arguments; call it as {signature}")
        last = max((parameters.index(name) for name in given), default=-1)
        return [given.get(name, nothing) for name in parameters[: last + 1]]

    def said_of(self, node: ast.expr) -> str:
        """Returns the text of an expression in the program."""
        if node.lineno == node.end_lineno:
            line = self._lines[node.lineno - 1].encode()
            text = line[node.col_offset : node.end_col_offset].decode()
        else:
            text = " ".join((ast.get_source_segment(self._text, node) or "").split())
        return text if len(text) <= 120 else text[:119] + "…"


def is_bare(node: ast.expr) -> bool:
    """Whether an expression is a name, an item or a constant, without a test."""
    return isinstance(node, ast.Name | ast.Subscript | ast.Constant)


def nothing(run: Execution) -> Value:
    return None
