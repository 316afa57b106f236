"""`forewarn apollo guard`: guards Apollo or a stand-in."""

from __future__ import annotations

import contextlib
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated

from forewarn.abstractions.errors import naming
from forewarn.cli.apollo import (
    ApolloSurroundings,
    Connection,
    Edition,
    Pace,
    apollo,
    drive,
)
from forewarn.cli.command import (
    File,
    NotNegative,
    OnlyFlag,
    Seed,
    command,
    one_of,
)
from forewarn.cli.guarding import (
    GuardOptions,
    Saying,
    until,
)
from forewarn.cli.live import (
    Showing,
    watched_live,
)
from forewarn.cli.printing import several

if TYPE_CHECKING:
    from forewarn.apollo_bridge.bridge import BusWorld
    from forewarn.plugins.loop.loop import GuardedLoop


@dataclass(frozen=True, slots=True)
class GuardedApollo:
    """The Apollo instance to guard.

    Args:
        fake: Start a stand-in in this process, which drives a scenario once (default:
            s2), and guard it (not with --map, --told, --body or --without).
        without: Input that this Apollo does not provide, such as prediction or lights;
            may be repeated.
        guardian: If Apollo does not obey a stop, stop it through its guardian module,
            which must be enabled.
        seed: With --fake: random seed.
        pace: With --fake: speed relative to real time. 0: as fast as possible.
        for_: Stop after this many seconds.
    """

    way: Connection = Connection()
    fake: Annotated[str | None, "[SCENARIO]", OnlyFlag("s2")] = None
    without: tuple[Annotated[str, "INPUT"], ...] = ()
    guardian: bool = False
    seed: Seed = 0
    pace: Pace = 1.0
    for_: NotNegative | None = None


@command(of=apollo)
def guard(
    *,
    watched: GuardedApollo,
    asked: GuardOptions,
    around: ApolloSurroundings,
    record: File | None = None,
    showing: Showing,
) -> None:
    """Guard Apollo: stop or slow it down before it breaks a law.

    Prints how Apollo can be stopped or slowed, then each change of decision; with
    --json, one line per frame. When the guard exits, it leaves Apollo stopped, except
    in shadow mode; `forewarn apollo resume` lets Apollo continue.

    \b
    Examples:
      forewarn apollo guard --bridge tcp://127.0.0.1:9090 --map maps --model s2.json
      forewarn apollo guard --fake s2 --seed 3 --pace 0 --model s2.json

    Args:
        record: Write the run record to this file.
    """
    one_of("--bridge tcp://HOST:PORT", "--node", "--fake")
    if watched.fake is not None:
        from forewarn.scenarios.schema import load_scenario

        law = asked.law or load_scenario(watched.fake).references
        asked = replace(asked, scenario=watched.fake, law=law)
    with ExitStack() as stack:
        live_listeners = stack.enter_context(watched_live(showing.live))
        guarding = asked.guarding(record, live_listeners)
        if watched.fake is not None:
            world = _stand_in(stack, watched.fake, watched, around.edition)
        else:
            from forewarn.apollo_bridge.bridge import ApolloWorld
            from forewarn.apollo_bridge.wire import find_cyber

            if watched.way.node:
                find_cyber()  # fails early if Apollo's bindings are missing
            world = ApolloWorld(
                bridge=watched.way.bridge or "node",
                edition=around.edition,
                map=str(around.road_map()),
                without=list(watched.without),
                surroundings=around.surroundings(),
                body=around.size(),
                guardian=watched.guardian,
            )
        stack.enter_context(contextlib.closing(world))
        source = world.source
        asked.check(guarding, vocabulary=source.vocabulary, period_s=source.period_s)
        # Create the loop before the first frame, which would otherwise be outdated.
        with naming(asked.policy or "the policy"):
            loop = guarding.open_world(world)
        loop.prepare(scenario={"name": "apollo"}, seed=watched.seed)
        saying = Saying(loop.guard, "Apollo")
        _watch(world, loop, saying, watched)


def _stand_in(
    stack: ExitStack,
    scenario: str,
    watched: GuardedApollo,
    edition: Edition,
) -> BusWorld:
    """Starts a stand-in in this process; returns the world that connects to it."""
    from forewarn.apollo_bridge.lockstep import LockstepWorld, draw_map
    from forewarn.apollo_bridge.maps import read_map
    from forewarn.apollo_bridge.wire import NodeBus
    from forewarn.plugins.driving.sense import Surroundings
    from forewarn.scenarios.schema import load_scenario
    from forewarn.standins.apollo.server import FakeCyber

    wanted = load_scenario(scenario)
    settings = wanted.settings(wanted.world, watched.seed)
    cyber = FakeCyber()
    stand_in = drive(scenario, watched.seed, cyber, edition, watched.guardian)
    stack.callback(stand_in.drive.world.close)
    told = settings.get("surroundings") or {}
    return LockstepWorld(
        stand_in,
        NodeBus(cyber),
        read_map(draw_map(settings.get("map", "crossing"))),
        edition=edition,
        surroundings=Surroundings(**told).model_dump(),
        guardian=watched.guardian,
        pace=watched.pace,
    )


def _watch(
    world: BusWorld,
    loop: GuardedLoop,
    saying: Saying,
    watched: GuardedApollo,
) -> None:
    """Runs the guard loop until the world ends or the time limit is reached."""
    from forewarn.apollo_bridge.act import planner_parameters

    frame = world.reset(watched.seed)
    paths = world.commander.paths
    ways = {"stop": paths.stop, "slow": paths.slow, "cut": paths.cut}
    name = world.source.name
    saying.begins(f"Watching {name}: {paths.sentence()}.", {"source": name, **ways})
    with until(watched.for_) as over:
        with loop:
            loop.equip(world)
            while True:
                turn = loop.decide(frame)
                executed = turn.executed
                saying.turn(
                    turn.decision,
                    turn.outcome,
                    executed=None if executed is None else executed.name,
                    planner=planner_parameters(executed),
                )
                ended = world.ended() or over()
                if ended is not None:
                    break
                frame = world.step(executed)
            loop.close(ended)
        health = {} if world.bus is None else asdict(world.bus.health)
        lines = []
        if health and health["losses"]:
            lines.append(
                f"The connection was lost {several(health['losses'], 'time')}. "
                f"The last error: {health['problem']}"
            )
        if loop.record is not None:
            lines.append(f"Run record: {loop.record.path}")
        commands = dict(world.commander.sent)
        facts = {"ended": ended, "commands": commands, "bus": health}
        saying.ends(f" until {ended}", facts, *lines)
