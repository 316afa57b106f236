"""A base for household worlds: what was done last, and who says when it is over."""

from __future__ import annotations

from abc import abstractmethod

from forewarn.abstractions.frame import Value
from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.actions import ActionSpec
from forewarn.plugins.contracts import SteppedWorld
from forewarn.plugins.household.act import Withholding
from forewarn.plugins.household.sense import named

_ENDINGS = {
    "finish": "says that it is done",
    "stop": "was stopped",
    "cut": "was switched off",
}

IDLE = ("wait", *_ENDINGS)
"""The ways to do nothing, most of which end the episode."""

IDLING = tuple(map(ActionSpec, IDLE))

DOINGS = ("step_count", "last_action", "last_action_object", "last_action_succeeded")
"""The signals that say what was done; every household's frame carries them."""


class SteppedHousehold(SteppedWorld):
    """A household in which somebody does one thing after the other."""

    who = "the robot"

    @abstractmethod
    def do(self, action: Action) -> bool:
        """Does what is none of the ways to do nothing; whether it succeeded."""

    def about(self, action: Action) -> str | None:
        """What an action is about, as `last_action_object` names it."""
        return named(action)

    def begin(self, seed: int) -> None:
        self._last: tuple[str | None, str | None, bool | None] = (None, None, None)

    def move(self, action: Action | None) -> None:
        action = action or Action("wait")
        done = action.name in IDLE or self.do(action)
        self._last = (action.name, self.about(action), done)
        if action.name in _ENDINGS:
            self.over = f"{self.who} {_ENDINGS[action.name]}"

    def doings(self) -> dict[str, Value]:
        return dict(zip(DOINGS, (float(self.steps), *self._last), strict=True))

    def actuator(self) -> Withholding:
        return Withholding()
