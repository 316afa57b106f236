"""Repeats runs with slowing or stopping, from the first moment in each risk band.

Moments after a violation are left out. A repeated run ends a few seconds after the
intervention. A run counts as violating if an obligation that arose before the end of
the intervention goes unmet; this is determined with and without the intervention. Each
run counts once per band, so the runs in a band are independent.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame
from forewarn.monitors.evaluation.branched import EDGES, Band, number_of
from forewarn.monitors.evaluation.warned import SLACK_S, Broken
from forewarn.monitors.guarding.decision import Decision
from forewarn.monitors.guarding.listening import Listener
from forewarn.monitors.guarding.policy import Policy
from forewarn.monitors.guarding.watch import Watch
from forewarn.scenarios.measuring.late import WATCHED_S, Again, unreproducible
from forewarn.scenarios.running.plan import RunPlan, plan, runner_of, scenario_of
from forewarn.scenarios.running.pools import Lost, Pool
from forewarn.scenarios.running.runner import Keep
from forewarn.scenarios.schema import End, Scenario

LEAST_S = 5.0
"""The minimum duration of an intervention in seconds. With a horizon of one second,
most violations occur after the horizon, because the risk often rises earlier.
"""


@dataclass(frozen=True, slots=True)
class Branching:
    """A run to repeat.

    Args:
        watching: The plan of the run with a guard in shadow mode.
        alone: The plan of the run without a guard.
        acted_s: The duration of the interventions in seconds; violations of obligations
            that arise within it are counted.
        seed: The run's seed.
        checked: Whether to check first that the run can be repeated exactly.
    """

    watching: RunPlan
    alone: RunPlan
    acted_s: float
    seed: int
    checked: bool = False


Found = Sequence[tuple[str, int, tuple[bool, bool, bool]]]
"""For each law and risk band: whether any law was broken without an intervention, with
slowing, and with stopping. The band is given by its number.
"""


class _Entered(Listener):
    """Records when the risk of each law first entered each band."""

    def __init__(self) -> None:
        self.at_s: dict[tuple[str, int], float] = {}

    def decided(self, watch: Watch, frame: Frame, decision: Decision) -> None:
        for law in watch.laws:
            if law.point == law.point:
                self.at_s.setdefault((law.name, number_of(law.point)), frame.time_s)


def branch(job: Branching) -> Found:
    """Repeats one run with slowing and with stopping, from its first moment in each
    band.
    """
    entered = _Entered()
    watched = runner_of(job.watching).run(job.seed, Keep(listeners=(entered,)))
    if watched.failed:
        raise InvalidInput(f"seed {job.seed} failed: {watched.error}")
    broken_s = min((each.time_s for each in watched.violations), default=math.inf)
    again, scenario = Again.of(job.alone, os.getpid()), scenario_of(job.alone)
    if job.checked:
        same = again.alone(job.seed)
        now, before = ((e.violations, e.duration_s) for e in (same, watched))
        if now != before:
            raise unreproducible(scenario, job.seed, "--if-acted")
    found = []
    for (law, band), begins_s in entered.at_s.items():
        if begins_s + SLACK_S >= broken_s:
            continue  # a law was already broken
        until_s = begins_s + job.acted_s
        most_s = min(until_s + WATCHED_S, scenario.end.max_time_s)
        end = End(max_time_s=most_s, on_violation=scenario.end.on_violation)
        ways = (
            watched.violations,
            again.intervened(job.seed, "slow", begins_s, until_s, end).violations,
            again.intervened(job.seed, "stop", begins_s, until_s, end).violations,
        )
        window = begins_s, until_s, most_s
        alone, slowed, stopped = (_breaks(each, window) for each in ways)
        found.append((law, band, (alone, slowed, stopped)))
    return found


def _breaks(violations: Iterable[Broken], window: tuple[float, float, float]) -> bool:
    """Whether an obligation that arose before the end of the intervention goes unmet
    after the intervention began.
    """
    begins_s, until_s, most_s = window
    return any(
        begins_s + SLACK_S < each.time_s <= most_s + SLACK_S
        and each.since_s <= until_s + SLACK_S
        for each in violations
    )


def branched(
    scenario: Scenario, model: Path, policy: Policy, seeds: Sequence[int], on: Pool
) -> dict[str, tuple[Band, ...]]:
    """Returns for each law the effect of slowing and stopping in each risk band that
    runs reached.

    Raises:
        InvalidInput: A run failed, or a repeated run has a different result.
    """
    watching = plan(scenario, model, policy).watching()
    alone = plan(scenario)
    acted_s = max(policy.horizon_s, LEAST_S)
    todo = [Branching(watching, alone, acted_s, seed) for seed in seeds]
    todo[:1] = [replace(each, checked=True) for each in todo[:1]]
    counts: dict[str, dict[int, list[int]]] = {law.name: {} for law in scenario.laws}
    with closing(on.map(branch, todo)) as done:  # type: ignore[type-var]
        for job, found in done:
            if isinstance(found, Lost):
                raise InvalidInput(f"seed {job.seed}: {found.error}")
            for law, band, outcomes in found:
                sums = counts[law].setdefault(band, [0, 0, 0, 0])
                for k, one in enumerate((True, *outcomes)):
                    sums[k] += one
    return {
        law: tuple(
            Band(
                risk=(EDGES[k], EDGES[k + 1]),
                runs=runs,
                proceed=alone,
                slow=slow,
                stop=stop,
            )
            for k, (runs, alone, slow, stop) in sorted(bands.items())
        )
        for law, bands in counts.items()
        if bands
    }
