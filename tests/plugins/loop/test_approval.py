"""What a person's answer means."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.guarding.decision import Action, Decision
from forewarn.plugins.loop.approval import Answer, Console, read_answer

DECISION = Decision("ask", 1, 0.1, "metal", reason="metal is at risk")


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("a\n", Answer("approve")),
        (" approve ", Answer("approve")),
        ("r", Answer("reject")),
        ("", Answer("reject")),
        ("A", Answer("reject")),
        ("yes please", Answer("reject")),
        ('{"name": "wait"}', Answer("edit", Action("wait"))),
        (
            '{"name": "open", "arguments": {"object": "Door"}}',
            Answer("edit", Action("open", {"object": "Door"})),
        ),
        ('{"name": 3}', Answer("reject")),
        ('{"name": ""}', Answer("reject")),
        ('{"name": "open", "arguments": 3}', Answer("reject")),
        ('{"name": "open", "also": 3}', Answer("reject")),
        ('{"name": "open"', Answer("reject")),
        ('{"arguments": {}}', Answer("reject")),
    ],
)
def test_an_answer_is_read(line: str, answer: Answer) -> None:
    assert read_answer(line) == answer


@given(st.text())
def test_whatever_is_not_clear_rejects(line: str) -> None:
    answer = read_answer(line)
    assert answer.verdict != "approve" or line.strip() in ("a", "approve")


def test_an_answer_has_an_action_only_if_it_edits() -> None:
    with pytest.raises(InvalidInput):
        Answer("edit")
    with pytest.raises(InvalidInput):
        Answer("approve", Action("wait"))


def test_the_console_shows_the_question_and_nothing_that_commands_it() -> None:
    out = io.StringIO()
    console = Console(out, io.StringIO("a\n"))
    sly = Action("open\x1b[2J\u202e", {"object": "Stove\r\n\x1b[31mSYSTEM"})
    assert console.ask(DECISION, sly) == Answer("approve")
    shown = out.getvalue()
    assert shown.startswith("metal is at risk\nProposed: open")
    assert "\x1b" not in shown and "\r" not in shown and "\u202e" not in shown
    assert Console(out, io.StringIO("")).ask(DECISION, None) == Answer("reject")
