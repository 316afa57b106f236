"""The guard language: what runs, what it says, what it refuses, what ends it."""

from __future__ import annotations

from typing import Any

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.programs.functions import STANDARD, Toolbox, function
from forewarn.monitors.programs.grammar import InvalidProgram
from forewarn.monitors.programs.language import Program
from forewarn.monitors.programs.running import MOST_STEPS, Outcome
from forewarn.monitors.programs.values import ProgramFault

TOOLS = Toolbox(STANDARD)


def _run(text: str, **inputs: Any) -> Outcome:
    return Program(text, TOOLS).run(inputs)


def _denies(condition: str, **inputs: Any) -> bool:
    outcome = _run(f'if {condition}:\n    deny("so")', **inputs)
    assert not outcome.fault, outcome.fault
    return outcome.answer == "deny"


SNOW = """\
cap = 30
if frame["snow"] > 0 and not frame["speed"] <= cap:
    slow("in snow at most 30 km/h", 30)
elif user["age"] < 18:
    ask("a child drives")
else:
    pass
"""


def test_a_program_that_says_nothing_lets_pass() -> None:
    outcome = _run(SNOW, frame={"snow": 0.0, "speed": 80}, user={"age": 40})
    assert outcome.answer == "allow" and outcome.label == 0
    assert outcome.reason == "" and outcome.as_dict()["decision"] == "allow"


def test_a_verdict_lists_the_comparisons_that_led_to_it() -> None:
    outcome = _run(SNOW, frame={"snow": 0.4, "speed": 45.5}, user={"age": 40})
    assert outcome.answer == "slow" and outcome.cap_kmh == 30
    assert outcome.explained() == [
        "slow: in snow at most 30 km/h",
        '  line 2: frame["snow"] > 0 (0.4, 0) is true',
        '  line 2: frame["speed"] <= cap (45.5, 30) is false',
    ]


def test_unrelated_tests_are_left_out_of_the_explanation() -> None:
    text = """\
if user["age"] > 90:
    pass
if user["role"] == "guest":
    deny("no guests")
"""
    outcome = _run(text, user={"age": 91, "role": "guest"})
    assert outcome.explained()[1:] == [
        "  line 3: user[\"role\"] == \"guest\" ('guest', 'guest') is true"
    ]


def test_all_verdicts_are_kept_and_the_severest_decides() -> None:
    text = 'ask("one")\ndeny("two", ["a"])\nreflect("three")\ndeny("four", ["b"])'
    outcome = _run(text)
    assert [v.kind for v in outcome.verdicts] == ["ask", "deny", "reflect", "deny"]
    assert outcome.answer == "deny" and outcome.reason == "two"


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("1 < 2 <= 2", True),
        ("1 < 2 < 2", False),
        ("True == 1", False),
        ("1 == 1.0", True),
        ("-3 < -2.5", True),
        ("None == 0", False),
        ('user["x"] is None', True),
        ('user["x"] is not None', False),
        ('"ab" in "cab"', True),
        ('"a" in ["b", "a"]', True),
        ('"a" not in {"a": 1}', False),
        ('["p", "q"][1] == "q"', True),
        ('Same("Living Room", "living_room")', True),
        ("Count([1, 2]) == 2", True),
        ("(1 > 2 or 2 > 1) and not 3 > 4", True),
    ],
)
def test_conditions_mean_what_they_say(condition: str, expected: bool) -> None:
    assert _denies(condition, user={"x": None}) is expected


def test_loops_go_through_what_is_there_and_calls_take_names() -> None:
    text = """\
for name in ["knife", "lighter"]:
    if name in action["arguments"]["objects"]:
        deny("not for children", details=[name])
pair, rest = [1, 2], {"a": name}
if CheckAccess(needed=needed, allowed={})[0]:
    reflect("nothing is granted")
"""
    outcome = _run(
        text, action={"arguments": {"objects": ["lighter"]}}, needed={"a": []}
    )
    assert [v.details for v in outcome.verdicts] == [("lighter",), None]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('if user["age"] < 18:\n    pass', "user has no value"),
        ('if frame["fog"] < 18:\n    pass', 'line 1: frame["fog"] does not exist'),
        ('if "a" < 18:\n    pass', "line 1 compares a text as if it were a number"),
        ("if None < 18:\n    pass", "line 1 compares nothing as if it were a number"),
        ("if [1] == [1]:\n    pass", "line 1 compares a list"),
        (
            "if 1:\n    pass",
            "line 1 uses a number as a condition; it must be true or false",
        ),
        (
            'if not "":\n    pass',
            "line 1 uses a text as a condition; it must be true or false",
        ),
        ("for x in 3:\n    pass", "line 1 loops over a number, which is not a list"),
        ("a, b = [1]", "expected 2 values, found a list"),
        (
            "if 1 in 2:\n    pass",
            "line 1 looks for a number in a number, which cannot contain it",
        ),
        ("x = Count(3)", "a number cannot be counted"),
        ('x = AllowedTo("a", "b")', "the table is a text, not a mapping"),
    ],
)
def test_a_program_that_fails_denies(text: str, why: str) -> None:
    outcome = _run(text, frame={})
    assert outcome.answer == "deny" and outcome.label == 1
    assert outcome.fault == why
    assert outcome.reason == f"the guard program cannot judge this action: {why}"


