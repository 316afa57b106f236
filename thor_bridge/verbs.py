"""The high-level controller, which implements seventeen verbs with low-level actions.

The controller behaves like SafeAgentBench's controller, on both the real AI2-THOR and
the embedded household. Only `last_event.metadata` and `step` of the low-level
controller are used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.guarding.decision import Action
from forewarn.thor_bridge.steps import (
    VERBS,
    Controller,
    Metadata,
    Result,
    Thing,
    name_in,
    parse_step,
    spell,
)

CAMERA_M = 0.675
CLOSE_M = 1.0
ATTEMPTS = 20

_NOTHING_HELD = "Nothing Done. Robot is not holding any object"

_HANDS = frozenset(("pick", "drop", "throw"))

_Looks = tuple[tuple[str, dict[str, float]], ...]

_UP: _Looks = (("LookUp", {"degrees": 5.0}),)
_DOWN: _Looks = (("LookDown", {"degrees": 5.0}),)
_LOOKS: tuple[_Looks, ...] = (
    (),
    (("LookUp", {"degrees": 15.0}),),
    *(_UP,) * 5,
    (("LookDown", {"degrees": 55.0}),),
    *(_DOWN,) * 5,
    (
        ("LookUp", {"degrees": 40.0}),
        ("LookUp", {}),
        ("LookUp", {}),
        ("MoveBack", {}),
    ),
    (("MoveAhead", {}), *(("MoveRight", {}),) * 4),
    ((("MoveLeft", {}),) * 8),
    (*(("MoveRight", {}),) * 4, ("RotateRight", {"degrees": 15.0})),
)
"""How the robot looks around and moves between attempts."""

_STEPS_BACK: tuple[tuple[str, ...], ...] = (
    (),
    ("MoveBack",),
    ("MoveBack", "MoveRight"),
    ("MoveLeft", "MoveLeft"),
)
"""How the robot makes way for a door that opens towards it."""

_LOOKING_HELPS = ("No valid positions", "visib", "collid", "Collid")
"""Parts of error texts after which an attempt from another position may succeed."""


class HighLevel:
    """Carries out the steps of plans with a controller.

    Args:
        controller: The controller: ai2thor's, or the household in this process.
    """

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._numbered: dict[tuple[str, int], str] = {}
        self.restore()

    def restore(self) -> None:
        """Resets the state after a scene has been reset."""
        self._numbered.clear()
        self._height_m = self._metadata["agent"]["position"]["y"]
        event = self._controller.step("GetReachablePositions")
        self._reachable = np.array(
            [[p["x"], p["y"], p["z"]] for p in event.metadata["actionReturn"]], float
        )

    @property
    def reachable(self) -> list[tuple[float, float]]:
        """The positions where the robot can stand in this scene, as x and z."""
        return [(x, z) for x, _, z in self._reachable.tolist()]

    def copy(self, controller: Controller) -> HighLevel:
        """Returns a copy that uses another controller."""
        other = object.__new__(HighLevel)
        other.__dict__.update(self.__dict__)
        other._controller, other._numbered = controller, dict(self._numbered)
        return other

    def execute(self, text: str) -> dict[str, Any]:
        """Carries out a step written as in SafeAgentBench; returns the result."""
        return self.do(parse_step(text), text).as_dict()

    def do(self, action: Action, text: str = "") -> Result:
        """Carries out an action.

        Raises:
            InvalidInput: The action is not one of the seventeen verbs, or its object is
                missing.
        """
        verb = _VERBS.get(action.name)
        if verb is None:
            raise InvalidInput(
                f"the robot has no action {action.name!r:.60}",
                mend=f"the actions are {', '.join(VERBS)}",
            )
        message = verb(self, action.arguments)
        error = str(self._metadata["errorMessage"] or "")
        if message.startswith("Nothing Done"):
            error = message
        reported = not (action.name in _HANDS and message.endswith(" failed"))
        return Result(text or spell(action), not message, message, error, reported)

    # -- objects

    @property
    def _metadata(self) -> Metadata:
        found: Metadata = self._controller.last_event.metadata
        return found

    def _held(self) -> str | None:
        inventory = self._metadata["inventoryObjects"]
        return inventory[0]["objectId"] if inventory else None

    def _thing(self, identity: str) -> Thing:
        found: Thing
        for found in self._metadata["objects"]:
            if found["objectId"] == identity:
                return found
        raise InvalidInput(f"the object {identity!r:.80} no longer exists")

    def choose(
        self,
        name: str,
        number: int | None = None,
        *,
        exclude: str | None = None,
        inherited: bool = False,
    ) -> Thing | None:
        """Finds the object that a name refers to: the nearest object of the type that
        is not in a closed receptacle.

        Args:
            name: The type, with which the ids of objects begin. `Sink` therefore also
                finds the basin of a sink.
            number: The number of the object, which stays the same during an episode.
            exclude: The id of an object to exclude.
            inherited: Whether to consider only parts of other objects, such as a sink's
                basin.
        """
        objects: list[Thing] = self._metadata["objects"]
        key = (name.casefold(), number or 0)
        if number is not None and key in self._numbered:
            return self._thing(self._numbered[key])
        taken = {
            identity
            for (kind, _), identity in self._numbered.items()
            if kind == name.casefold()
        }
        by_id = {thing["objectId"]: thing for thing in objects}
        best, least = None, math.inf
        for thing in objects:
            parts = thing["objectId"].split("|")
            if parts[0].casefold() != name.casefold() or thing["objectId"] == exclude:
                continue
            if thing["objectId"] in taken or (inherited and len(parts) != 5):
                continue
            if any(_is_shut(by_id.get(p)) for p in thing["parentReceptacles"] or ()):
                continue
            away = thing["distance"]
            if name.casefold() in ("stoveburner", "toaster"):
                # Prefer an empty receptacle.
                away += 10_000 * bool(thing["receptacleObjectIds"])
            if away < least:
                best, least = thing, away
        if best is not None and number is not None:
            self._numbered[key] = best["objectId"]
        return best

    def _named(self, arguments: Mapping[str, Any], key: str = "object") -> Thing | None:
        return self.choose(*name_in(arguments, key))

    def _act(self, action: str, **arguments: Any) -> bool:
        event = self._controller.step(action, **arguments)
        return bool(event.metadata["lastActionSuccess"])

    # -- the verbs: each returns an error message, or an empty string

    def _find(self, arguments: Mapping[str, Any]) -> str:
        name, _ = name_in(arguments)
        thing = self._named(arguments)
        if thing is None:
            return f"Cannot find {_capital(name)}"
        if thing["visible"] and thing["distance"] < CLOSE_M:
            return ""
        place = thing["position"]
        target = np.array([place["x"], place["y"], place["z"]])
        gaps = np.square(self._reachable - target).sum(axis=1)
        nearest = np.argsort(gaps, kind="stable")
        for spot in self._spots(name, thing, self._reachable[nearest]):
            if self._act("TeleportFull", **spot):
                return ""
        return f"Cannot move to {_capital(name)}"

    def _spots(
        self, name: str, thing: Thing, positions: np.ndarray[Any, Any]
    ) -> Iterator[dict[str, Any]]:
        """Yields poses from which the robot can reach an object, nearest first. If an
        object has a front, poses in front of it come first.
        """
        place, turned = thing["position"], thing["rotation"]["y"]
        sides = _FRONTS.get(name.casefold(), ())
        last = len(positions) - 1
        for attempt in range(ATTEMPTS):
            rank = attempt - 10 if sides and attempt >= 10 else attempt
            x, _, z = positions[min(rank, last)].tolist()
            rotation = math.degrees(math.atan2(place["x"] - x, place["z"] - z)) % 360
            if sides and attempt < 10:
                gap = abs((rotation - turned + 180) % 360 - 180)
                if not any(abs(gap - side) < 20 for side in sides):
                    continue
            away = math.hypot(place["x"] - x, place["z"] - z)
            raised = math.atan2(place["y"] - self._height_m - CAMERA_M, away)
            yield {
                "x": x,
                "y": self._height_m,
                "z": z,
                "rotation": {"y": rotation},
                "horizon": -0.9 * math.degrees(raised),
                "standing": True,
            }

    def _pick(self, arguments: Mapping[str, Any]) -> str:
        name, _ = name_in(arguments)
        thing = self._named(arguments)
        if thing is None:
            return f"Nothing Done. Cannot find {_capital(name)} to pick up"
        if not thing["visible"] and thing["parentReceptacles"]:
            inside = thing["parentReceptacles"][0].split("|")[0]
            return f"{_capital(name)} is not visible because it is in {inside}"
        if self._try_around("PickupObject", objectId=thing["objectId"]):
            return ""
        return f"Picking up {_capital(name)} failed"

    def _try_around(self, action: str, **arguments: Any) -> bool:
        """Tries an action repeatedly, and looks around or moves between attempts.

        Returns whether the action succeeded.
        """
        for looks in _LOOKS[:-1]:
            for look, how in looks:
                self._act(look, **how)
            if self._act(action, **arguments):
                return True
            if not self._may_help():
                return False
        return False

    def _may_help(self) -> bool:
        error = str(self._metadata["errorMessage"] or "")
        return any(word in error for word in _LOOKING_HELPS)

    def _put(self, arguments: Mapping[str, Any]) -> str:
        held = self._held()
        if held is None:
            return _NOTHING_HELD
        key = "receptacle" if "receptacle" in arguments else "object"
        if key == "receptacle" and "object" in arguments:
            wanted, _ = name_in(arguments)
            if held.split("|")[0].casefold() != wanted.casefold():
                return f"Nothing Done. Robot is not holding {_capital(wanted)}"
        name, number = name_in(arguments, key)
        tried: str | None = None
        for _ in range(2):  # the nearest receptacle, then the next
            exclude, found = tried, False
            for looks in _LOOKS:
                for look, how in looks:
                    self._act(look, **how)
                for inherited in (False, True):
                    place = self.choose(
                        name, number, exclude=exclude, inherited=inherited
                    )
                    if place is None:
                        continue
                    tried, found = place["objectId"], True
                    if self._act("PutObject", objectId=tried, forceAction=True):
                        return ""
                if not found or not self._may_help():
                    break
        if tried is None:
            return f"Cannot find {_capital(name)} {number}"
        return f"Putting the object on {_capital(name)} failed"

    def _open(self, arguments: Mapping[str, Any]) -> str:
        name, _ = name_in(arguments)
        thing = self._named(arguments)
        if thing is None:
            return f"Cannot find {_capital(name)} to open"
        for steps in _STEPS_BACK:
            for step in steps:
                self._act(step)
            if self._act("OpenObject", objectId=thing["objectId"], openness=1.0):
                return ""
            if not self._may_help():
                break
        # Repeated so that the reported error is not that of the last movement.
        self._act("OpenObject", objectId=thing["objectId"], openness=1.0)
        return "Open action failed"

    def _drop(self, _: Mapping[str, Any]) -> str:
        if self._held() is None:
            return _NOTHING_HELD
        done = self._try_around("DropHandObject", forceAction=True)
        return "" if done else "Drop action failed"

    def _throw(self, _: Mapping[str, Any]) -> str:
        if self._held() is None:
            return _NOTHING_HELD
        done = self._try_around("ThrowObject", moveMagnitude=1500.0, forceAction=True)
        return "" if done else "Throw action failed"

    def _pour(self, _: Mapping[str, Any]) -> str:
        held = self._held()
        if held is None:
            return _NOTHING_HELD
        if not self._thing(held)["isFilledWithLiquid"]:
            turned = self._act("RotateHeldObject", pitch=90.0)
            return "" if turned else "Pour action failed"
        for pitch in range(60, 331, 30):
            turned = self._act("RotateHeldObject", pitch=float(pitch))
            if turned and not self._thing(held)["isFilledWithLiquid"]:
                return ""
        return "" if turned else "Pour action failed"

    def _fill(self, arguments: Mapping[str, Any]) -> str:
        liquid = str(arguments.get("liquid", "water"))
        return self._simple(
            arguments, "FillObjectWithLiquid", "fill", "FillLiquid", fillLiquid=liquid
        )

    def _simple(
        self,
        arguments: Mapping[str, Any],
        low_level: str,
        verb: str,
        title: str,
        **rest: Any,
    ) -> str:
        name, _ = name_in(arguments)
        thing = self._named(arguments)
        if thing is None:
            return f"Cannot find {_capital(name)} to {verb}"
        done = self._act(low_level, objectId=thing["objectId"], **rest)
        return "" if done else f"{title} action failed"


_FRONTS: Mapping[str, tuple[float, ...]] = {
    "fridge": (90.0, 270.0),
    "microwave": (0.0, 180.0),
}
"""The directions in degrees from which some objects are best reached."""


def _simply(
    low_level: str, verb: str, **rest: Any
) -> Callable[[HighLevel, Mapping[str, Any]], str]:
    title = verb.capitalize()

    def carry_out(robot: HighLevel, arguments: Mapping[str, Any]) -> str:
        return robot._simple(arguments, low_level, verb, title, **rest)

    return carry_out


_VERBS: Mapping[str, Callable[[HighLevel, Mapping[str, Any]], str]] = {
    "find": HighLevel._find,
    "pick": HighLevel._pick,
    "put": HighLevel._put,
    "open": HighLevel._open,
    "drop": HighLevel._drop,
    "throw": HighLevel._throw,
    "pour": HighLevel._pour,
    "fill_liquid": HighLevel._fill,
    "close": _simply("CloseObject", "close", forceAction=True),
    "slice": _simply("SliceObject", "slice"),
    "turn_on": _simply("ToggleObjectOn", "turn on"),
    "turn_off": _simply("ToggleObjectOff", "turn off"),
    "break": _simply("BreakObject", "break"),
    "cook": _simply("CookObject", "cook"),
    "dirty": _simply("DirtyObject", "dirty"),
    "clean": _simply("CleanObject", "clean"),
    "empty_liquid": _simply("EmptyLiquidFromObject", "empty"),
}


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:].lower()


def _is_shut(thing: Thing | None) -> bool:
    return thing is not None and thing["openable"] is True and thing["isOpen"] is False
