"""Counts how many of a hundred certified guarantees about guarded runs are false.

A guard stops the car at one of two thresholds. Each repetition certifies both
thresholds on its own held-out runs, with the functions that `forewarn tune --at-most
0.02 --held-out 149` calls. A guarantee is false if more than 2 % of 5,000 further runs
with this threshold break a law. Runs already in --out are not repeated.

    python benchmarks/certificates.py --out out/certificates
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from run import arguments, markdown, show

from forewarn.monitors.guarding.policy import load_policy
from forewarn.scenarios.running.campaign import campaign, jobs, pool
from forewarn.scenarios.running.episode import Episode
from forewarn.scenarios.running.plan import plan
from forewarn.scenarios.schema import load_scenario
from forewarn.scenarios.shipped import FOLDER, Shipped
from forewarn.scenarios.training.acting import acting_policy
from forewarn.scenarios.training.certifying import Wanted, acted_on, certified

SCENARIO, THRESHOLDS = "chain-braking", (0.7, 0.75)
"""With the shipped threshold of 0.3, a false guarantee is impossible."""

CERTIFIED, CONFIDENCE = 0.02, 0.95
TIMES, RUNS, AT_ONCE = 100, 149, 25
"""The number of repetitions, held-out runs per repetition, and runs per batch. With 149
runs, a single violation rules out the guarantee, so a certification ends with the batch
that contains the first violation.
"""
FURTHER = 5_000
"""The number of further runs that show a threshold's rate of violations."""

FIRST_SEED, APART, FURTHER_SEED = 20_000_020, 1_000, 30_000_000


class Certifying:
    """Certifies the policies of one scenario.

    Args:
        name: The scenario's name.
        processes: The number of processes.
        place: The folder for the runs.
    """

    def __init__(self, name: str, processes: int, place: Path) -> None:
        shipped = Shipped.in_folder(FOLDER, name)
        self.scenario, self.model = load_scenario(name), shipped.model
        self._on, self._place = pool(processes), place
        base = replace(load_policy(shipped.acting), kept=None)
        laws = self.scenario.laws
        self.policies = {
            at: acting_policy(base, laws, "stop", {law.name: at for law in laws})
            for at in THRESHOLDS
        }

    def certified(self, seeds: range) -> set[float]:
        """Returns the thresholds that are certified on these runs."""
        held: dict[float, list[tuple[Episode, Episode]]] = {at: [] for at in THRESHOLDS}
        for first in range(0, len(seeds), AT_ONCE):
            some = seeds[first : first + AT_ONCE]
            known: list[tuple[Episode, Episode]] = []
            for at in [*held]:
                policy = self.policies[at]
                known = acted_on(
                    self.scenario, self.model, policy, some, self._on, self._place,
                    known=known,
                )  # fmt: skip
                held[at] += known
                if any(after.violations for _, after in known):
                    del held[at]  # the certification fails in any case
        wanted = Wanted(CERTIFIED, 1.0, CONFIDENCE, seeds)
        return {
            at
            for at, pairs in held.items()
            if certified(
                self.scenario, self.model, self.policies[at], wanted, pairs
            ).certified
        }

    def violating(self, seeds: Iterable[int]) -> dict[float, int]:
        """Returns the number of violating runs with each threshold."""
        found: dict[float, int] = {}
        left, calm = [*seeds], 0
        for at, policy in self.policies.items():
            planned = plan(self.scenario, self.model, policy)
            todo = jobs(planned, self.scenario, left, self._place)
            ran = [*campaign(todo, self._on)]
            found[at] = calm + sum(bool(each.violations) for each in ran)
            # A run without an intervention is the same with a higher threshold.
            calm += sum(bool(e.violations) for e in ran if not e.interventions)
            left = [each.seed for each in ran if each.interventions]
        return found


def rows(
    repetitions: list[set[float]], violating: dict[float, int]
) -> Iterator[tuple[object, ...]]:
    """Yields a row for each threshold."""
    for at, part in violating.items():
        stated = sum(at in certified for certified in repetitions)
        false = stated if part / FURTHER > CERTIFIED else 0
        yield at, part, f"{stated} of {len(repetitions)}", false


def main() -> None:
    options = arguments(__doc__, out=Path, jobs=1)
    certifying = Certifying(SCENARIO, options.jobs, options.out)
    firsts = range(FIRST_SEED, FIRST_SEED + TIMES * APART, APART)
    repetitions = [certifying.certified(range(k, k + RUNS)) for k in firsts]
    violating = certifying.violating(range(FURTHER_SEED, FURTHER_SEED + FURTHER))
    head = (
        "stop from", f"violations in {FURTHER:,} further runs", "certified", "false",
    )  # fmt: skip
    show(markdown(head, rows(repetitions, violating)))


if __name__ == "__main__":
    main()
