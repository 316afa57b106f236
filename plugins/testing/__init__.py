"""Contract suites: tests for every world, pilot and actuator.

All registered plugs run them without being named. In a test file, for pytest:

    globals().update(suites())

One plug of one's own can be tried as well:

    class TestMyWorld(WorldContract):
        def make_world(self):
            return MyWorld()

Nothing here imports pytest; the suites are classes with test methods. Assertion
messages state the contract.
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
