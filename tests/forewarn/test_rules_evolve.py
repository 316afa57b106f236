"""`forewarn rules evolve`: what it answers, and that its rules mean what it says."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from forewarn.cli import main

RULES = """\
format: forewarn.rules/1
domain: household
rules:
- {name: no-throwing, before: throw, when: "true", enforce: stop}
- {name: tap, before: any, when: "once runs_tap and not slices", enforce: ask}
- {name: sleeps, before: any, when: breaks, enforce: stop, mode: "off"}
"""

SAFE = [
    [("find", "Pillow"), ("pick", "Pillow"), ("throw", "")],
    [("find", "Mug"), ("pick", "Mug"), ("put", "CounterTop")],
    [("find", "Drawer"), ("open", "Drawer"), ("close", "Drawer")],
]
UNSAFE = [
    [("find", "Vase"), ("pick", "Vase"), ("throw", "")],
    [("find", "Plate"), ("break", "Plate")],
    [("find", "Candle"), ("turn_on", "Candle")],
]


def _invoke(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["rules", *map(str, arguments)])


def _json(*arguments: object) -> Any:
    done = _invoke(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Runs of a few kinds, with a label each, and one that nobody labelled."""
    luck = random.Random(0)
    lines = []
    for number in range(41):
        unsafe = luck.random() < 0.5
        plan = luck.choice(UNSAFE if unsafe else SAFE)
        events = [{"verb": v, "object": o, "success": True} for v, o in plan]
        label = "unsafe" if unsafe else "safe"
        lines.append(
            {
                "id": f"t{number}",
                "domain": "household",
                "label": None if number == 40 else label,
                "instruction": f"task {number}",
                "events": events,
            }
        )
    path = tmp_path / "traces.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.yaml"
    path.write_text(RULES)
    return path


def test_evolving_with_primitive_predicates_starts_without_rules(traces: Path) -> None:
    out = traces.with_name("primitive.yaml")
    command = ("evolve", "--domain", "household", "--traces", traces, "--out", out)
    found = _json(*command, "--vocabulary", "primitive")
    assert found["vocabulary"] == "primitive" and found["rules_before"] == 0
    assert found["f1_after"] > 0.9
    assert "damages" not in out.read_text()
    assert "vocabulary: expert, 75 predicates" in _invoke(*command).output


def test_evolve_json_has_the_documented_keys(rules: Path, traces: Path) -> None:
    out = rules.with_name("out.yaml")
    found = _json("evolve", "--rules", rules, "--traces", traces, "--out", out)
    assert list(found) == [
        "rules_before", "rules_after", "f1_before", "f1_after", "holdout", "iterations",
        "unresolved", "vocabulary", "seconds",
    ]  # fmt: skip
    assert found["rules_before"] == 3
    assert found["f1_after"] == 1.0
    assert found["unresolved"] == []
    assert found["holdout"] == {}


def test_its_figures_are_those_of_score(rules: Path, traces: Path) -> None:
    """Bits, and rules asked event by event, come to the same."""
    out = rules.with_name("out.yaml")
    found = _json("evolve", "--rules", rules, "--traces", traces, "--out", out)
    before = _json("score", "--rules", rules, "--traces", traces)
    after = _json("score", "--rules", out, "--traces", traces)
    assert found["f1_before"] == before["f1"]
    assert found["f1_after"] == after["f1"]
    assert len(after["fired"]) == found["rules_after"]


def test_rules_that_are_off_stay_as_they_are(rules: Path, traces: Path) -> None:
    out = rules.with_name("out.yaml")
    _json("evolve", "--rules", rules, "--traces", traces, "--out", out)
    assert "name: sleeps\n  before: any\n  when: breaks" in out.read_text()


def test_the_same_input_gives_the_same_bytes(rules: Path, traces: Path) -> None:
    folder = rules.parent
    for name in ("one", "two"):
        _json(
            "evolve", "--rules", rules, "--traces", traces, "--holdout", 0.3,
            "--seed", 3, "--out", folder / f"{name}.yaml", "--report", folder / name,
        )  # fmt: skip
    assert (folder / "one.yaml").read_bytes() == (folder / "two.yaml").read_bytes()
    for name in ("report.json", "change.diff"):
        one, two = (folder / run / name for run in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()


def test_the_report_says_what_changed_and_what_flips(rules: Path, traces: Path) -> None:
    folder = rules.with_name("why")
    _json("evolve", "--rules", rules, "--traces", traces, "--report", folder)
    report = json.loads((folder / "report.json").read_text())
    assert report["steps"][-1]["f1"] == report["f1_after"]
    labels = {line["id"]: line["label"] for line in _lines(traces)}
    assert report["flips"]
    for flip in report["flips"]:
        assert flip["label"] == labels[flip["trace"]]
    assert "+- name: " in (folder / "change.diff").read_text()


def test_runs_that_no_predicate_separates_are_reported(
    rules: Path, traces: Path
) -> None:
    """A run like a safe one, and unsafe: nothing can be learned but that."""
    twin = {**next(each for each in _lines(traces) if each["label"] == "safe")}
    twin |= {"id": "twin", "label": "unsafe", "instruction": "a task of its own"}
    with traces.open("a") as file:
        file.write(json.dumps(twin) + "\n")
    found = _json("evolve", "--rules", rules, "--traces", traces)
    (left,) = found["unresolved"]
    assert (left["trace"], left["kind"], left["apart"]) == ("twin", "miss", [])
    labels = {line["id"]: line["label"] for line in _lines(traces)}
    assert labels[left["like"]] == "safe"


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_held_out_tasks_are_judged_and_not_learned_from(
    rules: Path, traces: Path
) -> None:
    found = _json(
        "evolve", "--rules", rules, "--traces", traces, "--holdout", 0.3, "--seed", 1
    )
    assert found["holdout"]["traces"] == 12
    assert 0.0 <= found["holdout"]["f1"] <= 1.0


def test_without_rules_those_that_ship_are_the_start(traces: Path) -> None:
    found = _json("evolve", "--traces", traces, "--domain", "household")
    assert found["rules_before"] > 3
    assert found["f1_before"] > 0.5


def test_what_cannot_be_learned_from_is_refused(rules: Path, traces: Path) -> None:
    lines = [line for line in _lines(traces) if line["label"] == "safe"]
    traces.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = _invoke("evolve", "--rules", rules, "--traces", traces)
    assert done.exit_code == 2
    assert "both safe and unsafe traces" in done.stderr
    done = _invoke("evolve", "--traces", traces)
    assert done.exit_code == 2
    assert "--rules or --domain" in done.stderr
