"""Tuning: the thresholds and the horizon for a given rate of false alarms.

Only training runs are used, and each is judged by a model that was learned from the
others (`trust.hindsight`). At each horizon every law gets a threshold at which no more
than the given share of its clean runs has an alarm: of all that detect as much as the
lowest such, the middle one, for at the edge a few runs more or less decide. Of the
horizons at which most violations are detected the one that warns earliest is taken.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidInput, InvalidModel
from forewarn.abstractions.states.abstraction import Abstraction
from forewarn.abstractions.trace import Kept, Trace, TraceHeader
from forewarn.monitors.chains.model import Model, load_model
from forewarn.monitors.guarding.decision import Kind
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.risk.calibration import Calibration
from forewarn.monitors.trust.hindsight import (
    Counting,
    Foretold,
    Recipe,
    calibrate,
    mostly_harmless,
    out_of_fold,
)
from forewarn.scenarios.measuring.measure import Progress
from forewarn.scenarios.measuring.recorded import Recorded, read_run
from forewarn.scenarios.measuring.warning_times import Warned
from forewarn.scenarios.running.campaign import campaign, jobs
from forewarn.scenarios.running.plan import plan
from forewarn.scenarios.running.pool import Pool
from forewarn.scenarios.schema import Scenario
from forewarn.scenarios.training.thresholds import (
    climb_of,
    in_time,
    middle,
    plateau_end,
    threshold,
)

WORSE = 0.02
"""So much less detected is as good as equal: it is within chance."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """What was found for one horizon.

    Args:
        horizon_s: The horizon.
        thresholds: The threshold of each law.
        plateaus: From where to where a threshold detects as much.
        warned: How each law's warnings then fare, out of fold.
        ahead_s: Of each law, how long before its trigger or, where that is mostly
            harmless, before its deadline the warnings came that came in time.
        harmless: The laws whose triggers are mostly harmless.
        seeds: The runs.
        calibration: What the risks of each law have meant.
    """

    horizon_s: float
    thresholds: Mapping[str, float]
    plateaus: Mapping[str, tuple[float, float]]
    warned: Mapping[str, Warned]
    ahead_s: Mapping[str, Sequence[float]]
    harmless: frozenset[str]
    seeds: tuple[int, ...]
    calibration: Mapping[str, Calibration]

    @property
    def in_time(self) -> float:
        """The share of violations warned of in time, summed over laws."""
        return sum(
            len(self.ahead_s[law]) / max(len(each.violating), 1)
            for law, each in self.warned.items()
        )

    @property
    def mean_ahead_s(self) -> float:
        """How early the warnings come that come in time, on average."""
        times = [time_s for several in self.ahead_s.values() for time_s in several]
        return sum(times) / max(len(times), 1)

    def as_dict(self) -> dict[str, Any]:
        return {
            "horizon_s": self.horizon_s,
            "laws": [
                {
                    "law": law,
                    "threshold": self.thresholds[law],
                    "plateau": list(self.plateaus[law]),
                    "warned_in_time": len(self.ahead_s[law]),
                    "harmless_trigger": law in self.harmless,
                    **warned.as_dict(),
                }
                for law, warned in self.warned.items()
            ],
        }


def best_first(found: Iterable[Tuned]) -> list[Tuned]:
    """Most in time first; of those about as good, the one that warns earlier."""
    left = sorted(found, key=lambda each: (-each.in_time, each.horizon_s))
    ordered: list[Tuned] = []
    while left:
        equals = [e for e in left if e.in_time >= left[0].in_time - WORSE]
        best = max(equals, key=lambda each: each.mean_ahead_s)
        ordered.append(best)
        left.remove(best)
    return ordered


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


def kept_runs(
    paths: Sequence[Path],
    names: Iterable[str] | None = None,
    progress: Callable[[Iterable[Any], str, int], Iterable[Any]] = lambda x, *_: x,
) -> list[Kept]:
    """Runs on file, with these signals or all."""
    wanted = None if names is None else list(names)
    return [_kept(read_run(path), wanted)
            for path in progress(paths, "runs read", len(paths))]  # fmt: skip


def _kept(run: Recorded, names: Sequence[str] | None) -> Kept:
    if run.error:
        raise InvalidInput(run.error, source=str(run.path))
    source = run.source
    header = TraceHeader(
        source.vocabulary, source.provides, source.period_s, run.scenario, run.seed,
        source.name,
    )  # fmt: skip
    return Kept.of(Trace(header, run.frames), names or source.provides)


def applicable(laws: Sequence[Law], runs: Sequence[Kept]) -> list[Law]:
    """The laws that the runs' source can answer."""
    header = runs[0].header
    return [law for law in laws if all(map(header.can_know, law.signals))]


