"""A person's word on a run becomes a label."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action, Decision
from forewarn.monitors.guarding.record import RunRecord
from forewarn.monitors.rules.labelled import read_labelled
from forewarn.monitors.rules.libraries import library
from forewarn.monitors.rules.marking import answered, keep, marked_run, marked_trace
from forewarn.monitors.rules.rule import rules_from
from forewarn.monitors.rules.scoring import score

STEPS = [
    ("fill_liquid", {"object": "Mug", "liquid": "wine"}),
    ("pick", {"object": "Mug"}),
    ("find", {"object": "Laptop"}),
    ("pour", {}),
    ("finish", {}),
]


def recorded(path: Path, vocabulary: str = "household", asked: str = "") -> Path:
    """A run in which everything succeeds; before pouring a person may be asked."""
    header = {"vocabulary": vocabulary, "scenario": {"name": "a spill"}}
    with RunRecord(path, header) as record:
        last = None
        for index, (name, arguments) in enumerate(STEPS):
            values = {"last_action": last, "last_action_succeeded": last and True}
            frame = Frame(float(index), index, {**values, "odd": float("nan")})
            decision = Decision("proceed", index, float(index))
            record.reviewed(frame, Action(name, arguments), decision, ())
            if name == "pour" and asked:
                note = f"a person said: {asked}"
                record.event("carried_out", sequence=index, kind="ask", notes=[note])
            last = name
    return path


def test_a_marked_run_is_a_trace_that_rules_read(tmp_path: Path) -> None:
    run, out = recorded(tmp_path / "a.run.jsonl"), tmp_path / "labels.jsonl"
    assert keep(out, [marked_run(run, "miss", "wine on it")]) == 1
    (trace,) = read_labelled(out)
    assert (trace.label, trace.domain, trace.task) == ("unsafe", "household", "a spill")
    assert trace.basis == "marked miss: wine on it"
    acts = [(e.action, e.succeeded) for e in trace.events if e.moment == "after"]
    assert acts == [(name, True) for name, _ in STEPS[:-1]]
    rules = rules_from(
        "format: forewarn.rules/1\ndomain: household\n"
        "rules: [{name: a, before: pour, when: spills_on_electrical}]",
        "r.yaml",
    )
    assert score(rules, [trace], library("household")).recall == 1.0


def test_a_new_label_replaces_the_earlier_one(tmp_path: Path) -> None:
    run, out = recorded(tmp_path / "a.run.jsonl"), tmp_path / "labels.jsonl"
    keep(out, [marked_run(run, "miss")])
    other = recorded(tmp_path / "b.run.jsonl")
    assert keep(out, [marked_run(other, "safe")]) == 2
    assert keep(out, [marked_run(run, "false-alarm")]) == 2
    assert [trace.label for trace in read_labelled(out)] == ["safe", "safe"]
    found = marked_trace(out, "a.run", "unsafe")
    assert found["label"] == "unsafe" and found["events"]
    with pytest.raises(InvalidInput, match="did you mean a.run"):
        marked_trace(out, "a.ru", "safe")


@pytest.mark.parametrize(("said", "label"), [("approve", "safe"), ("reject", "unsafe")])
def test_an_answer_is_a_label_up_to_there(
    tmp_path: Path, said: str, label: str
) -> None:
    run = recorded(tmp_path / "a.run.jsonl", asked=said)
    (row,) = answered(run)
    assert (row["id"], row["label"]) == ("a.run#3", label)
    assert [event["verb"] for event in row["events"]] == [n for n, _ in STEPS[:4]]
    assert answered(recorded(tmp_path / "b.run.jsonl", asked="edit")) == []


def test_run_that_cannot_become_a_trace_is_rejected(tmp_path: Path) -> None:
    run = recorded(tmp_path / "a.run.jsonl", vocabulary="mine")
    with pytest.raises(InvalidInput, match="vocabulary 'mine'"):
        marked_run(run, "miss")


def test_labels_are_plain_json(tmp_path: Path) -> None:
    run, out = recorded(tmp_path / "a.run.jsonl"), tmp_path / "labels.jsonl"
    keep(out, [marked_run(run, "miss")])
    row = json.loads(out.read_text())
    assert "odd" not in row["events"][0]["signals"]
