"""Automata in few words, and their pictures."""

from __future__ import annotations

import itertools
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.monitors.laws.automaton import compile_law
from forewarn.monitors.laws.formula import parse_formula
from forewarn.monitors.laws.lawbook import law_book
from forewarn.monitors.laws.outline import (
    Outline,
    condition,
    draw,
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


def test_every_law_of_the_book_can_be_drawn() -> None:
    for law in law_book().laws.values():
        parts = law.parts or (law,)
        rows = [(p.name, outline(p.compile(0.1))) for p in parts]
        ElementTree.fromstring(draw(rows))  # noqa: S314  our own text


def test_a_picture_is_svg_without_overlapping_boxes() -> None:
    drawn = _outline("always (p -> next next q and eventually[0, 1 steps] r)")
    root = ElementTree.fromstring(draw([("a <b> & c", drawn)]))  # noqa: S314
    space = "{http://www.w3.org/2000/svg}"
    boxes = [
        tuple(float(rect.get(key, 0)) for key in ("x", "width"))
        for rect in root.iter(f"{space}rect")
        if "box" in (rect.get("class") or "")
    ]
    assert len(boxes) == len(drawn.nodes)
    for (x, width), (following, _) in itertools.pairwise(sorted(boxes)):
        assert x + width < following
    right = max(x + width for x, width in boxes)
    assert right < float(root.get("width", 0))
    texts = {"".join(text.itertext()) for text in root.iter(f"{space}text")}
    assert "a <b> & c" in texts and "idle" in texts


@pytest.mark.parametrize("title", ["\x1b[31m red", "\u202e", "x" * 500])
def test_no_title_breaks_a_picture(title: str) -> None:
    text = draw([(title, _outline("always not p"))])
    ElementTree.fromstring(text)  # noqa: S314
    assert "\x1b" not in text and "\u202e" not in text
