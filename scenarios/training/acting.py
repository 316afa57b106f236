"""Tunes thresholds for interventions, by the violations that they prevent and their
cost.

A threshold that suits warnings does not suit stops: a late stop prevents nothing, and a
short needless stop costs little. Training runs are therefore repeated with the guard
intervening. First, every hold time is tried with every threshold, which all laws share;
then each law's threshold is varied alone. The repeated runs show the violations
prevented and caused, the clean runs with an intervention, the clean runs that take
longer, and the standing time. Most remaining violations come from stops that are
released too soon, so thresholds and hold times are searched together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.serial import to_json
from forewarn.monitors.guarding.decision import Kind
from forewarn.monitors.guarding.policy import Policy, Step, asks_to_move
from forewarn.monitors.laws.lawbook import Law
from forewarn.scenarios.measuring.pairs import compare, stationary_s
from forewarn.scenarios.running.campaign import Progress, all_of, frames_kept, jobs
from forewarn.scenarios.running.episode import Episode
from forewarn.scenarios.running.plan import plan
from forewarn.scenarios.running.pools import Pool
from forewarn.scenarios.schema import Scenario
from forewarn.scenarios.training.tune import WORSE, Tuned

THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""The thresholds that are tried."""

MORE = 5
"""If too few runs break a law, the number of runs is increased up to this factor."""

_AT_ONCE = 20  # the number of runs to add between two counts of violations


@dataclass(frozen=True, slots=True)
class Acted:
    """The results of a guard that intervenes with given thresholds and hold time.

    Args:
        threshold: The lowest of the laws' thresholds.
        thresholds: The threshold of each law.
        hold_s: The hold time in seconds: how long the risk must stay low before an
            intervention is released.
        violating: The number of violations without the guard.
        prevented: The number of violations prevented minus the number caused by the
            guard.
        caused: The number of violations that occurred only with the guard.
        interventions: The number of runs with an intervention.
        clean_stopped: The number of runs with an intervention in which no law was
            broken without the guard.
        clean: The number of clean runs whose durations can be compared.
        prolonged: The number of clean runs that took more than 10 % longer.
        duration_ratio: The total duration of the clean runs with the guard, divided by
            their duration without it.
        stationary_s: The additional standing time in seconds, in runs without a
            violation.
        cost: The cost of a needless intervention, as a number of violations.
    """

    threshold: float
    thresholds: Mapping[str, float]
    hold_s: float
    violating: int
    prevented: int
    caused: int
    interventions: int
    clean_stopped: int
    clean: int
    prolonged: int
    duration_ratio: float | None
    stationary_s: float
    cost: float

    @property
    def left(self) -> int:
        """The number of violations with the guard."""
        return self.violating - self.prevented

    @property
    def worth(self) -> float:
        """The net value of the interventions, as a number of violations.

        A clean run with an intervention, a clean run that takes more than 10 % longer,
        and a minute of standing each have the same cost.
        """
        needless = self.clean_stopped + self.prolonged + self.stationary_s / 60.0
        return self.prevented - self.cost * needless

    def within(self, allowed: float) -> bool:
        """Whether at most this fraction of clean runs, rounded to whole runs, took more
        than 10 % longer.
        """
        return self.prolonged <= round(allowed * self.clean)

    def as_dict(self) -> dict[str, Any]:
        content = {**to_json(self), "left": self.left, "worth": round(self.worth, 4)}
        del content["cost"]
        return content


