"""Values and names of the wrong kind: each message must say what to write instead."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

import forewarn
from forewarn import Guarding
from forewarn.cli import main
from forewarn.monitors.rules.labelled import labelled_from
from forewarn.plugins import EpisodeClock
from tests.forewarn.test_mistakes_again import said
from tests.forewarn.test_mistakes_in_python import refused
from tests.scenarios import learned

HOUSEHOLD = {"verb": "put", "object": "Microwave", "success": True}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"success": "false"},
         "event 0, success: expected true or false, found 'false' (write true or false "
         "without quotes)"),
        ({"success": 0}, "event 0, success: expected true or false, found 0"),
        ({"object": ["Fork"]}, "event 0, object: expected text, found ['Fork']"),
        ({"signals": [1]}, "event 0, signals: expected a mapping, found [1]"),
    ],
)  # fmt: skip
def test_an_event_has_values_of_the_right_kind(
    changed: dict[str, Any], message: str
) -> None:
    row = {"id": "a", "domain": "household", "events": [HOUSEHOLD | changed]}
    assert message in refused(lambda: labelled_from(row))


def test_a_run_of_another_program_without_success_is_read() -> None:
    row = {"id": "a", "domain": "household", "events": [{"verb": "a", "success": None}]}
    assert labelled_from(row).events[1].succeeded is None


def test_a_function_is_needed_where_a_value_is_returned() -> None:
    guarding = Guarding.load(learned.model("tiny-road"))
    of_class: Any = EpisodeClock
    assert (
        "Guarding.guard: clock: expected a function that returns a number, found the "
        "class EpisodeClock (write EpisodeClock())"
    ) in refused(lambda: guarding.guard(clock=of_class))
    of_one: Any = lambda now: now  # noqa: E731
    assert (
        "clock: expected a function without arguments, found <lambda>(now)"
    ) in refused(lambda: guarding.guard(clock=of_one))
    guarding.guard(clock=EpisodeClock())


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("bash", "_FOREWARN_COMPLETE: expected bash_source, zsh_source or fish_source, "
         "found 'bash'"),
        ("csh_source", "found 'csh_source'"),
        ("bash_sources", "found 'bash_sources'"),
    ],
)  # fmt: skip
def test_an_unknown_instruction_for_completion_is_reported(
    instruction: str, message: str
) -> None:
    done = CliRunner(env={"_FOREWARN_COMPLETE": instruction}).invoke(main, [])
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--install-completion bash",
         'add eval "$(_FOREWARN_COMPLETE=bash_source forewarn)" to ~/.bashrc'),
        ("completion bash", "see docs/shell.md"),
        ("learn tiny-road --out m.json",
         "tiny-road: this is a scenario, not a file (record its runs with `forewarn "
         "collect tiny-road`)"),
        ("monitor tiny-road --law no_collision", "tiny-road: this is a scenario"),
        ("replay tiny-road", "tiny-road: this is a scenario"),
    ],
)  # fmt: skip
def test_the_message_says_what_to_write(line: str, message: str) -> None:
    assert message in said(line)


def test_learn_takes_a_scenario_by_name() -> None:
    assert (
        "traces: tiny-road: this is a scenario, not a trace (write "
        "scenario='tiny-road')"
    ) in refused(lambda: forewarn.learn("tiny-road", runs=20))
