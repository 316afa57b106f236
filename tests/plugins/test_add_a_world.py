"""What stands in docs/add-a-world.md works as it stands there."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from forewarn.abstractions.readers.stored import files_in, stored_runs
from forewarn.cli import main
from forewarn.plugins import registry

PAGE = (Path(__file__).parents[2] / "docs" / "add-a-world.md").read_text("utf-8")
BLOCKS = dict(re.findall(r"^```([\w ]*)\n(.*?)^```", PAGE, re.M | re.S))


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The page's package as `pip install` would leave it, and its files beside."""
    package = tmp_path / "my_world"
    package.mkdir()
    (package / "__init__.py").write_text(BLOCKS["python"], "utf-8")
    info = tmp_path / "my_world-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: my-world\nVersion: 1.0\n")
    points = re.findall(
        r'^\[project.entry-points."([\w.]+)"\]\n(.*?)(?:\n\n|\Z)',
        BLOCKS["toml"].replace('"my_world', "my_world").replace('"\n', "\n"),
        re.M | re.S,
    )
    points = [(group.strip('"'), text) for group, text in points]
    written = "\n".join(f"[{group}]\n{text}" for group, text in points)
    (info / "entry_points.txt").write_text(written)
    (tmp_path / "red.yaml").write_text(BLOCKS["yaml"], "utf-8")
    (tmp_path / "test_contract.py").write_text(BLOCKS["python test"])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    registry._found.cache_clear()
    yield tmp_path
    registry._found.cache_clear()
    sys.modules.pop("my_world", None)


def test_the_example_package_names_its_packages() -> None:
    """Setuptools refuses to guess between two folders."""
    assert tomllib.loads(BLOCKS["toml"])["tool"]["setuptools"] == {
        "packages": ["my_world"]
    }


def test_the_world_is_short() -> None:
    lines = [line for line in BLOCKS["python"].splitlines() if line.strip()]
    world = [*lines[: next(i for i, x in enumerate(lines) if "class MyDriver" in x)]]
    assert len(world) < 80


@pytest.mark.slow
def test_the_commands_on_the_page_run(installed: Path) -> None:
    said: dict[str, str] = {}
    for line in BLOCKS[""].strip().splitlines():
        _, *words = shlex.split(line)
        done = CliRunner().invoke(main, [*words, "--json"])
        assert done.exit_code in (0, 1), done.output
        said[words[0]] = done.stdout
    assert len(stored_runs(files_in(installed / "runs"))) == 200
    episodes = json.loads(said["run"])["episodes"]
    assert len(episodes) == 5 and not any(each.get("error") for each in episodes)
    (law,) = json.loads(said["measure"])["laws"][:1]
    assert law["law"] == "kept_red"


def test_the_contract_suites_on_the_page_pass(installed: Path) -> None:
    made = runpy.run_path("test_contract.py")
    count = 0
    for suite in (each for name, each in made.items() if name.startswith("Test_")):
        for name in dir(suite):
            if name.startswith("test_"):
                getattr(suite(), name)()
                count += 1
    assert count > 10
