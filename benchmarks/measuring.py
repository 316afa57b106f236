"""Figures of docs/measuring.md: last moments and baselines, from `forewarn measure`.

    python benchmarks/measuring.py moments [SCENARIO ...]
    python benchmarks/measuring.py baselines [SCENARIO ...]
    python benchmarks/run.py measuring

`moments` shows how late a stop can begin, and which alarms are later. For each
scenario, it runs `forewarn measure SCENARIO --last-moment` with the shipped policy that
alerts and with the one that stops the car. The last command measures the time of that
search: 100 seeds of a scenario are measured with the shipped stop policy, and then the
last moment of a stop is found for 30 violating runs. Both times are processor times of
one process.

`baselines` runs `forewarn measure SCENARIO --sweep --no-guarded` with all baselines.
Each cell has the highest detection rate of a method at a false-alarm rate of at most
0.10, the median lead time, and the fraction of violations detected at least 1 s ahead.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from run import Row, command_line, installed, markdown

from forewarn.monitors.evaluation.warned import best_allowed
from forewarn.monitors.guarding.policy import load_policy
from forewarn.scenarios.measuring.late import last_moments
from forewarn.scenarios.measuring.measure import Wish, measure
from forewarn.scenarios.running.campaign import campaign, jobs, pool
from forewarn.scenarios.running.episode import Episode
from forewarn.scenarios.running.plan import plan
from forewarn.scenarios.schema import Scenario, load_scenario
from forewarn.scenarios.shipped import FOLDER, Shipped

EPISODES = 200
"""The number of runs behind each table."""


def _measured(scenario: str, seed: int, *options: str) -> dict[str, Any]:
    """Returns what `forewarn measure` prints."""
    command = [
        sys.executable, "-m", "forewarn", "measure", scenario, "--json", "--seed",
        str(seed), "--episodes", str(EPISODES), *options,
    ]  # fmt: skip
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    found: dict[str, Any] = json.loads(said.stdout)
    return found


# -- last moments

MOMENTS = ("s4", "s6", "merge", "roundabout", "chain-braking", "highway-lanes")
MOMENTS_SEED = 9_460_000


def moments(scenarios: Sequence[str] = MOMENTS) -> Iterator[str]:
    """How late a stop can begin, and which alarms are later; a row per violated law."""
    rows = []
    for name in scenarios:
        warning, acting = (
            _measured(name, MOMENTS_SEED, "--last-moment", "--preset", preset)
            for preset in ("alert", "stop")
        )
        for law, last in acting["last_moment_s"].items():
            if not last["violating"]:
                continue
            can = last["preventable"]
            warned = warning["last_moment_s"][law]
            rows.append(
                (
                    f"{name}, {law}", f"{last['violating']} of {EPISODES}", str(can),
                    f"{last['median']:.1f} s, {last['longest']:.1f} s" if can else "-",
                    _late(warned), _late(last), f"{last['prevented']} of {can}",
                )
            )  # fmt: skip
    head = (
        "scenario, law", "violations", "prevented by a single stop",
        "it must begin before: median, maximum", "no warning in time",
        "no stop in time", "prevented by the guard",
    )  # fmt: skip
    yield from markdown(head, rows)


def _late(found: dict[str, Any]) -> str:
    return f"{found['alarms_too_late'] + found['no_alarm']} of {found['preventable']}"


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


# -- baselines

BASELINES = (
    "logistic", "redriver", "ttc", "rss", "reactive", "deadline", "paper", "released",
)  # fmt: skip
BASELINES_SEED = 3_000_000


def baselines(scenarios: Sequence[str] = ("s1", "s2", "s3", "s5")) -> Iterator[str]:
    """The shipped guards and all baselines: a row per method, a column per law."""
    options = ["--sweep", "--no-guarded", *(f"--baseline={each}" for each in BASELINES)]
    found = {
        name: _measured(name, BASELINES_SEED, *options)["trade_off"]
        for name in scenarios
    }
    laws = [
        (name, law)
        for name, ways in found.items()
        for law in dict.fromkeys(law for laws in ways.values() for law in laws)
    ]
    methods = list(dict.fromkeys(way for ways in found.values() for way in ways))
    rows = (
        (way, *(_cell(found[name].get(way, {}), law) for name, law in laws))
        for way in methods
    )
    yield from markdown(("", *(f"{name}, {law}" for name, law in laws)), rows)


def _cell(laws: Mapping[str, Any], law: str) -> str:
    if law not in laws:
        return "-"
    best = best_allowed(laws[law]) or {}
    if not best.get("detection_rate"):
        return "0.00"
    return (
        f"{best['detection_rate']:.2f}, {best['awt_trigger_median_s']:.1f} s, "
        f"{best['second_ahead_rate']:.2f}"
    )


if __name__ == "__main__":
    command_line(__doc__, moments, baselines)
