"""`forewarn demo` goes the whole way, and what it writes can be used further."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from forewarn.cli import main
from forewarn.monitors.chains.model import load_model


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def shown(out: Path) -> str:
    done = CliRunner().invoke(main, ["demo", "--out", str(out)])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_it_prints_what_it_reports(out: Path, shown: str) -> None:
    report = (out / "report.txt").read_text()
    assert shown.startswith(report)
    assert "Driving: a car" in report and "Household: a robot" in report


def test_it_warns_before_the_trigger_and_counts_false_alarms(out: Path) -> None:
    done = CliRunner().invoke(main, ["demo", "--out", str(out), "--json"])
    worlds = {world["world"]: world for world in json.loads(done.stdout)["worlds"]}
    (law,) = worlds["driving"]["laws"]
    least, *_, most = law["warnings"]
    assert least["threshold"] < most["threshold"]
    assert least["detected"] == least["violating"] == 6
    assert least["to_violation_s"] > least["to_trigger_s"] > 0.5
    assert most["detected"] <= least["detected"]
    assert most["false_alarms"] <= least["false_alarms"] < least["clean"] == 34
    assert 0.05 < law["ever"] < 0.25


def test_its_models_load_again(out: Path, shown: str) -> None:
    model = load_model(out / "driving.model.json")
    assert model.training["traces"] == 80
    assert model.chain.end is not None
