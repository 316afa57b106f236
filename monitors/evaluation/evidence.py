"""Evidence, updated after each run, that an event has become too frequent or that the
distribution of a score has changed.

The evidence is the present value of a stake of 1 that was bet, at fair odds, against
the guaranteed rate or the rate in training. If the rate holds, the probability that the
value ever reaches 1 / level is at most `level`, however often it is checked (Ville's
inequality). Drift may therefore be reported as soon as the value reaches 1 / level.

The stake is divided over windows of runs. In each window, the bet is that the event
happens in an improbably large number of runs. Before the window ends, the value of a
bet is the factor by which winning has become more probable. Such a bet wins sooner than
a likelihood ratio, which keeps raising its stake after it has won. Most of the stake is
on the first windows; the rest is reserved for later changes.

A rate from training is uncertain, because it is estimated from a limited number of
runs. The odds are therefore those of a uniform prior, updated by the training runs and
by every run since. A training run counts half, so that false reports of drift are rare
even if the training rate was too low by chance.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.serial import Strict, to_json, validated
from forewarn.monitors.evaluation.warned import SLACK_S, Broken, came_true

LEVEL = 0.01
"""The maximum probability of reporting drift although nothing has changed."""

WINDOWS = {200: 0.6, 500: 0.4}
"""The length of each window in runs, and the fraction of the stake that is bet in it.
"""

_FIRST = 0.9
"""The fraction of each stake that is bet on the first window; later windows share the
rest.
"""


_PER_COUNT = 2
"""The number of training runs that together count as much as one later run."""

MAX_RUNS = 1_000_000
"""The maximum number of runs whose evidence is stored."""

MAX_EDGES = 100
"""The maximum number of bin boundaries in a histogram of scores."""

_Runs = Annotated[int, Field(ge=0, le=MAX_RUNS)]


@cache
def _log_factorials(bits: int) -> NDArray[np.float64]:
    """Returns the logarithms of the factorials of all numbers below 2 ** bits."""
    logs: NDArray[np.float64] = np.log(np.arange(1.0, 2**bits)).cumsum()
    return np.concatenate(([0.0], logs))


class InvalidEvidence(InvalidInput):
    """The stored evidence was modified and cannot be used."""


@dataclass(frozen=True, slots=True)
class Reference:
    """The allowed rate of an event: a guaranteed rate, or the rate in training.

    Args:
        promised: The guaranteed rate; None to use the rate in training.
        happened: The number of training runs in which the event happened.
        runs: The number of training runs.
    """

    promised: float | None = None
    happened: int = 0
    runs: int = 0

    def __post_init__(self) -> None:
        known = self.promised is None or 0.0 < self.promised < 1.0
        if not (known and 0 <= self.happened <= self.runs):
            raise InvalidEvidence(f"the reference rate is invalid: {self}")

    @property
    def words(self) -> str:
        """The rate as text."""
        if self.promised is not None:
            return f"guaranteed: at most {self.promised:.3g}"
        return f"training: {self.happened} of {self.runs}"

    def chances(
        self, happened: int, runs: int, more: int, least: int = 0
    ) -> NDArray[np.float64]:
        """Returns the probabilities that the event happens in exactly `least`, `least`
        + 1, …, `more` of `more` further runs.

        Args:
            happened: The number of runs so far in which the event happened.
            runs: The number of runs so far.
            more: The number of further runs.
            least: The smallest number of events; the first probability is for it.
        """
        trained = -(-self.runs // _PER_COUNT)
        known = trained + runs + more + 2
        log = _log_factorials(known.bit_length())
        rest = max(more - least + 1, 0)
        logs = -log[least : more + 1] - log[:rest][::-1]
        if self.promised is not None:
            hits = np.arange(least, more + 1.0)
            odds = math.log(self.promised) - math.log1p(-self.promised)
            logs += hits * odds + (log[more] + more * math.log1p(-self.promised))
        else:
            a = -(-self.happened // _PER_COUNT) + happened
            b = trained + runs - a
            logs += log[a + least : a + more + 1] + log[b : b + rest][::-1]
            logs += log[more] - log[known - 1] - log[a] - log[b] + log[a + b + 1]
        found: NDArray[np.float64] = np.exp(logs)
        return found


@dataclass(slots=True)
class _Window:
    """A bet that the event happens in at least `needed` runs of a window.

    Args:
        stake: The fraction of the initial stake that was bet.
        left: The number of runs that remain in the window.
        needed: The number of further runs in which the event must happen; None if no
            number is improbable enough, in which case nothing is bet.
        chance: The probability of winning when the window began.
    """

    stake: float
    left: int
    needed: int | None
    chance: float


class Rate:
    """Evidence that an event happens more often than allowed.

    Args:
        reference: The allowed rate of the event.
        level: Maximum probability of reporting drift although the rate holds.
        windows: The length of each window in runs, and the fraction of the stake on it.
            Long windows detect small increases; short ones detect large increases
            sooner.
    """

    def __init__(
        self,
        reference: Reference,
        level: float = LEVEL,
        windows: Mapping[int, float] = WINDOWS,
    ) -> None:
        self.reference, self.level, self._shares = reference, level, dict(windows)
        self.runs = self.happened = 0
        self.most = 1.0
        self._outcomes: list[bool] = []
        self._won = 0.0
        self._windows = {length: self._window(length) for length in self._shares}

    @property
    def exceeded(self) -> bool:
        """Whether the evidence has ever reached 1 / `level`."""
        return self.most >= 1.0 / self.level

    @property
    def evidence(self) -> float:
        """The present value of an initial stake of 1."""
        worths = sum(map(self._worth, self._windows.values()))
        return self._won + worths + sum(self._kept(each) for each in self._shares)

    def observe(self, happened: bool) -> None:
        """Counts one more run, in which the event happened or not."""
        self._outcomes.append(happened)
        self.runs += 1
        self.happened += happened
        for length, window in self._windows.items():
            window.left -= 1
            if window.needed is not None:
                window.needed -= happened
            if not window.left:
                self._won += self._worth(window)
                self._windows[length] = self._window(length)
        # In other cases, `most` cannot increase, or an increase would change nothing.
        if happened and not self.exceeded:
            self.most = max(self.most, self.evidence)

    def _window(self, length: int) -> _Window:
        """Places a bet on the next runs."""
        number = self.runs // length
        stake = self._shares[length] * _FIRST
        if number:
            stake = self._shares[length] * (1 - _FIRST) / (number * (number + 1))
        chances = self.reference.chances(self.happened, self.runs, length)
        tails = chances[::-1].cumsum()[::-1]
        enough = np.flatnonzero((tails <= self.level * stake) & (tails > 0))
        if not enough.size:
            return _Window(stake, length, None, 1.0)
        return _Window(stake, length, int(enough[0]), float(tails[enough[0]]))

    def _worth(self, window: _Window) -> float:
        """Returns the present value of a bet."""
        if window.needed is None:
            return window.stake
        odds = window.stake / window.chance
        if window.needed <= 0:
            return odds
        chances = self.reference.chances(
            self.happened, self.runs, window.left, window.needed
        )
        return odds * float(chances.sum())

    def _kept(self, length: int) -> float:
        """Returns the part of the stake that is reserved for later windows."""
        return self._shares[length] * (1 - _FIRST) / (self.runs // length + 1)

    def as_dict(self) -> dict[str, Any]:
        """Returns the evidence in the form that `from_dict` restores."""
        outcomes = "".join("1" if each else "0" for each in self._outcomes)
        reference = to_json(self.reference)
        kept = {"reference": reference, "level": self.level, "outcomes": outcomes}
        if self._shares != WINDOWS:
            kept["windows"] = [list(each) for each in self._shares.items()]
        return kept

    @classmethod
    def from_dict(cls, content: object, source: str, known: Rate | None = None) -> Rate:
        """Restores evidence from the result of `as_dict`.

        Args:
            content: The stored evidence, as returned by `as_dict`.
            source: The origin of the stored evidence, for error messages.
            known: Existing evidence; if the stored evidence extends it, only the new
                runs are added to it.
        """
        said = validated(_Kept, content, source, InvalidEvidence)
        if known is not None:
            own = known.as_dict()
            begins = said.outcomes.startswith(own["outcomes"])
            if begins and own | {"outcomes": said.outcomes} == content:
                for each in said.outcomes[known.runs :]:
                    known.observe(each == "1")
                return known
        windows = WINDOWS if said.windows is None else dict(said.windows)
        found = cls(Reference(**said.reference.model_dump()), said.level, windows)
        for each in said.outcomes:
            found.observe(each == "1")
        return found


class Ranks:
    """Evidence that a score of runs is distributed differently than in training.

    Each run is ranked among the training runs and all runs so far. If nothing has
    changed, the ranks are uniform and independent, and bets on high or low ranks are
    fair. Part of the stake moves between the bets at each step (Vovk's simple jumper).

    Args:
        ordinary: The distribution of the score in training runs.
    """

    def __init__(self, ordinary: Histogram) -> None:
        self._edges, self._counts = ordinary.edges, list(ordinary.counts)
        self._stakes = dict.fromkeys(_TILTS, 1.0 / len(_TILTS))
        self._ties = Random(0)  # noqa: S311 (it keeps no secret)
        self.evidence = 1.0

    def observe(self, value: float) -> None:
        """Counts one more run with this score."""
        at = bisect_right(self._edges, value)
        self._counts[at] += 1
        higher, equal = sum(self._counts[at + 1 :]), self._counts[at]
        # The rank among equal scores is random.
        rank = (higher + self._ties.random() * equal) / sum(self._counts)
        moved = _MOVED * self.evidence / len(_TILTS)
        for tilt, stake in self._stakes.items():
            kept = (1 - _MOVED) * stake + moved
            self._stakes[tilt] = kept * (1 + tilt * (rank - 0.5))
        self.evidence = min(sum(self._stakes.values()), _LARGEST)


_TILTS = (-2.0, -1.0, 0.0, 1.0, 2.0)
"""How strongly the bets favour high or low ranks; 0 means no bet."""

_MOVED = 0.002
"""The fraction of the stakes that is redistributed before each run."""

_LARGEST = 1e100


class Histogram(Strict):
    """The distribution of a score in training runs, as a histogram.

    Args:
        edges: The boundaries of the bins, in ascending order.
        counts: The number of runs in each bin; there is one more bin than there are
            edges.
    """

    edges: tuple[float, ...] = Field(max_length=MAX_EDGES)
    counts: tuple[_Runs, ...]

    @model_validator(mode="after")
    def _fits(self) -> Histogram:
        if sorted(set(self.edges)) != list(self.edges):
            raise ValueError("'edges' must be in ascending order")
        if len(self.counts) != len(self.edges) + 1:
            raise ValueError("'counts' must have one more entry than 'edges'")
        return self

    @classmethod
    def of(cls, values: Sequence[float]) -> Histogram:
        """Returns a histogram with ten bins of about equal size, or fewer if values
        repeat.
        """
        tenths = np.quantile(values, np.arange(1, 10) / 10).tolist() if values else []
        edges = sorted({round(each, 6) for each in tenths})
        counts = [0] * (len(edges) + 1)
        for each in values:
            counts[bisect_right(edges, each)] += 1
        return cls(edges=tuple(edges), counts=tuple(counts))


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one run under one law.

    Args:
        violating: Whether the law was broken.
        alarmed: Whether there was an alarm; in a violating run, before the trigger.
        highest: The highest estimated risk; in a violating run, before the trigger.
        excess: The mean of the outcome (0 or 1) minus the estimated risk, over the
            frames up to the violation.
    """

    violating: bool
    alarmed: bool
    highest: float = 0.0
    excess: float = 0.0


def outcome_of(
    times_s: ArrayLike,
    risks: ArrayLike,
    alarmed: ArrayLike,
    broken: Broken | None,
    horizon_s: float,
) -> Outcome:
    """Returns the outcome of a run.

    Args:
        times_s: The time of each frame, in seconds.
        risks: The estimated risk at each frame; NaN if there was none.
        alarmed: Whether there was an alarm at each frame.
        broken: The first violation; None if there was none.
        horizon_s: The horizon H of the risks, in seconds.
    """
    times, stated = np.asarray(times_s, np.float64), np.asarray(risks, np.float64)
    before, upto = np.ones(len(times), bool), np.ones(len(times), bool)
    if broken is not None:
        before = times < broken.since_s - SLACK_S
        upto = times < broken.time_s - SLACK_S
    known = ~np.isnan(stated)
    came = came_true(broken, times, horizon_s)
    apart = (came - stated)[upto & known]
    return Outcome(
        broken is not None,
        bool(np.asarray(alarmed, bool)[before].any()),
        float(stated[before & known].max(initial=0.0)),
        float(apart.mean()) if apart.size else 0.0,
    )


class Ordinary(Strict):
    """Statistics of ordinary runs, for comparison with later runs.

    Args:
        highest: The distribution of the highest risk of a run.
        excess: The distribution of a run's mean excess of outcomes over estimated
            risks.
        violating: The number of runs in which the law was broken; None in policies of
            earlier versions.
    """

    highest: Histogram
    excess: Histogram
    violating: _Runs | None = None

    @property
    def runs(self) -> int:
        """The number of ordinary runs."""
        return sum(self.highest.counts)

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> Ordinary:
        """Summarises the outcomes of runs that were not used to train the model."""
        return cls(
            highest=Histogram.of([each.highest for each in outcomes]),
            excess=Histogram.of([each.excess for each in outcomes]),
            violating=sum(each.violating for each in outcomes),
        )


class _KeptReference(Strict):
    promised: float | None = Field(None, gt=0, lt=1)
    happened: _Runs = 0
    runs: _Runs = 0


_Share = tuple[
    Annotated[int, Field(ge=1, le=MAX_RUNS)], Annotated[float, Field(gt=0, le=1)]
]


class _Kept(Strict):
    reference: _KeptReference
    windows: list[_Share] | None = Field(None, min_length=1, max_length=10)
    level: float = Field(gt=0, lt=1)
    outcomes: str = Field(pattern="^[01]*$", max_length=MAX_RUNS)
