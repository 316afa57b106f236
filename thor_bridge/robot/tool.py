"""A household robot as a tool for an LLM agent, and what a guard needs to watch it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action
from forewarn.thor_bridge.bridge import HouseholdWorld, ThorWorld
from forewarn.thor_bridge.steps.spelling import parse_step


class Robot:
    """Carries out steps such as `pick Mug` in a household world.

    `observe`, `foresee`, `action_of` and `halt` are what an `AgentGuard` takes.

    Args:
        world: Where it is.
        seed: Of the episode.
    """

    def __init__(self, world: HouseholdWorld | ThorWorld, seed: int = 0) -> None:
        self.world = world
        self._frame = world.reset(seed)

    def controller(self, instruction: str) -> dict[str, Any]:
        """Carry out one step of a plan, such as `find Mug`, `pick Mug` or `put Sink`.

        Args:
            instruction: The step: a verb and what it is about.
        """
        over = self.world.ended()
        if over is not None:
            return {"action": instruction, "success": False, "message": over}
        try:
            action = parse_step(instruction)
        except InvalidInput as unread:
            return {"action": instruction, "success": False, "message": unread.problem}
        self._frame = self.world.step(action)
        done = bool(self._frame.values["last_action_succeeded"])
        error = str(self.world.metadata["errorMessage"] or "")
        return {
            "action": instruction,
            "success": done,
            "message": "" if done else error or "it was not done",
        }

    def observe(self) -> Frame:
        """The household as it is."""
        return self._frame

    def foresee(self, action: Action) -> Frame:
        """The household as it would be after an action."""
        return self.world.foresee(action)

    def action_of(self, tool: str, arguments: Mapping[str, Any]) -> Action:
        """What a call of the controller stands for."""
        instruction = arguments.get("instruction")
        if not isinstance(instruction, str):
            raise InvalidInput(f"the tool {tool!r:.60} was given no instruction")
        return parse_step(instruction)

    def halt(self) -> None:
        """Ends the episode: nothing more is done."""
        if self.world.ended() is None:
            self._frame = self.world.step(Action("stop"))