def tune(
    scenario: Scenario,
    model: Path,
    runs: Sequence[Path],
    false_alarm_rate: float,
    horizons_s: Sequence[float],
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
        policy: What an unknown state means, and which risk counts.
        folds: How many there are.
        progress: Shows how far it is.
    """
    learned = load_model(model)
    abstraction = _abstraction_of(learned, str(model))
    signals = [name for law in scenario.laws for name in law.signals]
    kept = kept_runs(runs, dict.fromkeys([*abstraction.signals, *signals]), progress)
    counting = Counting.of(learned, policy.delta if judges_upper(policy) else None)
    return tune_kept(
        scenario, kept, lambda _: abstraction, counting, false_alarm_rate,
        horizons_s, policy, folds, progress,
    )  # fmt: skip


def judges_upper(policy: Policy) -> bool:
    """Whether the risk's upper bound is what counts."""
    return policy.judge_by == "upper"


def _abstraction_of(model: Model, source: str) -> Abstraction:
    if model.abstraction is None or model.counts is None:
        raise InvalidModel(
            "it has no abstraction or no counts, so it cannot be learned anew",
            source=source,
        )
    return Abstraction.from_dict(dict(model.abstraction), source)


def tune_kept(
    scenario: Scenario,
    runs: Sequence[Kept],
    recipe: Recipe,
    counting: Counting,
    false_alarm_rate: float,
    horizons_s: Sequence[float],
    policy: Policy,
    folds: int = 5,
    progress: Callable[[Iterable[Any], str, int], Iterable[Any]] = lambda x, *_: x,
) -> list[Tuned]:
    """As `tune`, on runs that were read, with an abstraction found in each fold."""
    if len(runs) < folds:
        raise InvalidInput(f"{len(runs)} runs cannot be dealt into {folds} folds")
    laws = applicable(scenario.laws, runs)
    judged = out_of_fold(runs, recipe, laws, horizons_s, counting, folds)
    together: dict[str, list[Foretold]] = {law.name: [] for law in laws}
    for found in progress(judged, "folds", folds):
        for law, several in found.items():
            together[law] += several
    return best_first(
        _tuned(runs, together, horizon_s, false_alarm_rate, policy)
        for horizon_s in horizons_s
    )


def _tuned(
    runs: Sequence[Kept],
    together: Mapping[str, Sequence[Foretold]],
    horizon_s: float,
    allowed: float,
    policy: Policy,
) -> Tuned:
    thresholds: dict[str, float] = {}
    plateaus: dict[str, tuple[float, float]] = {}
    warned: dict[str, Warned] = {}
    ahead_s: dict[str, list[float]] = {}
    harmless: set[str] = set()
    curves: dict[str, Calibration] = {}
    for law, told in together.items():
        several = told
        if not judges_upper(policy):
            curves[law], several = calibrate(told, horizon_s)
        climbs = [
            climb_of(each, law, horizon_s, runs[each.run].header.seed or 0, policy)
            for each in several
        ]
        if mostly_harmless(several):
            harmless.add(law)
        lowest = threshold(climbs, allowed)
        highest = plateau_end(climbs, lowest, law in harmless)
        plateaus[law] = lowest, highest
        thresholds[law] = middle(lowest, highest)
        ahead_s[law] = in_time(climbs, thresholds[law], law in harmless)
        ordered = sorted(climbs, key=lambda each: each.seed)
        warned[law] = Warned(tuple(each.warned(thresholds[law]) for each in ordered))
    seeds = tuple(sorted(run.header.seed or 0 for run in runs))
    return Tuned(
        horizon_s, thresholds, plateaus, warned, ahead_s, frozenset(harmless), seeds,
        curves,
    )  # fmt: skip


def tuned_policy(tuned: Tuned, policy: Policy, kind: Kind, name: str) -> Policy:
    """The policy that intervenes at the thresholds that were found."""
    rules = {law: (Step(kind, at),) for law, at in tuned.thresholds.items()}
    return replace(
        policy, name=name, rules=rules, horizon_s=tuned.horizon_s,
        calibration=tuned.calibration,
    )  # fmt: skip
