"""Figures of docs/measuring.md: how late a stop can begin, and which alarms are later.

For each scenario, this runs `forewarn measure SCENARIO --last-moment` with the shipped
policy that alerts and with the one that stops the car:

    python benchmarks/late.py [SCENARIO ...]

`run.py` measures the time of that search: 100 seeds of a scenario are measured with the
shipped stop policy, and then the last moment of a stop is found for 30 violating runs.
Both times are processor times of one process.

    python benchmarks/run.py late
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from run import Row, arguments, installed, markdown, show

from forewarn.monitors.guarding.policy import load_policy
from forewarn.scenarios.measuring.late import last_moments
from forewarn.scenarios.measuring.measure import Wish, measure
from forewarn.scenarios.running.campaign import campaign, jobs, pool
from forewarn.scenarios.running.episode import Episode
from forewarn.scenarios.running.plan import plan
from forewarn.scenarios.schema import Scenario, load_scenario
from forewarn.scenarios.shipped import FOLDER, Shipped

TIMED = ("s3", "s6", "roundabout")
TIMED_SEED, RUNS, VIOLATING = 5_003_100, 100, 30
AT_MOST = 3.0
"""The maximum time of the search, as a multiple of the time of measuring."""


def rows(quick: bool) -> Iterator[Row]:
    """Measures the time of the search, compared with that of measuring."""
    if not installed("libsumo"):
        yield Row("last moments", 0.0, peer="libsumo is not installed")
        return
    runs, violating = (RUNS // 10, VIOLATING // 10) if quick else (RUNS, VIOLATING)
    for name in TIMED:
        scenario, shipped = load_scenario(name), Shipped.in_folder(FOLDER, name)
        seeds = range(TIMED_SEED, TIMED_SEED + runs)
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


SCENARIOS = ("s4", "s6", "merge", "roundabout", "chain-braking", "highway-lanes")
FIRST_SEED, EPISODES = 9_460_000, 200

HEAD = (
    "scenario, law", "violations", "prevented by a single stop",
    "it must begin before: median, maximum", "no warning in time",
    "no stop in time", "prevented by the guard",
)  # fmt: skip


def moments(scenario: str, preset: str) -> dict[str, dict[str, Any]]:
    """Returns the last moments of each law with one of the shipped policies."""
    said = subprocess.run(
        [
            sys.executable, "-m", "forewarn", "measure", scenario, "--last-moment",
            "--preset", preset, "--json", "--seed", str(FIRST_SEED),
            "--episodes", str(EPISODES),
        ],
        check=True, stdout=subprocess.PIPE,
    )  # fmt: skip
    found: dict[str, dict[str, Any]] = json.loads(said.stdout)["last_moment_s"]
    return found


def table(scenarios: Sequence[str]) -> Iterator[str]:
    """Yields the table in Markdown, a row per violated law."""
    rows = []
    for name in scenarios:
        warning, acting = moments(name, "alert"), moments(name, "stop")
        for law, last in acting.items():
            if not last["violating"]:
                continue
            can = last["preventable"]
            rows.append(
                (
                    f"{name}, {law}", f"{last['violating']} of {EPISODES}", str(can),
                    f"{last['median']:.1f} s, {last['longest']:.1f} s" if can else "-",
                    _late(warning[law]), _late(last), f"{last['prevented']} of {can}",
                )
            )  # fmt: skip
    yield from markdown(HEAD, rows)


def _late(found: dict[str, Any]) -> str:
    return f"{found['alarms_too_late'] + found['no_alarm']} of {found['preventable']}"


if __name__ == "__main__":
    show(table(arguments(__doc__, scenarios=SCENARIOS).scenarios))
