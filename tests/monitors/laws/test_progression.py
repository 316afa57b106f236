"""What is owed after a frame, clause by clause, and which clauses say the same."""

from __future__ import annotations

import itertools
import math

import pytest

from forewarn.monitors.laws.formula import parse_formula
from forewarn.monitors.laws.progression import (
    BROKEN,
    NOTHING,
    Node,
    Normal,
    Owed,
    Progression,
    Timed,
    both,
    either,
    normalise,
)

A = 1
INF = math.inf


def lit(kind: str, low: int, high: float, *parts: int) -> Timed:
    return kind, low, high, parts or (0,)


def one(*literals: Timed) -> Owed:
    """Owing one of these literals."""
    return frozenset([frozenset(literals)])


class Follower:
    """A law that asks something of its first frame, shown as it goes on."""

    def __init__(self, text: str) -> None:
        self.normal = normalise(parse_formula(text), None)
        self.names = [repr(node) for node in self.normal.propositions]
        self.progression = Progression(self.normal)

    def letter(self, frame: str) -> int:
        return sum(1 << i for i, name in enumerate(self.names) if name in frame.split())

    def owed(self, *frames: str) -> set[frozenset[str]]:
        owed = self.progression.start(self.normal.initially)
        for frame in frames:
            owed = self.progression.after(owed, self.letter(frame))
        return {frozenset(map(self.shown, clause)) for clause in owed}

    def shown(self, literal: Timed) -> str:
        kind, low, high, parts = literal
        return f"{kind}[{low},{high:g}] {' '.join(map(self.part, parts))}"

    def part(self, number: int) -> str:
        node = self.normal.nodes[number]
        return {"atom": "", "not": "!"}[node.kind] + self.names[node.bit]


KEPT: set[frozenset[str]] = set()
UNKEPT = {frozenset[str]()}


def all_of(*clauses: str) -> set[frozenset[str]]:
    """Clauses, the literals of each separated by `|`."""
    return {frozenset(part.strip() for part in c.split("|")) for c in clauses}


@pytest.mark.parametrize(
    ("text", "frames", "owed"),
    [
        ("eventually[0, 0 steps] a", ["a"], KEPT),
        ("eventually[0, 0 steps] a", [""], UNKEPT),
        ("eventually[0, 2 steps] a", ["a"], KEPT),
        ("eventually[0, 2 steps] a", [""], all_of("F[0,1] a")),
        ("eventually[0, 2 steps] a", ["", ""], all_of("F[0,0] a")),
        ("eventually[0, 2 steps] a", ["", "", "a"], KEPT),
        ("eventually[0, 2 steps] a", ["", "", ""], UNKEPT),
        ("eventually[2, 3 steps] a", ["a"], all_of("F[1,2] a")),
        ("eventually[2, 3 steps] a", ["a", "a"], all_of("F[0,1] a")),
        ("eventually[1, 1 steps] a", ["a", ""], UNKEPT),
        ("next a", [""], all_of("F[0,0] a")),
        ("eventually[0, 1 steps] not a", ["a"], all_of("F[0,0] !a")),
        ("eventually[0, 1 steps] not a", [""], KEPT),
        ("always[0, 0 steps] a", ["a"], KEPT),
        ("always[0, 0 steps] a", [""], UNKEPT),
        ("always[0, 2 steps] a", ["a"], all_of("G[0,1] a")),
        ("always[0, 2 steps] a", [""], UNKEPT),
        ("always[0, 2 steps] a", ["a", "a"], all_of("G[0,0] a")),
        ("always[0, 2 steps] a", ["a", "a", "a"], KEPT),
        ("always[0, 2 steps] a", ["a", "a", ""], UNKEPT),
        ("always[1, 2 steps] a", [""], all_of("G[0,1] a")),
        ("always a or b", ["a"], all_of("G[0,inf] a")),
        ("always a or b", ["a", "a b", "a"], all_of("G[0,inf] a")),
        ("always[2 steps,] a", ["", ""], all_of("G[0,inf] a")),
        ("a until[0, 1 steps] b", ["b"], KEPT),
        ("a until[0, 1 steps] b", ["a b"], KEPT),
        ("a until[0, 1 steps] b", ["a"], all_of("U[0,0] a b")),
        ("a until[0, 1 steps] b", [""], UNKEPT),
        ("a until[0, 0 steps] b", ["a"], UNKEPT),
        ("a until[0, 1 steps] b", ["a", "a"], UNKEPT),
        ("a until[2, 3 steps] b", ["a b"], all_of("U[1,2] a b")),
        ("a until[2, 3 steps] b", ["b"], UNKEPT),
        ("a until[1, 3 steps] b", ["a b"], all_of("U[0,2] a b")),
        ("a until[1, 3 steps] b", ["a", "b"], KEPT),
        ("not (a until[0, 1 steps] b)", [""], KEPT),
        ("not (a until[0, 1 steps] b)", ["a"], all_of("R[0,0] !a !b")),
        ("not (a until[0, 1 steps] b)", ["b"], UNKEPT),
        ("not (a until[0, 0 steps] b)", ["a"], KEPT),
        ("not (a until[0, 0 steps] b)", ["a b"], UNKEPT),
        ("not (a until[2, 3 steps] b)", ["a b"], all_of("R[1,2] !a !b")),
        ("not (a until[2, 3 steps] b)", ["b"], KEPT),
        ("not (a until b)", ["a", "a"], all_of("R[0,inf] !a !b")),
        ("a and next b", ["a"], all_of("F[0,0] b")),
        ("a and next b", [""], UNKEPT),
        ("next a and next b", [""], all_of("F[0,0] a", "F[0,0] b")),
        ("next a or next b", [""], all_of("F[0,0] a | F[0,0] b")),
        ("a or next b", ["a"], KEPT),
        ("a or next b", [""], all_of("F[0,0] b")),
        ("next a or next b", ["", ""], UNKEPT),
        ("next a or next b", ["", "b"], KEPT),
        ("next a and next b", ["", "a"], UNKEPT),
        ("next a and next b", ["", "a b"], KEPT),
        ("eventually[0, 3 steps] a or next b", ["", ""], all_of("F[0,1] a")),
        ("always[0, 3 steps] a and next b", ["a", "a b"], all_of("G[0,1] a")),
    ],
)  # fmt: skip
def test_each_frame_uses_up_a_step(
    text: str, frames: list[str], owed: set[frozenset[str]]
) -> None:
    assert Follower(text).owed(*frames) == owed


