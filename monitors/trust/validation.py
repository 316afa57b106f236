"""Predicted risk against what happened, in traces that were left out of learning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.abstraction import Abstraction
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.chains.model import Model
from forewarn.monitors.laws.automaton import Automaton
from forewarn.monitors.risk.evidence import letters_of_states, truth_in_abstraction
from forewarn.monitors.risk.tables import guard_risk
from forewarn.monitors.trust.fairness import FairnessReport, HeldOut, assess

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

FOLDS = 5
MIN_TRACES = 2 * FOLDS
HORIZON_S = 5.0
HORIZON_STEPS = 20


def horizon_steps(period_s: float | None) -> int:
    """The horizon that risks are validated at."""
    if period_s is None:
        return HORIZON_STEPS
    return max(int(HORIZON_S / period_s + 1e-9), 1)


def came_true(automaton: Automaton, letters: Ints, steps: int) -> tuple[Ints, Bools]:
    """What the guard's risk foretells, seen from the end of the trace.

    Args:
        automaton: The law's monitor.
        letters: The columns that the frames of one trace are read as.
        steps: H.

    Returns:
        The monitor's state at every frame up to the first violation, and whether an
        obligation that was pending then, or arose within H steps, went unmet. What is
        owed when the trace ends is decided by repeating its last frame.
    """
    table, column = automaton.step.tolist(), letters.tolist()
    states, state = list[int](), automaton.initial
    for letter in column:
        state = table[state][letter]
        if state == automaton.violated:
            break
        states.append(state)
    monitor = np.array(states, np.int64)
    frames, last = np.arange(len(states)), len(column) - 1
    step_of, ahead = automaton.step.astype(np.int64), monitor
    for step in range(1, steps + 1):
        ahead = step_of[ahead, letters[np.minimum(frames + step, last)]]
    unmet = ahead == automaton.violated
    owed = automaton.owed[ahead]
    # Every row of `complete` is met or broken within as many steps as there are rows,
    # but for obligations without a deadline, which no end can break.
    for step in range(steps + 1, steps + 1 + len(column) + len(automaton.complete)):
        if (owed <= 1).all():
            break
        owed = automaton.complete[owed, letters[np.minimum(frames + step, last)]]
    return monitor, unmet | (owed == 1)


def cross_validate(
    sequences: Sequence[Sequence[str]],
    model: Model,
    abstraction: Abstraction,
    automaton: Automaton,
    steps: int,
) -> HeldOut:
    """The guard's risk in every trace, from a chain learned without it.

    The traces are dealt into five parts; each is predicted by what the other four
    teach, in the model's own manner. A state that those never saw has no risk (NaN).
    """
    columns = _letters(model, abstraction, automaton)
    order = range(len(sequences))
    found: dict[int, tuple[NDArray[np.float64], Bools]] = {}
    for fold in range(FOLDS):
        tally = Tally()
        for i in order:
            if i % FOLDS != fold:
                tally.add_sequence(sequences[i])
        part = learn(tally, Support.of(model), model.alpha or Fraction(0), model.end)
        letters = letters_of_states(
            part.chain, automaton, truth_in_abstraction(part.chain, abstraction)
        )
        table = guard_risk(part.chain, letters, automaton, steps)
        known = np.column_stack([table, np.full(len(table), np.nan)])
        number = {name: i for i, name in enumerate(part.chain.states)}
        for i in order:
            if i % FOLDS == fold:
                read = np.array([columns[name] for name in sequences[i]])
                monitor, unmet = came_true(automaton, read, steps)
                states = [number.get(s, -1) for s in sequences[i][: len(monitor)]]
                found[i] = known[monitor, np.array(states, np.int64)], unmet
    return HeldOut([found[i][0] for i in order], [found[i][1] for i in order])


def assess_training(
    sequences: Sequence[Sequence[str]],
    model: Model,
    *,
    abstraction: Abstraction | None = None,
    automata: Mapping[str, Automaton] | None = None,
    candidates: Mapping[str, Sequence[Bools]] | None = None,
) -> FairnessReport:
    """Whether a model is a fair picture of the traces it was just learned from.

    Args:
        sequences: The traces as state names.
        model: What was learned.
        abstraction: Its abstraction, which the laws need.
        automata: Monitors of its laws by name; their risks are validated, and unused
            predicates are judged by what they tell of violations ahead.
        candidates: Unused predicates: their values along each of the sequences.
    """
    number = {name: i for i, name in enumerate(model.chain.states)}
    steps = horizon_steps(model.period_s)
    held_out: dict[str, HeldOut] = {}
    outcome: list[Bools] | None = None
    for name, automaton in (automata or {}).items():
        if abstraction is None or automaton.violated < 0:
            continue
        if len(sequences) >= MIN_TRACES:
            tried = cross_validate(sequences, model, abstraction, automaton, steps)
            if any(np.isfinite(risks).any() for risks in tried.predicted):
                held_out[name] = tried
        if candidates:
            columns = _letters(model, abstraction, automaton)
            outcome = outcome or [np.zeros(len(row), bool) for row in sequences]
            for known, row in zip(outcome, sequences, strict=True):
                read = np.array([columns[state] for state in row])
                _, unmet = came_true(automaton, read, steps)
                known[: len(unmet)] |= unmet
    return assess(
        [[number[state] for state in row] for row in sequences],
        model.chain,
        held_out=held_out,
        candidates=candidates,
        outcome=outcome,
    )


def _letters(
    model: Model, abstraction: Abstraction, automaton: Automaton
) -> dict[str, int]:
    truth = truth_in_abstraction(model.chain, abstraction)
    letters = letters_of_states(model.chain, automaton, truth).tolist()
    return dict(zip(model.chain.states, letters, strict=True))
