"""Certifies a policy that intervenes, on held-out runs that are used for nothing else.

The chosen policy is run on new seeds, with and without the guard. If the policy were
chosen and certified on the same runs, the guarantee would often be false.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from forewarn.monitors.evaluation.guarantee import Guarantee
from forewarn.monitors.guarding.certificate import deciding
from forewarn.monitors.guarding.policy import Policy
from forewarn.scenarios.measuring.pairs import slowed
from forewarn.scenarios.running.campaign import Progress, all_of, jobs
from forewarn.scenarios.running.episode import Episode, by_seed
from forewarn.scenarios.running.plan import RunPlan, plan
from forewarn.scenarios.running.pools import Pool
from forewarn.scenarios.schema import Scenario


@dataclass(frozen=True, slots=True)
class Wanted:
    """The claim to certify.

    Args:
        violating: Maximum fraction of runs that break a law.
        slowed: Maximum fraction of runs slowed by more than 10 %.
        confidence: The confidence level of the claim.
        seeds: The held-out runs.
    """

    violating: float
    slowed: float
    confidence: float
    seeds: range


def certify(
    scenario: Scenario,
    model: Path,
    policy: Policy,
    wanted: Wanted,
    on: Pool,
    folder: Path,
    progress: Progress = lambda items, *_: items,
) -> Guarantee:
    """Runs the held-out seeds, and returns the guarantee, whose `certified` says
    whether the claim is confirmed.
    """
    policy = replace(policy, shadow=False)
    pairs = acted_on(scenario, model, policy, wanted.seeds, on, folder, progress)
    return certified(scenario, model, policy, wanted, pairs)


def acted_on(
    scenario: Scenario,
    model: Path,
    policy: Policy,
    seeds: Sequence[int],
    on: Pool,
    folder: Path,
    progress: Progress = lambda items, *_: items,
    known: Sequence[tuple[Episode, Episode]] = (),
) -> list[tuple[Episode, Episode]]:
    """Runs these seeds without a guard and with one that intervenes; returns the pairs.

    Args:
        scenario: The scenario of the runs.
        model: The guard's model.
        policy: The guard's policy.
        seeds: The seeds.
        on: The pool in which the runs take place.
        folder: The folder for their files.
        progress: Shows progress.
        known: Pairs from a policy that intervenes at least whenever this one does; its
            runs without an intervention are reused.
    """

    def run(planned: RunPlan, seeds: Sequence[int], what: str) -> list[Episode]:
        return all_of(jobs(planned, scenario, seeds, folder), on, what, progress)

    alone = {before.seed: before for before, _ in known}
    calm = [after for _, after in known if not after.interventions]
    left = sorted({*seeds}.difference(each.seed for each in calm))
    acting = plan(scenario, model, policy)
    guarded = by_seed([*calm, *run(acting, left, "held-out episodes with the guard")])
    # A run without an intervention is the same as without a guard.
    touched = [each.seed for each in guarded if each.interventions]
    new = [seed for seed in touched if seed not in alone]
    alone |= {each.seed: each for each in run(plan(scenario), new, "without it")}
    return [(alone.get(each.seed, each), each) for each in guarded]


def certified(
    scenario: Scenario,
    model: Path,
    policy: Policy,
    wanted: Wanted,
    pairs: Sequence[tuple[Episode, Episode]],
) -> Guarantee:
    """Returns the same result as `certify`, from existing runs."""
    return Guarantee(
        violating=wanted.violating,
        slowed=wanted.slowed,
        confidence=wanted.confidence,
        runs=len(pairs),
        broke=sum(bool(after.violations) for _, after in pairs),
        prolonged=sum(slowed(*pair) for pair in pairs),
        seeds=(wanted.seeds[0], wanted.seeds[-1]),
        scenario=scenario.name,
        pilot=scenario.pilot.name,
        drawn=scenario.digest,
        model=deciding(model, policy),
        policy=policy.digest,
    )