def test_new_obligations_start_with_the_next_frame() -> None:
    follower = Follower("a and b or next b")
    (node,) = follower.normal.initially
    progression = follower.progression
    assert progression.start([node]) == one(lit("F", 0, 0, node))
    assert progression.start([]) == NOTHING
    assert progression.after(NOTHING, A) == NOTHING
    assert progression.after(BROKEN, A) is BROKEN


@pytest.mark.parametrize("letter", range(4))
def test_parts_that_do_not_look_ahead_are_decided_at_once(letter: int) -> None:
    progression = Progression(Normal(None, nodes=[
        Node("true"), Node("false"), Node("atom", bit=1), Node("not", bit=1),
        Node("and", parts=(0, 2)), Node("or", parts=(1, 2)),
    ]))  # fmt: skip
    b = letter >> 1 & 1
    for node, holds in enumerate([1, 0, b, not b, b, b]):
        assert progression.arising(node, letter) is (NOTHING if holds else BROKEN)


# -- which literals say less than others ---------------------------------------------


@pytest.mark.parametrize(
    ("stronger", "weaker"),
    [
        (lit("F", 1, 2), lit("F", 0, 3)),
        (lit("F", 1, 2), lit("F", 1, 3)),
        (lit("F", 1, 2), lit("F", 0, 2)),
        (lit("U", 1, 2, 0, 1), lit("U", 0, 3, 0, 1)),
        (lit("G", 0, 3), lit("G", 1, 2)),
        (lit("G", 0, 3), lit("G", 0, 2)),
        (lit("G", 0, 3), lit("G", 1, 3)),
        (lit("G", 0, INF), lit("G", 0, 9)),
        (lit("R", 0, 3, 0, 1), lit("R", 1, 2, 0, 1)),
    ],
)
def test_an_implied_obligation_is_dropped(stronger: Timed, weaker: Timed) -> None:
    for first, second in itertools.permutations([stronger, weaker]):
        assert both(one(first), one(second)) == one(stronger)
        assert either(one(first), one(second)) == one(weaker)
    other = lit("F", 0, 7, 5)
    assert both(one(stronger), one(weaker, other)) == one(stronger)
    assert either(one(stronger, other), one(weaker)) == one(weaker, other)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lit("F", 0, 2), lit("F", 1, 3)),
        (lit("G", 0, 2), lit("G", 1, 3)),
        (lit("F", 0, 2, 0), lit("F", 0, 2, 1)),
        (lit("F", 1, 2, 0), lit("F", 0, 3, 1)),
        (lit("F", 0, 2), lit("G", 0, 2)),
        (lit("U", 0, 2, 0, 1), lit("R", 0, 2, 0, 1)),
    ],
)
def test_those_that_imply_nothing_are_all_kept(first: Timed, second: Timed) -> None:
    assert both(one(first), one(second)) == one(first) | one(second)
    assert either(one(first), one(second)) == one(first, second)


def test_a_clause_implies_those_that_hold_more() -> None:
    x, y, z = (lit("F", 0, 2, part) for part in (1, 2, 3))
    assert both(one(x), one(x, y)) == one(x)
    assert both(one(x, y, z), one(x, z)) == one(x, z)
    assert both(one(x, y), one(y, z)) == one(x, y) | one(y, z)
    assert both(one(x, y) | one(z), one(x)) == one(x) | one(z)
    # The one that comes last makes both of those before it needless.
    assert both(one(x, y) | one(x, z), one(x)) == one(x)


def test_either_of_several_owes_one_of_each_pair() -> None:
    w, x, y, z = (lit("F", 0, 2, part) for part in (1, 2, 3, 4))
    assert either(one(w) | one(x), one(y) | one(z)) == (
        one(w, y) | one(w, z) | one(x, y) | one(x, z)
    )
    assert either(one(w) | one(x), one(w)) == one(w)


def test_true_and_false_are_neutral_or_absorbing() -> None:
    owed = one(lit("F", 0, 2))
    for some in (NOTHING, owed, BROKEN):
        assert both(NOTHING, some) == both(some, NOTHING) == some
        assert both(BROKEN, some) is both(some, BROKEN) is BROKEN
        assert either(NOTHING, some) == either(some, NOTHING) == NOTHING
        assert either(BROKEN, some) is either(some, BROKEN) is some


def test_one_broken_clause_breaks_all() -> None:
    progression = Progression(Normal(None, nodes=[Node("atom"), Node("atom", bit=1)]))
    owed = one(lit("F", 0, 0, 0)) | one(lit("F", 0, 9, 1))
    assert progression.after(owed, 2) is BROKEN
    assert progression.after(owed, 1) == one(lit("F", 0, 8, 1))
    assert progression.after(owed, 3) == NOTHING


def test_remaining_formula_has_no_duplicates() -> None:
    progression = Progression(Normal(None, nodes=[Node("atom")]))
    owed = one(lit("F", 0, 4)) | one(lit("F", 1, 4))
    assert progression.after(owed, 0) == one(lit("F", 0, 3))
