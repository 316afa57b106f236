"""The blueprint library: the actors that can be spawned, with attributes and sizes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from forewarn.standins.carla import actors
from forewarn.standins.carla.actors import (
    BICYCLE,
    BUS,
    CAR,
    MOTORCYCLE,
    PEDESTRIAN,
    STATIC,
    TRUCK,
    Actor,
    Pose,
    Refusal,
    Sensor,
    Vector,
    Vehicle,
    Walker,
)

BOOL, INT, FLOAT, STRING, COLOUR = 1, 2, 3, 4, 5


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of a blueprint. Its values are strings."""

    name: str
    kind: int
    value: str
    choices: tuple[str, ...] = ()
    modifiable: bool = True
    restricted: bool = False

    def check(self, text: str) -> None:
        """Raises `Refusal` if a text is not a valid value for this attribute."""
        try:
            if self.kind == INT:
                actors.number(int(text))
            elif self.kind == FLOAT:
                actors.number(float(text))
        except ValueError:
            raise Refusal(f"'{self.name}' must be a number, not {text!r:.40}") from None

    def encoded(self) -> list[Any]:
        return [
            self.name, self.kind, self.value, list(self.choices), self.modifiable,
            self.restricted,
        ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Blueprint:
    """An actor's blueprint. `half` is half the actor's length, width and height in
    metres.
    """

    number: int
    name: str
    attributes: tuple[Attribute, ...]
    half: Vector = (0.0, 0.0, 0.0)
    tag: int = 0
    mass: float = 0.0
    wheels: int = 0

    def given(self, values: Mapping[str, str]) -> list[list[Any]]:
        """Returns the encoded attributes of an actor; given values replace the
        defaults.

        Raises:
            Refusal: A value is not valid for its attribute.
        """
        for attribute in self.attributes:
            if attribute.name in values:
                attribute.check(values[attribute.name])
        return [[a.name, a.kind, values.get(a.name, a.value)] for a in self.attributes]

    def encoded(self) -> list[Any]:
        tags = self.name.replace(".", ",")
        return [self.number, self.name, tags, [a.encoded() for a in self.attributes]]


_TYPES = {"bool": BOOL, "int": INT, "float": FLOAT, "string": STRING, "colour": COLOUR}
_TAGS = {
    "car": CAR, "van": CAR, "truck": TRUCK, "bus": BUS, "motorcycle": MOTORCYCLE,
    "bicycle": BICYCLE,
}  # fmt: skip
_WALKERS = 51
_CHILDREN = range(9, 15)

_Groups = Mapping[str, Mapping[str, list[Any]]]


@cache
def library() -> Mapping[str, Blueprint]:
    """Returns all blueprints by name.

    The file `blueprints.json` lists:

    - for each vehicle: the base type, number of wheels, generation, special type,
      length, width, height and mass;
    - for each prop: half the length, width and height;
    - for each sensor: the attribute groups;
    - for each attribute of a group: the type, default value, choices, and whether the
      attribute is modifiable and restricted.

    A name in braces in a default value is replaced by the blueprint's value of that
    name.
    """
    kinds = json.loads(Path(__file__).with_name("blueprints.json").read_bytes())
    groups = kinds["attributes"]
    every = (
        *_vehicles(kinds["vehicles"], groups),
        *_walkers(groups),
        *_sensors(kinds["sensors"], groups),
        *_props(kinds["props"], groups),
    )
    return {made.name: made for made in every}


def _attributes(
    groups: _Groups, of: Iterable[str], **facts: object
) -> tuple[Attribute, ...]:
    return tuple(
        _attribute(name, *row, facts=facts)
        for group in of
        for name, row in groups[group].items()
    )


def _attribute(
    name: str,
    kind: str,
    value: str,
    choices: Iterable[str] = (),
    modifiable: bool = True,
    restricted: bool = False,
    *,
    facts: Mapping[str, object],
) -> Attribute:
    value = value.format(**facts)
    return Attribute(name, _TYPES[kind], value, (*choices,), modifiable, restricted)


def find(name: str) -> Blueprint:
    """Returns the blueprint with the given name.

    Raises:
        Refusal: The library has no blueprint with this name.
    """
    found = library().get(name)
    if found is None:
        raise Refusal(f"there is no blueprint {name!r:.80} in this server's library")
    return found


def actor_of(
    name: str, at: Pose, given: Mapping[str, str], half: Vector | None = None
) -> Actor:
    """Creates an actor from a blueprint. `half` overrides the blueprint's size."""
    blueprint = find(name)
    half = half or blueprint.half
    make: type[Actor] = Vehicle if blueprint.wheels else Actor
    make = {"walker": Walker, "sensor": Sensor}.get(name.partition(".")[0], make)
    actor = make(
        0, name, at, blueprint.given(given), half, (0.0, 0.0, half[2]),
        bytes([blueprint.tag]) if blueprint.tag else b"", blueprint=blueprint.number,
    )  # fmt: skip
    if isinstance(actor, Vehicle):
        actor.wheelbase = 1.2 * half[0]
    return actor


def _vehicles(rows: Mapping[str, list[Any]], groups: _Groups) -> Iterator[Blueprint]:
    for number, (name, row) in enumerate(rows.items(), start=1):
        base, wheels, generation, special, length, width, height, mass = row
        lights = generation == 2 or special == "emergency"
        of = ["vehicle"]
        of += ["painted"] if special != "emergency" else []
        of += ["ridden"] if wheels == 2 else []
        attributes = _attributes(
            groups, of, name=name, base=base, special=special, generation=generation,
            wheels=wheels, lights=str(lights).lower(),
        )  # fmt: skip
        half = length / 2.0, width / 2.0, height / 2.0
        yield Blueprint(number, name, attributes, half, _TAGS[base], mass, wheels)


def _walkers(groups: _Groups) -> Iterator[Blueprint]:
    for number in range(1, _WALKERS + 1):
        child = number in _CHILDREN
        name = f"walker.pedestrian.{number:04d}"
        attributes = _attributes(
            groups, ["walker"], name=name, gender="female" if number % 2 else "male",
            age="child" if child else "adult", generation=1 if number < 15 else 2,
        )  # fmt: skip
        half = 0.19, 0.19, 0.55 if child else 0.93
        yield Blueprint(1000 + number, name, attributes, half, PEDESTRIAN, 75.0)


def _sensors(rows: Mapping[str, list[str]], groups: _Groups) -> Iterator[Blueprint]:
    for number, (name, of) in enumerate(rows.items(), start=2001):
        attributes = _attributes(groups, ["front", *of, "named"], name=name)
        yield Blueprint(number, name, attributes)


def _props(rows: Mapping[str, Vector], groups: _Groups) -> Iterator[Blueprint]:
    attributes = _attributes(groups, ["prop"])
    for number, (name, half) in enumerate(rows.items(), start=3101):
        yield Blueprint(number, f"static.prop.{name}", attributes, (*half,), STATIC)
