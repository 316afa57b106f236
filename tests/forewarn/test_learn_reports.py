"""What `forewarn learn` says of the model it made: is it a fair picture?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from forewarn.cli import main

LAW = "always(braking -> eventually[0,0.5 s] speed < 1 km/h)"


def learn(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["learn", *map(str, arguments)])


@pytest.fixture
def frames(tmp_path: Path) -> list[Path]:
    """Speeds that wander; a brake that foretells a standstill."""
    paths = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        header = {
            "format": "forewarn.trace/1",
            "vocabulary": "driving",
            "provides": ["speed", "braking"],
            "period_s": 0.5,
        }
        lines: list[dict[str, Any]] = [header]
        fast = rng.random(80) < 0.6
        for i in range(79):
            signals = {
                "speed": 30.0 if fast[i] else 0.0,
                "braking": bool(not fast[i + 1]),
            }
            lines.append({"sequence": i, "time_s": i / 2, "signals": signals})
        path = tmp_path / f"{seed}.jsonl"
        path.write_text("\n".join(map(json.dumps, lines)))
        paths.append(path)
    return paths


def test_without_a_law_nothing_is_validated(tmp_path: Path) -> None:
    states = tmp_path / "runs.txt"
    states.write_text("a b a\nb a b\n")
    said = learn(states, "--format", "states", "--out", tmp_path / "m.json")
    assert said.exit_code == 0, said.output
    assert "was not tested: this needs a law" in said.output
    assert "Next: " not in said.output


def test_risks_that_held_out_traces_contradict_are_warned_of(
    frames: list[Path], tmp_path: Path
) -> None:
    """Every fifth run brakes in vain, so each fold is unlike the others."""
    for path in frames[::5]:
        path.write_text(path.read_text().replace('"speed": 0.0', '"speed": 9.0'))
    out = tmp_path / "m.json"
    arguments: list[str | Path] = [*frames, "--law", LAW, "--out", out]
    said = learn(*arguments).output
    (verdict,) = (line for line in said.splitlines() if "represent" in line)
    assert verdict.startswith("The chain does not represent the traces well: the risk")
    (following,) = (line for line in said.splitlines() if line.startswith("Next: "))
    assert "forewarn measure" in following and "--abstraction auto" in following
    fairness = json.loads(out.read_text())["training"]["fairness"]
    assert fairness["fair"] is False
    payload = json.loads(learn(*arguments, "--json").stdout)
    assert payload["training"]["fairness"] == fairness
    assert payload["verdict"] == verdict and payload["warnings"]


def test_with_a_law_its_risk_is_validated(frames: list[Path], tmp_path: Path) -> None:
    said = learn(
        *frames, "--law", LAW, "--out", tmp_path / "m.json", "--json",
    )  # fmt: skip
    assert said.exit_code == 0, said.output
    payload = json.loads(said.stdout)
    fairness = payload["training"]["fairness"]
    (reliability,) = fairness["reliability"].values()
    assert reliability["traces"] == 12 and reliability["bins"]
