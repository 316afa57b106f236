"""Calibration of a chain's risks: a curve, and likely intervals.

A chain has no memory: it treats two runs in the same state alike, even if one driver is
bold and the other is not. The chain's risks over a horizon are therefore biased towards
medium values. Held-out runs show how large the bias is. `Calibration` corrects it with
an increasing curve: risks keep their order, 0 stays 0 and 1 stays 1.

`Likely` contains the likely intervals of risks, stored in the model. Likely intervals
come from resampling whole runs (`trust.resampling`), so they show how much a risk
depends on the collected runs. Unlike the bounds `low` and `high`, likely intervals
guarantee nothing and do not cover unseen transitions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from forewarn.abstractions.errors import InvalidInput, InvalidModel
from forewarn.abstractions.serial import Strict, validated
from forewarn.monitors.laws.automaton import Automaton
from forewarn.monitors.risk.first_visits import monitor_digest
from forewarn.monitors.risk.product import Bools, Floats, Ints
from forewarn.monitors.risk.tables import RiskTable

MIN_RUNS = 30
"""The minimum number of runs in a segment of the curve."""

_EDGES = np.array([0.01, 0.02, *np.arange(0.05, 1.0, 0.05)])
_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Calibration:
    """A piecewise linear curve through points (predicted, observed).

    Args:
        points: The points; both numbers increase from point to point, strictly between
            0 and 1.
    """

    points: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        line = [(0.0, 0.0), *self.points, (1.0, 1.0)]
        for before, after in zip(line, line[1:], strict=False):
            # The comparison is written so that NaN is rejected.
            if not (before[0] < after[0] and before[1] < after[1]):
                raise InvalidInput(
                    f"the calibration curve does not increase from {before} to {after}",
                    mend="sort the pairs, or run `forewarn tune` again",
                )

    def __call__(self, risks: Floats) -> Floats:
        """Returns the calibrated risks."""
        if not self.points:
            return risks
        said, happened = zip((0.0, 0.0), *self.points, (1.0, 1.0), strict=True)
        meant: Floats = np.interp(risks, said, happened)
        return meant

    def widened(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Widens bounds on the chain's risk so that they also contain the calibrated
        risk.

        The curve is itself an estimate, so bounds mapped through it would lose their
        confidence level.
        """
        return np.minimum(low, self(low)), np.maximum(high, self(high))


def calibrated(
    said: Floats,
    happened: Floats | Bools,
    run: Ints,
    frames: Floats | None = None,
    weight: Floats | None = None,
) -> Calibration:
    """Fits a calibration curve to frames of held-out runs.

    Neighbouring segments are merged until each has enough runs and observed rates
    increase with predicted rates.

    Args:
        said: The predicted risk of each entry, which is one frame or several equal
            frames of a run.
        happened: For each entry, the number of its frames after which the violation
            happened.
        run: The run of each entry.
        frames: The number of frames of each entry; by default, one.
        weight: The weight of each run; by default, one.
    """
    if weight is None:
        weight = np.ones(int(run.max(initial=-1)) + 1)
    each = weight[run]
    count = each if frames is None else each * frames
    place = np.searchsorted(_EDGES, said, side="right")
    size = len(_EDGES) + 1
    present = np.zeros((size, len(weight)), bool)
    present[place, run] = True
    sums = (
        np.bincount(place, weights, size).tolist()
        for weights in (count, count * said, each * happened)
    )
    pooled: list[_Span] = []
    for total, height, true, here in zip(*sums, present, strict=True):
        if not total:
            continue
        pooled.append(_Span(total, height, true, here, weight))
        while len(pooled) > 1 and not pooled[-1].above(pooled[-2]):
            last = pooled.pop()
            pooled[-1] = pooled[-1].with_(last)
    points: list[tuple[float, float]] = [(0.0, 0.0)]
    for span in pooled:
        point = round(span.said, _DIGITS), round(span.share, _DIGITS)
        if points[-1][0] < point[0] < 1.0 and points[-1][1] < point[1] < 1.0:
            points.append(point)
    return Calibration(tuple(points[1:]))


@dataclass(frozen=True, slots=True, eq=False)
class _Span:
    """Frames with about the same predicted risk."""

    frames: float
    total: float
    happened: float
    present: Bools
    weight: Floats

    @property
    def said(self) -> float:
        return self.total / self.frames

    @property
    def share(self) -> float:
        return self.happened / self.frames

    @property
    def runs(self) -> float:
        return float(self.weight[self.present].sum())

    def above(self, other: _Span) -> bool:
        """Whether both spans have enough runs, and the observed rate increases."""
        enough = min(self.runs, other.runs) >= MIN_RUNS
        return enough and self.share > other.share

    def with_(self, other: _Span) -> _Span:
        return _Span(
            self.frames + other.frames, self.total + other.total,
            self.happened + other.happened, self.present | other.present, self.weight,
        )  # fmt: skip


JudgeBy = Literal["point", "likely", "upper"]
"""The value that is compared with thresholds: the estimated risk, the upper end of its
likely interval, or its upper bound.
"""

_FINENESS = 1000
"""The ends of intervals are stored in thousandths, rounded outwards."""


