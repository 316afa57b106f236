"""Apollo as an example of itself: the stand-in on SUMO, a step each."""

from __future__ import annotations

from typing import Any

from forewarn.apollo_bridge.buses.fake import FakeCyber
from forewarn.apollo_bridge.buses.node import NodeBus
from forewarn.apollo_bridge.maps.hdmap import read_map
from forewarn.apollo_bridge.messages.pool import messages
from forewarn.apollo_bridge.standin.lockstep import LockstepWorld
from forewarn.apollo_bridge.standin.mapping import draw_map
from forewarn.apollo_bridge.standin.play import StandIn
from forewarn.plugins.driving.sense import Surroundings
from forewarn.plugins.registry import make_world
from forewarn.plugins.sumo.bridge import SumoWorld
from forewarn.plugins.sumo.pilots import SumoDriver


def example_world() -> LockstepWorld:
    """Apollo at a busy crossing, as a node beside it sees it."""
    cyber = FakeCyber()
    traffic: Any = make_world("sumo", SumoWorld.example().settings)
    played = StandIn(cyber, messages(9), traffic, SumoDriver())
    return LockstepWorld.of(
        played,
        NodeBus(cyber),
        read_map(draw_map("crossing")),
        surroundings=Surroundings().model_dump(),
    )
