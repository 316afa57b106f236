"""Thresholds for acting: what a guard prevents that steps in, and at what price.

A threshold that is right for a warning is not right for a stop: warned too late, a stop
prevents nothing, and a stop that nobody needed costs little where it is short. So
training runs are run again with the guard acting, at one threshold after the other, and
counted: what is prevented and caused, how often it stepped in, and how many runs that
broke nothing take longer. Who stands for too long is in the way, or late: so how long
an intervention is held is tried as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.serial import to_json
from forewarn.monitors.guarding.decision import Kind
from forewarn.monitors.guarding.policy import Policy, Step, asks_to_move
from forewarn.monitors.laws.lawbook import Law
from forewarn.scenarios.measuring.measure import Progress
from forewarn.scenarios.measuring.pairs import compare
from forewarn.scenarios.running.campaign import Job, campaign, jobs
from forewarn.scenarios.running.episode import Episode, by_seed
from forewarn.scenarios.running.plan import plan
from forewarn.scenarios.running.pools import Pool
from forewarn.scenarios.schema import Scenario
from forewarn.scenarios.training.tune import WORSE, Tuned

THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""The thresholds that are tried."""

MORE = 5
"""Where too few runs break a law, up to so many times as many are run."""

_AT_ONCE = 20  # runs that are added before violations are counted again


@dataclass(frozen=True, slots=True)
class Acted:
    """What a guard did that acted from one threshold on.

    Args:
        threshold: The threshold, of all laws.
        hold_s: How long the risk stayed low before it let go.
        violating: How many violations there were without it.
        prevented: How many fewer there were with it, those that it caused counted in.
        caused: How many runs broke a law with it alone.
        interventions: In how many runs it stepped in.
        clean: How many runs kept the laws without and with it.
        prolonged: How many of these took longer by more than a tenth.
        duration_ratio: How much longer they took, all together.
        cost: What stepping in once costs, in violations.
    """

    threshold: float
    hold_s: float
    violating: int
    prevented: int
    caused: int
    interventions: int
    clean: int
    prolonged: int
    duration_ratio: float | None
    cost: float

    @property
    def worth(self) -> float:
        """What it is worth, in violations."""
        return self.prevented - self.cost * self.interventions

    def within(self, allowed: float) -> bool:
        """Whether about so many clean runs in one took longer by more than a tenth."""
        return self.prolonged <= round(allowed * self.clean)

    def as_dict(self) -> dict[str, Any]:
        content = {**to_json(self), "worth": round(self.worth, 4)}
        del content["cost"]
        return content


