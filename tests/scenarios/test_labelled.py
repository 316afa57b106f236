"""Labelled traces that ship."""

from __future__ import annotations

import gzip
from pathlib import Path

from forewarn.monitors.rules.code_program import parsed
from forewarn.monitors.rules.libraries import library
from forewarn.monitors.rules.rule import expert_rules
from forewarn.monitors.rules.scoring import score
from forewarn.scenarios.labelled import labelled_traces
from forewarn.scenarios.labelled.programs import SHIPPED, write


def test_programs_come_out_again(tmp_path: Path) -> None:
    write(tmp_path / "code.jsonl.gz")
    again = gzip.decompress((tmp_path / "code.jsonl.gz").read_bytes())
    assert again == gzip.decompress(SHIPPED.read_bytes())


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
