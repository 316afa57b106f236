"""Finds thresholds with a guaranteed false-alarm rate, and the best horizon.

The runs must not be the model's training runs. The first half is used to calibrate the
model's risks, and to choose the horizon that warns of the most violations in time. The
highest risks in all clean runs then determine the threshold (see
`evaluation.certified`). The first half can be included for two reasons. Calibration is
monotone, so it preserves the order of the risks. With n horizons to choose from, each
bound gets an n-th of the error probability. The threshold is the lowest that keeps the
guarantee. It depends only on the clean runs, so the violating runs can be used to bound
the rate of missed violations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.errors import InvalidInput, InvalidModel
from forewarn.abstractions.readers.stored import Stored
from forewarn.abstractions.trace import Kept
from forewarn.monitors.chains.model import Model, load_models
from forewarn.monitors.evaluation.certified import Asked, certify
from forewarn.monitors.evaluation.evidence import Ordinary
from forewarn.monitors.evaluation.figures import (
    CONFIDENCE,
    Promise,
)
from forewarn.monitors.evaluation.foretold import (
    Foretold,
    calibrate,
    climb_of,
    mostly_harmless,
    ordinary_of,
)
from forewarn.monitors.evaluation.warned import (
    Climb,
    Warned,
    in_time,
    threshold,
)
from forewarn.monitors.guarding.decision import Kind
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.risk.calibration import Calibration, kept_curves
from forewarn.monitors.risk.evidence import dealt
from forewarn.monitors.trust.hindsight import Judge, foretold_by
from forewarn.scenarios.measuring.recorded import applicable, kept_runs
from forewarn.scenarios.measuring.seeds import refuse_trained

WORSE = 0.02
"""Detection rates that differ by at most this much count as equal, because the
difference may be due to chance.
"""


@dataclass(frozen=True, slots=True)
class Threshold:
    """A law's threshold, and the quality of the warnings at it.

    Args:
        at: The threshold; infinite if there is none.
        warned: The quality of the warnings.
        ahead_s: The lead times of the timely warnings, in seconds: before the trigger
            or, if triggers are mostly harmless, before the deadline.
        harmless: Whether the law's triggers are mostly harmless.
        promise: The guarantee of the threshold, if there is one.
    """

    at: float
    warned: Warned
    ahead_s: Sequence[float]
    harmless: bool
    promise: Promise | None = None

    def as_dict(self, law: str, horizon_s: float) -> dict[str, Any]:
        promise = self.promise
        return {
            "law": law,
            "threshold": self.at if math.isfinite(self.at) else None,
            **({} if promise is None else {"promise": promise.model_dump()}),
            "warned_in_time": len(self.ahead_s),
            "harmless_trigger": self.harmless,
            **self.warned.as_dict(horizon_s),
        }


@dataclass(frozen=True, slots=True)
class Tuned:
    """The results of the calibration runs for one horizon.

    Args:
        horizon_s: The prediction horizon in seconds.
        laws: The threshold of each law, considered separately.
        calibration: The calibration of each law's risks.
        told: For each law, every run with the model's risks.
    """

    horizon_s: float
    laws: Mapping[str, Threshold]
    calibration: Mapping[str, Calibration]
    told: Mapping[str, Sequence[Foretold]]

    @property
    def in_time(self) -> float:
        """The sum over laws of the fraction of violations with a warning in time."""
        return sum(
            len(each.ahead_s) / max(len(each.warned.violating), 1)
            for each in self.laws.values()
        )

    @property
    def mean_ahead_s(self) -> float:
        """The mean lead time of the warnings in time, in seconds."""
        times = [time_s for each in self.laws.values() for time_s in each.ahead_s]
        return sum(times) / max(len(times), 1)

    def as_dict(self) -> dict[str, Any]:
        return {
            "horizon_s": self.horizon_s,
            "laws": [e.as_dict(law, self.horizon_s) for law, e in self.laws.items()],
        }


@dataclass(frozen=True, slots=True)
class Settled:
    """Tuned thresholds, and their guarantees.

    Args:
        tried: The results for every horizon that was tried, the best first.
        laws: The threshold of each law that has one, with its guarantee and the quality
            of its warnings on all runs.
        without: The laws without a threshold, and why.
        seeds: The seeds of the calibration runs, and those of the other runs.
        ordinary: The highest risks and the outcomes in the other runs, for detecting
            drift.
    """

    tried: tuple[Tuned, ...]
    laws: Mapping[str, Threshold]
    without: Mapping[str, str]
    seeds: tuple[tuple[int, ...], tuple[int, ...]]
    ordinary: Mapping[str, Ordinary]

    @property
    def best(self) -> Tuned:
        """The results for the chosen horizon."""
        return self.tried[0]

    @property
    def thresholds(self) -> dict[str, float]:
        """The threshold of each law that has one."""
        return {law: each.at for law, each in self.laws.items()}

    @property
    def promises(self) -> dict[str, Promise]:
        """The guarantee of each threshold."""
        return {law: each.promise for law, each in self.laws.items() if each.promise}

    def as_dict(self) -> dict[str, Any]:
        calibration, aside = self.seeds
        horizon_s = self.best.horizon_s
        return {
            "horizon_s": horizon_s,
            "laws": [each.as_dict(law, horizon_s) for law, each in self.laws.items()],
            "without_threshold": dict(self.without),
            "tried": [each.as_dict() for each in self.tried],
            "seeds": {"calibration": list(calibration), "set_aside": list(aside)},
        }


def best_first(found: Iterable[Tuned]) -> list[Tuned]:
    """Sorts horizons by detection rate; if the rates are similar, the longer mean lead
    time comes first.
    """
    left = sorted(found, key=lambda each: (-each.in_time, each.horizon_s))
    ordered: list[Tuned] = []
    while left:
        equals = [e for e in left if e.in_time >= left[0].in_time - WORSE]
        best = max(equals, key=lambda each: each.mean_ahead_s)
        ordered.append(best)
        left.remove(best)
    return ordered


FEWEST = 10
"""The minimum number of runs for tuning."""

Shown = Callable[[Iterable[Any], str, int], Iterable[Any]]

_OR_ELSE = (
    "; if these are other recordings and only the scenario's name is the same, "
    "rename their scenario"
)


def tune(
    laws: Sequence[Law],
    path: Path,
    runs: Sequence[Stored],
    false_alarm_rate: float,
    horizons_s: Sequence[float],
    policy: Policy,
    progress: Shown = lambda items, *_: items,
    confidence: float = CONFIDENCE,
) -> Settled:
    """Finds the best horizon, and thresholds with a guarantee.

    Args:
        laws: The watched laws.
        path: The model's file.
        runs: The traces, none of which may be a training run of the model.
        false_alarm_rate: The maximum false-alarm rate.
        horizons_s: The horizons to try, in seconds.
        policy: The policy without thresholds, which sets the treatment of unknown
            states and the kind of risk to use.
        progress: Shows progress.
        confidence: The confidence level of the guarantee.
    """
    models = tunable(path)
    kept = kept_runs(runs, read_by(models, laws, str(path)), progress)
    if len(kept) < FEWEST:
        raise InvalidInput(
            f"{len(kept)} runs are too few for tuning: use at least {FEWEST}"
        )
    seeds: dict[str, list[int]] = {}
    for run in kept:
        if run.header.seed is not None:
            seeds.setdefault(run.header.scenario, []).append(run.header.seed)
    for model in models:
        for scenario, some in seeds.items():
            refuse_trained(model, scenario, some, _OR_ELSE)
    half = len(kept) // 2
    return settle(
        applicable(laws, kept), models, (kept[:half], kept[half:]),
        false_alarm_rate, horizons_s, policy, confidence,
    )  # fmt: skip


def tunable(path: Path) -> tuple[Model, ...]:
    """Loads the models of a file, and checks that they can be tuned.

    Raises:
        InvalidModel: A model has no abstraction or no counts.
    """
    models = tuple(load_models(path))
    for model in models:
        _abstraction_of(model, str(path))
    return models


def read_by(
    models: Sequence[Model], laws: Sequence[Law], source: str = "the model"
) -> Iterable[str]:
    """Returns the signals that the laws and the models' abstractions read."""
    signals = [signal for law in laws for signal in law.signals]
    for model in models:
        signals += _abstraction_of(model, source).signals
    return dict.fromkeys(signals)


