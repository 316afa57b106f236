"""Compares predicted risks with outcomes: skill, lead time, value and reliability."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.serial import to_json
from forewarn.monitors.evaluation.evidence import Ordinary, outcome_of
from forewarn.monitors.evaluation.warned import (
    SLACK_S,
    Broken,
    Climb,
    alarms,
    came_true,
    warned_run,
)
from forewarn.monitors.laws.automaton import Automaton
from forewarn.monitors.risk.calibration import Calibration, calibrated

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


ENOUGH_S = 1.0
"""The minimum lead time of a warning with full value, in seconds. Below it, the value
is proportional to the lead time, because little can be done at the last moment.
"""


UNCHANGED = Calibration()
"""A calibration that leaves risks as they are."""


@dataclass(frozen=True, slots=True, eq=False)
class Foretold:
    """The predicted risks and the outcome of one run under one law, up to the first
    violation.

    Args:
        run: The number of the run.
        times_s: The time of each tick, in seconds.
        duration_s: The duration of the whole run, in seconds.
        risks: The risk at each tick, by horizon in seconds.
        pairs: For each tick, the pair of monitor state q and chain state s, encoded as
            q * number of chain states + s; negative if never seen in training.
        unknown: For each tick, whether the state was never seen in training.
        idle: For each tick, whether no obligation was pending.
        broken: The first violation; None if there was none.
    """

    run: int
    times_s: Floats
    duration_s: float
    risks: Mapping[float, Floats]
    pairs: Ints
    unknown: Bools
    idle: Bools
    broken: Broken | None

    def came_true(self, horizon_s: float) -> Bools:
        """Returns for each tick whether an obligation that was pending then, or arose
        within H after it, was not met.
        """
        return came_true(self.broken, self.times_s, horizon_s)


def _steps(
    times_s: Iterable[float], risks: Iterable[float], forced: Iterable[bool]
) -> tuple[tuple[float, float], ...]:
    steps: list[tuple[float, float]] = []
    top = 0.0
    for time_s, risk, must in zip(times_s, risks, forced, strict=True):
        height = math.inf if must else risk
        if height > top:
            top = height
            steps.append((time_s, height))
    return tuple(steps)


def climb_of(
    told: Foretold,
    horizon_s: float,
    seed: int,
    unknown_alarms: bool,
    curve: Calibration = UNCHANGED,
) -> Climb:
    """Extracts the data of a run, for one law, that is needed to choose thresholds.

    Args:
        told: The predicted risks.
        horizon_s: The horizon H, in seconds.
        seed: The run's seed.
        unknown_alarms: Whether an unknown state raises an alarm at any threshold.
        curve: The calibration that is applied to the risks.
    """
    forced = told.unknown & unknown_alarms
    risks = curve(told.risks[horizon_s])
    steps = _steps(told.times_s.tolist(), risks.tolist(), forced.tolist())
    return Climb(seed, told.duration_s, steps, told.broken)


def ordinary_of(
    found: Sequence[Foretold], horizon_s: float, curve: Calibration
) -> Ordinary:
    """Computes the statistics of ordinary runs under one law.

    Args:
        found: The runs.
        horizon_s: The horizon H, in seconds.
        curve: The calibration that is applied to the risks.
    """
    return Ordinary.of(
        [
            outcome_of(
                each.times_s,
                curve(each.risks[horizon_s]),
                np.zeros(len(each.times_s), bool),
                each.broken,
                horizon_s,
            )
            for each in found
        ]
    )


def skill(found: Sequence[Foretold], horizon_s: float, idle: bool) -> float:
    """Returns the Brier skill score of the risks: 1 is perfect, 0 is no better than the
    base rate.

    Args:
        found: The runs of one law.
        horizon_s: The horizon H, in seconds.
        idle: Whether only ticks without a pending obligation count.
    """
    error = events = count = 0.0
    for each in found:
        kept = each.idle if idle else np.ones(len(each.times_s), bool)
        true = each.came_true(horizon_s)[kept]
        error += float(((each.risks[horizon_s][kept] - true) ** 2).sum())
        events += float(true.sum())
        count += float(kept.sum())
    rate = events / max(count, 1.0)
    reference = count * rate * (1.0 - rate)
    return 1.0 - error / reference if reference > 0.0 else 0.0


def calibrate(found: Sequence[Foretold], horizon_s: float) -> Calibration:
    """Fits a calibration of a law's risks to the outcomes in these runs."""
    return calibrated(
        np.concatenate([each.risks[horizon_s] for each in found]),
        np.concatenate([each.came_true(horizon_s) for each in found]),
        np.repeat(range(len(found)), [len(each.times_s) for each in found]),
    )


