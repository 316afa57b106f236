"""Figures of docs/measuring.md: how late a stop can begin, and which alarms are later.

For each scenario, this runs `forewarn measure SCENARIO --last-moment` with the shipped
policy that alerts and with the one that stops the car.

    python benchmarks/moments.py [SCENARIO ...]
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from run import arguments, markdown, show

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
