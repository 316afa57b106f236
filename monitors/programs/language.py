"""Compiles guard programs to closures that count their steps.

A program receives its inputs by name and calls `deny`, `ask`, `reflect` or `slow` for
an action. If it calls none of them, the action passes; if it fails, the action is
denied.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from forewarn.abstractions.frame import is_number
from forewarn.monitors.programs.expressions import (
    INPUTS,
    Expressions,
    constant,
    is_bare,
    nothing,
)
from forewarn.monitors.programs.functions import SAID, Toolbox
from forewarn.monitors.programs.grammar import parse, refuse
from forewarn.monitors.programs.running import Execution, Fact, Outcome, truth_of
from forewarn.monitors.programs.values import ProgramFault, Value, kind

Statement = Callable[[Execution], object]


class Statements:
    """Compiles checked statements to closures."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions
        self.reasons: dict[str, None] = {}

    def block(self, body: Sequence[ast.stmt]) -> tuple[Statement, ...]:
        """Compiles a sequence of statements."""
        return tuple(self._statement(statement) for statement in body)

    def _statement(self, node: ast.stmt) -> Statement:
        match node:
            case ast.Assign(targets=[target], value=value):
                evaluate, put = self._expressions.of(value), self._setter(target)
                return lambda run: put(run, evaluate(run))
            case ast.If():
                return self._if(node)
            case ast.For():
                return self._for(node)
            case ast.Expr(value=ast.Call() as call):
                if isinstance(call.func, ast.Name) and call.func.id in SAID:
                    return self._saying(call, call.func.id)
                return self._expressions.of(call)
            case _:
                return nothing

    def _setter(self, target: ast.expr) -> Callable[[Execution, Value], None]:
        """Returns a closure that assigns a value, or unpacks it to several names."""
        several = isinstance(target, ast.Tuple)
        targets = target.elts if isinstance(target, ast.Tuple) else [target]
        names = [self._expressions.introduced(each) for each in targets]

        def put(run: Execution, value: Value) -> None:
            run.spend(len(names))
            parts = _parts(value, len(names)) if several else (value,)
            run.names.update(zip(names, parts, strict=True))

        return put

    def _if(self, node: ast.If) -> Statement:
        test, line = self._expressions.of(node.test), node.lineno
        bare = self._expressions.said_of(node.test) if is_bare(node.test) else ""
        body, orelse = self.block(node.body), self.block(node.orelse)

        def choose(run: Execution) -> None:
            run.spend(1)
            facts = run.facts
            before = len(facts)
            truth = truth_of(test(run), line)
            if bare:
                facts.append(Fact(line, bare, (), truth))
            for statement in body if truth else orelse:
                statement(run)
            # The facts found in this block do not explain verdicts after it.
            del facts[before:]

        return choose

    def _for(self, node: ast.For) -> Statement:
        items, line = self._expressions.of(node.iter), node.lineno
        put = self._setter(node.target)
        body = self.block(node.body)

        def repeat(run: Execution) -> None:
            over = items(run)
            if not isinstance(over, list | tuple | Mapping):
                raise ProgramFault(
                    f"line {line} loops over {kind(over)}, which is not a list"
                )
            for item in tuple(over):
                run.spend(1)
                put(run, item)
                for statement in body:
                    statement(run)

        return repeat

    def _saying(self, call: ast.Call, said: str) -> Statement:
        given = list(call.args)
        names = ("reason", "cap_kmh") if said == "slow" else ("reason", "details")
        for keyword in call.keywords:
            if keyword.arg != names[-1] or len(given) != 1:
                refuse(call, f"{said} takes {' and '.join(names)}")
            given.append(keyword.value)
        reason = given[0].value if given and isinstance(given[0], ast.Constant) else ""
        if not isinstance(reason, str) or not reason or len(given) > 2:
            refuse(
                call,
                f"{said} needs a reason, written as text in the program",
                mend=f'write it as in {said}("guests stay out of the bedroom")',
            )
        self.reasons[reason] = None
        if said == "slow":
            cap = constant(given[1]) if len(given) == 2 else None
            if not is_number(cap) or cap < 0:
                refuse(call, "slow needs a reason and a speed in km/h")
            cap_kmh = float(cap)

            def slow(run: Execution) -> None:
                run.spend(1)
                run.say("slow", reason, None, cap_kmh)

            return slow
        details = self._expressions.of(given[1]) if len(given) == 2 else nothing
        known: Any = said

        def say(run: Execution) -> None:
            run.spend(1)
            run.say(known, reason, details(run), None)

        return say


def _parts(value: Value, count: int) -> Sequence[Value]:
    if isinstance(value, list | tuple) and len(value) == count:
        return value
    raise ProgramFault(f"expected {count} values, found {kind(value)}")


def _tables_in(tree: ast.Module) -> Mapping[str, Sequence[str]]:
    """Returns the tables and columns in constants that list them by role."""
    found: dict[str, dict[str, None]] = {}
    for node in ast.walk(tree):
        rows = constant(node) if isinstance(node, ast.Dict) else None
        for row in rows.values() if isinstance(rows, dict) else ():
            for table, columns in row.items() if isinstance(row, dict) else ():
                if isinstance(columns, tuple):
                    names = (name for name in columns if isinstance(name, str))
                    found.setdefault(table, {}).update(dict.fromkeys(names))
    return {table: list(columns) for table, columns in found.items()}


class Program:
    """A compiled program, which can be run on one action after another.

    Raises:
        InvalidProgram: The text is not in the language, or calls an unknown function.
        TooLarge: The text exceeds the size limit of programs.
    """

    def __init__(
        self, text: str, toolbox: Toolbox, inputs: Sequence[str] = INPUTS
    ) -> None:
        self.text = text
        expressions = Expressions(text, toolbox, inputs)
        statements = Statements(expressions)
        tree = parse(text)
        self._body = statements.block(tree.body)
        self.tables = _tables_in(tree)
        """The tables that the program lists for roles, with all their columns."""
        self._weights = expressions.weights
        self.uses = tuple(sorted(expressions.used))
        """The functions of the toolbox that the program calls."""
        self.reasons = tuple(statements.reasons)
        """The reasons that the program may give."""
        self.predicates = tuple(expressions.predicates)
        """The predicates that the program reads from `holds`."""
        self.reads = tuple(sorted(expressions.read & set(inputs)))
        """The inputs that the program reads."""

    def run(self, inputs: Mapping[str, Value]) -> Outcome:
        """Returns the program's verdict on an action; never raises an exception."""
        run = Execution(dict(inputs), self._weights)
        try:
            for statement in self._body:
                statement(run)
        except ProgramFault as fault:
            return run.outcome(str(fault))
        except Exception as error:
            # If a function of the toolbox fails, the action is denied too.
            return run.outcome(f"a function failed with {type(error).__name__}")
        return run.outcome()
