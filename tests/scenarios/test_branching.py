"""Runs repeated from each band of risk, and the decisions that quote the counts."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path

import pytest
from click.testing import CliRunner

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame
from forewarn.cli import main
from forewarn.monitors.evaluation.branched import (
    EDGES,
    Band,
    band_of,
    interval,
    number_of,
    sentence,
)
from forewarn.monitors.evaluation.figures import wilson
from forewarn.monitors.guarding.decision import Decision
from forewarn.monitors.guarding.listening import Listener
from forewarn.monitors.guarding.policy import Policy, Step, load_policy, write_policy
from forewarn.monitors.guarding.watch import Watch
from forewarn.plugins.loop.guarding import Guarding
from forewarn.plugins.tiny import TinyWorld
from forewarn.scenarios.measuring.branching import branched
from forewarn.scenarios.report.events import Telling
from forewarn.scenarios.running.pools import Here
from forewarn.scenarios.running.runner import Keep, Runner
from forewarn.scenarios.schema import load_scenario
from tests.scenarios import learned

ROAD = load_scenario("tiny-road")
FIRST, RUNS = 7008, 3
"""The first two of these runs break a law."""
BANDS = tuple(
    Band(risk=(low, high), runs=20, proceed=10, slow=5, stop=1)
    for low, high in zip(EDGES[:-1], EDGES[1:], strict=True)
)


class Heard(Listener):
    def __init__(self) -> None:
        self.decisions: list[Decision] = []

    def decided(self, watch: Watch, frame: Frame, decision: Decision) -> None:
        self.decisions.append(decision)


@cache
def measured() -> tuple[Path, str]:
    """The policy that `measure --if-acted` writes, and what it prints."""
    out = learned.model("tiny-road").parent / "branched.policy.yaml"
    told = learned.forewarn(
        "measure", "tiny-road", "--model", learned.model("tiny-road"), "--no-guarded",
        "--episodes", RUNS, "--seed", FIRST, "--if-acted", out,
    )  # fmt: skip
    return out, told


def test_a_risk_is_in_the_band_that_begins_at_or_below_it() -> None:
    assert [number_of(edge) for edge in EDGES] == [*range(8), 7]
    assert band_of(BANDS, 0.3) == BANDS[4] and band_of(BANDS, 1.0) == BANDS[-1]
    assert band_of(BANDS[:2], 0.3) is None and band_of(BANDS, float("nan")) is None


def test_bounds_are_those_of_clopper_and_pearson() -> None:
    assert interval(0, 10) == (0.0, 0.3085) and interval(10, 10) == (0.6915, 1.0)
    low, high = interval(3, 50)
    inner = wilson(3, 50)
    assert inner is not None and low < inner[0] and high > inner[1] - 0.01


def test_each_run_counts_once_in_a_band_and_a_stop_helps() -> None:
    out, told = measured()
    policy = load_policy(out)
    assert set(policy.if_acted) == {law.name for law in ROAD.laws}
    for bands in policy.if_acted.values():
        assert max(band.runs for band in bands) <= RUNS
        assert sum(band.stop for band in bands) <= sum(band.proceed for band in bands)
        assert bands[-1].proceed > bands[-1].stop
    assert "from their first moment in each risk band" in told


def test_violations_after_a_short_horizon_count() -> None:
    model, seeds = learned.model("tiny-road"), range(FIRST, FIRST + RUNS)
    found = branched(ROAD, model, Policy(horizon_s=0.5), seeds, Here())
    bands = found["no_collision"]
    assert sum(band.proceed for band in bands) > sum(band.stop for band in bands)


def test_show_prints_the_bands_of_a_policy() -> None:
    out, _ = measured()
    options = "show", learned.model("tiny-road"), "--policy", out
    found = json.loads(learned.forewarn(*options, "--json"))["if_acted"]
    assert found == {
        law: [band.as_dict() for band in bands]
        for law, bands in load_policy(out).if_acted.items()
    }
    assert "stopped" in learned.forewarn(*options)


def test_interventions_quote_their_band_and_nothing_else_changes() -> None:
    rules = {"*": (Step("alert", 0.1), Step("stop", 0.6))}
    plain = Policy(rules=rules, horizon_s=ROAD.horizon_s, hold_s=0.5)
    quoting = replace(plain, if_acted={law.name: BANDS for law in ROAD.laws})
    heard = {}
    for policy in (plain, quoting):
        guarding = Guarding.load(
            learned.model("tiny-road"), policy, laws=ROAD.references
        )
        heard[policy.digest, bool(policy.if_acted)] = ear = Heard()
        runner = Runner(ROAD, guarding)
        for seed in range(FIRST, FIRST + RUNS):
            runner.run(seed, Keep(listeners=(ear,)))
    (digest, _), (same, _) = heard
    assert digest == same  # what is quoted decides nothing
    without, quoted = (ear.decisions for ear in heard.values())
    assert [replace(each, if_acted=None) for each in quoted] == without
    called = [each for each in quoted if each.if_acted is not None]
    assert called and all(each.kind != "proceed" for each in called)
    for each in called:
        assert each.risk is not None and each.if_acted is not None
        assert each.if_acted == band_of(BANDS, each.risk.point)
        assert each.as_dict()["if_acted"] == each.if_acted.as_dict()
    assert "if_acted" not in without[0].as_dict()
    (event, *_) = Telling(watched_only=False).decided(called[0].as_dict())
    assert event.text.endswith(sentence(called[0].as_dict()["if_acted"]))


def test_a_policy_keeps_its_bands_and_rejects_impossible_ones(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    policy = Policy(if_acted={"a": BANDS})
    write_policy(path, policy)
    assert load_policy(path) == policy
    content = policy.as_dict()
    for change in ({"risk": [0.1, 0.3]}, {"stop": 21}, {"runs": 0}):
        band = {**content["if_acted"]["a"][0], **change}
        with pytest.raises(InvalidInput, match="if_acted"):
            Policy.from_dict({**content, "if_acted": {"a": [band]}}, "here")


def test_runs_on_file_cannot_be_branched(tmp_path: Path) -> None:
    with pytest.raises(
        AssertionError, match="--if-acted cannot be combined with --runs"
    ):
        learned.forewarn(
            "measure", "tiny-road", "--model", learned.model("tiny-road"), "--runs",
            tmp_path, "--if-acted", tmp_path / "policy.yaml",
        )  # fmt: skip


@pytest.mark.parametrize("option", ["--last-moment", "--if-acted"])
def test_worlds_that_cannot_replay_a_seed_say_so_before_any_run(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Runner(ROAD).world(1).source
    monkeypatch.setattr(TinyWorld, "source", replace(source, fixed=True))
    out, kept = tmp_path / "runs", tmp_path / "policy.yaml"
    asked = [option, *([str(kept)] if option == "--if-acted" else [])]
    options = ["--model", str(learned.model("tiny-road")), "--episodes", "2"]
    told = CliRunner().invoke(
        main, ["measure", "tiny-road", *options, "--out", str(out), *asked]
    )
    assert told.exit_code == 2
    assert f"cannot be repeated with an intervention (measure without {option})" in (
        " ".join(told.output.split())
    )
    assert not list(out.rglob("*.*")) and not kept.exists()


def test_a_world_that_is_not_reproducible_has_no_bands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    luck, reset = count(1), TinyWorld.reset
    monkeypatch.setattr(TinyWorld, "reset", lambda self, _: reset(self, next(luck)))
    model, seeds = learned.model("tiny-road"), range(FIRST, FIRST + RUNS)
    with pytest.raises(InvalidInput, match="not reproducible .* without --if-acted"):
        branched(ROAD, model, Policy(horizon_s=0.5), seeds, Here())


def test_bands_do_not_replace_a_different_policy(tmp_path: Path) -> None:
    mine = tmp_path / "mine.policy.yaml"
    write_policy(mine, Policy(rules={"*": (Step("alert", 0.123),)}))
    options = ["--model", str(learned.model("tiny-road")), "--episodes", "5"]
    asked = ["measure", "tiny-road", *options, "--if-acted", str(mine)]
    told = CliRunner().invoke(main, asked)
    assert told.exit_code == 2 and f"--policy {mine}" in told.output.replace("\n", " ")
    assert load_policy(mine).rules["*"][0].threshold == 0.123
