"""Tuning: the thresholds and the horizon for a given rate of false alarms.

Only training runs are used, and each is judged by a model that was learned from the
others: the runs are dealt into folds, and the model is learned anew without each. At
each horizon every law gets the lowest threshold at which no more than the given share
of its clean runs has an alarm; the horizon at which most violations are then detected
is taken, and of equals the one that warns earlier.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.errors import ForewarnError, InvalidInput, InvalidModel
from forewarn.monitors.chains.learning import Support, learn
from forewarn.monitors.chains.model import Model, load_model
from forewarn.monitors.guarding.decision import Kind
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.monitors.trust.training import Training
from forewarn.scenarios.campaign import campaign, jobs
from forewarn.scenarios.measure import Progress
from forewarn.scenarios.plan import guard_maker, plan
from forewarn.scenarios.pool import Lost, Pool
from forewarn.scenarios.recorded import Spectator, read_run
from forewarn.scenarios.schema import Scenario, load_scenario
from forewarn.scenarios.series import Series
from forewarn.scenarios.truth import Broken
from forewarn.scenarios.warned import Warned, WarnedRun, alarms

LOWEST_THRESHOLD = 0.01
"""No threshold is lower: with few runs the smallest risks are mostly chance."""

_FINENESS = 1000


@dataclass(frozen=True, slots=True)
class Climb:
    """One run under one law: all that thresholds need to know of its risks.

    Args:
        seed: The run.
        duration_s: How long it lasted.
        steps: When the risk was higher than ever before, and how high; infinite where
            the guard intervenes whatever the threshold.
        broken: The first time that the law was broken, if it was.
    """

    seed: int
    duration_s: float
    steps: tuple[tuple[float, float], ...]
    broken: Broken | None

    @property
    def top(self) -> float:
        """The highest risk of the run."""
        return self.steps[-1][1] if self.steps else 0.0

    def warned(self, threshold: float) -> WarnedRun:
        """The run with that threshold."""
        alarm_s = next((at for at, risk in self.steps if risk >= threshold), None)
        onsets = int(alarm_s is not None)
        return WarnedRun(self.duration_s, alarm_s, onsets, self.broken)


def climb(series: Series, law: str, seed: int, broken: Broken | None) -> Climb:
    """The risks of a law in one run."""
    never = Step("alert", math.inf, inclusive=False)
    forced = alarms(series.risks[law], never, series.forced)
    steps: list[tuple[float, float]] = []
    top = 0.0
    for time_s, risk, must in zip(
        series.times_s, series.risks[law], forced, strict=True
    ):
        height = math.inf if must else risk
        if height > top:
            top = height
            steps.append((time_s, height))
    times = series.times_s
    return Climb(seed, times[-1] - times[0], tuple(steps), broken)


@dataclass(frozen=True, slots=True)
class Fold:
    """A share of the runs, judged by a model learned from the others.

    Args:
        scenario: The scenario's file.
        model: The model's file: how to learn it anew.
        policy: The policy, as JSON.
        horizons_s: The horizons tried.
        runs: The traces of all runs.
        number: Which fold it is.
        of: How many folds there are.
    """

    scenario: str
    model: str
    policy: str
    horizons_s: tuple[float, ...]
    runs: tuple[str, ...]
    number: int
    of: int

    def holds_out(self, run: int) -> bool:
        """Whether a run is judged, and not learned from."""
        return run % self.of == self.number


Climbs = dict[float, dict[str, list[Climb]]]
"""By horizon and law, of every run."""


def judge_fold(fold: Fold) -> Climbs:
    """Learns from the runs outside a fold and judges those inside."""
    scenario = load_scenario(fold.scenario)
    policy = Policy.from_dict(json.loads(fold.policy), "the policy")
    paths = [Path(run) for run in fold.runs]
    learned = _without(fold, load_model(Path(fold.model)), paths)
    held_out = [read_run(p) for i, p in enumerate(paths) if fold.holds_out(i)]
    found: Climbs = {}
    for horizon_s in fold.horizons_s:
        tried = replace(policy, horizon_s=horizon_s, shadow=True)
        make = guard_maker(scenario, learned, tried, fold.model)
        spectator = Spectator(make, tried, scenario.laws)
        of_laws = found.setdefault(horizon_s, {})
        for run in held_out:
            episode, series = spectator.look(run)
            if episode.failed:
                raise InvalidInput(episode.error or "", source=str(run.path))
            for law in series.risks:
                broken = episode.first(law)
                of_laws.setdefault(law, []).append(climb(series, law, run.seed, broken))
    return found


def _without(fold: Fold, model: Model, paths: Sequence[Path]) -> Model:
    """The model as it is learned from the other runs."""
    if model.abstraction is None or model.counts is None:
        raise InvalidModel(
            "it has no abstraction or no counts, so it cannot be learned anew",
            source=fold.model,
        )
    abstraction = Abstraction.from_dict(dict(model.abstraction), fold.model)
    training = Training()
    for i, path in enumerate(paths):
        if not fold.holds_out(i):
            training.add_trace(path, abstraction)
    return learn(
        training.tally,
        Support.of(model),
        model.alpha or Fraction(0),
        model.end,
        abstraction=model.abstraction,
        period_s=model.period_s,
        laws=model.laws,
        training=training.summary(),
    )


@dataclass(frozen=True, slots=True)
class Tuned:
    """What was found for one horizon.

    Args:
        horizon_s: The horizon.
        thresholds: The threshold of each law.
        warned: How each law's warnings then fare, out of fold.
        seeds: The runs.
    """

    horizon_s: float
    thresholds: Mapping[str, float]
    warned: Mapping[str, Warned]
    seeds: tuple[int, ...]

    @property
    def worth(self) -> tuple[float, float, float]:
        """More is better: detections, then earliness, then a nearer horizon."""
        shares = [each.detection_rate or 0.0 for each in self.warned.values()]
        times = [
            float(time_s)
            for each in self.warned.values()
            for time_s in each.ahead(trigger=True)
            if not math.isnan(time_s)
        ]
        return sum(shares), sum(times) / max(len(times), 1), -self.horizon_s

    def as_dict(self) -> dict[str, Any]:
        return {
            "horizon_s": self.horizon_s,
            "laws": [
                {"law": law, "threshold": self.thresholds[law], **warned.as_dict()}
                for law, warned in self.warned.items()
            ],
        }


def training_runs(
    scenario: Scenario,
    model: Path,
    on: Pool,
    folder: Path,
    progress: Progress = lambda items, *_: items,
) -> list[Path]:
    """The runs that a model was learned from, run once more.

    Raises:
        InvalidInput: The model does not say which they were, or they come out
            differently now.
    """
    files = {
        entry["seed"]: entry["sha256"]
        for entry in load_model(model).training.get("files", ())
        if entry.get("scenario") == scenario.name and "seed" in entry
    }
    if not files:
        raise InvalidInput(
            f"it does not say which runs of {scenario.name} it was learned from",
            source=str(model),
            mend="give their traces with --runs",
        )
    todo = jobs(plan(scenario), scenario, sorted(files), folder, ["trace"])
    paths: list[Path] = []
    for episode in progress(campaign(todo, on), "training runs", len(todo)):
        path = folder / str(episode.trace)
        if episode.failed or digest_of_file(path) != files[episode.seed]:
            raise InvalidInput(
                f"the training run with seed {episode.seed} comes out differently now",
                source=str(model),
                mend="give the traces with --runs, or learn anew",
            )
        paths.append(path)
    return sorted(paths)


def digest_of_file(path: Path) -> str:
    """The SHA-256 of a file as it is, packed or not."""
    with path.open("rb") as raw:
        return hashlib.file_digest(raw, "sha256").hexdigest()


def tune(
    scenario: Scenario,
    model: Path,
    runs: Sequence[Path],
    false_alarm_rate: float,
    horizons_s: Sequence[float],
    on: Pool,
    policy: Policy,
    folds: int = 5,
    progress: Callable[[Iterable[Any], str, int], Iterable[Any]] = lambda x, *_: x,
) -> list[Tuned]:
    """The best threshold of each law at every horizon, the best horizon first.

    Args:
        scenario: Whose runs they are.
        model: The model that was learned from them.
        runs: The traces.
        false_alarm_rate: How many clean runs in one may have an alarm.
        horizons_s: What to try.
        on: Where the folds are judged.
        policy: What an unknown state means, and which risk counts.
        folds: How many there are.
        progress: Shows how far it is.
    """
    if len(runs) < folds:
        raise InvalidInput(f"{len(runs)} runs cannot be dealt into {folds} folds")
    names = tuple(str(path) for path in runs)
    content = json.dumps(policy.as_dict())
    todo = [
        Fold(scenario.source, str(model), content, tuple(horizons_s), names, i, folds)
        for i in range(folds)
    ]
    together: Climbs = {horizon_s: {} for horizon_s in horizons_s}
    for fold, judged in progress(on.map(judge_fold, todo), "folds", folds):
        if isinstance(judged, Lost):
            raise FoldLost(f"fold {fold.number} was not judged: {judged.error}")
        for horizon_s, of_laws in judged.items():
            for law, climbs in of_laws.items():
                together[horizon_s].setdefault(law, []).extend(climbs)
    found = [_tuned(h, of_laws, false_alarm_rate) for h, of_laws in together.items()]
    return sorted(found, key=lambda each: each.worth, reverse=True)


class FoldLost(ForewarnError):
    """A process ended before its fold was judged."""


def _tuned(
    horizon_s: float, of_laws: Mapping[str, Sequence[Climb]], allowed: float
) -> Tuned:
    thresholds = {law: threshold(climbs, allowed) for law, climbs in of_laws.items()}
    warned = {
        law: Warned(
            tuple(
                each.warned(thresholds[law])
                for each in sorted(climbs, key=lambda each: each.seed)
            )
        )
        for law, climbs in of_laws.items()
    }
    seeds = {each.seed for climbs in of_laws.values() for each in climbs}
    return Tuned(horizon_s, thresholds, warned, tuple(sorted(seeds)))


def threshold(climbs: Sequence[Climb], allowed: float) -> float:
    """The lowest threshold at which no more clean runs have an alarm than allowed.

    Where even 1 is reached too often it is 1; what comes of it shows in the rate.
    """
    tops = sorted((c.top for c in climbs if c.broken is None), reverse=True)
    spared = math.floor(allowed * len(tops) + 1e-9)
    if spared >= len(tops):
        return LOWEST_THRESHOLD
    # At this height one run too many has an alarm: the threshold lies above it.
    height = tops[spared]
    if height >= 1:
        return 1.0
    above = (math.floor(height * _FINENESS + 1e-9) + 1) / _FINENESS
    return max(LOWEST_THRESHOLD, min(1.0, above))


def tuned_policy(tuned: Tuned, policy: Policy, kind: Kind, name: str) -> Policy:
    """The policy that intervenes at the thresholds that were found."""
    rules = {law: (Step(kind, at),) for law, at in tuned.thresholds.items()}
    return replace(policy, name=name, rules=rules, horizon_s=tuned.horizon_s)
