"""Converts actions to SUMO commands for turn signals, lane changes and poses."""

from __future__ import annotations

import math
from typing import Any

from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.actions import Actions, ActionSpec, number
from forewarn.plugins.driving.act import CONTROL, CUT, DRIVE, STOP, CarActuator, amount
from forewarn.plugins.driving.roads import Roads
from forewarn.plugins.sumo.traffic import Command

POSE = ActionSpec(
    "pose",
    {
        "forward_m": number(unit="m"),
        "left_m": number(unit="m"),
        "turn_left_deg": number(unit="deg"),
    },
)
ACTIONS = Actions(CONTROL, DRIVE, POSE, STOP, CUT)

_TURN_SIGNALS = {"off": 0, "right": 1, "left": 2, "hazard": 4}
_LANES = {"left": 1, "right": -1}


class SumoActuator(CarActuator):
    """Slows and stops the ego in SUMO."""


class Hands:
    """Converts the actions of one episode to SUMO commands for the ego.

    Args:
        vehicle: The `vehicle` module of libsumo.
        roads: The road network.
        ego: The name of the ego in the simulation.
    """

    def __init__(self, vehicle: Any, roads: Roads, ego: str) -> None:
        self._vehicle, self._roads, self._name = vehicle, roads, ego
        self._last_signal: str | None = None

    def signals(self, action: Action) -> list[Command]:
        """Returns the commands for the turn signals of a `control` or `stop` action."""
        wishes: list[Command] = []
        signal = action.arguments.get("turn_signal")
        if signal is not None:
            wishes.append(("setSignals", (self._name, _TURN_SIGNALS[signal])))
        elif self._last_signal is not None:
            wishes.append(("setSignals", (self._name, -1)))
        self._last_signal = signal
        return wishes

    def wishes(self, action: Action) -> list[Command]:
        """Returns the commands for turn signals and lane of a `control` action."""
        wishes = self.signals(action)
        side = action.arguments.get("lane_change")
        if side is not None:
            lane = self._vehicle.getLaneIndex(self._name) + _LANES[side]
            edge = self._vehicle.getRoadID(self._name)
            beside = self._roads.lanes.get(f"{edge}_{lane}")
            if beside is not None and beside.for_cars:
                wishes.append(("changeLane", (self._name, lane, 2.0)))
        return wishes

    def pose(self, action: Action) -> Command:
        """Returns the command for the next pose that a planner chose.

        The pose is converted from the ego's frame of reference to that of the
        simulation.
        """
        forward, left = amount(action, "forward_m", 0.0), amount(action, "left_m", 0.0)
        x, y = self._vehicle.getPosition(self._name)
        angle = self._vehicle.getAngle(self._name)
        heading = math.radians(90.0 - angle)
        x += forward * math.cos(heading) - left * math.sin(heading)
        y += forward * math.sin(heading) + left * math.cos(heading)
        angle -= amount(action, "turn_left_deg", 0.0)
        return "moveToXY", (self._name, "", -1, x, y, angle, 2)
