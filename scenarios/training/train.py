"""Trains a scenario's model and policy from runs.

The runs are split into three parts, so that nothing is evaluated on its own training
runs. The first part is used to choose the abstraction and to learn the chain; the
second, to calibrate the risks; the third, to set the thresholds and their guarantees
(see `tune`). The same runs give identical files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import atomic_text, write_json
from forewarn.abstractions.readers.stored import Batch, Stored
from forewarn.abstractions.trace import Kept
from forewarn.monitors.chains.formats.own import models_as_dict
from forewarn.monitors.chains.learning import learn
from forewarn.monitors.chains.model import Model, load_models
from forewarn.monitors.finding.choice import Choice, Chosen, choose_by_law
from forewarn.monitors.finding.corpus import Corpus
from forewarn.monitors.finding.terms import families_of, score_signals
from forewarn.monitors.guarding.decision import Kind
from forewarn.monitors.guarding.policy import Policy, load_policy, write_policy
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.trust.resampling import likely_risks
from forewarn.monitors.trust.training import Training
from forewarn.scenarios.measuring.recorded import applicable, kept_runs
from forewarn.scenarios.running.campaign import Kept as KeptOf
from forewarn.scenarios.running.campaign import (
    Progress,
    all_of,
    frames_kept,
    jobs,
    kept_in,
)
from forewarn.scenarios.running.plan import plan
from forewarn.scenarios.running.pools import Pool
from forewarn.scenarios.schema import Scenario
from forewarn.scenarios.shipped import Shipped
from forewarn.scenarios.training.tune import (
    Settled,
    read_by,
    settle,
    tuned_policy,
    with_ordinary,
)

FALSE_ALARMS = 0.10
"""The maximum false-alarm rate that the thresholds guarantee."""

FEWEST_ASIDE = 60
"""The minimum number of runs that set the thresholds, unless it exceeds a third of all
runs. In most scenarios, these runs include enough clean ones to guarantee a false-alarm
rate of 10 %.
"""

HOLD_S = 10.0
"""The hold time in seconds if laws have obligations or paths cross: the risk of a
stationary vehicle is low, although it may be about to move. Otherwise the hold time is
the horizon, because a needlessly stationary car on a highway is itself a hazard.
"""

_CROSSING = "junction_distance"

ORDINARY_SEED = 8_000_000
"""The first seed of runs that only record what happens in ordinary runs."""

THRESHOLDS = "thresholds"
"""The purpose of the third part of the runs, as stored in models."""

Shown = Callable[[Iterable[Any], str, int], Iterable[Any]]


@dataclass(frozen=True, slots=True)
class Trained:
    """The results of training.

    Args:
        models: One model for all laws, or several models for different laws.
        chosen: For each model, its laws and its abstraction, with the reasons for the
            choice.
        settled: The thresholds and their guarantees.
        policy: The policy; None if no threshold achieves the guarantee.
    """

    models: tuple[Model, ...]
    chosen: tuple[Chosen, ...]
    settled: Settled
    policy: Policy | None

    def write(self, folder: Path, name: str) -> Shipped:
        """Writes the models, the policy, and the abstractions that were learned."""
        files = Shipped.in_folder(folder, name)
        write_json(files.model, models_as_dict(self.models))
        files.policy.unlink(missing_ok=True)
        if self.policy is not None:
            write_policy(files.policy, self.policy)
        files.abstraction.unlink(missing_ok=True)
        for number, (model, each) in enumerate(
            zip(self.models, self.chosen, strict=True), start=1
        ):
            beside = files.abstraction
            if len(self.models) > 1:
                beside = beside.with_name(f"{name}.{number}.abstraction.yaml")
            if each.choice.kind != "hand-made":
                runs = model.training["traces"]
                with atomic_text(beside) as out:
                    out.write(each.choice.text(f"Found for {name} in {runs} runs."))
        return files


def collected(
    scenario: Scenario,
    seeds: Sequence[int],
    on: Pool,
    folder: Path,
    progress: Progress = lambda items, *_: items,
    kept: KeptOf | None = None,
) -> list[Stored]:
    """Runs a scenario without a guard; returns the traces, including existing ones.

    Args:
        scenario: The scenario to run.
        seeds: The seeds of the runs.
        on: The pool in which the episodes run.
        folder: The folder for the traces; existing episodes are not run again.
        progress: Shows progress.
        kept: The format of the traces; by default, the folder's current format.
    """
    keep = [kept or frames_kept(folder)]
    todo = jobs(plan(scenario), scenario, seeds, folder, keep)
    return sorted(kept_in(folder, all_of(todo, on, "episodes", progress)))


def train(
    scenario: Scenario,
    stored: Sequence[Stored],
    progress: Shown = lambda items, *_: items,
) -> Trained:
    """Chooses abstractions, learns models and tunes thresholds on these runs."""
    hand = scenario.abstraction
    vocabulary = hand.vocabulary
    known = kept_runs(stored, signals_read(scenario), progress)
    laws = applicable(scenario.laws, known)
    period_s = hand.period_s or known[0].header.period_s
    if period_s is None:
        source = str(stored[0].path)
        raise InvalidInput("the traces do not state their period", source=source)
    learning, calibrating, aside = dealt(len(known))
    corpus = Corpus(known[learning], laws, vocabulary, period_s)
    chosen = choose_by_law(corpus, laws, hand, scenario.horizon_s, progress=progress)
    models = [
        learned(
            stored[learning], known[learning], each.choice, each.laws,
            scenario.horizon_s,
        )
        for each in chosen
    ]  # fmt: skip
    # Only the scenario's own horizon is used, because the best of several horizons is
    # partly best by chance.
    hold_s = HOLD_S if holds(laws, known, period_s) else scenario.horizon_s
    base = Policy(
        f"{scenario.name}, false-alarm rate at most {FALSE_ALARMS:g}",
        hold_s=hold_s,
    )
    return settled(
        scenario, models, chosen, known, FALSE_ALARMS, base, "alert", progress
    )


def signals_read(scenario: Scenario) -> list[str] | None:
    """Returns the signals that training needs; None for all signals."""
    hand = scenario.abstraction
    families = families_of(scenario.laws, hand.vocabulary)
    if not families:
        return None
    of_laws = (name for law in scenario.laws for name in law.signals)
    scored = score_signals(families, hand.vocabulary)
    return list(dict.fromkeys([*hand.signals, *of_laws, *scored, _CROSSING]))


def dealt(runs: int) -> tuple[slice, slice, slice]:
    """Splits runs into those for learning, for calibration, and for the thresholds."""
    aside = max(runs // 4, min(runs // 3, FEWEST_ASIDE))
    learning = (runs - aside) * 2 // 3
    return slice(learning), slice(learning, runs - aside), slice(runs - aside, runs)


def settled(
    scenario: Scenario,
    models: Sequence[Model],
    chosen: Sequence[Chosen],
    runs: Sequence[Kept],
    false_alarms: float,
    base: Policy,
    kind: Kind,
    progress: Shown = lambda items, *_: items,
) -> Trained:
    """Finds thresholds for models that were learned from the first part of these runs.

    Args:
        scenario: The scenario of the runs.
        models: The models.
        chosen: The laws and the abstraction of each model.
        runs: All runs, in the order in which `dealt` splits them.
        false_alarms: The maximum false-alarm rate to guarantee.
        base: The policy without its thresholds.
        kind: The intervention at the thresholds.
        progress: Shows progress.
    """
    laws = applicable(scenario.laws, runs)
    learning, calibrating, aside = dealt(len(runs))
    horizon_s = scenario.horizon_s
    found = settle(
        laws, models, (runs[calibrating], runs[aside]), false_alarms, [horizon_s], base
    )  # fmt: skip
    set_aside = [
        {"scenario": scenario.name, "for": use, "seeds": list(seeds)}
        for use, seeds in zip(("calibration", THRESHOLDS), found.seeds, strict=True)
    ]
    whole = [
        replace(
            model,
            likely=likely_risks(
                model, each.laws, horizon_s, runs[learning], found.best.told,
                found.best.calibration, progress=progress, counted=each.choice.found,
            ),
            training={**model.training, "set_aside": set_aside},
        )
        for model, each in zip(models, chosen, strict=True)
    ]  # fmt: skip
    policy = tuned_policy(found, base, kind) if found.thresholds else None
    return Trained(tuple(whole), tuple(chosen), found, policy)


def runs_set_aside(folder: Path, scenario: Scenario) -> list[int]:
    """Returns the seeds of the runs that set a trained policy's thresholds."""
    model = load_models(Shipped.in_folder(folder, scenario.name).model)[0]
    return [
        seed
        for entry in model.training.get("set_aside", ())
        if entry["scenario"] == scenario.name and entry["for"] == THRESHOLDS
        for seed in entry["seeds"]
    ]


