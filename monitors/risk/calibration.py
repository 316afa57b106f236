"""What a chain's risks have meant: a rising curve from what was said to what happened.

A chain forgets: two runs in one state are alike to it, though one driver is bold and
the other is not. Over a horizon its risks therefore lean towards the middle. How far
can be seen in runs that it did not learn from, and corrected: risks keep their order,
0 stays 0 and 1 stays 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import InvalidInput

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

MIN_RUNS = 30
"""What fewer runs went through says little."""

_EDGES = np.array([0.01, 0.02, *np.arange(0.05, 1.0, 0.05)])
_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Calibration:
    """A curve through points (said, happened), straight between them.

    Args:
        points: Both numbers rise from point to point, strictly within 0 and 1.
    """

    points: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        line = [(0.0, 0.0), *self.points, (1.0, 1.0)]
        for before, after in zip(line, line[1:], strict=False):
            # Written so that what is not a number does not pass.
            if not (before[0] < after[0] and before[1] < after[1]):
                raise InvalidInput(
                    f"the calibration does not rise from {before} to {after}"
                )

    def __call__(self, risks: Floats) -> Floats:
        """What these risks mean."""
        if not self.points:
            return risks
        said, happened = zip((0.0, 0.0), *self.points, (1.0, 1.0), strict=True)
        meant: Floats = np.interp(risks, said, happened)
        return meant

    def widened(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Bounds on the chain's risk that also hold what it means.

        The curve is an estimate of its own: taken through it alone, bounds would no
        longer hold what they held on the chain.
        """
        return np.minimum(low, self(low)), np.maximum(high, self(high))


def calibrated(
    said: Floats,
    happened: Floats | Bools,
    run: Ints,
    frames: Floats | None = None,
    weight: Floats | None = None,
) -> Calibration:
    """The curve that frames of runs which were left out show.

    Neighbouring spans are taken together until each has enough runs, and until more
    happened wherever more was said.

    Args:
        said: The risk at every frame, or at several frames of a run alike.
        happened: Whether it then did, or after how many of these frames.
        run: Of which run they are.
        frames: How many they are; by default one each.
        weight: How often each run counts; by default once.
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
    """Frames in which about the same was said."""

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
        """Whether both say enough, and this one that more happened."""
        enough = min(self.runs, other.runs) >= MIN_RUNS
        return enough and self.share > other.share

    def with_(self, other: _Span) -> _Span:
        return _Span(
            self.frames + other.frames, self.total + other.total,
            self.happened + other.happened, self.present | other.present, self.weight,
        )  # fmt: skip
