"""Learning is counting: rows, supports, ends, and going on where one stopped."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.abstraction import Abstraction, from_expressions
from forewarn.abstractions.errors import InvalidInput, InvalidTrace, TooLarge
from forewarn.abstractions.expression import parse_expression
from forewarn.monitors.chains import chain as chain_module
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.chains.model import Model
from tests.monitors.published import published

HALF = Fraction(1, 2)
names = st.sampled_from(["a", "b", "c", "d10", "d9"])
traces = st.lists(st.lists(names, min_size=1, max_size=8), min_size=1, max_size=6)
alphas = st.sampled_from([Fraction(0), Fraction(1), Fraction(1, 10)])
ends = st.sampled_from(["absorb", "ignore"])


def tally(*rows: str) -> Tally:
    found = Tally()
    for row in rows:
        found.add_sequence(row.split())
    return found


def row(model: Model, state: str) -> dict[str, Fraction]:
    chain = model.chain
    return {chain.states[j]: p for j, p in chain.exact_row(chain.index(state)).items()}


def rows(model: Model) -> dict[str, dict[str, Fraction]]:
    return {state: row(model, state) for state in model.chain.states}


# what was seen


def test_a_tally_knows_all_that_was_seen() -> None:
    found = tally("a b a b", "b", "")
    assert found.seen == {"a": {"b": 2}, "b": {"a": 1}}
    assert (found.starts, found.ends) == ({"a": 1, "b": 1}, {"b": 2})
    assert (found.traces, found.frames) == (2, 5)


def test_no_step_leads_over_a_gap() -> None:
    found = Tally()
    found.add_codes(np.array([0, 1, 0, 1]), "ab".__getitem__, gaps=[2])
    assert found.seen == {"a": {"b": 2}, "b": {}}
    assert (found.starts, found.ends, found.traces) == ({"a": 1}, {"b": 1}, 1)
    found.add_codes(np.array([], dtype=np.int64), "ab".__getitem__)
    assert found.traces == 1


# rows


def test_frequencies_without_smoothing() -> None:
    model = learn(
        tally("a b a b c", "a a b"), Support("observed"), Fraction(0), "ignore"
    )
    assert row(model, "a") == {"a": Fraction(1, 4), "b": Fraction(3, 4)}
    assert row(model, "b") == {"a": HALF, "c": HALF}
    assert model.chain.states[model.chain.initial or 0] == "a"
    assert model.chain.deadlocks == (model.chain.index("c"),)
    assert model.visits is not None and model.visits.tolist() == [4, 2, 0]


def test_a_smoothed_row_is_the_formula() -> None:
    support = Support.declared({"a": ["a", "b", "c"], "b": ["b", "c"]})
    model = learn(tally("a a b", "a b"), support, Fraction("0.25"), "ignore")
    # (c + alpha) / (n + alpha k) with n = 3, k = 3.
    assert row(model, "a") == {
        "a": Fraction(5, 15),
        "b": Fraction(9, 15),
        "c": Fraction(1, 15),
    }


def test_a_row_never_visited_is_uniform_and_marked() -> None:
    support = Support.declared({"a": ["a", "b"], "b": ["a", "b", "c"]})
    model = learn(tally("a a b"), support, Fraction(1), "ignore")
    assert row(model, "b") == dict.fromkeys("abc", Fraction(1, 3))
    assert [model.chain.states[i] for i in model.unvisited] == ["b"]


def test_a_state_that_the_support_does_not_list_is_absorbing() -> None:
    support = Support.declared({"a": ["a", "crash"]})
    model = learn(tally("a crash crash", "a a crash"), support, Fraction(1), "absorb")
    assert row(model, "crash") == {"crash": Fraction(1)}
    assert not model.unvisited
    assert model.visits is not None and model.visits[model.chain.index("crash")] == 1


def test_all_pairs() -> None:
    model = learn(tally("a b"), Support("all"), Fraction(1), "ignore")
    assert row(model, "a") == {"a": Fraction(1, 3), "b": Fraction(2, 3)}
    assert row(model, "b") == {"a": HALF, "b": HALF}
    assert [model.chain.states[i] for i in model.unvisited] == ["b"]


# ends


def test_the_end_of_a_trace_is_a_transition_into_end() -> None:
    model = learn(tally("a b", "a a"), Support("observed"), Fraction(0), "absorb")
    third = Fraction(1, 3)
    assert row(model, "a") == dict.fromkeys(["a", "b", "END"], third)
    assert row(model, "b") == {"END": Fraction(1)}
    assert row(model, "END") == {"END": Fraction(1)}
    assert model.chain.end == 2 and not model.chain.deadlocks


def test_end_is_never_smoothed_into_rows_that_did_not_end() -> None:
    support = Support.declared({"a": ["a", "b"], "b": ["a", "b"]})
    model = learn(tally("a b", "a a b"), support, Fraction(1), "absorb")
    assert "END" not in row(model, "a")
    assert row(model, "b")["END"] == Fraction(3, 5)


def test_end_is_not_a_name_for_a_state() -> None:
    for support in (Support("observed"), Support("all")):
        with pytest.raises(InvalidInput, match="reserved for the end of a trace"):
            learn(tally("a END"), support, Fraction(0), "absorb")
    model = learn(tally("a END"), Support("observed"), Fraction(0), "ignore")
    assert model.chain.end is None and model.chain.index("END") == 0


def test_a_declared_end_changes_nothing_but_that_a_state_is_left() -> None:
    plain = {"a": ["a", "b"], "b": ["a"]}
    ends = {"a": ["a", "b", "END"], "b": ["a", "END"], "END": ["END"]}
    found = tally("a b", "a a b a b")
    first, second = (
        learn(found, Support.declared(s), Fraction(1), "absorb") for s in (plain, ends)
    )
    assert rows(first) == rows(second) and "END" not in row(second, "a")
    last = learn(tally("a"), Support.declared({"a": ["END"]}), Fraction(1), "absorb")
    assert row(last, "a") == {"END": Fraction(1)}


def test_a_state_declared_to_stay_does_so_though_traces_end_there() -> None:
    support = Support.declared({"a": ["a", "crash"], "crash": ["crash"]})
    model = learn(tally("a crash"), support, Fraction(1), "absorb")
    assert row(model, "crash") == {"crash": Fraction(1)}


def test_the_end_state_has_no_visits() -> None:
    model = learn(tally("a b", "a"), Support("observed"), Fraction(0), "absorb")
    assert model.visits is not None and model.visits.tolist() == [2, 1, 0]


# what the traces may not do


@pytest.mark.parametrize(
    ("trace", "said"),
    [
        ("a c", "from 'a' to 'c', but the support does not allow that transition"),
        ("a b a", "from 'b' to 'a', but the support does not allow that transition"),
        ("e a", "the state 'e' occurs in a trace, but not in the support"),
    ],
)
def test_transitions_outside_the_support_are_rejected(trace: str, said: str) -> None:
    support = Support.declared({"a": ["a", "b"], "c": ["a"]})
    with pytest.raises(InvalidTrace, match=said):
        learn(tally(trace), support, Fraction(1), "ignore")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([], "a support must be a JSON object that maps states to their successors"),
        ({}, "a support must be a JSON object that maps states to their successors"),
        ({"a": "b"}, "S.json: a: the allowed successors must be a list"),
        ({"a": [1]}, "S.json: a: the allowed successors must be a list"),
        ({"a": ["b", 1]}, "S.json: a: the allowed successors must be a list"),
        ({"a": ["b", "b"]}, "S.json: a: the successor 'b' appears twice"),
        ({"a": ["c", "b", "b"]}, "S.json: a: the successor 'b' appears twice"),
    ],
)
def test_invalid_support_is_rejected(content: object, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        Support.declared(content, "S.json")


def test_a_state_that_is_not_known_is_answered_with_the_nearest() -> None:
    support = Support.declared({"parked": ["parked", "moving"]})
    for state, mend in (
        ("mowing", "did you mean moving?"),
        ("x", "add the state to the support"),
    ):
        with pytest.raises(InvalidTrace) as caught:
            learn(tally(state), support, Fraction(1), "ignore")
        assert mend in str(caught.value)


def test_oversized_chain_is_rejected_before_it_is_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = tally("a b a b")
    monkeypatch.setattr(chain_module, "MAX_TRANSITIONS", 3)
    assert learn(found, Support("observed"), Fraction(0), "ignore").chain.n == 2
    with pytest.raises(TooLarge, match="4 transitions exceed the limit of 3"):
        learn(found, Support("all"), Fraction(0), "ignore")
    with pytest.raises(TooLarge, match="S.json: 4 transitions"):
        Support.declared({"a": ["a", "b"], "b": ["a", "b"]}, "S.json")
    monkeypatch.setattr(chain_module, "MAX_STATES", 1)
    with pytest.raises(TooLarge, match="S.json: 2 states exceed the limit of 1"):
        Support.declared({"a": [], "b": []}, "S.json")


def test_a_negative_alpha_is_refused() -> None:
    with pytest.raises(InvalidInput, match="alpha is -1, but must not be negative"):
        learn(tally("a b"), Support("observed"), Fraction(-1), "ignore")


# the valid support


def test_the_valid_support_prunes_states_and_broken_stays_broken() -> None:
    texts = ["speed < 1", "speed > 2", "broken"]
    abstraction = from_expressions(texts, irreversible=[parse_expression("broken")])
    support = Support.valid(abstraction)
    assert support.rows is not None
    assert set(support.rows) == {"000", "100", "010", "001", "101", "011"}
    assert set(support.rows["101"]) == {"001", "101", "011"}
    assert len(support.rows["100"]) == 6
    for before, successors in support.rows.items():
        for after in support.rows:
            may = abstraction.may_follow(
                abstraction.bits(before), abstraction.bits(after)
            )
            assert may == (after in successors)


def test_too_many_valid_states_are_refused() -> None:
    with pytest.raises(TooLarge, match="4096 valid states"):
        Support.valid(from_expressions([f"p{i}" for i in range(12)]))


# going on


@given(traces, traces, alphas, ends, st.booleans())
def test_learning_in_two_goes_is_learning_in_one(
    first: list[list[str]],
    second: list[list[str]],
    alpha: Fraction,
    end: str,
    all_: bool,
) -> None:
    support = Support("all" if all_ else "observed")
    once, before = Tally(), Tally()
    for trace in first + second:
        once.add_sequence(trace)
    for trace in first:
        before.add_sequence(trace)
    later = Tally.of(learn(before, support, alpha, end))
    for trace in second:
        later.add_sequence(trace)
    whole, continued = (learn(t, support, alpha, end) for t in (once, later))
    assert rows(whole) == rows(continued)
    assert (once.traces, once.frames) == (later.traces, later.frames)
    assert whole.starts == continued.starts and whole.unvisited == continued.unvisited


@given(traces, ends)
def test_a_declared_support_is_remembered(first: list[list[str]], end: str) -> None:
    every = sorted({name for trace in first for name in trace})
    support = Support.declared({name: every for name in every[:-1]} | {"x": ["x"]})
    before = Tally()
    for trace in first:
        cut = [name for name in trace if name != every[-1]]
        before.add_sequence(cut)
    model = learn(before, support, Fraction(1), end)
    again = learn(Tally.of(model), Support.of(model), Fraction(1), end)
    assert rows(model) == rows(again)
    assert again.support == "declared"


@pytest.mark.parametrize("kind", ["observed", "all"])
def test_the_support_of_a_learned_model_is_its_kind(kind: str) -> None:
    model = learn(tally("a b"), Support(kind), Fraction(0), "absorb")
    assert Support.of(model) == Support(kind)


@given(traces)
def test_one_step_at_a_time_is_the_same(rows_: list[list[str]]) -> None:
    whole, stepwise = Tally(), Tally()
    for trace in rows_:
        whole.add_sequence(trace)
        stepwise.begin(trace[0])
        for before, after in pairwise(trace):
            stepwise.step(before, after)
        stepwise.finish(trace[-1])
    assert whole == stepwise


@given(traces)
def test_arrays_of_codes_are_the_same(rows_: list[list[str]]) -> None:
    order = ["a", "b", "c", "d10", "d9"]
    whole, coded = Tally(), Tally()
    for trace in rows_:
        whole.add_sequence(trace)
    codes = np.array([order.index(name) for trace in rows_ for name in trace])
    starts = np.cumsum([0] + [len(trace) for trace in rows_[:-1]])
    coded.add_codes(codes, lambda code: order[code], starts)
    assert whole == coded


def test_a_published_chain_cannot_be_continued() -> None:
    from forewarn.monitors.chains.chain import Chain

    with pytest.raises(InvalidInput, match="no transition counts"):
        Tally.of(Model(Chain.from_rows(["a"], {})))


# laws of learning


@given(traces, alphas, ends, st.sampled_from(["observed", "all"]))
def test_renaming_states_changes_nothing(
    rows_: list[list[str]], alpha: Fraction, end: str, kind: str
) -> None:
    new = {"a": "z", "b": "0110", "c": "y y".replace(" ", "_"), "d10": "7", "d9": "é"}
    new["END"] = "END"
    plain, renamed = Tally(), Tally()
    for trace in rows_:
        plain.add_sequence(trace)
        renamed.add_sequence([new[name] for name in trace])
    first, second = (
        rows(learn(t, Support(kind), alpha, end)) for t in (plain, renamed)
    )
    assert {
        new[s]: {new[t]: p for t, p in r.items()} for s, r in first.items()
    } == second


@given(traces, alphas, ends)
def test_the_order_of_traces_changes_nothing(
    rows_: list[list[str]], alpha: Fraction, end: str
) -> None:
    forward, backward = Tally(), Tally()
    for trace in rows_:
        forward.add_sequence(trace)
    for trace in reversed(rows_):
        backward.add_sequence(trace)
    first, second = (
        learn(t, Support("observed"), alpha, end) for t in (forward, backward)
    )
    assert rows(first) == rows(second)
    assert first.chain.states == second.chain.states


def test_states_are_in_the_order_that_people_count() -> None:
    model = learn(
        tally("s10 s9 s2 s2 s010"), Support("observed"), Fraction(0), "ignore"
    )
    assert model.chain.states == ("s2", "s9", "s010", "s10")
    model = learn(tally("1 a 0 10 9"), Support("observed"), Fraction(0), "ignore")
    assert model.chain.states == ("a", "0", "1", "9", "10")


def test_where_traces_begin_as_often_the_first_state_is_the_initial_one() -> None:
    for traces_ in (("a", "b"), ("b", "a"), ("b", "a b", "b a", "a")):
        model = learn(tally(*traces_), Support("observed"), Fraction(0), "ignore")
        assert model.chain.initial == 0
    model = learn(tally("a", "b", "b"), Support("observed"), Fraction(0), "ignore")
    assert model.chain.initial == 1


# published chains


def test_counts_give_the_published_rows_exactly(shared_data: Path) -> None:
    folder = shared_data / "models"
    counts = json.loads((folder / "counts.json").read_text())
    assert len(counts) == 12
    for name, entry in counts.items():
        found = Tally()
        for before, seen in entry["counts"].items():
            for after, times in seen.items():
                if times:
                    found.step(before, after, times)
        support = Support.declared({s: list(r) for s, r in entry["counts"].items()})
        model = learn(found, support, Fraction(entry["alpha"]), "ignore")
        chain = published(folder / f"{name}.prism")
        assert model.chain.states == chain.states, name
        assert model.chain.exact == chain.exact, name


def test_an_abstraction_names_the_states_of_arrays() -> None:
    abstraction: Abstraction = from_expressions(["a", "b"])
    found = Tally()
    found.add_codes(np.array([0, 1, 3]), abstraction.state_name)
    assert found.seen == {"00": {"10": 1}, "10": {"11": 1}, "11": {}}
    assert found.ends == {"11": 1}