def ordinary_seeds(folder: Path, scenario: Scenario, count: int = 0) -> list[int]:
    """Returns the seeds of the runs that set a trained policy's thresholds, and of new
    runs if these are fewer than `count`.
    """
    aside = runs_set_aside(folder, scenario)
    new = max(count - len(aside), 0)
    return [*aside, *range(ORDINARY_SEED, ORDINARY_SEED + new)]


def add_ordinary(folder: Path, scenario: Scenario, stored: Sequence[Stored]) -> Path:
    """Stores the outcomes of these runs in a trained policy, for detecting drift."""
    files = Shipped.in_folder(folder, scenario.name)
    if not stored:
        raise InvalidInput(
            "the model does not name the runs that were used to set its thresholds",
            source=str(files.model),
            mend="train it with `forewarn train`",
        )
    models = load_models(files.model)
    runs = kept_runs(stored, read_by(models, scenario.laws))
    laws = applicable(scenario.laws, runs)
    policy = with_ordinary(load_policy(files.policy), laws, models, runs)
    write_policy(files.policy, policy)
    return files.policy


def holds(laws: Sequence[Law], runs: Sequence[Kept], period_s: float) -> bool:
    """Whether a stopped vehicle should be held for `HOLD_S`: true if laws have
    obligations or paths cross.
    """
    if any(law.compile(period_s).pending.any() for law in laws):
        return True
    known = [run.signals[_CROSSING] for run in runs if _CROSSING in run.signals]
    return any(not np.isnan(np.asarray(each, np.float64)).all() for each in known)


def learned(
    stored: Sequence[Stored],
    runs: Sequence[Kept],
    choice: Choice,
    laws: Sequence[Law],
    horizon_s: float,
) -> Model:
    """Learns a model from these runs."""
    abstraction = choice.abstraction
    training = Training()
    for number, (origin, run) in enumerate(zip(stored, runs, strict=True)):
        training.add(Batch.of(origin, run), choice.found.counting(number))
    model = learn(
        training.tally,
        abstraction=abstraction.as_dict(),
        period_s=training.period_s,
        laws=tuple(dict.fromkeys(law.told for law in laws)),
        training=training.summary(),
    )
    formulas = [law.formula for law in laws]
    broken = training.violations(model, abstraction, formulas)
    facts = {**model.training, "violations": broken, "abstraction": choice.as_dict()}
    visits = training.first_visits(model, abstraction, formulas, horizon_s)
    return replace(model, training=facts, first_visits=visits)
