"""Common parts of household worlds: object predicates, an actuator and a base class."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from forewarn.abstractions.errors import InvalidInput, near_miss
from forewarn.abstractions.frame import Frame, Value
from forewarn.abstractions.vocabularies.signals import OBJECT
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.guarding.decision import Action, Decision, Kind
from forewarn.plugins.actions import ActionSpec
from forewarn.plugins.contracts import Replacing, SteppedWorld

NEAR_M = 1.5

Thing = Mapping[str, Any]

_FLAGS = {
    "is_toggled": ("isToggled", "toggleable"),
    "is_open": ("isOpen", "openable"),
    "is_broken": ("isBroken", "breakable"),
    "is_filled": ("isFilledWithLiquid", "canFillWithLiquid"),
    "is_dirty": ("isDirty", "dirtyable"),
    "is_cooked": ("isCooked", "cookable"),
    "is_sliced": ("isSliced", "sliceable"),
    "is_used_up": ("isUsedUp", "canBeUsedUp"),
    "is_held": ("isPickedUp", "pickupable"),
    "is_visible": ("visible", ""),
}
"""The metadata key of each simple predicate, and the key that says whether it applies.
"""


class _Scene:
    """The objects at one time, by type and by id."""

    __slots__ = ("by_id", "by_type")

    def __init__(self, objects: Iterable[Thing]) -> None:
        self.by_id: dict[str, Thing] = {}
        self.by_type: dict[str, list[Thing]] = {}
        for thing in objects:
            self.by_id[thing["objectId"]] = thing
            self.by_type.setdefault(thing["objectType"], []).append(thing)

    def named(self, name: str) -> Iterable[Thing]:
        """Returns the objects of a type, or one numbered instance of it."""
        if name in ("any", "all"):
            return self.by_id.values()
        kind, _, number = name.partition("#")
        things = self.by_type.get(kind, ())
        if not number:
            return things
        return things[int(number) - 1 : int(number)] if int(number) else ()


Test = Callable[[_Scene], bool]


def compile_predicate(text: str) -> Test:
    """Compiles an object predicate to a function of the objects at one time.

    Raises:
        InvalidInput: The text is not an object predicate of the household vocabulary.
    """
    vocabulary = load_vocabulary("household")
    predicate, _, given = vocabulary.canonical(text).partition("(")
    if predicate in vocabulary.signals or not vocabulary.knows(text):
        mend = near_miss(predicate, vocabulary.predicates)
        if known := vocabulary.predicates.get(predicate):
            counts = " or ".join(map(str, known.arities))
            mend = f"{predicate} takes {counts} object names"
        raise InvalidInput(
            f"{text!r:.80} is not an object predicate",
            mend=mend or "such as is_inside(Fork, Microwave)",
        )
    first, *others = given.removesuffix(")").split(", ")
    name, everyone = _quantified(first)
    test, able = _test(predicate, others)

    def decide(scene: _Scene) -> bool:
        things = scene.named(name)
        if not everyone:
            return any(test(scene, thing) for thing in things)
        able_ones = [thing for thing in things if not able or thing[able]]
        return bool(able_ones) and all(test(scene, thing) for thing in able_ones)

    return decide


def _quantified(name: str) -> tuple[str, bool]:
    if name == "all":
        return name, True
    for prefix, everyone in (("all_", True), ("any_", False)):
        if name.startswith(prefix):
            return name.removeprefix(prefix), everyone
    return name, False


def _test(
    predicate: str, others: Sequence[str]
) -> tuple[Callable[[_Scene, Thing], bool], str]:
    if predicate in _FLAGS:
        flag, able = _FLAGS[predicate]
        return lambda _, thing: thing[flag] is True, able
    if predicate in ("is_hot", "is_cold"):
        wanted = predicate.removeprefix("is_").capitalize()
        return lambda _, thing: thing["temperature"] == wanted, ""
    if predicate == "is_filled_with":
        (liquid,) = others
        return lambda _, thing: _liquid(thing) == liquid, "canFillWithLiquid"
    if predicate in ("is_inside", "is_on"):
        (place,) = others
        return lambda scene, thing: _lies_in(scene, thing, place), "pickupable"
    if not others:
        return lambda _, thing: thing["distance"] <= NEAR_M, ""
    (other,) = others
    return lambda scene, thing: _is_near(scene, thing, other), ""


def _liquid(thing: Thing) -> str | None:
    if not thing["isFilledWithLiquid"]:
        return None
    liquid: str | None = thing["fillLiquid"]
    # In AI2-THOR, wine bottles are initially full, but their liquid has no name.
    return "wine" if liquid is None and thing["objectType"] == "WineBottle" else liquid


def _lies_in(scene: _Scene, thing: Thing, place: str) -> bool:
    """Whether an object is in or on a receptacle of this name.

    The basin of a sink also counts as the sink, because its id contains that of the
    sink.
    """
    parents = thing["parentReceptacles"]
    if not parents:
        return False
    if place == "any":
        return True
    place = place.removeprefix("any_")
    if "#" in place:
        wanted = [each["objectId"] for each in scene.named(place)]
        return any(parent in wanted for parent in parents)
    for parent in parents:
        holder = scene.by_id.get(parent)
        if holder is not None and holder["objectType"] == place:
            return True
        if parent.split("|", 1)[0] == place:
            return True
    return False


def _is_near(scene: _Scene, thing: Thing, other: str) -> bool:
    one = thing["position"]
    for each in scene.named(other):
        two = each["position"]
        if each is not thing:
            if math.hypot(*(one[axis] - two[axis] for axis in "xyz")) <= NEAR_M:
                return True
    return False


class ObjectSenses:
    """Evaluates object predicates, and reads what the robot holds.

    Args:
        predicates: The object predicates to include in each frame, as text.
    """

    def __init__(self, predicates: Sequence[str]) -> None:
        vocabulary = load_vocabulary("household")
        keys = [vocabulary.canonical(text) for text in predicates]
        self.predicates = tuple(dict.fromkeys(keys))
        self._tests = [(key, compile_predicate(key)) for key in self.predicates]

    def values(self, metadata: Mapping[str, Any]) -> dict[str, Value]:
        """Returns the values of the predicates, and what the robot holds."""
        scene = _Scene(metadata["objects"])
        values: dict[str, Value] = {key: test(scene) for key, test in self._tests}
        inventory = metadata["inventoryObjects"]
        values["holding"] = (
            plain_name(inventory[0]["objectType"]) if inventory else None
        )
        return values


def plain_name(name: object) -> str:
    """Returns a simulator's name if it is a single word; otherwise, `unnamed`."""
    text = str(name)
    return text if OBJECT.fullmatch(text) and len(text) <= 60 else "unnamed"


