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
    "metadrive": "metadrive",
    "fork": "numpy", "tiny": "numpy",
}  # fmt: skip
SAME = {
    "chain-braking": ("f4d287e3805a", "bb2b06f60e3a"),
    "give-way": ("133c196d5e3f", "733564b0e7d9"),
    "green-start": ("97387e2c39b6", "0b55e3c73f1a"),
    "highway-lanes": ("d5f68f5a7585", "b724bd4c0593"),
    "highway-speed": ("e1f6bfe662f1", "0589b97321de"),
    "merge": ("cf61e6c7d044", "5117b17af11c"),
    "roundabout": ("89da2d0f5b1f", "e62236351419"),
    "s1": ("fb7d9cd46821", "807f0ba76965"),
    "s2": ("23f294622a9f", "1c88e6ca3796"),
    "s3": ("0bd00cefee89", "a7de91c94888"),
    "s4": ("624b56f8a1b8", "bf8041bd6c0d"),
    "s5": ("552be81b3212", "3560d1422afa"),
    "s6": ("f0880fbc0c6b", "d9931b6c9644"),
    "s7": ("5a43fe7ac279", "5198c10aa1f2"),
    "env-highway": ("f3ab32bfb25c", "588685496973"),
    "env-intersection": ("a8fe65f722a9", "91f9c3725533"),
    "env-merge": ("f47c4730dcf9", "77bc30cbbf7d"),
    "env-roundabout": ("dca9777607c7", "37fe1942c178"),
    "fork-in-microwave": ("12d69ef5d4e5", "e70f55c2d460"),
    "virtualhome-chores": ("4a07aca6514c", "be9a100e269e"),
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


QUICK = ("highway-lanes", "merge", "s1", "s6", "fork-in-microwave", "tiny-road")


@pytest.mark.parametrize(
    "scenario",
    [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in SAME],
)
def test_frames_and_decisions_are_as_they_were(scenario: str, tmp_path: Path) -> None:
    pytest.importorskip(NEEDS.get(scenario.partition("-")[0], "libsumo"))
    assert digests(scenario, tmp_path) == SAME[scenario]


if __name__ == "__main__":
    listed = CliRunner().invoke(cli, ["scenarios", "--json"])
    for entry in json.loads(listed.stdout)["scenarios"]:
        with tempfile.TemporaryDirectory() as temporary:
            frames, decisions = digests(entry["name"], Path(temporary))
            print(f'    "{entry["name"]}": ("{frames}", "{decisions}"),', flush=True)