def early(
    found: Sequence[Foretold],
    horizon_s: float,
    allowed: float,
    within_s: float = math.inf,
) -> Floats:
    """Returns the lead time of each violation's warning, in seconds; NaN without a
    timely warning.

    The threshold is chosen so that at most the allowed fraction of clean runs has an
    alarm. An alarm is in time if it comes before the trigger or, when most triggers are
    harmless, early enough before the deadline to act.

    Args:
        found: The runs of one law.
        horizon_s: The horizon H, in seconds.
        allowed: The allowed false-alarm rate.
        within_s: The longest time before the trigger at which an alarm counts, in
            seconds; an earlier alarm is right only by chance.
    """
    tops = sorted(
        (float(each.risks[horizon_s].max(initial=0.0)) for each in found
         if each.broken is None), reverse=True,
    )  # fmt: skip
    spared = int(allowed * len(tops) + 1e-9)
    above = tops[spared] if spared < len(tops) else 0.0
    harmless, ahead_s = mostly_harmless(found), list[float]()
    for each in found:
        if each.broken is not None:
            alarmed = alarms(each.risks[horizon_s], above, inclusive=False)
            alarmed &= each.came_true(within_s)
            run = warned_run(each.times_s.tolist(), alarmed, each.broken)
            # No slack is used, because the shipped models were chosen without it.
            ahead_s.append(run.lead_s(harmless, slack_s=0.0))
    return np.array(ahead_s)


