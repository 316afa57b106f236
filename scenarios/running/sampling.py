"""Sampling until enough is known: the paper's Algorithm 1, with PAC bounds that hold.

After each doubling of the runs the chain is learned from all of them, and for every
law it is asked how far the probability of breaking it may be off. A look at the n-th
doubling may be wrong with probability delta / 2^n, so that all looks together stay
within delta.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from forewarn.abstractions.errors import ForewarnError
from forewarn.abstractions.serial import to_json
from forewarn.monitors.chains.learning import Support, learn
from forewarn.monitors.chains.model import Model
from forewarn.monitors.evaluation.figures import (
    rate,
    wilson,
)
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.risk.evidence import (
    compile_for,
    letters_of_states,
    truth_in_abstraction,
)
from forewarn.monitors.trust.pac import (
    PacReport,
    check_risks,
    law_target,
    massart,
    pac_report,
)
from forewarn.monitors.trust.training import Training
from forewarn.scenarios.running.campaign import Kept, campaign, jobs, kept_in
from forewarn.scenarios.running.episode import Episode, by_seed
from forewarn.scenarios.running.plan import plan, without_risk
from forewarn.scenarios.running.pools import (
    Pool,
)
from forewarn.scenarios.schema import Scenario

Until = Literal["pac", "rate"]
"""`pac`: the risk is known from every state. `rate`: it is known how often a law is
broken in a run, from where runs begin; far fewer of them tell that."""

FIRST_EPISODES = 25


def okamoto(epsilon: float, delta: float) -> int:
    """Trials that suffice whatever the probability is: ln(2/delta) / (2 epsilon^2)."""
    check_risks(epsilon, delta)
    return math.ceil(math.log(2.0 / delta) / (2.0 * epsilon**2))


class SequentialEstimate:
    """A probability estimated from independent trials until it is known well enough.

    Feed it outcomes until `add` says that it may stop. At the first n >= H(n, hits)
    the frequency is within epsilon of the truth with probability 1 - delta. That is
    said of the frequency at that moment, so later outcomes are not counted.

    For runs that each end well or badly the frequency of bad ends is the probability
    that the learned chain gives, without smoothing; this rule is then the certificate,
    from where the runs started, and is far cheaper than `pac_report`.
    """

    def __init__(self, epsilon: float, delta: float) -> None:
        check_risks(epsilon, delta)
        self.epsilon, self.delta = epsilon, delta
        self.trials = self.hits = 0
        self.enough = False

    def add(self, outcome: bool) -> bool:
        """Counts one outcome; returns whether sampling may stop."""
        if not self.enough:
            self.trials += 1
            self.hits += bool(outcome)
            self.enough = self.trials >= self.needed
        return self.enough

    @property
    def estimate(self) -> float | None:
        """The frequency of hits; None before the first trial."""
        return self.hits / self.trials if self.trials else None

    @property
    def needed(self) -> int:
        """How many trials would be enough if the frequency stayed what it is."""
        if not self.trials:
            return okamoto(self.epsilon, self.delta)
        return math.ceil(massart(self.hits / self.trials, self.epsilon, self.delta))

    def sentence(self) -> str:
        """What may be said now."""
        if self.estimate is None:
            return f"Nothing is known yet; at most {self.needed} trials are needed."
        seen = f"{self.hits} of {self.trials} trials"
        if not self.enough:
            said = f"{seen}: too few to stop; at this rate {self.needed} are needed."
            if self.hits:
                return said
            most = 1.0 - self.delta ** (1.0 / self.trials)
            return f"{said} None seen leaves room for up to {most:.2g}."
        return (
            f"{seen}: the probability is {self.estimate:.4g}, off by at most "
            f"{self.epsilon:g} with probability {1 - self.delta:g}."
        )


@dataclass(frozen=True, slots=True)
class Goal:
    """What is to be known.

    Args:
        until: From every state, or from where runs begin.
        epsilon: How far off it may be.
        delta: How improbable it may be that it is farther off.
        within_s: The risk is that of an obligation that arises within so long.
    """

    until: Until
    epsilon: float
    delta: float
    within_s: float


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one law.

    Args:
        law: Its name.
        report: Of the risk from every state.
        rate: How often it is broken in a run.
    """

    law: str
    report: PacReport
    rate: SequentialEstimate

    def holds(self, until: Until) -> bool:
        return self.report.holds if until == "pac" else self.rate.enough

    def as_dict(self) -> dict[str, Any]:
        report, rate = self.report, self.rate
        visits = [each for each in report.states if each.needed]
        enough = sum(each.visits >= (each.needed or 0) for each in visits)
        return {
            "law": self.law,
            "holds": report.holds,
            "error": report.error,
            "horizon_steps": report.horizon,
            "states": len(report.states),
            "states_asked": len(visits),
            "states_with_enough": enough,
            "most_needed": max((each.needed or 0 for each in visits), default=0),
            "short": report.short,
            "rate": {
                "estimate": rate.estimate,
                "violating": rate.hits,
                "episodes": rate.trials,
                "needed": rate.needed,
                "holds": rate.enough,
            },
        }

    def sentences(self, until: Until) -> Iterator[str]:
        if until == "pac":
            yield from self.report.main_sentences()
        yield f"How often {self.law} is broken in a run: {self.rate.sentence()}"


