"""What the page on household robots says of VirtualHome, done as it stands."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from forewarn.cli import main

pytest.importorskip("virtualhome_eval", reason="virtualhome-eval is not installed")

from forewarn.plugins.virtualhome.home import load_programs

PAGE = Path(__file__).parents[3] / "docs" / "household.md"

if not PAGE.exists():
    pytest.skip("the pages are not here: not a checkout", allow_module_level=True)

SECTION = PAGE.read_text(encoding="utf-8").split("## VirtualHome")[1].split("\n## ")[0]


def test_the_file_of_programs_is_one(tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml programs\n(.*?)```", SECTION, re.S)
    path = tmp_path / "programs.yaml"
    path.write_text(text)
    boiled, washed = load_programs(path)
    assert [step.name for step in boiled.steps] == ["walk", "switchon"]
    assert washed.scene == "task:27_2"


@pytest.mark.slow
def test_reflection_sends_the_person_back_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    broken = []
    for line in re.findall(r"^    forewarn (.+)$", SECTION, re.M):
        done = CliRunner().invoke(main, [*line.split(), "--json"])
        assert done.exit_code == 0, done.output
        if line.startswith("run"):
            told = json.loads(done.stdout)
            broken.append(sum(bool(run["violations"]) for run in told["episodes"]))
    free, guarded = broken
    assert guarded == 0 < free
