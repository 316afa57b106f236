"""The expressions of guard programs, compiled to closures that count their steps."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence

from forewarn.abstractions.errors import near_miss
from forewarn.monitors.programs.comparing import compared, constant
from forewarn.monitors.programs.grammar import COMPARISONS, refuse
from forewarn.monitors.programs.running import Fact, Run, truth_of
from forewarn.monitors.programs.toolbox import SAID, Toolbox
from forewarn.monitors.programs.values import (
    CHARACTERS_A_STEP,
    ProgramFault,
    Value,
    text_of,
)

Expression = Callable[[Run], Value]

HOLDS = "holds"
INPUTS = ("user", "action", "frame", "request", "log", "needed", "place", HOLDS)
"""What a program can be handed, by the names it has there.

`holds` has every predicate of the domains, by name: whether it holds now.
"""


class Expressions:
    """Makes closures of expressions that the grammar has let through.

    Args:
        text: The program.
        toolbox: The functions that it may call.
        inputs: The names that it is handed.
    """

    def __init__(self, text: str, toolbox: Toolbox, inputs: Sequence[str]) -> None:
        self._lines = text.split("\n")
        self._text, self._toolbox = text, toolbox
        self._known = set(inputs)
        self.used: set[str] = set()
        self.read: set[str] = set()
        self.weights: dict[int, int] = {}
        self.predicates: dict[str, None] = {}

    def introduced(self, node: ast.expr) -> str:
        """A name that a statement gives a value."""
        name = node.id if isinstance(node, ast.Name) else ""
        if name in SAID or self._toolbox.get(name) is not None:
            refuse(node, f"{name} is a function, and stays one")
        self._known.add(name)
        return name

    def of(self, node: ast.expr) -> Expression:
        """An expression's closure."""
        same, value = constant(node)
        if same:
            # Weighed once: tables stand in the program, and are looked at in each run.
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
        refuse(node, "this does not stand in the language")

    def _remember(self, value: Value) -> int:
        """Weighs a constant and all that lies in it."""
        if not isinstance(value, tuple | dict):
            return 1 + (len(value) // CHARACTERS_A_STEP if type(value) is str else 0)
        parts = value.values() if isinstance(value, dict) else value
        weight = 1 + len(value) + sum(map(self._remember, parts))
        self.weights[id(value)] = weight
        return weight

    def _name(self, node: ast.expr, name: str) -> Expression:
        if name in SAID or self._toolbox.get(name) is not None:
            refuse(node, f"{name} is a function: it is called, not handed on")
        if name not in self._known:
            refuse(
                node,
                f"nothing is called {name}",
                mend=near_miss(name, self._known) or "inputs: " + ", ".join(INPUTS),
            )
        self.read.add(name)

        def look(run: Run) -> Value:
            try:
                return run.names[name]
            except KeyError:
                raise ProgramFault(f"there is no {name} here") from None

        return look

    def _connected(self, operator: ast.boolop, values: list[ast.expr]) -> Expression:
        parts = [(self._tested(value), value.lineno) for value in values]
        ends = isinstance(operator, ast.Or)

        def connect(run: Run) -> Value:
            for evaluate, line in parts:
                if truth_of(evaluate(run), line) is ends:
                    return ends
            return not ends

        return connect

    def _tested(self, node: ast.expr) -> Expression:
        """An expression whose truth is a fact by itself."""
        evaluate = self.of(node)
        if not is_bare(node):
            return evaluate
        line, text = node.lineno, self.said_of(node)

        def test(run: Run) -> Value:
            value = evaluate(run)
            run.facts.append(Fact(line, text, (), value))
            return value

        return test

    def _comparison(self, node: ast.Compare) -> Expression:
        sides = [self.of(each) for each in (node.left, *node.comparators)]
        operators = [COMPARISONS[type(each)] for each in node.ops]
        line, text = node.lineno, self.said_of(node)

        def compare(run: Run) -> Value:
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
        def make(run: Run) -> Value:
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

        def make(run: Run) -> Value:
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
                refuse(node, f"a predicate is named in the program: {HOLDS}[...]")
            self.predicates[index.value] = None

        def look_up(run: Run) -> Value:
            run.spend(1)
            value, key = inside(run), which(run)
            if isinstance(value, Mapping) and isinstance(key, str):
                if key in value:
                    return value[key]
            elif isinstance(value, list | tuple) and type(key) is int:
                if 0 <= key < len(value):
                    return value[key]
            raise ProgramFault(f"line {line}: there is no {text}")

        return look_up

    def _call(self, node: ast.Call) -> Expression:
        assert isinstance(node.func, ast.Name)  # noqa: S101
        name = node.func.id
        if name in SAID:
            refuse(node, f"{name} is a statement of its own")
        called = self._toolbox.get(name)
        if called is None:
            known = [*self._toolbox.names, *SAID]
            mend = near_miss(name, known) or "see the toolbox"
            refuse(node, f"the toolbox has no function {name}", mend=mend)
        given = self._given(node, called.parameters, called.needed, called.signature)
        self.used.add(name)
        call, line, text = called.call, node.lineno, self.said_of(node)

        def do(run: Run) -> Value:
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
                refuse(node, f"it is called {signature}")
            given[name] = self.of(value)
        lacking = [name for name in parameters[:needed] if name not in given]
        if lacking or len(node.args) > len(parameters):
            refuse(node, f"it is called {signature}")
        last = max((parameters.index(name) for name in given), default=-1)
        return [given.get(name, nothing) for name in parameters[: last + 1]]

    def said_of(self, node: ast.expr) -> str:
        """How an expression stands in the program."""
        if node.lineno == node.end_lineno:
            line = self._lines[node.lineno - 1].encode()
            text = line[node.col_offset : node.end_col_offset].decode()
        else:
            text = " ".join((ast.get_source_segment(self._text, node) or "").split())
        return text if len(text) <= 120 else text[:119] + "…"


def is_bare(node: ast.expr) -> bool:
    """Whether its truth is told by no fact of its own."""
    return isinstance(node, ast.Name | ast.Subscript | ast.Constant)


def nothing(run: Run) -> Value:
    return None