def worth_of(early_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the value of each violation's warning, averaged over the allowed
    false-alarm rates.
    """
    told = np.nan_to_num(np.minimum(early_s / ENOUGH_S, 1.0))
    worth: NDArray[np.float64] = told.mean(axis=0)
    return worth


class Leads(NamedTuple):
    """The detection rate, the mean and median lead time in seconds, and the fraction of
    violations detected some time ahead.
    """

    detected: float
    mean_s: float
    median_s: float
    sooner: float

    @classmethod
    def of(cls, early_s: Floats, soon_s: float = 1.0) -> Leads:
        """Returns the figures for the lead times of all violations; NaN for a missed
        one.
        """
        told, violations = early_s[~np.isnan(early_s)], max(early_s.size, 1)
        if not told.size:
            return cls(0.0, 0.0, 0.0, 0.0)
        sooner = np.count_nonzero(told >= soon_s - SLACK_S) / violations
        mean_s, median_s = float(told.sum()) / told.size, float(np.median(told))
        return cls(told.size / violations, mean_s, median_s, sooner)


def mostly_harmless(found: Sequence[Foretold]) -> bool:
    """Whether most clean runs have a pending obligation at some time."""
    owing = [not each.idle.all() for each in found if each.broken is None]
    return sum(owing) > len(owing) / 2


EDGES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0)
"""The boundaries of the reliability bins, which are narrow where most risks lie."""

WIDE_GAP = 0.1
MIN_FRAMES = 50
MIN_TRACES = 5


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """The frames whose predicted risk lies in one bin, from `low` (included) to `high`.

    Args:
        low: The lower end of the bin.
        high: The upper end of the bin.
        frames: The number of frames.
        traces: The number of traces; frames of one trace are not independent.
        predicted: The mean predicted risk of the frames.
        observed: The fraction of the frames after which the violation happened.
    """

    low: float
    high: float
    frames: int
    traces: int
    predicted: float
    observed: float

    @property
    def off(self) -> bool:
        """Whether the predicted and the observed rate differ significantly.

        Frames of one trace are not independent, so a trace counts as one trial.
        """
        gap = abs(self.predicted - self.observed)
        chance = math.sqrt(self.predicted * (1.0 - self.predicted) / self.traces)
        enough = self.frames >= MIN_FRAMES and self.traces >= MIN_TRACES
        return enough and gap > max(WIDE_GAP, 3.0 * chance)


@dataclass(frozen=True, slots=True)
class Reliability:
    """The agreement of predicted risks with outcomes in held-out traces.

    Args:
        frames: The number of frames with a prediction.
        unknown: The number of frames without a prediction, because the state was not
            seen in training.
        traces: The number of traces.
        base_rate: The fraction of frames after which the violation happened.
        brier: Mean squared difference between prediction and outcome; lower is better.
        calibration_error: Mean distance of the reliability curve from the diagonal.
        bins: The reliability curve; bins without frames are left out.
    """

    frames: int
    unknown: int
    traces: int
    base_rate: float
    brier: float
    calibration_error: float
    bins: tuple[ReliabilityBin, ...]

    @property
    def reference(self) -> float:
        """The Brier score of always predicting the base rate."""
        return self.base_rate * (1.0 - self.base_rate)

    @property
    def skill(self) -> float | None:
        """The Brier skill score: 1 is perfect, 0 no better than the base rate; None if
        all outcomes are equal.
        """
        return 1.0 - self.brier / self.reference if self.reference > 0.0 else None

    @property
    def warns(self) -> bool:
        return any(each.off for each in self.bins) or (self.skill or 0.0) < 0.0

    def sentences(self, law: str) -> Iterator[str]:
        """Describes the reliability of a law's risks in sentences."""
        yield (
            f"The risk of breaking {law}, on {self.traces} held-out traces "
            f"({self.frames:,} frames): the Brier score is {self.brier:.3g}; always "
            f"predicting the base rate of {self.base_rate:.3g} scores "
            f"{self.reference:.3g}."
        )
        if self.unknown:
            yield f"{self.unknown:,} more frames were in states not seen in training."
        for each in self.bins:
            if each.off:
                yield (
                    f"Where the predicted risk was {each.predicted:.2f}, a violation "
                    f"followed in {each.observed:.2f} of {each.frames:,} frames "
                    f"({each.traces} traces)."
                )

    def as_dict(self) -> dict[str, Any]:
        return {**to_json(self), "reference": self.reference, "skill": self.skill}


def reliability(
    predicted: Sequence[ArrayLike],
    outcome: Sequence[ArrayLike],
    edges: Sequence[float] = EDGES,
) -> Reliability:
    """Compares predicted risks with outcomes.

    Args:
        predicted: For each trace, the risk at every frame; NaN where the risk is
            unknown.
        outcome: For each trace, whether the predicted violation happened, at every
            frame.
        edges: The boundaries of the bins, from 0 to 1.
    """
    risks = [np.asarray(each, np.float64).ravel() for each in predicted]
    happened = [np.asarray(each, bool).ravel() for each in outcome]
    if [len(r) for r in risks] != [len(h) for h in happened]:
        raise InvalidInput(
            "the number of predicted risks differs from the number of outcomes"
        )
    trace = np.repeat(np.arange(len(risks)), [len(r) for r in risks])
    risk, event = np.concatenate(risks), np.concatenate(happened)
    known = ~np.isnan(risk)
    unknown = int((~known).sum())
    risk, event, trace = risk[known], event[known], trace[known]
    if not risk.size:
        raise InvalidInput("no held-out frame has a risk to compare with its outcome")
    if not ((risk >= 0.0) & (risk <= 1.0)).all():
        raise InvalidInput("a predicted risk must be between 0 and 1")
    inner = np.asarray(edges[1:-1])
    span = np.searchsorted(inner, risk, side="right")
    bins = []
    for i in np.unique(span).tolist():
        here = span == i
        bins.append(
            ReliabilityBin(
                low=edges[i],
                high=edges[i + 1],
                frames=int(here.sum()),
                traces=len(np.unique(trace[here])),
                predicted=float(risk[here].mean()),
                observed=float(event[here].mean()),
            )
        )
    gaps = [each.frames * abs(each.predicted - each.observed) for each in bins]
    return Reliability(
        frames=len(risk),
        unknown=unknown,
        traces=len(np.unique(trace)),
        base_rate=float(event.mean()),
        brier=float(np.mean((risk - event) ** 2)),
        calibration_error=sum(gaps) / len(risk),
        bins=tuple(bins),
    )


def unmet_ahead(
    automaton: Automaton, letters: Sequence[Ints], steps: int
) -> list[tuple[Ints, Bools]]:
    """Determines the outcomes that an estimated risk predicts, from complete traces.

    Unlike `came_true`, these outcomes cover every obligation, not only the first that
    is broken.

    Args:
        automaton: The law's monitor.
        letters: For each trace, the column of the automaton's table for each frame.
        steps: The horizon H, in steps.

    Returns:
        For each trace, two values for every frame up to the first violation: the
        monitor's state, and whether an obligation that was pending then, or arose
        within H steps, was not met. An obligation pending at the trace's end is decided
        by repeating the last frame.
    """
    table = automaton.step.tolist()
    monitors = [_until_violated(automaton, table, row.tolist()) for row in letters]
    kept = np.array([len(row) for row in monitors], np.int64)
    lengths = np.array([len(row) for row in letters], np.int64)
    if not kept.sum():
        return [(row, np.zeros(0, bool)) for row in monitors]
    ends = np.cumsum(lengths)
    offset = np.repeat(ends - lengths - np.cumsum(kept) + kept, kept)
    frames = offset + np.arange(kept.sum())
    last, read = np.repeat(ends - 1, kept), np.concatenate(letters)
    step_of, ahead = automaton.step.astype(np.int64), np.concatenate(monitors)
    for step in range(1, steps + 1):
        ahead = step_of[ahead, read[np.minimum(frames + step, last)]]
    unmet = ahead == automaton.violated
    owed = automaton.owed[ahead]
    # An obligation with a deadline is met or broken within as many steps as `complete`
    # has rows. The end of a trace cannot break an obligation without a deadline.
    most = int(lengths.max()) + len(automaton.complete)
    for step in range(steps + 1, steps + 1 + most):
        if (owed <= 1).all():
            break
        owed = automaton.complete[owed, read[np.minimum(frames + step, last)]]
    found = unmet | (owed == 1)
    return list(zip(monitors, np.split(found, np.cumsum(kept)[:-1]), strict=True))


def _until_violated(
    automaton: Automaton, table: list[list[int]], column: list[int]
) -> Ints:
    """Returns the monitor's state at every frame up to the first violation."""
    states, state = list[int](), automaton.initial
    for letter in column:
        state = table[state][letter]
        if state == automaton.violated:
            break
        states.append(state)
    return np.array(states, np.int64)
