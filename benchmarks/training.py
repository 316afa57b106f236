"""What training on collected runs costs, paired with another commit.

    python benchmarks/training.py s6 RUNS --against COMMIT [--columns RUNS]

RUNS is a folder of JSON Lines, as `forewarn collect s6 --format jsonl` writes them,
COLUMNS the same runs in columns, which this commit reads if they are given. Figures are
of processor time, choosing and tuning included.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from driving_steps import ROOT, checked_out
from measuring import PEERS


def trained(checkout: Path, name: str, runs: Path) -> str:
    """How long that takes a commit, in a Python of its own."""
    done = subprocess.run(
        [sys.executable, str(PEERS / "training.py"), name, str(runs.resolve())],
        env={**os.environ, "PYTHONPATH": str(checkout)},
        cwd=checkout,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    return (
        f"{found['runs']:,} runs in {found['all_s']:.1f} s,"
        f" {found['boosting_s']:.1f} s of them scikit-learn's boosting"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenario")
    parser.add_argument("runs", type=Path)
    parser.add_argument("--columns", type=Path)
    parser.add_argument("--against", metavar="COMMIT")
    options = parser.parse_args()
    name, runs = options.scenario, options.runs
    print(f"{'here':10}{trained(ROOT, name, options.columns or runs)}", flush=True)
    if options.against:
        with checked_out(options.against) as tree:
            print(f"{options.against[:9]:10}{trained(tree, name, runs)}")


if __name__ == "__main__":
    main()
