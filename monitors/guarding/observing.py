"""Who hears of each review."""

from __future__ import annotations

from typing import Protocol

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import RANK, Action, Decision
from forewarn.monitors.guarding.policy import Policy
from forewarn.monitors.guarding.watch import Watch

_ALERT = RANK["alert"]


class Observer(Protocol):
    """Hears of every review; a run record is one.

    What it has no use for it may take as `*_: object`.
    """

    def reviewed(
        self,
        frame: Frame,
        proposal: Action | None,
        decision: Decision,
        readings: tuple[float, ...],
        foreseen: Frame | None,
        /,
    ) -> None:
        """Called after each review, with the guard's clock readings during it."""


class Interference:
    """Tells those who learn from what they see of what the guard did."""

    def __init__(self, watch: Watch, policy: Policy) -> None:
        self._watch, self._policy = watch, policy

    def reviewed(
        self, frame: Frame, proposal: Action | None, decision: Decision, *_: object
    ) -> None:
        if interferes(decision, self._policy):
            self._watch.interfered()


def interferes(decision: Decision, policy: Policy) -> bool:
    """Whether a decision changes what happens."""
    return RANK[decision.kind] > _ALERT and not policy.shadow
