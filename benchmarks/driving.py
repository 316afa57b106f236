"""Figures of docs/driving.md: warnings, stops and certificates, and the time of a step.

    python benchmarks/driving.py warnings --out out/driving [SCENARIO ...]
    python benchmarks/driving.py boosting --runs out/runs --out out/bars [SCENARIO ...]
    python benchmarks/driving.py stops --out out/acting [SCENARIO ...]
    python benchmarks/driving.py certificates --out out/certificates
    python benchmarks/run.py driving

The last command measures the time of a guarded step. All others use held-out runs of
the shipped models. Runs and scenarios already in --out are not measured again.

`warnings` measures the shipped warnings. The baseline is a chain over only the law's
own predicates, with the threshold that gives the same number of false alarms. Some of
the seeds are run again with the guard stopping the car, both at the thresholds for
warnings and at those tuned for stopping.

`boosting` compares the warnings with their targets (bars). The detection rate of the
shipped guard must be at least that of gradient boosting minus 0.04. The fraction of
violations that the guard detects at least 1 s ahead must be at least 0.8 times that of
boosting. Boosting is fitted to the raw signals and their last second in the model's
training runs, to predict violations within the horizon. For each missed bar, a second
table, the loss ledger, shows which step loses against boosting. Each of its cells has
the detection rate and the fraction detected at least 1 s ahead. To store both tables:

    python docs/tables.py [--rows] bars bars-ledger -- \
        python benchmarks/driving.py boosting ...

`stops` runs a guard that stops the vehicle, and repeats each run in which it intervened
without the guard. The table shows the remaining violations and the cost of the stops.
Each policy is then certified a hundred times on random samples of these runs, and each
guarantee is tested on 5,000 further samples. --keep certifies the shipped policies with
these runs, which are used for nothing else, and stores in each policy the smallest
rates that are guaranteed simultaneously at the confidence level.

`certificates` counts how many of a hundred guarantees about guarded runs are false. A
guard stops the car at one of two thresholds. Each repetition certifies both thresholds
on its own held-out runs, with the functions that `forewarn tune --at-most 0.02
--held-out 149` calls. A guarantee is false if more than 2 % of 5,000 further runs with
this threshold break a law.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from held_out import (
    ALLOWED,
    EXACT,
    GUARD,
    LEDGER,
    Way,
    boosting_with_lags,
    drive,
    fresh,
    shipped,
)
from highway import ROADS
from run import Row, command_line, installed, markdown, stored

from forewarn.monitors.chains.model import load_models
from forewarn.monitors.evaluation.figures import at_most, runs_for
from forewarn.monitors.evaluation.foretold import (
    Foretold,
    Leads,
    climb_of,
    early,
    reliability,
)
from forewarn.monitors.evaluation.guarantee import Guarantee
from forewarn.monitors.evaluation.warned import Warned, warned_early
from forewarn.monitors.finding.corpus import Corpus
from forewarn.monitors.guarding.policy import (
    Policy,
    acting,
    load_policy,
    write_policy,
)
from forewarn.monitors.risk.evidence import dealt, needed_abstraction
from forewarn.monitors.trust.hindsight import Judge, foretold_by
from forewarn.scenarios.measuring.late import Again
from forewarn.scenarios.measuring.pairs import compare
from forewarn.scenarios.measuring.seeds import refuse_trained, seeds_of
from forewarn.scenarios.running.campaign import campaign, jobs, pool
from forewarn.scenarios.running.episode import Episode
from forewarn.scenarios.running.plan import plan, runner_of
from forewarn.scenarios.schema import Scenario, load_scenario, shipped_scenarios
from forewarn.scenarios.shipped import FOLDER, Shipped
from forewarn.scenarios.training.acting import acting_policy
from forewarn.scenarios.training.certifying import Wanted, acted_on, certified

DRIVING = [
    name for name, path in shipped_scenarios().items() if path.parent.name == "driving"
]
CONFIDENCE = 0.95

Facts = dict[str, Any]

# -- the quality of the warnings

WARNINGS_SEED = 5_010_000
MIN_BIN_RUNS = 30
GUARDED = ("guarded", "guarded_to_stop")
"""The results of stopping at the thresholds for warnings, and at those tuned for
stopping.
"""


def warnings(
    scenarios: Sequence[str] = DRIVING,
    *,
    out: Path,
    trained: Path = FOLDER,
    episodes: int = 400,
    seed: int = WARNINGS_SEED,
    guarded: int = 100,
    blind_runs: int = 200,
) -> Iterator[str]:
    """How good the shipped warnings are."""
    seeds = range(seed, seed + episodes)
    found = stored(
        out, scenarios, lambda name: _warned(name, trained, seeds, guarded, blind_runs)
    )
    rows = [(each, row) for each in found for row in each["laws"]]
    yield from markdown(WARNED, (list(_warned_cells(*row)) for row in rows))
    yield ""
    for each, row in rows:
        if words := warned_early(row, row["horizon_s"]):
            yield f"{each['scenario']}, {row['law']}: {words}."


def _warned(
    name: str, trained: Path, seeds: range, pairs: int, blind_runs: int
) -> Facts:
    """Returns all figures of a scenario's warnings."""
    scenario, files = load_scenario(name), Shipped.in_folder(trained, name)
    models, policy = load_models(files.model), load_policy(files.policy)
    for each in models:
        refuse_trained(each, name, seeds)
    abstractions = [needed_abstraction(each, name) for each in models]
    laws = scenario.laws
    signals = (s for each in (*abstractions, *laws) for s in each.signals)
    names = list(dict.fromkeys(signals))
    runs, episodes = drive(scenario, seeds, names)
    horizon_s, period_s = policy.horizon_s, abstractions[0].period_s or 0.1
    learned = [s for each in models[0].training["files"] for s in seeds_of(each)]
    known, _ = drive(scenario, learned[:blind_runs], names)
    basis = Corpus(known, laws, abstractions[0].vocabulary, period_s).basis
    blind = foretold_by([Judge.learn(known, basis, laws, [horizon_s])], enumerate(runs))
    rows: dict[str, Facts] = {}
    for model, abstraction, own in zip(
        models, abstractions, dealt(models, laws), strict=True
    ):
        judge = Judge(
            model, abstraction, own, [horizon_s], period_s,
            calibration=policy.calibration,
        )  # fmt: skip
        chosen = model.training.get("abstraction", {}).get("chosen", "hand-made")
        states = {"states": model.chain.n, "abstraction": chosen}
        for law, told in foretold_by([judge], enumerate(runs)).items():
            rows[law] = _figures(law, told, blind[law], policy) | states
    policies = {"guarded": acting(policy, "stop", laws)}
    if files.acting.exists():
        policies["guarded_to_stop"] = load_policy(files.acting)
    return {
        "scenario": name,
        "trained_on": len(learned),
        **{
            key: _guarded(scenario, files.model, each, episodes[:pairs])
            for key, each in policies.items()
            if pairs
        },
        "laws": [rows[law.name] for law in laws],
    }


