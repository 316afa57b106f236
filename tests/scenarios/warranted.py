"""Logs of cars that brake hard, and the guard that is made from them, once per run."""

from __future__ import annotations

import csv
import random
from functools import cache
from pathlib import Path

from forewarn.abstractions.frame import Frame
from forewarn.abstractions.trace import TraceHeader, trace_writer
from tests.scenarios import learned

LAW = "gentle := always not (acceleration < -4.9)"
ABSTRACTION = """\
format: forewarn.abstraction/1
name: near
vocabulary: driving
period_s: 0.5
predicates: [acceleration < -4.9, time_to_collision < 2 s]
"""
SIGNALS = ("speed", "acceleration", "time_to_collision")


def write_logs(folder: Path, runs: int, seed: int = 0, false: float = 0.01) -> None:
    """Writes runs of eight drivers, one in five of which ends in hard braking.

    Args:
        folder: Where they go, with a table of the drivers.
        runs: How many.
        seed: Of what is random.
        false: How often a clean run looks as if it were about to end so.
    """
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(seed)
    facts = []
    for number in range(runs):
        name = f"{seed:03}-{number:05}.jsonl"
        hard = chance.random() < 0.2
        near = chance.random() < (0.97 if hard else false)
        header = TraceHeader("driving", SIGNALS, 0.5, source="test")
        with trace_writer(folder / name, header) as writer:
            for step in range(8):
                values = {
                    "speed": 40.0 + chance.random(),
                    "acceleration": -6.0 if hard and step == 6 else -1.0,
                    "time_to_collision": 1.0 if near and step > 2 else 8.0,
                }
                writer.write(Frame(step / 2, step, values))
        facts.append((name, f"driver <{number % 8}>"))
    with (folder / "runs.csv").open("w", newline="") as out:
        csv.writer(out).writerows([("run", "driver"), *facts])


@cache
def logs() -> Path:
    """The folder of 320 runs."""
    return learned.made_once("warrant-logs", lambda folder: write_logs(folder, 320))


@cache
def guard() -> Path:
    """The folder of the guard that is made from them."""

    def make(folder: Path) -> None:
        (folder / "near.yaml").write_text(ABSTRACTION)
        learned.forewarn(
            "warrant", logs(), "--law", LAW, "--group", "driver", "--horizon", 2,
            "--abstraction", folder / "near.yaml", "--out", folder / "guard",
        )  # fmt: skip

    return learned.made_once("warrant-guard", make) / "guard"
