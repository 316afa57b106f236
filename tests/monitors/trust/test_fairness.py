"""The report on whether a chain is a fair picture."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.trust.fairness import HeldOut, assess, rank_predicates
from forewarn.monitors.trust.memory import Sequences

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
    assert list(report.advice()) == [
        "The chain represents the traces as far as could be tested: the previous state "
        "in 3 states, the time in a state in 3."
    ]


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
    held_out = {"a law": HeldOut([[0.9] * 20] * 10, [[0] * 20] * 10)}
    report = assess(fair_traces(), chain(), held_out=held_out)
    assert report.reliability["a law"].base_rate == 0 and not report.fair
    assert any("was 0.90, a violation followed in 0.00" in s for s in report.warnings())


def test_unused_predicates_are_ranked_by_what_they_tell() -> None:
    traces = fair_traces(seed=5)
    rng = np.random.default_rng(6)
    # What comes next is known in half of the cases, or in "go" alone, or not at all.
    ahead = [np.append(trace[1:], 0) == 2 for trace in traces]
    half = [np.where(rng.random(100) < 0.5, a, rng.random(100) < 0.3) for a in ahead]
    in_go = [a & (trace == 0) for a, trace in zip(ahead, traces, strict=True)]
    noise = [rng.random(100) < 0.5 for _ in traces]
    never = [np.zeros(100, bool) for _ in traces]
    candidates = {"noise": noise, "half": half, "in go": in_go, "never": never}
    candidates["ahead"] = ahead
    ranked = rank_predicates(Sequences.of(NAMES, traces), candidates)
    names = [each.predicate for each in ranked]
    assert names[0] == "ahead" and {"half", "in go"} == set(names[1:3])
    assert "never" not in names
    # Two of three next states are told from the third: H(1/3) bits.
    entropy = math.log2(3) - 2 / 3
    assert ranked[0].bits_about_next == pytest.approx(entropy, abs=0.03)
    go = next(each for each in ranked if each.predicate == "in go")
    assert go.state == "go" and go.bits_there == pytest.approx(entropy, abs=0.06)
    assert go.bits_about_next == pytest.approx(entropy / 3, abs=0.04)
    assert all(
        each.bits_about_next < 0.003 for each in ranked if each.predicate == "noise"
    )


def test_the_outcome_decides_the_order_where_it_is_known() -> None:
    traces = fair_traces(seed=5)
    rng = np.random.default_rng(7)
    outcome = [rng.random(100) < 0.3 for _ in traces]
    ahead = [np.append(trace[1:], 0) == 2 for trace in traces]
    candidates = {"ahead": ahead, "sees it": outcome}
    report = assess(traces, chain(), candidates=candidates, outcome=outcome)
    first, second = report.helpful
    assert first.predicate == "sees it"
    entropy = -0.3 * math.log2(0.3) - 0.7 * math.log2(0.7)
    assert first.bits_about_outcome == pytest.approx(entropy, abs=0.03)
    assert second.bits_about_outcome == pytest.approx(0, abs=0.01)
    said = list(report.advice())[-2]
    assert said.startswith("The unused predicate sees it would add 0.8")
    assert "bits about a later violation and" in said


def test_the_report_as_json() -> None:
    held_out = {"a law": HeldOut([[0.1] * 20] * 10, [[0] * 20] * 10)}
    candidates = {"odd": [trace % 2 == 1 for trace in fair_traces()]}
    report = assess(fair_traces(), chain(), held_out=held_out, candidates=candidates)
    content = report.as_dict()
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    assert content["fair"] is True and len(content["order"]) == 3
    assert content["warnings"] == list(report.warnings()) == []
    assert content["advice"][0].endswith("in 3, the risk of breaking a law.")


def test_the_same_seed_gives_the_same_report() -> None:
    few = [trace[:12] for trace in fair_traces()]
    one, two = (assess(few, chain(), seed=4).as_dict() for _ in range(2))
    assert one == two
    assert any(f["method"] == "permutation" for f in one["order"])


def test_too_little_is_said_to_be_too_little() -> None:
    report = assess([[0, 1]], chain())
    assert report.fair
    assert next(report.advice()).endswith(
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


def test_columns_of_the_wrong_length_are_refused() -> None:
    with pytest.raises(InvalidInput, match="odd must have one value for each frame"):
        assess([[0, 1]], chain(), candidates={"odd": [[True]]})
    with pytest.raises(
        InvalidInput, match=("the outcome must have one value for each frame")
    ):
        assess([[0, 1]], chain(), candidates={}, outcome=[[True]])
