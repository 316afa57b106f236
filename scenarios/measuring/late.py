"""Finds the last moment at which an intervention still prevents a violation.

A violating run is repeated unchanged up to the moment at which the intervention begins:
first just before the violation, then earlier and earlier until the law is kept. The
moments that help need not form an interval, so the search is linear. A warning after
the last of these moments comes too late for this intervention.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame
from forewarn.monitors.chains.model import riskless
from forewarn.monitors.evaluation.warned import SLACK_S, Broken
from forewarn.monitors.guarding.decision import RANK, Action, Judge, Judgement, Kind
from forewarn.monitors.guarding.policy import Policy
from forewarn.plugins.loop.guarding import Guarding
from forewarn.scenarios.running.episode import Episode
from forewarn.scenarios.running.plan import RunPlan, plan, scenario_of
from forewarn.scenarios.running.pools import Lost, Pool
from forewarn.scenarios.running.runner import Keep, Runner
from forewarn.scenarios.schema import End, Scenario

LEADS_S = (
    0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5,
    3.0, 3.5, 4.0, 5.0, 6.0, 8.0,
)  # fmt: skip
"""The lead times in seconds before the violation at which the intervention is tried."""

BEYOND_S = 3.0
"""The time in seconds for which the intervention continues after the violation."""

WATCHED_S = 8.0
"""The intervention helps if no law is broken for this many seconds after the time of
the violation.
"""

_RULE = "last-moment"
_KINDS: tuple[Kind, ...] = ("stop", "slow", "reflect")


@dataclass(frozen=True, slots=True)
class Violation:
    """A violation whose run is to be repeated.

    Args:
        plan: The plan of the run without a guard.
        seed: The run's seed.
        broken: The first violation of the law.
        kind: The intervention.
        alone: Whether this was the run's first violation.
        checked: Whether to check first that the run can be repeated exactly.
    """

    plan: RunPlan
    seed: int
    broken: Broken
    kind: Kind
    alone: bool
    checked: bool = False


@dataclass(frozen=True, slots=True)
class LastMoment:
    """The last moment at which the intervention helped.

    Args:
        law: The law.
        seed: The run's seed.
        time_s: The time of the violation, in seconds.
        lead_s: The shortest lead time in seconds at which the intervention helped; None
            if it never did.
        runs: The number of times that the run was repeated.
    """

    law: str
    seed: int
    time_s: float
    lead_s: float | None
    runs: int


def kind_of(policy: Policy) -> Kind:
    """Returns the most severe of a policy's interventions that can be tried; by default
    a stop.
    """
    kinds = {step.kind for steps in policy.rules.values() for step in steps}
    return max(kinds.intersection(_KINDS), key=RANK.__getitem__, default="stop")


def refuse_unrepeatable(scenario: Scenario, seed: int, option: str) -> None:
    """Raises an error if runs of the scenario cannot be repeated with an intervention,
    as the option of `measure` requires.
    """
    with closing(Runner(scenario).world(seed)) as world:
        source = world.source
    if source.fixed or not source.embedded:
        why = "is recorded" if source.fixed else "does not wait for the guard"
        raise InvalidInput(
            f"{source.name} {why}, so a seed cannot be repeated with an intervention",
            mend=f"measure without {option}",
        )


def unreproducible(scenario: Scenario, seed: int, option: str) -> InvalidInput:
    """Returns the error for a repeated run with a different result."""
    return InvalidInput(
        f"the run with seed {seed} had a different result when repeated, so the world "
        f"of {scenario.name} is not reproducible",
        mend=f"measure without {option}",
    )


def last_moments(
    scenario: Scenario, episodes: Iterable[Episode], kind: Kind, on: Pool
) -> Iterator[LastMoment]:
    """Yields the last moment for each violating run and law.

    Raises:
        InvalidInput: A repeated run has a different result, or it failed.
    """
    planned = plan(scenario)
    todo = [
        Violation(planned, episode.seed, broken, kind, broken == episode.violations[0])
        for episode in episodes
        for law in scenario.laws
        if (broken := episode.first(law.name)) is not None
    ]
    todo[:1] = [replace(each, checked=True) for each in todo[:1]]
    with closing(on.map(last_moment, todo)) as done:  # type: ignore[type-var]
        for job, found in done:
            if isinstance(found, Lost):
                raise InvalidInput(f"seed {job.seed}: {found.error}")
            yield found


def last_moment(job: Violation) -> LastMoment:
    """Finds the last moment at which the intervention prevents one violation."""
    again = Again.of(job.plan, os.getpid())
    broken, law = job.broken, job.broken.law
    if job.checked:
        again.check(job)
    owed_s = broken.time_s - broken.since_s
    leads = list(LEADS_S)
    if owed_s > SLACK_S:  # even an intervention at the trigger may be too late
        leads += [owed_s + lead for lead in LEADS_S if owed_s + lead > LEADS_S[-1]]
    runs = 0
    for lead_s in leads:
        begins_s = round(broken.time_s - lead_s, 6)
        if begins_s < 0:
            break
        runs += 1
        if again.helps(job, begins_s):
            return LastMoment(law, job.seed, broken.time_s, lead_s, runs)
    return LastMoment(law, job.seed, broken.time_s, None, runs)


class _Timed(Judge):
    """A judge that requires an intervention during one period of time."""

    rules: Mapping[str, str] = {_RULE: "an intervention at a given moment"}

    def __init__(self) -> None:
        self.kind: Kind = "proceed"
        self.begins_s = self.until_s = 0.0

    def as_dict(self) -> Mapping[str, Any]:
        return {"format": "forewarn.moment/1"}

    def judge(self, frame: Frame, proposal: Action | None) -> Judgement | None:
        if self.begins_s - SLACK_S <= frame.time_s <= self.until_s + SLACK_S:
            return Judgement(self.kind, _RULE)
        return None


class Again:
    """Repeats the runs of a scenario with an intervention during a given period."""

    def __init__(self, planned: RunPlan) -> None:
        self._timed = timed = _Timed()
        self.scenario = scenario = scenario_of(planned)
        abstraction = scenario.abstraction
        model = riskless(abstraction.vocabulary, abstraction.period_s or 0.1)
        # The judge depends only on the time, so the age of frames does not matter.
        policy = Policy(hold_s=0.0, max_age_s=1e9)
        guarding = Guarding(
            [model], policy, scenario.name, laws=(), judges=lambda: (timed,)
        )
        self._guarded, self._alone = Runner(scenario, guarding), Runner(scenario)

    @staticmethod
    @lru_cache(maxsize=1)
    def of(planned: RunPlan, process: int) -> Again:
        """Returns the repeater for a plan, which is created once per process."""
        return Again(planned)

    def check(self, job: Violation) -> None:
        """Raises an error if the repeated run differs from the original."""
        until = self._end(job, job.broken.time_s)
        if job.broken not in self._run(self._alone, job.seed, until).violations:
            raise unreproducible(self.scenario, job.seed, "--last-moment")

    def helps(self, job: Violation, begins_s: float) -> bool:
        """Whether no law is broken after the intervention begins."""
        broken_s = job.broken.time_s
        # A reflection concerns a single proposal.
        until_s = begins_s if job.kind == "reflect" else broken_s + BEYOND_S
        end = self._end(job, broken_s + WATCHED_S)
        after = self.intervened(job.seed, job.kind, begins_s, until_s, end)
        return not any(each.time_s > begins_s + SLACK_S for each in after.violations)

    def alone(self, seed: int) -> Episode:
        """Returns a run without an intervention."""
        return self._run(self._alone, seed, None)

    def intervened(
        self,
        seed: int,
        kind: Kind,
        begins_s: float,
        until_s: float,
        end: End | None = None,
    ) -> Episode:
        """Returns a run with one intervention.

        Args:
            seed: The run's seed.
            kind: The intervention.
            begins_s: The time at which the intervention begins, in seconds.
            until_s: The time at which the intervention ends, in seconds.
            end: The conditions that end the run; None for the scenario's own.
        """
        timed = self._timed
        timed.kind, timed.begins_s, timed.until_s = kind, begins_s, until_s
        return self._run(self._guarded, seed, end)

    def _end(self, job: Violation, until_s: float) -> End:
        most_s = min(until_s + SLACK_S, self.scenario.end.max_time_s)
        return End(max_time_s=most_s, on_violation="stop" if job.alone else "continue")

    def _run(self, runner: Runner, seed: int, end: End | None) -> Episode:
        episode = runner.run(seed, Keep(end=end))
        if episode.failed:
            raise InvalidInput(f"seed {seed} failed: {episode.error}")
        return episode


@dataclass(frozen=True, slots=True)
class Late:
    """Compares a law's warnings, and the guard's interventions, with the last moments.

    Args:
        law: The law.
        kind: The intervention.
        moments: The last moment of each violating run.
        alarms_s: The time in seconds of the first alarm, by seed; None for no alarm.
        prevented: The seeds of the runs in which the law was kept with the guard
            intervening; None if these were not run.
    """

    law: str
    kind: Kind
    moments: tuple[LastMoment, ...]
    alarms_s: Mapping[int, float | None]
    prevented: frozenset[int] | None

    def as_dict(self) -> dict[str, Any]:
        preventable = {
            each.seed: each.time_s - each.lead_s
            for each in self.moments
            if each.lead_s is not None
        }
        leads = [each.lead_s for each in self.moments if each.lead_s is not None]
        alarms = [(self.alarms_s[seed], last) for seed, last in preventable.items()]
        late = sum(s is not None and s > last + SLACK_S for s, last in alarms)
        silent = sum(s is None for s, _ in alarms)
        return {
            "kind": self.kind,
            "violating": len(self.moments),
            "preventable": len(preventable),
            "median": float(np.median(leads)) if leads else None,
            "longest": max(leads, default=None),
            "alarms_in_time": len(alarms) - late - silent,
            "alarms_too_late": late,
            "no_alarm": silent,
            "prevented": None
            if self.prevented is None
            else len(self.prevented & preventable.keys()),
            "runs": sum(each.runs for each in self.moments),
        }


def late_lines(law: str, found: Mapping[str, Any]) -> Iterator[str]:
    """Yields a law's results in sentences."""
    can, of = found["preventable"], found["violating"]
    kind = "reflection" if found["kind"] == "reflect" else found["kind"]
    if not of:
        return
    said = f"{law}: {can} of {of} violations can be prevented by a single {kind}"
    if can:
        said += (
            f"; it must begin at least {found['median']:.1f} s before the "
            f"violation (median; maximum {found['longest']:.1f} s)"
        )
    yield f"{said}."
    if can:
        yield (
            f"{law}: in {found['alarms_too_late']} of these {can} runs, the first "
            f"alarm came too late for a {kind}; in {found['no_alarm']}, there was "
            "no alarm."
        )
        if found["prevented"] is not None:
            yield (
                f"{law}: the guard prevents {found['prevented']} of these {can} "
                "violations."
            )
