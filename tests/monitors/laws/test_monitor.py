"""Monitors: one frame at a time, whole traces at once, and by brute force."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.abstractions.errors import SignalFault
from forewarn.abstractions.expression.scalar import compile_test
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.laws.automaton import Automaton, compile_law
from forewarn.monitors.laws.formula import Formula, parse_formula
from forewarn.monitors.laws.monitor import (
    Monitor,
    Violation,
    prefix_statuses,
    scan,
)
from tests.semantics import Brute, first_bad
from tests.strategies import laws

BITS = {"a": 0, "b": 1}
SHAPES = [
    "always a",
    "always not (a and b)",
    "always (a -> eventually[0, 1 steps] b)",
    "always (a -> eventually[0, 3 steps] b)",
    "always (a -> eventually[1, 3 steps] b)",
    "always (a -> always[1, 2 steps] b)",
    "always (a -> not b until[0, 3 steps] (a and b))",
    "always (a -> eventually[0, 3 steps] once[1, 1 steps] b)",
    "always ((a -> eventually[0, 2 steps] b) and (b -> next not b))",
    "eventually[0, 3 steps] a and always (b -> next a)",
]
TEXTS = st.sampled_from(SHAPES)
WORDS = st.lists(st.integers(0, 3), max_size=14)


def law(text: str, **options: Any) -> Automaton:
    return compile_law(parse_formula(text), **options)


def letters_for(automaton: Automaton, word: list[int]) -> list[int]:
    """Letters over a and b as letters of the automaton's propositions."""
    tests = [compile_test(node) for node in automaton.propositions]
    rows = [{name: bool(x >> bit & 1) for name, bit in BITS.items()} for x in word]
    return [sum(test(row) << i for i, test in enumerate(tests)) for row in rows]


def violations_by_force(formula: Formula, word: list[int]) -> list[Violation]:
    """Every violation of a monitor that starts afresh after each.

    An obligation arose at the last position from which it is broken by the same frame.
    """
    brute = Brute(formula, range(4), BITS)
    found: list[Violation] = []
    start = 0
    while (length := first_bad(brute, word[start:])) is not None:
        prefix = word[start : start + length]
        since = max(
            position
            for position in range(length)
            if first_bad(brute, prefix[position:]) == length - position
        )
        found.append(Violation(start + length - 1, start + since))
        start += length
    return found


def broken_by_force(formula: Formula, word: list[int]) -> list[int]:
    """The frames at which a monitor breaks that starts afresh each time."""
    brute = Brute(formula, range(4), BITS)
    found: list[int] = []
    start = 0
    while (length := first_bad(brute, word[start:])) is not None:
        start += length
        found.append(start - 1)
    return found


def streamed(automaton: Automaton, letters: list[int]) -> Monitor:
    monitor = Monitor(automaton)
    for letter in letters:
        monitor.advance(letter)
    return monitor


# -- violations -----------------------------------------------------------------------


@settings(max_examples=100)
@given(st.sampled_from(SHAPES[:-1]), WORDS)
def test_violations_are_those_of_the_laws_meaning(text: str, word: list[int]) -> None:
    automaton = law(text)
    letters = letters_for(automaton, word)
    expected = violations_by_force(automaton.formula, word)
    assert streamed(automaton, letters).violations == expected
    assert list(scan(automaton, np.array(letters, np.int64)).violations) == expected


@settings(max_examples=80)
@given(laws(2, 2), WORDS)
def test_violations_of_any_law(formula: Formula, word: list[int]) -> None:
    automaton = compile_law(formula)
    letters = letters_for(automaton, word)
    expected = broken_by_force(formula, word)
    found = streamed(automaton, letters).violations
    assert [v.step for v in found] == expected
    assert found == list(scan(automaton, np.array(letters, np.int64)).violations)
    ends = [-1, *expected]
    for before, violation in zip(ends, found, strict=False):
        assert before < violation.since <= violation.step


def test_a_violation_gives_the_frame_of_its_obligation() -> None:
    automaton = law("always (a -> eventually[0, 3 steps] b)")
    letters = [0, 1, 1, 0, 0, 0, 1, 2, 1, 0, 0, 0, 0]
    found = streamed(automaton, letters).violations
    assert found == [Violation(4, 1), Violation(11, 8)]


