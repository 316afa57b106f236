"""Mistakes that once changed a result without a word: each must be named."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from forewarn.cli import main
from forewarn.plugins.programs.rules import rule_judge
from tests.forewarn.test_mistakes import scenario
from tests.forewarn.test_mistakes_again import said
from tests.scenarios import learned


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = "".join(f"{n / 10},{n}\n" for n in range(25))
    (tmp_path / "drive.csv").write_text(f"time_s,speed\n{rows}")
    (tmp_path / "runs").mkdir()
    untimed = "".join(f"{n}\n" for n in range(25))
    (tmp_path / "runs/untimed.csv").write_text(f"speed\n{untimed}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ran(line: str) -> str:
    """Standard error of one run with the model of tiny-road."""
    model = learned.model("tiny-road")
    return said(f"run {line} --model {model} --intervene none --out out", 0)


def printed(line: str) -> str:
    """Everything that a command prints."""
    return CliRunner().invoke(main, shlex.split(line)).output


def test_a_horizon_longer_than_a_run_is_noted() -> None:
    told = ran("tiny-road --horizon 60")
    assert "horizon of 60 s is longer than a run of tiny-road" in told
    assert "ends after 30 s" in told
    assert "longer" not in ran("tiny-road --horizon 5")


def test_predicates_that_changed_after_learning_are_noted(desk: Path) -> None:
    (desk / "changed.yaml").write_text(
        scenario("  - collision\n", "  - not collision\n")
    )
    told = ran("changed.yaml")
    assert "predicates that differ from the abstraction of tiny-road" in told
    assert "learn a new model" in told
    assert "predicates" not in ran("tiny-road")


def test_a_preset_cannot_be_combined_with_a_policy(desk: Path) -> None:
    (desk / "policy.yaml").write_text("format: forewarn.policy/1\nrules: []\n")
    told = said("run tiny-road --preset alert --policy policy.yaml --model m.json")
    assert "cannot be combined with --policy (leave out one" in told


@pytest.mark.parametrize("trace", ["drive.csv", "."])
def test_a_period_longer_than_a_trace_is_noted(desk: Path, trace: str) -> None:
    (desk / "runs/untimed.csv").unlink()
    law = "--law 'always speed < 90 km/h' --period"
    told = said(f"monitor {trace} {law} 100", 0)
    assert "a step of 100 s is longer than drive.csv, which lasts 2.4 s" in told
    assert "longer" not in said(f"monitor {trace} {law} 1", 0)


def test_the_period_applies_to_every_table_in_a_folder() -> None:
    assert "runs" in said("monitor runs --law 'always speed < 90 km/h' --period 0.1", 0)


def test_a_period_without_effect_is_rejected(desk: Path) -> None:
    learn = f"learn {learned.traces('tiny-road')} --out m.json --period 1"
    told = said(f"{learn} --scenario tiny-road")
    assert "--period 1 does not apply" in told
    assert "the abstraction sets period_s: 0.1 (change it there" in told
    said(f"{learn.removesuffix('1')}0.1 --scenario tiny-road", 0)
    said(f"{learn} --law 'always not collision'", 0)
    predicates = "format: forewarn.abstraction/1\nname: a\npredicates: [speed > 5]\n"
    (desk / "a.yaml").write_text(predicates + "vocabulary: driving\n")
    told = said(f"{learn} --abstraction a.yaml")
    assert "because the traces have times (set period_s in the abstraction)" in told
    said("learn runs/untimed.csv --abstraction a.yaml --period 1 --out m.json", 0)


def test_a_world_slower_than_the_abstraction_is_rejected(desk: Path) -> None:
    (desk / "fast.yaml").write_text(scenario("  period_s: 0.1\n", "  period_s: 0.05\n"))
    told = said("collect fast.yaml --episodes 1 --out traces")
    assert "fast.yaml: abstraction: period_s is 0.05" in told
    assert "a frame only every 0.1 s (set period_s: 0.1" in told


def test_a_clock_is_not_suggested_where_it_has_no_effect(desk: Path) -> None:
    (desk / "fast.yaml").write_text(scenario("  period_s: 0.1\n", "  period_s: 0.05\n"))
    traces = learned.traces("tiny-road")
    told = said(f"learn {traces} --scenario fast.yaml --out m.json", 0)
    assert "with period_s in the abstraction, such as 0.1" in told


def test_a_deadline_longer_than_the_lease_is_noted(desk: Path) -> None:
    (desk / "policy.yaml").write_text("format: forewarn.policy/1\ndeadline_s: 20\n")
    told = ran("tiny-road --policy policy.yaml")
    assert "policy.yaml: deadline_s: 20 s is longer than lease_s (0.5 s)" in told
    assert "lease" not in ran("tiny-road")


def test_a_misspelt_object_in_a_rule_is_logged(
    desk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rule = "{name: a, before: put, when: target == Microwav}"
    (desk / "rules.yaml").write_text(
        f"format: forewarn.rules/1\ndomain: household\nrules: [{rule}]\n"
    )
    rule_judge(desk / "rules.yaml")
    assert "rule a: nothing is called 'Microwav' (did you mean Mic" in caplog.text


def test_a_policy_tuned_for_another_model_guarantees_nothing(desk: Path) -> None:
    model, runs = learned.model("tiny-road"), learned.traces("tiny-road", 7000)
    said(f"tune tiny-road --model {model} --runs {runs} --out policy.yaml", 0)
    measured = "measure tiny-road --policy policy.yaml --episodes 2 --no-guarded"
    assert "guaranteed with" in printed(f"{measured} --model {model}")
    content = json.loads(model.read_text())
    (desk / "same.json").write_text(json.dumps({**content, "training": {}}))
    assert "guaranteed with" in printed(f"{measured} --model same.json --seed 9000")
    said(f"learn {runs} --scenario tiny-road --out other.json", 0)
    told = printed(f"{measured} --model other.json")
    assert "the policy was tuned for another model than other.json" in told
    assert "guaranteed with" not in told
