"""Baselines that are trained on the training runs of the guard's model.

`Paper` and `Released` are the methods of ProbGuard: a Markov chain over only the
predicates of the law, without a prediction horizon. Both smooth transition counts by
adding one: the paper for every valid pair of states, its released code for every pair
of observed states. The score is the probability that the law is ever violated, which is
1 - P_safe in the paper.

`Logistic` is logistic regression on the predicates of the guard, which shows whether
the Markov chain is needed. It is trained on the same runs to predict the same event as
the guard's risk. Its inputs are the predicates and whether an obligation is pending. It
is fitted with scikit-learn; at run time, only a weighted sum is computed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.errors import InvalidInput, MissingDependency
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.latching import Latcher
from forewarn.abstractions.trace import Trace
from forewarn.monitors.chains.formats.own import model_as_dict, parse_model
from forewarn.monitors.chains.learning import Support, learn
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.laws.monitor import FollowedLaw
from forewarn.monitors.risk.evidence import (
    compile_for,
    letters_of_states,
    truth_in_abstraction,
)
from forewarn.monitors.risk.tables import violation_ever
from forewarn.monitors.trust.training import Training, law_abstraction
from forewarn.plugins.baselines import check_signals
from forewarn.plugins.contracts import Lessons, Source

try:
    from sklearn.linear_model import LogisticRegression
except ImportError as error:
    raise MissingDependency("logistic regression", "learn") from error


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
        model = parse_model(dict(learned), "what it learned")
        abstraction = Abstraction.from_dict(
            dict(model.abstraction or {}), "what it learned", law.vocabulary
        )
        chain, period_s = model.chain, model.period_s or source.period_s
        automaton = compile_for(law.formula, abstraction, period_s)
        truth = truth_in_abstraction(chain, abstraction)
        letters = letters_of_states(chain, automaton, truth)
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


_SLACK_S = 1e-9  # tolerance, because sums of periods have rounding errors


class _Inputs:
    """Computes the inputs of the regression for each frame of an episode, as bits."""

    def __init__(self, law: Law, abstraction: Abstraction, period_s: float) -> None:
        self.followed = FollowedLaw(law, period_s)
        self.size = len(abstraction.predicates) + 1
        self._reader = abstraction.reader()
        self._latcher = Latcher(
            abstraction.period_s or period_s, abstraction.latches, abstraction.lags_s
        )
        self.reset()

    def reset(self) -> None:
        self.followed.reset()
        self._latcher.reset()
        self._reader.reset()
        self._bits = self._pending = 0

    def frame(self, frame: Frame) -> int:
        bits = self._latcher.frame(frame.time_s, self._reader.frame(frame))
        self._bits = self._bits if bits is None else bits
        for verdict in self.followed.frame(frame):
            self._pending = int(verdict.status != "ok")
        return self._bits << 1 | self._pending


class Logistic:
    """A baseline whose score is the predicted probability of a violation."""

    thresholds = (0.3, 0.5, 0.7)

    @staticmethod
    def learn(law: Law, lessons: Lessons) -> Mapping[str, Any]:
        """Fits the weights to the training runs, and returns them as JSON values."""
        inputs = _Inputs(law, lessons.abstraction, lessons.period_s)
        seen: Counter[tuple[int, bool]] = Counter()
        for run in lessons.traces:
            trace = run.trace(lessons.abstraction.vocabulary)
            seen.update(_examples(inputs, trace, lessons.horizon_s))
        if len({happens for _, happens in seen}) < 2:
            raise InvalidInput(
                "the training runs must contain frames that precede a violation, and "
                "frames that do not"
            )
        columns = [_digits(bits, inputs.size) for bits, _ in seen]
        fitted = LogisticRegression(max_iter=2000).fit(
            np.array(columns),
            [happens for _, happens in seen],
            sample_weight=list(seen.values()),
        )
        return {
            "abstraction": lessons.abstraction.as_dict(),
            "weights": fitted.coef_[0].tolist(),
            "intercept": float(fitted.intercept_[0]),
        }

    def __init__(self, law: Law, source: Source, learned: Mapping[str, Any]) -> None:
        abstraction = Abstraction.from_dict(
            dict(learned["abstraction"]), "what it learned"
        )
        check_signals(source, *law.signals, *abstraction.signals)
        self._inputs = _Inputs(law, abstraction, source.period_s)
        self._weights = list(learned["weights"])
        self._intercept = learned["intercept"]

    def reset(self) -> None:
        self._inputs.reset()

    def score(self, frame: Frame) -> float:
        digits = _digits(self._inputs.frame(frame), self._inputs.size)
        pairs = zip(self._weights, digits, strict=True)
        total = self._intercept + sum(weight for weight, digit in pairs if digit)
        return 1.0 / (1.0 + math.exp(-max(-700.0, min(700.0, total))))


def _digits(bits: int, size: int) -> list[int]:
    return [bits >> i & 1 for i in range(size)]


def _examples(
    inputs: _Inputs, trace: Trace, horizon_s: float
) -> Iterator[tuple[int, bool]]:
    """Yields the inputs of each frame before the first violation, and the event to
    predict.

    The event is that the trigger of a violation occurs within the horizon.
    """
    inputs.reset()
    met = [(frame.time_s, inputs.frame(frame)) for frame in trace.frames]
    broken = _first_broken(inputs.followed)
    for time_s, bits in met:
        if broken is None:
            yield bits, False
        elif time_s <= broken[0] + _SLACK_S:
            yield bits, broken[1] <= time_s + horizon_s + _SLACK_S


def _first_broken(followed: FollowedLaw) -> tuple[float, float] | None:
    """The times of the first violation and of its trigger; None if the run is clean.

    An obligation that is pending at the end is decided by repeating the last frame.
    """
    followed.finish()
    if not followed.monitor.violations:
        return None
    first = followed.monitor.violations[0]
    return followed.times_s[first.step], followed.times_s[first.since]
