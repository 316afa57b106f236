"""What stands in docs/environments.md works as it stands there."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from forewarn.cli import main
from forewarn.plugins.functions import found

pytest.importorskip("gymnasium", reason="gymnasium is not installed")

PAGE = (Path(__file__).parents[3] / "docs" / "environments.md").read_text("utf-8")
_FOUND = re.findall(r"^```([\w ]*)\n(.*?)^```", PAGE, re.M | re.S)
BLOCKS = dict(reversed(_FOUND))
"""Of those without a name, the first: what a newcomer types."""

FILES = {
    "yaml vocabulary": "cart.vocabulary.yaml",
    "yaml scenario": "cart.yaml",
    "python module": "cart.py",
    "python test": "test_contract.py",
}
FEWER = {"150": "30", "100": "10"}
"""Episodes, so that the page is tried in seconds."""
FEWER_ACTING = ["--acting", "10", "--violations", "1", "--release-after", "1"]


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("page")
    for block, name in FILES.items():
        (folder / name).write_text(BLOCKS[block], "utf-8")
    return folder


def test_the_example_has_under_thirty_lines() -> None:
    lines = [line for line in BLOCKS["python module"].splitlines() if line.strip()]
    assert len(lines) < 30


@pytest.mark.slow
def test_the_commands_on_the_page_lead_to_a_report(
    typed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(typed)
    said: dict[str, Any] = {}
    for line in BLOCKS[""].strip().splitlines():
        _, *words = shlex.split(line)
        words = [FEWER.get(word, word) for word in words]
        words += FEWER_ACTING if words[0] == "tune" else []
        done = CliRunner().invoke(main, [*words, "--json"])
        assert done.exit_code == 0, done.output
        said[words[0]] = json.loads(done.stdout)
    (law,) = said["measure"]["laws"]
    assert law["law"] == "upright"
    assert len(said["run"]["episodes"]) == 3
    assert (typed / "kept" / "report.html").exists()
    code = "".join(BLOCKS[f"python {w}"] for w in ("wrapper", "many", "scoring"))
    checks = "assert 'forewarn' in info and decision.kind and vector.reset(seed=1)\n"
    (typed / "wrapping.py").write_text(code + checks, "utf-8")
    ran = subprocess.run(
        [sys.executable, "wrapping.py"], cwd=typed, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr


def test_the_contract_suite_on_the_page_passes(
    typed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(typed)
    suite = found("test_contract.py:TestCart")()
    tests = [name for name in dir(suite) if name.startswith("test_")]
    for name in tests:
        getattr(suite, name)()
    assert len(tests) > 10
