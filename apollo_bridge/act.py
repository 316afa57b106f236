"""Turns decisions into requests to Apollo, and checks that Apollo obeys them.

Apollo may acknowledge a request without carrying it out, or carry it out without an
acknowledgement. Only the chassis and planning messages show whether Apollo obeys.
"""

from __future__ import annotations

from collections.abc import Callable

from forewarn.abstractions.frame import Frame
from forewarn.apollo_bridge.commander import Paths
from forewarn.monitors.guarding.decision import Action, Decision, Kind
from forewarn.plugins.actions import CAP
from forewarn.plugins.driving.act import shown


class ApolloActuator:
    """Stops Apollo, and slows it down if Apollo offers a service for that.

    Args:
        paths: The available means to command Apollo.
        emergency_stop: Returns whether planning intends to stop as commanded; None if
            unknown.
    """

    def __init__(
        self, paths: Paths, emergency_stop: Callable[[], bool | None] = lambda: None
    ) -> None:
        can: set[Kind] = {"alert", "stop"}
        if paths.slow is not None:
            can.add("slow")
        if paths.cut is not None:
            can.add("cut")
        self.can: frozenset[Kind] = frozenset(can)
        self._emergency_stop = emergency_stop

    def carry_out(
        self, decision: Decision, proposal: Action | None, frame: Frame
    ) -> Action | None:
        if decision.kind in ("proceed", "alert"):
            return proposal
        if decision.kind == "slow" and decision.cap_kmh is not None:
            return Action("drive", {CAP: decision.cap_kmh})
        return Action("cut") if decision.kind == "cut" else self.fallback()

    def fallback(self, frame: Frame | None = None) -> Action:
        return Action("stop")

    def obeyed(self, decision: Decision, frame: Frame) -> bool | None:
        def stops(_: float, acceleration: float) -> bool:
            # If the planner reports a stop, the car must also be decelerating.
            means_to = self._emergency_stop() is True and acceleration < 0.0
            return acceleration < -0.5 or means_to

        return shown(decision, frame, stops)


def planner_parameters(action: Action | None) -> dict[str, float]:
    """Converts an intervention to planner settings, for users of µDrive's planner.

    The names of the settings are those in AgentSpec's rules for Apollo; speeds are in
    m/s. Stock Apollo ignores these settings.
    """
    if action is None or (action.name == "drive" and CAP not in action.arguments):
        return {}
    cap = float(action.arguments.get(CAP, 0.0)) / 3.6
    return {
        "preference:Max_planning_speed": cap,
        "preference:Default_cruise_speed": cap,
        **({} if action.name == "drive" else {"scenario:emergency_stop": 1.0}),
    }
