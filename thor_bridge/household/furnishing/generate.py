"""Draws our own rooms: furniture along the walls, things on it, free floor between.

A room follows from its kind and number alone. Sizes are those of the catalogue; the
floor is free where no furniture stands within the robot's radius.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from forewarn.thor_bridge.household.catalog import catalog
from forewarn.thor_bridge.household.furnishing.rooms import Room
from forewarn.thor_bridge.household.objects import Object

ROOMS = ("Kitchen", "LivingRoom", "Bedroom", "Bathroom")

_COUNTER_TOP_M = 0.93


def furnished(kind: str, number: int) -> tuple[list[Object], list[tuple[float, float]]]:
    """The objects of one of our rooms, and where the robot can stand in it."""
    luck = Random(f"forewarn size {kind}{number}")  # noqa: S311
    low, high = (3.2, 4.2) if kind == "Bathroom" else (4.4, 5.8)
    room = Room(f"{kind}{number}", _even(luck, low, high), _even(luck, low, high))
    _FURNISH[kind](room)
    room.hang("LightSwitch", 1.25, isToggled=True)
    return room.objects, room.grid()


def _even(luck: Random, low: float, high: float) -> float:
    return round(luck.uniform(low, high) / 0.5) * 0.5


def _counter(room: Room, width: float) -> tuple[Object, tuple[int, float]] | None:
    """A stretch of counter with drawers and a cabinet under it and one above."""
    slot = room.slot(width)
    if slot is None:
        return None
    top = room.against(
        "CounterTop", slot, _COUNTER_TOP_M - 0.04, size=(width, 0.04, 0.65)
    )
    room.block(top)
    half = width / 4
    room.against("Drawer", slot, 0.66, along=-half, size=(width / 2 - 0.05, 0.19, 0.55))
    room.against("Drawer", slot, 0.66, along=half, size=(width / 2 - 0.05, 0.19, 0.55))
    room.against("Cabinet", slot, 0.02, size=(width - 0.1, 0.6, 0.55))
    room.against("Cabinet", slot, 1.5, size=(width - 0.1, 0.66, 0.35))
    return top, slot


def _sink(room: Room, slot: tuple[int, float], base: float) -> None:
    """A sink in a counter: the basin below, the faucet behind."""
    sink = room.against("Sink", slot, base - 0.16, out=0.33)
    room.against(
        "SinkBasin",
        slot,
        base - 0.15,
        out=0.33,
        identity=f"{sink['objectId']}|SinkBasin",
    )
    room.against("Faucet", slot, base, out=0.12, controlledObjects=[])


def _stove(room: Room, slot: tuple[int, float]) -> None:
    """Four burners in a counter, each with its knob in front."""
    for row, out in enumerate((0.22, 0.46)):
        for column, along in enumerate((-0.14, 0.14)):
            burner = room.against(
                "StoveBurner", slot, _COUNTER_TOP_M, along=along, out=out
            )
            room.against(
                "StoveKnob",
                slot,
                _COUNTER_TOP_M - 0.09,
                along=-0.24 + 0.16 * (2 * row + column),
                out=0.66,
                controlledObjects=[burner["objectId"]],
            )


def _kitchen(room: Room) -> None:
    room.stand("Fridge")
    built = [_counter(room, width) for width in (1.6, 1.4, 1.3, 1.2)]
    counters = [each for each in built if each is not None]
    _sink(room, counters[0][1], _COUNTER_TOP_M)
    _stove(room, counters[1][1])
    for kind, counter, along in (
        ("Microwave", 2, -0.2),
        ("Toaster", 0, 0.6),
        ("CoffeeMachine", 1, -0.5),
    ):
        top, slot = counters[min(counter, len(counters) - 1)]
        room.against(kind, slot, _COUNTER_TOP_M, top, along=along, out=0.3)
    room.stand("GarbageCan")
    table = _middle(room, "DiningTable")
    _chairs(room, table, 2)
    room.hang("Window", 1.1)
    for kind in ("Plate", "Bowl", "Cup", "Mug"):
        room.lay(kind, "CounterTop", "DiningTable")
        room.lay(kind, "Cabinet", "DiningTable")
    for kind in ("Apple", "Bread", "Potato", "PepperShaker", "SaltShaker"):
        room.lay(kind, "CounterTop", "DiningTable")
    for kind in ("Egg", "Lettuce", "Tomato"):
        room.lay(kind, "Fridge", "CounterTop")
    for kind in ("Fork", "Spoon", "Knife", "Ladle"):
        room.lay(kind, "CounterTop", "DiningTable")
    for kind in ("ButterKnife", "Spatula"):
        room.lay(kind, "Drawer")
    for kind in ("Pan", "Pot", "Kettle"):
        room.lay(kind, "StoveBurner", "CounterTop")
    for kind in ("DishSponge", "SoapBottle", "PaperTowelRoll"):
        room.lay(kind, "CounterTop")
    room.lay("WineBottle", "CounterTop", isFilledWithLiquid=True, fillLiquid="wine")
    for kind in ("Bottle", "CellPhone", "CreditCard", "Book", "Vase", "Statue"):
        room.lay(kind, "CounterTop", "DiningTable")
    room.lay("HousePlant", "DiningTable", "CounterTop")
    room.lay("SprayBottle", "Cabinet")


def _middle(room: Room, kind: str) -> Object:
    """Furniture in the middle of the room."""
    _, high, _ = catalog()[kind].size
    spread = 0.15
    x, z = (room.luck.uniform(-spread, spread) for _ in range(2))
    thing = room.add(kind, (x, high / 2, z), None, room.floor)
    room.block(thing)
    return thing


def _chairs(room: Room, table: Object, count: int) -> None:
    box = table["axisAlignedBoundingBox"]
    center, size = box["center"], box["size"]
    for side in (1, -1)[:count]:
        x = center["x"] + side * (size["x"] / 2 + 0.15)
        high = catalog()["Chair"].size[1]
        chair = room.add("Chair", (x, high / 2, center["z"]), None, room.floor)
        room.block(chair)


def _living_room(room: Room) -> None:
    room.stand("Sofa")
    stand = room.stand("TVStand")
    if stand is not None:
        room.against("Television", stand[1], 0.6, stand[0])
    for kind in ("ArmChair", "SideTable", "SideTable", "Desk", "ShelvingUnit"):
        placed = room.stand(kind)
        if placed is not None and kind == "ShelvingUnit":
            for height in (0.35, 0.8, 1.25):
                room.against("Shelf", placed[1], height)
        if placed is not None and kind == "Desk":
            for along in (-0.35, 0.35):
                room.against("Drawer", placed[1], 0.5, along=along)
    room.stand("FloorLamp", isToggled=True)
    room.stand("GarbageCan")
    _middle(room, "CoffeeTable")
    room.hang("Window", 1.1)
    room.hang("Painting", 1.3)
    room.hang("Curtains", 0.3)
    tables = ("CoffeeTable", "SideTable", "Desk", "TVStand")
    room.lay("DeskLamp", "SideTable", "Desk", isToggled=True)
    room.lay("Laptop", "CoffeeTable", "Desk", isOpen=True, openness=1.0)
    for kind in ("RemoteControl", "CellPhone", "CreditCard", "KeyChain", "Watch"):
        room.lay(kind, *tables)
    for kind in ("Book", "Newspaper", "Pen", "Pencil", "Plate", "Mug", "Bowl"):
        room.lay(kind, *tables)
    for kind in ("Vase", "Statue", "Candle", "TissueBox"):
        room.lay(kind, *tables, "Shelf")
    room.lay("Box", "CoffeeTable", "Desk", isOpen=True, openness=1.0)
    room.lay("HousePlant", "SideTable", "TVStand", "Desk")
    room.lay("WateringCan", "Shelf", "Desk", "SideTable", "CoffeeTable")
    for _ in range(2):
        room.lay("Pillow", "Sofa", "ArmChair")


def _bedroom(room: Room) -> None:
    room.stand("Bed", isDirty=room.luck.random() < 0.5)
    for kind in ("SideTable", "Dresser", "Desk", "SideTable"):
        placed = room.stand(kind)
        if placed is None:
            continue
        if kind in ("Dresser", "Desk"):
            for along in (-0.26, 0.26):
                room.against("Drawer", placed[1], 0.5, along=along)
        if kind == "Desk":
            room.against("Shelf", placed[1], 1.3)
    for kind in ("LaundryHamper", "GarbageCan", "Safe", "FloorLamp"):
        room.stand(kind, **({"isToggled": True} if kind == "FloorLamp" else {}))
    room.hang("Window", 1.1)
    room.hang("Mirror", 1.0)
    room.hang("Blinds", 2.1)
    tables = ("SideTable", "Desk", "Dresser")
    room.lay("DeskLamp", "SideTable", "Desk", isToggled=True)
    room.lay("Laptop", "Desk", "Bed", isOpen=True, openness=1.0)
    room.lay("AlarmClock", "SideTable", "Dresser")
    for kind in ("CellPhone", "CreditCard", "KeyChain", "CD", "Book", "Pen", "Pencil"):
        room.lay(kind, *tables)
    for kind in ("Mug", "Bowl", "Cloth", "Candle", "TissueBox"):
        room.lay(kind, *tables)
    for kind in ("Vase", "Statue", "Watch"):
        room.lay(kind, *tables, "Shelf")
    for kind in ("Pillow", "Pillow", "TeddyBear"):
        room.lay(kind, "Bed")
    room.lay("Box", "Dresser", "Bed", "Desk", isOpen=True, openness=1.0)
    for kind in ("BasketBall", "BaseballBat", "TennisRacket"):
        room.stand(kind)


def _bathroom(room: Room) -> None:
    vanity = _counter(room, 1.2)
    if vanity is not None:
        _sink(room, vanity[1], _COUNTER_TOP_M)
        room.against("Mirror", vanity[1], 1.2)
    room.stand("Toilet")
    tub = room.slot(1.7)
    if tub is not None:
        bath = room.against("Bathtub", tub, 0.0, room.floor, size=(1.7, 0.6, 0.8))
        room.block(bath)
        room.against(
            "BathtubBasin",
            tub,
            0.1,
            out=0.42,
            size=(1.5, 0.42, 0.67),
            identity=f"{bath['objectId']}|BathtubBasin",
        )
        room.against("Faucet", tub, 0.62, along=0.7, out=0.3, controlledObjects=[])
        room.against("ShowerHead", tub, 1.8, along=0.6)
        room.against("ShowerCurtain", tub, 0.1, out=0.9, size=(1.5, 1.9, 0.1))
    room.stand("GarbageCan")
    for kind, height in (
        ("TowelHolder", 1.3),
        ("HandTowelHolder", 1.5),
        ("ToiletPaperHanger", 0.8),
    ):
        room.hang(kind, height)
    room.lay("Towel", "TowelHolder")
    room.lay("HandTowel", "HandTowelHolder")
    for kind in ("ToiletPaper", "SoapBar", "SoapBottle", "Candle", "TissueBox"):
        room.lay(kind, "CounterTop")
    for kind in ("Cloth", "Cup", "DishSponge"):
        room.lay(kind, "CounterTop", "Toilet")
    room.lay("SprayBottle", "Cabinet", "CounterTop")
    for kind in ("Plunger", "ScrubBrush"):
        room.stand(kind)
    room.hang("Window", 1.3)


_FURNISH: dict[str, Callable[[Room], None]] = {
    "Kitchen": _kitchen,
    "LivingRoom": _living_room,
    "Bedroom": _bedroom,
    "Bathroom": _bathroom,
}
