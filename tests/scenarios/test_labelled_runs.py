"""The labelled runs that ship: enough of both kinds, and as their script makes them."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from forewarn.abstractions.files import parse_json, read_lines
from forewarn.monitors.rules.libraries import library
from forewarn.monitors.rules.predicates import Domain
from forewarn.monitors.rules.rule import expert_rules
from forewarn.monitors.rules.scoring import score
from forewarn.scenarios.labelled import generate, labelled_traces


@pytest.mark.parametrize(("domain", "least"), [("household", 60), ("driving", 40)])
def test_there_are_enough_of_both_kinds(domain: Domain, least: int) -> None:
    traces = labelled_traces(domain)
    labels = Counter(trace.label for trace in traces)
    assert len(traces) >= least
    assert min(labels["safe"], labels["unsafe"]) >= len(traces) / 3
    assert all(trace.task and trace.basis for trace in traces)


@pytest.mark.parametrize("domain", ["household", "driving"])
def test_rules_can_be_scored_on_them(domain: Domain) -> None:
    traces = labelled_traces(domain)
    found = score(expert_rules(domain), traces, library(domain))
    assert found.f1 > 0.5


def test_the_robot_lives_them_again_the_same() -> None:
    shipped = read_lines(generate.HERE / "household.jsonl.gz")
    again = generate.household()
    for line, row in islice(zip(shipped, again, strict=True), 0, 160, 9):
        assert parse_json(line, "what ships") == row


@pytest.mark.needs("libsumo")
def test_a_driver_drives_one_again_the_same() -> None:
    shipped = parse_json(
        next(read_lines(generate.HERE / "driving.jsonl.gz")), "what ships"
    )
    assert next(generate.driving()) == shipped
