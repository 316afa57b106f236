"""A rule guard: fires when the law is about to be broken.

It follows the law with the law's own monitor and, at every frame, lets the monitor run
on over the next moments as they come if nobody does anything about it.
"""

from __future__ import annotations

import numpy as np

from forewarn.abstractions.expression.vector import evaluate
from forewarn.abstractions.frame import Frame
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.laws.monitor import FollowedLaw
from forewarn.plugins.baselines.prediction import Predictor, refuse_unless_driving
from forewarn.plugins.contracts import Source

AHEAD_S = 2.0
NEVER = 1000.0


class Reactive:
    """Scores the negative of the seconds that are left until the law is broken."""

    thresholds = (-2.0, -1.0, -0.5)

    def __init__(self, law: Law, source: Source) -> None:
        refuse_unless_driving(law, source, "speed", "acceleration")
        self._predictor = Predictor(law, source, AHEAD_S)
        self._law = FollowedLaw(law, source.period_s)
        automaton = self._law.automaton
        self._columns = {letter: i for i, letter in enumerate(automaton.letters)}
        self._step = automaton.step.tolist()
        self._period_s = source.period_s
        # A clock slower than the frames reads every so manieth of them.
        self._stride = max(
            1, round((law.period(source.period_s) or 0) / source.period_s)
        )
        self.reset()

    def reset(self) -> None:
        self._predictor.reset()
        self._law.reset()
        self._broken = False

    def score(self, frame: Frame) -> float:
        for verdict in self._law.frame(frame):
            self._broken = verdict.status == "violated"
        if self._broken:
            return 0.0
        stretch = self._predictor.stretch(frame)
        letters = np.zeros(stretch.length, np.int64)
        for bit, proposition in enumerate(self._law.automaton.propositions):
            letters |= evaluate(proposition, stretch.columns).astype(np.int64) << bit
        state, violated = self._law.monitor.state, self._law.automaton.violated
        for ahead in range(self._stride, stretch.length, self._stride):
            column = self._columns.get(int(letters[ahead]))
            if column is None:
                break  # a combination that cannot be: the prediction is no good
            state = self._step[state][column]
            if state == violated:
                return -ahead * self._period_s
        return -NEVER
