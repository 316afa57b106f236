"""A watch from a model: its laws compiled and their risks solved, once and for all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from forewarn.abstractions.errors import InvalidInput, InvalidModel
from forewarn.abstractions.states.abstraction import Abstraction
from forewarn.monitors.chains.intervals import model_intervals
from forewarn.monitors.chains.model import Model
from forewarn.monitors.chains.riskless import is_riskless
from forewarn.monitors.guarding.drift import Drift
from forewarn.monitors.guarding.watch.law import LawWatch
from forewarn.monitors.guarding.watch.watch import Watch
from forewarn.monitors.laws.lawbook import Law, find_laws
from forewarn.monitors.risk.evidence import (
    compile_for,
    letters_of_states,
    truth_in_abstraction,
)
from forewarn.monitors.risk.likely import likely_for
from forewarn.monitors.risk.tables import solve_risk

MAX_HORIZON = 100_000
"""The longest horizon in steps of the model."""


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