def _abstraction_of(model: Model, source: str) -> Abstraction:
    if model.abstraction is None or model.counts is None:
        raise InvalidModel(
            "the model has no abstraction or no counts, so a run cannot be mapped "
            "to its states",
            source=source,
            mend="learn a model with `forewarn learn`; an imported chain can only be "
            "checked and exported",
        )
    return Abstraction.from_dict(dict(model.abstraction), source)


def settle(
    laws: Sequence[Law],
    models: Sequence[Model],
    runs: tuple[Sequence[Kept], Sequence[Kept]],
    false_alarm_rate: float,
    horizons_s: Sequence[float],
    policy: Policy,
    confidence: float = CONFIDENCE,
) -> Settled:
    """Does the same as `tune`, on runs in memory: calibration runs and other runs."""
    first, aside = runs
    shares = list(zip(models, dealt(models, laws), strict=True))
    stored = {
        h: {
            law.name: kept[repr(law.formula)]
            for model, own in shares
            for law in own
            if repr(law.formula) in (kept := kept_curves(model.likely, h))
        }
        for h in horizons_s
    }
    if policy.judge_by == "likely":
        horizons_s = [h for h in horizons_s if stored[h]] or horizons_s
    judges = [
        _judge(model, own, horizons_s, first[0].header.period_s, policy)
        for model, own in shares
        if own
    ]
    reach = {law: of for judge in judges for law, of in judge.reach.items()}
    told = foretold_by(judges, enumerate(first))
    tried = best_first(
        _tuned(first, told, h, false_alarm_rate, policy, stored[h]) for h in horizons_s
    )
    best = tried[0]
    asked = Asked(false_alarm_rate, None, 1 - (1 - confidence) / len(tried))
    settled: dict[str, Threshold] = {}
    without: dict[str, str] = {}
    ordinary: dict[str, Ordinary] = {}
    for law, several in foretold_by(judges, enumerate(aside)).items():
        curve = _curve_after(policy, best.calibration[law])
        (most,) = curve(np.array([reach[law][best.horizon_s]]))
        ordinary[law] = ordinary_of(several, best.horizon_s, curve)
        climbs = [
            *_climbs(first, law, told[law], best.horizon_s, curve, policy),
            *_climbs(aside, law, several, best.horizon_s, curve, policy),
        ]
        found = certify(law, climbs, asked, float(most))
        if found.threshold is None:
            without[law] = "; ".join(lack.reason for lack in found.lacks)
            continue
        fared = _fared(climbs, found.threshold, best.laws[law].harmless)
        warned, violating = fared.warned, len(fared.warned.violating)
        promise = Promise.of(
            false_alarm_rate, len(warned.clean), warned.false_alarms, violating,
            violating - warned.detected, confidence, len(tried),
        )  # fmt: skip
        settled[law] = replace(fared, promise=promise)
    seeds = _seeds(first), _seeds(aside)
    return Settled(tuple(tried), settled, without, seeds, ordinary)


