"""What all live views do with a run: events in sentences, and scenes at intervals."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import RANK, Decision, Turn
from forewarn.monitors.guarding.listening import Listener
from forewarn.monitors.guarding.watch import Watch
from forewarn.plugins.contracts import Scenic, Thing
from forewarn.scenarios.report.events import Telling

SCENES_APART_S = 0.04
"""The minimum real time in seconds between two scenes."""


class Viewer(Listener):
    """Sends a run to a view; an error while sending never affects the run.

    The attribute `failures` counts these errors.
    """

    def __init__(self) -> None:
        self.failures = 0
        self._follow(None, shadow=False)

    def _follow(self, scenic: Scenic | None, shadow: bool) -> None:
        """Begins a run whose scenes are drawn if `scenic` is given."""
        self._telling, self._scenic = Telling(watched_only=shadow), scenic
        self._due_s, self._rank = 0.0, 0

    def decided(self, watch: Watch, frame: Frame, decision: Decision) -> None:
        """Sends the frame with its decision."""
        try:
            self._show(watch, frame, decision)
        except Exception:
            self.failures += 1

    def carried_out(self, frame: Frame, turn: Turn) -> None:
        """Sends an event when an intervention is first obeyed."""
        if turn.outcome.obeyed is None:
            return
        try:
            outcome = turn.outcome.as_dict()
            for event in self._telling.carried_out(frame.time_s, outcome):
                self._event(event.time_s, event.kind, event.text)
        except Exception:
            self.failures += 1

    def _tell(self, frame: Frame, decision: Decision) -> None:
        """Sends an event for an alarm or a violation."""
        if decision.kind != "proceed" or self._rank:
            for event in self._telling.decided(decision.as_dict()):
                self._event(event.time_s, event.kind, event.text)
        self._rank = RANK[decision.kind]
        for law in decision.violated:
            self._event(frame.time_s, "violated", f"{law} is broken.")

    def _draw(self, time_s: float) -> None:
        """Sends the scene, at most once every `SCENES_APART_S`."""
        now_s = time.monotonic()
        if self._scenic is not None and now_s >= self._due_s:
            self._due_s = now_s + SCENES_APART_S
            self._scene(self._scenic.things(), time_s)

    @abstractmethod
    def _show(self, watch: Watch, frame: Frame, decision: Decision) -> None:
        """Sends a frame, its events and, if it is due, its scene."""

    @abstractmethod
    def _event(self, time_s: float, kind: str, text: str) -> None:
        """Sends an event."""

    @abstractmethod
    def _scene(self, things: Sequence[Thing], time_s: float) -> None:
        """Sends a scene."""