def _guarded(
    scenario: Scenario, model: Path, policy: Policy, before: Sequence[Episode]
) -> Facts:
    """Runs the same seeds with the guard intervening by this policy."""
    runner = runner_of(plan(scenario, model, policy))
    return compare(before, [runner.run(each.seed) for each in before], scenario)


def _figures(
    law: str, told: Sequence[Foretold], blind: Sequence[Foretold], policy: Policy
) -> Facts:
    horizon_s = policy.horizon_s
    (step,) = policy.steps_for(law)
    stops = policy.unknown_state == "stop"

    def warned(several: Sequence[Foretold], at: float) -> Warned:
        climbs = (climb_of(each, horizon_s, each.run, stops) for each in several)
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
    return {
        "law": law,
        "horizon_s": horizon_s,
        **ours.as_dict(horizon_s),
        "warned_3_s_before_deadline": ours.in_time,
        "brier": known.brier,
        "brier_of_base_rate": known.reference,
        "widest_gap": max(gaps, default=0.0),
        "blind_detection_rate": max(
            (e.detection_rate or 0.0 for e in fair), default=0.0
        ),
    }


WARNED = (
    "scenario, law", "trained on", "states", "broken", "detected", "ahead", "median",
    "1 s ahead",
    "3 s before deadline", "false alarms", "law's own", "Brier (base rate's)",
    "widest gap", "prevented", "longer", "to stop: prevented", "longer",
)  # fmt: skip


def _warned_cells(each: Mapping[str, Any], row: Mapping[str, Any]) -> Iterator[str]:
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
        cut, longer = _with_guard(each, row, key)
        yield "-" if cut is None else f"{100 * cut:.0f} %"
        yield "-" if longer is None else f"{longer:.2f}"


