"""Conditions over now and the past."""

from __future__ import annotations

import pytest

from forewarn.abstractions.errors import InvalidExpression
from forewarn.monitors.rules.condition import Condition, parse_condition
from forewarn.monitors.rules.event import Event
from forewarn.monitors.rules.libraries import library
from forewarn.monitors.rules.predicates import Situation

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
def test_what_is_no_condition(text: str, said: str) -> None:
    with pytest.raises(InvalidExpression, match=said):
        parse_condition(text, HOUSEHOLD)
