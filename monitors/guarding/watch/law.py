"""One law beside a model: the state of its monitor, and the risk there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import repeat

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.errors import SignalFault
from forewarn.monitors.guarding.decision import Risk
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.risk.calibration import Calibration, JudgeBy, Likely, corrected
from forewarn.monitors.risk.tables import RiskTable

_Figures = tuple[float, float, float, float, tuple[float, float] | None]
"""Low, point, high, what is judged, and where the risk likely lies."""


def _worst(several: Iterable[_Figures]) -> _Figures:
    """What holds whichever of them is meant."""
    lows, points, highs, judged, likely = zip(*several, strict=True)
    ends = None
    if None not in likely:
        starts, stops = zip(*likely, strict=True)
        ends = min(starts), max(stops)
    return min(lows), max(points), max(highs), max(judged), ends


class LawWatch:
    """One law beside the model: its monitor's state, and the risk there.

    `low`, `point` and `high` are the guard's risk after the last frame read, `likely`
    is where it likely lies, and `judged` is what thresholds are compared with. A law
    broken there, or while no frame came before it, is `broken`; its risk is one at
    that moment, and its monitor is armed again.

    After a frame was lost the monitor may be in any of its states. It is read on in
    all of them, until what comes leaves one; meanwhile there is no risk to tell.
    """

    __slots__ = (
        "automaton", "broken", "high", "judged", "law", "likely", "low", "name",
        "point", "possible", "_columns", "_decide", "_initial", "_kept", "_left_s",
        "_risks", "_step", "_table", "_violated",
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
        """Says from now on what the chain's risks have meant, and which is judged.

        Raises:
            InvalidModel: The likely one is to be judged, and the model keeps none for
                this horizon and this curve.
        """
        said = corrected(self._table, curve, self._kept)
        columns = [said.low, said.point, said.high, said.judged(judge_by, self.name)]
        rows = zip(*(each.tolist() for each in columns), strict=True)
        # Of each of its monitor's states: the risk in each state of the chain.
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
        """Begins a new episode."""
        self.possible = {self._initial}
        self.broken = False
        # Nothing is known before the first frame, and nothing passes.
        self._unknown()

    def lose(self) -> None:
        """Something was not seen: from now on it may be in any state."""
        self.possible = set(range(len(self._step))) - {self._violated}
        self._unknown()

    def _unknown(self) -> None:
        self.low, self.point, self.high, self.judged = 0.0, math.nan, 1.0, math.nan
        self.likely: tuple[float, float] | None = None

    def column(self, bits: int) -> int:
        """What it reads in a state of the abstraction."""
        letter = sum(decide(bits) << i for i, decide in enumerate(self._decide))
        column = self._columns.get(letter)
        if column is None:
            raise SignalFault("the predicates hold in a combination that cannot be")
        return column

    def read(self, column: int, nearest: Sequence[int]) -> bool:
        """Reads what holds at a tick; True if that breaks the law.

        Args:
            column: What it reads.
            nearest: The state of the chain or, where that is not known, those next
                to it: the risk is that of the worst.
        """
        step = self._step
        after = {step[state][column] for state in self.possible}
        breaks = self._violated in after
        if len(after) > 1:
            # It may be in several states, or may be broken.
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
        self.possible = after - {self._violated} | {self._initial} if breaks else after
        return breaks and len(after) == 1

    @property
    def state(self) -> int | None:
        """Its monitor's state; None while that is not known."""
        if len(self.possible) > 1:
            return None
        (state,) = self.possible
        return state

    @property
    def risk(self) -> Risk:
        """The guard's risk after the last frame read."""
        return Risk(self.low, self.point, self.high, self.likely)

    @property
    def left_s(self) -> float | None:
        """Time until what is owed goes unmet at the soonest."""
        return None if self.state is None else self._left_s[self.state]

    def sentence(self, horizon_s: float) -> str:
        """Why a person should care, in one sentence."""
        if self.broken:
            return f"{self.name} was broken"
        if math.isnan(self.point):
            return f"a frame was lost, and what {self.name} asks for is not known"
        left_s = self.left_s
        owed = "" if left_s is None else f", with {left_s:.3g} s left of what is owed"
        return (
            f"{self.name} is at risk of {self.point:.3g} within {horizon_s:g} s{owed}"
        )
