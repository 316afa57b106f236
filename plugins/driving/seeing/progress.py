"""How far the ego has come on its way, and which junctions it meets there."""

from __future__ import annotations

from typing import NamedTuple, Self

from forewarn.plugins.driving.roads.ways import Passage, Way

SEEN_M = 200.0  # lights, lines, junctions
PATH_SEEN_M = 80.0
"""How far ahead conflicts are looked for."""

_LEFT_M = 2.0  # so far behind its middle a crosswalk is left


class Progress(NamedTuple):
    """Where the ego is on its way at one moment.

    Args:
        way: The way.
        at_m: How far along it the ego's front is.
        here: The junction that it is in.
        ahead: The next one.
        line: The next one before which it may have to stop.
        met: The junctions that are near, the one that it is in first.
        to_junction: The way to the next one; 0 inside one, None where none is near.
        to_line: The way to the next line; None where none is near.
    """

    way: Way
    at_m: float
    here: Passage | None
    ahead: Passage | None
    line: Passage | None
    met: tuple[Passage, ...]
    to_junction: float | None
    to_line: float | None

    @classmethod
    def along(cls, way: Way, at_m: float) -> Self:
        """The ego's progress so far along a way."""
        here = ahead = line = None
        for passage in way.passages:
            if passage.end_m <= at_m or not passage.is_junction:
                continue
            if passage.line_m <= at_m:
                here = passage
                continue
            ahead = ahead or passage
            if passage.has_line:
                line = passage
                break
        to_ahead = None if ahead is None else ahead.line_m - at_m
        met = () if here is None else (here,)
        if ahead is not None and ahead.line_m - at_m < PATH_SEEN_M:
            met = *met, ahead
        to_junction = to_ahead if here is None else 0.0
        to_line = None if line is None else line.line_m - at_m
        return cls(
            way, at_m, here, ahead, line, met, _seen(to_junction), _seen(to_line)
        )

    def to(self, passage: Passage) -> float:
        """The way to a junction."""
        return passage.line_m - self.at_m

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


def _seen(distance_m: float | None) -> float | None:
    return None if distance_m is None or distance_m > SEEN_M else distance_m
