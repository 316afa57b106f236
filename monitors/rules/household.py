"""Predicates about a household robot: the state of things, and the proposed action.

The held object is read from frames if they contain it; otherwise, as in agents' logs,
it is inferred from successful actions. A hazard also requires that the robot holds the
object that the action needs, because an impossible action does no harm.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path

from forewarn.abstractions.files import read_yaml
from forewarn.abstractions.frame import Value
from forewarn.monitors.rules.predicates import (
    Event,
    Holds,
    Library,
    State,
    plain_predicates,
)

_PARTS = re.compile(r"[\W_\d]+")
_FACT = re.compile(r"(?P<word>is_\w+)\((?P<thing>[^(),]+)(?:,\s*(?P<other>[^(),]+))?\)")
_SUFFIXES = ("sliced", "cracked")
_ALIASES = {
    "bathtubbasin": "bathtub", "counter": "countertop", "dustbin": "garbagecan",
    "lamp": "desklamp", "phone": "cellphone", "refrigerator": "fridge",
    "sinkbasin": "sink", "trashcan": "garbagecan", "tv": "television",
    "wine": "winebottle",
}  # fmt: skip


VERBS = (
    "find", "pick", "put", "open", "close", "slice", "turn_on", "turn_off", "drop",
    "throw", "break", "cook", "dirty", "clean", "fill_liquid", "empty_liquid", "pour",
)  # fmt: skip
"""The actions of a household robot."""


@cache
def plain(name: str) -> str:
    """Normalizes a thing's type: `Coffee Table 2` and `CoffeeTable#2` are the same."""
    word = _PARTS.sub("", name).casefold()
    for suffix in _SUFFIXES:
        word = word.removesuffix(suffix)
    return _ALIASES.get(word, word)


_SPELT = read_yaml(Path(__file__).with_name("kinds.yaml"))
KINDS = {kind: frozenset(map(plain, names)) for kind, names in _SPELT.items()}
"""The kinds of things, each with its types."""

_SPELLING = {plain(name): name for names in _SPELT.values() for name in names}


def is_a(thing: str, kind: str) -> bool:
    """Whether a thing is of this kind."""
    return thing in KINDS[kind]


@dataclass(slots=True)
class Household(State):
    """The state of things, as known from frames and the robot's own actions.

    Attributes:
        found: The thing that the robot went to last.
        wet: The things on which something was poured.
        seen: The things that the robot went to or picked up so far.
        switched: The number of times that each thing was switched on.
    """

    held: str = ""
    found: str = ""
    dirty: set[str] = field(default_factory=set)
    liquid: dict[str, str] = field(default_factory=dict)
    on: set[str] = field(default_factory=set)
    open: set[str] = field(default_factory=set)
    wet: set[str] = field(default_factory=set)
    place: dict[str, str] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    switched: dict[str, int] = field(default_factory=dict)

    def read(self, event: Event) -> None:
        """Updates the state from an action, and from a frame."""
        for fact, value in event.values.items():
            self._see(fact, value)
        if event.moment == "after" and event.succeeded is not False:
            self._follow(event)

    def _see(self, fact: str, value: Value) -> None:
        """Stores a fact from a frame, if predicates read it."""
        if fact == "holding":
            self.held = plain(str(value or ""))
            return
        said = _fact(fact)
        if said is None:
            return
        word, thing, other = said
        kept = {"is_toggled": self.on, "is_open": self.open, "is_dirty": self.dirty}
        if word in kept:
            (kept[word].add if value is True else kept[word].discard)(thing)
        elif word in ("is_inside", "is_on") and value is True:
            self.place[thing] = plain(other)
        elif word == "is_filled" and value is not True:
            self.liquid.pop(thing, None)
        elif word == "is_filled" and value is True:
            self.liquid.setdefault(thing, "water")
        elif word == "is_filled_with" and value is True:
            self.liquid[thing] = other.casefold()

    def _follow(self, event: Event) -> None:
        """Updates the state after a successful action."""
        thing = thing_of(event)
        match event.action:
            case "find":
                self.found = thing
                self.seen.add(thing)
            case "pick":
                self.held = self.found = thing
                self.seen.add(thing)
                self.place.pop(thing, None)
            case "put":
                if self.held:
                    self.place[self.held] = thing or self.found
                self.held = ""
            case "drop" | "throw":
                self.held = ""
            case "turn_on":
                self.on.add(thing)
                self.switched[thing] = self.switched.get(thing, 0) + 1
            case "turn_off":
                self.on.discard(thing)
            case "open":
                self.open.add(thing)
            case "close":
                self.open.discard(thing)
            case "dirty":
                self.dirty.add(thing)
            case "clean":
                self.dirty.discard(thing)
            case "fill_liquid":
                self.liquid[thing or self.found] = liquid_of(event) or "water"
            case "empty_liquid":
                self.liquid.pop(thing, None)
            case "pour":
                self.wet.add(thing or self.found)
                self.liquid.pop(self.held, None)

    def inside(self, place: str) -> Iterator[str]:
        """Yields the things that were put in or on a place."""
        return (thing for thing, where in self.place.items() if where == place)


