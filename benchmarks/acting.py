"""Measures the shipped stop policies on held-out runs that were never used before.

Each scenario is run with a guard that stops the vehicle; each run in which the guard
intervened is repeated without the guard. The table shows the remaining violations and
the cost of the stops. With --policies, the runs are repeated with the policies in
another folder. Each policy is then certified a hundred times on random samples of these
runs, and each guarantee is tested on 5,000 further samples. --keep certifies the
shipped policies with these runs, which are used for nothing else, and stores in each
policy the smallest rates that are guaranteed simultaneously at the confidence level.
These rates remain valid for the better of two compared policies. Runs already in --out
are not repeated.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from run import arguments, markdown, show, stored

from forewarn.monitors.evaluation.figures import at_most, runs_for
from forewarn.monitors.evaluation.guarantee import Guarantee
from forewarn.monitors.guarding.policy import Policy, load_policy, write_policy
from forewarn.scenarios.measuring.late import Again
from forewarn.scenarios.measuring.pairs import compare
from forewarn.scenarios.running.campaign import pool
from forewarn.scenarios.running.episode import Episode
from forewarn.scenarios.running.plan import plan
from forewarn.scenarios.schema import Scenario, load_scenario
from forewarn.scenarios.shipped import FOLDER, Shipped
from forewarn.scenarios.training.acting import thresholds_of
from forewarn.scenarios.training.certifying import Wanted, acted_on, certified

SCENARIOS = ("s4", "s6", "merge", "roundabout", "chain-braking", "highway-lanes")
FIRST_SEED = 9_100_000
CONFIDENCE = 0.95
CERTIFIED, TIMES, HELD_OUT = 0.02, 100, 5_000
"""The certified rate, the number of certifications, and the number of runs that test
each certification.
"""

LEADS_S, BEYONDS_S = (1.0, 2.0, 3.0, 5.0), (0.5, 2.0)
"""How long before a violation a stop begins, and how long after the violation the stop
ends, in seconds.
"""

HEAD = (
    "scenario", "policy", "violations without", "left", "clean runs stopped",
    "slowed by a tenth", "arrive", "standing", "standing until the limit",
    "keeps: violating", "slowed", "certified", "false",
)  # fmt: skip


Facts = dict[str, Any]


def measure(
    name: str, folders: dict[str, Path], seeds: range, jobs: int, place: Path
) -> Iterator[tuple[str, Facts]]:
    """Measures a scenario's stop policy from each folder on these seeds."""
    scenario, model = load_scenario(name), Shipped.in_folder(FOLDER, name).model
    files = {w: Shipped.in_folder(each, name).acting for w, each in folders.items()}
    policies = {w: load_policy(path) for w, path in files.items() if path.exists()}
    last: Policy | None = None
    known: list[tuple[Episode, Episode]] = []
    for which, policy in sorted(policies.items(), key=lambda each: lowest(each[1])):
        if last is None or not steps_in_first(last, policy):
            known = []
        known = acted_on(scenario, model, policy, seeds, pool(jobs), place, known=known)
        last = policy
        wanted = Wanted(1.0, 1.0, CONFIDENCE, seeds)
        kept = certified(scenario, model, policy, wanted, known)
        yield which, _facts(scenario, seeds, known, least(kept, len(policies)))


def least(found: Guarantee, policies: int) -> Guarantee:
    """Returns the smallest rates that the runs support for all policies
    simultaneously.
    """
    error = (1 - CONFIDENCE) / (2 * policies)

    def bound(part: int) -> float:
        return math.ceil(1000 * at_most(part, found.runs, error)) / 1000

    rates = {"violating": bound(found.broke), "slowed": bound(found.prolonged)}
    return found.model_copy(update=rates)


def lowest(policy: Policy) -> float:
    """Returns the lowest threshold of a policy."""
    return min(thresholds_of(policy).values())


def steps_in_first(one: Policy, other: Policy) -> bool:
    """Whether one policy intervenes in every run in which the other does."""
    at, then = thresholds_of(one), thresholds_of(other)
    same = one.horizon_s == other.horizon_s and one.calibration == other.calibration
    return same and at.keys() == then.keys() and all(at[k] <= then[k] for k in at)


def _facts(
    scenario: Scenario,
    seeds: range,
    pairs: Sequence[tuple[Episode, Episode]],
    kept: Guarantee,
) -> Facts:
    before, after = [b for b, _ in pairs], [a for _, a in pairs]
    return {
        "seeds": [seeds[0], seeds[-1]],
        **compare(before, after, scenario),
        "broke": [bool(each.violations) for each in after],
        "standing": _standing(scenario, pairs),
        "kept": kept.model_dump(mode="json"),
    }


