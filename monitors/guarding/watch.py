"""Watches one model or several, each with its laws, frame by frame."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.arguments import checked
from forewarn.abstractions.errors import InvalidInput, InvalidModel, TooLarge
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary
from forewarn.monitors.chains.intervals import model_intervals
from forewarn.monitors.chains.model import Model, is_riskless
from forewarn.monitors.guarding.chain import ChainWatch, LawWatch
from forewarn.monitors.guarding.decision import Risk
from forewarn.monitors.laws.automaton import Automaton
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.risk.calibration import likely_for
from forewarn.monitors.risk.evidence import (
    compile_for,
    dealt,
    laws_of,
    letters_by_predicates,
    needed_abstraction,
    parts_of,
    told_apart,
)
from forewarn.monitors.risk.first_visits import visits_for
from forewarn.monitors.risk.tables import solve_risk

Bits = tuple[int | None, ...]
"""For each model, the state if a frame completed a tick, otherwise None."""


States = tuple[int | None, ...]
"""For each model, the state of its chain; None for a state outside the chain."""


@checked
class Watch:
    """Tracks the states of one or more models and of all their laws, frame by frame.

    A frame is expected, accepted and then read by every law. An expected frame that is
    not read for any reason is lost: the states of the laws are then unknown until later
    frames determine them.

    Args:
        parts: The models, each with its laws; all have the same clock.
        not_applicable: The laws that need signals that the source lacks, each with the
            reason.
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
        """The vocabulary of the signals."""
        return self.parts[0].abstraction.vocabulary

    @property
    def texts(self) -> tuple[str, ...]:
        """All predicate texts of the models' states, without duplicates."""
        return tuple(
            dict.fromkeys(t for part in self.parts for t in part.abstraction.words)
        )

    def anew(self) -> Watch:
        """Returns a copy that is ready for its first run."""
        return Watch([part.anew() for part in self.parts], self.not_applicable)

    def reset(self) -> None:
        """Begins a new run."""
        for part in self.parts:
            part.reset()
        self.violated: tuple[str, ...] = ()
        self.ticks = 0
        self.unknown = False
        self._expecting = self._lost = self.lost = False

    def read(self, frame: Frame) -> bool:
        """Reads a frame; returns False if the current tick is not complete."""
        self.expect()
        return self.advance(self.abstracted(frame))

    def expect(self) -> None:
        """Announces a frame; the previous one is lost if it was not read completely."""
        if self.violated:
            self.violated = ()
            for law in self.laws:
                law.broken = False
        # Frames before the first tick do not belong to the run yet.
        if self._expecting and self.ticks:
            self._lost = self.lost = True
            for part in self.parts:
                part.lose()
        self._expecting = True

    def interfered(self) -> None:
        """Records that an intervention begins; later frames do not count as evidence
        about the models.
        """
        for part in self.parts:
            part.interfered()

    def abstracted(self, frame: Frame) -> Bits:
        """Reads a frame; returns each model's state if the frame completes a tick."""
        return tuple([part.abstracted(frame) for part in self.parts])

    def advance(self, bits: Bits) -> bool:
        """Advances every law by the models' states; returns False if there are none.

        `violated` lists the laws that break at this tick or, if frames were missing,
        before it. `lost` means that a frame was lost and some law's state is still
        unknown.
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
        # In ticks without a frame, the last states were read again.
        self.unknown_seen += (ticks - 1) * self.unknown
        self.unknown = any([part.unknown for part in self.parts])
        self.unknown_seen += self.unknown
        self.ticks += ticks

    def foresee(self, frame: Frame) -> Watch:
        """Returns a copy advanced by one more frame; the original is unchanged."""
        ahead = copy.copy(self)
        ahead.parts = tuple(part.foresee(frame) for part in self.parts)
        ahead.laws = tuple(law for part in ahead.parts for law in part.laws)
        ahead.violated = tuple(law.name for law in ahead.laws if law.broken)
        ahead._ticked(1)
        return ahead

    @property
    def states(self) -> States:
        """The state of each model's chain; None for a state outside the chain."""
        return tuple([part.state for part in self.parts])

    @property
    def risks(self) -> dict[str, Risk]:
        """The risk of every law, by name; laws whose risk is unknown are left out."""
        return {law.name: law.risk for law in self.laws if math.isfinite(law.point)}

    def evidence(self, law: LawWatch) -> tuple[str, ...]:
        """Returns the predicates that are true now, in the model to which a law
        belongs.
        """
        (part,) = [part for part in self.parts if law in part.laws]
        return part.evidence()

    @property
    def holding(self) -> int:
        """The `texts` that are true, as bits; the first text is the lowest bit."""
        places = {text: i for i, text in enumerate(self.texts)}
        held = {text for part in self.parts for text in part.holding()}
        return sum(1 << places[text] for text in held)

    def notes(self) -> tuple[str, ...]:
        """Returns remarks about the last frame."""
        notes = [part.unseen(part.bits) for part in self.parts if part.unknown]
        if self.lost:
            notes.append(
                "a frame was lost, so it is not known yet which obligations are pending"
            )
        return tuple(notes)


