"""Fits the embedded robot's habits to published figures and stores them.

Four habits are fitted. Of 1,663 steps of recorded agents in the real AI2-THOR, 81.5 %
succeeded. ProbGuard's authors report that 78 of 192 runs of their agent were unsafe
without a guard; with reflection at a risk of 0.1, 28 of 199 were unsafe and 95 were
complete. Our robot is fitted to these figures with a guard that follows their method.
In their figures, the runs that were completed without a guard are exactly those that
were not unsafe, so "complete" here means safely complete. The probability of refusal is
not fitted, because no figure is published. The seeds differ from those used in
comparisons.

    python benchmarks/fit_household.py [--jobs N] [--write]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from run import arguments

from forewarn.scenarios.measuring.embodied import (
    TRAINING_RUNS,
    Method,
    TaskJob,
    TaskRun,
    study,
)
from forewarn.scenarios.running.campaign import pool
from forewarn.scenarios.schema import load_family
from forewarn.thor_bridge.pilot import HABITS

FAMILY = "household"
SEEDS = tuple(range(500_000, 500_010))
TRAINING = tuple(range(400_000, 400_000 + TRAINING_RUNS))

UNSAFE = 78 / 192
UNSAFE_REFLECTING = 28 / 199
COMPLETE_REFLECTING = 95 / 199

SUCCEEDED = 0.815

REFUSAL = 0.05


def main() -> None:
    options = arguments(__doc__, jobs=1, write=False)
    habits: dict[str, Any] = {"refusal": REFUSAL, "haste": 0.0}

    def runs(way: Method, **extra: float) -> list[TaskRun]:
        return _runs(way, {**habits, **extra}, options.jobs)

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
        "# Written by benchmarks/fit_household.py, and not changed after comparisons",
        "# began. Rates on the seeds used for fitting, and published rates:",
        f"#   steps that succeed       {_successes(unguarded):.3f}  {SUCCEEDED:.3f}",
        f"#   unsafe, unguarded        {_unsafe(unguarded):.3f}  {UNSAFE:.3f}",
        f"#   unsafe, warned           {_unsafe(warned):.3f}  {UNSAFE_REFLECTING:.3f}",
        f"#   safely complete, warned  {_safely_complete(warned):.3f} "
        f" {COMPLETE_REFLECTING:.3f}",
        "format: forewarn.habits/1",
        *(f"{name}: {habits[name]:g}" for name in sorted(habits)),
    ]
    print("\n".join(lines))
    if options.write:
        HABITS.write_text("\n".join(lines) + "\n")


def _runs(way: Method, habits: dict[str, float], jobs: int) -> list[TaskRun]:
    tasks = load_family(FAMILY).tasks
    todo = [
        TaskJob(FAMILY, task, (way,), SEEDS, TRAINING, tuple(habits.items()))
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
    main()
