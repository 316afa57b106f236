"""What the warnings that ship with highway-env's roads are worth, on fresh runs.

Each scenario is run on held-out seeds without a guard. In its table stand the model
that ships, gradient boosting and logistic regression on the raw signals with what they
did in the last second, fitted to the runs that the model was learned from, the time to
collision and RSS, each with its threshold picked on these very runs so that at most one
clean run in ten has an alarm; and the guard at the threshold that ships. Then some of
the seeds are run again with the guard stopping by the policy that ships for it.

    python benchmarks/highway.py --out out/highway [SCENARIO ...]

What is in --out already is not measured again, so it can be stopped and go on.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from driving import drive
from recordings import (
    Outcomes,
    Recordings,
    Way,
    boosting,
    boosting_soon,
    by_hand,
    logistic,
    time_to_collision,
)
from run import aligned

from forewarn.abstractions.files import read_json, write_json
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.trace import Kept
from forewarn.monitors.chains.model import load_model, load_models
from forewarn.monitors.finding.corpus import Corpus
from forewarn.monitors.guarding.policy import Policy, load_policy
from forewarn.monitors.risk.evidence import needed_abstraction
from forewarn.monitors.trust.foretold import Foretold, warned_in_time
from forewarn.monitors.trust.hindsight import Judge
from forewarn.plugins.baselines.rss import ResponsibilitySensitiveSafety
from forewarn.plugins.contracts import Source
from forewarn.plugins.registry import make_world
from forewarn.scenarios.draws import filled
from forewarn.scenarios.measuring.measure import refuse_trained, seeds_of
from forewarn.scenarios.measuring.pairs import prolonged
from forewarn.scenarios.running.campaign import pool
from forewarn.scenarios.running.episode import Episode
from forewarn.scenarios.running.plan import plan, runner_of
from forewarn.scenarios.schema import Scenario, load_scenario, shipped_scenarios
from forewarn.scenarios.shipped import FOLDER, Shipped, shipped_with
from forewarn.scenarios.training.runs import kept_runs
from forewarn.scenarios.training.train import collected

GUARD = "guard, as it ships"
FIRST_SEED = 8_400_040
ALLOWED = 0.10
ROADS = [
    name
    for name, path in shipped_scenarios().items()
    if path.parent.name == "highway" and shipped_with(load_scenario(name))
]


def shipped(files: Shipped) -> Way:
    """The guard as it ships."""

    def way(told: Recordings, corpus: Corpus, out: Sequence[int]) -> Iterator[Outcomes]:
        (law, *_), policy = corpus.laws, load_policy(files.policy)
        model = next(m for m in load_models(files.model) if law.told in m.laws)
        abstraction = needed_abstraction(model)
        judge = Judge(
            model, abstraction, corpus.laws, [told.scenario.horizon_s],
            corpus.period_s, calibration=policy.calibration,
        )  # fmt: skip
        for i in out:
            yield dict(judge.look(i, told.runs[i]))

    return way


def safe_distances(
    told: Recordings, corpus: Corpus, out: Sequence[int]
) -> Iterator[Outcomes]:
    """By how much RSS's distances are missed."""
    (law,), horizon_s = corpus.laws, told.scenario.horizon_s
    for i, found in zip(out, by_hand(told, corpus, out), strict=True):
        run = told.runs[i]
        source = Source("kept", "driving", tuple(run.signals), corpus.period_s)
        rss = ResponsibilitySensitiveSafety(law, source)
        missed_m = np.array([rss.score(frame) for frame in _frames(run)])
        risks = 1.0 / (1.0 + np.exp(-missed_m / 100.0))
        each = found[law.name]
        yield {law.name: replace(each, risks={horizon_s: risks[: len(each.times_s)]})}


def _frames(run: Kept) -> Iterator[Frame]:
    for number, time_s in enumerate(run.times_s.tolist()):
        values = {name: column[number] for name, column in run.signals.items()}
        plain = {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in values.items()
        }
        yield Frame(time_s, number, plain)


