"""What stands beside a risk: what a state means, and how often it was seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.errors import InvalidExpression, InvalidModel, near_miss
from forewarn.abstractions.expression import Expression
from forewarn.abstractions.expression.vector import evaluate
from forewarn.monitors.automaton import Automaton
from forewarn.monitors.chain import Chain
from forewarn.monitors.product import Bools, Ints
from forewarn.monitors.risk import RiskTable

Truth = Callable[[Expression], Bools]
"""Where a proposition holds: a mask over the states of a chain."""


def truth_in_sets(sets: Mapping[str, Iterable[int]], n: int) -> Truth:
    """Propositions over named sets of states: a chain's labels, or definitions."""
    columns: dict[str, Bools] = {}
    for name, group in sets.items():
        columns[name] = np.zeros(n, dtype=bool)
        columns[name][list(group)] = True

    def truth(proposition: Expression) -> Bools:
        try:
            return np.broadcast_to(evaluate(proposition, columns), n)
        except KeyError as error:
            (name,) = error.args
            raise InvalidExpression(
                f"{name!r} is not defined on the states of this chain",
                mend=near_miss(name, columns) or f"add --define '{name}=…'",
            ) from None

    return truth


def truth_in_abstraction(chain: Chain, abstraction: Abstraction) -> Truth:
    """Propositions that the abstract states themselves decide; END is left false."""

    def truth(proposition: Expression) -> Bools:
        decide = abstraction.decides(proposition)
        held = np.zeros(chain.n, dtype=bool)
        for state, name in enumerate(chain.states):
            if state != chain.end:
                held[state] = decide(abstraction.bits(name))
        return held

    return truth


def letters_of_states(chain: Chain, automaton: Automaton, truth: Truth) -> Ints:
    """The column of the automaton's tables that each state of the chain is read as."""
    masks = np.zeros(chain.n, dtype=np.int64)
    for bit, proposition in enumerate(automaton.propositions):
        masks |= truth(proposition).astype(np.int64) << bit
    columns = {mask: column for column, mask in enumerate(automaton.letters)}
    letters = np.zeros(chain.n, dtype=np.int64)
    for state, mask in enumerate(masks.tolist()):
        if mask in columns:
            letters[state] = columns[mask]
        elif state != chain.end:
            held = [
                repr(p) for i, p in enumerate(automaton.propositions) if mask >> i & 1
            ]
            raise InvalidModel(
                f"in state {chain.states[state]!r} just these hold: "
                f"{', '.join(held) or 'none'}; the law was compiled as if that could "
                "not be"
            )
    return letters


def count_violations(
    automaton: Automaton, letters: Ints, sequences: Iterable[Sequence[int]]
) -> Ints:
    """How often the law broke in each state, over sequences of states.

    After a violation the monitor is armed again.
    """
    seen = [0] * len(letters)
    column, step = letters.tolist(), automaton.step.tolist()
    for sequence in sequences:
        monitor = automaton.initial
        for state in sequence:
            monitor = step[monitor][column[state]]
            if monitor == automaton.violated:
                seen[state] += 1
                monitor = automaton.initial
    return np.array(seen, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class RiskAt:
    """The guard's risk in one state of the monitor, with any bounds."""

    monitor: str
    risk: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class RiskRow:
    """One state of the chain, for people.

    Args:
        state: Its name.
        words: The predicates that hold in it, where they are known.
        fresh: The risk if the monitor has read this state alone.
        worst: The highest risk over the monitor states that can occur here.
        visits: How often the state was left in training.
        violations_seen: How often the law was seen to break in it.
    """

    state: str
    words: tuple[str, ...] | None
    fresh: RiskAt
    worst: RiskAt
    visits: int | None
    violations_seen: int | None


def risk_rows(
    table: RiskTable, abstraction: Abstraction | None = None
) -> list[RiskRow]:
    """Every state but END: what it means, its risk and the evidence for it."""
    automaton = table.automaton
    possible = table.consistent.copy()
    possible[automaton.violated] = automaton.violated < 0
    worst = np.where(possible, table.point, -1.0).argmax(axis=0).tolist()
    rows = []
    for state, name in enumerate(table.states):
        if state == table.end:
            continue
        fresh = int(automaton.step[automaton.initial, table.letters[state]])
        rows.append(
            RiskRow(
                state=name,
                words=None if abstraction is None else _words(abstraction, name),
                fresh=_risk_at(table, fresh, state),
                worst=_risk_at(table, worst[state], state),
                visits=_entry(table.visits, state),
                violations_seen=_entry(table.violations_seen, state),
            )
        )
    return rows


def _words(abstraction: Abstraction, name: str) -> tuple[str, ...]:
    bits = abstraction.bits(name)
    texts = enumerate(abstraction.texts)
    return tuple(text for i, text in texts if bits >> i & 1)


def _risk_at(table: RiskTable, monitor: int, state: int) -> RiskAt:
    low, high = table.bounds(monitor, state) or (None, None)
    name = table.automaton.names[monitor]
    return RiskAt(name, table.lookup(monitor, state), low, high)


def _entry(counts: Ints | None, state: int) -> int | None:
    return None if counts is None else int(counts[state])
