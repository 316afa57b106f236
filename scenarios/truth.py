"""What really happened: the laws monitored on the world's own frames.

The guard judges by its model; this does not. It says when each law was broken and
when the obligation arose that went unmet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from forewarn.abstractions.encoding import compile_states
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.latching import Latcher
from forewarn.monitors.clocking import law_latches
from forewarn.monitors.lawbook import Law
from forewarn.monitors.monitor import Monitor
from forewarn.plugins.contracts import Source


@dataclass(frozen=True, slots=True)
class Broken:
    """A law that was broken.

    Args:
        law: Its name.
        time_s: When that became certain.
        since_s: When the obligation arose: the trigger. An invariant's is `time_s`.
    """

    law: str
    time_s: float
    since_s: float

    def as_dict(self) -> dict[str, Any]:
        return {"law": self.law, "time_s": self.time_s, "since_s": self.since_s}


class _LawTruth:
    def __init__(self, law: Law, frame_period_s: float) -> None:
        self.name = law.name
        automaton = law.compile(frame_period_s)
        self._period_s = law.period(frame_period_s) or frame_period_s
        self._encode = compile_states(automaton.propositions)
        latches = law_latches(law.formula, automaton.propositions)
        self._latcher = Latcher(self._period_s, latches)
        self._monitor = Monitor(automaton)
        self.reset()

    def reset(self) -> None:
        self._latcher.reset()
        self._monitor.reset()
        self._times: list[float] = []
        self._letter = 0
        self._last_broken = -2

    def frame(self, frame: Frame) -> Broken | None:
        letter = self._latcher.frame(frame.time_s, self._encode(frame.values))
        return None if letter is None else self._tick(letter, frame.time_s)

    def _tick(self, letter: int, time_s: float) -> Broken | None:
        self._letter = letter
        self._times.append(time_s)
        if self._monitor.advance(letter).status != "violated":
            return None
        violation = self._monitor.violations[-1]
        # An invariant that stays broken is broken once.
        goes_on = violation.step == self._last_broken + 1
        self._last_broken = violation.step
        if goes_on:
            return None
        return Broken(self.name, time_s, self._times[violation.since])

    def finish(self) -> Broken | None:
        """What is owed at the end is decided by repeating the last frame."""
        automaton = self._monitor.automaton
        if not self._times or not automaton.pending[self._monitor.state]:
            return None
        for _ in range(automaton.n):
            broken = self._tick(self._letter, self._times[-1] + self._period_s)
            if broken is not None:
                return broken
            if not automaton.pending[self._monitor.state]:
                return None
        return None


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
        found = [b for law in self._laws if (b := law.frame(frame)) is not None]
        self.broken += found
        return found

    def finish(self) -> list[Broken]:
        """The laws that turn out broken when the episode is over."""
        found = [b for law in self._laws if (b := law.finish()) is not None]
        self.broken += found
        return found
