"""RSS's margins as signals: by how much its safe distances are kept, or not.

Of everybody near it is the one that counts to whom the ego is least safe. One of the
two distances is enough to be safe, so that is whoever has the smallest better one.
Whoever is behind has to keep the distance themselves. To somebody who crosses the
ego's way there is no side to be safe on: there both margins are the room that is left
to stop in before the conflict.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from forewarn.plugins.driving.scene import EGO_WIDTH_M, Scene
from forewarn.plugins.driving.seeing.arriving import Conflict
from forewarn.plugins.driving.seeing.rss import SafeDistances

SIGNALS = ("rss_longitudinal_margin", "rss_lateral_margin")

SEEN_M = 80.0
_MOST_M = 1000.0
_GAINS = 3.5  # m/s: what the ego's speed may gain while it responds
_RESPONDS_S = 1.0


class Margins(NamedTuple):
    """To one object, along the way and across it."""

    along_m: float
    across_m: float


class RssMargins:
    """Works out the margins of an ego."""

    def __init__(self) -> None:
        self._safe = SafeDistances()

    def values(
        self, scene: Scene, conflicts: Iterable[Conflict]
    ) -> dict[str, float | None]:
        """The signals of this moment.

        Args:
            scene: Who is on the roads.
            conflicts: With whom the ego's way crosses.
        """
        found = [*self._near(scene), *self._crossing(scene.ego.speed, conflicts)]
        if not found:
            return dict.fromkeys(SIGNALS)
        critical = min(found, key=max)
        bounded = (max(-_MOST_M, min(_MOST_M, margin)) for margin in critical)
        return {k: round(v, 3) for k, v in zip(SIGNALS, bounded, strict=True)}

    def _near(self, scene: Scene) -> Iterator[Margins]:
        ego = scene.ego
        hx, hy = math.cos(ego.heading), math.sin(ego.heading)
        vehicles = map(scene.watch, scene.vehicles.values())
        for other in (*vehicles, *scene.people.values()):
            dx, dy = other.x - ego.x, other.y - ego.y
            if other is ego or abs(dx) > SEEN_M or abs(dy) > SEEN_M:
                continue
            turned = other.heading - ego.heading
            along, aside = math.cos(turned), math.sin(turned)
            half_l, half_w = other.length / 2.0, other.width / 2.0
            ahead = dx * hx + dy * hy - half_l * along
            left = dy * hx - dx * hy - half_l * aside
            reach = half_l * abs(along) + half_w * abs(aside)
            breadth = half_l * abs(aside) + half_w * abs(along)
            if ahead + reach < -ego.length:
                continue
            yield Margins(
                ahead - reach - self._apart_along(ego.speed, other.speed * along),
                abs(left) - breadth - EGO_WIDTH_M / 2.0
                - self._apart_across(left, other.speed * aside),
            )  # fmt: skip

    def _apart_along(self, speed: float, its: float) -> float:
        if its >= 0.0:
            return self._safe.behind(speed, its)
        return self._safe.towards(speed, -its)

    def _apart_across(self, left: float, its: float) -> float:
        """The safe distance to who is to the left (or right), moving to the left."""
        if left > 0.0:
            return self._safe.beside(-its, 0.0)
        return self._safe.beside(0.0, -its)

    def _crossing(
        self, speed: float, conflicts: Iterable[Conflict]
    ) -> Iterator[Margins]:
        for begins, ends, comes_s, leaves_s in conflicts:
            gone = leaves_s < begins / (speed + _GAINS)
            passed = speed > 0.0 and comes_s > ends / speed + _RESPONDS_S
            if begins > 0.0 and not gone and not passed:
                room = begins - self._safe.stopping(speed)
                yield Margins(room, room)
