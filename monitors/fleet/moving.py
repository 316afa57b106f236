"""Which risks a model's new counts moved by more than their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forewarn.monitors.chains.model import Model
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.risk.evidence import abstraction_of, assess, compile_for
from forewarn.monitors.risk.tables import RiskTable

_ROUNDING = 1e-9

Interval = tuple[float, float, float]
"""The least that a risk can be, what it is put at, and the most."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A risk that is now put where it could not be by what was known before.

    Args:
        law: The law's name.
        state: The state.
        monitor: The state of the law's monitor.
        before: The risk with its interval.
        after: The same now.
    """

    law: str
    state: str
    monitor: str
    before: Interval
    after: Interval

    @property
    def by(self) -> float:
        """How far."""
        return abs(self.after[1] - self.before[1])


def moved(
    before: Model, after: Model, laws: Sequence[Law], horizon_s: float, delta: float
) -> list[Moved]:
    """The risks that moved out of their intervals, the farthest first.

    Of each law and state that of the monitor's state where it moved farthest.
    """
    found: list[Moved] = []
    abstraction = abstraction_of(before)
    period_s = before.period_s
    if abstraction is None or not period_s:
        return found
    steps = max(1, round(horizon_s / period_s))
    for law in laws:
        automaton = compile_for(law.formula, abstraction, period_s)
        old = assess(before, automaton, steps, delta=delta)
        new = assess(after, automaton, steps, delta=delta)
        found += _moved(law.name, old, new)
    return sorted(found, key=lambda each: (-each.by, each.law, each.state))


def _moved(law: str, old: RiskTable, new: RiskTable) -> list[Moved]:
    automaton, number = old.automaton, {name: i for i, name in enumerate(new.states)}
    found: list[Moved] = []
    for state, name in enumerate(old.states):
        if state == old.end or name not in number:
            continue
        several: list[Moved] = []
        for monitor, said in enumerate(automaton.names):
            if monitor == automaton.violated or not old.consistent[monitor, state]:
                continue
            was, is_now = _at(old, monitor, state), _at(new, monitor, number[name])
            if not was[0] - _ROUNDING <= is_now[1] <= was[2] + _ROUNDING:
                several.append(Moved(law, name, said, was, is_now))
        if several:
            found.append(max(several, key=lambda each: each.by))
    return found


def _at(table: RiskTable, monitor: int, state: int) -> Interval:
    point = table.lookup(monitor, state)
    low, high = table.bounds(monitor, state) or (point, point)
    return low, point, high
