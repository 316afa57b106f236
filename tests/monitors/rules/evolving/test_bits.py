"""Bits and and-groups, against counting by hand."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from forewarn.monitors.rules.evolving.bits import (
    Clause,
    Literal,
    Matrix,
    Occasion,
    count,
    matrix,
    members,
)
from forewarn.monitors.rules.evolving.groups import and_groups
from tests.monitors.rules.evolving.made_up import hidden

PREDICATES = 4
KINDS = 2

predicates = st.integers(0, 2**PREDICATES - 1)
occasions = st.builds(
    lambda kinds, held, unknown: Occasion(kinds, held & ~unknown, unknown),
    st.integers(1, 2**KINDS - 1),
    predicates,
    st.just(0) | predicates,
)
runs = st.lists(st.lists(occasions, max_size=6), min_size=1, max_size=9)
literals = st.sets(st.tuples(st.integers(0, PREDICATES - 1), st.booleans()), max_size=3)
clauses = st.builds(
    lambda kind, found: Clause(kind, tuple(sorted(Literal(*each) for each in found))),
    st.integers(0, KINDS - 1),
    literals,
)


def bits(rows: list[list[Occasion]]) -> Matrix:
    names = [f"p{i}" for i in range(PREDICATES)]
    unsafe = [i % 2 == 0 for i in range(len(rows))]
    return matrix(names, ["before", "finish"], rows, unsafe)


def by_hand(clause: Clause, run: list[Occasion]) -> bool:
    return any(
        kinds >> clause.kind & 1
        and all(
            bool(row >> p & 1) == wanted and not unknown >> p & 1
            for p, wanted in clause.literals
        )
        for kinds, row, unknown in run
    )


@given(runs, clauses)
def test_a_clause_holds_in_the_runs_that_have_such_an_event(
    rows: list[list[Occasion]], clause: Clause
) -> None:
    found = set(members(bits(rows).fires(clause)))
    assert found == {i for i, run in enumerate(rows) if by_hand(clause, run)}


@given(runs, clauses, st.integers(0, 511))
def test_left_out_runs_have_no_bits(
    rows: list[list[Occasion]], clause: Clause, kept: int
) -> None:
    whole = bits(rows)
    among = whole.set_of(run for run in range(len(rows)) if kept >> run & 1)
    part = whole.only(among)
    assert_array_equal(part.fires(clause), whole.fires(clause) & among)
    assert_array_equal(part.labelled, whole.labelled & among)


@given(runs, st.integers(1, 3), st.integers(1, 2))
def test_every_group_is_there_in_its_simplest_form(
    rows: list[list[Occasion]], most: int, least: int
) -> None:
    whole = bits(rows)
    found = and_groups(whole, most, least)
    expected: dict[bytes, int] = {}
    signed = [Literal(p, w) for p in range(PREDICATES) for w in (True, False)]
    for kind in range(KINDS):
        for size in range(1, most + 1):
            for some in combinations(signed, size):
                if any(each.wanted for each in some):
                    named = whole.fires(Clause(kind, tuple(sorted(some))))
                    if count(named & whole.unsafe) >= least:
                        known = expected.get(named.tobytes(), size)
                        expected[named.tobytes()] = min(known, size)
    ours = {
        one.tobytes(): int(size)
        for one, size in zip(found.sets, found.sizes, strict=True)
    }
    assert ours == expected
    for i in range(len(found)):
        assert_array_equal(whole.fires(found.clause(i)), found.sets[i])


def test_groups_are_those_of_the_runs_that_are_kept() -> None:
    whole, _ = hidden(3)
    kept = whole.set_of(range(20))
    part = and_groups(whole.only(kept))
    assert not (part.sets & ~kept).any()
