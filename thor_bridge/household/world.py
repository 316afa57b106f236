"""The embedded household: objects, the robot, and the metadata that AI2-THOR would
report.

Objects are never modified, so metadata and copies are cheap: they share all unchanged
objects.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from forewarn.thor_bridge.household.catalog import ENCLOSING, SURFACES
from forewarn.thor_bridge.household.objects import Object, sources, vector, with_bounds
from forewarn.thor_bridge.household.scenes import (
    Scene,
    find_scene,
    own_scenes,
)
from forewarn.thor_bridge.household.seeing import CAMERA_M, Shapes


@dataclass(frozen=True, slots=True)
class Failures:
    """The probabilities that actions fail for physical reasons.

    Args:
        rates: The fraction of objects for which an action fails, by action.
        by_receptacle: The fraction of objects that cannot be put into a receptacle, by
            the type of the receptacle.
    """

    rates: Mapping[str, float] = field(default_factory=dict)
    by_receptacle: Mapping[str, float] = field(default_factory=dict)

    def strikes(self, world: World, name: str, identity: str) -> bool:
        """Whether an action fails on an object in this episode."""
        rate = self.rates.get(name, 0.0)
        if name == "PutObject" and self.by_receptacle:
            kind = world.objects[identity]["objectType"]
            rate = self.by_receptacle.get(kind, rate)
        return rate > 0.0 and world.chance(name, identity, world.held) < rate


NO_FAILURES = Failures()

REAL = Failures(
    rates={
        "BreakObject": 0.03,
        "FillObjectWithLiquid": 0.03,
        "OpenObject": 0.014,
        "PickupObject": 0.006,
        "PutObject": 0.08,
        "ToggleObjectOff": 0.03,
        "ToggleObjectOn": 0.03,
    },
    by_receptacle={"CounterTop": 0.045, "Cup": 0.23, "Fridge": 0.24},
)
"""The rates of failures that the household's rules do not explain.

The rates come from two thirds of the recorded runs. Of the steps that the rules allow,
these failed in the real AI2-THOR: 11 of 139 puts, 4 of 140 fills, 2 of 68 toggles on, 1
of 74 opens, and 2 of 360 pickups. The rates of individual receptacles are shrunk
towards the rate of all puts, which has the weight of ten puts.
"""

PROFILES = {"off": NO_FAILURES, "real": REAL}


AGENT_HEIGHT_M = 0.9009992
HAND_HEIGHT_M = 1.2
HAND_M = 0.45
"""The distance in metres ahead of the robot at which it holds an object."""


class ActionRejected(Exception):
    """AI2-THOR would reject the action. The exception has AI2-THOR's error text and
    code.
    """

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.message, self.code = message, code


@dataclass(frozen=True, slots=True)
class ActionResult:
    """The outcome of an action."""

    action: str
    success: bool
    error: str = ""
    code: str = ""
    returned: Any = None


@dataclass(slots=True)
class Pose:
    """The robot's position and viewing direction."""

    x: float = 0.0
    y: float = AGENT_HEIGHT_M
    z: float = 0.0
    rotation: float = 0.0
    horizon: float = 0.0
    standing: bool = True