class Trial:
    """Repeats the same runs with different intervening guards.

    Args:
        scenario: The scenario.
        model: The model's file.
        cost: The cost of a needless intervention, as a number of violations.
        on: The pool in which the episodes run.
        folder: The folder for the episodes' files.
        progress: Shows progress.
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
        self._left_alone: dict[int, tuple[Mapping[str, float], Episode]] = {}

    @property
    def violating(self) -> int:
        """The number of runs that break a law without a guard."""
        return sum(bool(episode.violations) for episode in self.before)

    def begin(self, seeds: Sequence[int], beyond: int, violations: int) -> None:
        """Runs episodes without a guard until there are enough violations.

        Args:
            seeds: The seeds of the initial runs, which are not used for any later
                measurement.
            beyond: The first seed of additional runs; with these there are up to `MORE`
                times as many runs.
            violations: The number of violations that suffices.
        """
        self._alone(seeds)
        most = beyond + (MORE - 1) * len(seeds)
        while self.violating < violations and beyond < most:
            added = range(beyond, min(beyond + _AT_ONCE, most))
            self._alone(added)
            beyond = added.stop

    def _alone(self, seeds: Sequence[int]) -> None:
        # Keep the frames, so that runs that were collected earlier are not repeated.
        keep = [frames_kept(self._folder)]
        todo = jobs(plan(self.scenario), self.scenario, seeds, self._folder, keep)
        what = "episodes without a guard"
        self.before += all_of(todo, self._on, what, self._progress)

    def at(self, policy: Policy) -> Acted:
        """Returns the results with a policy.

        The policies of a trial differ only in their thresholds and hold times. A run in
        which no threshold was reached is not repeated for equal or higher thresholds,
        because the result is the same.
        """
        acting = plan(self.scenario, self._model, replace(policy, shadow=False))
        now = thresholds_of(policy)
        same = {
            seed: episode
            for seed, (then, episode) in self._left_alone.items()
            if all(then[law] <= at for law, at in now.items())
        }
        seeds = [each.seed for each in self.before if each.seed not in same]
        todo = jobs(acting, self.scenario, seeds, self._folder)
        what = f"episodes with interventions from {min(now.values()):g}"
        ran = all_of(todo, self._on, what, self._progress)
        for episode in ran:
            if not episode.interventions:
                self._left_alone.setdefault(episode.seed, (now, episode))
        guarded = [*ran, *same.values()]
        pairs = compare(self.before, guarded, self.scenario)
        laws = pairs["laws"]
        violating = sum(law["violating_unguarded"] for law in laws)
        after = {episode.seed: episode for episode in guarded}
        stood_s = (
            stationary_s(after[each.seed]) - stationary_s(each)
            for each in self.before
            if not each.violations
        )
        return Acted(
            min(now.values()),
            now,
            policy.hold_s,
            violating,
            violating - sum(law["violating_guarded"] for law in laws),
            sum(law["caused"] for law in laws),
            sum(bool(episode.interventions) for episode in guarded),
            pairs["clean_stopped"],
            pairs["clean_pairs"],
            pairs["prolonged"],
            pairs["duration_ratio"],
            round(sum(max(0.0, each) for each in stood_s), 3),
            self._cost,
        )

    def settle(
        self,
        best: Tuned,
        base: Policy,
        kind: Kind,
        holds_s: Sequence[float],
        longer: float,
        alert: Mapping[str, float],
    ) -> tuple[Policy, list[Acted], Acted]:
        """Returns the best policy, the results of all candidates, and those of the best
        one.

        Args:
            best: The horizon and the calibration to use.
            base: The policy that provides all other settings.
            kind: The intervention.
            holds_s: The hold times to try, in addition to the policy's own.
            longer: Maximum fraction of clean runs that take more than 10 % longer with
                the guard than without it.
            alert: The thresholds of the policy that alerts, which are tried too.
        """
        laws = [law for law in self.scenario.laws if law.name in best.calibration]
        known = {law: each for law, each in best.calibration.items() if each.points}
        base = replace(base, horizon_s=best.horizon_s, calibration=known)
        several = [dict.fromkeys((law.name for law in laws), at) for at in THRESHOLDS]
        if all(law.name in alert for law in laws):
            several.append({law.name: alert[law.name] for law in laws})
        several.sort(key=lambda each: min(each.values()))
        policies = [acting_policy(base, laws, kind, each) for each in several]
        tried, taken = self.search(policies, (*holds_s, base.hold_s), longer)
        held = replace(base, hold_s=taken.hold_s)
        for law in taken.thresholds if len(taken.thresholds) > 1 else ():
            # One law may need an earlier stop than the others.
            apart = [{**taken.thresholds, law: at} for at in THRESHOLDS]
            policies = [acting_policy(held, laws, kind, each) for each in apart]
            more, taken = self.search(policies, (taken.hold_s,), longer)
            tried += more
        return acting_policy(held, laws, kind, taken.thresholds), tried, taken

    def search(
        self, policies: Sequence[Policy], holds_s: Iterable[float], allowed: float
    ) -> tuple[list[Acted], Acted]:
        """Returns the results of all candidates, and the best of them.

        For each hold time, thresholds are tried in ascending order until higher ones
        clearly intervene too late.

        Args:
            policies: One policy per threshold, in ascending order.
            holds_s: The hold times.
            allowed: Maximum fraction of clean runs slowed by more than 10 %.
        """
        tried = list[Acted]()
        for hold_s in sorted(set(holds_s)):
            held = list[Acted]()
            for each in policies:
                held.append(self.at(replace(each, hold_s=hold_s)))
                if past_best(held, allowed):
                    break
            tried += held
        return tried, best_of(tried, allowed)


def thresholds_of(policy: Policy) -> dict[str, float]:
    """Returns for each law the threshold from which a policy intervenes; laws with only
    alerts are omitted.
    """
    return {
        law: step.threshold
        for law, (step, *_) in policy.rules.items()
        if step.kind != "alert"
    }


def best_of(tried: Sequence[Acted], allowed: float = 1.0) -> Acted:
    """Returns the candidate with the highest net value; of similar ones with the same
    hold time, the middle one.

    The middle is chosen because the edges of such a plateau depend on a few runs.

    Args:
        tried: All candidates.
        allowed: Maximum fraction of clean runs slowed by more than 10 %.

    Raises:
        InvalidInput: No candidate is worth its cost, or every candidate slows too many
            clean runs.
    """
    within = [each for each in tried if each.within(allowed)]
    if not within:
        least = min(tried, key=lambda each: each.prolonged)
        raise InvalidInput(
            "no threshold keeps to --max-slowed: even the threshold "
            f"{least.threshold:g} slows {least.prolonged} of {least.clean} clean runs "
            "by more than 10 %",
            mend="raise --max-slowed, or use --preset alert",
        )
    best = max(within, key=lambda each: each.worth)
    if best.worth <= 0 or not math.isfinite(best.worth):
        raise InvalidInput(
            "even at the best threshold, the interventions are not worth their cost: "
            f"they prevent {best.prevented} of {best.violating} violations, but also "
            f"happen in {best.clean_stopped} clean runs, which count as {best.cost:g} "
            "violations each",
            mend=(
                "try the other preset (stop or slow), another action for `stop` in "
                "the scenario, a lower --cost, or --preset alert"
            ),
        )
    same = (each for each in within if each.hold_s == best.hold_s)
    alike = [each for each in same if _alike(each, best)]
    return alike[len(alike) // 2]


def past_best(tried: Sequence[Acted], allowed: float) -> bool:
    """Whether the last two thresholds are worth clearly less than a lower one."""
    within = [each for each in tried[:-2] if each.within(allowed) and each.worth > 0]
    if not within:
        return False
    best = max(within, key=lambda each: each.worth)
    return not any(_alike(each, best) for each in tried[-2:])


def _alike(one: Acted, best: Acted) -> bool:
    return one.worth >= best.worth - WORSE * one.violating


def acting_policy(
    base: Policy, laws: Sequence[Law], kind: Kind, at: Mapping[str, float]
) -> Policy:
    """Returns the policy that intervenes at these thresholds; for laws that require
    movement, it only alerts.

    Raises:
        InvalidInput: All laws require movement, so stopping would break them.
    """
    moving = asks_to_move(laws)
    rules = {law: steps for law, steps in base.rules.items() if law in moving}
    acts = {
        law.name: (Step(kind, at[law.name]),)
        for law in laws
        if law.name not in moving and law.name in at
    }
    if not acts:
        raise InvalidInput(
            f"{', '.join(sorted(moving))}: a {kind} cannot help, because keeping the "
            "law requires movement",
            mend="use --preset alert",
        )
    return replace(base, rules=rules | acts, promises={})
