"""Mistakes that once changed a result without a word: each must be named."""

from __future__ import annotations

from pathlib import Path

import pytest

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