@dataclass(frozen=True, slots=True, eq=False)
class Likely:
    """The likely intervals of a law's risk, for each pair of monitor state and chain
    state.

    Args:
        horizon_s: The horizon H of the risk, in seconds.
        level: The fraction of resampled risks within the interval, such as 0.95.
        draws: The number of resamples.
        calibration: The calibration curve with which the intervals were computed; they
            are invalid with any other curve.
        monitor: The digest of the monitor whose states are the rows (see
            `monitor_digest`).
        low: The lower ends of the intervals, indexed by [monitor state, chain state].
        high: The upper ends, indexed in the same way.
    """

    horizon_s: float
    level: float
    draws: int
    calibration: Calibration
    monitor: str
    low: Floats
    high: Floats

    def as_dict(self) -> dict[str, Any]:
        """Returns the intervals as stored in the model's file."""
        return {
            "horizon_s": self.horizon_s,
            "level": self.level,
            "draws": self.draws,
            "calibration": [list(point) for point in self.calibration.points],
            "monitor": self.monitor,
            "low": np.floor(self.low * _FINENESS + 1e-9).astype(int).tolist(),
            "high": np.ceil(self.high * _FINENESS - 1e-9).astype(int).tolist(),
        }

    @classmethod
    def from_dict(cls, content: object, source: str = "") -> Likely:
        """Creates the intervals from the content of a model's file."""
        file = validated(_LikelyFile, content, source, InvalidModel)
        low, high = (
            np.array(rows, np.float64) / _FINENESS for rows in (file.low, file.high)
        )
        if low.ndim != 2 or low.shape != high.shape or not (low <= high).all():
            raise InvalidModel(
                "the lower end of a `likely` interval is above the upper end",
                source=source,
            )
        return cls(
            file.horizon_s, file.level, file.draws,
            Calibration(tuple(file.calibration)), file.monitor, low, high,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Corrected:
    """The calibrated risk of a law for each pair of monitor state and chain state.

    Args:
        low: The lower bound.
        point: The estimated risk.
        high: The upper bound.
        likely: The ends of the likely interval, if the model has one.
    """

    low: Floats
    point: Floats
    high: Floats
    likely: tuple[Floats, Floats] | None = None

    def judged(self, by: JudgeBy, law: str) -> Floats:
        """Returns the value that is compared with thresholds.

        Raises:
            InvalidModel: Thresholds are compared with the likely risk, but it is
                unknown.
        """
        if by != "likely":
            return self.point if by == "point" else self.high
        if self.likely is None:
            raise InvalidModel(
                f"the model stores no `likely` interval for the risk of {law} at this "
                "horizon and calibration",
                mend=(
                    "judge by point or upper, or train the model and the policy "
                    "together"
                ),
            )
        return self.likely[1]


def corrected(
    table: RiskTable, curve: Calibration, likely: Likely | None = None
) -> Corrected:
    """Corrects the risks of a table by a calibration curve.

    Bounds on the chain's risk are widened by the curve. Bounds from first visits apply
    to the outcome itself, so they are only widened to contain the calibrated risk.
    Likely intervals that were computed with a different curve are left out.
    """
    point = curve(table.point)
    low = table.point if table.low is None else table.low
    high = table.point if table.high is None else table.high
    wide = curve.widened(low, high)
    low = np.where(table.observed, np.minimum(low, point), wide[0])
    high = np.where(table.observed, np.maximum(high, point), wide[1])
    if likely is None or likely.calibration != curve:
        return Corrected(low, point, high)
    ends = np.minimum(likely.low, point), np.maximum(likely.high, point)
    return Corrected(low, point, high, ends)


_Row = list[Annotated[int, Field(ge=0, le=_FINENESS)]]


class _LikelyFile(Strict):
    horizon_s: float = Field(gt=0)
    level: float = Field(gt=0, lt=1)
    draws: int = Field(gt=0)
    calibration: list[tuple[float, float]]
    monitor: str
    low: list[_Row]
    high: list[_Row]


def likely_for(
    kept: Mapping[str, Any],
    law: str,
    horizon_s: float,
    automaton: Automaton,
    letters: Ints,
    source: str = "",
) -> Likely | None:
    """Returns the likely intervals of a law, if the model has them for this horizon.

    Args:
        kept: The likely intervals stored in the model, keyed by the texts of laws.
        law: The law's text.
        horizon_s: The horizon H, in seconds.
        automaton: The law's monitor.
        letters: The letter that the monitor reads in each state of the chain.
        source: The model's file, for error messages.
    """
    if law not in kept:
        return None
    found = Likely.from_dict(kept[law], source)
    fits = found.monitor == monitor_digest(automaton, letters)
    fits = fits and found.low.shape == (len(automaton.step), len(letters))
    return found if fits and math.isclose(found.horizon_s, horizon_s) else None


def kept_curves(kept: Mapping[str, Any], horizon_s: float) -> dict[str, Calibration]:
    """Returns the calibration curves of a model's likely intervals at this horizon, by
    law.
    """
    found = {law: Likely.from_dict(content) for law, content in kept.items()}
    return {
        law: each.calibration
        for law, each in found.items()
        if math.isclose(each.horizon_s, horizon_s)
    }
