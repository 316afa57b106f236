"""Physical failures that no rule foresees: how often, and that they stay.

A failure is drawn by what is done to what, not by when: a plate that finds no room on
a shelf finds none when the robot tries again in the same episode. The rates are those
of recorded runs on the real AI2-THOR, less what the rules of this household explain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forewarn.thor_bridge.household.world import World


@dataclass(frozen=True, slots=True)
class Failures:
    """How often actions fail, and with what words.

    Args:
        rates: The share of things with which an action fails, by action.
        by_receptacle: The share of things that find no room, by receptacle type.
    """

    rates: Mapping[str, float] = field(default_factory=dict)
    by_receptacle: Mapping[str, float] = field(default_factory=dict)

    def strikes(self, world: World, name: str, identity: str) -> bool:
        """Whether this action is one that fails on this object, in this episode."""
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
"""What the rules leave unexplained in two thirds of the recorded runs.

Of steps that the rules let through, so many failed in the real AI2-THOR: 11 of 139
puts, 4 of 140 fills, 2 of 68 switchings on, 1 of 74 openings, 2 of 360 pickings up.
Receptacles with rates of their own are drawn towards the rate of all puts, with the
weight of ten puts.
"""

PROFILES = {"off": NO_FAILURES, "real": REAL}
