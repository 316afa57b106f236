"""Does it happen as often as was said? Reliability curve and Brier score."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from forewarn.abstractions.errors import InvalidInput

EDGES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0)
"""Narrow where risks mostly are."""

WIDE_GAP = 0.1
MIN_FRAMES = 50
MIN_TRACES = 5


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """The frames whose predicted risk lies in one span, `low` included.

    Args:
        low: Where the span begins.
        high: Where it ends.
        frames: How many frames.
        traces: From how many traces; frames of one trace come and go together.
        predicted: Their mean predicted risk.
        observed: The share of them after which it happened.
    """

    low: float
    high: float
    frames: int
    traces: int
    predicted: float
    observed: float

    @property
    def off(self) -> bool:
        """Whether it is far off, beyond what so many traces would show by chance.

        Frames of one trace come and go together, so a trace counts as one trial.
        """
        gap = abs(self.predicted - self.observed)
        chance = math.sqrt(self.predicted * (1.0 - self.predicted) / self.traces)
        enough = self.frames >= MIN_FRAMES and self.traces >= MIN_TRACES
        return enough and gap > max(WIDE_GAP, 3.0 * chance)


@dataclass(frozen=True, slots=True)
class Reliability:
    """How far predicted risks agree with what happened in held-out traces.

    Args:
        frames: How many frames were predicted.
        unknown: How many had no prediction, being in a state that was never learned.
        traces: From how many traces.
        base_rate: The share of frames after which it happened.
        brier: Mean squared difference of prediction and outcome; less is better.
        calibration_error: Mean distance of the curve from the diagonal.
        bins: The curve; spans without a frame are left out.
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
        """1 is perfect, 0 no better than the base rate; None if nothing varied."""
        return 1.0 - self.brier / self.reference if self.reference > 0.0 else None

    @property
    def warns(self) -> bool:
        return any(each.off for each in self.bins) or (self.skill or 0.0) < 0.0

    def sentences(self, law: str) -> Iterator[str]:
        """The comparison for people; `law` says what the risk is of."""
        yield (
            f"The risk of breaking {law}, on {self.traces} held-out traces "
            f"({self.frames:,} frames): the Brier score is {self.brier:.3g}; always "
            f"saying the base rate {self.base_rate:.3g} scores {self.reference:.3g}."
        )
        if self.unknown:
            yield f"{self.unknown:,} more frames were in states not seen in training."
        for each in self.bins:
            if each.off:
                yield (
                    f"Where the risk was put at {each.predicted:.2f}, it happened in "
                    f"{each.observed:.2f} of {each.frames:,} frames "
                    f"({each.traces} traces)."
                )

    def as_dict(self) -> dict[str, Any]:
        return {
            "frames": self.frames,
            "unknown": self.unknown,
            "traces": self.traces,
            "base_rate": self.base_rate,
            "brier": self.brier,
            "reference": self.reference,
            "skill": self.skill,
            "calibration_error": self.calibration_error,
            "bins": [
                {
                    "low": each.low,
                    "high": each.high,
                    "frames": each.frames,
                    "traces": each.traces,
                    "predicted": each.predicted,
                    "observed": each.observed,
                }
                for each in self.bins
            ],
        }


def reliability(
    predicted: Sequence[ArrayLike],
    outcome: Sequence[ArrayLike],
    edges: Sequence[float] = EDGES,
) -> Reliability:
    """Compares predicted risks with outcomes.

    Args:
        predicted: For each trace, the risk at every frame; NaN where it is unknown.
        outcome: For each trace, whether it then happened, at every frame.
        edges: The spans of the curve, from 0 to 1.
    """
    risks = [np.asarray(each, np.float64).ravel() for each in predicted]
    happened = [np.asarray(each, bool).ravel() for each in outcome]
    if [len(r) for r in risks] != [len(h) for h in happened]:
        raise InvalidInput("predicted risks and outcomes differ in number")
    trace = np.repeat(np.arange(len(risks)), [len(r) for r in risks])
    risk, event = np.concatenate(risks), np.concatenate(happened)
    known = ~np.isnan(risk)
    unknown = int((~known).sum())
    risk, event, trace = risk[known], event[known], trace[known]
    if not risk.size:
        raise InvalidInput("there is no held-out frame with a risk to compare with")
    if not ((risk >= 0.0) & (risk <= 1.0)).all():
        raise InvalidInput("a predicted risk is not within 0 and 1")
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
