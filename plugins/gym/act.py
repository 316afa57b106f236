"""Converts actions of an environment to plain values, and decisions to actions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from forewarn.abstractions.arguments import checked
from forewarn.abstractions.errors import InvalidInput, MissingDependency
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action, Decision, Kind
from forewarn.plugins.actions import Argument
from forewarn.plugins.contracts import Replacing
from forewarn.plugins.functions import takes

try:
    from gymnasium import Space
    from gymnasium.spaces import Box, Discrete
except ImportError as error:
    raise MissingDependency("a Gymnasium environment", "gym") from error

ACT = "act"
"""The name of the action whose argument `action` is the environment's action."""

AUTOPILOT = "autopilot"
"""The name of the action with which the environment drives itself."""


def plain(value: Any) -> Any:
    """Converts NumPy numbers and arrays in a value to Python numbers and lists."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(Argument):
    """An argument that must be an element of an action space, as a plain value."""

    space: Space[Any]

    def element(self, value: Any) -> Any:
        """Converts a plain value to an element of the space.

        Raises:
            InvalidInput: The value is not an element of the space.
        """
        space = self.space
        try:
            found: Any
            if isinstance(space, Discrete):
                # The conversion by the space would accept 1.7 as 1.
                found = value if type(value) is int else None
            elif isinstance(space, Box):
                found = np.asarray(value, dtype=space.dtype)
            else:
                (found,) = space.from_jsonable([value])
            if found is not None and space.contains(found):
                return found
        except (TypeError, ValueError, KeyError, IndexError, AttributeError):
            pass
        raise InvalidInput(f"{value!r:.60} is not in the action space {space!s:.80}")

    def lack(self, value: object) -> str:
        try:
            self.element(value)
        except InvalidInput:
            return f"not in the action space {self.space!s:.80}"
        return ""

    def some(self, luck: Random) -> Any:
        self.space.seed(luck.getrandbits(31))
        return plain(self.space.sample())


def sample(space: Space[Any]) -> Sample:
    """Declares an argument that must be an element of an action space."""
    return Sample("sample", required=True, space=space)


Shows = Callable[[Decision, Frame], bool | None]
"""Returns whether a frame shows that `stop` or `slow` is obeyed.

The result is None if it is too early to tell.
"""


class EnvActuator(Replacing):
    """An actuator that replaces the proposed action with another action of the
    environment.

    Args:
        stop: The action that stops the agent in any state, or a function that returns
            it.
        shown: Returns whether a frame shows that `stop` or `slow` is obeyed; None if it
            is too early to tell.
        slow: Returns an action that keeps a speed cap in km/h, given the proposed
            action and the cap.
    """

    @checked
    def __init__(
        self,
        stop: Any,
        shown: Shows,
        slow: Callable[[Any, float], Any] | None = None,
    ) -> None:
        self._stop, self._shown, self._slow = stop, shown, slow
        takes(shown, "shown", "decision", "frame")
        if callable(stop):
            takes(stop, "stop")
        if slow is not None:
            takes(slow, "slow", "action", "cap_kmh")
        able: set[Kind] = (
            {"alert", "stop"} if slow is None else {"alert", "slow", "stop"}
        )
        self.can = frozenset(able)

    def check(self, space: Space[Any]) -> None:
        """Rejects a stop that is not in the action space of the environment.

        The action that a function returns is not checked.
        """
        stop = self._stop
        if not callable(stop) and (lack := sample(space).lack(plain(stop))):
            # An action with several parts may be in the space only as it is.
            if not space.contains(stop):
                raise InvalidInput(f"stop: {stop!r:.60} is {lack}")

    def carry_out(
        self, decision: Decision, proposal: Action | None, frame: Frame
    ) -> Action | None:
        slows = decision.kind == "slow" and decision.cap_kmh is not None
        if slows and self._slow is not None and proposal is not None:
            # If the environment drives itself, there is no proposed action for `slow`.
            proposed = proposal.arguments.get("action")
            slower = self._slow(proposed, decision.cap_kmh or 0.0)
            return Action(ACT, {"action": slower})
        return super().carry_out(decision, proposal, frame)

    def fallback(self, frame: Frame | None = None) -> Action:
        stop = self._stop() if callable(self._stop) else self._stop
        return Action(ACT, {"action": stop})

    def obeyed(self, decision: Decision, frame: Frame) -> bool | None:
        if not frame.values:
            return None
        shown: bool | None = plain(self._shown(decision, frame))
        return shown