MAX_HORIZON = 100_000
"""The maximum horizon, in steps of the model."""

MAX_STATES = 10_000
"""The maximum number of states of all laws' monitors together; more would take more
than a few seconds to compile and to solve.
"""


@checked
def load_watch(
    model: Model | Sequence[Model],
    *,
    horizon_s: float,
    delta: float = 0.05,
    laws: Sequence[str] = (),
    provides: Sequence[str] | None = None,
    source: str = "the model",
) -> Watch:
    """Compiles a model's laws and precomputes their risks.

    Args:
        model: A learned model with an abstraction, or several, each for its own laws.
        horizon_s: The horizon H of the risk, in seconds.
        delta: The error probability of the bounds.
        laws: Names or formulas; by default, the laws that the models were learned for.
        provides: The signals that the source provides; laws over other signals do not
            apply.
        source: The models' file, for error messages.
    """
    models = (model,) if isinstance(model, Model) else tuple(model)
    if not models:
        raise InvalidInput("there is no model", source="load_watch: model")
    asked = _Asked(
        models,
        horizon_s,
        delta,
        tuple(laws),
        None if provides is None else frozenset(provides),
        source,
    )
    return _solved(asked).anew()


@dataclass(frozen=True, slots=True)
class _Asked:
    """The arguments of `load_watch` as a cache key, which compares models by
    identity.
    """

    models: tuple[Model, ...]
    horizon_s: float
    delta: float
    laws: tuple[str, ...]
    provides: frozenset[str] | None
    source: str = field(compare=False)


@lru_cache(maxsize=4)  # the runs of a campaign use one model or a few
def _solved(wanted: _Asked) -> Watch:
    """Returns a template from which watches are copied; the template itself reads no
    frames.
    """
    models, provides, source = wanted.models, wanted.provides, wanted.source
    laws, horizon_s = wanted.laws, wanted.horizon_s
    asked = laws or [text for each in models for text in each.laws]
    try:
        learned = [_Learned.of(each, source) for each in models]
        if not asked and not all(map(is_riskless, models)):
            raise InvalidModel(
                "the model was not learned for any law",
                source=source,
                mend="choose laws with --law",
            )
        _check_alike(learned, source)
        for each in learned:
            each.check_clocks(horizon_s)
        not_applicable: list[tuple[str, str]] = []
        watched: list[Law] = []
        for law in (law for text in asked for law in _named(text, learned)):
            lacking = sorted(set(law.signals) - provides) if provides else []
            if lacking:
                not_applicable.append((law.name, f"no {', '.join(lacking)}"))
            else:
                watched.append(law)
        for each, of in zip(learned, dealt(models, watched), strict=True):
            each.watched.extend(of)
        # If there are several models, only those with a law to watch are used.
        watching = [each for each in learned if each.watched] or learned
        parts: list[ChainWatch] = []
        for each in watching:
            used = sum(law.automaton.n for part in parts for law in part.laws)
            parts.append(each.watch(horizon_s, wanted.delta, MAX_STATES - used))
    except InvalidInput as error:
        if laws:  # the laws do not come from the model's file
            raise
        raise error.within(source) from error
    return Watch(parts, not_applicable)


def _check_alike(learned: Sequence[_Learned], source: str) -> None:
    """Rejects models that cannot share one source of frames."""
    first = learned[0]
    for each in learned[1:]:
        apart = not math.isclose(each.period_s, first.period_s)
        if apart or each.abstraction.vocabulary != first.abstraction.vocabulary:
            differs = "clock" if apart else "vocabulary"
            raise InvalidModel(
                f"the models in the file differ in their {differs}",
                source=source,
                mend="learn the models from the same traces",
            )


