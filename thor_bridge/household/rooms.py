"""Our own rooms: walls, furniture along them, things on it, and the free floor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from forewarn.thor_bridge.household.catalog import ENCLOSING, ONLY_FOR, catalog
from forewarn.thor_bridge.household.objects import Object, new_object, object_id

STEP_M = 0.25
RADIUS_M = 0.2
GAP_M = 0.06


class Room:
    """A room being furnished; walls are numbered 0 to 3, clockwise from the north."""

    def __init__(self, name: str, width: float, depth: float) -> None:
        self.luck = Random(f"forewarn household {name}")  # noqa: S311
        self.width, self.depth = width, depth
        self.objects: list[Object] = []
        self.by_id: dict[str, Object] = {}
        self.blocked: list[tuple[float, float, float, float]] = []
        self._reached = [0.0, 0.0, 0.0, 0.0]
        self.floor = self.add(
            "Floor",
            (0, -0.05, 0),
            (width, 0.1, depth),
            identity=object_id("Floor", 0, 0, 0),
        )

    def length(self, wall: int) -> float:
        return self.width if wall % 2 == 0 else self.depth

    def add(
        self,
        kind: str,
        center: Sequence[float],
        size: Sequence[float] | None = None,
        parent: Object | None = None,
        **rest: Any,
    ) -> Object:
        """Puts an object where it is told, into a receptacle or not."""
        center = [round(v, 3) + 0.0 for v in center]
        size = catalog()[kind].size if size is None else size
        identity = rest.pop("identity", None) or object_id(
            kind, center[0], center[1] - size[1] / 2, center[2]
        )
        while identity in self.by_id:
            center[0] = round(center[0] + 0.01, 3)
            identity = object_id(kind, center[0], center[1] - size[1] / 2, center[2])
        parents = None
        if parent is not None:
            above = [p for p in parent["parentReceptacles"] or [] if "Floor" not in p]
            parents = [parent["objectId"], *above]
            parent["receptacleObjectIds"].append(identity)
        thing = new_object(
            kind, center, size, identity=identity, parents=parents, **rest
        )
        self.objects.append(thing)
        self.by_id[identity] = thing
        return thing

    def slot(self, width: float) -> tuple[int, float] | None:
        """A free stretch of wall: which wall, and where along it; None if none is."""
        walls = [
            wall
            for wall in range(4)
            if self._reached[wall] + width + 0.75 <= self.length(wall)
        ]
        if not walls:
            return None
        wall = self.luck.choice(walls)
        along = 0.7 + self._reached[wall] + width / 2 - self.length(wall) / 2
        self._reached[wall] += width + GAP_M
        return wall, along

    def at(self, wall: int, along: float, out: float) -> tuple[float, float]:
        """The point so far along a wall and so far from it."""
        if wall == 0:
            return along, self.depth / 2 - out
        if wall == 1:
            return self.width / 2 - out, -along
        if wall == 2:
            return -along, -self.depth / 2 + out
        return -self.width / 2 + out, along

    def against(
        self,
        kind: str,
        slot: tuple[int, float],
        base: float = 0.0,
        parent: Object | None = None,
        *,
        along: float = 0.0,
        out: float | None = None,
        size: Sequence[float] | None = None,
        **rest: Any,
    ) -> Object:
        """An object at a slot, its back to the wall, its foot at a height."""
        wide, high, deep = catalog()[kind].size if size is None else size
        wall, center = slot
        x, z = self.at(wall, center + along, deep / 2 + 0.02 if out is None else out)
        turned = (180.0, 270.0, 0.0, 90.0)[wall]
        box = (wide, high, deep) if wall % 2 == 0 else (deep, high, wide)
        return self.add(
            kind, (x, base + high / 2, z), box, parent, turned=turned, **rest
        )

    def stand(self, kind: str, **rest: Any) -> tuple[Object, tuple[int, float]] | None:
        """Furniture on the floor along a wall, and its slot, if there is room left."""
        wide, _, deep = catalog()[kind].size
        slot = self.slot(wide)
        if slot is None:
            return None
        thing = self.against(kind, slot, 0.0, self.floor, **rest)
        self.block(thing)
        return thing, slot

    def block(self, thing: Object) -> None:
        """No robot stands where this is."""
        box = thing["axisAlignedBoundingBox"]
        center, size = box["center"], box["size"]
        self.blocked.append((center["x"], center["z"], size["x"] / 2, size["z"] / 2))

    def hang(self, kind: str, height: float, **rest: Any) -> Object:
        """Something on a wall, wherever."""
        wall = self.luck.randrange(4)
        along = self.luck.uniform(-0.4, 0.4) * self.length(wall)
        return self.against(kind, (wall, along), height, **rest)

    def lay(self, kind: str, *wanted: str, **state: Any) -> Object | None:
        """Puts a thing in or on a receptacle of one of these types, at random."""
        item = catalog()[kind].size
        places = [
            thing
            for thing in self.objects
            if thing["objectType"] in wanted and self._fits(item, kind, thing)
        ]
        if not places:
            return None
        place = self.luck.choice(places)
        box = place["axisAlignedBoundingBox"]
        center, size = box["center"], box["size"]
        inside = place["objectType"] in ENCLOSING
        room_x = max(0.0, size["x"] / 2 - item[0] / 2 - 0.02)
        room_z = max(0.0, size["z"] / 2 - item[2] / 2 - 0.02)
        alone = place["objectType"] in ONLY_FOR
        x = center["x"] + (0 if alone else self.luck.uniform(-room_x, room_x))
        z = center["z"] + (0 if alone else self.luck.uniform(-room_z, room_z))
        top = center["y"] + size["y"] / 2
        if inside:
            y = center["y"] - size["y"] / 2 + 0.03 + item[1] / 2
        elif place["objectType"] in ("Bed", "Sofa", "ArmChair", "Chair", "Toilet"):
            y = 0.5 * size["y"] + item[1] / 2
        else:
            y = top + item[1] / 2
        if place["objectType"] == "Fridge":
            state.setdefault("temperature", "Cold")
        return self.add(kind, (x, y, z), None, place, **state)

    def _fits(self, item: Sequence[float], kind: str, place: Object) -> bool:
        only = ONLY_FOR.get(place["objectType"])
        if only is not None:
            return kind in only and not place["receptacleObjectIds"]
        size: dict[str, float] = place["axisAlignedBoundingBox"]["size"]
        taken = sum(
            _area(self.by_id[inside]) for inside in place["receptacleObjectIds"]
        )
        wide, deep = sorted((size["x"], size["z"])), sorted((item[0], item[2]))
        return (
            deep[0] <= wide[0]
            and deep[1] <= wide[1]
            and taken + item[0] * item[2] <= 0.6 * size["x"] * size["z"]
        )

    def grid(self) -> list[tuple[float, float]]:
        """Where the robot can stand: the largest connected part of the free floor."""
        half_x, half_z = self.width / 2 - RADIUS_M, self.depth / 2 - RADIUS_M
        cells = {
            (i, k)
            for i in range(-int(half_x / STEP_M), int(half_x / STEP_M) + 1)
            for k in range(-int(half_z / STEP_M), int(half_z / STEP_M) + 1)
            if self._is_free(i * STEP_M, k * STEP_M)
        }
        best: list[tuple[int, int]] = []
        while cells:
            part, front = [], [cells.pop()]
            while front:
                i, k = front.pop()
                part.append((i, k))
                for cell in ((i + 1, k), (i - 1, k), (i, k + 1), (i, k - 1)):
                    if cell in cells:
                        cells.remove(cell)
                        front.append(cell)
            best = max(best, part, key=len)
        return [(i * STEP_M, k * STEP_M) for i, k in sorted(best)]

    def _is_free(self, x: float, z: float) -> bool:
        return not any(
            abs(x - bx) < hx + RADIUS_M and abs(z - bz) < hz + RADIUS_M
            for bx, bz, hx, hz in self.blocked
        )


def _area(thing: Object) -> float:
    size = thing["axisAlignedBoundingBox"]["size"]
    area: float = size["x"] * size["z"]
    return area


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