def _share(row: Mapping[str, Any], key: str) -> str:
    if row[key] is None:
        return "-"
    low, high = row["intervals"][key]
    return f"{row[key]:.2f} ({low:.2f} to {high:.2f})"


def _with_guard(
    each: Mapping[str, Any], row: Mapping[str, Any], key: str
) -> tuple[float | None, float | None]:
    if key not in each:
        return None, None
    of_law = {entry["law"]: entry for entry in each[key]["laws"]}
    return of_law[row["law"]]["cut"], each[key]["duration_ratio"]


# -- compared with boosting

BOOSTING_SEED = 9_420_000
BOOSTING = "boosting with lags"
LESS_DETECTED = 0.04
SHARE_OF_SOONER = 0.8


def boosting(
    scenarios: Sequence[str] = (*DRIVING, *ROADS),
    *,
    runs: Path,
    out: Path,
    trained: Path = FOLDER,
    episodes: int = 300,
    seed: int = BOOSTING_SEED,
) -> Iterator[str]:
    """The shipped warnings compared with gradient boosting, and the loss ledger."""
    seeds = range(seed, seed + episodes)
    found = stored(out, scenarios, lambda name: _compared(name, seeds, trained, runs))
    rows = [(each["scenario"], row) for each in found for row in each["laws"]]
    head = (
        "scenario", "law", "violating runs",
        "guard: detected", "median", "1 s ahead",
        "boosting: detected", "median", "1 s ahead",
        "detection bar", "1 s bar",
    )  # fmt: skip
    yield from markdown(head, (list(_compared_cells(*each)) for each in rows))
    yield ""
    lost = [(name, row) for name, row in rows if "ledger" in row]
    yield from markdown(
        ("scenario, law", BOOSTING, *LEDGER),
        (list(_ledger(*each)) for each in lost),
    )


def _compared(name: str, seeds: range, trained: Path, runs: Path) -> Facts:
    """Returns the figures of a scenario's laws, with the loss ledger of missed bars."""
    of = fresh(name, seeds, trained, runs)
    horizon_s = of.told.scenario.horizon_s
    rows = []
    for number, law in enumerate(of.told.scenario.laws):
        ways: dict[str, Way] = {GUARD: shipped(of.files), BOOSTING: boosting_with_lags}
        found = of.found(ways, number)
        row = {
            "law": law.name,
            "violating": sum(each.broken is not None for each in found[GUARD]),
            "runs": len(found[GUARD]),
            **{way: _leads(each, horizon_s) for way, each in found.items()},
        }
        if row["violating"] and not all(_kept(row)):
            steps = of.found(LEDGER, number)
            row["ledger"] = {
                way: _leads(each, horizon_s) for way, each in steps.items()
            }
        rows.append(row)
        print(f"{name}, {law.name}: measured", flush=True)
    return {"scenario": name, "laws": rows}


def _leads(found: Sequence[Foretold], horizon_s: float) -> dict[str, float]:
    """Returns the detection rate, the median lead time in seconds, and the fraction of
    violations detected at least 1 s ahead.
    """
    share, _, median_s, sooner = Leads.of(early(found, horizon_s, ALLOWED))
    return {"detected": share, "median_s": median_s, "second_ahead": sooner}


def _kept(row: Mapping[str, Any]) -> tuple[bool, bool]:
    """Whether the bars for the detection rate and for warnings 1 s ahead are met."""
    guard, other = row[GUARD], row[BOOSTING]
    return (
        guard["detected"] >= other["detected"] - LESS_DETECTED - EXACT,
        guard["second_ahead"] >= SHARE_OF_SOONER * other["second_ahead"] - EXACT,
    )


def _compared_cells(name: str, row: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"`{name}`", f"`{row['law']}`", f"{row['violating']} of {row['runs']}")
    for way in (GUARD, BOOSTING):
        told = row[way]
        yield f"{told['detected']:.2f}"
        yield f"{told['median_s']:.1f} s" if told["detected"] else "-"
        yield f"{told['second_ahead']:.2f}"
    for kept in _kept(row):
        yield "-" if not row["violating"] else "met" if kept else "missed"


def _ledger(name: str, row: Mapping[str, Any]) -> Iterator[str]:
    yield f"`{name}`, `{row['law']}`"
    for told in (row[BOOSTING], *row["ledger"].values()):
        yield f"{told['detected']:.2f}, {told['second_ahead']:.2f}"