def test_since_is_when_what_the_trigger_remembers_came() -> None:
    """It arises with what the trigger looks back at, as `always (b -> ...)` has it."""
    automaton = law("always (a and once[1, 2 steps] b -> eventually[0, 2 steps] b)")
    names = [repr(node) for node in automaton.propositions]
    a, b = 1 << names.index("a"), 1 << names.index("b")
    found = streamed(automaton, [b, 0, a, 0, 0, 0]).violations
    assert found == [Violation(4, 0)]


@pytest.mark.parametrize("owed", range(1, 9))
def test_immediate_violation_is_triggered_when_it_happens(owed: int) -> None:
    response = f"always (a -> eventually[0, {owed + 1} steps] b)"
    automaton = law(f"({response}) and (always not c)")
    monitor = Monitor(automaton)
    for _ in range(owed):
        monitor.step({"a": True, "b": False, "c": False})
    monitor.step({"a": True, "b": False, "c": True})
    assert monitor.violations == [Violation(owed, owed)]


def test_trigger_that_holds_at_the_start_arises_at_the_start() -> None:
    automaton = law("eventually[0, 4 steps] a and always (b -> next a)")
    assert streamed(automaton, [0] * 5).violations == [Violation(4, 0)]
    assert streamed(automaton, [0] * 10).violations == [
        Violation(4, 0),
        Violation(9, 5),
    ]


def test_an_invariant_is_broken_where_it_does_not_hold() -> None:
    automaton = law("always a")
    found = streamed(automaton, [1, 0, 0, 1, 0]).violations
    assert found == [Violation(1, 1), Violation(2, 2), Violation(4, 4)]


# -- verdicts -------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.sampled_from(SHAPES[:8]), st.lists(st.integers(0, 3), max_size=7))
def test_pending_obligations_are_those_that_can_still_be_unmet(
    text: str, word: list[int]
) -> None:
    automaton = law(text)
    monitor = Monitor(automaton)
    word = word[: first_bad(Brute(automaton.formula, range(4), BITS), word)]
    for length, letter in enumerate(letters_for(automaton, word), start=1):
        verdict = monitor.advance(letter)
        owed = Brute(automaton.formula, range(4), BITS, until=length)
        soonest = next(
            (
                steps
                for steps in range(1, owed.span + 1)
                for then in itertools.product(range(4), repeat=steps)
                if owed.is_bad([*word[:length], *then])
            ),
            None,
        )
        if verdict.status == "violated":
            assert length == len(word)
        else:
            assert verdict.status == ("ok" if soonest is None else "pending")
            assert verdict.left == soonest


def test_the_time_left_counts_down() -> None:
    monitor = Monitor(law("always (a -> eventually[0, 2 steps] b)"))
    seen = [monitor.advance(letter) for letter in (0, 1, 0, 2, 1, 0, 0, 0)]
    assert [verdict.status for verdict in seen] == [
        "ok", "pending", "pending", "ok", "pending", "pending", "violated", "ok",
    ]  # fmt: skip
    assert [verdict.left for verdict in seen] == [None, 2, 1, None, 2, 1, None, None]
    assert seen[1].state == "wait:2" and seen[6].state == "violated"


@given(TEXTS, WORDS)
def test_every_prefix_is_judged_as_if_it_were_the_trace(
    text: str, word: list[int]
) -> None:
    automaton = law(text)
    letters = letters_for(automaton, word)
    statuses = prefix_statuses(automaton, letters)
    assert len(statuses) == len(letters)
    monitor, broken = Monitor(automaton), False
    for length, letter in enumerate(letters, start=1):
        verdict = monitor.advance(letter)
        whole = scan(automaton, np.array(letters[:length]))
        broken = broken or verdict.status == "violated"
        assert whole.status == statuses[length - 1]
        assert whole.status == ("violated" if broken else verdict.status)
        assert whole.left == (None if broken else verdict.left)
        assert list(whole.violations) == monitor.violations


def test_an_empty_trace_is_ok() -> None:
    for text in SHAPES:
        found = scan(law(text), np.empty(0, np.int64))
        assert (found.status, found.violations, found.left) == ("ok", (), None)
        assert prefix_statuses(law(text), []) == []


