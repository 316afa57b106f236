"""The blueprint library: the actors that can be spawned, with attributes and sizes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
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


_TYPES = {"bool": BOOL, "int": INT, "float": FLOAT, "string": STRING}
_TAGS = {
    "car": CAR, "van": CAR, "truck": TRUCK, "bus": BUS, "motorcycle": MOTORCYCLE,
    "bicycle": BICYCLE,
}  # fmt: skip
_COLOURS = ("17,37,103", "180,44,44", "240,240,240", "10,10,10", "120,120,125")
_WALKERS = 51
_CHILDREN = range(9, 15)


@cache
def library() -> Mapping[str, Blueprint]:
    """Returns all blueprints by name.

    The file `blueprints.json` lists the base type, number of wheels, generation,
    special type, length, width, height and mass of each vehicle; half the length, width
    and height of each prop; the type and default value of each attribute; and the
    attribute groups of each sensor.
    """
    kinds = json.loads(Path(__file__).with_name("blueprints.json").read_bytes())
    every = (
        *_vehicles(kinds["vehicles"]),
        *_walkers(),
        *_sensors(kinds["sensors"], kinds["attributes"]),
        *_props(kinds["props"]),
    )
    return {made.name: made for made in every}


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


def _vehicles(rows: Mapping[str, list[Any]]) -> Iterator[Blueprint]:
    for number, (name, row) in enumerate(rows.items(), start=1):
        base, wheels, generation, special, length, width, height, mass = row
        lights = generation == 2 or special == "emergency"
        attributes = [
            Attribute("role_name", STRING, "autopilot",
                      ("autopilot", "scenario", "ego_vehicle")),
            Attribute("sticky_control", BOOL, "True"),
            Attribute("terramechanics", BOOL, "False"),
            Attribute("object_type", STRING, "", modifiable=False),
            Attribute("base_type", STRING, base, modifiable=False),
            Attribute("special_type", STRING, special, modifiable=False),
            Attribute("generation", INT, str(generation), modifiable=False),
            Attribute("number_of_wheels", INT, str(wheels), modifiable=False),
            Attribute("has_lights", BOOL, str(lights).lower(), modifiable=False),
            Attribute("has_dynamic_doors", BOOL, "false", modifiable=False),
            Attribute("ros_name", STRING, name),
        ]  # fmt: skip
        if special not in ("emergency",):
            attributes.append(
                Attribute("color", COLOUR, _COLOURS[0], _COLOURS, restricted=False)
            )
        if wheels == 2:
            attributes.append(
                Attribute("driver_id", INT, "1", tuple("123"), restricted=True)
            )
        half = length / 2.0, width / 2.0, height / 2.0
        yield Blueprint(
            number, name, tuple(attributes), half, _TAGS[base], mass, wheels
        )


def _walkers() -> Iterator[Blueprint]:
    for number in range(1, _WALKERS + 1):
        child = number in _CHILDREN
        yield Blueprint(
            1000 + number,
            f"walker.pedestrian.{number:04d}",
            (
                Attribute("role_name", STRING, "pedestrian", ("pedestrian",)),
                Attribute("gender", STRING, "female" if number % 2 else "male",
                          modifiable=False),
                Attribute("age", STRING, "child" if child else "adult",
                          modifiable=False),
                Attribute("generation", INT, "1" if number < 15 else "2",
                          modifiable=False),
                Attribute("speed", FLOAT, "1.4", ("0.0", "1.4", "2.5")),
                Attribute("is_invincible", BOOL, "true"),
                Attribute("can_use_wheelchair", BOOL, "false", modifiable=False),
                Attribute("use_wheelchair", BOOL, "false"),
                Attribute("ros_name", STRING, f"walker.pedestrian.{number:04d}"),
            ),
            (0.19, 0.19, 0.55 if child else 0.93),
            PEDESTRIAN,
            75.0,
        )  # fmt: skip


def _sensors(
    rows: Mapping[str, list[str]], groups: Mapping[str, Mapping[str, list[str]]]
) -> Iterator[Blueprint]:
    for number, (name, of) in enumerate(rows.items(), start=2001):
        attributes = [Attribute("role_name", STRING, "front")]
        attributes += [
            Attribute(each, _TYPES[kind], value)
            for group in of
            for each, (kind, value) in groups[group].items()
        ]
        attributes.append(Attribute("ros_name", STRING, name))
        yield Blueprint(number, name, tuple(attributes))


def _props(rows: Mapping[str, Vector]) -> Iterator[Blueprint]:
    named = Attribute("role_name", STRING, "prop")
    size = Attribute("size", STRING, "medium", modifiable=False)
    for number, (name, (length, width, height)) in enumerate(rows.items(), start=3101):
        yield Blueprint(
            number, f"static.prop.{name}", (named, size), (length, width, height),
            STATIC,
        )  # fmt: skip