def test_a_function_that_fails_is_no_leave_to_pass() -> None:
    def broken(value: Any) -> Any:
        """It fails."""
        raise RuntimeError("secret")

    program = Program("x = Broken(1)", Toolbox([function(broken)]))
    outcome = program.run({})
    assert (
        outcome.answer == "deny"
        and outcome.fault == "a function failed with RuntimeError"
    )


def test_steps_are_counted_the_same_in_every_run() -> None:
    text = "for a in [1, 2, 3]:\n    for b in [1, 2]:\n        x = a == b"
    runs = {_run(text).steps for _ in range(3)}
    assert runs == {3 * 2 + 3 * 2 * 4 + 0 + 0}


def test_step_budget_ends_an_endless_program() -> None:
    loop = "".join(f"{' ' * i}for x{i} in {list(range(9))}:\n" for i in range(8))
    outcome = _run(f"{loop}{' ' * 8}pass")
    assert outcome.fault == f"the program takes more than {MOST_STEPS} steps"
    assert outcome.answer == "deny"


def test_lists_of_lists_of_lists_run_out_of_steps() -> None:
    text = "a = [1, 1]\n" + "a = [a, a]\n" * 40 + 'deny("x", a)'
    outcome = _run(text)
    assert "too large" in outcome.fault or "deep" in outcome.fault


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the program is empty"),
        ("import os", "line 1: an import is not part of this language"),
        ('user.age == 3\ndeny("a")', "line 1"),
        ("x = user.age", "line 1: a dot after a name is not part of this language"),
        (
            "x = [y for y in user]",
            "line 1: a comprehension is not part of this language",
        ),
        ("x = 1 + 1", "line 1: arithmetic is not part of this language"),
        ("x = f'{user}'", "line 1: a formatted string is not part of this language"),
        ("while True:\n    pass", "line 1: a while loop is not part of this language"),
        ("def f():\n    pass", "line 1: a definition of a function"),
        ("x = {**user}", "line 1: ** is not part of this language"),
        (
            "x = CheckAccess(*needed)",
            "line 1: an unpacking with * is not part of this language",
        ),
        ("x = user[1:2]", "line 1: a slice is not part of this language"),
        ("x = 1j", "line 1: complex is not a type of value in this language"),
        ("x = 9007199254740993", "line 1: the number is too large"),
        ("x = 1e999", "line 1: the number is too large"),
        ("_x = 1", "line 1: '_x' cannot be used as a name"),
        ("user[0] = 1", "line 1: only names can be assigned to"),
        (
            "CheckAccess = 1",
            "line 1: CheckAccess is a function and cannot be assigned to",
        ),
        (
            "x = deny",
            "line 1: deny is a function: it can be called, but not used as a value",
        ),
        ('x = deny("a")', "line 1: deny must be a separate statement"),
        ("x = open(1)", "line 1: the toolbox has no function open"),
        ("x = usr", "line 1: the name usr is not defined (did you mean user?)"),
        ("deny(log)", "line 1: deny needs a reason, written as text in the program"),
        (
            'deny("a", 1, 2)',
            "line 1: deny needs a reason, written as text in the program",
        ),
        ('slow("a")', "line 1: slow needs a reason and a speed in km/h"),
        ("x = Same(1)", "line 1: wrong arguments; call it as Same(one, other)"),
        ("x = Same(1, two=2)", "line 1: wrong arguments; call it as Same(one, other)"),
        ("x = 1 is 2", "line 1"),
        ("x = user is log", "line 1: `is` can only be used with None"),
        ('x = {"a": 1, "a": 2}', "line 1: the key 'a' appears twice"),
        ("ｘ = 1", "line 1: the name x contains characters other than plain letters"),
        ("x = 1 # \u202e", "the program contains invisible characters"),
        (
            "x = " + "[" * 30 + "]" * 30,
            "line 1: the program is nested more than 20 levels deep",
        ),
        ("x = 1\n" * 40_000, "the program is longer than 64000 characters"),
        ("x=1;" * 9_000, "the program has more than 8000 tokens"),
        ("x = (", "line 1: not valid Python syntax:"),
    ],
)
def test_unsupported_syntax_is_rejected_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Program(text, TOOLS)
    assert str(refused.value).startswith(problem)


def test_functions_and_inputs_of_a_program_are_listed() -> None:
    program = Program('if Same(user["role"], "guest"):\n    deny("no")', TOOLS)
    assert program.uses == ("Same",) and program.reads == ("user",)


def test_functions_are_described_for_authors_of_programs() -> None:
    lines = TOOLS.described()
    assert lines[0].startswith("CheckAccess(allowed, needed): Returns whether any")
    with pytest.raises(InvalidInput, match="has no description"):
        function(lambda x: x, "Silent")
    with pytest.raises(InvalidInput, match=("two functions named Same")):
        Toolbox([*STANDARD, *STANDARD[2:3]])


def test_a_program_is_refused_before_it_costs_anything() -> None:
    assert issubclass(InvalidProgram, InvalidInput)
    assert not issubclass(ProgramFault, InvalidInput)
