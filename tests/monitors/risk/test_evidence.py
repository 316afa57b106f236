"""What is read in each state, and what stands beside its risk."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from forewarn.abstractions.abstraction import (
    Abstraction,
    Predicate,
    from_expressions,
)
from forewarn.abstractions.errors import (
    InvalidAbstraction,
    InvalidExpression,
    InvalidModel,
)
from forewarn.abstractions.expression import parse_expression
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.chains.model import Model
from forewarn.monitors.laws.automaton import compile_law
from forewarn.monitors.laws.formula import parse_formula
from forewarn.monitors.risk import evidence
from forewarn.monitors.risk.evidence import (
    assess,
    compile_for,
    count_violations,
    for_people,
    letters_of_states,
    needed_abstraction,
    risk_rows,
    truth_in_abstraction,
    truth_in_sets,
)
from tests.dense import from_dense

DRIVING = load_vocabulary("driving")
ABSTRACTION = from_expressions(
    ["speed > 0.5 km/h", "traffic_light == red"], DRIVING, name="light"
)
LAW = "always (traffic_light == red -> eventually[0, 2 steps] speed <= 0.5 km/h)"


def test_frames_have_states_where_the_model_has_an_abstraction() -> None:
    chain = Chain.from_rows(["11"], {0: {0: Fraction(1)}})
    with pytest.raises(
        InvalidModel,
        match=("m.json: the model has no abstraction, so its states cannot be"),
    ):
        needed_abstraction(Model(chain), "m.json")
    found = needed_abstraction(Model(chain, abstraction=ABSTRACTION.as_dict()))
    assert found.fingerprint() == ABSTRACTION.fingerprint()


def masks(automaton: Any, letters: np.ndarray) -> list[int]:
    return [automaton.letters[i] for i in letters.tolist()]


def learned(*traces: str, **options: Any) -> Model:
    """A model whose states are bit names, parted by spaces."""
    tally = Tally()
    for trace in traces:
        tally.add_sequence(trace.split())
    return learn(
        tally,
        Support("observed"),
        Fraction(0),
        "absorb",
        abstraction=ABSTRACTION.as_dict(),
        **options,
    )


def test_letters_from_sets_of_states() -> None:
    automaton = compile_law(parse_formula("always (a and not b -> next c)"))
    chain = from_dense(["x", "y", "z"], np.eye(3))
    truth = truth_in_sets({"a": [0, 1], "b": [1], "c": [2]}, 3)
    letters = letters_of_states(chain, automaton, truth)
    first, second = automaton.propositions
    assert (repr(first), repr(second)) == ("a and not b", "c")
    assert masks(automaton, letters) == [1, 0, 2]


def test_an_undefined_proposition_is_named() -> None:
    automaton = compile_law(parse_formula("always (trigger -> next target)"))
    chain = from_dense(["x"], np.eye(1))
    with pytest.raises(InvalidExpression, match="'trigger' is not defined .*triger"):
        letters_of_states(
            chain, automaton, truth_in_sets({"triger": [0], "target": []}, 1)
        )


def test_letters_from_an_abstraction() -> None:
    automaton = compile_law(parse_formula(LAW, DRIVING), vocabulary=DRIVING)
    chain = from_dense(["00", "10", "01", "11", "END"], np.eye(5), end=4)
    truth = truth_in_abstraction(chain, ABSTRACTION)
    letters = letters_of_states(chain, automaton, truth)
    red, slow = (
        next(i for i, p in enumerate(automaton.propositions) if word in repr(p))
        for word in ("red", "speed")
    )
    for name, mask in zip(chain.states[:4], masks(automaton, letters), strict=False):
        assert (mask >> red & 1) == int(name[1])
        assert (mask >> slow & 1) == 1 - int(name[0])


def test_laws_that_the_abstraction_does_not_decide_are_rejected() -> None:
    formula = parse_formula("always (speed < 30 km/h)", DRIVING)
    automaton = compile_law(formula, vocabulary=DRIVING)
    chain = from_dense(["00", "10"], np.eye(2))
    with pytest.raises(InvalidAbstraction):
        letters_of_states(chain, automaton, truth_in_abstraction(chain, ABSTRACTION))


def test_a_letter_that_was_ruled_out_is_named() -> None:
    automaton = compile_law(parse_formula("always (a -> next b)"), letters=[0, 1, 2])
    chain = from_dense(["x", "y"], np.eye(2))
    with pytest.raises(
        InvalidModel, match=r"state 'y', only these propositions hold: a, b;"
    ):
        letters_of_states(chain, automaton, truth_in_sets({"a": [1], "b": [1]}, 2))
    never_alone = compile_law(parse_formula("always (a -> next b)"), letters=[0, 1, 3])
    with pytest.raises(
        InvalidModel, match=r"state 'y', only these propositions hold: b;"
    ):
        letters_of_states(chain, never_alone, truth_in_sets({"a": [], "b": [1]}, 2))


SLOW_AND_FAST = "always (speed < 1 km/h -> next speed > 5 km/h)"


@pytest.mark.parametrize(
    ("latches", "letters"),
    [(["last", "last"], 3), (["last", "any"], 4), (["all", "any"], 4)],
)
def test_latched_predicates_may_hold_together_where_moments_cannot(
    latches: list[Any], letters: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["speed < 1 km/h", "speed > 5 km/h"]
    predicates = [
        Predicate(parse_expression(text, DRIVING), latch)
        for text, latch in zip(texts, latches, strict=True)
    ]
    abstraction = Abstraction(predicates, vocabulary=DRIVING)
    law = parse_formula(SLOW_AND_FAST, DRIVING)
    monkeypatch.setattr(evidence, "MAX_LETTERS", 4)
    automaton = compile_for(law, abstraction, None)
    assert automaton.letters == tuple(range(letters))
    # What there would be too many of is left to what frames can show.
    monkeypatch.setattr(evidence, "MAX_LETTERS", 3)
    assert compile_for(law, abstraction, None).letters == (0, 1, 2)


def test_the_vocabulary_of_an_abstraction_rules_letters_out() -> None:
    law = parse_formula("always (speed < 0 -> next traffic_light == red)", DRIVING)
    assert compile_for(law, None, None).letters == (0, 1, 2, 3)
    ruled = compile_for(law, ABSTRACTION, 0.1)
    assert len(ruled.letters) == 2 and ruled.violated == -1 and ruled.period_s == 0.1


def test_violations_are_counted_where_they_become_certain() -> None:
    automaton = compile_law(parse_formula("always (a -> eventually[0, 1 steps] b)"))
    chain = from_dense(["a", "b", "none"], np.eye(3))
    letters = letters_of_states(
        chain, automaton, truth_in_sets({"a": [0], "b": [1]}, 3)
    )
    sequences = [[0, 2, 2, 0, 1], [0, 0, 0, 0], [2, 0]]
    # 0 2 breaks in 2; 0 0 breaks in 0, twice: the monitor is armed again.
    assert count_violations(automaton, letters, sequences).tolist() == [2, 0, 1]


def test_a_model_is_assessed_with_bounds_and_evidence() -> None:
    model = learned("00 10 11 11 01 00", "00 10 11 01 01", "10 11 11 11 11 10")
    law = compile_law(parse_formula(LAW, DRIVING), vocabulary=DRIVING)
    seen = np.arange(model.chain.n)
    table = assess(model, law, 3)
    rows = {row.state: row for row in risk_rows(
        table, ABSTRACTION, visits=model.visits, violations_seen=seen
    )}  # fmt: skip
    assert set(rows) == set(model.chain.states) - {"END"}
    moving = rows["11"]
    assert moving.words == ("speed > 0.5 km/h", "traffic_light == red")
    assert moving.fresh.monitor == "wait:2" and moving.worst.monitor == "wait:1"
    assert moving.visits == 7
    assert moving.violations_seen == model.chain.index("11")
    for row in rows.values():
        for at in (row.fresh, row.worst):
            assert at.low is not None and at.high is not None
            assert at.low <= at.risk <= at.high
        assert row.fresh.risk <= row.worst.risk
    assert moving.fresh.risk > 0


def test_a_published_chain_is_assessed_by_its_labels() -> None:
    rows = {0: {0: 0.5, 1: 0.5}, 1: {1: 1.0}}
    chain = Chain.from_rows(["x", "y"], rows, labels={"bad": {1}})
    table = assess(Model(chain), compile_law(parse_formula("always (not bad)")), 2)
    assert table.lookup(0, 0) == 0.75
    head, body = for_people(risk_rows(table))
    assert head == ["state", "risk", "worst", "in"]
    assert body == [
        ["x", "0.7500", "0.7500", "idle"],
        ["y", "1.0000", "1.0000", "violated"],
    ]


def test_the_table_for_people() -> None:
    model = learned("00 10 11 11 01 00", "00 10 11 01 01")
    law = compile_law(parse_formula(LAW, DRIVING), vocabulary=DRIVING)
    table = assess(model, law, 3)
    head, body = for_people(risk_rows(table, ABSTRACTION, visits=model.visits))
    assert head == ["state", "risk", "worst", "in", "visits", "true predicates"]
    moving = next(cells for cells in body if cells[0] == "11")
    assert moving[-1] == "speed > 0.5 km/h and traffic_light == red"
    says = {cells[0]: cells[-1] for cells in body}
    assert says["10"] == "speed > 0.5 km/h" and says["00"] == "none"
    assert "[" in moving[1] and moving[3] == "wait:1"
