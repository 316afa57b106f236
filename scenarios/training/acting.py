"""Thresholds for acting: what a guard prevents that steps in, and at what price.

A threshold that is right for a warning is not right for a stop: warned too late, a stop
prevents nothing, and a stop that nobody needed costs little where it is short. So the
same training runs are run again with the guard acting, at one threshold after the
other, and counted: what is prevented and caused, and how often it stepped in.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.guarding.decision import Kind
from forewarn.monitors.guarding.enforcing import asks_to_move
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.monitors.laws.lawbook import Law
from forewarn.scenarios.measuring.measure import Progress
from forewarn.scenarios.measuring.pairs import compare
from forewarn.scenarios.running.campaign import campaign, jobs
from forewarn.scenarios.running.episode import Episode, by_seed
from forewarn.scenarios.running.plan import plan
from forewarn.scenarios.running.pools.local import Pool
from forewarn.scenarios.schema import Scenario
from forewarn.scenarios.training.settled import WORSE

THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""The thresholds that are tried."""


@dataclass(frozen=True, slots=True)
class Acted:
    """What a guard did that acted from one threshold on.

    Args:
        threshold: The threshold, of all laws.
        violating: How many violations there were without it.
        prevented: How many fewer there were with it, those that it caused counted in.
        caused: How many runs broke a law with it alone.
        interventions: In how many runs it stepped in.
        longer: How much longer runs took that kept the laws without and with it.
        cost: What stepping in once costs, in violations.
    """

    threshold: float
    violating: int
    prevented: int
    caused: int
    interventions: int
    longer: float | None
    cost: float

    @property
    def worth(self) -> float:
        """What it is worth, in violations."""
        return self.prevented - self.cost * self.interventions

    def as_dict(self) -> dict[str, Any]:
        return {
            "threshold": self.threshold,
            "violating": self.violating,
            "prevented": self.prevented,
            "caused": self.caused,
            "interventions": self.interventions,
            "duration_ratio": self.longer,
            "worth": round(self.worth, 4),
        }


def acted(
    scenario: Scenario,
    model: Path,
    policies: Sequence[tuple[float, Policy]],
    seeds: Sequence[int],
    cost: float,
    on: Pool,
    folder: Path,
    progress: Progress = lambda items, *_: items,
) -> Iterator[Acted]:
    """Each policy on the same runs, beside nobody acting.

    Args:
        scenario: On which scenario.
        model: The model's file.
        policies: The thresholds, with the policies that act from them on.
        seeds: The runs: none that anything is measured by later.
        cost: What stepping in once costs, in violations.
        on: Where the episodes run.
        folder: Where their files go.
        progress: Shows how far it is.
    """
    todo = jobs(plan(scenario), scenario, seeds, folder)
    alone = _done(progress(campaign(todo, on), "episodes without a guard", len(todo)))
    for threshold, policy in policies:
        acting = plan(scenario, model, replace(policy, shadow=False))
        todo = jobs(acting, scenario, seeds, folder)
        what = f"episodes acting from {threshold:g} on"
        guarded = _done(progress(campaign(todo, on), what, len(todo)))
        pairs = compare(alone, guarded, scenario)
        laws = pairs["laws"]
        violating = sum(law["violating_unguarded"] for law in laws)
        yield Acted(
            threshold,
            violating,
            violating - sum(law["violating_guarded"] for law in laws),
            sum(law["caused"] for law in laws),
            sum(bool(episode.interventions) for episode in guarded),
            pairs["duration_ratio"],
            cost,
        )


def _done(episodes: Any) -> list[Episode]:
    found: list[Episode] = by_seed(list(episodes))
    if failed := [each for each in found if each.failed]:
        raise InvalidInput(f"seed {failed[0].seed} failed: {failed[0].error}")
    return found


def best_of(tried: Sequence[Acted]) -> Acted:
    """The one worth most; of those alike, the middle one.

    At the edge a few runs more or less decide.

    Raises:
        InvalidInput: None is worth anything: acting prevents nothing at that cost.
    """
    best = max(tried, key=lambda each: each.worth)
    if best.worth <= 0 or not math.isfinite(best.worth):
        raise InvalidInput(
            f"acting is worth nothing at {best.cost:g} violations an intervention: at"
            f" best it prevents {best.prevented} of {best.violating} in"
            f" {best.interventions} runs with one",
            mend="state a lower --cost, or alert only",
        )
    alike = [e for e in tried if e.worth >= best.worth - WORSE * e.violating]
    return alike[len(alike) // 2]


def acting_policy(base: Policy, laws: Sequence[Law], kind: Kind, at: float) -> Policy:
    """The policy that acts from a threshold on; of laws that ask to move it only warns.

    Raises:
        InvalidInput: All of them ask to move: who is stopped would break them.
    """
    moving = asks_to_move(laws)
    rules = {law: steps for law, steps in base.rules.items() if law in moving}
    acts = {law.name: (Step(kind, at),) for law in laws if law.name not in moving}
    if not acts:
        raise InvalidInput(
            f"{', '.join(sorted(moving))}: who is to move is not helped by a {kind}",
            mend="alert only",
        )
    return replace(base, rules=rules | acts, promises={})
