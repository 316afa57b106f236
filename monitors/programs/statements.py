"""The statements of guard programs, compiled to closures that count their steps."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from forewarn.abstractions.frame import is_number
from forewarn.monitors.programs.expressions import Expressions, is_bare, nothing
from forewarn.monitors.programs.grammar import refuse
from forewarn.monitors.programs.running import Fact, Run, truth_of
from forewarn.monitors.programs.toolbox import SAID
from forewarn.monitors.programs.values import ProgramFault, Value, kind

Statement = Callable[[Run], None]


class Statements:
    """Makes closures of statements that the grammar has let through.

    Args:
        expressions: Makes those of what is in them.
    """

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions
        self.reasons: dict[str, None] = {}

    def block(self, body: Sequence[ast.stmt]) -> tuple[Statement, ...]:
        """The closures of statements that follow each other."""
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
                evaluate = self._expressions.of(call)

                def do(run: Run) -> None:
                    evaluate(run)

                return do
            case _:
                return _pass

    def _setter(self, target: ast.expr) -> Callable[[Run, Value], None]:
        """What gives a value to a name, or its parts to as many names."""
        targets = target.elts if isinstance(target, ast.Tuple) else [target]
        names = [self._expressions.introduced(each) for each in targets]
        if not isinstance(target, ast.Tuple):

            def put(run: Run, value: Value) -> None:
                run.spend(1)
                run.names[names[0]] = value

            return put

        def put_each(run: Run, value: Value) -> None:
            run.spend(len(names))
            run.names.update(zip(names, _parts(value, len(names)), strict=True))

        return put_each

    def _if(self, node: ast.If) -> Statement:
        test, line = self._expressions.of(node.test), node.lineno
        bare = self._expressions.said_of(node.test) if is_bare(node.test) else ""
        body, orelse = self.block(node.body), self.block(node.orelse)

        def choose(run: Run) -> None:
            run.spend(1)
            facts = run.facts
            before = len(facts)
            truth = truth_of(test(run), line)
            if bare:
                facts.append(Fact(line, bare, (), truth))
            for statement in body if truth else orelse:
                statement(run)
            # What was found out on the way to here explains nothing beyond it.
            del facts[before:]

        return choose

    def _for(self, node: ast.For) -> Statement:
        items, line = self._expressions.of(node.iter), node.lineno
        put = self._setter(node.target)
        body = self.block(node.body)

        def repeat(run: Run) -> None:
            over = items(run)
            if not isinstance(over, list | tuple | Mapping):
                raise ProgramFault(f"line {line} goes through {kind(over)}")
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
                f"{said} is given its reason as a text that stands in the program",
                mend=f'such as {said}("guests stay out of the bedroom")',
            )
        self.reasons[reason] = None
        if said == "slow":
            cap = (
                given[1].value
                if len(given) == 2 and isinstance(given[1], ast.Constant)
                else None
            )
            if not is_number(cap) or cap < 0:
                refuse(call, "slow is given its reason and a speed in km/h")
            cap_kmh = float(cap)

            def slow(run: Run) -> None:
                run.spend(1)
                run.say("slow", reason, None, cap_kmh)

            return slow
        details = self._expressions.of(given[1]) if len(given) == 2 else nothing
        known: Any = said

        def say(run: Run) -> None:
            run.spend(1)
            run.say(known, reason, details(run), None)

        return say


def _parts(value: Value, count: int) -> Sequence[Value]:
    if isinstance(value, list | tuple) and len(value) == count:
        return value
    raise ProgramFault(f"{kind(value)} is not {count} values")


def _pass(run: Run) -> None:
    return None