class World:
    """A household that runs in this process.

    Args:
        scenes: The scenes that `Reset` can load; by default the included scenes.
        scene: The name of the initial scene; by default the first scene.
        seed: The seed of random failures.
        failures: The probabilities of physical failures.
    """

    def __init__(
        self,
        scenes: Mapping[str, Scene] | None = None,
        scene: str = "",
        *,
        seed: int = 0,
        failures: Failures = NO_FAILURES,
    ) -> None:
        self.scenes = own_scenes() if scenes is None else scenes
        self.seed, self.failures = seed, failures
        self.width, self.height = 300, 300
        self.fov = 90.0
        self.load(scene or next(iter(self.scenes)))

    def load(self, name: str, seed: int | None = None) -> None:
        """Loads a scene in its initial state."""
        scene = find_scene(self.scenes, name)
        if seed is not None:
            self.seed = seed
        self.scene, self.scene_name = scene, name
        self.reach_m, self.grid_m = 1.5, 0.25
        self.time_s = 0.0
        self.held: str | None = None
        self.hot_until: dict[str, float] = {}
        self.objects: dict[str, Object] = {
            thing["objectId"]: thing for thing in scene.objects
        }
        self._rows = {name: row for row, name in enumerate(self.objects)}
        self.shapes = Shapes.of(scene.objects)
        self.cells = np.array(scene.grid, float)
        middle = self.cells - self.cells.mean(axis=0)
        x, z = self.cells[int(np.argmin(np.einsum("ij,ij->i", middle, middle)))]
        self.pose = Pose(float(x), AGENT_HEIGHT_M, float(z))
        self.last = ActionResult("", True)
        self.sources = sources(scene.objects)
        self.look()

    def copy(self) -> World:
        """Returns a copy of the world on which an action can be tried."""
        other = object.__new__(World)
        other.__dict__.update(self.__dict__)
        other.objects = dict(self.objects)
        other.hot_until = dict(self.hot_until)
        other._rows = dict(self._rows)
        other.shapes = self.shapes.copy()
        other.pose = replace(self.pose)
        return other

    # -- changing

    def edit(self, identity: str, **changes: Any) -> Object:
        """Replaces an object with a copy that has changed values."""
        thing = {**self.objects[identity], **changes}
        self.objects[identity] = thing
        return thing

    def add(self, thing: Object) -> None:
        """Adds a new object, such as a slice, to the world."""
        self._rows[thing["objectId"]] = len(self._rows)
        self.objects[thing["objectId"]] = thing
        new = Shapes.of([thing])
        old = self.shapes
        self.shapes = Shapes(
            np.vstack([old.centers, new.centers]),
            np.vstack([old.sizes, new.sizes]),
            np.vstack([old.places, new.places]),
        )

    def remove(self, identity: str) -> None:
        """Removes an object that contains no other objects from the world."""
        row = self._rows[identity]
        del self.objects[identity]
        self.hot_until.pop(identity, None)
        self._rows = {name: row for row, name in enumerate(self.objects)}
        kept = (np.delete(part, row, axis=0) for part in self.shapes.rows())
        self.shapes = Shapes(*kept)
        self.sources = sources(self.objects.values())

    def move(self, identity: str, x: float, y: float, z: float) -> None:
        """Moves an object to a position, with everything in or on it."""
        place = self.objects[identity]["position"]
        step = (x - place["x"], y - place["y"], z - place["z"])
        for each in dict.fromkeys((identity, *self.within(identity))):
            self._shift(each, step)

    def _shift(self, identity: str, step: tuple[float, float, float]) -> None:
        row = self._rows[identity]
        self.shapes.centers[row] += step
        self.shapes.places[row] += step
        thing = self.edit(identity, position=vector(*self.shapes.places[row]))
        center, size = self.shapes.centers[row], self.shapes.sizes[row]
        with_bounds(thing, [float(v) for v in center], [float(v) for v in size])

    def within(self, identity: str) -> Iterator[str]:
        """Yields the ids of all objects in or on an object, directly or indirectly."""
        for inside in self.objects[identity]["receptacleObjectIds"] or ():
            yield inside
            yield from self.within(inside)

    def take_out(self, identity: str) -> None:
        """Removes an object from everything that it is in or on."""
        for parent in self.objects[identity]["parentReceptacles"] or ():
            inside = self.objects[parent]["receptacleObjectIds"] or []
            if identity in inside:
                left = [other for other in inside if other != identity]
                self.edit(parent, receptacleObjectIds=left)
        self._set_parents(identity, None)

    def put_in(self, identity: str, receptacle: str) -> None:
        """Puts an object into or onto another object."""
        self.take_out(identity)
        place = self.objects[receptacle]
        inside = place["receptacleObjectIds"] or []
        self.edit(receptacle, receptacleObjectIds=[*inside, identity])
        above = [
            parent
            for parent in place["parentReceptacles"] or ()
            if self.objects[parent]["objectType"] != "Floor"
        ]
        self._set_parents(identity, [receptacle, *above])

    def _set_parents(self, identity: str, parents: list[str] | None) -> None:
        self.edit(identity, parentReceptacles=parents)
        for inside in self.objects[identity]["receptacleObjectIds"] or ():
            self._set_parents(inside, [identity, *(parents or ())])

    # -- seeing

    def look(self) -> None:
        """Updates distances and visibility."""
        pose = self.pose
        view = (pose.x, pose.y, pose.z, pose.rotation, pose.horizon)
        tangent = math.tan(math.radians(self.fov) / 2)
        seen = self.shapes.in_view(
            view, self.reach_m, tangent, self.width / self.height
        ).tolist()
        distances = self.shapes.distances(pose.x, pose.y, pose.z).tolist()
        objects = self.objects
        for row, (identity, thing) in enumerate(objects.items()):
            visible = identity == self.held or (seen[row] and not self.hidden(thing))
            away = distances[row]
            if thing["visible"] is not visible or thing["distance"] != away:
                objects[identity] = {
                    **thing,
                    "visible": visible,
                    "isInteractable": visible,
                    "distance": away,
                }

    def hidden(self, thing: Object) -> bool:
        """Whether an object is invisible because it is enclosed or has been sliced."""
        if thing["isSliced"] and thing["sliceable"]:
            return True
        if thing["isBroken"] and thing["objectType"] == "Egg":
            return True
        for parent in thing["parentReceptacles"] or ():
            place = self.objects[parent]
            if place["objectType"] in ENCLOSING and place["openable"]:
                if not place["isOpen"]:
                    return True
        return False

    def hand(self) -> tuple[float, float, float]:
        """Returns the position of the robot's hand."""
        pose = self.pose
        turn = math.radians(pose.rotation)
        x, z = HAND_M * math.sin(turn), HAND_M * math.cos(turn)
        return pose.x + x, HAND_HEIGHT_M, pose.z + z

    def surface_under(self, x: float, z: float, below: float) -> str | None:
        """Returns the highest surface at a point whose top is below a given height, or
        None.
        """
        centers, half = self.shapes.centers, self.shapes.sizes / 2
        tops = centers[:, 1] + half[:, 1]
        there = (np.abs(centers[:, 0] - x) <= half[:, 0]) & (tops < below)
        there &= np.abs(centers[:, 2] - z) <= half[:, 2]
        found: str | None = None
        highest = -1.0
        names = list(self.objects)
        for row in np.flatnonzero(there).tolist():
            thing = self.objects[names[row]]
            kind = thing["objectType"]
            open_top = kind in SURFACES or kind in ("SinkBasin", "BathtubBasin")
            if open_top and not thing["pickupable"] and tops[row] > highest:
                found, highest = names[row], float(tops[row])
        return found

    def floor(self) -> str | None:
        """Returns the id of the floor, or None if the scene has none."""
        for identity, thing in self.objects.items():
            if thing["objectType"] == "Floor":
                return identity
        return None

    def chance(self, *key: object) -> float:
        """Returns a number from 0 to 1 that depends only on the seed, the scene and the
        key.
        """
        text = " ".join(str(part) for part in (self.seed, self.scene_name, *key))
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        return int.from_bytes(digest) / 2**64

    # -- reporting

    def positions(self) -> list[dict[str, float]]:
        """Returns the positions where the robot can stand."""
        return [vector(x, AGENT_HEIGHT_M, z) for x, z in self.cells.tolist()]

    def agent(self) -> dict[str, Any]:
        """Returns the robot in the metadata format."""
        pose = self.pose
        return {
            "cameraHorizon": pose.horizon,
            "inHighFrictionArea": False,
            "isStanding": pose.standing,
            "name": "agent",
            "position": vector(pose.x, pose.y, pose.z),
            "rotation": vector(0.0, pose.rotation, 0.0),
        }

    def metadata(self) -> dict[str, Any]:
        """Returns the complete metadata that AI2-THOR would report."""
        pose, last = self.pose, self.last
        held = self.objects[self.held] if self.held is not None else None
        return {
            **_CONSTANT,
            "objects": list(self.objects.values()),
            "agent": self.agent(),
            "heldObjectPose": None,
            "cameraPosition": vector(pose.x, pose.y + CAMERA_M, pose.z),
            "fov": self.fov,
            "inventoryObjects": []
            if held is None
            else [{"objectId": held["objectId"], "objectType": held["objectType"]}],
            "sceneName": self.scene_name,
            "lastAction": last.action,
            "lastActionSuccess": last.success,
            "errorMessage": last.error,
            "errorCode": last.code,
            "actionReturn": last.returned,
            "screenWidth": self.width,
            "screenHeight": self.height,
            "currentTime": self.time_s,
        }


_CONSTANT: Mapping[str, Any] = {
    "arm": None,
    "actionFloatReturn": 0.0,
    "actionFloatsReturn": None,
    "actionIntReturn": 0,
    "actionStringsReturn": None,
    "actionVector3sReturn": None,
    "agentId": 0,
    "cameraOrthSize": 0.0,
    "collided": False,
    "collidedObjects": [],
    "colorBounds": None,
    "colors": None,
    "depthFormat": "Meters",
    "distances": None,
    "flatSurfacesOnGrid": None,
    "isOpenableGrid": None,
    "isSceneAtRest": True,
    "normals": None,
    "objectIdsInBox": None,
    "sceneBounds": None,
    "segmentedObjectIds": None,
    "thirdPartyCameras": [],
    "visibleRange": None,
}
