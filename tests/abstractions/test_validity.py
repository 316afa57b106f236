"""Valid states against brute force over frames at, beside and between thresholds."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from forewarn.abstractions.abstraction import (
    Abstraction,
    Predicate,
    from_expressions,
)
from forewarn.abstractions.errors import (
    InvalidAbstraction,
    InvalidExpression,
    TooLarge,
)
from forewarn.abstractions.expression import Expression, parse_expression
from forewarn.abstractions.expression.domain import combinations, leaves
from forewarn.abstractions.expression.scalar import compile_test
from forewarn.abstractions.expression.tree import (
    Name,
)
from tests.semantics import dense_frames, seen
from tests.strategies import VOCABULARY, expressions, frames, simple_expressions


def abstraction_of(nodes: Sequence[Expression], **options: Any) -> Abstraction:
    return Abstraction([Predicate(node) for node in nodes], **options)


@settings(max_examples=60)
@given(st.lists(simple_expressions(), min_size=1, max_size=5, unique_by=repr))
def test_valid_states_are_exactly_those_that_frames_show(
    nodes: list[Expression],
) -> None:
    abstraction = abstraction_of(nodes)
    observed = seen(nodes)
    assert set(abstraction.valid_states()) == observed
    assert abstraction.valid_states() == sorted(observed)
    for bits in range(1 << len(nodes)):
        assert abstraction.is_valid(bits) == (bits in observed)
    assert not abstraction.is_valid(1 << len(nodes))
    assert not abstraction.is_valid(-1)


def test_more_predicates_than_bits_in_a_machine_word() -> None:
    nodes = [parse_expression(f"x < {bound}") for bound in range(80)]
    known = leaves(nodes)
    expected = {(1 << 80) - (1 << first) for first in range(81)} | {0}
    assert combinations(nodes, known) == expected


@settings(max_examples=60)
@given(
    st.lists(simple_expressions(), min_size=1, max_size=4, unique_by=repr),
    st.lists(simple_expressions(2), min_size=1, max_size=2),
)
def test_constraints_leave_what_frames_that_keep_them_show(
    nodes: list[Expression], constraints: list[Expression]
) -> None:
    observed = seen(nodes, constraints)
    abstraction = abstraction_of(nodes, constraints=constraints)
    if not observed:
        with pytest.raises(
            InvalidAbstraction, match=("the constraints leave no valid state")
        ):
            abstraction.valid_states()
    else:
        assert set(abstraction.valid_states()) == observed


@given(
    st.lists(expressions(4), min_size=1, max_size=5, unique_by=repr),
    st.lists(frames(), min_size=1, max_size=5),
)
def test_whatever_a_frame_shows_is_valid(
    nodes: list[Expression], rows: list[dict[str, Any]]
) -> None:
    assume(not any(n == Name("light") for node in nodes for n in node.walk()))
    abstraction = abstraction_of(nodes)
    try:
        states = [abstraction.encode(row) for row in rows]
        valid = [abstraction.is_valid(state) for state in states]
    except Exception as error:  # a fault or a limit: nothing is claimed
        assert type(error).__name__ in ("SignalFault", "TooLarge")
        return
    assert all(valid)


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        (["speed < 0.5", "speed > 0.5"], {"00", "01", "10"}),
        (["speed < 5", "speed >= 5"], {"01", "10"}),
        (["speed >= 0", "speed > 200"], {"10"}),
        (["speed < 10 m/s", "speed < 36"], {"00", "11"}),
        (["speed is none"], {"0"}),
        (["gap < 5", "gap >= 5", "gap is none"], {"100", "010", "001"}),
        (["light == red", "light == green"], {"00", "10", "01"}),
        (["light == red", "light == green", "light == amber", "light is none"],
         {"1000", "0100", "0010", "0001"}),
        (["wet", "not wet"], {"10", "01"}),
        (["gap < 5", "gap - pace * 2 s < 3"], {"00", "01", "10", "11"}),
        (["bands(gap, 1, 2, 3)"], {"000", "001", "011", "111"}),
    ],
)  # fmt: skip
def test_the_vocabulary_prunes_too(texts: list[str], names: set[str]) -> None:
    abstraction = from_expressions(texts, VOCABULARY)
    assert {
        abstraction.state_name(bits) for bits in abstraction.valid_states()
    } == names


def test_what_is_irreversible_stays() -> None:
    abstraction = from_expressions(
        ["broken", "x < 1"], irreversible=[parse_expression("broken")]
    )
    allowed = {
        (before, after)
        for before in range(4)
        for after in range(4)
        if abstraction.may_follow(before, after)
    }
    assert allowed == {
        (before, after)
        for before, after in itertools.product(range(4), repeat=2)
        if not (before & 1 and not after & 1)
    }


def test_only_valid_states_follow_one_another() -> None:
    abstraction = from_expressions(["x < 1", "x > 2"])
    assert abstraction.may_follow(0b01, 0b10)
    assert not abstraction.may_follow(0b01, 0b11)
    assert not abstraction.may_follow(0b11, 0b01)


def test_bits_latched_over_several_frames_are_not_pruned() -> None:
    latched = Abstraction(
        [
            Predicate(parse_expression("x < 1"), "any"),
            Predicate(parse_expression("x > 2"), "all"),
            Predicate(parse_expression("x > 3")),
            Predicate(parse_expression("x < 3")),
        ]
    )
    assert len(latched.valid_states()) == 2 * 2 * 3
    assert latched.is_valid(0b0111)
    assert not latched.is_valid(0b1100)


def test_states_of_many_bands_are_counted_without_listing_them() -> None:
    texts = [f"bands({name}, 1, 2, 3, 4)" for name in "abcdefgh"]
    abstraction = from_expressions(texts)
    assert abstraction.validity.count() == 5**8
    assert abstraction.is_valid(0)
    with pytest.raises(
        TooLarge, match="390625 valid states exceed the limit of 100000"
    ):
        abstraction.valid_states()


def test_too_many_combinations_are_refused_by_name() -> None:
    names = "abcdefghijklmnopqrst"
    together = parse_expression(" or ".join(f"{name} > 1" for name in names))
    with pytest.raises(TooLarge, match="combinations of values of a, b, c"):
        abstraction_of([together]).valid_states()


# -- what a state decides -------------------------------------------------------------


@settings(max_examples=60)
@given(
    st.lists(simple_expressions(), min_size=1, max_size=4, unique_by=repr),
    st.lists(simple_expressions(2), max_size=1),
    simple_expressions(),
)
def test_a_state_decides_what_all_its_frames_agree_on(
    nodes: list[Expression], constraints: list[Expression], asked: Expression
) -> None:
    allowed = [compile_test(node) for node in constraints]
    tests = [compile_test(node) for node in nodes]
    test = compile_test(asked)
    truths: dict[int, set[bool]] = {}
    for frame in dense_frames([*nodes, *constraints, asked]):
        if all(holds(frame) for holds in allowed):
            state = sum(each(frame) << i for i, each in enumerate(tests))
            truths.setdefault(state, set()).add(bool(test(frame)))
    assume(truths)
    abstraction = abstraction_of(nodes, constraints=constraints)
    agreed = all(len(found) == 1 for found in truths.values())
    try:
        decide = abstraction.decides(asked)
    except InvalidAbstraction as error:
        assert not agreed
        assert error.mend == f"add the predicate {asked!r}"
    else:
        assert agreed
        for state, found in truths.items():
            assert decide(state) in found


def test_a_predicate_decides_itself_even_where_it_is_latched() -> None:
    latched = Abstraction([Predicate(parse_expression("x < 1"), "any")])
    decide = latched.decides(parse_expression("x < 1"))
    assert decide(1) and not decide(0)
    with pytest.raises(InvalidAbstraction, match="do not determine whether not x < 1"):
        latched.decides(parse_expression("not x < 1"))


def test_constraints_can_settle_what_predicates_leave_open() -> None:
    """The constraint alone ties the asked signal to the predicate's."""
    abstraction = from_expressions(
        ["gap < 5"],
        VOCABULARY,
        constraints=[
            parse_expression("gap < 5 -> speed < 9", VOCABULARY),
            parse_expression("gap >= 5 or gap is none -> speed > 9", VOCABULARY),
        ],
    )
    decide = abstraction.decides(parse_expression("speed > 9", VOCABULARY))
    assert decide(0) and not decide(1)


def test_one_signal_is_not_taken_for_two_kinds_of_thing() -> None:
    with pytest.raises(InvalidExpression, match="x is compared with the text 'red'"):
        from_expressions(["x == red", "x > 3"]).valid_states()
    # A number that also stands alone is false at zero: {x, x < 3} shows 01 there.
    assert len(from_expressions(["x", "x < 3"]).valid_states()) == 4
