"""A room that is being furnished: its walls, what stands where, and the free floor."""

from __future__ import annotations

from collections.abc import Sequence
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