@given(st.integers(0, 12), st.lists(st.integers(0, 3), max_size=60), st.booleans())
def test_responses_are_scanned_as_they_are_streamed(
    steps: int, word: list[int], sparse: bool
) -> None:
    if sparse:
        word = [letter if letter != 2 else 0 for letter in word]
    automaton = law(f"always (a -> eventually[0, {steps} steps] b)")
    letters = letters_for(automaton, word)
    monitor = Monitor(automaton)
    left = None
    for letter in letters:
        left = monitor.advance(letter).left
    found = scan(automaton, np.array(letters, np.int64))
    assert list(found.violations) == monitor.violations
    assert found.left == (None if monitor.violations else left)
    assert found.status == (prefix_statuses(automaton, letters) or ["ok"])[-1]


def test_scanning_does_not_depend_on_the_type_of_letters() -> None:
    automaton = law("always (a -> eventually[0, 2 steps] b)")
    for kind in (np.uint8, np.int32, np.int64):
        found = scan(automaton, np.array([1, 0, 0, 2, 1], kind))
        assert found.violations == (Violation(2, 0),)


# -- frames -------------------------------------------------------------------------


def test_frames_are_read_by_the_laws_own_propositions() -> None:
    monitor = Monitor(law("always (speed > 5 -> eventually[0, 1 steps] brake)"))
    frames = [
        {"speed": 3, "brake": 0},
        {"speed": 9, "brake": 0},
        {"speed": 9, "brake": 1},
    ]
    assert [monitor.step(frame).status for frame in frames] == ["ok", "pending", "ok"]
    assert monitor.state == 0


@pytest.mark.parametrize(
    "text",
    ["always x > 3", "always (x > 3 -> y > 3)", "always (x > 3 or y > 3 or wet)"],
)
def test_a_frame_without_a_signal_is_a_fault_and_is_not_counted(text: str) -> None:
    monitor = Monitor(law(text))
    good = {"x": 5, "y": 5, "wet": True}
    monitor.step(good)
    for bad in ({}, good | {"x": float("nan")}, good | {"x": "five"}):
        with pytest.raises(SignalFault):
            monitor.step(bad)
    monitor.step(good | {"x": None, "y": None, "wet": False})
    assert monitor.violations in ([Violation(1, 1)], [])


def test_values_outside_the_declared_range_are_a_fault() -> None:
    driving = load_vocabulary("driving")
    formula = parse_formula("always (speed < 0 -> next speed >= 0)", driving)
    automaton = compile_law(formula, vocabulary=driving)
    with pytest.raises(SignalFault, match="values outside the ranges"):
        Monitor(automaton).step({"speed": -1.0})
    with pytest.raises(SignalFault, match="values outside the ranges"):
        scan(automaton, np.array([2, 1]))
    response = compile_law(
        parse_formula("always (a -> eventually[0, 2 steps] b)"), letters=[0, 1, 2]
    )
    with pytest.raises(SignalFault, match="values outside the ranges"):
        scan(response, np.array([0, 1, 3]))
    with pytest.raises(SignalFault, match="values outside the ranges"):
        Monitor(response).advance(3)


def test_a_law_without_propositions_reads_any_frame() -> None:
    assert Monitor(law("always true")).step({}).status == "ok"
    assert Monitor(law("always false")).step({}).status == "violated"
    assert scan(law("always false"), np.zeros(2, int)).violations == (
        Violation(0, 0),
        Violation(1, 1),
    )


def test_many_propositions_of_one_signal_take_no_table_of_all_letters() -> None:
    """Thirty propositions make a billion letters, of which 31 can occur."""
    steps = " and ".join(f"(x > {i} -> next x > {i - 1})" for i in range(30))
    automaton = law(f"always ({steps})")
    monitor = Monitor(automaton)
    falling = [5, 4.5, 3.5, 3, 1]
    assert [monitor.step({"x": x}).status for x in falling][-1] == "violated"
    with pytest.raises(SignalFault):
        monitor.advance(1)
    states = [
        sum((x > i) << k for k, i in enumerate(order(automaton))) for x in falling
    ]
    assert scan(automaton, np.array(states)).status == "violated"


def order(automaton: Automaton) -> list[int]:
    """The constant that each proposition compares x with."""
    return [int(repr(node).split("> ")[1]) for node in automaton.propositions]


def test_resetting_forgets_everything() -> None:
    monitor = Monitor(law("always (a -> eventually[0, 2 steps] b)"))
    for letter in (1, 0, 0, 1):
        monitor.advance(letter)
    monitor.reset()
    assert monitor.violations == [] and monitor.state == 0
    assert [monitor.advance(0).status for _ in range(3)] == ["ok"] * 3
