"""What `forewarn learn` says of the model it made: is it a fair picture?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from forewarn.cli import main


def learn(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["learn", *map(str, arguments)])


@pytest.fixture
def states(tmp_path: Path) -> Path:
    """A timer of twenty steps between two states that come by chance."""
    rng = np.random.default_rng(1)
    path = tmp_path / "runs.txt"
    lines = []
    for _ in range(20):
        trace = list[str]()
        while len(trace) < 200:
            stay = int(rng.geometric(0.3))
            trace += ["timer"] * 20 + [str(rng.choice(["left", "right"]))] * stay
        lines.append(" ".join(trace))
    path.write_text("\n".join(lines))
    return path


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


def test_a_timer_is_warned_of_and_kept_in_the_model(
    states: Path, tmp_path: Path
) -> None:
    out = tmp_path / "m.json"
    said = learn(states, "--format", "states", "--out", out)
    assert said.exit_code == 0, said.output
    (verdict,) = (
        line for line in said.output.splitlines() if "does not represent" in line
    )
    assert verdict.startswith("The chain does not represent the traces well: 1 of ")
    assert verdict.endswith("at a constant rate, most of all where it is timer.")
    fairness = json.loads(out.read_text())["training"]["fairness"]
    assert fairness["fair"] is False
    assert [f["state"] for f in fairness["dwell"] if f["flagged"]] == ["timer"]
    told = learn(states, "--format", "states", "--out", out, "--json")
    payload = json.loads(told.stdout)
    assert payload["training"]["fairness"] == fairness
    assert any("timer lasts 20" in warning for warning in payload["warnings"])


def test_with_a_law_its_risk_is_validated(frames: list[Path], tmp_path: Path) -> None:
    law = "always(braking -> eventually[0,0.5 s] speed < 1 km/h)"
    said = learn(
        *frames, "--law", law, "--out", tmp_path / "m.json", "--json",
    )  # fmt: skip
    assert said.exit_code == 0, said.output
    payload = json.loads(said.stdout)
    fairness = payload["training"]["fairness"]
    (reliability,) = fairness["reliability"].values()
    assert reliability["traces"] == 12 and reliability["bins"]
