"""Two small worlds without dependencies, used by most tests."""

from forewarn.plugins.tiny.driving import TinyActuator, TinyPilot, TinyWorld
from forewarn.plugins.tiny.household import TinyHousehold, TinyHouseholdPilot

__all__ = [
    "TinyActuator",
    "TinyHousehold",
    "TinyHouseholdPilot",
    "TinyPilot",
    "TinyWorld",
]
