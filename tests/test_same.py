"""Frames and decisions of each shipped scenario, as hashes.

A restructuring leaves them as they are. `python tests/test_same.py` prints them anew.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from forewarn.cli import main as cli

NEEDS = {
    "env": "highway_env", "virtualhome": "virtualhome_eval",
    "fork": "numpy", "tiny": "numpy",
}  # fmt: skip
SAME = {
    "chain-braking": ("f4d287e3805a", "ad6231d81b7c"),
    "give-way": ("133c196d5e3f", "59fd863daa90"),
    "green-start": ("97387e2c39b6", "651e72cc06ec"),
    "highway-lanes": ("d5f68f5a7585", "b51152e8c11a"),
    "highway-speed": ("e1f6bfe662f1", "52a510a668f1"),
    "merge": ("cf61e6c7d044", "45d9b17ad363"),
    "roundabout": ("89da2d0f5b1f", "6106c6fa9494"),
    "s1": ("fb7d9cd46821", "42c05ba62db7"),
    "s2": ("23f294622a9f", "3d32a3ff64ca"),
    "s3": ("0bd00cefee89", "0d619c18aa8e"),
    "s4": ("624b56f8a1b8", "b18205a9d319"),
    "s5": ("552be81b3212", "b1c929c6635e"),
    "s6": ("f0880fbc0c6b", "46b2cb8549e5"),
    "s7": ("5a43fe7ac279", "fb1519052789"),
    "env-highway": ("f3ab32bfb25c", "3cb8ef747bfc"),
    "env-intersection": ("a8fe65f722a9", "178fb402b181"),
    "env-merge": ("f47c4730dcf9", "d30b53a33624"),
    "env-roundabout": ("dca9777607c7", "7d916fc31b71"),
    "fork-in-microwave": ("12d69ef5d4e5", "9c5e333bd7b9"),
    "virtualhome-chores": ("4a07aca6514c", "e5e7cef7f485"),
    "tiny-kitchen": ("17c97e705388", "a0c3a69a92f1"),
    "tiny-road": ("f5b033262e81", "8261b0365cf1"),
}
"""Of each scenario: the hash of its frames, and of its decisions."""


def run_lines(scenario: str, folder: Path) -> Iterator[dict[str, Any]]:
    """The lines of a guarded run's record, or of a trace where no model ships."""
    run = [scenario, "--seed", "7", "--episodes", "1", "--out", str(folder), "--json"]
    guard = ["--no-scene", "--intervene", "alert,stop", "--threshold", "0.05,0.3"]
    done = CliRunner().invoke(cli, ["run", *run, *guard])
    if done.exit_code == 2:  # no model ships
        done = CliRunner().invoke(cli, ["collect", *run, "--format", "jsonl"])
    assert done.exit_code == 0, done.output
    (path,) = folder.glob("*.jsonl*")
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt") as lines:
        return map(json.loads, lines.read().splitlines()[1:])


def digests(scenario: str, folder: Path) -> tuple[str, str]:
    """Hashes of the frames with what was proposed, and of the decisions."""
    seen, decided = hashlib.sha256(), hashlib.sha256()
    for line in run_lines(scenario, folder):
        frame = [line.get(name) for name in ("time_s", "signals", "proposal")]
        seen.update(json.dumps(frame, sort_keys=True).encode())
        decision = line.get("decision", {})
        what = ("decision", "law", "risk", "now", "cap_kmh", "left_s")
        text = json.dumps([decision.get(name) for name in what])
        # The last digits depend on how many threads multiply matrices.
        same = json.loads(text, parse_float=lambda digits: f"{float(digits):.9g}")
        decided.update(json.dumps(same).encode())
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
