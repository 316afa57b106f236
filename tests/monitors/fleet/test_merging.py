"""Merging is a sum: in any order, in any groups, each tally once."""

import json
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.abstractions.errors import InvalidInput, InvalidModel, TooLarge
from forewarn.monitors.chains.formats.own import model_as_dict, parse_model
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.chains.model import Model
from forewarn.monitors.fleet import merging
from forewarn.monitors.fleet.files import parse_tally
from forewarn.monitors.fleet.merging import contributors, merge, moved
from forewarn.monitors.fleet.tallies import (
    Counted,
    FleetTally,
    InvalidTally,
    Subject,
    bounded,
    summed,
)
from forewarn.monitors.laws.lawbook import find_laws
from forewarn.monitors.risk.evidence import laws_named
from tests.monitors.fleet.cases import (
    ABSTRACTION,
    BASE,
    LAW,
    NAMES,
    SUBJECT,
    TRUE,
    learned,
    named,
    of,
    text,
    walked,
)


def merged(model: Model, *tallies: FleetTally, accept: bool = True) -> Model:
    return merge(model, [("a file", each) for each in tallies], accept=accept).model


SEQUENCES = st.lists(st.lists(st.sampled_from(NAMES), max_size=6), max_size=3)
TALLIES = st.lists(SEQUENCES, min_size=1, max_size=5).map(
    lambda several: [
        named(of(*sequences), f"vehicle-{i}") for i, sequences in enumerate(several)
    ]
)


@given(TALLIES, st.randoms(use_true_random=False), st.data())
@settings(max_examples=30)
def test_order_groups_and_repetitions_make_no_difference(
    tallies: list[FleetTally], random: object, data: st.DataObject
) -> None:
    whole = merged(BASE, *tallies)
    order = data.draw(st.permutations(tallies))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(order)), max_size=3)))
    model = BASE
    for first, last in pairwise([0, *cuts, len(order)]):
        model = merged(model, *order[:first], *order[first:last], *order[first:last])
    assert text(model) == text(whole)
    assert text(merged(model, *tallies)) == text(whole)


@given(TALLIES)
@settings(max_examples=30)
def test_the_counts_are_those_of_all_together(tallies: list[FleetTally]) -> None:
    model = merged(BASE, *tallies)
    total = Tally.of(BASE)
    for each in tallies:
        total.add(each.tally)
    assert Tally.of(model) == total
    assert contributors(model) == {each.id: each.transitions for each in tallies}
    assert text(parse_model(model_as_dict(model))) == text(model)


@given(TALLIES)
def test_a_tally_is_read_as_it_was_written(tallies: list[FleetTally]) -> None:
    for each in tallies:
        content = json.loads(json.dumps(each.as_dict()))
        assert parse_tally(content).tally == each.tally
        assert json.dumps(parse_tally(content).as_dict()) == json.dumps(content)


@given(TALLIES, st.data())
def test_a_sum_is_one_whatever_the_order(
    tallies: list[FleetTally], data: st.DataObject
) -> None:
    total = summed(tallies)
    again = summed(data.draw(st.permutations(tallies)))
    assert again.as_dict() == total.as_dict()
    assert total.transitions == sum(each.transitions for each in tallies)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (replace(SUBJECT, abstraction="0" * 64), "abstraction"),
        (replace(SUBJECT, period_s=0.2), "period"),
        (replace(SUBJECT, laws="0" * 64), "laws"),
    ],
)
def test_what_another_model_counted_is_refused(other: Subject, said: str) -> None:
    tally = replace(named(of([NAMES[0]]), "vehicle-1"), subject=other)
    with pytest.raises(
        InvalidTally, match=f"counted with a different model .these differ: {said}"
    ):
        merged(BASE, tally)


def test_another_tally_under_the_same_id_is_refused() -> None:
    one, other = of([NAMES[0]] * 2), of([NAMES[0]] * 3)
    model = merged(BASE, named(one, "vehicle-1"))
    with pytest.raises(
        InvalidTally, match="a different tally has the same id, vehicle-1"
    ):
        merged(model, named(other, "vehicle-1"))
    with pytest.raises(
        InvalidTally, match="a different tally has the same id, vehicle-1"
    ):
        merged(BASE, named(one, "vehicle-1"), named(other, "vehicle-1"))


def test_too_many_contributors_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "MAX_CONTRIBUTORS", 2)
    tallies = [named(of([NAMES[0]]), f"vehicle-{i}") for i in range(3)]
    model = merged(BASE, *tallies[:2])
    with pytest.raises(TooLarge, match="more than 2 contributors"):
        merged(model, tallies[2])


def test_a_model_without_counts_takes_none() -> None:
    with pytest.raises(InvalidModel, match="no transition counts"):
        merged(Model(BASE.chain), named(of([NAMES[0]]), "vehicle-1"))


def test_a_state_that_is_not_valid_is_refused_as_from_a_trace() -> None:
    declared = Support("declared", {NAMES[0]: [NAMES[0]]})
    base = learn(
        of([NAMES[0]] * 3), declared, Fraction(0), "ignore",
        abstraction=ABSTRACTION.as_dict(), period_s=0.1, laws=(LAW,),
    )  # fmt: skip
    with pytest.raises(
        InvalidInput, match=(", but the support does not allow that transition")
    ):
        merged(base, named(of([NAMES[0], NAMES[1]]), "vehicle-1"))


