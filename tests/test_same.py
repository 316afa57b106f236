"""Frames and decisions of each shipped scenario, as hashes.

A restructuring leaves them as they are. `python tests/test_same.py` prints them anew.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from forewarn.cli import main as cli

NEEDS = {"env": "highway_env", "virtualhome": "virtualhome_eval"}
SAME: dict[str, tuple[str, str]] = {}


def run_lines(scenario: str, folder: Path) -> Iterator[dict[str, Any]]:
    """The lines of a guarded run's record, or of a trace where no model ships."""
    run = [scenario, "--seed", "7", "--episodes", "1", "--out", str(folder), "--json"]
    guard = ["--no-scene", "--intervene", "alert,stop", "--threshold", "0.05,0.3"]
    done = CliRunner().invoke(cli, ["run", *run, *guard])
    if done.exit_code == 2:  # no model ships
        done = CliRunner().invoke(cli, ["collect", *run, "--format", "jsonl"])
    assert done.exit_code == 0, done.output
    (path,) = folder.glob("*.jsonl*")
    return map(json.loads, path.read_text().splitlines()[1:])


def digests(scenario: str, folder: Path) -> tuple[str, str]:
    """Hashes of the frames with what was proposed, and of the decisions."""
    seen, decided = hashlib.sha256(), hashlib.sha256()
    for line in run_lines(scenario, folder):
        frame = [line.get(name) for name in ("time_s", "signals", "proposal")]
        seen.update(json.dumps(frame, sort_keys=True).encode())
        decision = line.get("decision", {})
        what = ("decision", "law", "risk", "now", "cap_kmh", "left_s")
        decided.update(json.dumps([decision.get(name) for name in what]).encode())
    return seen.hexdigest()[:12], decided.hexdigest()[:12]


@pytest.mark.parametrize("scenario", SAME)
def test_frames_and_decisions_are_as_they_were(scenario: str, tmp_path: Path) -> None:
    pytest.importorskip(NEEDS.get(scenario.partition("-")[0], "libsumo"))
    assert digests(scenario, tmp_path) == SAME[scenario]


if __name__ == "__main__":
    listed = CliRunner().invoke(cli, ["scenarios", "--json"])
    for entry in json.loads(listed.stdout)["scenarios"]:
        with tempfile.TemporaryDirectory() as temporary:
            frames, decisions = digests(entry["name"], Path(temporary))
            print(f'    "{entry["name"]}": ("{frames}", "{decisions}"),', flush=True)
