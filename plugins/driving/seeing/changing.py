"""Lanes that the ego changes: who comes in the one that it moves to, whom it passes."""

from __future__ import annotations

import math

from forewarn.plugins.driving.scene import LEAD_SEEN_M, Near, Scene, TurnSignal
from forewarn.plugins.driving.seeing.progress import Progress

_JUNCTION_M = 50.0  # nearer to one the signal is for a turn
_PASSES_S = 20.0
_SIDES = {TurnSignal.LEFT: 1, TurnSignal.RIGHT: -1}
_FARTHEST_M = 1000.0


class LaneChanges:
    """The ego's changes of lanes, frame after frame.

    Args:
        scene: Everyone.
    """

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._signal, self._signal_lane = TurnSignal.OFF, ""
        self._last_lead: str | None = None
        self._passed: str | None = None
        self._passed_until_s = 0.0

    def side_margin(self, progress: Progress) -> float | None:
        """How far who comes in the lane that the ego moves to is from having to brake.

        None where it does not move, or is there already, or nobody comes.
        """
        ego, roads = self._scene.ego, self._scene.roads
        if ego.signal != self._signal:
            self._signal, self._signal_lane = ego.signal, ego.lane
        side, lane = _SIDES.get(ego.signal), roads.lanes[ego.lane]
        if side is None or lane.inside or roads.lane_count(lane.edge) < 2:
            return None
        if ego.lane != self._signal_lane:
            if roads.lanes[self._signal_lane].edge == lane.edge:
                return None
        if progress.ahead is not None and progress.to(progress.ahead) < _JUNCTION_M:
            return None
        margins: list[float] = []
        for other, gap in self._scene.beside(side):
            closing = max(0.0, other.speed - ego.speed)
            margins.append(gap - (0.8 * other.speed + closing * closing / 4.0))
        return max(-_FARTHEST_M, min(margins)) if margins else None

    def overtakes(self, changes: bool, time_s: float, lead: Near | None) -> bool:
        """Whether it changed lanes to pass a vehicle that it has not passed yet."""
        if changes and self._passed is None and self._last_lead is not None:
            self._passed, self._passed_until_s = self._last_lead, time_s + _PASSES_S
        self._last_lead = None if lead is None else lead.who.name
        if self._passed is not None:
            gives_up = self._passed == self._last_lead and not changes
            if gives_up or time_s > self._passed_until_s or not self._is_near():
                self._passed = None
        return self._passed is not None

    def _is_near(self) -> bool:
        passed, ego = self._scene.vehicles.get(self._passed or ""), self._scene.ego
        if passed is None:
            return False
        along = (passed.x - ego.x) * math.cos(ego.heading)
        along += (passed.y - ego.y) * math.sin(ego.heading)
        return -ego.length <= along <= LEAD_SEEN_M
