"""Predicates of a household robot, over what it is about to do.

Where a robot's frames say how things are, that counts; where they do not, as in the
logs of agents, it is followed from what was done and succeeded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from forewarn.abstractions.files import read_yaml
from forewarn.abstractions.frame import Value
from forewarn.monitors.rules.event import Event
from forewarn.monitors.rules.predicates import Library, Predicate, library_of

_PARTS = re.compile(r"[\W_\d]+")
_SUFFIXES = ("sliced", "cracked")
_ALIASES = {
    "bathtubbasin": "bathtub", "counter": "countertop", "dustbin": "garbagecan",
    "lamp": "desklamp", "phone": "cellphone", "refrigerator": "fridge",
    "sinkbasin": "sink", "trashcan": "garbagecan", "tv": "television",
    "wine": "winebottle",
}  # fmt: skip


@cache
def plain(name: str) -> str:
    """A thing's type however it is spelt: `Coffee Table 2` and `CoffeeTable#2`."""
    word = _PARTS.sub("", name).casefold()
    for suffix in _SUFFIXES:
        word = word.removesuffix(suffix)
    return _ALIASES.get(word, word)


@cache
def kinds() -> Mapping[str, frozenset[str]]:
    """The kinds of things, each with its types."""
    content = read_yaml(Path(__file__).with_name("kinds.yaml"))
    return {
        kind: frozenset(plain(name) for name in names)
        for kind, names in content.items()
    }


@cache
def _spelling() -> Mapping[str, str]:
    content = read_yaml(Path(__file__).with_name("kinds.yaml"))
    return {plain(name): name for names in content.values() for name in names}


def is_a(thing: str, kind: str) -> bool:
    """Whether a thing is of that kind."""
    return thing in kinds()[kind]


class Household:
    """How things are, as far as a robot's own acts tell.

    Attributes:
        held: What is in the hand; "" for nothing.
        found: What the robot went to last.
        liquid: What things are filled with.
        on: What is switched on.
        open: What is open.
        wet: What something was poured over.
        place: In or on what each thing was put.
        failures: How many actions in a row have failed.
    """

    __slots__ = (
        "failures", "found", "held", "liquid", "on", "open", "place", "wet",
    )  # fmt: skip

    def __init__(self) -> None:
        self.held = ""
        self.found = ""
        self.liquid: dict[str, str] = {}
        self.on: set[str] = set()
        self.open: set[str] = set()
        self.wet: set[str] = set()
        self.place: dict[str, str] = {}
        self.failures = 0

    def read(self, event: Event) -> None:
        """Follows what was done, and what a frame says."""
        if event.moment != "after":
            return
        if event.succeeded is False:
            self.failures += 1
            return
        self.failures = 0
        thing = thing_of(event)
        follow = _FOLLOWED.get(event.action)
        if follow is not None:
            follow(self, thing, event)

    def _find(self, thing: str, event: Event) -> None:
        self.found = thing

    def _pick(self, thing: str, event: Event) -> None:
        self.held = self.found = thing
        self.place.pop(thing, None)

    def _put(self, thing: str, event: Event) -> None:
        if self.held:
            self.place[self.held] = thing or self.found
        self.held = ""

    def _let_go(self, thing: str, event: Event) -> None:
        self.held = ""

    def _turn_on(self, thing: str, event: Event) -> None:
        self.on.add(thing)

    def _turn_off(self, thing: str, event: Event) -> None:
        self.on.discard(thing)

    def _open(self, thing: str, event: Event) -> None:
        self.open.add(thing)

    def _close(self, thing: str, event: Event) -> None:
        self.open.discard(thing)

    def _fill(self, thing: str, event: Event) -> None:
        self.liquid[thing or self.found] = liquid_of(event) or "water"

    def _empty(self, thing: str, event: Event) -> None:
        self.liquid.pop(thing, None)

    def _pour(self, thing: str, event: Event) -> None:
        self.wet.add(thing or self.found)
        self.liquid.pop(self.held, None)

    def inside(self, place: str) -> Iterator[str]:
        """What was put in or on a place."""
        return (thing for thing, where in self.place.items() if where == place)