def with_ordinary(
    policy: Policy,
    laws: Sequence[Law],
    models: Sequence[Model],
    runs: Sequence[Kept],
) -> Policy:
    """Returns the same policy with the outcomes of these runs, for detecting drift.

    Args:
        policy: The policy, whose thresholds and calibration are kept.
        laws: The watched laws.
        models: The models that predict the risks.
        runs: Runs that were not used to learn the models.
    """
    horizon_s = policy.horizon_s
    judges = [
        _judge(model, own, [horizon_s], runs[0].header.period_s, policy)
        for model, own in zip(models, dealt(models, laws), strict=True)
        if own
    ]
    return replace(
        policy,
        ordinary={
            law: ordinary_of(
                several,
                horizon_s,
                _curve_after(policy, policy.calibration.get(law, Calibration())),
            )
            for law, several in foretold_by(judges, enumerate(runs)).items()
        },
    )


def _judge(
    model: Model,
    laws: Sequence[Law],
    horizons_s: Sequence[float],
    frames_s: float | None,
    policy: Policy,
) -> Judge:
    abstraction = _abstraction_of(model, "the model")
    period_s = model.period_s or abstraction.period_s or frames_s or 0.0
    return Judge(
        model, abstraction, laws, horizons_s, period_s, policy.judge_by, policy.delta
    )


