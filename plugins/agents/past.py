"""What guards with laws over calls would have done with recorded calls of agents."""

from __future__ import annotations

from forewarn.abstractions.readers.calls import CallRun
from forewarn.monitors.guarding.policy import Policy
from forewarn.plugins.agents.guard import AgentGuard
from forewarn.plugins.agents.trajectory import POLICY


class Past:
    """Replays runs before a guard by one law, until it withholds a call.

    Args:
        law: The law.
        policy: The intervention on a call that would break it.
    """

    def __init__(self, law: str, policy: Policy = POLICY) -> None:
        self._guard = AgentGuard.by_laws([law], policy)

    def withheld(self, run: CallRun) -> int | None:
        """The number of the first call that would not have been made; None: all were.

        A call that the guard cannot read counts as withheld, as it would be.
        """
        guard = self._guard
        guard.reset()
        for number, call in enumerate(run.calls):
            verdict = guard.before(call.tool, call.arguments, run.request)
            if not verdict.passes:
                return number
            guard.after(call.failed, verdict.call, call.result)
        return None
