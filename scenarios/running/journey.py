"""How an episode was driven: collisions, hard braking, and when the goal was reached.

A world that does not provide the signals for one of these has nothing to say of it.
"""

from __future__ import annotations

import time

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action
from forewarn.monitors.guarding.listening import Listener, Run

HARD_BRAKE = 4.5
"""m/s²: who decelerates by more brakes hard."""


class Driven(Listener):
    """Takes down how an episode is driven."""

    def began(self, run: Run) -> None:
        provided = run.source.provides
        self._began_s: float | None = None
        self._brakes = 0 if "acceleration" in provided else None
        self._collided = False if "collision" in provided else None
        self._reaches = "destination_reached" in provided
        self._reached_s: float | None = None
        self._braking = False

    def frame(
        self, frame: Frame, proposal: Action | None, executed: Action | None
    ) -> None:
        values = frame.values
        if self._began_s is None:
            self._began_s = frame.time_s
        if self._brakes is not None:
            hard = (values["acceleration"] or 0.0) < -HARD_BRAKE
            self._brakes += hard and not self._braking
            self._braking = hard
        if self._collided is not None:
            self._collided = self._collided or values["collision"] is True
        if self._reaches and self._reached_s is None and values["destination_reached"]:
            self._reached_s = frame.time_s - self._began_s

    def facts(self) -> dict[str, float | bool | None]:
        """What was seen since the episode began."""
        facts: dict[str, float | bool | None] = {}
        if self._brakes is not None:
            facts["hard_brakes"] = self._brakes
        if self._collided is not None:
            facts["collided"] = self._collided
        if self._reaches:
            facts["destination_s"] = self._reached_s
        return facts


class Pace(Listener):
    """Waits after each frame until its time has come.

    Args:
        pace: How many seconds of the world pass in one of ours.
    """

    def __init__(self, pace: float) -> None:
        self._pace = pace
        self._waits = False
        self._first: tuple[float, float] | None = None

    def began(self, run: Run) -> None:
        """Time that is not simulated passes by itself."""
        self._waits, self._first = run.source.embedded, None

    def frame(
        self, frame: Frame, proposal: Action | None, executed: Action | None
    ) -> None:
        """Waits until the frame's time."""
        if not self._waits:
            return
        now_s = time.monotonic()
        if self._first is None:
            self._first = now_s, frame.time_s
        began_s, first_s = self._first
        due_s = began_s + (frame.time_s - first_s) / self._pace
        if due_s > now_s:
            time.sleep(due_s - now_s)
