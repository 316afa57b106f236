"""Hashes of the frames and decisions of each included scenario.

Refactoring must not change the hashes. `python tests/test_same.py` prints new ones.
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
    "chain-braking": ("89ff5db6e5ae", "bb2b06f60e3a"),
    "give-way": ("ceab87c4df28", "733564b0e7d9"),
    "green-start": ("04f50c57733a", "0b55e3c73f1a"),
    "highway-lanes": ("ede2104ac905", "fc571dc9a770"),
    "highway-speed": ("8342808c050f", "0589b97321de"),
    "merge": ("30c5cbd99f98", "5117b17af11c"),
    "roundabout": ("fdc0495a10a6", "e62236351419"),
    "s1": ("32a054bb1575", "807f0ba76965"),
    "s2": ("3bf6b289d3e5", "1c88e6ca3796"),
    "s3": ("624a5a6d5a25", "a7de91c94888"),
    "s4": ("0d3fc14a7e97", "bf8041bd6c0d"),
    "s5": ("20a3f8db567f", "3560d1422afa"),
    "s6": ("76479d0f2565", "d9931b6c9644"),
    "s7": ("980473e87a15", "5198c10aa1f2"),
    "env-highway": ("1c16aab4c3a8", "83d83535ff9d"),
    "env-intersection": ("46e3994266e1", "a5026d39be61"),
    "env-merge": ("923df890d7b8", "77bc30cbbf7d"),
    "env-roundabout": ("982d8ca7939c", "c95dd6460dc2"),
    "fork-in-microwave": ("aa168d0fb125", "e70f55c2d460"),
    "virtualhome-chores": ("5f6d6d7abc2e", "be9a100e269e"),
    "tiny-kitchen": ("fe556efeb879", "a0c3a69a92f1"),
    "tiny-road": ("e197f37d5090", "8261b0365cf1"),
}
"""For each scenario, the hash of its frames and the hash of its decisions."""


def run_lines(scenario: str, folder: Path) -> Iterator[dict[str, Any]]:
    """Returns the lines of a guarded run's record or, without a model, of a trace."""
    run = [scenario, "--seed", "7", "--episodes", "1", "--out", str(folder), "--json"]
    guard = ["--no-scene", "--intervene", "alert,stop", "--threshold", "0.05,0.3"]
    done = CliRunner().invoke(cli, ["run", *run, *guard])
    if done.exit_code == 2:  # no model is included
        done = CliRunner().invoke(cli, ["collect", *run, "--format", "jsonl"])
    assert done.exit_code == 0, done.output
    (path,) = folder.glob("*.jsonl*")
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt") as lines:
        return map(json.loads, lines.read().splitlines()[1:])


def rounded(facts: dict[str, Any], names: tuple[str, ...]) -> bytes:
    """Formats some of the facts as text, with nine digits per number.

    The last digits depend on the processor's vector instructions and on the number of
    threads that multiply matrices.
    """
    text = json.dumps([facts.get(name) for name in names])
    same = json.loads(text, parse_float=lambda digits: f"{float(digits):.9g}")
    return json.dumps(same).encode()


def digests(scenario: str, folder: Path) -> tuple[str, str]:
    """Returns the hashes of the frames with the proposals, and of the decisions."""
    seen, decided = hashlib.sha256(), hashlib.sha256()
    for line in run_lines(scenario, folder):
        seen.update(rounded(line, ("time_s", "signals", "proposal")))
        decision = line.get("decision", {})
        what = ("decision", "law", "risk", "now", "cap_kmh", "left_s")
        decided.update(rounded(decision, what))
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
        if entry["name"] not in SAME:
            continue
        with tempfile.TemporaryDirectory() as temporary:
            frames, decisions = digests(entry["name"], Path(temporary))
            print(f'    "{entry["name"]}": ("{frames}", "{decisions}"),', flush=True)
