"""Acting: how a household robot is held back under a guard's decision."""

from __future__ import annotations

from collections.abc import Callable

from forewarn.abstractions.frame import Frame, Value
from forewarn.monitors.guarding.decision import Action, Decision, Kind
from forewarn.plugins.household.sense import named


class Withholding:
    """Withholds what the robot proposes; `stop` does what its world means by it.

    It was obeyed if the world then shows that the action withheld was not done.

    Args:
        stop: The world's own action that stops.
        about: What an action is about, as the world's `last_action_object` names it.
    """

    can: frozenset[Kind] = frozenset(
        {"alert", "reflect", "substitute", "skip", "ask", "stop", "cut"}
    )

    def __init__(
        self,
        stop: Action = Action("stop"),  # noqa: B008 - frozen
        about: Callable[[Action], Value] = named,
    ) -> None:
        self._stop, self._about = stop, about
        self._withheld: Action | None = None

    def carry_out(
        self, decision: Decision, proposal: Action | None, frame: Frame
    ) -> Action | None:
        action = self._instead(decision, proposal)
        self._withheld = None if action == proposal else proposal
        return action

    def _instead(self, decision: Decision, proposal: Action | None) -> Action | None:
        if decision.kind in ("proceed", "alert"):
            return proposal
        if decision.kind == "substitute":
            return decision.action
        if decision.kind == "stop":
            return self.fallback()
        return Action("cut") if decision.kind == "cut" else None

    def fallback(self, frame: Frame | None = None) -> Action | None:
        return self._stop

    def obeyed(self, decision: Decision, frame: Frame) -> bool | None:
        if self._withheld is None:
            return True
        if frame.sequence <= decision.sequence or "last_action" not in frame.values:
            return None
        wanted = self._withheld.name, self._about(self._withheld)
        shown = frame.values["last_action"], frame.values.get("last_action_object")
        return shown != wanted