def test_a_guard_that_stopped_for_the_models_own_law_does_not_feed_its_threshold() -> (
    None
):
    (law,) = laws_named(BASE)
    runs = of(NAMES[:2], NAMES[:1])
    own, others = (
        FleetTally.of(own_id, SUBJECT, Counted(runs, 0, stopped_by, after))
        for own_id, stopped_by, after in (
            ("own-stops", {law.name: 1}, {"0.4": (1, 1)}),
            ("other-law", {"other": 2, "": 1}, {"0.4": (2, 0), "": (1, 0)}),
        )
    )
    read = parse_tally(own.as_dict())
    assert read.stopped_by == {law.name: 1} and read.after_stops == {"0.4": (1, 1)}
    both = [("a file", own), ("a file", others)]
    found = merge(BASE, both)
    assert [each.id for each in found.stopped] == ["own-stops"]
    assert [each.id for each in found.added] == ["other-law"]
    assert found.censored == {"": 1, "other": 2}
    accepted = merge(BASE, both, accept=True)
    assert not accepted.stopped
    assert accepted.censored == {"": 1, law.name: 1, "other": 2}
    assert summed([own, others]).stopped_by == accepted.censored
    assert found.after_stops == accepted.after_stops == {"": (1, 0), "0.4": (3, 1)}
    with pytest.raises(InvalidTally, match="after_stops"):
        parse_tally({**own.as_dict(), "after_stops": {"0.4": [1, 2]}})


def test_tally_of_another_world_is_rejected_unless_accepted() -> None:
    rng = np.random.default_rng(2)
    changed = TRUE.copy()
    changed[0] = [0.5, 0.3, 0.15, 0.05]
    tallies = [named(walked(TRUE, 2_000, rng), f"vehicle-{i}") for i in range(8)]
    tallies.insert(3, named(walked(changed, 2_000, rng), "odd-one-out"))
    pairs = [("a file", each) for each in tallies]
    found = merge(BASE, pairs)
    assert [tally.id for tally, _ in found.refused] == ["odd-one-out"]
    assert found.refused[0][1].state == NAMES[0]
    assert "odd-one-out" not in contributors(found.model)
    assert len(found.added) == 8
    accepted = merge(BASE, pairs, accept=True)
    assert not accepted.refused and len(accepted.added) == 9


def test_which_states_moved() -> None:
    """Speeding becomes ten times as likely where the brakes are not used."""
    sequence = [NAMES[0]] * 400 + [NAMES[1]] + [NAMES[0]] * 400
    base = learned(of(*[sequence] * 5))
    faster = named(of(*[[NAMES[0]] * 40 + [NAMES[1]]] * 200), "vehicle-1")
    after = merged(base, faster)
    laws = find_laws(LAW, vocabulary=ABSTRACTION.vocabulary)
    found = moved(base, after, laws, 1.0, 0.05)
    assert [(each.state, each.law) for each in found] == [(NAMES[0], laws[0].name)]
    low, _, high = found[0].before
    assert not low <= found[0].after[1] <= high
    assert not moved(base, base, laws, 1.0, 0.05)


def counted(
    steps: list[list[int]], starts: list[int], ends: list[int]
) -> dict[str, Any]:
    """The file of a tally of the first two states."""
    content = named(of([NAMES[0], NAMES[1]]), "vehicle-0").as_dict()
    return content | {"steps": steps, "starts": starts, "ends": ends}


@pytest.mark.parametrize(
    ("steps", "ends"),
    [
        ([[1, 1], []], [1, 10**9]),
        ([[1, 1], []], [0, 1]),
        ([[1, 5], [0, 5]], [1, 5]),
        ([[0, 9], []], [0, 2]),
    ],
)
def test_ends_beyond_what_starts_and_steps_allow_are_rejected(
    steps: list[list[int]], ends: list[int]
) -> None:
    with pytest.raises(InvalidTally, match="ends: more runs end in a state than"):
        parse_tally(counted(steps, [0, 1], ends))
    assert parse_tally(counted(steps, [0, 1], [])).transitions == sum(
        sum(row[1::2]) for row in steps
    )


def test_what_a_guard_lost_sight_of_is_not_written_as_an_end() -> None:
    tally = of([NAMES[0], NAMES[1]])
    tally.ends[NAMES[2]] = 1
    assert bounded(tally).ends == {NAMES[1]: 1}
    assert bounded(of([NAMES[0]], [NAMES[1], NAMES[0]])).ends == {NAMES[0]: 2}


def test_thirty_small_tallies_move_no_row_by_more_than_they_counted() -> None:
    tallies = [
        parse_tally(counted([[1, 2], [0, 1]], [0, 1], [1, 1]) | {"id": f"vehicle-{i}"})
        for i in range(30)
    ]
    after = merged(BASE, *tallies)
    assert BASE.visits is not None and after.visits is not None
    for name, added in ((NAMES[0], 2 * 30), (NAMES[1], (1 + 1) * 30)):
        was, now = BASE.chain.index(name), after.chain.index(name)
        visits = int(after.visits[now])
        assert visits - int(BASE.visits[was]) == added
        old, new = (
            {model.chain.states[j]: p for j, p in model.chain.row(at).items()}
            for model, at in ((BASE, was), (after, now))
        )
        moved_by = sum(abs(new.get(j, 0) - old.get(j, 0)) for j in {*old, *new}) / 2
        assert moved_by <= added / visits + 1e-12


def test_a_sum_of_ends_that_no_model_could_hold_is_rejected() -> None:
    tally = of([NAMES[0]])
    tally.starts[NAMES[0]] = tally.ends[NAMES[0]] = 10**12
    with pytest.raises(TooLarge, match="a transition count exceeds"):
        merged(BASE, named(tally, "vehicle-0"))
