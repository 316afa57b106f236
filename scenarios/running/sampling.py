"""Campaigns of unguarded episodes, and sequential sampling until violation rates are
known precisely enough.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import ForewarnError, InvalidInput
from forewarn.abstractions.serial import to_json
from forewarn.monitors.evaluation.figures import rate, wilson
from forewarn.scenarios.running.campaign import Kept, campaign, jobs
from forewarn.scenarios.running.episode import Episode, by_seed
from forewarn.scenarios.running.plan import plan, without_risk
from forewarn.scenarios.running.pools import Pool
from forewarn.scenarios.schema import Scenario

FIRST_EPISODES = 25


def massart(frequency: float, epsilon: float, delta: float) -> float:
    """Returns H of Chen and Massart: the number of trials needed for a given frequency
    of hits.

    H = 2/epsilon^2 ln(2/delta) (1/4 - (|1/2 - frequency| - 2 epsilon/3)^2), which is
    small if the frequency is close to 0 or 1.
    """
    off_middle = abs(0.5 - frequency) - 2.0 * epsilon / 3.0
    return 2.0 / epsilon**2 * math.log(2.0 / delta) * (0.25 - off_middle**2)


def check_error(epsilon: float, delta: float) -> None:
    """Raises an error unless epsilon and delta are both between 0 and 1."""
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        if not 0.0 < value < 1.0:
            raise InvalidInput(f"{name} is {value}, but must be between 0 and 1")


def okamoto(epsilon: float, delta: float) -> int:
    """Returns the number of trials that suffices for any probability, ln(2/delta) / (2
    epsilon^2).
    """
    check_error(epsilon, delta)
    return math.ceil(math.log(2.0 / delta) / (2.0 * epsilon**2))


class SequentialEstimate:
    """Estimates a probability from independent trials until it is known precisely
    enough.

    Add outcomes until `add` returns True. At the first n >= H(n, hits), the frequency
    is within epsilon of the true probability with confidence 1 - delta. This guarantee
    only holds for the frequency at that point, so later outcomes are not counted.
    """

    def __init__(self, epsilon: float, delta: float) -> None:
        check_error(epsilon, delta)
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
        """The number of trials that would suffice if the frequency stayed the same."""
        if not self.trials:
            return okamoto(self.epsilon, self.delta)
        return math.ceil(massart(self.hits / self.trials, self.epsilon, self.delta))

    def sentence(self) -> str:
        """Describes the current estimate in a sentence."""
        if self.estimate is None:
            return f"There are no trials yet; at most {self.needed} are needed."
        seen = f"{self.hits} of {self.trials} trials"
        if not self.enough:
            said = f"{seen}: too few to stop; at this rate {self.needed} are needed."
            if self.hits:
                return said
            most = 1.0 - self.delta ** (1.0 / self.trials)
            return (
                f"{said} Without any hit, the probability may still be up to "
                f"{most:.2g}."
            )
        return (
            f"{seen}: the probability is {self.estimate:.4g}, with an error of at "
            f"most {self.epsilon:g} at confidence {1 - self.delta:g}."
        )


@dataclass(frozen=True, slots=True)
class Goal:
    """The required accuracy of each law's violation rate.

    Args:
        epsilon: The maximum error of the estimate.
        delta: The maximum probability of a larger error.
    """

    epsilon: float
    delta: float

    def estimates(
        self, scenario: Scenario, episodes: Sequence[Episode]
    ) -> dict[str, SequentialEstimate]:
        """Estimates each law's violation rate from episodes, in the order of their
        seeds.
        """
        found = {}
        for law in scenario.laws:
            rate = found[law.name] = SequentialEstimate(self.epsilon, self.delta)
            for episode in episodes:
                if not episode.failed:
                    rate.add(episode.first(law.name) is not None)
        return found


def sizes(budget: int) -> Iterator[int]:
    """Yields the total number of runs at each check, which doubles each time."""
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
        on: The pool in which the episodes run.
        out: The folder for the traces.
        keep: The format of the traces.
        again: Whether to repeat existing episodes.
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
        """Runs this many episodes, or as many as fit before the deadline."""
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
    """Raises an error if every episode failed."""
    if episodes and all(episode.failed for episode in episodes):
        raise ForewarnError(
            f"all {len(episodes)} runs failed: {episodes[0].error}; after you have "
            "fixed the cause, add --rerun to repeat them"
        )


def sampled(
    campaign: Campaign, goal: Goal, most: int, time_s: float, budget: str
) -> tuple[list[Episode], dict[str, Any], list[str]]:
    """Runs episodes until the violation rates are known precisely enough; returns the
    episodes, the rates, and the rates as sentences.

    Args:
        campaign: The campaign.
        goal: The required accuracy of the rates.
        most: The maximum number of episodes.
        time_s: The time limit in seconds.
        budget: Both limits, as given on the command line.
    """
    until_s = time.monotonic() + time_s
    for size in sizes(most):
        found = campaign.run(size, until_s)
        refuse_total_failure(found)
        rates = goal.estimates(campaign.scenario, found)
        holds = all(each.enough for each in rates.values())
        if holds or time.monotonic() > until_s:
            break
    laws = [
        {
            "law": law,
            "estimate": each.estimate,
            "violating": each.hits,
            "episodes": each.trials,
            "needed": each.needed,
            "holds": each.enough,
        }
        for law, each in rates.items()
    ]
    facts = {**to_json(goal), "budget": budget, "holds": holds, "laws": laws}
    ended = (
        "the rates are known precisely enough"
        if holds
        else f"the budget of {budget} is used up"
    )
    told = [f"After {len(found)} episodes, {ended}."]
    told += [
        f"Violation rate of {law}: {each.sentence()}" for law, each in rates.items()
    ]
    return found, facts, told


def base_rates(scenario: Scenario, episodes: Sequence[Episode]) -> list[dict[str, Any]]:
    """Returns each law's violation rate, and whether it is in the range that the
    scenario expects.
    """
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
