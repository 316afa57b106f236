"""Drift: whether the world still behaves as the model was learned.

A bet is placed on every transition. The stake is what an estimate from the last few
hundred transitions out of that state gives it, the odds are the highest probability
that the model's own counts allow it. As long as the world is any chain within those
bounds the bets lose on average, whatever the estimate; the running product, started
afresh whenever it falls below one, then exceeds `1 / rate` on average at most once in
`1 / rate` transitions (an e-process in the manner of a CUSUM). When it does, the model
no longer fits. Beside the one product over all transitions each state has its own, held
to a limit as much higher as there are states: a change in one of them shows there,
where bets that lose elsewhere do not hide it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from forewarn.monitors.chains.intervals import IntervalChain, model_intervals
from forewarn.monitors.chains.model import Model
from forewarn.monitors.risk.evidence import abstraction_of

FALSE_ALARM_RATE = 1e-6
"""At most one false alarm in a million transitions, on average."""

WHAT_TO_DO = (
    "judge by `upper` or hand over, until the model has learned from newer runs"
    " (`forewarn learn --update` or `forewarn merge-tallies`)"
)
"""What is left to do then: docs/recordings.md says when which."""

_MEMORY = 200.0
"""How many transitions out of a state the estimate remembers."""

_KEPT = 1.0 - 1.0 / _MEMORY
"""What is left of it after one more."""

_HEAVY = 1e100
"""Weights are made small again before they could overflow."""

_UNSEEN = -1
"""All successors together that the model does not know."""


@dataclass(frozen=True, slots=True)
class DriftFound:
    """Where the model stopped to fit.

    Args:
        transitions: How many had been seen.
        state: The state whose transitions contradict the model most.
        holds: What holds there, where the model says it.
    """

    transitions: int
    state: str
    holds: str = ""

    @property
    def where(self) -> str:
        """The state, in words where there are any."""
        return f"where {self.holds}" if self.holds else f"in state {self.state}"


class _Row:
    """What was seen of the transitions out of one state, and the bets on them.

    Args:
        highest: The highest probability that the counts allow each successor.
        outside: The same for all others together.
    """

    __slots__ = ("against", "highest", "outside", "seen", "spread", "total", "weight")

    def __init__(self, highest: dict[int, float], outside: float) -> None:
        self.highest, self.outside = highest, outside
        # One pseudo-count is spread over the row.
        self.spread = 1.0 / (len(highest) + 1)
        self.forget()

    def forget(self) -> None:
        """Begins as if nothing had been seen yet."""
        self.seen: dict[int, float] = {}
        self.total = 0.0
        # What is seen later weighs more, which is what forgetting comes to.
        self.weight = 1.0
        self.against = 0.0

    def gain(self, after: int | None) -> float:
        """The logarithm of what a bet on the next transition pays."""
        odds = None if after is None else self.highest.get(after)
        if odds is None or after is None:
            after, odds = _UNSEEN, self.outside
        weight, total = self.weight, self.total
        if weight > _HEAVY:
            self.seen = {j: seen / weight for j, seen in self.seen.items()}
            weight = 1.0
        before = self.seen.get(after, 0.0)
        stake = (before / weight + self.spread) / (total + 1.0)
        if total >= _MEMORY:
            weight /= _KEPT
            total *= _KEPT
        self.seen[after] = before + weight
        self.weight, self.total = weight, total + 1.0
        return math.log(stake / odds)


class Drift:
    """Compares observed transitions with a model's counts, one at a time.

    Args:
        intervals: Bounds on the transition probabilities, from the model's counts.
        outside: For each state the most that its visits allow all successors
            together that were never seen.
        end: The absorbing END, if there is one. Nobody sees an episode go there, so
            the odds are those of transitions that do not.
        rate: How many false alarms a transition are tolerated, on average.
        words: Says what holds in a state, by its name.
    """

    def __init__(
        self,
        intervals: IntervalChain,
        outside: Sequence[float],
        end: int | None = None,
        rate: float = FALSE_ALARM_RATE,
        words: Callable[[str], str] = lambda _: "",
    ) -> None:
        self._states, self._words = intervals.states, words
        # Half of the rate for all transitions together, half for single states.
        self._limit = -math.log(rate / 2)
        self._limit_of_state = self._limit + math.log(intervals.n)
        self._rows: list[_Row] = []
        for i in range(intervals.n):
            at = slice(intervals.indptr[i], intervals.indptr[i + 1])
            pairs = zip(
                intervals.indices[at].tolist(), intervals.high[at].tolist(), strict=True
            )
            row = dict(pairs)
            stays = 1.0 - row.pop(end, 0.0) if end is not None else 1.0
            highest = {j: _share(p, stays) for j, p in row.items()}
            self._rows.append(_Row(highest, _share(outside[i], stays)))
        self.forget()

    @classmethod
    def of(
        cls, model: Model, delta: float, intervals: IntervalChain | None = None
    ) -> Drift | None:
        """The test for a model; None for one without counts to compare with.

        Args:
            model: The model.
            delta: The probability that any of its intervals may miss the truth.
            intervals: Those intervals, if they are known already.
        """
        if model.counts is None:
            return None
        visits = model.counts.visits.tolist()
        tail = delta / len(visits)
        # After n visits without one, the exact upper bound on such a transition.
        outside = [1 - tail ** (1 / n) if n else 1.0 for n in visits]
        known = model_intervals(model, delta) if intervals is None else intervals
        return cls(known, outside, model.chain.end, words=_words_of(model))

    def forget(self) -> None:
        """Begins as if nothing had been seen yet."""
        for row in self._rows:
            row.forget()
        self._wealth = 0.0
        self._before: _Row | None = None
        self.transitions = 0
        self.found: DriftFound | None = None

    def reset(self) -> None:
        """Begins a new episode; what was found out so far stays."""
        self._before = None

    def observe(self, state: int | None) -> None:
        """Takes in the state after a tick; None for one outside the chain."""
        before = self._before
        self._before = None if state is None else self._rows[state]
        if before is None:
            return
        self.transitions += 1
        gain = before.gain(state)
        wealth, against = self._wealth, before.against
        self._wealth = wealth = wealth + gain if wealth > 0.0 else gain
        before.against = against = against + gain if against > 0.0 else gain
        over = wealth > self._limit or against > self._limit_of_state
        if over and self.found is None:
            worst = max(range(len(self._rows)), key=lambda i: self._rows[i].against)
            name = self._states[worst]
            self.found = DriftFound(self.transitions, name, self._words(name))

    def note(self) -> str | None:
        """What decisions and reports must say, once drift was found."""
        if self.found is None:
            return None
        return (
            f"the model no longer fits: after {self.found.transitions} transitions the"
            f" world contradicts its counts, most {self.found.where}; {WHAT_TO_DO}"
        )

    def as_dict(self) -> Mapping[str, object]:
        """For reports."""
        found = self.found
        words = {"holds": found.holds} if found is not None and found.holds else {}
        return words | {
            "transitions": self.transitions,
            "found_at": None if found is None else found.transitions,
            "state": None if found is None else found.state,
            "evidence": self.evidence,
        }

    @property
    def evidence(self) -> float:
        """How near the bets are to what tells drift; from 1 on it is found."""
        against = max(row.against for row in self._rows) / self._limit_of_state
        return max(0.0, self._wealth / self._limit, against)


def _words_of(model: Model) -> Callable[[str], str]:
    abstraction = abstraction_of(model)
    if abstraction is None:
        return lambda _: ""
    return lambda state: abstraction.in_short(abstraction.bits(state))


def _share(probability: float, whole: float) -> float:
    """The most that a probability can be, given that something of this one happens."""
    return min(1.0, probability / whole) if whole > 0.0 else 1.0
