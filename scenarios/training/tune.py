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
class Tuned:
    """The results of the calibration runs for one horizon.

    Args:
        horizon_s: The prediction horizon in seconds.
        thresholds: The threshold of each law, considered separately.
        warned: The quality of each law's warnings at its threshold.
        ahead_s: For each law, the lead times of its timely warnings, in seconds: before
            the trigger or, if triggers are mostly harmless, before the deadline.
        harmless: The laws whose triggers are mostly harmless.
        calibration: The calibration of each law's risks.
        told: For each law, every run with the model's risks.
    """

    horizon_s: float
    thresholds: Mapping[str, float]
    warned: Mapping[str, Warned]
    ahead_s: Mapping[str, Sequence[float]]
    harmless: frozenset[str]
    calibration: Mapping[str, Calibration]
    told: Mapping[str, Sequence[Foretold]]

    @property
    def in_time(self) -> float:
        """The sum over laws of the fraction of violations with a warning in time."""
        return sum(
            len(self.ahead_s[law]) / max(len(each.violating), 1)
            for law, each in self.warned.items()
        )

    @property
    def mean_ahead_s(self) -> float:
        """The mean lead time of the warnings in time, in seconds."""
        times = [time_s for several in self.ahead_s.values() for time_s in several]
        return sum(times) / max(len(times), 1)

    def as_dict(self) -> dict[str, Any]:
        return {
            "horizon_s": self.horizon_s,
            "laws": [
                {
                    "law": law,
                    "threshold": _finite(self.thresholds[law]),
                    "warned_in_time": len(self.ahead_s[law]),
                    "harmless_trigger": law in self.harmless,
                    **warned.as_dict(self.horizon_s),
                }
                for law, warned in self.warned.items()
            ],
        }  # fmt: skip


def _finite(threshold: float) -> float | None:
    return threshold if math.isfinite(threshold) else None


@dataclass(frozen=True, slots=True)
class Settled:
    """Tuned thresholds, and their guarantees.

    Args:
        tried: The results for every horizon that was tried, the best first.
        thresholds: The threshold of each law that has one.
        promises: The guarantee of each threshold.
        warned: The quality of each law's warnings on all runs.
        ahead_s: The lead times as in `Tuned`, on all runs.
        without: The laws without a threshold, and why.
        seeds: The seeds of the calibration runs, and those of the other runs.
        ordinary: The highest risks and the outcomes in the other runs, for detecting
            drift.
    """

    tried: tuple[Tuned, ...]
    thresholds: Mapping[str, float]
    promises: Mapping[str, Promise]
    warned: Mapping[str, Warned]
    ahead_s: Mapping[str, Sequence[float]]
    without: Mapping[str, str]
    seeds: tuple[tuple[int, ...], tuple[int, ...]]
    ordinary: Mapping[str, Ordinary]

    @property
    def best(self) -> Tuned:
        """The results for the chosen horizon."""
        return self.tried[0]

    def as_dict(self) -> dict[str, Any]:
        calibration, aside = self.seeds
        return {
            "horizon_s": self.best.horizon_s,
            "laws": [
                {
                    "law": law,
                    "threshold": self.thresholds[law],
                    "promise": self.promises[law].model_dump(),
                    "warned_in_time": len(self.ahead_s[law]),
                    "harmless_trigger": law in self.best.harmless,
                    **warned.as_dict(self.best.horizon_s),
                }
                for law, warned in self.warned.items()
            ],
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
    thresholds: dict[str, float] = {}
    promises: dict[str, Promise] = {}
    warned: dict[str, Warned] = {}
    ahead_s: dict[str, list[float]] = {}
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
        at = thresholds[law] = found.threshold
        fared = warned[law] = _warned(climbs, at)
        ahead_s[law] = in_time(climbs, at, law in best.harmless)
        violating = len(fared.violating)
        promises[law] = Promise.of(
            false_alarm_rate, len(fared.clean), fared.false_alarms, violating,
            violating - fared.detected, confidence, len(tried),
        )  # fmt: skip
    return Settled(
        tuple(tried), thresholds, promises, warned, ahead_s, without,
        (_seeds(first), _seeds(aside)), ordinary,
    )  # fmt: skip


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
    thresholds: dict[str, float] = {}
    warned: dict[str, Warned] = {}
    ahead_s: dict[str, list[float]] = {}
    harmless: set[str] = set()
    curves: dict[str, Calibration] = {}
    for law, told in together.items():
        curves[law] = stored.get(law, Calibration())
        if policy.judge_by == "point" and law not in stored:
            curves[law] = calibrate(told, horizon_s)
        if mostly_harmless(told):
            harmless.add(law)
        meant = _curve_after(policy, curves[law])
        climbs = _climbs(runs, law, told, horizon_s, meant, policy)
        clean = sum(each.broken is None for each in climbs)
        lowest = threshold(climbs, math.floor(allowed * clean + 1e-9))
        thresholds[law] = lowest
        ahead_s[law] = in_time(climbs, lowest, law in harmless)
        warned[law] = _warned(climbs, lowest)
    return Tuned(
        horizon_s, thresholds, warned, ahead_s, frozenset(harmless), curves, together,
    )  # fmt: skip


def _warned(climbs: Iterable[Climb], at: float) -> Warned:
    ordered = sorted(climbs, key=lambda each: each.seed)
    return Warned(tuple(each.warned(at) for each in ordered))


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
