"""The page about laws: each example has the verdict that it states."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from forewarn.cli import main

PAGE = Path(__file__).parents[3] / "docs" / "laws.md"
if not PAGE.exists():
    pytest.skip("the pages are not here: not a checkout", allow_module_level=True)

TEXT = PAGE.read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^\| `([^`]+)` \| (ok|violated at (\d+) s) \|", TEXT, re.M)


def test_each_example_has_the_verdict_that_the_page_states(tmp_path: Path) -> None:
    assert len(EXAMPLES) == 10
    drive = tmp_path / "drive.csv"
    (csv,) = re.findall(r"```csv\n(.*?)```", TEXT, re.S)
    drive.write_text(csv)
    laws = [word for law, *_ in EXAMPLES for word in ("--law", law)]
    done = CliRunner().invoke(main, ["monitor", str(drive), *laws, "--json"])
    found = json.loads(done.stdout)["results"]
    for (law, verdict, time_s), each in zip(EXAMPLES, found, strict=True):
        assert each["verdict"] == verdict.split()[0], law
        if time_s:
            assert each["violations"][0]["time_s"] == float(time_s), law
