"""Post-encroachment time (PET): the time between two road users occupying the same
place.

The positions of the last few seconds are stored. An encroachment occurs when one road
user overlaps an earlier position of another. Road users with similar headings are
ignored, because they follow each other. Nothing is predicted: only past positions are
used.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace

from forewarn.plugins.driving.scene import Mover, touches

REMEMBERED_S = 5.0
SAME_WAY = math.radians(30.0)
"""Paths whose headings differ by less count as parallel."""

_SEEN_M = 40.0
_STANDSTILL = 0.5  # m/s: slower road users are standing and do not encroach


class Encroachments:
    """Stores recent positions of the ego and other road users in one episode."""

    def __init__(self) -> None:
        self._taken: deque[tuple[float, Mover, list[Mover]]] = deque()

    def since_s(
        self,
        time_s: float,
        ego: Mover,
        vehicles: Iterable[Mover],
        people: Iterable[Mover] = (),
    ) -> float | None:
        """Adds the current positions, and returns the shortest post-encroachment time.

        It is the time in seconds since the ego left a place that another road user
        occupies now, or vice versa; None if no path crosses that of the ego.
        """
        while self._taken and time_s - self._taken[0][0] > REMEMBERED_S:
            self._taken.popleft()
        moving = [
            each
            for each in (*vehicles, *people)
            if each is not ego
            and each.speed > _STANDSTILL
            and abs(each.x - ego.x) + abs(each.y - ego.y) < _SEEN_M
        ]
        found = next(self._encroached(time_s, ego, moving), None)
        if ego.speed > _STANDSTILL or moving:
            kept = [replace(each) for each in moving]
            self._taken.append((time_s, replace(ego), kept))
        return found

    def _encroached(
        self, time_s: float, ego: Mover, now: list[Mover]
    ) -> Iterator[float]:
        """Yields the time since each encroachment area was left, the shortest first."""
        for then_s, ego_then, then in reversed(self._taken):
            ago_s = round(time_s - then_s, 6)
            for one, others in ((ego, then), (ego_then, now)):
                if one.speed > _STANDSTILL:
                    if any(_crosses(one, other) for other in others):
                        yield ago_s


def _crosses(vehicle: Mover, other: Mover) -> bool:
    turned = abs(math.remainder(other.heading - vehicle.heading, math.tau))
    return turned > SAME_WAY and touches(vehicle, other)
