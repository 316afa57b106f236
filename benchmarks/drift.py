"""Figures of docs/evidence.md on drift: how often it is correctly and falsely reported.

First, synthetic rates: outcomes are sampled, with seeds from 1, and tested against a
rate that is guaranteed or was estimated in training. Then, shipped models: new ordinary
runs and runs with reckless drivers are simulated once, with the shipped guard in shadow
mode. Deployments are sampled from these runs with replacement: ordinary ones, ones with
twice as many violating runs, and, for SUMO's driver, ones with reckless drivers.

    python benchmarks/drift.py [--out out/drift --runs 600 SCENARIO ...]

Runs already in --out are not repeated; with scenarios, only the second part is printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from run import arguments, markdown, show

from forewarn.monitors.evaluation.evidence import Rate, Reference
from forewarn.monitors.guarding.drift import Drift, Outcomes
from forewarn.monitors.guarding.policy import Policy, load_policy
from forewarn.scenarios.running.campaign import campaign, jobs, pool
from forewarn.scenarios.running.episode import by_seed
from forewarn.scenarios.running.plan import plan
from forewarn.scenarios.schema import NamedPlugin, Scenario, load_scenario
from forewarn.scenarios.shipped import FOLDER, Shipped

FIRST_SEED = 6_300_000
DRAWN, DEPLOYMENTS = 400, 1000
"""The number of deployments sampled for each synthetic rate, and for each shipped
model.
"""
LONG, SHORT = 1000, 200
TRAINING = (None, 4000, 1000, 250)
"""The number of training runs behind the rate; None for a guaranteed rate."""

HEAD = (
    "model", "rate known from", "runs that violate the law", "ordinary: in 1,000 runs",
    "doubled: in 200", "reckless: in 200",
)  # fmt: skip

Draw = Callable[[np.random.Generator], Outcomes]


def rates() -> Iterator[str]:
    """Yields how often drift is reported for a correct rate and for a doubled rate."""
    yield f"of {DRAWN}:  rate  known from   kept: in 1,000   doubled: in 200   in 500"
    for rate in (0.1, 0.05):
        for training in TRAINING:
            known = "guarantee" if training is None else f"{training} runs"
            kept = _reported(rate, rate, training, LONG)
            doubled = _reported(rate, 2 * rate, training, 500)
            soon = sum(each <= SHORT for each in doubled)
            yield (f"{rate:13} {known:>11} {len(kept):16} {soon:17} {len(doubled):8}")


def _reported(rate: float, share: float, training: int | None, most: int) -> list[int]:
    """Returns the number of runs until each report of drift."""
    found: list[int] = []
    for seed in range(1, DRAWN + 1):
        rng = np.random.default_rng(seed)
        reference = Reference(rate)
        if training is not None:
            counted = int(rng.binomial(training, rate))
            reference = Reference(None, counted, training)
        evidence = Rate(reference)
        for happened in (rng.random(most) < share).tolist():
            evidence.observe(happened)
            if evidence.exceeded:
                found.append(evidence.runs)
                break
    return found


def shipped(name: str, seeds: range, out: Path) -> tuple[str, ...]:
    """Measures how often drift is reported for a shipped model, on simulated runs.

    Returns a row of the table `HEAD`.
    """
    scenario = load_scenario(name)
    policy = load_policy(Shipped.in_folder(FOLDER, name).policy)
    policy = replace(policy, shadow=True)
    driven = _driven(scenario, policy, seeds, out)
    broken = [run for run in driven if _violating(run)]
    clean = [run for run in driven if not _violating(run)]
    share = len(broken) / len(driven)

    def doubled(rng: np.random.Generator) -> Outcomes:
        return _one_of(broken if rng.random() < 2 * share else clean, rng)

    kept = _drifted(policy, lambda rng: _one_of(driven, rng), LONG)
    twice = _drifted(policy, doubled, SHORT)
    row = (name, f"{_known_from(policy):,} runs", f"{share:.2f}", str(kept), str(twice))
    pilot = scenario.pilot
    if pilot.name != "sumo-driver":
        return *row, "not measured"
    settings = {**pilot.settings, "profile": "reckless"}
    other = scenario.driven_by(NamedPlugin(name=pilot.name, settings=settings))
    reckless = _driven(other, policy, seeds[: len(seeds) // 4], out)
    found = _drifted(policy, lambda rng: _one_of(reckless, rng), SHORT)
    rate = sum(map(_violating, reckless)) / len(reckless)
    return *row, f"{found} ({rate:.2f} violate it)"


def _known_from(policy: Policy) -> int:
    """Returns the number of runs behind the rate of violations."""
    return max(
        each.by.reference.runs
        for each in Drift(policy, list(policy.rules)).examined
        if each.what == "violations" and isinstance(each.by, Rate)
    )


def _driven(
    scenario: Scenario, policy: Policy, seeds: range, out: Path
) -> list[Outcomes]:
    """Returns the outcomes of runs with the shipped guard in shadow mode."""
    planned = plan(scenario, Shipped.in_folder(FOLDER, scenario.name).model, policy)
    todo = jobs(planned, scenario, seeds, out / scenario.name)
    return [each.outcomes for each in by_seed(list(campaign(todo, pool(1))))]


def _drifted(policy: Policy, draw: Draw, most: int) -> int:
    """Returns the number of deployments for which drift is reported."""
    found = 0
    for seed in range(1, DEPLOYMENTS + 1):
        rng = np.random.default_rng(seed)
        drift = Drift(policy, list(policy.rules))
        while drift.runs < most and drift.found_at is None:
            drift.observe(draw(rng))
        found += drift.found_at is not None
    return found


def _one_of(runs: Sequence[Outcomes], rng: np.random.Generator) -> Outcomes:
    return runs[int(rng.integers(len(runs)))]


def _violating(run: Outcomes) -> bool:
    return any(each.violating for each in run.values())


def main() -> None:
    out = Path("out/drift")
    options = arguments(__doc__, scenarios=[], runs=600, seed=FIRST_SEED, out=out)
    if not options.scenarios:
        show(rates())
        return
    seeds = range(options.seed, options.seed + options.runs)
    rows = (shipped(name, seeds, options.out) for name in options.scenarios)
    show(markdown(HEAD, rows))


if __name__ == "__main__":
    main()