# -- stops

STOPPED = ("s4", "s6", "merge", "roundabout", "chain-braking", "highway-lanes")
STOPS_SEED = 9_100_000
CERTIFIED = 0.02
"""The certified rate of violating runs."""

SAMPLES, FURTHER = 100, 5_000
"""The number of certifications, and of runs that test each certification."""

LEADS_S, BEYONDS_S = (1.0, 2.0, 3.0, 5.0), (0.5, 2.0)
"""How long before a violation a stop begins, and how long after the violation the stop
ends, in seconds.
"""


def stops(
    scenarios: Sequence[str] = STOPPED,
    *,
    out: Path,
    keep: bool = False,
    episodes: int = 400,
    seed: int = STOPS_SEED,
    jobs: int = 1,
) -> Iterator[str]:
    """The shipped stop policies: the remaining violations and the cost of stops."""
    seeds = range(seed, seed + episodes)
    figures = stored(
        out, scenarios, lambda name: _stopped(name, seeds, jobs, out / name)
    )
    found = dict(zip(scenarios, figures, strict=True))
    for name in scenarios if keep else ():
        path = Shipped.in_folder(FOLDER, name).acting
        kept = Guarantee(**found[name]["kept"])
        write_policy(path, replace(load_policy(path), kept=kept))
    head = (
        "scenario", "violations without", "left", "clean runs stopped",
        "slowed by a tenth", "arrive", "standing", "standing until the limit",
        "keeps: violating", "slowed", "certified", "false",
    )  # fmt: skip
    yield from markdown(head, (_stopped_row(*each) for each in found.items()))
    sides = [each["outcomes"] for each in figures]
    without, left = (
        sum(each[side]["violating"] for each in sides)
        for side in ("unguarded", "guarded")
    )
    clean = sum(each["clean_stopped"] for each in figures)
    yield f"\n{left} of {without} violations left; {clean} clean runs stopped."
    standing, could = (sum(each["standing"][i] for each in figures) for i in (0, 1))
    yield (
        f"{standing} runs whose violation was prevented stand until the time limit; "
        f"with a stop at another time, {could} of them arrive."
    )


def _stopped(name: str, seeds: range, jobs: int, place: Path) -> Facts:
    """Measures a scenario's stop policy on these seeds."""
    scenario, shipped = load_scenario(name), Shipped.in_folder(FOLDER, name)
    policy = load_policy(shipped.acting)
    pairs = acted_on(scenario, shipped.model, policy, seeds, pool(jobs), place)
    wanted = Wanted(1.0, 1.0, CONFIDENCE, seeds)
    kept = certified(scenario, shipped.model, policy, wanted, pairs)
    before, after = zip(*pairs, strict=True)
    return {
        **compare(before, after, scenario),
        "broke": [bool(each.violations) for each in after],
        "standing": _standing(scenario, pairs),
        "kept": _least(kept).model_dump(mode="json"),
    }


def _least(found: Guarantee) -> Guarantee:
    """Returns the smallest rates that the runs support simultaneously."""

    def bound(part: int) -> float:
        return math.ceil(1000 * at_most(part, found.runs, (1 - CONFIDENCE) / 2)) / 1000

    rates = {"violating": bound(found.broke), "slowed": bound(found.prolonged)}
    return found.model_copy(update=rates)


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


def _certifications(broke: Sequence[bool]) -> tuple[int, int]:
    """Returns how many of a hundred certifications succeed, and how many of these are
    false.
    """
    rng, outcomes = np.random.default_rng(0), np.asarray(broke)
    runs = runs_for(2, CERTIFIED, 1 - CONFIDENCE)
    stated = false = 0
    for _ in range(SAMPLES):
        if rng.choice(outcomes, runs).sum() <= 2:
            stated += 1
            false += rng.choice(outcomes, FURTHER).mean() > CERTIFIED
    return stated, false


def _stopped_row(name: str, found: Facts) -> tuple[object, ...]:
    """Returns a row of the table."""
    alone, guarded = found["outcomes"]["unguarded"], found["outcomes"]["guarded"]
    stated, false = _certifications(found["broke"])
    return (
        name, f"{alone['violating']} of {alone['runs']}", guarded["violating"],
        found["clean_stopped"], f"{found['prolonged']} of {found['clean_pairs']}",
        _arrive(guarded, alone),
        f"{guarded['stationary_s'] - alone['stationary_s']:+.0f} s",
        guarded["standing"], f"{found['kept']['violating']:.1%}",
        f"{found['kept']['slowed']:.1%}", f"{stated} of {SAMPLES}", false,
    )  # fmt: skip


