"""The paper's bounded response: Definition 5.2 waits from K down to 0.

It raises a violation from `wait:0`, one step after the last chance to respond, so it
monitors `eventually[0, K+1]`. We offer it under its own name, to compare with figures
published for it.
"""

from __future__ import annotations

from forewarn.abstractions.errors import InvalidExpression
from forewarn.abstractions.expression.tree import Implies
from forewarn.monitors.laws.formula import (
    Always,
    Eventually,
    Formula,
    Interval,
    is_temporal,
)


def one_step_later(formula: Formula, period_s: float | None) -> Formula:
    """The exact formula that the paper's automaton of this law accepts."""
    match formula:
        case Always(
            operand=Implies(left=trigger, right=Eventually(operand=target) as response),
            interval=Interval(low=0, high=None),
        ) if not is_temporal(trigger) and not is_temporal(target):
            low, high = response.interval.steps(period_s)
            if low == 0 and high is not None:
                longer = Eventually(target, Interval(0, high + 1))
                return Always(Implies(trigger, longer))
    raise InvalidExpression(
        "the paper's semantics is defined for bounded response alone",
        mend="write always (a -> eventually[0, K steps] b), or use exact semantics",
    )


def renamed_as_in_paper(names: tuple[str, ...]) -> tuple[str, ...]:
    """Its waiting states count one less: from K down to 0."""
    return tuple(
        f"wait:{int(name[5:]) - 1}" if name.startswith("wait:") else name
        for name in names
    )
