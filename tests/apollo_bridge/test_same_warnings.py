"""Played as Apollo's channels, scenarios give the warnings that they give on SUMO."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.protobuf", reason="google.protobuf is not installed")
pytest.importorskip("libsumo", reason="libsumo is not installed")

import forewarn.scenarios
from forewarn.monitors.guarding.decision import Decision
from forewarn.monitors.guarding.guard import Guard
from forewarn.monitors.guarding.policy import Policy
from forewarn.plugins.loop.guarding import Guarding
from forewarn.scenarios.schema import load_scenario
from tests.apollo_bridge.played import outside

TRAINED = Path(forewarn.scenarios.__file__).parent / "trained"
TRAINED_FOR = sorted(p.name.split(".")[0] for p in TRAINED.glob("*.model.json.gz"))
NAMES = [n for n in TRAINED_FOR if load_scenario(n).world.name == "sumo"]
QUICK = {"s2": 302, "give-way": 302, "merge": 301}
"""Episodes with warnings."""


def guard(name: str, provides: Any) -> Guard:
    scenario = load_scenario(name)
    # The tuned thresholds seldom alarm; these say more of whether risks agree.
    policy = Policy(horizon_s=scenario.horizon_s)
    laws = [law.reference for law in scenario.laws]
    guarding = Guarding.load(TRAINED / f"{name}.model.json.gz", policy, laws=laws)
    return guarding.guard(provides, clock=lambda: 0.0)


def first_alarm_s(decisions: list[Decision]) -> float | None:
    return next((d.time_s for d in decisions if d.kind != "proceed"), None)


def compare(name: str, seed: int) -> tuple[list[Decision], list[Decision]]:
    """The decisions on SUMO's own frames, and on those that came over TCP."""
    with outside(name, seed) as world:
        frame = world.reset(seed)
        drive = world._stand_in.drive
        direct = guard(name, drive.world.source.provides)
        bridged = guard(name, world.source.provides)
        ours, theirs = [], []
        while True:
            ours.append(direct.review(drive.frame))
            theirs.append(bridged.review(frame))
            if world.ended() is not None:
                return ours, theirs
            frame = world.step(None)


def agree(name: str, seed: int) -> int:
    """Compares an episode; gives how many ticks had a warning."""
    ours, theirs = compare(name, seed)
    assert len(ours) == len(theirs) > 50
    one, other = first_alarm_s(ours), first_alarm_s(theirs)
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert abs(one - other) <= 0.1 + 1e-9
    equal = sum(a.kind == b.kind for a, b in zip(ours, theirs, strict=True))
    assert equal >= 0.99 * len(ours)
    return sum(decision.kind != "proceed" for decision in ours)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed"), QUICK.items())
def test_decisions_are_the_same_over_cyberbridge_as_in_process(
    name: str, seed: int
) -> None:
    assert agree(name, seed) > 0


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_decisions_are_the_same_in_every_whole_scenario(name: str) -> None:
    agree(name, 300)
