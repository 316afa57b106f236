"""`forewarn rules`: the shapes that it promises."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from forewarn.cli import main

RULES = """
format: forewarn.rules/1
domain: household
rules:
- {name: no-throwing, before: throw, when: throws_hard}
- {name: never, before: put, when: puts and not puts}
"""
UPSTREAM = """
rule @hot
trigger
    turn on
check
    is_candle & never_heard_of
enforce
    stop
end
rule @no_trigger
check true
enforce stop
end
"""


def _run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["rules", *map(str, arguments)])


def _json(*arguments: str | Path, status: int = 0) -> Any:
    result = _run(*arguments, "--json")
    assert result.exit_code == status, result.output
    return json.loads(result.stdout)


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.yaml"
    path.write_text(RULES)
    return path


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    path = tmp_path / "traces.jsonl"
    throw = [{"verb": "pick", "object": "Mug", "success": True}, {"verb": "throw"}]
    rows = [
        {"id": "a", "domain": "embodied", "label": "unsafe", "events": throw},
        {"id": "b", "domain": "embodied", "label": "safe", "events": throw[:1]},
        {"id": "c", "domain": "household", "label": None, "events": throw},
        {"id": "d", "domain": "code", "label": "safe", "events": []},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_score_has_exactly_this_shape(rules: Path, traces: Path) -> None:
    found = _json("score", "--rules", rules, "--traces", traces, "--domain", "embodied")
    assert found == {
        "traces": 3,
        "unsafe": 1,
        "safe": 1,
        "precision": 1.0,
        "recall": 1.0,
        "f1": 1.0,
        "fired": {"no-throwing": 2, "never": 0},
    }
    assert "F1 1.000" in _run("score", "--rules", rules, "--traces", traces).output


def test_an_import_has_exactly_this_shape(tmp_path: Path) -> None:
    source, out = tmp_path / "mine.ar", tmp_path / "out.yaml"
    source.write_text(UPSTREAM)
    found = _json("import", source, "--out", out)
    assert found == {
        "files": 1,
        "rules": 1,
        "runnable": 0,
        "needs": [{"rule": "hot", "predicate": "never_heard_of"}],
        "unread": [
            {
                "file": str(source),
                "line": 10,
                "problem": "rule no_trigger has no trigger "
                "(add `trigger any` after the name)",
            }
        ],
    }
    module = tmp_path / "mine.py"
    module.write_text("def never_heard_of(user, text, steps):\n    return True\n")
    assert _json("import", source, "--out", out, "--module", module)["runnable"]


def test_lint_reports_its_findings(rules: Path) -> None:
    found = _json("lint", rules, status=1)
    assert found["rules"] == 2
    ((finding),) = found["findings"]
    assert (finding["rule"], finding["problem"]) == ("never", "never")


def test_marks_are_added_to_a_file(traces: Path, tmp_path: Path) -> None:
    out = tmp_path / "labels.jsonl"
    found = _json("mark", traces, "--trace", "c", "--as", "miss", "--out", out)
    assert found == {
        "marked": [{"id": "c", "label": "unsafe"}], "out": str(out), "traces": 1,
    }  # fmt: skip
    assert _run("mark", traces, "--out", out).exit_code == 2


def test_a_change_is_accepted_and_undone(rules: Path, tmp_path: Path) -> None:
    proposed = tmp_path / "proposed.yaml"
    proposed.write_text(RULES.replace("puts and not puts", "misplaces"))
    first = _json("accept", rules, proposed)
    assert (first["stage"], first["version"], first["before"]) == ("shadow", 2, 1)
    assert _json("accept", rules, "--enforce")["stage"] == "enforced"
    assert _json("rollback", rules, "--to", "1")["version"] == 1
    assert rules.read_text() == RULES
    assert _run("accept", rules).exit_code == 2


def test_what_runs_are_marked_for_is_prevented_once_it_is_enforced(
    rules: Path, tmp_path: Path
) -> None:
    """The whole life of a rule, on runs of one scenario."""

    def broken(out: Path) -> dict[Path, bool]:
        arguments = ["run", "fork-in-microwave", "--no-model", "--rules", str(rules)]
        arguments += ["--episodes", "12", "--seed", "100", "--out", str(out), "--json"]
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 0, done.output
        episodes = json.loads(done.stdout)["episodes"]
        return {Path(each["record"]): bool(each["violations"]) for each in episodes}

    labels, proposed = tmp_path / "labels.jsonl", tmp_path / "proposed.yaml"
    before = broken(tmp_path / "before")
    assert any(before.values())
    for record, was_broken in before.items():
        wrong = "miss" if was_broken else "false-alarm"
        _json("mark", record, "--as", wrong, "--out", labels)
    found = _json("evolve", "--rules", rules, "--traces", labels, "--out", proposed)
    assert found["f1_after"] == 1.0
    _json("accept", rules, proposed)
    assert sum(broken(tmp_path / "shadow").values()) == sum(before.values())
    _json("accept", rules, "--enforce")
    assert not any(broken(tmp_path / "enforced").values())
    assert _json("rollback", rules)["version"] == 2


def test_predicates_are_listed_with_their_sentences() -> None:
    found = _json("predicates", "household")
    assert found["predicates"]["throws"] == "The robot is about to throw what it holds."
    assert "object" in found["fields"]
    done = _run("predicates", "houshold")
    assert done.exit_code == 2 and "did you mean household" in done.stderr


def test_missing_file_is_reported_in_one_line(tmp_path: Path) -> None:
    done = _run("lint", tmp_path / "none.yaml")
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1 and "none.yaml" in done.stderr


def test_rules_and_predicates_on_the_page_are_valid(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "rules.md"
    blocks = re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.M | re.S)
    rules, predicates = tmp_path / "rules.yaml", tmp_path / "predicates.yaml"
    rules.write_text(blocks[0])
    predicates.write_text(next(b for b in blocks if "forewarn.predicates/1" in b))
    assert _json("lint", rules)["findings"] == []
    assert (
        "tailgates"
        in _json("predicates", "driving", "--predicates", predicates)["predicates"]
    )


def test_drives_without_weather_are_scored_and_learned_from(tmp_path: Path) -> None:
    """What no trace carries is said once, on the side, and stops nothing."""
    path = tmp_path / "drives.jsonl"
    rows = [
        {
            "id": f"d{i}",
            "domain": "driving",
            "label": "unsafe" if i % 2 else "safe",
            "events": [{"time_s": 0.0, "signals": {"speed": 20.0 + 40.0 * (i % 2)}}],
        }
        for i in range(12)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    rules = tmp_path / "rules.yaml"
    rules.write_text(
        "format: forewarn.rules/1\ndomain: driving\nrules:\n"
        "- {name: slow-in-snow, tick: any, when: snow > 0 and fast}\n"
    )
    for command in ("score", "evolve"):
        done = _run(command, "--rules", rules, "--traces", path, "--json")
        assert done.exit_code == 0, done.output
        assert "snow" in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert json.loads(done.stdout)["f1_after"] == 1.0
