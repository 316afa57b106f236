"""The stand-in with a scenario, ready to be watched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import Any

from forewarn.apollo_bridge import frames
from forewarn.apollo_bridge.lockstep import LockstepWorld, draw_map
from forewarn.apollo_bridge.maps import RoadMap, read_map
from forewarn.apollo_bridge.tcp import TcpBus
from forewarn.apollo_bridge.wire import Bus, NodeBus
from forewarn.cli.apollo import drive
from forewarn.plugins.driving.sense import Surroundings
from forewarn.scenarios.schema import load_scenario
from forewarn.standins.apollo.play import StandIn
from forewarn.standins.apollo.server import BridgeServer, FakeCyber


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
    return LockstepWorld(
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
        server = BridgeServer(cyber, frames, port=0)
        stack.callback(server.close)
        played = stand_in(scenario, seed, cyber)
        stack.callback(played.drive.world.close)
        bus = TcpBus("127.0.0.1", server.port)
        world = world_on(played, bus, scenario, seed)
        stack.callback(world.close)
        yield world
