"""What a guard watches: the state of the world in its model, and of each law.

Everything that can be worked out beforehand is: reading a frame is one encoding, then
two look-ups a law.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

from forewarn.abstractions.errors import InvalidInput, InvalidModel, SignalFault
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.states.abstraction import Abstraction
from forewarn.abstractions.states.latching import Latcher
from forewarn.monitors.chains.intervals import model_intervals
from forewarn.monitors.chains.model import Model
from forewarn.monitors.chains.riskless import is_riskless
from forewarn.monitors.chains.tallying import LiveTally
from forewarn.monitors.guarding.decision import Risk
from forewarn.monitors.guarding.drift import Drift
from forewarn.monitors.laws.lawbook import Law, find_laws
from forewarn.monitors.risk.calibration import Calibration
from forewarn.monitors.risk.evidence import (
    compile_for,
    letters_of_states,
    truth_in_abstraction,
)
from forewarn.monitors.risk.likely import JudgeBy, Likely, corrected, likely_for
from forewarn.monitors.risk.tables import RiskTable, solve_risk

MAX_REMEMBERED = 10_000
"""How many states are remembered with what was worked out for them."""

MAX_HORIZON = 100_000
"""The longest horizon in steps of the model."""

MAX_MISSED = 1000
"""For how many ticks without a frame a law's clock goes on by itself."""


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


class _Place(NamedTuple):
    """Where the world is: its state in the chain, and what each law reads there.

    Args:
        state: The state of the chain; None for one outside it.
        nearest: That state or, outside the chain, those next to it.
        columns: What each law reads.
    """

    state: int | None
    nearest: tuple[int, ...]
    columns: tuple[int, ...]


