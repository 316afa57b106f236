"""A baseline that shows whether the Markov chain is needed: logistic regression on the
predicates of the guard.

It is trained on the same runs to predict the same event as the guard's chain. Its
inputs are the predicates and whether an obligation is pending. It is fitted with
scikit-learn; at run time, only a weighted sum is computed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.errors import InvalidInput, MissingDependency
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.latching import Latcher
from forewarn.abstractions.trace import Trace
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.laws.monitor import FollowedLaw
from forewarn.plugins.baselines import check_signals
from forewarn.plugins.contracts import Lessons, Source

try:
    from sklearn.linear_model import LogisticRegression
except ImportError as error:
    raise MissingDependency("logistic regression", "learn") from error

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
            dict(learned["abstraction"]), "the training result"
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
    """Yields the inputs of each frame before the first violation, and whether the
    predicted event occurs.

    The event is that the trigger of a violation occurs within the horizon.
    """
    inputs.reset()
    met = [(frame.time_s, inputs.frame(frame)) for frame in trace.frames]
    broken = inputs.followed.finish()
    for time_s, bits in met:
        if broken is None:
            yield bits, False
        elif time_s <= broken[0] + _SLACK_S:
            yield bits, broken[1] <= time_s + horizon_s + _SLACK_S
