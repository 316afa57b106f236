"""A wall clock that jumps by hours changes nothing: a loop counts monotonic time."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from forewarn.cli import main

pytest.importorskip("libsumo", reason="libsumo is not installed")


def reviewed(folder: Path) -> list[Any]:
    """The frames of a guarded run with their decisions, as its record has them."""
    asked = ["run", "s2", "--seed", "3", "--episodes", "1", "--out", str(folder)]
    assert CliRunner().invoke(main, asked).exit_code == 0
    (record,) = folder.glob("*.run.jsonl")
    lines = map(json.loads, record.read_text().splitlines())
    found = [
        (each["signals"], each["decision"]) for each in lines if "decision" in each
    ]
    assert len(found) > 100
    return found


def test_a_wall_clock_that_jumps_changes_no_decision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steady = reviewed(tmp_path / "steady")
    wall, calls = time.time, itertools.count()
    ahead_s, behind_s = 7 * 3600.0, -5 * 3600.0

    def jumping() -> float:
        return wall() + (ahead_s if next(calls) % 2 else behind_s)

    monkeypatch.setattr(time, "time", jumping)
    monkeypatch.setattr(time, "time_ns", lambda: round(jumping() * 1e9))
    assert reviewed(tmp_path / "jumping") == steady