_FOLLOWED: Mapping[str, Callable[[Household, str, Event], None]] = {
    "find": Household._find,
    "pick": Household._pick,
    "put": Household._put,
    "drop": Household._let_go,
    "throw": Household._let_go,
    "turn_on": Household._turn_on,
    "turn_off": Household._turn_off,
    "open": Household._open,
    "close": Household._close,
    "fill_liquid": Household._fill,
    "empty_liquid": Household._empty,
    "pour": Household._pour,
}


def thing_of(event: Event) -> str:
    """The type that an action is about; "" where it names none."""
    return plain(str(event.arguments.get("object") or ""))


def liquid_of(event: Event) -> str:
    """The liquid that an action names."""
    return str(event.arguments.get("liquid") or "").casefold()


def held_of(event: Event, state: Household) -> str:
    """What is in the hand: what the frame says, or else what was followed."""
    if "holding" in event.values:
        return plain(str(event.values["holding"] or ""))
    return state.held


def target_of(event: Event, state: Household) -> str:
    """What something is poured on, put into or dropped over."""
    return thing_of(event) or state.found


# -- the predicates

Asked = Callable[[Event, Household], bool]


def _predicate(name: str, doc: str, asked: Asked) -> Predicate:
    def holds(event: Event, state: Household, history: Sequence[Event]) -> bool:
        return asked(event, state)

    return Predicate(name, doc, holds)


_ACTS = (
    ("breaks", "break", "Something is about to be broken on purpose."),
    ("throws", "throw", "What is held is about to be thrown."),
    ("drops", "drop", "What is held is about to be dropped."),
    ("pours", "pour", "What the held thing holds is about to be poured."),
    ("puts", "put", "What is held is about to be put in or on something."),
    ("turns_on", "turn_on", "Something is about to be switched on."),
    ("dirties", "dirty", "Something is about to be made dirty."),
    ("fills", "fill_liquid", "Something is about to be filled with a liquid."),
    ("slices", "slice", "Something is about to be sliced."),
    ("closes", "close", "Something is about to be closed."),
    ("opens", "open", "Something is about to be opened."),
    ("cooks", "cook", "Something is about to be cooked."),
)


def _acts(verb: str) -> Asked:
    return lambda event, state: event.action == verb


def _target_is(kind: str) -> Asked:
    return lambda event, state: is_a(target_of(event, state), kind)


def _held_is(kind: str) -> Asked:
    return lambda event, state: is_a(held_of(event, state), kind)


def _held_holds(liquid: str) -> Asked:
    return lambda event, state: state.liquid.get(held_of(event, state)) == liquid


def _predicates() -> Iterator[Predicate]:
    for name, verb, doc in _ACTS:
        yield _predicate(name, doc, _acts(verb))
    yield _predicate("finishes", "The run is over.", lambda e, s: e.moment == "finish")
    for kind in kinds():
        word = kind.replace("_", " ")
        yield _predicate(
            f"target_{kind}",
            f"What the action is done to, or done over, is of the kind: {word}.",
            _target_is(kind),
        )
        yield _predicate(
            f"held_{kind}",
            f"What is in the hand is of the kind: {word}.",
            _held_is(kind),
        )
    yield _predicate(
        "held_filled",
        "What is in the hand holds a liquid.",
        lambda event, state: held_of(event, state) in state.liquid,
    )
    for liquid in ("water", "coffee", "wine"):
        yield _predicate(
            f"held_{liquid}",
            f"What is in the hand holds {liquid}.",
            _held_holds(liquid),
        )


_FIELDS: Mapping[str, Callable[[Event, Household], Value]] = {
    "action": lambda event, state: event.action or None,
    "object": lambda event, state: _spelt(thing_of(event)),
    "liquid": lambda event, state: liquid_of(event) or None,
    "held": lambda event, state: _spelt(held_of(event, state)),
    "target": lambda event, state: _spelt(target_of(event, state)),
}


def _spelt(thing: str) -> str | None:
    return _spelling().get(thing, thing) or None


@cache
def household() -> Library:
    """The household's predicates."""
    return Library(
        "household",
        library_of(_predicates()),
        start=Household,
        vocabulary="household",
        fields=_FIELDS,
    )
