"""A planning model of the seventeen verbs: their preconditions and effects.

Preconditions and effects depend on the types of objects. A state is a set of facts,
most of which are object predicates as text. The model ignores distances and whether
objects fit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.expression.tree import Compare, Expression, ObjectPredicate
from forewarn.abstractions.frame import Value
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.guarding.decision import Action
from forewarn.monitors.laws.formula import parse_formula
from forewarn.thor_bridge.household.catalog import (
    ENCLOSING,
    LIQUIDS,
    ONLY_FOR,
    ObjectType,
    catalog,
)
from forewarn.thor_bridge.steps import parse_step

NUMBERED = frozenset(("Cabinet", "Drawer", "StoveKnob"))
"""Types of which a room contains several objects. The robot refers to such an object by
number.
"""

_HEATERS = ("Microwave", "StoveBurner", "Toaster")
_WET = ("Bathtub", "Sink")
Fact = str


def facts_about(objects: Collection[str]) -> list[str]:
    """Returns the object predicates about the given types, as frames contain them."""
    types = catalog()
    found: list[str] = []
    for name in objects:
        kind = types[name]
        found += [f"{word}({name})" for ability, word in _STATES if kind.can(ability)]
        if kind.can("fill"):
            found += [f"is_filled_with({name}, {liquid})" for liquid in LIQUIDS]
        if kind.can("pick"):
            found += [f"is_hot({name})", f"is_cold({name})"]
            places = [place for place in objects if _holds(place) and place != name]
            found += [f"is_inside({name}, {place})" for place in places]
    return found


_STATES = (
    ("open", "is_open"),
    ("toggle", "is_toggled"),
    ("break", "is_broken"),
    ("fill", "is_filled"),
    ("dirty", "is_dirty"),
    ("cook", "is_cooked"),
    ("slice", "is_sliced"),
)


def _holds(name: str) -> bool:
    return catalog()[name].can("receptacle") or name in _WET


def known_type(name: object) -> str | None:
    """Finds a type in the catalogue by its name, ignoring case."""
    return _by_name().get(str(name).split("#")[0].casefold())


@cache
def _by_name() -> Mapping[str, str]:
    return {name.casefold(): name for name in catalog()}


def objects_in(steps: Iterable[str], texts: Iterable[str]) -> tuple[str, ...]:
    """Returns the known types that steps and expressions mention."""
    found: dict[str, None] = {}
    vocabulary = load_vocabulary("household")
    for step in steps:
        with suppress(InvalidInput):  # SafeAgentBench has steps without an object
            kind = known_type(parse_step(step).arguments.get("object", ""))
            if kind is not None:
                found[kind] = None
    for text in filter(None, texts):
        for node in parse_formula(text, vocabulary).walk():
            if isinstance(node, ObjectPredicate):
                for name in node.arguments:
                    kind = known_type(name.removeprefix("any_"))
                    if kind is not None:
                        found[kind] = None
    return tuple(found)


# -- the model


@dataclass(frozen=True, slots=True)
class Change:
    """The facts that a move adds and removes if certain facts are true."""

    needs: int
    adds: int
    removes: int


@dataclass(frozen=True, slots=True)
class Move:
    """An action of the model.

    Args:
        action: The robot's action.
        needs: The facts that must be true before the move.
        lacks: The facts that must be false before the move.
        changes: The effects: first the unconditional effect, then the effects that
            depend on conditions.
    """

    action: Action
    needs: int
    lacks: int
    changes: tuple[Change, ...]

    def possible(self, state: int) -> bool:
        """Whether the move is possible in a state."""
        return state & self.needs == self.needs and not state & self.lacks

    def after(self, state: int) -> int:
        """Returns the state after the move."""
        new = state
        for change in self.changes:
            if state & change.needs == change.needs:
                new = new & ~change.removes | change.adds
        return new


class Model:
    """The facts about a set of object types, and the moves that change these facts.

    Args:
        objects: The names of the relevant types.
        atoms: Other facts that goals and laws mention, as text.
    """

    def __init__(self, objects: Sequence[str], atoms: Iterable[str] = ()) -> None:
        self.objects = tuple(objects)
        self._atoms = frozenset(atoms)
        self.facts: dict[Fact, int] = {}
        for fact in (*facts_about(objects), *sorted(self._atoms)):
            self._bit(fact)
        for name in objects:
            self._bit(_at(name))
            self._bit(_holding(name))
        self.moves = tuple(self._moves())

    def _bit(self, fact: Fact) -> int:
        return self.facts.setdefault(fact, 1 << len(self.facts))

    def _set(self, facts: Iterable[Fact]) -> int:
        bits = 0
        for fact in facts:
            bits |= self._bit(fact)
        return bits

    def _known(self, facts: Iterable[Fact]) -> int:
        """Returns the given facts as bits; facts that the model does not track are
        ignored.
        """
        bits = 0
        for fact in facts:
            bits |= self.facts.get(fact, 0)
        return bits

    def state(self, values: Mapping[str, Value], at: str | None) -> int:
        """Returns the state for a frame's values and the object that the robot is
        at.
        """
        bits = 0
        for fact, bit in self.facts.items():
            signal, _, wanted = fact.partition(" == ")
            value = values.get(signal)
            if value is True if not wanted else value == wanted:
                bits |= bit
        return bits if at is None else bits | self.facts.get(_at(at), 0)

    def find(self, action: Action) -> list[Move]:
        """Returns the moves that an action may represent, depending on the state."""
        wanted = canonical(action)
        return [move for move in self.moves if move.action == wanted]

    # -- the verbs

    def _moves(self) -> Iterator[Move]:
        types = catalog()
        for name in self.objects:
            yield from self._find(name)
            kind = types[name]
            if kind.can("pick"):
                yield self._pick(name)
                yield from self._hands(name, kind)
                for place in self.objects:
                    if place != name and _holds(place):
                        yield from self._put(name, place)
            if kind.can("open"):
                yield self._plain(
                    "open", name, (), (_on(name), _open(name)), (_open(name),)
                )
                yield self._plain("close", name, (_open(name),), (), (), (_open(name),))
            if kind.can("toggle"):
                yield from self._toggle(name)
            yield from self._treat(name, kind)

    def _move(
        self,
        verb: str,
        about: str,
        needs: Iterable[Fact],
        lacks: Iterable[Fact],
        adds: Iterable[Fact],
        removes: Iterable[Fact],
        also: Iterable[tuple[Iterable[Fact], Iterable[Fact], Iterable[Fact]]] = (),
        **arguments: str,
    ) -> Move:
        given: dict[str, str | int] = {
            **arguments,
            **({"object": about} if about else {}),
        }
        if about in NUMBERED:
            given["number"] = 1
        done = {f"last_action == {verb}", f"last_action_object == {about}"}
        others = {f for f in self._atoms if f.startswith("last_action")} - done
        first = Change(0, self._known((*adds, *done)), self._known((*removes, *others)))
        rest = (
            Change(self._set(when), self._known(then), self._known(no_more))
            for when, then, no_more in also
        )
        changes = (first, *(c for c in rest if c.adds or c.removes))
        action = Action(verb, given)
        return Move(action, self._set(needs), self._set(lacks), changes)

    def _plain(
        self,
        verb: str,
        name: str,
        needs: Iterable[Fact] = (),
        lacks: Iterable[Fact] = (),
        adds: Iterable[Fact] = (),
        removes: Iterable[Fact] = (),
        **arguments: str,
    ) -> Move:
        """Returns a move that requires the robot to stand in front of an object."""
        needs = (_at(name), *needs)
        return self._move(verb, name, needs, lacks, adds, removes, (), **arguments)

    def _find(self, name: str) -> Iterator[Move]:
        seen = [_at(name), f"is_visible({name})", f"is_near({name})"]
        left = [
            fact
            for other in self.objects
            if other != name
            for fact in (_at(other), f"is_visible({other})", f"is_near({other})")
        ]
        shut = [p for p in self.objects if p in ENCLOSING and catalog()[p].can("open")]
        shut = [p for p in shut if catalog()[name].can("pick") and p != name]
        lacks = [_in(name, place) for place in shut]
        yield self._move("find", name, (), lacks, seen, left)
        for place in shut:
            needs = [_in(name, place), _open(place)]
            yield self._move("find", name, needs, (), seen, left)

    def _pick(self, name: str) -> Move:
        hands = [_holding(other) for other in self.objects]
        places = [p for p in self.objects if _holds(p) and p != name]
        gone = [fact for p in places for fact in (_in(name, p), f"is_on({name}, {p})")]
        held = [_holding(name), f"is_held({name})"]
        return self._plain("pick", name, (), hands, held, gone)

    def _put(self, name: str, place: str) -> Iterator[Move]:
        only = ONLY_FOR.get(place)
        if only is not None and name not in only:
            return
        needs = [_holding(name), _at(place)]
        if place in ENCLOSING and catalog()[place].can("open"):
            needs.append(_open(place))
        adds = [_in(name, place), f"is_on({name}, {place})", f"is_inside(any, {place})"]
        if place == "Fridge":
            adds.append(f"is_cold({name})")
        yield self._move("put", place, needs, (), adds, _free(name))

    def _hands(self, name: str, kind: ObjectType) -> Iterator[Move]:
        held, gone = [_holding(name)], _free(name)
        broken = [f"is_broken({name})"] if kind.can("break") else []
        spilt = _empty(name) if kind.can("fill") else []
        floor = [f"is_on({name}, Floor)"]
        yield self._move("throw", "", held, (), [*floor, *broken], [*gone, *spilt])
        yield self._move("drop", "", held, (), [*floor, *broken], [*gone, *spilt])
        if kind.can("fill"):
            full = [*held, f"is_filled({name})"]
            yield self._move("pour", "", full, (), (), spilt)

    def _toggle(self, name: str) -> Iterator[Move]:
        lacks = [_on(name), *([_open(name)] if name == "Microwave" else [])]
        also: list[tuple[list[Fact], list[Fact], list[Fact]]] = []
        carried = [o for o in self.objects if catalog()[o].can("pick") and o != name]
        for thing in carried:
            fill = [f"is_filled({thing})"] if catalog()[thing].can("fill") else []
            if name in _HEATERS:
                cooked = [f"is_cooked({thing})"] if catalog()[thing].can("cook") else []
                also.append(([_in(thing, name)], [f"is_hot({thing})", *cooked], []))
            elif name == "CoffeeMachine" and fill:
                coffee = [*fill, f"is_filled_with({thing}, coffee)", f"is_hot({thing})"]
                also.append(([_in(thing, name)], coffee, []))
            elif name == "Faucet":
                water = [*fill, f"is_filled_with({thing}, water)"] if fill else []
                also += [
                    ([_in(thing, basin)], water, [f"is_dirty({thing})"])
                    for basin in _WET
                    if basin in self.objects
                ]
        yield self._move("turn_on", name, [_at(name)], lacks, [_on(name)], (), also)
        yield self._plain("turn_off", name, [_on(name)], (), (), [_on(name)])

    def _treat(self, name: str, kind: ObjectType) -> Iterator[Move]:
        word = {ability: f"{text}({name})" for ability, text in _STATES}
        if kind.can("slice"):
            lacks = [word["slice"], _holding(name)]
            yield self._plain("slice", name, (), lacks, [word["slice"]])
        if kind.can("break"):
            yield self._plain("break", name, (), [word["break"]], [word["break"]])
        if kind.can("cook"):
            yield self._plain("cook", name, (), [word["cook"]], [word["cook"]])
        if kind.can("dirty"):
            dirty = [word["dirty"]]
            yield self._plain("dirty", name, (), dirty, dirty)
            yield self._plain("clean", name, dirty, (), (), dirty)
        if kind.can("fill"):
            full = [word["fill"]]
            for liquid in LIQUIDS:
                adds = [*full, f"is_filled_with({name}, {liquid})"]
                yield self._plain("fill_liquid", name, (), full, adds, liquid=liquid)
            yield self._plain("empty_liquid", name, full, (), (), _empty(name))


def canonical(action: Action) -> Action:
    """Replaces the type and number in an action with those that the model uses."""
    given = dict(action.arguments)
    kind = known_type(given.get("object", ""))
    if kind is not None:
        given["object"] = kind
        given.pop("number", None)
        if kind in NUMBERED:
            given["number"] = 1
    return Action(action.name, given)


def _at(name: str) -> Fact:
    return f"at({name})"


def _holding(name: str) -> Fact:
    return f"holding == {name}"


def _in(name: str, place: str) -> Fact:
    return f"is_inside({name}, {place})"


def _open(name: str) -> Fact:
    return f"is_open({name})"


def _on(name: str) -> Fact:
    return f"is_toggled({name})"


def _free(name: str) -> list[Fact]:
    return [_holding(name), f"is_held({name})"]


def _empty(name: str) -> list[Fact]:
    return [f"is_filled({name})", *(f"is_filled_with({name}, {w})" for w in LIQUIDS)]


def atoms_of(*texts: str) -> set[Fact]:
    """Returns the facts that expressions and laws mention."""
    vocabulary = load_vocabulary("household")
    nodes = (
        n for text in texts if text for n in parse_formula(text, vocabulary).walk()
    )
    return {
        fact_of(node)
        for node in nodes
        if isinstance(node, ObjectPredicate)
        or (isinstance(node, Compare) and node.operator == "==")
    }


def fact_of(node: Expression) -> Fact:
    """Returns the fact that a predicate or comparison expresses."""
    return repr(node).replace('"', "")
