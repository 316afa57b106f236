"""The stand-in with a scenario, ready to be watched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import Any

from forewarn.apollo_bridge.buses.contract import Bus
from forewarn.apollo_bridge.buses.fake import FakeCyber
from forewarn.apollo_bridge.buses.node import NodeBus
from forewarn.apollo_bridge.buses.tcp import TcpBus
from forewarn.apollo_bridge.maps.hdmap import RoadMap, read_map
from forewarn.apollo_bridge.standin.lockstep import LockstepWorld
from forewarn.apollo_bridge.standin.mapping import draw_map
from forewarn.apollo_bridge.standin.play import StandIn
from forewarn.apollo_bridge.standin.server import BridgeServer
from forewarn.cli.apollo.shared import drive
from forewarn.plugins.driving.sense import Surroundings
from forewarn.scenarios.schema import load_scenario


@lru_cache(maxsize=8)
def road_map(name: str) -> RoadMap:
    return read_map(draw_map(name))


def stand_in(scenario: str, seed: int, cyber: FakeCyber, edition: Any = 9) -> StandIn:
    return drive(scenario, seed, cyber, edition, False)


def world_on(
    played: StandIn, bus: Bus, scenario: str, seed: int, edition: Any = 9
) -> LockstepWorld:
    wanted = load_scenario(scenario)
    settings = wanted.settings(wanted.world, seed)
    told = Surroundings(**(settings.get("surroundings") or {})).model_dump()
    return LockstepWorld.of(
        played,
        bus,
        road_map(settings.get("map", "crossing")),
        surroundings=told,
        edition=edition,
    )


def inside(scenario: str, seed: int, edition: Any = 9) -> LockstepWorld:
    """A world beside the stand-in, as a node."""
    cyber = FakeCyber()
    played = stand_in(scenario, seed, cyber, edition)
    return world_on(played, NodeBus(cyber), scenario, seed, edition)


@contextmanager
def outside(scenario: str, seed: int) -> Iterator[LockstepWorld]:
    """A world on the other side of cyber_bridge."""
    with ExitStack() as stack:
        cyber = FakeCyber()
        server = BridgeServer(cyber, port=0)
        stack.callback(server.close)
        played = stand_in(scenario, seed, cyber)
        stack.callback(played.drive.world.close)
        bus = TcpBus("127.0.0.1", server.port)
        world = world_on(played, bus, scenario, seed)
        stack.callback(world.close)
        yield world
