"""Tests that the examples run, and that they do what the page on households says."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from forewarn.cli import main

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "household.md").read_text(encoding="utf-8")


def _forewarn(*arguments: str | Path) -> None:
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("household")
    name = "fork-in-microwave"
    _forewarn("collect", name, "--episodes", "40", "--out", folder / "traces")
    model = folder / "model.json"
    _forewarn("learn", folder / "traces", "--scenario", name, "--out", model)
    return model


class Run:
    """Runs examples in this process, in which most imports are already loaded."""

    def __init__(
        self,
        folder: Path,
        patch: pytest.MonkeyPatch,
        printed: pytest.CaptureFixture[str],
    ) -> None:
        self._patch, self._printed = patch, printed
        patch.chdir(folder)

    def __call__(self, name: str, *arguments: str) -> str:
        path = str(ROOT / "examples" / f"{name}.py")
        self._patch.setattr(sys, "argv", [path, *arguments])
        runpy.run_path(path, run_name="__main__")
        return self._printed.readouterr().out


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Run:
    return Run(tmp_path, monkeypatch, capfd)


@pytest.mark.needs("langchain")
def test_a_langchain_agent_thinks_again(model: Path, tmp_path: Path, run: Run) -> None:
    said = run("langchain_robot", str(model))
    assert said.count("The guard withheld your last action") == 1
    assert said.splitlines()[-1].endswith("I left the fork out of it.")
    _forewarn("verify", tmp_path / "agent.run.jsonl")
    _forewarn("replay", tmp_path / "agent.run.jsonl")


@pytest.mark.needs("langchain")
def test_a_supervisors_worker_is_guarded(run: Run) -> None:
    said = run("supervisor")
    worker = [line for line in said.splitlines() if line.startswith("  worker: ")]
    assert worker[0].startswith("  worker: delete: The guard withheld")
    assert worker[1:] == [
        "  worker: backup: /srv/old is copied",
        "  worker: delete: /srv/old is gone",
    ]
    assert said.splitlines()[-1] == "supervisor, model: Done."


@pytest.mark.needs("mcp")
def test_a_proxy_guards_an_mcp_server(run: Run) -> None:
    said = run("mcp_files").splitlines()
    assert said[0].startswith("delete: The guard withheld")
    assert said[1:] == ["backup: old.txt is copied", "delete: old.txt is gone"]


@pytest.mark.needs("agents")
def test_an_agent_of_the_openai_sdk_is_stopped(model: Path, run: Run) -> None:
    said = run("openai_agents_robot", str(model))
    stopped, why, state = said.splitlines()
    assert stopped == "The guard stopped you. No further action is carried out."
    assert why.startswith("the proposed action would break ")
    assert state == "microwave on: False"


@pytest.mark.needs("ai2thor", "msgpack")
def test_ai2thor_s_own_controller_starts_the_household(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,) = (
        c for c in re.findall(r"```python\n(.*?)```", PAGE, re.S) if "ai2thor" in c
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    script = tmp_path / "script.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    objects, positions = map(int, done.stdout.split())
    assert objects > 50 and positions > 50


def test_the_page_names_commands_that_there_are() -> None:
    named = re.findall(r"^    forewarn (\w+) (\w+)", PAGE, re.M)
    assert named
    for command, word in named:
        words = [command, word] if command == "thor" else [command]
        shown = CliRunner().invoke(main, [*words, "--help"])
        assert shown.exit_code == 0, shown.output


@pytest.mark.slow
@pytest.mark.needs("carla")
@pytest.mark.parametrize("name", ["carla_agent", "carla_traffic_manager"])
def test_a_car_of_carla_is_slowed_and_stopped_at_red(name: str, tmp_path: Path) -> None:
    from forewarn.plugins.carla.wire import StandIn

    example = ROOT / "examples" / f"{name}.py"
    server = StandIn(["--map", "crossing", "--kinematic"])
    try:
        done = subprocess.run(
            [sys.executable, example, "--port", str(server.port)],
            cwd=tmp_path, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    finally:
        server.stop()
    assert done.returncode == 0, done.stderr
    said = done.stdout
    assert "proceed" in said and "slow" in said
    stopped = [line for line in said.splitlines() if " stop " in line]
    assert any("before the line" in line for line in stopped)
