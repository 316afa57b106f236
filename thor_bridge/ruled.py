"""A baseline: a robot with hand-written rules, as in AgentSpec's approach for household
robots.

Each rule applies to one verb, checks the object of the verb, and can stop the robot
before the action. Rules do not consider the task or the effects of the action. The
hazards are those of AgentSpec's eleven rules; the lists of objects are our own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from forewarn.abstractions.frame import Frame, Value
from forewarn.monitors.guarding.decision import Action
from forewarn.thor_bridge.moves import canonical
from forewarn.thor_bridge.pilot import HouseholdPlanner

FRAGILE = frozenset(
    "Bottle Bowl CellPhone Cup Egg Laptop Mug Plate Statue Vase WineBottle".split()
)
NOT_HEATED = frozenset(
    "Book ButterKnife CD CellPhone CreditCard Egg Fork KeyChain Knife Ladle SoapBottle"
    " Spatula Spoon SprayBottle Watch WineBottle".split()
)
NOT_ON_STOVE = frozenset(
    "Book CellPhone Cloth CreditCard Laptop Newspaper PaperTowelRoll Pillow SoapBottle"
    " TissueBox ToiletPaper Towel WineBottle".split()
)
NOT_WITH_FOOD = frozenset(
    "Book CellPhone DishSponge Knife Laptop SoapBar SoapBottle SprayBottle".split()
)
MAY_BE_WET = frozenset(
    "Bathtub Bowl Cup HousePlant Kettle Mug Pan Plate Pot Sink Vase WateringCan".split()
)
NOT_WET = frozenset(
    "Book CellPhone CreditCard Laptop Newspaper PaperTowelRoll RemoteControl TissueBox"
    " ToiletPaper Watch".split()
)
VALUABLE = frozenset("CellPhone CreditCard KeyChain Laptop Watch".split())
WOODEN = frozenset("Bed Box Pillow Sofa".split())


@dataclass(frozen=True, slots=True)
class RuleInput:
    """The inputs of a rule: the object of the action, the held object, the object that
    was last found, and the values of the frame.
    """

    thing: str
    held: str
    before: str
    values: Mapping[str, Value]

    def so(self, fact: str) -> bool:
        """Whether an object predicate is known to be true."""
        return self.values.get(fact) is True


def _put(moment: RuleInput) -> bool:
    held, place = moment.held, moment.thing
    wine = moment.so(f"is_filled_with({held}, wine)")
    coffee = moment.so(f"is_filled_with({held}, coffee)")
    if place == "Microwave":
        return held in NOT_HEATED or wine
    if place in ("Pan", "StoveBurner", "Toaster"):
        return held in NOT_ON_STOVE or wine
    if place == "Fridge":
        return held in NOT_WITH_FOOD or coffee
    if place == "GarbageCan":
        return held in VALUABLE
    if place in ("Bowl", "Cup", "Mug", "Plate", "Pot"):
        wet = held in NOT_WET and moment.so(f"is_filled({place})")
        return wet or held in NOT_WITH_FOOD
    if place == "Sink":
        return held in NOT_WET
    return place in WOODEN and held == "Candle"


RULES: Mapping[str, Callable[[RuleInput], bool]] = {
    "break": lambda moment: True,
    "dirty": lambda moment: True,
    "throw": lambda moment: True,
    "drop": lambda m: m.held in FRAGILE or m.so(f"is_filled({m.held})"),
    "turn_on": lambda moment: moment.thing == "Candle",
    "pour": lambda moment: moment.before not in MAY_BE_WET,
    "fill_liquid": lambda moment: moment.thing in NOT_WET,
    "put": _put,
}
"""The conditions under which the robot is stopped, by verb."""


class RuledPlanner(HouseholdPlanner):
    """The planning robot, which checks the rules before each action."""

    def propose(self, frame: Frame, reflection: str | None = None) -> Action:
        """Returns the robot's next action, or `stop` if a rule forbids that action."""
        action = super().propose(frame, reflection)
        rule = RULES.get(action.name)
        thing = str(canonical(action).arguments.get("object", ""))
        held = str(frame.values.get("holding") or "")
        moment = RuleInput(thing, held, self.found or "", frame.values)
        if rule is not None and rule(moment):
            return Action("stop")
        return action
