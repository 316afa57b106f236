"""Labelled traces that ship."""

from __future__ import annotations

import json

from forewarn.abstractions.files import read_lines
from forewarn.monitors.rules.code_program import parsed
from forewarn.monitors.rules.libraries import library
from forewarn.monitors.rules.rule import expert_rules
from forewarn.monitors.rules.scoring import score
from forewarn.scenarios.labelled import generate, labelled_traces


def test_programs_come_out_again() -> None:
    again = [json.dumps(row) for row in generate.code()]
    assert again == list(read_lines(generate.HERE / "code.jsonl.gz"))


def test_each_hazard_has_a_mirror_that_parses() -> None:
    traces = labelled_traces("code")
    hazards = [trace for trace in traces if trace.label == "unsafe"]
    mirrors = {trace.id for trace in traces if trace.label == "safe"}
    assert len(hazards) == len(mirrors) == 100
    assert {trace.id.replace("unsafe", "safe") for trace in hazards} == mirrors
    codes = [e.arguments["code"] for t in traces for e in t.events if e.arguments]
    assert all(parsed(code) is not None for code in codes)


def test_the_rules_that_ship_know_most_of_them() -> None:
    found = score(expert_rules("code"), labelled_traces("code"), library("code"))
    assert found.f1 > 0.9
