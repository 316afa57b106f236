"""One model of a watch: where the world is in its chain, and its laws there.

Everything that can be worked out beforehand is: reading a frame is one encoding, then
two look-ups a law.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import NamedTuple

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.errors import InvalidModel, SignalFault
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.latching import Latcher
from forewarn.monitors.chains.learning import LiveTally
from forewarn.monitors.chains.model import Model
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


class ChainWatch:
    """A model's states, and the laws that are watched by it, tick by tick.

    Args:
        model: The chain and where it was learned.
        abstraction: Turns frames into its states.
        laws: The laws with their risks.
        period_s: The clock of the chain and of the laws' monitors.
        drift: Says whether the model still fits.
    """

    def __init__(
        self,
        model: Model,
        abstraction: Abstraction,
        laws: Sequence[LawWatch],
        period_s: float,
        drift: Drift | None = None,
    ) -> None:
        self.model, self.abstraction, self.laws = model, abstraction, tuple(laws)
        self.period_s, self.drift = period_s, drift
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
        self.bits = 0
        self.state: int | None = None
        self.unknown = False

    def lose(self) -> None:
        """A frame was lost: what came of it is not known."""
        for law in self.laws:
            law.lose()
        if self.drift is not None:
            self.drift.reset()
        if self.tally is not None:
            self.tally.skip()

    def interfered(self) -> None:
        """Someone steps in: what follows says nothing of the model."""
        if self.drift is not None:
            self.drift.reset()
        if self.tally is not None:
            self.tally.stop()

    def abstracted(self, frame: Frame) -> int | None:
        """The state that a frame completes; None if its tick goes on."""
        return self._latcher.frame(frame.time_s, self._reader.frame(frame))

    @property
    def missed(self) -> int:
        """How many ticks passed without a frame before the state just completed."""
        return self._latcher.missed

    def advance(self, bits: int, lost: bool) -> bool:
        """Moves every law on by the state just completed; True if one breaks.

        Args:
            bits: The state.
            lost: Whether a frame before it was, so that it is not known what came.
        """
        broke = self._wait(self.missed) if self.missed else False
        broke |= self._observed(bits)
        if not lost:
            if self.tally is not None:
                self.tally.observe(bits)
            return broke
        # Of this tick, or of one before it, not every frame was seen.
        for law in self.laws:
            law.lose()
        return broke

    def foresee(self, frame: Frame) -> ChainWatch:
        """What this would be after one more frame; this itself stays as it is."""
        ahead = copy.copy(self)
        ahead.laws = tuple(copy.copy(law) for law in self.laws)
        for law in ahead.laws:
            law.broken = False
        ahead._move(self._latcher.peek(self._reader.peek(frame)))
        return ahead

    def _wait(self, ticks: int) -> bool:
        """Lets time pass in which no frame came: the last state is read again."""
        if ticks > MAX_MISSED:
            raise SignalFault(
                f"no frame for {ticks * self.period_s:.3g} s: what was owed is lost"
            )
        broke = False
        for _ in range(ticks):
            broke |= self._observed(self.bits)
        if self.tally is not None:
            # The same state over and over was supposed, not seen.
            self.tally.skip()
        return broke

    def _observed(self, bits: int) -> bool:
        broke = self._move(bits)
        if self.drift is not None:
            self.drift.observe(self.state)
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

    def unseen(self, bits: int) -> str:
        """What is to be said of a state outside the chain."""
        holds = self.abstraction.in_short(bits)
        return f"a state never seen in training ({holds}): widened to its nearest"

    def evidence(self) -> tuple[str, ...]:
        """The predicates that hold."""
        found = self._words.get(self.bits)
        if found is None:
            found = self.abstraction.holding(self.bits)
            if len(self._words) < MAX_REMEMBERED:
                self._words[self.bits] = found
        return found
