"""Runs that a command cannot use: each message must say which runs it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.forewarn.test_mistakes_again import said
from tests.scenarios import learned


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "m.json").symlink_to(learned.model("tiny-road"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(options: str, status: int = 0) -> str:
    return said(f"run tiny-road --model m.json --no-scene {options}", status)


def test_runs_that_the_model_was_learned_from_are_noted() -> None:
    told = run(f"--seed {learned.SEEDS - 1} --episodes 2 --out a")
    assert "the model was learned from 1 of these 2 runs" in told
    assert f"(give --seed {learned.SEEDS} or higher)" in told
    assert "learned from" not in run(f"--seed {learned.FRESH} --episodes 2 --out b")
    assert "learned from" not in run("--seed 0 --out c")


def test_guarded_runs_cannot_be_used_for_tuning() -> None:
    run(f"--seed {learned.FRESH} --episodes 2 --out guarded")
    told = said("tune tiny-road --model m.json --runs guarded --out p.yaml")
    assert "a guard intervened in this run" in told


def test_scenes_do_not_count_as_runs() -> None:
    seeds = f"--seed {learned.FRESH} --episodes 2"
    said(f"run tiny-road --model m.json --shadow {seeds} --out shadow", 0)
    assert list(Path("shadow").glob("*.scene.jsonl"))
    told = said("tune tiny-road --model m.json --runs shadow --out p.yaml")
    assert "2 runs are too few for tuning" in told
    said("measure tiny-road --model m.json --runs shadow", 0)


def test_runs_of_another_vocabulary_are_named() -> None:
    said("collect tiny-kitchen --episodes 2 --out kitchen", 0)
    told = said("measure tiny-road --model m.json --runs kitchen")
    assert told.startswith("forewarn: kitchen/tiny-kitchen-")
    assert "vocabulary household: the source does not provide braking, coll" in told
    assert "time_to_collision, traffic_light of the vocabulary driving (use a m" in told


def test_a_missing_table_of_facts_is_reported() -> None:
    said("collect tiny-road --episodes 2 --out runs", 0)
    told = said("warrant runs --law 'always speed < 90' --group driver --out w")
    assert told == (
        "forewarn: --group driver: there is no table of facts about the runs (write "
        "runs.csv next to the logs, with the columns file and driver, or give a table "
        "with --facts)"
    )


def test_a_number_that_stands_for_no_value_can_be_left_out(desk: Path) -> None:
    (desk / "n.csv").write_text("time_s,speed\n0,3\n1,-999\n")
    told = said("monitor n.csv --law 'always speed < 90'")
    assert "speed is -999 km/h, below its range (0 or more)" in told
    assert "leave the cell empty if the value is unknown" in told
    assert "none_codes: [-999]" in told


def test_folders_that_contain_no_traces_are_described() -> None:
    run(f"--seed {learned.FRESH} --episodes 2 --out guarded")
    told = said("learn guarded --scenario tiny-road --out n.json")
    assert "guarded: the folder contains run records, not traces (record traces" in told
    line = "measure tiny-road --model m.json --baseline logistic --training none"
    assert "none: there is no such folder" in said(line)
