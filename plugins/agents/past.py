"""What a guard with laws over calls would have done with recorded agent runs."""

from __future__ import annotations

from forewarn.abstractions.readers.calls import CallRun
from forewarn.monitors.guarding.policy import Policy
from forewarn.plugins.agents.guard import AgentGuard
from forewarn.plugins.agents.trajectory import POLICY


class Past:
    """Replays runs to a guard with one law, until it withholds a call.

    Args:
        law: The law.
        policy: The intervention on a call that would break the law.
    """

    def __init__(self, law: str, policy: Policy = POLICY) -> None:
        self._guard = AgentGuard.by_laws([law], policy)

    def withheld(self, run: CallRun) -> int | None:
        """The number of the first call that the guard would have withheld, or None.

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