def measure(
    name: str, folder: Path, kept: Path, seeds: Sequence[int], pairs: int
) -> dict[str, Any]:
    """All figures of a scenario."""
    scenario, files = load_scenario(name), Shipped.in_folder(folder, name)
    model, policy = load_model(files.model), load_policy(files.policy)
    refuse_trained(model, name, seeds)
    known = [seed for each in model.training["files"] for seed in seeds_of(each)]
    names = _provided(scenario)
    stored = collected(scenario, sorted(known), pool(1), kept / name)
    learned = kept_runs(stored, names)
    held_out, before = drive(scenario, seeds, names)
    runs = (*learned, *held_out)
    told = Recordings(scenario, runs, ("",) * len(runs))
    corpus, out = told.corpus(range(len(learned))), range(len(learned), len(runs))
    ways: dict[str, Way] = {
        GUARD: shipped(files),
        "guard, made by hand": by_hand,
        "boosting with lags": boosting,
        "boosting, one second ahead": boosting_soon,
        "logistic with lags": logistic,
        "ttc": time_to_collision,
        "rss": safe_distances,
    }
    (law,) = scenario.laws
    found = {
        way: [each[law.name] for each in score(told, corpus, out)]
        for way, score in ways.items()
    }
    rows: dict[str, dict[str, float]] = {}
    for way, several in found.items():
        share, ahead_s = warned_in_time(several, scenario.horizon_s, ALLOWED)
        rows[way] = {"warned": share, "ahead_s": ahead_s}
    (step,) = policy.steps_for(law.name)
    at = _at(found[GUARD], scenario.horizon_s, step.threshold)
    rows[f"{GUARD}, from {step.threshold:g} on"] = at
    return {
        "scenario": name,
        "learned_from": len(learned),
        "runs": len(held_out),
        "violating": sum(each.broken_s is not None for each in found[GUARD]),
        "abstraction": model.training["abstraction"]["chosen"],
        "rows": rows,
        "stopping": stopped(
            scenario, files.model, load_policy(files.acting), before[:pairs]
        ),
    }


def _provided(scenario: Scenario) -> tuple[str, ...]:
    settings = filled(scenario.world.settings, {}, scenario.source, "world")
    world = make_world(scenario.world.name, settings, scenario.source)
    world.close()
    return world.source.provides


def _at(several: Sequence[Foretold], horizon_s: float, at: float) -> dict[str, float]:
    """At one threshold: what is warned of, how early, and the false alarms."""
    ahead_s, false, clean = list[float](), 0, 0
    for each in several:
        alarms = np.flatnonzero(each.risks[horizon_s] >= at)
        if each.broken_s is None:
            clean += 1
            false += bool(alarms.size)
        elif alarms.size and each.times_s[alarms[0]] < each.broken_s[1]:
            ahead_s.append(float(each.broken_s[1] - each.times_s[alarms[0]]))
    return {
        "warned": len(ahead_s) / max(len(several) - clean, 1),
        "ahead_s": sum(ahead_s) / max(len(ahead_s), 1),
        "false_alarms": false / max(clean, 1),
    }


def stopped(
    scenario: Scenario, model: Path, policy: Policy, before: Sequence[Episode]
) -> dict[str, Any]:
    """The same seeds with the guard stepping in."""
    runner = runner_of(plan(scenario, model, policy))
    pairs = [(each, runner.run(each.seed)) for each in before]
    clean = [(b, a) for b, a in pairs if not (b.violations or a.violations)]
    return {
        "runs": len(pairs),
        "violating": sum(bool(b.violations) for b, _ in pairs),
        "guarded": sum(bool(a.violations) for _, a in pairs),
        "caused": sum(bool(a.violations) and not b.violations for b, a in pairs),
        "stepped_in": sum(bool(a.interventions) for _, a in pairs),
        "clean": len(clean),
        "longer": sum(prolonged(b, a) for b, a in clean),
    }


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """The table of a scenario."""
    yield (
        f"{found['scenario']}: learned from {found['learned_from']} runs"
        f" ({found['abstraction']}), {found['violating']} of {found['runs']} held out"
        " end in a collision"
    )
    table = [("by", "warned of", "ahead", "false alarms")]
    for way, row in found["rows"].items():
        false = row.get("false_alarms")
        table.append(
            (
                way, f"{row['warned']:.2f}", f"{row['ahead_s']:.1f} s",
                f"at most {ALLOWED:.2f}" if false is None else f"{false:.2f}",
            )
        )  # fmt: skip
    yield from aligned(table)
    told = found["stopping"]
    cut = 1 - told["guarded"] / max(told["violating"], 1)
    yield (
        f"stopping: {told['violating']} collisions in {told['runs']} runs become"
        f" {told['guarded']} ({100 * cut:.0f} % fewer; {told['caused']} caused);"
        f" it stopped in {told['stepped_in']}, and {told['longer']} of"
        f" {told['clean']} clean runs took longer by a tenth"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenarios", nargs="*", default=ROADS)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--trained", type=Path, default=FOLDER, help="another folder")
    parser.add_argument(
        "--runs", type=Path, help="what `train --runs` kept, to learn rivals from"
    )
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=FIRST_SEED)
    parser.add_argument("--guarded", type=int, default=200, help="run so many again")
    options = parser.parse_args()
    for name in options.scenarios:
        path = options.out / f"{name}.json"
        if not path.exists():
            seeds = range(options.seed, options.seed + options.episodes)
            kept = options.runs or options.out / "runs"
            rows = measure(name, options.trained, kept, seeds, options.guarded)
            write_json(path, rows)
        for line in lines(read_json(path)):
            print(line)
        print(flush=True)


if __name__ == "__main__":
    main()
