"""`forewarn carla`: a stand-in for CARLA's server, and guards for its clients."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.cli.carla.guard import guard, record
from forewarn.cli.support import Count, Number, emit, json_option, seed_option

if TYPE_CHECKING:
    from forewarn.standins.carla.server import Server
    from forewarn.standins.carla.traffic import Stage


@click.group()
def carla() -> None:
    """Guard CARLA's clients, and test them without the simulator.

    Each command has --json.
    """


@carla.command(
    epilog="Example: forewarn carla serve --map crossing, and then in Python "
    "carla.Client('127.0.0.1', 2000).get_world()."
)
@click.option(
    "--port",
    type=Count(0, 65534),
    default=2000,
    show_default=True,
    help="For calls; streams have the next one. 0 takes two that are free.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Listen there.")
@click.option(
    "--map",
    "map_name",
    default="crossing",
    show_default=True,
    metavar="NAME|FILE.xodr",
    help="A map that ships, or an OpenDRIVE file.",
)
@seed_option
@click.option(
    "--rate",
    "rate_hz",
    type=Number(min=0.1, max=1000.0),
    default=20.0,
    show_default=True,
    help="Ticks a second while no client ticks.",
)
@click.option(
    "--traffic",
    type=Number(min=0.0, max=20_000.0),
    default=900.0,
    show_default=True,
    help="Vehicles an hour that come by themselves, where SUMO knows the map.",
)
@click.option(
    "--walkers",
    type=Number(min=0.0, max=20_000.0),
    default=200.0,
    show_default=True,
    help="Pedestrians an hour.",
)
@click.option(
    "--scenario",
    metavar="NAME|FILE",
    help="A driving scenario's map, traffic and car; its role_name is hero.",
)
@click.option(
    "--kinematic", is_flag=True, help="Without SUMO: what clients spawn, and no more."
)
@click.option(
    "--recordings",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder of what clients record and replay; without one recordings go when"
    " the server ends.",
)
@click.option(
    "--until-eof",
    is_flag=True,
    help="End when standard input does: with whoever started it.",
)
@json_option
def serve(
    port: int,
    host: str,
    map_name: str,
    seed: int,
    rate_hz: float,
    traffic: float,
    walkers: float,
    scenario: str | None,
    kinematic: bool,
    recordings: Path | None,
    until_eof: bool,
    as_json: bool,
) -> None:
    """Stand in for CARLA 0.9.16: its protocol and traffic, no rendering, no physics.

    Where libsumo is installed and knows the map, SUMO moves traffic, pedestrians and
    lights. A world begins anew from --seed when a client turns synchronous mode on
    before it has spawned anything.
    """
    from forewarn.abstractions.errors import MissingDependency, clean
    from forewarn.plugins.sumo import wire
    from forewarn.plugins.sumo.support import MAPS

    try:
        from forewarn.standins.carla.guests import Busy
        from forewarn.standins.carla.roads import Maps
        from forewarn.standins.carla.server import Server
        from forewarn.standins.carla.traffic import makes_traffic
    except ImportError as error:
        raise MissingDependency("the stand-in for CARLA", "carla") from error

    stage = None if scenario is None else _stage(scenario)
    if stage is not None:
        if kinematic:
            raise click.UsageError("a scenario needs SUMO: leave --kinematic out")
        first = stage(seed).beginning
        map_name = str(first.map).replace(".net.xml", ".xodr")
        rate_hz = 1.0 / first.period_s
    busy = None if kinematic else Busy(traffic, walkers)
    maps = {path.stem: path for path in sorted(MAPS.glob("*.xodr"))}
    sumo = None if find_spec("libsumo") is None else wire
    server = Server(
        Maps(maps), map_name, makes_traffic(busy, sumo, stage), seed, host, port,
        rate_hz, waits=stage is not None, folder=recordings,
        say=lambda problem: print(clean(problem), file=sys.stderr, flush=True),
    )  # fmt: skip
    asyncio.run(_serve(server, until_eof, as_json))


def _stage(name: str) -> Callable[[int], Stage]:
    """What a scenario puts on the roads in the episode of a seed."""
    from forewarn.abstractions.errors import InvalidInput
    from forewarn.plugins.registry import make_world
    from forewarn.plugins.sumo.bridge import SumoWorld
    from forewarn.scenarios.schema import load_scenario
    from forewarn.standins.carla.traffic import Stage

    found = load_scenario(name)

    def stage(seed: int) -> Stage:
        settings = found.settings(found.world, seed)
        world = make_world(found.world.name, settings, found.source)
        if not isinstance(world, SumoWorld):
            raise InvalidInput(
                f"the scenario {name!r:.80} is no driving scenario of SUMO's"
            )
        return Stage(world.beginning, world.surroundings.model_dump())

    return stage


async def _serve(server: Server, until_eof: bool, as_json: bool) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    asked: list[int] = []

    def end(number: int) -> None:
        asked.append(number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, number)
    if until_eof:
        standard_input = sys.stdin.fileno()

        def read() -> None:
            if not os.read(standard_input, 4096):
                stop.set()

        loop.add_reader(standard_input, read)

    def ready() -> None:
        facts = {
            "listening": f"{server.host}:{server.port}",
            "streams": server.port + 1,
            "map": server.world.roads.name,
        }
        text = f"Listening on {facts['listening']}, streams on {facts['streams']}."
        emit(as_json, facts, [text])
        sys.stdout.flush()

    await server.serve(ready, stop)
    if signal.SIGINT in asked:
        raise KeyboardInterrupt


carla.add_command(guard)
carla.add_command(record)
