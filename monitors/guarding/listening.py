"""Listeners: objects that are notified of the runs that a guard watches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forewarn.abstractions.frame import Frame, Source
from forewarn.monitors.guarding.decision import RANK, Action, Decision, Turn
from forewarn.monitors.guarding.policy import Policy
from forewarn.monitors.guarding.watch import Watch

_ALERT = RANK["alert"]


@dataclass(frozen=True, slots=True)
class Run:
    """The facts about a run that listeners receive when it begins.

    Args:
        name: The run's name, for display.
        source: Where the frames come from.
        watch: The guard's models and laws; None without a guard.
        policy: The guard's policy; None without a guard.
        scenic: An object that can show the scene (`Scenic`), if there is one.
        scenario: The scenario's name; empty if there is none.
        seed: The run's seed.
    """

    name: str
    source: Source
    watch: Watch | None = None
    policy: Policy | None = None
    scenic: Any = None
    scenario: str = ""
    seed: int | None = None


class Listener:
    """The base class of objects that are notified of runs, reviews, decisions and
    interventions. By default, the methods do nothing.

    Records, alerts, telemetry, live pages, tallies and risk logs are listeners.
    Listeners are called in order; a record comes last. If a listener fails in
    `reviewed`, the decision becomes the fallback, and later listeners receive the
    fallback.
    """

    def began(self, run: Run) -> None:
        """Called when a run begins, before its first frame is judged."""

    def reviewed(
        self,
        frame: Frame,
        proposal: Action | None,
        decision: Decision,
        readings: tuple[float, ...],
        foreseen: Frame | None,
        /,
    ) -> None:
        """Called when a frame has been judged.

        Args:
            frame: The frame.
            proposal: The action that was proposed for the frame.
            decision: The guard's decision. If a later listener fails, the fallback
                replaces it.
            readings: The readings of the guard's clock during the review.
            foreseen: The state that the proposal would lead to, if known.
        """

    def failed(self, error: Exception) -> None:
        """Called when the call of `reviewed` failed, even before its body ran."""

    def decided(self, watch: Watch, frame: Frame, decision: Decision) -> None:
        """Called when the decision on a frame is final."""

    def alerted(self, decision: Decision) -> None:
        """Called when an intervention begins, to alert people."""

    def carried_out(self, frame: Frame, turn: Turn) -> None:
        """Called when the outcome of a decision is final."""

    def frame(
        self, frame: Frame, proposal: Action | None, executed: Action | None
    ) -> None:
        """Called after each frame of a scenario's run, guarded or not."""

    def ended(self, facts: Mapping[str, Any]) -> None:
        """Called when the run is over.

        Args:
            facts: The reason under the key `ended`; any other entries are the run's
                JSON.
        """


class Interference(Listener):
    """Notifies the watch of each decision that interferes with the run."""

    def __init__(self, watch: Watch, policy: Policy) -> None:
        self._watch, self._policy = watch, policy

    def reviewed(
        self, frame: Frame, proposal: Action | None, decision: Decision, *_: object
    ) -> None:
        if interferes(decision, self._policy):
            self._watch.interfered()


def interferes(decision: Decision, policy: Policy) -> bool:
    """Whether a decision interferes with the run: it is more than an alert and is
    enforced.
    """
    return RANK[decision.kind] > _ALERT and not policy.shadow
