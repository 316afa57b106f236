"""Measures the quality of a model's warnings on held-out runs.

Episodes are run once with the guard in shadow mode, and the risk of every law is
recorded at every frame; thresholds are compared on these runs. The same seeds are then
run again with the guard intervening. `evaluation.warned` defines how warnings are
evaluated; each row also has the Brier score of the estimated risk.

The Brier score compares the estimated risk within H with the outcome, at every frame up
to the first violation. The outcome is 1 if an obligation that is pending, or arises
within the next H seconds, is not met, and 0 otherwise. Frames without a risk are left
out; their number is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.readers.stored import Stored
from forewarn.monitors.evaluation.branched import Band, by_law
from forewarn.monitors.evaluation.figures import Promise, bootstrap
from forewarn.monitors.evaluation.foretold import Reliability, reliability
from forewarn.monitors.evaluation.warned import (
    SLACK_S,
    Broken,
    Scored,
    Warned,
    came_true,
    trade_off,
    warned_at,
)
from forewarn.monitors.guarding.certificate import digest_of
from forewarn.monitors.guarding.drift import Drift
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.scenarios.measuring.late import (
    Late,
    kind_of,
    last_moments,
    refuse_unrepeatable,
)
from forewarn.scenarios.measuring.pairs import Standing, compare, standing
from forewarn.scenarios.measuring.paper_table import (
    BASELINES,
    RISKS,
    Cell,
    paper_table,
)
from forewarn.scenarios.plotted import MARKERS, Plotted, flat, in_short
from forewarn.scenarios.running.campaign import Job, Progress, campaign, finished, jobs
from forewarn.scenarios.running.episode import Episode, by_seed
from forewarn.scenarios.running.plan import plan
from forewarn.scenarios.running.pools import Pool
from forewarn.scenarios.running.series import (
    Rival,
    Series,
    lessons_of,
    read_series,
    rivals,
)
from forewarn.scenarios.schema import Scenario

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class LawRow:
    """The quality of a law's warnings at one threshold, over all runs.

    Args:
        law: The law's name.
        horizon_s: The prediction horizon H of the risk, in seconds.
        step: The threshold.
        warned: The lead times of the warnings, and the detection and false-alarm rates.
        calibration: The calibration of the risk; None if no frame had a risk.
        brier_interval: The bootstrap interval of the Brier score, over runs.
        initial_risk: The mean risk at the first frame.
        promise: The policy's guarantee for this threshold, if any.
    """

    law: str
    horizon_s: float
    step: Step
    warned: Warned
    calibration: Reliability | None
    brier_interval: tuple[float, float] | None
    initial_risk: float | None
    promise: Promise | None = None

    def as_dict(self) -> dict[str, Any]:
        found = self.warned.as_dict(self.horizon_s)
        known = self.calibration
        found["intervals"]["brier"] = self.brier_interval
        return {
            "law": self.law,
            "horizon_s": self.horizon_s,
            "threshold": self.step.threshold,
            **found,
            "brier": None if known is None else known.brier,
            "brier_of_base_rate": None if known is None else known.reference,
            "initial_risk": self.initial_risk,
            "promise": None if self.promise is None else self.promise.model_dump(),
        }


@dataclass(frozen=True, slots=True)
class Measurement(Plotted):
    """The results of measuring a scenario.

    Args:
        scenario: The name of the scenario.
        horizon_s: The prediction horizon H of the risk, in seconds.
        episodes: The runs with the guard in shadow mode.
        rows: A row for each law and threshold.
        baselines: The rows of each baseline, by name.
        skipped: For each baseline, the laws that it cannot evaluate, and why.
        curves: The points of each trade-off curve, by method (`guard` or a baseline)
            and law; empty if not requested.
        paper: The cells of the paper's table, if requested.
        guarded: The comparison with the same seeds when the guard intervenes; None if
            these were not run.
        drift: The result of the drift test on these runs; None if they cannot be
            tested.
        only_alerts: The laws for which the policy only alerts.
        acts: Whether the policy does more than alert for any law.
        late: For each law, the comparison with the last moments at which an
            intervention still helps; empty if not requested.
        if_acted: For each law, the effect of slowing and stopping by risk band; empty
            if not requested.
        guarantee: The policy's guarantee in the light of the guarded runs; None if
            there is none.
    """

    scenario: str
    horizon_s: float
    episodes: tuple[Episode, ...]
    rows: tuple[LawRow, ...]
    baselines: Mapping[str, tuple[tuple[str, float, Warned], ...]]
    skipped: Mapping[str, Mapping[str, str]]
    curves: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]] = field(
        default_factory=dict
    )
    paper: tuple[Cell, ...] = ()
    guarded: Mapping[str, Any] | None = None
    drift: Drift | None = None
    only_alerts: tuple[str, ...] = ()
    acts: bool = True
    late: tuple[Late, ...] = ()
    if_acted: Mapping[str, Sequence[Band]] = field(default_factory=dict)
    guarantee: Standing | None = None

    def as_dict(self) -> dict[str, Any]:
        failed = [episode for episode in self.episodes if episode.failed]
        return {
            "scenario": self.scenario,
            "laws": [row.as_dict() for row in self.rows],
            "baselines": {
                name: {
                    "laws": [
                        {
                            "law": law,
                            "threshold": threshold,
                            **warned.as_dict(self.horizon_s),
                        }
                        for law, threshold, warned in rows
                    ],
                    "skipped": dict(self.skipped.get(name, {})),
                }
                for name, rows in self.baselines.items()
            },
            "guarded": self.guarded,
            "only_alerts": list(self.only_alerts),
            "acts": self.acts,
            "last_moment_s": {each.law: each.as_dict() for each in self.late},
            "if_acted": by_law(self.if_acted),
            "trade_off": {way: dict(laws) for way, laws in self.curves.items()},
            "paper_table": list(self.paper),
            "episodes": len(self.episodes),
            "failed": len(failed),
            "errors": sorted({episode.error or "" for episode in failed})[:10],
            "seeds": [episode.seed for episode in self.episodes],
            "frames": sum(episode.frames for episode in self.episodes),
            "unknown": sum(episode.unknown for episode in self.episodes),
            "reliability": {
                row.law: row.calibration.as_dict()
                for row in self.rows
                if row.calibration is not None
            },
            "drift": None if self.drift is None else self.drift.as_dict(),
            "guarantee": None if self.guarantee is None else self.guarantee.as_dict(),
        }

    def rows_by(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yields a row per law and threshold, each with its method: `guard` or a
        baseline.
        """
        facts = self.as_dict()
        yield from (("guard", row) for row in facts["laws"])
        for name, each in facts["baselines"].items():
            yield from ((name, row) for row in each["laws"])

    def table(self) -> Iterator[dict[str, Any]]:
        """Yields one row per method, law and threshold."""
        for way, row in self.rows_by():
            yield {"scenario": self.scenario, "by": way, **flat(row)}

    def draw(self, axes: Axes) -> None:
        """Plots the detection rate against the false-alarm rate, with the trade-off
        curves if these were computed.
        """
        for (way, row), marker in zip(self.rows_by(), cycle(MARKERS)):
            at = row["false_alarm_rate"], row["detection_rate"]
            if None in at:
                continue  # there is no clean run, or no violating run
            label = f"{in_short(row['law'])}: {way} at {row['threshold']:g}"
            (line,) = axes.plot(*([each] for each in at), marker, label=label)
            points = self.curves.get(way, {}).get(row["law"], ())
            x, y = (
                [point[key] for point in points if None not in point.values()]
                for key in ("false_alarm_rate", "detection_rate")
            )
            axes.plot(x, y, color=line.get_color(), alpha=0.5)
        axes.set_title(f"{self.scenario}: {len(self.episodes)} runs")
        axes.set_xlabel("false-alarm rate (fraction of clean runs)")
        axes.set_ylabel("detection rate (fraction of violating runs)")
        axes.set_xlim(-0.02, 1.02)
        axes.set_ylim(-0.02, 1.02)


