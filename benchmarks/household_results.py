"""Figures of docs/household-results.md: guards compared, and the robot's habits.

    python benchmarks/household_results.py compared FAMILY [--jobs 2]
    python benchmarks/household_results.py fit [--jobs 2] [--write]

`compared` runs `forewarn measure FAMILY` and prints its figures as four tables in
Markdown: the guards that do not warn the robot, those that warn a robot with the fitted
compliance, the completed runs at the same fraction of unsafe runs, and the unsafe and
complete runs by compliance, with our chosen threshold. FAMILY is `household` or a file,
such as a copy of this family for SafeAgentBench's tasks.

`fit` fits four of the robot's habits to published figures. Of 1,663 steps of recorded
agents in the real AI2-THOR, 81.5 % succeeded. ProbGuard's authors report that 78 of 192
runs of their agent were unsafe without a guard; with reflection at a risk of 0.1, 28 of
199 were unsafe and 95 were complete. Our robot is fitted to these figures with a guard
that follows their method. In their figures, the runs that were completed without a
guard are exactly those that were not unsafe, so "complete" here means safely complete.
The probability of refusal is not fitted, because no figure is published. The seeds
differ from those used in comparisons.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from run import command_line, markdown

from forewarn.cli.measured import BARS, FAMILY
from forewarn.scenarios.measuring.embodied import (
    TRAINING_RUNS,
    Method,
    TaskJob,
    TaskRun,
    study,
)
from forewarn.scenarios.measuring.embodied_table import CHOSEN
from forewarn.scenarios.running.campaign import pool
from forewarn.scenarios.schema import load_family
from forewarn.thor_bridge.pilot import HABITS

LEFT_OUT = ("tokens", "µs per decision")
"""Columns that depend on the machine, or that only a language model has."""

GUARDS = {name: cell for name, cell in FAMILY.items() if name not in LEFT_OUT}


def compared(family: str, *, jobs: int = 1) -> Iterator[str]:
    """The guards, compared on the tasks of a family."""
    command = [sys.executable, "-m", "forewarn", "measure", family, "--json"]
    said = subprocess.run(
        [*command, "--jobs", str(jobs)], check=True, stdout=subprocess.PIPE
    )
    found = json.loads(said.stdout)
    for share in (None, found["fitted_compliance"]):
        rows = (row for row in found["rows"] if row["compliance"] == share)
        yield from markdown(
            tuple(GUARDS), ([cell(row) for cell in GUARDS.values()] for row in rows)
        )
        yield ""
    yield from markdown(
        tuple(BARS), ([cell(bar) for cell in BARS.values()] for bar in found["bars"])
    )
    yield ""
    warned = [
        row
        for row in found["rows"]
        if row["compliance"] is not None
        if row["recipe"] != "ours" or row["threshold"] == CHOSEN
    ]
    ways, shares = (
        list(dict.fromkeys(row[key] for row in warned)) for key in ("way", "compliance")
    )
    cells = {
        (row["compliance"], row["way"]): f"{row['unsafe']:.1%}, {row['complete']:.1%}"
        for row in warned
    }
    rows = ((f"{share:.1%}", *(cells[share, way] for way in ways)) for share in shares)
    yield from markdown(("heeds", *ways), rows)


# -- the habits

SEEDS = tuple(range(500_000, 500_010))
TRAINING = tuple(range(400_000, 400_000 + TRAINING_RUNS))

UNSAFE = 78 / 192
UNSAFE_REFLECTING = 28 / 199
COMPLETE_REFLECTING = 95 / 199

SUCCEEDED = 0.815

REFUSAL = 0.05


def fit(*, jobs: int = 1, write: bool = False) -> Iterator[str]:
    """The robot's habits, fitted to published figures."""
    habits: dict[str, Any] = {"refusal": REFUSAL, "haste": 0.0}

    def runs(way: Method, **extra: float) -> list[TaskRun]:
        return _runs(way, {**habits, **extra}, jobs)

    none, reflecting = Method("none"), Method("paper", "reflect", 0.1)
    half = {"carelessness": 0.5}
    habits["haste"] = _halved(
        lambda haste: _successes(runs(none, haste=haste, **half)), SUCCEEDED
    )
    least, most = (_unsafe(runs(none, carelessness=share)) for share in (0.0, 1.0))
    habits["carelessness"] = round(_solve(least, most, UNSAFE), 3)
    always, never = (
        _unsafe(runs(reflecting, compliance=share, resignation=0.0))
        for share in (1.0, 0.0)
    )
    habits["compliance"] = round(_solve(never, always, UNSAFE_REFLECTING), 3)
    habits["resignation"] = _halved(
        lambda share: _safely_complete(runs(reflecting, resignation=share)),
        COMPLETE_REFLECTING,
    )
    unguarded, warned = runs(none), runs(reflecting)
    lines = [
        "# Written by `benchmarks/household_results.py fit`, and not changed after",
        "# comparisons began. Rates on the seeds of the fit, and published rates:",
        f"#   steps that succeed       {_successes(unguarded):.3f}  {SUCCEEDED:.3f}",
        f"#   unsafe, unguarded        {_unsafe(unguarded):.3f}  {UNSAFE:.3f}",
        f"#   unsafe, warned           {_unsafe(warned):.3f}  {UNSAFE_REFLECTING:.3f}",
        f"#   safely complete, warned  {_safely_complete(warned):.3f} "
        f" {COMPLETE_REFLECTING:.3f}",
        "format: forewarn.habits/1",
        *(f"{name}: {habits[name]:g}" for name in sorted(habits)),
    ]
    yield from lines
    if write:
        HABITS.write_text("\n".join(lines) + "\n")


def _runs(way: Method, habits: dict[str, float], jobs: int) -> list[TaskRun]:
    tasks = load_family("household").tasks
    todo = [
        TaskJob("household", task, (way,), SEEDS, TRAINING, tuple(habits.items()))
        for task in tasks
    ]
    return [run for _, runs in study(todo, pool(jobs)) for run in runs[way]]


def _unsafe(runs: Sequence[TaskRun]) -> float:
    return sum(run.unsafe for run in runs) / len(runs)


def _safely_complete(runs: Sequence[TaskRun]) -> float:
    return sum(run.complete and not run.unsafe for run in runs) / len(runs)


def _successes(runs: Sequence[TaskRun]) -> float:
    return 1 - sum(run.failed for run in runs) / sum(run.done for run in runs)


def _halved(falls: Callable[[float], float], wanted: float) -> float:
    """Finds by bisection the argument at which a decreasing rate has a given value."""
    low, high = 0.0, 1.0
    for _ in range(5):
        middle = (low + high) / 2
        low, high = (middle, high) if falls(middle) > wanted else (low, middle)
    return round((low + high) / 2, 3)


def _solve(at_zero: float, at_one: float, wanted: float) -> float:
    """Finds the argument at which a linear rate has a given value."""
    return min(max((wanted - at_zero) / (at_one - at_zero), 0.0), 1.0)


if __name__ == "__main__":
    command_line(__doc__, compared, fit)
