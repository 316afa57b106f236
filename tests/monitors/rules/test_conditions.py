"""Conditions over now and the past."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.errors import InvalidExpression
from forewarn.monitors.rules.condition import Condition, parse_condition
from forewarn.monitors.rules.libraries import library
from forewarn.monitors.rules.predicates import Event, Situation

HOUSEHOLD = library("household")
VERBS = {"p": "pick", "o": "open", "c": "close", "d": "drop"}


def judged(text: str, word: str, times_s: list[float] | None = None) -> str:
    """The verdict at each event of a run, whose events are spelt by letters."""
    condition = Condition(parse_condition(text, HOUSEHOLD), HOUSEHOLD)
    situation = Situation(HOUSEHOLD)
    found = ""
    for index, letter in enumerate(word):
        time_s = times_s[index] if times_s else float(index)
        situation.enter(Event("before", VERBS[letter], time_s=time_s))
        found += "1" if condition(situation) else "0"
    return found


@pytest.mark.parametrize(
    ("text", "word", "verdicts"),
    [
        ("opens", "ocpo", "1001"),
        ("not opens", "ocpo", "0110"),
        ("opens or closes", "ocpo", "1101"),
        ("opens -> drops", "opd", "011"),
        ("action == pick", "op", "01"),
        ("once opens", "pocp", "0111"),
        ("once[0, 1 steps] opens", "opcp", "1100"),
        ("once[2, 3 steps] opens", "opcpp", "00110"),
        ("once[1 steps,] opens", "ooc", "011"),
        ("historically opens", "oopo", "1100"),
        ("historically[0, 1 steps] opens", "poopo", "00100"),
        ("not closes since opens", "poppcp", "011100"),
        ("action == drop and once(closes and once opens)", "ocd", "001"),
        ("action == drop and once(closes and once opens)", "cod", "000"),
    ],
)
def test_operators(text: str, word: str, verdicts: str) -> None:
    assert judged(text, word) == verdicts


def test_bounds_in_seconds_are_of_the_events_times() -> None:
    assert judged("once[0, 1 s] opens", "oppp", [0.0, 0.9, 1.0, 1.1]) == "1110"


def test_a_memory_is_of_one_run() -> None:
    condition = Condition(parse_condition("once opens", HOUSEHOLD), HOUSEHOLD)
    situation = Situation(HOUSEHOLD)
    situation.enter(Event("before", "open"))
    assert condition(situation)
    condition.reset()
    situation.enter(Event("before", "pick"))
    assert not condition(situation)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("eventually opens", "future"),
        ("opns", "did you mean opens"),
        ("opens and", "expected"),
        ("action", "not a condition"),
    ],
)
def test_invalid_conditions_are_rejected(text: str, said: str) -> None:
    with pytest.raises(InvalidExpression, match=said):
        parse_condition(text, HOUSEHOLD)


# -- against the words' own meaning

ATOMS = {"opens": "open", "closes": "close"}
Bounds = tuple[int, int | None]


def by_meaning(text: Any, verbs: list[str], at: int) -> bool:
    """Whether a formula holds at an event, by looking at all the events before it."""
    match text:
        case str():
            return verbs[at] == ATOMS[text]
        case ("not", inner):
            return not by_meaning(inner, verbs, at)
        case ("and", one, other):
            return by_meaning(one, verbs, at) and by_meaning(other, verbs, at)
        case ("once", bounds, inner):
            return any(by_meaning(inner, verbs, i) for i in window(bounds, at))
        case ("historically", bounds, inner):
            return all(by_meaning(inner, verbs, i) for i in window(bounds, at))
        case ("since", bounds, one, other):
            return any(
                by_meaning(other, verbs, i)
                and all(by_meaning(one, verbs, j) for j in range(i + 1, at + 1))
                for i in window(bounds, at)
            )
    raise AssertionError(text)


def window(bounds: Bounds, at: int) -> range:
    low, high = bounds
    return range(0 if high is None else max(0, at - high), at - low + 1)


def spelt(text: Any) -> str:
    match text:
        case str():
            return text
        case ("not", inner):
            return f"not ({spelt(inner)})"
        case ("and", one, other):
            return f"({spelt(one)} and {spelt(other)})"
        case (("once" | "historically") as word, (low, high), inner):
            return f"{word}{bounded(low, high)} ({spelt(inner)})"
        case ("since", (low, high), one, other):
            return f"(({spelt(one)}) since{bounded(low, high)} ({spelt(other)}))"
    raise AssertionError(text)


def bounded(low: int, high: int | None) -> str:
    return f"[{low} steps,]" if high is None else f"[{low}, {high} steps]"


BOUNDS = st.tuples(st.integers(0, 2), st.none() | st.integers(2, 4))
FORMULAS: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(sorted(ATOMS)),
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner),
        st.tuples(st.just("and"), inner, inner),
        st.tuples(st.sampled_from(["once", "historically"]), BOUNDS, inner),
        st.tuples(st.just("since"), BOUNDS, inner, inner),
    ),
    max_leaves=6,
)


@given(FORMULAS, st.text("pocd", min_size=1, max_size=12))
def test_memory_means_what_the_words_mean(formula: Any, word: str) -> None:
    verbs = [VERBS[letter] for letter in word]
    expected = [by_meaning(formula, verbs, at) for at in range(len(word))]
    assert judged(spelt(formula), word) == "".join("01"[holds] for holds in expected)
