"""`forewarn apollo guard`: a guard on a running Apollo, or on the stand-in."""

from __future__ import annotations

import contextlib
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.cli.apollo.shared import (
    body_option,
    body_size,
    drive,
    edition_option,
    map_option,
    pace_option,
    surroundings,
    told_option,
)
from forewarn.cli.guarding.making import Asked, guard_options
from forewarn.cli.guarding.saying import Saying, until
from forewarn.cli.options.live import live_option, watched_live
from forewarn.cli.support import FILE, Number, json_option, naming, seed_option

if TYPE_CHECKING:
    from forewarn.apollo_bridge.bridge import ApolloWorld
    from forewarn.apollo_bridge.channels import Edition
    from forewarn.plugins.loop.loop import GuardedLoop


@click.command()
@click.option(
    "--bridge",
    metavar="tcp://HOST:PORT",
    help="From outside, through Apollo's cyber_bridge.",
)
@click.option("--node", is_flag=True, help="As a node, inside Apollo's container.")
@click.option(
    "--fake",
    is_flag=False,
    flag_value="s2",
    metavar="[SCENARIO]",
    help="On a stand-in in this process, which drives a scenario once; by default s2.",
)
@guard_options
@map_option
@click.option(
    "--without",
    multiple=True,
    metavar="INPUT",
    help="An input that this Apollo does not have: prediction, lights, …",
)
@told_option
@body_option
@edition_option
@click.option(
    "--guardian",
    is_flag=True,
    help="When a stop is not obeyed, ask Apollo's guardian, which must be enabled.",
)
@click.option("--for", "for_s", type=Number(min=0.0), help="End after so many seconds.")
@seed_option
@pace_option
@click.option("--record", "record_path", type=FILE, help="Where the run record goes.")
@live_option
@json_option
def guard(
    bridge: str | None,
    node: bool,
    fake: str | None,
    asked: Asked,
    map_path: Path | None,
    without: tuple[str, ...],
    told: tuple[str, ...],
    body: str | None,
    edition: Edition,
    guardian: bool,
    for_s: float | None,
    seed: int,
    pace: float,
    record_path: Path | None,
    live: str | None,
    as_json: bool,
) -> None:
    """Watch Apollo, and stop or slow it down before it breaks a law.

    Says by which ways Apollo can be held back, then each change of mind; with --json a
    line for every frame. When it ends, Apollo is left stopped, unless it is in shadow
    mode: `forewarn apollo resume` lets it drive on.

    \b
    Examples:
      forewarn apollo guard --bridge tcp://127.0.0.1:9090 --map maps --model s2.json
      forewarn apollo guard --fake s2 --seed 3 --pace 0 --model s2.json
    """
    if sum((bridge is not None, node, fake is not None)) != 1:
        raise click.UsageError("give one of --bridge tcp://HOST:PORT, --node or --fake")
    if fake is not None:
        from forewarn.scenarios.schema import load_scenario

        laws = asked.laws or load_scenario(fake).references
        asked = replace(asked, scenario=fake, laws=laws)
    with ExitStack() as stack:
        live_listeners = stack.enter_context(watched_live(live))
        guarding = asked.guarding(record_path, live_listeners)
        if fake is not None:
            world = _stand_in(stack, fake, seed, pace, edition, guardian)
        else:
            from forewarn.apollo_bridge.bridge import ApolloWorld
            from forewarn.apollo_bridge.wire import find_cyber

            if node:
                find_cyber()  # said before anything is loaded
            world = ApolloWorld(
                bridge=bridge or "node",
                edition=edition,
                map=str(map_path or ""),
                without=list(without),
                surroundings=surroundings(told),
                body=body_size(body),
                guardian=guardian,
            )
        stack.enter_context(contextlib.closing(world))
        source = world.source
        asked.check(guarding, vocabulary=source.vocabulary, period_s=source.period_s)
        # Before the first frame: making it takes a while, and the frame would be old.
        with naming(asked.policy_path or "the policy"):
            loop = guarding.open_world(world)
        loop.prepare(scenario={"name": "apollo"}, seed=seed)
        saying = Saying(loop.guard, "Apollo", as_json)
        _watch(world, loop, saying, seed, for_s)


def _stand_in(
    stack: ExitStack,
    scenario: str,
    seed: int,
    pace: float,
    edition: Edition,
    guardian: bool,
) -> ApolloWorld:
    """The stand-in, driving in a thread of its own, and a world that watches it."""
    from forewarn.apollo_bridge.lockstep import LockstepWorld, draw_map
    from forewarn.apollo_bridge.maps import read_map
    from forewarn.apollo_bridge.wire import NodeBus
    from forewarn.plugins.driving.sense import Surroundings
    from forewarn.scenarios.schema import load_scenario
    from forewarn.standins.apollo.server import FakeCyber

    wanted = load_scenario(scenario)
    settings = wanted.settings(wanted.world, seed)
    cyber = FakeCyber()
    stand_in = drive(scenario, seed, cyber, edition, guardian)
    stack.callback(stand_in.drive.world.close)
    told = settings.get("surroundings") or {}
    return LockstepWorld.of(
        stand_in,
        NodeBus(cyber),
        read_map(draw_map(settings.get("map", "crossing"))),
        edition=edition,
        surroundings=Surroundings(**told).model_dump(),
        guardian=guardian,
        pace=pace,
    )


def _watch(
    world: ApolloWorld,
    loop: GuardedLoop,
    saying: Saying,
    seed: int,
    for_s: float | None,
) -> None:
    """The loop: a frame, a decision, what is done about it."""
    from forewarn.apollo_bridge.act import planner_parameters

    frame = world.reset(seed)
    paths = world.commander.paths
    ways = {"stop": paths.stop, "slow": paths.slow, "cut": paths.cut}
    name = world.source.name
    saying.begins(f"Watching {name}: {paths.sentence()}.", {"source": name, **ways})
    with until(for_s) as over:
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
            lines.append(f"{health['losses']} losses, the last: {health['problem']}")
        if loop.record is not None:
            lines.append(f"The run record: {loop.record.path}")
        commands = dict(world.commander.sent)
        facts = {"ended": ended, "commands": commands, "bus": health}
        saying.ends(f" until {ended}", facts, *lines)
