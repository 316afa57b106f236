"""Laws that standing still breaks.

A guard that stops the car keeps most laws. Of one that asks to move, as at a green
light, a stop causes what it should prevent; who asks here knows before.
"""

from __future__ import annotations

from forewarn.abstractions.expression.domain import read_by
from forewarn.abstractions.expression.scalar import compile_test
from forewarn.monitors.laws.automata.automaton import Automaton
from forewarn.monitors.laws.lawbook import Law

SPEED = "speed"


def broken_by_standing(law: Law, period_s: float | None = None) -> bool:
    """Whether it can come to pass that whoever stands on must break the law.

    Args:
        law: The law. What it reads beside the speed may turn out either way.
        period_s: The clock, where the law's times are in seconds.
    """
    if SPEED not in law.signals:
        return False
    automaton = law.compile(period_s)
    columns = _standing(automaton)
    onward = automaton.step[:, columns]
    safe = set(range(automaton.n)) - {automaton.violated}
    while doomed := {s for s in safe if safe.isdisjoint(onward[s].tolist())}:
        safe -= doomed
    seen, todo = {automaton.initial}, [automaton.initial]
    while todo:
        new = set(onward[todo.pop()].tolist()) - seen
        seen |= new
        todo += new
    return not seen - {automaton.violated} <= safe


def _standing(automaton: Automaton) -> list[int]:
    """The columns of the letters that a standing car can read."""
    fixed = [
        (bit, compile_test(proposition)({SPEED: 0.0}))
        for bit, proposition in enumerate(automaton.propositions)
        if read_by(proposition) == {SPEED}
    ]
    return [
        column
        for column, letter in enumerate(automaton.letters)
        if all(bool(letter >> bit & 1) == holds for bit, holds in fixed)
    ]
