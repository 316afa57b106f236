"""What a guard watches: one model or several, each with its laws, frame by frame."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

from forewarn.abstractions.frame import Frame
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary
from forewarn.monitors.guarding.watch.chain import ChainWatch
from forewarn.monitors.guarding.watch.law import LawWatch

Bits = tuple[int | None, ...]
"""Of each model the state that a frame completes; None if its tick goes on."""


States = tuple[int | None, ...]
"""Of each model the state of its chain; None for one outside it."""


class Watch:
    """The states of one model or more, and all their laws, read frame by frame.

    A frame is expected, taken in and then read by every law. A frame that is expected
    and does not come that far, whatever the reason, is lost: then no law's state is
    known until what follows settles it.

    Args:
        parts: The models, each with its laws; all have one clock.
        not_applicable: The laws that the source cannot answer, and why.
    """

    def __init__(
        self,
        parts: Sequence[ChainWatch],
        not_applicable: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.parts = tuple(parts)
        self.not_applicable = tuple(not_applicable)
        self.period_s = parts[0].period_s
        self.signals = tuple(
            dict.fromkeys(name for part in parts for name in part.abstraction.signals)
        )
        self.laws = tuple(law for part in parts for law in part.laws)
        self.unknown_seen = 0
        self.reset()

    @property
    def vocabulary(self) -> Vocabulary | None:
        """What the signals are."""
        return self.parts[0].abstraction.vocabulary

    @property
    def texts(self) -> tuple[str, ...]:
        """The predicates of all models, each once."""
        return tuple(
            dict.fromkeys(t for part in self.parts for t in part.abstraction.texts)
        )

    def reset(self) -> None:
        """Begins a new episode."""
        for part in self.parts:
            part.reset()
        self.violated: tuple[str, ...] = ()
        self.ticks = 0
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
            for part in self.parts:
                part.lose()
        self._expecting = True

    def interfered(self) -> None:
        """Someone steps in: what follows says nothing of the models."""
        for part in self.parts:
            part.interfered()

    def abstracted(self, frame: Frame) -> Bits:
        """The states that a frame completes."""
        return tuple([part.abstracted(frame) for part in self.parts])

    def advance(self, bits: Bits) -> bool:
        """Moves every law on by the states just completed; False if none is.

        `violated` are the laws that break at it or, if frames were missing, before it.
        `lost` says that a frame was, and that not every law is settled again since.
        """
        broke, ticks = False, 0
        for part, state in zip(self.parts, bits, strict=True):
            if state is not None:
                broke |= part.advance(state, self._lost)
                ticks = part.missed + 1
        if ticks:
            self._ticked(ticks)
            if broke:
                self.violated = tuple(law.name for law in self.laws if law.broken)
            if self._lost:
                self._lost = False
            elif self.lost:
                self.lost = any(math.isnan(law.point) for law in self.laws)
        self._expecting = False
        return ticks > 0

    def _ticked(self, ticks: int) -> None:
        # While no frame came the last states were read again.
        self.unknown_seen += (ticks - 1) * self.unknown
        self.unknown = any([part.unknown for part in self.parts])
        self.unknown_seen += self.unknown
        self.ticks += ticks

    def foresee(self, frame: Frame) -> Watch:
        """What this would be after one more frame; this itself stays as it is."""
        ahead = copy.copy(self)
        ahead.parts = tuple(part.foresee(frame) for part in self.parts)
        ahead.laws = tuple(law for part in ahead.parts for law in part.laws)
        ahead.violated = tuple(law.name for law in ahead.laws if law.broken)
        ahead._ticked(1)
        return ahead

    @property
    def states(self) -> States:
        """The state of each model's chain; None for one outside it."""
        return tuple([part.state for part in self.parts])

    def evidence(self, law: LawWatch) -> tuple[str, ...]:
        """The predicates that hold, of those that tell of a law."""
        (part,) = [part for part in self.parts if law in part.laws]
        return part.evidence()

    @property
    def holding(self) -> int:
        """Which of `texts` hold, by bits: the first is the lowest."""
        places = {text: i for i, text in enumerate(self.texts)}
        held = {text for part in self.parts for text in part.evidence()}
        return sum(1 << places[text] for text in held)

    def forget_drift(self) -> None:
        """What earlier episodes showed of the models no longer counts."""
        for part in self.parts:
            if part.drift is not None:
                part.drift.forget()

    def drifted(self) -> tuple[str, ...]:
        """What is to be said of the models that no longer fit."""
        drifts = [part.drift for part in self.parts if part.drift is not None]
        return tuple([note for drift in drifts if (note := drift.note())])

    def notes(self) -> tuple[str, ...]:
        """What else is to be said of the last frame read."""
        notes = [part.unseen(part.bits) for part in self.parts if part.unknown]
        if self.lost:
            notes.append("a frame was lost: what the laws ask for is not known yet")
        return (*notes, *self.drifted())
