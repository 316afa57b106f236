"""Test suites that check the interfaces of worlds, pilots, actuators and baselines.

The suites run for all registered plugins. This line in a test file makes pytest find
them:

    globals().update(suites())

A subclass tests a single plugin of your own:

    class TestMyWorld(WorldContract):
        def make_world(self):
            return MyWorld()

The suites are classes with test methods, and do not import pytest. The messages of
failed assertions state the requirement.
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
