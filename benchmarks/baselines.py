"""Figures of docs/measuring.md: the shipped guards compared with all baselines.

For each scenario, this runs `forewarn measure SCENARIO --sweep --no-guarded` with all
baselines. Each cell has the highest detection rate of a method at a false-alarm
rate of at most 0.10, the median lead time, and the fraction of violations detected at
least 1 s ahead.

    python benchmarks/baselines.py [SCENARIO ...]
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from run import arguments, markdown, show

from forewarn.monitors.evaluation.warned import best_allowed

SCENARIOS = ("s1", "s2", "s3", "s5")
FIRST_SEED, EPISODES = 3_000_000, 200
BASELINES = (
    "logistic", "redriver", "ttc", "rss", "reactive", "deadline", "paper", "released",
)  # fmt: skip


def curves(scenario: str) -> dict[str, dict[str, Any]]:
    """Returns each method's trade-off curve for the first law that it can judge."""
    options = [f"--baseline={each}" for each in BASELINES]
    said = subprocess.run(
        [
            sys.executable, "-m", "forewarn", "measure", scenario, "--sweep",
            "--no-guarded", "--json", "--seed", str(FIRST_SEED),
            "--episodes", str(EPISODES), *options,
        ],
        check=True, stdout=subprocess.PIPE,
    )  # fmt: skip
    found: dict[str, dict[str, Any]] = json.loads(said.stdout)["trade_off"]
    return found


def table(scenarios: Sequence[str]) -> Iterator[str]:
    """Yields the table in Markdown: a row per method, a column per law."""
    found = {name: curves(name) for name in scenarios}
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
    show(table(arguments(__doc__, scenarios=SCENARIOS).scenarios))
