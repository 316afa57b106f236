"""Risks of left-out traces: what came true, and whether it was foretold."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.abstraction import Abstraction, Predicate
from forewarn.abstractions.expression import parse_expression
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.chains.model import Model
from forewarn.monitors.evaluation.foretold import reliability, unmet_ahead
from forewarn.monitors.laws.automaton import compile_law
from forewarn.monitors.laws.formula import parse_formula
from forewarn.monitors.risk.tables import guard_risk
from forewarn.monitors.trust.fairness import (
    assess_training,
    cross_validate,
    horizon_steps,
)

ABSTRACTION = Abstraction([Predicate(parse_expression(name)) for name in "ab"])


def law(deadline: int) -> Any:
    text = f"always(a -> eventually[0,{deadline} steps] b)"
    return compile_law(parse_formula(text))


def letters_of(automaton: Any, trace: Any) -> Any:
    """Columns for frames given as the letters' bits: 1 is a, 2 is b."""
    order = [repr(p) for p in automaton.propositions]
    assert order == ["a", "b"]
    return np.array([automaton.letters.index(bits) for bits in trace])


def goes_unmet(trace: list[int], frame: int, steps: int, deadline: int) -> bool:
    """Some trigger before or within the horizon is not answered in time."""
    extended = trace + [trace[-1]] * (steps + deadline + 2)
    for trigger in range(frame + steps + 1):
        answers = extended[trigger : trigger + deadline + 1]
        if extended[trigger] & 1 and not any(bits & 2 for bits in answers):
            return True
    return False


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=14),
    st.integers(0, 5),
    st.integers(0, 4),
)
def test_came_true_by_definition(trace: list[int], steps: int, deadline: int) -> None:
    automaton = law(deadline)
    monitor, unmet = unmet_ahead(automaton, [letters_of(automaton, trace)], steps)[0]
    for frame in range(len(monitor)):
        wanted = goes_unmet(trace, frame, steps, deadline)
        assert unmet[frame] == wanted, (frame, trace)


def test_frames_from_the_first_violation_on_are_not_predicted() -> None:
    automaton = law(1)
    monitor, unmet = unmet_ahead(
        automaton, [letters_of(automaton, [0, 1, 0, 0, 2])], 2
    )[0]
    assert [automaton.names[q] for q in monitor] == ["idle", "wait:1"]
    assert unmet.tolist() == [True, True]
    nothing, _ = unmet_ahead(law(0), [letters_of(law(0), [1, 2])], 2)[0]
    assert nothing.size == 0


def test_an_obligation_without_a_deadline_never_comes_true() -> None:
    automaton = compile_law(parse_formula("always(a -> next b)"))
    _, unmet = unmet_ahead(automaton, [letters_of(automaton, [1, 2, 1, 2])], 1)[0]
    assert not unmet.any()


TRUTH = Chain.from_rows(
    ["00", "10", "01", "END"],
    {
        0: {0: 0.75, 1: 0.2, 3: 0.05},
        1: {0: 0.3, 1: 0.2, 2: 0.5},
        2: {0: 0.8, 1: 0.1, 3: 0.1},
        3: {3: 1.0},
    },
    end=3,
)


def walks(seed: int, traces: int) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    edges = TRUTH.dense().cumsum(axis=1)
    found = []
    for _ in range(traces):
        trace, state = list[str](), 0
        while state != 3:
            trace.append(TRUTH.states[state])
            state = int((edges[state] < rng.random()).sum())
        found.append(trace)
    return found


def learned(sequences: list[list[str]]) -> Any:
    tally = Tally()
    for sequence in sequences:
        tally.add_sequence(sequence)
    return learn(tally, Support("observed"), Fraction(0), "absorb")


def test_the_true_chains_risk_is_what_comes_true() -> None:
    automaton, bits = law(2), {"00": 0, "10": 1, "01": 2, "END": 0}
    letters = letters_of(automaton, [bits[name] for name in TRUTH.states])
    table = guard_risk(TRUTH, letters, automaton, 4)
    risks, outcomes = [], []
    for trace in walks(seed=3, traces=800):
        states = np.array([TRUTH.states.index(name) for name in trace])
        monitor, unmet = unmet_ahead(automaton, [letters[states]], 4)[0]
        risks.append(table[monitor, states[: len(monitor)]])
        outcomes.append(unmet)
    found = reliability(risks, outcomes)
    assert found.calibration_error < 0.03
    assert not found.warns and found.skill is not None and found.skill > 0.05


def numbered(sequences: list[list[str]], model: Model) -> list[np.ndarray]:
    return [np.array([model.chain.index(s) for s in row]) for row in sequences]


def test_left_out_traces_are_predicted_by_the_others() -> None:
    sequences = walks(seed=4, traces=300)
    model = learned(sequences)
    found = cross_validate(numbered(sequences, model), model, ABSTRACTION, law(2), 4)
    assert found is not None
    assert found.calibration_error < 0.05 and not found.warns
    # A state that only one trace ever saw is unknown where it is predicted.
    strange = [*sequences, ["00", "11", "00"]]
    model = learned(strange)
    found = cross_validate(numbered(strange, model), model, ABSTRACTION, law(2), 4)
    assert found is not None and found.unknown == 1


def test_a_chain_is_assessed_with_its_laws() -> None:
    sequences = walks(seed=5, traces=200)
    report = assess_training(
        sequences,
        learned(sequences),
        abstraction=ABSTRACTION,
        automata={"the law": law(2)},
    )
    assert list(report.reliability) == ["the law"]
    assert report.fair


def test_few_traces_are_not_validated() -> None:
    sequences = walks(seed=6, traces=9)
    report = assess_training(
        sequences,
        learned(sequences),
        abstraction=ABSTRACTION,
        automata={"the law": law(2)},
    )
    assert report.reliability == {}


def test_traces_without_a_state_in_common_are_not_validated() -> None:
    sequences = [[f"{i:04b}"] * 3 for i in range(10)]
    four = Abstraction([Predicate(parse_expression(name)) for name in "abcd"])
    report = assess_training(
        sequences, learned(sequences), abstraction=four, automata={"the law": law(2)}
    )
    assert report.reliability == {}


@pytest.mark.parametrize(
    ("period", "steps"), [(None, 20), (0.1, 50), (0.5, 10), (9, 1)]
)
def test_the_horizon_is_five_seconds(period: float | None, steps: int) -> None:
    assert horizon_steps(period) == steps
