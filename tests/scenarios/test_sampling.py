"""Sampling until enough is known: when it stops, and what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from forewarn.abstractions.readers.stored import stored_runs
from forewarn.cli import main
from forewarn.scenarios.running.sampling import sizes
from tests.scenarios import learned


def test_it_looks_after_each_doubling() -> None:
    assert list(sizes(400)) == [25, 50, 100, 200, 400]
    assert list(sizes(130)) == [25, 50, 100, 130]
    assert list(sizes(25)) == [25] and list(sizes(3)) == [3]


def collect(folder: Path, *options: str) -> dict[str, Any]:
    arguments = ["collect", "tiny-road", "--out", str(folder), "--json", *options]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_until_rate_stops_by_the_rule_of_chen_and_massart() -> None:
    folder = learned.traces("tiny-road")  # seeds 0 to 119 are there already
    found = collect(folder, "--until", "rate", "--epsilon", "0.15")
    assert found["rate"]["holds"] and found["rate"]["epsilon"] == 0.15
    assert found["episodes"] in (50, 100)
    assert len(stored_runs(map(Path, found["traces"]))) >= found["episodes"]
    for law in found["rate"]["laws"]:
        assert law["holds"] and law["episodes"] >= law["needed"]
        assert law["estimate"] == law["violating"] / law["episodes"]


def test_a_budget_ends_it_and_it_says_how_far_it_got() -> None:
    folder = learned.traces("tiny-road")
    found = collect(folder, "--until", "rate", "--budget", "30")
    assert (found["episodes"], found["rate"]["holds"]) == (30, False)
    assert any(law["episodes"] < law["needed"] for law in found["rate"]["laws"])
    assert {"episodes", "frames", "failed", "traces"} <= set(found)
    arguments = ["collect", "tiny-road", "--out", str(folder), "--until", "rate"]
    done = CliRunner().invoke(main, [*arguments, "--budget", "30"])
    assert "the budget of 30 is used up" in done.stdout
    assert "too few to stop" in done.stdout


def test_time_is_a_budget_too(tmp_path: Path) -> None:
    found = collect(
        tmp_path, "--until", "rate", "--epsilon", "0.01", "--budget", "0.2s"
    )
    assert 1 <= found["episodes"] < 400 and not found["rate"]["holds"]


def test_a_budget_without_a_goal_is_refused(tmp_path: Path) -> None:
    arguments = ["collect", "tiny-road", "--out", str(tmp_path), "--budget", "10"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2 and "--budget requires --until" in done.stderr


@pytest.mark.parametrize("budget", ["soon", "0", "5 parsecs", "-3"])
def test_a_budget_that_is_none_is_refused(budget: str, tmp_path: Path) -> None:
    arguments = ["collect", "tiny-road", "--out", str(tmp_path), "--until", "rate"]
    done = CliRunner().invoke(main, [*arguments, f"--budget={budget}"])
    assert done.exit_code == 2 and "--budget" in done.stderr
