"""Decisions as actions of an environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action, Decision, Kind
from forewarn.plugins.gym.spaces import ACT

Shows = Callable[[Decision, Frame], bool | None]
"""Whether a frame shows that `stop` or `slow` is obeyed; None: too early to tell."""


class EnvActuator:
    """Puts an action of the environment in the place of one that may not pass.

    Args:
        stop: The action that stops, whatever is going on, or what gives it.
        shown: Whether a frame shows that `stop` or `slow` is obeyed; None: too early.
        slow: Gives the action that keeps a speed cap in km/h, from the one proposed.
    """

    def __init__(
        self,
        stop: Any,
        shown: Shows,
        slow: Callable[[Any, float], Any] | None = None,
    ) -> None:
        self._stop, self._shown, self._slow = stop, shown, slow
        able: set[Kind] = (
            {"alert", "stop"} if slow is None else {"alert", "slow", "stop"}
        )
        self.can: frozenset[Kind] = frozenset(able)

    def carry_out(
        self, decision: Decision, proposal: Action | None, frame: Frame
    ) -> Action | None:
        if decision.kind in ("proceed", "alert"):
            return proposal
        slows = decision.kind == "slow" and decision.cap_kmh is not None
        if slows and self._slow is not None and proposal is not None:
            # An environment that drives itself is slowed by what it would do.
            proposed = proposal.arguments.get("action")
            slower = self._slow(proposed, decision.cap_kmh or 0.0)
            return Action(ACT, {"action": slower})
        return self.fallback()

    def fallback(self, frame: Frame | None = None) -> Action:
        stop = self._stop() if callable(self._stop) else self._stop
        return Action(ACT, {"action": stop})

    def obeyed(self, decision: Decision, frame: Frame) -> bool | None:
        return self._shown(decision, frame) if frame.values else None
