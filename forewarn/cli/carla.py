"""`forewarn carla`: a stand-in for CARLA's server, and guards for its clients."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING

import click

from forewarn.cli.support import emit, json_option

if TYPE_CHECKING:
    from forewarn.plugins.carla.standin.server import Server


@click.group()
def carla() -> None:
    """Guard CARLA's clients, and test them without the simulator."""


@carla.command(
    epilog="Example: forewarn carla serve --map crossing, and then in Python "
    "carla.Client('127.0.0.1', 2000).get_world()."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65534),
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
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Where chance begins."
)
@click.option(
    "--rate",
    "rate_hz",
    type=float,
    default=20.0,
    show_default=True,
    help="Ticks a second while no client ticks.",
)
@json_option
def serve(
    port: int, host: str, map_name: str, seed: int, rate_hz: float, as_json: bool
) -> None:
    """Stand in for CARLA 0.9.16: its protocol and traffic, no rendering, no physics."""
    from forewarn.plugins.carla.standin import roads
    from forewarn.plugins.carla.standin.server import Server
    from forewarn.plugins.carla.standin.traffic import NoTraffic

    server = Server(
        roads.load(map_name), lambda on, seed, step_s: NoTraffic(), seed, host, port,
        rate_hz,
    )  # fmt: skip
    asyncio.run(_serve(server, as_json))


async def _serve(server: Server, as_json: bool) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

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