def named(action: Action) -> str | None:
    """Returns the object of an action, as in the signal `last_action_object`."""
    given = action.arguments
    about = given.get("receptacle", given.get("object"))
    if about is None:
        return None
    number = given.get("number")
    return plain_name(about if number is None else f"{about}#{number}")


class Withholding(Replacing):
    """An actuator that withholds actions of the robot.

    A decision counts as obeyed if the next frame shows that the withheld action was not
    carried out.

    Args:
        stop: The action that stops the robot.
        about: Returns the object of an action, as in the signal `last_action_object`.
    """

    can = frozenset[Kind](
        {"alert", "reflect", "substitute", "skip", "ask", "stop", "cut"}
    )

    def __init__(
        self,
        stop: Action = Action("stop"),  # noqa: B008 - frozen
        about: Callable[[Action], Value] = named,
    ) -> None:
        self._stop, self._about = stop, about
        self._withheld: Action | None = None

    def carry_out(
        self, decision: Decision, proposal: Action | None, frame: Frame
    ) -> Action | None:
        action = super().carry_out(decision, proposal, frame)
        if decision.kind in ("reflect", "skip", "ask", "cut"):
            action = Action("cut") if decision.kind == "cut" else None
        self._withheld = None if action == proposal else proposal
        return action

    def fallback(self, frame: Frame | None = None) -> Action | None:
        return self._stop

    def obeyed(self, decision: Decision, frame: Frame) -> bool | None:
        if self._withheld is None:
            return True
        if frame.sequence <= decision.sequence or "last_action" not in frame.values:
            return None
        wanted = self._withheld.name, self._about(self._withheld)
        shown = frame.values["last_action"], frame.values.get("last_action_object")
        return shown != wanted


_ENDINGS = {
    "finish": "says that it is done",
    "stop": "was stopped",
    "cut": "was switched off",
}

IDLE = ("wait", *_ENDINGS)
"""The names of actions that change nothing; all but `wait` end the episode."""

IDLING = tuple(map(ActionSpec, IDLE))

NEXT = "next_action"
"""The name of the signal and the argument that announce the robot's next action."""

DOINGS = ("step_count", "last_action", "last_action_object", "last_action_succeeded")
"""The signals about the last action, which all household frames contain."""


class SteppedHousehold(SteppedWorld):
    """A base class for households in which a robot carries out one action per step."""

    who = "the robot"

    @abstractmethod
    def do(self, action: Action) -> bool:
        """Carries out an action that is not in `IDLE`; returns whether it succeeded."""

    def about(self, action: Action) -> str | None:
        """Returns the object of an action, as in the signal `last_action_object`."""
        return named(action)

    def begin(self, seed: int) -> None:
        self._last: tuple[str | None, str | None, bool | None] = (None, None, None)

    def move(self, action: Action | None) -> None:
        action = action or Action("wait")
        done = action.name in IDLE or self.do(action)
        self._last = (action.name, self.about(action), done)
        if action.name in _ENDINGS:
            self.over = f"{self.who} {_ENDINGS[action.name]}"

    def doings(self) -> dict[str, Value]:
        return dict(zip(DOINGS, (float(self.steps), *self._last), strict=True))

    @property
    def facts(self) -> dict[str, float]:
        """The fact `finished`: whether the robot has reported that it is done."""
        return {"finished": float(self._last[0] == "finish")}

    def actuator(self) -> Withholding:
        return Withholding()
