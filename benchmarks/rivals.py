"""Who warns best? The shipped models and every baseline, on the driving scenarios.

Runs `forewarn measure --sweep` on held-out runs of each scenario and prints, for each
law, what each way to warn detects before the trigger with at most one false alarm in
ten clean runs, and how early. The thresholds are picked on these very runs, for all
alike, so that no way to warn suffers from a badly chosen one.

    python benchmarks/rivals.py [--episodes 200] [--jobs 1] [SCENARIO ...]

What learns among them learns from the runs that the guard's model knows. They are run
once more, unless --training names a folder with a folder of them a scenario.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from run import aligned

from forewarn.scenarios.measuring.tradeoff import ALLOWED, best_allowed
from forewarn.scenarios.schema import load_scenario, shipped_scenarios
from forewarn.scenarios.shipped import shipped_with

FIRST_SEED = 3_000_000

BASELINES = (
    "deadline", "reactive", "ttc", "rss", "redriver", "paper", "released", "logistic",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO")
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=FIRST_SEED)
    parser.add_argument("--training", type=Path)
    options = parser.parse_args()
    table: list[tuple[str, ...]] = [
        ("scenario", "law", "broken", "by", "detected", "false alarms", "to trigger")
    ]
    for name in options.scenarios or _trained():
        found = _measured(name, options)
        table += _rows(name, found)
        for line in aligned(table):
            print(line)
        print(flush=True)
        del table[1:]


def _trained() -> list[str]:
    return [
        name
        for name, path in shipped_scenarios().items()
        if path.parent.name == "driving" and shipped_with(load_scenario(name))
    ]


def _measured(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """What measuring says."""
    wanted = [f"--baseline={each}" for each in BASELINES]
    if options.training:
        wanted.append(f"--training={options.training / name}")
    with tempfile.TemporaryDirectory() as folder:
        said = _forewarn(
            "measure", name, "--sweep", "--no-guarded", f"--seed={options.seed}",
            f"--episodes={options.episodes}", f"--jobs={options.jobs}",
            f"--out={folder}", *wanted,
        )  # fmt: skip
    found: dict[str, Any] = json.loads(said)
    return found


def _forewarn(*arguments: str) -> str:
    command = [sys.executable, "-m", "forewarn.cli", *arguments, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"forewarn {arguments[0]} failed")
    return done.stdout


def _rows(name: str, found: Mapping[str, Any]) -> Sequence[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    shares = {row["law"]: row["base_rate"] for row in found["laws"]}
    for law, share in shares.items():
        best = {
            way: best_allowed(laws[law], ALLOWED) or {}
            for way, laws in found["trade_off"].items()
            if law in laws
        }
        most = max((b.get("detection_rate") or 0.0 for b in best.values()), default=0)
        for way, point in best.items():
            detected = point.get("detection_rate") or 0.0
            early = point.get("awt_trigger_s")
            rows.append(
                (
                    name,
                    law,
                    f"{share:.2f}",
                    way + (" *" if detected == most > 0 else ""),
                    f"{detected:.2f}",
                    f"{point.get('false_alarm_rate') or 0.0:.2f}",
                    "-" if early is None else f"{early:.1f} s",
                )
            )
    return rows


if __name__ == "__main__":
    main()
