"""Figures of docs/driving.md: the quality of the shipped warnings, and the time of a
step.

Each scenario is run on held-out seeds without a guard, and the risk of the trained
model is computed along every run. The baseline is a chain over only the law's own
predicates, with the threshold that gives the same number of false alarms. Some of the
seeds are run again with the guard stopping the car, both at the thresholds for warnings
and at those tuned for stopping.

    python benchmarks/driving.py --out out/driving [SCENARIO ...] python
    benchmarks/run.py driving       the time of a guarded step

Scenarios already in --out are not measured again.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from run import Row, arguments, installed, markdown, show, stored

from forewarn.abstractions.errors import ForewarnError
from forewarn.abstractions.trace import Kept
from forewarn.monitors.chains.model import Model, load_models
from forewarn.monitors.evaluation.foretold import (
    Foretold,
    climb_of,
    reliability,
)
from forewarn.monitors.evaluation.warned import Warned, warned_early
from forewarn.monitors.finding.corpus import Corpus
from forewarn.monitors.guarding.policy import Policy, acting, load_policy
from forewarn.monitors.risk.evidence import dealt, needed_abstraction
from forewarn.monitors.trust.hindsight import Counting, Judge
from forewarn.scenarios.measuring.pairs import compare
from forewarn.scenarios.measuring.recorded import kept_runs
from forewarn.scenarios.measuring.seeds import refuse_trained, seeds_of
from forewarn.scenarios.running.campaign import Kept as KeptOf
from forewarn.scenarios.running.campaign import (
    campaign,
    frames_kept,
    jobs,
    kept_in,
    pool,
)
from forewarn.scenarios.running.episode import Episode, by_seed
from forewarn.scenarios.running.plan import plan, runner_of
from forewarn.scenarios.schema import Scenario, load_scenario, shipped_scenarios
from forewarn.scenarios.shipped import FOLDER, Shipped

FIRST_SEED = 5_010_000
MIN_BIN_RUNS = 30
GUARDED = ("guarded", "guarded_to_stop")
"""The results of stopping at the thresholds for warnings, and at those tuned for
stopping.
"""
DRIVING = [
    name for name, path in shipped_scenarios().items() if path.parent.name == "driving"
]


def drive(
    scenario: Scenario, seeds: Sequence[int], names: Sequence[str] = ()
) -> tuple[list[Kept], list[Episode]]:
    """Runs these seeds without a guard; by default, all signals are kept."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        kept: list[KeptOf] = [frames_kept(folder)]
        todo = jobs(plan(scenario), scenario, seeds, folder, kept)
        episodes = by_seed(list(campaign(todo, pool(1))))
        if failed := next((each for each in episodes if each.failed), None):
            raise ForewarnError(f"seed {failed.seed} failed: {failed.error}")
        return kept_runs(kept_in(folder, episodes), names or None), episodes


def guarded(
    scenario: Scenario, model: Path, policy: Policy, before: Sequence[Episode]
) -> dict[str, Any]:
    """Runs the same seeds with the guard intervening by this policy."""
    runner = runner_of(plan(scenario, model, policy))
    after = [runner.run(each.seed) for each in before]
    return compare(before, after, scenario)


def measure(
    name: str, folder: Path, seeds: Sequence[int], pairs: int, blind_runs: int
) -> dict[str, Any]:
    """Returns all figures of a scenario."""
    scenario, files = load_scenario(name), Shipped.in_folder(folder, name)
    models, policy = load_models(files.model), load_policy(files.policy)
    for each in models:
        refuse_trained(each, name, seeds)
    abstractions = [needed_abstraction(each, name) for each in models]
    laws = scenario.laws
    names = [s for each in (*abstractions, *laws) for s in each.signals]
    names = list(dict.fromkeys(names))
    runs, episodes = drive(scenario, seeds, names)
    horizon_s, period_s = policy.horizon_s, abstractions[0].period_s or 0.1
    told: dict[str, list[Foretold]] = {}
    of_law: dict[str, Model] = {}
    for model, abstraction, own in zip(
        models, abstractions, dealt(models, laws), strict=True
    ):
        judge = Judge(
            model, abstraction, own, [horizon_s], period_s,
            calibration=policy.calibration,
        )  # fmt: skip
        told |= _look(judge, runs)
        of_law |= {law.name: model for law in own}
    files_of = models[0].training["files"]
    trained = [seed for entry in files_of for seed in seeds_of(entry)]
    known, _ = drive(scenario, trained[:blind_runs], names)
    basis = Corpus(known, laws, abstractions[0].vocabulary, period_s).basis
    blind = _look(Judge.learn(known, basis, laws, [horizon_s], Counting()), runs)
    policies = {"guarded": acting(policy, "stop", laws)}
    if files.acting.exists():
        policies["guarded_to_stop"] = load_policy(files.acting)
    steps_in = {
        key: guarded(scenario, files.model, each, episodes[:pairs])
        for key, each in policies.items()
        if pairs
    }
    return {
        "scenario": name,
        "seeds": [seeds[0], seeds[-1]],
        "trained_on": len(trained),
        **steps_in,
        "laws": [
            {
                **_row(law.name, told[law.name], blind[law.name], runs, policy),
                **_states(of_law[law.name]),
            }
            for law in laws
        ],
    }


