"""Two small worlds in a few lines each: they carry most tests, and need nothing."""

from forewarn.plugins.tiny.driving import TinyActuator, TinyPilot, TinyWorld
from forewarn.plugins.tiny.household import TinyHousehold, TinyHouseholdPilot

__all__ = [
    "TinyActuator",
    "TinyHousehold",
    "TinyHouseholdPilot",
    "TinyPilot",
    "TinyWorld",
]
