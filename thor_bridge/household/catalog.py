"""What the types of household objects are like and can do, in AI2-THOR's terms.

The abilities are those that AI2-THOR 5.0.0 reports for its own objects, so that a
plan that works on a type here works on it there; sizes and masses are typical.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

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
"""The words of the table below and the metadata keys that they set."""

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

_TABLE = """
AlarmClock .18 .18 .17 .8 Metal,Plastic,Glass pick
AluminumFoil .24 .04 .08 .9 Metal,Paper pick
Apple .12 .11 .11 .2 Food pick slice
AppleSliced .08 .08 .04 .05 Food pick
ArmChair .98 .91 .96 28 Fabric receptacle move
BaseballBat .24 .95 .28 .9 Wood pick
BasketBall .24 .24 .24 .6 Rubber pick
Bathtub .8 .6 1.7 0 - receptacle
BathtubBasin .67 .42 1.5 0 - receptacle
Bed 1.6 .9 2.1 30 Wood,Fabric receptacle dirty move
Blinds .87 .2 .03 0 - open
Book .29 .03 .31 .5 Paper open pick
Boots .29 .52 .28 .7 Plastic pick
Bottle .11 .25 .11 .2 Glass break fill pick
Bowl .19 .09 .19 .47 Ceramic receptacle break fill dirty pick
Box .46 .29 .44 .3 Paper receptacle open pick
Bread .15 .14 .29 .7 Food slice pick
BreadSliced .12 .12 .02 .05 Food cook pick
ButterKnife .03 .01 .2 .08 Metal pick
CD .1 .01 .1 .01 Plastic pick
Cabinet .5 .66 .41 0 - receptacle open
Candle .05 .13 .05 .2 Wax toggle pick
CellPhone .07 .01 .15 .16 Metal,Glass toggle break pick
Chair .55 .95 .55 10 Wood receptacle move
Cloth .21 .02 .18 .05 Fabric dirty pick
CoffeeMachine .3 .44 .4 5 Plastic receptacle toggle heat move
CoffeeTable 1 .44 .7 11 Wood receptacle move
CounterTop 1.2 .04 .65 0 - receptacle
CreditCard .1 .01 .08 .01 Plastic pick
Cup .11 .15 .11 .4 Glass receptacle break fill dirty pick
Curtains .96 2.1 .1 0 - -
Desk 1.25 .8 .7 34 Wood receptacle move
DeskLamp .2 .46 .2 2 Metal,Fabric toggle move
Desktop .46 .57 .5 2.5 Plastic toggle break move
DiningTable 1.3 .78 1 85 Wood receptacle move
DishSponge .09 .03 .14 .03 Sponge pick
DogBed .99 .17 .83 1 Fabric receptacle move
Drawer .5 .19 .43 0 - receptacle open
Dresser 1 .97 .5 57 Wood receptacle move
Dumbbell .31 .13 .2 4.5 Metal pick
Egg .07 .06 .06 .05 Food break slice pick
EggCracked .1 .02 .1 .05 Food cook pick
Faucet .2 .21 .2 0 - toggle
Floor 5 .1 5 1 Wood receptacle
FloorLamp .4 1.8 .4 3.9 Metal toggle move
Footstool .28 .31 .28 4 Wood,Fabric receptacle pick
Fork .03 .02 .2 .04 Metal pick
Fridge .75 1.87 .75 0 - receptacle cold open
GarbageBag .5 .56 .5 3.5 Plastic move
GarbageCan .35 .54 .35 .7 Metal receptacle move
HandTowel .08 .41 .08 .08 Fabric pick
HandTowelHolder .05 .21 .17 0 - receptacle
HousePlant .3 .5 .3 3 Ceramic,Organic fill move
Kettle .2 .19 .21 .8 Metal,Plastic fill open pick
KeyChain .13 .01 .08 .08 Metal,Plastic pick
Knife .04 .01 .3 .18 Metal,Plastic pick
Ladle .08 .06 .25 .08 Metal,Plastic pick
Laptop .38 .25 .3 2.3 Metal,Plastic,Glass toggle break open pick
LaundryHamper .45 .74 .45 1.6 Fabric receptacle open move
Lettuce .19 .15 .2 .47 Food slice pick
LettuceSliced .1 .08 .03 .06 Food pick
LightSwitch .11 .15 .04 0 - toggle
Microwave .55 .35 .4 7 Metal,Glass receptacle toggle heat open move
Mirror .6 .85 .05 0 - break dirty
Mug .11 .1 .1 1 Ceramic receptacle break fill dirty pick
Newspaper .3 .03 .24 .2 Paper pick
Ottoman .8 .43 .52 10 Wood,Fabric receptacle move
Painting .6 .8 .05 0 - -
Pan .28 .05 .4 .67 Metal receptacle dirty pick
PaperTowelRoll .08 .21 .07 .22 Paper pick
Pen .02 .01 .15 .01 Plastic,Metal pick
Pencil .02 .01 .15 .01 Wood pick
PepperShaker .07 .11 .07 .14 Metal,Glass pick
Pillow .41 .14 .39 .7 Fabric pick
Plate .24 .02 .24 .62 Ceramic receptacle break dirty pick
Plunger .15 .54 .15 1 Rubber,Wood pick
Poster .6 .7 .02 0 - -
Pot .3 .16 .3 .57 Metal receptacle fill dirty pick
Potato .1 .08 .11 .18 Food cook slice pick
PotatoSliced .08 .08 .03 .03 Food cook pick
RemoteControl .07 .02 .21 .15 Metal,Plastic pick
RoomDecor .33 1.4 .33 2.7 Ceramic move
Safe .52 .51 .53 10 Metal receptacle open move
SaltShaker .07 .11 .07 .4 Metal,Glass pick
ScrubBrush .13 .48 .13 .19 Plastic pick
Shelf .8 .04 .3 0 - receptacle
ShelvingUnit .8 1.5 .4 22 Wood move
ShowerCurtain .1 1.9 1.4 0 - open
ShowerDoor .07 1.9 .8 0 - break open
ShowerGlass .05 1.9 .8 0 - break
ShowerHead .25 .3 .25 0 - toggle
SideTable .5 .65 .5 11 Metal receptacle move
Sink .6 .2 .5 0 - -
SinkBasin .45 .15 .38 0 - receptacle
SoapBar .08 .03 .1 .11 Soap pick
SoapBottle .09 .24 .09 .4 Plastic pick
Sofa 1.9 .9 .9 104 Fabric receptacle move
Spatula .08 .02 .26 .06 Metal,Plastic pick
Spoon .04 .02 .2 .04 Metal pick
SprayBottle .07 .25 .11 .11 Plastic pick
Statue .2 .34 .19 1 Stone break pick
Stool .38 .76 .38 3.2 Wood receptacle move
StoveBurner .22 .02 .22 0 - receptacle heat
StoveKnob .07 .07 .05 0 - toggle
TVStand 1.3 .6 .5 11 Wood receptacle move
TableTopDecor .3 .14 .3 5.4 Glass pick
TeddyBear .38 .4 .35 .9 Fabric pick
Television 1.1 .7 .12 9.8 Plastic,Metal toggle break move
TennisRacket .29 .62 .1 .31 Metal,Plastic pick
TissueBox .2 .15 .1 .35 Paper pick
Toaster .28 .21 .2 5 Metal receptacle toggle heat move
Toilet .45 .9 .75 0 - receptacle open
ToiletPaper .1 .12 .1 .2 Paper pick
ToiletPaperHanger .2 .08 .11 0 - receptacle
Tomato .12 .1 .12 .12 Food slice pick
TomatoSliced .08 .06 .03 .02 Food pick
Towel .41 .59 .04 .57 Fabric pick
TowelHolder .66 .04 .11 0 - receptacle
VacuumCleaner .44 1 .44 6.8 Plastic,Metal move
Vase .18 .24 .18 1 Ceramic break pick
Watch .07 .04 .06 .07 Metal,Glass pick
WateringCan .15 .19 .27 1 Plastic fill pick
Window .9 1.2 .1 0 - break
WineBottle .09 .33 .09 1.2 Glass break fill pick
"""


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
    for line in _TABLE.split("\n"):
        if not line:
            continue
        name, width, height, depth, mass, materials, *abilities = line.split()
        found[name] = ObjectType(
            name,
            (float(width), float(height), float(depth)),
            float(mass),
            () if materials == "-" else tuple(materials.split(",")),
            frozenset(abilities) - {"-"},
        )
    return found
