"""Logs of cars that brake hard, and the guard that is made from them, once per run."""

from __future__ import annotations

import csv
import random
import shutil
from dataclasses import replace
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


def frames(hard: bool, near: bool) -> list[Frame]:
    """A run that ends in hard braking or not, and looks as if it did or not."""
    return [
        Frame(
            step / 2,
            step,
            {
                "speed": 40.0,
                "acceleration": -6.0 if hard and step == 6 else -1.0,
                "time_to_collision": 1.0 if near and step > 2 else 8.0,
            },
        )
        for step in range(8)
    ]


def write_logs(folder: Path, runs: int, seed: int = 0) -> None:
    """Writes runs of eight drivers, one in five of which ends in hard braking.

    A few of these come without a warning, and one clean run looks like them.

    Args:
        folder: Where they go, with a table of the drivers.
        runs: How many.
        seed: Of what is random.
    """
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(seed)
    facts = []
    for number in range(runs):
        name = f"{seed:03}-{number:05}.jsonl"
        hard = chance.random() < 0.2
        near = number % 24 != 3 if hard else number == 9
        header = TraceHeader("driving", SIGNALS, 0.5, source="test")
        with trace_writer(folder / name, header) as writer:
            speed = 40.0 + chance.random()
            for frame in frames(hard, near):
                values = {**frame.values, "speed": speed}
                writer.write(replace(frame, values=values))
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


def own_guard(folder: Path) -> Path:
    """A copy of the guard, to be used up."""
    return Path(shutil.copytree(guard(), folder / "guard"))
