"""Episodes whose actions are judged before they are done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.monitors.guarding.record import read_record
from forewarn.plugins.contracts import Foresight
from forewarn.plugins.loop.replay import replay
from forewarn.plugins.tiny import TinyHousehold
from forewarn.scenarios.running.plan import plan, runner_of
from forewarn.scenarios.running.runner import Keep, Runner
from forewarn.scenarios.schema import load_scenario
from tests.monitors.guarding.test_record import resealed
from tests.scenarios import learned

SEEDS = range(300, 360)
VETO = Policy(rules={"*": (Step("reflect", 0.9),)}, when="before")


def kitchen(policy: Policy) -> Runner:
    scenario = load_scenario("tiny-kitchen")
    return runner_of(plan(scenario, learned.model("tiny-kitchen"), policy))


def test_a_veto_keeps_the_law_and_lets_the_robot_finish() -> None:
    alone, veto = Runner(load_scenario("tiny-kitchen")), kitchen(VETO)
    unguarded = sum(bool(alone.run(seed).violations) for seed in SEEDS)
    episodes = [veto.run(seed) for seed in SEEDS]
    assert unguarded >= 5
    assert sum(bool(episode.violations) for episode in episodes) == 0
    done = [e for e in episodes if e.ended == "the robot says that it is done"]
    assert len(done) >= 50
    assert any(e.interventions for e in done)


def test_what_was_foreseen_is_recorded_and_replays(tmp_path: Path) -> None:
    scenario, model = load_scenario("tiny-kitchen"), learned.model("tiny-kitchen")
    both = replace(VETO, when="both")
    made = plan(scenario, model, both)
    made.keep_model(tmp_path)
    runner, foreseen = runner_of(made), 0
    for seed in SEEDS[:10]:
        path = tmp_path / f"{seed}.run.jsonl"
        runner.run(seed, Keep(record=path))
        reviews, divergence = replay(path)
        assert divergence is None and reviews > 0
        foreseen += sum("foreseen" in line.content for line in read_record(path))
        runner.run(seed, Keep(record=tmp_path / "again.jsonl"))
        assert (tmp_path / "again.jsonl").read_bytes() == path.read_bytes()
    assert foreseen > 50


def test_a_foreseen_frame_that_was_changed_comes_out_otherwise(tmp_path: Path) -> None:
    made = plan(load_scenario("tiny-kitchen"), learned.model("tiny-kitchen"), VETO)
    made.keep_model(tmp_path)
    path = tmp_path / "1.run.jsonl"
    runner = runner_of(made)
    for seed in SEEDS:
        if runner.run(seed, Keep(record=path)).interventions:
            break
    vetoes = (
        (line.number, line.content)
        for line in read_record(path)
        if line.content.get("decision", {}).get("decision") == "reflect"
    )
    number, veto = next(vetoes)
    harmless = veto["foreseen"] | {"signals": veto["signals"]}
    resealed(path, number - 1, foreseen=harmless)
    _, divergence = replay(path)
    assert divergence is not None
    assert (divergence.line, divergence.field) == (number, "decision")


class Blind:
    """A world that cannot foresee."""

    def __init__(self) -> None:
        self._world = TinyHousehold()
        self.source = self._world.source
        self.reset, self.step = self._world.reset, self._world.step
        self.ended, self.close = self._world.ended, self._world.close
        self.actions, self.actuator = self._world.actions, self._world.actuator


class Confused(Blind):
    """One that fails when it is asked to."""

    def foresee(self, action: Action) -> Frame:
        raise RuntimeError("no idea")


def test_a_world_without_foresight_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = kitchen(VETO)
    monkeypatch.setattr(runner, "world", lambda seed: Blind())
    assert not isinstance(Blind(), Foresight)
    with pytest.raises(InvalidInput, match="cannot predict"):
        runner.run(1)


def test_foresight_that_fails_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = kitchen(VETO)
    monkeypatch.setattr(runner, "world", lambda seed: Confused())
    episode = runner.run(1)
    assert episode.decisions["stop"] >= episode.frames - 1
    assert episode.interventions[0].kind == "stop"