def _named(text: str, learned: Sequence[_Learned]) -> list[Law]:
    """Returns the laws with a name, looked up first in the models and then in the law
    book.
    """
    own = told_apart(each.own[text] for each in learned if text in each.own)
    return own or parts_of(text, learned[0].abstraction)


@dataclass(frozen=True, slots=True, eq=False)
class _Learned:
    """A model with the laws that are watched with it.

    Args:
        model: The model.
        abstraction: The model's abstraction.
        period_s: The time between two states, in seconds.
        own: The laws that the model was learned for, by name.
        source: The model's file, for error messages.
        watched: The laws that are watched with the model.
    """

    model: Model
    abstraction: Abstraction
    period_s: float
    own: Mapping[str, Law]
    source: str
    watched: list[Law] = field(default_factory=list)

    @classmethod
    def of(cls, model: Model, source: str) -> _Learned:
        abstraction = needed_abstraction(model, source)
        period_s = model.period_s or abstraction.period_s
        if period_s is None:
            raise InvalidModel(
                "the model does not state the time between two states",
                source=source,
                mend="learn the model from traces with period_s",
            )
        own = {law.name: law for law in laws_of(model)}
        return cls(model, abstraction, period_s, own, source)

    def watch(self, horizon_s: float, delta: float, most: int) -> ChainWatch:
        """Compiles the laws and precomputes their risks.

        Args:
            horizon_s: The horizon H of the risk, in seconds.
            delta: The error probability of the bounds.
            most: The maximum number of states of all laws' monitors together.
        """
        model = self.model
        automata = list(self._compiled(most))
        intervals = None if model.counts is None else model_intervals(model, delta)
        steps = max(1, round(horizon_s / self.period_s))
        watches: list[LawWatch] = []
        for law, automaton in zip(self.watched, automata, strict=True):
            letters = letters_by_predicates(model.chain, automaton, self.abstraction)
            kept = repr(law.formula), horizon_s, automaton, letters, self.source
            table = solve_risk(
                model.chain, letters, automaton, steps, intervals,
                first=visits_for(model, *kept), delta=delta,
            )  # fmt: skip
            likely = likely_for(model.likely, *kept)
            watches.append(
                LawWatch(law, table, self.abstraction, self.period_s, likely)
            )
        return ChainWatch(model, self.abstraction, watches, self.period_s)

    def _compiled(self, most: int) -> Iterator[Automaton]:
        """Yields the laws' monitors; raises an error as soon as they have too many
        states.
        """
        for law in self.watched:
            self._check_clock(law)
            automaton = compile_for(
                law.formula, self.abstraction, self.period_s, max_states=MAX_STATES
            )
            most -= automaton.n
            if most < 0:
                raise TooLarge(
                    f"the monitors of the guard's laws need more than {MAX_STATES} "
                    "states in all",
                    mend="watch fewer laws or laws with shorter times, or use a "
                    "coarser clock",
                )
            yield automaton

    def _check_clock(self, law: Law) -> None:
        if law.period(self.period_s) != self.period_s:
            raise InvalidModel(
                f"the law {law.name} needs a clock of {law.clock_s} s, but "
                f"the model's states are {self.period_s:g} s apart",
                source=self.source,
                mend=(
                    "learn the model with an abstraction whose period_s is "
                    f"{law.clock_s}"
                ),
            )

    def check_clocks(self, horizon_s: float) -> None:
        """Rejects inconsistent times, which indicate a wrong unit."""
        period_s, ticks_s = self.model.period_s, self.abstraction.period_s
        if not 0 < horizon_s < math.inf:
            raise InvalidInput(
                f"the horizon is {horizon_s:g} s, but must be above zero"
            )
        if period_s and ticks_s and not math.isclose(period_s, ticks_s):
            raise InvalidModel(
                f"the model's states are {period_s:g} s apart, but its "
                f"abstraction's are {ticks_s:g} s apart",
                source=self.source,
                mend="learn the model again with that abstraction",
            )
        if self.period_s > horizon_s:
            raise InvalidModel(
                f"the model's states are {self.period_s:g} s apart, which is more "
                f"than the horizon of {horizon_s:g} s",
                source=self.source,
                mend="give period_s in seconds, or a longer horizon",
            )
        if not horizon_s / self.period_s <= MAX_HORIZON:
            raise InvalidModel(
                f"a horizon of {horizon_s:g} s is more than {MAX_HORIZON} periods "
                "of the model",
                source=self.source,
            )
