"""What a guard watches: the state of the world in its model, and of each law.

Everything that can be worked out beforehand is: reading a frame is one encoding, then
two look-ups a law.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

from forewarn.abstractions.errors import InvalidInput, InvalidModel, SignalFault
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.states.abstraction import Abstraction
from forewarn.abstractions.states.latching import Latcher
from forewarn.monitors.chains.intervals import model_intervals
from forewarn.monitors.chains.model import Model
from forewarn.monitors.guarding.decision import Risk
from forewarn.monitors.guarding.drift import Drift
from forewarn.monitors.laws.lawbook import Law, find_laws
from forewarn.monitors.risk.calibration import Calibration
from forewarn.monitors.risk.evidence import (
    compile_for,
    letters_of_states,
    truth_in_abstraction,
)
from forewarn.monitors.risk.tables import RiskTable, solve_risk

MAX_REMEMBERED = 10_000
"""How many states are remembered with what was worked out for them."""

MAX_HORIZON = 100_000
"""The longest horizon in steps of the model."""

MAX_MISSED = 1000
"""For how many ticks without a frame a law's clock goes on by itself."""


class LawWatch:
    """One law beside the model: its monitor's state, and the risk there.

    `low`, `point` and `high` are the guard's risk after the last frame read. A law
    broken there, or while no frame came before it, is `broken`; its risk is one at
    that moment, and its monitor is armed again.
    """

    __slots__ = (
        "automaton", "broken", "high", "law", "low", "name", "point", "state",
        "_columns", "_decide", "_left_s", "_next", "_risks", "_table", "_violated",
    )  # fmt: skip

    def __init__(
        self, law: Law, table: RiskTable, abstraction: Abstraction, period_s: float
    ) -> None:
        automaton = table.automaton
        self.law, self.automaton, self.name = law, automaton, law.name
        self._violated = automaton.violated
        self._next: list[list[int]] = automaton.step[:, table.letters].tolist()
        self._columns = {letter: i for i, letter in enumerate(automaton.letters)}
        self._decide = [abstraction.decides(p) for p in automaton.propositions]
        self._table = table
        self.correct(Calibration())
        self._left_s = [
            due * period_s if pending else None
            for due, pending in zip(
                automaton.due.tolist(), automaton.pending.tolist(), strict=True
            )
        ]
        self.reset()

    def correct(self, curve: Calibration) -> None:
        """Says from now on what the chain's risks have meant."""
        table = self._table
        low = table.point if table.low is None else table.low
        high = table.point if table.high is None else table.high
        bounds = [curve(each).tolist() for each in (low, table.point, high)]
        # Of each of its monitor's states: the bounds in each state of the chain.
        self._risks = [
            list(zip(*rows, strict=True)) for rows in zip(*bounds, strict=True)
        ]

    def reset(self) -> None:
        """Begins a new episode."""
        self.state = self.automaton.initial
        self.broken = False
        # Nothing is known before the first frame, and nothing passes.
        self.low, self.point, self.high = 0.0, math.nan, 1.0

    def read(self, state: int) -> bool:
        """Reads a known state of the chain; True if that breaks the law."""
        after = self._next[self.state][state]
        if after == self._violated:
            return self._break()
        self.state = after
        self.low, self.point, self.high = self._risks[after][state]
        return False

    def read_unknown(self, bits: int, nearest: Sequence[int]) -> bool:
        """Reads a state outside the chain: the risk is the worst of the nearest."""
        letter = sum(decide(bits) << i for i, decide in enumerate(self._decide))
        column = self._columns.get(letter)
        if column is None:
            raise SignalFault("the predicates hold in a combination that cannot be")
        after = int(self.automaton.step[self.state, column])
        if after == self._violated:
            return self._break()
        self.state = after
        known = [self._risks[after][state] for state in nearest]
        lows, points, highs = zip(*known, strict=True)
        self.low, self.point, self.high = min(lows), max(points), max(highs)
        return False

    def _break(self) -> bool:
        self.state, self.broken = self.automaton.initial, True
        self.low = self.point = self.high = 1.0
        return True

    @property
    def risk(self) -> Risk:
        """The guard's risk after the last frame read."""
        return Risk(self.low, self.point, self.high)

    @property
    def left_s(self) -> float | None:
        """Time until what is owed goes unmet at the soonest."""
        return self._left_s[self.state]

    def sentence(self, horizon_s: float) -> str:
        """Why a person should care, in one sentence."""
        if self.broken:
            return f"{self.name} was broken"
        left_s = self.left_s
        owed = "" if left_s is None else f", with {left_s:.3g} s left of what is owed"
        return (
            f"{self.name} is at risk of {self.point:.3g} within {horizon_s:g} s{owed}"
        )


