"""Runs on file: what can be looked at again, and what cannot."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.readers.stored import Stored
from forewarn.monitors.guarding.decision import Judge
from forewarn.monitors.guarding.policy import Policy
from forewarn.plugins.loop.guarding import Guarding
from forewarn.scenarios.measuring.recorded import Spectator, read_run, recorded_runs
from forewarn.scenarios.running.campaign import campaign, jobs
from forewarn.scenarios.running.plan import plan
from forewarn.scenarios.running.pools import Here
from forewarn.scenarios.schema import load_scenario
from tests.scenarios import learned

KITCHEN = load_scenario("tiny-kitchen")
SHADOW = Policy(shadow=True)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    model = learned.model("tiny-kitchen")
    for made, keep in (
        (plan(KITCHEN), "trace"),
        (plan(KITCHEN, model, SHADOW), "record"),
    ):
        list(campaign(jobs(made, KITCHEN, range(400, 402), folder, [keep]), Here()))  # type: ignore[list-item]
    return folder


def spectator() -> Spectator:
    return Spectator(guarding(), KITCHEN.laws)


def guarding() -> Guarding:
    path = learned.model("tiny-kitchen")
    return Guarding.load(path, SHADOW, laws=KITCHEN.references)


def test_a_folder_holds_traces_and_records(runs: Path) -> None:
    paths = recorded_runs(runs)
    endings = sorted(path.name.rpartition("-")[2] for path in paths)
    assert endings == [
        *("000400.jsonl.gz", "000400.run.jsonl"),
        *("000401.jsonl.gz", "000401.run.jsonl"),
    ]
    found = [read_run(path) for path in paths]
    assert {(run.scenario, run.seed) for run in found} == {
        ("tiny-kitchen", 400),
        ("tiny-kitchen", 401),
    }
    by_seed: dict[int, list[Any]] = {}
    for run in found:
        by_seed.setdefault(run.seed, []).append((run.source, run.frames))
    for (source, frames), (other, others) in by_seed.values():
        assert source.provides == other.provides
        assert frames == others


def test_a_record_that_is_cut_is_a_failed_episode(runs: Path, tmp_path: Path) -> None:
    record = next(runs.glob("*.run.jsonl"))
    lines = record.read_bytes().splitlines(keepends=True)
    path = tmp_path / record.name
    path.write_bytes(b"".join(lines[:6]))
    episode, series = spectator().look(read_run(Stored(path)))
    assert episode.failed and "cut" in str(episode.error)
    assert series.times_s == ()


def test_a_run_without_frames_is_a_failed_episode(runs: Path, tmp_path: Path) -> None:
    record = next(runs.glob("*.run.jsonl"))
    path = tmp_path / record.name
    path.write_bytes(record.read_bytes().splitlines(keepends=True)[0])
    run = read_run(Stored(path))
    assert run.frames == ()
    assert spectator().look(run)[0].failed


def test_a_trace_must_say_its_seed(tmp_path: Path) -> None:
    header = {
        "format": "forewarn.trace/1",
        "vocabulary": "household",
        "provides": ["is_hot(Mug)"],
        "period_s": 1.0,
    }
    frame = {"sequence": 0, "time_s": 0.0, "signals": {"is_hot(Mug)": False}}
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in (header, frame)))
    with pytest.raises(InvalidInput, match="the header lacks period_s or seed"):
        read_run(Stored(path))


def test_the_guard_of_one_source_serves_all_its_runs(runs: Path) -> None:
    made: list[list[Judge]] = []

    def judges() -> list[Judge]:
        made.append([])
        return made[-1]

    looking = Spectator(replace(guarding(), judges=judges), KITCHEN.laws)
    first = [looking.look(read_run(path)) for path in recorded_runs(runs)]
    again = [looking.look(read_run(path)) for path in recorded_runs(runs)]
    assert first == again
    assert len(made) == 1
