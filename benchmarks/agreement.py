"""Do SUMO and the CARLA bridge agree on the same scenarios and seeds?

Each scenario is run unguarded in both worlds: on the embedded SUMO world, and through
CARLA's own client against the stand-in server. Verdicts of a law agree in a run if it
is broken in both or in neither.

    python benchmarks/agreement.py [--runs 100] [--seed 700000] [SCENARIO ...]
"""

from __future__ import annotations

import argparse
import sys

from forewarn.scenarios.running.runner import Runner
from forewarn.scenarios.schema import load_scenario, shipped_scenarios

EQUAL, APART = 0.9, 0.05
WORLD = "carla"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    driving = [n for n, p in shipped_scenarios().items() if p.parent.name == "driving"]
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", default=driving)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=700_000)
    options = parser.parse_args()
    print(f"{options.runs} runs each, from seed {options.seed}\n")
    print(f"{'scenario':16}{'law':24}{'sumo':>7}{'carla':>7}{'equal':>7}")
    short = []
    for name in options.scenarios:
        for law, rates, equal in compare(name, options.seed, options.runs):
            misses = equal < EQUAL or abs(rates[0] - rates[1]) > APART
            short += [f"{name}, {law}"] if misses else []
            print(
                f"{name:16}{law:24}{rates[0]:7.2f}{rates[1]:7.2f}{equal:7.2f}"
                f"{'  short' if misses else ''}",
                flush=True,
            )
    print(f"\nRates within {APART}, verdicts equal in {EQUAL:.0%}: ", end="")
    print("all." if not short else f"all but {'; '.join(short)}.")


def compare(
    name: str, first: int, runs: int
) -> list[tuple[str, tuple[float, float], float]]:
    """For each law: the rates in both worlds, and how many verdicts are equal."""
    here = load_scenario(name)
    worlds = Runner(here), Runner(here.on(WORLD))
    broken: list[list[frozenset[str]]] = [[], []]
    for seed in range(first, first + runs):
        for runner, found in zip(worlds, broken, strict=True):
            episode = runner.run(seed)
            if episode.error:
                sys.exit(f"{name}, seed {seed}: {episode.error}")
            found.append(frozenset(v.law for v in episode.violations))
    rows = []
    for law in (law.name for law in here.laws):
        there = [[law in run for run in found] for found in broken]
        equal = sum(a == b for a, b in zip(*there, strict=True)) / runs
        rows.append((law, (sum(there[0]) / runs, sum(there[1]) / runs), equal))
    return rows


if __name__ == "__main__":
    main()
