"""Automata in few words, and their pictures."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forewarn.monitors.laws.automaton import compile_law
from forewarn.monitors.laws.formula import parse_formula
from forewarn.monitors.laws.outline import (
    Outline,
    condition,
    outline,
    transitions,
)


def _outline(text: str) -> Outline:
    return outline(compile_law(parse_formula(text)))


def _told(drawn: Outline) -> set[tuple[str, str, str, bool]]:
    return {
        (drawn.nodes[e.source].name, e.when, drawn.nodes[e.target].name, e.at_the_end)
        for e in drawn.edges
    }


def test_a_long_wait_is_folded() -> None:
    drawn = _outline("always (p -> eventually[0, 50 steps] q)")
    assert [node.name for node in drawn.nodes] == [
        "idle", "wait:50 … wait:1", "violated",
    ]  # fmt: skip
    assert _told(drawn) == {
        ("idle", "not a or b", "idle", False),
        ("idle", "a and not b", "wait:50 … wait:1", False),
        ("wait:50 … wait:1", "b", "idle", False),
        ("wait:50 … wait:1", "not b", "wait:50 … wait:1", False),
        ("wait:50 … wait:1", "not b", "violated", True),
    }
    assert drawn.legend == (("a", "p"), ("b", "q"))


def test_an_invariant_has_two_nodes() -> None:
    assert _told(_outline("always not p")) == {
        ("idle", "not a", "idle", False),
        ("idle", "a", "violated", False),
    }


def test_a_large_automaton_is_only_summed_up() -> None:
    text = "always (p and eventually[0, 4 steps] q -> eventually[0, 6 steps] r)"
    drawn = _outline(text)
    assert len(drawn.nodes) == 3
    assert "states, 1 to 6 left" in drawn.nodes[1].name


def test_transitions_tell_every_step() -> None:
    automaton = compile_law(parse_formula("always (p -> eventually[0, 2 steps] q)"))
    assert set(transitions(automaton)) == {
        ("idle", "not a or b", "idle"),
        ("idle", "a and not b", "wait:2"),
        ("wait:2", "b", "idle"),
        ("wait:2", "not b", "wait:1"),
        ("wait:1", "b", "idle"),
        ("wait:1", "not b", "violated"),
        ("violated", "always", "violated"),
    }


@given(st.data(), st.integers(1, 4))
def test_a_condition_says_exactly_which_letters(data: st.DataObject, bits: int) -> None:
    every = list(range(1 << bits))
    possible = data.draw(st.lists(st.sampled_from(every), min_size=1, unique=True))
    chosen = set(data.draw(st.lists(st.sampled_from(possible), min_size=1)))
    text = condition(chosen, possible, bits)
    for letter in possible:
        truth = text == "always" or any(
            all(
                (letter >> "abcd".index(literal.split()[-1]) & 1)
                == (not literal.startswith("not "))
                for literal in cube.split(" and ")
            )
            for cube in text.split(" or ")
        )
        assert truth == (letter in chosen)