def _arrive(guarded: Facts, alone: Facts) -> str:
    if guarded["arrived"] is None:
        return "-"
    return f"{guarded['arrived']} ({alone['arrived']} without)"


# -- certificates

SCENARIO, THRESHOLDS = "chain-braking", (0.7, 0.75)
"""With the shipped threshold of 0.3, a false guarantee is impossible."""

TIMES, RUNS, AT_ONCE = 100, 149, 25
"""The number of repetitions, held-out runs per repetition, and runs per batch. With 149
runs, a single violation rules out the guarantee, so a certification ends with the batch
that contains the first violation.
"""
FIRST_SEED, APART, FURTHER_SEED = 20_000_020, 1_000, 30_000_000


def certificates(*, out: Path, jobs: int = 1) -> Iterator[str]:
    """How many of a hundred certified guarantees about guarded runs are false."""
    certifying = Certifying(SCENARIO, jobs, out)
    firsts = range(FIRST_SEED, FIRST_SEED + TIMES * APART, APART)
    repetitions = [certifying.certified(range(k, k + RUNS)) for k in firsts]
    violating = certifying.violating(range(FURTHER_SEED, FURTHER_SEED + FURTHER))
    head = (
        "stop from", f"violations in {FURTHER:,} further runs", "certified", "false",
    )  # fmt: skip
    stated = {at: sum(at in each for each in repetitions) for at in violating}
    rows = (
        (at, part, f"{stated[at]} of {TIMES}",
         stated[at] if part / FURTHER > CERTIFIED else 0)
        for at, part in violating.items()
    )  # fmt: skip
    yield from markdown(head, rows)


class Certifying:
    """Certifies the policies of one scenario.

    Args:
        name: The scenario's name.
        processes: The number of processes.
        place: The folder for the runs.
    """

    def __init__(self, name: str, processes: int, place: Path) -> None:
        shipped = Shipped.in_folder(FOLDER, name)
        self.scenario, self.model = load_scenario(name), shipped.model
        self._on, self._place = pool(processes), place
        base = replace(load_policy(shipped.acting), kept=None)
        laws = self.scenario.laws
        self.policies = {
            at: acting_policy(base, laws, "stop", {law.name: at for law in laws})
            for at in THRESHOLDS
        }

    def certified(self, seeds: range) -> set[float]:
        """Returns the thresholds that are certified on these runs."""
        held: dict[float, list[tuple[Episode, Episode]]] = {at: [] for at in THRESHOLDS}
        for first in range(0, len(seeds), AT_ONCE):
            some = seeds[first : first + AT_ONCE]
            known: list[tuple[Episode, Episode]] = []
            for at in [*held]:
                policy = self.policies[at]
                known = acted_on(
                    self.scenario, self.model, policy, some, self._on, self._place,
                    known=known,
                )  # fmt: skip
                held[at] += known
                if any(after.violations for _, after in known):
                    del held[at]  # the certification fails in any case
        wanted = Wanted(CERTIFIED, 1.0, CONFIDENCE, seeds)
        return {
            at
            for at, pairs in held.items()
            if certified(
                self.scenario, self.model, self.policies[at], wanted, pairs
            ).certified
        }

    def violating(self, seeds: Iterable[int]) -> dict[float, int]:
        """Returns the number of violating runs with each threshold."""
        found: dict[float, int] = {}
        left, calm = [*seeds], 0
        for at, policy in self.policies.items():
            planned = plan(self.scenario, self.model, policy)
            todo = jobs(planned, self.scenario, left, self._place)
            ran = [*campaign(todo, self._on)]
            found[at] = calm + sum(bool(each.violations) for each in ran)
            # A run without an intervention is the same with a higher threshold.
            calm += sum(bool(e.violations) for e in ran if not e.interventions)
            left = [each.seed for each in ran if each.interventions]
        return found


# -- the time of a step

STEPPED = ("s1", "s3", "s4", "merge")
STEP_SEED = 1_500_000


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


if __name__ == "__main__":
    command_line(__doc__, warnings, boosting, stops, certificates)
