"""Inputs that are right in another form or place: each message must say which."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from forewarn import AgentGuard, Deferred, Guarding, load_model, load_watch, measure
from tests.forewarn.test_mistakes_again import said
from tests.forewarn.test_mistakes_in_python import refused
from tests.scenarios import learned

FILES = {
    "v.yaml": "format: forewarn.vocabulary/1\nname: v\nsignals:\n"
    "  doors: {type: enum, values: shut, opening, open}\n",
    "x.yaml": "format: forewarn.vocabulary/1\nname: v\nsignals:\n"
    "  doors:\n    type: enum\n    values: shut, open\n",
    "w.yaml": "format: forewarn.vocabulary/1\nname: v\nsignals:\n"
    "  speed: {type: number, range: 0, 5}\n",
    "drive.csv": "time_s,speed,braking\n0,40,false\n1,45,true\n",
    "a.yaml": "format: forewarn.abstraction/1\nname: a\nvocabulary: driving\n"
    "predicates: [speed > 5, braking]\n",
}
TRACE = """{"format": "forewarn.trace/1", "vocabulary": "driving", "period_s": 0.1,\
 "provides": ["speed", "braking"]}
{"sequence": 0, "time_s": 0.0, "signals": {"speed": 9, "braking": false}}
{"sequence": 1, "time_s": 0.1, "signals": {"speed": 9, "braking": true}}
"""
BACKUP = "always (tool == delete -> once (tool == backup and not failed))"


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {**FILES, "run.jsonl": TRACE}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "m.json").symlink_to(learned.model("tiny-road"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("check m.json --prop 'P=? [F<=5 inside(a, b) and collision]'",
         "an expression must be in double quotes (write \"inside(a, b) and "
         'collision")'),
        ("check m.json --prop 'P=? [F<=5 speed > 5 km/h]'",
         "column 11: unknown variable 'speed' (put the expression in double quotes, as "
         'in "speed > 1")'),
        ("monitor drive.csv --law 'always braking' --vocabulary x.yaml",
         "expected a list, found 'shut, open' (write [shut, open])"),
        ("learn run.jsonl --format states --abstraction a.yaml --out o.json",
         "run.jsonl: the file has the format forewarn.trace, but a file of state "
         "sequences is needed (leave out --format states)"),
        ("monitor drive.csv --law 'always (braking -> eventually[0, 2 s], speed < 1)'",
         "expected a signal or a number, found ',' (remove the ',')"),
        ("monitor drive.csv --law 'always (braking -> max(1, , 2) < speed)'",
         "found ',' (remove the ',')"),
        ("monitor drive.csv --law 'always braking' --vocabulary v.yaml",
         "v.yaml: line 4: 'opening' has no value (if it is in a list, write values: "
         "[shut, opening, open])"),
        ("monitor drive.csv --law 'always braking' --vocabulary w.yaml",
         "'5' has no value (if it is in a list, write range: [0, 5])"),
        ("learn run.jsonl --abstraction a.yaml --law stop_at_red --out o.json",
         "it is a law of the scenario tiny-road: write its formula, which `forewarn "
         "scenarios tiny-road` prints, or, with `learn`, give --scenario tiny-road"),
        ("run s3.yaml", "s3.yaml: no such file (write s3: this scenario is built in)"),
        ("run s3 --preset stop --unguarded",
         "--unguarded cannot be combined with --preset"),
        ("run s3 --unguarded --intervene stop",
         "--unguarded cannot be combined with --intervene"),
        ("run s3 --unguarded --log", "--unguarded cannot be combined with --log"),
        ("guard --stdio --model m.json --allow-remote",
         "--allow-remote requires --socket"),
        ("guard --stdio --model m.json --token-file m.json",
         "--token-file requires --socket"),
        ("run tiny-road --model m.json --webhook-host example.org",
         "--webhook-host requires --webhook"),
        ("run s3 --unguarded --tally t.json",
         "--unguarded cannot be combined with --tally"),
    ],
)  # fmt: skip
def test_the_message_says_which_form(line: str, message: str) -> None:
    assert message in said(line)


def test_a_forgotten_report_of_results_is_noted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    guard = AgentGuard.by_laws(BACKUP)
    guard.before("backup", {})
    assert not guard.before("delete", {}).passes
    assert (
        "call guard.after(failed=False) after each call that succeeds: until then, "
        "every call counts as failed" in caplog.text
    )
    caplog.clear()
    guard = AgentGuard.by_laws(BACKUP)
    guard.before("backup", {})
    guard.after(failed=True)
    assert not guard.before("delete", {}).passes
    assert not caplog.records
    assert caplog.handler.level <= logging.WARNING


def test_wrong_names_of_arguments_are_told() -> None:
    guard: Any = AgentGuard.by_laws(BACKUP)
    with pytest.raises(TypeError) as caught:
        guard.before("read", path="x")
    assert str(caught.value) == (
        "AgentGuard.before: there is no argument 'path' (arguments: The arguments of "
        'the call, as in {"path": "a.txt"})'
    )
    wrong: Any = measure
    with pytest.raises(TypeError, match=r"'scenaro' \(did you mean scenario\?\)"):
        wrong(scenaro="s3")


def test_a_class_in_place_of_an_approver_is_told() -> None:
    cls: Any = Deferred
    told = refused(lambda: Guarding.load(learned.model("tiny-road"), approver=cls))
    assert "found the class Deferred (write Deferred())" in told


def test_arguments_that_must_be_named_are_told() -> None:
    wrong: Any = load_watch
    with pytest.raises(TypeError, match=r"as in horizon_s=…"):
        wrong(load_model(learned.model("tiny-road")), 3)


def test_a_list_in_a_list_is_told() -> None:
    listeners: Any = [[print]]
    told = refused(
        lambda: Guarding.load(learned.model("tiny-road"), listeners=listeners)
    )
    assert (
        "listeners[0]: expected a function, found a list (give this list without "
        "brackets around it)"
    ) in told
