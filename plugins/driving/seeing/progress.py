"""How far the ego has come on its way, and which junctions it meets there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from forewarn.plugins.driving.roads.ways import Passage, Way

SEEN_M = 200.0  # lights, lines, junctions
PATH_SEEN_M = 80.0
"""How far ahead conflicts are looked for."""

_LEFT_M = 2.0  # so far behind its middle a crosswalk is left


@dataclass(frozen=True, slots=True)
class Progress:
    """Where the ego is on its way at one moment.

    Args:
        way: The way.
        at_m: How far along it the ego's front is.
        here: The junction that it is in.
        ahead: The next one.
        line: The next one before which it may have to stop.
    """

    way: Way
    at_m: float
    here: Passage | None = None
    ahead: Passage | None = None
    line: Passage | None = None

    @classmethod
    def along(cls, way: Way, at_m: float) -> Self:
        """The ego's progress so far along a way."""
        here = ahead = None
        for passage in way.passages:
            if passage.end_m <= at_m or not passage.is_junction:
                continue
            if passage.line_m <= at_m:
                here = passage
                continue
            ahead = ahead or passage
            if passage.has_line:
                return cls(way, at_m, here, ahead, passage)
        return cls(way, at_m, here, ahead)

    def to(self, passage: Passage) -> float:
        """The way to a junction."""
        return passage.line_m - self.at_m

    @property
    def met(self) -> list[Passage]:
        """The junctions that are near, the one that it is in first."""
        both = (p for p in (self.here, self.ahead) if p is not None)
        return [passage for passage in both if self.to(passage) < PATH_SEEN_M]

    @property
    def to_junction(self) -> float | None:
        """0 inside one; None where none is near."""
        if self.here is not None:
            return 0.0
        return None if self.ahead is None else _seen(self.to(self.ahead))

    @property
    def to_line(self) -> float | None:
        """The way to the next line; None where none is near."""
        return None if self.line is None else _seen(self.to(self.line))

    @property
    def to_crosswalk(self) -> float | None:
        """The way to the next crosswalk's near side; None where none is near."""
        for met in (self.here, self.ahead):
            if met is None:
                continue
            for footway in met.footways:
                if self.to(met) + footway.at_m > -_LEFT_M:
                    return _seen(max(0.0, self.to(met) + footway.near_m))
        return None


def _seen(distance_m: float) -> float | None:
    return distance_m if distance_m <= SEEN_M else None
