"""The normal form of laws, spelled out, and what memories remember of the past."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.errors import InvalidExpression
from forewarn.abstractions.expression.parser import parse_expression
from forewarn.abstractions.expression.scalar import compile_test
from forewarn.monitors.laws.formula import parse_formula
from forewarn.monitors.laws.progression import Memory, Normal, normalise


def spelled(normal: Normal, number: int) -> str:
    """A node in words; `m0` is the output of the first memory."""
    node = normal.nodes[number]
    parts = [spelled(normal, part) for part in node.parts]
    names = [repr(proposition) for proposition in normal.propositions]
    names += [f"m{i}" for i in range(len(normal.memories))]
    match node.kind:
        case "true" | "false":
            return node.kind
        case "atom":
            return names[node.bit]
        case "not":
            return f"!{names[node.bit]}"
        case "and" | "or":
            return f"({f' {node.kind} '.join(parts)})"
    return f"{node.kind}[{node.low},{node.high:g}]({', '.join(parts)})"


def form(text: str, period_s: float | None = None) -> tuple[list[str], list[str]]:
    """What must hold always, and what at the start."""
    normal = normalise(parse_formula(text), period_s)
    assert len(set(normal.nodes)) == len(normal.nodes)
    return (
        [spelled(normal, node) for node in normal.invariants],
        [spelled(normal, node) for node in normal.initially],
    )


@pytest.mark.parametrize(
    ("text", "initially"),
    [
        ("a", "a"),
        ("not a", "!a"),
        ("not not a", "a"),
        ("true", "true"),
        ("not true", "false"),
        ("false", "false"),
        ("not false", "true"),
        ("a and not b", "a and not b"),
        ("not (a and b)", "!a and b"),
        ("next a", "F[1,1](a)"),
        ("not next a", "F[1,1](!a)"),
        ("not not next a", "F[1,1](a)"),
        ("a or next b", "(a or F[1,1](b))"),
        ("not (a and next b)", "(!a or F[1,1](!b))"),
        ("a -> next b", "(!a or F[1,1](b))"),
        ("eventually[1, 3 steps] a", "F[1,3](a)"),
        ("not eventually[1, 3 steps] a", "G[1,3](!a)"),
        ("always[1, 3 steps] a", "G[1,3](a)"),
        ("always[2 steps,] a", "G[2,inf](a)"),
        ("not always[1, 3 steps] a", "F[1,3](!a)"),
        ("a until[1, 3 steps] b", "U[1,3](a, b)"),
        ("a until b", "U[0,inf](a, b)"),
        ("not (a until[1, 3 steps] b)", "R[1,3](!a, !b)"),
        ("once a", "m0"),
        ("not once a", "!m0"),
        ("historically a", "!m0"),
        ("not historically a", "m0"),
        ("a since b", "m0"),
        ("once a or once a", "(m0 or m0)"),
        ("once a or once b", "(m0 or m1)"),
        ("a or next always (a and next b)",
         "(a or F[1,1](G[0,inf]((a and F[1,1](b)))))"),
    ],
)  # fmt: skip
def test_negations_stand_before_propositions_alone(text: str, initially: str) -> None:
    assert form(text) == ([], [initially])


@pytest.mark.parametrize(
    ("text", "invariants", "initially"),
    [
        ("always a", ["a"], []),
        ("always a and always b", ["a", "b"], []),
        ("always a and next b", ["a"], ["F[1,1](b)"]),
        ("always (a and next b)", ["a", "F[1,1](b)"], []),
        ("always (a and b)", ["a and b"], []),
        ("always (a and always[0, 2 steps] b)", ["a", "G[0,2](b)"], []),
        ("always[0, 2 steps] (a and next b)", [], ["G[0,2]((a and F[1,1](b)))"]),
        ("always[1 steps,] (a and next b)", [], ["G[1,inf]((a and F[1,1](b)))"]),
        ("always (a or next b)", ["(a or F[1,1](b))"], []),
        ("always always a", ["G[0,inf](a)"], []),
        ("always not eventually a", ["G[0,inf](!a)"], []),
        ("not eventually a", ["!a"], []),
        ("not (a or next b)", [], ["!a", "F[1,1](!b)"]),
        ("not (a -> next b)", [], ["a", "F[1,1](!b)"]),
        ("not (a -> eventually b)", ["!b"], ["a"]),
        ("a and b", [], ["a and b"]),
        ("a and (b and next c)", [], ["a", "b", "F[1,1](c)"]),
    ],
)
def test_invariants_are_separated(
    text: str, invariants: list[str], initially: list[str]
) -> None:
    assert form(text) == (invariants, initially)


def test_seconds_are_steps_of_the_clock() -> None:
    assert form("eventually[0.5 s, 1 s] a", 0.25) == ([], ["F[2,4](a)"])
    with pytest.raises(InvalidExpression, match="needs a clock"):
        form("eventually[0.5 s, 1 s] a")


def test_propositions_are_numbered_as_they_are_met() -> None:
    law = "always (b or not c -> next (not a or (once not (b or not c)) and true))"
    normal = normalise(parse_formula(law), None)
    assert [repr(p) for p in normal.propositions] == ["b or not c", "a"]
    assert normal.memory_bit == 2


@pytest.mark.parametrize("period_s", [0.0, -1.0, math.inf, math.nan])
def test_a_clock_ticks_after_a_while(period_s: float) -> None:
    with pytest.raises(InvalidExpression, match="a clock period of"):
        form("always a", period_s)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("eventually a", "eventually a can never be broken in a finite run"),
        ("not always a", "`not always a` can never be broken in a finite run"),
        ("always once next a", "refers to the future inside a past operator"),
        (
            "always (a since (b or next c))",
            "next c refers to the future inside a past operator",
        ),
    ],
)
def test_formulas_that_no_monitor_can_follow_are_rejected(text: str, says: str) -> None:
    with pytest.raises(InvalidExpression) as caught:
        form(text)
    assert says in str(caught.value) and caught.value.mend


@given(
    st.integers(0, 3),
    st.one_of(st.just(math.inf), st.integers(0, 4)),
    st.lists(st.integers(0, 3), max_size=10),
)
def test_a_memory_holds_what_since_means(
    low: int, width: float, letters: list[int]
) -> None:
    memory = Memory(low, low + width, lambda ell: ell & 1 > 0, lambda ell: ell & 2 > 0)
    held = 0
    for now, letter in enumerate(letters):
        held = memory.update(held, letter)
        assert memory.holds(held) == any(
            low <= now - then <= low + width
            and letters[then] & 2
            and all(between & 1 for between in letters[then + 1 : now + 1])
            for then in range(now + 1)
        )


def test_a_memory_keeps_no_more_than_it_needs() -> None:
    """Few values, and so few states of the automaton."""

    def values(low: int, high: float) -> set[int]:
        memory = Memory(low, high, lambda ell: True, bool)
        found = {0}
        for _ in range(8):
            found |= {
                memory.update(held, letter) for held in found for letter in (0, 1)
            }
        return found

    assert values(0, 0) == {0, 1}
    assert values(0, 3) == {0, 1, 2, 4, 8}
    assert values(0, math.inf) == {0, 1}
    assert values(1, 1) == {0, 1, 2, 3}
    assert values(1, 2) == set(range(8))
    assert values(2, math.inf) == set(range(8))


@pytest.mark.parametrize(
    ("past", "right"),
    [
        ("once b", "b"),
        ("once not b", "not b"),
        ("once not not b", "b"),
        ("once true", "true"),
        ("once not true", "false"),
        ("once (once a and b)", "m0 and b"),
        ("once (once a or b)", "m0 or b"),
        ("once (once a -> b)", "not m0 or b"),
        ("once not (once a and b)", "not (m0 and b)"),
        ("once historically a", "not m0"),
        ("once not historically a", "m0"),
        ("historically b", "not b"),
        ("historically historically b", "m0"),
    ],
)  # fmt: skip
def test_operands_of_a_memory(past: str, right: str) -> None:
    normal = normalise(parse_formula(f"always ({past} or next (a or b))"), None)
    names = [repr(proposition) for proposition in normal.propositions]
    names += [f"m{i}" for i in range(len(normal.memories))]
    means = compile_test(parse_expression(right))
    for letter in range(1 << len(names)):
        values = {name: bool(letter >> i & 1) for i, name in enumerate(names)}
        assert normal.memories[-1].right(letter) == means(values)
        assert normal.memories[-1].left(letter)


def test_a_memory_is_kept_by_what_stands_before_since() -> None:
    normal = normalise(parse_formula("always (not a since[1, 2 steps] b)"), None)
    (memory,) = normal.memories
    assert (memory.low, memory.high) == (1, 2)
    for letter in range(4):
        assert memory.left(letter) == (not letter & 1)
        assert memory.right(letter) == bool(letter & 2)