class Watch:
    """A model's states and laws, read frame by frame.

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
        self._known = {
            abstraction.bits(name): i
            for i, name in enumerate(chain.states)
            if i != chain.end and (visits is None or visits[i] > 0)
        }
        if not self._known:
            raise InvalidModel("the model has no state that was ever left in training")
        self._encode = abstraction.encode
        self._latcher = Latcher(period_s, abstraction.latches, abstraction.lags_s)
        self._nearest: dict[int, tuple[int, ...]] = {}
        self._words: dict[int, tuple[str, ...]] = {}
        self.unknown_seen = 0
        self.reset()

    def reset(self) -> None:
        """Begins a new episode."""
        for law in self.laws:
            law.reset()
        self._latcher.reset()
        if self.drift is not None:
            self.drift.reset()
        self.violated: tuple[str, ...] = ()
        self.ticks = 0
        self.bits = 0
        self.state: int | None = None
        self.unknown = False

    def read(self, frame: Frame) -> bool:
        """Reads a frame; False if it only fills up a tick that goes on."""
        bits = self._latcher.frame(frame.time_s, self._encode(frame.values))
        if bits is None:
            return False
        self.advance(bits)
        return True

    def abstracted(self, frame: Frame) -> int | None:
        """The state that a frame completes; None if its tick goes on."""
        return self._latcher.frame(frame.time_s, self._encode(frame.values))

    def advance(self, bits: int) -> None:
        """Moves every law on by the state just completed.

        `violated` are the laws that break at it or, if frames were missing, before it.
        """
        if self.violated:
            self.violated = ()
            for law in self.laws:
                law.broken = False
        if self._latcher.missed:
            self._wait(self._latcher.missed)
        self._move(bits)
        if self.drift is not None:
            self.drift.observe(self.state)

    def foresee(self, frame: Frame) -> Watch:
        """What this would be after one more frame; this itself stays as it is."""
        ahead = copy.copy(self)
        ahead.laws = tuple(copy.copy(law) for law in self.laws)
        for law in ahead.laws:
            law.broken = False
        ahead.violated = ()
        ahead._move(self._latcher.peek(self._encode(frame.values)))
        return ahead

    def _wait(self, ticks: int) -> None:
        """Lets time pass in which no frame came: the last state is read again."""
        if ticks > MAX_MISSED:
            raise SignalFault(
                f"no frame for {ticks * self.period_s:.3g} s: what was owed is lost"
            )
        for _ in range(ticks):
            self._move(self.bits)
            if self.drift is not None:
                self.drift.observe(self.state)

    def _move(self, bits: int) -> None:
        self.ticks += 1
        self.bits = bits
        self.state = state = self._known.get(bits)
        self.unknown = state is None
        broke = False
        if state is None:
            self.unknown_seen += 1
            nearest = self._nearest_to(bits)
            for law in self.laws:
                broke |= law.read_unknown(bits, nearest)
        else:
            for law in self.laws:
                if law.read(state):
                    broke = True
        if broke:
            self.violated = tuple(law.name for law in self.laws if law.broken)

    def _nearest_to(self, bits: int) -> tuple[int, ...]:
        """The known states that differ from this one in the fewest predicates."""
        found = self._nearest.get(bits)
        if found is None:
            apart = {known: (known ^ bits).bit_count() for known in self._known}
            least = min(apart.values())
            found = tuple(self._known[k] for k, d in apart.items() if d == least)
            if len(self._nearest) < MAX_REMEMBERED:
                self._nearest[bits] = found
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
        if not self.unknown and (self.drift is None or self.drift.found is None):
            return ()
        notes: list[str] = []
        if self.unknown:
            name = self.abstraction.state_name(self.bits)
            notes.append(
                f"state {name} was never seen in training: widened to its nearest"
            )
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
    if not laws:
        raise InvalidModel(
            "it was learned for no law", source=source, mend="name laws with --law"
        )
    intervals = None if model.counts is None else model_intervals(model, delta)
    truth = truth_in_abstraction(model.chain, abstraction)
    if not horizon_s / period_s <= MAX_HORIZON:
        raise InvalidModel(
            f"a horizon of {horizon_s:g} s is more than {MAX_HORIZON} of its periods",
            source=source,
        )
    horizon_steps = max(1, round(horizon_s / period_s))
    watches: list[LawWatch] = []
    not_applicable: list[tuple[str, str]] = []
    for law in (part for text in laws for part in _parts(text, abstraction)):
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
        watches.append(LawWatch(law, table, abstraction, period_s))
    drift = Drift.of(model, delta)
    return Watch(model, abstraction, watches, period_s, not_applicable, drift)


def _parts(text: str, abstraction: Abstraction) -> list[Law]:
    """The laws that a name or formula stands for, each with a monitor of its own."""
    laws = find_laws(text, vocabulary=abstraction.vocabulary)
    return [part for law in laws for part in law.parts or (law,)]
