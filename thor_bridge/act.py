"""Acting: what a household robot does under a guard's decision."""

from __future__ import annotations

from typing import Literal

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action, Decision, Kind
from forewarn.thor_bridge.sense import named


class ThorActuator:
    """Withholds what the robot proposes; `stop` and `cut` end the episode.

    It was obeyed if the world then shows that the action withheld was not done.

    Args:
        withhold: `always`, or `once`: a robot that was told to think again may then do
            what it was about to do, as in ProbGuard, where a warning is but words.
    """

    can: frozenset[Kind] = frozenset(
        {"alert", "reflect", "substitute", "skip", "ask", "stop", "cut"}
    )

    def __init__(self, *, withhold: Literal["always", "once"] = "always") -> None:
        self._once = withhold == "once"
        self._withheld: Action | None = None

    def carry_out(self, decision: Decision, proposal: Action | None) -> Action | None:
        if decision.kind in ("proceed", "alert"):
            self._withheld = None
            return proposal
        if self._once and decision.kind == "reflect" and proposal == self._withheld:
            self._withheld = None
            return proposal
        self._withheld = proposal
        if decision.kind == "substitute":
            return decision.action
        if decision.kind == "stop":
            return self.fallback()
        return Action("cut") if decision.kind == "cut" else None

    def fallback(self) -> Action | None:
        return Action("stop")

    def obeyed(self, decision: Decision, frame: Frame) -> bool | None:
        if self._withheld is None:
            return True
        if frame.sequence <= decision.sequence:
            return None
        if "last_action" not in frame.values:
            return None
        wanted = self._withheld.name, named(self._withheld)
        shown = frame.values["last_action"], frame.values.get("last_action_object")
        return shown != wanted