def _standing(
    scenario: Scenario, pairs: Sequence[tuple[Episode, Episode]]
) -> tuple[int, int]:
    """Counts the violating runs that keep the law with the guard but stand until the
    time limit, and how many of these keep the law and arrive with a stop at another
    time.
    """
    saved = [
        before
        for before, after in pairs
        if before.violations and not after.violations
        if after.timed_out and after.facts.get("stands")
    ]
    if not saved:
        return 0, 0
    again = Again(plan(scenario))

    def arrives(before: Episode, lead_s: float, beyond_s: float) -> bool:
        broken_s = before.violations[0].time_s
        run = again.intervened(
            before.seed, "stop", broken_s - lead_s, broken_s + beyond_s
        )
        return run.arrived and not run.violations

    stops = list(itertools.product(LEADS_S, BEYONDS_S))
    return len(saved), sum(any(arrives(b, *stop) for stop in stops) for b in saved)


def keep(name: str, found: Facts) -> None:
    """Writes the guarantee from these runs into the shipped policy."""
    path = Shipped.in_folder(FOLDER, name).acting
    kept = Guarantee(**found["kept"])
    write_policy(path, replace(load_policy(path), kept=kept))


def certifications(broke: Sequence[bool]) -> tuple[int, int]:
    """Returns how many of a hundred certifications succeed, and how many of these are
    false.
    """
    rng, outcomes = np.random.default_rng(0), np.asarray(broke)
    runs = runs_for(2, CERTIFIED, 1 - CONFIDENCE)
    stated = false = 0
    for _ in range(TIMES):
        if rng.choice(outcomes, runs).sum() <= 2:
            stated += 1
            false += rng.choice(outcomes, HELD_OUT).mean() > CERTIFIED
    return stated, false


def row(name: str, which: str, found: Facts) -> tuple[object, ...]:
    """Returns a row of the table."""
    alone, guarded = found["outcomes"]["unguarded"], found["outcomes"]["guarded"]
    stated, false = certifications(found["broke"])
    return (
        name, which, f"{alone['violating']} of {alone['runs']}", guarded["violating"],
        found["clean_stopped"], f"{found['prolonged']} of {found['clean_pairs']}",
        _arrive(guarded, alone),
        f"{guarded['stationary_s'] - alone['stationary_s']:+.0f} s",
        guarded["standing"], f"{found['kept']['violating']:.1%}",
        f"{found['kept']['slowed']:.1%}", f"{stated} of {TIMES}", false,
    )  # fmt: skip


def _arrive(guarded: Facts, alone: Facts) -> str:
    if guarded["arrived"] is None:
        return "-"
    return f"{guarded['arrived']} ({alone['arrived']} without)"


def table(found: dict[str, dict[str, Facts]]) -> Iterator[str]:
    """Yields the table in Markdown, and the total number of remaining violations."""
    yield from markdown(
        HEAD, (row(n, w, f) for n, ways in found.items() for w, f in ways.items())
    )
    yield ""
    for which in dict.fromkeys(which for ways in found.values() for which in ways):
        own = [ways[which] for ways in found.values() if which in ways]
        sides = [each["outcomes"] for each in own]
        without = sum(each["unguarded"]["violating"] for each in sides)
        left = sum(each["guarded"]["violating"] for each in sides)
        stopped = sum(each["clean_stopped"] for each in own)
        yield (
            f"{which}: {left} of {without} violations left;"
            f" {stopped} clean runs stopped."
        )
        standing, could = (sum(each["standing"][i] for each in own) for i in (0, 1))
        yield (
            f"{which}: {standing} runs whose violation was prevented stand until the "
            f"time limit; with a stop at another time, {could} of them arrive."
        )


def main() -> None:
    options = arguments(
        __doc__, scenarios=SCENARIOS, out=Path, policies=None, keep=False,
        episodes=400, seed=FIRST_SEED, jobs=1,
    )  # fmt: skip
    seeds = range(options.seed, options.seed + options.episodes)
    folders = {"shipped": FOLDER}
    if options.policies:
        folders["other"] = Path(options.policies)

    def measured(name: str) -> dict[str, Facts]:
        place = options.out / name
        return dict(measure(name, folders, seeds, options.jobs, place))

    figures = stored(options.out, options.scenarios, measured)
    found = dict(zip(options.scenarios, figures, strict=True))
    for name in options.scenarios if options.keep else ():
        keep(name, found[name]["shipped"])
    show(table(found))


if __name__ == "__main__":
    main()
