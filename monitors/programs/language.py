"""Guard programs, compiled to closures that count their steps.

A program is handed its inputs by name and says `deny`, `ask`, `reflect` or `slow` of an
action; if it says nothing, the action passes. Whatever it cannot do denies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forewarn.monitors.programs.expressions import INPUTS, Expressions
from forewarn.monitors.programs.grammar import parse
from forewarn.monitors.programs.running import Outcome, Run
from forewarn.monitors.programs.statements import Statements
from forewarn.monitors.programs.toolbox import Toolbox
from forewarn.monitors.programs.values import ProgramFault, Value


class Program:
    """A program that can be run on one action after another.

    Args:
        text: The program.
        toolbox: The functions that it may call.
        inputs: The names that it is handed.

    Raises:
        InvalidProgram: It is not in the language, or calls what is not there.
        TooLarge: It is larger than programs may be.
    """

    def __init__(
        self, text: str, toolbox: Toolbox, inputs: Sequence[str] = INPUTS
    ) -> None:
        self.text = text
        expressions = Expressions(text, toolbox, inputs)
        statements = Statements(expressions)
        self._body = statements.block(parse(text).body)
        self._weights = expressions.weights
        self.uses = tuple(sorted(expressions.used))
        """The functions of the toolbox that it calls."""
        self.reasons = tuple(statements.reasons)
        """What it may say of an action, in its own words."""
        self.predicates = tuple(expressions.predicates)
        """The predicates that it asks of `holds`."""
        self.reads = tuple(sorted(expressions.read & set(inputs)))
        """The inputs that it reads."""

    def run(self, inputs: Mapping[str, Value]) -> Outcome:
        """What it says of one action. Never raises."""
        run = Run(dict(inputs), self._weights)
        try:
            for statement in self._body:
                statement(run)
        except ProgramFault as fault:
            return run.outcome(str(fault))
        except Exception as error:
            # A function of the toolbox that fails is no leave to pass.
            return run.outcome(f"{type(error).__name__} in a function")
        return run.outcome()
