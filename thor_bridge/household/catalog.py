"""What the types of household objects are like and can do, in AI2-THOR's terms.

The abilities are those that AI2-THOR 5.0.0 reports for its own objects, so that a
plan that works on a type here works on it there; sizes and masses are typical.
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
"""The words of `catalog.txt` and the metadata keys that they set."""

ENCLOSING = frozenset("Box Cabinet Drawer Fridge LaundryHamper Microwave Safe".split())
"""Closed, they hide what is in them and take nothing more."""

SURFACES = frozenset(
    "ArmChair Bed Chair CoffeeTable CounterTop Desk DiningTable DogBed Dresser Floor"
    " Footstool Ottoman Plate Shelf ShelvingUnit SideTable Sofa Stool StoveBurner"
    " TVStand Toilet".split()
)
"""Things lie on them rather than in them."""

SOFT = frozenset("ArmChair Bed DogBed Ottoman Sofa".split())
"""What falls onto them does not break."""

ONLY_FOR: dict[str, tuple[str, ...]] = {
    "CoffeeMachine": ("Mug",),
    "HandTowelHolder": ("HandTowel",),
    "StoveBurner": ("Kettle", "Pan", "Pot"),
    "Toaster": ("BreadSliced",),
    "ToiletPaperHanger": ("ToiletPaper",),
    "TowelHolder": ("Towel",),
}
"""Receptacles with one place, made for certain types."""

LIQUIDS = ("coffee", "water", "wine")

SLICED = {
    "Apple": "AppleSliced",
    "Bread": "BreadSliced",
    "Lettuce": "LettuceSliced",
    "Potato": "PotatoSliced",
    "Tomato": "TomatoSliced",
}
"""What slicing makes of a type; an egg cracks instead."""

SLICES = {"AppleSliced": 5, "BreadSliced": 10, "LettuceSliced": 7}
"""How many pieces, where not six."""

_TABLE = Path(__file__).with_name("catalog.txt")


@dataclass(frozen=True, slots=True)
class ObjectType:
    """One type: its size in m (across, up, deep), mass in kg, what it can do."""

    name: str
    size: tuple[float, float, float]
    mass: float
    materials: tuple[str, ...]
    abilities: frozenset[str]

    def can(self, ability: str) -> bool:
        """Whether it has an ability, by the table's word."""
        return ability in self.abilities


@cache
def catalog() -> dict[str, ObjectType]:
    """Every type that our scenes are made of, by name."""
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