class Trial:
    """The same runs over and over, with a guard that acts.

    Args:
        scenario: On which scenario.
        model: The model's file.
        cost: What stepping in once costs, in violations.
        on: Where the episodes run.
        folder: Where their files go.
        progress: Shows how far it is.
    """

    def __init__(
        self,
        scenario: Scenario,
        model: Path,
        cost: float,
        on: Pool,
        folder: Path,
        progress: Progress = lambda items, *_: items,
    ) -> None:
        self.scenario, self._model, self._cost = scenario, model, cost
        self._on, self._folder, self._progress = on, folder, progress
        self.before: list[Episode] = []
        self._left_alone: dict[int, tuple[float, Episode]] = {}

    @property
    def violating(self) -> int:
        """How many runs break a law without a guard."""
        return sum(bool(episode.violations) for episode in self.before)

    def begin(self, seeds: Sequence[int], beyond: int, violations: int) -> None:
        """Runs without a guard, until there are violations enough to tell.

        Args:
            seeds: The runs to begin with; nothing is measured by them later.
            beyond: The first seed of what is added; up to `MORE` times as many.
            violations: So many are enough.
        """
        self._alone(seeds)
        most = beyond + (MORE - 1) * len(seeds)
        while self.violating < violations and beyond < most:
            added = range(beyond, min(beyond + _AT_ONCE, most))
            self._alone(added)
            beyond = added.stop

    def _alone(self, seeds: Sequence[int]) -> None:
        todo = jobs(plan(self.scenario), self.scenario, seeds, self._folder)
        self.before += self._done(todo, "episodes without a guard")

    def at(self, threshold: float, policy: Policy) -> Acted:
        """What a policy does that acts from that threshold on.

        All policies of a trial differ in the threshold and in how long they hold, and
        the lowest threshold comes first: a run in which it was not reached is the same
        with every higher one.
        """
        acting = plan(self.scenario, self._model, replace(policy, shadow=False))
        same = {
            seed: episode
            for seed, (at, episode) in self._left_alone.items()
            if at <= threshold
        }
        seeds = [each.seed for each in self.before if each.seed not in same]
        todo = jobs(acting, self.scenario, seeds, self._folder)
        ran = self._done(todo, f"episodes acting from {threshold:g} on")
        for episode in ran:
            if not episode.interventions:
                self._left_alone[episode.seed] = threshold, episode
        guarded = [*ran, *same.values()]
        pairs = compare(self.before, guarded, self.scenario)
        laws = pairs["laws"]
        violating = sum(law["violating_unguarded"] for law in laws)
        return Acted(
            threshold,
            policy.hold_s,
            violating,
            violating - sum(law["violating_guarded"] for law in laws),
            sum(law["caused"] for law in laws),
            sum(bool(episode.interventions) for episode in guarded),
            pairs["clean_pairs"],
            pairs["prolonged"],
            pairs["duration_ratio"],
            self._cost,
        )

    def _done(self, todo: Sequence[Job], what: str) -> list[Episode]:
        episodes = self._progress(campaign(todo, self._on), what, len(todo))
        found = by_seed(list(episodes))
        if failed := [each for each in found if each.failed]:
            raise InvalidInput(f"seed {failed[0].seed} failed: {failed[0].error}")
        return found

    def settle(
        self,
        best: Tuned,
        base: Policy,
        kind: Kind,
        holds_s: Sequence[float],
        longer: float,
    ) -> tuple[Policy, list[Acted], Acted]:
        """The policy from which on acting is worth most, and all that was tried.

        Args:
            best: The horizon and the calibration that were found.
            base: The policy, for all else.
            kind: What the guard does.
            holds_s: How long to hold, beside the policy's own.
            longer: Maximum fraction of clean runs that take longer by a tenth.
        """
        laws = [law for law in self.scenario.laws if law.name in best.calibration]
        known = {law: each for law, each in best.calibration.items() if each.points}
        base = replace(base, horizon_s=best.horizon_s, calibration=known)
        policies = [(at, acting_policy(base, laws, kind, at)) for at in THRESHOLDS]
        tried, taken = self.search(policies, (*holds_s, base.hold_s), longer)
        policy = replace(dict(policies)[taken.threshold], hold_s=taken.hold_s)
        return policy, tried, taken

    def search(
        self,
        policies: Sequence[tuple[float, Policy]],
        holds_s: Iterable[float],
        allowed: float,
    ) -> tuple[list[Acted], Acted]:
        """All that was tried, and the best of it.

        First the thresholds, with what is held least, until it is clear that higher
        ones come too late; at the best of them the others.

        Args:
            policies: The thresholds, the lowest first, with their policies.
            holds_s: How long to hold.
            allowed: How many clean runs in one may take longer by more than a tenth.
        """
        least_s, *others_s = sorted(set(holds_s))
        tried = list[Acted]()
        for at, each in policies:
            tried.append(self.at(at, replace(each, hold_s=least_s)))
            if past_best(tried, allowed):
                break
        best = best_of(tried, allowed)
        policy = dict(policies)[best.threshold]
        held = [self.at(best.threshold, replace(policy, hold_s=s)) for s in others_s]
        best = max(
            (each for each in (best, *held) if each.within(allowed)),
            key=lambda each: each.worth,
        )
        return [*tried, *held], best


def best_of(tried: Sequence[Acted], allowed: float = 1.0) -> Acted:
    """The one worth most; of those alike, the middle one.

    At the edge a few runs more or less decide.

    Args:
        tried: All.
        allowed: How many clean runs in one may take longer by more than a tenth.

    Raises:
        InvalidInput: None is worth anything: acting prevents nothing at that cost; or
            each makes more clean runs longer.
    """
    within = [each for each in tried if each.within(allowed)]
    if not within:
        least = min(tried, key=lambda each: each.prolonged)
        raise InvalidInput(
            f"acting from {least.threshold:g} on makes {least.prolonged} of"
            f" {least.clean} clean runs longer by a tenth, and from everywhere else"
            " more than are allowed",
            mend="allow more by --max-slowed, or alert only",
        )
    best = max(within, key=lambda each: each.worth)
    if best.worth <= 0 or not math.isfinite(best.worth):
        raise InvalidInput(
            f"acting is worth nothing at {best.cost:g} violations an intervention: at"
            f" best it prevents {best.prevented} of {best.violating} in"
            f" {best.interventions} runs with one",
            mend="state a lower --cost, or alert only",
        )
    alike = [each for each in within if _alike(each, best)]
    return alike[len(alike) // 2]


def past_best(tried: Sequence[Acted], allowed: float) -> bool:
    """Whether the last two thresholds were worth less than a lower one."""
    within = [each for each in tried[:-2] if each.within(allowed) and each.worth > 0]
    if not within:
        return False
    best = max(within, key=lambda each: each.worth)
    return not any(_alike(each, best) for each in tried[-2:])


def _alike(one: Acted, best: Acted) -> bool:
    return one.worth >= best.worth - WORSE * one.violating


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
