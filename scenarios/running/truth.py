"""What really happened: the laws monitored on the world's own frames.

The guard judges by its model; this does not. It says when each law was broken and
when the obligation arose that went unmet.
"""

from __future__ import annotations

from collections.abc import Sequence

from forewarn.abstractions.frame import Frame
from forewarn.monitors.evaluation.warned import Broken
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.laws.monitor import FollowedLaw, Violation
from forewarn.plugins.contracts import Source


class _LawTruth:
    def __init__(self, law: Law, frame_period_s: float) -> None:
        self.name = law.name
        self._law = FollowedLaw(law, frame_period_s)
        self.reset()

    def reset(self) -> None:
        self._law.reset()
        self._known = 0
        self._last_broken = -2

    def frame(self, frame: Frame) -> list[Broken]:
        self._law.frame(frame)
        return self._news()

    def _news(self) -> list[Broken]:
        """The violations since this was last asked."""
        violations = self._law.monitor.violations
        if len(violations) == self._known:
            return []
        news = violations[self._known :]
        self._known = len(violations)
        return [each for violation in news if (each := self._broken(violation))]

    def _broken(self, violation: Violation) -> Broken | None:
        # An invariant that stays broken is broken once.
        goes_on = violation.step == self._last_broken + 1
        self._last_broken = violation.step
        if goes_on:
            return None
        times_s = self._law.times_s
        return Broken(self.name, times_s[violation.step], times_s[violation.since])

    def finish(self) -> list[Broken]:
        """What is owed at the end is decided by repeating the last frame."""
        law = self._law
        pending = law.automaton.pending
        for _ in range(law.automaton.n if law.times_s else 0):
            if not pending[law.monitor.state]:
                break
            if law.wait().status == "violated":
                return self._news()
        return []


class Truth:
    """The laws of a scenario, monitored over one episode after another.

    Args:
        laws: Parts by themselves.
        source: What the world provides; laws over anything else do not apply.
    """

    def __init__(self, laws: Sequence[Law], source: Source) -> None:
        provided = set(source.provides)
        self.not_applicable: dict[str, list[str]] = {}
        self._laws: list[_LawTruth] = []
        for law in laws:
            lacking = sorted(set(law.signals) - provided)
            if lacking:
                self.not_applicable[law.name] = lacking
            else:
                self._laws.append(_LawTruth(law, source.period_s))
        self.names = tuple(law.name for law in self._laws)
        self.broken: list[Broken] = []

    def reset(self) -> None:
        """Begins an episode."""
        self.broken = []
        for law in self._laws:
            law.reset()

    def frame(self, frame: Frame) -> list[Broken]:
        """The laws that this frame breaks."""
        found = [broken for law in self._laws for broken in law.frame(frame)]
        self.broken += found
        return found

    def finish(self) -> list[Broken]:
        """The laws that turn out broken when the episode is over."""
        found = [broken for law in self._laws for broken in law.finish()]
        self.broken += found
        return found