@dataclass(frozen=True, slots=True)
class EpisodeRisks:
    """An episode with its risks; the series is empty if the episode failed."""

    episode: Episode
    series: Series


@dataclass(frozen=True, slots=True)
class Wish:
    """The options for a measurement.

    Args:
        scenario: The scenario.
        model: The file of the model whose warnings are measured.
        policy: The guard's policy, which sets the horizon, the treatment of unknown
            states and the interventions.
        seeds: The seeds of the episodes.
        thresholds: The thresholds to compare; if empty, those of the policy.
        baselines: The names of other methods to compare.
        training: The model's training runs, for baselines that are trained.
        sweep: Whether to compute trade-off curves.
        paper_table: Whether to build the paper's table, which needs `BASELINES`.
        guarded: Whether to run the seeds again with the guard intervening, provided
            that the policy does more than alert.
        last_moment: Whether to find the last moment at which an intervention helps.
    """

    scenario: Scenario
    model: Path
    policy: Policy
    seeds: Sequence[int]
    thresholds: Sequence[float] = ()
    baselines: Sequence[str] = ()
    training: Sequence[Stored] = ()
    sweep: bool = False
    paper_table: bool = False
    guarded: bool = True
    last_moment: bool = False

    def rivals(self, folder: Path) -> tuple[Rival, ...]:
        """Returns the baselines, trained if necessary; their parameters are written to
        the folder.
        """
        lessons = None
        if self.training:
            lessons = lessons_of(
                self.model, self.scenario.laws, self.training, self.policy.horizon_s
            )
        return rivals(self.baselines, self.scenario.laws, lessons, folder)


