"""The types of household objects with their sizes and abilities, in AI2-THOR's terms.

The abilities are those that AI2-THOR 5.0.0 reports for its own objects, so a plan that
works for a type in the household also works in AI2-THOR. Sizes and masses are typical
values.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

ABILITIES = {
    "receptacle": "receptacle",
    "toggle": "toggleable",
    "break": "breakable",
    "fill": "canFillWithLiquid",
    "dirty": "dirtyable",
    "cook": "cookable",
    "heat": "isHeatSource",
    "cold": "isColdSource",
    "slice": "sliceable",
    "open": "openable",
    "pick": "pickupable",
    "move": "moveable",
    "use_up": "canBeUsedUp",
}
"""The names of abilities in `catalog.txt`, and the metadata keys that they set."""

ENCLOSING = frozenset("Box Cabinet Drawer Fridge LaundryHamper Microwave Safe".split())
"""Receptacles that hide their content and accept no objects while they are closed."""

SURFACES = frozenset(
    "ArmChair Bed Chair CoffeeTable CounterTop Desk DiningTable DogBed Dresser Floor"
    " Footstool Ottoman Plate Shelf ShelvingUnit SideTable Sofa Stool StoveBurner"
    " TVStand Toilet".split()
)
"""Receptacles that objects lie on rather than in."""

SOFT = frozenset("ArmChair Bed DogBed Ottoman Sofa".split())
"""Receptacles on which falling objects do not break."""

ONLY_FOR: dict[str, tuple[str, ...]] = {
    "CoffeeMachine": ("Mug",),
    "HandTowelHolder": ("HandTowel",),
    "StoveBurner": ("Kettle", "Pan", "Pot"),
    "Toaster": ("BreadSliced",),
    "ToiletPaperHanger": ("ToiletPaper",),
    "TowelHolder": ("Towel",),
}
"""Receptacles that hold a single object, and the types of objects that they accept."""

LIQUIDS = ("coffee", "water", "wine")

SLICED = {
    "Apple": "AppleSliced",
    "Bread": "BreadSliced",
    "Lettuce": "LettuceSliced",
    "Potato": "PotatoSliced",
    "Tomato": "TomatoSliced",
}
"""The type of the slices of each type that can be sliced. An egg cracks instead."""

SLICES = {"AppleSliced": 5, "BreadSliced": 10, "LettuceSliced": 7}
"""The number of slices of an object, if it is not six."""

_TABLE = Path(__file__).with_name("catalog.txt")


@dataclass(frozen=True, slots=True)
class ObjectType:
    """A type of object: its width, height and depth in m, mass in kg, and abilities."""

    name: str
    size: tuple[float, float, float]
    mass: float
    materials: tuple[str, ...]
    abilities: frozenset[str]

    def can(self, ability: str) -> bool:
        """Whether the type has an ability, which is named as in `catalog.txt`."""
        return ability in self.abilities


@cache
def catalog() -> dict[str, ObjectType]:
    """Returns the types of household objects, by name."""
    found: dict[str, ObjectType] = {}
    for line in _TABLE.read_text(encoding="utf-8").splitlines()[1:]:
        name, width, height, depth, mass, materials, *abilities = line.split()
        found[name] = ObjectType(
            name,
            (float(width), float(height), float(depth)),
            float(mass),
            () if materials == "-" else tuple(materials.split(",")),
            frozenset(abilities) - {"-"},
        )
    return found
