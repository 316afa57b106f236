"""From the loaded simulation to the driving signals."""

from __future__ import annotations

from typing import Any

from forewarn.plugins.driving.roads.network import Roads
from forewarn.plugins.driving.seeing.arriving import Conflict
from forewarn.plugins.driving.seeing.margins import RssMargins
from forewarn.plugins.driving.sense import Senses, Surroundings
from forewarn.plugins.sumo.scene import SumoScene


class SumoSenses:
    """What the ego of an episode perceives, step after step.

    Args:
        sumo: libsumo, with the episode loaded.
        ego: The ego's name.
        roads: The net.
        period_s: The time between frames.
        surroundings: Weather, time of day, rules.
        margins: Adds RSS's margins.
    """

    def __init__(
        self,
        sumo: Any,
        ego: str,
        roads: Roads,
        period_s: float,
        surroundings: Surroundings,
        margins: RssMargins | None = None,
    ) -> None:
        self.scene = SumoScene(sumo, roads, ego)
        self._senses = Senses(self.scene, surroundings, period_s)
        self._margins = margins

    @property
    def left_m(self) -> float:
        """Of the way."""
        return self._senses.left_m

    @property
    def conflicts(self) -> list[Conflict]:
        """Where others cross the ego's way."""
        return self._senses.conflicts

    def values(
        self, time_s: float, *, collision: bool = False, horn: bool = False
    ) -> dict[str, Any]:
        """The signals of this step; none where the ego is on no road.

        Args:
            time_s: The frame's time.
            collision: Whether it has run into somebody.
            horn: Whether the horn is on.
        """
        self.scene.look()
        ego = self.scene.vehicles.get(self.scene.name)
        if ego is None or not ego.lane:
            return {}
        values = self._senses.values(time_s, collision, horn)
        if self._margins is not None:
            values |= self._margins.values(self.scene, self.conflicts)
        return values
