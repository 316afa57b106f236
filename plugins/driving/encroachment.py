"""Post-encroachment time: how soon after each other two take the same place.

Bodies are remembered for a few seconds. A place is taken after somebody else when a
body now overlaps where another's was; those who go the same way are left out, for they
follow each other. What is measured has happened: nothing is predicted.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace

from forewarn.plugins.driving.scene import Mover, touches

REMEMBERED_S = 5.0
SAME_WAY = math.radians(30.0)
"""Ways that differ by less do not cross."""

_SEEN_M = 40.0
_STANDS = 0.5  # m/s: who stands takes no place from anyone


class Encroachments:
    """The places that the ego and others took in the last seconds of one episode."""

    def __init__(self) -> None:
        self._taken: deque[tuple[float, Mover, dict[str, tuple[Mover, bool]]]]
        self._taken = deque()

    def since_s(
        self,
        time_s: float,
        ego: Mover,
        vehicles: Iterable[Mover],
        people: Iterable[Mover] = (),
    ) -> float | None:
        """The shortest time after which one now takes a place that another left.

        The ego is one of the two. None if no path crossed the ego's.
        """
        while self._taken and time_s - self._taken[0][0] > REMEMBERED_S:
            self._taken.popleft()
        others = [(each, False) for each in vehicles if each is not ego]
        others += [(each, True) for each in people]
        moving = {
            each.name: (each, on_foot)
            for each, on_foot in others
            if each.speed > _STANDS
            and abs(each.x - ego.x) + abs(each.y - ego.y) < _SEEN_M
        }
        found = next(self._encroached(time_s, ego, moving), None)
        if ego.speed > _STANDS or moving:
            kept = {
                name: (replace(each), foot) for name, (each, foot) in moving.items()
            }
            self._taken.append((time_s, replace(ego), kept))
        return found

    def _encroached(
        self, time_s: float, ego: Mover, now: dict[str, tuple[Mover, bool]]
    ) -> Iterator[float]:
        """How long ago, the latest first."""
        for then_s, ego_then, others in reversed(self._taken):
            ago_s = round(time_s - then_s, 6)
            if ego.speed > _STANDS and any(
                _crosses(ego, other, on_foot) for other, on_foot in others.values()
            ):
                yield ago_s
            if ego_then.speed > _STANDS and any(
                _crosses(ego_then, other, on_foot) for other, on_foot in now.values()
            ):
                yield ago_s


def _crosses(vehicle: Mover, other: Mover, on_foot: bool) -> bool:
    turned = abs(math.remainder(other.heading - vehicle.heading, math.tau))
    return turned > SAME_WAY and touches(vehicle, other, on_foot=on_foot)