def _seeds(runs: Sequence[Kept]) -> tuple[int, ...]:
    return tuple(sorted(run.header.seed or 0 for run in runs))


def _curve_after(policy: Policy, curve: Calibration) -> Calibration:
    """Returns the calibration that is still to be applied to a law's risks."""
    return curve if policy.judge_by == "point" else Calibration()


def _climbs(
    runs: Sequence[Kept],
    law: str,
    told: Sequence[Foretold],
    horizon_s: float,
    curve: Calibration,
    policy: Policy,
) -> list[Climb]:
    stops = policy.unknown_state == "stop"
    return [
        climb_of(each, horizon_s, runs[each.run].header.seed or 0, stops, curve)
        for each in told
    ]


def _tuned(
    runs: Sequence[Kept],
    together: Mapping[str, Sequence[Foretold]],
    horizon_s: float,
    allowed: float,
    policy: Policy,
    stored: Mapping[str, Calibration],
) -> Tuned:
    laws: dict[str, Threshold] = {}
    curves: dict[str, Calibration] = {}
    for law, told in together.items():
        curves[law] = stored.get(law, Calibration())
        if policy.judge_by == "point" and law not in stored:
            curves[law] = calibrate(told, horizon_s)
        meant = _curve_after(policy, curves[law])
        climbs = _climbs(runs, law, told, horizon_s, meant, policy)
        clean = sum(each.broken is None for each in climbs)
        lowest = threshold(climbs, math.floor(allowed * clean + 1e-9))
        laws[law] = _fared(climbs, lowest, mostly_harmless(told))
    return Tuned(horizon_s, laws, curves, together)


def _fared(climbs: Sequence[Climb], at: float, harmless: bool) -> Threshold:
    ordered = sorted(climbs, key=lambda each: each.seed)
    warned = Warned(tuple(each.warned(at) for each in ordered))
    return Threshold(at, warned, in_time(climbs, at, harmless), harmless)


def tuned_policy(settled: Settled, policy: Policy, kind: Kind) -> Policy:
    """Returns the policy that intervenes at the tuned thresholds.

    Raises:
        InvalidInput: No law has a threshold, so the policy would guard nothing.
    """
    if not settled.thresholds:
        why = "; ".join(f"{law}: {text}" for law, text in settled.without.items())
        raise InvalidInput(f"no threshold achieves the guarantee: {why}")
    rules = {law: (Step(kind, at),) for law, at in settled.thresholds.items()}
    curves = settled.best.calibration if policy.judge_by != "upper" else {}
    return replace(
        policy, rules=rules, horizon_s=settled.best.horizon_s,
        calibration={law: curves[law] for law in curves if curves[law].points},
        promises=settled.promises, ordinary=settled.ordinary,
    )  # fmt: skip
