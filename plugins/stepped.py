"""A base for worlds: what each of them owes its loop beside what happens in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame, Value
from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.actions import Actions
from forewarn.plugins.contracts import Source


class SteppedWorld(ABC):
    """Episodes of numbered steps, none before the beginning and none after the end.

    A world of this kind says how an episode begins, what an action does, and what is
    then seen; in the last two it sets `over`, the sentence that says why it ended.
    """

    source: Source
    actions: Actions
    longest_steps: int | None = None
    """When time is up, if that is for the world to say."""
    over: str | None = "the episode has not begun"
    steps: int = 0
    """How many were done in this episode."""

    @abstractmethod
    def begin(self, seed: int) -> None:
        """Begins an episode; the same seed gives the same episode."""

    @abstractmethod
    def move(self, action: Action | None) -> None:
        """Carries out an action that the world takes (None: none) for one period."""

    @abstractmethod
    def values(self) -> Mapping[str, Value]:
        """The signals as they now are."""

    @property
    def time_s(self) -> float:
        """The time since the episode began."""
        # A count times a period drifts less than a sum, and reads as it is written.
        return round(self.steps * self.source.period_s, 9)

    def reset(self, seed: int) -> Frame:
        self.steps = 0
        self.begin(seed)
        self.over = None
        return self._frame()

    def step(self, action: Action | None) -> Frame:
        if self.over is not None:
            raise InvalidInput(f"the world cannot step: {self.over}")
        self.actions.check(action)
        self.move(action)
        self.steps += 1
        return self._frame()

    def ended(self) -> str | None:
        return self.over

    def close(self) -> None:
        self.over = "the world is closed"

    def _frame(self) -> Frame:
        frame = Frame(self.time_s, self.steps, self.values())
        if self.over is None and self.steps == self.longest_steps:
            self.over = "time was up"
        return frame