def _states(model: Model) -> dict[str, Any]:
    chosen = model.training.get("abstraction", {}).get("chosen", "hand-made")
    return {"states": model.chain.n, "abstraction": chosen}


def _look(judge: Judge, runs: Sequence[Kept]) -> dict[str, list[Foretold]]:
    found: dict[str, list[Foretold]] = {}
    for number, run in enumerate(runs):
        for law, each in judge.look(number, run):
            found.setdefault(law, []).append(each)
    return found


def _row(
    law: str,
    told: Sequence[Foretold],
    blind: Sequence[Foretold],
    runs: Sequence[Kept],
    policy: Policy,
) -> dict[str, Any]:
    horizon_s = policy.horizon_s
    (step,) = policy.steps_for(law)

    stops = policy.unknown_state == "stop"

    def warned(several: Sequence[Foretold], at: float) -> Warned:
        climbs = [
            climb_of(each, horizon_s, runs[each.run].header.seed or 0, stops)
            for each in several
        ]
        return Warned(tuple(each.warned(at) for each in climbs))

    ours = warned(told, step.threshold)
    # The baseline chain gets its best threshold with the same number of false alarms.
    tried = (warned(blind, at) for at in np.linspace(0.005, 1.0, 200).tolist())
    allowed = ours.false_alarms
    fair = [each for each in tried if each.false_alarms <= allowed]
    known = reliability(
        [each.risks[horizon_s] for each in told],
        [each.came_true(horizon_s) for each in told],
    )
    gaps = [
        abs(each.predicted - each.observed)
        for each in known.bins
        if each.traces >= MIN_BIN_RUNS
    ]
    in_time = sum(run.in_time for run in ours.runs)
    return {
        "law": law,
        "horizon_s": horizon_s,
        "threshold": step.threshold,
        **ours.as_dict(horizon_s),
        "warned_3_s_before_deadline": in_time,
        "brier": known.brier,
        "brier_of_base_rate": known.reference,
        "widest_gap": max(gaps, default=0.0),
        "unknown": float(np.mean(np.concatenate([each.unknown for each in told]))),
        "blind_detection_rate": max(
            (e.detection_rate or 0.0 for e in fair), default=0.0
        ),
    }


# -- the table

HEAD = (
    "scenario, law", "trained on", "states", "broken", "detected", "ahead", "median",
    "1 s ahead",
    "3 s before deadline", "false alarms", "law's own", "Brier (base rate's)",
    "widest gap", "prevented", "longer", "to stop: prevented", "longer",
)  # fmt: skip