class Watch:
    """A model's states and laws, read frame by frame.

    A frame is expected, taken in and then read by every law. A frame that is expected
    and does not come that far, whatever the reason, is lost: then no law's state is
    known until what follows settles it.

    Args:
        model: The chain and where it was learned.
        abstraction: Turns frames into its states.
        laws: The laws with their risks.
        period_s: The clock of the chain and of the laws' monitors.
        not_applicable: The laws that the source cannot answer, and why.
        drift: Says whether the model still fits.
    """

    def __init__(
        self,
        model: Model,
        abstraction: Abstraction,
        laws: Sequence[LawWatch],
        period_s: float,
        not_applicable: Sequence[tuple[str, str]] = (),
        drift: Drift | None = None,
    ) -> None:
        self.model, self.abstraction, self.laws = model, abstraction, tuple(laws)
        self.period_s = period_s
        self.not_applicable = tuple(not_applicable)
        self.drift = drift
        self.signals = abstraction.signals
        chain, visits = model.chain, model.visits
        known = {
            abstraction.bits(name): i
            for i, name in enumerate(chain.states)
            if i != chain.end and (visits is None or visits[i] > 0)
        }
        if not known:
            raise InvalidModel("the model has no state that was ever left in training")
        self._known = {bits: self._place(bits, i, (i,)) for bits, i in known.items()}
        self._unknown: dict[int, _Place] = {}
        self._reader = abstraction.reader()
        self._latcher = Latcher(period_s, abstraction.latches, abstraction.lags_s)
        self._words: dict[int, tuple[str, ...]] = {}
        self.tally: LiveTally | None = None
        self.unknown_seen = 0
        self.reset()

    def reset(self) -> None:
        """Begins a new episode."""
        for law in self.laws:
            law.reset()
        self._latcher.reset()
        self._reader.reset()
        if self.drift is not None:
            self.drift.reset()
        if self.tally is not None:
            self.tally.begin()
        self.violated: tuple[str, ...] = ()
        self.ticks = 0
        self.bits = 0
        self.state: int | None = None
        self.unknown = False
        self._expecting = self._lost = self.lost = False

    def read(self, frame: Frame) -> bool:
        """Reads a frame; False if it only fills up a tick that goes on."""
        self.expect()
        return self.advance(self.abstracted(frame))

    def expect(self) -> None:
        """A frame is there. If the last one was not read to its end, it is lost."""
        if self.violated:
            self.violated = ()
            for law in self.laws:
                law.broken = False
        # What comes before the first tick is not of the episode yet.
        if self._expecting and self.ticks:
            self._lost = self.lost = True
            for law in self.laws:
                law.lose()
            if self.drift is not None:
                self.drift.reset()
            if self.tally is not None:
                self.tally.skip()
        self._expecting = True

    def interfered(self) -> None:
        """Someone steps in: what follows says nothing of the model."""
        if self.drift is not None:
            self.drift.reset()
        if self.tally is not None:
            self.tally.stop()

    def abstracted(self, frame: Frame) -> int | None:
        """The state that a frame completes; None if its tick goes on."""
        return self._latcher.frame(frame.time_s, self._reader.frame(frame))

    def advance(self, bits: int | None) -> bool:
        """Moves every law on by the state just completed; False if none is.

        `violated` are the laws that break at it or, if frames were missing, before it.
        `lost` says that a frame was, and that not every law is settled again since.
        """
        if bits is not None:
            if self._latcher.missed:
                self._wait(self._latcher.missed)
            self._observed(bits)
            if self.tally is not None and not self._lost:
                self.tally.observe(bits)
            if self._lost:
                # Of this tick, or of one before it, not every frame was seen.
                for law in self.laws:
                    law.lose()
                self._lost = False
            elif self.lost:
                self.lost = any(math.isnan(law.point) for law in self.laws)
        self._expecting = False
        return bits is not None

    def foresee(self, frame: Frame) -> Watch:
        """What this would be after one more frame; this itself stays as it is."""
        ahead = copy.copy(self)
        ahead.laws = tuple(copy.copy(law) for law in self.laws)
        for law in ahead.laws:
            law.broken = False
        ahead.violated = ()
        ahead._move(self._latcher.peek(self._reader.peek(frame)))
        return ahead

    def _wait(self, ticks: int) -> None:
        """Lets time pass in which no frame came: the last state is read again."""
        if ticks > MAX_MISSED:
            raise SignalFault(
                f"no frame for {ticks * self.period_s:.3g} s: what was owed is lost"
            )
        for _ in range(ticks):
            self._observed(self.bits)
        if self.tally is not None:
            # The same state over and over was supposed, not seen.
            self.tally.skip()

    def _observed(self, bits: int) -> None:
        self._move(bits)
        if self.drift is not None:
            self.drift.observe(self.state)

    def _move(self, bits: int) -> None:
        place = self._known.get(bits) or self._unknown.get(bits) or self._widened(bits)
        self.ticks += 1
        self.bits, self.state = bits, place.state
        self.unknown = place.state is None
        self.unknown_seen += self.unknown
        broke = False
        for law, column in zip(self.laws, place.columns, strict=True):
            if law.read(column, place.nearest):
                broke = True
        if broke:
            self.violated = tuple(law.name for law in self.laws if law.broken)

    def _place(self, bits: int, state: int | None, nearest: tuple[int, ...]) -> _Place:
        return _Place(state, nearest, tuple(law.column(bits) for law in self.laws))

    def _widened(self, bits: int) -> _Place:
        """A state outside the chain: next to those fewest predicates away from it."""
        apart = {known: (known ^ bits).bit_count() for known in self._known}
        least = min(apart.values())
        near = [self._known[known] for known, d in apart.items() if d == least]
        found = self._place(
            bits, None, tuple(i for place in near for i in place.nearest)
        )
        if len(self._unknown) < MAX_REMEMBERED:
            self._unknown[bits] = found
        return found

    def evidence(self) -> tuple[str, ...]:
        """The predicates that hold."""
        found = self._words.get(self.bits)
        if found is None:
            texts = self.abstraction.texts
            found = tuple(text for i, text in enumerate(texts) if self.bits >> i & 1)
            if len(self._words) < MAX_REMEMBERED:
                self._words[self.bits] = found
        return found

    def notes(self) -> tuple[str, ...]:
        """What else is to be said of the last frame read."""
        notes: list[str] = []
        if self.unknown:
            name = self.abstraction.state_name(self.bits)
            notes.append(
                f"state {name} was never seen in training: widened to its nearest"
            )
        if self.lost:
            notes.append("a frame was lost: what the laws ask for is not known yet")
        if self.drift is not None and (drifted := self.drift.note()):
            notes.append(drifted)
        return tuple(notes)