@lru_cache(maxsize=4096)
def _fact(text: str) -> tuple[str, str, str] | None:
    """Splits `is_on(Mug, Table)` into three words; None if it names instances."""
    said = _FACT.fullmatch(text)
    if said is None or "#" in text:
        return None
    return said["word"], plain(said["thing"]), said["other"] or ""


def thing_of(event: Event) -> str:
    """Returns the type of an action's object; "" if there is none."""
    return plain(str(event.arguments.get("object") or ""))


def liquid_of(event: Event) -> str:
    """Returns the liquid that an action names."""
    return str(event.arguments.get("liquid") or "").casefold()


def target_of(event: Event, state: Household) -> str:
    """Returns the target on which something is poured, put or dropped."""
    return thing_of(event) or state.found


# -- predicates

Asked = Callable[[Event, Household], bool]


def acts(event: Event, state: Household, verb: str) -> bool:
    """Whether the robot is about to do this with an object in its hand."""
    return event.action == verb and state.held != ""


_FACTS: Mapping[str, Asked] = {
    "puts": lambda e, s: acts(e, s, "put"),
    "pours": lambda e, s: acts(e, s, "pour"),
    "drops": lambda e, s: acts(e, s, "drop"),
    "turns_on": lambda e, s: e.action == "turn_on",
    "slices": lambda e, s: e.action == "slice",
    "opens": lambda e, s: e.action == "open",
    "closes": lambda e, s: e.action == "close",
    "held_filled": lambda e, s: s.held in s.liquid,
    "finishes": lambda e, s: e.moment == "finish",
    "fills": lambda e, s: e.action == "fill_liquid",
    "does_break": lambda e, s: e.action == "break",
    "does_dirty": lambda e, s: e.action == "dirty",
    "does_throw": lambda e, s: e.action == "throw",
    "does_cook": lambda e, s: e.action == "cook",
    "fills_wine": lambda e, s: liquid_of(e) == "wine",
    "fills_not_water": lambda e, s: liquid_of(e) not in ("", "water"),
    "held_anything": lambda e, s: s.held != "",
    "held_wine": lambda e, s: s.liquid.get(s.held) == "wine",
    "held_not_water": lambda e, s: s.liquid.get(s.held, "water") != "water",
    "held_dirty": lambda e, s: s.held in s.dirty,
    "held_on": lambda e, s: s.held in s.on,
    "target_is_held": lambda e, s: target_of(e, s) == s.held,
    "target_wet": lambda e, s: target_of(e, s) in s.wet,
    "target_open": lambda e, s: target_of(e, s) in s.open,
    "inside_running": lambda e, s: not s.on.isdisjoint(s.inside(target_of(e, s))),
    "heater_loaded": lambda e, s: _any_is_a(s.place.values(), "heater"),
    "switched_twice": lambda e, s: s.switched.get(thing_of(e), 0) >= 2,
    "blade_seen": lambda e, s: _any_is_a(s.seen, "blade"),
}


def _any_is_a(things: Iterable[str], kind: str) -> bool:
    return any(is_a(thing, kind) for thing in things)


def _of_kind(kind: str) -> dict[str, Asked]:
    """Returns the predicates about one kind of thing."""
    return {
        f"held_{kind}": lambda e, s: is_a(s.held, kind),
        f"target_{kind}": lambda e, s: is_a(target_of(e, s), kind),
        f"inside_{kind}": lambda e, s: _any_is_a(s.inside(target_of(e, s)), kind),
        f"lies_in_{kind}": lambda e, s: is_a(s.place.get(thing_of(e), ""), kind),
        f"on_{kind}": lambda e, s: _any_is_a(s.on, kind),
        f"open_{kind}": lambda e, s: _any_is_a(s.open, kind),
    }


def _holds(asked: Asked) -> Holds:
    return lambda event, state, history: asked(event, state)


_FIELDS: Mapping[str, Callable[[Event, Household], Value]] = {
    "action": lambda event, state: event.action or None,
    "object": lambda event, state: _spelt(thing_of(event)),
    "liquid": lambda event, state: liquid_of(event) or None,
    "held": lambda event, state: _spelt(state.held),
    "target": lambda event, state: _spelt(target_of(event, state)),
}


def _spelt(thing: str) -> str | None:
    return _SPELLING.get(thing, thing) or None


@cache
def household() -> Library:
    """Returns the basic predicates; hazards are defined in `household.yaml`."""
    facts = dict(_FACTS)
    for kind in KINDS:
        facts |= _of_kind(kind)
    return Library(
        "household",
        plain_predicates("household", {n: _holds(asked) for n, asked in facts.items()}),
        start=lambda arguments: Household(),
        vocabulary="household",
        fields=_FIELDS,
        actions=VERBS,
        words=(*VERBS, *_SPELLING.values()),
    )