def table(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yields the table in Markdown, then remarks on early alarms."""
    rows = [(each, row) for each in found for row in each["laws"]]
    yield from markdown(HEAD, (list(_cells(each, row)) for each, row in rows))
    yield ""
    for each, row in rows:
        if words := warned_early(row, row["horizon_s"]):
            yield f"{each['scenario']}, {row['law']}: {words}."


def _cells(each: Mapping[str, Any], row: Mapping[str, Any]) -> Iterator[str]:
    yield f"{each['scenario']}, {row['law']}"
    yield f"{each['trained_on']}"
    yield f"{row['states']} ({row['abstraction']})"
    yield f"{row['violating']} of {row['violating'] + row['clean']}"
    yield _share(row, "detection_rate")
    ahead = row["awt_trigger_s"]["mean"]
    middle = row["awt_trigger_s"]["median"]
    yield "-" if ahead is None else f"{ahead:.1f} s"
    yield "-" if middle is None else f"{middle:.1f} s"
    yield f"{row['second_ahead']} of {row['violating']}"
    yield f"{row['warned_3_s_before_deadline']} of {row['violating']}"
    yield _share(row, "false_alarm_rate")
    yield f"{row['blind_detection_rate']:.2f}"
    yield f"{row['brier']:.4f} ({row['brier_of_base_rate']:.4f})"
    yield f"{row['widest_gap']:.2f}"
    for key in GUARDED:
        cut, longer = _guarded(each, row, key)
        yield "-" if cut is None else f"{100 * cut:.0f} %"
        yield "-" if longer is None else f"{longer:.2f}"


def _share(row: Mapping[str, Any], key: str) -> str:
    if row[key] is None:
        return "-"
    low, high = row["intervals"][key]
    return f"{row[key]:.2f} ({low:.2f} to {high:.2f})"


def _guarded(
    each: Mapping[str, Any], row: Mapping[str, Any], key: str
) -> tuple[float | None, float | None]:
    if key not in each:
        return None, None
    of_law = {entry["law"]: entry for entry in each[key]["laws"]}
    return of_law[row["law"]]["cut"], each[key]["duration_ratio"]


# -- the time of a step

STEPPED = ("s1", "s3", "s4", "merge")
STEP_SEED = 1_500_000
FRAMES = 350  # of a run of 35 s


def rows(quick: bool) -> Iterator[Row]:
    """Measures the time of a step in complete guarded runs, compared with libsumo
    alone.

    The minimum processor time of several rounds is used, because other work on the
    machine only adds time.
    """
    if not installed("libsumo"):
        yield Row("guarded step in SUMO", 0.0, peer="libsumo is not installed")
        return
    for name in STEPPED:
        turns = [_step(name) for _ in range(2 if quick else 5)]
        whole, bare = (min(times) for times in zip(*turns, strict=True))
        what = f"guarded step in SUMO, {name}, all signals"
        yield Row(what, whole, None, "libsumo alone in this step", bare)
    with tempfile.TemporaryDirectory() as folder:
        scenario, runs = load_scenario(STEPPED[0]), 40 if quick else 200
        files = Shipped.in_folder(FOLDER, scenario.name)
        planned = plan(scenario, files.model, load_policy(files.policy))
        seeds = range(STEP_SEED, STEP_SEED + runs)
        began = time.perf_counter()
        todo = jobs(planned, scenario, seeds, Path(folder))
        frames = sum(each.frames for each in campaign(todo, pool(2)))
        took_s = (time.perf_counter() - began) * 200 * FRAMES / frames
        what = f"200 guarded runs of 35 s, {STEPPED[0]}, two processes"
        yield Row(what, took_s, 10.0)


def _step(name: str, runs: int = 10) -> tuple[float, float]:
    """Returns the processor time of a step, and libsumo's part of it."""
    import libsumo

    spent_s = 0.0

    def timed(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any) -> Any:
            nonlocal spent_s
            began_s = time.thread_time()
            try:
                return call(*given)
            finally:
                spent_s += time.thread_time() - began_s

        return called

    scenario, files = load_scenario(name), Shipped.in_folder(FOLDER, name)
    runner = runner_of(plan(scenario, files.model, load_policy(files.policy)))
    runner.run(STEP_SEED)
    with (
        mock.patch.object(libsumo, "load", timed(libsumo.load)),
        mock.patch.object(libsumo, "simulationStep", timed(libsumo.simulationStep)),
    ):
        began_s = time.thread_time()
        frames = sum(runner.run(STEP_SEED + i).frames for i in range(1, 1 + runs))
        return (time.thread_time() - began_s) / frames, spent_s / frames


def main() -> None:
    options = arguments(
        __doc__, scenarios=DRIVING, out=Path, trained=FOLDER, episodes=400,
        seed=FIRST_SEED, guarded=100, blind_runs=200,
    )  # fmt: skip
    seeds = range(options.seed, options.seed + options.episodes)
    found = stored(
        options.out,
        options.scenarios,
        lambda name: measure(
            name, options.trained, seeds, options.guarded, options.blind_runs
        ),
    )
    show(table(found))


if __name__ == "__main__":
    main()
