"""Logs as a world: a user's own CSV files, from a scenario file and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from forewarn.abstractions.errors import InvalidInput
from forewarn.cli import main
from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.contracts import World
from forewarn.plugins.logs import LogWorld
from forewarn.plugins.registry import make_world
from forewarn.scenarios.schema import shipped_scenarios

HEADER = "stamp_ms,v_ego,gap,light,crashed,operator"
COLUMNS = {
    "v_ego": {"signal": "speed", "unit": "m/s"},
    "gap": {"signal": "lead_distance", "none_codes": [-1.0]},
    "light": {"signal": "traffic_light", "codes": {1: "red", 3: "green"}},
    "crashed": "collision",
}
SETTINGS: dict[str, Any] = {
    "columns": COLUMNS, "time": "stamp_ms", "time_unit": "ms", "period_s": 0.1,
}  # fmt: skip


def row(step: int, crashes_at: int | None, speed: float) -> str:
    gap = -1 if step < 5 else 40 - step / 2
    light, crashed = (1 if step > 20 else 3), int(step == crashes_at)
    stamp = 1_700_000_000_000 + 100 * step
    return f"{stamp},{speed - step / 10:.2f},{gap},{light},{crashed},Z 17 / b"


def write_logs(folder: Path, count: int = 12) -> Path:
    folder.mkdir(exist_ok=True)
    for number in range(count):
        crashes_at = 35 if number % 3 == 0 else None
        rows = [row(step, crashes_at, 10.0 + number % 4) for step in range(40)]
        text = "\n".join([HEADER, *rows])
        (folder / f"run{number:02}.csv").write_text(text + "\n")
    return folder


def world(folder: Path, **changes: Any) -> World:
    settings = {"files": str(folder / "*.csv"), **SETTINGS, **changes}
    return make_world("log", settings)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_logs(tmp_path / "logs")


def test_columns_become_signals_in_their_units(folder: Path) -> None:
    log = world(folder)
    assert log.source.provides == (
        "speed", "lead_distance", "traffic_light", "collision", "standing_age",
        "headway",
    )  # fmt: skip
    frame = log.reset(1)
    assert frame.time_s == 0.0
    assert frame.values == {
        "speed": pytest.approx(11.0 * 3.6), "lead_distance": None,
        "traffic_light": "green", "collision": False, "standing_age": None,
        "headway": None,
    }  # fmt: skip
    for _ in range(25):
        frame = log.step(Action("recorded"))
    assert frame.time_s == 2.5
    assert frame.values["speed"] == pytest.approx(8.5 * 3.6)
    assert frame.values["lead_distance"] == 27.5
    assert frame.values["headway"] == pytest.approx(27.5 / 8.5, abs=1e-3)
    assert frame.values["traffic_light"] == "red"
    count = 26
    while log.ended() is None:
        log.step(None)
        count += 1
    assert (count, log.ended()) == (40, "the log is over")


def test_a_slower_clock_holds_the_last_row(folder: Path) -> None:
    log = world(folder, period_s=0.25)
    first, second, third = log.reset(1), log.step(None), log.step(None)
    speeds = [frame.values["speed"] / 3.6 for frame in (first, second, third)]
    assert speeds == pytest.approx([11.0, 10.8, 10.5])


def test_rows_that_come_a_little_late_are_read_in_time(tmp_path: Path) -> None:
    rows = "\n".join(f"{0.1 * i + (0.01 if i % 2 else 0):.3f},{i}" for i in range(20))
    (tmp_path / "a.csv").write_text(f"time_s,speed\n{rows}\n")
    log = make_world("log", {"files": str(tmp_path / "*.csv")})
    assert log.source.period_s == pytest.approx(0.1, rel=0.01)
    found = [log.reset(0).values["speed"]]
    while log.ended() is None:
        found.append(log.step(None).values["speed"])
    assert found == list(range(20))


def test_a_log_without_a_time(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("speed\n1\n2\n3\n")
    settings = {"files": str(tmp_path / "a.csv"), "time": None, "period_s": 0.5}
    log = make_world("log", settings)
    assert [log.reset(0).time_s, log.step(None).time_s] == [0.0, 0.5]


def test_blanks_are_none_if_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time_s,speed,lead_distance\n0,5,\n0.1,5,9\n")
    files = {"files": str(tmp_path / "a.csv")}
    with pytest.raises(
        InvalidInput, match="at 0 s, there is no value for lead_distance .*blanks: none"
    ):
        make_world("log", files).reset(0)
    log = make_world("log", {**files, "blanks": "none"})
    assert log.reset(0).values["lead_distance"] is None
    assert log.step(None).values["lead_distance"] == 9.0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"files": "/nowhere/*.csv"}, r"no file matches '/nowhere.*\$here/"),
        (
            {"columns": {"v_ego": "sped"}},
            "the column 'v_ego' names the unknown signal 'sped'",
        ),
        (
            {"columns": {"v_ego": {"signal": "speed", "unit": "m"}}},
            "'m' is not a unit of ",
        ),
        ({"columns": {}}, "no column contains a known signal"),
        ({"columns": {"v_ego": {"signal": "speed", "units": "m"}}}, "units"),
        ({"time": "clock"}, "no column 'clock'"),
        ({"columns": {"v_eg": "speed"}}, r"no column 'v_eg' \(did you mean v_ego"),
    ],
)
def test_error_in_a_log_is_reported(
    changes: dict[str, Any], said: str, folder: Path
) -> None:
    with pytest.raises(InvalidInput, match=said):
        world(folder, **changes)


def test_a_gap_ends_it_with_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time_s,speed\n0,5\n0.1,5\n9,5\n")
    log = make_world("log", {"files": str(tmp_path / "a.csv"), "period_s": 0.1})
    log.reset(0)
    with pytest.raises(
        InvalidInput,
        match=r"no rows between 0.1 s and"
        r" 1.2 s .*two logs",
    ):
        for _ in range(20):
            log.step(None)


def test_there_are_as_many_seeds_as_logs(folder: Path) -> None:
    log = world(folder)
    assert isinstance(log, LogWorld)
    log.reset(11)
    with pytest.raises(
        InvalidInput, match="there are only 12 logs.*seeds from 0 to 11"
    ):
        log.reset(12)


SCENARIO = """
format: forewarn.scenario/1
name: mine
title: What we recorded
world:
  name: log
  settings:
    files: $here/logs/*.csv
    columns:
      v_ego: {signal: speed, unit: m/s}
      gap: {signal: lead_distance, none_codes: [-1]}
      light: {signal: traffic_light, codes: {1: red, 3: green}}
      crashed: collision
    time: stamp_ms
    time_unit: ms
    period_s: 0.1
pilot: {name: log}
laws: [no_collision]
abstraction:
  format: forewarn.abstraction/1
  name: mine
  vocabulary: driving
  period_s: 0.1
  predicates: [collision, "bands(lead_distance, 24 m, 30 m)"]
end: {max_time_s: 60}
"""


def forewarn(*arguments: str | Path) -> dict[str, Any]:
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def assert_logs_need_no_traces(scenario: Path, folder: Path) -> None:
    """The scenario stands for all its logs: to learn from, and to be judged."""
    straight, traces = folder / "straight.json", folder / "all"
    collected = forewarn("collect", scenario, "--out", traces, "--json")
    assert collected["episodes"] == 30, "without --episodes: all that there are"
    forewarn("learn", scenario, "--out", straight, "--json")
    every = CliRunner().invoke(main, ["measure", str(scenario), f"--model={straight}"])
    assert "was learned from all 30 logs" in every.stderr and every.exit_code == 2
    beside = folder / "beside.json"
    forewarn("learn", traces, "--scenario", scenario, "--out", beside, "--json")
    assert straight.read_bytes() == beside.read_bytes()
    command = ["monitor", str(scenario), "--law", "no_collision", "--json"]
    done = CliRunner().invoke(main, command)
    (law,) = json.loads(done.stdout)["laws"]
    assert done.exit_code == 1 and (law["runs"], law["violated"]) == (30, 10)
    assert not list(folder.glob("*.yaml.*")), "nothing is left beside it"


@pytest.mark.parametrize("command", ["learn", "monitor"])
def test_a_scenario_that_is_run_holds_nothing_recorded(
    command: str, tmp_path: Path
) -> None:
    scenario = shipped_scenarios()["tiny-road"]
    options = {"learn": ["--out", "x.json"], "monitor": ["--law", "no_collision"]}
    done = CliRunner().invoke(main, [command, str(scenario), *options[command]])
    assert done.exit_code == 2
    assert (
        "the world of this scenario is simulated and has no recordings" in done.stderr
    )


@pytest.mark.parametrize("name", ["a.mcap", "a.db3"])
@pytest.mark.parametrize("command", ["learn", "monitor"])
def test_log_without_a_scenario_is_rejected_with_advice(
    command: str, name: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(b"\x89MCAP0")
    options = {"learn": ["--out", "x.json"], "monitor": []}
    law = ["--law", "no_collision"]
    given = [command, str(tmp_path / name), *law, *options[command]]
    done = CliRunner().invoke(main, given)
    assert done.exit_code == 2
    assert (
        "describe the columns in a scenario file and use that file; see "
        "docs/own-world.md"
    ) in done.stderr


def test_a_whole_study_on_ones_own_logs_without_code(tmp_path: Path) -> None:
    write_logs(tmp_path / "logs", 30)
    scenario, traces = tmp_path / "mine.yaml", tmp_path / "traces"
    scenario.write_text(SCENARIO)
    collected = forewarn(
        "collect", scenario, "--episodes", "18", "--out", traces, "--json"
    )
    assert (collected["episodes"], collected["failed"]) == (18, 0)
    assert collected["laws"][0]["violating"] == 6
    model = tmp_path / "mine.json"
    forewarn("learn", traces, "--scenario", scenario, "--out", model, "--json")
    found = forewarn(
        "measure", scenario, "--model", model, "--seed", "18", "--episodes", "12",
        "--no-guarded", "--thresholds", "0.2", "--json",
    )  # fmt: skip
    (row,) = found["laws"]
    assert (row["violating"], row["clean"], found["failed"]) == (4, 8, 0)
    assert row["detected"] == 4
    known: list[str | Path] = ["--model", model, "--json"]
    (same,) = forewarn("measure", scenario, *known, "--thresholds", "0.2")["laws"]
    assert same == row, "by default: all that the model does not know"
    tune = ["tune", scenario, *known, "--horizons", "1", "--out", tmp_path / "p.yaml"]
    done = CliRunner().invoke(main, [str(each) for each in tune])
    tuned = json.loads(done.stdout)["seeds"]
    assert tuned["calibration"] + tuned["set_aside"] == list(range(18, 30))
    assert_logs_need_no_traces(scenario, tmp_path)
    acting = ["run", str(scenario), "--model", str(model), "--intervene"]
    refused = CliRunner().invoke(main, [*acting, "stop"])
    assert refused.exit_code == 2
    assert "a guard cannot intervene in a recording" in refused.stderr
    assert CliRunner().invoke(main, [*acting, "none"]).exit_code in (0, 1)
