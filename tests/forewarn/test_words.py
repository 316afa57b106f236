"""Words that help: what was once said so that nobody could tell what to do next."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import forewarn.scenarios
from forewarn.cli import main
from forewarn.cli.guarding import Saying
from forewarn.monitors.guarding.decision import Decision, Outcome
from forewarn.plugins import registry
from forewarn.plugins.loop.guarding import Guarding
from tests.scenarios import learned

SHIPPED = Path(forewarn.scenarios.__file__).parent
HOUSEHOLD = SHIPPED / "demo" / "household.abstraction.yaml"
ROAD = "tiny-road"


def invoke(*args: object) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args])


def told(*args: object, status: int = 0) -> str:
    done = invoke(*args)
    assert done.exit_code == status, done.output
    return done.stdout


def refused(*args: object, status: int = 2) -> str:
    done = invoke(*args)
    assert done.exit_code == status, done.output
    (line,) = done.stderr.splitlines()
    return line


@pytest.fixture(scope="module")
def model() -> Path:
    return learned.model(ROAD)


# -- learn -----------------------------------------------------------------------------


def test_abstraction_without_a_vocabulary_is_reported(tmp_path: Path) -> None:
    abstraction = tmp_path / "a.yaml"
    abstraction.write_text(
        "format: forewarn.abstraction/1\nname: near\nperiod_s: 0.1\n"
        "predicates: [lead_distance < 5 m]\n"
    )
    trace = SHIPPED / "demo" / "driving" / "held_out" / "080.jsonl.gz"
    line = refused(
        "learn", trace, "--abstraction", abstraction, "--out", tmp_path / "m.json"
    )
    assert f"{abstraction}: predicate 1, column 15" in line
    assert "vocabulary: driving" in line and "lead_distance" in line


# -- names -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("run", "S3"), "did you mean s3?"),
        (("scenarios", "Tiny_Road"), "did you mean tiny-road?"),
        (("laws", "no_colision"), "did you mean no_collision?"),
        (("laws", "51-5"), "did you mean 51_5?"),
        (("laws", "51.5"), "did you mean 51_5?"),
        (("Learn",), "did you mean learn?"),
    ],
)
def test_a_name_that_is_nearly_right_gets_the_right_one(
    words: tuple[str, ...], hint: str
) -> None:
    assert hint in refused(*words)


def test_a_scenario_is_shown_without_python_s_dictionaries() -> None:
    said = told("scenarios", "s3")
    assert "{" not in said and "(" not in said.split("predicates:")[0].replace(
        "(expected to be violated in", ""
    )
    assert "random speed: normal, mean 40, sd 5, from 28 to 52" in said
    assert "random green_s: uniform, from 30 to 40" in said


def test_help_names_what_a_value_is_and_not_its_type() -> None:
    said = told("tune", "--help")
    assert "RANGE" not in said
    assert "--episodes COUNT" in said and "--false-alarm-rate NUMBER" in said
    assert "forewarn measure tiny-road --model model.json --policy policy.yaml" in said


# -- records ---------------------------------------------------------------------------


def test_verify_and_replay_take_the_folder_that_run_prints(
    model: Path, tmp_path: Path
) -> None:
    told(
        *("run", ROAD, "--model", model, "--episodes", "2", "--seed", "9000"),
        *("--out", tmp_path, "--accept-model"),
    )
    records = sorted(tmp_path.glob("*.run.jsonl"))
    assert len(records) == 2
    verified = told("verify", tmp_path)
    assert all(f"{record}: " in verified for record in records)
    assert told("replay", tmp_path).count("decisions, all as recorded") == 2
    both = json.loads(told("verify", tmp_path, "--json"))
    assert [each["whole"] for each in both["records"]] == [True, True]
    lines = records[1].read_text().splitlines()
    records[1].write_text("\n".join([*lines[:3], *lines[4:]]) + "\n")
    assert f"{records[0]}: " in told("verify", tmp_path, status=1)
    (tmp_path / "empty").mkdir()
    line = refused("verify", tmp_path / "empty")
    assert "empty" in line and "forewarn run" in line


# -- baselines -------------------------------------------------------------------------


def test_a_baseline_without_its_extra_is_refused_before_anything_runs(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    logistic = "forewarn.plugins.baselines.logistic"
    monkeypatch.delitem(sys.modules, logistic, raising=False)
    out = tmp_path / "out"
    asked = ("measure", ROAD, "--model", model, "--baseline", "logistic")
    done = invoke(*asked, "--episodes", "1", "--seed", "9000", "--out", out)
    assert done.exit_code == 3
    assert "pip install 'forewarn[learn]'" in done.stderr
    assert not out.exists()


def test_the_recipes_of_probguard_need_no_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    recipes = "forewarn.plugins.baselines.learned"
    monkeypatch.delitem(sys.modules, recipes, raising=False)
    for name in ("paper", "released"):
        assert registry.load("baseline", name).__name__.lower() == name


def test_learning_baseline_is_announced_before_it_begins(
    model: Path, tmp_path: Path
) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    done = invoke(
        *("measure", ROAD, "--model", model, "--baseline", "logistic"),
        *("--episodes", "1", "--seed", "9000", "--no-guarded"),
    )
    assert done.exit_code == 0, done.output
    first = done.stderr.splitlines()[0]
    assert f"To train logistic, the {learned.SEEDS} training runs" in first
    assert "--training" in first


# -- beside a live stack ---------------------------------------------------------------


def test_a_guard_beside_a_stack_says_that_a_law_was_broken(
    capsys: pytest.CaptureFixture[str],
) -> None:
    guard = Guarding.load(learned.model(ROAD)).guard()
    saying = Saying(guard, "the car")
    saying.ends("", {})
    assert capsys.readouterr().out.startswith("0 frames: no decisions.\n")
    proceeds = Outcome("proceed", "proceed")
    saying.turn(Decision("proceed", 0, 0.0), proceeds)
    saying.ends("", {})
    saying.turn(Decision("proceed", 1, 0.1, violated=("51_5",)), proceeds)
    saying.ends("", {})
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "     0.0 s  proceed: no threshold is reached"
    assert said[2:4] == ["No law was broken.", "     0.1 s  51_5 is broken"]
    assert said[-1] == "Broken laws, with the number of violations: 51_5 (1)."


# -- what is not there -----------------------------------------------------------------


def test_no_server_at_carla_s_port_names_the_stand_in(model: Path) -> None:
    pytest.importorskip("carla", reason="carla is not installed")
    with socket.socket() as taken:  # bound and not listening: nobody answers there
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        command = ("carla", "guard", "--model", model, "--accept-model", "--port", port)
        done = subprocess.run(  # it waits for a process of its own
            [sys.executable, "-m", "forewarn.cli", *map(str, command)],
            capture_output=True,
            text=True,
        )
    (line,) = done.stderr.splitlines()
    assert done.returncode == 3
    assert f"127.0.0.1:{port}" in line and f"forewarn carla serve --port {port}" in line


def test_a_player_that_cannot_be_had_is_no_defect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ai2thor", reason="ai2thor is not installed")

    def offline(*_: Any, **__: Any) -> Any:
        raise ValueError("Invalid commit_id: f0825 - no build exists")

    monkeypatch.setattr("ai2thor.controller.Controller.find_build", offline)
    line = refused("thor", "harvest", tmp_path / "scenes.json.gz", status=3)
    assert "a defect" not in line
    assert "no build exists" in line and "--player household" in line
    assert not (tmp_path / "scenes.json.gz").exists()


# -- pages -----------------------------------------------------------------------------


def test_apollo_s_documented_demo_shows_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("google.protobuf", reason="google.protobuf is not installed")
    pytest.importorskip("libsumo", reason="libsumo is not installed")
    page = Path(__file__).parents[2] / "docs" / "apollo.md"
    if not page.exists():
        pytest.skip("the pages are not here: not a checkout")
    monkeypatch.chdir(page.parents[1])
    (command,) = {
        line.strip()
        for line in page.read_text().splitlines()
        if line.strip().startswith("forewarn apollo guard --fake")
    }
    said = told(*command.split()[1:])
    assert (
        "stop: the risk of breaking stop_at_yellow within" in said
        and "Apollo obeys" in said
    )
