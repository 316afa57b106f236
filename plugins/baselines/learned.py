"""Baselines that are trained on the training runs of the guard's model.

`Paper` and `Released` are the methods of ProbGuard: a Markov chain over only the
predicates of the law, without a prediction horizon. Both smooth transition counts by
adding one: `Paper` for every valid pair of states, `Released` for every pair of
observed states. The score is the probability that the law is ever violated, which the
paper writes as 1 - P_safe.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.latching import Latcher
from forewarn.monitors.chains.formats.own import model_as_dict, parse_model
from forewarn.monitors.chains.learning import Support, learn
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.risk.evidence import (
    compile_for,
    letters_by_predicates,
)
from forewarn.monitors.risk.tables import violation_ever
from forewarn.monitors.trust.training import Training, law_abstraction
from forewarn.plugins.baselines import check_signals
from forewarn.plugins.contracts import Lessons, Source


class _Recipe:
    """A Markov chain over the predicates of the law."""

    thresholds = (0.3, 0.5, 0.7)
    support: ClassVar[str] = ""

    @classmethod
    def learn(cls, law: Law, lessons: Lessons) -> Mapping[str, Any]:
        """Learns the chain from the training runs, and returns it as JSON values."""
        period_s = law.period(lessons.period_s)
        vocabulary = law.vocabulary or lessons.abstraction.vocabulary
        abstraction = law_abstraction([law.formula], vocabulary, period_s)
        training = Training()
        training.add_traces(lessons.traces, abstraction)
        support = Support(cls.support)
        if cls.support == "valid":
            support = Support.valid(abstraction)
        model = learn(
            training.tally,
            support,
            Fraction(1),
            "absorb",
            abstraction=abstraction.as_dict(),
            period_s=period_s,
            laws=(repr(law.formula),),
        )
        return model_as_dict(model)

    def __init__(self, law: Law, source: Source, learned: Mapping[str, Any]) -> None:
        check_signals(source, *law.signals)
        model = parse_model(dict(learned), "the training result")
        abstraction = Abstraction.from_dict(
            dict(model.abstraction or {}), "the training result", law.vocabulary
        )
        chain, period_s = model.chain, model.period_s or source.period_s
        automaton = compile_for(law.formula, abstraction, period_s)
        letters = letters_by_predicates(chain, automaton, abstraction)
        self._risk = violation_ever(chain, letters, automaton).tolist()
        self._next = automaton.step[:, letters].tolist()
        self._automaton = automaton
        self._number = {
            abstraction.bits(name): i
            for i, name in enumerate(chain.states)
            if i != chain.end
        }
        self._reader = abstraction.reader()
        self._latcher = Latcher(period_s, abstraction.latches)
        self.reset()

    def reset(self) -> None:
        self._latcher.reset()
        self._reader.reset()
        self._monitor, self._score = self._automaton.initial, 0.0

    def score(self, frame: Frame) -> float:
        bits = self._latcher.frame(frame.time_s, self._reader.frame(frame))
        if bits is None or self._monitor == self._automaton.violated:
            return self._score
        state = self._number.get(bits)
        if state is not None:  # a state that is not in the chain is skipped
            self._monitor = self._next[self._monitor][state]
            self._score = self._risk[self._monitor][state]
            if self._monitor == self._automaton.violated:
                self._score = 1.0
        return self._score


class Paper(_Recipe):
    """The Markov chain of the paper, smoothed over all valid pairs of states."""

    support = "valid"


class Released(_Recipe):
    """The Markov chain of the released code, smoothed over pairs of observed states."""

    support = "all"
