"""Figures of docs/measuring.md: the time that `measure --last-moment` takes.

For each scenario, 100 seeds are measured with the shipped stop policy, and then the
last moment of a stop is found for 30 violating runs. Both times are processor times of
one process.

    python benchmarks/run.py late
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from run import Row, installed

from forewarn.monitors.guarding.policy import load_policy
from forewarn.scenarios.measuring.late import last_moments
from forewarn.scenarios.measuring.measure import Wish, measure
from forewarn.scenarios.running.campaign import campaign, jobs, pool
from forewarn.scenarios.running.episode import Episode
from forewarn.scenarios.running.plan import plan
from forewarn.scenarios.schema import Scenario, load_scenario
from forewarn.scenarios.shipped import FOLDER, Shipped

SCENARIOS = ("s3", "s6", "roundabout")
FIRST_SEED, RUNS, VIOLATING = 5_003_100, 100, 30
AT_MOST = 3.0
"""The maximum time of the search, as a multiple of the time of measuring."""


def rows(quick: bool) -> Iterator[Row]:
    """Measures the time of the search, compared with that of measuring."""
    if not installed("libsumo"):
        yield Row("last moments", 0.0, peer="libsumo is not installed")
        return
    runs, violating = (RUNS // 10, VIOLATING // 10) if quick else (RUNS, VIOLATING)
    for name in SCENARIOS:
        scenario, shipped = load_scenario(name), Shipped.in_folder(FOLDER, name)
        seeds = range(FIRST_SEED, FIRST_SEED + runs)
        wish = Wish(scenario, shipped.model, load_policy(shipped.acting), seeds)
        with tempfile.TemporaryDirectory() as folder:
            began = time.process_time()
            found = measure(wish, pool(1), Path(folder))
            measured_s = time.process_time() - began
            broken = [each for each in found.episodes if each.violations][:violating]
            broken += _more(scenario, seeds.stop, violating - len(broken), Path(folder))
            began = time.process_time()
            repeated = sum(
                e.runs for e in last_moments(scenario, broken, "stop", pool(1))
            )
            took_s = time.process_time() - began
        what = f"last moments of {violating} violating runs of {name}, {repeated} runs"
        yield Row(what, took_s, None, f"measure {runs} runs", measured_s, 1 / AT_MOST)


def _more(scenario: Scenario, first: int, runs: int, folder: Path) -> list[Episode]:
    """Returns this number of further violating runs."""
    found: list[Episode] = []
    while len(found) < runs:
        todo = jobs(plan(scenario), scenario, [first], folder)
        found += [each for each in campaign(todo, pool(1)) if each.violations]
        first += 1
    return found
