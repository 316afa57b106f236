"""A law followed over frames as they come, on the law's own clock."""

from __future__ import annotations

from forewarn.abstractions.errors import SignalFault
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.states.encoding import compile_states
from forewarn.abstractions.states.latching import Latcher
from forewarn.monitors.laws.clocking import law_latches
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.laws.monitor import Monitor, Verdict

MAX_MISSED = 1000
"""For how many ticks without a frame the law's clock goes on by itself."""


class FollowedLaw:
    """One law over the frames of one episode after another.

    Args:
        law: A law that has no parts.
        frame_period_s: The time between two frames.
    """

    def __init__(self, law: Law, frame_period_s: float) -> None:
        self.name = law.name
        self.automaton = law.compile(frame_period_s)
        self._period_s = law.period(frame_period_s) or frame_period_s
        self._encode = compile_states(self.automaton.propositions)
        latches = law_latches(law.formula, self.automaton.propositions)
        self._latcher = Latcher(self._period_s, latches)
        self.monitor = Monitor(self.automaton)
        self.reset()

    def reset(self) -> None:
        """Begins a new episode."""
        self._latcher.reset()
        self.monitor.reset()
        self.times_s: list[float] = []
        self._letter = 0

    def frame(self, frame: Frame) -> list[Verdict]:
        """Reads a frame; the verdicts on the ticks that are over with it.

        That is one as a rule, none where the law's clock is slower than the frames,
        and several where frames were missing: time goes on without them.
        """
        letter = self._latcher.frame(frame.time_s, self._encode(frame.values))
        if letter is None:
            return []
        missed = self._latcher.missed
        if missed > MAX_MISSED:
            raise SignalFault(f"no frame for {missed * self._period_s:.3g} s")
        verdicts = [self.wait() for _ in range(missed)]
        return [*verdicts, self._read(letter, frame.time_s)]

    def wait(self) -> Verdict:
        """One more tick, in which everything stays as it was last seen."""
        return self._read(self._letter, self.times_s[-1] + self._period_s)

    def _read(self, letter: int, time_s: float) -> Verdict:
        self._letter = letter
        self.times_s.append(time_s)
        return self.monitor.advance(letter)
