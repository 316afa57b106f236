"""Role tables become programs that deny exactly what is not granted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.programs.cases import details_of, read_cases, score
from forewarn.monitors.programs.compiling import compile_request
from forewarn.monitors.programs.functions import STANDARD, Toolbox
from forewarn.monitors.programs.language import Program
from forewarn.monitors.programs.request import (
    Access,
    access_program,
    read_request,
    role_table,
)
from forewarn.monitors.programs.running import Outcome

CLINIC = {
    "physician": {"lab": ["labname", "labresult"], "patient": ["uniquepid", "age"]},
    "general administration": {"patient": ["uniquepid"], "cost": []},
}


def _program(access: Access) -> Program:
    return Program(access_program(access), Toolbox(STANDARD))


def _judged(role: Any, needed: dict[str, Any], access: Access = CLINIC) -> Outcome:
    return _program(access).run({"user": {"role": role}, "needed": needed})


def test_every_shared_case_is_right_in_label_and_columns(shared_data: Path) -> None:
    roles = json.loads((shared_data / "guard" / "roles.json").read_text())
    program = _program(role_table(roles, "roles.json").roles)
    cases = list(read_cases(shared_data / "guard" / "access.jsonl", "access"))
    found = score(cases, lambda case: program.run(case.inputs)).as_dict()
    assert found["cases"] == len(cases) > 2000
    assert found["wrong"] == []
    assert found["label_accuracy"] == found["explanation_accuracy"] == 1.0


@pytest.mark.parametrize(
    ("role", "needed", "missing"),
    [
        ("physician", {"lab": ["labname"]}, {}),
        ("  PHYSICIAN ", {"Lab": ["LabName"]}, {}),
        ("General_Administration", {"patient": ["uniquepid"]}, {}),
        ("general  administration", {"patient": ["age"]}, {"patient": ("age",)}),
        ("physician", {"lab": []}, {}),
        ("physician", {"cost": []}, {"cost": ()}),
        ("physician", {"cost": ["cost"]}, {"cost": ("cost",)}),
        ("general administration", {"cost": ["cost"]}, {"cost": ("cost",)}),
        ("stranger", {"lab": ["labname"]}, {"lab": ("labname",)}),
        (None, {"lab": ["labname"]}, {"lab": ("labname",)}),
        ("physician", {"lab": "labname"}, {}),
        ("physician", {}, {}),
        (
            "general administration",
            {"lab": ["labname"], "patient": ["uniquepid", "age"]},
            {"lab": ("labname",), "patient": ("age",)},
        ),
    ],
)
def test_access_does_not_hang_on_spelling_and_unknown_roles_have_none(
    role: Any, needed: dict[str, Any], missing: dict[str, Any]
) -> None:
    outcome = _judged(role, needed)
    assert not outcome.fault
    assert outcome.label == int(bool(missing))
    assert (details_of(outcome) or {}) == missing


@pytest.mark.parametrize("needed", [{"lab": [3]}, {"lab": None}, {"lab": {"a": 1}}])
def test_needed_columns_that_are_no_list_are_denied(needed: dict[str, Any]) -> None:
    outcome = _judged("physician", needed)
    assert outcome.label == 1 and "not a list of names" in outcome.fault


_NAMES = st.text("abcXYZ éß\"'\\{}\n\u4e2d", min_size=1, max_size=6).filter(str.strip)
_ROWS = st.dictionaries(
    _NAMES.map(lambda n: n.strip().casefold()),
    st.lists(_NAMES, max_size=4),
    max_size=4,
)


@given(st.dictionaries(_NAMES.map(str.strip), _ROWS, max_size=3), _ROWS)
def test_any_table_denies_what_set_difference_says(
    access: Access, needed: dict[str, list[str]]
) -> None:
    def plain(name: str) -> str:
        return " ".join(name.casefold().split())

    for role, row in access.items():
        if sum(plain(role) == plain(other) for other in access) > 1:
            continue
        twins = {plain(database): columns for database, columns in row.items()}
        if len(twins) < len(row):
            continue
        outcome = _judged(role, needed, access)
        expected = {}
        for database, columns in needed.items():
            may = {plain(c) for c in twins.get(plain(database), [])}
            lacking = tuple(c for c in columns if plain(c) not in may)
            if lacking or plain(database) not in twins:
                expected[database] = lacking
        assert not outcome.fault
        assert outcome.label == int(bool(expected))
        assert (details_of(outcome) or {}) == expected


REQUEST = """\
# Who reads what in the clinic

| Role | Database | Columns |
|------|----------|---------|
| physician | lab | labname, `labresult` |
| physician | patient | uniquepid, age |
| General administration | patient | uniquepid |
| general administration | cost | |
"""


def test_a_table_in_a_request_compiles_to_the_same() -> None:
    text = compile_request(read_request(REQUEST, "request.md"), "request.md")
    program = Program(text, Toolbox(STANDARD))
    for role in ("physician", "general administration", "nobody"):
        needs: list[dict[str, list[str]]] = [
            {"lab": ["labresult"]}, {"cost": []}, {"patient": ["age"]},
        ]  # fmt: skip
        for needed in needs:
            found = program.run({"user": {"role": role}, "needed": needed})
            expected = _judged(role, needed)
            assert found.label == expected.label
            assert details_of(found) == details_of(expected)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"roles": {"a": {}, "A ": {}}}, "the role appears twice, as 'a' and 'A '"),
        ({"roles": {"a": {"x": [], "X": []}}}, "the database of a appears twice"),
        (
            {"roles": {"a": {"x": ["p"]}}, "databases": {"x": ["q"]}},
            "a is granted 'p', but x has no such column",
        ),
        (
            {"roles": {"a": {"y": []}}, "databases": {"x": []}},
            "a is granted the unknown database 'y'",
        ),
        ({"rolls": {}}, "unknown key 'rolls'"),
        ([], "expected a mapping"),
    ],
)
def test_a_role_table_that_contradicts_itself_is_refused(
    content: Any, problem: str
) -> None:
    with pytest.raises(InvalidInput, match="roles.json") as refused:
        role_table(content, "roles.json")
    assert problem in str(refused.value)