class Sampler:
    """Takes in runs, and says what they tell.

    Args:
        scenario: Whose runs.
        goal: What is to be known.
        folder: Where their traces are.
    """

    def __init__(self, scenario: Scenario, goal: Goal, folder: Path) -> None:
        self._scenario, self.goal, self._folder = scenario, goal, folder
        self._training = Training()
        self._counted: set[int] = set()
        self.looks = 0

    def look(self, episodes: Sequence[Episode]) -> list[Known]:
        """What all runs so far tell, of every law."""
        self.looks += 1
        good = by_seed([each for each in episodes if not each.failed])
        new = [
            episode
            for episode in good
            if episode.seed not in self._counted and episode.trace is not None
        ]
        self._counted.update(episode.seed for episode in new)
        runs = kept_in(self._folder, new)
        self._training.add_traces(runs, self._scenario.abstraction)
        if not self._counted:
            return []
        model = learn(
            self._training.tally,
            Support("observed"),
            Fraction(0),
            "absorb",
            abstraction=self._scenario.abstraction.as_dict(),
            period_s=self._training.period_s,
        )
        return [self._known(law, model, good) for law in self._scenario.laws]

    def _known(self, law: Law, model: Model, episodes: Sequence[Episode]) -> Known:
        goal, abstraction, chain = self.goal, self._scenario.abstraction, model.chain
        automaton = compile_for(law.formula, abstraction, model.period_s)
        letters = letters_of_states(
            chain, automaton, truth_in_abstraction(chain, abstraction)
        )
        target = law_target(chain, letters, automaton, f"a violation of {law.name}")
        period_s = model.period_s or abstraction.period_s or 1.0
        # What arises within the horizon has gone unmet by then.
        steps = round(goal.within_s / period_s) + int(automaton.due.max())
        delta = goal.delta / 2**self.looks
        report = pac_report(model, goal.epsilon, delta, target=target, horizon=steps)
        rate = SequentialEstimate(goal.epsilon, goal.delta)
        for episode in episodes:
            rate.add(episode.first(law.name) is not None)
        return Known(law.name, report, rate)


def sizes(budget: int) -> Iterator[int]:
    """How many runs there are at each look: twice as many each time."""
    size = min(FIRST_EPISODES, budget)
    while size < budget:
        yield size
        size = min(2 * size, budget)
    yield budget


@dataclass(frozen=True, slots=True)
class Campaign:
    """Unguarded episodes of one scenario, one seed after the other.

    Args:
        scenario: The scenario.
        first: The first seed.
        on: Where the episodes run.
        out: Where their traces go.
        keep: The traces' format.
        again: Whether to run also what is there already.
        watched: Shows progress.
    """

    scenario: Scenario
    first: int
    on: Pool
    out: Path
    keep: Kept
    again: bool
    watched: Callable[[Iterable[Episode], str, int], Iterator[Episode]]

    def run(self, episodes: int, until_s: float = math.inf) -> list[Episode]:
        """Runs so many episodes, or as many as are done by a time of the clock."""
        scenario = self.scenario
        model = without_risk(scenario, self.out) if scenario.judges else None
        seeds = range(self.first, self.first + episodes)
        todo = jobs(plan(scenario, model), scenario, seeds, self.out, [self.keep])
        running = campaign(todo, self.on, self.again)
        found: list[Episode] = []
        for episode in self.watched(running, "episodes", episodes):
            found.append(episode)
            if time.monotonic() > until_s:
                break
        running.close()
        return by_seed(found)


def refuse_total_failure(episodes: Sequence[Episode]) -> None:
    """Raises if no episode came to its end: there is nothing to report then."""
    if episodes and all(episode.failed for episode in episodes):
        raise ForewarnError(f"all {len(episodes)} episodes failed: {episodes[0].error}")


def sampled(
    campaign: Campaign, goal: Goal, most: int, time_s: float, budget: str
) -> tuple[list[Episode], dict[str, Any], list[str]]:
    """The episodes until enough is known, what they tell, and that in sentences.

    Args:
        campaign: What runs.
        goal: What is to be known.
        most: How many episodes there may be.
        time_s: How long they may take.
        budget: Both, as they were asked for.
    """
    sampler = Sampler(campaign.scenario, goal, campaign.out)
    until_s = time.monotonic() + time_s
    for size in sizes(most):
        found = campaign.run(size, until_s)
        refuse_total_failure(found)
        known = sampler.look(found)
        holds = all(each.holds(goal.until) for each in known)
        if holds or time.monotonic() > until_s:
            break
    facts = {
        **to_json(goal),
        "budget": budget,
        "looks": sampler.looks,
        "holds": holds,
        "laws": [each.as_dict() for each in known],
    }
    ended = "enough is known" if holds else f"the budget of {budget} is used up"
    told = [f"After {len(found)} episodes and {sampler.looks} looks {ended}."]
    told += [sentence for each in known for sentence in each.sentences(goal.until)]
    return found, facts, told


def base_rates(scenario: Scenario, episodes: Sequence[Episode]) -> list[dict[str, Any]]:
    """How often each law is broken, and whether that is as the scenario expects."""
    good = [episode for episode in episodes if not episode.failed]
    found = []
    for law in scenario.laws:
        broken = sum(episode.first(law.name) is not None for episode in good)
        expected = scenario.expected_base_rate.get(law.name)
        interval = wilson(broken, len(good))
        fits = None
        if expected:
            fits = not interval or (
                interval[0] <= expected[1] and expected[0] <= interval[1]
            )
        found.append(
            {
                "law": law.name,
                "violating": broken,
                "base_rate": rate(broken, len(good)),
                "interval": interval,
                "expected": expected,
                "as_expected": fits,
            }
        )
    return found
