"""Model JSON and ProbGuard's: what is kept, and what is refused."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

from forewarn.abstractions.errors import InvalidModel
from forewarn.monitors.chains.formats.own import (
    model_as_dict,
    parse_model,
    parse_probguard,
)
from forewarn.monitors.chains.learning import Support, Tally, learn

LEARNED: dict[str, Any] = {
    "format": "forewarn.model/1",
    "states": ["a", "b", "END"],
    "counts": {"a": {"a": 2, "b": 1}, "b": {"END": 1, "a": 0}},
    "alpha": "0.5",
    "end": "absorb",
    "end_state": "END",
}
PUBLISHED: dict[str, Any] = {
    "format": "forewarn.model/1",
    "states": ["a", "b"],
    "rows": {"a": {"a": "1/3", "b": "2/3"}, "b": {"b": 1.0}},
    "labels": {"bad": ["b"]},
    "variables": {"s": [0, 1]},
    "initial": "a",
}
PROBGUARD: dict[str, Any] = {
    "states": ["01", "10"],
    "state_index": {"01": 0, "10": 1},
    "state_interpret": {"01": "x", "10": "y"},
    "transition_probs": {"01": {"01": "1/3", "10": "2/3"}},
}


def test_probabilities_are_derived_on_load() -> None:
    model = parse_model(LEARNED)
    assert model.chain.exact_row(0) == {0: Fraction(5, 8), 1: Fraction(3, 8)}
    assert model.chain.exact_row(1) == {0: Fraction(1, 4), 2: Fraction(3, 4)}
    assert model.chain.row(2) == {2: 1.0} and model.chain.end == 2
    assert model.visits is not None and model.visits.tolist() == [3, 1, 0]
    assert not model.chain.deadlocks and not model.unvisited


def test_a_published_chain_keeps_its_fractions() -> None:
    model = parse_model(PUBLISHED)
    assert model.counts is None and model.visits is None
    assert model.chain.exact_row(0) == {0: Fraction(1, 3), 1: Fraction(2, 3)} or (
        model.chain.row(0)[0] == 1 / 3
    )


@pytest.mark.parametrize("data", [LEARNED, PUBLISHED])
def test_written_model_is_read_back(data: dict[str, Any]) -> None:
    model = parse_model(data)
    text = json.dumps(model_as_dict(model))
    again = parse_model(json.loads(text))
    assert model_as_dict(again) == model_as_dict(model)
    assert again.chain.exact == model.chain.exact
    assert (again.chain.dense() == model.chain.dense()).all()


def test_everything_that_was_learned_is_kept() -> None:
    tally = Tally()
    tally.add_sequence(["a", "b", "a"])
    model = learn(
        tally, Support.declared({"a": ["b", "c"], "b": ["a"]}), Fraction(1), "absorb",
        laws=("always a",), period_s=0.1, training={"traces": 1},
    )  # fmt: skip
    again = parse_model(model_as_dict(model))
    assert again.laws == ("always a",) and again.period_s == 0.1
    assert again.training == {"traces": 1} and again.starts == model.starts
    assert (again.support, again.end, again.alpha) == (
        "declared",
        "absorb",
        Fraction(1),
    )
    assert again.unvisited == model.unvisited
    assert again.chain.deadlocks == model.chain.deadlocks


def changed(data: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {k: v for k, v in (data | changes).items() if v is not ...}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "expected a mapping, found a list"),
        (changed(LEARNED, format="forewarn.model/2"), "format"),
        (changed(LEARNED, count={}), "unknown key 'count' (did you mean counts?)"),
        (changed(LEARNED, counts=...), "either 'counts' or 'rows'"),
        (changed(LEARNED, rows={}), "either 'counts' or 'rows'"),
        (changed(LEARNED, alpha=...), "a model with 'counts' also needs 'alpha'"),
        (changed(LEARNED, alpha="-1"), "alpha is -1, but must not be negative"),
        (changed(LEARNED, alpha="one"), "'one' is not a number"),
        (changed(LEARNED, states=["a", "a", "END"]), "the state 'a' appears twice"),
        (changed(LEARNED, states=[]), "states"),
        (changed(LEARNED, end_state="end"), "end_state: unknown state 'end'"),
        (changed(LEARNED, counts={"a": {"a": -2}}), "counts.a.a: the value"),
        (changed(LEARNED, counts={"a": {"a": 1.5}}), "counts.a.a"),
        (changed(LEARNED, counts={"a": {"a": 10**30}}), "counts.a.a: the value"),
        (changed(LEARNED, starts={"a": -1}), "starts.a"),
        (changed(PUBLISHED, variables={"s": [0, 2**63]}), "variables.s.1"),
        (changed(LEARNED, counts={"aa": {"a": 1}}),
         "counts: unknown state 'aa' (did you mean a?)"),
        (changed(LEARNED, counts={"a": {"bb": 1}}), "counts.a: unknown state 'bb'"),
        (changed(PUBLISHED, rows={"a": {"a": 0.5}}), "state 'a' sums to 0.5, not to 1"),
        (changed(PUBLISHED, rows={"a": {"a": "1/0"}}), "divides by zero"),
        (changed(PUBLISHED, rows={"a": {"a": "nan"}}), "'nan' is not a number"),
        (changed(PUBLISHED, rows={"a": {"a": float("inf")}}), "rows.a.a"),
        (changed(PUBLISHED, rows={"a": {"a": 3.0, "b": -2.0}}), "is -2"),
        (changed(PUBLISHED, alpha="1"), "alpha: 'alpha' is only allowed together"),
        (changed(PUBLISHED, labels={"bad": ["c"]}), "labels.bad: unknown state 'c'"),
        (changed(PUBLISHED, variables={"s": [0]}), "the variable 's' has no value"
                                                   " in some states"),
        (changed(PUBLISHED, period_s=0.0), "period_s"),
    ],
)  # fmt: skip
def test_error_names_the_key(data: object, said: str) -> None:
    with pytest.raises(InvalidModel) as refusal:
        parse_model(data, "M.json")
    assert said in str(refusal.value) and str(refusal.value).startswith("M.json")


def test_probguard_rows_by_name_or_by_number() -> None:
    chain = parse_probguard(PROBGUARD)
    assert chain.exact_row(0) == {0: Fraction(1, 3), 1: Fraction(2, 3)}
    assert chain.deadlocks == (1,)
    numbered = PROBGUARD | {"transition_probs": {"0": {"0": "1/3", "1": "2/3"}}}
    assert parse_probguard(numbered).exact == chain.exact


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"states": ["01", "10", "10"]}, "the state '10' appears twice"),
        ({"state_index": {"01": 1, "10": 0}}, "disagree on '01'"),
        ({"transition_probs": {"01": {"11": "1"}}}, "01: unknown state '11'"),
        ({"transition_probs": {"01": {"01": "1/2"}}}, "'01' sums to 0.5"),
        ({"transition_probs": {"01": {"01": "3/2"}}}, "3/2 is not between 0 and 1"),
        ({"predicate": []}, "unknown key 'predicate' (did you mean predicates?)"),
    ],
)
def test_a_wrong_probguard_model_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidModel) as refusal:
        parse_probguard(PROBGUARD | changes, "model.json")
    assert said in str(refusal.value) and str(refusal.value).startswith("model.json")
