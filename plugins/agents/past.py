"""Applies laws over calls to recorded runs of agents."""

from __future__ import annotations

from forewarn.abstractions.readers.calls import CallRun
from forewarn.monitors.guarding.policy import Policy
from forewarn.plugins.agents.guard import AgentGuard
from forewarn.plugins.agents.trajectory import POLICY


class LawReplay:
    """Replays runs to a guard with one law until the guard withholds a call.

    Args:
        law: The formula of the law.
        policy: The policy, which selects the intervention if a call would violate the
            law.
    """

    def __init__(self, law: str, policy: Policy = POLICY) -> None:
        self._guard = AgentGuard.by_laws([law], policy)

    def withheld(self, run: CallRun) -> int | None:
        """Returns the index of the first call that the guard withholds, or None.

        A call that the guard cannot read counts as withheld.
        """
        guard = self._guard
        guard.reset()
        for number, call in enumerate(run.calls):
            verdict = guard.before(call.tool, call.arguments, run.request)
            if not verdict.passes:
                return number
            guard.after(call.failed, verdict.call, call.result)
        return None
