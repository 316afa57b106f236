"""Runs that are let pass stand for those that are stopped for the same law."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from forewarn.monitors.chains.intervals import binomial_bounds
from forewarn.monitors.chains.learning import LiveTally
from forewarn.monitors.fleet.files import parse_tally
from forewarn.monitors.fleet.merging import merge
from forewarn.monitors.fleet.tallies import Counted, FleetTally, InvalidTally, summed
from forewarn.monitors.laws.lawbook import find_laws
from forewarn.monitors.risk.evidence import laws_named
from tests.monitors.fleet.cases import ABSTRACTION, BASE, NAMES, SUBJECT

OTHER = "other_law"
SLIPPERY, FAST = 0.1, (0.02, 0.4)
"""How often a road becomes slippery, and how often a car then speeds, which the model
cannot see."""


def drive(rng: np.random.Generator, mode: str, law: str = OTHER) -> Counted:
    """A run whose guard stops for the other law once the road is slippery."""
    free, passed = LiveTally(), LiveTally()
    live, slippery, decided = free, False, False
    for _ in range(20):
        live.observe(int(rng.random() < FAST[slippery]))
        slippery |= bool(rng.random() < SLIPPERY)
        if slippery and not decided and mode != "unguarded":
            decided = True
            free.go_on(passed)
            live = passed if mode == "passes" else LiveTally()
    found = Counted(free.take(ABSTRACTION.state_name, ended=True))
    if decided and mode == "passes":
        found.passed = passed.take(ABSTRACTION.state_name, ended=True)
        found.let_pass = {law: 1}
        part = replace(found.passed, starts={}, traces=0)
        part.frames -= found.passed.traces
        found.tally.add(part)
    elif decided:
        found.stopped_by = {law: 1}
    return found


def campaign(
    rng: np.random.Generator, runs: int, share: float, own_id: str = "campaign"
) -> FleetTally:
    drives = [
        drive(rng, "passes" if rng.random() < share else "stops") for _ in range(runs)
    ]
    return FleetTally.of(own_id, SUBJECT, Counted.total(drives).bounded())


def row(tally: FleetTally) -> tuple[int, int]:
    """How often a car that did not speed does then, and how often it was seen."""
    counts = tally.tally
    seen = counts.seen[NAMES[0]]
    return seen.get(NAMES[1], 0), sum(seen.values()) + counts.ends.get(NAMES[0], 0)


@cache
def truth() -> float:
    rng = np.random.default_rng(0)
    whole = Counted.total([drive(rng, "unguarded") for _ in range(6_000)])
    speeds, seen = row(FleetTally.of("unguarded", SUBJECT, whole))
    return speeds / seen


def test_stops_for_another_law_bias_its_models_unless_passed_runs_have_weight() -> None:
    rng = np.random.default_rng(1)
    plain, weighted = [], []
    for i in range(40):
        tally = campaign(rng, 200, 0.1, f"campaign-{i}")
        plain.append(np.divide(*row(tally)))
        weighted.append(np.divide(*row(tally.weighted())))
    assert np.mean(plain) < 0.6 * truth()
    error = np.std(weighted) / np.sqrt(len(weighted))
    assert abs(np.mean(weighted) - truth()) < 3 * error < 0.1 * truth()


def test_weights_do_not_make_bounds_too_narrow() -> None:
    rng = np.random.default_rng(2)
    missed = 0
    for i in range(200):
        speeds, seen = row(campaign(rng, 100, 0.1, f"campaign-{i}").weighted())
        low, high = binomial_bounds(np.array([speeds]), np.array([seen]), 0.025)
        missed += not low[0] <= truth() <= high[0]
    assert missed <= 20


def test_rounding_is_right_on_average() -> None:
    rng = np.random.default_rng(3)
    content = campaign(rng, 30, 0.2).as_dict()
    rows = []
    for i in range(400):
        tally = parse_tally({**content, "id": f"campaign-{i}"})
        rows.append(row(tally.weighted()))
    speeds, seen = np.mean(rows, axis=0)
    early, late = row(tally), (0, 0)
    passed = tally.passed
    late = (
        passed.seen[NAMES[0]].get(NAMES[1], 0),
        sum(passed.seen[NAMES[0]].values()) + passed.ends.get(NAMES[0], 0),
    )
    weight = 1 + tally.stopped_by[OTHER] / tally.let_pass[OTHER]
    exact = [e + (weight - 1) * p for e, p in zip(early, late, strict=True)]
    assert speeds / seen == pytest.approx(exact[0] / exact[1], rel=0.02)
    assert seen < early[1]


def test_without_stops_or_passes_nothing_is_weighted() -> None:
    rng = np.random.default_rng(4)
    for share in (0.0, 1.0):
        tally = campaign(rng, 20, share)
        assert tally.weighted() is tally
        assert bool(tally.unweighted) is (share == 0.0)


def test_passed_runs_are_read_as_written_and_added_in_any_order() -> None:
    rng = np.random.default_rng(5)
    several = [campaign(rng, 10, 0.5, f"campaign-{i}") for i in range(3)]
    total = summed(several)
    assert total.as_dict() == summed(several[::-1]).as_dict()
    assert total.let_pass[OTHER] == sum(each.let_pass[OTHER] for each in several)
    content = json.loads(json.dumps(total.as_dict()))
    assert parse_tally(content).as_dict() == content


def _more(passed: dict[str, Any]) -> None:
    passed["steps"][0][1] += 10**6


def _nobody(passed: dict[str, Any]) -> None:
    passed["runs"] = {}


@pytest.mark.parametrize("change", [_more, _nobody])
def test_more_passed_than_counted_is_rejected(change: Any) -> None:
    content = campaign(np.random.default_rng(6), 10, 0.5).as_dict()
    content = json.loads(json.dumps(content))
    change(content["passed"])
    with pytest.raises(InvalidTally, match="more transitions after interventions"):
        parse_tally(content)


def named(passes: Mapping[str, int], stops: Mapping[str, int]) -> FleetTally:
    tally = campaign(np.random.default_rng(7), 40, 0.3, "campaign-0")
    return replace(tally, let_pass=passes, stopped_by=stops)


def test_a_threshold_is_fed_by_its_own_counts_only_if_some_runs_pass() -> None:
    (law,) = laws_named(BASE)
    stops = {law.name: 9}
    alone = merge(BASE, [("a file", named({}, stops))])
    assert [each.id for each in alone.stopped] == ["campaign-0"] and not alone.added
    found = merge(BASE, [("a file", named({law.name: 3}, stops))], accept=True)
    assert found.censored == stops and not found.unweighted
    assert found.let_pass == {law.name: 3}
    kept = merge(BASE, [("a file", named({law.name: 3}, stops))])
    assert not kept.stopped


def test_only_laws_that_say_so_are_severe() -> None:
    vocabulary = ABSTRACTION.vocabulary
    assert find_laws("no_collision", vocabulary=vocabulary)[0].severe
    assert not find_laws("51_5", vocabulary=vocabulary)[0].severe