def load_watch(
    model: Model,
    *,
    horizon_s: float,
    delta: float = 0.05,
    laws: Sequence[str] = (),
    provides: Sequence[str] | None = None,
    source: str = "the model",
) -> Watch:
    """Compiles a model's laws and solves their risks, once and for all frames.

    Args:
        model: A learned model with an abstraction.
        horizon_s: H of the guard's risk.
        delta: How improbable it may be that the bounds miss.
        laws: Names or formulas; by default those that the model was learned for.
        provides: What the source carries; laws over anything else do not apply.
        source: The model's file, for errors.
    """
    try:
        return _load(model, horizon_s, delta, laws or model.laws, provides, source)
    except InvalidInput as error:
        if laws:  # which do not stand in the model's file
            raise
        raise error.within(source) from error


def _load(
    model: Model,
    horizon_s: float,
    delta: float,
    laws: Sequence[str],
    provides: Sequence[str] | None,
    source: str,
) -> Watch:
    if model.abstraction is None:
        raise InvalidModel(
            "its states are not those of an abstraction, so no frame has one",
            source=source,
            mend="learn it from traces with --abstraction or --law",
        )
    abstraction = Abstraction.from_dict(dict(model.abstraction), source)
    period_s = model.period_s or abstraction.period_s
    if period_s is None:
        raise InvalidModel(
            "it does not say the time between two states",
            source=source,
            mend="learn it from traces that carry period_s",
        )
    if not laws and not is_riskless(model):
        raise InvalidModel(
            "it was learned for no law", source=source, mend="name laws with --law"
        )
    intervals = None if model.counts is None else model_intervals(model, delta)
    truth = truth_in_abstraction(model.chain, abstraction)
    _check_clocks(model.period_s, abstraction.period_s, horizon_s, source)
    if not horizon_s / period_s <= MAX_HORIZON:
        raise InvalidModel(
            f"a horizon of {horizon_s:g} s is more than {MAX_HORIZON} of its periods",
            source=source,
        )
    horizon_steps = max(1, round(horizon_s / period_s))
    watches: list[LawWatch] = []
    not_applicable: list[tuple[str, str]] = []
    own = {part.name: part for t in model.laws for part in _parts(t, abstraction)}
    for law in (part for text in laws for part in _named(text, own, abstraction)):
        lacking = sorted(set(law.signals) - set(provides)) if provides else []
        if lacking:
            not_applicable.append((law.name, f"no {', '.join(lacking)}"))
            continue
        if law.period(period_s) != period_s:
            raise InvalidModel(
                f"law {law.name} needs a clock of {law.clock_s} s, and the model's"
                f" states are {period_s:g} s apart",
                source=source,
                mend="learn the model with an abstraction of that period_s",
            )
        automaton = compile_for(law.formula, abstraction, period_s)
        letters = letters_of_states(model.chain, automaton, truth)
        table = solve_risk(
            model.chain, letters, automaton, horizon_steps, intervals,
            visits=model.visits,
        )  # fmt: skip
        likely = likely_for(
            model.likely, repr(law.formula), horizon_s, automaton, letters, source
        )
        watches.append(LawWatch(law, table, abstraction, period_s, likely))
    drift = Drift.of(model, delta)
    return Watch(model, abstraction, watches, period_s, not_applicable, drift)


def _check_clocks(
    period_s: float | None, ticks_s: float | None, horizon_s: float, source: str
) -> None:
    """Refuses times that do not fit each other: one of them has the wrong unit."""
    if not 0 < horizon_s < math.inf:
        raise InvalidInput(f"a horizon of {horizon_s:g} s looks nowhere ahead")
    if period_s and ticks_s and not math.isclose(period_s, ticks_s):
        raise InvalidModel(
            f"its states are {period_s:g} s apart, and those of its abstraction"
            f" {ticks_s:g} s",
            source=source,
            mend="learn it again with that abstraction",
        )
    apart_s = period_s or ticks_s or 0.0
    if apart_s > horizon_s:
        raise InvalidModel(
            f"its states are {apart_s:g} s apart, which is more than the horizon of"
            f" {horizon_s:g} s",
            source=source,
            mend="give period_s in seconds, or a longer horizon",
        )


def _named(text: str, own: Mapping[str, Law], abstraction: Abstraction) -> list[Law]:
    """Laws by a name that the model itself gives, or else as the book has them."""
    return [own[text]] if text in own else _parts(text, abstraction)


def _parts(text: str, abstraction: Abstraction) -> list[Law]:
    """The laws that a name or formula stands for, each with a monitor of its own."""
    laws = find_laws(text, vocabulary=abstraction.vocabulary)
    return [part for law in laws for part in law.parts or (law,)]
