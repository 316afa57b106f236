"""Contract suites: tests for every world, pilot and actuator.

The suites run for all registered plugs without naming them. In a test file, for pytest:

    globals().update(suites())

To test a single plug of your own:

    class TestMyWorld(WorldContract):
        def make_world(self):
            return MyWorld()

The suites are classes with test methods and do not import pytest. Assertion messages
state the contract.
"""

from forewarn.plugins.testing.actuators import (
    ActuatorContract,
    BaselineContract,
    PilotContract,
)
from forewarn.plugins.testing.loops import LoopContract
from forewarn.plugins.testing.registered import suites
from forewarn.plugins.testing.worlds import WorldContract

__all__ = [
    "ActuatorContract",
    "BaselineContract",
    "LoopContract",
    "PilotContract",
    "WorldContract",
    "suites",
]