def measure(
    wish: Wish, on: Pool, folder: Path, progress: Progress = lambda items, *_: items
) -> Measurement:
    """Runs the episodes and evaluates the warnings.

    Args:
        wish: The options.
        on: The pool in which the episodes run.
        folder: The folder for the episodes' files; existing episodes are not run again.
        progress: Shows progress.
    """
    if wish.last_moment:
        refuse_unrepeatable(wish.scenario, wish.seeds[0], "--last-moment")
    digest = digest_of(wish.model)
    watched = list(_watch(wish, on, folder, progress))
    if digest_of(wish.model) != digest:
        raise InvalidInput(
            "the model was changed during the run", source=str(wish.model)
        )
    found = judge_runs(wish, watched)
    guarded = None
    if wish.guarded and (found.acts or wish.scenario.judges):
        found, guarded = _acting(wish, found, on, folder, progress)
    if wish.last_moment:
        found = replace(found, late=tuple(_late(wish, found, guarded, on)))
    return found


def _late(
    wish: Wish, found: Measurement, guarded: Sequence[Episode] | None, on: Pool
) -> Iterator[Late]:
    """Compares the alarms at each law's first threshold with the last moments."""
    good = [each for each in found.episodes if not each.failed]
    kind = kind_of(wish.policy)
    moments = sorted(
        last_moments(wish.scenario, good, kind, on), key=lambda each: each.seed
    )
    after = {each.seed: each for each in guarded or () if not each.failed}
    rows = {row.law: row for row in reversed(found.rows)}
    for law, row in reversed(rows.items()):
        own = tuple(each for each in moments if each.law == law)
        alarms_s = {
            episode.seed: run.alarm_s
            for episode, run in zip(good, row.warned.runs, strict=True)
        }
        kept = {s for s, each in after.items() if each.first(law) is None}
        prevented = None if guarded is None else frozenset(kept)
        yield Late(law, kind, own, alarms_s, prevented)


def _acting(
    wish: Wish, found: Measurement, on: Pool, folder: Path, progress: Progress
) -> tuple[Measurement, list[Episode]]:
    """Runs the same seeds with the guard intervening, and adds the comparison."""
    policy = replace(wish.policy, shadow=False)
    acting = plan(wish.scenario, wish.model, policy)
    todo = jobs(acting, wish.scenario, wish.seeds, folder)
    done = by_seed(list(progress(campaign(todo, on), "guarded episodes", len(todo))))
    pairs = compare(found.episodes, done, wish.scenario)
    guarantee = None
    if policy.kept is not None:
        # The runs of earlier measurements in the same folder count too.
        both = finished(todo[0]), finished(_watching(wish, folder)[0])
        guarantee = standing(policy, wish.scenario, wish.model, *both)
    guarded = {**pairs, "policy": policy.as_dict()}
    return replace(found, guarded=guarded, guarantee=guarantee), done


def _watching(wish: Wish, folder: Path) -> list[Job]:
    """Returns the runs with the guard in shadow mode."""
    watching = plan(wish.scenario, wish.model, replace(wish.policy, shadow=True))
    rivals = wish.rivals(folder)
    return jobs(watching, wish.scenario, wish.seeds, folder, ["series"], rivals)


def _watch(
    wish: Wish, on: Pool, folder: Path, progress: Progress
) -> Iterator[EpisodeRisks]:
    todo = _watching(wish, folder)
    for episode in progress(campaign(todo, on), "episodes", len(todo)):
        series = Series((), {})
        if episode.series is not None:
            series = read_series(folder / episode.series)
        yield EpisodeRisks(episode, series)


def judge_runs(wish: Wish, watched: Sequence[EpisodeRisks]) -> Measurement:
    """Evaluates the warnings in runs with the guard in shadow mode."""
    ordered = sorted(watched, key=lambda each: each.episode.seed)
    good = [each for each in ordered if not each.episode.failed]
    if not good:
        errors = [str(each.episode.error) for each in ordered]
        raise InvalidInput(
            f"all {len(errors)} runs failed: {errors[0] if errors else 'none was made'}"
        )
    rows: list[LawRow] = []
    laws = list(good[0].series.risks)
    for law in laws:
        rows += _rows(law, good, wish)
    return Measurement(
        wish.scenario.name,
        wish.policy.horizon_s,
        tuple(each.episode for each in ordered),
        tuple(rows),
        {name: _baseline(name, good) for name in wish.baselines},
        {name: good[0].series.baselines[name].skipped for name in wish.baselines},
        _curves(good, wish.baselines, wish.policy.horizon_s) if wish.sweep else {},
        tuple(_paper_table(good)) if wish.paper_table else (),
        drift=drift_of(
            replace(wish.policy, shadow=True), [each.episode for each in good]
        ),
        only_alerts=wish.policy.only_alerts(laws),
        acts=any(
            step.kind != "alert" for law in laws for step in wish.policy.steps_for(law)
        ),
    )


