"""Predicates of a household robot, over what it is about to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

from forewarn.abstractions.frame import Value
from forewarn.monitors.rules.event import Event
from forewarn.monitors.rules.libraries.household.hazards import (
    HAZARDS,
    KINDS_OF_HAZARD,
    Asked,
    acts,
    holds_a,
    holds_liquid,
    is_at,
)
from forewarn.monitors.rules.libraries.household.state import (
    VERBS,
    Household,
    liquid_of,
    spelling,
    target_of,
    thing_of,
)
from forewarn.monitors.rules.predicates import Library, Predicate, library_of

_HELD = ("brittle", "electrical", "food", "metal", "soft")
_TARGET = ("drain", "electrical", "heater", "store", "table")
_VERBS = {
    "puts": ("put", "What is in the hand is about to be put in or on something."),
    "pours": ("pour", "What is in the hand is about to be poured out."),
    "drops": ("drop", "What is in the hand is about to be dropped."),
    "turns_on": ("turn_on", "Something is about to be switched on."),
    "slices": ("slice", "Something is about to be sliced."),
    "opens": ("open", "Something is about to be opened."),
    "closes": ("close", "Something is about to be closed."),
}


def _any_of(hazards: Sequence[Asked]) -> Asked:
    return lambda event, state: any(asked(event, state) for asked in hazards)


def _verb(verb: str) -> Asked:
    if verb in ("put", "pour", "drop"):
        return lambda event, state: acts(event, state, verb)
    return lambda event, state: event.action == verb


def _held_is(kind: str) -> Asked:
    return lambda event, state: holds_a(event, state, kind)


def _target_is(kind: str) -> Asked:
    return lambda event, state: is_at(event, state, kind)


def _asked() -> Iterator[tuple[str, str, Asked]]:
    for name, (doc, asked) in HAZARDS.items():
        yield name, doc, asked
    for name, (doc, parts) in KINDS_OF_HAZARD.items():
        yield name, doc, _any_of([HAZARDS[part][1] for part in parts])
    for name, (verb, doc) in _VERBS.items():
        yield name, doc, _verb(verb)
    for kind in _HELD:
        yield f"held_{kind}", f"What is in the hand is {_SAID[kind]}.", _held_is(kind)
    yield "held_filled", "What is in the hand holds a liquid.", holds_liquid
    for kind in _TARGET:
        doc = f"What is acted on, or gone to last, is {_SAID[kind]}."
        yield f"target_{kind}", doc, _target_is(kind)
    yield "finishes", "The run is over.", lambda e, s: e.moment == "finish"


_SAID = {
    "bin": "a bin",
    "brittle": "brittle",
    "cloth": "of cloth",
    "drain": "where water runs",
    "electrical": "electrical",
    "food": "food",
    "fridge": "a fridge",
    "heater": "a heater",
    "metal": "of metal",
    "oven": "a microwave",
    "paper": "of paper",
    "plant": "a plant",
    "soft": "soft or light",
    "stove": "a stove",
    "store": "a drawer, box or cabinet",
    "table": "a table",
    "tableware": "tableware",
    "unclean": "unclean",
    "vessel": "a vessel",
}


def _predicate(name: str, doc: str, asked: Asked) -> Predicate:
    def holds(event: Event, state: Household, history: Sequence[Event]) -> bool:
        return asked(event, state)

    return Predicate(name, doc, holds)


_FIELDS: Mapping[str, Callable[[Event, Household], Value]] = {
    "action": lambda event, state: event.action or None,
    "object": lambda event, state: _spelt(thing_of(event)),
    "liquid": lambda event, state: liquid_of(event) or None,
    "held": lambda event, state: _spelt(state.held),
    "target": lambda event, state: _spelt(target_of(event, state)),
}


def _spelt(thing: str) -> str | None:
    return spelling().get(thing, thing) or None


@cache
def household() -> Library:
    """The household's predicates."""
    return Library(
        "household",
        library_of(_predicate(*each) for each in _asked()),
        start=Household,
        vocabulary="household",
        fields=_FIELDS,
        actions=VERBS,
    )
