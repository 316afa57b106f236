"""What a chain's risks have meant: a rising curve from what was said to what happened.

A chain forgets: two runs in one state are alike to it, though one driver is bold and
the other is not. Over a horizon its risks therefore lean towards the middle. How far
can be seen in runs that it did not learn from, and corrected: risks keep their order,
0 stays 0 and 1 stays 1.
"""

from __future__ import annotations

from collections.abc import Sequence
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


def calibrated(said: Floats, happened: Bools, run: Ints) -> Calibration:
    """The curve that frames of runs which were left out show.

    Neighbouring spans are taken together until each has enough runs, and until more
    happened wherever more was said.

    Args:
        said: The risk at every frame.
        happened: Whether it then did.
        run: Of which run the frame is.
    """
    spans = _Span.of(said, happened, run)
    pooled: list[_Span] = []
    for span in spans:
        pooled.append(span)
        while len(pooled) > 1 and not pooled[-1].above(pooled[-2]):
            last = pooled.pop()
            pooled[-1] = pooled[-1].with_(last)
    points: list[tuple[float, float]] = [(0.0, 0.0)]
    for span in pooled:
        point = round(span.said, _DIGITS), round(span.share, _DIGITS)
        if points[-1][0] < point[0] < 1.0 and points[-1][1] < point[1] < 1.0:
            points.append(point)
    return Calibration(tuple(points[1:]))


@dataclass(frozen=True, slots=True)
class _Span:
    """Frames in which about the same was said."""

    frames: int
    total: float
    happened: int
    runs: frozenset[int]

    @classmethod
    def of(cls, said: Floats, happened: Bools, run: Ints) -> Sequence[_Span]:
        place = np.searchsorted(_EDGES, said, side="right")
        return [
            cls(
                int(here.sum()), float(said[here].sum()), int(happened[here].sum()),
                frozenset(np.unique(run[here]).tolist()),
            )
            for here in (place == i for i in range(len(_EDGES) + 1))
            if here.any()
        ]  # fmt: skip

    @property
    def said(self) -> float:
        return self.total / self.frames

    @property
    def share(self) -> float:
        return self.happened / self.frames

    def above(self, other: _Span) -> bool:
        """Whether both say enough, and this one that more happened."""
        enough = min(len(self.runs), len(other.runs)) >= MIN_RUNS
        return enough and self.share > other.share

    def with_(self, other: _Span) -> _Span:
        return _Span(
            self.frames + other.frames, self.total + other.total,
            self.happened + other.happened, self.runs | other.runs,
        )  # fmt: skip
