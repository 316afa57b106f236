"""Two small worlds without dependencies, for tests and first steps."""

from forewarn.plugins.tiny.driving import TinyActuator, TinyPilot, TinyWorld
from forewarn.plugins.tiny.household import TinyHousehold, TinyHouseholdPilot

__all__ = [
    "TinyActuator",
    "TinyHousehold",
    "TinyHouseholdPilot",
    "TinyPilot",
    "TinyWorld",
]
