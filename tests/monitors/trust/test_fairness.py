"""The report on whether a chain is a fair picture."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.evaluation.foretold import reliability
from forewarn.monitors.trust.fairness import assess

NAMES = ("go", "slow", "stop")


def chain() -> Chain:
    return Chain.from_dense(NAMES, np.full((3, 3), 1 / 3))


def fair_traces(seed: int = 0, traces: int = 20, length: int = 100) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 3, length) for _ in range(traces)]


def test_a_fair_chain_raises_no_warning() -> None:
    report = assess(fair_traces(), chain())
    assert report.fair
    assert len(report.order) == len(report.dwell) == 3
    assert not list(report.warnings())
    assert report.verdict() == (
        "The chain represents the traces as far as could be tested: the previous state "
        "in 3 states, the time in a state in 3."
    )


def test_a_state_that_remembers_is_named_first() -> None:
    rng = np.random.default_rng(1)
    traces = []
    for _ in range(60):
        trace = [0]
        while len(trace) < 60:
            # From "slow" it goes on as it came, nine times out of ten.
            if trace[-1] == 1 and len(trace) > 1 and rng.random() < 0.9:
                trace.append({0: 2, 1: 1, 2: 0}[trace[-2]])
            else:
                trace.append(int(rng.integers(0, 3)))
        traces.append(trace)
    report = assess(traces, chain())
    assert not report.fair
    worst = report.order[0]
    assert worst.flagged and worst.state == "slow" and worst.effect > 0.3
    assert [f.flagged for f in report.order[1:]] == [False, False]
    first = next(report.warnings())
    assert first.startswith("What follows slow depends on the previous state: after ")


def test_a_timer_is_told_by_its_dwell_and_not_by_its_order() -> None:
    rng = np.random.default_rng(3)
    traces = []
    for _ in range(10):
        trace = list[int]()
        while len(trace) < 300:
            trace += [0] * 20 + [int(rng.integers(1, 3))] * int(rng.geometric(0.2))
        traces.append(trace)
    report = assess(traces, chain())
    assert [f.state for f in report.dwell if f.flagged] == ["go"]
    assert any("go lasts 20 steps on average" in s for s in report.warnings())


def test_held_out_risks_are_judged() -> None:
    validated = {"a law": reliability([[0.9] * 20] * 10, [[0] * 20] * 10)}
    report = assess(fair_traces(), chain(), validated=validated)
    assert report.reliability["a law"].base_rate == 0 and not report.fair
    assert any("was 0.90, a violation followed in 0.00" in s for s in report.warnings())


def test_the_report_as_json() -> None:
    validated = {"a law": reliability([[0.1] * 20] * 10, [[0] * 20] * 10)}
    report = assess(fair_traces(), chain(), validated=validated)
    content = report.as_dict()
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    assert content["fair"] is True and len(content["order"]) == 3
    assert content["warnings"] == list(report.warnings()) == []
    assert report.verdict().endswith("in 3, the risk of breaking a law.")


def test_the_same_seed_gives_the_same_report() -> None:
    few = [trace[:12] for trace in fair_traces()]
    one, two = (assess(few, chain(), seed=4).as_dict() for _ in range(2))
    assert one == two
    assert any(f["method"] == "permutation" for f in one["order"])


def test_too_little_is_said_to_be_too_little() -> None:
    report = assess([[0, 1]], chain())
    assert report.fair
    assert report.verdict().endswith(
        "the previous state in 0 states, the time in a state in 0."
    )


def test_only_the_worst_are_told_and_all_are_counted() -> None:
    rng = np.random.default_rng(3)
    names = [f"phase {i}" for i in range(6)]
    fixed = Chain.from_dense(names, np.full((6, 6), 1 / 6))
    traces = []
    for _ in range(10):
        phases = rng.integers(0, 6, 60).repeat(10)
        traces.append(phases)
    told = list(assess(traces, fixed).warnings())
    assert len(told) == 4
    assert told[-1] == "In total, 6 of 6 states are not left at a constant rate."
