"""What a guard watches: the state of the world in its model, and of each law.

Everything that can be worked out beforehand is: reading a frame is one encoding, then
two look-ups a law.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import NamedTuple

from forewarn.abstractions.errors import InvalidModel, SignalFault
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.states.abstraction import Abstraction
from forewarn.abstractions.states.latching import Latcher
from forewarn.monitors.chains.model import Model
from forewarn.monitors.chains.tallying import LiveTally
from forewarn.monitors.guarding.drift import Drift
from forewarn.monitors.guarding.watch.law import LawWatch

MAX_REMEMBERED = 10_000
"""How many states are remembered with what was worked out for them."""

MAX_MISSED = 1000
"""For how many ticks without a frame a law's clock goes on by itself."""


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
