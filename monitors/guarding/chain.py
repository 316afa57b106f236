"""Watches one model: the present state of its chain and of its laws.

As much as possible is precomputed: reading a frame takes one encoding and two look-ups
per law.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.errors import InvalidModel, SignalFault
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.latching import Latcher
from forewarn.monitors.chains.learning import LiveTally
from forewarn.monitors.chains.model import Model
from forewarn.monitors.guarding.decision import Risk
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.risk.calibration import Calibration, JudgeBy, Likely, corrected
from forewarn.monitors.risk.tables import RiskTable

WIDENED = "widened to the nearest known states"
MAX_REMEMBERED = 10_000
"""The number of states for which computed results are cached."""

MAX_MISSED = 1000
"""The maximum number of ticks without a frame for which the clock of a law advances."""


class _Place(NamedTuple):
    """The chain's state for a state of the abstraction, and the letters that laws read.

    Args:
        state: The state of the chain; None if no chain state matches.
        nearest: The chain's state or, if none matches, the nearest ones.
        columns: For each law, the column of its transition table that is read next.
    """

    state: int | None
    nearest: tuple[int, ...]
    columns: tuple[int, ...]


class ChainWatch:
    """Tracks the states of a model's chain and of its laws, tick by tick.

    Args:
        model: The learned model.
        abstraction: The abstraction that turns frames into states.
        laws: The laws with their risks.
        period_s: The clock of the chain and of the laws' monitors.
    """

    def __init__(
        self,
        model: Model,
        abstraction: Abstraction,
        laws: Sequence[LawWatch],
        period_s: float,
    ) -> None:
        self.model, self.abstraction, self.laws = model, abstraction, tuple(laws)
        self.period_s = period_s
        known = model.known(abstraction)
        if not known:
            raise InvalidModel(
                "the model has no transitions, because every training run stayed "
                "in one state"
            )
        self._known = {bits: self._place(bits, i, (i,)) for bits, i in known.items()}
        self._unknown: dict[int, _Place] = {}
        self._words: dict[int, tuple[str, ...]] = {}
        self._begin()

    def _begin(self) -> None:
        of = self.abstraction
        self._reader = of.reader()
        self._latcher = Latcher(self.period_s, of.latches, of.lags_s)
        self._values: Mapping[str, Any] = {}
        self.tally: LiveTally | None = None
        self.reset()

    def anew(self) -> ChainWatch:
        """Returns a copy that is ready for its first run."""
        other = copy.copy(self)
        other.laws = tuple(copy.copy(law) for law in self.laws)
        other._begin()
        return other

    def reset(self) -> None:
        """Begins a new run."""
        for law in self.laws:
            law.reset()
        self._latcher.reset()
        self._reader.reset()
        if self.tally is not None:
            self.tally.begin()
        self.bits = 0
        self.state: int | None = None
        self.unknown = False

    def lose(self) -> None:
        """Records a lost frame, whose effect is unknown."""
        for law in self.laws:
            law.lose()
        if self.tally is not None:
            self.tally.skip()

    def interfered(self) -> None:
        """Records that an intervention begins; later frames do not count as evidence
        about the model.
        """
        if self.tally is not None:
            self.tally.stop()

    def abstracted(self, frame: Frame) -> int | None:
        """Reads a frame; returns the state if the frame completes a tick, otherwise
        None.
        """
        found = self._reader.frame(frame)
        self._values = self._reader.values
        return self._latcher.frame(frame.time_s, found)

    @property
    def missed(self) -> int:
        """The number of ticks without a frame just before the completed tick."""
        return self._latcher.missed

    def advance(self, bits: int, lost: bool) -> bool:
        """Advances every law by a completed tick; returns True if any is violated.

        Args:
            bits: The state of the tick.
            lost: Whether an earlier frame was lost, so that the monitor's state is
                unknown.
        """
        broke = self._wait(self.missed) if self.missed else False
        broke |= self._move(bits)
        if not lost:
            if self.tally is not None:
                self.tally.observe(bits)
            return broke
        # A frame of this tick or of an earlier one was lost.
        for law in self.laws:
            law.lose()
        return broke

    def foresee(self, frame: Frame) -> ChainWatch:
        """Returns a copy advanced by one more frame; the original is unchanged."""
        ahead = copy.copy(self)
        ahead.laws = tuple(copy.copy(law) for law in self.laws)
        for law in ahead.laws:
            law.broken = False
        found = self._reader.peek(frame)
        ahead._values = self._reader.values
        ahead._move(self._latcher.peek(found))
        return ahead

    def _wait(self, ticks: int) -> bool:
        """Advances time without a frame by reading the last state again."""
        if ticks > MAX_MISSED:
            raise SignalFault(
                f"no frame arrived for {ticks * self.period_s:.3g} s, so it is unknown "
                "whether pending obligations were met"
            )
        broke = False
        for _ in range(ticks):
            broke |= self._move(self.bits)
        if self.tally is not None:
            # The repeated state was assumed, not observed.
            self.tally.skip()
        return broke

    def _move(self, bits: int) -> bool:
        place = self._known.get(bits) or self._unknown.get(bits) or self._widened(bits)
        self.bits, self.state = bits, place.state
        self.unknown = place.state is None
        broke = False
        for law, column in zip(self.laws, place.columns, strict=True):
            if law.read(column, place.nearest):
                broke = True
        return broke

    def _place(self, bits: int, state: int | None, nearest: tuple[int, ...]) -> _Place:
        return _Place(state, nearest, tuple(law.column(bits) for law in self.laws))

    def _widened(self, bits: int) -> _Place:
        """Returns the known states that differ from this state in the fewest
        predicates.
        """
        apart = {known: (known ^ bits).bit_count() for known in self._known}
        least = min(apart.values())
        near = [self._known[known] for known, d in apart.items() if d == least]
        found = self._place(
            bits, None, tuple(i for place in near for i in place.nearest)
        )
        if len(self._unknown) < MAX_REMEMBERED:
            self._unknown[bits] = found
        return found

    def unseen(self, bits: int) -> str:
        """Returns a remark that the state was never seen in training."""
        holds = self.abstraction.in_short(bits)
        return f"a state never seen in training ({holds}): {WIDENED}"

    def evidence(self) -> tuple[str, ...]:
        """Returns the predicates that are true, with the main contributions to a high
        score.
        """
        held = self.holding()
        if not self.abstraction.scores:
            return held
        added = ", ".join(self.abstraction.contributions(self._values))
        band = next((text for text in held if text in self.abstraction.bands), None)
        if not added or band is None:
            return held
        return tuple(f"{text}: {added}" if text == band else text for text in held)

    def holding(self) -> tuple[str, ...]:
        """Returns the predicates that are true, including bands of scores."""
        found = self._words.get(self.bits)
        if found is None:
            found = self.abstraction.holding(self.bits)
            if len(self._words) < MAX_REMEMBERED:
                self._words[self.bits] = found
        return found


_Figures = tuple[float, float, float, float, tuple[float, float] | None]
"""A risk: lower bound, estimate, upper bound, the value that is compared with
thresholds, and the likely interval.
"""


def _worst(several: Iterable[_Figures]) -> _Figures:
    """Returns the worst of several risks, with bounds that cover all of them."""
    lows, points, highs, judged, likely = zip(*several, strict=True)
    ends = None
    if None not in likely:
        starts, stops = zip(*likely, strict=True)
        ends = min(starts), max(stops)
    return min(lows), max(points), max(highs), max(judged), ends


class LawWatch:
    """Tracks a law: the state of its monitor, and the present risk.

    `low`, `point` and `high` are the estimated risk after the last frame, `likely` is
    its likely interval, and `judged` is the value that is compared with thresholds.
    `broken` is set if the law was broken at this frame, or in a gap before it. The risk
    is then 1, and the monitor restarts, but keeps its memory of the past.

    After a lost frame, the monitor may be in any of its states. All possible states are
    tracked until only one is left; until then, the risk is unknown.
    """

    __slots__ = (
        "automaton", "broken", "high", "judged", "law", "likely", "low", "name",
        "point", "possible", "_columns", "_decide", "_initial", "_kept", "_left_s",
        "_relieved", "_risks", "_step", "_table", "_violated",
    )  # fmt: skip

    def __init__(
        self,
        law: Law,
        table: RiskTable,
        abstraction: Abstraction,
        period_s: float,
        likely: Likely | None = None,
    ) -> None:
        automaton = table.automaton
        self.law, self.automaton, self.name = law, automaton, law.name
        self._initial, self._violated = automaton.initial, automaton.violated
        self._relieved: list[int] = automaton.relieved.tolist()
        self._step: list[list[int]] = automaton.step.tolist()
        self._columns = {letter: i for i, letter in enumerate(automaton.letters)}
        self._decide = [abstraction.decides(p) for p in automaton.propositions]
        self._table, self._kept = table, likely
        self.correct(Calibration())
        self._left_s = [
            due * period_s if pending else None
            for due, pending in zip(
                automaton.due.tolist(), automaton.pending.tolist(), strict=True
            )
        ]
        self.reset()

    def correct(self, curve: Calibration, judge_by: JudgeBy = "point") -> None:
        """Sets the calibration of risks, and the value that is compared with
        thresholds.

        Raises:
            InvalidModel: The policy judges by the likely risk, but the model has none
                for this horizon and this curve.
        """
        said = corrected(self._table, curve, self._kept)
        columns = [said.low, said.point, said.high, said.judged(judge_by, self.name)]
        rows = zip(*(each.tolist() for each in columns), strict=True)
        # For each state of the monitor: the risk in each state of the chain.
        self._risks: list[list[_Figures]]
        if said.likely is None:
            self._risks = [list(zip(*row, repeat(None))) for row in rows]
        else:
            ends = zip(*(each.tolist() for each in said.likely), strict=True)
            self._risks = [
                list(zip(*row, zip(*both, strict=True), strict=True))
                for row, both in zip(rows, ends, strict=True)
            ]

    def reset(self) -> None:
        """Begins a new run."""
        self.possible = {self._initial}
        self.broken = False
        # Nothing is known before the first frame, and nothing passes.
        self._unknown()

    def lose(self) -> None:
        """Records a lost frame: from now on the monitor may be in any state."""
        self.possible = set(range(len(self._step))) - {self._violated}
        self._unknown()

    def _unknown(self) -> None:
        self.low, self.point, self.high, self.judged = 0.0, math.nan, 1.0, math.nan
        self.likely: tuple[float, float] | None = None

    def column(self, bits: int) -> int:
        """Returns the letter that the law reads in a state of the abstraction."""
        letter = sum(decide(bits) << i for i, decide in enumerate(self._decide))
        column = self._columns.get(letter)
        if column is None:
            raise SignalFault(
                "the abstraction excludes this combination of predicate values"
            )
        return column

    def read(self, column: int, nearest: Sequence[int]) -> bool:
        """Reads a tick's letter; returns True if it breaks the law.

        Args:
            column: The letter's column.
            nearest: The state of the chain or, if it is unknown, the nearest ones; the
                highest of their risks counts.
        """
        step = self._step
        after = {step[state][column] for state in self.possible}
        breaks = self._violated in after
        if len(after) > 1:
            # The monitor may be in several states, or the law may be broken.
            self._unknown()
        elif breaks:
            self.broken = True
            self.low = self.point = self.high = self.judged = 1.0
            self.likely = None
        else:
            (state,) = after
            risks = self._risks[state]
            figures = risks[nearest[0]]
            if len(nearest) > 1:
                figures = _worst(risks[other] for other in nearest)
            self.low, self.point, self.high, self.judged, self.likely = figures
        if breaks:
            broken = [s for s in self.possible if step[s][column] == self._violated]
            armed = {self._armed_again(state, column) for state in broken}
            self.possible = after - {self._violated} | armed
        else:
            self.possible = after
        return breaks and len(after) == 1

    def _armed_again(self, before: int, column: int) -> int:
        """Returns the state after a violation: nothing is pending, and the memory of
        the past is kept.
        """
        relieved = self._relieved[before]
        # The situation in a frame lasts, so the next frame shows it again. A call does
        # not last, so the restarted monitor reads it now. A model of calls has only one
        # state and END.
        if relieved == self._initial and len(self._risks[0]) > 2:
            return relieved
        after = self._step[relieved][column]
        return relieved if after == self._violated else after

    @property
    def state(self) -> int | None:
        """The monitor's state; None while it is unknown."""
        if len(self.possible) > 1:
            return None
        (state,) = self.possible
        return state

    @property
    def risk(self) -> Risk:
        """The estimated risk after the last frame read."""
        return Risk(self.low, self.point, self.high, self.likely)

    @property
    def left_s(self) -> float | None:
        """Seconds until a pending obligation can go unmet; None if none is pending."""
        return None if self.state is None else self._left_s[self.state]

    def sentence(self, horizon_s: float) -> str:
        """Describes the risk of the law in a sentence."""
        if self.broken:
            return f"{self.name} was broken"
        if math.isnan(self.point):
            return f"a frame was lost, so it is unknown whether {self.name} was broken"
        left_s = self.left_s
        owed = (
            "" if left_s is None else f", and its obligation is due in {left_s:.3g} s"
        )
        return (
            f"the risk of breaking {self.name} within {horizon_s:g} s is "
            f"{self.point:.3g}{owed}"
        )
