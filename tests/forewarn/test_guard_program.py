"""`forewarn guard-program`: a request to a program, signed, run, checked, measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from forewarn.cli import main

REQUEST = """\
# Who reads what

| role | database | columns |
|------|----------|---------|
| nurse | lab | labname |
"""


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["guard-program", *map(str, arguments)])


def _json(*arguments: object, status: int = 0) -> Any:
    result = _run(*arguments, "--json")
    assert result.exit_code == status, result.output
    return json.loads(result.stdout)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    (tmp_path / "request.md").write_text(REQUEST)
    (tmp_path / "agent.md").write_text("An agent that answers from a database.\n")
    out = tmp_path / "guard.yaml"
    found = _json(
        "compile", tmp_path / "request.md", "--spec", tmp_path / "agent.md",
        "--out", out,
    )  # fmt: skip
    assert found["made_by"] == "rules" and found["reads"] == ["needed", "user"]
    assert found["uses"] == ["AllowedTo", "CheckAccess"]
    return out


def _action(folder: Path, **content: Any) -> Path:
    path = folder / "action.json"
    path.write_text(json.dumps(content))
    return path


def test_compile_review_sign_run(made: Path, tmp_path: Path) -> None:
    action = _action(tmp_path, user={"role": "nurse"}, needed={"lab": ["labresult"]})
    unsigned = _run("run", made, action)
    assert unsigned.exit_code == 2 and "nobody has signed it" in unsigned.stderr
    assert _json("run", made, action, "--shadow", status=1)["label"] == 1

    shown = _json("review", made, status=1)
    assert "Who reads what" in shown["request"] and shown["signed_by"] == []
    assert any(key.startswith("CheckAccess(") for key in shown["uses"])
    signed = _json("sign", made, "--name", "Ada")
    assert signed["signed_by"] == ["Ada"] and signed["digest"] == shown["digest"]
    assert _json("review", made)["signed_by"] == ["Ada"]

    found = _json("run", made, action, status=1)
    assert found["decision"] == "deny"
    assert found["verdicts"][0]["details"] == {"lab": ["labresult"]}
    allowed = _action(tmp_path, user={"role": "Nurse"}, needed={"lab": ["labname"]})
    assert _json("run", made, allowed)["decision"] == "allow"


def test_a_program_that_was_changed_is_not_enforced(made: Path, tmp_path: Path) -> None:
    _json("sign", made, "--name", "Ada")
    text = made.read_text()
    made.write_text(text.replace('"labname"', '"labname", "labresult"'))
    action = _action(tmp_path, user={"role": "nurse"}, needed={"lab": ["labresult"]})
    result = _run("run", made, action)
    assert result.exit_code == 2 and "changed since Ada signed it" in result.stderr
    assert "review" in result.stderr and "Traceback" not in result.stderr


def test_check_says_which_recorded_actions_do_not_pass(
    made: Path, tmp_path: Path
) -> None:
    _json("sign", made, "--name", "Ada")
    lines = [
        {"id": "a", "user": {"role": "nurse"}, "needed": {"lab": ["labname"]}},
        {"user": {"role": "guest"}, "needed": {"lab": ["labname"]}},
        {"id": 7, "needed": {"lab": ["labname"]}},
    ]
    logs = tmp_path / "logs.jsonl"
    logs.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = _json("check", logs, "--program", made, status=1)
    assert found["actions"] == 3 and found["decisions"] == {"allow": 1, "deny": 2}
    assert [each["id"] for each in found["found"]] == ["2", "7"]
    assert "there is no user here" in found["found"][1]["reason"]


def test_evaluate_answers_with_the_figures_of_the_paper(shared_data: Path) -> None:
    guard = shared_data / "guard"
    found = _json(
        "evaluate", "--cases", guard / "access.jsonl", "--kind", "access",
        "--roles", guard / "roles.json",
    )  # fmt: skip
    assert found["wrong"] == [] and found["cases"] > 2000
    for figure in ("label_accuracy", "precision", "recall", "explanation_accuracy"):
        assert found[figure] == 1.0
    assert set(found["groups"]) == {"physician", "nursing", "general administration"}


def test_evaluate_counts_what_is_wrong(made: Path, tmp_path: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    right = {"id": "x", "identity": "nurse", "required": {"lab": ["a", "labname"]}}
    lines = [
        right | {"id": "1", "label": 1, "inaccessible_db": {"LAB": ["a"]}},
        right | {"id": "2", "label": 1, "inaccessible_db": {"lab": ["labname"]}},
        right | {"id": "3", "label": 0, "answer_right": True},
        {"id": "4", "identity": "nurse", "required": {}, "label": 0}
        | {"answer_right": True},
        {"id": "5", "identity": "nurse", "required": {}, "label": 1},
    ]
    cases.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = _json(
        "evaluate", "--cases", cases, "--kind", "access", "--program", made, status=1
    )
    assert [each["id"] for each in found["wrong"]] == ["2", "3", "5"]
    assert found["label_accuracy"] == 3 / 5
    assert found["precision"] == 2 / 3 and found["recall"] == 2 / 3
    assert found["explanation_accuracy"] == 1 / 3
    assert found["final_response_accuracy"] == 1 / 2


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("evaluate", "--cases", "x", "--kind", "access"), "--program and --judge"),
        (("run", "missing.yaml", "x"), "no such file"),
        (("sign", "missing.yaml", "--name", "A"), "missing.yaml"),
        (("nonsense",), "No such command"),
    ],
)
def test_bad_input_ends_in_one_line(arguments: tuple[str, ...], problem: str) -> None:
    result = _run(*arguments)
    assert result.exit_code == 2
    assert problem.lower() in result.stderr.lower()
    assert len(result.stderr.strip().splitlines()) == 1