def _rows(law: str, runs: Sequence[EpisodeRisks], wish: Wish) -> Iterator[LawRow]:
    steps = [Step("alert", threshold) for threshold in wish.thresholds]
    horizon_s = wish.policy.horizon_s
    risks, happened = [], []
    for run in runs:
        risk, outcome = outcomes(run.series, law, run.episode.first(law), horizon_s)
        risks.append(risk)
        happened.append(outcome)
    told = any(np.isfinite(risk).any() for risk in risks)
    calibration = reliability(risks, happened) if told else None
    first = np.array([risk[0] for risk in risks])
    first = first[~np.isnan(first)]
    ruled = wish.policy.steps_for(law)
    promises = dict(zip(ruled[:1], [wish.policy.promises.get(law)], strict=False))
    for step in steps or ruled:
        yield LawRow(
            law,
            horizon_s,
            step,
            warned_at(_scored(runs, law), step.threshold, step.inclusive),
            calibration,
            _brier_interval(risks, happened),
            float(first.mean()) if first.size else None,
            promises.get(step),
        )


def outcomes(
    series: Series, law: str, broken: Broken | None, horizon_s: float
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Returns the risk at each frame up to the first violation, and whether a violation
    followed within the horizon.
    """
    times = np.asarray(series.times_s, np.float64)
    risks = np.asarray(series.risks[law], np.float64)
    if broken is not None:
        until = times <= broken.time_s + SLACK_S
        times, risks = times[until], risks[until]
    return risks, came_true(broken, times, horizon_s)


def _brier_interval(
    risks: Sequence[NDArray[np.float64]], happened: Sequence[NDArray[np.bool_]]
) -> tuple[float, float] | None:
    """Returns the bootstrap interval of the Brier score, over runs weighted by their
    frames.
    """
    errors = [(risk - event) ** 2 for risk, event in zip(risks, happened, strict=True)]
    sums = np.array([np.nansum(error) for error in errors])
    counts = np.array([np.count_nonzero(~np.isnan(error)) for error in errors])
    return bootstrap(
        len(sums),
        lambda draws: (
            sums[draws].sum(axis=1) / np.maximum(counts[draws].sum(axis=1), 1)
        ),
    )


def _baseline(
    name: str, runs: Sequence[EpisodeRisks]
) -> tuple[tuple[str, float, Warned], ...]:
    judged = runs[0].series.baselines[name]
    return tuple(
        (law, threshold, warned_at(_scored(runs, law, name), threshold))
        for law, thresholds in judged.thresholds.items()
        for threshold in thresholds
    )


def _scored(runs: Sequence[EpisodeRisks], law: str, baseline: str = "") -> list[Scored]:
    """Returns each run's scores: those of a baseline or, by default, of the guard."""
    return [
        Scored(
            run.series.times_s,
            run.series.baselines[baseline].scores[law],
            run.episode.first(law),
        )
        if baseline
        else Scored(
            run.series.times_s,
            run.series.risks[law],
            run.episode.first(law),
            run.series.forced,
        )
        for run in runs
    ]


def _paper_table(runs: Sequence[EpisodeRisks]) -> list[Cell]:
    series = runs[0].series
    rows = [
        ("guard", law, risk, warned_at(_scored(runs, law), risk))
        for law in series.risks
        for risk in RISKS
    ]
    for name in BASELINES:
        rows += [(name, *row) for row in _baseline(name, runs)]
    return paper_table(rows)


def _curves(
    runs: Sequence[EpisodeRisks], baselines: Sequence[str], horizon_s: float
) -> dict[str, dict[str, list[dict[str, Any]]]]:
    series = runs[0].series

    def points(law: str, *way: str) -> list[dict[str, Any]]:
        return trade_off(_scored(runs, law, *way), horizon_s)

    curves = {"guard": {law: points(law) for law in series.risks}}
    for name in baselines:
        laws = series.baselines[name].scores
        curves[name] = {law: points(law, name) for law in laws}
    return curves


def drift_of(
    policy: Policy, episodes: Iterable[Episode], drift: Drift | None = None
) -> Drift | None:
    """Tests whether guarded runs behave as in training; None if this cannot be tested.

    Args:
        policy: The guard's policy.
        episodes: The episodes, in the order of their seeds.
        drift: The drift test to continue; None to begin a new one.
    """
    for each in episodes:
        if each.outcomes and not each.failed:
            drift = drift or Drift(policy, list(each.outcomes))
            drift.observe(each.outcomes)
    return drift
